// SPDX-License-Identifier: Apache-2.0
// The model of an engine: times of steps, batching, the queue, the KV cache, lengths and failures.
#include "unit.h"

#include "inference/model.h"

#define MS INT64_C(1000000)

enum { MAX_REQUESTS = 400 };

struct record {
    uint32_t tokens;
    int64_t first, last; // tokens
    struct inference_finished end;
    bool ended;
};

struct run {
    struct inference_model *model;
    struct record records[MAX_REQUESTS];
    struct inference_sequence *sequences[MAX_REQUESTS];
    size_t n, n_steps;
    struct inference_step last_step;
    uint32_t max_batch, max_used;
};

static void on_token(void *arg, void *user, const struct inference_token *t)
{
    struct record *r = user;
    (void)arg;
    assert_int_equal(t->nth, r->tokens + 1);
    if (!r->tokens)
        r->first = t->at;
    r->tokens++;
    r->last = t->at;
}

static void on_finish(void *arg, void *user, const struct inference_finished *f)
{
    struct record *r = user;
    (void)arg;
    assert_false(r->ended);
    r->end = *f;
    r->ended = true;
}

static void on_step(void *arg, const struct inference_step *s)
{
    struct run *r = arg;
    r->n_steps++;
    r->last_step = *s;
    if (s->sequences > r->max_batch)
        r->max_batch = s->sequences;
}

// Round numbers: 1 ms for the host, 4 ms for the weights, 10 us for a token that is computed, 1 us
// for one that is read.
static struct inference_parameters parameters(void)
{
    return (struct inference_parameters){
        .max_num_seqs = 4,
        .max_num_batched_tokens = 1000,
        .max_model_len = 2000,
        .block_size = 10,
        .num_blocks = 1000,
        .max_queued = UINT32_MAX,
        .cost = {.host_ns = 1e6, .weights_ns = 4e6, .compute_ns = 1e4, .kv_ns = 1e3},
    };
}

static void begin(struct run *r, const struct inference_parameters *p)
{
    const struct inference_model_events events = {
        .token = on_token, .finish = on_finish, .step = on_step, .arg = r};
    memset(r, 0, sizeof(*r));
    r->model = inference_model_new(p, &events);
}

static enum inference_admission add(struct run *r, int64_t now, uint32_t prompt, uint32_t output)
{
    struct inference_request request = {.prompt_tokens = prompt,
                                        .max_tokens = output,
                                        .ignore_eos = true,
                                        .user = &r->records[r->n]};
    enum inference_admission a = inference_model_add(r->model, now, &request, &r->sequences[r->n]);
    if (a == INFERENCE_ADMITTED)
        r->n++;
    return a;
}

// Until nothing runs. Returns the time of the last step's end.
static int64_t drain(struct run *r)
{
    int64_t at = 0;
    for (const struct inference_step *s; (s = inference_model_step(r->model));) {
        at = s->end;
        inference_model_end_step(r->model, at);
        struct inference_state state = inference_model_state(r->model);
        if (state.used_blocks > r->max_used)
            r->max_used = state.used_blocks;
        assert_true(r->n_steps < 100000);
    }
    return at;
}

static void assert_empty(const struct run *r)
{
    struct inference_state state = inference_model_state(r->model);
    assert_int_equal(state.waiting, 0);
    assert_int_equal(state.running, 0);
    assert_int_equal(state.used_blocks, 0);
}

// A prompt of 500 tokens: 1 ms + 500 * 10 us. A decode: 1 ms + 4 ms + 1 us for each token in the
// cache, of which there are 500 and then one more each.
static void test_one_request_has_the_times_of_the_formula(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    add(&r, 100 * MS, 500, 3);
    drain(&r);
    assert_int_equal(r.records[0].first, 106 * MS);
    assert_int_equal(r.records[0].last, 106 * MS + 2 * 5 * MS + 500000 + 501000);
    assert_int_equal(r.records[0].end.reason, INFERENCE_LENGTH);
    assert_int_equal(r.records[0].end.output_tokens, 3);
    assert_int_equal(r.records[0].end.arrived, 100 * MS);
    assert_empty(&r);
    inference_model_free(r.model);
}

static void test_a_request_joins_the_next_step(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    add(&r, 0, 100, 50);
    const struct inference_step *first = inference_model_step(r.model);
    assert_int_equal(first->sequences, 1);
    int64_t end = first->end;
    add(&r, 1 * MS, 100, 50);
    assert_int_equal(inference_model_state(r.model).waiting, 1);
    inference_model_end_step(r.model, end);
    assert_int_equal(inference_model_step(r.model)->sequences, 2);
    assert_int_equal(inference_model_step(r.model)->prefill, 100);
    assert_int_equal(inference_model_step(r.model)->decode, 1);
    drain(&r);
    assert_int_equal(r.records[1].end.scheduled, end);
    inference_model_free(r.model);
}

static void test_a_long_prompt_takes_several_steps(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    p.max_num_batched_tokens = 100;
    begin(&r, &p);
    add(&r, 0, 350, 1);
    drain(&r);
    assert_int_equal(r.n_steps, 4);
    assert_int_equal(r.records[0].tokens, 1);
    inference_model_free(r.model);
}

static void test_more_requests_than_seats_wait_in_their_order(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    for (int i = 0; i < 10; i++)
        add(&r, i, 10, 20);
    inference_model_end_step(r.model, inference_model_step(r.model)->end);
    assert_int_equal(inference_model_state(r.model).running, 4);
    assert_int_equal(inference_model_state(r.model).waiting, 6);
    drain(&r);
    assert_int_equal(r.max_batch, 4);
    for (int i = 1; i < 10; i++)
        assert_true(r.records[i].first >= r.records[i - 1].first);
    assert_empty(&r);
    inference_model_free(r.model);
}

// Two sequences grow to 160 tokens each, and the cache has 200. The later one is preempted and
// computed again, and both give all their tokens.
static void test_a_full_cache_preempts_the_last_request(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    p.num_blocks = 20;
    p.max_model_len = 200;
    begin(&r, &p);
    add(&r, 0, 60, 100);
    add(&r, 0, 60, 100);
    drain(&r);
    assert_int_equal(r.records[0].end.preemptions, 0);
    assert_int_equal(r.records[1].end.preemptions, 1);
    assert_int_equal(r.records[0].tokens, 100);
    assert_int_equal(r.records[1].tokens, 100);
    assert_true(r.max_used <= 20);
    assert_true(r.records[0].last < r.records[1].last);
    assert_empty(&r);
    inference_model_free(r.model);
}

static void test_many_requests_in_a_small_cache_all_end(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    p.num_blocks = 50;
    p.max_model_len = 500;
    p.max_num_seqs = 64;
    begin(&r, &p);
    for (uint32_t i = 0; i < 200; i++)
        add(&r, i, 1 + i * 7 % 300, 1 + i * 13 % 190);
    drain(&r);
    uint32_t preemptions = 0;
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(r.records[i].ended);
        assert_int_equal(r.records[i].tokens, 1 + i * 13 % 190);
        preemptions += r.records[i].end.preemptions;
    }
    assert_true(preemptions > 0);
    assert_true(r.max_used <= 50);
    assert_empty(&r);
    inference_model_free(r.model);
}

static void test_a_limited_queue_refuses_requests(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    p.max_queued = 2;
    begin(&r, &p);
    for (int i = 0; i < 3; i++) // the first one runs
        assert_int_equal(add(&r, 0, 10, 1000), INFERENCE_ADMITTED);
    assert_int_equal(add(&r, 0, 10, 10), INFERENCE_QUEUE_FULL);
    inference_model_end_step(r.model, inference_model_step(r.model)->end);
    assert_int_equal(add(&r, 0, 10, 10), INFERENCE_ADMITTED);
    drain(&r);
    p.max_queued = 0;
    inference_model_free(r.model);
    begin(&r, &p);
    assert_int_equal(add(&r, 0, 10, 10), INFERENCE_ADMITTED);
    inference_model_free(r.model);
}

static void test_a_prompt_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    assert_int_equal(add(&r, 0, 2000, 1), INFERENCE_TOO_LONG);
    assert_int_equal(add(&r, 0, 1999, 100), INFERENCE_ADMITTED);
    drain(&r);
    assert_int_equal(r.records[0].end.output_tokens, 1);
    assert_int_equal(r.records[0].end.reason, INFERENCE_LENGTH);
    inference_model_free(r.model);
}

static void test_a_cancelled_request_gives_its_blocks_back(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    for (int i = 0; i < 6; i++)
        add(&r, 0, 100, 50);
    inference_model_end_step(r.model, 10 * MS);
    assert_int_equal(inference_model_state(r.model).running, 4);
    inference_model_cancel(r.model, r.sequences[1], 11 * MS); // runs
    inference_model_cancel(r.model, r.sequences[5], 11 * MS); // waits
    assert_int_equal(inference_model_state(r.model).running, 3);
    assert_int_equal(inference_model_state(r.model).waiting, 1);
    assert_int_equal(r.records[1].end.reason, INFERENCE_ABORT);
    assert_int_equal(r.records[5].end.reason, INFERENCE_ABORT);
    assert_int_equal(r.records[5].end.scheduled, 0);
    drain(&r);
    assert_empty(&r);
    inference_model_free(r.model);
}

static void test_tokens_of_the_prefix_cache_are_not_computed(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    struct inference_request request = {
        .prompt_tokens = 900, .cached_tokens = 880, .max_tokens = 1, .ignore_eos = true};
    begin(&r, &p);
    request.user = &r.records[0];
    inference_model_add(r.model, 0, &request, &r.sequences[0]);
    assert_int_equal(inference_model_step(r.model)->prefill, 20);
    assert_int_equal(inference_model_step(r.model)->hits, 880);
    // 20 tokens take less than the weights; 880 are read.
    assert_int_equal(drain(&r), 5 * MS + 880000);
    inference_model_free(r.model);
}

static void test_a_sleeping_engine_begins_no_step(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    inference_model_sleep(r.model, true, 0);
    add(&r, 5 * MS, 10, 1);
    assert_null(inference_model_step(r.model));
    assert_int_equal(inference_model_state(r.model).waiting, 1);
    assert_true(inference_model_state(r.model).sleeping);
    inference_model_sleep(r.model, false, 50 * MS);
    drain(&r);
    assert_int_equal(r.records[0].first, 55 * MS);
    inference_model_free(r.model);
}

static void test_a_late_gpu_moves_the_times(void **state)
{
    (void)state;
    struct run r;
    struct inference_parameters p = parameters();
    begin(&r, &p);
    add(&r, 0, 10, 2);
    inference_model_end_step(r.model, 30 * MS);
    assert_int_equal(r.records[0].first, 30 * MS);
    assert_int_equal(inference_model_step(r.model)->start, 30 * MS);
    inference_model_free(r.model);
}

static void run_drawn(struct run *r, uint64_t seed, double failures)
{
    struct inference_parameters p = parameters();
    p.output_mean = 100;
    p.output_sigma = 0.7;
    p.failure_ratio = failures;
    p.seed = seed;
    begin(r, &p);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        struct inference_request request = {
            .prompt_tokens = 10, .max_tokens = 300, .user = &r->records[i]};
        inference_model_add(r->model, i, &request, &r->sequences[i]);
    }
    drain(r);
    inference_model_free(r->model);
}

static double mean_output(const struct run *r)
{
    double sum = 0;
    for (int i = 0; i < MAX_REQUESTS; i++)
        sum += r->records[i].end.output_tokens;
    return sum / MAX_REQUESTS;
}

static void test_equal_seeds_give_equal_runs(void **state)
{
    (void)state;
    static struct run a, b, c;
    run_drawn(&a, 7, 0);
    run_drawn(&b, 7, 0);
    run_drawn(&c, 8, 0);
    assert_memory_equal(a.records, b.records, sizeof(a.records));
    assert_memory_not_equal(a.records, c.records, sizeof(a.records));
}

static void test_outputs_have_the_mean_of_the_parameters(void **state)
{
    (void)state;
    static struct run r;
    size_t at_limit = 0;
    run_drawn(&r, 1, 0);
    assert_true(mean_output(&r) > 85 && mean_output(&r) < 110); // some are cut at 300
    for (int i = 0; i < MAX_REQUESTS; i++) {
        const struct inference_finished *f = &r.records[i].end;
        at_limit += f->output_tokens == 300;
        assert_int_equal(f->reason, f->output_tokens < 300 ? INFERENCE_STOP : INFERENCE_LENGTH);
    }
    assert_true(at_limit > 0 && at_limit < MAX_REQUESTS / 10);
}

static void test_a_part_of_the_requests_fails(void **state)
{
    (void)state;
    static struct run r;
    int failed = 0;
    run_drawn(&r, 1, 0.25);
    for (int i = 0; i < MAX_REQUESTS; i++)
        failed += r.records[i].end.reason == INFERENCE_ERROR;
    assert_true(failed > MAX_REQUESTS * 0.15 && failed < MAX_REQUESTS * 0.35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_request_has_the_times_of_the_formula),
        cmocka_unit_test(test_a_request_joins_the_next_step),
        cmocka_unit_test(test_a_long_prompt_takes_several_steps),
        cmocka_unit_test(test_more_requests_than_seats_wait_in_their_order),
        cmocka_unit_test(test_a_full_cache_preempts_the_last_request),
        cmocka_unit_test(test_many_requests_in_a_small_cache_all_end),
        cmocka_unit_test(test_a_limited_queue_refuses_requests),
        cmocka_unit_test(test_a_prompt_that_is_too_long_is_refused),
        cmocka_unit_test(test_a_cancelled_request_gives_its_blocks_back),
        cmocka_unit_test(test_tokens_of_the_prefix_cache_are_not_computed),
        cmocka_unit_test(test_a_sleeping_engine_begins_no_step),
        cmocka_unit_test(test_a_late_gpu_moves_the_times),
        cmocka_unit_test(test_equal_seeds_give_equal_runs),
        cmocka_unit_test(test_outputs_have_the_mean_of_the_parameters),
        cmocka_unit_test(test_a_part_of_the_requests_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
