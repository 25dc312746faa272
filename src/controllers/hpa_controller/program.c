// SPDX-License-Identifier: Apache-2.0
// Runs the controller on a cluster: beside the cluster's own controller (shadow mode) or instead of
// it (control mode), with /metrics and the history API.
#include "hpa_controller/program.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/controller_private.h"
#include "hpa_controller/engine_search.h"
#include "hpa_controller/explain_api.h"
#include "hpa_controller/learned_store.h"
#include "kube/connection.h"
#include "kube/election.h"
#include "kube/object.h"
#include "kube/trim.h"
#include "net/program/program.h"

// The label or annotation that selects an object in control mode.
#define OPT_IN  "gpuscale.dev/autoscaler"
#define MANAGER "gpuscale-hpa" // user agent: our name in managedFields

// Numbers of sync periods: time for another controller to write a status, time until the next
// probe.
#define WAIT_PERIODS  3
#define AGAIN_PERIODS 30

struct hpa_server {
    const struct hpa_server_options *o;
    struct program *program;
    uv_loop_t *loop; // of the program
    struct kube_connection cluster;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct hpa_learned_store *store; // NULL: what is learned is not kept, or not read yet
    struct hpa_explain_api *explain;
    struct hpa_ownership *ownership; // NULL: shadow
    struct kube_election *election;  // NULL: disabled
    struct hpa_decision_log *log;
    struct hpa_engine_search *engine; // of latency targets, and of the check before zero
    bool shadow, scale_to_zero;
    int release;
};

static bool is_json(const struct hpa_server_options *o)
{
    return gs_streq(o->output, "json");
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

// --- what was learned ---

static void on_learned_read(void *arg)
{
    struct hpa_server *r = arg;
    hpa_controller_start(r->controller);
}

// Starts the controller with what another process has learned.
static void begin_to_decide(struct hpa_server *r)
{
    const struct hpa_learned_store_config cfg = {.loop = r->loop,
                                                 .controller = r->controller,
                                                 .path = r->o->state_file,
                                                 .client = r->cluster.client,
                                                 .ns = r->o->lease_ns,
                                                 .name = r->o->state_config_map};
    if (cfg.path || cfg.name)
        r->store = hpa_learned_store_new(&cfg, on_learned_read, r);
    else
        hpa_controller_start(r->controller);
}

// --- leadership ---

static void on_leading(void *arg)
{
    begin_to_decide(arg);
}

// As in Kubernetes components, a replica that loses the leadership exits and is restarted.
static void on_leadership_lost(void *arg)
{
    struct hpa_server *r = arg;
    program_fail(r->program, gs_error_new(GS_EUNAVAIL, "the Lease %s/%s is lost to another replica",
                                          r->o->lease_ns, r->o->lease_name));
}

static void start_election(struct hpa_server *r)
{
    const struct kube_election_config cfg = {.ns = r->o->lease_ns,
                                             .name = r->o->lease_name,
                                             .identity = r->o->identity,
                                             .on_leading = on_leading,
                                             .on_lost = on_leadership_lost,
                                             .arg = r};
    r->election = kube_election_new(r->loop, r->cluster.client, &cfg);
}

// --- HTTP ---

static void write_metrics(void *arg, struct gs_buf *out)
{
    const struct hpa_server *r = arg;
    hpa_decision_log_metrics(r->log, out);
    hpa_controller_write_metrics(r->controller, out);
    gs_buf_addf(out,
                "# HELP gpuscale_hpa_leader Whether this replica decides.\n"
                "# TYPE gpuscale_hpa_leader gauge\ngpuscale_hpa_leader %d\n",
                !r->election || kube_election_leading(r->election));
}

static void handle_history(void *arg, struct http_exchange *x)
{
    const struct hpa_server *r = arg;
    hpa_history_handle(r->controller, x);
}

static void handle_explanation(void *arg, struct http_exchange *x)
{
    const struct hpa_server *r = arg;
    hpa_explain_api_handle(r->explain, x);
}

static const struct http_route routes[] = {
    {.path = "/metrics", .write = write_metrics, .type = HTTP_TYPE_METRICS},
    {.path = HPA_EXPLAIN_PATH, .handle = handle_explanation},
    {.path = "/apis/" HPA_HISTORY_GROUP "/**", .handle = handle_history},
    {0},
};

static bool is_healthy(void *arg, bool readiness, struct gs_buf *details)
{
    const struct hpa_server *r = arg;
    bool ok = !readiness || kube_cache_synced(r->pods);
    if (!ok)
        gs_buf_add_str(details, "the cluster's pods have not been listed yet\n");
    return ok;
}

static struct gs_error *start_hpa_server(struct hpa_server *r)
{
    const struct program_listener l = {.flag = "--web.listen-address",
                                       .address = r->o->listen,
                                       .optional = true,
                                       .path = "/metrics",
                                       .rows = routes,
                                       .ctx = r};
    return program_listen(r->program, &l, NULL);
}

// --- run ---

static struct gs_error *connect_controlled_cluster(struct hpa_server *r)
{
    struct gs_error *err =
        kube_connection_open(r->loop, r->o->kubeconfig, NULL, "hpa", &r->cluster);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    gs_info("hpa", "cluster %s, %s", r->cluster.server,
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
    r->ownership = hpa_ownership_new(r->loop, r->cluster.client, &cfg);
}

static void start_controller(struct hpa_server *r)
{
    const struct hpa_server_options *o = r->o;
    r->engine = hpa_engine_search_new(r->loop, o->url, o->kubeconfig, MANAGER "/" GPUSCALE_VERSION);
    struct hpa_controller_config cfg = {.sync_period_ms = o->sync_period / GS_NS_PER_MS,
                                        .decide = hpa_config_default(),
                                        .shadow = r->shadow,
                                        .wanted = is_wanted,
                                        .on_deleted = on_object_deleted,
                                        .arg = r,
                                        .ns = o->ns,
                                        .budgets_ns = o->lease_ns,
                                        .engine = hpa_engine_search_client,
                                        .engine_arg = r->engine};
    cfg.decide.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    cfg.decide.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    cfg.decide.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    cfg.decide.tolerance = o->tolerance;
    cfg.decide.release = r->release;
    cfg.decide.scale_to_zero = r->scale_to_zero || o->scale_to_zero;
    if (!r->shadow)
        start_ownership(r);
    r->pods = kube_cache_new(r->loop, r->cluster.client, KUBE_PODS, o->ns, NULL);
    kube_cache_set_trim(r->pods, kube_trim_pod);
    r->log = hpa_decision_log_new(is_json(o), r->shadow);
    r->controller = hpa_controller_new(r->loop, r->cluster.client, r->pods, &cfg);
    hpa_controller_set_observer(r->controller, on_decision, r);
    r->explain = hpa_explain_api_new(r->loop, r->cluster.client, r->controller, &cfg.decide);
    kube_cache_start(r->pods);
    if (r->shadow || !o->elect)
        begin_to_decide(r);
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
    if (o->state_config_map && gs_streq(o->mode, "shadow"))
        return gs_error_new(GS_EINVAL, "--state-config-map belongs to --mode=control: shadow mode "
                                       "writes nothing to the cluster; use --state-file");
    if (o->state_config_map && o->state_file)
        return gs_error_new(GS_EINVAL, "want one of --state-file and --state-config-map");
    return NULL;
}

static void finish_server(struct hpa_server *r)
{
    program_close(r->program);
    kube_election_free(r->election);
    hpa_explain_api_free(r->explain);
    hpa_learned_store_free(r->store);
    hpa_controller_free(r->controller);
    hpa_engine_search_free(r->engine);
    hpa_ownership_free(r->ownership);
    if (r->pods)
        kube_cache_free(r->pods);
    kube_connection_close(&r->cluster);
    hpa_decision_log_free(r->log);
    program_free(r->program);
}

static void on_released(void *arg)
{
    struct hpa_server *r = arg;
    program_stopped(r->program);
}

static void on_learned_written(void *arg)
{
    struct hpa_server *r = arg;
    hpa_controller_release(r->controller, on_released, r);
}

// Writes what was learned, and then releases what the budgets limit.
static void stop_server(void *arg)
{
    struct hpa_server *r = arg;
    if (r->store)
        hpa_learned_store_end(r->store, on_learned_written, r);
    else
        on_learned_written(r);
}

struct gs_error *hpa_server_run(const struct hpa_server_options *o)
{
    struct hpa_server r = {.o = o};
    const struct program_config program = {
        .name = "hpa", .stop = stop_server, .health = is_healthy, .arg = &r};
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
    r.program = program_new(&program);
    r.loop = program_loop(r.program);
    err = connect_controlled_cluster(&r);
    if (!err)
        start_controller(&r);
    if (!err)
        err = start_hpa_server(&r);
    if (!err)
        err = program_run(r.program);
    finish_server(&r);
    return err;
}
