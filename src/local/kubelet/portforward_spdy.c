// SPDX-License-Identifier: Apache-2.0
// port-forward over SPDY: a pair of streams (data, error) for each connection.
#include "local/kubelet/portforward.h"

#include "base/mem.h"
#include "base/num.h"
#include "net/websocket/websocket.h"

static const char *const spdy_protocols[] = {"portforward.k8s.io", NULL};

// --- streams of the client ---

static void on_pair_deadline(void *arg)
{
    kubelet_port_link_fail(arg, "timed out waiting for streams");
}

static struct kubelet_port_link *find_link(struct kubelet_port_forward *f, const char *request,
                                           int port)
{
    struct kubelet_port_link *l;
    TAILQ_FOREACH (l, &f->links, link)
        if (gs_streq(l->request, request))
            return l;
    l = kubelet_port_link_new(f, port);
    l->request = gs_strdup(request);
    l->deadline = gs_timer_new(f->loop, l);
    gs_timer_start(l->deadline, on_pair_deadline, KUBELET_STREAM_CREATION_MS);
    return l;
}

// Clients of Kubernetes 1.0 send no identifier: the error stream comes right before its data
// stream.
static char *request_of_stream(const struct spdy_stream *s, bool is_data)
{
    const char *given = spdy_stream_header(s, "requestid");
    return given && *given ? gs_strdup(given)
                           : gs_format("#%u", spdy_stream_id(s) - (is_data ? 2u : 0));
}

static void on_stream(void *arg, struct spdy_stream *s)
{
    struct kubelet_port_forward *f = arg;
    const char *type = spdy_stream_header(s, "streamtype");
    const char *port = spdy_stream_header(s, "port");
    bool is_data = gs_streq(type, "data");
    int64_t number = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_of(port), 1, UINT16_MAX, &number);
    if (err || (!is_data && !gs_streq(type, "error"))) {
        spdy_stream_free(s); // resets it
        return;
    }
    GS_AUTO_FREE char *request = request_of_stream(s, is_data);
    struct kubelet_port_link *l = find_link(f, request, (int)number);
    struct spdy_stream **place = is_data ? &l->data : &l->error;
    if (*place || l->port != number) {
        spdy_stream_free(s);
        return;
    }
    *place = s;
    spdy_stream_set_data(s, l);
    spdy_stream_accept(s);
    if (!l->data || !l->error)
        return;
    gs_timer_stop(l->deadline);
    kubelet_port_link_connect(l);
}

static void on_stream_data(void *arg, struct spdy_stream *s, struct gs_slice bytes)
{
    struct kubelet_port_link *l = spdy_stream_data(s);
    if (s == l->data)
        kubelet_port_link_write(l, bytes);
}

static void on_stream_fin(void *arg, struct spdy_stream *s)
{
    struct kubelet_port_link *l = spdy_stream_data(s);
    if (s == l->data)
        kubelet_port_link_end(l);
}

static void on_stream_reset(void *arg, struct spdy_stream *s)
{
    struct kubelet_port_link *l = spdy_stream_data(s);
    if (s != l->data)
        return;
    if (l->error)
        spdy_stream_end(l->error);
    kubelet_port_link_drop(l);
}

// --- to the client ---

static void on_spdy_output(void *arg, struct gs_slice bytes)
{
    struct kubelet_port_forward *f = arg;
    if (f->websocket)
        websocket_send(f->websocket, WEBSOCKET_BINARY, bytes, (struct gs_slice){0});
    else
        kubelet_port_forward_output(f, bytes);
}

static void on_spdy_end(void *arg, const char *why)
{
    kubelet_port_forward_close(arg);
}

static const struct spdy_callbacks spdy_callbacks = {
    .on_stream = on_stream,
    .on_data = on_stream_data,
    .on_fin = on_stream_fin,
    .on_reset = on_stream_reset,
    .on_output = on_spdy_output,
    .on_end = on_spdy_end,
};

static void feed(struct kubelet_port_forward *f, struct gs_slice bytes)
{
    if (f->websocket)
        websocket_feed(f->websocket, bytes);
    else
        spdy_feed(f->spdy, bytes);
}

static void write_data(struct kubelet_port_link *l, struct gs_slice bytes)
{
    spdy_stream_write(l->data, bytes);
}

static void on_program_ended(struct kubelet_port_link *l)
{
    spdy_stream_end(l->data);
}

static void consumed(struct kubelet_port_link *l, size_t n)
{
    spdy_stream_consumed(l->data, n);
}

static size_t held(const struct kubelet_port_link *l)
{
    return l->data ? spdy_stream_held(l->data) : 0;
}

static void fail(struct kubelet_port_link *l, const char *text)
{
    if (l->error) {
        spdy_stream_write(l->error, gs_slice_of(text));
        spdy_stream_end(l->error);
    }
    if (l->data)
        spdy_stream_end(l->data);
}

static void done(struct kubelet_port_link *l)
{
    spdy_stream_end(l->error);
}

static void forget(struct kubelet_port_forward *f, struct kubelet_port_link *l)
{
    gs_timer_stop(l->deadline);
    spdy_stream_free(GS_TAKE(l->data));
    spdy_stream_free(GS_TAKE(l->error));
}

static void say_goodbye(struct kubelet_port_forward *f)
{
    spdy_close(f->spdy);
}

static void finish(struct kubelet_port_forward *f)
{
    spdy_free(f->spdy);
}

static const struct kubelet_port_protocol protocol_of_spdy = {
    .feed = feed,
    .write = write_data,
    .program_ended = on_program_ended,
    .consumed = consumed,
    .held = held,
    .fail = fail,
    .done = done,
    .forget = forget,
    .close = say_goodbye,
    .free = finish,
};

// --- the request ---

static void use_spdy(struct kubelet_port_forward *f)
{
    f->protocol = &protocol_of_spdy;
    f->spdy = spdy_new(&spdy_callbacks, f);
}

bool kubelet_port_spdy_open(struct kubelet_port_forward *f, struct http_exchange *x)
{
    const char *protocol;
    if (!kubelet_spdy_protocol(x, spdy_protocols, &protocol))
        return false;
    if (protocol)
        http_add_header(x, "X-Stream-Protocol-Version", protocol);
    if (!kubelet_port_forward_upgrade(f, x, "SPDY/3.1"))
        return false;
    use_spdy(f);
    return true;
}

static void on_websocket_message(void *arg, enum websocket_opcode opcode, struct gs_slice part,
                                 bool first, bool last)
{
    struct kubelet_port_forward *f = arg;
    if (opcode == WEBSOCKET_BINARY)
        spdy_feed(f->spdy, part);
}

void kubelet_port_spdy_open_websocket(struct kubelet_port_forward *f)
{
    static const struct websocket_callbacks callbacks = {
        .on_message = on_websocket_message,
        .on_output = kubelet_port_forward_output,
        .on_end = kubelet_port_forward_ended,
    };
    use_spdy(f);
    f->websocket = websocket_new(&callbacks, f);
}
