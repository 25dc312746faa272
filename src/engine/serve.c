// SPDX-License-Identifier: Apache-2.0
// `gpuscale engine` as a program: flags, addresses, external URL, cluster. Listeners open before
// the write-ahead log is read, so that probes see a healthy server that is not ready.
#include "engine/serve.h"
#include "engine/check.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/trim.h"
#include "kube/connection.h"
#include "kube/selector.h"
#include "net/program/program.h"
#include "net/web_config/web_config.h"

#include <unistd.h>

#define HEAD_MEMORY ((size_t)256 * 1024) // a GET with 5,000 match[]
// The parts have started, and targets with short intervals were scraped.
#define TRIM_MS UINT64_C(20000)
#define PROGRESS_LOG_NS                                                                            \
    (5 * GS_NS_PER_SEC) // between two log lines about the progress of the recovery

struct server {
    struct program *program;
    uv_loop_t *loop; // of the program
    struct engine *engine;
    const struct engine_extension *extension; // NULL: none
    void *extended;
    struct http_routes routes; // of the extension
    struct web_config *web;
    struct kube_connection cluster;
    char *external_url, *route_prefix, *ledger_path;
    struct http_header *flags;
    int64_t flush_deadline_ms;
    struct gs_timer *trim;
    uint64_t done_bytes, total_bytes; // of the write-ahead log, during the recovery
    int64_t logged_ns;
};

// --- addresses ---

static struct gs_error *listen_on(struct server *r, const struct engine_flags *f,
                                  const char *address)
{
    struct http_server_config http = {
        .max_body = ENGINE_MAX_BODY,
        .head_memory = HEAD_MEMORY,
        .max_connections = (unsigned)f->max_connections,
        .idle_timeout_s = (unsigned)(f->read_timeout_ns / GS_NS_PER_SEC),
    };
    web_config_apply(r->web, &http);
    const struct program_listener l = {.flag = "--web.listen-address",
                                       .address = address,
                                       .prefix = "listening on ",
                                       .path = r->route_prefix,
                                       .http = &http,
                                       .handler = web_config_handle,
                                       .ctx = r->web};
    return program_listen(r->program, &l, NULL);
}

static struct gs_error *start_servers(struct server *r, const struct engine_flags *f)
{
    struct gs_error *err = f->listen.len ? NULL : listen_on(r, f, "0.0.0.0:9090");
    for (size_t i = 0; i < f->listen.len && !err; i++)
        err = listen_on(r, f, f->listen.items[i]);
    return err;
}

// The path of the external URL without a trailing slash. "" if it has none.
static char *path_of(const char *url)
{
    const char *host = strstr(url, "://");
    const char *path = strchr(host ? host + 3 : url, '/');
    size_t n = path ? strcspn(path, "?#") : 0;
    while (n && path[n - 1] == '/')
        n--;
    return gs_strndup(path ? path : "", n);
}

static struct gs_error *read_urls(struct server *r, const struct engine_flags *f)
{
    if (f->external_url && *f->external_url) {
        if (!gs_starts(f->external_url, "http://") && !gs_starts(f->external_url, "https://"))
            return gs_error_new(GS_EINVAL, "--web.external-url \"%s\": want http://… or https://…",
                                f->external_url);
        // Paths are appended to it. As in Prometheus, slashes at its end are dropped.
        size_t n = strlen(f->external_url);
        while (f->external_url[n - 1] == '/')
            n--;
        r->external_url = gs_strndup(f->external_url, n);
    } else {
        char host[256] = "";
        gethostname(host, sizeof(host) - 1);
        const char *first = f->listen.len ? f->listen.items[0] : ":9090";
        const char *colon = strrchr(first, ':');
        r->external_url = gs_format("%s://%s%s", web_config_tls(r->web) ? "https" : "http", host,
                                    colon ? colon : "");
    }
    GS_AUTO_FREE char *prefix = f->route_prefix ? gs_format("/%s", f->route_prefix) : NULL;
    size_t slashes = prefix ? strspn(prefix, "/") : 0;
    r->route_prefix = path_of(prefix ? prefix + slashes - 1 : r->external_url);
    return NULL;
}

// --- the cluster ---

static struct gs_error *connect_kube_cluster(struct server *r, const char *kubeconfig)
{
    if (!kube_connection_wanted(kubeconfig))
        return NULL;
    struct gs_error *err = kube_connection_open(r->loop, kubeconfig, NULL, "engine", &r->cluster);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    gs_info("engine", "cluster %s", r->cluster.server);
    return NULL;
}

// --- reload and stop ---

static void on_reload(void *arg)
{
    struct server *r = arg;
    gs_error_free(engine_reload(r->engine)); // engine_reload() has logged it
}

static void on_drained(void *arg)
{
    struct server *r = arg;
    program_stopped(r->program);
}

static void on_stop(void *arg)
{
    struct server *r = arg;
    engine_stopping(r->engine);
    engine_drain(r->engine, r->flush_deadline_ms, on_drained, r);
}

static void on_quit(void *arg)
{
    struct server *r = arg;
    program_stop(r->program, "/-/quit");
}

// --- until the log is read ---

// As in Prometheus, the server is healthy but not ready, and no other endpoint is available.
static void handle_while_reading(void *arg, struct http_exchange *x)
{
    const struct server *r = arg;
    const char *path = http_path(x);
    size_t n = strlen(r->route_prefix);
    path = strncmp(path, r->route_prefix, n) == 0 ? path + n : "";
    unsigned percent = r->total_bytes ? (unsigned)(100 * r->done_bytes / r->total_bytes) : 0;
    if (gs_streq(path, "/-/healthy")) {
        http_reply_text(x, 200, "gpuscale engine is Healthy.\n");
        return;
    }
    if (gs_streq(path, "/api/v1/status/walreplay")) {
        GS_AUTO_FREE char *body =
            gs_format("{\"status\":\"success\",\"data\":{\"min\":0,\"max\":%llu,\"current\":%llu}}",
                      (unsigned long long)r->total_bytes, (unsigned long long)r->done_bytes);
        http_reply(x, 200, "application/json", gs_slice_of(body));
        return;
    }
    http_add_header(x, "X-Prometheus-Stopping", "false");
    http_add_header(x, "Retry-After", "1");
    http_reply_text(x, 503,
                    "Service Unavailable: replaying the write-ahead log, %u %% of %llu MiB\n",
                    percent, (unsigned long long)(r->total_bytes >> 20));
}

// Serves requests and signals between two parts of the log.
static bool on_recovery(void *arg, uint64_t done, uint64_t total)
{
    struct server *r = arg;
    int64_t now = gs_mono_ns();
    r->done_bytes = done;
    r->total_bytes = total;
    if (now - r->logged_ns >= PROGRESS_LOG_NS) {
        gs_info("engine", "replaying the write-ahead log: %llu of %llu MiB",
                (unsigned long long)(done >> 20), (unsigned long long)(total >> 20));
        r->logged_ns = now;
    }
    uv_run(r->loop, UV_RUN_NOWAIT);
    return !program_stopping(r->program);
}

// --- run ---

static struct gs_error *make_engine(struct server *r, const struct engine_flags *f)
{
    size_t max_bytes = 0;
    struct gs_error *err =
        f->retention_size ? engine_parse_size(f->retention_size, &max_bytes) : NULL;
    if (err)
        return gs_error_wrap(err, "--storage.tsdb.retention.size");
    size_t max_reply = 0;
    err = engine_parse_size(f->max_reply, &max_reply);
    if (err)
        return gs_error_wrap(err, "--query.max-reply-size");
    unsigned write_messages = 0;
    err = engine_receiver_messages(&f->receivers, &write_messages);
    if (err)
        return err;
    struct kube_selector selector = {0};
    err = kube_selector_parse(f->kube_monitors_selector, &selector);
    kube_selector_finish(&selector);
    if (err)
        return gs_error_wrap(err, "--kube-monitors.selector");
    if (f->storage_path) {
        r->ledger_path = gs_format("%s/ledger.db", f->storage_path);
        err = gs_mkdir_p(f->storage_path, 0755);
        if (err)
            return gs_error_wrap(err, "--storage.path");
    }
    const struct rules_timing alert_times = {f->outage_tolerance_ns / GS_NS_PER_MS,
                                             f->for_grace_ns / GS_NS_PER_MS,
                                             f->resend_delay_ns / GS_NS_PER_MS};
    struct engine_options o = {
        .config_path = f->config_file,
        .store = {.retention_ms = f->retention_ns / GS_NS_PER_MS,
                  .max_series = (size_t)f->max_series,
                  .max_bytes = max_bytes,
                  .storage_path = f->storage_path,
                  .on_recovery = on_recovery,
                  .arg = r},
        .query = {.lookback_ms = f->lookback_ns / GS_NS_PER_MS,
                  .max_samples = (size_t)f->max_samples,
                  .timeout_ms = f->query_timeout_ns / GS_NS_PER_MS},
        .dcgm_aliases = f->dcgm_aliases,
        .max_queries = (size_t)f->max_concurrency,
        .alert_times = &alert_times,
        .max_reply = max_reply,
        .kube = r->cluster.client,
        .kube_state = f->kube_state,
        .kube_rules = f->kube_rules,
        .kube_monitors = f->kube_monitors,
        .kube_inference_ms = f->kube_inference ? ENGINE_INFERENCE_MS : 0,
        .inference_table = f->inference_table,
        .kube_annotations = f->kube_annotations,
        .service_monitor_selector = f->kube_monitors_selector,
        .pod_monitor_selector = f->kube_monitors_selector,
        .kube_state_labels = f->kube_state_labels,
        .external_url = r->external_url,
        .route_prefix = r->route_prefix,
        .cors_origin = f->cors_origin,
        .enable_lifecycle = f->lifecycle,
        .write_messages = write_messages,
        .watch_files = f->auto_reload,
        .sets_log_level = true,
        .exemplars = engine_has_feature(&f->features, ENGINE_FEATURE_EXEMPLARS),
        .poll_ms = f->auto_reload_interval_ns / GS_NS_PER_MS,
        .ledger = {.enabled = true,
                   .path = r->ledger_path,
                   .prices = f->ledger_prices,
                   .owner_label = f->ledger_owner_label},
        .flags = r->flags,
        .on_quit = on_quit,
        .arg = r,
        .extension = r->extension ? &r->routes : NULL,
    };
    return engine_new(r->loop, &o, &r->engine);
}

static struct gs_error *start_engine_server(struct server *r, const struct engine_flags *f)
{
    struct gs_error *err = web_config_load(f->web_config, &r->web);
    if (!err)
        err = read_urls(r, f);
    if (!err)
        err = connect_kube_cluster(r, f->kubeconfig);
    if (err)
        return err;
    if (r->extension) {
        r->extended = r->extension->start(r->loop, r->cluster.client);
        r->routes = (struct http_routes){.rows = r->extension->rows, .ctx = r->extended};
    }
    web_config_guard(r->web, handle_while_reading, r);
    r->logged_ns = gs_mono_ns();
    err = start_servers(r, f);
    if (!err)
        err = make_engine(r, f);
    if (err)
        return err;
    web_config_guard(r->web, engine_handle, r->engine);
    if (!f->storage_path)
        gs_info("engine", "samples are kept in memory only; --storage.path keeps them across "
                          "restarts");
    return NULL;
}

static void finish_server(struct server *r)
{
    program_close(r->program);
    gs_timer_free(r->trim);
    engine_free(r->engine);
    if (r->extension)
        r->extension->free(r->extended);
    kube_connection_close(&r->cluster);
    program_free(r->program);
    web_config_free(r->web);
    engine_flag_values_free(r->flags);
    free(r->external_url);
    free(r->route_prefix);
    free(r->ledger_path);
}

static void on_trim(void *arg)
{
    (void)arg;
    gs_trim_memory();
}

static struct gs_error *check_flags(const struct engine_flags *f)
{
    if (f->retention_ns < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--storage.tsdb.retention.time: want at least 1s");
    if (f->lookback_ns < GS_NS_PER_MS)
        return gs_error_new(GS_EINVAL, "--query.lookback-delta: want at least 1ms");
    if (f->query_timeout_ns < GS_NS_PER_MS)
        return gs_error_new(GS_EINVAL, "--query.timeout: want at least 1ms");
    if (f->auto_reload_interval_ns < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--config.auto-reload-interval: want at least 1s");
    if (f->read_timeout_ns < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--web.read-timeout: want at least 1s");
    if (!f->log_level && !f->log_format)
        return NULL;
    bool text = !f->log_format || gs_streq(f->log_format, "logfmt");
    return gs_log_configure_text(f->log_level ? f->log_level : "info",
                                 text ? "text" : f->log_format);
}

struct gs_error *engine_serve(const struct engine_flags *f, const struct gs_opt *rows,
                              const struct engine_extension *extension)
{
    struct gs_error *err = check_flags(f);
    if (err)
        return err;
    engine_enable_features(&f->features);
    engine_warn_ignored_flags(f, rows);
    struct server r = {.extension = extension,
                       .flags = engine_flag_values(f, rows),
                       .flush_deadline_ms = f->flush_deadline_ns / GS_NS_PER_MS};
    const struct program_config program = {
        .name = "engine", .reload = on_reload, .stop = on_stop, .arg = &r};
    r.program = program_new(&program);
    r.loop = program_loop(r.program);
    err = start_engine_server(&r, f);
    if (!err) {
        gs_info("engine", "gpuscale %s is ready", GPUSCALE_VERSION);
        r.trim = gs_timer_new(r.loop, NULL);
        gs_timer_start(r.trim, on_trim, TRIM_MS);
        err = program_run(r.program);
    } else if (program_stopping(r.program)) { // during the recovery
        gs_error_free(GS_TAKE(err));
    }
    finish_server(&r);
    return err;
}
