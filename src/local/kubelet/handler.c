// SPDX-License-Identifier: Apache-2.0
// One run of a probe's or hook's handler: exec, httpGet, tcpSocket or grpc, with the texts of
// Kubernetes' prober. The first outcome counts, and is reported from a fresh stack, because the
// receiver may free everything.
#include "local/kubelet/probe.h"

#include "base/mem.h"
#include "kube/object.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/process.h"
#include "local/ports.h"
#include "net/grpc/grpc.h"
#include "net/http/client.h"

#include <limits.h>

enum { MAX_OUTPUT = 10 * 1024, MAX_REPLY = 1024 * 1024, MAX_HEADERS = 64 };

// Outlives its handler until libuv has closed it.
struct connect_try {
    uv_tcp_t tcp;
    uv_connect_t request;
    struct kubelet_handler *handler; // NULL: was cancelled
};

struct kubelet_handler {
    struct kubelet_container *c;
    kubelet_handler_done done;
    void *arg;
    unsigned timeout_ms; // 0: none
    struct gs_timer *deadline;
    struct gs_timer *finish; // gives the outcome out of a fresh stack, where all may be freed
    bool ok;
    char *message; // set: over
    // exec
    struct kubelet_process *process;
    struct gs_buf output;
    char *command;
    // httpGet
    struct http_client *http;
    char *url;
    // tcpSocket
    struct connect_try *try;
    char *target; // "127.64.0.1:80"
    // grpc
    struct grpc_client *grpc;
};

static void handler_free(struct kubelet_handler *h)
{
    gs_timer_free(h->deadline);
    gs_timer_free(h->finish);
    kubelet_process_free(h->process);
    gs_buf_finish(&h->output);
    http_client_free(h->http);
    if (h->try)
        h->try->handler = NULL;
    grpc_client_free(h->grpc);
    free(h->message);
    free(h->command);
    free(h->url);
    free(h->target);
    free(h);
}

void kubelet_handler_cancel(struct kubelet_handler *h)
{
    if (h)
        handler_free(h);
}

static void on_finish(void *arg)
{
    struct kubelet_handler *h = arg;
    h->done(h->arg, h->ok, h->message);
    handler_free(h);
}

// The first outcome counts.
static void finish(struct kubelet_handler *h, bool ok, const char *fmt, ...) GS_PRINTF(3, 4);
static void finish(struct kubelet_handler *h, bool ok, const char *fmt, ...)
{
    if (h->message)
        return;
    va_list ap;
    va_start(ap, fmt);
    h->message = gs_vformat(fmt, ap);
    va_end(ap);
    h->ok = ok;
    gs_timer_stop(h->deadline);
    gs_timer_start(h->finish, on_finish, 0);
}

static void finish_error(struct kubelet_handler *h, struct gs_error *err)
{
    finish(h, false, "%s", gs_error_message(err));
    gs_error_free(err);
}

// --- exec ---

static void on_output(void *arg, struct gs_slice bytes)
{
    struct kubelet_handler *h = arg;
    size_t room = MAX_OUTPUT - h->output.len;
    gs_buf_add(&h->output, bytes.data, bytes.len < room ? bytes.len : room);
}

static void on_process_exit(void *arg, const struct kubelet_process_exit *e)
{
    struct kubelet_handler *h = arg;
    if (e->exit_code == 0)
        finish(h, true, "%s", "");
    else if (h->output.len)
        finish(h, false, "%s", h->output.data);
    else
        finish(h, false, "command \"%s\" exited with %d", h->command, e->exit_code);
}

static void start_exec(struct kubelet_handler *h, const json_t *spec)
{
    static const struct kubelet_process_callbacks callbacks = {.on_output = on_output,
                                                               .on_exit = on_process_exit};
    struct kubelet_container *c = h->c;
    GS_CLEANUP(kubelet_words_finish) struct kubelet_words argv = {0};
    GS_AUTO_BUF struct gs_buf line = {0};
    size_t i;
    json_t *word;
    json_array_foreach (json_object_get(spec, "command"), i, word) {
        const char *text = json_string_value(word);
        kubelet_words_add(&argv, text ? text : "");
        gs_buf_addf(&line, "%s%s", i ? " " : "", text ? text : "");
    }
    if (!argv.len || !c->env.words.len || !c->cwd) {
        finish(h, false, "no command is given");
        return;
    }
    char hostname[KUBELET_HOSTNAME_SIZE];
    h->command = gs_buf_take(&line);
    struct kubelet_process_spec process = {
        .self_exe = c->worker->k->self_exe,
        .argv = argv.items,
        .env = c->env.words.items,
        .cwd = c->mounted ? "/" : c->cwd,
        .join = c->mounted ? kubelet_container_pid(c) : 0,
        .hostname = kubelet_worker_hostname(c->worker, hostname),
        .inner_cwd = c->mounted ? c->cwd : NULL,
        .preload = c->worker->k->podnet,
    };
    struct gs_error *err =
        kubelet_process_start(c->worker->k->cluster->loop, &process, &callbacks, h, &h->process);
    if (err)
        finish_error(h, err);
}

// --- where ---

// Host and port of a handler, "127.64.0.1:80". NULL after an outcome: there is no such port.
static char *target_of(struct kubelet_handler *h, const json_t *spec)
{
    const char *host = codec_json_str(spec, "host", NULL);
    const json_t *port = json_object_get(spec, "port");
    int number = kubelet_container_port(h->c, port);
    if (!host || !*host)
        host = h->c->worker->ip;
    // The ports of other hosts are where they are.
    if (number && gs_streq(host, h->c->worker->ip))
        number = local_port_by(h->c->worker->ports, number);
    if (number && host)
        return gs_format(strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, number);
    finish(h, false, "couldn't find port: %s",
           json_string_value(port) ? json_string_value(port) : "0");
    return NULL;
}

// By libcurl's texts; the wording changed between its versions.
static bool is_refusal(const struct gs_error *err)
{
    static const char *const texts[] = {"refused", "couldn't connect", "could not connect"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        if (strcasestr(gs_error_message(err), texts[i]))
            return true;
    return false;
}

// --- httpGet ---

static void on_body(void *arg, struct gs_slice bytes)
{
    (void)arg, (void)bytes; // only the code matters
}

static void on_answer(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct kubelet_handler *h = arg;
    if (err && gs_error_code(err) == GS_ETIMEOUT)
        finish(h, false,
               "Get \"%s\": context deadline exceeded (Client.Timeout exceeded while "
               "awaiting headers)",
               h->url);
    else if (err && is_refusal(err))
        finish(h, false, "Get \"%s\": dial tcp %s: connect: connection refused", h->url, h->target);
    else if (err)
        finish(h, false, "Get \"%s\": %s", h->url, gs_error_message(err));
    else if (response->status >= 200 && response->status < 400)
        finish(h, true, "%s", "");
    else
        finish(h, false, "HTTP probe failed with statuscode: %d", response->status);
    gs_error_free(err);
}

static size_t list_headers(const json_t *spec, struct http_header headers[MAX_HEADERS + 1])
{
    size_t n = 0, i;
    json_t *header;
    json_array_foreach (json_object_get(spec, "httpHeaders"), i, header) {
        const char *name = codec_json_str(header, "name", NULL);
        const char *value = codec_json_str(header, "value", NULL);
        if (name && *name && n < MAX_HEADERS)
            headers[n++] = (struct http_header){name, value ? value : ""};
    }
    headers[n] = (struct http_header){0};
    return n;
}

static void start_http(struct kubelet_handler *h, const json_t *spec)
{
    static const struct http_callbacks callbacks = {.on_data = on_body, .on_done = on_answer};
    const char *path = codec_json_str(spec, "path", NULL);
    bool https = gs_streq(codec_json_str(spec, "scheme", NULL), "HTTPS");
    h->target = target_of(h, spec);
    if (!h->target)
        return;
    if (!path || !*path)
        path = "/";
    h->url = gs_format("%s://%s%s%s", https ? "https" : "http", h->target, *path == '/' ? "" : "/",
                       path);
    GS_AUTO_FREE char *base = gs_format("%s://%s", https ? "https" : "http", h->target);
    struct http_client_config config = {
        .base_url = base,
        .insecure = true, // the kubelet does not verify either
        .user_agent = "kube-probe/" KUBE_VERSION,
        .connect_timeout_ms = h->timeout_ms,
    };
    struct gs_error *err = http_client_new_curl(h->c->worker->k->cluster->loop, &config, &h->http);
    if (err) {
        finish_error(h, err);
        return;
    }
    struct http_header headers[MAX_HEADERS + 1];
    list_headers(spec, headers);
    struct http_request call = {
        .path = h->url + strlen(base),
        .headers = headers,
        .timeout_ms = h->timeout_ms,
        .max_reply = MAX_REPLY,
    };
    http_send(h->http, &call, &callbacks, h);
}

// --- tcpSocket ---

static void on_try_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_connect(uv_connect_t *request, int status)
{
    struct connect_try *try = request->data;
    struct kubelet_handler *h = try->handler;
    if (h && status == 0)
        finish(h, true, "%s", "");
    else if (h)
        finish(h, false, "dial tcp %s: connect: %s", h->target, uv_strerror(status));
    if (h)
        h->try = NULL;
    uv_close((uv_handle_t *)&try->tcp, on_try_closed);
}

static void start_tcp(struct kubelet_handler *h, const json_t *spec)
{
    h->target = target_of(h, spec);
    char *colon = h->target ? strrchr(h->target, ':') : NULL;
    if (!colon)
        return;
    GS_AUTO_FREE char *host = gs_strndup(h->target, (size_t)(colon - h->target));
    struct sockaddr_in address;
    if (uv_ip4_addr(host, (int)strtol(colon + 1, NULL, 10), &address) < 0) {
        finish(h, false, "dial tcp %s: only IPv4 addresses are supported here", h->target);
        return;
    }
    struct connect_try *try = gs_alloc(sizeof(*try));
    *try = (struct connect_try){.handler = h};
    uv_tcp_init(h->c->worker->k->cluster->loop, &try->tcp);
    try->tcp.data = try->request.data = try;
    int rc =
        uv_tcp_connect(&try->request, &try->tcp, (const struct sockaddr *)&address, on_connect);
    if (rc == 0) {
        h->try = try;
        return;
    }
    finish(h, false, "dial tcp %s: connect: %s", h->target, uv_strerror(rc));
    uv_close((uv_handle_t *)&try->tcp, on_try_closed);
}

// --- grpc ---

// grpc.health.v1.HealthCheckResponse: field 1, an enumeration; 1 is SERVING.
static void on_health(void *arg, const struct grpc_reply *reply)
{
    struct kubelet_handler *h = arg;
    if (reply->status != GRPC_OK)
        finish(h, false, "error: health rpc probe failed: %s (code %d)", reply->message,
               (int)reply->status);
    else if (gs_slice_eq(reply->body, GS_SLICE("\x08\x01")))
        finish(h, true, "%s", "");
    else
        finish(h, false, "service unhealthy (responded with \"NOT_SERVING\")");
}

static void start_grpc(struct kubelet_handler *h, const json_t *spec)
{
    const char *service = codec_json_str(spec, "service", NULL);
    h->target = target_of(h, spec);
    if (!h->target)
        return;
    struct gs_error *err = grpc_client_new(h->c->worker->k->cluster->loop, h->target, &h->grpc);
    if (err) {
        finish_error(h, err);
        return;
    }
    GS_AUTO_BUF struct gs_buf request = {0};
    size_t len = service ? strnlen(service, 127) : 0;
    if (len) {
        gs_buf_add_char(&request, 0x0a); // field 1, a string
        gs_buf_add_char(&request, (char)len);
        gs_buf_add(&request, service, len);
    }
    grpc_client_call(h->grpc, "/grpc.health.v1.Health/Check", gs_buf_slice(&request), h->timeout_ms,
                     on_health, h);
}

// --- all kinds ---

static void on_deadline(void *arg)
{
    struct kubelet_handler *h = arg;
    if (h->command)
        finish(h, false, "command timed out: \"%s\" timed out after %us", h->command,
               h->timeout_ms / 1000);
    else if (h->try)
        finish(h, false, "dial tcp %s: i/o timeout", h->target);
    else if (h->process || h->http || h->grpc)
        finish(h, false, "timed out after %us", h->timeout_ms / 1000);
    else
        finish(h, true, "%s", ""); // a sleep that is over
}

struct kubelet_handler *kubelet_handler_start(struct kubelet_container *c, const json_t *spec,
                                              unsigned timeout_ms, kubelet_handler_done done,
                                              void *arg)
{
    uv_loop_t *loop = c->worker->k->cluster->loop;
    struct kubelet_handler *h = gs_alloc(sizeof(*h));
    *h = (struct kubelet_handler){.c = c, .done = done, .arg = arg, .timeout_ms = timeout_ms};
    h->deadline = gs_timer_new(loop, h);
    h->finish = gs_timer_new(loop, h);
    int64_t seconds = codec_json_int(spec, -1, "sleep", "seconds", NULL);
    // A grace beyond the transfer's own limit lets it name the reason.
    if (timeout_ms)
        gs_timer_start(h->deadline, on_deadline,
                       timeout_ms + (json_object_get(spec, "httpGet") ? 500 : 0));
    if (json_object_get(spec, "exec"))
        start_exec(h, json_object_get(spec, "exec"));
    else if (json_object_get(spec, "httpGet"))
        start_http(h, json_object_get(spec, "httpGet"));
    else if (json_object_get(spec, "tcpSocket"))
        start_tcp(h, json_object_get(spec, "tcpSocket"));
    else if (json_object_get(spec, "grpc"))
        start_grpc(h, json_object_get(spec, "grpc"));
    else if (seconds >= 0)
        gs_timer_start(h->deadline, on_deadline,
                       (uint64_t)(seconds < INT_MAX ? seconds : INT_MAX) * 1000);
    else
        finish(h, false, "missing probe handler for %s", c->name);
    return h;
}
