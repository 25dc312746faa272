// SPDX-License-Identifier: Apache-2.0
// The process of `gpuscale exporter`: listeners, files that are read again, signals. A thread that
// hangs in the driver cannot be joined, so the process then ends without freeing what it uses.
#include "exporter/daemon/daemon_private.h"

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/trim.h"
#include "kube/connection.h"
#include "net/program/program.h"
#include "net/web_config/web_config.h"

#include <malloc.h>
#include <unistd.h>

// After the first sample, when the memory that opening the library needs is free again.
enum { TRIM_AFTER_MS = 2000 };
// then the exporter starts without it, and uses it when it arrives
enum { CONFIGMAP_WAIT_MS = 3000 };
enum { POLL_MS = 2000, MIN_INTERVAL_MS = 50, MAX_INTERVAL_MS = 3600000 };

struct run {
    struct program *program;
    uv_loop_t *loop; // of the program
    uv_timer_t trim;
    const struct daemon_options *opts;
    struct daemon_file file;
    struct gs_file_watch *watch;
    struct exporter *exporter;
    struct exporter_counters *counters;
    struct web_config *web;
    struct http_server *servers[PROGRAM_MAX_LISTEN_FDS]; // one, or one per socket of systemd
    size_t n_servers;
    struct kube_connection cluster;
    struct daemon_configmap *configmap; // NULL: not configured
    char *configmap_problem;            // before the exporter exists
    struct gs_error *rows_err;          // also before: an invalid row
    bool has_counters;
    int64_t started_ns;
};

// --- reloading ---

static void free_counters(struct exporter_counters *c)
{
    if (c)
        exporter_counters_finish(c);
    free(c);
}

static int64_t base_interval_ms(const struct daemon_options *o, const struct daemon_file *f)
{
    int64_t ms = o->interval_ms ? o->interval_ms : f->interval_ms;
    return ms ? ms : 1000;
}

static struct gs_error *set_groups(const struct daemon_options *o, const struct daemon_file *f,
                                   struct exporter_counters *c)
{
    struct gs_error *err = daemon_watch_groups_apply(&f->groups, base_interval_ms(o, f), c);
    return err ? gs_error_wrap(err, "--config-file %s", o->config_file) : NULL;
}

// The file of the flag or environment variable, else of the configuration file, else the default.
static struct gs_error *read_counters(const struct daemon_options *o, const struct daemon_file *f,
                                      struct exporter_counters *ret)
{
    struct gs_error *err;
    if (o->collectors || !f->rows.len)
        err = daemon_load_counters(o->collectors ? o->collectors : f->counters_file,
                                   daemon_metric_names(o), ret);
    else
        err = daemon_parse_counters(o->config_file, gs_buf_slice(&f->rows), daemon_metric_names(o),
                                    ret);
    return err ? err : set_groups(o, f, ret);
}

// After an error, the previous metrics stay in use.
static void reload_counters(struct run *r)
{
    const struct daemon_options *o = r->opts;
    struct daemon_file file = {0};
    struct exporter_counters *counters = gs_alloc(sizeof(*counters));
    struct gs_error *err = o->config_file ? daemon_file_load(o->config_file, &file) : NULL;
    if (!err)
        err = read_counters(o, &file, counters);
    if (err) {
        gs_err("exporter", "%s; the metrics are unchanged", gs_error_message(err));
        gs_error_free(err);
        free_counters(counters);
        daemon_file_finish(&file);
        return;
    }
    exporter_set_counters(r->exporter, counters);
    free_counters(r->counters);
    r->counters = counters;
    daemon_file_finish(&r->file);
    r->file = file;
    gs_info("exporter", "reloaded: %zu metrics", counters->n_families);
}

// Called after each load, because the files may name others.
static void watch_files(struct run *r)
{
    const struct daemon_options *o = r->opts;
    const char *counters =
        daemon_configmap_name(o)
            ? NULL
            : daemon_counters_path(o->collectors ? o->collectors : r->file.counters_file);
    const char *const files[] = {o->config_file, counters, o->web_config,
                                 web_config_cert_file(r->web), web_config_key_file(r->web)};
    gs_file_watch_set(r->watch, files, GS_ARRAY_LEN(files));
}

static void reload(void *arg)
{
    struct run *r = arg;
    if (daemon_configmap_name(r->opts))
        gs_info("exporter", "the ConfigMap is not reloaded: it is read at startup only");
    else
        reload_counters(r);
    struct gs_error *err = r->opts->web_config ? web_config_renew(r->web, r->opts->web_config,
                                                                  r->servers, r->n_servers)
                                               : NULL;
    if (err)
        gs_err("exporter", "%s; the web configuration is unchanged", gs_error_message(err));
    gs_error_free(err);
    watch_files(r);
}

static void on_trim(uv_timer_t *t)
{
    (void)t;
    gs_trim_memory();
}

// As in dcgm-exporter, a selected device that does not exist ends the start. A GPU that cannot be
// opened may be the selected one. If there is no GPU at all, each sample checks for new ones.
static struct gs_error *check_devices(const struct run *r, const struct gpu_snapshot *first)
{
    const char *devices = r->opts->devices;
    bool instances = devices[0] == 'i';
    unsigned n = 0;
    if (!first->n_devices || first->n_unopened ||
        !exporter_render_devices_missing(devices, first, &n))
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "--devices %s: %s %u does not exist (this machine has %zu GPUs%s)", devices,
                        instances ? "GPU instance" : "GPU", n, first->n_devices,
                        instances ? "; nvidia-smi mig -lgi lists GPU instances" : "");
}

static void on_ready(void *arg, const struct gpu_snapshot *first)
{
    struct run *r = arg;
    struct gs_error *err = check_devices(r, first);
    if (err) {
        program_fail(r->program, err);
        return;
    }
    uv_timer_start(&r->trim, on_trim, TRIM_AFTER_MS, 0);
    gs_info("exporter", "%zu %sGPUs, driver %s, first sample after %d ms", first->n_devices,
            first->simulated ? "SIMULATED " : "", first->driver_version,
            (int)((gs_mono_ns() - r->started_ns) / GS_NS_PER_MS));
    if (first->n_devices && !exporter_render_devices_match(r->opts->devices, first))
        gs_warn("exporter",
                "--devices %s: no GPU of this machine matches, so no GPU metrics are exported",
                r->opts->devices);
    if (first->simulated)
        gs_warn("exporter", "the GPUs are SIMULATED: no value comes from a real GPU");
}

static void on_open_failed(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    bool none = gs_error_code(err) == GS_ENOTFOUND;
    program_fail(r->program,
                 gs_error_new(none ? GS_ENOTFOUND : GS_EUNAVAIL, "%s%s", gs_error_message(err),
                              none ? ". To simulate GPUs, run: gpuscale exporter "
                                     "--simulate 2xTesla-T4"
                                   : ""));
    gs_error_free(err);
}

static void log_sockets(const struct run *r)
{
    gs_info("exporter", "listening on the socket%s that systemd passed",
            r->n_servers > 1 ? "s" : "");
}

static struct gs_error *start_servers(struct run *r)
{
    int fds[PROGRAM_MAX_LISTEN_FDS] = {0};
    size_t n = 1;
    bool passed = r->opts->systemd_socket;
    struct http_server_config http = {.max_body = 64 * 1024, .max_connections = 128};
    const struct program_listener l = {.flag = "--address",
                                       .address = r->opts->address,
                                       .path = passed ? NULL : "/metrics",
                                       .http = &http,
                                       .handler = web_config_handle,
                                       .ctx = r->web};
    struct gs_error *err = passed ? program_take_listen_fds(fds, &n) : NULL;
    if (err)
        return gs_error_wrap(err, "--web-systemd-socket");
    web_config_apply(r->web, &http);
    web_config_guard(r->web, exporter_handle, r->exporter);
    for (size_t i = 0; i < n && !err; i++) {
        http.listen_fd = fds[i];
        err = program_listen(r->program, &l, &r->servers[i]);
        r->n_servers += !err;
    }
    if (!err && passed)
        log_sockets(r);
    return err;
}

// Creates the client when the exporter first needs it.
static struct gs_error *daemon_connect(void *arg, struct kube_client **ret)
{
    struct run *r = arg;
    struct gs_error *err = r->cluster.client
                               ? NULL
                               : kube_connection_open(r->loop, NULL, NULL, "exporter", &r->cluster);
    if (err)
        return gs_error_wrap(err, "connecting to the Kubernetes API");
    *ret = r->cluster.client;
    return NULL;
}

// --- the ConfigMap ---

static void use_counters(struct run *r, struct exporter_counters *counters)
{
    if (r->exporter)
        exporter_set_counters(r->exporter, counters);
    free_counters(r->counters);
    r->counters = counters;
    r->has_counters = true;
}

static struct gs_error *on_configmap(void *arg, const char *source, struct gs_slice text)
{
    struct run *r = arg;
    struct exporter_counters *counters = gs_alloc(sizeof(*counters));
    struct gs_error *err =
        daemon_parse_counters(source, text, daemon_metric_names(r->opts), counters);
    if (!err)
        err = set_groups(r->opts, &r->file, counters);
    if (err) {
        free_counters(counters);
        if (!r->exporter && !r->rows_err)
            r->rows_err =
                gs_error_new(gs_error_code(err), "--configmap-data: %s", gs_error_message(err));
        return err;
    }
    if (r->exporter)
        gs_info("exporter", "%s: %zu metrics", source, counters->n_families);
    use_counters(r, counters);
    if (r->exporter)
        exporter_set_source(r->exporter, EXPORTER_SOURCE_CONFIGMAP, NULL);
    return NULL;
}

static void on_configmap_problem(void *arg, const char *problem)
{
    struct run *r = arg;
    if (r->exporter)
        gs_warn("exporter", "%s", problem);
    free(r->configmap_problem);
    r->configmap_problem = gs_strdup(problem);
}

static void on_wait_over(uv_timer_t *t)
{
    *(bool *)t->data = true;
}

// An invalid ConfigMap ends the start; an unavailable one does not.
static struct gs_error *await_configmap(struct run *r)
{
    const struct daemon_configmap_config cfg = {
        .name = r->opts->configmap,
        .connect = daemon_connect,
        .on_text = on_configmap,
        .on_problem = on_configmap_problem,
        .arg = r,
    };
    uv_timer_t timer;
    bool over = false;
    uv_timer_init(r->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, on_wait_over, CONFIGMAP_WAIT_MS, 0);
    r->configmap = daemon_configmap_start(r->loop, &cfg);
    while (!daemon_configmap_answered(r->configmap) && !over && !program_stopping(r->program))
        uv_run(r->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(r->loop, UV_RUN_NOWAIT);
    if (over && !r->configmap_problem)
        r->configmap_problem =
            gs_format("--configmap-data: no response in %d s", CONFIGMAP_WAIT_MS / 1000);
    return GS_TAKE(r->rows_err);
}

static struct gs_error *load_counters(struct run *r)
{
    struct gs_error *err = daemon_configmap_name(r->opts) ? await_configmap(r) : NULL;
    return err || r->has_counters ? err : read_counters(r->opts, &r->file, r->counters);
}

// The sampling interval is that of the most frequent watch group. Fields of other groups are
// skipped in some samples.
static struct gs_error *set_interval(const struct run *r, struct exporter_config *cfg)
{
    int64_t ms = base_interval_ms(r->opts, &r->file);
    int64_t shortest = daemon_watch_groups_shortest_ms(&r->file.groups);
    if (shortest && shortest < ms)
        ms = shortest;
    if (ms < MIN_INTERVAL_MS || ms > MAX_INTERVAL_MS)
        return gs_error_new(GS_EINVAL, "--config-file: collection: intervals: want %d ms to 1 h",
                            MIN_INTERVAL_MS);
    cfg->interval_ns = ms * GS_NS_PER_MS;
    return NULL;
}

static struct gs_error *start_all(struct run *r, const struct daemon_options *o,
                                  struct exporter_config *cfg)
{
    struct gs_error *err = o->config_file ? daemon_file_load(o->config_file, &r->file) : NULL;
    if (!err)
        err = set_interval(r, cfg);
    if (!err)
        err = load_counters(r);
    if (!err)
        err = web_config_load(o->web_config, &r->web);
    if (err)
        return err;
    const struct gs_file_watch_options watch = {
        .loop = r->loop, .poll_ms = POLL_MS, .on_change = reload, .arg = r};
    r->watch = gs_file_watch_new(&watch);
    watch_files(r);
    cfg->names.counters = r->counters;
    cfg->process_metrics = o->exporter_metrics || r->file.exporter_metrics;
    cfg->connect = daemon_connect;
    err = exporter_start(r->loop, cfg, &r->exporter);
    if (!err && daemon_configmap_name(o))
        exporter_set_source(r->exporter, EXPORTER_SOURCE_CONFIGMAP,
                            r->has_counters ? NULL : r->configmap_problem);
    return err ? err : start_servers(r);
}

static void finish_run(struct run *r, bool *ret_ended)
{
    program_close(r->program);
    *ret_ended = exporter_stop(r->exporter);
    daemon_configmap_stop(r->configmap);
    free(r->configmap_problem);
    gs_error_free(r->rows_err);
    kube_connection_close(&r->cluster);
    uv_close((uv_handle_t *)&r->trim, NULL);
    gs_file_watch_free(r->watch);
    program_free(r->program);
    web_config_free(r->web);
    free_counters(r->counters);
    daemon_file_finish(&r->file);
}

static struct gs_error *serve(const struct daemon_options *o, const struct exporter_config *base,
                              bool *ret_ended)
{
    struct run r = {
        .started_ns = gs_mono_ns(), .opts = o, .counters = gs_alloc(sizeof(*r.counters))};
    const struct program_config program = {
        .name = "exporter", .reload = reload, .arg = &r, .stops_on_quit = true};
    struct exporter_config cfg = *base;
    cfg.on_ready = on_ready;
    cfg.on_open_failed = on_open_failed;
    cfg.arg = &r;
    r.program = program_new(&program);
    r.loop = program_loop(r.program);
    uv_timer_init(r.loop, &r.trim);
    struct gs_error *err = start_all(&r, o, &cfg);
    if (!err)
        err = program_run(r.program);
    if (program_stopping(r.program)) // errors caused by the stop are not failures
        gs_error_free(GS_TAKE(err));
    finish_run(&r, ret_ended);
    return err;
}

// --- the process ---

// Splits at commas. The names point into *copy.
static void split_names(char *copy, struct gs_opt_list *ret)
{
    char *rest = copy;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        if (!*name)
            continue;
        gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
        ret->items[ret->len++] = name;
    }
}

static void warn_without_node_name(const struct daemon_options *o)
{
    if (o->kubernetes && getenv("KUBERNETES_SERVICE_HOST") && !(o->node_name && *o->node_name))
        gs_warn("exporter",
                "NODE_NAME is not set: the pod's host name is used as the name of the node, and "
                "the pods of all nodes are watched. Set NODE_NAME from the field spec.nodeName");
}

struct gs_error *daemon_run(const struct daemon_options *o, bool *ret_hangs)
{
    bool ended = true;
    mallopt(M_ARENA_MAX, 2); // the threads of the GPUs allocate little and rarely at the same time
    warn_without_node_name(o);

    char hostname[256] = "";
    gethostname(hostname, sizeof(hostname) - 1);
    const char *node = o->node_name && *o->node_name ? o->node_name : hostname;
    GS_AUTO_FREE char *names = gs_strdup(o->resource_names ? o->resource_names : "");
    struct gs_opt_list extra = {0};
    split_names(names, &extra);
    struct exporter_config cfg = {
        .backend.library = o->nvml_library,
        .backend.simulated_only = o->simulated_only,
        .backend.sys = o->host_sys,
        .wait_for_driver = o->wait_for_driver == GS_SWITCH_ON ||
                           (o->wait_for_driver == GS_SWITCH_UNSET && o->kubernetes),
        .driver_wait_limit_ns = o->driver_wait_limit_ns,
        .stuck_after_ns = o->driver_timeout_ns,
        .names =
            {
                .hostname_label = o->no_hostname ? NULL : o->hostname_label,
                .hostname = node,
                .node_name = node,
                .old_namespace = o->old_namespace,
                .replace_blanks = o->replace_blanks,
                .virtual_gpus = o->virtual_gpus,
                .dra = o->dra,
                .devices = o->devices,
                .hpc_dir = o->hpc_dir,
                .xid_window_ms = (uint64_t)o->xid_window_ms,
                .clock_window_ms = (uint64_t)o->clock_window_ms,
                .timestamps = o->timestamps,
            },
        .backend.max_util = o->max_util,
        .podresources_socket = o->kubernetes ? daemon_find_socket(o->socket) : NULL,
        .podresources_interval_ns = o->podresources_interval_ns,
        .extra_resources = extra.items,
        .n_extra_resources = extra.len,
        .proc = o->host_proc,
        .node_name = o->node_name && *o->node_name ? o->node_name : NULL,
        .pod_labels = o->pod_labels,
        .pod_uid = o->pod_uid,
        .require_gpus = o->require_gpus,
        .label_allowlist = o->label_regex,
    };
    struct gs_error *err = serve(o, &cfg, &ended);
    free(extra.items);
    *ret_hangs = !ended;
    if (!ended)
        gs_warn("exporter", "shutting down; a driver call has not returned");
    return err;
}
