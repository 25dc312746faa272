// SPDX-License-Identifier: Apache-2.0
// GPU metrics without rules, from an exporter's page in an engine: several GPUs in a pod, a shared
// GPU, a MIG GPU, and the pods of workloads.
#include "adapter/provider/provider.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "kube/selector.h"
#include "kube/status.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "patience.h"
#include "tsdb/tsdb.h"
#include "unit.h"

#include <math.h>

#define OF(pod, more) ",namespace=\"ml\",pod=\"" pod "\",container=\"x\"" more
#define UTIL          "DCGM_FI_DEV_GPU_UTIL"
#define POWER         "DCGM_FI_DEV_POWER_USAGE"
#define USED          "DCGM_FI_DEV_FB_USED"
#define SM_UTIL       "DCGM_CUSTOM_PROCESS_SM_UTIL"
#define ALLOCATED_MEM "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"
#define SHARE         "DCGM_FI_DEV_FB_USED_PERCENT"
#define XIDS          "DCGM_EXP_XID_ERRORS_COUNT"
#define CLOCKS        "DCGM_EXP_CLOCK_EVENTS_TOTAL"
static char *page; // of gpu_page.txt

// Another exporter of the same devices. It numbers them differently, has other labels, uses an
// older label for the UUID of one device, and repeats the device's values for each pod.
#define LINE(name, uuid, host, more, value)                                                        \
    name "{gpu=\"7\"," uuid ",Hostname=\"" host "\",modelName=\"other\"" more "} " value "\n"
static const char other_page[] =
    // clang-format off
    LINE(UTIL, "UUID=\"A\"", "n1", OF("a", ""), "80")
    LINE(UTIL, "uuid=\"B\"", "n1", OF("a", ""), "40")
    LINE(UTIL, "UUID=\"C\"", "n1", "", "0")
    LINE(UTIL, "UUID=\"D\"", "n2", OF("b", ",vgpu=\"0\""), "70")
    LINE(UTIL, "UUID=\"D\"", "n2", OF("b", ",vgpu=\"1\""), "70")
    LINE(UTIL, "UUID=\"D\"", "n2", OF("c", ",vgpu=\"2\""), "70")
    LINE(POWER, "UUID=\"A\"", "n1", OF("a", ""), "100")
    LINE(POWER, "uuid=\"B\"", "n1", OF("a", ""), "200")
    LINE(POWER, "UUID=\"C\"", "n1", "", "50")
    LINE(POWER, "UUID=\"D\"", "n2", OF("b", ",vgpu=\"0\""), "300")
    LINE(POWER, "UUID=\"D\"", "n2", OF("c", ",vgpu=\"2\""), "300")
    LINE(USED, "UUID=\"D\"", "n2", OF("b", ",vgpu=\"0\""), "600")
    LINE(USED, "UUID=\"D\"", "n2", OF("c", ",vgpu=\"2\""), "600");
// clang-format on

// An exporter with another label for the node. In the namespace ci, the pod "both" has two compute
// instances of a GPU instance, and "one" and "two" have one each. They repeat the memory.
#define CI(name, gi, ci, pod, value)                                                               \
    name "{gpu=\"0\",UUID=\"M\",hostname=\"m1\",GPU_I_ID=\"" gi "\",GPU_CI_ID=\"" ci               \
         "\",namespace=\"ci\",pod=\"" pod "\",container=\"x\"} " value "\n"
#define CI_ALLOCATED(ci, value)                                                                    \
    ALLOCATED_MEM "{gpu=\"0\",UUID=\"M\",NodeName=\"m1\",GPU_I_ID=\"1\",GPU_CI_ID=\"" ci           \
                  "\",NamespaceName=\"ci\",PodName=\"both\",ContainerName=\"x\"} " value "\n"
static const char instances_page[] =
    // clang-format off
    CI(UTIL, "1", "0", "both", "20")
    CI(UTIL, "1", "1", "both", "40")
    CI(UTIL, "2", "0", "one", "60")
    CI(UTIL, "2", "1", "two", "60")
    CI(USED, "1", "0", "both", "500")
    CI(USED, "1", "1", "both", "500")
    CI(USED, "2", "0", "one", "700")
    CI(USED, "2", "1", "two", "700")
    CI_ALLOCATED("0", "100")
    CI_ALLOCATED("1", "200");
// clang-format on

// Two replicas of the controller write the decision about "chat", and one that of "batch".
#define DECISION(name, hpa, of, instance, value)                                                   \
    name "{namespace=\"ml\",horizontalpodautoscaler=\"" hpa "\",deployment=\"" of                  \
         "\",replica=\"" instance "\"} " value "\n"
static const char decisions_page[] =
    // clang-format off
    DECISION("gpuscale_desired_replicas", "chat", "chat-api", "0", "7")
    DECISION("gpuscale_desired_replicas", "chat", "chat-api", "1", "7")
    DECISION("gpuscale_desired_replicas", "batch", "batch-api", "0", "3")
    DECISION("gpuscale_slo_pressure", "chat", "chat-api", "0", "1.25");
// clang-format on

// Two activators hold requests of "chat". Nothing waits for "batch".
#define HELD(name, service, instance, value)                                                       \
    name "{namespace=\"ml\",service=\"" service "\",activator=\"" instance "\"} " value "\n"
static const char activators_page[] =
    // clang-format off
    HELD("gpuscale_activator_waiting", "chat", "a", "2")
    HELD("gpuscale_activator_waiting", "chat", "b", "1")
    HELD("gpuscale_activator_waiting", "batch", "a", "0")
    HELD("gpuscale_activator_oldest_wait_seconds", "chat", "a", "41")
    HELD("gpuscale_activator_oldest_wait_seconds", "chat", "b", "7");
// clang-format on

struct job {
    const char *name, *path, *labels;
};
#define OWN_POD "pod: exporter-1, namespace: monitoring, container: exporter, endpoint: metrics"
static const struct job once[] = {{"gpu", "/metrics", ""}, {0}};
static const struct job twice[] = {{"gpu", "/metrics", ""}, {"again", "/metrics", OWN_POD}, {0}};
static const struct job beside[] = {
    {"gpu", "/metrics", OWN_POD}, {"other", "/other", OWN_POD}, {0}};
static const struct job decisions[] = {{"gpu", "/metrics", ""}, {"hpa", "/decisions", ""}, {0}};
static const struct job activators[] = {{"gpu", "/metrics", ""}, {"hold", "/activators", ""}, {0}};
static const struct job instances[] = {
    {"gpu", "/metrics", ""}, {"instances", "/instances", ""}, {0}};

// web and canary have the same selector, so only their ReplicaSets assign pods to them. The pod
// "lost" belongs to no ReplicaSet and has no sample.
static const char deployments[] =
    "[{\"metadata\":{\"name\":\"web\",\"labels\":{\"team\":\"x\"}},\"spec\":{\"selector\":{"
    "\"matchLabels\":{\"app\":\"web\"}}}},{\"metadata\":{\"name\":\"canary\"},\"spec\":{"
    "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}}},{\"metadata\":{\"name\":\"idle\"},"
    "\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"idle\"}}}}]";
#define OWNED(kind, name)                                                                          \
    ",\"ownerReferences\":[{\"kind\":\"Other\",\"name\":\"o\"},{\"kind\":\"" kind                  \
    "\",\"name\":\"" name "\",\"controller\":true}]"
#define META(name, app, more)                                                                      \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"app\":\"" app "\"}" more "}}"
// clang-format off
static const char replicasets[] = "["
    "{\"metadata\":{\"name\":\"web-1\",\"labels\":{\"app\":\"web\"}" OWNED("Deployment", "web")
    "},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"web\"}}}},"
    META("canary-1", "web", OWNED("Deployment", "canary")) ","
    META("idle-1", "idle", OWNED("Deployment", "idle")) "]";
// clang-format on
static const char statefulsets[] =
    "[{\"metadata\":{\"name\":\"db\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"db\"}}}}]";
static const char services[] = "[{\"metadata\":{\"name\":\"front\"},\"spec\":{\"selector\":{"
                               "\"app\":\"web\"}}},{\"metadata\":{\"name\":\"none\"},\"spec\":{}}]";
// clang-format off
static const char pods[] = "["
    META("a", "web", OWNED("ReplicaSet", "web-1")) ","
    META("b", "web", OWNED("ReplicaSet", "web-1")) ","
    META("d", "web", OWNED("ReplicaSet", "canary-1")) ","
    META("c", "db", OWNED("StatefulSet", "db")) ","
    META("lost", "web", OWNED("ReplicaSet", "gone-1")) "]";
// clang-format on

struct fixture {
    uv_loop_t loop;
    struct http_server *exporter;
    struct engine *engine;
    struct http_client *engine_http, *kube_http;
    struct kube_client *kube;
    struct source *source;
    struct provider_rest_mapper *mapper;
    struct adapter_config *none, *gpu_config;
    struct provider_registry *registry, *gpu;
    struct provider *provider;
    const char *ns; // of requests; NULL: ml
    bool no_sets, done;
    enum provider_outcome outcome;
    struct gs_buf answer; // "web=60 canary=90"
    double value;
    size_t n_samples; // of an external metric
};

static void exporter(void *arg, struct http_exchange *x)
{
    const char *text = gs_streq(http_path(x), "/other")        ? other_page
                       : gs_streq(http_path(x), "/instances")  ? instances_page
                       : gs_streq(http_path(x), "/decisions")  ? decisions_page
                       : gs_streq(http_path(x), "/activators") ? activators_page
                                                               : page;
    http_reply(x, 200, "text/plain; version=0.0.4", gs_slice_of(text));
}

// Returns the objects that the selector selects, or the one object that the path names.
static void reply_objects(struct http_exchange *x, const char *text, const char *name)
{
    CODEC_AUTO_JSON json_t *list = NULL, *items = json_array();
    struct kube_selector selector = {0};
    size_t i;
    json_t *o;
    assert_ok(codec_json_parse(gs_slice_of(text), true, &list));
    assert_ok(kube_selector_parse(http_query(x, "labelSelector"), &selector));
    json_array_foreach (list, i, o) {
        if (name && gs_streq(codec_json_str(o, "metadata", "name", NULL), name)) {
            kube_reply_json(x, 200, o);
            kube_selector_finish(&selector);
            return;
        }
        if (kube_selector_matches(&selector, codec_json_get(o, "metadata", "labels", NULL)))
            json_array_append(items, o);
    }
    kube_selector_finish(&selector);
    if (name) {
        kube_reply_failure(x, 404, "NotFound", "\"%s\" not found", name);
        return;
    }
    CODEC_AUTO_JSON json_t *body = json_pack("{s:s, s:O}", "kind", "List", "items", items);
    kube_reply_json(x, 200, body);
}

static void cluster(void *arg, struct http_exchange *x)
{
    static const struct {
        const char *path, *objects;
    } kinds[] = {{"/deployments", deployments},
                 {"/replicasets", replicasets},
                 {"/statefulsets", statefulsets},
                 {"/services", services},
                 {"/pods", pods}};
    struct fixture *f = arg;
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        const char *at = strstr(http_path(x), kinds[i].path);
        if (!at)
            continue;
        const char *name = at + strlen(kinds[i].path);
        if (f->no_sets && gs_streq(kinds[i].path, "/replicasets"))
            kube_reply_failure(x, 403, "Forbidden", "no");
        else
            reply_objects(x, kinds[i].objects, *name == '/' ? name + 1 : NULL);
        return;
    }
    kube_reply_failure(x, 404, "NotFound", "no such path");
}

static struct provider_registry *list(struct fixture *f, const struct adapter_config *c,
                                      int64_t relist_ms)
{
    const struct provider_registry_options o = {.config = c,
                                                .source = f->source,
                                                .mapper = f->mapper,
                                                .relist_ms = relist_ms,
                                                .max_age_ms = 60000};
    return provider_registry_new(&f->loop, &o);
}

static char *config_of(const struct job *jobs, unsigned port)
{
    struct gs_buf text = {0};
    gs_buf_add_str(&text, "scrape_configs:\n");
    for (const struct job *j = jobs; j->name; j++)
        gs_buf_addf(&text,
                    "- {job_name: %s, metrics_path: %s, honor_labels: true, scrape_interval: 1s, "
                    "scrape_timeout: 1s, static_configs: [{targets: ['127.0.0.1:%u'], "
                    "labels: {%s}}]}\n",
                    j->name, j->path, port, j->labels);
    return gs_buf_take(&text);
}

static bool count_up(void *arg, tsdb_ref ref, struct tsdb_point p)
{
    size_t *up = arg;
    *up += p.value == 1;
    return true;
}

static size_t jobs_up(const struct fixture *f)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), GS_SLICE("up"), TSDB_EQ, NULL};
    size_t up = 0;
    tsdb_each_latest(engine_tsdb(f->engine), &m, 1, INT64_MAX, 0, count_up, &up);
    return up;
}

static bool lists(const struct fixture *f, const char *metric)
{
    GS_AUTO_FREE char *resources = provider_registry_resources_of(f->gpu, metric);
    return resources && *resources;
}

static void start(struct fixture *f, const struct job *jobs, size_t n_jobs)
{
    const struct http_server_config server = {.address = "127.0.0.1"};
    uv_loop_init(&f->loop);
    assert_ok(http_server_start(&f->loop, &server, exporter, f, &f->exporter));
    GS_AUTO_FREE char *config = config_of(jobs, http_server_port(f->exporter));
    const struct engine_options e = {.config_text = config, .store = {.retention_ms = 60000}};
    assert_ok(engine_new(&f->loop, &e, &f->engine));
    f->engine_http = http_client_new_loopback(&f->loop, engine_handle, f->engine, NULL);
    f->kube_http = http_client_new_loopback(&f->loop, cluster, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    const struct source_options s = {0};
    f->source = source_new_client(&f->loop, f->engine_http, "", &s);
    f->mapper = provider_rest_mapper_new();
    assert_ok(adapter_config_parse(GS_SLICE("{}"), "none", &f->none));
    assert_ok(adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU)", &f->gpu_config));
    f->registry = list(f, f->none, 3600000);
    f->gpu = list(f, f->gpu_config, 50);
    const struct provider_options p = {.config = f->none,
                                       .source = f->source,
                                       .mapper = f->mapper,
                                       .registry = f->registry,
                                       .gpu = f->gpu,
                                       .kube = f->kube};
    f->provider = provider_new(&p);
    while (jobs_up(f) < n_jobs || !lists(f, UTIL) || !lists(f, SM_UTIL))
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void stop(struct fixture *f)
{
    provider_free(f->provider);
    provider_registry_free(f->registry);
    provider_registry_free(f->gpu);
    source_free(f->source);
    provider_rest_mapper_free(f->mapper);
    adapter_config_free(f->none);
    adapter_config_free(f->gpu_config);
    http_client_free(f->engine_http);
    engine_free(f->engine);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    http_server_stop(f->exporter);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    gs_buf_finish(&f->answer);
}

static void on_answer(void *arg, const struct provider_answer *a)
{
    struct fixture *f = arg;
    f->done = true;
    f->outcome = a->outcome;
    f->value = a->n ? a->values[0].value : a->n_samples ? a->samples[0].value : NAN;
    f->n_samples = a->n_samples;
    gs_buf_clear(&f->answer);
    gs_buf_add_str(&f->answer, a->outcome == PROVIDER_OK ? "" : a->cause);
    for (size_t i = 0; i < a->n; i++)
        gs_buf_addf(&f->answer, "%s%s=%g", i ? " " : "", a->values[i].name, a->values[i].value);
}

static void ask(struct fixture *f, const char *resource, const char *name, const char *metric,
                const char *selector)
{
    bool root = gs_streq(resource, "nodes") || gs_streq(resource, "namespaces");
    const struct provider_request rq = {.resource = resource,
                                        .ns = root    ? NULL
                                              : f->ns ? f->ns
                                                      : "ml",
                                        .name = name,
                                        .metric = metric,
                                        .label_selector = selector};
    f->done = false;
    provider_request_values(f->provider, &rq, on_answer, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

// On a slow machine a scrape may be late. Its values return with the next scrape.
static void assert_value(struct fixture *f, const char *resource, const char *name,
                         const char *metric, double want)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS;;) {
        ask(f, resource, name, metric, NULL);
        if (f->outcome == PROVIDER_OK && fabs(f->value - want) <= 1e-9)
            return;
        if (gs_mono_ns() > end)
            fail_msg("%s %s %s: want %g, got %s", resource, name, metric, want, f->answer.data);
    }
}

static void assert_answer(struct fixture *f, const char *resource, const char *name,
                          const char *metric, const char *selector, const char *want)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    do
        ask(f, resource, name, metric, selector);
    while (strcmp(f->answer.data, want) != 0 && gs_mono_ns() < end);
    assert_string_equal(f->answer.data, want);
}

static void check_devices(struct fixture *f)
{
    // Pods: levels are averaged over their devices. A share counts once.
    assert_value(f, "pods", "a", UTIL, 60);
    assert_value(f, "pods", "b", UTIL, 30);
    assert_value(f, "pods", "d", UTIL, 90);
    assert_value(f, "pods", "e", UTIL, 50);
    assert_value(f, "pods", "a", POWER, 300);
    assert_value(f, "pods", "b", POWER, 300);
    assert_value(f, "pods", "d", POWER, 400);
    assert_value(f, "pods", "b", USED, 200);
    assert_value(f, "pods", "e", USED, 400);
    assert_value(f, "pods", "a", SM_UTIL, 60);
    assert_value(f, "pods", "b", SM_UTIL, 30);
    assert_value(f, "pods", "e", ALLOCATED_MEM, 1000);
    // Namespaces: a shared device is one device with the sum of its pods' shares.
    assert_value(f, "namespaces", "ml", UTIL, (80 + 40 + 70 + 90 + 50) / 5.0);
    assert_value(f, "namespaces", "ml", POWER, 100 + 200 + 300 + 400);
    assert_value(f, "namespaces", "ml", USED, 1000 + 1000 + 600 + 400);
    assert_value(f, "namespaces", "ml", SM_UTIL,
                 (50 + 70 + 100 + 10) / 4.0); // a share of 125 is impossible
    assert_value(f, "namespaces", "ml", SHARE, 25);
    // Kinds of events are added up, and repeated lines of a device count once.
    assert_value(f, "pods", "a", XIDS, 5);
    assert_value(f, "pods", "b", XIDS, 1);
    assert_value(f, "pods", "d", XIDS, 1);
    assert_value(f, "pods", "a", CLOCKS, 13);
    assert_value(f, "namespaces", "ml", XIDS, 5 + 1 + 1);
    assert_value(f, "nodes", "n1", XIDS, 5 + 4);
    assert_value(f, "nodes", "n2", XIDS, 1 + 1);
    assert_value(f, "nodes", "n1", CLOCKS, 13);
    // Nodes: all devices, including unused ones.
    assert_value(f, "nodes", "n1", UTIL, 40);
    assert_value(f, "nodes", "n2", UTIL, (70 + 90 + 10) / 3.0);
    assert_value(f, "nodes", "n1", POWER, 350);
    assert_value(f, "nodes", "n2", POWER, 300 + 400);
    assert_value(f, "nodes", "n2", USED, 600);
    assert_value(f, "nodes", "n1", SM_UTIL, 60);
    assert_value(f, "nodes", "n3", ALLOCATED_MEM, 1000);
}

static void test_one_kind_of_events(void **state)
{
    struct fixture f = {0};
    struct kube_selector kind = {0};
    start(&f, once, 1);
    assert_value(&f, "pods", "a", XIDS, 5);
    assert_ok(kube_selector_parse("xid=31", &kind));
    const struct provider_request rq = {
        .resource = "pods", .ns = "ml", .name = "a", .metric = XIDS, .selector = &kind};
    f.done = false;
    provider_request_values(f.provider, &rq, on_answer, &f);
    while (!f.done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.outcome, PROVIDER_OK);
    assert_true(f.value == 2);
    kube_selector_finish(&kind);
    stop(&f);
}

static void devices_seen_by(const struct job *jobs, size_t n_jobs)
{
    struct fixture f = {0};
    start(&f, jobs, n_jobs);
    check_devices(&f);
    stop(&f);
}

static void test_devices(void **state)
{
    devices_seen_by(once, 1);
}

static void test_device_seen_by_two_jobs(void **state)
{
    devices_seen_by(twice, 2);
}

static void test_device_seen_by_two_exporters(void **state)
{
    devices_seen_by(beside, 2);
}

static void ask_external(struct fixture *f, const char *metric, const char *labels)
{
    struct kube_selector selector = {0};
    assert_ok(kube_selector_parse(labels, &selector));
    const struct provider_request rq = {
        .external = true, .ns = "ml", .metric = metric, .selector = &selector};
    f->done = false;
    provider_request_values(f->provider, &rq, on_answer, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    kube_selector_finish(&selector);
}

static void test_decisions_of_latency_targets(void **state)
{
    struct fixture f = {0};
    start(&f, decisions, 2);
    while (!lists(&f, "gpuscale_slo_pressure"))
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_value(&f, "deployments.apps", "chat-api", "gpuscale_desired_replicas", 7);
    assert_value(&f, "horizontalpodautoscalers.autoscaling", "batch", "gpuscale_desired_replicas",
                 3);
    assert_value(&f, "horizontalpodautoscalers.autoscaling", "chat", "gpuscale_slo_pressure", 1.25);
    ask_external(&f, "gpuscale_desired_replicas", "horizontalpodautoscaler=chat");
    assert_int_equal(f.n_samples, 1);
    assert_true(f.value == 7);
    ask_external(&f, "gpuscale_desired_replicas", "");
    assert_int_equal(f.n_samples, 2);
    ask_external(&f, "gpuscale_slo_pressure", "horizontalpodautoscaler=chat");
    assert_true(f.value == 1.25);
    ask_external(&f, "gpuscale_slo_bound_replicas", "");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    stop(&f);
}

static void test_queue_of_activators(void **state)
{
    struct fixture f = {0};
    start(&f, activators, 2);
    while (!lists(&f, "gpuscale_activator_oldest_wait_seconds"))
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_value(&f, "services", "chat", "gpuscale_activator_waiting", 3);
    assert_value(&f, "services", "batch", "gpuscale_activator_waiting", 0);
    assert_value(&f, "services", "chat", "gpuscale_activator_oldest_wait_seconds", 41);
    ask_external(&f, "gpuscale_activator_waiting", "service=chat");
    assert_int_equal(f.n_samples, 1);
    assert_true(f.value == 3);
    ask_external(&f, "gpuscale_activator_waiting", "service=batch");
    assert_int_equal(f.n_samples, 1);
    assert_true(f.value == 0);
    ask_external(&f, "gpuscale_activator_waiting", "service=other");
    assert_int_equal(f.n_samples, 0);
    ask_external(&f, "gpuscale_activator_oldest_wait_seconds", "service=chat");
    assert_true(f.value == 41);
    stop(&f);
}

// An unused GPU has the labels of the target, which name the pod of the exporter.
static void test_the_exporter_does_not_use_an_idle_gpu(void **state)
{
    struct fixture f = {.ns = "monitoring"};
    start(&f, beside, 2);
    ask(&f, "pods", "exporter-1", UTIL, NULL);
    assert_int_not_equal(f.outcome, PROVIDER_OK);
    ask(&f, "namespaces", "monitoring", UTIL, NULL);
    assert_int_not_equal(f.outcome, PROVIDER_OK);
    f.ns = NULL;
    assert_value(&f, "pods", "a", UTIL, 60);
    assert_value(&f, "nodes", "n1", UTIL, 40); // with the idle one
    stop(&f);
}

static void test_compute_instances_of_one_gpu_instance(void **state)
{
    struct fixture f = {.ns = "ci"};
    start(&f, instances, 2);
    assert_value(&f, "pods", "both", UTIL, 30);
    assert_value(&f, "pods", "one", UTIL, 60);
    assert_value(&f, "pods", "both", USED, 500);
    assert_value(&f, "pods", "both", ALLOCATED_MEM, 300);
    assert_value(&f, "namespaces", "ci", UTIL, (30 + 60) / 2.0);
    assert_value(&f, "namespaces", "ci", USED, 500 + 700);
    stop(&f);
}

static void test_nodes_with_different_labels(void **state)
{
    struct fixture f = {0};
    start(&f, instances, 2);
    assert_value(&f, "nodes", "n1", UTIL, 40);
    assert_value(&f, "nodes", "n2", UTIL, (70 + 90 + 10) / 3.0);
    assert_value(&f, "nodes", "m1", UTIL, (30 + 60) / 2.0);
    assert_value(&f, "nodes", "m1", USED, 500 + 700);
    assert_value(&f, "nodes", "m1", ALLOCATED_MEM, 300);
    stop(&f);
}

static void test_owners(void **state)
{
    struct fixture f = {0};
    start(&f, once, 1);
    assert_value(&f, "deployments.apps", "web", UTIL, 45);
    assert_value(&f, "deployments.apps", "web", UTIL "_MAX", 60);
    assert_value(&f, "deployments.apps", "web", UTIL "_MIN", 30);
    assert_value(&f, "deployments.apps", "canary", UTIL, 90);
    assert_value(&f, "replicasets.apps", "web-1", UTIL, 45);
    assert_value(&f, "statefulsets.apps", "db", UTIL, 40);
    assert_value(&f, "services", "front", UTIL, 60); // a, b and d, regardless of their controllers
    assert_value(&f, "deployments.apps", "web", USED, 1100);
    // All at once.
    assert_answer(&f, "deployments.apps", "*", UTIL, NULL, "web=45 canary=90");
    assert_answer(&f, "deployments.apps", "*", UTIL, "team=x", "web=45");
    assert_answer(&f, "services", "*", UTIL "_MAX", NULL, "front=90");
    assert_answer(&f, "statefulsets.apps", "*", UTIL, NULL, "db=40");
    // No value, with the cause.
    assert_answer(&f, "deployments.apps", "idle", UTIL, NULL, "it has no pods");
    assert_answer(&f, "services", "none", UTIL, NULL, "it selects no pods");
    assert_answer(&f, "deployments.apps", "gone", UTIL, NULL, "\"gone\" not found");
    assert_answer(&f, "deployments.apps", "*", UTIL, "team=y",
                  "no deployments in namespace ml match the selector team=y");
    assert_int_equal(f.outcome, PROVIDER_NO_METRIC);
    // Without permission to list ReplicaSets only selectors assign pods.
    f.no_sets = true;
    assert_value(&f, "deployments.apps", "canary", UTIL, 60);
    stop(&f);
}

static int read_page(void **state)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/adapter/provider/gpu_page.txt", root ? root : ".");
    struct gs_buf text = {0};
    (void)state;
    assert_ok(gs_file_read(path, 1024 * 1024, &text));
    page = gs_buf_take(&text);
    return 0;
}

static int free_page(void **state)
{
    (void)state;
    free(page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_device_seen_by_two_jobs),
        cmocka_unit_test(test_device_seen_by_two_exporters),
        cmocka_unit_test(test_the_exporter_does_not_use_an_idle_gpu),
        cmocka_unit_test(test_one_kind_of_events),
        cmocka_unit_test(test_compute_instances_of_one_gpu_instance),
        cmocka_unit_test(test_nodes_with_different_labels),
        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_decisions_of_latency_targets),
        cmocka_unit_test(test_queue_of_activators),
    };
    return cmocka_run_group_tests(tests, read_page, free_page);
}
