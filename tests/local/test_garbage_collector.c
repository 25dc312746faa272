// SPDX-License-Identifier: Apache-2.0
// Owners and dependents of custom resources and of kinds without a controller. The results are
// those of Kubernetes 1.36 for the same objects.
#include "local/cluster_harness.h"
#include "local/workloads.h"

#include "unit.h"

#define WIDGETS     ((struct kube_gvr){"example.com", "v1", "widgets"})
#define FARMS       ((struct kube_gvr){"example.com", "v1", "farms"})
#define CLASSES     ((struct kube_gvr){"scheduling.k8s.io", "v1", "priorityclasses"})
#define DEFINITIONS ((struct kube_gvr){"apiextensions.k8s.io", "v1", "customresourcedefinitions"})

static struct local_workloads *w;

static void create(struct cluster *k, struct kube_gvr r, const char *ns, const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    kube_create(k->client, r, ns, docs.items[0].value, call_took, k);
    if (await(k) != 201)
        fail_msg("creating: HTTP %d %s", k->status, codec_json_str(k->body, "message", NULL));
    codec_yaml_docs_finish(&docs);
}

static void define(struct cluster *k, const char *plural, const char *kind, const char *scope)
{
    GS_AUTO_FREE char *text = gs_format(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: %s.example.com}\nspec:\n  group: example.com\n  scope: %s\n"
        "  names: {plural: %s, kind: %s}\n  versions: [{name: v1, served: true, storage: true, "
        "schema: {openAPIV3Schema: {type: object}}}]\n",
        plural, scope, plural, kind);
    create(k, DEFINITIONS, NULL, text);
}

static void setup(struct cluster *k)
{
    cluster_open(k);
    w = controllers_workloads_new(k->c);
    define(k, "widgets", "Widget", "Namespaced");
    define(k, "farms", "Farm", "Cluster");
}

static void finish(struct cluster *k)
{
    controllers_workloads_free(w);
    cluster_close(k);
}

// --- objects ---

static const char *namespace_of(struct kube_gvr r)
{
    return gs_streq(r.resource, "farms") || gs_streq(r.resource, "priorityclasses") ? NULL
                                                                                    : "default";
}

static bool get(struct cluster *k, struct kube_gvr r, const char *name)
{
    kube_get(k->client, r, namespace_of(r), name, NULL, call_took, k);
    return await(k) == 200;
}

static char *uid_of(struct cluster *k, struct kube_gvr r, const char *name)
{
    assert_true(get(k, r, name));
    return gs_strdup(kube_uid(k->body));
}

struct object {
    const char *kind, *name, *owner_kind, *owner;
    bool blocks;
};

static struct kube_gvr gvr_of(const char *kind)
{
    return gs_streq(kind, "Widget") ? WIDGETS : gs_streq(kind, "Farm") ? FARMS : KUBE_CONFIGMAPS;
}

static void make(struct cluster *k, struct object o)
{
    GS_AUTO_FREE char *refs = NULL;
    if (o.owner) {
        GS_AUTO_FREE char *uid = uid_of(k, gvr_of(o.owner_kind), o.owner);
        refs = gs_format("ownerReferences: [{apiVersion: example.com/v1, kind: %s, name: %s, "
                         "uid: %s, blockOwnerDeletion: %s}]",
                         o.owner_kind, o.owner, uid, o.blocks ? "true" : "false");
    }
    GS_AUTO_FREE char *text = gs_format("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  %s\n",
                                        gs_streq(o.kind, "ConfigMap") ? "v1" : "example.com/v1",
                                        o.kind, o.name, refs ? refs : "annotations: {}");
    create(k, gvr_of(o.kind), namespace_of(gvr_of(o.kind)), text);
}

static void delete_with(struct cluster *k, struct kube_gvr r, const char *name, const char *policy)
{
    kube_delete_with(k->client, r, namespace_of(r), name, -1, policy, call_took, k);
    assert_int_equal(await(k), 200);
}

// --- tests ---

static void test_dependents_are_deleted_in_the_background(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"Widget", "a1", "Widget", "a", false});
    make(&k, (struct object){"ConfigMap", "a2", "Widget", "a1", false});
    delete_with(&k, WIDGETS, "a", "Background");
    assert_false(get(&k, WIDGETS, "a"));
    loop_until(&k.loop, !get(&k, WIDGETS, "a1"));
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "a2"));
    finish(&k);
}

static void test_orphans_of_custom_resources_stay(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "a1", "Widget", "a", false});
    delete_with(&k, WIDGETS, "a", "Orphan");
    loop_until(&k.loop, !get(&k, WIDGETS, "a")); // after its dependents were released
    loop_for_ms(&k.loop, 100);
    assert_true(get(&k, KUBE_CONFIGMAPS, "a1"));
    assert_null(codec_json_get(k.body, "metadata", "ownerReferences", NULL));
    finish(&k);
}

static void test_foreground_deletion_waits_for_blocking_dependents_only(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"Widget", "child", "Widget", "a", true});
    make(&k, (struct object){"ConfigMap", "grandchild", "Widget", "child", true});
    make(&k, (struct object){"ConfigMap", "other", "Widget", "a", false});
    cluster_patch(&k, KUBE_CONFIGMAPS, "grandchild", NULL,
                  "metadata: {finalizers: [example.com/hold]}");
    cluster_patch(&k, KUBE_CONFIGMAPS, "other", NULL, "metadata: {finalizers: [example.com/hold]}");
    delete_with(&k, WIDGETS, "a", "Foreground");
    loop_until(&k.loop, get(&k, KUBE_CONFIGMAPS, "grandchild") && kube_is_deleting(k.body));
    loop_until(&k.loop, get(&k, KUBE_CONFIGMAPS, "other") && kube_is_deleting(k.body));
    assert_true(get(&k, WIDGETS, "child") && kube_is_deleting(k.body));
    assert_true(get(&k, WIDGETS, "a") && kube_is_deleting(k.body));
    assert_true(codec_json_has_string(codec_json_get(k.body, "metadata", "finalizers", NULL),
                                      "foregroundDeletion"));
    cluster_patch(&k, KUBE_CONFIGMAPS, "grandchild", NULL, "metadata: {finalizers: null}");
    loop_until(&k.loop, !get(&k, WIDGETS, "a"));
    assert_false(get(&k, WIDGETS, "child"));
    assert_true(get(&k, KUBE_CONFIGMAPS, "other"));
    finish(&k);
}

static void test_cluster_scoped_owners(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Farm", "f", NULL, NULL, false});
    make(&k, (struct object){"Widget", "a", "Farm", "f", false});
    delete_with(&k, FARMS, "f", "Background");
    loop_until(&k.loop, !get(&k, WIDGETS, "a"));
    finish(&k);
}

static void test_built_in_kinds_wait_for_their_dependents(void **state)
{
    struct cluster k;
    setup(&k);
    create(
        &k, CLASSES, NULL,
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: c}\nvalue: 1\n");
    GS_AUTO_FREE char *uid = uid_of(&k, CLASSES, "c");
    GS_AUTO_FREE char *refs = gs_format(
        "metadata: {finalizers: [example.com/hold], ownerReferences: [{apiVersion: "
        "scheduling.k8s.io/v1, kind: PriorityClass, name: c, uid: %s, blockOwnerDeletion: true}]}",
        uid);
    make(&k, (struct object){"ConfigMap", "f", NULL, NULL, false});
    cluster_patch(&k, KUBE_CONFIGMAPS, "f", NULL, refs);
    delete_with(&k, CLASSES, "c", "Foreground");
    loop_until(&k.loop, get(&k, KUBE_CONFIGMAPS, "f") && kube_is_deleting(k.body));
    assert_true(get(&k, CLASSES, "c") && kube_is_deleting(k.body));
    cluster_patch(&k, KUBE_CONFIGMAPS, "f", NULL, "metadata: {finalizers: null}");
    loop_until(&k.loop, !get(&k, CLASSES, "c"));
    finish(&k);
}

static void test_an_object_stays_with_its_other_owner(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Widget", "one", NULL, NULL, false});
    make(&k, (struct object){"Widget", "two", NULL, NULL, false});
    GS_AUTO_FREE char *one = uid_of(&k, WIDGETS, "one"), *two = uid_of(&k, WIDGETS, "two");
    GS_AUTO_FREE char *text =
        gs_format("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: both\n  ownerReferences:\n"
                  "  - {apiVersion: example.com/v1, kind: Widget, name: one, uid: %s}\n"
                  "  - {apiVersion: example.com/v1, kind: Widget, name: two, uid: %s}\n",
                  one, two);
    cluster_create(&k, KUBE_CONFIGMAPS, text);
    delete_with(&k, WIDGETS, "one", "Background");
    loop_until(&k.loop, get(&k, KUBE_CONFIGMAPS, "both") &&
                            json_array_size(
                                codec_json_get(k.body, "metadata", "ownerReferences", NULL)) == 1);
    delete_with(&k, WIDGETS, "two", "Background");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "both"));
    finish(&k);
}

static void test_the_end_of_a_definition_ends_dependents_of_its_objects(void **state)
{
    struct cluster k;
    setup(&k);
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "a1", "Widget", "a", false});
    cluster_delete(&k, DEFINITIONS, NULL, "widgets.example.com");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "a1"));
    define(&k, "widgets", "Widget", "Namespaced");
    make(&k, (struct object){"Widget", "b", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "b1", "Widget", "b", false});
    delete_with(&k, WIDGETS, "b", "Background");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "b1"));
    finish(&k);
}

static void test_dependents_stay_when_a_definition_changes_its_version(void **state)
{
    struct cluster k;
    struct codec_yaml_docs docs = {0};
    setup(&k);
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "a1", "Widget", "a", false});
    loop_for_ms(&k.loop, 100); // a1 is known as a dependent
    assert_ok(codec_yaml_parse(
        gs_slice_of("spec: {versions: [{name: v2, served: true, storage: true, schema: "
                    "{openAPIV3Schema: {type: object}}}, {name: v1, served: true, storage: false, "
                    "schema: {openAPIV3Schema: {type: object}}}]}"),
        "test.yaml", &docs));
    kube_patch(k.client, DEFINITIONS, NULL, "widgets.example.com", NULL, KUBE_MERGE_PATCH,
               docs.items[0].value, call_took, &k);
    assert_int_equal(await(&k), 200);
    codec_yaml_docs_finish(&docs);
    make(&k, (struct object){"Widget", "b", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "b1", "Widget", "b", false});
    delete_with(&k, WIDGETS, "b", "Background");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "b1"));
    loop_for_ms(&k.loop, 200);
    assert_true(get(&k, KUBE_CONFIGMAPS, "a1"));
    delete_with(&k, WIDGETS, "a", "Background");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "a1"));
    finish(&k);
}

// The API goes on to serve the built-in resource, and not the version of the definition.
static void test_a_definition_of_a_built_in_resource_changes_nothing(void **state)
{
    struct cluster k;
    setup(&k);
    create(&k, DEFINITIONS, NULL,
           "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
           "metadata: {name: podmonitors.monitoring.coreos.com}\nspec:\n"
           "  group: monitoring.coreos.com\n  scope: Namespaced\n"
           "  names: {plural: podmonitors, kind: PodMonitor}\n"
           "  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: "
           "{type: object}}}]\n");
    make(&k, (struct object){"Widget", "a", NULL, NULL, false});
    make(&k, (struct object){"ConfigMap", "a1", "Widget", "a", false});
    delete_with(&k, WIDGETS, "a", "Background");
    loop_until(&k.loop, !get(&k, KUBE_CONFIGMAPS, "a1"));
    finish(&k);
}

static void answered(void *arg, const struct http_response *a, struct gs_error *err)
{
    assert_null(err);
    assert_int_equal(a->status, 200);
    *(bool *)arg = true;
}

static void test_jobs_orphan_their_pods_unless_the_request_has_a_policy(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_JOBS,
                   "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {template: {spec: "
                   "{restartPolicy: Never, containers: [{name: c, image: i}]}}}\n");
    loop_until(&k.loop, cluster_pods(&k, NULL) == 1);
    struct http_request call = {.method = "DELETE",
                                .path = "/apis/batch/v1/namespaces/default/jobs/j"};
    struct http_callbacks cb = {.on_done = answered};
    bool done = false;
    http_send(k.http, &call, &cb, &done);
    loop_until(&k.loop, done);
    loop_until(&k.loop, kube_cache_len(k.c->jobs) == 0);
    loop_for_ms(&k.loop, 100);
    assert_int_equal(cluster_pods(&k, NULL), 1);
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dependents_are_deleted_in_the_background),
        cmocka_unit_test(test_orphans_of_custom_resources_stay),
        cmocka_unit_test(test_foreground_deletion_waits_for_blocking_dependents_only),
        cmocka_unit_test(test_cluster_scoped_owners),
        cmocka_unit_test(test_built_in_kinds_wait_for_their_dependents),
        cmocka_unit_test(test_an_object_stays_with_its_other_owner),
        cmocka_unit_test(test_the_end_of_a_definition_ends_dependents_of_its_objects),
        cmocka_unit_test(test_dependents_stay_when_a_definition_changes_its_version),
        cmocka_unit_test(test_a_definition_of_a_built_in_resource_changes_nothing),
        cmocka_unit_test(test_jobs_orphan_their_pods_unless_the_request_has_a_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
