// SPDX-License-Identifier: Apache-2.0
// Why a metric of pods has no value: each state, with the text and the YAML that changes it.
#include "unit.h"

#include "base/mem.h"
#include "codec/yaml.h"
#include "diagnosis/metric.h"

#include <string.h>

static json_t *read_json(const char *text)
{
    json_t *out = NULL;
    assert_ok(codec_json_parse(gs_slice_of(text), false, &out));
    return out;
}

// samples: of {"pods", "samples"}, or NULL. annotations: of the pod.
static struct diagnosis_metric diagnose(const char *metric, const char *samples,
                                        const char *annotations)
{
    GS_AUTO_FREE char *pod_text = gs_format(
        "{\"metadata\":{\"name\":\"api-1\",\"labels\":{\"app\":\"api\",\"pod-template-hash\":\"7\"}"
        ","
        "\"annotations\":{%s}},\"spec\":{\"containers\":[{\"name\":\"side\"},{\"name\":\"c\","
        "\"ports\":[{\"containerPort\":8000}]}]}}",
        annotations);
    CODEC_AUTO_JSON json_t *pod = read_json(pod_text);
    GS_AUTO_FREE char *series_text =
        gs_format("{\"pods\":2,\"samples\":[%s]}", samples ? samples : "");
    CODEC_AUTO_JSON json_t *raw = samples ? read_json(series_text) : NULL;
    CODEC_AUTO_JSON json_t *series = diagnosis_metric_series(raw);
    const struct diagnosis_metric_input in = {.metric = metric,
                                              .ns = "shop",
                                              .kind = "Deployment",
                                              .name = "api",
                                              .pod = pod,
                                              .series = series};
    struct diagnosis_metric d;
    diagnosis_metric_of(&in, &d);
    return d;
}

#define UP(pod, value) "{\"name\":\"up\",\"pod\":\"" pod "\",\"value\":" value "}"
#define NAME(name)     ",{\"name\":\"" name "\",\"value\":2}"

static void expect(const char *metric, const char *samples, const char *annotations,
                   enum diagnosis_metric_state state, const char *text, const char *fix)
{
    struct diagnosis_metric d = diagnose(metric, samples, annotations);
    if (d.state != state)
        fail_msg("%s is \"%s\", not \"%s\"", metric, diagnosis_metric_state_name(d.state),
                 diagnosis_metric_state_name(state));
    if (text && !strstr(d.text, text))
        fail_msg("\"%s\" does not contain \"%s\"", d.text, text);
    if (fix && (!d.fix || !strstr(d.fix, fix)))
        fail_msg("\"%s\" does not contain \"%s\"", d.fix, fix);
    diagnosis_metric_finish(&d);
}

static void test_pods_that_are_no_targets_need_annotations(void **state)
{
    expect("queue", "", "", DIAGNOSIS_METRIC_NOT_SCRAPED, "none of the 2 pods of Deployment api",
           "prometheus.io/port: \"8000\"");
    // Series of others about the pod do not make it a target.
    expect("queue", "{\"name\":\"kube_pod_info\",\"value\":2}" NAME("DCGM_FI_DEV_GPU_UTIL"), "",
           DIAGNOSIS_METRIC_NOT_SCRAPED, NULL, NULL);
}

static void test_annotations_that_nothing_reads_need_a_monitor(void **state)
{
    expect("queue", "", "\"prometheus.io/scrape\":\"true\"", DIAGNOSIS_METRIC_NOT_SCRAPED, NULL,
           "kind: PodMonitor");
    expect("queue", "", "\"prometheus.io/scrape\":\"true\"", DIAGNOSIS_METRIC_NOT_SCRAPED, NULL,
           "matchLabels: {app: \"api\"}");
}

static void test_a_wrong_port_is_named(void **state)
{
    expect("queue", UP("api-1", "0") "," UP("api-2", "0"), "\"prometheus.io/port\":\"9\"",
           DIAGNOSIS_METRIC_SCRAPE_FAILS, "up is 0 for 2 pods", "prometheus.io/port: \"8000\"");
}

static void test_one_good_target_of_a_pod_is_enough(void **state)
{
    expect("queue", UP("api-1", "0") "," UP("api-1", "1") NAME("queue"), "",
           DIAGNOSIS_METRIC_NOT_SERVED, NULL, NULL);
}

static void test_a_similar_name_is_the_fix(void **state)
{
    expect("queue_depht", UP("api-1", "1") NAME("queue_depth") NAME("scrape_duration_seconds"), "",
           DIAGNOSIS_METRIC_NO_SUCH_NAME, "similar: queue_depth", "metric: {name: queue_depth}");
    // Counters are served as rates.
    expect("done_totl", UP("api-1", "1") NAME("done_total"), "", DIAGNOSIS_METRIC_NO_SUCH_NAME,
           "similar: done", "metric: {name: done}");
    expect("done_total", UP("api-1", "1") NAME("done_total"), "", DIAGNOSIS_METRIC_NO_SUCH_NAME,
           "similar: done", "metric: {name: done}");
}

static void test_an_absent_metric_names_what_the_page_has(void **state)
{
    struct diagnosis_metric d =
        diagnose("latency", UP("api-1", "1") NAME("queue_depth") NAME("container_cpu"), "");
    assert_int_equal(d.state, DIAGNOSIS_METRIC_ABSENT);
    assert_string_equal(d.evidence, "their pages have queue_depth");
    diagnosis_metric_finish(&d);
    expect("latency", UP("api-1", "1"), "", DIAGNOSIS_METRIC_ABSENT, "have no series latency",
           "# TYPE latency gauge");
}

static void test_a_series_without_a_rule_gets_a_rule(void **state)
{
    expect("work", UP("api-1", "1") NAME("work_seconds_total"), "", DIAGNOSIS_METRIC_NOT_SERVED,
           "the series work_seconds_total", "rate(<<.Series>>{<<.LabelMatchers>>}[2m])");
}

static void test_what_is_not_known_is_not_claimed(void **state)
{
    expect("queue", NULL, "", DIAGNOSIS_METRIC_UNKNOWN, NULL, NULL);
    expect("DCGM_FI_DEV_GPU_UTIL", "", "", DIAGNOSIS_METRIC_UNKNOWN, NULL, NULL);
    // Another target has series of the pods, as a service mesh does.
    expect("queue", "{\"name\":\"mesh_requests_total\",\"value\":2}", "", DIAGNOSIS_METRIC_UNKNOWN,
           "mesh_requests_total", NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_that_are_no_targets_need_annotations),
        cmocka_unit_test(test_annotations_that_nothing_reads_need_a_monitor),
        cmocka_unit_test(test_a_wrong_port_is_named),
        cmocka_unit_test(test_one_good_target_of_a_pod_is_enough),
        cmocka_unit_test(test_a_similar_name_is_the_fix),
        cmocka_unit_test(test_an_absent_metric_names_what_the_page_has),
        cmocka_unit_test(test_a_series_without_a_rule_gets_a_rule),
        cmocka_unit_test(test_what_is_not_known_is_not_claimed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
