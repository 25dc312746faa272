// SPDX-License-Identifier: Apache-2.0
// ServiceMonitor and PodMonitor objects of a scripted API: the resulting targets are those of the
// Prometheus operator.
#include "engine/monitors/monitors.h"

#include "../../kube/loop.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "engine/monitors/monitors_private.h"
#include "net/http/client.h"
#include "net/http/server.h"

struct watcher {
    struct fixture *f;
    const char *resource;
    struct http_stream *stream;
};

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    struct tsdb *db;
    struct scrape_manager *scrapes;
    struct monitors *monitors;
    struct engine_config *config;
    const char *service_monitors, *pod_monitors, *pods, *services, *endpoints, *secrets, *maps;
    struct watcher watchers[8];
    size_t n_watchers;
    bool no_resources;
    struct http_server *target;
    char *authorization;
};

static void closed(void *arg)
{
    struct watcher *w = arg;
    w->stream = NULL;
}

// "/apis/monitoring.coreos.com/v1/servicemonitors" -> "servicemonitors"
static const char *resource_of(struct http_exchange *x)
{
    return strrchr(http_path(x), '/') + 1;
}

static const char *items_of(const struct fixture *f, const char *resource)
{
    const char *const lists[][2] = {
        {"servicemonitors", f->service_monitors},
        {"podmonitors", f->pod_monitors},
        {"pods", f->pods},
        {"services", f->services},
        {"endpoints", f->endpoints},
        {"secrets", f->secrets},
        {"configmaps", f->maps},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++)
        if (gs_streq(resource, lists[i][0]))
            return lists[i][1] ? lists[i][1] : "";
    return "";
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *resource = resource_of(x);
    if (f->no_resources && strstr(http_path(x), "monitoring.coreos.com")) {
        http_reply(x, 404, "text/plain",
                   GS_SLICE("the server could not find the requested resource"));
        return;
    }
    if (!http_query(x, "watch")) {
        GS_AUTO_FREE char *list = gs_format("{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":"
                                            "{\"resourceVersion\":\"1\"},\"items\":[%s]}",
                                            items_of(f, resource));
        http_reply(x, 200, "application/json", gs_slice_of(list));
        return;
    }
    assert_true(f->n_watchers < GS_ARRAY_LEN(f->watchers));
    struct watcher *w = &f->watchers[f->n_watchers++];
    w->resource = gs_streq(resource, "servicemonitors") ? "servicemonitors"
                  : gs_streq(resource, "secrets")       ? "secrets"
                                                        : "other";
    w->stream = http_reply_stream(x, 200, "application/json", closed, w);
}

static struct http_stream *stream_of(const struct fixture *f, const char *resource)
{
    for (size_t i = 0; i < f->n_watchers; i++)
        if (gs_streq(f->watchers[i].resource, resource) && f->watchers[i].stream)
            return f->watchers[i].stream;
    return NULL;
}

static void send_event(struct fixture *f, const char *resource, const char *type, const char *obj)
{
    loop_until(&f->loop, stream_of(f, resource));
    GS_AUTO_FREE char *line = gs_format("{\"type\":\"%s\",\"object\":%s}\n", type, obj);
    http_stream_write(stream_of(f, resource), gs_slice_of(line));
}

static void start_selecting(struct fixture *f, const struct monitors_selectors *selectors)
{
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
    f->db = tsdb_new(NULL);
    f->scrapes =
        scrape_manager_new(&f->loop, f->db, &(struct scrape_manager_config){.kube = f->client});
    f->monitors = monitors_new(&f->loop, f->client, f->scrapes, selectors);
    assert_ok(engine_config_parse(GS_SLICE("global: {scrape_interval: 30s, sample_limit: 77}"), "c",
                                  ".", &f->config));
    monitors_set_defaults(f->monitors, f->config);
}

static void start(struct fixture *f)
{
    start_selecting(f, NULL);
}

static void finish(struct fixture *f)
{
    scrape_manager_free(f->scrapes);
    monitors_free(f->monitors);
    engine_config_free(f->config);
    if (f->target)
        http_server_stop(f->target);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
    tsdb_free(f->db);
    free(f->authorization);
}

// --- what is seen ---

// "POOL URL {labels}" of each active target, in the order of pools.
static char *targets(const struct fixture *f)
{
    struct gs_buf out = {0};
    CODEC_AUTO_JSON json_t *all = scrape_targets_json(f->scrapes, "active", NULL);
    size_t i;
    json_t *t;
    json_array_foreach (codec_json_get(all, "activeTargets", NULL), i, t) {
        gs_buf_addf(&out, "%s %s %s/%s ", codec_json_str(t, "scrapePool", NULL),
                    codec_json_str(t, "scrapeUrl", NULL), codec_json_str(t, "scrapeInterval", NULL),
                    codec_json_str(t, "scrapeTimeout", NULL));
        codec_json_dump(codec_json_get(t, "labels", NULL), &out);
        gs_buf_add_char(&out, '\n');
    }
    return out.data ? gs_buf_take(&out) : gs_strdup("");
}

static size_t n_targets(const struct fixture *f)
{
    CODEC_AUTO_JSON json_t *all = scrape_targets_json(f->scrapes, "active", NULL);
    return json_array_size(codec_json_get(all, "activeTargets", NULL));
}

static void expect_targets(const struct fixture *f, const char *want)
{
    GS_AUTO_FREE char *got = targets(f);
    assert_string_equal(got, want);
}

#define EXPORTER_POD                                                                               \
    "{\"metadata\":{\"name\":\"dcgm-1\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\","          \
    "\"labels\":{\"team\":\"ml\",\"app.kubernetes.io/name\":\"dcgm-exporter\"}},\"spec\":"         \
    "{\"nodeName\":\"a\",\"containers\":[{\"name\":\"exporter\",\"ports\":[{\"name\":\"metrics\"," \
    "\"containerPort\":9400}]}]},\"status\":{\"podIP\":\"127.0.0.1\",\"phase\":\"Running\"}}"
#define DONE_POD                                                                                   \
    "{\"metadata\":{\"name\":\"dcgm-0\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\","          \
    "\"labels\":{\"app.kubernetes.io/name\":\"dcgm-exporter\"}},\"spec\":{\"nodeName\":\"a\","     \
    "\"containers\":[{\"name\":\"exporter\",\"ports\":[{\"name\":\"metrics\",\"containerPort\":"   \
    "9400}]}]},\"status\":{\"podIP\":\"127.0.0.2\",\"phase\":\"Succeeded\"}}"
#define EXPORTER_SERVICE                                                                           \
    "{\"metadata\":{\"name\":\"dcgm-exporter\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\","   \
    "\"labels\":{\"app.kubernetes.io/name\":\"dcgm-exporter\",\"tier\":\"gpu\"}},\"spec\":"        \
    "{\"ports\":[{\"name\":\"metrics\",\"port\":9400}]}}"
#define OTHER_SERVICE                                                                              \
    "{\"metadata\":{\"name\":\"other\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\","           \
    "\"labels\":{}},\"spec\":{\"ports\":[{\"name\":\"metrics\",\"port\":9400}]}}"
#define ENDPOINTS(name)                                                                            \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"gpu\",\"resourceVersion\":\"1\"},"       \
    "\"subsets\":[{\"addresses\":[{\"ip\":\"127.0.0.1\",\"targetRef\":{\"kind\":\"Pod\","          \
    "\"name\":\"dcgm-1\",\"namespace\":\"gpu\"}}],\"ports\":[{\"name\":\"metrics\",\"port\":"      \
    "9400}]}]}"
#define SERVICE_MONITOR(version, spec)                                                             \
    "{\"metadata\":{\"name\":\"dcgm\",\"namespace\":\"gpu\",\"resourceVersion\":\"" version        \
    "\"},\"spec\":{" spec "}}"
#define SELECTOR "\"selector\":{\"matchLabels\":{\"app.kubernetes.io/name\":\"dcgm-exporter\"}}"

static struct fixture with_exporter(void)
{
    return (struct fixture){
        .pods = EXPORTER_POD "," DONE_POD,
        .services = EXPORTER_SERVICE "," OTHER_SERVICE,
        .endpoints = ENDPOINTS("dcgm-exporter") "," ENDPOINTS("other"),
    };
}

#define BASE_LABELS                                                                                \
    "\"container\":\"exporter\",\"endpoint\":\"metrics\",\"instance\":\"127.0.0.1:9400\","

static void test_a_service_monitor_names_targets_as_the_operator_does(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors = SERVICE_MONITOR(
        "1", SELECTOR ",\"jobLabel\":\"tier\",\"targetLabels\":[\"tier\"],\"podTargetLabels\":["
                      "\"team\",\"absent\"],\"endpoints\":[{\"port\":\"metrics\"},{\"targetPort\":"
                      "9400,\"interval\":\"15s\",\"scrapeTimeout\":\"5s\",\"path\":\"/m\","
                      "\"scheme\":\"HTTPS\",\"params\":{\"a\":[\"b\"]},\"relabelings\":[{"
                      "\"targetLabel\":\"zone\",\"replacement\":\"z1\"},{\"regex\":\"team\","
                      "\"action\":\"labeldrop\"}]}]");
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 2);
    expect_targets(
        &f, "serviceMonitor/gpu/dcgm/0 http://127.0.0.1:9400/metrics 30s/10s {" BASE_LABELS
            "\"job\":\"gpu\",\"namespace\":\"gpu\",\"pod\":\"dcgm-1\",\"service\":"
            "\"dcgm-exporter\",\"team\":\"ml\",\"tier\":\"gpu\"}\n"
            "serviceMonitor/gpu/dcgm/1 https://127.0.0.1:9400/m?a=b 15s/5s {\"container\":"
            "\"exporter\",\"endpoint\":\"9400\",\"instance\":\"127.0.0.1:9400\",\"job\":\"gpu\","
            "\"namespace\":\"gpu\",\"pod\":\"dcgm-1\",\"service\":\"dcgm-exporter\",\"tier\":"
            "\"gpu\",\"zone\":\"z1\"}\n");
    assert_int_equal(monitors_count(f.monitors).selected, 1);
    finish(&f);
    (void)state;
}

static void test_a_pod_monitor_needs_no_service_and_leaves_ended_pods_out(void **state)
{
    struct fixture f = with_exporter();
    f.pod_monitors =
        "{\"metadata\":{\"name\":\"pods\",\"namespace\":\"other\",\"resourceVersion\":\"1\"},"
        "\"spec\":{\"namespaceSelector\":{\"matchNames\":[\"gpu\"]},\"selector\":{"
        "\"matchExpressions\":[{\"key\":\"app.kubernetes.io/name\",\"operator\":\"In\","
        "\"values\":[\"x\",\"dcgm-exporter\"]},{\"key\":\"absent\",\"operator\":\"DoesNotExist\"}"
        "]},\"podMetricsEndpoints\":[{\"port\":\"metrics\"},{\"portNumber\":9400},{\"port\":"
        "\"none\"}]}}";
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 2);
    expect_targets(&f, "podMonitor/other/pods/0 http://127.0.0.1:9400/metrics 30s/10s {" BASE_LABELS
                       "\"job\":\"other/pods\",\"namespace\":\"gpu\",\"pod\":\"dcgm-1\"}\n"
                       "podMonitor/other/pods/1 http://127.0.0.1:9400/metrics 30s/10s {"
                       "\"container\":\"exporter\",\"instance\":\"127.0.0.1:9400\",\"job\":"
                       "\"other/pods\",\"namespace\":\"gpu\",\"pod\":\"dcgm-1\"}\n");
    finish(&f);
    (void)state;
}

static void test_another_namespace_is_not_looked_into_unless_asked(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors = "{\"metadata\":{\"name\":\"m\",\"namespace\":\"default\","
                         "\"resourceVersion\":\"1\"},\"spec\":{\"namespaceSelector\":{\"any\":"
                         "true}," SELECTOR ",\"endpoints\":[{\"port\":\"metrics\"}]}}";
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 1);
    finish(&f);
    (void)state;
}

static void test_a_wrong_monitor_is_off_alone_until_it_is_mended(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors =
        SERVICE_MONITOR("1", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\",\"interval\":\"soon\"}"
                                      "]") ","
                                           "{"
                                           "\"metadata\":{\"name\":\"right\",\"namespace\":\"gpu\","
                                           "\"resourceVersion\":\"1\"},"
                                           "\"spec\":{" SELECTOR
                                           ",\"endpoints\":[{\"port\":\"metrics\"}]}}";
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 1);
    assert_int_equal(monitors_count(f.monitors).rejected, 1);
    assert_non_null(strstr(monitors_error(f.monitors, "serviceMonitor/gpu/dcgm"), "soon"));
    assert_null(monitors_error(f.monitors, "serviceMonitor/gpu/right"));

    send_event(&f, "servicemonitors", "MODIFIED",
               SERVICE_MONITOR("2", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\"}]"));
    loop_until(&f.loop, n_targets(&f) == 2);
    assert_int_equal(monitors_count(f.monitors).rejected, 0);

    send_event(&f, "servicemonitors", "DELETED", SERVICE_MONITOR("3", ""));
    loop_until(&f.loop, n_targets(&f) == 1);
    assert_int_equal(monitors_count(f.monitors).selected, 1);
    finish(&f);
    (void)state;
}

static void test_a_wrong_endpoint_is_off_alone(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors = SERVICE_MONITOR(
        "1", SELECTOR ",\"endpoints\":[7,{\"port\":\"metrics\",\"interval\":\"soon\"},"
                      "{\"port\":\"metrics\",\"relabelings\":[{\"action\":\"no\"}]},"
                      "{\"port\":\"metrics\"}]");
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 1);
    assert_int_equal(monitors_count(f.monitors).selected, 1);
    assert_int_equal(monitors_count(f.monitors).rejected, 1);
    assert_string_equal(monitors_error(f.monitors, "serviceMonitor/gpu/dcgm"),
                        "endpoints[0]: not an object");
    send_event(&f, "servicemonitors", "MODIFIED",
               SERVICE_MONITOR("2", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\"}]"));
    loop_until(&f.loop, monitors_count(f.monitors).rejected == 0);
    finish(&f);
    (void)state;
}

struct wrong {
    const char *spec, *error;
};

static void test_mistakes_are_named(void **state)
{
    static const struct wrong cases[] = {
        {"\"endpoints\":[{\"port\":\"m\",\"scrapeTimeout\":\"40s\"}]",
         "scrape timeout greater than scrape interval"},
        {"\"endpoints\":[{\"relabelings\":[{\"regex\":\"(\",\"targetLabel\":\"a\"}]}]",
         "missing closing )"},
        {"\"endpoints\":[{\"metricRelabelings\":[{\"action\":\"hashmod\",\"targetLabel\":\"a\"}]}]",
         "requires non-zero modulus"},
        {"\"endpoints\":[{\"oauth2\":{\"clientId\":{}}}]",
         "endpoints[0]: a Secret reference needs name and key"},
        {"\"endpoints\":[{},3]", "endpoints[1]: not an object"},
        {"\"scrapeClass\":\"c\",\"endpoints\":[{}]", "scrapeClass \"c\" not found"},
        {"\"selector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Near\"}]},"
         "\"endpoints\":[{}]",
         "selector: "},
        {"\"endpoints\":[{\"basicAuth\":{\"username\":{\"name\":\"s\"}}}]",
         "a Secret reference needs name and key"},
        {"\"endpoints\":[{\"bearerTokenSecret\":{\"name\":\"s\",\"key\":\"k\"}}]",
         "Secret gpu/s not found"},
        {"\"endpoints\":[{\"tlsConfig\":{\"ca\":{\"secret\":{},\"configMap\":{}}}}]",
         "secret and configMap cannot both be set"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct fixture f = with_exporter();
        GS_AUTO_FREE char *monitor =
            gs_format("{\"metadata\":{\"name\":\"dcgm\",\"namespace\":\"gpu\","
                      "\"resourceVersion\":\"1\"},\"spec\":{%s}}",
                      cases[i].spec);
        f.service_monitors = monitor;
        start(&f);
        loop_until(&f.loop, monitors_count(f.monitors).rejected == 1);
        const char *error = monitors_error(f.monitors, "serviceMonitor/gpu/dcgm");
        if (!strstr(error, cases[i].error))
            fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].spec, error, cases[i].error);
        assert_int_equal(n_targets(&f), 0);
        finish(&f);
    }
    (void)state;
}

// --- secrets ---

static void serve_target(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    free(f->authorization);
    f->authorization = gs_strdup(http_header(x, "Authorization"));
    http_reply(x, 200, "text/plain; version=0.0.4", GS_SLICE("up_close 1\n"));
}

#define SECRET(version, value)                                                                     \
    "{\"metadata\":{\"name\":\"s\",\"namespace\":\"gpu\",\"resourceVersion\":\"" version           \
    "\"},\"data\":{\"user\":\"Z3B1\",\"password\":\"" value "\"}}"

static void test_credentials_come_from_a_secret_and_follow_it(void **state)
{
    struct fixture f = with_exporter();
    f.secrets = SECRET("1", "b25l"); // one
    const struct http_server_config server = {.address = "127.0.0.1"};
    f.service_monitors = "";
    start(&f);
    assert_ok(http_server_start(&f.loop, &server, serve_target, &f, &f.target));
    GS_AUTO_FREE char *monitor = gs_format(
        "{\"metadata\":{\"name\":\"dcgm\",\"namespace\":\"gpu\",\"resourceVersion\":\"2\"},"
        "\"spec\":{" SELECTOR ",\"endpoints\":[{\"port\":\"metrics\",\"interval\":\"50ms\","
        "\"basicAuth\":{\"username\":{\"name\":\"s\",\"key\":\"user\"},\"password\":{\"name\":"
        "\"s\",\"key\":\"password\"}},\"relabelings\":[{\"targetLabel\":\"__address__\","
        "\"replacement\":\"127.0.0.1:%d\"}]}]}}",
        http_server_port(f.target));
    send_event(&f, "servicemonitors", "ADDED", monitor);
    loop_until(&f.loop, gs_streq(f.authorization, "Basic Z3B1Om9uZQ==")); // gpu:one

    send_event(&f, "secrets", "MODIFIED", SECRET("2", "dHdv")); // two
    loop_until(&f.loop, gs_streq(f.authorization, "Basic Z3B1OnR3bw=="));

    send_event(&f, "secrets", "DELETED", SECRET("3", "dHdv"));
    loop_until(&f.loop, monitors_error(f.monitors, "serviceMonitor/gpu/dcgm"));
    assert_string_equal(monitors_error(f.monitors, "serviceMonitor/gpu/dcgm"),
                        "endpoints[0]: Secret gpu/s not found");
    assert_int_equal(n_targets(&f), 0);
    finish(&f);
    (void)state;
}

// --- the rest ---

static void test_a_cluster_without_the_resources_has_no_such_jobs(void **state)
{
    struct fixture f = {.no_resources = true};
    start(&f);
    loop_for_ms(&f.loop, 200);
    assert_int_equal(n_targets(&f), 0);
    finish(&f);
    (void)state;
}

static void test_new_defaults_reach_the_jobs_that_set_none(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors = SERVICE_MONITOR("1", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\"}]");
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 1);
    struct engine_config *later;
    assert_ok(engine_config_parse(GS_SLICE("global: {scrape_interval: 5s}"), "c", ".", &later));
    monitors_set_defaults(f.monitors, later);
    engine_config_free(later);
    GS_AUTO_FREE char *seen = targets(&f);
    assert_non_null(strstr(seen, " 5s/5s "));
    finish(&f);
    (void)state;
}

// The ServiceMonitor of NVIDIA's manifest: its second endpoint has no port and therefore selects
// all ports.
static void test_the_exporters_own_manifest_works(void **state)
{
    static const char manifest[] = "apiVersion: monitoring.coreos.com/v1\n"
                                   "kind: ServiceMonitor\n"
                                   "metadata:\n"
                                   "  name: dcgm-exporter\n"
                                   "  namespace: gpu\n"
                                   "  resourceVersion: '1'\n"
                                   "spec:\n"
                                   "  selector:\n"
                                   "    matchLabels:\n"
                                   "      app.kubernetes.io/name: dcgm-exporter\n"
                                   "  endpoints:\n"
                                   "  - port: metrics\n"
                                   "  - interval: 15s\n";
    struct fixture f = with_exporter();
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(manifest), "m.yaml", &docs));
    GS_AUTO_BUF struct gs_buf json = {0};
    codec_json_dump(docs.items[0].value, &json);
    codec_yaml_docs_finish(&docs);
    f.service_monitors = json.data;
    start(&f);
    loop_until(&f.loop, n_targets(&f) == 2);
    expect_targets(&f, "serviceMonitor/gpu/dcgm-exporter/0 http://127.0.0.1:9400/metrics 30s/10s "
                       "{" BASE_LABELS "\"job\":\"dcgm-exporter\",\"namespace\":\"gpu\",\"pod\":"
                       "\"dcgm-1\",\"service\":\"dcgm-exporter\"}\n"
                       "serviceMonitor/gpu/dcgm-exporter/1 http://127.0.0.1:9400/metrics 15s/10s "
                       "{\"container\":\"exporter\",\"instance\":\"127.0.0.1:9400\",\"job\":"
                       "\"dcgm-exporter\",\"namespace\":\"gpu\",\"pod\":\"dcgm-1\",\"service\":"
                       "\"dcgm-exporter\"}\n");
    finish(&f);
    (void)state;
}

// --- the jobs themselves ---

static const json_t *no_asset(void *arg, enum monitors_asset kind, const char *name,
                              bool *ret_pending)
{
    (void)arg, (void)kind, (void)name;
    *ret_pending = false;
    return NULL;
}

static void compare_jobs(enum monitors_kind kind, const json_t *objects, const json_t *want,
                         size_t *at)
{
    size_t i, k;
    json_t *obj, *job;
    json_array_foreach (objects, i, obj) {
        struct monitors_build b = {.kind = kind, .obj = obj, .lookup = no_asset};
        json_t *jobs;
        assert_ok(monitors_jobs(&b, &jobs));
        json_array_foreach (jobs, k, job) {
            const json_t *theirs = json_array_get(want, (*at)++);
            if (!json_array_size(json_object_get(job, "metric_relabel_configs")))
                json_object_del(job, "metric_relabel_configs");
            if (!json_equal(job, theirs)) {
                GS_AUTO_BUF struct gs_buf text = {0};
                codec_json_dump_pretty(job, &text);
                fail_msg("%s", text.data);
            }
        }
        json_decref(jobs);
    }
}

static void test_jobs_are_those_of_the_operator(void **state)
{
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/engine/monitors/monitors.json", getenv("GPUSCALE_SOURCE_ROOT"));
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *data = NULL;
    size_t at = 0;
    assert_ok(gs_file_read(path, 1 << 20, &text));
    assert_ok(codec_json_parse(gs_buf_slice(&text), true, &data));
    const json_t *want = json_object_get(data, "jobs");
    compare_jobs(MONITORS_SERVICE, json_object_get(data, "serviceMonitors"), want, &at);
    compare_jobs(MONITORS_POD, json_object_get(data, "podMonitors"), want, &at);
    assert_int_equal(at, json_array_size(want));
    assert_true(at >= 11);
    (void)state;
}

static const json_t *one_asset(void *arg, enum monitors_asset kind, const char *name,
                               bool *ret_pending)
{
    (void)kind;
    assert_string_equal(name, "s");
    *ret_pending = false;
    return arg;
}

static void test_oauth2_takes_its_secrets_from_objects(void **state)
{
    CODEC_AUTO_JSON json_t *obj = NULL, *asset = NULL, *want = NULL;
    json_t *jobs;
    assert_ok(codec_json_parse(
        GS_SLICE("{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\"},\"spec\":{\"selector\":{},"
                 "\"endpoints\":[{\"port\":\"m\",\"oauth2\":{\"clientId\":{\"configMap\":{\"name\":"
                 "\"s\",\"key\":\"id\"}},\"clientSecret\":{\"name\":\"s\",\"key\":\"secret\"},"
                 "\"tokenUrl\":\"http://t/\",\"scopes\":[\"a\",\"b\"],\"endpointParams\":{\"x\":"
                 "\"y\"},\"proxyUrl\":\"http://p\",\"tlsConfig\":{\"minVersion\":\"TLS12\"}}}]}}"),
        true, &obj));
    assert_ok(
        codec_json_parse(GS_SLICE("{\"data\":{\"id\":\"me\",\"secret\":\"Z3B1\"}}"), true, &asset));
    assert_ok(codec_json_parse(
        GS_SLICE("{\"client_id\":\"me\",\"client_secret\":\"gpu\",\"token_url\":\"http://t/\","
                 "\"scopes\":[\"a\",\"b\"],\"endpoint_params\":{\"x\":\"y\"},\"proxy_url\":"
                 "\"http://p\",\"tls_config\":{\"min_version\":\"TLS12\"}}"),
        true, &want));
    struct monitors_build b = {
        .kind = MONITORS_SERVICE, .obj = obj, .lookup = one_asset, .arg = asset};
    assert_ok(monitors_jobs(&b, &jobs));
    assert_true(json_equal(json_object_get(json_array_get(jobs, 0), "oauth2"), want));
    json_decref(jobs);
    (void)state;
}

#define LABELLED_MONITOR(version, release)                                                         \
    "{\"metadata\":{\"name\":\"dcgm\",\"namespace\":\"gpu\",\"resourceVersion\":\"" version        \
    "\",\"labels\":{\"release\":\"" release "\"}},\"spec\":{" SELECTOR                             \
    ",\"endpoints\":[{\"port\":\"metrics\"}]}}"

static void test_only_selected_monitors_have_jobs(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors = LABELLED_MONITOR("1", "other");
    start_selecting(&f, &(struct monitors_selectors){.services = "release in (kps)"});
    send_event(&f, "servicemonitors", "MODIFIED", LABELLED_MONITOR("2", "kps"));
    loop_until(&f.loop, n_targets(&f) == 1);
    send_event(&f, "servicemonitors", "MODIFIED", LABELLED_MONITOR("3", "other"));
    loop_until(&f.loop, n_targets(&f) == 0);
    assert_int_equal(monitors_count(f.monitors).selected, 0);
    finish(&f);
    (void)state;
}

struct decider {
    enum engine_config_choice choice;
    json_t *global;
};

static enum engine_config_choice decide(void *arg, enum engine_config_kind kind, const json_t *obj,
                                        const json_t **ret_global)
{
    const struct decider *d = arg;
    assert_int_equal(kind, ENGINE_CONFIG_SERVICE_MONITOR);
    assert_non_null(obj);
    *ret_global = d->global;
    return d->choice;
}

static void test_a_selection_decides_at_run_time(void **state)
{
    struct fixture f = with_exporter();
    struct decider d = {.choice = ENGINE_CONFIG_UNUSED};
    const struct engine_config_selection selection = {decide, &d};
    f.service_monitors = SERVICE_MONITOR("1", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\"}]");
    start_selecting(&f, &(struct monitors_selectors){.services = "a=b", .selection = &selection});
    loop_for_ms(&f.loop, 100);
    assert_int_equal(n_targets(&f), 0);
    d = (struct decider){ENGINE_CONFIG_USED, json_pack("{s:s}", "scrape_interval", "7s")};
    monitors_select_again(f.monitors);
    loop_until(&f.loop, n_targets(&f) == 1);
    GS_AUTO_FREE char *text = targets(&f);
    assert_non_null(strstr(text, "/metrics 7s/7s"));
    json_decref(GS_TAKE(d.global));
    monitors_select_again(f.monitors);
    GS_AUTO_FREE char *usual = targets(&f);
    assert_non_null(strstr(usual, "/metrics 30s/10s"));
    d.choice = ENGINE_CONFIG_BY_LABELS;
    monitors_select_again(f.monitors);
    assert_int_equal(n_targets(&f), 0);
    finish(&f);
    (void)state;
}

static void test_account_files_of_pods_are_read_elsewhere(void **state)
{
    struct fixture f = with_exporter();
    f.service_monitors =
        SERVICE_MONITOR("1", SELECTOR ",\"endpoints\":[{\"port\":\"metrics\",\"bearerTokenFile\":"
                                      "\"/var/run/secrets/kubernetes.io/serviceaccount/token\"}]");
    start_selecting(&f, &(struct monitors_selectors){.account_dir = "/data/account"});
    loop_until(&f.loop, n_targets(&f) == 1);
    const struct engine_config_scrape_config *job =
        scrape_pool_config(f.scrapes, "serviceMonitor/gpu/dcgm/0");
    assert_non_null(strstr(job->shown, "/data/account/token"));
    finish(&f);
    (void)state;
}

// Caches share equal parts of objects.
static void test_moved_account_files_leave_the_object_as_it_is(void **state)
{
    CODEC_AUTO_JSON json_t *obj = NULL, *jobs = NULL;
    assert_ok(codec_json_parse(
        GS_SLICE("{\"metadata\":{\"name\":\"m\",\"namespace\":\"n\"},\"spec\":{\"selector\":{},"
                 "\"endpoints\":[{\"port\":\"a\",\"bearerTokenFile\":"
                 "\"/var/run/secrets/kubernetes.io/serviceaccount/token\"}]}}"),
        true, &obj));
    CODEC_AUTO_JSON json_t *before = json_deep_copy(obj);
    struct monitors_build b = {
        .kind = MONITORS_SERVICE, .obj = obj, .account_dir = "/data/account"};
    assert_ok(monitors_jobs(&b, &jobs));
    assert_int_equal(json_array_size(jobs), 1);
    assert_true(json_equal(obj, before));
    (void)state;
}

static void test_two_endpoints_of_one_port_are_a_warning(void **state)
{
    static const struct {
        const char *endpoints, *part; // NULL: no warning
    } cases[] = {
        {"{\"port\":\"metrics\"},{\"interval\":\"15s\"}", "endpoints[1] has no port"},
        {"{},{\"port\":\"metrics\"}", "endpoints[0] has no port"},
        {"{\"port\":\"a\"},{\"port\":\"b\"},{\"port\":\"a\"}",
         "endpoints[0] and endpoints[2] scrape the same port a"},
        {"{\"targetPort\":9400},{\"targetPort\":9400,\"path\":\"/metrics\"}", "targetPort 9400"},
        {"{\"port\":\"a\"},{\"port\":\"b\"}", NULL},
        {"{\"port\":\"a\"},{\"port\":\"a\",\"path\":\"/x\"}", NULL},
        {"{\"port\":\"a\"},{\"port\":\"a\",\"params\":{\"m\":[\"x\"]}}", NULL},
        {"{\"port\":\"a\"},{\"relabelings\":[{\"action\":\"drop\"}]}", NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        CODEC_AUTO_JSON json_t *obj = NULL;
        GS_AUTO_FREE char *text =
            gs_format("{\"kind\":\"ServiceMonitor\",\"metadata\":{\"name\":\"m\"},\"spec\":{"
                      "\"selector\":{},\"endpoints\":[%s]}}",
                      cases[i].endpoints);
        assert_ok(codec_json_parse(gs_slice_of(text), true, &obj));
        CODEC_AUTO_JSON json_t *warnings = json_array();
        assert_ok(monitors_check(obj, "m.yaml", NULL, warnings));
        const char *warning = json_string_value(json_array_get(warnings, 0));
        if (!cases[i].part)
            assert_null(warning);
        else if (!warning || !strstr(warning, cases[i].part))
            fail_msg("%s: %s", cases[i].endpoints, warning ? warning : "(none)");
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_service_monitor_names_targets_as_the_operator_does),
        cmocka_unit_test(test_a_pod_monitor_needs_no_service_and_leaves_ended_pods_out),
        cmocka_unit_test(test_another_namespace_is_not_looked_into_unless_asked),
        cmocka_unit_test(test_a_wrong_monitor_is_off_alone_until_it_is_mended),
        cmocka_unit_test(test_a_wrong_endpoint_is_off_alone),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_credentials_come_from_a_secret_and_follow_it),
        cmocka_unit_test(test_a_cluster_without_the_resources_has_no_such_jobs),
        cmocka_unit_test(test_new_defaults_reach_the_jobs_that_set_none),
        cmocka_unit_test(test_the_exporters_own_manifest_works),
        cmocka_unit_test(test_jobs_are_those_of_the_operator),
        cmocka_unit_test(test_oauth2_takes_its_secrets_from_objects),
        cmocka_unit_test(test_only_selected_monitors_have_jobs),
        cmocka_unit_test(test_a_selection_decides_at_run_time),
        cmocka_unit_test(test_account_files_of_pods_are_read_elsewhere),
        cmocka_unit_test(test_moved_account_files_leave_the_object_as_it_is),
        cmocka_unit_test(test_two_endpoints_of_one_port_are_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
