// SPDX-License-Identifier: Apache-2.0
// The roles of stand-ins: what each logs, answers and forwards.
#include "base/mem.h"
#include "kube/object.h"
#include "local/pod.h"
#include "local/ports.h"
#include "local/standin/standin_private.h"
#include "net/http/routes.h"

static void say_unused(struct standin_session *s, const char *flag, const char *why)
{
    const char *value = standin_flag(s, flag);
    if (value)
        standin_log(s, "gpuscale: --%s=%s is not used: %s", flag, value, why);
}

// --- the metrics engine ---

static uint16_t to_engine(const struct standin_session *s, int port)
{
    return s->server->cfg.engine_port;
}

static bool is_managed(const struct standin_session *s)
{
    static const char *const labels[] = {"operator.prometheus.io/name", "helm.sh/chart", "chart",
                                         "heritage"};
    const char *by = kube_label(s->pod, "app.kubernetes.io/managed-by");
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        if (kube_label(s->pod, labels[i]))
            return true;
    return gs_streq(by, "Helm") || gs_streq(by, "prometheus-operator");
}

static bool mounts(const struct standin_session *s, const char *folder)
{
    size_t i;
    json_t *mount;
    json_array_foreach (json_object_get(s->container, "volumeMounts"), i, mount)
        if (gs_starts(codec_json_str(mount, "mountPath", NULL), folder))
            return true;
    return false;
}

// A pod of the user's own with a configuration of its own: `gpuscale engine` replaces its program.
static void become_engine(struct standin_session *s)
{
    json_t *words = json_array();
    json_array_append_new(words, codec_json_strf("%s", s->server->cfg.self_exe));
    json_array_append_new(words, json_string("engine"));
    if (!standin_flag(s, "config.file"))
        json_array_append_new(words, json_string("--config.file=/etc/prometheus/prometheus.yml"));
    for (size_t i = *standin_word(s) ? 1 : 0; i < json_array_size(s->args); i++)
        json_array_append(words, json_array_get(s->args, i));
    standin_log(s, "gpuscale: gpuscale engine runs with this container's arguments");
    standin_exec(s, words, false);
}

static void start_prometheus(struct standin_session *s)
{
    if (!is_managed(s) && (standin_flag(s, "config.file") || mounts(s, "/etc/prometheus"))) {
        become_engine(s);
        return;
    }
    standin_log(s,
                "gpuscale: the ports of this container are those of the metrics engine, at "
                "127.0.0.1:%u; Prometheus objects and monitors of the cluster configure it",
                s->server->cfg.engine_port);
}

static bool answer_reloader(struct standin_session *s, int port, struct http_exchange *x)
{
    const struct standin_config *cfg = &s->server->cfg;
    if (!gs_streq(http_path(x), "/-/reload"))
        return false;
    if (gs_streq(http_method(x), "POST") || gs_streq(http_method(x), "PUT")) {
        if (cfg->reload)
            cfg->reload(cfg->arg);
        http_reply_text(x, 200, "OK\n");
    } else {
        http_add_header(x, "Allow", "POST, PUT");
        http_reply_text(x, 405, "Method Not Allowed\n");
    }
    return true;
}

static void end_init_container(struct standin_session *s)
{
    if (s->init)
        standin_exit(s, 0);
}

// --- the state of objects ---

// The second port of kube-state-metrics, which has metrics about itself.
static int telemetry_port(const struct standin_session *s)
{
    const char *text = standin_flag(s, "telemetry-port");
    return text ? (int)strtol(text, NULL, 10) : 8081;
}

static void write_kube_state(const struct standin_session *s, int port, struct gs_buf *out)
{
    const struct standin_config *cfg = &s->server->cfg;
    if (port != telemetry_port(s) && cfg->write_kube_state)
        cfg->write_kube_state(cfg->arg, out);
}

// --- APIs ---

static bool answer_api(struct standin_session *s, int port, struct http_exchange *x)
{
    static const char *const prefixes[] = {"/apis", "/api", "/openapi", "/version"};
    const struct standin_part *api = &s->server->cfg.api;
    const char *path = http_path(x);
    for (size_t i = 0; i < GS_ARRAY_LEN(prefixes); i++) {
        size_t len = strlen(prefixes[i]);
        if (!gs_starts(path, prefixes[i]) || (path[len] && path[len] != '/'))
            continue;
        if (http_identity(x) && http_identity(x)->user)
            api->handle(api->ctx, x);
        else // a port without TLS, and so without users
            http_reply_text(x, 401, "Unauthorized\n");
        return true;
    }
    return false;
}

// Lines "- seriesQuery:" and "- metricsQuery:" begin rules of the adapter's file.
static size_t count_rules(const char *text)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "seriesQuery:")); at++)
        n++;
    return n;
}

static void start_adapter(struct standin_session *s)
{
    const char *rules = standin_file(s, "config");
    if (rules)
        standin_log(s, "gpuscale: the metrics adapter of gpuscale up has the rules of %s: %zu",
                    standin_flag(s, "config"), count_rules(rules));
    say_unused(s, "prometheus-url", "the engine of gpuscale up is queried");
    say_unused(s, "metrics-relist-interval", "new metrics are found at once");
}

static void start_metrics_server(struct standin_session *s)
{
    standin_log(s, "gpuscale: metrics.k8s.io is served by gpuscale up");
    say_unused(s, "metric-resolution", "usage is sampled every 2 seconds");
}

// --- kube-rbac-proxy ---

// "http://127.0.0.1:8080/" of the pod, whose containers share the address. 0: another host.
static int upstream_port(const struct standin_session *s)
{
    const char *url = standin_flag(s, "upstream");
    const char *host = url && gs_starts(url, "http://") ? url + strlen("http://") : "";
    const char *colon = strchr(host, ':');
    if (!gs_starts(host, "127.0.0.1:") && !gs_starts(host, "localhost:"))
        return 0;
    long port = strtol(colon + 1, NULL, 10);
    return port > 0 && port < 65536 ? (int)port : 0;
}

static bool answer_proxy(struct standin_session *s, int port, struct http_exchange *x)
{
    int to = upstream_port(s);
    if (gs_streq(http_path(x), "/healthz"))
        return false;
    if (to)
        services_pass_on(s->server->cfg.services, s->address, (uint16_t)local_port_by(s->moved, to),
                         true, x);
    else
        http_reply_text(x, 502, "gpuscale: --upstream is not a port of this pod\n");
    return true;
}

// --- nodes ---

static void start_autoscaler(struct standin_session *s)
{
    const struct standin_config *cfg = &s->server->cfg;
    GS_AUTO_BUF struct gs_buf pools = {0};
    if (cfg->write_pools)
        cfg->write_pools(cfg->arg, &pools);
    if (!pools.len)
        standin_log(s, "gpuscale: no --pool: nothing to scale");
    for (struct gs_slice rest = gs_buf_slice(&pools); rest.len;) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        standin_log(s, "gpuscale: " GS_SLICE_FMT, GS_SLICE_ARG(line));
    }
    say_unused(s, "node-group-auto-discovery", "--pool of gpuscale up lists the pools");
    say_unused(s, "nodes", "--pool of gpuscale up lists the pools");
}

static void write_autoscaler(const struct standin_session *s, int port, struct gs_buf *out)
{
    const struct standin_config *cfg = &s->server->cfg;
    if (cfg->write_autoscaler)
        cfg->write_autoscaler(cfg->arg, out);
}

static void start_device_plugin(struct standin_session *s)
{
    const char *name = kube_pod_node(s->pod);
    const json_t *node = name ? kube_cache_get(s->server->cfg.cluster->nodes, NULL, name) : NULL;
    const char *gpus = codec_json_str(node, "status", "allocatable", LOCAL_GPU, NULL);
    standin_log(s,
                "Registered device plugin for 'nvidia.com/gpu' with Kubelet: built in, %s devices",
                gpus ? gpus : "0");
    end_init_container(s);
}

static void start_nfd(struct standin_session *s)
{
    standin_log(s, "gpuscale: the labels of nodes are set by gpuscale up");
    if (standin_flag_bool(s, "prune", false))
        standin_exit(s, 0);
}

// --- the Ingress router ---

static bool answer_router(struct standin_session *s, int port, struct http_exchange *x)
{
    const char *class = standin_flag(s, "ingress-class");
    if (port != 80 && port != 443)
        return standin_webhook_answer(s, port, x);
    services_ingress_request(s->server->cfg.services, class && *class ? class : "nginx",
                             port == 443, x);
    return true;
}

static void start_router(struct standin_session *s)
{
    const char *class = standin_flag(s, "ingress-class");
    standin_log(s, "gpuscale: requests are routed by the Ingress objects of the class %s",
                class && *class ? class : "nginx");
    say_unused(s, "configmap", "the router has no settings");
}

// --- Grafana ---

static bool redirect(struct http_exchange *x, const char *to)
{
    http_add_header(x, "Location", to);
    http_reply_text(x, 302, "Found\n");
    return true;
}

static bool answer_grafana(struct standin_session *s, int port, struct http_exchange *x)
{
    const struct standin_part *web = &s->server->cfg.web;
    const char *path = http_path(x);
    if (gs_streq(path, "/api/health"))
        http_reply(x, 200, HTTP_TYPE_JSON,
                   GS_SLICE("{\"database\":\"ok\",\"version\":\"gpuscale\"}\n"));
    else if (gs_streq(path, "/login"))
        return redirect(x, "/");
    else if (gs_streq(path, "/"))
        return redirect(x, "/dashboards");
    else if (gs_streq(path, "/metrics")) // those of the engine are scraped already
        return false;
    else
        web->handle(web->ctx, x);
    return true;
}

static void start_grafana(struct standin_session *s)
{
    if (standin_grafana_become(s))
        return;
    standin_log(s,
                "gpuscale: Grafana is not installed on this machine: the web interface of "
                "gpuscale up shows the dashboards. To use your own Grafana, add "
                "http://127.0.0.1:%u as a Prometheus data source",
                s->server->cfg.engine_port);
    standin_event(s, "Normal", "GrafanaNotInstalled",
                  "Grafana is not installed: the web interface of gpuscale up shows the "
                  "dashboards; add http://127.0.0.1:%u as a Prometheus data source to your own",
                  s->server->cfg.engine_port);
}

static void start_sleep(struct standin_session *s)
{
    end_init_container(s);
}

static const struct standin_role roles[] = {
    {.name = "certgen", .start = standin_certgen_start, .end = standin_certgen_end},
    {.name = "prometheus", .port = 9090, .start = start_prometheus, .forward = to_engine},
    {.name = "config-reloader",
     .port = 8080,
     .start = standin_reloader_start,
     .answer = answer_reloader,
     .changed = standin_reloader_changed,
     .end = standin_reloader_end},
    {.name = "prometheus-operator", .port = 8080, .answer = standin_webhook_answer},
    {.name = "alertmanager", .start = standin_alertmanager_start},
    {.name = "node-exporter", .port = 9100, .start = standin_node_exporter_start},
    {.name = "kube-state-metrics", .port = 8080, .write_metrics = write_kube_state},
    {.name = "prometheus-adapter",
     .start = start_adapter,
     .answer = answer_api,
     .authenticates = true},
    {.name = "metrics-server",
     .start = start_metrics_server,
     .answer = answer_api,
     .authenticates = true},
    {.name = "kube-rbac-proxy", .port = 8443, .answer = answer_proxy, .authenticates = true},
    {.name = "cluster-autoscaler",
     .port = 8085,
     .start = start_autoscaler,
     .write_metrics = write_autoscaler},
    {.name = "device-plugin", .start = start_device_plugin},
    {.name = "gpu-feature-discovery", .start = start_nfd},
    {.name = "nfd", .start = start_nfd},
    {.name = "gpu-operator", .start = standin_gpu_operator_start, .end = standin_gpu_operator_end},
    {.name = "ingress-nginx", .start = start_router, .answer = answer_router},
    {.name = "grafana", .port = 3000, .start = start_grafana, .answer = answer_grafana},
    {.name = "k8s-sidecar", .start = standin_sidecar_start, .end = standin_sidecar_end},
    {.name = "sleep", .start = start_sleep},
    {.name = "sglang", .start = standin_sglang_start},
    {.name = "vllm", .start = standin_vllm_start},
};

const struct standin_role *standin_role_find(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(roles); i++)
        if (gs_streq(roles[i].name, name))
            return &roles[i];
    return NULL;
}
