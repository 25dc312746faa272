// SPDX-License-Identifier: Apache-2.0
// The adapter as `gpuscale up` mounts it: an engine in the same process, rules from a ConfigMap,
// the served API groups, and the immediate listing of new series.
#include "adapter/adapter_private.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "kube/client.h"
#include "local/api_harness.h"
#include "patience.h"

#define CUSTOM   "/apis/custom.metrics.k8s.io"
#define EXTERNAL "/apis/external.metrics.k8s.io"
#define RESOURCE "/apis/metrics.k8s.io"
#define MAPS     "/api/v1/namespaces/default/configmaps"

static const char *const groups[] = {"custom.metrics.k8s.io", "external.metrics.k8s.io",
                                     "metrics.k8s.io"};

struct fixture {
    struct harness h;
    struct kube_client *kube;
    struct engine *engine;
    struct adapter *adapter;
};

static json_t *describe_group(const void *adapter, const char *group)
{
    return adapter_describe_group(adapter, group);
}

static void put(struct fixture *f, const char *metric, const char *pod, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(metric)},
                                           {GS_SLICE("PodName"), gs_slice_of(pod)},
                                           {GS_SLICE("NamespaceName"), GS_SLICE("default")},
                                           {GS_SLICE("UUID"), gs_slice_of(pod)},
                                           {GS_SLICE("queue"), GS_SLICE("orders")}};
    assert_null(tsdb_append(engine_tsdb(f->engine), labels, GS_ARRAY_LEN(labels), gs_unix_ms(), v));
}

static void post(struct fixture *f, const char *path, const char *body)
{
    struct reply r AUTO_REPLY = request(&f->h, "POST", path, body);
    assert_int_equal(r.status, 201);
}

static void add_pod(struct fixture *f, const char *name)
{
    GS_AUTO_FREE char *body = gs_format(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
        "\"app\":\"w\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}",
        name);
    post(f, "/api/v1/namespaces/default/pods", body);
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    harness_open(&f->h, NULL);
    f->kube = kube_client_new(f->h.client);
    assert_null(engine_new(&f->h.loop, &(struct engine_options){0}, &f->engine));
    const struct adapter_options o = {.kube = f->kube,
                                      .engine = f->engine,
                                      .trusted = true,
                                      .config_maps = true,
                                      .gpu_metrics = true,
                                      // No test waits for a periodic list.
                                      .relist_ns = 3600 * GS_NS_PER_SEC};
    assert_null(adapter_new(&f->h.loop, &o, &f->adapter));
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++)
        local_api_mount(f->h.api, groups[i], describe_group, adapter_handle, f->adapter);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    adapter_free(f->adapter);
    engine_free(f->engine);
    kube_client_free(f->kube);
    harness_close(&f->h);
    free(f);
    return 0;
}

// Repeats the request until it returns this status.
static struct reply wait_status(struct fixture *f, const char *path, int status)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    struct reply r = request(&f->h, "GET", path, NULL);
    while (r.status != status && gs_mono_ns() < deadline) {
        reply_finish(&r);
        uv_run(&f->h.loop, UV_RUN_ONCE);
        r = request(&f->h, "GET", path, NULL);
    }
    assert_int_equal(r.status, status);
    return r;
}

static void test_new_series_are_served_without_a_wait_for_the_next_list(void **state)
{
    struct fixture *f = *state;
    add_pod(f, "w-0");
    put(f, "DCGM_FI_DEV_GPU_UTIL", "w-0", 10);
    struct reply first AUTO_REPLY =
        wait_status(f, CUSTOM "/v1beta1/namespaces/default/pods/%2A/DCGM_FI_DEV_GPU_UTIL", 200);
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-0", 37.5);
    struct reply r AUTO_REPLY = wait_status(
        f, CUSTOM "/v1beta1/namespaces/default/pods/%2A/DCGM_CUSTOM_PROCESS_SM_UTIL", 200);
    const json_t *item = json_array_get(json_object_get(r.body, "items"), 0);
    assert_string_equal(codec_json_str(item, "value", NULL), "37500m");
    assert_string_equal(codec_json_str(item, "describedObject", "name", NULL), "w-0");
    struct reply list AUTO_REPLY = request(&f->h, "GET", CUSTOM "/v1beta1", NULL);
    assert_non_null(strstr(list.text, "\"pods/DCGM_CUSTOM_PROCESS_SM_UTIL\""));
    assert_non_null(strstr(list.text, "\"deployments.apps/DCGM_CUSTOM_PROCESS_SM_UTIL\""));
}

#define RULES                                                                                      \
    "externalRules:\\n- seriesQuery: queue_length\\n  resources: {overrides: {NamespaceName: "     \
    "{resource: namespace}}}\\n  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})\\n"
#define USAGE(query, node)                                                                         \
    "{containerQuery: '" query "', nodeQuery: '" node "', containerLabel: container, "             \
    "resources: {overrides: {PodName: {resource: pod}, NamespaceName: {resource: namespace}}}}\\n"
#define RESOURCE_RULES                                                                             \
    "resourceRules:\\n  cpu: " USAGE("a", "b") "  memory: " USAGE("a", "b") "  window: 1m\\n"
#define MAP(name, labels, rules)                                                                   \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" name                 \
    "\",\"labels\":{" labels "}},\"data\":{\"config.yaml\":\"" rules "\"}}"

static void test_rules_of_a_config_map_come_and_go(void **state)
{
    struct fixture *f = *state;
    put(f, "queue_length", "w-0", 12);
    struct reply none AUTO_REPLY = wait_status(f, EXTERNAL "/v1beta1", 404);
    post(f, MAPS, MAP("other", "", RULES));
    post(f, MAPS, MAP("adapter-config", "", RULES));
    struct reply r AUTO_REPLY =
        wait_status(f, EXTERNAL "/v1beta1/namespaces/default/queue_length", 200);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(r.body, "items"), 0), "value", NULL), "12");
    struct reply all AUTO_REPLY = request(&f->h, "GET", "/apis", NULL);
    assert_non_null(strstr(all.text, "\"external.metrics.k8s.io\""));
    assert_null(strstr(all.text, "\"metrics.k8s.io\""));
    struct reply gone AUTO_REPLY = request(&f->h, "DELETE", MAPS "/adapter-config", NULL);
    assert_int_equal(gone.status, 200);
    struct reply again AUTO_REPLY = wait_status(f, EXTERNAL "/v1beta1", 404);
}

static void test_a_wrong_config_map_leaves_the_rules(void **state)
{
    struct fixture *f = *state;
    put(f, "queue_length", "w-0", 12);
    post(f, MAPS,
         MAP("release-adapter", "\"app.kubernetes.io/name\":\"prometheus-adapter\"", RULES));
    struct reply r AUTO_REPLY =
        wait_status(f, EXTERNAL "/v1beta1/namespaces/default/queue_length", 200);
    struct reply bad AUTO_REPLY =
        request(&f->h, "PUT", MAPS "/release-adapter",
                MAP("release-adapter", "\"app.kubernetes.io/name\":\"prometheus-adapter\"",
                    "rules: nonsense"));
    assert_int_equal(bad.status, 200);
    for (int i = 0; i < 100; i++)
        uv_run(&f->h.loop, UV_RUN_NOWAIT);
    struct reply still AUTO_REPLY =
        request(&f->h, "GET", EXTERNAL "/v1beta1/namespaces/default/queue_length", NULL);
    assert_int_equal(still.status, 200);
}

static void test_resource_rules_make_their_group(void **state)
{
    struct fixture *f = *state;
    struct reply none AUTO_REPLY = wait_status(f, RESOURCE "/v1beta1", 404);
    post(f, MAPS, MAP("prometheus-adapter", "", RESOURCE_RULES));
    struct reply r AUTO_REPLY = wait_status(f, RESOURCE "/v1beta1", 200);
    assert_non_null(strstr(r.text, "\"PodMetrics\""));
}

static void test_many_reloads_keep_the_generations_of_requests(void **state)
{
    struct fixture *f = *state;
    post(f, MAPS, MAP("adapter-config", "", "rules: []"));
    struct adapter *a = f->adapter;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !a->map_text && gs_mono_ns() < end;)
        uv_run(&f->h.loop, UV_RUN_ONCE);
    size_t before = a->n_retired;
    const struct provider *first = a->now.provider;
    for (int i = 0; i < ADAPTER_MAX_RETIRED + 8; i++)
        adapter_reload(a);
    assert_int_equal(a->n_retired, ADAPTER_MAX_RETIRED);
    assert_ptr_equal(a->retired[before].provider, first);
    assert_non_null(a->next.provider);
    const struct provider *newest = a->next.provider;
    adapter_free_retired(a, 0);
    adapter_adopt_next(a);
    assert_ptr_equal(a->now.provider, newest);
    assert_int_equal(a->n_retired, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_series_are_served_without_a_wait_for_the_next_list,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rules_of_a_config_map_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wrong_config_map_leaves_the_rules, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_resource_rules_make_their_group, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_reloads_keep_the_generations_of_requests, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
