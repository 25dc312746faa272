// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "engine/signals/signals.h"

#include "base/mem.h"
#include "base/regex.h"

static struct gs_error *parse(const char *text, struct signals_table **ret)
{
    return signals_table_parse(gs_slice_of(text), "t.yaml", ret);
}

static void refuse(const char *text, const char *error)
{
    struct signals_table *t = NULL;
    assert_error(parse(text, &t), GS_EINVAL, error);
    assert_null(t);
}

static void test_a_wrong_table_is_refused_with_its_line(void **state)
{
    (void)state;
    refuse("engines: []\n", "no engines");
    refuse("engines:\n- engine: x\n", "t.yaml:2");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x}]\n  quantities: {watiing: []}\n",
           "did you mean \"waiting\"?");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x}]\n  quantities:\n"
           "    waiting: [{name: a, ranks: mean}]\n",
           "t.yaml:5:32: ranks: \"mean\" is not sum, max or min");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x, name: y}]\n", "either a prefix or");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x}]\n  ports: ['0']\n", "not a port");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x}]\n  unknown: 1\n", "unknown field");
    refuse("engines:\n- engine: x\n  recognize: [{prefix: x}]\n  retired: [{name: a}]\n",
           "needs name and since");
    refuse("a: 1\n---\nb: 2\n", "2 documents");
}

static void test_a_user_can_add_an_engine(void **state)
{
    (void)state;
    struct signals_table *t = NULL;
    assert_ok(parse("engines:\n- engine: mine\n  recognize: [{name: my_queue}]\n"
                    "  quantities: {waiting: [{name: my_queue, scale: 0.5}]}\n",
                    &t));
    struct signals_page *p = signals_page_new(t);
    assert_ok(signals_page_read(p, GS_SLICE("my_queue 8\n"), METRICS_TEXT, 1));
    assert_string_equal(signals_page_engine(p), "mine");
    assert_float_equal(signals_page_row(p, 0)->value[SIGNALS_WAITING], 4, 0);
    signals_page_free(p);
    signals_table_free(t);
}

static void test_the_names_to_keep_are_those_of_the_table(void **state)
{
    (void)state;
    struct signals_table *t = NULL;
    assert_ok(signals_table_load(NULL, &t));
    GS_AUTO_FREE char *names = signals_table_names(t);
    GS_AUTO_FREE char *pattern = gs_format("^(?:%s)$", names);
    struct gs_regex *re = NULL;
    assert_ok(gs_regex_new(gs_slice_of(pattern), NULL, &re));
    assert_true(gs_regex_matches(re, GS_SLICE("vllm:num_requests_waiting")));
    assert_true(gs_regex_matches(re, GS_SLICE("vllm:time_to_first_token_seconds_bucket")));
    assert_false(gs_regex_matches(re, GS_SLICE("vllm:time_to_first_token_seconds_created")));
    assert_false(gs_regex_matches(re, GS_SLICE("vllm:request_prefill_time_seconds_sum")));
    gs_regex_free(re);
    signals_table_free(t);
}

static void test_paths_and_ports_are_listed_once(void **state)
{
    (void)state;
    struct signals_table *t = NULL;
    assert_ok(signals_table_load(NULL, &t));
    assert_string_equal(signals_table_path(t, 0), "/metrics");
    assert_string_equal(signals_table_path(t, 1), "/prometheus/metrics");
    assert_string_equal(signals_table_path(t, 2), "/v1/metrics");
    assert_null(signals_table_path(t, 3));
    assert_int_equal(signals_table_port(t, 0), 8000);
    assert_int_equal(signals_table_port(t, 1), 30000);
    assert_int_equal(signals_table_port(t, 100), 0);
    signals_table_free(t);
}

static void test_a_retired_name_has_its_replacement(void **state)
{
    (void)state;
    struct signals_table *t = NULL;
    struct signals_retired r;
    assert_ok(signals_table_load(NULL, &t));
    assert_true(signals_table_retired(t, "vllm:gpu_cache_usage_perc", &r));
    assert_string_equal(r.engine, "vllm");
    assert_string_equal(r.since, "0.12.0");
    assert_string_equal(r.use, "vllm:kv_cache_usage_perc");
    assert_true(signals_table_retired(t, "vllm:time_per_output_token_seconds_bucket", &r));
    assert_string_equal(r.use, "vllm:inter_token_latency_seconds");
    assert_true(signals_table_retired(t, "sglang:num_aborted_requests", &r));
    assert_false(signals_table_retired(t, "vllm:num_requests_waiting", &r));
    signals_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wrong_table_is_refused_with_its_line),
        cmocka_unit_test(test_a_user_can_add_an_engine),
        cmocka_unit_test(test_the_names_to_keep_are_those_of_the_table),
        cmocka_unit_test(test_paths_and_ports_are_listed_once),
        cmocka_unit_test(test_a_retired_name_has_its_replacement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
