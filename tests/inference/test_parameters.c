// SPDX-License-Identifier: Apache-2.0
// Parameters for models and GPUs: the size in a name, memory that does not suffice, and published
// measurements, which the model has to reproduce.
#include "unit.h"

#include "inference/parameters.h"

#define MIB (UINT64_C(1) << 20)

static struct inference_setup setup(const char *model, const char *gpu, uint64_t mib)
{
    return (struct inference_setup){
        .model = model, .gpu = gpu, .gpu_memory = mib * MIB, .gpus = 1, .memory_utilization = 0.9};
}

static void test_the_size_is_read_from_the_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double billions;
    } names[] = {
        {"meta-llama/Llama-3.1-8B-Instruct", 8},
        {"Qwen/Qwen3-0.6B", 0.6},
        {"facebook/opt-125m", 0.125},
        {"mistralai/Mixtral-8x7B-Instruct-v0.1", 56},
        {"openai/gpt-oss-20b", 20},
        {"Qwen/Qwen2.5-14B-Instruct-1M", 14},
        {"microsoft/Phi-3-mini-4k-instruct", 0},
        {"/models/7B/own", 0},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_float_equal(inference_parameters_billions(names[i].name), names[i].billions, 1e-9);
}

struct measured {
    double tokens_s, first_ms, itl_ms; // itl: the mean between tokens
};

static struct {
    uint64_t tokens, first;
    double first_ns, gaps_ns;
    int64_t last;
} seen;

static void on_token(void *arg, void *user, const struct inference_token *t)
{
    (void)arg;
    (void)user;
    seen.tokens++;
    seen.last = t->at;
    if (t->nth == 1) {
        seen.first++;
        seen.first_ns += (double)(t->at - t->previous);
    } else {
        seen.gaps_ns += (double)(t->at - t->previous);
    }
}

static unsigned ended;

static void on_finish(void *arg, void *user, const struct inference_finished *f)
{
    (void)arg;
    (void)user;
    (void)f;
    ended++;
}

// As a benchmark with a fixed concurrency: a client sends its next request when one has ended.
static struct measured measure(const struct inference_parameters *p, unsigned clients,
                               uint32_t prompt, uint32_t output)
{
    const struct inference_model_events events = {.token = on_token, .finish = on_finish};
    const struct inference_request request = {
        .prompt_tokens = prompt, .max_tokens = output, .ignore_eos = true};
    struct inference_model *m = inference_model_new(p, &events);
    struct inference_sequence *s;
    unsigned sent = 0, total = clients * 10;
    int64_t now = 0;
    memset(&seen, 0, sizeof(seen));
    ended = 0;
    while (ended < total) {
        while (sent < total && sent - ended < clients) {
            assert_int_equal(inference_model_add(m, now, &request, &s), INFERENCE_ADMITTED);
            sent++;
        }
        now = inference_model_step(m)->end;
        inference_model_end_step(m, now);
    }
    inference_model_free(m);
    return (struct measured){
        .tokens_s = (double)seen.tokens / ((double)seen.last / 1e9),
        .first_ms = seen.first_ns / (double)seen.first / 1e6,
        .itl_ms = seen.gaps_ns / (double)(seen.tokens - seen.first) / 1e6,
    };
}

static void assert_near(double value, double published, double part)
{
    if (value < published * (1 - part) || value > published * (1 + part))
        fail_msg("%g, and %g is published", value, published);
}

// https://johnmusgrave.com/p/vllm-throughput-latency-sweep-on: vLLM 0.23.0, Llama 3.1 8B, A100 with
// 40 GB, 1,024 tokens in and 128 out: about 75 tokens/s for one request.
static void test_an_a100_has_the_published_throughput(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "A100-SXM4-40GB", 40960);
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_near(measure(&p, 1, 1024, 128).tokens_s, 75, 0.1);
}

// https://docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance: NIM 1.8.0, Llama 3.3 70B of 8
// bits on 2 H100, 5,000 tokens in: the first token after 407 ms. The arithmetic of 8 bits is twice
// as fast as that of 16 bits.
static void test_prompts_take_the_published_time(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.3-70b", "H100-80GB-HBM3", 81559);
    s.gpus = 2;
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_near(5000 * p.cost.compute_ns / 2 / 1e6, 407, 0.15);
}

// https://yobitelcomm.github.io/bench/recipes/concurrency-sweep/: vLLM 0.21.0, Llama 3.1 8B, H100:
// 6.48 ms between tokens of one request, 6.59 ms of four, with a first token after 14 ms.
static void test_an_h100_has_the_published_latency(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "H100-80GB-HBM3", 81559);
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    struct measured one = measure(&p, 1, 300, 200), four = measure(&p, 4, 300, 200);
    assert_near(one.itl_ms, 6.48, 0.1);
    assert_near(one.first_ms, 14, 0.4); // includes the network of the measurement
    assert_near(four.itl_ms, 6.59, 0.1);
}

// https://www.morphllm.com/vllm-benchmarks: about 12,500 tokens/s of Llama 3.1 8B on an H100 at a
// high concurrency.
static void test_an_h100_has_the_published_peak(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "H100-80GB-HBM3", 81559);
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_near(measure(&p, 256, 220, 200).tokens_s, 12500, 0.2);
}

static void test_the_kv_cache_has_the_memory_that_is_left(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "H100-80GB-HBM3", 81559);
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_int_equal(sizes.weights, 16000000000);
    assert_true(sizes.weights + sizes.kv < 81559 * MIB * 9 / 10);
    uint64_t tokens = (uint64_t)p.num_blocks * p.block_size;
    assert_int_equal(tokens, sizes.kv / 131072 / 16 * 16);
    s.gpus = 2;
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_int_equal(sizes.weights, 8000000000);
}

static void test_weights_that_do_not_fit_are_counted_smaller(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "Tesla-T4", 15360);
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_true(sizes.shrunk);
    assert_true(sizes.weights < 15360 * MIB * 9 / 10);
    assert_true((uint64_t)p.num_blocks * p.block_size >= p.max_model_len);
}

static void test_a_length_that_does_not_fit_becomes_shorter(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "L4", 23034);
    s.max_model_len = 1000000;
    assert_ok(inference_parameters_init(&s, &p, &sizes));
    assert_true(sizes.shortened);
    assert_int_equal(p.max_model_len, p.num_blocks * p.block_size);
}

static void test_speed_divides_all_times(void **state)
{
    (void)state;
    struct inference_parameters a, b;
    struct inference_sizes sizes;
    struct inference_setup s = setup("Llama-3.1-8B", "H200", 143771);
    assert_ok(inference_parameters_init(&s, &a, &sizes));
    s.speed = 4;
    assert_ok(inference_parameters_init(&s, &b, &sizes));
    assert_float_equal(measure(&b, 4, 100, 100).tokens_s / measure(&a, 4, 100, 100).tokens_s, 4,
                       0.01);
}

static void test_a_start_is_divided_into_phases(void **state)
{
    (void)state;
    struct inference_startup s = inference_startup_of(1001);
    assert_true(s.process_ns > 0 && s.weights_ns > s.process_ns);
    assert_int_equal(s.process_ns + s.weights_ns + s.cache_ns, 1001);
}

static void test_impossible_values_are_errors(void **state)
{
    (void)state;
    struct inference_parameters p;
    struct inference_sizes sizes;
    struct inference_setup s = setup("m", "A10", 1000);
    s.memory_utilization = 1.5;
    assert_error(inference_parameters_init(&s, &p, &sizes), GS_EINVAL, "--gpu-memory-utilization");
    s.memory_utilization = 0.9;
    s.speed = -1;
    assert_error(inference_parameters_init(&s, &p, &sizes), GS_EINVAL, "--speed");
    s.speed = 1;
    s.billions = 1e9;
    assert_error(inference_parameters_init(&s, &p, &sizes), GS_EINVAL, "--model-size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_size_is_read_from_the_name),
        cmocka_unit_test(test_an_a100_has_the_published_throughput),
        cmocka_unit_test(test_prompts_take_the_published_time),
        cmocka_unit_test(test_an_h100_has_the_published_latency),
        cmocka_unit_test(test_an_h100_has_the_published_peak),
        cmocka_unit_test(test_the_kv_cache_has_the_memory_that_is_left),
        cmocka_unit_test(test_weights_that_do_not_fit_are_counted_smaller),
        cmocka_unit_test(test_a_length_that_does_not_fit_becomes_shorter),
        cmocka_unit_test(test_speed_divides_all_times),
        cmocka_unit_test(test_a_start_is_divided_into_phases),
        cmocka_unit_test(test_impossible_values_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
