// SPDX-License-Identifier: Apache-2.0
// `gpuscale node-provider` as a program: options, servers, leadership, reload.
#include "net/program/program.h"
#include "base/clock.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/election.h"
#include "net/grpc/tls_files.h"
#include "node_provider/node_provider_private.h"

#include <stdlib.h>

#define RELOAD_MS 500 // between checks whether commands still run

struct provider {
    const struct node_provider_options *o;
    struct program *program;
    uv_loop_t *loop;                             // of the program
    struct node_provider_file *file, *next_file; // next: waits for the end of the commands
    struct gs_file_watch *watch;
    struct gs_timer *reload;
    struct node_provider_state *state;
    struct node_provider_fleet *fleet;
    struct node_provider_nodes *nodes;
    struct kube_election *election; // NULL: without one
    bool leads;
    struct grpc_server *grpc;
    struct grpc_tls_files *tls;
};

// --- HTTP ---

// A failing command is not cured by a restart.
static bool is_healthy(void *arg, bool readiness, struct gs_buf *details)
{
    const struct provider *p = arg;
    if (!p->leads)
        gs_buf_addf(details, "another provider holds the Lease %s/%s\n", p->o->lease_ns,
                    p->o->lease_name);
    for (size_t i = 0; p->leads && i < p->fleet->n_pools; i++) {
        const struct node_provider_pool *pool = &p->fleet->pools[i];
        if (pool->list_error)
            gs_buf_addf(details, "%s: the list command fails: %s\n", pool->spec->name,
                        pool->list_error);
        else if (!pool->list_tried)
            gs_buf_addf(details, "%s: not listed yet\n", pool->spec->name);
    }
    return !readiness || node_provider_fleet_ready(p->fleet);
}

static void write_metrics(void *arg, struct gs_buf *out)
{
    const struct provider *p = arg;
    node_provider_write_metrics(p->fleet, p->nodes, out);
}

static void write_pools(void *arg, struct gs_buf *out)
{
    const struct provider *p = arg;
    CODEC_AUTO_JSON json_t *pools = node_provider_pools_json(p->fleet);
    codec_json_dump_pretty(pools, out);
}

static const struct http_route routes[] = {
    {.path = "/metrics", .write = write_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/api/v1/pools", .write = write_pools, .type = HTTP_TYPE_JSON},
    {0},
};

static struct gs_error *start_http(struct provider *p)
{
    const struct program_listener l = {.flag = "--web.listen-address",
                                       .address = p->o->listen,
                                       .optional = true,
                                       .path = "/metrics",
                                       .rows = routes,
                                       .ctx = p};
    return program_listen(p->program, &l, NULL);
}

// --- gRPC ---

static struct gs_error *start_tls(struct provider *p)
{
    GS_AUTO_FREE char *cert = NULL, *key = NULL, *ca = NULL;
    const struct node_provider_options *o = p->o;
    if (o->insecure) {
        gs_warn("node-provider",
                "--insecure: everybody who can connect to %s can create and delete "
                "machines",
                o->address);
        return NULL;
    }
    if (o->generate) {
        cert = gs_format("%s/tls.crt", o->generate);
        key = gs_format("%s/tls.key", o->generate);
        ca = gs_format("%s/ca.crt", o->generate);
    }
    const struct grpc_tls_paths paths = {.cert_file = cert ? cert : o->cert,
                                         .key_file = key ? key : o->key,
                                         .client_ca_file = ca ? ca : o->client_ca};
    return grpc_tls_files_new(p->loop, p->grpc, &paths, &p->tls);
}

static struct gs_error *start_grpc(struct provider *p)
{
    GS_AUTO_FREE char *host = NULL, *where = NULL;
    uint16_t port = 0;
    struct gs_error *err = http_server_parse_address("--address", p->o->address, &host, &port);
    if (err)
        return err;
    p->grpc = grpc_server_new(p->loop);
    node_provider_serve(p->grpc, p->fleet);
    if (p->o->generate)
        err = node_provider_generate(p->o->generate, &p->o->names, port);
    if (!err)
        err = start_tls(p);
    if (!err)
        err = program_listen_grpc(p->program, "--address", p->o->address, p->grpc, &where);
    if (err)
        return err;
    gs_info("node-provider", "externalgrpc on %s%s, %zu pools", where,
            p->o->insecure ? " (no TLS)" : "", p->fleet->n_pools);
    return NULL;
}

// --- options ---

static struct gs_error *check_options(const struct node_provider_options *o)
{
    const bool files = o->cert && o->key && o->client_ca;
    if (!o->pools)
        return gs_error_new(GS_EINVAL, "--pools is required");
    if (o->check)
        return NULL;
    if ((o->cert || o->key || o->client_ca) && !files)
        return gs_error_new(GS_EINVAL, "--tls-cert-file, --tls-private-key-file and "
                                       "--client-ca-file are given together");
    if (files + (o->generate != NULL) + o->insecure != 1)
        return gs_error_new(
            GS_EINVAL,
            "choose one of: --tls-cert-file with --tls-private-key-file and --client-ca-file; "
            "--generate-certificates; or --insecure. The protocol has no other authentication than "
            "client certificates: without them, everybody who can connect can create and delete "
            "machines");
    if (o->list_interval < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--list-interval: at least 1s");
    return NULL;
}

static struct gs_error *load_file(const struct provider *p, struct node_provider_file **ret)
{
    GS_CLEANUP(node_provider_file_freep) struct node_provider_file *file = NULL;
    struct gs_error *err = node_provider_file_load(p->o->pools, &file);
    if (err)
        return err;
    struct nodes_findings findings = {0};
    nodes_pools_check(&file->pools, false, &findings);
    for (size_t i = 0; i < findings.len; i++) {
        if (findings.items[i].severity == NODES_ERROR && !err)
            err = gs_error_new(GS_EINVAL, "%s", findings.items[i].text);
        else if (findings.items[i].severity == NODES_WARNING)
            gs_warn("node-provider", "%s", findings.items[i].text);
    }
    nodes_findings_finish(&findings);
    if (!err)
        *ret = GS_TAKE(file);
    return err;
}

// --- fleet ---

static void on_gone(void *arg, struct node_provider_machine *m)
{
    struct provider *p = arg;
    if (p->nodes)
        node_provider_nodes_gone(p->nodes, m);
}

static struct gs_error *make_fleet(struct provider *p, const struct node_provider_file *file,
                                   struct node_provider_fleet **ret)
{
    const struct node_provider_fleet_config config = {
        .loop = p->loop,
        .file = file,
        .state = p->state,
        .list_interval_ms = p->o->list_interval / GS_NS_PER_MS,
        .provision_ms = p->o->provision_time / GS_NS_PER_MS,
        .retry_ms = 10000,
        .missed_ms = 20000,
        .on_gone = on_gone,
        .arg = p,
    };
    return node_provider_fleet_new(&config, ret);
}

static struct gs_error *start_fleet(struct provider *p)
{
    const struct node_provider_options *o = p->o;
    struct gs_error *err = node_provider_state_open(o->state_dir, &p->state);
    if (err)
        return gs_error_wrap(err, "--state-dir");
    err = make_fleet(p, p->file, &p->fleet);
    if (err || (!o->kubeconfig && !o->in_cluster))
        return err;
    const struct node_provider_nodes_config nodes = {.loop = p->loop,
                                                     .kubeconfig = o->kubeconfig,
                                                     .keep_nodes = o->keep_nodes,
                                                     .fleet = p->fleet};
    return node_provider_nodes_new(&nodes, &p->nodes);
}

// --- reload ---

// Replaces the fleet by one of the new file. Its machines are those of the state file.
static void use_next_file(struct provider *p)
{
    struct node_provider_fleet *fleet = NULL;
    struct gs_error *err = make_fleet(p, p->next_file, &fleet);
    if (err) {
        gs_err("node-provider", "the changed file is not used: %s", gs_error_message(err));
        gs_error_free(err);
        node_provider_file_free(GS_TAKE(p->next_file));
        node_provider_fleet_set_paused(p->fleet, false);
        return;
    }
    node_provider_fleet_inherit(fleet, p->fleet);
    node_provider_serve(p->grpc, fleet);
    node_provider_fleet_free(p->fleet);
    node_provider_file_free(p->file);
    p->fleet = fleet;
    p->file = GS_TAKE(p->next_file);
    if (p->nodes)
        node_provider_nodes_set_fleet(p->nodes, fleet);
    if (p->leads)
        node_provider_fleet_start(fleet);
    gs_info("node-provider", "%s was read again: %zu pools", p->o->pools, fleet->n_pools);
}

static void on_reload_time(void *arg)
{
    struct provider *p = arg;
    if (!node_provider_fleet_idle(p->fleet))
        return;
    gs_timer_stop(p->reload);
    use_next_file(p);
}

// The output of a running command would be lost, so no command starts until all have ended.
static void on_file_changed(void *arg)
{
    struct provider *p = arg;
    struct node_provider_file *file = NULL;
    struct gs_error *err = load_file(p, &file);
    if (err) {
        gs_err("node-provider", "the changed file is not used: %s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    node_provider_file_free(p->next_file);
    p->next_file = file;
    node_provider_fleet_set_paused(p->fleet, true);
    gs_timer_repeat(p->reload, on_reload_time, 0, RELOAD_MS);
}

// --- leadership ---

// The autoscaler gets UNAVAILABLE until the fleet has started.
static void on_leading(void *arg)
{
    struct provider *p = arg;
    p->leads = true;
    node_provider_fleet_start(p->fleet);
}

// As in Kubernetes components, a replica that loses the leadership exits and is restarted.
static void on_leadership_lost(void *arg)
{
    struct provider *p = arg;
    program_fail(p->program, gs_error_new(GS_EUNAVAIL, "another provider has taken the Lease %s/%s",
                                          p->o->lease_ns, p->o->lease_name));
}

// It stays the same after a restart, so that a restart does not wait until the Lease expires. Only
// one process can use a state directory.
static char *lease_identity(const struct node_provider_options *o)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    char *dir = realpath(o->state_dir, NULL);
    char *identity = gs_format("%s:%s", host, dir ? dir : o->state_dir);
    free(dir);
    return identity;
}

static void start_leading(struct provider *p)
{
    if (!p->nodes || !p->o->elect || p->o->keep_nodes) {
        on_leading(p);
        return;
    }
    GS_AUTO_FREE char *identity = lease_identity(p->o);
    const struct kube_election_config cfg = {.ns = p->o->lease_ns,
                                             .name = p->o->lease_name,
                                             .identity = identity,
                                             .on_leading = on_leading,
                                             .on_lost = on_leadership_lost,
                                             .arg = p};
    p->election = kube_election_new(p->loop, node_provider_nodes_client(p->nodes), &cfg);
}

static void start_watch(struct provider *p)
{
    const struct gs_file_watch_options options = {
        .loop = p->loop, .on_change = on_file_changed, .arg = p};
    p->reload = gs_timer_new(p->loop, p);
    p->watch = gs_file_watch_new(&options);
    gs_file_watch_set(p->watch, &p->o->pools, 1);
}

// --- run ---

static void on_stop(void *arg)
{
    struct provider *p = arg;
    gs_info("node-provider", "running commands go on");
    program_stopped(p->program);
}

static void finish(struct provider *p)
{
    program_close(p->program);
    gs_file_watch_free(p->watch);
    gs_timer_free(p->reload);
    grpc_tls_files_free(p->tls);
    grpc_server_free(p->grpc);
    kube_election_free(p->election);
    node_provider_nodes_free(p->nodes);
    node_provider_fleet_free(p->fleet);
    program_free(p->program);
    node_provider_state_close(p->state);
    node_provider_file_free(p->file);
    node_provider_file_free(p->next_file);
}

static void print_check(const struct node_provider_file *f)
{
    for (size_t i = 0; i < f->pools.len; i++)
        fprintf(stdout, "pool %s: %zu to %zu machines, labels %s\n", f->specs[i].name,
                f->specs[i].min, f->specs[i].max, f->specs[i].labels);
}

struct gs_error *node_provider_run(const struct node_provider_options *o)
{
    struct provider p = {.o = o};
    const struct program_config program = {.name = "node-provider",
                                           .reload = on_file_changed,
                                           .stop = on_stop,
                                           .health = is_healthy,
                                           .arg = &p};
    struct gs_error *err = check_options(o);
    if (!err)
        err = load_file(&p, &p.file);
    if (err || o->check) {
        if (!err)
            print_check(p.file);
        node_provider_file_free(p.file);
        return err;
    }
    p.program = program_new(&program);
    p.loop = program_loop(p.program);
    err = start_fleet(&p);
    if (!err)
        err = start_grpc(&p);
    if (!err)
        err = start_http(&p);
    if (!err) {
        start_leading(&p);
        start_watch(&p);
        err = program_run(p.program);
    }
    finish(&p);
    return err;
}
