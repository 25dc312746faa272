// SPDX-License-Identifier: Apache-2.0
// The program: gRPC for the Cluster Autoscaler, HTTP for people and Prometheus.
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "expander/expander_private.h"
#include "kube/kubeconfig.h"
#include "net/grpc/tls_files.h"
#include "net/http/server.h"

#include <signal.h>

enum { MAX_MESSAGE = 128 * 1024 * 1024 }; // the Cluster Autoscaler's own limit
#define METHOD "/grpcplugin.Expander/BestOptions"

struct server {
    const struct expander_options *o;
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct nodes_pools pools;
    struct gs_file_watch *watch; // of the pools; NULL: no file
    struct expander expander;
    struct expander_certificate certificate;
    struct grpc_server *grpc;
    struct grpc_tls_files *files; // NULL: the certificate is not in files
    struct http_server *http;
    struct http_client *kube_http;
    struct kube_client *kube;         // NULL: no cluster
    struct expander_cordons *cordons; // NULL: no cluster
};

// --- gRPC ---

static void handle_options(void *arg, struct grpc_call *call, struct gs_slice request)
{
    struct server *s = arg;
    GS_AUTO_BUF struct gs_buf answer = {0};
    GS_AUTO_FREE char *why = NULL;
    if (expander_answer(&s->expander, request, &answer, &why) == EXPANDER_REFUSED) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, why);
        return;
    }
    grpc_call_send(call, gs_buf_slice(&answer));
    grpc_call_finish(call, GRPC_OK, NULL);
}

static struct gs_error *start_tls(struct server *s)
{
    const struct expander_certificate *c = &s->certificate;
    struct gs_error *err = expander_certificate_load(s->o, &s->certificate);
    if (err)
        return err;
    if (c->cert_file) {
        const struct grpc_tls_paths paths = {.cert_file = c->cert_file, .key_file = c->key_file};
        return grpc_tls_files_new(&s->loop, s->grpc, &paths, &s->files);
    }
    const struct grpc_tls tls = {.cert_pem = c->cert_pem, .key_pem = c->key_pem};
    return grpc_server_set_tls(s->grpc, &tls);
}

// All addresses; hosts without IPv6 have only those of IPv4.
static struct gs_error *listen_everywhere(struct server *s, uint16_t port, uint16_t *ret_port)
{
    struct gs_error *err = grpc_server_listen_tcp(s->grpc, "::", port, ret_port);
    if (!err || gs_error_code(err) == GS_EEXIST)
        return err;
    gs_error_free(err);
    return grpc_server_listen_tcp(s->grpc, "0.0.0.0", port, ret_port);
}

static struct gs_error *start_grpc(struct server *s)
{
    GS_AUTO_FREE char *host = NULL;
    uint16_t port = 0;
    s->grpc = grpc_server_new(&s->loop);
    grpc_server_set_max_message(s->grpc, MAX_MESSAGE);
    grpc_server_handle(s->grpc, METHOD, handle_options, s);
    struct gs_error *err =
        http_server_parse_address("--grpc-listen-address", s->o->listen, &host, &port);
    if (!err)
        err = start_tls(s);
    if (!err) {
        err = host && *host ? grpc_server_listen_tcp(s->grpc, host, port, &port)
                            : listen_everywhere(s, port, &port);
        err = err ? gs_error_wrap(err, "--grpc-listen-address") : NULL;
    }
    if (!err)
        gs_info("expander", "listening for the Cluster Autoscaler on %s:%u, policy %s",
                host && *host ? host : "all addresses", port,
                nodes_policy_name(s->expander.policy));
    return err;
}

// --- HTTP ---

static void reply_decisions(struct server *s, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *limit = http_query(x, "limit");
    uint64_t n = UINT64_MAX;
    GS_AUTO_ERROR struct gs_error *err =
        limit ? gs_parse_u64(gs_slice_of(limit), UINT32_MAX, &n) : NULL;
    if (err) {
        http_reply_text(x, 400, "limit: %s\n", gs_error_message(err));
        return;
    }
    CODEC_AUTO_JSON json_t *decisions = expander_record_json(s->expander.record, (size_t)n);
    codec_json_dump(decisions, &out);
    http_reply(x, 200, "application/json", gs_buf_slice(&out));
}

static void handle_http(void *arg, struct http_exchange *x)
{
    struct server *s = arg;
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *path = http_path(x);
    if (gs_streq(path, "/metrics")) {
        expander_record_metrics(s->expander.record, &out);
        expander_cordons_metrics(s->cordons, &out);
        http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", gs_buf_slice(&out));
    } else if (gs_streq(path, "/api/v1/decisions")) {
        reply_decisions(s, x);
    } else if (gs_streq(path, "/healthz") || gs_streq(path, "/livez") ||
               gs_streq(path, "/readyz")) {
        http_reply_text(x, 200, "ok\n");
    } else {
        http_reply_text(x, 404,
                        "not found; the paths are /api/v1/decisions, /metrics, /healthz and "
                        "/readyz\n");
    }
}

static struct gs_error *start_http(struct server *s)
{
    if (!*s->o->web_listen)
        return NULL;
    return http_server_listen(&s->loop, "--web.listen-address", s->o->web_listen, "expander",
                              "/api/v1/decisions", handle_http, s, &s->http);
}

// --- pools and cluster ---

// Takes the pools of the file. GS_EINVAL: nothing changes.
static struct gs_error *read_pools(struct server *s)
{
    GS_CLEANUP(nodes_findings_finish) struct nodes_findings found = {0};
    struct nodes_pools next = {0};
    enum nodes_policy p = s->expander.policy;
    struct gs_error *err = nodes_pools_load(&next, s->o->pools, NULL);
    if (!err)
        nodes_pools_check(&next, p == NODES_POLICY_COST || p == NODES_POLICY_PRICE, &found);
    for (size_t i = 0; i < found.len && !err; i++)
        if (found.items[i].severity == NODES_ERROR)
            err = gs_error_new(GS_EINVAL, "%s", found.items[i].text);
        else
            gs_warn("expander", "%s", found.items[i].text);
    if (err) {
        nodes_pools_finish(&next);
        return gs_error_wrap(err, "--pools");
    }
    nodes_pools_finish(&s->pools);
    s->pools = next;
    return NULL;
}

static void on_pools_changed(void *arg)
{
    struct server *s = arg;
    GS_AUTO_ERROR struct gs_error *err = read_pools(s);
    if (err)
        gs_warn("expander", "the previous pools stay in use: %s", gs_error_message(err));
    else
        gs_info("expander", "new pools: %s", s->o->pools);
}

static struct gs_error *load_pools(struct server *s)
{
    enum nodes_policy p = s->expander.policy;
    if (!s->o->pools) {
        if (p == NODES_POLICY_COST || p == NODES_POLICY_SPEED)
            gs_warn("expander", "--policy=%s without --pools: %s are not known",
                    nodes_policy_name(p), p == NODES_POLICY_COST ? "prices" : "start-up times");
        return NULL;
    }
    const struct gs_file_watch_options o = {
        .loop = &s->loop, .on_change = on_pools_changed, .arg = s};
    // Before the file is read, so that a change meanwhile is noticed.
    s->watch = gs_file_watch_new(&o);
    gs_file_watch_set(s->watch, &s->o->pools, 1);
    s->expander.pools = &s->pools;
    return read_pools(s);
}

// Only where a cluster is given: a kubeconfig in a home directory must not change decisions.
static struct gs_error *connect_cluster(struct server *s)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    if (!s->o->kubeconfig && !getenv("KUBERNETES_SERVICE_HOST"))
        return s->o->early_cordon
                   ? gs_error_new(GS_EINVAL, "--early-cordon needs a cluster: give --kubeconfig")
                   : NULL;
    struct gs_error *err = kube_config_load(s->o->kubeconfig, NULL, &k);
    if (!err)
        err =
            kube_config_connect(&k, &s->loop, "gpuscale-expander/" GPUSCALE_VERSION, &s->kube_http);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    s->kube = kube_client_new(s->kube_http);
    s->expander.cluster = expander_cluster_new(&s->loop, s->kube, s->o->early_cordon);
    gs_info("expander", "start-up times and failures from the cluster %s", k.server);
    const struct expander_cordons_config cfg = {.enabled = s->o->early_cordon,
                                                .lease_ns = s->o->lease_ns,
                                                .lease_name = s->o->lease_name,
                                                .policy = s->expander.policy,
                                                .pools = s->expander.pools,
                                                .cluster = s->expander.cluster};
    s->cordons = expander_cordons_new(&s->loop, s->kube, &cfg);
    return NULL;
}

// --- run ---

static void on_stop_signal(uv_signal_t *signal, int signum)
{
    struct server *s = signal->data;
    gs_info("expander", "%s: stopping", strsignal(signum));
    uv_stop(&s->loop);
}

static void watch_signals(struct server *s)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_stop_signal, numbers[i]);
    }
}

static void finish(struct server *s)
{
    http_server_stop(s->http);
    gs_file_watch_free(s->watch);
    grpc_tls_files_free(s->files);
    grpc_server_free(s->grpc);
    expander_cordons_free(s->cordons);
    expander_cluster_free(s->expander.cluster);
    if (s->kube)
        kube_client_free(s->kube);
    if (s->kube_http)
        http_client_free(s->kube_http);
    for (size_t i = 0; i < GS_ARRAY_LEN(s->signals); i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&s->loop);
    expander_record_free(s->expander.record);
    expander_certificate_finish(&s->certificate);
    nodes_pools_finish(&s->pools);
}

struct gs_error *expander_run(const struct expander_options *o, int *ret_exit)
{
    struct server s = {.o = o};
    struct gs_error *err = nodes_policy_parse(o->policy, &s.expander.policy);
    if (err)
        return gs_error_wrap(err, "--policy");
    uv_loop_init(&s.loop);
    watch_signals(&s);
    s.expander.record = expander_record_new((size_t)o->kept);
    err = load_pools(&s);
    if (!err)
        err = connect_cluster(&s);
    if (!err)
        err = start_grpc(&s);
    if (!err)
        err = start_http(&s);
    if (!err)
        uv_run(&s.loop, UV_RUN_DEFAULT);
    finish(&s);
    *ret_exit = 0;
    return err;
}
