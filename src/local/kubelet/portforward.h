// SPDX-License-Identifier: Apache-2.0
// Connections of a port-forward session to programs of a pod (portforward.c), and the protocols in
// which clients speak with them. Private to these files.
#pragma once

#include "local/kubelet/streaming.h"

#include "net/spdy/spdy.h"

#include <sys/queue.h>

// One forwarded connection.
struct kubelet_port_link {
    struct kubelet_port_forward *f; // NULL: the client is gone
    TAILQ_ENTRY(kubelet_port_link) link;
    int port;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool has_tcp, connected, writing, reading;
    bool client_ended, program_ended; // their directions
    struct gs_buf sent, queue;
    bool blocks; // its queue is full: the client's connection is not read
    // Of SPDY: a pair of streams.
    char *request;                    // identifier of the pair
    struct spdy_stream *error, *data; // NULL: not there yet
    struct gs_timer *deadline;        // for the other stream of the pair; NULL: none
    // Of channels: the number of the port in the request. Its channels are 2 * index for data and
    // 2 * index + 1 for an error.
    unsigned index;
};

// Towards the client. All functions are required.
struct kubelet_port_protocol {
    void (*feed)(struct kubelet_port_forward *f,
                 struct gs_slice bytes); // from the client's connection
    void (*write)(struct kubelet_port_link *l, struct gs_slice bytes); // of the program
    void (*program_ended)(struct kubelet_port_link *l);
    void (*consumed)(struct kubelet_port_link *l, size_t n); // the program has taken so many bytes
    size_t (*held)(const struct kubelet_port_link *l); // bytes that the client does not take yet
    void (*fail)(struct kubelet_port_link *l, const char *text);
    void (*done)(struct kubelet_port_link *l); // both directions have ended
    // Forgets the link, which is no longer in the list.
    void (*forget)(struct kubelet_port_forward *f, struct kubelet_port_link *l);
    void (*close)(struct kubelet_port_forward *f); // a farewell; the connection then ends
    void (*free)(struct kubelet_port_forward *f);
};

struct kubelet_port_forward {
    struct kubelet_stream stream;
    uv_loop_t *loop;
    char *ip, *pod, *ports;          // ports: the record of moved ports, or NULL
    struct http_upgrade *connection; // NULL: closed
    const struct kubelet_port_protocol *protocol;
    struct websocket *websocket; // NULL: SPDY without one
    struct spdy *spdy;
    struct kubelet_channels channels;
    struct gs_timer *idle;
    TAILQ_HEAD(, kubelet_port_link) links;
    size_t n_blocking;
    bool full; // the client reads slower than programs write
};

// --- portforward.c ---
struct kubelet_port_link *kubelet_port_link_new(struct kubelet_port_forward *f, int port);
void kubelet_port_link_connect(struct kubelet_port_link *l);
void kubelet_port_link_write(struct kubelet_port_link *l, struct gs_slice bytes); // to the program
void kubelet_port_link_end(struct kubelet_port_link *l); // the client sends no more
void kubelet_port_link_fail(struct kubelet_port_link *l, const char *why); // and drops it
void kubelet_port_link_drop(struct kubelet_port_link *l);
// Callbacks of a WebSocket, whose argument is the forward: bytes to the client, and its end.
void kubelet_port_forward_output(void *forward, struct gs_slice bytes);
void kubelet_port_forward_ended(void *forward, unsigned code);
void kubelet_port_forward_close(struct kubelet_port_forward *f);
bool kubelet_port_forward_upgrade(struct kubelet_port_forward *f, struct http_exchange *x,
                                  const char *protocol);

// --- portforward_spdy.c, portforward_channels.c ---
// They answer the request. False: with an error. The WebSocket was negotiated by portforward.c, and
// its headers are added.
bool kubelet_port_spdy_open(struct kubelet_port_forward *f, struct http_exchange *x);
void kubelet_port_spdy_open_websocket(struct kubelet_port_forward *f);
// The ports of the request, in turn. GS_EINVAL: there are none, or too many, or one is malformed.
enum { KUBELET_PORT_CHANNELS_MAX = 32 };
struct kubelet_port_list {
    int ports[KUBELET_PORT_CHANNELS_MAX];
    size_t len;
};
struct gs_error *kubelet_port_channels_list(const struct http_exchange *x,
                                            struct kubelet_port_list *ret);
void kubelet_port_channels_open(struct kubelet_port_forward *f,
                                const struct kubelet_port_list *ports, const char *protocol);
