// SPDX-License-Identifier: Apache-2.0
// The observation from API objects: pods with their requests, response bodies of metrics APIs.
#include "hpa/convert.h"
#include "hpa/observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define NOW_MS INT64_C(1700000000000)

static bool synced(void *arg)
{
    return kube_cache_synced(arg);
}

// One pod "p" of this JSON, seen by an HPA with a utilization metric of this kind and container.
static void with_pod(const char *pod, const char *metric,
                     void (*check)(const struct hpa_pod *p, size_t n, const void *arg),
                     const void *arg)
{
    struct fake_api api;
    fake_init(&api);
    fake_put(&api, api.pods, json_loads(pod, 0, NULL));
    struct kube_cache *pods = kube_cache_new(&api.loop, api.kube, KUBE_PODS, NULL, NULL);
    kube_cache_start(pods);
    assert_true(fake_wait(&api, synced, pods));
    CODEC_AUTO_JSON json_t *object =
        json_pack("{s:s, s:{s:s, s:s, s:s}, s:{s:i, s:[o]}}", "apiVersion", "autoscaling/v2",
                  "metadata", "name", "a", "namespace", "shop", "uid", "u", "spec", "maxReplicas",
                  3, "metrics", json_loads(metric, 0, NULL));
    struct hpa_spec spec;
    assert_null(hpa_spec_parse(object, &spec));
    struct kube_selector selector = {0};
    assert_null(kube_selector_parse("app=a", &selector));
    struct gs_arena arena = {0};
    const struct hpa_pod *found;
    size_t n;
    hpa_observe_pods(&spec, pods, &selector, 0, &arena, &found, &n);
    check(found, n, arg);
    gs_arena_finish(&arena);
    kube_selector_finish(&selector);
    hpa_spec_finish(&spec);
    kube_cache_free(pods);
    assert_int_equal(fake_finish(&api), 0);
}

#define META "\"metadata\":{\"name\":\"p\",\"namespace\":\"shop\",\"labels\":{\"app\":\"a\"}}"
#define CPU                                                                                        \
    "{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\","  \
    "\"averageUtilization\":50}}}"
#define CPU_OF_B                                                                                   \
    "{\"type\":\"ContainerResource\",\"containerResource\":{\"name\":\"cpu\",\"container\":\"b\"," \
    "\"target\":{\"type\":\"Utilization\",\"averageUtilization\":50}}}"
#define C(name, cpu) "{\"name\":\"" name "\",\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"

struct want {
    int64_t milli;
    const char *error;
};

static void check_request(const struct hpa_pod *p, size_t n, const void *arg)
{
    const struct want *want = arg;
    assert_int_equal(n, 1);
    assert_int_equal(p->requests_milli[0], want->milli);
    if (want->error)
        assert_string_equal(p->request_errors[0], want->error);
    else
        assert_null(p->request_errors[0]);
}

static void test_requests(void **state)
{
    static const struct {
        const char *pod, *metric;
        struct want want;
    } cases[] = {
        {"{" META ",\"spec\":{\"containers\":[" C("a", "500m") "," C("b", "1") "]}}",
         CPU,
         {1500, NULL}},
        {"{" META ",\"spec\":{\"containers\":[" C("a", "500m") "," C("b", "1") "]}}",
         CPU_OF_B,
         {1000, NULL}},
        // Sidecar containers count, other init containers do not.
        {"{" META ",\"spec\":{\"containers\":[" C("a", "500m") "],\"initContainers\":[" C(
             "i", "4") ",{\"name\":\"s\",\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{"
                       "\"cpu\":\"100m\"}}}]}}",
         CPU,
         {600, NULL}},
        {"{" META ",\"spec\":{\"containers\":[" C("a", "500m") ",{\"name\":\"b\"}]}}",
         CPU,
         {-1, "missing request for cpu in container b of Pod p"}},
        {"{" META ",\"spec\":{\"containers\":[" C("a", "500m") "]}}",
         CPU_OF_B,
         {-1, "container b not found in Pod p"}},
        // Requests of the pod as a whole replace the sum, but not that of a named container.
        {"{" META ",\"spec\":{\"resources\":{\"requests\":{\"cpu\":\"3\"}},\"containers\":[" C(
             "b", "1") "]}}",
         CPU,
         {3000, NULL}},
        {"{" META ",\"spec\":{\"resources\":{\"requests\":{\"memory\":\"3\"}},\"containers\":[" C(
             "b", "1") "]}}",
         CPU,
         {-1, "missing pod-level request for cpu in Pod p"}},
        {"{" META ",\"spec\":{\"resources\":{\"requests\":{\"cpu\":\"3\"}},\"containers\":[" C(
             "b", "1") "]}}",
         CPU_OF_B,
         {1000, NULL}},
        {"{" META ",\"spec\":{\"containers\":[" C("a", "lots") "]}}",
         CPU,
         {-1, "missing request for cpu in container a of Pod p"}},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        with_pod(cases[i].pod, cases[i].metric, check_request, &cases[i].want);
}

static void check_running(const struct hpa_pod *p, size_t n, const void *arg)
{
    assert_int_equal(n, 1);
    assert_int_equal(p->phase, HPA_POD_RUNNING);
    assert_true(p->deleting);
    assert_int_equal(p->ready, HPA_CONDITION_FALSE);
    assert_true(p->has_start_time);
    assert_int_equal(p->start_time_ms, INT64_C(1704067200000));
    assert_int_equal(p->ready_transition_ms, INT64_C(1704067260000));
}

static void check_bare(const struct hpa_pod *p, size_t n, const void *arg)
{
    assert_int_equal(n, 1);
    assert_int_equal(p->phase, HPA_POD_UNKNOWN);
    assert_int_equal(p->ready, HPA_CONDITION_ABSENT);
    assert_false(p->has_start_time);
    assert_false(p->deleting);
}

static void check_none(const struct hpa_pod *p, size_t n, const void *arg)
{
    assert_int_equal(n, 0);
}

static void test_pod_states(void **state)
{
    with_pod(
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"shop\",\"labels\":{\"app\":\"a\"},"
        "\"deletionTimestamp\":\"2024-01-01T00:00:00Z\"},\"status\":{\"phase\":\"Running\","
        "\"startTime\":\"2024-01-01T00:00:00Z\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
        "\"False\",\"lastTransitionTime\":\"2024-01-01T00:01:00Z\"}]}}",
        CPU, check_running, NULL);
    with_pod("{" META "}", CPU, check_bare, NULL);
    with_pod("{\"metadata\":{\"name\":\"p\",\"namespace\":\"other\",\"labels\":{\"app\":\"a\"}}}",
             CPU, check_none, NULL);
    with_pod("{\"metadata\":{\"name\":\"p\",\"namespace\":\"shop\",\"labels\":{\"app\":\"x\"}}}",
             CPU, check_none, NULL);
}

// --- bodies ---
static void test_custom_values(void **state)
{
    CODEC_AUTO_JSON json_t *body = json_loads(
        "{\"items\":[{\"describedObject\":{\"name\":\"p\"},\"timestamp\":\"2024-01-01T00:00:00Z\","
        "\"windowSeconds\":30,\"value\":\"46500m\"},{\"describedObject\":{\"name\":\"q\"},"
        "\"value\":"
        "\"2k\"}]}",
        0, NULL);
    struct gs_arena arena = {0};
    struct hpa_values v = {0};
    assert_null(hpa_read_custom(body, &arena, NOW_MS, &v));
    assert_int_equal(v.len, 2);
    assert_string_equal(v.items[0].pod, "p");
    assert_int_equal(v.items[0].value, 46500);
    assert_int_equal(v.items[0].window_ms, 30000);
    assert_int_equal(v.items[0].timestamp_ms, INT64_C(1704067200000));
    assert_int_equal(v.items[1].value, 2000000);
    assert_int_equal(v.items[1].timestamp_ms, NOW_MS);
    free(v.items);
    gs_arena_finish(&arena);
}

static void test_resource_values(void **state)
{
    CODEC_AUTO_JSON json_t *body = json_loads(
        "{\"items\":[{\"metadata\":{\"name\":\"p\"},\"window\":\"15s\",\"containers\":[{\"name\":"
        "\"a\",\"usage\":{\"cpu\":\"250m\"}},{\"name\":\"b\",\"usage\":{\"cpu\":\"100m\"}}]},"
        "{\"metadata\":{\"name\":\"q\"},\"containers\":[{\"name\":\"a\",\"usage\":{\"cpu\":\"1\"}},"
        "{\"name\":\"b\",\"usage\":{}}]},{\"metadata\":{\"name\":\"r\"},\"containers\":[]}]}",
        0, NULL);
    struct gs_arena arena = {0};
    struct hpa_values v = {0};
    size_t items = 0;
    assert_null(hpa_read_resource(body, "cpu", "", &arena, NOW_MS, &v, &items));
    assert_int_equal(items, 3);
    assert_int_equal(v.len, 1); // the others lack a container's value
    assert_int_equal(v.items[0].value, 350);
    assert_int_equal(v.items[0].window_ms, 15000);
    v.len = 0;
    assert_null(hpa_read_resource(body, "cpu", "a", &arena, NOW_MS, &v, &items));
    assert_int_equal(v.len, 2);
    free(v.items);
    gs_arena_finish(&arena);
}

static void test_hostile_bodies(void **state)
{
    static const char *const bodies[] = {
        "null",
        "7",
        "[]",
        "{\"items\":7}",
        "{\"items\":[7]}",
        "{\"items\":[{\"value\":46}]}",
        "{\"items\":[{\"value\":\"lots\"}]}",
        "{\"items\":[{\"metadata\":7,\"containers\":[{\"usage\":{\"cpu\":\"x\"}}]}]}",
        "{\"items\":[{\"metadata\":7,\"window\":\"-9999999h\",\"containers\":[7]}]}",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(bodies); i++) {
        CODEC_AUTO_JSON json_t *body = json_loads(bodies[i], JSON_DECODE_ANY, NULL);
        struct gs_arena arena = {0};
        struct hpa_values v = {0};
        size_t items = 0;
        struct gs_error *err = hpa_read_custom(body, &arena, NOW_MS, &v);
        assert_non_null(err);
        gs_error_free(err);
        gs_error_free(hpa_read_external(body, NOW_MS, &v));
        gs_error_free(hpa_read_resource(body, "cpu", "", &arena, NOW_MS, &v, &items));
        free(v.items);
        gs_arena_finish(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_pod_states),
        cmocka_unit_test(test_custom_values),  cmocka_unit_test(test_resource_values),
        cmocka_unit_test(test_hostile_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
