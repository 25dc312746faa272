// SPDX-License-Identifier: Apache-2.0
#include "cmd/exporter/serve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/trim.h"
#include "cmd/engine/web_config.h"
#include "cmd/exporter/setup.h"

#include <signal.h>

// After the first sample, so that what opening the driver's library took is over.
enum { TRIM_AFTER_MS = 2000 };

struct run {
    uv_loop_t loop;
    uv_signal_t signals[4];
    uv_timer_t trim;
    struct exporter *exporter;
    struct counters counters;
    struct web_config *web;
    struct http_server *server;
    struct http_client *http;
    struct kube_client *kube;
    struct gs_error *err;
    int64_t started_ns;
};

static void on_signal(uv_signal_t *s, int signum)
{
    struct run *r = s->data;
    if (signum == SIGHUP) {
        gs_info("exporter", "SIGHUP: there is nothing to load anew");
        return;
    }
    gs_info("exporter", "%s: ending", strsignal(signum));
    uv_stop(&r->loop);
}

static void watch_signals(struct run *r)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, numbers[i]);
    }
}

static void on_trim(uv_timer_t *t)
{
    (void)t;
    gs_trim_memory();
}

static void on_ready(void *arg, const struct gpu_snapshot *first)
{
    struct run *r = arg;
    uv_timer_start(&r->trim, on_trim, TRIM_AFTER_MS, 0);
    gs_info("exporter", "%zu %sGPUs, driver %s, first sample after %d ms", first->n_devices,
            first->simulated ? "SIMULATED " : "", first->driver_version,
            (int)((gs_mono_ns() - r->started_ns) / GS_NS_PER_MS));
    if (first->simulated)
        gs_warn("exporter", "the GPUs are SIMULATED: no value comes from a real one");
}

static void on_open_failed(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    if (gs_error_code(err) == GS_ENOTFOUND)
        r->err = gs_error_new(GS_ENOTFOUND,
                              "%s. Without a GPU, simulated ones can be had: gpuscale exporter "
                              "--simulate 2xTesla-T4",
                              gs_error_message(err));
    else
        r->err = gs_error_new(GS_EUNAVAIL, "%s", gs_error_message(err));
    gs_error_free(err);
    uv_stop(&r->loop);
}

// Closes what is left and lets the close callbacks run.
static void finish_loop(struct run *r)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_close((uv_handle_t *)&r->trim, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
}

// The server stands in front of the exporter when it asks for passwords or speaks TLS.
static struct gs_error *start_server(struct run *r, const struct exporter_config *cfg)
{
    struct http_server_config http = {
        .address = cfg->address,
        .port = cfg->port,
        .max_body = 64 * 1024,
        .max_connections = 128,
    };
    web_config_apply(r->web, &http);
    web_config_guard(r->web, exporter_handle, r->exporter);
    return http_server_start(&r->loop, &http, web_config_handle, r->web, &r->server);
}

// Makes the client when the exporter first needs it.
static struct gs_error *connect_cluster(void *arg, struct kube_client **ret)
{
    struct run *r = arg;
    struct gs_error *err = NULL;
    if (!r->kube)
        err = exporter_connect_cluster(&r->loop, &r->http, &r->kube);
    if (!err)
        *ret = r->kube;
    return err;
}

static struct gs_error *load_configmap(struct run *r, const char *name)
{
    struct kube_client *kube = NULL;
    struct gs_error *err = connect_cluster(r, &kube);
    return err ? err : exporter_load_configmap(&r->loop, kube, name, &r->counters);
}

static struct gs_error *start_all(struct run *r, const struct exporter_opts *o,
                                  struct exporter_config *cfg)
{
    struct gs_error *err = o->configmap ? load_configmap(r, o->configmap)
                                        : exporter_load_counters(o->collectors, &r->counters);
    if (!err)
        err = web_config_load(o->web_config, &r->web);
    if (err)
        return err;
    struct exporter_config without_server = *cfg;
    without_server.address = NULL;
    without_server.names.counters = &r->counters;
    without_server.connect = connect_cluster;
    err = exporter_start(&r->loop, &without_server, &r->exporter);
    return err ? err : start_server(r, cfg);
}

static void finish_run(struct run *r, bool *ret_ended)
{
    http_server_stop(r->server);
    *ret_ended = exporter_stop(r->exporter);
    kube_client_free(r->kube);
    if (r->http)
        http_client_free(r->http);
    finish_loop(r);
    web_config_free(r->web);
    counters_finish(&r->counters);
}

struct gs_error *exporter_serve(const struct exporter_opts *o, const struct exporter_config *base,
                                bool *ret_ended)
{
    struct run r = {.started_ns = gs_mono_ns()};
    struct exporter_config cfg = *base;
    cfg.on_ready = on_ready;
    cfg.on_open_failed = on_open_failed;
    cfg.arg = &r;
    uv_loop_init(&r.loop);
    uv_timer_init(&r.loop, &r.trim);
    watch_signals(&r);
    r.err = start_all(&r, o, &cfg);
    if (!r.err) {
        gs_info("exporter", "%s://%s%s%s:%u/metrics", web_config_tls(r.web) ? "https" : "http",
                strchr(cfg.address, ':') ? "[" : "", cfg.address[0] ? cfg.address : "0.0.0.0",
                strchr(cfg.address, ':') ? "]" : "", http_server_port(r.server));
        uv_run(&r.loop, UV_RUN_DEFAULT);
    }
    finish_run(&r, ret_ended);
    return r.err;
}
