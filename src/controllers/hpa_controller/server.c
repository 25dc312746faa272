// SPDX-License-Identifier: Apache-2.0
// Runs the controller on a cluster: beside the cluster's own controller (shadow mode) or instead of
// it (control mode), with /metrics and the history API.
#include "hpa_controller/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/controller_private.h"
#include "hpa_controller/explain_api.h"
#include "kube/election.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "net/http/server.h"

#include <signal.h>
#include <unistd.h>

// The label or annotation that selects an object in control mode.
#define OPT_IN  "gpuscale.dev/autoscaler"
#define MANAGER "gpuscale-hpa" // user agent: our name in managedFields

// Numbers of sync periods: time for another controller to write a status, time until the next
// probe.
#define WAIT_PERIODS  3
#define AGAIN_PERIODS 30

struct hpa_server {
    const struct hpa_server_options *o;
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct hpa_explain_api *explain;
    struct hpa_ownership *ownership; // NULL: shadow
    struct kube_election *election;  // NULL: disabled
    struct hpa_decision_log *log;
    struct http_server *server;
    bool shadow, failed, scale_to_zero;
    int release;
};

static bool is_json(const struct hpa_server_options *o)
{
    return gs_streq(o->output, "json");
}

static void stop_server(struct hpa_server *r)
{
    uv_stop(&r->loop);
}

static void on_stop_signal(uv_signal_t *s, int signum)
{
    gs_info("hpa", "%s: stopping", strsignal(signum));
    stop_server(s->data);
}

// --- selection of objects ---

static bool is_opted_in(const json_t *hpa)
{
    return gs_streq(codec_json_str(hpa, "metadata", "annotations", OPT_IN, NULL), "true") ||
           gs_streq(codec_json_str(hpa, "metadata", "labels", OPT_IN, NULL), "true");
}

static bool is_wanted(void *arg, const json_t *hpa)
{
    struct hpa_server *r = arg;
    if (!r->ownership)
        return true;
    if (r->o->all || is_opted_in(hpa))
        return hpa_ownership_update(r->ownership, hpa);
    hpa_ownership_forget(r->ownership, hpa);
    return false;
}

static void on_object_deleted(void *arg, const json_t *hpa)
{
    struct hpa_server *r = arg;
    if (r->ownership)
        hpa_ownership_forget(r->ownership, hpa);
    hpa_decision_log_remove(r->log, kube_namespace(hpa), kube_name(hpa));
}

static void on_owned(void *arg, const char *ns, const char *name)
{
    struct hpa_server *r = arg;
    gs_info("hpa", "%s/%s: no other controller writes its status; gpuscale scales it", ns, name);
    hpa_controller_requeue(r->controller, ns, name);
}

static void on_decision(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct hpa_server *r = arg;
    hpa_decision_log_add(r->log, spec, d);
}

// --- leadership ---

static void on_leading(void *arg)
{
    struct hpa_server *r = arg;
    hpa_controller_start(r->controller);
}

// As in Kubernetes components, a replica that loses the leadership exits and is restarted.
static void on_leadership_lost(void *arg)
{
    struct hpa_server *r = arg;
    r->failed = true;
    stop_server(r);
}

static void start_election(struct hpa_server *r)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    GS_AUTO_FREE char *identity =
        r->o->identity ? gs_strdup(r->o->identity) : gs_format("%s_%ld", host, (long)getpid());
    const struct kube_election_config cfg = {.ns = r->o->lease_ns,
                                             .name = r->o->lease_name,
                                             .identity = identity,
                                             .on_leading = on_leading,
                                             .on_lost = on_leadership_lost,
                                             .arg = r};
    r->election = kube_election_new(&r->loop, r->client, &cfg);
}

// --- HTTP ---

static void reply_metrics(struct hpa_server *r, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    hpa_decision_log_metrics(r->log, &out);
    gs_buf_addf(&out,
                "# HELP gpuscale_hpa_leader Whether this replica decides.\n"
                "# TYPE gpuscale_hpa_leader gauge\ngpuscale_hpa_leader %d\n",
                !r->election || kube_election_leading(r->election));
    http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", gs_buf_slice(&out));
}

static void handle_request(void *arg, struct http_exchange *x)
{
    struct hpa_server *r = arg;
    const char *path = http_path(x);
    if (gs_streq(path, "/metrics"))
        reply_metrics(r, x);
    else if (gs_streq(path, "/healthz") || gs_streq(path, "/livez"))
        http_reply_text(x, 200, "ok\n");
    else if (gs_streq(path, "/readyz"))
        http_reply_text(x, kube_cache_synced(r->pods) ? 200 : 503, "%s\n",
                        kube_cache_synced(r->pods) ? "ok"
                                                   : "the cluster's pods have not been listed yet");
    else if (gs_starts(path, "/apis/" HPA_HISTORY_GROUP "/"))
        hpa_history_handle(r->controller, x);
    else if (gs_streq(path, HPA_EXPLAIN_PATH))
        hpa_explain_api_handle(r->explain, x);
    else
        http_reply_text(x, 404,
                        "not found; the paths are /metrics, /healthz, /readyz, " HPA_EXPLAIN_PATH
                        " and /apis/" HPA_HISTORY_GROUP "/v1/namespaces/NS/histories/NAME\n");
}

static struct gs_error *start_hpa_server(struct hpa_server *r)
{
    if (!*r->o->listen)
        return NULL;
    return http_server_listen(&r->loop, "--web.listen-address", r->o->listen, "hpa", "/metrics",
                              handle_request, r, &r->server);
}

// --- run ---

static struct gs_error *connect_controlled_cluster(struct hpa_server *r)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(r->o->kubeconfig, NULL, &k);
    if (!err)
        err = kube_config_connect(&k, &r->loop, MANAGER "/" GPUSCALE_VERSION, &r->http);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    r->client = kube_client_new(r->http);
    gs_info("hpa", "cluster %s, %s", k.server,
            r->shadow ? "shadow mode: nothing is written"
                      : "control mode: objects with the label or annotation " OPT_IN ": \"true\"");
    return NULL;
}

static void start_ownership(struct hpa_server *r)
{
    int64_t period_ms = r->o->sync_period / GS_NS_PER_MS;
    const struct hpa_ownership_config cfg = {.manager = MANAGER,
                                             .wait_ms = WAIT_PERIODS * period_ms,
                                             .again_ms = AGAIN_PERIODS * period_ms,
                                             .trusted = r->o->all,
                                             .changed = on_owned,
                                             .arg = r};
    r->ownership = hpa_ownership_new(&r->loop, r->client, &cfg);
}

static void start_controller(struct hpa_server *r)
{
    const struct hpa_server_options *o = r->o;
    struct hpa_controller_config cfg = {.sync_period_ms = o->sync_period / GS_NS_PER_MS,
                                        .decide = hpa_config_default(),
                                        .shadow = r->shadow,
                                        .wanted = is_wanted,
                                        .on_deleted = on_object_deleted,
                                        .arg = r,
                                        .ns = o->ns};
    cfg.decide.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    cfg.decide.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    cfg.decide.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    cfg.decide.tolerance = o->tolerance;
    cfg.decide.release = r->release;
    cfg.decide.scale_to_zero = r->scale_to_zero || o->scale_to_zero;
    if (!r->shadow)
        start_ownership(r);
    r->pods = kube_cache_new(&r->loop, r->client, KUBE_PODS, o->ns, NULL);
    r->log = hpa_decision_log_new(is_json(o), r->shadow);
    r->controller = hpa_controller_new(&r->loop, r->client, r->pods, &cfg);
    hpa_controller_set_observer(r->controller, on_decision, r);
    r->explain = hpa_explain_api_new(&r->loop, r->client, r->controller, &cfg.decide);
    kube_cache_start(r->pods);
    if (r->shadow || !o->elect)
        hpa_controller_start(r->controller);
    else
        start_election(r);
}

static struct gs_error *check_options(const struct hpa_server_options *o)
{
    if (!gs_streq(o->mode, "shadow") && !gs_streq(o->mode, "control"))
        return gs_error_new(GS_EINVAL, "--mode \"%s\": want shadow or control", o->mode);
    if (!is_json(o) && !gs_streq(o->output, "text"))
        return gs_error_new(GS_EINVAL, "--output \"%s\": want text or json", o->output);
    if (o->all && gs_streq(o->mode, "shadow"))
        return gs_error_new(GS_EINVAL, "--all belongs to --mode=control");
    return NULL;
}

static void watch_signals(struct hpa_server *r)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_stop_signal, numbers[i]);
    }
}

static void finish_server(struct hpa_server *r)
{
    http_server_stop(r->server);
    kube_election_free(r->election);
    hpa_explain_api_free(r->explain);
    hpa_controller_free(r->controller);
    hpa_ownership_free(r->ownership);
    if (r->pods)
        kube_cache_free(r->pods);
    if (r->client)
        kube_client_free(r->client);
    if (r->http)
        http_client_free(r->http);
    hpa_decision_log_free(r->log);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&r->loop);
}

struct gs_error *hpa_server_run(const struct hpa_server_options *o, int *ret_exit)
{
    struct hpa_server r = {.o = o};
    struct gs_error *err = check_options(r.o);
    if (err)
        return err;
    struct hpa_config decide = hpa_config_default();
    err = r.o->compat ? hpa_config_follow(&decide, r.o->compat) : NULL;
    if (err)
        return gs_error_wrap(err, "--compat");
    r.release = decide.release;
    r.scale_to_zero = decide.scale_to_zero;
    r.shadow = gs_streq(r.o->mode, "shadow");
    uv_loop_init(&r.loop);
    watch_signals(&r);
    err = connect_controlled_cluster(&r);
    if (!err)
        start_controller(&r);
    if (!err)
        err = start_hpa_server(&r);
    if (!err)
        uv_run(&r.loop, UV_RUN_DEFAULT);
    finish_server(&r);
    *ret_exit = r.failed ? 1 : 0;
    return err;
}
