// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "engine/signals/signals.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>

#define ABSENT NAN

static struct signals_table *table;

static int load(void **state)
{
    (void)state;
    assert_ok(signals_table_load(NULL, &table));
    return 0;
}

static int unload(void **state)
{
    (void)state;
    signals_table_free(table);
    return 0;
}

static void read_text(struct signals_page *p, const char *text, int64_t t_ms)
{
    assert_ok(signals_page_read(p, gs_slice_of(text), METRICS_TEXT, t_ms));
}

static char *recorded(const char *name)
{
    struct gs_buf text = {0};
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/data/inference/%s.txt", getenv("GPUSCALE_SOURCE_ROOT"), name);
    assert_ok(gs_file_read(path, 1 << 20, &text));
    return gs_buf_take(&text);
}

// The only model of the page, or the one with this name.
static const struct signals_row *model(const struct signals_page *p, const char *name)
{
    const struct signals_row *r, *found = NULL;
    for (size_t i = 0; (r = signals_page_row(p, i)); i++) {
        if (!r->present || (name && !gs_slice_eq_str(r->model, name)))
            continue;
        assert_null(found);
        found = r;
    }
    assert_non_null(found);
    return found;
}

static double value(const struct signals_page *p, enum signals_quantity q)
{
    const struct signals_row *r = model(p, NULL);
    return r->has[q] ? r->value[q] : ABSENT;
}

static void assert_value(double is, double expected)
{
    if (isnan(expected))
        assert_true(isnan(is));
    else
        assert_float_equal(is, expected, 1e-9);
}

// --- recorded pages ---

struct expectation {
    const char *page, *engine, *model, *role;
    double values[SIGNALS_TTFT_SECONDS]; // in the order of enum signals_quantity
    double ttft, itl;                    // numbers of observations
};

#define QWEN "Qwen/Qwen3-8B"
// waiting, running, kv_used, capacity, sleeping, prompt, generation, preemptions, rejections
static const struct expectation pages[] = {
    {"vllm-0.9.2", "vllm", QWEN, "", {7, 4, .375, 432000, ABSENT, 12345, 6789, 3, ABSENT}, 25, 200},
    {"vllm-0.12.0", "vllm", QWEN, "", {7, 4, .375, 432000, 0, 12345, 6789, 3, ABSENT}, 25, 200},
    {"vllm-0.16.0", "vllm", QWEN, "", {7, 4, .375, 432000, 0, 12345, 6789, 3, ABSENT}, 25, 200},
    // From here on, two of the seven waiting requests are deferred.
    {"vllm-0.20.2", "vllm", QWEN, "", {5, 4, .375, 432000, 0, 12345, 6789, 3, ABSENT}, 25, 200},
    {"vllm-0.33.0", "vllm", QWEN, "", {5, 4, .375, 432000, 0, 12345, 6789, 3, 6}, 25, 200},
    {"vllm-0.33.0-ranks", "vllm", QWEN, "", {11, 9, .475, 864000, 0, 24691, 13579, 7, 6}, 50, 400},
    {"sglang-0.4.10",
     "sglang",
     QWEN,
     "unified",
     {7, 4, .375, ABSENT, ABSENT, 12345, 6789, 3, ABSENT},
     25,
     200},
    {"sglang-0.5.9",
     "sglang",
     QWEN,
     "unified",
     {7, 4, .375, 432000, ABSENT, 12345, 6789, 3, ABSENT},
     25,
     200},
    {"sglang-0.5.12",
     "sglang",
     QWEN,
     "unified",
     {7, 4, .375, 432000, ABSENT, 12345, 6789, 3, ABSENT},
     25,
     200},
    // Requests with and without streaming have series of their own.
    {"sglang-0.5.23",
     "sglang",
     QWEN,
     "unified",
     {7, 4, .375, 432000, ABSENT, 12445, 6889, 3, ABSENT},
     50,
     200},
    {"sglang-0.5.23-priority",
     "sglang",
     QWEN,
     "unified",
     {7, 4, .375, 432000, ABSENT, 4, 4, 3, ABSENT},
     50,
     200},
    {"sglang-0.5.23-ranks",
     "sglang",
     QWEN,
     "unified",
     {15, 9, .475, 864001, ABSENT, 12445, 6889, 7, ABSENT},
     50,
     200},
    {"lmdeploy-0.18.0",
     "lmdeploy",
     QWEN,
     "",
     {7, 4, .375, ABSENT, ABSENT, 12345, 6789, ABSENT, ABSENT},
     25,
     200},
    {"llamacpp",
     "llama.cpp",
     "",
     "",
     {7, 4, ABSENT, ABSENT, ABSENT, 12345, 6789, ABSENT, ABSENT},
     ABSENT,
     ABSENT},
};

static void check_histogram(const struct signals_row *r, size_t h, double n)
{
    const struct signals_histogram *x = &r->histogram[h];
    assert_int_equal(r->has[SIGNALS_TTFT_SECONDS + h], !isnan(n));
    if (isnan(n))
        return;
    assert_true(x->n > 2);
    assert_true(isinf(x->bounds[x->n - 1]));
    assert_value(x->counts[x->n - 1], n);
    assert_value(x->count, n);
    assert_true(x->sum > 0);
    for (size_t i = 1; i < x->n; i++)
        assert_true(x->bounds[i] > x->bounds[i - 1] && x->counts[i] >= x->counts[i - 1]);
}

// Each quantity of a row has a value or a reason.
static void check_reasons(const struct signals_page *p)
{
    const struct signals_row *r;
    for (size_t i = 0; (r = signals_page_row(p, i)); i++)
        for (size_t q = 0; r->present && q < SIGNALS_N_QUANTITIES; q++) {
            GS_AUTO_FREE char *why =
                r->has[q] ? NULL : signals_page_absent(p, i, (enum signals_quantity)q);
            assert_true(r->has[q] || strlen(why) > 10);
        }
}

static void check_page(const struct expectation *e)
{
    GS_AUTO_FREE char *text = recorded(e->page);
    struct signals_page *p = signals_page_new(table);
    read_text(p, text, 1000);
    print_message("%s\n", e->page);
    assert_string_equal(signals_page_engine(p), e->engine);
    const struct signals_row *r = model(p, NULL);
    assert_true(gs_slice_eq_str(r->model, e->model));
    assert_true(gs_slice_eq_str(r->role, e->role));
    for (size_t q = 0; q < SIGNALS_TTFT_SECONDS; q++) {
        print_message("  %s\n", signals_quantity_name((enum signals_quantity)q));
        assert_value(value(p, (enum signals_quantity)q), e->values[q]);
    }
    check_histogram(r, 0, e->ttft);
    check_histogram(r, 1, e->itl);
    check_reasons(p);
    signals_page_free(p);
}

static void test_pages_of_all_releases_have_the_same_quantities(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        check_page(&pages[i]);
}

// Numbers of observations.
static const struct {
    const char *page;
    double e2e, queue;
} durations[] = {
    {"vllm-0.9.2", 1, 1},         {"vllm-0.20.2", 1, 1},        {"vllm-0.33.0", 1, 1},
    {"sglang-0.4.10", 1, ABSENT}, {"sglang-0.5.9", 1, 1},       {"sglang-0.5.23", 2, 1},
    {"lmdeploy-0.18.0", 1, 1},    {"llamacpp", ABSENT, ABSENT},
};

static void test_durations_of_requests_and_of_the_queue(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        GS_AUTO_FREE char *text = recorded(durations[i].page);
        struct signals_page *p = signals_page_new(table);
        read_text(p, text, 1000);
        print_message("%s\n", durations[i].page);
        check_histogram(model(p, NULL), 2, durations[i].e2e);
        check_histogram(model(p, NULL), 3, durations[i].queue);
        signals_page_free(p);
    }
}

static void test_a_page_read_again_has_the_same_values(void **state)
{
    (void)state;
    GS_AUTO_FREE char *text = recorded("sglang-0.5.23-ranks");
    struct signals_page *p = signals_page_new(table);
    for (int i = 1; i < 5; i++) {
        read_text(p, text, i * 1000);
        assert_value(value(p, SIGNALS_WAITING), 15);
        assert_value(value(p, SIGNALS_KV_USED_RATIO), .475);
    }
    signals_page_free(p);
}

static void test_triton_has_a_row_for_each_model(void **state)
{
    (void)state;
    GS_AUTO_FREE char *text = recorded("triton");
    struct signals_page *p = signals_page_new(table);
    read_text(p, text, 1000);
    assert_string_equal(signals_page_engine(p), "triton");
    assert_value(model(p, "resnet")->value[SIGNALS_WAITING], 7);
    assert_value(model(p, "bert")->value[SIGNALS_WAITING], 2);
    check_reasons(p);
    signals_page_free(p);
}

// --- engines without a package here: their names, from their documentation ---

static void test_engines_are_recognized_by_their_names(void **state)
{
    static const struct {
        const char *engine, *page;
        enum signals_quantity q;
        double value;
    } cases[] = {
        {"tensorrt-llm",
         "trtllm_kv_cache_max_blocks{model_name=\"m\"} 10\n"
         "trtllm_kv_cache_tokens_per_block{model_name=\"m\"} 32\n",
         SIGNALS_KV_CAPACITY_TOKENS, 320},
        {"triton-tensorrt-llm",
         "nv_trt_llm_request_metrics{model=\"m\",request_type=\"waiting\",version=\"1\"} 3\n"
         "nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\",version=\"1\"} 9\n",
         SIGNALS_WAITING, 3},
        {"tgi", "tgi_queue_size 5\ntgi_batch_current_size 2\n", SIGNALS_WAITING, 5},
        {"nim", "num_requests_waiting{model_name=\"m\"} 6\n", SIGNALS_WAITING, 6},
        {"llama.cpp", "llamacpp:requests_deferred 4\n", SIGNALS_WAITING, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct signals_page *p = signals_page_new(table);
        read_text(p, cases[i].page, 1);
        assert_string_equal(signals_page_engine(p), cases[i].engine);
        assert_value(value(p, cases[i].q), cases[i].value);
        signals_page_free(p);
    }
}

static void test_other_pages_are_not_engines(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 90\nnum_requests_waiting 4\nvllm 1\n", 1);
    assert_null(signals_page_engine(p));
    assert_null(signals_page_json(p));
    signals_page_free(p);
}

static void test_an_unknown_release_of_a_known_engine_has_reasons(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p, "vllm:everything_is_new{model_name=\"m\"} 1\n", 1);
    assert_string_equal(signals_page_engine(p), "vllm");
    assert_value(value(p, SIGNALS_WAITING), ABSENT);
    check_reasons(p);
    GS_AUTO_FREE char *why = signals_page_absent(p, 0, SIGNALS_WAITING);
    assert_non_null(strstr(why, "vllm:num_requests_waiting"));
    signals_page_free(p);
}

// --- absent is absent ---

static void test_a_value_that_is_not_a_number_is_absent(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p,
              "vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} NaN\n"
              "vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0\n"
              "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\",engine=\"0\"} 1\n",
              1);
    assert_value(value(p, SIGNALS_KV_USED_RATIO), ABSENT);
    assert_value(value(p, SIGNALS_KV_CAPACITY_TOKENS), ABSENT);
    assert_value(value(p, SIGNALS_WAITING), 0);
    signals_page_free(p);
}

static void test_values_end_with_their_lines(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p, "vllm:num_requests_waiting{model_name=\"m\"} 4\nvllm:x 1\n", 1);
    assert_value(value(p, SIGNALS_WAITING), 4);
    read_text(p, "vllm:x 1\n", 2);
    assert_value(value(p, SIGNALS_WAITING), ABSENT);
    read_text(p, "vllm:num_requests_waiting{model_name=\"m\"} 4\n", 3);
    signals_page_failed(p);
    assert_null(signals_page_engine(p));
    assert_null(signals_page_json(p));
    signals_page_free(p);
}

static void test_an_engine_sleeps_if_all_ranks_sleep(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p,
              "vllm:engine_sleep_state{model_name=\"m\",engine=\"0\",sleep_state=\"awake\"} 0\n"
              "vllm:engine_sleep_state{model_name=\"m\",engine=\"1\",sleep_state=\"awake\"} 1\n",
              1);
    assert_value(value(p, SIGNALS_SLEEPING), 0);
    read_text(p,
              "vllm:engine_sleep_state{model_name=\"m\",engine=\"0\",sleep_state=\"awake\"} 0\n"
              "vllm:engine_sleep_state{model_name=\"m\",engine=\"1\",sleep_state=\"awake\"} 0\n",
              2);
    assert_value(value(p, SIGNALS_SLEEPING), 1);
    signals_page_free(p);
}

// --- counters ---

static void counters(struct signals_page *p, int64_t t, double a, double b)
{
    GS_AUTO_FREE char *text =
        gs_format("vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} %g\n"
                  "vllm:generation_tokens_total{model_name=\"m\",engine=\"1\"} %g\n",
                  a, b);
    read_text(p, text, t);
}

static void test_a_sum_does_not_decrease_when_one_rank_restarts(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    counters(p, 1, 1000, 500);
    counters(p, 2, 1100, 5);
    assert_value(value(p, SIGNALS_GENERATION_TOKENS_TOTAL), 1605);
    counters(p, 3, 1200, 10);
    assert_value(value(p, SIGNALS_GENERATION_TOKENS_TOTAL), 1710);
    counters(p, 4, 3, 4); // the whole engine
    assert_value(value(p, SIGNALS_GENERATION_TOKENS_TOTAL), 7);
    signals_page_free(p);
}

// --- percentiles ---

static void ttft(struct signals_page *p, int64_t t, int fast, int slow)
{
    GS_AUTO_FREE char *text =
        gs_format("vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.1\"} %d\n"
                  "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"1.0\"} %d\n"
                  "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} %d\n"
                  "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 1\n"
                  "vllm:time_to_first_token_seconds_count{model_name=\"m\"} %d\n",
                  fast, fast + slow, fast + slow, fast + slow);
    read_text(p, text, t);
}

static void test_a_percentile_needs_20_samples_of_the_window(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    ttft(p, 1000, 1000, 1000); // their time is unknown
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), ABSENT);
    ttft(p, 2000, 1019, 1000);
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), ABSENT);
    GS_AUTO_FREE char *why = signals_page_absent(p, 0, SIGNALS_TTFT_P90_SECONDS);
    assert_non_null(strstr(why, "19 of the 20 samples"));
    ttft(p, 3000, 1019, 1001);
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), 0.1 * 18 / 19);
    ttft(p, 33000, 1019, 1001); // the first 19 are older than 30 s
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), ABSENT);
    signals_page_free(p);
}

static void test_a_percentile_ignores_a_restart(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    ttft(p, 1000, 100, 0);
    ttft(p, 2000, 140, 0);
    ttft(p, 3000, 0, 30); // a new process: when these 30 happened is unknown
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), 0.09);
    ttft(p, 4000, 0, 70); // 40 fast ones and 40 slow ones: the rank 72 is 32 of 40 in (0.1, 1]
    assert_value(value(p, SIGNALS_TTFT_P90_SECONDS), 0.1 + 0.9 * 32 / 40);
    signals_page_free(p);
}

static void test_a_percentile_above_all_bounds_is_the_largest_bound(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p,
              "tgi_request_mean_time_per_token_duration_bucket{le=\"0.5\"} 0\n"
              "tgi_request_mean_time_per_token_duration_bucket{le=\"+Inf\"} 0\n",
              1000);
    read_text(p,
              "tgi_request_mean_time_per_token_duration_bucket{le=\"0.5\"} 0\n"
              "tgi_request_mean_time_per_token_duration_bucket{le=\"+Inf\"} 30\n",
              2000);
    assert_value(value(p, SIGNALS_ITL_P90_SECONDS), 0.5);
    signals_page_free(p);
}

// --- limits ---

static void test_a_page_with_too_many_models_is_read_in_part(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf text = {0};
    struct signals_page *p = signals_page_new(table);
    for (int i = 0; i < 10000; i++)
        gs_buf_addf(&text, "vllm:num_requests_waiting{model_name=\"m%d\"} 1\n", i);
    read_text(p, text.data, 1);
    size_t n = 0;
    while (signals_page_row(p, n))
        n++;
    assert_in_range(n, 1, 64);
    signals_page_free(p);
}

static void test_series_that_change_on_each_page_are_forgotten(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    for (int i = 1; i <= 20000; i++) {
        GS_AUTO_FREE char *text =
            gs_format("vllm:num_requests_waiting{model_name=\"m\",engine=\"%d\"} 3\n", i);
        read_text(p, text, i);
        assert_value(value(p, SIGNALS_WAITING), 3);
    }
    signals_page_free(p);
}

static void test_a_broken_page_has_no_values(void **state)
{
    (void)state;
    struct signals_page *p = signals_page_new(table);
    read_text(p, "vllm:num_requests_waiting{model_name=\"m\"} 4\n", 1);
    const char *broken = "vllm:num_requests_waiting{model_name=\"m\"} 5\nvllm:x{ 1\n";
    gs_error_free(signals_page_read(p, gs_slice_of(broken), METRICS_TEXT, 2));
    read_text(p, "vllm:num_requests_waiting{model_name=\"m\"} 6\n", 3);
    assert_value(value(p, SIGNALS_WAITING), 6);
    assert_error(signals_page_read(p, GS_SLICE("vllm:a 1 2 3 4\n"), METRICS_TEXT, 4), GS_EINVAL,
                 "line 1");
    assert_null(signals_page_engine(p));
    signals_page_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_of_all_releases_have_the_same_quantities),
        cmocka_unit_test(test_durations_of_requests_and_of_the_queue),
        cmocka_unit_test(test_a_page_read_again_has_the_same_values),
        cmocka_unit_test(test_triton_has_a_row_for_each_model),
        cmocka_unit_test(test_engines_are_recognized_by_their_names),
        cmocka_unit_test(test_other_pages_are_not_engines),
        cmocka_unit_test(test_an_unknown_release_of_a_known_engine_has_reasons),
        cmocka_unit_test(test_a_value_that_is_not_a_number_is_absent),
        cmocka_unit_test(test_values_end_with_their_lines),
        cmocka_unit_test(test_an_engine_sleeps_if_all_ranks_sleep),
        cmocka_unit_test(test_a_sum_does_not_decrease_when_one_rank_restarts),
        cmocka_unit_test(test_a_percentile_needs_20_samples_of_the_window),
        cmocka_unit_test(test_a_percentile_ignores_a_restart),
        cmocka_unit_test(test_a_percentile_above_all_bounds_is_the_largest_bound),
        cmocka_unit_test(test_a_page_with_too_many_models_is_read_in_part),
        cmocka_unit_test(test_series_that_change_on_each_page_are_forgotten),
        cmocka_unit_test(test_a_broken_page_has_no_values),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
