// SPDX-License-Identifier: Apache-2.0
// Moves bytes between two connected TCP sockets, as TCP proxies do: each direction stops reading
// while the other side's queue is long, and passes its end on. Only the thread of the loop may use
// sockets and splices; their memory is freed by the loop after they are closed.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

// --- sockets ---

// On the heap, because libuv closes a socket only after its owner has gone.
struct splice_socket;

// status: 0, or an error of libuv.
typedef void (*splice_connected)(void *arg, int status);
// n: bytes in `data`, which are valid only during the call; UV_EOF, or an error of libuv.
typedef void (*splice_read)(void *arg, const char *data, ssize_t n);

struct splice_socket *splice_socket_new(uv_loop_t *loop);
// For uv_accept() and options. Borrowed.
uv_tcp_t *splice_socket_tcp(struct splice_socket *s);
// The local port of a socket that is bound. 0: it is not.
uint16_t splice_bound_port(const uv_tcp_t *tcp);
// No callback of the socket follows. Accepts NULL.
void splice_socket_close(struct splice_socket *s);
// Calls `done` later, unless the socket is closed before. < 0: it is not called.
int splice_socket_connect(struct splice_socket *s, const struct sockaddr *to, splice_connected done,
                          void *arg);
// ip: numeric. < 0: it is not.
int splice_parse_address(const char *ip, uint16_t port, struct sockaddr_storage *ret);
// Reads until splice_socket_pause(). < 0: an error of libuv.
int splice_socket_read(struct splice_socket *s, splice_read on_read, void *arg);
void splice_socket_pause(struct splice_socket *s);
// Copies the bytes. False: the socket is broken.
bool splice_socket_send(struct splice_socket *s, struct gs_slice bytes);
void splice_socket_end(struct splice_socket *s); // the peer reads an end after what was sent

// --- splices ---

struct splice;

enum splice_side { SPLICE_CLIENT, SPLICE_SERVER };

struct splice_config {
    // Both directions have ended, or one has failed: the owner calls splice_free().
    void (*on_end)(void *arg);
    // n 0: this side has sent its end. May be NULL.
    void (*on_bytes)(void *arg, enum splice_side from, size_t n);
    // Gets the bytes of a side before they are passed on, and its end as no bytes. True: it took
    // them, and has sent what the other side gets. It may call splice_free(). May be NULL.
    bool (*take)(void *arg, enum splice_side from, struct gs_slice bytes);
    void *arg;
};

// Takes the sockets, of which both are connected. Nothing moves before splice_start().
struct splice *splice_new(struct splice_socket *client, struct splice_socket *server,
                          const struct splice_config *cfg);
// Sends bytes that were read before. Copies them. False: it failed, and on_end was called.
bool splice_send(struct splice *s, enum splice_side to, struct gs_slice bytes);
void splice_start(struct splice *s);
int64_t splice_last_ns(const struct splice *s); // gs_mono_ns() of the last traffic
// Closes both sockets. on_end is not called. Accepts NULL.
void splice_free(struct splice *s);
