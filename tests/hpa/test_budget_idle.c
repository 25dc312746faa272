// SPDX-License-Identifier: Apache-2.0
// Budgets that lend idle GPUs, with an engine that measures the pods of one workload, and what is
// counted over time.
#include "budget_bench.h"

#include "base/clock.h"
#include "budget/budget.h"
#include "hpa_controller/budgets_private.h"
#include "promql/ast.h"

#include <math.h>

#define BUDGETS "budgets: [{name: gpus, gpus: 6, idleAfter: 5m}]\n"

static int engine_util, engine_minutes, engine_status;

// The rows of the pods spare-0 … spare-3: a GPU each, with constant memory.
static void handle_query(void *arg, struct http_exchange *x)
{
    const int values[] = {engine_util, 0, engine_minutes, 1};
    CODEC_AUTO_JSON json_t *result = json_array();
    (void)arg;
    for (int pod = 0; pod < 4; pod++)
        for (int of = 0; of < 4; of++)
            json_array_append_new(result, json_pack("{s:{s:o, s:o}, s:[i, o]}", "metric", "name",
                                                    codec_json_strf("spare-%d", pod), "of",
                                                    codec_json_strf("%d", of), "value", 1,
                                                    codec_json_strf("%d", values[of])));
    CODEC_AUTO_JSON json_t *body = json_pack("{s:s, s:{s:s, s:O}}", "status", "success", "data",
                                             "resultType", "vector", "result", result);
    kube_reply_json(x, engine_status, body);
}

// Six GPUs: four of a workload with a high priority, and two of one that wants more.
static void put_all(struct bench *b, const char *mode)
{
    GS_AUTO_FREE char *text = gs_format("mode: %s\n" BUDGETS, mode);
    engine_util = 0;
    engine_minutes = 6;
    engine_status = 200;
    b->engine = http_client_new_loopback(&b->api.loop, handle_query, NULL, NULL);
    put_autoscaler(b, "spare", "100");
    put_workload(b, "spare", 4, 4);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 9);
    put_budgets(b, text);
}

// The last one has the whole load, so that the autoscaler still wants four.
static void end_pods_of_spare(struct bench *b)
{
    const char *values[] = {"80"};
    fake_answer(&b->api, CUSTOM "/v1beta2/namespaces/shop/pods/%2A/load?labelSelector=app=spare",
                200, fake_values("spare", values, 1));
    for (int i = 1; i < 4; i++) {
        GS_AUTO_FREE char *key = gs_format("shop/spare-%d", i);
        fake_delete(&b->api, b->api.pods, key);
    }
}

static char *text_of_idle(const struct bench *b, const char *name)
{
    CODEC_AUTO_JSON json_t *budget = budget_of(b, name);
    const json_t *first = json_array_get(json_object_get(budget, "budgets"), 0);
    return gs_strdup(codec_json_str(first, "idle", NULL));
}

static bool has_idle_text(void *arg)
{
    const struct bench *b = arg;
    GS_AUTO_FREE char *text = text_of_idle(b, b->name);
    return text && strstr(text, b->text);
}

static void assert_measured(struct bench *b, const char *name, const char *text)
{
    b->name = name;
    b->text = text;
    if (!fake_wait(&b->api, has_idle_text, b))
        fail_msg("%s was not measured: \"%s\"", name, text);
}

static void test_idle_gpus_are_lent_and_given_back(void **state)
{
    struct bench *b = *state;
    GS_AUTO_BUF struct gs_buf metrics = {0};
    put_all(b, "enforce");
    start(b);
    assert_reaches(b, "spare", 1);
    assert_explains(b, "spare", "its GPUs are idle, and others want them");
    assert_measured(b, "spare", "idle for 5m: no busy process");
    assert_int_equal(replicas_of(b, "chat"), 2); // until the pods have ended
    end_pods_of_spare(b);
    assert_reaches(b, "chat", 5);
    hpa_controller_write_metrics(b->controller, &metrics);
    assert_non_null(strstr(metrics.data, "gpuscale_budget_moved_gpus_total{budget=\"gpus\",from="
                                         "\"shop/spare\",to=\"shop/chat\",idle=\"true\"} 0\n"));
    engine_util = 50;
    assert_reaches(b, "chat", 2);
    assert_reaches(b, "spare", 4);
}

static void assert_keeps(struct bench *b, const char *why)
{
    start(b);
    assert_measured(b, "spare", why);
    evaluate(b, "spare");
    assert_int_equal(replicas_of(b, "spare"), 4);
}

static void test_a_gap_in_the_samples_is_not_idle(void **state)
{
    put_all(*state, "enforce");
    engine_minutes = 5;
    assert_keeps(*state, "has no samples of the whole time");
}

static void test_an_engine_that_fails_means_that_nothing_is_idle(void **state)
{
    put_all(*state, "enforce");
    engine_status = 503;
    assert_keeps(*state, "its use is unknown: HTTP status 503");
}

static void test_a_dry_run_says_what_would_be_lent(void **state)
{
    struct bench *b = *state;
    put_all(b, "dryRun");
    start(b);
    assert_explains(b, "spare", "its GPUs are idle, and others want them");
    assert_int_equal(replicas_of(b, "spare"), 4);
}

static void test_nothing_is_measured_while_all_have_what_they_want(void **state)
{
    struct bench *b = *state;
    put_all(b, "enforce");
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 60, idleAfter: 5m}]\n");
    start(b);
    evaluate(b, "spare");
    evaluate(b, "spare");
    GS_AUTO_FREE char *text = text_of_idle(b, "spare");
    assert_null(text);
}

// --- the query ---

static void test_the_query_is_valid_and_names_the_pods(void **state)
{
    static const char *const pods[] = {"web-1", "web.2"};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct promql_expr *parsed = NULL;
    (void)state;
    hpa_budget_idle_expression("shop", pods, 2, 300000, &text);
    struct gs_error *err = promql_parse(gs_buf_slice(&text), &parsed);
    assert_null(err);
    promql_expr_free(parsed);
    assert_non_null(strstr(text.data, "{namespace=\"shop\",pod=~\"web-1|web\\\\.2\"}"));
    assert_non_null(strstr(text.data, "exported_pod=~"));
    assert_non_null(strstr(text.data, "PodName=~"));
}

static void test_rows_of_the_response_that_are_absent_stay_unknown(void **state)
{
    struct budget_idle_pod pods[] = {{.name = "a", .gpus = 1}, {.name = "b", .gpus = 1}};
    CODEC_AUTO_JSON json_t *response =
        json_loads("{\"data\":{\"result\":["
                   "{\"metric\":{\"name\":\"a\",\"of\":\"0\"},\"value\":[1,\"0\"]},"
                   "{\"metric\":{\"name\":\"a\",\"of\":\"6\"},\"value\":[1,\"7\"]},"
                   "{\"metric\":{\"name\":\"b\",\"of\":\"8\"},\"value\":[1,\"3\"]},"
                   "{\"metric\":{\"name\":\"b\",\"of\":\"9\"},\"value\":[1,\"3\"]},"
                   "{\"metric\":{\"name\":\"c\",\"of\":\"0\"},\"value\":[1,\"3\"]},"
                   "{\"value\":[]}]}}",
                   0, NULL);
    (void)state;
    assert_true(hpa_budget_idle_read(response, pods, 2));
    assert_true(pods[0].util == 0 && pods[0].minutes == 7 && isnan(pods[0].process));
    assert_true(pods[1].process == 3 && isnan(pods[1].util));
    assert_false(hpa_budget_idle_read(NULL, pods, 2));
    assert_true(isnan(pods[0].util));
}

static void test_of_two_measurements_of_a_pod_the_busier_one_counts(void **state)
{
    static const char *const first[] = {"60", "5", "3", "1"}, *const second[] = {"0", "0", "9",
                                                                                 "2"};
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct budget_idle_pod pod = {.name = "a", .gpus = 1};
        CODEC_AUTO_JSON json_t *result = json_array();
        for (int row = 0; row < 8; row++) {
            const char *const *values = (row < 4) != swapped ? first : second;
            json_array_append_new(result, json_pack("{s:{s:s, s:o}, s:[i, s]}", "metric", "name",
                                                    "a", "of", codec_json_strf("%d", row), "value",
                                                    1, values[row % 4]));
        }
        CODEC_AUTO_JSON json_t *response = json_pack("{s:{s:O}}", "data", "result", result);
        assert_true(hpa_budget_idle_read(response, &pod, 1));
        assert_true(pod.util == 60 && pod.memory == 5 && pod.minutes == 3 && pod.measured == 1);
    }
}

static void test_an_old_measurement_is_not_shown(void **state)
{
    char text[] = "idle for 5m";
    struct hpa_budget_workload w = {
        .idle = 1, .idle_text = text, .idle_mono_ns = gs_mono_ns() - 110 * GS_NS_PER_SEC};
    (void)state;
    assert_true(hpa_budget_is_idle(&w, 0));
    assert_string_equal(hpa_budget_idle_text(&w), text);
    w.idle_mono_ns -= 20 * GS_NS_PER_SEC;
    assert_false(hpa_budget_is_idle(&w, 0));
    assert_null(hpa_budget_idle_text(&w));
}

// --- counters ---

static double counter_named(const struct bench *b, const char *autoscaler, const char *kind)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    GS_AUTO_FREE char *name =
        gs_format("\ngpuscale_budget_gpu_seconds_total{budget=\"gpus\",namespace=\"shop\","
                  "horizontalpodautoscaler=\"%s\",kind=\"%s\"} ",
                  autoscaler, kind);
    hpa_controller_write_metrics(b->controller, &out);
    const char *at = strstr(out.data, name);
    return at ? strtod(at + strlen(name), NULL) : NAN;
}

static double counter_of(const struct bench *b, const char *kind)
{
    return counter_named(b, "chat", kind);
}

static double counted_before;

static bool has_counted(void *arg)
{
    return counter_of(arg, "granted") > counted_before + 0.05;
}

static void test_counters_of_what_was_granted_and_refused_add_up_to_what_was_wanted(void **state)
{
    static const char *const kinds[] = {"granted", "refused", "used", "over"};
    struct bench *b = *state;
    double before[4], added[4];
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 4, 6);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 4}]\n");
    start(b);
    assert_explains(b, "chat", "4 of 6 wanted replicas");
    for (size_t i = 0; i < 4; i++)
        before[i] = counter_of(b, kinds[i]);
    counted_before = isnan(before[0]) ? 0 : before[0];
    assert_true(fake_wait(&b->api, has_counted, b));
    for (size_t i = 0; i < 4; i++)
        added[i] = counter_of(b, kinds[i]) - (isnan(before[i]) ? 0 : before[i]);
    assert_true(fabs(added[0] - 2 * added[1]) < 0.01); // four of six
    assert_true(fabs(added[0] - added[2]) < 0.01);
    assert_true(added[3] == 0);
}

static bool has_counted_other(void *arg)
{
    return counter_named(arg, "other", "granted") > 0.1;
}

// While nothing is scarce, all replicas up to its maxReplicas are reserved for it.
static void test_another_autoscaler_used_the_gpus_of_its_pods(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "other", "1");
    put_workload(b, "other", 2, 2);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 100}]\n");
    start(b);
    assert_true(fake_wait(&b->api, has_counted_other, b));
    double granted = counter_named(b, "other", "granted");
    assert_true(fabs(counter_named(b, "other", "used") - granted) < 0.01);
    assert_true(counter_named(b, "other", "over") == 0);
}

static void use_policy(struct hpa_budgets *b, const char *text)
{
    budget_policy_finish(&b->policy);
    struct gs_error *err = budget_policy_parse(gs_slice_of(text), "b", &b->policy);
    assert_null(err);
    hpa_budget_usage_prune(b);
}

static void test_counters_of_budgets_that_were_renamed_are_forgotten(void **state)
{
    struct hpa_budgets b = {.workloads = gs_hmap_new(NULL), .uses = gs_hmap_new(free)};
    GS_AUTO_BUF struct gs_buf metrics = {0};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        b.memories[i] = budget_memory_new();
    use_policy(&b, "budgets: [{name: one, gpus: 1}, {name: two, gpus: 1}]\n");
    hpa_budget_usage_write(&b, &metrics);
    assert_int_equal(gs_hmap_len(b.uses), 2);
    use_policy(&b, "budgets: [{name: two, gpus: 1}]\n");
    assert_int_equal(gs_hmap_len(b.uses), 1);
    budget_policy_finish(&b.policy);
    for (size_t i = 0; i < 2; i++)
        budget_memory_free(b.memories[i]);
    gs_hmap_free(b.uses);
    gs_hmap_free(b.workloads);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_idle_gpus_are_lent_and_given_back),
        TEST(test_a_gap_in_the_samples_is_not_idle),
        TEST(test_an_engine_that_fails_means_that_nothing_is_idle),
        TEST(test_a_dry_run_says_what_would_be_lent),
        TEST(test_nothing_is_measured_while_all_have_what_they_want),
        cmocka_unit_test(test_the_query_is_valid_and_names_the_pods),
        cmocka_unit_test(test_rows_of_the_response_that_are_absent_stay_unknown),
        cmocka_unit_test(test_of_two_measurements_of_a_pod_the_busier_one_counts),
        cmocka_unit_test(test_an_old_measurement_is_not_shown),
        cmocka_unit_test(test_counters_of_budgets_that_were_renamed_are_forgotten),
        TEST(test_another_autoscaler_used_the_gpus_of_its_pods),
        TEST(test_counters_of_what_was_granted_and_refused_add_up_to_what_was_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
