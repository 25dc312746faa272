// SPDX-License-Identifier: Apache-2.0
// Pages of engines: which names a release has, and that the values are those of the model.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "inference/dialect.h"
#include "metrics/reader.h"

struct page {
    struct inference_dialect dialect;
    struct inference_stats stats[INFERENCE_N_STATS];
    struct inference_parameters parameters;
    struct gs_buf text;
};

static void write_page(struct page *p)
{
    const struct inference_page page = {
        .model_name = "m\"1",
        .stats = p->stats,
        .state = {.waiting = 7, .running = 3, .used_blocks = 25},
        .parameters = &p->parameters,
        .gpu_memory_utilization = 0.9,
        .rejected = 5,
        .created_s = 1700000000,
    };
    gs_buf_clear(&p->text);
    inference_dialect_write(&p->dialect, &page, &p->text);
}

static void begin(struct page *p, const char *engine, const char *release)
{
    memset(p, 0, sizeof(*p));
    p->parameters = (struct inference_parameters){
        .block_size = 16, .num_blocks = 100, .max_model_len = 1500, .max_num_seqs = 4};
    assert_ok(inference_dialect_parse(engine, release, &p->dialect));
    for (int i = 0; i < INFERENCE_N_STATS; i++)
        inference_dialect_init_stats(&p->dialect, 1500, &p->stats[i]);
    write_page(p);
}

static void end(struct page *p)
{
    for (int i = 0; i < INFERENCE_N_STATS; i++)
        inference_stats_finish(&p->stats[i]);
    gs_buf_finish(&p->text);
}

// A line that begins with the text.
static bool has(const struct page *p, const char *text)
{
    const char *at = p->text.data;
    for (size_t len = strlen(text); (at = strstr(at, text)); at += len)
        if (at == p->text.data || at[-1] == '\n')
            return true;
    return false;
}

static void assert_has(const struct page *p, const char *text)
{
    if (!has(p, text))
        fail_msg("no line begins with %s", text);
}

static const struct {
    const char *engine, *release;
} releases[] = {{"vllm", "0.9.2"},   {"vllm", "0.12"},     {"vllm", "0.16"},
                {"vllm", "0.20"},    {"vllm", "0.33"},     {"sglang", "0.4.10"},
                {"sglang", "0.5.9"}, {"sglang", "0.5.12"}, {"sglang", "0.5.23"}};

enum { N_RELEASES = sizeof(releases) / sizeof(*releases) };

// "yes" and "no" of a name for each release above.
static const struct {
    const char *name, *present;
} names[] = {
    {"vllm:num_requests_waiting{", "11111...."},
    {"vllm:num_requests_running{", "11111...."},
    {"vllm:kv_cache_usage_perc{", "11111...."},
    {"vllm:gpu_cache_usage_perc{", "10000...."},
    {"vllm:gpu_prefix_cache_hits_total{", "10000...."},
    {"vllm:time_per_output_token_seconds_bucket{", "10000...."},
    {"vllm:inter_token_latency_seconds_bucket{", "01111...."},
    {"vllm:request_time_per_output_token_seconds_bucket{", "01111...."},
    {"vllm:num_requests_waiting_by_reason{", "00011...."},
    {"vllm:prompt_tokens_by_source_total{", "00111...."},
    {"vllm:engine_sleep_state{", "01111...."},
    {"vllm:admission_rejections_total{", "00001...."},
    {"vllm:iteration_tokens_total_bucket{", "11111...."},
    {"vllm:cache_config_info{", "11111...."},
    {"sglang:num_queue_reqs{", ".....1111"},
    {"sglang:num_running_reqs{", ".....1111"},
    {"sglang:token_usage{", ".....1111"},
    {"sglang:avg_request_queue_latency{", ".....1000"},
    {"sglang:queue_time_seconds_bucket{", ".....0111"},
    {"sglang:total_retracted_reqs{", ".....1000"},
    {"sglang:num_retracted_requests_total{", ".....0111"},
    {"sglang:cache_config_info{", ".....0100"},
    {"sglang:page_size{", ".....0011"},
    {"sglang:max_total_num_tokens{", ".....0111"},
    {"sglang:engine_startup_time{", ".....0110"},
    {"sglang:startup_time_seconds{", ".....0001"},
    {"sglang:request_time_per_output_token_seconds_bucket{", ".....0001"},
};

static void test_each_release_has_its_names(void **state)
{
    (void)state;
    struct page p;
    for (int r = 0; r < N_RELEASES; r++) {
        begin(&p, releases[r].engine, releases[r].release);
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            if (has(&p, names[i].name) != (names[i].present[r] == '1'))
                fail_msg("%s %s: %s", releases[r].engine, releases[r].release, names[i].name);
        end(&p);
    }
}

// The pages that the packages of the engines make (tests/data/inference).
static bool read_recorded(int r, struct gs_buf *ret)
{
    static const char *const files[N_RELEASES] = {"vllm-0.9.2",   "vllm-0.12.0",   "vllm-0.16.0",
                                                  "vllm-0.20.2",  "vllm-0.33.0",   "sglang-0.4.10",
                                                  "sglang-0.5.9", "sglang-0.5.12", "sglang-0.5.23"};
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/data/inference/%s.txt", root ? root : ".", files[r]);
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 1 << 20, &text);
    gs_buf_addf(ret, "\n%s", text.data ? text.data : "");
    return !err;
}

static void test_the_package_has_each_name(void **state)
{
    (void)state;
    for (int r = 0; r < N_RELEASES; r++) {
        GS_AUTO_BUF struct gs_buf recorded = {0};
        struct page p;
        if (!read_recorded(r, &recorded))
            skip_because("no recorded page of %s %s", releases[r].engine, releases[r].release);
        begin(&p, releases[r].engine, releases[r].release);
        for (struct gs_slice rest = gs_buf_slice(&p.text); rest.len;) {
            struct gs_slice line = gs_slice_cut(&rest, '\n');
            struct gs_slice name = gs_slice_cut(&line, '{');
            GS_AUTO_FREE char *start = gs_format("\n" GS_SLICE_FMT "{", GS_SLICE_ARG(name));
            if (name.len && name.data[0] != '#' && !strstr(recorded.data, start))
                fail_msg("%s %s: %s", releases[r].engine, releases[r].release, start + 1);
        }
        end(&p);
    }
}

static bool count_sample(void *arg, const struct metrics_sample *s)
{
    size_t *n = arg;
    assert_int_not_equal(s->type, METRICS_UNTYPED);
    ++*n;
    return true;
}

static void test_pages_are_expositions(void **state)
{
    (void)state;
    struct page p;
    for (int r = 0; r < N_RELEASES; r++) {
        size_t n = 0;
        begin(&p, releases[r].engine, releases[r].release);
        assert_ok(metrics_parse_text(gs_buf_slice(&p.text), NULL, count_sample, &n));
        assert_true(n > 50);
        end(&p);
    }
}

static void test_gauges_are_those_of_the_model(void **state)
{
    (void)state;
    struct page p;
    begin(&p, "vllm", "0.33.0");
    assert_has(&p, "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\\\"1\"} 7.0\n");
    assert_has(&p, "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\\\"1\"} 0.25\n");
    assert_has(&p, "vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\\\"1\",reason="
                   "\"capacity\"} 7.0\n");
    assert_has(&p, "vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\\\"1\",reason="
                   "\"deferred\"} 0.0\n");
    assert_has(&p, "vllm:admission_rejections_total{model_name=\"m\\\"1\",reason=\"max_num_queued_"
                   "reqs\"} 5.0\n");
    assert_has(&p, "vllm:cache_config_info{block_size=\"16\",");
    end(&p);
    begin(&p, "sglang", "0.5.12");
    assert_has(&p, "sglang:num_queue_reqs{engine_type=\"unified\",moe_ep_rank=\"0\",pp_rank=\"0\","
                   "tp_rank=\"0\",model_name=\"m\\\"1\"} 7.0\n");
    assert_has(&p, "sglang:kv_used_tokens{");
    end(&p);
}

// One streamed request of 30 tokens, and one that is whole and waited for 2 s.
static void feed(struct page *p)
{
    const struct inference_token first = {.nth = 1, .at = 30000000, .prompt_tokens = 400};
    const struct inference_token second = {.nth = 2, .at = 38000000, .previous = 30000000};
    const struct inference_finished streamed = {.reason = INFERENCE_LENGTH,
                                                .prompt_tokens = 400,
                                                .output_tokens = 30,
                                                .max_tokens = 30,
                                                .arrived = 1,
                                                .scheduled = 2,
                                                .first_token = 30000000,
                                                .ended = 300000000};
    struct inference_finished whole = streamed;
    whole.reason = INFERENCE_STOP;
    whole.scheduled = 2000000001;
    whole.first_token = 2100000000;
    whole.ended = 4000000000;
    inference_stats_token(&p->stats[INFERENCE_STREAMED], &first);
    inference_stats_token(&p->stats[INFERENCE_STREAMED], &second);
    inference_stats_finished(&p->stats[INFERENCE_STREAMED], &streamed);
    inference_stats_finished(&p->stats[INFERENCE_WHOLE], &whole);
    write_page(p);
}

static void test_histograms_count_in_the_buckets_of_the_engine(void **state)
{
    (void)state;
    struct page p;
    begin(&p, "vllm", "0.12");
    feed(&p);
#define L "{engine=\"0\",model_name=\"m\\\"1\""
    assert_has(&p, "vllm:time_to_first_token_seconds_bucket" L ",le=\"0.02\"} 0.0\n");
    assert_has(&p, "vllm:time_to_first_token_seconds_bucket" L ",le=\"0.04\"} 1.0\n");
    assert_has(&p, "vllm:time_to_first_token_seconds_bucket" L ",le=\"+Inf\"} 1.0\n");
    assert_has(&p, "vllm:inter_token_latency_seconds_count" L "} 1.0\n");
    assert_has(&p, "vllm:e2e_request_latency_seconds_bucket" L ",le=\"0.3\"} 1.0\n");
    assert_has(&p, "vllm:request_queue_time_seconds_bucket" L ",le=\"1.5\"} 1.0\n");
    assert_has(&p, "vllm:request_queue_time_seconds_bucket" L ",le=\"2.0\"} 2.0\n");
    assert_has(&p, "vllm:request_success_total" L ",finished_reason=\"length\"} 1.0\n");
    assert_has(&p, "vllm:prompt_tokens_total" L "} 400.0\n");
    assert_has(&p, "vllm:generation_tokens_total" L "} 2.0\n");
    // Bounds 1, 2, 5 … up to the longest request, which is 1500.
    assert_has(&p, "vllm:request_prompt_tokens_bucket" L ",le=\"1000.0\"} 2.0\n");
    assert_false(has(&p, "vllm:request_prompt_tokens_bucket" L ",le=\"2000.0\"}"));
#undef L
    end(&p);
}

static void test_late_releases_of_sglang_tell_streamed_answers_apart(void **state)
{
    (void)state;
    struct page p;
    begin(&p, "sglang", "0.5.23");
    feed(&p);
#define L "{engine_type=\"unified\",model_name=\"m\\\"1\",is_streaming="
    assert_has(&p, "sglang:num_requests_total" L "\"true\"} 1.0\n");
    assert_has(&p, "sglang:num_requests_total" L "\"false\"} 1.0\n");
    assert_has(&p, "sglang:time_to_first_token_seconds_bucket" L "\"true\",le=\"0.1\"} 1.0\n");
    assert_has(&p, "sglang:time_to_first_token_seconds_bucket" L "\"false\",le=\"0.1\"} 0.0\n");
    assert_has(&p, "sglang:prompt_tokens_total" L "\"true\"} 400.0\n");
#undef L
    end(&p);
    begin(&p, "sglang", "0.5.9");
    feed(&p);
    assert_has(&p, "sglang:num_requests_total{model_name=\"m\\\"1\"} 2.0\n");
    end(&p);
}

static void test_releases_between_have_the_page_before(void **state)
{
    (void)state;
    struct inference_dialect d;
    char text[INFERENCE_RELEASE_SIZE];
    assert_ok(inference_dialect_parse("vllm", "v0.13.1rc2", &d));
    assert_string_equal(inference_dialect_release(&d, text), "0.12.0");
    assert_ok(inference_dialect_parse("vllm", "", &d));
    assert_string_equal(inference_dialect_release(&d, text), "0.33.0");
    assert_ok(inference_dialect_parse("sglang", "1", &d));
    assert_string_equal(inference_dialect_release(&d, text), "0.5.23");
    assert_error(inference_dialect_parse("vllm", "0.5.0", &d), GS_EINVAL, "0.9.2");
    assert_error(inference_dialect_parse("vllm", "latest", &d), GS_EINVAL, "want a number");
    assert_error(inference_dialect_parse("tgi", "3.0", &d), GS_EINVAL, "want vllm or sglang");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_release_has_its_names),
        cmocka_unit_test(test_the_package_has_each_name),
        cmocka_unit_test(test_pages_are_expositions),
        cmocka_unit_test(test_gauges_are_those_of_the_model),
        cmocka_unit_test(test_histograms_count_in_the_buckets_of_the_engine),
        cmocka_unit_test(test_late_releases_of_sglang_tell_streamed_answers_apart),
        cmocka_unit_test(test_releases_between_have_the_page_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
