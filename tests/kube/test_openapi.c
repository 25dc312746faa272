// SPDX-License-Identifier: Apache-2.0
#include "kube/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kube_openapi_resource resources[] = {
    {"", "v1", "pods", "Pod", true},
    {"", "v1", "namespaces", "Namespace", false},
    {"apps", "v1", "deployments", "Deployment", true},
    {"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", true},
    {"monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", true},
};
#define N GS_ARRAY_LEN(resources)

static void check_references(const json_t *document, const json_t *j)
{
    const char *key;
    size_t i;
    json_t *v;
    json_object_foreach ((json_t *)j, key, v) {
        if (strcmp(key, "$ref") == 0 && json_is_string(v)) {
            const json_t *at = document;
            struct gs_slice rest = gs_slice_of(json_string_value(v) + 2);
            while (rest.data) {
                struct gs_slice step = gs_slice_cut(&rest, '/');
                at = json_object_getn(at, step.data, step.len);
            }
            if (!at)
                fail_msg("%s leads nowhere", json_string_value(v));
        }
        check_references(document, v);
    }
    json_array_foreach (j, i, v)
        check_references(document, v);
}

// kubectl explain --recursive fails on a field of which the schema says nothing.
static void check_fields(const json_t *j)
{
    const char *key;
    size_t i;
    json_t *v;
    json_object_foreach (json_object_get(j, "properties"), key, v)
        if (json_object_size(v) == 0)
            fail_msg("the schema of the field %s is empty", key);
    json_object_foreach ((json_t *)j, key, v)
        check_fields(v);
    json_array_foreach (j, i, v)
        check_fields(v);
}

static void test_every_field_has_a_type(void **state)
{
    for (size_t i = 0; i < N; i++) {
        CODEC_AUTO_JSON json_t *d =
            kube_openapi_v3(resources[i].group, resources[i].version, resources, N);
        check_fields(d);
    }
    CODEC_AUTO_JSON json_t *old = kube_openapi_v2(resources, N);
    check_fields(old);
}

static bool has_query_parameter(const json_t *operation, const char *name)
{
    size_t i;
    json_t *p;
    json_array_foreach (json_object_get(operation, "parameters"), i, p)
        if (gs_streq(codec_json_str(p, "name", NULL), name) &&
            gs_streq(codec_json_str(p, "in", NULL), "query"))
            return true;
    return false;
}

static void test_version_3(void **state)
{
    CODEC_AUTO_JSON json_t *d = kube_openapi_v3("apps", "v1", resources, N);
    assert_string_equal(codec_json_str(d, "openapi", NULL), "3.0.0");
    check_references(d, d);
    // What kubectl looks for before it leaves validation and patch merging to the server.
    const json_t *patch = codec_json_get(
        d, "paths", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "patch", NULL);
    assert_true(has_query_parameter(patch, "fieldValidation"));
    assert_non_null(codec_json_get(patch, "requestBody", "content",
                                   "application/strategic-merge-patch+json", NULL));
    const json_t *gvk = codec_json_get(patch, "x-kubernetes-group-version-kind", NULL);
    assert_string_equal(codec_json_str(gvk, "kind", NULL), "Deployment");
    assert_string_equal(codec_json_str(gvk, "group", NULL), "apps");

    const json_t *schemas = codec_json_get(d, "components", "schemas", NULL);
    const json_t *deployment = json_object_get(schemas, "io.k8s.api.apps.v1.Deployment");
    gvk = json_array_get(json_object_get(deployment, "x-kubernetes-group-version-kind"), 0);
    assert_string_equal(codec_json_str(gvk, "version", NULL), "v1");
    assert_null(json_object_get(schemas, "io.k8s.api.core.v1.Pod"));
    const json_t *spec = json_object_get(schemas, "io.k8s.api.core.v1.PodSpec");
    assert_string_equal(
        codec_json_str(spec, "properties", "containers", "x-kubernetes-patch-merge-key", NULL),
        "name");
    assert_string_equal(
        codec_json_str(spec, "properties", "volumes", "x-kubernetes-patch-strategy", NULL),
        "merge,retainKeys");
    const json_t *own = json_object_get(schemas, "io.k8s.api.apps.v1.DeploymentSpec");
    assert_string_equal(
        codec_json_str(own, "properties", "strategy", "x-kubernetes-patch-strategy", NULL),
        "retainKeys");
    assert_string_equal(codec_json_str(own, "properties", "replicas", "format", NULL), "int32");
}

static void test_kinds_of_the_operator_have_fields_and_no_strategic_patches(void **state)
{
    CODEC_AUTO_JSON json_t *d = kube_openapi_v3("monitoring.coreos.com", "v1", resources, N);
    check_references(d, d);
    const json_t *patch = codec_json_get(
        d, "paths", "/apis/monitoring.coreos.com/v1/namespaces/{namespace}/servicemonitors/{name}",
        "patch", NULL);
    assert_non_null(patch);
    assert_null(codec_json_get(patch, "requestBody", "content",
                               "application/strategic-merge-patch+json", NULL));
    const json_t *endpoint = codec_json_get(
        d, "components", "schemas", "com.coreos.monitoring.v1.Endpoint", "properties", NULL);
    assert_string_equal(codec_json_str(endpoint, "honorLabels", "type", NULL), "boolean");
    assert_null(json_object_get(endpoint, "portNumber"));
}

static void test_index_of_version_3(void **state)
{
    CODEC_AUTO_JSON json_t *index = kube_openapi_v3_index(resources, N);
    assert_int_equal(json_object_size(json_object_get(index, "paths")), 4);
    const char *url = codec_json_str(index, "paths", "api/v1", "serverRelativeURL", NULL);
    assert_true(gs_starts(url, "/openapi/v3/api/v1?hash="));
    CODEC_AUTO_JSON json_t *fewer = kube_openapi_v3_index(resources, 1);
    const char *other = codec_json_str(fewer, "paths", "api/v1", "serverRelativeURL", NULL);
    assert_string_not_equal(url, other);
}

static uint64_t varint(const unsigned char **p, const unsigned char *end)
{
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(*p < end && shift < 64);
        v |= (uint64_t)(**p & 0x7f) << shift;
        if (!(*(*p)++ & 0x80))
            return v;
    }
}

// The value of the n-th length-delimited `field` of a message; data NULL when there is none.
static struct gs_slice member(struct gs_slice message, unsigned field, size_t n)
{
    const unsigned char *p = (const unsigned char *)message.data, *end = p + message.len;
    while (p < end) {
        uint64_t tag = varint(&p, end);
        uint64_t v = varint(&p, end);
        if ((tag & 7) == 0)
            continue;
        assert_int_equal(tag & 7, 2);
        assert_true(v <= (uint64_t)(end - p));
        if (tag >> 3 == field && n-- == 0)
            return gs_slice_make(p, (size_t)v);
        p += v;
    }
    return (struct gs_slice){NULL, 0};
}

static struct gs_slice named(struct gs_slice message, unsigned field, const char *name)
{
    for (size_t i = 0;; i++) {
        struct gs_slice pair = member(message, field, i);
        if (!pair.data || gs_slice_eq_str(member(pair, 1, 0), name))
            return pair.data ? member(pair, 2, 0) : pair;
    }
}

static void test_version_2(void **state)
{
    CODEC_AUTO_JSON json_t *d = kube_openapi_v2(resources, N);
    assert_string_equal(codec_json_str(d, "swagger", NULL), "2.0");
    check_references(d, d);

    GS_AUTO_BUF struct gs_buf pb = {0};
    kube_openapi_v2_encode(d, &pb);
    struct gs_slice document = gs_buf_slice(&pb);
    assert_true(gs_slice_eq_str(member(document, 1, 0), "2.0"));
    struct gs_slice definitions = member(document, 9, 0);
    size_t n = 0;
    while (member(definitions, 1, n).data)
        n++;
    assert_int_equal(n, json_object_size(json_object_get(d, "definitions")));

    struct gs_slice spec = named(definitions, 1, "io.k8s.api.apps.v1.DeploymentSpec");
    struct gs_slice replicas = named(member(spec, 25, 0), 1, "replicas");
    assert_true(gs_slice_eq_str(member(member(replicas, 22, 0), 1, 0), "integer"));
    assert_true(gs_slice_eq_str(member(replicas, 2, 0), "int32"));
    assert_true(gs_slice_eq_str(member(spec, 19, 0), "selector"));

    struct gs_slice path = named(member(document, 8, 0), 2, "/api/v1/namespaces/{name}");
    struct gs_slice patch = member(path, 8, 0);
    struct gs_slice gvk = named(patch, 13, "x-kubernetes-group-version-kind");
    assert_true(gs_slice_eq_str(member(gvk, 2, 0),
                                "{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Namespace\"}"));
    assert_true(gs_slice_eq_str(member(patch, 7, 2), "application/strategic-merge-patch+json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_has_a_type),
        cmocka_unit_test(test_version_3),
        cmocka_unit_test(test_kinds_of_the_operator_have_fields_and_no_strategic_patches),
        cmocka_unit_test(test_index_of_version_3),
        cmocka_unit_test(test_version_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
