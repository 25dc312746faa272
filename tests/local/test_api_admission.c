// SPDX-License-Identifier: Apache-2.0
// What admission changes in new pods, and what it refuses.
#include "api_setup.h"

#define PODS "/api/v1/namespaces/default/pods"

// spec: members in YAML's flow style.
static struct reply post_pod(struct harness *h, const char *spec)
{
    GS_AUTO_FREE char *body = gs_format(
        "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: [{name: c, image: i"
        "%s}}",
        spec);
    return request_with(h, "POST", PODS, "application/yaml", NULL, body);
}

static json_t *create_pod(struct harness *h, const char *spec)
{
    AUTO_REPLY struct reply r = post_pod(h, spec);
    assert_status(r, 201);
    return json_incref(r.body);
}

static void test_extended_resources_are_tolerated(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *pod = create_pod(
        h, ", resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}}], initContainers: [{name: i, "
           "image: i, resources: {limits: {nvidia.com/gpu: 1}}}]");
    const json_t *list = codec_json_get(pod, "spec", "tolerations", NULL);
    CODEC_AUTO_JSON json_t *want = json_pack(
        "[{s:s,s:s,s:s,s:i},{s:s,s:s,s:s,s:i},{s:s,s:s}]", "key", "node.kubernetes.io/not-ready",
        "operator", "Exists", "effect", "NoExecute", "tolerationSeconds", 300, "key",
        "node.kubernetes.io/unreachable", "operator", "Exists", "effect", "NoExecute",
        "tolerationSeconds", 300, "key", "nvidia.com/gpu", "operator", "Exists");
    assert_true(json_equal(list, want));
}

static void test_own_tolerations_stay(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *pod = create_pod(
        h, ", resources: {limits: {nvidia.com/gpu: 1}}}], tolerations: [{operator: Exists, effect: "
           "NoExecute}, {key: nvidia.com/gpu, operator: Exists}]");
    assert_int_equal(json_array_size(codec_json_get(pod, "spec", "tolerations", NULL)), 2);
}

#define CLASSES "/apis/scheduling.k8s.io/v1/priorityclasses"

static void create_class(struct harness *h, const char *name, int value, bool is_default)
{
    GS_AUTO_FREE char *body = gs_format(
        "{\"kind\":\"PriorityClass\",\"apiVersion\":\"scheduling.k8s.io/v1\",\"metadata\":{"
        "\"name\":\"%s\"},\"value\":%d,\"globalDefault\":%s}",
        name, value, is_default ? "true" : "false");
    AUTO_REPLY struct reply r = request(h, "POST", CLASSES, body);
    assert_status(r, 201);
    assert_member(r, "PreemptLowerPriority", "preemptionPolicy");
}

static void test_priority_of_a_class(void **state)
{
    struct harness *h = *state;
    create_class(h, "high", 1000, false);
    CODEC_AUTO_JSON json_t *pod = create_pod(h, "}], priorityClassName: high");
    assert_int_equal(codec_json_int(pod, 0, "spec", "priority", NULL), 1000);
    assert_string_equal(codec_json_str(pod, "spec", "preemptionPolicy", NULL),
                        "PreemptLowerPriority");
}

static void test_priority_without_a_class(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *pod = create_pod(h, "}]");
    assert_int_equal(codec_json_int(pod, -1, "spec", "priority", NULL), 0);
    assert_null(codec_json_get(pod, "spec", "priorityClassName", NULL));
}

static void test_the_default_class(void **state)
{
    struct harness *h = *state;
    create_class(h, "usual", 7, true);
    CODEC_AUTO_JSON json_t *pod = create_pod(h, "}]");
    assert_int_equal(codec_json_int(pod, 0, "spec", "priority", NULL), 7);
    assert_string_equal(codec_json_str(pod, "spec", "priorityClassName", NULL), "usual");
}

static void assert_refused(struct harness *h, const char *spec, const char *message)
{
    AUTO_REPLY struct reply r = post_pod(h, spec);
    assert_status(r, 403);
    assert_member(r, message, "message");
}

static void test_wrong_priorities_are_refused(void **state)
{
    struct harness *h = *state;
    assert_refused(h, "}], priorityClassName: none",
                   "pods \"p\" is forbidden: no PriorityClass with name none was found");
    assert_refused(h, "}], priority: 5",
                   "pods \"p\" is forbidden: the integer value of priority (5) must not be "
                   "provided in pod spec; priority admission controller computed 0 from the given "
                   "PriorityClass name");
}

static void test_system_classes(void **state)
{
    struct harness *h = *state;
    AUTO_REPLY struct reply r = request(h, "GET", CLASSES "/system-node-critical", NULL);
    assert_status(r, 200);
    assert_number(r, 2000001000, "value");
    AUTO_REPLY struct reply table =
        request_with(h, "GET", CLASSES, NULL, "application/json;as=Table;v=v1;g=meta.k8s.io", NULL);
    assert_int_equal(json_array_size(json_object_get(table.body, "rows")), 2);
    AUTO_REPLY struct reply big =
        request(h, "POST", CLASSES,
                "{\"kind\":\"PriorityClass\",\"apiVersion\":\"scheduling.k8s.io/v1\",\"metadata\":{"
                "\"name\":\"big\"},\"value\":1000000001}");
    assert_status(big, 422);
    assert_message(big, "value: Forbidden: maximum allowed value of a user defined priority is "
                        "1000000000");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_extended_resources_are_tolerated),
        TEST(test_own_tolerations_stay),
        TEST(test_priority_of_a_class),
        TEST(test_priority_without_a_class),
        TEST(test_the_default_class),
        TEST(test_wrong_priorities_are_refused),
        TEST(test_system_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
