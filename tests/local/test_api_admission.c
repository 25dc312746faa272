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

// --- the token of the service account ---

#define ACCOUNT_PATH "/var/run/secrets/kubernetes.io/serviceaccount"

static int setup_with_ca(void **state)
{
    struct harness *h = gs_alloc(sizeof(*h));
    harness_open_with(h, &(struct local_api_config){.node_name = "here", .ca_pem = "the CA"});
    *state = h;
    return 0;
}

static const json_t *volumes_of(const json_t *pod)
{
    return codec_json_get(pod, "spec", "volumes", NULL);
}

static const char *first_volume(const json_t *pod)
{
    return codec_json_str(json_array_get(volumes_of(pod), 0), "name", NULL);
}

// The n-th mount of a container of the list.
static const json_t *mount_of(const json_t *pod, const char *list, size_t container, size_t n)
{
    const json_t *c = json_array_get(codec_json_get(pod, "spec", list, NULL), container);
    return json_array_get(codec_json_get(c, "volumeMounts", NULL), n);
}

static void assert_has_token(const json_t *mount, const char *volume)
{
    assert_string_equal(codec_json_str(mount, "name", NULL), volume);
    assert_string_equal(codec_json_str(mount, "mountPath", NULL), ACCOUNT_PATH);
    assert_true(codec_json_bool(mount, false, "readOnly", NULL));
}

static void test_pods_get_the_token_of_their_account(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *pod =
        create_pod(h, ", volumeMounts: [{name: own, mountPath: /own}]}], volumes: [{name: own, "
                      "emptyDir: {}}], initContainers: [{name: i, image: i}]");
    CODEC_AUTO_JSON json_t *want = NULL;
    static const char sources[] =
        "{\"defaultMode\": 420, \"sources\": [{\"serviceAccountToken\": {\"expirationSeconds\": "
        "3607, \"path\": \"token\"}}, {\"configMap\": {\"name\": \"kube-root-ca.crt\", \"items\": "
        "[{\"key\": \"ca.crt\", \"path\": \"ca.crt\"}]}}, {\"downwardAPI\": {\"items\": "
        "[{\"path\": "
        "\"namespace\", \"fieldRef\": {\"apiVersion\": \"v1\", \"fieldPath\": "
        "\"metadata.namespace\"}}]}}]}";
    assert_null(codec_json_parse(gs_slice_of(sources), true, &want));
    assert_int_equal(json_array_size(volumes_of(pod)), 2);
    const json_t *volume = json_array_get(volumes_of(pod), 1);
    const char *name = codec_json_str(volume, "name", NULL);
    assert_true(gs_starts(name, "kube-api-access-"));
    assert_int_equal(strlen(name), strlen("kube-api-access-") + 5);
    assert_true(json_equal(json_object_get(volume, "projected"), want));
    assert_has_token(mount_of(pod, "containers", 0, 1), name);
    assert_has_token(mount_of(pod, "initContainers", 0, 0), name);
    AUTO_REPLY struct reply ca =
        request(h, "GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", NULL);
    assert_member(ca, "the CA", "data", "ca.crt");
}

static json_t *create_named(struct harness *h, const char *name, const char *spec)
{
    GS_AUTO_FREE char *body =
        gs_format("{kind: Pod, apiVersion: v1, metadata: {name: %s}, spec: {%s}}", name, spec);
    AUTO_REPLY struct reply r = request_with(h, "POST", PODS, "application/yaml", NULL, body);
    assert_status(r, 201);
    return json_incref(r.body);
}

static void create_account(struct harness *h, const char *name, const char *members)
{
    GS_AUTO_FREE char *body = gs_format(
        "{kind: ServiceAccount, apiVersion: v1, metadata: {name: %s}, %s}", name, members);
    AUTO_REPLY struct reply r = request_with(
        h, "POST", "/api/v1/namespaces/default/serviceaccounts", "application/yaml", NULL, body);
    assert_status(r, 201);
}

#define ONE_CONTAINER "containers: [{name: c, image: i}]"

static void test_pods_and_accounts_without_a_token(void **state)
{
    struct harness *h = *state;
    create_account(h, "quiet", "automountServiceAccountToken: false");
    CODEC_AUTO_JSON json_t *no =
        create_named(h, "without", ONE_CONTAINER ", automountServiceAccountToken: false");
    CODEC_AUTO_JSON json_t *quiet =
        create_named(h, "quiet", ONE_CONTAINER ", serviceAccountName: quiet");
    CODEC_AUTO_JSON json_t *yes = create_named(
        h, "with", ONE_CONTAINER ", serviceAccountName: quiet, automountServiceAccountToken: true");
    assert_null(volumes_of(no));
    assert_null(volumes_of(quiet));
    assert_has_token(mount_of(yes, "containers", 0, 0), first_volume(yes));
}

static void test_own_mounts_and_volumes_stay(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *mounted = create_named(
        h, "mounted",
        "containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: " ACCOUNT_PATH
        "}]}], volumes: [{name: v, emptyDir: {}}]");
    CODEC_AUTO_JSON json_t *named =
        create_named(h, "named",
                     ONE_CONTAINER ", volumes: [{name: kube-api-access-own, emptyDir: "
                                   "{}}]");
    assert_int_equal(json_array_size(volumes_of(mounted)), 1);
    assert_null(mount_of(mounted, "containers", 0, 1));
    assert_int_equal(json_array_size(volumes_of(named)), 1);
    assert_has_token(mount_of(named, "containers", 0, 0), "kube-api-access-own");
}

static void test_image_pull_secrets_of_the_account(void **state)
{
    struct harness *h = *state;
    create_account(h, "puller", "imagePullSecrets: [{name: registry}]");
    CODEC_AUTO_JSON json_t *pod =
        create_named(h, "p", ONE_CONTAINER ", serviceAccountName: puller");
    CODEC_AUTO_JSON json_t *own = create_named(
        h, "own", ONE_CONTAINER ", serviceAccountName: puller, imagePullSecrets: [{name: mine}]");
    const json_t *of_pod = codec_json_get(pod, "spec", "imagePullSecrets", NULL);
    const json_t *of_own = codec_json_get(own, "spec", "imagePullSecrets", NULL);
    assert_string_equal(codec_json_str(json_array_get(of_pod, 0), "name", NULL), "registry");
    assert_string_equal(codec_json_str(json_array_get(of_own, 0), "name", NULL), "mine");
}

#define TEST(f)    cmocka_unit_test_setup_teardown(f, setup, teardown)
#define WITH_CA(f) cmocka_unit_test_setup_teardown(f, setup_with_ca, teardown)
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
        WITH_CA(test_pods_get_the_token_of_their_account),
        WITH_CA(test_pods_and_accounts_without_a_token),
        WITH_CA(test_own_mounts_and_volumes_stay),
        WITH_CA(test_image_pull_secrets_of_the_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
