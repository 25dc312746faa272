// SPDX-License-Identifier: Apache-2.0
// `gpuscale adapter` as a process: HTTPS server, serving certificate, signals.
#include "adapter/adapter.h"

#include "adapter/serving/serving.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/trim.h"
#include "net/http/server.h"

#include <signal.h>

enum { POLL_MS = 5000, DRAIN_STEP_MS = 5, DRAIN_MS = 25000, N_SIGNALS = 3 };

struct adapter_server {
    const struct adapter_options *o;
    uv_loop_t loop;
    uv_signal_t signals[N_SIGNALS];
    uv_timer_t poll;
    struct adapter *adapter;
    struct serving *serving;
    struct serving_rotation *rotation; // NULL: the certificate is renewed elsewhere
    struct http_server *http;
    bool stopping;   // a signal came
    int64_t stop_ns; // when the last requests were awaited; 0: not yet
    bool trimmed;    // memory that only the start needs was returned
};

static const char *server_not_ready(void *arg)
{
    const struct adapter_server *s = arg;
    return s->rotation ? serving_rotation_error(s->rotation) : NULL;
}

static void write_server_metrics(void *arg, struct gs_buf *out)
{
    const struct adapter_server *s = arg;
    gs_buf_addf(out,
                "# HELP gpuscale_adapter_certificate_expiry_timestamp_seconds When the serving "
                "certificate expires.\n"
                "# TYPE gpuscale_adapter_certificate_expiry_timestamp_seconds gauge\n"
                "gpuscale_adapter_certificate_expiry_timestamp_seconds %lld\n",
                (long long)(s->serving ? serving_expiry(s->serving) : 0));
}

static void add_server_status(void *arg, json_t *out)
{
    const struct adapter_server *s = arg;
    json_t *certificate = json_object();
    if (s->serving)
        codec_json_set_int(certificate, "expires", serving_expiry(s->serving));
    codec_json_set_str(certificate, "error",
                       s->rotation ? serving_rotation_error(s->rotation) : NULL);
    json_object_set_new(out, "certificate", certificate);
}

static void on_server_poll(uv_timer_t *t)
{
    struct adapter_server *s = t->data;
    serving_poll(s->serving);
    if (!s->trimmed && !adapter_not_ready(s->adapter)) {
        s->trimmed = true;
        gs_trim_memory();
    }
}

// Requests in progress finish before the process exits.
static void on_drain_timer(uv_timer_t *t)
{
    struct adapter_server *s = t->data;
    if (adapter_idle(s->adapter) || gs_mono_ns() - s->stop_ns > DRAIN_MS * GS_NS_PER_MS)
        uv_stop(&s->loop);
}

static void drain_server(struct adapter_server *s)
{
    s->stop_ns = gs_mono_ns();
    http_server_drain(s->http);
    uv_timer_start(&s->poll, on_drain_timer, 0, DRAIN_STEP_MS);
}

static void on_shutdown_delay(uv_timer_t *t)
{
    drain_server(t->data);
}

static void on_server_signal(uv_signal_t *signal, int number)
{
    struct adapter_server *s = signal->data;
    if (number == SIGHUP) {
        if (s->http)
            serving_poll(s->serving);
        if (s->adapter)
            adapter_reload(s->adapter);
        return;
    }
    bool again = s->stopping;
    gs_info("adapter", "%s: stopping", strsignal(number));
    s->stopping = true;
    if (!s->http || s->stop_ns != 0) {
        uv_stop(&s->loop);
        return;
    }
    adapter_stop(s->adapter);
    if (again || s->o->shutdown_delay_ns == 0)
        drain_server(s);
    else
        uv_timer_start(&s->poll, on_shutdown_delay,
                       (uint64_t)(s->o->shutdown_delay_ns / GS_NS_PER_MS), 0);
}

static void on_adapter_fatal(void *arg)
{
    struct adapter_server *s = arg;
    uv_stop(&s->loop);
}

static void handle_signals(struct adapter_server *s)
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < N_SIGNALS; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_server_signal, numbers[i]);
    }
    uv_timer_init(&s->loop, &s->poll);
    s->poll.data = s;
}

static struct gs_error *listen_for_requests(struct adapter_server *s)
{
    const struct adapter_options *o = s->o;
    bool rotates = o->tls_service && *o->tls_service;
    const struct serving_options serving = {.cert_file = o->tls_cert_file,
                                            .key_file = o->tls_key_file,
                                            .cert_dir = o->cert_dir,
                                            .handed = rotates};
    struct gs_error *err = rotates ? serving_check_service(o->tls_service) : NULL;
    if (!err)
        err = serving_new(&serving, &s->serving);
    if (err)
        return err;
    struct http_server_config server = {.address =
                                            gs_streq(o->bind_address, "::") ? "" : o->bind_address,
                                        .port = (uint16_t)o->secure_port,
                                        .request_client_cert = true,
                                        .max_connections = (unsigned)o->max_connections};
    serving_apply(s->serving, &server);
    err = http_server_start(&s->loop, &server, adapter_handle, s->adapter, &s->http);
    if (err)
        return gs_error_wrap(err, "--secure-port");
    serving_set_server(s->serving, s->http);
    const struct serving_rotation_options rotation = {
        .kube = adapter_kube(s->adapter), .serving = s->serving, .service = o->tls_service};
    if (rotates)
        s->rotation = serving_rotation_new(&s->loop, &rotation);
    gs_info("adapter", "listening on https://%s:%u", o->bind_address, http_server_port(s->http));
    uv_timer_start(&s->poll, on_server_poll, POLL_MS, POLL_MS);
    return NULL;
}

static struct gs_error *start_adapter_server(struct adapter_server *s)
{
    struct adapter_options o = *s->o;
    if (o.shutdown_delay_ns < 0)
        return gs_error_new(GS_EINVAL, "--shutdown-delay-duration is negative");
    o.on_fatal = on_adapter_fatal;
    o.not_ready = server_not_ready;
    o.write_metrics = write_server_metrics;
    o.add_status = add_server_status;
    o.arg = s;
    struct gs_error *err = adapter_new(&s->loop, &o, &s->adapter);
    return err ? err : listen_for_requests(s);
}

static void release_server(struct adapter_server *s)
{
    serving_rotation_free(s->rotation);
    http_server_stop(s->http);
    adapter_free(s->adapter);
    for (size_t i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    uv_close((uv_handle_t *)&s->poll, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    serving_free(s->serving);
}

struct gs_error *adapter_serve(const struct adapter_options *o)
{
    struct adapter_server s = {.o = o};
    gs_raise_file_limit();
    uv_loop_init(&s.loop);
    handle_signals(&s);
    struct gs_error *err = start_adapter_server(&s),
                    *fatal = s.adapter ? adapter_fatal(s.adapter) : NULL;
    if (!err && !fatal) {
        uv_run(&s.loop, UV_RUN_DEFAULT);
        fatal = adapter_fatal(s.adapter);
    }
    release_server(&s);
    if (!err)
        return fatal;
    gs_error_free(fatal);
    return err;
}
