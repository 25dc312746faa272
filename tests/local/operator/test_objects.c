// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "kube/selector.h"
#include "local/operator/fixtures.h"
#include "local/operator/operator_private.h"

static const char *const versions[] = {"prometheus", "old"}; // namespaces of the fixtures

// The Service of the chart must select the pods of the StatefulSet, and its named ports exist
// there.
static void expect_served(const json_t *service, const json_t *set)
{
    struct kube_selector selector;
    const json_t *template = codec_json_get(set, "spec", "template", NULL);
    kube_selector_from_map(codec_json_get(service, "spec", "selector", NULL), &selector);
    assert_true(
        kube_selector_matches(&selector, codec_json_get(template, "metadata", "labels", NULL)));
    kube_selector_finish(&selector);
    size_t i, k, n;
    json_t *port, *container, *declared;
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port) {
        const json_t *target = json_object_get(port, "targetPort");
        bool found = false;
        json_array_foreach (codec_json_get(template, "spec", "containers", NULL), k, container)
            json_array_foreach (json_object_get(container, "ports"), n, declared)
                found = found || json_equal(target, json_object_get(declared, "name")) ||
                        json_equal(target, json_object_get(declared, "containerPort"));
        if (!found)
            fail_msg("port %s of the Service leads nowhere", codec_json_str(port, "name", NULL));
    }
}

static void expect_own_selector(const json_t *set)
{
    struct kube_selector selector;
    assert_ok(kube_selector_from_json(codec_json_get(set, "spec", "selector", NULL), &selector));
    assert_true(kube_selector_matches(
        &selector, codec_json_get(set, "spec", "template", "metadata", "labels", NULL)));
    kube_selector_finish(&selector);
}

static const json_t *container_of(const json_t *set, const char *list, size_t i)
{
    return json_array_get(codec_json_get(set, "spec", "template", "spec", list, NULL), i);
}

static void test_services_of_charts_select_the_pods(void **state)
{
    struct codec_yaml_docs docs = chart_objects();
    for (size_t i = 0; i < GS_ARRAY_LEN(versions); i++) {
        const char *ns = versions[i];
        CODEC_AUTO_JSON json_t *prometheus = operator_prometheus_set(
            chart_object(&docs, ns, "Prometheus", "-prometheus"), 0, "reloader:1");
        CODEC_AUTO_JSON json_t *alertmanager = operator_alertmanager_set(
            chart_object(&docs, ns, "Alertmanager", "-alertmanager"), "reloader:1");
        expect_served(chart_object(&docs, ns, "Service", "-prometheus"), prometheus);
        expect_served(chart_object(&docs, ns, "Service", "-alertmanager"), alertmanager);
        expect_own_selector(prometheus);
        expect_own_selector(alertmanager);
    }
    codec_yaml_docs_finish(&docs);
}

static void test_containers_have_the_images_of_the_object(void **state)
{
    struct codec_yaml_docs docs = chart_objects();
    CODEC_AUTO_JSON json_t *set = operator_prometheus_set(
        chart_object(&docs, "prometheus", "Prometheus", "-prometheus"), 0, "reloader:1");
    assert_string_equal(kube_name(set), "prometheus-kube-prometheus-stack-prometheus");
    assert_string_equal(codec_json_str(set, "spec", "serviceName", NULL), "prometheus-operated");
    assert_string_equal(codec_json_str(container_of(set, "containers", 0), "image", NULL),
                        "quay.io/prometheus/prometheus:v3.14.0-distroless");
    assert_string_equal(codec_json_str(container_of(set, "containers", 1), "image", NULL),
                        "reloader:1");
    assert_string_equal(codec_json_str(container_of(set, "initContainers", 0), "name", NULL),
                        "init-config-reloader");
    const json_t *labels = codec_json_get(set, "spec", "template", "metadata", "labels", NULL);
    assert_string_equal(codec_json_str(labels, "app.kubernetes.io/version", NULL),
                        "3.14.0-distroless");
    assert_string_equal(codec_json_str(labels, "operator.prometheus.io/shard", NULL), "0");
    assert_string_equal(codec_json_str(set, "spec", "template", "spec", "serviceAccountName", NULL),
                        "kube-prometheus-stack-prometheus");
    codec_yaml_docs_finish(&docs);
}

static json_t *object(const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "t.yaml", &docs));
    json_t *obj = json_incref(docs.items[0].value);
    codec_yaml_docs_finish(&docs);
    return obj;
}

static void test_a_bare_object_has_defaults(void **state)
{
    CODEC_AUTO_JSON json_t *obj =
        object("{apiVersion: v1, kind: Prometheus, metadata: {name: p, namespace: ns, uid: u}}");
    CODEC_AUTO_JSON json_t *set = operator_prometheus_set(obj, 0, "r");
    const json_t *container = container_of(set, "containers", 0);
    assert_string_equal(codec_json_str(container, "image", NULL),
                        "quay.io/prometheus/prometheus:v3.5.0");
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(container, "ports"), 0), "name", NULL),
        "web");
    assert_int_equal(codec_json_int(set, 0, "spec", "replicas", NULL), 1);
    assert_string_equal(codec_json_str(container, "readinessProbe", "httpGet", "path", NULL),
                        "/-/ready");
    assert_string_equal(codec_json_str(kube_controller_ref(set), "uid", NULL), "u");
}

static void test_settings_of_pods_are_taken_over(void **state)
{
    CODEC_AUTO_JSON json_t *obj = object(
        "apiVersion: v1\nkind: Prometheus\nmetadata: {name: p, namespace: ns, uid: u}\n"
        "spec:\n  replicas: 1000000\n  shards: 1000000\n  image: r/p@sha256:0\n  version: v1.2.3\n"
        "  routePrefix: /x/\n  podMetadata: {labels: {team: a}, annotations: {b: c}}\n"
        "  secrets: [s]\n  configMaps: [m]\n  nodeSelector: {disk: ssd}\n"
        "  containers: [{name: prometheus, env: [{name: A}]}, {name: proxy, image: x}]\n");
    CODEC_AUTO_JSON json_t *set = operator_prometheus_set(obj, 3, "r");
    const json_t *spec = codec_json_get(set, "spec", "template", "spec", NULL);
    assert_string_equal(kube_name(set), "prometheus-p-shard-3");
    assert_int_equal(codec_json_int(set, 0, "spec", "replicas", NULL), 100);
    assert_int_equal(operator_prometheus_shards(obj), 16);
    assert_int_equal(json_array_size(json_object_get(spec, "containers")), 3);
    assert_int_equal(json_array_size(json_object_get(spec, "volumes")), 5);
    assert_string_equal(codec_json_str(spec, "nodeSelector", "disk", NULL), "ssd");
    const json_t *first = container_of(set, "containers", 0);
    assert_string_equal(codec_json_str(first, "image", NULL), "r/p@sha256:0");
    assert_string_equal(codec_json_str(first, "readinessProbe", "httpGet", "path", NULL),
                        "/x/-/ready");
    assert_int_equal(json_array_size(json_object_get(first, "env")), 1);
    // The selector must not have a label that the user may change.
    assert_null(codec_json_str(set, "spec", "selector", "matchLabels", "team", NULL));
    expect_own_selector(set);
}

static void test_the_status_counts_and_says_why(void **state)
{
    CODEC_AUTO_JSON json_t *obj = object("{metadata: {name: p, namespace: ns, generation: 2}, "
                                         "spec: {replicas: 2}}");
    CODEC_AUTO_JSON json_t *set =
        object("{status: {replicas: 2, updatedReplicas: 2, availableReplicas: 1}}");
    const json_t *sets[] = {set};
    CODEC_AUTO_JSON json_t *status = operator_status(obj, sets, 1, 1, NULL);
    CODEC_AUTO_JSON json_t *wrap = json_pack("{s:O}", "status", status);
    assert_int_equal(codec_json_int(status, 0, "unavailableReplicas", NULL), 1);
    assert_string_equal(codec_json_str(kube_condition(wrap, "Available"), "status", NULL),
                        "Degraded");
    assert_true(kube_condition_true(wrap, "Reconciled"));
    CODEC_AUTO_JSON json_t *none = operator_status(obj, sets, 0, 1, "wrong");
    CODEC_AUTO_JSON json_t *failed = json_pack("{s:O}", "status", none);
    assert_string_equal(codec_json_str(kube_condition(failed, "Available"), "status", NULL),
                        "False");
    assert_string_equal(codec_json_str(kube_condition(failed, "Reconciled"), "message", NULL),
                        "wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_services_of_charts_select_the_pods),
        cmocka_unit_test(test_containers_have_the_images_of_the_object),
        cmocka_unit_test(test_a_bare_object_has_defaults),
        cmocka_unit_test(test_settings_of_pods_are_taken_over),
        cmocka_unit_test(test_the_status_counts_and_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
