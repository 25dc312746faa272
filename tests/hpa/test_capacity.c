// SPDX-License-Identifier: Apache-2.0
// Capacity in advance: the objects that are made of a workload, and how they follow the decision.
#include "base/slice.h"
#include "hpa_controller/capacity.h"
#include "hpa_controller/controller_private.h"
#include "hpa_controller/placeholder.h"
#include "hpa_controller/starts.h"

#include "unit.h"

#include "fake_api.h"

#include <math.h>

#define APPS       "/apis/apps/v1/namespaces/shop/deployments"
#define TEMPLATES  "/api/v1/namespaces/shop/podtemplates"
#define BUFFERS    "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers"
#define OF_APPS    APPS "/web-capacity"
#define OF_BUFFERS BUFFERS "/web-capacity"

static const char workload[] =
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{"
    "\"template\":{\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":{\"nodeSelector\":{"
    "\"pool\":"
    "\"a100\"},\"tolerations\":[{\"key\":\"nvidia.com/gpu\",\"operator\":\"Exists\"}],\"affinity\":"
    "{\"nodeAffinity\":{\"x\":1},\"podAntiAffinity\":{\"y\":1}},\"hostNetwork\":true,"
    "\"initContainers\":[{\"name\":\"once\",\"resources\":{\"requests\":{\"cpu\":\"64\"}}},{"
    "\"name\":\"side\",\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"1\"}}}],"
    "\"containers\":[{\"name\":\"engine\",\"image\":\"vllm\",\"env\":[{\"name\":\"TOKEN\"}],"
    "\"resources\":{\"requests\":{\"cpu\":\"8\"},\"limits\":{\"cpu\":\"16\",\"nvidia.com/gpu\":4}}}"
    "]}}}}";

struct bench {
    struct fake_api api;
    struct hpa_resources *resources;
    struct hpa_capacity *capacity;
    json_t *hpa;
    struct hpa_spec spec;
    struct slo_decision decision;
    struct hpa_latency_outlook outlook;
    const char *path, *log;
    int want;
    bool shadow;
};

static json_t *make_hpa(const char *kind)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s, s:s, s:s*}}}", "apiVersion",
                     "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "namespace",
                     "shop", "name", "web", "uid", "u1", "annotations", SLO_ANNOTATION, "ttft=1s",
                     SLO_CAPACITY_MAX_ANNOTATION, kind ? "3" : "1", SLO_CAPACITY_ANNOTATION, kind);
}

// For so many replicas in some minutes, of which two are there.
static void set_forecast(struct bench *b, int replicas)
{
    b->decision.n_bounds = 1;
    b->decision.demand = 1;
    b->decision.credit.ready = 2;
    b->decision.bounds[0] = (struct slo_bound){.name = "throughput", .value = 1};
    b->outlook = (struct hpa_latency_outlook){.decision = &b->decision,
                                              .applied = true,
                                              .growth = 1,
                                              .rise = replicas - 1,
                                              .horizon_ms = 180000};
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_serve(&b->api, APPS);
    fake_serve(&b->api, TEMPLATES);
    fake_answer(&b->api, APPS "/web", 200, json_loads(workload, 0, NULL));
    b->resources = hpa_resources_new(b->api.kube);
    b->capacity = hpa_capacity_new(b->api.kube, b->resources, false);
    b->spec = (struct hpa_spec){.ns = "shop",
                                .name = "web",
                                .target_api_version = "apps/v1",
                                .target_kind = "Deployment",
                                .target_name = "web",
                                .max_replicas = 10};
    set_forecast(b, 4);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_capacity_free(b->capacity);
    hpa_resources_free(b->resources);
    json_decref(b->hpa);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static void annotate(struct bench *b, const char *kind)
{
    json_decref(b->hpa);
    b->hpa = make_hpa(kind);
    gs_error_free(hpa_capacity_update(b->capacity, b->hpa));
}

static void follow(struct bench *b)
{
    hpa_capacity_follow(b->capacity, &b->spec, &b->outlook, 2, false, gs_unix_ms());
}

static int placeholders_at(const struct bench *b, const char *path)
{
    const json_t *object = json_object_get(b->api.objects, path);
    return object ? (int)codec_json_int(object, 0, "spec", "replicas", NULL) : -1;
}

static bool has_placeholders(void *arg)
{
    struct bench *b = arg;
    follow(b);
    return placeholders_at(b, b->path) == b->want;
}

// -1: the object does not exist.
static void wait_placeholders(struct bench *b, const char *path, int n)
{
    b->path = path;
    b->want = n;
    if (!fake_wait(&b->api, has_placeholders, b))
        fail_msg("%s: want %d, got %d", path, n, placeholders_at(b, path));
}

static bool has_error(void *arg)
{
    struct bench *b = arg;
    follow(b);
    CODEC_AUTO_JSON json_t *json = hpa_capacity_json(b->capacity);
    const char *error = codec_json_str(json, "error", NULL);
    return error && strstr(error, b->log);
}

static void wait_error(struct bench *b, const char *text)
{
    b->log = text;
    assert_true(fake_wait(&b->api, has_error, b));
}

static size_t writes(const struct bench *b)
{
    return fake_count_log(&b->api, "POST") + fake_count_log(&b->api, "PUT") +
           fake_count_log(&b->api, "DELETE");
}

static bool was_read_again(void *arg)
{
    struct bench *b = arg;
    follow(b);
    return fake_count_log(&b->api, "GET " OF_APPS) >= (size_t)b->want;
}

static void turn(struct bench *b)
{
    for (int i = 0; i < 50; i++) {
        follow(b);
        uv_run(&b->api.loop, UV_RUN_NOWAIT);
    }
}

// --- objects ---

static const json_t *pod_spec(const struct hpa_placeholders *p)
{
    const json_t *object = p->items[0].object;
    const json_t *of_deployment = codec_json_get(object, "spec", "template", "spec", NULL);
    return of_deployment ? of_deployment : codec_json_get(object, "template", "spec", NULL);
}

static struct hpa_placeholders make(enum slo_capacity_kind kind, int replicas)
{
    CODEC_AUTO_JSON json_t *hpa = make_hpa("pods"), *target = json_loads(workload, 0, NULL);
    struct hpa_placeholders p;
    assert_ok(hpa_placeholders_make(kind, hpa, target, replicas, &p));
    return p;
}

static void test_a_placeholder_requests_what_a_replica_requests(void **state)
{
    GS_CLEANUP(hpa_placeholders_finish)
    struct hpa_placeholders p = make(SLO_CAPACITY_PODS, 2);
    const json_t *spec = pod_spec(&p), *list = json_object_get(spec, "containers");
    (void)state;
    assert_int_equal(json_array_size(list), 2);
    const json_t *engine = json_array_get(list, 1);
    assert_string_equal(
        codec_json_str(json_array_get(list, 0), "resources", "requests", "cpu", NULL), "1");
    assert_string_equal(codec_json_str(engine, "resources", "requests", "cpu", NULL), "8");
    // Requests that only a created pod would have.
    assert_int_equal(codec_json_int(engine, 0, "resources", "requests", "nvidia.com/gpu", NULL), 4);
    assert_string_equal(codec_json_str(spec, "nodeSelector", "pool", NULL), "a100");
    assert_int_equal(json_array_size(json_object_get(spec, "tolerations")), 1);
    assert_non_null(codec_json_get(spec, "affinity", "nodeAffinity", NULL));
    assert_string_equal(codec_json_str(spec, "priorityClassName", NULL), HPA_CAPACITY_CLASS);
    // Nothing that identifies the workload, or that it is allowed to do.
    assert_null(codec_json_get(spec, "affinity", "podAntiAffinity", NULL));
    assert_null(json_object_get(spec, "hostNetwork"));
    assert_null(json_object_get(engine, "env"));
    assert_null(
        codec_json_str(p.items[0].object, "spec", "template", "metadata", "labels", "app", NULL));
    assert_string_equal(codec_json_str(kube_controller_ref(p.items[0].object), "uid", NULL), "u1");
    assert_null(json_object_get(kube_controller_ref(p.items[0].object), "blockOwnerDeletion"));
}

static void test_a_buffer_has_a_template_of_its_own(void **state)
{
    GS_CLEANUP(hpa_placeholders_finish)
    struct hpa_placeholders p = make(SLO_CAPACITY_BUFFER, 2);
    (void)state;
    assert_int_equal(p.n, 2);
    assert_string_equal(kube_kind(p.items[0].object), "PodTemplate");
    assert_non_null(pod_spec(&p));
    const json_t *buffer = p.items[1].object;
    assert_string_equal(codec_json_str(buffer, "spec", "podTemplateRef", "name", NULL),
                        kube_name(p.items[0].object));
    assert_int_equal(codec_json_int(buffer, 0, "spec", "replicas", NULL), 2);
}

static void test_templates_that_cannot_be_followed(void **state)
{
    CODEC_AUTO_JSON json_t *hpa = make_hpa("pods"), *claims = json_loads(workload, 0, NULL);
    CODEC_AUTO_JSON json_t *none = json_pack("{s:{}}", "spec");
    struct hpa_placeholders p;
    (void)state;
    codec_json_set(claims, json_pack("[{s:s}]", "name", "gpu"), "spec", "template", "spec",
                   "resourceClaims", NULL);
    assert_error(hpa_placeholders_make(SLO_CAPACITY_PODS, hpa, claims, 1, &p), GS_EINVAL,
                 "resource claims");
    assert_error(hpa_placeholders_make(SLO_CAPACITY_PODS, hpa, none, 1, &p), GS_EINVAL,
                 "no pod template");
    assert_error(hpa_placeholders_make(SLO_CAPACITY_PODS, hpa, NULL, 1, &p), GS_EINVAL,
                 "no pod template");
}

// --- following ---

static void test_pods_are_created_followed_and_removed(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    wait_placeholders(b, OF_APPS, 2);
    set_forecast(b, 3);
    wait_placeholders(b, OF_APPS, 1);
    set_forecast(b, 2);
    wait_placeholders(b, OF_APPS, 0);
    size_t before = writes(b);
    turn(b);
    assert_int_equal(writes(b), before); // writes only on change
    annotate(b, NULL);
    wait_placeholders(b, OF_APPS, -1);
    assert_null(hpa_capacity_json(b->capacity));
}

static void test_nothing_is_requested_without_the_annotation(void **state)
{
    struct bench *b = *state;
    annotate(b, NULL);
    turn(b);
    assert_int_equal(json_array_size(b->api.log), 0);
}

static void test_nothing_is_created_before_it_is_needed(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    set_forecast(b, 2);
    follow(b);
    assert_int_equal(json_array_size(b->api.log), 0);
}

static void test_a_shadow_only_explains(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    b->outlook.applied = false;
    follow(b);
    CODEC_AUTO_JSON json_t *json = hpa_capacity_json(b->capacity);
    assert_int_equal(codec_json_int(json, 0, "placeholders", NULL), 2);
    assert_false(codec_json_bool(json, true, "applied", NULL));
    assert_int_equal(json_array_size(b->api.log), 0);
}

static void test_placeholders_are_removed_in_shadow_mode(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    wait_placeholders(b, OF_APPS, 2);
    b->outlook.applied = false;
    wait_placeholders(b, OF_APPS, -1);
}

static bool has_no_placeholders_at_zero(void *arg)
{
    struct bench *b = arg;
    hpa_capacity_follow(b->capacity, &b->spec, NULL, 0, false, gs_unix_ms());
    return placeholders_at(b, OF_APPS) == 0;
}

static void test_a_workload_without_replicas_has_no_placeholders(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    wait_placeholders(b, OF_APPS, 2);
    hpa_capacity_follow(b->capacity, &b->spec, NULL, -1, false, gs_unix_ms()); // unknown
    CODEC_AUTO_JSON json_t *before = hpa_capacity_json(b->capacity);
    assert_int_equal(codec_json_int(before, 0, "placeholders", NULL), 2);
    assert_true(fake_wait(&b->api, has_no_placeholders_at_zero, b));
    CODEC_AUTO_JSON json_t *json = hpa_capacity_json(b->capacity);
    assert_string_equal(codec_json_str(json, "text", NULL),
                        "0 placeholders: the workload has no replicas");
}

static bool was_logged(void *arg)
{
    struct bench *b = arg;
    return fake_count_log(&b->api, b->log);
}

static bool is_created(void *arg)
{
    struct bench *b = arg;
    follow(b);
    if (fake_count_log(&b->api, "GET " OF_APPS))
        b->api.hold_prefix = APPS;
    return fake_count_log(&b->api, "POST") && fake_n_held(&b->api);
}

static void test_an_object_whose_creation_has_no_reply_is_deleted(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    assert_true(fake_wait(&b->api, is_created, b));
    b->api.hold_prefix = NULL;
    hpa_capacity_release(b->capacity);
    b->log = "DELETE " OF_APPS;
    assert_true(fake_wait(&b->api, was_logged, b));
}

static void test_a_cluster_without_buffers_is_reported(void **state)
{
    struct bench *b = *state;
    annotate(b, "buffer");
    wait_error(b, "does not serve CapacityBuffers");
    // The template that was already made is removed with the annotation.
    assert_non_null(json_object_get(b->api.objects, TEMPLATES "/web-capacity"));
    annotate(b, NULL);
    wait_placeholders(b, TEMPLATES "/web-capacity", -1);
}

static void test_another_kind_replaces_the_objects(void **state)
{
    struct bench *b = *state;
    fake_serve(&b->api, BUFFERS);
    annotate(b, "buffer");
    wait_placeholders(b, OF_BUFFERS, 2);
    annotate(b, "pods");
    wait_placeholders(b, OF_BUFFERS, -1);
    wait_placeholders(b, OF_APPS, 2);
    assert_null(json_object_get(b->api.objects, TEMPLATES "/web-capacity"));
}

static void test_objects_of_others_are_neither_changed_nor_deleted(void **state)
{
    struct bench *b = *state;
    json_object_set_new(
        b->api.objects, OF_APPS,
        json_pack("{s:{s:s}, s:{s:i}}", "metadata", "name", "web-capacity", "spec", "replicas", 7));
    annotate(b, "pods");
    wait_error(b, "belongs to another owner");
    hpa_capacity_found(b->capacity, json_object_get(b->api.objects, OF_APPS), KUBE_DEPLOYMENTS);
    annotate(b, NULL);
    turn(b);
    hpa_capacity_release(b->capacity);
    assert_int_equal(placeholders_at(b, OF_APPS), 7);
    assert_int_equal(writes(b), 0);
}

// An earlier process has made two placeholders.
static void begin_after_another_process(struct bench *b, const char *kind)
{
    annotate(b, "pods");
    wait_placeholders(b, OF_APPS, 2);
    hpa_capacity_free(b->capacity);
    b->capacity = hpa_capacity_new(b->api.kube, b->resources, false);
    annotate(b, kind);
}

static void on_found(void *arg, const json_t *object, struct kube_gvr resource)
{
    struct bench *b = arg;
    hpa_capacity_found(b->capacity, object, resource);
}

static void test_objects_of_an_earlier_process_are_removed(void **state)
{
    struct bench *b = *state;
    begin_after_another_process(b, NULL);
    fake_answer(&b->api, APPS "?labelSelector=gpuscale.dev/capacity-of", 200,
                json_pack("{s:[O]}", "items", json_object_get(b->api.objects, OF_APPS)));
    struct hpa_capacity_search *s =
        hpa_capacity_search_start(&b->api.loop, b->api.kube, "shop", on_found, b);
    wait_placeholders(b, OF_APPS, -1);
    hpa_capacity_search_free(s);
}

static void test_another_process_keeps_the_number_until_a_forecast_is_known(void **state)
{
    struct bench *b = *state;
    begin_after_another_process(b, "pods");
    b->outlook.rise = (double)NAN;
    follow(b); // before it is found
    hpa_capacity_found(b->capacity, json_object_get(b->api.objects, OF_APPS), KUBE_DEPLOYMENTS);
    turn(b);
    assert_int_equal(placeholders_at(b, OF_APPS), 2);
    set_forecast(b, 3);
    wait_placeholders(b, OF_APPS, 1);
}

static void test_a_search_that_fails_is_repeated(void **state)
{
    static const char query[] = APPS "?labelSelector=gpuscale.dev/capacity-of";
    struct bench *b = *state;
    begin_after_another_process(b, NULL);
    fake_answer(&b->api, query, 429,
                json_pack("{s:s, s:s}", "kind", "Status", "message", "slow down"));
    struct hpa_capacity_search *s =
        hpa_capacity_search_start(&b->api.loop, b->api.kube, "shop", on_found, b);
    b->log = "GET " APPS "?labelSelector";
    assert_true(fake_wait(&b->api, was_logged, b));
    fake_answer(&b->api, query, 200,
                json_pack("{s:[O]}", "items", json_object_get(b->api.objects, OF_APPS)));
    wait_placeholders(b, OF_APPS, -1);
    hpa_capacity_search_free(s);
}

static void test_a_refusal_is_repeated_after_a_pause(void **state)
{
    struct bench *b = *state;
    fake_answer(&b->api, OF_APPS, 403, json_pack("{s:s, s:s}", "kind", "Status", "message", "no"));
    annotate(b, "pods");
    wait_error(b, "no");
    turn(b);
    assert_int_equal(fake_count_log(&b->api, "GET " OF_APPS), 1);
    assert_int_equal(writes(b), 0);
}

static void test_an_autoscaler_of_another_controller_has_no_placeholders(void **state)
{
    struct bench *b = *state;
    annotate(b, "pods");
    wait_placeholders(b, OF_APPS, 2);
    b->want = 1;
    assert_true(fake_wait(&b->api, was_read_again, b));
    hpa_capacity_release(b->capacity);
    hpa_capacity_free(GS_TAKE(b->capacity));
    b->capacity = hpa_capacity_new(b->api.kube, b->resources, false);
    annotate(b, NULL);
    wait_placeholders(b, OF_APPS, -1);
}

// --- start-up times ---

static void put_started_pod(struct bench *b, const char *owner, bool placeholder)
{
    json_t *pod = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s, s:s, s:[{s:s, s:s, s:b}]}, s:{s:[{s:s, s:s}]}, s:{s:s, "
        "s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}], s:[{s:s, s:{s:{s:s}}}]}}",
        "apiVersion", "v1", "kind", "Pod", "metadata", "name", owner, "namespace", "shop", "uid",
        owner, "creationTimestamp", "2026-01-01T00:00:00Z", "ownerReferences", "kind",
        "StatefulSet", "name", owner, "controller", 1, "spec", "containers", "name", "c", "image",
        "i", "status", "phase", "Running", "conditions", "type", "PodScheduled", "status", "True",
        "lastTransitionTime", "2026-01-01T00:00:01Z", "type", "Ready", "status", "True",
        "lastTransitionTime", "2026-01-01T00:01:00Z", "containerStatuses", "name", "c", "state",
        "running", "startedAt", "2026-01-01T00:00:02Z");
    if (placeholder) {
        codec_json_set(pod, json_string("web"), "metadata", "labels", HPA_CAPACITY_LABEL, NULL);
        codec_json_set(pod, json_string(HPA_CAPACITY_CLASS), "spec", "priorityClassName", NULL);
    }
    fake_put(&b->api, b->api.pods, pod);
}

static bool is_synced(void *arg)
{
    return kube_cache_synced(arg);
}

static void test_nothing_is_learned_from_the_start_of_a_placeholder(void **state)
{
    struct bench *b = *state;
    struct kube_cache *pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    struct hpa_starts *starts = hpa_starts_new(&b->api.loop, b->api.kube, pods, "shop");
    put_started_pod(b, "web", false);
    put_started_pod(b, "web-capacity", true);
    hpa_starts_need(starts);
    kube_cache_start(pods);
    assert_true(fake_wait(&b->api, is_synced, pods));
    CODEC_AUTO_JSON json_t *learned =
        startup_learner_json(hpa_starts_learner(starts), gs_unix_ms());
    assert_int_equal(json_array_size(json_object_get(learned, "groups")), 1);
    assert_int_equal(json_array_size(json_object_get(learned, "others")), 1);
    hpa_starts_free(starts);
    kube_cache_free(pods);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_placeholder_requests_what_a_replica_requests),
        cmocka_unit_test(test_a_buffer_has_a_template_of_its_own),
        cmocka_unit_test(test_templates_that_cannot_be_followed),
        TEST(test_pods_are_created_followed_and_removed),
        TEST(test_nothing_is_requested_without_the_annotation),
        TEST(test_nothing_is_created_before_it_is_needed),
        TEST(test_a_shadow_only_explains),
        TEST(test_placeholders_are_removed_in_shadow_mode),
        TEST(test_a_workload_without_replicas_has_no_placeholders),
        TEST(test_an_object_whose_creation_has_no_reply_is_deleted),
        TEST(test_another_process_keeps_the_number_until_a_forecast_is_known),
        TEST(test_a_search_that_fails_is_repeated),
        TEST(test_a_cluster_without_buffers_is_reported),
        TEST(test_another_kind_replaces_the_objects),
        TEST(test_objects_of_others_are_neither_changed_nor_deleted),
        TEST(test_objects_of_an_earlier_process_are_removed),
        TEST(test_a_refusal_is_repeated_after_a_pause),
        TEST(test_nothing_is_learned_from_the_start_of_a_placeholder),
        TEST(test_an_autoscaler_of_another_controller_has_no_placeholders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
