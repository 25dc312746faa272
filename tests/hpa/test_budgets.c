// SPDX-License-Identifier: Apache-2.0
// GPU budgets in the controller: two autoscalers whose pods have GPUs, and a ConfigMap.
#include "hpa/convert.h"
#include "hpa_controller/controller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define TARGETS "/apis/apps/v1/namespaces/shop/deployments/"
#define CUSTOM  "/apis/custom.metrics.k8s.io"
#define MAPS    "/api/v1/namespaces/ops/configmaps?fieldSelector=metadata.name=gpuscale-budgets"

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    const char *name, *text;
    int want;
    int version; // of the ConfigMap
    size_t reads;
};

// --- objects ---

static void put_autoscaler(struct bench *b, const char *name, const char *priority)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"namespace\":\"shop\",\"name\":\"%s\",\"uid\":\"%s\",\"annotations\":{"
        "\"gpuscale.dev/priority\":\"%s\"}},\"spec\":{\"scaleTargetRef\":{\"apiVersion\":"
        "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"%s\"},\"minReplicas\":1,\"maxReplicas\":"
        "10,\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"load\"},\"target\":{"
        "\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}],\"behavior\":{\"scaleDown\":{"
        "\"stabilizationWindowSeconds\":0}}}}",
        name, name, priority, name);
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    hpa_default(object);
    fake_put(&b->api, b->api.hpas, object);
}

static void put_pod(struct bench *b, const char *app, int i)
{
    fake_put(&b->api, b->api.pods,
             json_pack("{s:s, s:s, s:{s:o, s:s, s:{s:s}}, s:{s:s, s:[{s:s, s:{s:{s:s}}}]}, s:{s:s, "
                       "s:s, s:[{s:s, s:s, s:s}]}}",
                       "apiVersion", "v1", "kind", "Pod", "metadata", "name",
                       codec_json_strf("%s-%d", app, i), "namespace", "shop", "labels", "app", app,
                       "spec", "nodeName", "n", "containers", "name", "app", "resources", "limits",
                       "nvidia.com/gpu", "1", "status", "phase", "Running", "startTime",
                       "2024-01-01T00:00:00Z", "conditions", "type", "Ready", "status", "True",
                       "lastTransitionTime", "2024-01-01T00:00:10Z"));
}

// Pods with a load that wants this number of replicas.
static void put_workload(struct bench *b, const char *name, int replicas, int wanted)
{
    GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", name);
    GS_AUTO_FREE char *selector = gs_format("app=%s", name);
    GS_AUTO_FREE char *target = gs_format(TARGETS "%s", name);
    GS_AUTO_FREE char *metric =
        gs_format(CUSTOM "/v1beta2/namespaces/shop/pods/%%2A/load?labelSelector=app=%s", name);
    GS_AUTO_FREE char *value = gs_format("%dm", 20000 * wanted / replicas);
    const char *values[16];
    for (int i = 0; i < replicas; i++) {
        put_pod(b, name, i);
        values[i] = value;
    }
    fake_scale(&b->api, scale, replicas, selector);
    fake_answer(&b->api, metric, 200, fake_values(name, values, (size_t)replicas));
    fake_answer(&b->api, target, 200,
                json_pack("{s:{s:{s:{s:{s:s}}, s:{s:[{s:{s:{s:s}}}]}}}}", "spec", "template",
                          "metadata", "labels", "app", name, "spec", "containers", "resources",
                          "limits", "nvidia.com/gpu", "1"));
}

// Each call is a change: the text is read when the cache lists again.
static void put_budgets(struct bench *b, const char *text)
{
    fake_answer(&b->api, MAPS, 200,
                json_pack("{s:s, s:{s:s}, s:[{s:{s:s, s:s, s:o}, s:{s:s}}]}", "kind",
                          "ConfigMapList", "metadata", "resourceVersion", "1", "items", "metadata",
                          "namespace", "ops", "name", "gpuscale-budgets", "resourceVersion",
                          codec_json_strf("%d", ++b->version), "data", "budgets.yaml", text));
}

// --- the controller ---

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_answer(&b->api, CUSTOM, 200,
                json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "name",
                          "custom.metrics.k8s.io", "preferredVersion", "version", "v1beta2",
                          "versions", "version", "v1beta2"));
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    *state = b;
    return 0;
}

// Another controller evaluates those whose name begins with "other".
static bool is_wanted(void *arg, const json_t *hpa)
{
    (void)arg;
    return !gs_starts(kube_name(hpa), "other");
}

static void start(struct bench *b)
{
    const struct hpa_controller_config cfg = {.sync_period_ms = 20,
                                              .decide = hpa_config_default(),
                                              .wanted = is_wanted,
                                              .budgets_ns = "ops"};
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
    hpa_controller_start(b->controller);
    kube_cache_start(b->pods);
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_controller_free(b->controller);
    kube_cache_free(b->pods);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static int replicas_of(const struct bench *b, const char *name)
{
    GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", name);
    return fake_replicas(&b->api, scale);
}

static bool has_replicas(void *arg)
{
    const struct bench *b = arg;
    return replicas_of(b, b->name) == b->want;
}

static void assert_reaches(struct bench *b, const char *name, int replicas)
{
    b->name = name;
    b->want = replicas;
    if (!fake_wait(&b->api, has_replicas, b))
        fail_msg("%s has %d replicas, want %d", name, replicas_of(b, name), replicas);
}

static json_t *budget_of(const struct bench *b, const char *name)
{
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", name);
    return json_incref(json_object_get(history, "budget"));
}

static bool has_text(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *budget = budget_of(b, b->name);
    const char *text = codec_json_str(budget, "text", NULL);
    return text && strstr(text, b->text);
}

static bool has_budget(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *budget = budget_of(b, b->name);
    const json_t *first = json_array_get(json_object_get(budget, "budgets"), 0);
    return gs_streq(codec_json_str(first, "name", NULL), b->text);
}

static void assert_is_in(struct bench *b, const char *name, const char *budget)
{
    b->name = name;
    b->text = budget;
    assert_true(fake_wait(&b->api, has_budget, b));
}

static void assert_explains(struct bench *b, const char *name, const char *text)
{
    b->name = name;
    b->text = text;
    if (!fake_wait(&b->api, has_text, b))
        fail_msg("%s has no \"%s\"", name, text);
}

// The default behavior adds at most four pods to two.
#define BUDGET "budgets: [{name: gpus, namespaces: [shop], gpus: 4}]\n"

static void test_the_result_is_limited_to_the_share(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_reaches(b, "chat", 4);
    assert_explains(b, "chat", "GPU budget gpus: 4 of ");
}

static void test_a_low_priority_gives_gpus_to_a_high_one_when_its_pods_have_ended(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "batch", "1");
    put_workload(b, "batch", 5, 8);
    put_autoscaler(b, "chat", "100");
    put_workload(b, "chat", 1, 4);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 6}]\n");
    start(b);
    assert_reaches(b, "batch", 2);
    assert_int_equal(replicas_of(b, "chat"), 1);
    assert_explains(b, "batch", "taken for shop/chat");
    for (int i = 2; i < 5; i++) {
        GS_AUTO_FREE char *key = gs_format("shop/batch-%d", i);
        assert_int_equal(replicas_of(b, "chat"), i - 1);
        fake_delete(&b->api, b->api.pods, key);
        assert_reaches(b, "chat", i);
    }
}

static void test_a_dry_run_limits_nothing_and_says_what_it_would_do(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, BUDGET);
    start(b);
    assert_reaches(b, "chat", 6);
    assert_explains(b, "chat", "GPU budget gpus: 4 of ");
    CODEC_AUTO_JSON json_t *budget = budget_of(b, "chat");
    assert_string_equal(codec_json_str(budget, "mode", NULL), "dryRun");
    assert_false(codec_json_bool(budget, true, "applied", NULL));
}

static void test_pods_without_an_autoscaler_count(void **state)
{
    struct bench *b = *state;
    put_pod(b, "notebook", 0);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_reaches(b, "chat", 3);
    assert_explains(b, "chat", "pods without an autoscaler have 1 of 4 GPUs");
}

static void test_a_workload_outside_of_all_budgets_is_not_limited(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, namespaces: [other], gpus: 0}]\n");
    start(b);
    assert_reaches(b, "chat", 6);
    CODEC_AUTO_JSON json_t *budget = budget_of(b, "chat");
    assert_null(budget);
}

// After a restart, no earlier budgets are in force.
static void test_wrong_budgets_are_explained_if_there_were_none_before(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: }]\n");
    start(b);
    assert_reaches(b, "chat", 6);
    CODEC_AUTO_JSON json_t *budget = budget_of(b, "chat");
    const char *error = codec_json_str(budget, "error", NULL);
    assert_true(error && strstr(error, "gpus has no value"));
    assert_int_equal(json_array_size(json_object_get(budget, "budgets")), 0);
}

static void test_a_wrong_priority_is_an_event(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "high");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_reaches(b, "chat", 4);
    assert_true(fake_has_event(&b->api, "InvalidAnnotation", "gpuscale.dev/priority: \"high\""));
}

static void test_metrics_have_the_budget_and_the_shares(void **state)
{
    struct bench *b = *state;
    GS_AUTO_BUF struct gs_buf out = {0};
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_reaches(b, "chat", 4);
    hpa_controller_write_metrics(b->controller, &out);
    assert_non_null(strstr(out.data, "\ngpuscale_budget_gpus{budget=\"gpus\"} 4\n"));
    assert_non_null(strstr(out.data, "\ngpuscale_budget_used_gpus{budget=\"gpus\"} 4\n"));
    assert_non_null(strstr(out.data, "gpuscale_budget_share_replicas{budget=\"gpus\",namespace="
                                     "\"shop\",horizontalpodautoscaler=\"chat\"} 4\n"));
}

static bool has_log(void *arg)
{
    const struct bench *b = arg;
    return fake_count_log(&b->api, b->text) >= b->reads;
}

static bool is_evaluated(void *arg)
{
    const struct bench *b = arg;
    GS_AUTO_FREE char *scale = gs_format("GET " TARGETS "%s/scale", b->name);
    return fake_count_log(&b->api, scale) >= b->reads;
}

// The autoscaler is evaluated several times from now on.
static void evaluate(struct bench *b, const char *name)
{
    GS_AUTO_FREE char *scale = gs_format("GET " TARGETS "%s/scale", name);
    b->name = name;
    b->reads = fake_count_log(&b->api, scale) + 4;
    assert_true(fake_wait(&b->api, is_evaluated, b));
}

// It is evaluated once.
static void put_slow_autoscaler(struct bench *b, const char *name)
{
    put_autoscaler(b, name, "1");
    GS_AUTO_FREE char *key = gs_format("shop/%s", name);
    codec_json_set(json_object_get(b->api.hpas, key), json_string("1h"), "metadata", "annotations",
                   "gpuscale.dev/sync-period", NULL);
}

static void test_workloads_do_not_count_in_a_budget_that_takes_the_place_of_theirs(void **state)
{
    struct bench *b = *state;
    put_slow_autoscaler(b, "batch");
    put_workload(b, "batch", 5, 5);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 4, 4);
    put_budgets(b, "mode: enforce\nbudgets: [{name: one, selector: app=batch, gpus: 5}]\n");
    start(b);
    assert_is_in(b, "batch", "one");
    put_budgets(b, "mode: enforce\nbudgets: [{name: two, selector: app=chat, gpus: 4}]\n");
    assert_is_in(b, "chat", "two");
    evaluate(b, "chat");
    assert_int_equal(replicas_of(b, "chat"), 4);
}

static void delete_target(struct bench *b, const char *name, int replicas)
{
    GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", name);
    json_object_del(b->api.scales, scale);
    for (int i = 0; i < replicas; i++) {
        GS_AUTO_FREE char *key = gs_format("shop/%s-%d", name, i);
        fake_delete(&b->api, b->api.pods, key);
    }
}

static void test_an_autoscaler_whose_target_is_gone_has_no_gpus(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "batch", "1");
    put_workload(b, "batch", 3, 3);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 1, 4);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_reaches(b, "batch", 2);
    delete_target(b, "batch", 3);
    assert_reaches(b, "chat", 4);
}

static void test_a_list_of_budgets_that_fails_once_does_not_mean_that_there_are_none(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    fake_answer(&b->api, MAPS, 500, json_object());
    start(b);
    b->text = "GET " MAPS;
    b->reads = 2;
    assert_true(fake_wait(&b->api, has_log, b));
    assert_int_equal(replicas_of(b, "chat"), 2);
    put_budgets(b, "mode: enforce\n" BUDGET);
    assert_reaches(b, "chat", 4);
}

static void test_budgets_that_may_not_be_read_limit_nothing(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    fake_answer(&b->api, MAPS, 403, json_object());
    start(b);
    assert_reaches(b, "chat", 6);
}

// --- autoscalers of another controller ---

#define OTHER "shop/other"

static int64_t max_of(const struct bench *b)
{
    return codec_json_int(json_object_get(b->api.hpas, OTHER), 0, "spec", "maxReplicas", NULL);
}

static bool has_max(void *arg)
{
    const struct bench *b = arg;
    return max_of(b) == b->want;
}

static void assert_max(struct bench *b, int max)
{
    b->want = max;
    if (!fake_wait(&b->api, has_max, b))
        fail_msg("maxReplicas is %d, want %d", (int)max_of(b), max);
}

static const char *record_of(const struct bench *b)
{
    return kube_annotation(json_object_get(b->api.hpas, OTHER), "gpuscale.dev/budget");
}

static bool has_no_record(void *arg)
{
    return !record_of(arg);
}

// It has 3 replicas and wants more than maxReplicas allows.
static void put_other(struct bench *b)
{
    put_autoscaler(b, "other", "1");
    put_workload(b, "other", 3, 9);
    codec_json_set(
        json_object_get(b->api.hpas, OTHER),
        json_pack("{s:i, s:[{s:s, s:{s:{s:s}, s:{s:s}}}], s:[{s:s, s:s, s:s}, {s:s, s:s}]}",
                  "desiredReplicas", 3, "currentMetrics", "type", "Pods", "pods", "metric", "name",
                  "load", "current", "averageValue", "60", "conditions", "type", "ScalingLimited",
                  "status", "True", "reason", "TooManyReplicas", "type", "ScalingActive", "status",
                  "True"),
        "status", NULL);
}

static void on_released(void *arg)
{
    ((struct bench *)arg)->want = 0;
}

static bool is_released(void *arg)
{
    return ((struct bench *)arg)->want == 0;
}

static void
test_max_replicas_of_another_controller_are_lowered_recorded_and_given_back(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_max(b, 4);
    assert_string_equal(record_of(b), "maxReplicas=10,set=4");
    hpa_controller_release(b->controller, on_released, b);
    assert_true(fake_wait(&b->api, is_released, b));
    assert_int_equal(max_of(b), 10);
    assert_null(record_of(b));
}

static void test_the_next_start_gives_max_replicas_back_without_a_budget(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_budgets(b, BUDGET); // a dry run
    json_t *hpa = json_object_get(b->api.hpas, OTHER);
    codec_json_set(hpa, json_string("maxReplicas=10,set=3"), "metadata", "annotations",
                   "gpuscale.dev/budget", NULL);
    codec_json_set(hpa, json_integer(3), "spec", "maxReplicas", NULL);
    start(b);
    assert_max(b, 10);
    assert_null(record_of(b));
}

static void test_max_replicas_that_somebody_sets_later_are_not_changed_back(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_budgets(b, BUDGET);
    json_t *hpa = json_object_get(b->api.hpas, OTHER);
    codec_json_set(hpa, json_string("maxReplicas=10,set=3"), "metadata", "annotations",
                   "gpuscale.dev/budget", NULL);
    codec_json_set(hpa, json_integer(5), "spec", "maxReplicas", NULL);
    start(b);
    assert_true(fake_wait(&b->api, has_no_record, b));
    assert_int_equal(max_of(b), 5);
}

// Its desiredReplicas are then 0, or what was wanted long ago.
static void test_an_autoscaler_whose_metric_fails_keeps_its_share_of_the_replicas(void **state)
{
    struct bench *b = *state;
    put_other(b);
    codec_json_set(json_object_get(b->api.hpas, OTHER), json_pack("{s:i}", "desiredReplicas", 0),
                   "status", NULL);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_max(b, 3);
}

static void test_a_limit_is_removed_when_the_gpus_suffice_again(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 10}]\n");
    for (int i = 0; i < 3; i++)
        put_pod(b, "notebook", i);
    start(b);
    assert_max(b, 7);
    for (int i = 0; i < 3; i++) {
        GS_AUTO_FREE char *key = gs_format("shop/notebook-%d", i);
        fake_delete(&b->api, b->api.pods, key);
    }
    assert_max(b, 10);
    assert_null(record_of(b));
}

static void test_another_autoscaler_whose_target_is_gone_has_no_gpus(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 1, 4);
    put_budgets(b, "mode: enforce\n" BUDGET);
    start(b);
    assert_explains(b, "chat", "shop/other has 3 of 4 GPUs");
    delete_target(b, "other", 3);
    assert_reaches(b, "chat", 4);
}

// The release takes as long as the other autoscalers need.
static void test_own_autoscalers_stay_limited_while_the_others_are_released(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 6}]\n");
    start(b);
    assert_reaches(b, "chat", 3);
    assert_max(b, 3);
    evaluate(b, "chat"); // a round of visits has ended, and the timer of the next one runs
    b->api.hold_prefix = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/other";
    hpa_controller_release(b->controller, on_released, b);
    evaluate(b, "chat");
    assert_int_equal(replicas_of(b, "chat"), 3);
    assert_int_equal(fake_n_held(&b->api), 1); // one visit at a time
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_result_is_limited_to_the_share),
        TEST(test_a_low_priority_gives_gpus_to_a_high_one_when_its_pods_have_ended),
        TEST(test_a_dry_run_limits_nothing_and_says_what_it_would_do),
        TEST(test_pods_without_an_autoscaler_count),
        TEST(test_a_workload_outside_of_all_budgets_is_not_limited),
        TEST(test_wrong_budgets_are_explained_if_there_were_none_before),
        TEST(test_a_wrong_priority_is_an_event),
        TEST(test_metrics_have_the_budget_and_the_shares),
        TEST(test_workloads_do_not_count_in_a_budget_that_takes_the_place_of_theirs),
        TEST(test_an_autoscaler_whose_target_is_gone_has_no_gpus),
        TEST(test_a_list_of_budgets_that_fails_once_does_not_mean_that_there_are_none),
        TEST(test_budgets_that_may_not_be_read_limit_nothing),
        TEST(test_max_replicas_of_another_controller_are_lowered_recorded_and_given_back),
        TEST(test_the_next_start_gives_max_replicas_back_without_a_budget),
        TEST(test_max_replicas_that_somebody_sets_later_are_not_changed_back),
        TEST(test_an_autoscaler_whose_metric_fails_keeps_its_share_of_the_replicas),
        TEST(test_a_limit_is_removed_when_the_gpus_suffice_again),
        TEST(test_another_autoscaler_whose_target_is_gone_has_no_gpus),
        TEST(test_own_autoscalers_stay_limited_while_the_others_are_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
