// SPDX-License-Identifier: Apache-2.0
// Create, read, update, delete: metadata, conflicts, status and spec apart, generations.
#include "api_setup.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define PODS        "/api/v1/namespaces/default/pods"
#define DEPLOYMENTS "/apis/apps/v1/namespaces/default/deployments"
#define POD(name)                                                                                  \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name "\"},"                \
    "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"
#define DEPLOYMENT                                                                                 \
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{" \
    "\"selector\":{\"matchLabels\":{\"app\":\"x\"}},\"template\":{\"metadata\":{\"labels\":"       \
    "{\"app\":\"x\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:1\"}]}}}}"

static void test_base_namespaces_are_there(void **state)
{
    AUTO_REPLY struct reply r = request(*state, "GET", "/api/v1/namespaces", NULL);

    assert_status(r, 200);
    assert_member(r, "NamespaceList", "kind");
    assert_int_equal(json_array_size(json_object_get(r.body, "items")), 4);
}

static void test_create_sets_metadata_and_defaults(void **state)
{
    AUTO_REPLY struct reply r = request(*state, "POST", PODS, POD("a"));

    assert_status(r, 201);
    assert_int_equal(strlen(codec_json_str(r.body, "metadata", "uid", NULL)), 36);
    assert_non_null(codec_json_str(r.body, "metadata", "creationTimestamp", NULL));
    assert_non_null(codec_json_str(r.body, "metadata", "resourceVersion", NULL));
    assert_member(r, "default", "metadata", "namespace");
    assert_member(r, "Always", "spec", "restartPolicy");
    assert_number(r, 30, "spec", "terminationGracePeriodSeconds");
    assert_member(r, "Pending", "status", "phase");
    assert_member(r, "BestEffort", "status", "qosClass");
    AUTO_REPLY struct reply again = request(*state, "POST", PODS, POD("a"));
    assert_status(again, 409);
    assert_member(again, "AlreadyExists", "reason");
    assert_message(again, "pods \"a\" already exists");
}

static void test_generated_names_differ(void **state)
{
    static const char body[] = "{\"metadata\":{\"generateName\":\"web-\"},"
                               "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}";
    AUTO_REPLY struct reply one = request(*state, "POST", PODS, body);
    AUTO_REPLY struct reply two = request(*state, "POST", PODS, body);

    assert_status(one, 201);
    assert_status(two, 201);
    const char *first = codec_json_str(one.body, "metadata", "name", NULL);
    assert_int_equal(strlen(first), strlen("web-") + 5);
    assert_string_not_equal(first, codec_json_str(two.body, "metadata", "name", NULL));
}

static void test_missing_things_are_named(void **state)
{
    AUTO_REPLY struct reply pod = request(*state, "GET", PODS "/nope", NULL);
    AUTO_REPLY struct reply ns = request(*state, "POST", "/api/v1/namespaces/nope/pods", POD("a"));
    AUTO_REPLY struct reply path = request(*state, "GET", "/api/v1/gadgets", NULL);

    assert_status(pod, 404);
    assert_message(pod, "pods \"nope\" not found");
    assert_member(pod, "pods", "details", "kind");
    assert_status(ns, 404);
    assert_message(ns, "namespaces \"nope\" not found");
    assert_status(path, 404);
    assert_message(path, "the server could not find the requested resource");
}

static void test_stale_updates_conflict(void **state)
{
    AUTO_REPLY struct reply made = request(*state, "POST", DEPLOYMENTS, DEPLOYMENT);
    assert_status(made, 201);
    assert_number(made, 1, "metadata", "generation");
    assert_number(made, 1, "spec", "replicas");
    assert_member(made, "25%", "spec", "strategy", "rollingUpdate", "maxSurge");
    codec_json_set(made.body, json_integer(3), "spec", "replicas", NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(made.body, &text);
    AUTO_REPLY struct reply first = request(*state, "PUT", DEPLOYMENTS "/d", text.data);
    AUTO_REPLY struct reply second = request(*state, "PUT", DEPLOYMENTS "/d", text.data);
    assert_status(first, 200);
    assert_number(first, 2, "metadata", "generation");
    assert_status(second, 409);
    assert_member(second, "Conflict", "reason");
    assert_message(second, "Operation cannot be fulfilled on deployments.apps \"d\": the object "
                           "has been modified");
}

static void test_status_and_spec_are_apart(void **state)
{
    AUTO_REPLY struct reply made = request(*state, "POST", DEPLOYMENTS, DEPLOYMENT);
    AUTO_REPLY struct reply status =
        request_with(*state, "PATCH", DEPLOYMENTS "/d/status", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"replicas\":7},\"status\":{\"readyReplicas\":2}}");
    assert_status(status, 200);
    assert_number(status, 1, "spec", "replicas");
    assert_number(status, 2, "status", "readyReplicas");
    assert_number(status, 1, "metadata", "generation");
    AUTO_REPLY struct reply spec =
        request_with(*state, "PATCH", DEPLOYMENTS "/d", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"replicas\":7},\"status\":{\"readyReplicas\":5}}");
    assert_status(spec, 200);
    assert_number(spec, 7, "spec", "replicas");
    assert_number(spec, 2, "status", "readyReplicas");
    assert_number(spec, 2, "metadata", "generation");
}

static void test_an_update_without_change_keeps_the_version(void **state)
{
    AUTO_REPLY struct reply made = request(*state, "POST", DEPLOYMENTS, DEPLOYMENT);
    AUTO_REPLY struct reply same =
        request_with(*state, "PATCH", DEPLOYMENTS "/d", "application/merge-patch+json", NULL,
                     "{\"metadata\":{\"labels\":null}}");

    assert_status(same, 200);
    assert_member(same, codec_json_str(made.body, "metadata", "resourceVersion", NULL), "metadata",
                  "resourceVersion");
}

static void test_bound_pods_are_deleted_with_grace(void **state)
{
    AUTO_REPLY struct reply made = request(*state, "POST", PODS, POD("a"));
    AUTO_REPLY struct reply bound = request(
        *state, "POST", PODS "/a/binding",
        "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"a\",\"annotations\":"
        "{\"x\":\"y\"}},\"target\":{\"kind\":\"Node\",\"name\":\"here\"}}");
    assert_status(bound, 201);
    AUTO_REPLY struct reply marked = request(*state, "DELETE", PODS "/a", NULL);
    assert_status(marked, 200);
    assert_non_null(codec_json_str(marked.body, "metadata", "deletionTimestamp", NULL));
    assert_number(marked, 30, "metadata", "deletionGracePeriodSeconds");
    assert_member(marked, "here", "spec", "nodeName");
    assert_member(marked, "y", "metadata", "annotations", "x");
    AUTO_REPLY struct reply there = request(*state, "GET", PODS "/a", NULL);
    assert_status(there, 200);
    AUTO_REPLY struct reply now =
        request(*state, "DELETE", PODS "/a", "{\"gracePeriodSeconds\":0}");
    assert_status(now, 200);
    AUTO_REPLY struct reply gone = request(*state, "GET", PODS "/a", NULL);
    assert_status(gone, 404);
}

static void test_finalizers_hold_objects(void **state)
{
    static const char path[] = "/api/v1/namespaces/default/configmaps/c";
    AUTO_REPLY struct reply made = request(
        *state, "POST", "/api/v1/namespaces/default/configmaps",
        "{\"metadata\":{\"name\":\"c\",\"finalizers\":[\"a.b/c\"]},\"data\":{\"k\":\"v\"}}");
    AUTO_REPLY struct reply del = request(*state, "DELETE", path, NULL);
    assert_status(del, 200);
    assert_non_null(codec_json_str(del.body, "metadata", "deletionTimestamp", NULL));
    AUTO_REPLY struct reply freed =
        request_with(*state, "PATCH", path, "application/merge-patch+json", NULL,
                     "{\"metadata\":{\"finalizers\":null}}");
    assert_status(freed, 200);
    AUTO_REPLY struct reply gone = request(*state, "GET", path, NULL);
    assert_status(gone, 404);
}

static void test_deletion_preconditions_and_dry_run(void **state)
{
    static const char base[] = "/api/v1/namespaces/default/configmaps";
    static const char path[] = "/api/v1/namespaces/default/configmaps/c";
    AUTO_REPLY struct reply dry =
        request(*state, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All",
                "{\"metadata\":{\"name\":\"c\"}}");
    assert_status(dry, 201);
    AUTO_REPLY struct reply none = request(*state, "GET", path, NULL);
    assert_status(none, 404);
    AUTO_REPLY struct reply made = request(*state, "POST", base, "{\"metadata\":{\"name\":\"c\"}}");
    AUTO_REPLY struct reply other =
        request(*state, "DELETE", path, "{\"preconditions\":{\"uid\":\"other\"}}");
    assert_status(other, 409);
    AUTO_REPLY struct reply try = request(*state, "DELETE", path, "{\"dryRun\":[\"All\"]}");
    assert_status(try, 200);
    AUTO_REPLY struct reply del = request(*state, "DELETE", path, NULL);
    assert_status(del, 200);
    assert_member(del, "Success", "status");
    assert_member(del, "c", "details", "name");
}

static void test_namespaces_end_when_empty(void **state)
{
    static const char cm[] = "/api/v1/namespaces/n/configmaps";
    AUTO_REPLY struct reply made =
        request(*state, "POST", "/api/v1/namespaces", "{\"metadata\":{\"name\":\"n\"}}");
    assert_status(made, 201);
    assert_member(made, "Active", "status", "phase");
    AUTO_REPLY struct reply inside = request(*state, "POST", cm, "{\"metadata\":{\"name\":\"c\"}}");
    AUTO_REPLY struct reply del = request(*state, "DELETE", "/api/v1/namespaces/n", NULL);
    assert_member(del, "Terminating", "status", "phase");
    AUTO_REPLY struct reply refused =
        request(*state, "POST", cm, "{\"metadata\":{\"name\":\"d\"}}");
    assert_status(refused, 403);
    assert_message(refused, "because it is being terminated");
    AUTO_REPLY struct reply emptied = request(*state, "DELETE", cm, NULL);
    assert_status(emptied, 200);
    codec_json_set(del.body, json_array(), "spec", "finalizers", NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(del.body, &text);
    AUTO_REPLY struct reply fin =
        request(*state, "PUT", "/api/v1/namespaces/n/finalize", text.data);
    assert_status(fin, 200);
    AUTO_REPLY struct reply gone = request(*state, "GET", "/api/v1/namespaces/n", NULL);
    assert_status(gone, 404);
    AUTO_REPLY struct reply kept = request(*state, "DELETE", "/api/v1/namespaces/default", NULL);
    assert_status(kept, 403);
}

static void test_orphans_lose_their_owner(void **state)
{
    AUTO_REPLY struct reply owner = request(*state, "POST", DEPLOYMENTS, DEPLOYMENT);
    GS_AUTO_FREE char *body =
        gs_format("{\"metadata\":{\"name\":\"c\",\"ownerReferences\":[{\"apiVersion\":\"apps/v1\","
                  "\"kind\":\"Deployment\",\"name\":\"d\",\"uid\":\"%s\"}]}}",
                  codec_json_str(owner.body, "metadata", "uid", NULL));
    AUTO_REPLY struct reply owned =
        request(*state, "POST", "/api/v1/namespaces/default/configmaps", body);
    assert_status(owned, 201);
    AUTO_REPLY struct reply del =
        request(*state, "DELETE", DEPLOYMENTS "/d?propagationPolicy=Orphan", NULL);
    assert_status(del, 200);
    AUTO_REPLY struct reply left =
        request(*state, "GET", "/api/v1/namespaces/default/configmaps/c", NULL);
    assert_status(left, 200);
    assert_int_equal(
        json_array_size(codec_json_get(left.body, "metadata", "ownerReferences", NULL)), 0);
}

// As kube-apiserver 1.36 answers.
static void test_deletions_return_objects_or_a_status(void **state)
{
    static const struct {
        const char *path, *object, *options;
        int code;
        const char *kind, *finalizer;
    } cases[] = {
        {DEPLOYMENTS, DEPLOYMENT, NULL, 200, "Status", NULL},
        {DEPLOYMENTS, DEPLOYMENT, "{\"propagationPolicy\":\"Background\"}", 200, "Status", NULL},
        {DEPLOYMENTS, DEPLOYMENT, "{\"propagationPolicy\":\"Foreground\"}", 200, "Deployment",
         "foregroundDeletion"},
        {DEPLOYMENTS, DEPLOYMENT, "{\"propagationPolicy\":\"Orphan\"}", 200, "Deployment",
         "orphan"},
        {"/api/v1/namespaces/default/services",
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"ports\":[{\"port\":80}]}}", NULL, 200,
         "Service", NULL},
        {"/api/v1/namespaces/default/configmaps", "{\"metadata\":{\"name\":\"d\"}}",
         "{\"orphanDependents\":false}", 200, "Status", NULL},
        {"/api/v1/namespaces/default/configmaps",
         "{\"metadata\":{\"name\":\"d\",\"finalizers\":[\"a.b/c\"]}}",
         "{\"orphanDependents\":false}", 202, "ConfigMap", "a.b/c"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        AUTO_REPLY struct reply made = request(*state, "POST", cases[i].path, cases[i].object);
        assert_status(made, 201);
        GS_AUTO_FREE char *path = gs_format("%s/d", cases[i].path);
        AUTO_REPLY struct reply del = request(*state, "DELETE", path, cases[i].options);
        assert_status(del, cases[i].code);
        assert_member(del, cases[i].kind, "kind");
        const json_t *finalizers = codec_json_get(del.body, "metadata", "finalizers", NULL);
        const char *first = json_string_value(json_array_get(finalizers, 0));
        assert_true(cases[i].finalizer ? gs_streq(first, cases[i].finalizer) : !first);
        AUTO_REPLY struct reply let_go =
            request_with(*state, "PATCH", path, "application/merge-patch+json", NULL,
                         "{\"metadata\":{\"finalizers\":null}}");
        assert_true(let_go.status == 200 || let_go.status == 404);
    }
}

static void test_scale_reads_and_writes_replicas(void **state)
{
    AUTO_REPLY struct reply made = request(*state, "POST", DEPLOYMENTS, DEPLOYMENT);
    AUTO_REPLY struct reply get = request(*state, "GET", DEPLOYMENTS "/d/scale", NULL);
    assert_status(get, 200);
    assert_member(get, "app=x", "status", "selector");
    assert_number(get, 1, "spec", "replicas");
    AUTO_REPLY struct reply patch =
        request_with(*state, "PATCH", DEPLOYMENTS "/d/scale", "application/merge-patch+json", NULL,
                     "{\"spec\":{\"replicas\":5}}");
    assert_status(patch, 200);
    assert_number(patch, 5, "spec", "replicas");
    AUTO_REPLY struct reply bad = request(
        *state, "PUT", DEPLOYMENTS "/d/scale",
        "{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\",\"spec\":{\"replicas\":-1}}");
    assert_status(bad, 422);
    assert_message(bad, "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
    AUTO_REPLY struct reply d = request(*state, "GET", DEPLOYMENTS "/d", NULL);
    assert_number(d, 5, "spec", "replicas");
    assert_number(d, 2, "metadata", "generation");
}

static void test_inert_kinds_say_so(void **state)
{
    AUTO_REPLY struct reply made =
        request(*state, "POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
                "{\"metadata\":{\"name\":\"m\"},\"spec\":{\"podSelector\":{}}}");
    assert_status(made, 201);
    AUTO_REPLY struct reply events =
        request(*state, "GET",
                "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dm", NULL);
    json_t *event = json_array_get(json_object_get(events.body, "items"), 0);
    assert_non_null(event);
    assert_string_equal(codec_json_str(event, "reason", NULL), "NothingActsOnKind");
    assert_string_equal(codec_json_str(event, "message", NULL),
                        "NetworkPolicy.networking.k8s.io \"m\" is stored, but nothing acts on it "
                        "here");
    AUTO_REPLY struct reply view =
        request(*state, "GET", "/apis/events.k8s.io/v1/namespaces/default/events", NULL);
    event = json_array_get(json_object_get(view.body, "items"), 0);
    assert_string_equal(codec_json_str(event, "regarding", "name", NULL), "m");
    assert_string_equal(codec_json_str(event, "apiVersion", NULL), "events.k8s.io/v1");
}

static void test_autoscalers_come_in_every_version(void **state)
{
    AUTO_REPLY struct reply made = request(
        *state, "POST", "/apis/autoscaling/v2beta1/namespaces/default/horizontalpodautoscalers",
        "{\"apiVersion\":\"autoscaling/v2beta1\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":"
        "{\"name\":\"h\"},\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":"
        "\"Deployment\",\"name\":\"d\"},\"maxReplicas\":3,\"metrics\":[{\"type\":\"Pods\",\"pods\":"
        "{\"metricName\":\"m\",\"targetAverageValue\":20}}]}}");
    assert_status(made, 201);
    assert_member(made, "autoscaling/v2beta1", "apiVersion");
    AUTO_REPLY struct reply v2 = request(
        *state, "GET", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h", NULL);
    assert_status(v2, 200);
    json_t *metric = json_array_get(codec_json_get(v2.body, "spec", "metrics", NULL), 0);
    assert_string_equal(codec_json_str(metric, "pods", "target", "averageValue", NULL), "20");
    AUTO_REPLY struct reply v1 = request(
        *state, "GET", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", NULL);
    assert_status(v1, 200);
    assert_member(v1, "autoscaling/v1", "apiVersion");
}

static void test_strangers_stay_out(void **state)
{
    struct harness *h = *state;
    struct http_client *known = h->client;

    h->client = http_client_new_loopback(&h->loop, local_api_handle, h->api, NULL);
    AUTO_REPLY struct reply pods = request(h, "GET", PODS, NULL);
    AUTO_REPLY struct reply health = request(h, "GET", "/healthz", NULL);
    http_client_free(h->client);
    h->client = known;
    assert_status(pods, 401);
    assert_member(pods, "Unauthorized", "reason");
    assert_status(health, 200);
}

// Grace periods are int64 in the API; as milliseconds the largest do not fit.
static void test_a_huge_grace_period_is_bounded(void **state)
{
    AUTO_REPLY struct reply made =
        request(*state, "POST", PODS,
                "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeName\":\"here\","
                "\"terminationGracePeriodSeconds\":9223372036854775807,"
                "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}");
    assert_status(made, 201);
    AUTO_REPLY struct reply marked = request(*state, "DELETE", PODS "/a", NULL);
    assert_status(marked, 200);
    assert_number(marked, 2000000, "metadata", "deletionGracePeriodSeconds");
    AUTO_REPLY struct reply again =
        request(*state, "DELETE", PODS "/a", "{\"gracePeriodSeconds\":9223372036854775807}");
    assert_status(again, 200);
    assert_number(again, 2000000, "metadata", "deletionGracePeriodSeconds");
    AUTO_REPLY struct reply shorter =
        request(*state, "DELETE", PODS "/a", "{\"gracePeriodSeconds\":5}");
    assert_number(shorter, 5, "metadata", "deletionGracePeriodSeconds");
}

// A limit on file sizes stands for a full file system.
static void test_a_deletion_on_a_full_disk_keeps_the_object(void **state)
{
    char dir[] = "/tmp/gpuscale-api-XXXXXX";
    struct harness h;
    struct rlimit usual, none;
    (void)state;
    assert_non_null(mkdtemp(dir));
    harness_open(&h, dir);
    AUTO_REPLY struct reply made = request(&h, "POST", DEPLOYMENTS, DEPLOYMENT);
    assert_status(made, 201);

    getrlimit(RLIMIT_FSIZE, &usual);
    none = (struct rlimit){0, usual.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    AUTO_REPLY struct reply refused = request(&h, "DELETE", DEPLOYMENTS "/d", NULL);
    AUTO_REPLY struct reply collection = request(&h, "DELETE", DEPLOYMENTS, NULL);
    setrlimit(RLIMIT_FSIZE, &usual);
    (void)signal(SIGXFSZ, handler);

    assert_status(refused, 500);
    assert_status(collection, 500);
    AUTO_REPLY struct reply there = request(&h, "GET", DEPLOYMENTS "/d", NULL);
    assert_status(there, 200);
    AUTO_REPLY struct reply gone = request(&h, "DELETE", DEPLOYMENTS "/d", NULL);
    assert_status(gone, 200);
    harness_close(&h);
    GS_AUTO_FREE char *db = gs_format("%s/state.db", dir);
    unlink(db);
    assert_int_equal(rmdir(dir), 0);
}

#define CONFIG_MAPS "/api/v1/namespaces/default/configmaps"
#define CONFIG_MAP(name)                                                                           \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"" name "\"}}"

// The four namespaces with their service accounts, two priority classes and three classes of
// Ingresses count as well.
static void test_more_objects_than_the_quota_are_refused(void **state)
{
    struct harness h;
    (void)state;
    harness_open_with(
        &h, &(struct local_api_config){.node_name = "here", .max_objects = 21, .max_pods = 2});
    AUTO_REPLY struct reply a = request(&h, "POST", PODS, POD("a"));
    AUTO_REPLY struct reply b = request(&h, "POST", PODS, POD("b"));
    AUTO_REPLY struct reply c = request(&h, "POST", PODS, POD("c"));
    assert_status(a, 201);
    assert_status(b, 201);
    assert_status(c, 403);
    assert_member(c, "Forbidden", "reason");
    assert_member(c,
                  "pods \"c\" is forbidden: exceeded quota: gpuscale, requested: pods=1, used: "
                  "pods=2, limited: pods=2 (delete some, or start gpuscale with a larger "
                  "--pod-quota)",
                  "message");
    AUTO_REPLY struct reply first = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("x"));
    AUTO_REPLY struct reply second = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("y"));
    AUTO_REPLY struct reply applied =
        request_with(&h, "PATCH", CONFIG_MAPS "/y?fieldManager=me", "application/apply-patch+yaml",
                     NULL, "{apiVersion: v1, kind: ConfigMap, metadata: {name: 'y'}}");
    assert_status(first, 201);
    assert_status(second, 403);
    assert_status(applied, 403);
    assert_member(second,
                  "configmaps \"y\" is forbidden: exceeded quota: gpuscale, requested: objects=1, "
                  "used: objects=21, limited: objects=21 (delete some, or start gpuscale with a "
                  "larger --max-objects)",
                  "message");
    // What is there can be changed and deleted, and events are still written.
    AUTO_REPLY struct reply changed =
        request_with(&h, "PATCH", CONFIG_MAPS "/x", "application/merge-patch+json", NULL,
                     "{\"data\":{\"k\":\"v\"}}");
    AUTO_REPLY struct reply event =
        request(&h, "POST", "/api/v1/namespaces/default/events",
                "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\"},"
                "\"involvedObject\":{\"namespace\":\"default\"}}");
    AUTO_REPLY struct reply gone = request(&h, "DELETE", CONFIG_MAPS "/x", NULL);
    AUTO_REPLY struct reply again = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("y"));
    assert_status(changed, 200);
    assert_status(event, 201);
    assert_status(gone, 200);
    assert_status(again, 201);
    harness_close(&h);
}

// An object whose last member is a text of n zeros. Caller frees.
static char *large(const char *name, const char *member, size_t n)
{
    return gs_format("{\"metadata\":{\"name\":\"%s\"},%s%0*d\"}}", name, member, (int)n, 0);
}

static int create_large(struct harness *h, size_t n)
{
    GS_AUTO_FREE char *name = gs_format("large-%zu", n);
    GS_AUTO_FREE char *body = large(name, "\"data\":{\"k\":\"", 1500000);
    AUTO_REPLY struct reply r = request(h, "POST", CONFIG_MAPS, body);
    if (r.status != 201) {
        assert_status(r, 403);
        assert_non_null(strstr(r.text, "exceeded quota: gpuscale, requested: memory="));
    }
    return r.status;
}

static struct reply fill(struct harness *h, const char *name, size_t n)
{
    GS_AUTO_FREE char *path = gs_format(CONFIG_MAPS "/%s", name);
    GS_AUTO_FREE char *body = large(name, "\"data\":{\"l\":\"", n);
    return request_with(h, "PATCH", path, "application/merge-patch+json", NULL, body);
}

static void test_objects_have_a_limit_of_memory(void **state)
{
    struct harness h;
    size_t n = 0;
    (void)state;
    harness_open_with(&h, &(struct local_api_config){.node_name = "here", .max_objects = 100});
    while (n < 60 && create_large(&h, n) == 201)
        n++;
    assert_in_range(n, 10, 59);
    AUTO_REPLY struct reply gone = request(&h, "DELETE", CONFIG_MAPS "/large-0", NULL);
    AUTO_REPLY struct reply x = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("x"));
    AUTO_REPLY struct reply y = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("y"));
    AUTO_REPLY struct reply filled = fill(&h, "x", 1500000);
    AUTO_REPLY struct reply refused = fill(&h, "y", 1500000);
    // Controllers can always write the status of what is there.
    AUTO_REPLY struct reply small = fill(&h, "y", 10);
    assert_status(gone, 200);
    assert_status(x, 201);
    assert_status(y, 201);
    assert_status(filled, 200);
    assert_status(refused, 403);
    assert_status(small, 200);
    harness_close(&h);
}

// Leaves less free memory than a change of "filler" by a byte takes.
static void use_all_memory(struct harness *h)
{
    size_t fits = 10, refused = 1500000;
    for (size_t n = 0; create_large(h, n) == 201; n++)
        assert_true(n < 60);
    while (refused - fits > 1) {
        size_t n = (fits + refused) / 2;
        AUTO_REPLY struct reply r = fill(h, "filler", n);
        if (r.status == 200)
            fits = n;
        else
            refused = n;
    }
}

static void test_large_objects_can_be_deleted_when_memory_is_used_up(void **state)
{
    struct harness h;
    (void)state;
    harness_open_with(&h, &(struct local_api_config){.node_name = "here", .max_objects = 100});
    GS_AUTO_FREE char *body =
        gs_format("{\"metadata\":{\"name\":\"held\",\"finalizers\":[\"a/b\"]},"
                  "\"data\":{\"k\":\"%0*d\"}}",
                  200000, 0);
    AUTO_REPLY struct reply held = request(&h, "POST", CONFIG_MAPS, body);
    AUTO_REPLY struct reply filler = request(&h, "POST", CONFIG_MAPS, CONFIG_MAP("filler"));
    use_all_memory(&h);
    AUTO_REPLY struct reply more = fill(&h, "held", 200000);
    AUTO_REPLY struct reply marked = request(&h, "DELETE", CONFIG_MAPS "/held", NULL);
    AUTO_REPLY struct reply still = fill(&h, "held", 200000);
    assert_status(held, 201);
    assert_status(filler, 201);
    assert_status(more, 403);
    assert_status(marked, 200);
    assert_status(still, 403);
    harness_close(&h);
}

static void test_large_events_are_removed(void **state)
{
    struct harness *h = *state;
    for (int i = 0; i < 40; i++) {
        GS_AUTO_FREE char *name = gs_format("e%d", i);
        GS_AUTO_FREE char *body =
            large(name, "\"involvedObject\":{\"namespace\":\"default\",\"name\":\"", 1000000);
        AUTO_REPLY struct reply r = request(h, "POST", "/api/v1/namespaces/default/events", body);
        assert_status(r, 201);
    }
    AUTO_REPLY struct reply list = request(h, "GET", "/api/v1/namespaces/default/events", NULL);
    assert_in_range(json_array_size(json_object_get(list.body, "items")), 1, 30);
}

// What the fields of each manager add counts as well: a larger object could not be changed again.
static void test_an_object_is_limited_with_its_managed_fields(void **state)
{
    struct harness *h = *state;
    GS_AUTO_BUF struct gs_buf body = {0};
    gs_buf_add_str(&body, "{\"metadata\":{\"name\":\"keys\"},\"data\":{\"k\":\"\"");
    for (int i = 0; i < 70000; i++)
        gs_buf_addf(&body, ",\"k%d\":\"\"", i);
    gs_buf_add_str(&body, "}}");
    AUTO_REPLY struct reply r = request(h, "POST", CONFIG_MAPS, body.data);
    assert_status(r, 413);
    assert_member(r, "Request entity too large: limit is 1572864 bytes for an object", "message");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_base_namespaces_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_create_sets_metadata_and_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_generated_names_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_things_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_updates_conflict, setup, teardown),
        cmocka_unit_test_setup_teardown(test_status_and_spec_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_update_without_change_keeps_the_version, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_bound_pods_are_deleted_with_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_huge_grace_period_is_bounded, setup, teardown),
        cmocka_unit_test(test_a_deletion_on_a_full_disk_keeps_the_object),
        cmocka_unit_test(test_more_objects_than_the_quota_are_refused),
        cmocka_unit_test(test_objects_have_a_limit_of_memory),
        cmocka_unit_test(test_large_objects_can_be_deleted_when_memory_is_used_up),
        cmocka_unit_test_setup_teardown(test_large_events_are_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_object_is_limited_with_its_managed_fields, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_finalizers_hold_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deletion_preconditions_and_dry_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_namespaces_end_when_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orphans_lose_their_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deletions_return_objects_or_a_status, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scale_reads_and_writes_replicas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inert_kinds_say_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_autoscalers_come_in_every_version, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strangers_stay_out, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
