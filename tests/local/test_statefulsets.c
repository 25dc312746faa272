// SPDX-License-Identifier: Apache-2.0
#include "cluster_harness.h"
#include "local/workloads.h"

static struct local_workloads *w;

static void setup(struct cluster *k)
{
    cluster_open(k);
    w = controllers_workloads_new(k->c);
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
}

#define STATEFULSET(replicas, extra, image)                                                        \
    "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n"                        \
    "  replicas: " replicas "\n  serviceName: db\n" extra "  selector: {matchLabels: {app: db}}\n" \
    "  template:\n    metadata: {labels: {app: db}}\n"                                             \
    "    spec: {containers: [{name: c, image: '" image "'}]}\n"
#define IMAGE(image) "spec: {template: {spec: {containers: [{name: c, image: '" image "'}]}}}"
#define CLAIMS                                                                                     \
    "  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec:\n"                             \
    "      accessModes: [ReadWriteOnce]\n      resources: {requests: {storage: 1Gi}}\n"

static const json_t *set(struct cluster *k)
{
    return kube_cache_get(k->c->statefulsets, "default", "db");
}

static int64_t number(struct cluster *k, const char *field)
{
    return codec_json_int(set(k), 0, "status", field, NULL);
}

static const json_t *pod(struct cluster *k, int n)
{
    GS_AUTO_FREE char *name = gs_format("db-%d", n);
    return kube_cache_get(k->c->pods, "default", name);
}

static const char *image_of(struct cluster *k, int n)
{
    const char *image = codec_json_str(
        json_array_get(codec_json_get(pod(k, n), "spec", "containers", NULL), 0), "image", NULL);
    return image ? image : "";
}

static bool settled(struct cluster *k, int64_t replicas)
{
    return set(k) && number(k, "replicas") == replicas && number(k, "readyReplicas") == replicas &&
           number(k, "availableReplicas") == replicas && number(k, "updatedReplicas") == replicas &&
           number(k, "currentReplicas") == replicas && cluster_pods(k, NULL) == (size_t)replicas &&
           number(k, "observedGeneration") ==
               codec_json_int(set(k), 0, "metadata", "generation", NULL);
}

// A pod runs only while those with lower numbers are ready.
static int out_of_order;

static void check_order(struct cluster *k)
{
    bool missing = false;
    for (int i = 0; i < 8; i++) {
        out_of_order += missing && pod(k, i) && !kube_is_deleting(pod(k, i));
        missing = missing || !pod(k, i);
    }
}

static void test_pods_have_stable_names_in_order(void **state)
{
    struct cluster k;
    setup(&k);
    out_of_order = 0;
    k.check = check_order;
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("3", "", "one"));
    loop_until(&k.loop, settled(&k, 3));
    for (int i = 0; i < 3; i++) {
        GS_AUTO_FREE char *index = gs_format("%d", i);
        assert_non_null(pod(&k, i));
        assert_string_equal(kube_label(pod(&k, i), "statefulset.kubernetes.io/pod-name"),
                            kube_name(pod(&k, i)));
        assert_string_equal(kube_label(pod(&k, i), "apps.kubernetes.io/pod-index"), index);
        assert_string_equal(codec_json_str(pod(&k, i), "spec", "hostname", NULL),
                            kube_name(pod(&k, i)));
        assert_string_equal(codec_json_str(pod(&k, i), "spec", "subdomain", NULL), "db");
        assert_string_equal(kube_label(pod(&k, i), "controller-revision-hash"),
                            codec_json_str(set(&k), "status", "currentRevision", NULL));
    }
    assert_true(
        cluster_event(&k, "SuccessfulCreate", "create Pod db-0 in StatefulSet db successful"));
    cluster_patch(&k, KUBE_STATEFULSETS, "db", "scale", "spec: {replicas: 5}");
    loop_until(&k.loop, settled(&k, 5));
    cluster_patch(&k, KUBE_STATEFULSETS, "db", "scale", "spec: {replicas: 1}");
    loop_until(&k.loop, settled(&k, 1));
    assert_non_null(pod(&k, 0));
    assert_int_equal(out_of_order, 0);
    assert_true(
        cluster_event(&k, "SuccessfulDelete", "delete Pod db-4 in StatefulSet db successful"));
    cluster_delete(&k, KUBE_STATEFULSETS, "default", "db");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0 && kube_cache_len(k.c->revisions) == 0);
    finish(&k);
}

static void test_a_pod_waits_for_the_previous_one(void **state)
{
    struct cluster k;
    setup(&k);
    k.ready_budget = 1;
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("3", "", "one"));
    loop_until(&k.loop, pod(&k, 1) && number(&k, "readyReplicas") == 1);
    loop_for_ms(&k.loop, 100);
    assert_null(pod(&k, 2));
    k.ready_budget = -1;
    kubelet_look_all(&k);
    loop_until(&k.loop, settled(&k, 3));
    finish(&k);
}

static void test_parallel_pods_do_not_wait(void **state)
{
    struct cluster k;
    setup(&k);
    k.ready_budget = 0;
    cluster_create(&k, KUBE_STATEFULSETS,
                   STATEFULSET("3", "  podManagementPolicy: Parallel\n", "one"));
    loop_until(&k.loop, pod(&k, 0) && pod(&k, 1) && pod(&k, 2));
    cluster_patch(&k, KUBE_STATEFULSETS, "db", NULL, "spec: {replicas: 0}");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_lost_and_failed_pods_come_back(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("2", "", "one"));
    loop_until(&k.loop, settled(&k, 2));
    GS_AUTO_FREE char *uid = gs_strdup(kube_uid(pod(&k, 0)));
    cluster_delete(&k, KUBE_PODS, "default", "db-0");
    loop_until(&k.loop, pod(&k, 0) && strcmp(kube_uid(pod(&k, 0)), uid) != 0 && settled(&k, 2));
    GS_AUTO_FREE char *failed = gs_strdup(kube_uid(pod(&k, 1)));
    cluster_patch(&k, KUBE_PODS, "db-1", "status", "status: {phase: Failed}");
    loop_until(&k.loop, pod(&k, 1) && strcmp(kube_uid(pod(&k, 1)), failed) != 0 && settled(&k, 2));
    assert_true(cluster_event(&k, "RecreatingFailedPod",
                              "StatefulSet default/db is recreating failed Pod db-1"));
    finish(&k);
}

static int64_t least_serving;
static int broken;

static void check_serving(struct cluster *k)
{
    broken += (int64_t)cluster_pods(k, pod_serves) < least_serving;
}

static void test_a_rolling_update_goes_down_to_the_partition(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS,
                   STATEFULSET("3", "  updateStrategy: {rollingUpdate: {partition: 2}}\n", "one"));
    loop_until(&k.loop, settled(&k, 3));
    GS_AUTO_FREE char *first =
        gs_strdup(codec_json_str(set(&k), "status", "currentRevision", NULL));
    least_serving = 2;
    broken = 0;
    k.check = check_serving;
    cluster_patch(&k, KUBE_STATEFULSETS, "db", NULL, IMAGE("two"));
    loop_until(&k.loop, strcmp(image_of(&k, 2), "two") == 0 && number(&k, "updatedReplicas") == 1 &&
                            number(&k, "readyReplicas") == 3);
    assert_string_equal(image_of(&k, 1), "one");
    assert_string_equal(codec_json_str(set(&k), "status", "currentRevision", NULL), first);
    // A lost pod below the partition comes back with the old template.
    least_serving = 1;
    cluster_delete(&k, KUBE_PODS, "default", "db-0");
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 3 && number(&k, "readyReplicas") == 3);
    assert_string_equal(image_of(&k, 0), "one");
    least_serving = 2;
    cluster_patch(&k, KUBE_STATEFULSETS, "db", NULL,
                  "spec: {updateStrategy: {rollingUpdate: {partition: 0}}}");
    loop_until(&k.loop, settled(&k, 3) && strcmp(image_of(&k, 0), "two") == 0);
    assert_int_equal(broken, 0);
    k.check = NULL;
    assert_string_equal(codec_json_str(set(&k), "status", "currentRevision", NULL),
                        codec_json_str(set(&k), "status", "updateRevision", NULL));
    assert_string_not_equal(codec_json_str(set(&k), "status", "currentRevision", NULL), first);
    finish(&k);
}

static void test_on_delete_waits_for_the_user(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS,
                   STATEFULSET("2", "  updateStrategy: {type: OnDelete}\n", "one"));
    loop_until(&k.loop, cluster_pods(&k, pod_serves) == 2);
    cluster_patch(&k, KUBE_STATEFULSETS, "db", NULL, IMAGE("two"));
    loop_until(&k.loop, number(&k, "observedGeneration") == 2);
    loop_for_ms(&k.loop, 100);
    assert_string_equal(image_of(&k, 1), "one");
    cluster_delete(&k, KUBE_PODS, "default", "db-1");
    loop_until(&k.loop, strcmp(image_of(&k, 1), "two") == 0 && number(&k, "readyReplicas") == 2);
    assert_string_equal(image_of(&k, 0), "one");
    finish(&k);
}

static void test_claims_are_created_and_kept(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS,
                   STATEFULSET("2", CLAIMS,
                               "one', volumeMounts: [{name: data, mountPath: /d}], "
                               "workingDir: '/"));
    loop_until(&k.loop, settled(&k, 2));
    const json_t *claim = kube_cache_get(k.c->claims, "default", "data-db-1");
    assert_non_null(claim);
    assert_string_equal(kube_label(claim, "app"), "db");
    const json_t *volume = json_array_get(codec_json_get(pod(&k, 1), "spec", "volumes", NULL), 0);
    assert_string_equal(codec_json_str(volume, "name", NULL), "data");
    assert_string_equal(codec_json_str(volume, "persistentVolumeClaim", "claimName", NULL),
                        "data-db-1");
    assert_true(cluster_event(&k, "SuccessfulCreate",
                              "create Claim data-db-0 Pod db-0 in StatefulSet db success"));
    cluster_delete(&k, KUBE_STATEFULSETS, "default", "db");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    loop_for_ms(&k.loop, 100);
    assert_int_equal(kube_cache_len(k.c->claims), 2);
    finish(&k);
}

static void test_claims_are_deleted_by_policy(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS,
                   STATEFULSET("2",
                               "  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, "
                               "whenScaled: Delete}\n" CLAIMS,
                               "one"));
    loop_until(&k.loop, settled(&k, 2) && kube_cache_len(k.c->claims) == 2);
    cluster_patch(&k, KUBE_STATEFULSETS, "db", NULL, "spec: {replicas: 1}");
    loop_until(&k.loop, settled(&k, 1) && kube_cache_len(k.c->claims) == 1);
    assert_non_null(kube_cache_get(k.c->claims, "default", "data-db-0"));
    cluster_delete(&k, KUBE_STATEFULSETS, "default", "db");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0 && kube_cache_len(k.c->claims) == 0);
    finish(&k);
}

#define QUOTAS ((struct kube_gvr){"", "v1", "resourcequotas"})

static void test_refused_claims_are_retried_with_back_off(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, QUOTAS,
                   "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: "
                   "{persistentvolumeclaims: '0'}}}");
    unsigned before = k.writes;
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("1", CLAIMS, "one"));
    loop_for_ms(&k.loop, 500);
    assert_true(k.writes - before < 40);
    assert_int_equal(cluster_pods(&k, NULL), 0);
    cluster_delete(&k, QUOTAS, "default", "none");
    loop_until(&k.loop, settled(&k, 1));
    finish(&k);
}

static void test_ordinals_can_start_later(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("2", "  ordinals: {start: 3}\n", "one"));
    loop_until(&k.loop, settled(&k, 2));
    assert_non_null(pod(&k, 3));
    assert_non_null(pod(&k, 4));
    finish(&k);
}

static void test_a_set_can_be_replaced_by_one_of_the_same_name(void **state)
{
    struct cluster k;
    setup(&k);
    for (int i = 0; i < 3; i++) {
        cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("2", "", "one"));
        loop_until(&k.loop, settled(&k, 2));
        cluster_delete(&k, KUBE_STATEFULSETS, "default", "db");
    }
    loop_until(&k.loop, cluster_pods(&k, NULL) == 0);
    finish(&k);
}

static void test_faults_only_delay(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_STATEFULSETS, STATEFULSET("3", CLAIMS, "one"));
    k.fail_every = 3;
    loop_until(&k.loop, settled(&k, 3) && kube_cache_len(k.c->claims) == 3);
    k.fail_every = 0;
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_have_stable_names_in_order),
        cmocka_unit_test(test_a_pod_waits_for_the_previous_one),
        cmocka_unit_test(test_parallel_pods_do_not_wait),
        cmocka_unit_test(test_lost_and_failed_pods_come_back),
        cmocka_unit_test(test_a_rolling_update_goes_down_to_the_partition),
        cmocka_unit_test(test_on_delete_waits_for_the_user),
        cmocka_unit_test(test_claims_are_created_and_kept),
        cmocka_unit_test(test_claims_are_deleted_by_policy),
        cmocka_unit_test(test_refused_claims_are_retried_with_back_off),
        cmocka_unit_test(test_ordinals_can_start_later),
        cmocka_unit_test(test_a_set_can_be_replaced_by_one_of_the_same_name),
        cmocka_unit_test(test_faults_only_delay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
