// SPDX-License-Identifier: Apache-2.0
// `gpuscale adapter` as a program: HTTPS server, serving certificate, shutdown delay.
#include "adapter/adapter.h"

#include "adapter/serving/serving.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/trim.h"
#include "net/program/program.h"

enum { POLL_MS = 5000 };

struct adapter_server {
    const struct adapter_options *o;
    struct program *program;
    struct gs_timer *poll, *delay;
    struct adapter *adapter;
    struct serving *serving;
    struct serving_rotation *rotation; // NULL: the certificate is renewed elsewhere
    struct adapter_keda *keda;         // NULL: not served
    bool trimmed;                      // memory that only the start needs was returned
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
    adapter_keda_write_metrics(s->keda, out);
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

static void on_server_poll(void *arg)
{
    struct adapter_server *s = arg;
    serving_poll(s->serving);
    if (!s->trimmed && !adapter_not_ready(s->adapter)) {
        s->trimmed = true;
        gs_trim_memory();
    }
}

static void reload(void *arg)
{
    struct adapter_server *s = arg;
    serving_poll(s->serving);
    adapter_reload(s->adapter);
}

static void on_shutdown_delay(void *arg)
{
    struct adapter_server *s = arg;
    program_stopped(s->program);
}

static void on_stop(void *arg)
{
    struct adapter_server *s = arg;
    adapter_stop(s->adapter);
    adapter_keda_stop(s->keda);
    gs_timer_start(s->delay, on_shutdown_delay, (uint64_t)(s->o->shutdown_delay_ns / GS_NS_PER_MS));
}

// Before adapter_new() has returned, adapter_serve() finds the error.
static void on_adapter_fatal(void *arg)
{
    struct adapter_server *s = arg;
    if (s->adapter)
        program_fail(s->program, adapter_fatal(s->adapter));
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
    struct http_server_config http = {.request_client_cert = true,
                                      .max_connections = (unsigned)o->max_connections};
    serving_apply(s->serving, &http);
    bool all = gs_streq(o->bind_address, "::");
    GS_AUTO_FREE char *address =
        http_server_address_text(all ? "" : o->bind_address, (uint16_t)o->secure_port);
    const struct program_listener l = {.flag = "--secure-port",
                                       .address = address,
                                       .prefix = "listening on ",
                                       .path = "",
                                       .http = &http,
                                       .handler = adapter_handle,
                                       .ctx = s->adapter};
    struct http_server *server = NULL;
    err = program_listen(s->program, &l, &server);
    if (err)
        return err;
    serving_set_server(s->serving, server);
    const struct serving_rotation_options rotation = {
        .kube = adapter_kube(s->adapter), .serving = s->serving, .service = o->tls_service};
    if (rotates)
        s->rotation = serving_rotation_new(program_loop(s->program), &rotation);
    gs_timer_repeat(s->poll, on_server_poll, POLL_MS, POLL_MS);
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
    struct gs_error *err = adapter_new(program_loop(s->program), &o, &s->adapter);
    if (!err)
        err = adapter_fatal(s->adapter);
    if (!err)
        err = listen_for_requests(s);
    return err ? err
               : adapter_keda_listen(s->adapter, s->program, "--keda-listen-address", &s->keda);
}

static void release_server(struct adapter_server *s)
{
    serving_rotation_free(s->rotation);
    program_close(s->program);
    adapter_keda_free(s->keda);
    adapter_free(s->adapter);
    gs_timer_free(s->poll);
    gs_timer_free(s->delay);
    program_free(s->program);
    serving_free(s->serving);
}

struct gs_error *adapter_serve(const struct adapter_options *o)
{
    struct adapter_server s = {.o = o};
    const struct program_config program = {
        .name = "adapter", .reload = reload, .stop = on_stop, .arg = &s};
    s.program = program_new(&program);
    s.poll = gs_timer_new(program_loop(s.program), &s);
    s.delay = gs_timer_new(program_loop(s.program), &s);
    struct gs_error *err = start_adapter_server(&s);
    if (!err)
        err = program_run(s.program);
    release_server(&s);
    return err;
}
