// SPDX-License-Identifier: Apache-2.0
#include "cluster_harness.h"
#include "local/workloads.h"

static bool same_names; // uv_random() gives all that it gives twice

// In place of libuv's.
int uv_random(uv_loop_t *loop, uv_random_t *request, void *buf, size_t len, unsigned flags,
              uv_random_cb cb)
{
    static uint32_t n;
    uint32_t word = 0;
    n++;
    for (size_t i = 0; i < len; i += sizeof(word)) {
        word = same_names ? (n / 2) >> (i / 2) : word * 1103515245U + n * 2654435761U + 12345;
        memcpy((char *)buf + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
    }
    return 0;
}

static struct local_workloads *w;
static int64_t least_serving, most_pods; // bounds that `check` holds, 0: none
static int bound_breaks;

static void check_bounds(struct cluster *k)
{
    int serving = (int)cluster_pods(k, pod_serves), pods = (int)cluster_pods(k, local_pod_active);
    if (serving >= least_serving && (!most_pods || pods <= most_pods))
        return;
    print_message("bounds broken: %d serve, at least %d should; %d pods, at most %d should\n",
                  serving, (int)least_serving, pods, (int)most_pods);
    bound_breaks++;
}

static void setup(struct cluster *k)
{
    least_serving = most_pods = 0;
    bound_breaks = 0;
    cluster_open(k);
    k->check = check_bounds;
    w = controllers_workloads_new(k->c);
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
    assert_int_equal(bound_breaks, 0);
}

#define DEPLOYMENT(replicas, extra, image)                                                         \
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n"                        \
    "  replicas: " replicas "\n" extra "  selector: {matchLabels: {app: web}}\n"                   \
    "  template:\n    metadata: {labels: {app: web}}\n"                                            \
    "    spec: {containers: [{name: c, image: '" image "'}]}\n"
#define IMAGE(image) "spec: {template: {spec: {containers: [{name: c, image: '" image "'}]}}}"

static bool settled(struct cluster *k, int64_t replicas)
{
    const json_t *d = cluster_deployment(k, "web");
    return d && cluster_count(k, "web", "availableReplicas") == replicas &&
           cluster_count(k, "web", "updatedReplicas") == replicas &&
           cluster_count(k, "web", "replicas") == replicas &&
           cluster_pods(k, NULL) == (size_t)replicas &&
           codec_json_int(d, 0, "status", "observedGeneration", NULL) ==
               codec_json_int(d, 0, "metadata", "generation", NULL) &&
           strcmp(cluster_reason(d, "Progressing"), "NewReplicaSetAvailable") == 0;
}

static const json_t *replicaset_with(struct cluster *k, int64_t spec_replicas)
{
    size_t pos = 0;
    const json_t *rs;
    while ((rs = kube_cache_next(k->c->replicasets, &pos)))
        if (codec_json_int(rs, -1, "spec", "replicas", NULL) == spec_replicas)
            return rs;
    return NULL;
}

static void test_a_deployment_brings_up_its_pods(void **state)
{
    struct cluster k;
    setup(&k);
    most_pods = 3;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("3", "", "one"));
    loop_until(&k.loop, settled(&k, 3));
    const json_t *d = cluster_deployment(&k, "web"), *rs = replicaset_with(&k, 3);
    const char *hash = kube_label(rs, "pod-template-hash");
    GS_AUTO_FREE char *name = gs_format("web-%s", hash);
    assert_string_equal(kube_name(rs), name);
    assert_string_equal(kube_annotation(d, "deployment.kubernetes.io/revision"), "1");
    // The annotation of the controller is no change of the object.
    assert_int_equal(codec_json_int(d, 0, "metadata", "generation", NULL), 1);
    assert_string_equal(kube_annotation(rs, "deployment.kubernetes.io/revision"), "1");
    assert_string_equal(kube_annotation(rs, "deployment.kubernetes.io/desired-replicas"), "3");
    assert_string_equal(kube_annotation(rs, "deployment.kubernetes.io/max-replicas"), "4");
    assert_string_equal(cluster_reason(d, "Available"), "MinimumReplicasAvailable");
    GS_AUTO_FREE char *text = gs_format("ReplicaSet \"%s\" has successfully progressed.", name);
    assert_string_equal(codec_json_str(kube_condition(d, "Progressing"), "message", NULL), text);
    size_t pos = 0;
    const json_t *pod = kube_cache_next(k.c->pods, &pos);
    assert_true(gs_starts(kube_name(pod), name));
    assert_int_equal(strlen(kube_name(pod)), strlen(name) + 6);
    assert_string_equal(kube_label(pod, "pod-template-hash"), hash);
    assert_string_equal(codec_json_str(kube_controller_ref(pod), "kind", NULL), "ReplicaSet");
    assert_true(cluster_event(&k, "ScalingReplicaSet", "Scaled up replica set web-"));
    assert_true(cluster_event(&k, "ScalingReplicaSet", "from 0 to 3"));
    assert_true(cluster_event(&k, "SuccessfulCreate", "Created pod: web-"));
    finish(&k);
}

static void test_scaling_up_and_down(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("1", "", "one"));
    loop_until(&k.loop, settled(&k, 1));
    most_pods = 8;
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 8}");
    loop_until(&k.loop, settled(&k, 8));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 2}");
    loop_until(&k.loop, settled(&k, 2));
    assert_int_equal(kube_cache_len(k.c->replicasets), 1);
    assert_true(cluster_event(&k, "ScalingReplicaSet", "from 1 to 8"));
    assert_true(cluster_event(&k, "ScalingReplicaSet", "Scaled down replica set"));
    assert_true(cluster_event(&k, "SuccessfulDelete", "Deleted pod: web-"));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 0}");
    loop_until(&k.loop, settled(&k, 0));
    finish(&k);
}

static void test_a_rolling_update_keeps_its_bounds(void **state)
{
    static const struct {
        const char *strategy;
        int64_t least, most;
    } cases[] = {
        {"", 3, 5}, // 25 % and 25 % of 4
        {"  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n", 3, 4},
        {"  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}\n", 4, 5},
        {"  strategy: {rollingUpdate: {maxSurge: 50%, maxUnavailable: 50%}}\n", 2, 6},
        {"  strategy: {rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}}\n", 4, 8},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct cluster k;
        setup(&k);
        GS_AUTO_FREE char *yaml = gs_format(DEPLOYMENT("4", "%s", "one"), cases[i].strategy);
        cluster_create(&k, KUBE_DEPLOYMENTS, yaml);
        loop_until(&k.loop, settled(&k, 4));
        least_serving = cases[i].least;
        most_pods = cases[i].most;
        cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
        loop_until(&k.loop, kube_cache_len(k.c->replicasets) == 2 && settled(&k, 4));
        assert_int_equal(bound_breaks, 0);
        least_serving = most_pods = 0;
        assert_string_equal(
            kube_annotation(replicaset_with(&k, 4), "deployment.kubernetes.io/revision"), "2");
        finish(&k);
    }
}

static void test_a_rollout_that_never_gets_ready_stays_within_its_bounds(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("4", "  progressDeadlineSeconds: 1\n", "one"));
    loop_until(&k.loop, settled(&k, 4));
    least_serving = 3;
    most_pods = 5;
    k.ready_budget = 0;
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    loop_until(&k.loop, gs_streq(cluster_reason(cluster_deployment(&k, "web"), "Progressing"),
                                 "ProgressDeadlineExceeded"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 3 &&
                            cluster_count(&k, "web", "unavailableReplicas") == 2);
    // Rolling back makes the old template the current one again, as revision 3.
    k.ready_budget = -1;
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("one"));
    loop_until(&k.loop, settled(&k, 4));
    loop_until(&k.loop, gs_streq(kube_annotation(cluster_deployment(&k, "web"),
                                                 "deployment.kubernetes.io/revision"),
                                 "3"));
    assert_string_equal(
        kube_annotation(replicaset_with(&k, 4), "deployment.kubernetes.io/revision-history"), "1");
    least_serving = most_pods = 0;
    finish(&k);
}

static bool is_new(const json_t *pod)
{
    const json_t *c = json_array_get(codec_json_get(pod, "spec", "containers", NULL), 0);
    return gs_streq(codec_json_str(c, "image", NULL), "two");
}

static void check_no_mix(struct cluster *k)
{
    size_t fresh = cluster_pods(k, is_new);
    if (fresh > 0 && fresh != cluster_pods(k, NULL))
        bound_breaks++;
}

static void test_recreate_never_mixes(void **state)
{
    struct cluster k;
    setup(&k);
    k.check = check_no_mix;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("3", "  strategy: {type: Recreate}\n", "one"));
    loop_until(&k.loop, settled(&k, 3));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    loop_until(&k.loop, settled(&k, 3) && cluster_pods(&k, is_new) == 3);
    finish(&k);
}

static void test_a_paused_deployment_scales_but_does_not_roll(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("2", "", "one"));
    loop_until(&k.loop, settled(&k, 2));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {paused: true}");
    loop_until(&k.loop, gs_streq(cluster_reason(cluster_deployment(&k, "web"), "Progressing"),
                                 "DeploymentPaused"));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 4}");
    loop_until(&k.loop, cluster_count(&k, "web", "availableReplicas") == 4);
    assert_int_equal(cluster_pods(&k, is_new), 0);
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {paused: null}");
    loop_until(&k.loop, settled(&k, 4) && cluster_pods(&k, is_new) == 4);
    finish(&k);
}

static void test_a_rollout_is_scaled_in_proportion(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(
        &k, KUBE_DEPLOYMENTS,
        DEPLOYMENT("10", "  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 2}}\n", "one"));
    loop_until(&k.loop, settled(&k, 10));
    k.ready_budget = 0;
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    loop_until(&k.loop, cluster_pods(&k, is_new) == 5 && cluster_pods(&k, NULL) == 13);
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 15}");
    // Kubernetes' documented example: 13 -> 18, the old set gets 3 of the 5.
    loop_until(&k.loop, cluster_pods(&k, NULL) == 18);
    assert_int_equal(cluster_pods(&k, is_new), 7);
    k.ready_budget = -1;
    kubelet_look_all(&k);
    loop_until(&k.loop, settled(&k, 15));
    finish(&k);
}

static void test_history_is_limited(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("1", "  revisionHistoryLimit: 2\n", "i0"));
    loop_until(&k.loop, settled(&k, 1));
    for (int i = 1; i < 6; i++) {
        GS_AUTO_FREE char *patch = gs_format(IMAGE("i%d"), i);
        cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, patch);
        loop_until(&k.loop, settled(&k, 1));
    }
    loop_until(&k.loop, kube_cache_len(k.c->replicasets) == 3);
    finish(&k);
}

static void test_killed_pods_come_back(void **state)
{
    struct cluster k;
    setup(&k);
    most_pods = 3;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("3", "", "one"));
    loop_until(&k.loop, settled(&k, 3));
    size_t pos = 0;
    const json_t *pod = kube_cache_next(k.c->pods, &pos);
    GS_AUTO_FREE char *name = gs_strdup(kube_name(pod));
    cluster_delete(&k, KUBE_PODS, "default", name);
    loop_until(&k.loop, !kube_cache_get(k.c->pods, "default", name) && settled(&k, 3));
    // A failed pod is replaced and left to be looked at.
    most_pods = 0;
    pos = 0;
    GS_AUTO_FREE char *failed = gs_strdup(kube_name(kube_cache_next(k.c->pods, &pos)));
    cluster_patch(&k, KUBE_PODS, failed, "status", "status: {phase: Failed}");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 3 && cluster_pods(&k, NULL) == 4);
    finish(&k);
}

static void test_scaling_down_prefers_unready_pods(void **state)
{
    struct cluster k;
    setup(&k);
    k.ready_budget = 2;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("5", "", "one"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 2 && cluster_pods(&k, NULL) == 5);
    least_serving = 2;
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, "spec: {replicas: 2}");
    loop_until(&k.loop, settled(&k, 2));
    least_serving = 0;
    finish(&k);
}

static void test_deleting_cascades(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("3", "", "one"));
    loop_until(&k.loop, settled(&k, 3));
    cluster_delete(&k, KUBE_DEPLOYMENTS, "default", "web");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0 && kube_cache_len(k.c->replicasets) == 0);
    finish(&k);
}

// One mistake must cost what the quota allows and no more, and be undone as fast.
static void test_more_replicas_than_the_quota_are_refused(void **state)
{
    struct cluster k = {0};
    least_serving = most_pods = bound_breaks = 0;
    cluster_open_with(&k, 150); // more than one burst of creations
    k.check = check_bounds;
    w = controllers_workloads_new(k.c);
    most_pods = 150;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("2147483647", "", "one"));
    loop_until(&k.loop, cluster_pods(&k, NULL) == 150);
    loop_until(&k.loop, kube_condition(replicaset_with(&k, 2147483647), "ReplicaFailure"));
    const json_t *failure = kube_condition(replicaset_with(&k, 2147483647), "ReplicaFailure");
    assert_string_equal(codec_json_str(failure, "reason", NULL), "FailedCreate");
    assert_non_null(strstr(codec_json_str(failure, "message", NULL),
                           "is forbidden: exceeded quota: gpuscale, requested: pods=1, used: "
                           "pods=150, limited: pods=150"));
    assert_true(cluster_event(&k, "FailedCreate", "Error creating: pods \"web-"));
    // Room again: it is used. A turn of the loop may see the end and the replacement together.
    const json_t *first = kube_cache_next(k.c->pods, &(size_t){0});
    GS_AUTO_FREE char *name = gs_strdup(kube_name(first));
    cluster_delete(&k, KUBE_PODS, "default", name);
    loop_until(&k.loop,
               !kube_cache_get(k.c->pods, "default", name) && cluster_pods(&k, NULL) == 150);
    cluster_delete(&k, KUBE_DEPLOYMENTS, "default", "web");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0 && kube_cache_len(k.c->replicasets) == 0);
    finish(&k);
}

// Each name comes twice: with many pods at once that happens by chance. The second pod needs
// another one, or both share an expectation, which the first answer frees.
static void test_names_that_come_twice_are_not_used_twice(void **state)
{
    struct cluster k;
    setup(&k);
    same_names = true;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("40", "", "one"));
    loop_until(&k.loop, settled(&k, 40));
    same_names = false;
    finish(&k);
}

static void policy_answered(void *arg, const struct http_response *a, struct gs_error *err)
{
    assert_null(err);
    assert_true(a->status == 200 || a->status == 202);
    *(bool *)arg = true;
}

static void delete_orphaning(struct cluster *k)
{
    static const char body[] =
        "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Orphan\"}";
    struct http_request call = {
        .method = "DELETE",
        .path = "/apis/apps/v1/namespaces/default/deployments/web",
        .body = gs_slice_of(body),
        .content_type = "application/json",
    };
    struct http_callbacks cb = {.on_done = policy_answered};
    bool done = false;
    http_send(k->http, &call, &cb, &done);
    loop_until(&k->loop, done);
}

static void test_orphans_stay_and_are_adopted(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("2", "", "one"));
    loop_until(&k.loop, settled(&k, 2));
    GS_AUTO_FREE char *rs = gs_strdup(kube_name(replicaset_with(&k, 2)));
    delete_orphaning(&k);
    loop_until(&k.loop, kube_cache_len(k.c->deployments) == 0);
    loop_until(&k.loop, !kube_controller_ref(kube_cache_get(k.c->replicasets, "default", rs)));
    loop_for_ms(&k.loop, 200);
    assert_int_equal(cluster_pods(&k, pod_serves), 2);
    most_pods = 2;
    least_serving = 2;
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("2", "", "one"));
    loop_until(&k.loop, settled(&k, 2));
    assert_non_null(kube_cache_get(k.c->replicasets, "default", rs));
    assert_int_equal(kube_cache_len(k.c->replicasets), 1);
    least_serving = 0;
    finish(&k);
}

static void test_foreground_deletion_waits_for_dependents(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("2", "", "one"));
    loop_until(&k.loop, settled(&k, 2));
    // What the API server of Kubernetes puts on for propagationPolicy Foreground.
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL,
                  "metadata: {finalizers: [foregroundDeletion]}");
    cluster_delete(&k, KUBE_DEPLOYMENTS, "default", "web");
    loop_until(&k.loop, kube_cache_len(k.c->deployments) == 0);
    assert_int_equal(kube_cache_len(k.c->replicasets), 0);
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_restart_converges(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("4", "", "one"));
    loop_until(&k.loop, settled(&k, 4));
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    loop_until(&k.loop, cluster_pods(&k, is_new) > 0);
    least_serving = 3;
    most_pods = 5;
    for (int i = 0; i < 3; i++) { // in the middle of it, again and again
        controllers_workloads_free(w);
        cluster_forget(&k);
        loop_for_ms(&k.loop, 5);
        cluster_watch(&k);
        least_serving = 0; // the caches are filling
        loop_until(&k.loop, local_cluster_synced(k.c));
        least_serving = 3;
        w = controllers_workloads_new(k.c);
        loop_for_ms(&k.loop, 10);
    }
    loop_until(&k.loop, settled(&k, 4) && cluster_pods(&k, is_new) == 4);
    least_serving = 0;
    // Owners that went while nobody looked.
    controllers_workloads_free(w);
    cluster_delete(&k, KUBE_DEPLOYMENTS, "default", "web");
    loop_until(&k.loop, kube_cache_len(k.c->deployments) == 0);
    w = controllers_workloads_new(k.c);
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0 && kube_cache_len(k.c->replicasets) == 0);
    finish(&k);
}

static void test_faults_only_delay(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("6", "", "one"));
    loop_until(&k.loop, settled(&k, 6));
    least_serving = 5; // maxUnavailable 25 % of 6, rounded down
    most_pods = 8;     // maxSurge 25 % of 6, rounded up
    cluster_patch(&k, KUBE_DEPLOYMENTS, "web", NULL, IMAGE("two"));
    k.fail_every = 3;
    for (int i = 0; i < 400 && !settled(&k, 6); i++) {
        loop_for_ms(&k.loop, 20);
        kubelet_look_all(&k); // its writes fail too
    }
    k.fail_every = 0;
    kubelet_look_all(&k);
    loop_until(&k.loop, settled(&k, 6) && cluster_pods(&k, is_new) == 6);
    least_serving = most_pods = 0;
    finish(&k);
}

static void test_namespaces_are_emptied_and_go(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_NAMESPACES, "{apiVersion: v1, kind: Namespace, metadata: {name: t}}");
    cluster_create(&k, KUBE_CONFIGMAPS,
                   "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: t}}");
    cluster_create(&k, KUBE_PODS,
                   "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: t}, spec: "
                   "{containers: [{name: c, image: i}]}}");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 1);
    cluster_delete(&k, KUBE_NAMESPACES, NULL, "t");
    loop_until(&k.loop, !kube_cache_get(k.c->namespaces, NULL, "t"));
    assert_int_equal(cluster_pods(&k, NULL), 0);
    kube_get(k.client, KUBE_CONFIGMAPS, "t", "m", NULL, call_took, &k);
    assert_int_equal(await(&k), 404);
    finish(&k);
}

static void test_minimum_ready_time_counts(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_DEPLOYMENTS, DEPLOYMENT("1", "  minReadySeconds: 2\n", "one"));
    loop_until(&k.loop, cluster_count(&k, "web", "readyReplicas") == 1);
    assert_int_equal(cluster_count(&k, "web", "availableReplicas"), 0);
    loop_until(&k.loop, settled(&k, 1));
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deployment_brings_up_its_pods),
        cmocka_unit_test(test_scaling_up_and_down),
        cmocka_unit_test(test_a_rolling_update_keeps_its_bounds),
        cmocka_unit_test(test_a_rollout_that_never_gets_ready_stays_within_its_bounds),
        cmocka_unit_test(test_recreate_never_mixes),
        cmocka_unit_test(test_a_paused_deployment_scales_but_does_not_roll),
        cmocka_unit_test(test_a_rollout_is_scaled_in_proportion),
        cmocka_unit_test(test_history_is_limited),
        cmocka_unit_test(test_killed_pods_come_back),
        cmocka_unit_test(test_scaling_down_prefers_unready_pods),
        cmocka_unit_test(test_deleting_cascades),
        cmocka_unit_test(test_names_that_come_twice_are_not_used_twice),
        cmocka_unit_test(test_more_replicas_than_the_quota_are_refused),
        cmocka_unit_test(test_orphans_stay_and_are_adopted),
        cmocka_unit_test(test_foreground_deletion_waits_for_dependents),
        cmocka_unit_test(test_restart_converges),
        cmocka_unit_test(test_faults_only_delay),
        cmocka_unit_test(test_namespaces_are_emptied_and_go),
        cmocka_unit_test(test_minimum_ready_time_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
