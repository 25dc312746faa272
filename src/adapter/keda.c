// SPDX-License-Identifier: Apache-2.0
// KEDA's external scaler of an adapter: its listener, and the program that has nothing else.
#include "adapter/adapter_private.h"

#include "adapter/keda_scaler/keda_scaler.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/grpc/tls_files.h"
#include "net/program/program.h"

struct adapter_keda {
    struct adapter *adapter;
    struct grpc_server *server;
    struct grpc_tls_files *files; // NULL: cleartext
    struct keda_scaler *scaler;
};

static bool given(const char *s)
{
    return s && *s;
}

// --- the listener ---

static struct provider *current_provider(void *arg)
{
    const struct adapter_keda *k = arg;
    return k->adapter->now.provider;
}

static const char *keda_not_ready(void *arg)
{
    const struct adapter_keda *k = arg;
    return adapter_not_ready(k->adapter);
}

static struct gs_error *start_tls(struct adapter_keda *k)
{
    const struct adapter_options *o = &k->adapter->o;
    if (!given(o->keda_cert_file) && !given(o->keda_key_file) && !given(o->keda_client_ca_file))
        return NULL;
    if (!given(o->keda_cert_file) || !given(o->keda_key_file))
        return gs_error_new(GS_EINVAL, "TLS for KEDA needs a certificate and its key: give both "
                                       "files");
    const struct grpc_tls_paths paths = {
        .cert_file = o->keda_cert_file,
        .key_file = o->keda_key_file,
        .client_ca_file = given(o->keda_client_ca_file) ? o->keda_client_ca_file : NULL};
    struct gs_error *err = grpc_tls_files_new(k->adapter->loop, k->server, &paths, &k->files);
    return err ? gs_error_wrap(err, "the certificate for KEDA") : NULL;
}

static void make_scaler(struct adapter_keda *k)
{
    struct adapter *a = k->adapter;
    const struct keda_scaler_options o = {.provider = current_provider,
                                          .not_ready = keda_not_ready,
                                          .changes = adapter_api_changes(a->api),
                                          .source = a->source,
                                          .arg = k};
    k->server = grpc_server_new(a->loop);
    k->scaler = keda_scaler_new(a->loop, k->server, &o);
}

struct gs_error *adapter_keda_listen(struct adapter *a, struct program *p, const char *flag,
                                     struct adapter_keda **ret)
{
    if (!given(a->o.keda_listen))
        return NULL;
    GS_AUTO_FREE char *where = NULL;
    struct adapter_keda *k = gs_alloc(sizeof(*k));
    k->adapter = a;
    make_scaler(k);
    struct gs_error *err = start_tls(k);
    if (!err)
        err = program_listen_grpc(p, flag, a->o.keda_listen, k->server, &where);
    *ret = k; // it is freed after program_close(), which uses its server
    if (!err)
        gs_info("keda-scaler", "listening for KEDA on %s, %s", where,
                !k->files                         ? "without TLS"
                : given(a->o.keda_client_ca_file) ? "TLS with client certificates"
                                                  : "TLS");
    return err;
}

// The client connects again without an error: to another replica, because this one does not listen.
void adapter_keda_stop(struct adapter_keda *k)
{
    if (!k)
        return;
    grpc_server_drain(k->server);
    grpc_server_goaway(k->server);
    keda_scaler_end_streams(k->scaler);
}

void adapter_keda_write_metrics(const struct adapter_keda *k, struct gs_buf *out)
{
    if (k)
        keda_scaler_write_metrics(k->scaler, out);
}

void adapter_keda_free(struct adapter_keda *k)
{
    if (!k)
        return;
    grpc_tls_files_free(k->files);
    grpc_server_free(k->server);
    keda_scaler_free(k->scaler);
    free(k);
}

// --- the program ---

struct keda_program {
    const struct adapter_options *o;
    struct program *program;
    struct adapter *adapter;
    struct adapter_keda *keda;
};

static bool keda_health(void *arg, bool readiness, struct gs_buf *details)
{
    struct keda_program *s = arg;
    const char *not_ready = readiness && s->adapter ? adapter_not_ready(s->adapter) : NULL;
    if (not_ready)
        gs_buf_addf(details, "%s\n", not_ready);
    return !not_ready;
}

static void keda_reload(void *arg)
{
    struct keda_program *s = arg;
    adapter_reload(s->adapter);
}

static void keda_stop(void *arg)
{
    struct keda_program *s = arg;
    adapter_keda_stop(s->keda);
    program_stopped(s->program);
}

static void on_keda_fatal(void *arg)
{
    struct keda_program *s = arg;
    if (s->adapter)
        program_fail(s->program, adapter_fatal(s->adapter));
}

static void write_program_metrics(void *arg, struct gs_buf *out)
{
    const struct keda_program *s = arg;
    adapter_keda_write_metrics(s->keda, out);
}

// The metrics of rules and sources, too.
static void handle_metrics(void *arg, struct http_exchange *x)
{
    const struct keda_program *s = arg;
    adapter_handle(s->adapter, x);
}

static struct gs_error *start_keda(struct keda_program *s)
{
    static const struct http_route routes[] = {{.path = "/metrics", .handle = handle_metrics}, {0}};
    const struct program_listener web = {.flag = "--web.listen-address",
                                         .address = s->o->web_listen,
                                         .optional = true,
                                         .path = "/metrics",
                                         .rows = routes,
                                         .ctx = s};
    struct adapter_options o = *s->o;
    o.trusted = true; // no request of an API is served
    o.kubeconfig_flag = "kubeconfig";
    o.on_fatal = on_keda_fatal;
    o.write_metrics = write_program_metrics;
    o.arg = s;
    struct gs_error *err = adapter_new(program_loop(s->program), &o, &s->adapter);
    if (!err)
        err = adapter_fatal(s->adapter);
    if (!err)
        err = adapter_keda_listen(s->adapter, s->program, "--grpc-listen-address", &s->keda);
    return err ? err : program_listen(s->program, &web, NULL);
}

struct gs_error *adapter_serve_keda(const struct adapter_options *o)
{
    struct keda_program s = {.o = o};
    const struct program_config program = {.name = "keda-scaler",
                                           .reload = keda_reload,
                                           .stop = keda_stop,
                                           .health = keda_health,
                                           .arg = &s};
    if (!given(o->keda_listen))
        return gs_error_new(GS_EINVAL, "--grpc-listen-address is empty");
    s.program = program_new(&program);
    struct gs_error *err = start_keda(&s);
    if (!err)
        err = program_run(s.program);
    program_close(s.program);
    adapter_keda_free(s.keda);
    adapter_free(s.adapter);
    program_free(s.program);
    return err;
}
