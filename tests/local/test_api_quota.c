// SPDX-License-Identifier: Apache-2.0
// ResourceQuotas and LimitRanges: what they refuse, in Kubernetes' words, and what they report.
#include "api_setup.h"

#define NS "/api/v1/namespaces/default/"

static struct reply post(struct harness *h, const char *plural, const char *yaml)
{
    GS_AUTO_FREE char *path = gs_format(NS "%s", plural);
    return request_with(h, "POST", path, "application/yaml", NULL, yaml);
}

static void create(struct harness *h, const char *plural, const char *yaml)
{
    AUTO_REPLY struct reply r = post(h, plural, yaml);
    assert_status(r, 201);
}

static void quota(struct harness *h, const char *spec)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {%s}}", spec);
    create(h, "resourcequotas", yaml);
}

static void limits(struct harness *h, const char *items)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [%s]}}", items);
    create(h, "limitranges", yaml);
}

static struct reply pod(struct harness *h, const char *name, const char *resources)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, "
                  "image: i, resources: {%s}}]}}",
                  name, resources);
    return post(h, "pods", yaml);
}

static void create_pod(struct harness *h, const char *name, const char *resources)
{
    AUTO_REPLY struct reply r = pod(h, name, resources);
    assert_status(r, 201);
}

static void refuse(struct harness *h, const char *resources, const char *why)
{
    GS_AUTO_FREE char *message = gs_format("pods \"x\" is forbidden: %s", why);
    AUTO_REPLY struct reply r = pod(h, "x", resources);
    assert_status(r, 403);
    assert_member(r, "Forbidden", "reason");
    assert_member(r, message, "message");
}

// The status follows in a later turn of the loop.
static void assert_used(struct harness *h, const char *resource, const char *want)
{
    for (int i = 0; i < 1000; i++) {
        AUTO_REPLY struct reply r = request(h, "GET", NS "resourcequotas/q", NULL);
        assert_status(r, 200);
        if (gs_streq(codec_json_str(r.body, "status", "used", resource, NULL), want))
            return;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
    fail_msg("%s does not become %s", resource, want);
}

static void test_gpus_and_pods(void **state)
{
    struct harness *h = *state;
    quota(h, "hard: {pods: 3, requests.nvidia.com/gpu: 2}");
    create_pod(h, "a", "limits: {nvidia.com/gpu: 2}");
    assert_used(h, "requests.nvidia.com/gpu", "2");
    assert_used(h, "pods", "1");
    refuse(h, "limits: {nvidia.com/gpu: 1}",
           "exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: "
           "requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2");
    create_pod(h, "b", "");
    create_pod(h, "c", "");
    refuse(h, "limits: {nvidia.com/gpu: 1}",
           "exceeded quota: q, requested: pods=1,requests.nvidia.com/gpu=1, used: "
           "pods=3,requests.nvidia.com/gpu=2, limited: pods=3,requests.nvidia.com/gpu=2");
    AUTO_REPLY struct reply gone = request(h, "DELETE", NS "pods/a", NULL);
    assert_status(gone, 200);
    assert_used(h, "requests.nvidia.com/gpu", "0");
    create_pod(h, "d", "limits: {nvidia.com/gpu: 2}");
}

static void test_cpu_and_memory_must_be_given(void **state)
{
    struct harness *h = *state;
    quota(h, "hard: {requests.cpu: '1', limits.memory: 1Gi}");
    refuse(h, "", "failed quota: q: must specify limits.memory for: c; requests.cpu for: c");
    create_pod(h, "a", "requests: {cpu: 750m}, limits: {memory: 512Mi}");
    assert_used(h, "requests.cpu", "750m");
    assert_used(h, "limits.memory", "512Mi");
    refuse(h, "requests: {cpu: 500m}, limits: {memory: 1Mi}",
           "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=750m, limited: "
           "requests.cpu=1");
}

static void test_objects_are_counted(void **state)
{
    struct harness *h = *state;
    quota(h, "hard: {configmaps: 1, count/deployments.apps: 0, services.loadbalancers: 0}");
    create(h, "configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    AUTO_REPLY struct reply second =
        post(h, "configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}");
    assert_status(second, 403);
    assert_member(second,
                  "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, "
                  "used: configmaps=1, limited: configmaps=1",
                  "message");
    AUTO_REPLY struct reply balancer =
        post(h, "services",
             "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer, "
             "ports: [{port: 80}]}}");
    assert_status(balancer, 403);
    create(h, "services",
           "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}");
    AUTO_REPLY struct reply deployment = request_with(
        h, "POST", "/apis/apps/v1/namespaces/default/deployments", "application/yaml", NULL,
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: "
        "{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: "
        "c, image: i}]}}}}");
    assert_status(deployment, 403);
    assert_message(deployment, "count/deployments.apps=1");
}

static void test_scopes(void **state)
{
    struct harness *h = *state;
    quota(h, "hard: {pods: 0}, scopes: [NotBestEffort]");
    create_pod(h, "a", "");
    AUTO_REPLY struct reply r = pod(h, "x", "limits: {cpu: 1}");
    assert_status(r, 403);
    assert_message(r, "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0");
}

static void test_finished_pods_do_not_count(void **state)
{
    struct harness *h = *state;
    quota(h, "hard: {pods: 1}");
    create_pod(h, "a", "");
    AUTO_REPLY struct reply done =
        request_with(h, "PATCH", NS "pods/a/status", "application/merge-patch+json", NULL,
                     "{\"status\":{\"phase\":\"Succeeded\"}}");
    assert_status(done, 200);
    assert_used(h, "pods", "0");
    create_pod(h, "b", "");
}

static void test_defaults_of_containers(void **state)
{
    struct harness *h = *state;
    limits(h, "{type: Container, default: {memory: 512Mi}, defaultRequest: {cpu: 100m, memory: "
              "256Mi}}");
    AUTO_REPLY struct reply r = pod(h, "a", "");
    assert_status(r, 201);
    const json_t *c = json_array_get(codec_json_get(r.body, "spec", "containers", NULL), 0);
    assert_string_equal(codec_json_str(c, "resources", "limits", "memory", NULL), "512Mi");
    assert_string_equal(codec_json_str(c, "resources", "requests", "memory", NULL), "256Mi");
    assert_string_equal(codec_json_str(c, "resources", "requests", "cpu", NULL), "100m");
    assert_member(r, "Burstable", "status", "qosClass");
    assert_member(r,
                  "LimitRanger plugin set: cpu, memory request for container c; memory limit for "
                  "container c",
                  "metadata", "annotations", "kubernetes.io/limit-ranger");
}

static void test_bounds_of_containers(void **state)
{
    struct harness *h = *state;
    limits(h, "{type: Container, min: {cpu: 100m}, max: {cpu: '2'}, maxLimitRequestRatio: {cpu: "
              "'4'}}");
    // The maximum is the default.
    AUTO_REPLY struct reply r = pod(h, "a", "");
    assert_status(r, 201);
    refuse(h, "requests: {cpu: 50m}, limits: {cpu: 50m}",
           "minimum cpu usage per Container is 100m, but request is 50m");
    refuse(h, "requests: {cpu: '1'}, limits: {cpu: '3'}",
           "maximum cpu usage per Container is 2, but limit is 3");
    refuse(h, "requests: {cpu: 200m}, limits: {cpu: '1'}",
           "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000");
}

static void test_bounds_of_pods(void **state)
{
    struct harness *h = *state;
    limits(h, "{type: Pod, max: {nvidia.com/gpu: 2, memory: 1Gi}}");
    refuse(h, "limits: {nvidia.com/gpu: 3, memory: 1Gi}",
           "maximum nvidia.com/gpu usage per Pod is 2, but limit is 3");
    refuse(h, "limits: {nvidia.com/gpu: 3}",
           "[maximum nvidia.com/gpu usage per Pod is 2, but limit is 3, maximum memory usage per "
           "Pod is 1Gi.  No limit is specified]");
    create_pod(h, "a", "limits: {nvidia.com/gpu: 2, memory: 1Gi}");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_gpus_and_pods),
        TEST(test_cpu_and_memory_must_be_given),
        TEST(test_objects_are_counted),
        TEST(test_scopes),
        TEST(test_finished_pods_do_not_count),
        TEST(test_defaults_of_containers),
        TEST(test_bounds_of_containers),
        TEST(test_bounds_of_pods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
