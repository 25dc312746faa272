// SPDX-License-Identifier: Apache-2.0
// `gpuscale hpa`: the autoscaler's controller on a cluster, in the shadow of the cluster's own or
// in its place.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/hpa/options.h"
#include "cmd/hpa/watcher.h"
#include "cmd/verbs.h"
#include "hpa/claims.h"
#include "hpa/controller.h"
#include "hpa/memory.h"
#include "kube/election.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "net/http/server.h"

#include <signal.h>
#include <unistd.h>

#define MARK    "gpuscale.io/autoscaler" // label or annotation
#define MANAGER "gpuscale-hpa"           // user agent: our name in managedFields

// Periods that another controller has to write a status in, and those until it is asked again.
#define WAIT_PERIODS  3
#define AGAIN_PERIODS 30

struct run {
    const struct hpa_opts *o;
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct http_client *http;
    struct kube_client *client;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct hpa_claims *claims;      // NULL: shadow
    struct kube_election *election; // NULL: not wanted
    struct hpa_watcher *watcher;
    struct http_server *server;
    bool shadow, failed, scale_to_zero;
    int release;
};

static bool is_json(const struct hpa_opts *o)
{
    return gs_streq(o->output, "json");
}

static void stop(struct run *r)
{
    uv_stop(&r->loop);
}

static void on_signal(uv_signal_t *s, int signum)
{
    gs_info("hpa", "%s: ending", strsignal(signum));
    stop(s->data);
}

// --- which objects ---

static bool is_marked(const json_t *hpa)
{
    return gs_streq(codec_json_str(hpa, "metadata", "annotations", MARK, NULL), "true") ||
           gs_streq(codec_json_str(hpa, "metadata", "labels", MARK, NULL), "true");
}

static bool is_wanted(void *arg, const json_t *hpa)
{
    struct run *r = arg;
    if (!r->claims)
        return true;
    if (r->o->all || is_marked(hpa))
        return hpa_claims_see(r->claims, hpa);
    hpa_claims_forget(r->claims, hpa);
    return false;
}

static void on_gone(void *arg, const json_t *hpa)
{
    struct run *r = arg;
    if (r->claims)
        hpa_claims_forget(r->claims, hpa);
    hpa_watcher_gone(r->watcher, kube_namespace(hpa), kube_name(hpa));
}

static void on_claim(void *arg, const char *ns, const char *name)
{
    struct run *r = arg;
    gs_info("hpa", "%s/%s: no other controller writes its status: it is scaled from here", ns,
            name);
    hpa_controller_look_again(r->controller, ns, name);
}

static void on_decision(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct run *r = arg;
    hpa_watcher_take(r->watcher, spec, d);
}

// --- leadership ---

static void on_leading(void *arg)
{
    struct run *r = arg;
    hpa_controller_start(r->controller);
}

// As Kubernetes' components: who led and does not any more begins anew.
static void on_lost(void *arg)
{
    struct run *r = arg;
    r->failed = true;
    stop(r);
}

static void start_election(struct run *r)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    GS_AUTO_FREE char *identity =
        r->o->identity ? gs_strdup(r->o->identity) : gs_format("%s_%ld", host, (long)getpid());
    const struct kube_election_config cfg = {.ns = r->o->lease_ns,
                                             .name = r->o->lease_name,
                                             .identity = identity,
                                             .on_leading = on_leading,
                                             .on_lost = on_lost,
                                             .arg = r};
    r->election = kube_election_new(&r->loop, r->client, &cfg);
}

// --- HTTP ---

static void reply_metrics(struct run *r, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    hpa_watcher_metrics(r->watcher, &out);
    gs_buf_addf(&out,
                "# HELP gpuscale_hpa_leader Whether this replica decides.\n"
                "# TYPE gpuscale_hpa_leader gauge\ngpuscale_hpa_leader %d\n",
                !r->election || kube_election_leading(r->election));
    http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", gs_buf_slice(&out));
}

static void handle(void *arg, struct http_exchange *x)
{
    struct run *r = arg;
    const char *path = http_path(x);
    if (gs_streq(path, "/metrics"))
        reply_metrics(r, x);
    else if (gs_streq(path, "/healthz") || gs_streq(path, "/livez"))
        http_reply_text(x, 200, "ok\n");
    else if (gs_streq(path, "/readyz"))
        http_reply_text(x, kube_cache_synced(r->pods) ? 200 : 503, "%s\n",
                        kube_cache_synced(r->pods) ? "ok" : "the cluster's pods are not known yet");
    else if (gs_starts(path, "/apis/" HPA_MEMORY_GROUP "/"))
        hpa_memory_handle(r->controller, x);
    else
        http_reply_text(x, 404,
                        "there are /metrics, /healthz, /readyz and /apis/" HPA_MEMORY_GROUP
                        "/v1/namespaces/NS/memories/NAME\n");
}

static struct gs_error *start_server(struct run *r)
{
    const char *colon = strrchr(r->o->listen, ':');
    uint64_t port = 0;
    if (!*r->o->listen)
        return NULL;
    struct gs_error *err = colon ? gs_parse_u64(gs_slice_of(colon + 1), 65535, &port) : NULL;
    if (!colon || err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL, "--web.listen-address \"%s\": want HOST:PORT or :PORT",
                            r->o->listen);
    }
    GS_AUTO_FREE char *host = gs_strndup(r->o->listen, (size_t)(colon - r->o->listen));
    const struct http_server_config cfg = {.address = host, .port = (uint16_t)port};
    err = http_server_start(&r->loop, &cfg, handle, r, &r->server);
    if (err)
        return gs_error_wrap(err, "--web.listen-address");
    gs_info("hpa", "http://%s:%u/metrics", *host ? host : "0.0.0.0", http_server_port(r->server));
    return NULL;
}

// --- run ---

static struct gs_error *connect_cluster(struct run *r)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(r->o->kubeconfig, NULL, &k);
    if (!err)
        err = kube_config_connect(&k, &r->loop, MANAGER "/" GPUSCALE_VERSION, &r->http);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    r->client = kube_client_new(r->http);
    gs_info("hpa", "cluster %s, %s", k.server,
            r->shadow ? "in the shadow of its own controller: nothing is written"
                      : "objects with the label or annotation " MARK ": \"true\"");
    return NULL;
}

static void start_claims(struct run *r)
{
    int64_t period_ms = r->o->sync_period / GS_NS_PER_MS;
    const struct hpa_claims_config cfg = {.manager = MANAGER,
                                          .wait_ms = WAIT_PERIODS * period_ms,
                                          .again_ms = AGAIN_PERIODS * period_ms,
                                          .trusted = r->o->all,
                                          .changed = on_claim,
                                          .arg = r};
    r->claims = hpa_claims_new(&r->loop, r->client, &cfg);
}

static void start_controller(struct run *r)
{
    const struct hpa_opts *o = r->o;
    struct hpa_controller_config cfg = {.sync_period_ms = o->sync_period / GS_NS_PER_MS,
                                        .decide = hpa_config_default(),
                                        .shadow = r->shadow,
                                        .wanted = is_wanted,
                                        .gone = on_gone,
                                        .arg = r,
                                        .ns = o->ns};
    cfg.decide.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    cfg.decide.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    cfg.decide.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    cfg.decide.tolerance = o->tolerance;
    cfg.decide.release = r->release;
    cfg.decide.scale_to_zero = r->scale_to_zero || o->scale_to_zero;
    if (!r->shadow)
        start_claims(r);
    r->pods = kube_cache_new(&r->loop, r->client, KUBE_PODS, o->ns, NULL);
    r->watcher = hpa_watcher_new(is_json(o), r->shadow);
    r->controller = hpa_controller_new(&r->loop, r->client, r->pods, &cfg);
    hpa_controller_set_observer(r->controller, on_decision, r);
    kube_cache_start(r->pods);
    if (r->shadow || !o->elect)
        hpa_controller_start(r->controller);
    else
        start_election(r);
}

static struct gs_error *check(const struct hpa_opts *o)
{
    if (!gs_streq(o->mode, "shadow") && !gs_streq(o->mode, "control"))
        return gs_error_new(GS_EINVAL, "--mode \"%s\": want shadow or control", o->mode);
    if (!is_json(o) && !gs_streq(o->output, "text"))
        return gs_error_new(GS_EINVAL, "--output \"%s\": want text or json", o->output);
    if (o->all && gs_streq(o->mode, "shadow"))
        return gs_error_new(GS_EINVAL, "--all belongs to --mode=control");
    if (o->sync_period < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--horizontal-pod-autoscaler-sync-period: at least 1s");
    return NULL;
}

static void watch_signals(struct run *r)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, numbers[i]);
    }
}

static void finish(struct run *r)
{
    http_server_stop(r->server);
    kube_election_free(r->election);
    hpa_controller_free(r->controller);
    hpa_claims_free(r->claims);
    if (r->pods)
        kube_cache_free(r->pods);
    if (r->client)
        kube_client_free(r->client);
    if (r->http)
        http_client_free(r->http);
    hpa_watcher_free(r->watcher);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&r->loop);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    struct run r = {.o = opts};
    (void)argc;
    (void)argv;
    struct gs_error *err = check(r.o);
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
    err = connect_cluster(&r);
    if (!err)
        start_controller(&r);
    if (!err)
        err = start_server(&r);
    if (!err)
        uv_run(&r.loop, UV_RUN_DEFAULT);
    finish(&r);
    *ret_exit = r.failed ? 1 : 0;
    return err;
}

const struct gs_verb verb_hpa = {
    .name = "hpa",
    .args = NULL,
    .summary = "Decide replicas of a cluster's HorizontalPodAutoscalers.",
    .description =
        "Evaluates the HorizontalPodAutoscaler objects of a cluster as kube-controller-manager "
        "does, each period and after each change of an object.\n\n"
        "In shadow mode (the default) it writes nothing: every new decision is a line with what "
        "the cluster's own controller wants beside it. In control mode it scales the objects with "
        "the annotation gpuscale.io/autoscaler: \"true\" and writes their status and events; an "
        "object whose status the cluster's own controller still writes is left alone.",
    .examples = "gpuscale hpa\n"
                "gpuscale hpa --namespace=inference -o json\n"
                "gpuscale hpa --mode=control --horizontal-pod-autoscaler-sync-period=5s",
    .opts = hpa_option_rows,
    .opts_size = sizeof(struct hpa_opts),
    .min_args = 0,
    .max_args = 0,
    .run = run,
};
