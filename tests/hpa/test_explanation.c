// SPDX-License-Identifier: Apache-2.0
// Inspections of an autoscaler through an API, and their explanations.
#include "base/file.h"
#include "hpa/convert.h"
#include "hpa_controller/inspect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_api.h"

#define SCALE  "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define CUSTOM "/apis/custom.metrics.k8s.io"
#define METRIC CUSTOM "/v1beta2/namespaces/shop/pods/%2A/gpu_util?labelSelector=app=web"

struct bench {
    struct fake_api api;
    struct hpa_inspection *look;
    bool done;
    char *error;
    json_t *reading;
    int release; // 0: the newest
};

static void looked(void *arg, const struct hpa_inspection_result *seen, struct gs_error *err)
{
    struct bench *b = arg;
    struct hpa_config cfg = hpa_config_default();
    cfg.release = b->release ? b->release : cfg.release;
    b->done = true;
    if (err)
        b->error = gs_strdup(gs_error_message(err));
    else
        b->reading = hpa_explanation_json(seen, &cfg);
    gs_error_free(err);
}

static bool is_done(void *arg)
{
    const struct bench *b = arg;
    return b->done;
}

static void put_hpa(struct bench *b, const char *status)
{
    json_t *o = json_loads(
        "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"u\"},\"spec\":{\"scaleTargetRef\":{"
        "\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},\"maxReplicas\":10,"
        "\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"gpu_util\"},\"target\":{"
        "\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}]}}",
        0, NULL);
    hpa_default(o);
    json_object_set_new(o, "status", json_loads(status, 0, NULL));
    fake_put(&b->api, b->api.hpas, o);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_answer(&b->api, CUSTOM, 200,
                json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "name",
                          "custom.metrics.k8s.io", "preferredVersion", "version", "v1beta2",
                          "versions", "version", "v1beta2"));
    fake_scale(&b->api, SCALE, 3, "app=web");
    fake_pods(&b->api, "web", 3);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_inspection_free(b->look);
    json_decref(b->reading);
    free(b->error);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static void look(struct bench *b)
{
    b->look = hpa_inspect_start(&b->api.loop, b->api.kube, "shop", "web", 0, looked, b);
    hpa_inspect_fetch_history(b->look, b->api.kube);
    assert_true(fake_wait(&b->api, is_done, b));
}

static void assert_says(const struct bench *b, const char *part)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    hpa_explanation_text(b->reading, &text);
    if (!strstr(text.data, part))
        fail_msg("no \"%s\" in:\n%s", part, text.data);
}

#define AGREES                                                                                     \
    "{\"currentReplicas\":3,\"desiredReplicas\":5,\"conditions\":[{\"type\":\"AbleToScale\","      \
    "\"status\":\"True\",\"reason\":\"SucceededRescale\"},{\"type\":\"ScalingActive\",\"status\":" \
    "\"True\",\"reason\":\"ValidMetricFound\"},{\"type\":\"ScalingLimited\",\"status\":\"False\"," \
    "\"reason\":\"DesiredWithinRange\"}],\"currentMetrics\":[{\"type\":\"Pods\",\"pods\":{"        \
    "\"metric\":{\"name\":\"gpu_util\"},\"current\":{\"averageValue\":\"29\"}}}]}"

static void test_samples_pods_and_turns(void **state)
{
    struct bench *b = *state;
    put_hpa(b, AGREES);
    fake_answer(&b->api, METRIC, 200,
                fake_values("web", (const char *const[]){"30", "30", "30"}, 3));
    look(b);
    assert_null(b->error);
    const json_t *m = json_array_get(json_object_get(b->reading, "metrics"), 0);
    assert_int_equal(codec_json_int(b->reading, 0, "replicas", "desired", NULL), 5);
    assert_int_equal(json_array_size(json_object_get(m, "pods")), 3);
    assert_true(
        codec_json_bool(json_array_get(json_object_get(m, "pods"), 0), false, "counted", NULL));
    // 30/20 x 3 = 4.5, so 5; above 100/3 it is 6, and at 80/3 it is 4.
    assert_string_equal(codec_json_str(m, "above", "at", NULL), "average 33.334");
    assert_int_equal(codec_json_int(m, 0, "above", "desired", NULL), 6);
    assert_string_equal(codec_json_str(m, "below", "at", NULL), "average 26.666");
    assert_int_equal(codec_json_int(m, 0, "below", "desired", NULL), 4);
    assert_says(b, "shop/web: Deployment/web has 3 replicas (allowed: 1 to 10)");
    assert_says(b, "gpu_util: average 30 of 3 pods (target 20), ratio 1.5");
    assert_says(b, "Result: 5 replicas: pods metric gpu_util above target");
    assert_says(b, "The cluster's status agrees.");
}

static void test_the_start_of_a_replica_is_learned(void **state)
{
    struct bench *b = *state;
    json_t *pod = json_deep_copy(json_object_get(b->api.pods, "shop/web-0"));
    json_object_set_new(json_object_get(pod, "metadata"), "creationTimestamp",
                        json_string("2024-01-01T00:00:00Z"));
    codec_json_set(
        pod, json_pack("[{s:{s:{s:s}}}]", "state", "running", "startedAt", "2024-01-01T00:00:07Z"),
        "status", "containerStatuses", NULL);
    json_array_append_new(codec_json_get(pod, "status", "conditions", NULL),
                          json_pack("{s:s, s:s, s:s}", "type", "PodScheduled", "status", "True",
                                    "lastTransitionTime", "2024-01-01T00:00:05Z"));
    fake_put(&b->api, b->api.pods, pod);
    put_hpa(b, AGREES);
    fake_answer(&b->api, METRIC, 200,
                fake_values("web", (const char *const[]){"30", "30", "30"}, 3));
    look(b);
    assert_says(b, "Start of a new replica: p90 10s (pending 5s, image 2s, ready 3s), from 1 pod.");
}

static void test_a_pod_without_a_sample_and_a_status_that_differs(void **state)
{
    struct bench *b = *state;
    put_hpa(b, "{\"currentReplicas\":2,\"desiredReplicas\":9,\"conditions\":[{\"type\":"
               "\"AbleToScale\",\"status\":\"True\",\"reason\":\"ScaleDownStabilized\"},{\"type\":"
               "\"ScalingActive\",\"status\":\"False\",\"reason\":\"FailedGetPodsMetric\"}]}");
    fake_answer(&b->api, METRIC, 200, fake_values("web", (const char *const[]){"40", "40"}, 2));
    look(b);
    assert_null(b->error);
    // 80/20 with the third as 0: 4.
    assert_int_equal(codec_json_int(b->reading, 0, "replicas", "desired", NULL), 4);
    assert_says(b, "no sample: counted as busy when scaling down");
    assert_says(b, "its status was calculated for 2 replicas, and the target now has 3");
    assert_says(b, "desired: the cluster says 9, this explanation 4; an earlier recommendation");
    assert_says(b,
                "ScalingActive: the cluster says False FailedGetPodsMetric, this explanation True "
                "ValidMetricFound");
    assert_says(b, "gpu_util: the cluster shows no value");
}

// Lines without repeated blanks and with each age as "AGE".
static char *without_ages(struct gs_slice text)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    while (text.len) {
        struct gs_slice line = gs_slice_cut(&text, '\n');
        while (line.data) {
            struct gs_slice word = gs_slice_cut(&line, ' ');
            size_t digits = 0;
            while (digits < word.len && strchr("0123456789.", word.data[digits]))
                digits++;
            bool is_age = digits && digits + 1 == word.len && word.data[digits] == 's';
            if (is_age)
                gs_buf_add_str(&out, "AGE ");
            else if (word.len)
                gs_buf_addf(&out, GS_SLICE_FMT " ", GS_SLICE_ARG(word));
        }
        gs_buf_add_char(&out, '\n');
    }
    gs_buf_add(&out, "", 1);
    return gs_strdup(out.data);
}

// The example of docs/autoscaler.md.
static char *example_of_the_page(void)
{
    const char command[] = "$ gpuscale explain hpa web -n shop\n";
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path = gs_format("%s/docs/autoscaler.md", root ? root : ".");
    GS_AUTO_BUF struct gs_buf page = {0};
    struct gs_error *err = gs_file_read(path, (size_t)1 << 20, &page);
    if (err)
        fail_msg("%s", gs_error_message(err));
    gs_buf_add(&page, "", 1);
    const char *from = strstr(page.data, command);
    assert_non_null(from);
    from += strlen(command);
    const char *to = strstr(from, "\n```");
    assert_non_null(to);
    return gs_strndup(from, (size_t)(to + 1 - from));
}

static void test_the_example_of_the_documentation(void **state)
{
    struct bench *b = *state;
    for (int i = 0; i < 3; i++) {
        GS_AUTO_FREE char *key = gs_format("shop/web-%d", i);
        json_object_set_new(
            json_object_get(json_object_get(b->api.pods, key), "metadata"), "ownerReferences",
            json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion", "apps/v1", "kind", "ReplicaSet",
                      "name", "web-5d", "uid", "r", "controller", 1));
    }
    put_hpa(b, "{\"currentReplicas\":3,\"desiredReplicas\":9,\"conditions\":[{\"type\":"
               "\"AbleToScale\",\"status\":\"True\",\"reason\":\"ScaleDownStabilized\"},{\"type\":"
               "\"ScalingActive\",\"status\":\"True\",\"reason\":\"ValidMetricFound\"}],"
               "\"currentMetrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":"
               "\"gpu_util\"},\"current\":{\"averageValue\":\"40\"}}}]}");
    fake_answer(&b->api, METRIC, 200, fake_values("web", (const char *const[]){"40", "40"}, 2));
    look(b);
    assert_null(b->error);
    GS_AUTO_BUF struct gs_buf text = {0};
    hpa_explanation_text(b->reading, &text);
    GS_AUTO_FREE char *example = example_of_the_page();
    GS_AUTO_FREE char *want = without_ages(gs_slice_of(example));
    GS_AUTO_FREE char *got = without_ages(gs_buf_slice(&text));
    assert_string_equal(got, want);
}

static void test_from_nothing_there_is_only_up(void **state)
{
    struct bench *b = *state;
    put_hpa(b, AGREES);
    fake_scale(&b->api, SCALE, 1, "app=web");
    fake_answer(&b->api, METRIC, 200, fake_values("web", (const char *const[]){"0", "0", "0"}, 3));
    look(b);
    assert_null(b->error);
    const json_t *m = json_array_get(json_object_get(b->reading, "metrics"), 0);
    assert_null(json_object_get(m, "below"));
    // Three pods count: at a third of the target, and a bit, they are two.
    assert_int_equal(codec_json_int(m, 0, "above", "desired", NULL), 2);
    assert_string_equal(codec_json_str(m, "above", "at", NULL), "average 6.667");
}

// 0 is no average, and neither is the smallest number that the controller of 1.36 calculates.
static void test_without_replicas_there_is_no_average(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *metric = json_loads(
        "[{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"queue\"},\"target\":{"
        "\"type\":\"AverageValue\",\"averageValue\":\"4\"}}}]",
        0, NULL);
    b->release = 36;
    put_hpa(b, "{\"currentReplicas\":1,\"desiredReplicas\":1}");
    codec_json_set(json_object_get(b->api.hpas, "shop/web"), json_incref(metric), "spec", "metrics",
                   NULL);
    fake_scale(&b->api, SCALE, 1, "app=web");
    codec_json_set(json_object_get(b->api.scales, SCALE), json_integer(0), "status", "replicas",
                   NULL);
    fake_answer(&b->api, "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue", 200,
                json_loads("{\"items\":[{\"metricName\":\"queue\",\"value\":\"12\"}]}", 0, NULL));
    look(b);
    assert_null(b->error);
    const json_t *m = json_array_get(json_object_get(b->reading, "metrics"), 0);
    assert_null(json_object_get(m, "value"));
    assert_null(json_object_get(m, "current"));
    assert_null(json_object_get(m, "above"));
    assert_int_equal(codec_json_int(m, 0, "proposal", NULL), 3);
    assert_says(b, "queue: total 12 without a replica, so there is no average (target 4): 3");
}

#define MEMORY "/apis/hpa.gpuscale.dev/v1/namespaces/shop/histories/web"

// Half of the target proposes 2. A recommendation of 7 is in the window, and one evaluation permits
// 6.
static void test_the_memory_of_a_controller_counts(void **state)
{
    struct bench *b = *state;
    put_hpa(b, AGREES);
    fake_answer(&b->api, METRIC, 200,
                fake_values("web", (const char *const[]){"10", "10", "10"}, 3));
    fake_answer(&b->api, MEMORY, 200,
                json_pack("{s:[{s:i, s:i}, {s:i, s:i}], s:[{s:i, s:i}], s:[]}", "recommendations",
                          "replicas", 7, "ageMs", 40000, "replicas", 3, "ageMs", 55000, "scaleUps",
                          "by", 2, "ageMs", 50000, "scaleDowns"));
    look(b);
    assert_null(b->error);
    assert_int_equal(codec_json_int(b->reading, 0, "replicas", "desired", NULL), 6);
    assert_int_equal(json_array_size(codec_json_get(b->reading, "memory", "recommendations", NULL)),
                     2);
    assert_says(b, "held at 7: highest recommendation of the last 300 s");
    assert_says(b, "The controller's history: 2 recommendations of the last 55 s, 3 to 7 replicas; "
                   "+2 50 s ago.");
}

static void test_a_memory_that_is_none_is_not_known(void **state)
{
    struct bench *b = *state;
    put_hpa(b, AGREES);
    fake_answer(&b->api, METRIC, 200,
                fake_values("web", (const char *const[]){"10", "10", "10"}, 3));
    fake_answer(&b->api, MEMORY, 200, json_pack("{s:s}", "recommendations", "many"));
    look(b);
    assert_null(b->error);
    assert_int_equal(codec_json_int(b->reading, 0, "replicas", "desired", NULL), 2);
    assert_null(json_object_get(b->reading, "memory"));
    assert_says(
        b, "The controller's history (earlier recommendations, scale events) is not available");
}

static void test_what_cannot_be_read(void **state)
{
    struct bench *b = *state;
    put_hpa(b, "{}");
    look(b); // there is no such metric
    assert_null(b->error);
    assert_says(b, "Result: 3 replicas; no scaling: failed to get pods metric value");
    assert_says(b, "no controller has written a status yet");
}

static void test_no_scale(void **state)
{
    struct bench *b = *state;
    put_hpa(b, AGREES);
    json_object_clear(b->api.scales);
    look(b);
    assert_null(b->error);
    assert_says(b, "Result: none; no scaling: the target's scale could not be read");
}

static void test_no_such_object(void **state)
{
    struct bench *b = *state;
    look(b);
    assert_non_null(b->error);
    assert_non_null(strstr(b->error, "no such HPA"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_pods_and_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_start_of_a_replica_is_learned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pod_without_a_sample_and_a_status_that_differs,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_example_of_the_documentation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_from_nothing_there_is_only_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_replicas_there_is_no_average, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_memory_of_a_controller_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_memory_that_is_none_is_not_known, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_scale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_such_object, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
