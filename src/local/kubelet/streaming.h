// SPDX-License-Identifier: Apache-2.0
// exec, attach and port-forward: sessions between a client of the API and a pod. All functions
// belong to the thread of the loop. Sources: the Kubernetes packages remotecommand and portforward
// and the kubelet's streaming server.
#pragma once

#include "local/kubelet/pod_worker.h"
#include "net/websocket/websocket.h"

enum {
    KUBELET_STREAM_IDLE_MS =
        4 * 60 * 60 * 1000,                 // the kubelet's --streaming-connection-idle-timeout
    KUBELET_STREAM_CREATION_MS = 30 * 1000, // until the client has opened its streams
    KUBELET_STREAM_HIGH = 256 * 1024,       // queued bytes from which on the source is not read
    KUBELET_STREAMS_PER_POD = 64,           // sessions of all kinds
};

// --- channels.c: numbered channels over the messages of a WebSocket ---
// The first byte of a message is the number of its channel. In the protocols of base64, messages
// are text: the number is a character from '0' on, and base64 follows. Source: the Kubernetes
// package wsstream.

enum { KUBELET_NO_CHANNEL = 256 };

struct kubelet_channels {
    struct websocket *websocket; // borrowed
    bool base64;
    bool headed;                 // the first byte of the arriving message was read
    unsigned channel;            // of the arriving message; KUBELET_NO_CHANNEL: none
    struct gs_buf digits, bytes; // base64 that is not decoded yet, and decoded bytes
};

// protocol: its name; NULL: the binary one without a name.
void kubelet_channels_init(struct kubelet_channels *c, struct websocket *websocket,
                           const char *protocol);
void kubelet_channels_finish(struct kubelet_channels *c);
void kubelet_channels_send(struct kubelet_channels *c, unsigned channel, struct gs_slice bytes);
// A part of a message, as in websocket_callbacks. *ret: its bytes for c->channel, until the next
// call. False: it is for no channel.
bool kubelet_channels_receive(struct kubelet_channels *c, struct gs_slice part, bool first,
                              struct gs_slice *ret);

// --- remote.c: the client's side of exec and attach ---
// The channels of one session over WebSocket (v5.channel.k8s.io and older, binary or base64) or
// SPDY (v4.channel.k8s.io).

struct kubelet_remote;

struct kubelet_remote_options {
    bool has_stdin, has_stdout, has_stderr, tty;
};

struct kubelet_remote_callbacks {
    void (*on_open)(void *arg); // all streams exist
    void (*on_stdin)(void *arg, struct gs_slice bytes);
    void (*on_stdin_end)(void *arg);
    void (*on_resize)(void *arg, uint16_t columns, uint16_t rows);
    void (*on_drained)(void *arg); // what was written is with the operating system
    // Once, also after kubelet_remote_finish(): the client is gone. The object must not be used
    // from then on.
    void (*on_close)(void *arg);
};

enum kubelet_remote_stream { KUBELET_STDOUT = 1, KUBELET_STDERR = 2 };

// Reads stdin, stdout, stderr and tty from the query. GS_EINVAL: none of the streams is wanted.
struct gs_error *kubelet_remote_options(struct http_exchange *x,
                                        struct kubelet_remote_options *ret);
// Answers the exchange. NULL: with an error (no upgrade was requested, no common protocol).
struct kubelet_remote *kubelet_remote_open(uv_loop_t *loop, struct http_exchange *x,
                                           const struct kubelet_remote_options *options,
                                           const struct kubelet_remote_callbacks *cb, void *arg);
void kubelet_remote_write(struct kubelet_remote *r, enum kubelet_remote_stream stream,
                          struct gs_slice bytes);
size_t kubelet_remote_pending(const struct kubelet_remote *r);
void kubelet_remote_pause(struct kubelet_remote *r, bool pause); // stdin
// Sends the result and closes. exit_code 0: success. failure: no exit code is known ("error
// executing command in container: …"); NULL: exit_code counts.
void kubelet_remote_finish(struct kubelet_remote *r, int exit_code, const char *failure);

// --- session.c: a command with its own standard streams ---

struct kubelet_session;

struct kubelet_session_spec {
    const char *self_exe;
    char *const *argv; // NULL-terminated
    char *const *env;  // NULL-terminated "NAME=value"
    const char *cwd;
    const char *preload;  // for the command only; NULL: none
    pid_t join;           // process whose user and mount namespaces the command enters; 0: none
    const char *hostname; // of the command, where permitted; NULL: the machine's
    struct kubelet_remote_options streams;
};

struct kubelet_session_callbacks {
    void (*on_output)(void *arg, enum kubelet_remote_stream stream, struct gs_slice bytes);
    void (*on_drained)(void *arg); // the command has taken all input
    // Once, after the last output. exec_errno: of exec, if the command could not be started, and
    // message the reason if that was not exec, else "".
    void (*on_exit)(void *arg, int exit_code, int exec_errno, const char *message);
};

struct gs_error *kubelet_session_start(uv_loop_t *loop, const struct kubelet_session_spec *spec,
                                       const struct kubelet_session_callbacks *cb, void *arg,
                                       struct kubelet_session **ret);
void kubelet_session_write(struct kubelet_session *s, struct gs_slice bytes);
void kubelet_session_end_input(struct kubelet_session *s); // no effect on a terminal
size_t kubelet_session_pending(const struct kubelet_session *s);
void kubelet_session_pause(struct kubelet_session *s, bool pause); // its output
void kubelet_session_resize(struct kubelet_session *s, uint16_t columns, uint16_t rows);
// Kills the command and its descendants if they still run. No callback follows. Accepts NULL.
void kubelet_session_free(struct kubelet_session *s);

// --- streams.c: the requests, and what the sessions of a kubelet have in common ---

// A session in the kubelet's list; embedded in that of its kind.
struct kubelet_stream {
    struct kubelet *k; // NULL: not in the list
    struct kubelet_stream *prev, *next;
    char *pod_uid;
    char *container_id;                    // NULL: of the whole pod
    void (*end)(struct kubelet_stream *s); // its container has ended, or the kubelet is freed
};

void kubelet_stream_add(struct kubelet *k, struct kubelet_stream *s, const struct kubelet_worker *w,
                        const char *container_id);
void kubelet_stream_remove(struct kubelet_stream *s);

// A connect request on pods/NAME/exec, …/attach and …/portforward.
void kubelet_streams_handle(void *kubelet, const char *subresource, const json_t *pod,
                            struct http_exchange *x);
// The instance of a container has ended: so do its sessions.
void kubelet_streams_end(struct kubelet *k, const char *container_id);
void kubelet_streams_close_all(struct kubelet *k);

// The upgrade to SPDY: the first of the client's protocols (X-Stream-Protocol-Version) that is
// among `supported` (NULL-terminated); NULL: the client names none. False: the request was answered
// with an error.
bool kubelet_spdy_protocol(struct http_exchange *x, const char *const *supported, const char **ret);

// --- attach.c, exec.c, portforward.c (portforward.h) ---
void kubelet_attach(struct kubelet *k, struct kubelet_container *c, struct http_exchange *x);
void kubelet_exec(struct kubelet *k, struct kubelet_container *c, struct http_exchange *x);
void kubelet_port_forward(struct kubelet *k, const struct kubelet_worker *w,
                          struct http_exchange *x);
