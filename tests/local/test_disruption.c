// SPDX-License-Identifier: Apache-2.0
// PodDisruptionBudgets: their status, and evictions that they allow or refuse.
#include "cluster_harness.h"
#include "local/workloads.h"

static struct local_workloads *w;

static void setup(struct cluster *k)
{
    cluster_open(k);
    w = controllers_workloads_new(k->c);
    cluster_node(k, "1");
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
}

static void deploy(struct cluster *k, const char *name, int replicas)
{
    GS_AUTO_FREE char *yaml =
        gs_format("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n"
                  "  replicas: %d\n  selector: {matchLabels: {app: %s}}\n"
                  "  template:\n    metadata: {labels: {app: %s, tier: all}}\n"
                  "    spec: {containers: [{name: c, image: x}]}\n",
                  name, replicas, name, name);
    cluster_create(k, KUBE_DEPLOYMENTS, yaml);
    loop_until(&k->loop, cluster_count(k, name, "readyReplicas") == replicas);
}

static void protect(struct cluster *k, const char *name, const char *spec)
{
    GS_AUTO_FREE char *yaml =
        gs_format("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %s}\n"
                  "spec: {%s}\n",
                  name, spec);
    cluster_create(k, KUBE_PODDISRUPTIONBUDGETS, yaml);
}

static const json_t *budget(struct cluster *k, const char *name)
{
    return kube_cache_get(k->c->budgets, "default", name);
}

// Whether the status is that of the current spec and has these counts.
static bool is(struct cluster *k, const char *name, int healthy, int desired, int expected,
               int allowed)
{
    const json_t *b = budget(k, name);
    const json_t *s = json_object_get(b, "status");
    return b &&
           codec_json_int(s, 0, "observedGeneration", NULL) ==
               codec_json_int(b, 1, "metadata", "generation", NULL) &&
           codec_json_int(s, -1, "currentHealthy", NULL) == healthy &&
           codec_json_int(s, -1, "desiredHealthy", NULL) == desired &&
           codec_json_int(s, -1, "expectedPods", NULL) == expected &&
           codec_json_int(s, -1, "disruptionsAllowed", NULL) == allowed &&
           gs_streq(cluster_reason(b, "DisruptionAllowed"),
                    allowed ? "SufficientPods" : "InsufficientPods");
}

static const char *a_pod(struct cluster *k)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k->c->pods, &pos)))
        if (!kube_is_deleting(pod))
            return kube_name(pod);
    fail_msg("no pod");
    return NULL;
}

// options: YAML of deleteOptions, or NULL. The HTTP status.
static int evict_named(struct cluster *k, const char *pod, const char *in_body, const char *options)
{
    struct codec_yaml_docs docs = {0};
    GS_AUTO_FREE char *yaml =
        gs_format("apiVersion: policy/v1\nkind: Eviction\nmetadata: {name: %s}\n%s%s\n", in_body,
                  options ? "deleteOptions: " : "", options ? options : "");
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    kube_create_sub(k->client, KUBE_PODS, "default", pod, "eviction", docs.items[0].value,
                    call_took, k);
    int status = await(k);
    codec_yaml_docs_finish(&docs);
    return status;
}

static int evict(struct cluster *k, const char *pod)
{
    return evict_named(k, pod, pod, NULL);
}

static const char *cause(struct cluster *k)
{
    const json_t *causes = codec_json_get(k->body, "details", "causes", NULL);
    return codec_json_str(json_array_get(causes, 0), "message", NULL);
}

static void test_counts_follow_the_scale_of_the_owners(void **state)
{
    struct cluster k;
    setup(&k);
    deploy(&k, "web", 3);
    deploy(&k, "db", 2);
    protect(&k, "min", "minAvailable: 2, selector: {matchLabels: {app: web}}");
    protect(&k, "half", "minAvailable: 50%, selector: {matchLabels: {tier: all}}");
    protect(&k, "max", "maxUnavailable: 30%, selector: {matchLabels: {tier: all}}");
    protect(&k, "none", "maxUnavailable: 1, selector: {matchLabels: {app: none}}");
    protect(&k, "everything", "minAvailable: 4, selector: {}");
    protect(&k, "nothing", "minAvailable: 1");
    loop_until(&k.loop, is(&k, "min", 3, 2, 3, 1));
    loop_until(&k.loop, is(&k, "half", 5, 3, 5, 2));
    loop_until(&k.loop, is(&k, "max", 5, 3, 5, 2));
    loop_until(&k.loop, is(&k, "none", 0, 0, 0, 0));
    loop_until(&k.loop, is(&k, "everything", 5, 4, 5, 1));
    loop_until(&k.loop, is(&k, "nothing", 0, 1, 0, 0));
    assert_true(cluster_event(&k, "NoPods", "No matching pods found"));
    cluster_patch(&k, KUBE_PODDISRUPTIONBUDGETS, "min", NULL, "spec: {minAvailable: 3}");
    loop_until(&k.loop, is(&k, "min", 3, 3, 3, 0));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 4}");
    loop_until(&k.loop, is(&k, "min", 4, 3, 4, 1));
    loop_until(&k.loop, is(&k, "half", 6, 3, 6, 3));
    finish(&k);
}

static void test_pods_without_scale_allow_no_share(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_PODS,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: lone, labels: {app: lone}}\n"
                   "spec: {containers: [{name: c, image: x}]}\n");
    protect(&k, "lone", "maxUnavailable: 1, selector: {matchLabels: {app: lone}}");
    loop_until(&k.loop, is(&k, "lone", 1, 0, 0, 0));
    assert_true(cluster_event(
        &k, "UnmanagedPods",
        "(selector: &LabelSelector{MatchLabels:map[string]string{app: "
        "lone,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged."));
    cluster_create(&k, KUBE_DAEMONSETS,
                   "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n"
                   "  selector: {matchLabels: {app: agent}}\n  template:\n"
                   "    metadata: {labels: {app: agent}}\n"
                   "    spec: {containers: [{name: c, image: x}]}\n");
    protect(&k, "agent", "maxUnavailable: 1, selector: {matchLabels: {app: agent}}");
    loop_until(&k.loop,
               gs_streq(cluster_reason(budget(&k, "agent"), "DisruptionAllowed"), "SyncFailed"));
    assert_string_equal(
        codec_json_str(kube_condition(budget(&k, "agent"), "DisruptionAllowed"), "message", NULL),
        "daemonsets.apps does not implement the scale subresource");
    cluster_patch(&k, KUBE_PODDISRUPTIONBUDGETS, "agent", NULL,
                  "spec: {maxUnavailable: null, minAvailable: 0}");
    loop_until(&k.loop, is(&k, "agent", 1, 0, 1, 1));
    finish(&k);
}

static void test_budget_refuses_evictions(void **state)
{
    struct cluster k;
    setup(&k);
    deploy(&k, "web", 2);
    protect(&k, "web", "minAvailable: 2, selector: {matchLabels: {app: web}}");
    loop_until(&k.loop, is(&k, "web", 2, 2, 2, 0));
    GS_AUTO_FREE char *pod = gs_strdup(a_pod(&k));
    assert_int_equal(evict(&k, pod), 429);
    assert_string_equal(codec_json_str(k.body, "message", NULL),
                        "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_string_equal(codec_json_str(k.body, "reason", NULL), "TooManyRequests");
    assert_string_equal(cause(&k), "The disruption budget web needs 2 healthy pods and has 2 "
                                   "currently");
    protect(&k, "again", "minAvailable: 0, selector: {matchLabels: {app: web}}");
    assert_int_equal(evict(&k, pod), 500);
    assert_string_equal(codec_json_str(k.body, "message", NULL),
                        "This pod has more than one PodDisruptionBudget, which the eviction "
                        "subresource does not support.");
    assert_int_equal(cluster_pods(&k, pod_serves), 2);
    finish(&k);
}

static void test_eviction_uses_the_budget_until_a_new_pod_is_ready(void **state)
{
    struct cluster k;
    setup(&k);
    deploy(&k, "web", 2);
    protect(&k, "web", "maxUnavailable: 1, selector: {matchLabels: {app: web}}");
    loop_until(&k.loop, is(&k, "web", 2, 1, 2, 1));
    k.ready_budget = 0;
    GS_AUTO_FREE char *first = gs_strdup(a_pod(&k));
    assert_int_equal(evict_named(&k, first, first, "{dryRun: [All]}"), 201);
    assert_int_equal(evict(&k, first), 201);
    assert_string_equal(codec_json_str(k.body, "status", NULL), "Success");
    loop_until(&k.loop, !kube_cache_get(k.c->pods, "default", first));
    loop_until(&k.loop, is(&k, "web", 1, 1, 2, 0));
    GS_AUTO_FREE char *second = NULL;
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k.c->pods, &pos)))
        if (pod_serves(pod))
            second = gs_strdup(kube_name(pod));
    assert_int_equal(evict(&k, second), 429);
    k.ready_budget = -1;
    kubelet_look_all(&k);
    loop_until(&k.loop, is(&k, "web", 2, 1, 2, 1));
    assert_int_equal(evict(&k, second), 201);
    loop_until(&k.loop, is(&k, "web", 2, 1, 2, 1) && cluster_pods(&k, NULL) == 2);
    finish(&k);
}

static void test_evicted_pod_has_the_condition_and_its_grace_period(void **state)
{
    struct cluster k;
    setup(&k);
    k.hold_deletions = true;
    cluster_create(&k, KUBE_PODS,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: p}}\n"
                   "spec: {nodeName: node-1, terminationGracePeriodSeconds: 77, "
                   "containers: [{name: c, image: x}]}\n");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 1);
    protect(&k, "p", "minAvailable: 0, selector: {matchLabels: {app: p}}");
    loop_until(&k.loop, is(&k, "p", 1, 0, 1, 1));
    assert_int_equal(evict(&k, "p"), 201);
    loop_until(&k.loop, kube_is_deleting(kube_cache_get(k.c->pods, "default", "p")));
    const json_t *pod = kube_cache_get(k.c->pods, "default", "p");
    assert_int_equal(codec_json_int(pod, 0, "metadata", "deletionGracePeriodSeconds", NULL), 77);
    assert_string_equal(cluster_reason(pod, "DisruptionTarget"), "EvictionByEvictionAPI");
    assert_string_equal(codec_json_str(kube_condition(pod, "DisruptionTarget"), "message", NULL),
                        "Eviction API: evicting");
    loop_until(&k.loop, is(&k, "p", 0, 0, 1, 0) &&
                            !codec_json_get(budget(&k, "p"), "status", "disruptedPods", NULL));
    finish(&k);
}

static void test_unready_pods_follow_the_policy(void **state)
{
    struct cluster k;
    setup(&k);
    k.ready_budget = 0;
    cluster_create(&k, KUBE_PODS,
                   "apiVersion: v1\nkind: Pod\nmetadata: {name: sick, labels: {app: sick}}\n"
                   "spec: {containers: [{name: c, image: x}]}\n");
    cluster_patch(&k, KUBE_PODS, "sick", "status", "status: {phase: Running, podIP: 127.64.1.1}");
    protect(&k, "sick", "minAvailable: 1, selector: {matchLabels: {app: sick}}");
    loop_until(&k.loop, is(&k, "sick", 0, 1, 1, 0));
    assert_int_equal(evict(&k, "sick"), 429);
    assert_string_equal(cause(&k), "The disruption budget sick needs 1 healthy pods and has 0 "
                                   "currently");
    cluster_patch(&k, KUBE_PODDISRUPTIONBUDGETS, "sick", NULL,
                  "spec: {unhealthyPodEvictionPolicy: AlwaysAllow}");
    loop_until(&k.loop, is(&k, "sick", 0, 1, 1, 0));
    assert_int_equal(evict(&k, "sick"), 201);
    finish(&k);
}

static void test_pending_pods_are_evicted_without_budget(void **state)
{
    struct cluster k;
    setup(&k);
    k.ready_budget = 0;
    deploy(&k, "web", 0);
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 1}");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 1);
    protect(&k, "web", "minAvailable: 1, selector: {matchLabels: {app: web}}");
    loop_until(&k.loop, is(&k, "web", 0, 1, 1, 0));
    GS_AUTO_FREE char *pod = gs_strdup(a_pod(&k));
    assert_int_equal(evict(&k, pod), 201);
    finish(&k);
}

static void refuse(struct cluster *k, const char *spec, const char *why)
{
    struct codec_yaml_docs docs = {0};
    GS_AUTO_FREE char *yaml =
        gs_format("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: bad}\n"
                  "spec: {%s}\n",
                  spec);
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    kube_create(k->client, KUBE_PODDISRUPTIONBUDGETS, "default", docs.items[0].value, call_took, k);
    assert_int_equal(await(k), 422);
    codec_yaml_docs_finish(&docs);
    GS_AUTO_FREE char *text = gs_format("PodDisruptionBudget.policy \"bad\" is invalid: %s", why);
    assert_string_equal(codec_json_str(k->body, "message", NULL), text);
}

static void test_invalid_budgets(void **state)
{
    struct cluster k;
    setup(&k);
    refuse(&k, "minAvailable: 1, maxUnavailable: 1, selector: {matchLabels: {a: b}}",
           "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},"
           "\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and "
           "maxUnavailable cannot be both set");
    refuse(&k, "minAvailable: -1",
           "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0");
    refuse(&k, "minAvailable: abc",
           "spec.minAvailable: Invalid value: \"abc\": a valid percent string must be a numeric "
           "string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
           "'[0-9]+%')");
    refuse(&k, "maxUnavailable: 101%",
           "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%");
    refuse(&k, "unhealthyPodEvictionPolicy: X",
           "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: "
           "\"AlwaysAllow\", \"IfHealthyBudget\"");
    finish(&k);
}

static void test_invalid_evictions(void **state)
{
    struct cluster k;
    setup(&k);
    deploy(&k, "web", 1);
    GS_AUTO_FREE char *pod = gs_strdup(a_pod(&k));
    assert_int_equal(evict_named(&k, pod, "other", NULL), 400);
    assert_string_equal(codec_json_str(k.body, "message", NULL),
                        "name in URL does not match name in Eviction object");
    assert_int_equal(evict(&k, "nope"), 404);
    assert_int_equal(evict_named(&k, pod, pod, "{preconditions: {uid: abc}}"), 409);
    assert_int_equal(evict_named(&k, pod, pod, "{preconditions: {resourceVersion: '1'}}"), 409);
    assert_int_equal(cluster_pods(&k, pod_serves), 1);
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_follow_the_scale_of_the_owners),
        cmocka_unit_test(test_pods_without_scale_allow_no_share),
        cmocka_unit_test(test_budget_refuses_evictions),
        cmocka_unit_test(test_eviction_uses_the_budget_until_a_new_pod_is_ready),
        cmocka_unit_test(test_evicted_pod_has_the_condition_and_its_grace_period),
        cmocka_unit_test(test_unready_pods_follow_the_policy),
        cmocka_unit_test(test_pending_pods_are_evicted_without_budget),
        cmocka_unit_test(test_invalid_budgets),
        cmocka_unit_test(test_invalid_evictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
