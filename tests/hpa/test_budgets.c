// SPDX-License-Identifier: Apache-2.0
// GPU budgets in the controller: two autoscalers whose pods have GPUs, and a ConfigMap.
#include "budget_bench.h"

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

// The label alone would take any pod out of its budget.
static void test_only_placeholders_of_low_priority_count_in_no_budget(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < 2; i++) {
        put_pod(b, "idle", i);
        GS_AUTO_FREE char *key = gs_format("shop/idle-%d", i);
        json_t *pod = json_deep_copy(json_object_get(b->api.pods, key));
        codec_json_set_str(codec_json_get(pod, "metadata", "labels", NULL),
                           "gpuscale.dev/capacity-of", "chat");
        if (i == 0)
            codec_json_set_str(json_object_get(pod, "spec"), "priorityClassName",
                               "gpuscale-placeholder");
        fake_put(&b->api, b->api.pods, pod);
    }
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

static json_t *moves_of(const struct bench *b, const char *name)
{
    CODEC_AUTO_JSON json_t *budget = budget_of(b, name);
    const json_t *first = json_array_get(json_object_get(budget, "budgets"), 0);
    return json_incref(json_object_get(first, "moves"));
}

static void test_a_scale_that_may_not_be_written_is_no_move(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "batch", "1");
    put_workload(b, "batch", 5, 8);
    put_autoscaler(b, "chat", "100");
    put_workload(b, "chat", 1, 4);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 6}]\n");
    b->api.scale_refusals = 1000000;
    start(b);
    assert_explains(b, "batch", "GPU budget gpus: ");
    evaluate(b, "batch");
    CODEC_AUTO_JSON json_t *none = moves_of(b, "batch");
    assert_int_equal(json_array_size(none), 0);
    b->api.scale_refusals = 0;
    assert_reaches(b, "batch", 2);
    evaluate(b, "batch");
    CODEC_AUTO_JSON json_t *one = moves_of(b, "batch");
    assert_int_equal(json_array_size(one), 1);
}

// Of two selectors with the same first label, and of one without an equality.
static void test_pods_belong_to_the_workload_whose_whole_selector_matches(void **state)
{
    static const char *const selectors[] = {"app=batch,tier=one", "app=batch,tier=two",
                                            "tier in (three)"};
    static const char *const names[] = {"one", "two", "three"};
    struct bench *b = *state;
    for (size_t i = 0; i < 3; i++) {
        GS_AUTO_FREE char *scale = gs_format(TARGETS "%s/scale", names[i]);
        GS_AUTO_FREE char *key = gs_format("shop/batch-%zu", i);
        put_autoscaler(b, names[i], "1");
        put_workload(b, names[i], 1, 1);
        fake_scale(&b->api, scale, 1, selectors[i]);
        put_pod(b, "batch", (int)i);
        codec_json_set(json_object_get(b->api.pods, key), json_string(names[i]), "metadata",
                       "labels", "tier", NULL);
    }
    put_budgets(b, "budgets: [{name: gpus, gpus: 9}]\n");
    start(b);
    for (size_t i = 0; i < 3; i++) {
        assert_is_in(b, names[i], "gpus");
        evaluate(b, names[i]);
    }
    // The pods that put_workload() adds belong to nobody now.
    CODEC_AUTO_JSON json_t *budget = budget_of(b, "three");
    const json_t *first = json_array_get(json_object_get(budget, "budgets"), 0);
    assert_int_equal(codec_json_int(first, -1, "others", NULL), 3);
    assert_int_equal(codec_json_int(first, -1, "used", NULL), 6);
}

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

// --- two processes ---

#define LEASE "/apis/coordination.k8s.io/v1/namespaces/ops/leases/gpuscale-budgets"

static void put_lease(struct bench *b, int renewed)
{
    fake_answer(&b->api, LEASE, 200,
                json_pack("{s:{s:s, s:s, s:s}, s:{s:s, s:i, s:o}}", "metadata", "namespace", "ops",
                          "name", "gpuscale-budgets", "resourceVersion", "1", "spec",
                          "holderIdentity", "first", "leaseDurationSeconds", 3600, "renewTime",
                          codec_json_strf("2024-01-01T00:00:%02dZ", renewed)));
}

static bool has_read_lease(void *arg)
{
    return fake_count_log(&((struct bench *)arg)->api, "GET " LEASE) > 0;
}

static bool is_enforced_by_first(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *budget = budget_of(b, "chat");
    return gs_streq(codec_json_str(budget, "enforcedBy", NULL), "first");
}

// A holder that has ended does not renew its lease.
static void test_only_one_of_two_processes_enforces_the_budgets(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_other(b);
    put_budgets(b, "mode: enforce\n" BUDGET);
    put_lease(b, 1);
    start(b);
    assert_true(fake_wait(&b->api, has_read_lease, b));
    evaluate(b, "chat");
    assert_true(replicas_of(b, "chat") <= 4); // whether the holder lives is not known yet
    put_lease(b, 2);
    assert_true(fake_wait(&b->api, is_enforced_by_first, b));
    assert_reaches(b, "chat", 6);
    assert_int_equal(max_of(b), 10);
    evaluate(b, "chat");
    GS_AUTO_BUF struct gs_buf metrics = {0};
    hpa_controller_write_metrics(b->controller, &metrics);
    assert_non_null(
        strstr(metrics.data, "horizontalpodautoscaler=\"chat\",kind=\"granted\"} 0.000\n"));
}

// Another process may hold the Lease.
static void test_a_lease_that_cannot_be_read_now_limits_no_other_autoscaler(void **state)
{
    struct bench *b = *state;
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 6);
    put_other(b);
    put_budgets(b, "mode: enforce\n" BUDGET);
    fake_answer(&b->api, LEASE, 503, json_object());
    start(b);
    assert_true(fake_wait(&b->api, has_read_lease, b));
    evaluate(b, "chat");
    evaluate(b, "chat");
    assert_int_equal(max_of(b), 10);
    assert_true(replicas_of(b, "chat") <= 4);
    fake_answer(&b->api, LEASE, 403, json_object());
    assert_max(b, 2);
}

static void test_limits_of_the_budgets_of_another_namespace_stay(void **state)
{
    struct bench *b = *state;
    put_other(b);
    json_t *hpa = json_object_get(b->api.hpas, OTHER);
    codec_json_set(hpa, json_string("maxReplicas=10,set=3,by=theirs"), "metadata", "annotations",
                   "gpuscale.dev/budget", NULL);
    codec_json_set(hpa, json_integer(3), "spec", "maxReplicas", NULL);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 1, 1);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, gpus: 40}]\n");
    start(b);
    evaluate(b, "chat");
    evaluate(b, "chat");
    assert_int_equal(max_of(b), 3);
    assert_string_equal(record_of(b), "maxReplicas=10,set=3,by=theirs");
}

// --- autoscalers of another controller ---

static void test_scales_outside_of_all_budgets_are_not_read(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 2, 2);
    put_budgets(b, "mode: enforce\nbudgets: [{name: gpus, namespaces: [elsewhere], gpus: 4}]\n");
    start(b);
    evaluate(b, "chat");
    evaluate(b, "chat");
    assert_int_equal(fake_count_log(&b->api, "GET " TARGETS "other/scale"), 0);
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
    assert_string_equal(record_of(b), "maxReplicas=10,set=4,by=ops");
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
static void put_record(struct bench *b, const char *record, int max)
{
    json_t *hpa = json_deep_copy(json_object_get(b->api.hpas, OTHER));
    codec_json_set(hpa, json_string(record), "metadata", "annotations", "gpuscale.dev/budget",
                   NULL);
    codec_json_set(hpa, json_integer(max), "spec", "maxReplicas", NULL);
    fake_put(&b->api, b->api.hpas, hpa);
}

static bool is_held(void *arg)
{
    return fake_n_held(&((struct bench *)arg)->api) > 0;
}

static void test_a_record_that_is_written_while_an_old_one_is_removed_stays(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_budgets(b, BUDGET);
    put_record(b, "maxReplicas=10,set=3", 5);
    b->api.hold_prefix = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/other";
    start(b);
    assert_true(fake_wait(&b->api, is_held, b));
    put_record(b, "maxReplicas=10,set=4", 4);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    assert_max(b, 10); // a dry run gives it back
}

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

static bool other_is_member(const struct bench *b)
{
    GS_AUTO_BUF struct gs_buf metrics = {0};
    hpa_controller_write_metrics(b->controller, &metrics);
    return strstr(metrics.data, "horizontalpodautoscaler=\"other\"") != NULL;
}

static bool other_is_gone(void *arg)
{
    return !other_is_member(arg);
}

static void test_an_autoscaler_that_is_deleted_during_its_visit_is_no_member(void **state)
{
    struct bench *b = *state;
    put_other(b);
    put_autoscaler(b, "chat", "1");
    put_workload(b, "chat", 1, 4);
    put_budgets(b, "mode: dryRun\n" BUDGET);
    start(b);
    assert_explains(b, "chat", "shop/other has 3 of 4 GPUs");
    b->api.hold_prefix = TARGETS "other/scale";
    assert_true(fake_wait(&b->api, is_held, b));
    fake_delete(&b->api, b->api.hpas, OTHER);
    assert_true(fake_wait(&b->api, other_is_gone, b));
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    evaluate(b, "chat");
    assert_false(other_is_member(b));
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
        TEST(test_only_placeholders_of_low_priority_count_in_no_budget),
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
        TEST(test_a_record_that_is_written_while_an_old_one_is_removed_stays),
        TEST(test_an_autoscaler_whose_metric_fails_keeps_its_share_of_the_replicas),
        TEST(test_a_limit_is_removed_when_the_gpus_suffice_again),
        TEST(test_another_autoscaler_whose_target_is_gone_has_no_gpus),
        TEST(test_an_autoscaler_that_is_deleted_during_its_visit_is_no_member),
        TEST(test_own_autoscalers_stay_limited_while_the_others_are_released),
        TEST(test_a_scale_that_may_not_be_written_is_no_move),
        TEST(test_pods_belong_to_the_workload_whose_whole_selector_matches),
        TEST(test_only_one_of_two_processes_enforces_the_budgets),
        TEST(test_a_lease_that_cannot_be_read_now_limits_no_other_autoscaler),
        TEST(test_limits_of_the_budgets_of_another_namespace_stay),
        TEST(test_scales_outside_of_all_budgets_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
