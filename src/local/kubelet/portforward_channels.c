// SPDX-License-Identifier: Apache-2.0
// port-forward over the channels of a WebSocket: the query has the ports, each of which gets one
// connection and two channels, for data and for an error. The first message of a channel is the
// number of its port (two bytes, little-endian). No direction can end alone: when the program has
// sent everything, the connection ends, and with the last one the session. Source: the kubelet's
// portforward package.
#include "local/kubelet/portforward.h"

#include "base/mem.h"
#include "base/num.h"
#include "net/websocket/websocket.h"

// --- the ports ---

static struct gs_error *add_port(struct gs_slice text, struct kubelet_port_list *list)
{
    int64_t port = 0;
    struct gs_error *err = gs_parse_i64(text, 1, UINT16_MAX, &port);
    if (err)
        return gs_error_wrap(err, "query parameter \"ports\"");
    if (list->len == KUBELET_PORT_CHANNELS_MAX)
        return gs_error_new(GS_EINVAL,
                            "query parameter \"ports\": more than %d ports; open another session",
                            KUBELET_PORT_CHANNELS_MAX);
    list->ports[list->len++] = (int)port;
    return NULL;
}

struct gs_error *kubelet_port_channels_list(const struct http_exchange *x,
                                            struct kubelet_port_list *ret)
{
    struct gs_error *err = NULL;
    const char *name, *value;
    for (size_t i = 0; !err && (value = http_query_nth(x, i, &name)); i++) {
        struct gs_slice rest = gs_slice_of(value);
        while (gs_streq(name, "ports") && !err && rest.data)
            err = add_port(gs_slice_cut(&rest, ','), ret);
    }
    if (!err && ret->len == 0)
        err = gs_error_new(GS_EINVAL, "query parameter \"ports\" is required");
    return err;
}

// --- from the client ---

static struct kubelet_port_link *link_of_channel(const struct kubelet_port_forward *f,
                                                 unsigned channel)
{
    struct kubelet_port_link *l;
    TAILQ_FOREACH (l, &f->links, link)
        if (2 * l->index == channel)
            return l;
    return NULL;
}

static void on_message(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last)
{
    struct kubelet_port_forward *f = arg;
    struct gs_slice bytes;
    if (!kubelet_channels_receive(&f->channels, part, first, &bytes) || !bytes.len)
        return;
    struct kubelet_port_link *l = link_of_channel(f, f->channels.channel);
    if (l)
        kubelet_port_link_write(l, bytes);
}

static void feed(struct kubelet_port_forward *f, struct gs_slice bytes)
{
    websocket_feed(f->websocket, bytes);
}

// --- to the client ---

static void write_data(struct kubelet_port_link *l, struct gs_slice bytes)
{
    kubelet_channels_send(&l->f->channels, 2 * l->index, bytes);
}

static void on_program_ended(struct kubelet_port_link *l)
{
    l->client_ended = true;
}

static void consumed(struct kubelet_port_link *l, size_t n)
{
}

static size_t held(const struct kubelet_port_link *l)
{
    return 0;
}

static void fail(struct kubelet_port_link *l, const char *text)
{
    kubelet_channels_send(&l->f->channels, 2 * l->index + 1, gs_slice_of(text));
}

static void done(struct kubelet_port_link *l)
{
}

static void forget(struct kubelet_port_forward *f, struct kubelet_port_link *l)
{
    if (TAILQ_EMPTY(&f->links))
        kubelet_port_forward_close(f);
}

static void say_goodbye(struct kubelet_port_forward *f)
{
}

static void finish(struct kubelet_port_forward *f)
{
    kubelet_channels_finish(&f->channels);
}

static const struct kubelet_port_protocol protocol_of_channels = {
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

// --- the session ---

static void announce(struct kubelet_port_forward *f, unsigned channel, int port)
{
    const char number[2] = {(char)(port & 0xff), (char)(port >> 8)};
    kubelet_channels_send(&f->channels, channel, gs_slice_make(number, sizeof(number)));
}

void kubelet_port_channels_open(struct kubelet_port_forward *f,
                                const struct kubelet_port_list *ports, const char *protocol)
{
    static const struct websocket_callbacks callbacks = {
        .on_message = on_message,
        .on_output = kubelet_port_forward_output,
        .on_end = kubelet_port_forward_ended,
    };
    struct kubelet_port_link *links[KUBELET_PORT_CHANNELS_MAX];
    f->protocol = &protocol_of_channels;
    f->websocket = websocket_new(&callbacks, f);
    kubelet_channels_init(&f->channels, f->websocket, protocol);
    for (unsigned i = 0; i < ports->len; i++) {
        links[i] = kubelet_port_link_new(f, ports->ports[i]);
        links[i]->index = i;
        announce(f, 2 * i, ports->ports[i]);
        announce(f, 2 * i + 1, ports->ports[i]);
    }
    for (size_t i = 0; i < ports->len; i++)
        kubelet_port_link_connect(links[i]);
}
