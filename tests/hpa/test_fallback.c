// SPDX-License-Identifier: Apache-2.0
// The fallback of External metrics: when it begins and ends, what it proposes, what the status
// shows, and the annotation.
#include "unit.h"

#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/explanation.h"
#include "hpa/status.h"
#include "kube/object.h"

#define T0_MS   INT64_C(1700000000000)
#define MINUTES INT64_C(60000)
#define QUEUE   "{\"queue\": {\"replicas\": 8}}"

struct bench {
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    struct hpa_sample samples[2];
    struct hpa_metric_observation metrics[2]; // queue, errors
    struct hpa_observation obs;
    struct hpa_decision d;
};

static json_t *external(const char *name)
{
    return json_pack("{s:s, s:{s:{s:s}, s:{s:s, s:s}}}", "type", "External", "external", "metric",
                     "name", name, "target", "type", "AverageValue", "averageValue", "10");
}

static json_t *object_with(const char *fallback)
{
    json_t *o = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:i, s:i, s:[o, o]}}", "apiVersion",
                          "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "name",
                          "web", "namespace", "shop", "uid", "u", "spec", "minReplicas", 1,
                          "maxReplicas", 10, "metrics", external("queue"), external("errors"));
    if (fallback)
        codec_json_set(o, json_string(fallback), "metadata", "annotations", HPA_FALLBACK_ANNOTATION,
                       NULL);
    hpa_default(o);
    return o;
}

// Two replicas, and both metrics at their targets.
static void set_up(struct bench *b, const char *fallback, json_t *status)
{
    *b = (struct bench){.cfg = hpa_config_default(), .history = hpa_history_new()};
    CODEC_AUTO_JSON json_t *object = object_with(fallback);
    if (status)
        json_object_set_new(object, "status", status);
    assert_ok(hpa_spec_parse(object, &b->spec));
    for (size_t i = 0; i < 2; i++) {
        b->samples[i] = (struct hpa_sample){NULL, 20000, T0_MS, 0};
        b->metrics[i] = (struct hpa_metric_observation){&b->samples[i], 1, NULL};
    }
    b->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = 2,
                                      .status_replicas = 2,
                                      .selector = "a=b",
                                      .metrics = b->metrics};
    b->cfg.downscale_window_ms = 0;
}

static void decide(struct bench *b, int64_t at_ms)
{
    hpa_decision_finish(&b->d);
    hpa_decide(&b->spec, &b->obs, &b->cfg, b->history, T0_MS + at_ms, &b->d);
}

static void tear_down(struct bench *b)
{
    hpa_decision_finish(&b->d);
    hpa_spec_finish(&b->spec);
    hpa_history_free(b->history);
}

static void fail_metric(struct bench *b, size_t i)
{
    b->metrics[i] = (struct hpa_metric_observation){.error = "down"};
}

static void read_metric(struct bench *b, size_t i)
{
    b->metrics[i] = (struct hpa_metric_observation){&b->samples[i], 1, NULL};
}

static const char *active(const struct bench *b)
{
    const struct hpa_condition *c = hpa_decision_condition(&b->d, "ExternalMetricFallbackActive");
    return c ? c->status : "";
}

static size_t count_events(const struct bench *b, const char *reason)
{
    size_t n = 0;
    for (size_t i = 0; i < b->d.n_events; i++)
        n += gs_streq(b->d.events[i].reason, reason);
    return n;
}

static void test_fallback_begins_after_the_duration_and_ends_with_a_value(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, NULL);
    decide(&b, 0);
    assert_string_equal(active(&b), "False");
    fail_metric(&b, 0);
    decide(&b, MINUTES);
    assert_int_equal(b.d.desired, 2);
    assert_int_equal(count_events(&b, "FailedGetExternalMetric"), 1);
    decide(&b, 4 * MINUTES - 1);
    assert_int_equal(b.d.desired, 2);
    assert_string_equal(active(&b), "False");
    // Three minutes after the first failure.
    decide(&b, 4 * MINUTES);
    assert_int_equal(b.d.desired, 4); // 8, and one sync may double the replicas to 4
    assert_int_equal(b.d.proposal, 8);
    assert_string_equal(b.d.reason, "the fallback of external metric queue(nil) above target");
    assert_string_equal(active(&b), "True");
    assert_int_equal(count_events(&b, "FailedGetExternalMetric"), 0);
    assert_int_equal(count_events(&b, "ExternalMetricFallbackActivated"), 1);
    assert_string_equal(b.d.events[0].message,
                        "Fallback activated for external metric 'queue' after 3m0s of consecutive "
                        "failures, using fallback replica count: 8");
    decide(&b, 5 * MINUTES);
    assert_int_equal(count_events(&b, "ExternalMetricFallbackActivated"), 0);
    read_metric(&b, 0);
    decide(&b, 6 * MINUTES);
    assert_string_equal(active(&b), "False");
    assert_int_equal(b.d.desired, 2);
    // The duration begins again.
    fail_metric(&b, 0);
    decide(&b, 7 * MINUTES);
    assert_int_equal(b.d.desired, 2);
    tear_down(&b);
}

static void test_fallback_counts_as_a_metric_among_others(void **state)
{
    struct bench b;
    set_up(&b, "{queue: {replicas: 3, failureDurationSeconds: 240}}", NULL);
    b.obs.spec_replicas = b.obs.status_replicas = 6;
    b.samples[1].value = 70000; // 7 replicas
    fail_metric(&b, 0);
    decide(&b, 0);
    assert_int_equal(b.d.outcome, HPA_OUTCOME_COMPUTED);
    assert_int_equal(b.d.desired, 7);
    b.samples[1].value = 10000; // one replica, and a metric is missing
    decide(&b, 3 * MINUTES);
    assert_int_equal(b.d.outcome, HPA_OUTCOME_NO_COUNT);
    decide(&b, 4 * MINUTES);
    assert_int_equal(b.d.desired, 3);
    // The other metric has no fallback.
    fail_metric(&b, 1);
    b.obs.spec_replicas = b.obs.status_replicas = 2;
    decide(&b, 5 * MINUTES);
    assert_int_equal(b.d.desired, 3);
    b.obs.spec_replicas = b.obs.status_replicas = 4;
    decide(&b, 6 * MINUTES);
    assert_int_equal(b.d.outcome, HPA_OUTCOME_NO_COUNT);
    tear_down(&b);
}

static void test_fallback_stays_within_the_limits_of_the_object(void **state)
{
    struct bench b;
    set_up(&b, "{queue: {replicas: 50}}", NULL);
    b.obs.spec_replicas = b.obs.status_replicas = 9;
    fail_metric(&b, 0);
    decide(&b, 0);
    decide(&b, 3 * MINUTES);
    assert_int_equal(b.d.desired, 10);
    tear_down(&b);
}

static void test_an_empty_answer_is_a_failure(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, NULL);
    b.metrics[0] = (struct hpa_metric_observation){0};
    decide(&b, 0);
    decide(&b, 3 * MINUTES);
    assert_string_equal(active(&b), "True");
    tear_down(&b);
}

static void test_without_the_annotation_nothing_changes(void **state)
{
    struct bench b;
    set_up(&b, NULL, NULL);
    fail_metric(&b, 0);
    decide(&b, 0);
    decide(&b, 60 * MINUTES);
    assert_int_equal(b.d.desired, 2);
    assert_string_equal(active(&b), "");
    tear_down(&b);
}

static json_t *fallback_status(const char *metric)
{
    json_t *status = json_pack("{s:[]}", "conditions");
    GS_AUTO_FREE char *text =
        gs_format("'%s' fails since 2023-11-14T22:00:00Z: 8 replicas", metric);
    kube_set_condition(json_object_get(status, "conditions"), "ExternalMetricFallbackActive",
                       "True", "FailedGetExternalMetric", text, T0_MS - MINUTES);
    return status;
}

static void test_a_restarted_controller_goes_on_with_a_fallback(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, fallback_status("queue"));
    fail_metric(&b, 0);
    decide(&b, 0);
    assert_string_equal(active(&b), "True");
    assert_int_equal(b.d.proposal, 8);
    assert_int_equal(count_events(&b, "ExternalMetricFallbackActivated"), 0);
    // Later failures begin as all do, although the object still has that status.
    read_metric(&b, 0);
    decide(&b, MINUTES);
    fail_metric(&b, 0);
    decide(&b, 2 * MINUTES);
    assert_string_equal(active(&b), "False");
    tear_down(&b);
    set_up(&b, QUEUE, fallback_status("other"));
    fail_metric(&b, 0);
    decide(&b, 0);
    assert_string_equal(active(&b), "False");
    tear_down(&b);
}

static void test_status_has_the_condition_and_no_value(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, NULL);
    fail_metric(&b, 0);
    decide(&b, 0);
    decide(&b, 3 * MINUTES);
    CODEC_AUTO_JSON json_t *status = hpa_status_build(&b.spec, &b.d);
    CODEC_AUTO_JSON json_t *object = json_pack("{s:O}", "status", status);
    const json_t *metrics = json_object_get(status, "currentMetrics");
    assert_true(kube_condition_true(object, "ExternalMetricFallbackActive"));
    assert_string_equal(codec_json_str(json_array_get(metrics, 0), "type", NULL), "");
    assert_string_equal(codec_json_str(json_array_get(metrics, 1), "type", NULL), "External");
    tear_down(&b);
    // Without the annotation, the condition goes.
    set_up(&b, NULL, json_incref(status));
    decide(&b, 0);
    CODEC_AUTO_JSON json_t *next = hpa_status_build(&b.spec, &b.d);
    json_object_set(object, "status", next);
    assert_null(kube_condition(object, "ExternalMetricFallbackActive"));
    tear_down(&b);
}

static void test_explanation_has_the_fields_of_the_proposal(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, NULL);
    fail_metric(&b, 0);
    decide(&b, 0);
    // As an explanation reads it from the controller.
    CODEC_AUTO_JSON json_t *memory = hpa_history_json(b.history, T0_MS + MINUTES);
    struct hpa_history *read = NULL;
    assert_ok(hpa_history_from_json(memory, T0_MS + MINUTES, &read));
    const struct hpa_inspection_result seen = {
        .spec = &b.spec, .obs = &b.obs, .now_ms = T0_MS + 3 * MINUTES, .history = read};
    CODEC_AUTO_JSON json_t *out = hpa_explanation_json(&seen, &b.cfg);
    const json_t *fallback = json_object_get(out, "fallback");
    const json_t *metric = json_array_get(json_object_get(fallback, "metrics"), 0);
    assert_true(codec_json_bool(fallback, false, "active", NULL));
    assert_string_equal(codec_json_str(metric, "name", NULL), "queue");
    assert_string_equal(codec_json_str(metric, "fallbackStatus", NULL), "Fallback");
    assert_string_equal(codec_json_str(metric, "firstFailureTime", NULL), "2023-11-14T22:13:20Z");
    assert_int_equal(codec_json_int(metric, 0, "failureDurationSeconds", NULL), 180);
    assert_int_equal(codec_json_int(metric, 0, "replicas", NULL), 8);
    metric = json_array_get(json_object_get(out, "metrics"), 0);
    assert_string_equal(codec_json_str(metric, "explanation", NULL),
                        "queue: fails since 2023-11-14T22:13:20Z: fallback: 8 replicas; unable to "
                        "get external metric shop/queue/nil: down");
    assert_null(json_object_get(metric, "value"));
    hpa_history_free(read);
    // Before the fallback.
    const struct hpa_inspection_result early = {
        .spec = &b.spec, .obs = &b.obs, .now_ms = T0_MS + MINUTES, .history = b.history};
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *waiting = hpa_explanation_json(&early, &b.cfg);
    hpa_explanation_text(waiting, &text);
    assert_non_null(strstr(text.data,
                           "  queue: fails since 2023-11-14T22:13:20Z; from 180 s on, its "
                           "fallback is 8 replicas\n"));
    tear_down(&b);
}

static void test_times_follow_the_clock(void **state)
{
    struct bench b;
    set_up(&b, QUEUE, NULL);
    fail_metric(&b, 0);
    decide(&b, 0);
    hpa_history_shift(b.history, 60 * MINUTES);
    decide(&b, 62 * MINUTES);
    assert_string_equal(active(&b), "False");
    decide(&b, 63 * MINUTES);
    assert_string_equal(active(&b), "True");
    tear_down(&b);
}

static void test_wrong_annotations_are_named_and_have_no_effect(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"8", "want {METRIC: "},
        {"{}", "want {METRIC: "},
        {"[queue]", "want {METRIC: "},
        {"{queue: 8}", "queue: want {failureDurationSeconds"},
        {"{queue: {}}", "queue: replicas is missing"},
        {"{queue: {replicas: 0}}", "queue: replicas: want a whole number from 1"},
        {"{queue: {replicas: \"8\"}}", "queue: replicas: want a whole number from 1"},
        {"{queue: {replicas: 2147483648}}", "queue: replicas: want a whole number from 1"},
        {"{queue: {replicas: 8, failureDurationSeconds: 179}}", "want a whole number from 180"},
        {"{queue: {replicas: 8, failureThreshold: 3}}", "unknown field \"failureThreshold\""},
        {"{queu: {replicas: 8}}", "queu: the spec has no External metric of this name"},
        {"{queue: {replicas: 8}", "annotation gpuscale.dev/fallback"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct hpa_spec spec;
        CODEC_AUTO_JSON json_t *o = object_with(rows[i].text);
        assert_error(hpa_check_fallback(o), GS_EINVAL, rows[i].why);
        assert_ok(hpa_spec_parse(o, &spec));
        assert_false(spec.has_fallback);
        hpa_spec_finish(&spec);
    }
    CODEC_AUTO_JSON json_t *o = object_with("{queue: {replicas: 8}, errors: {replicas: 2}}");
    assert_ok(hpa_check_fallback(o));
    CODEC_AUTO_JSON json_t *none = object_with(NULL);
    assert_ok(hpa_check_fallback(none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fallback_begins_after_the_duration_and_ends_with_a_value),
        cmocka_unit_test(test_fallback_counts_as_a_metric_among_others),
        cmocka_unit_test(test_fallback_stays_within_the_limits_of_the_object),
        cmocka_unit_test(test_an_empty_answer_is_a_failure),
        cmocka_unit_test(test_without_the_annotation_nothing_changes),
        cmocka_unit_test(test_a_restarted_controller_goes_on_with_a_fallback),
        cmocka_unit_test(test_status_has_the_condition_and_no_value),
        cmocka_unit_test(test_explanation_has_the_fields_of_the_proposal),
        cmocka_unit_test(test_times_follow_the_clock),
        cmocka_unit_test(test_wrong_annotations_are_named_and_have_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
