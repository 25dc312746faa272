// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the stand-ins in `up`: sessions, and what a role is. All functions belong
// to the thread of the loop.
#pragma once

#include "base/timer.h"
#include "kube/event.h"
#include "local/standin/standin.h"

#include <sys/queue.h>
#include <uv.h>

struct standin_session;
struct standin_port;

struct standin_role {
    const char *name;
    int port; // where it listens if the container declares no port; 0: nowhere
    // Called once, before the ports open: log lines, other work. May end the session's process.
    void (*start)(struct standin_session *s);
    // The port of 127.0.0.1 to which a container's port is forwarded as it is. 0: requests are
    // answered here. NULL: always.
    uint16_t (*forward)(const struct standin_session *s, int port);
    // Answers a request that is not for a health path. False: it is still to be answered.
    bool (*answer)(struct standin_session *s, int port, struct http_exchange *x);
    void (*write_metrics)(const struct standin_session *s, int port, struct gs_buf *out);
    void (*changed)(struct standin_session *s); // a file of a watched folder; NULL: none watched
    void (*end)(struct standin_session *s);     // frees s->state
    bool authenticates;                         // requests need a user of the API
};

// A container whose process is connected.
struct standin_session {
    struct standin_server *server;
    const struct standin_role *role; // NULL: not introduced yet
    json_t *hello;                   // what the process sent
    json_t *pod;                     // when it began
    const json_t *container;         // of the pod's spec
    bool init;                       // it is an init container, which has to end
    json_t *args;
    const char *address, *moved; // of hello
    struct standin_port *ports;
    void *state;      // of the role
    bool runs_itself; // an order makes the process another program, which listens itself
    // Of server.c:
    uv_pipe_t pipe;
    struct gs_buf in;
    struct gs_timer *timer;
    bool closing;
    TAILQ_ENTRY(standin_session) link;
};

struct standin_server {
    struct standin_config cfg;
    uv_pipe_t listener;
    struct kube_recorder *recorder;
    TAILQ_HEAD(, standin_session) sessions;
    size_t n_sessions;
};

// --- server.c: orders to the process ---
void standin_log(struct standin_session *s, const char *fmt, ...) GS_PRINTF(2, 3);
void standin_exit(struct standin_session *s, int code);
// words: an array of strings, whose reference is stolen.
void standin_exec(struct standin_session *s, json_t *words, bool checked);
void standin_write(struct standin_session *s, const char *path, const char *text); // NULL: remove
// Reports changes in this folder, as the container sees it, to the role.
void standin_watch(struct standin_session *s, const char *folder);
// An event of the pod.
void standin_event(struct standin_session *s, const char *type, const char *reason, const char *fmt,
                   ...) GS_PRINTF(4, 5);

// --- arguments.c: of the container, "--name=value" or "--name value", with one dash or two ---
// "=VALUE" or "" behind a flag of this name; NULL: it is another argument.
const char *standin_flag_end(const char *arg, const char *name);
const char *standin_flag(const struct standin_session *s, const char *name); // NULL: not given
const char *standin_flag_nth(const struct standin_session *s, const char *name, size_t n);
// Of a boolean flag: "--name" is true.
bool standin_flag_bool(const struct standin_session *s, const char *name, bool fallback);
// The first argument that is no flag, without its folder: the program or command. "": none.
const char *standin_word(const struct standin_session *s);
const char *standin_file(const struct standin_session *s,
                         const char *flag);                                 // its contents; or NULL
const char *standin_env(const struct standin_session *s, const char *name); // "": not set
const char *standin_namespace(const struct standin_session *s);

bool standin_is_absent(const struct standin_session *s, const char *path);

// --- ports.c: the listeners of a session ---
void standin_ports_open(struct standin_session *s);
void standin_ports_close(struct standin_session *s);

// --- roles.c ---
const struct standin_role *standin_role_find(const char *name); // NULL: unknown

// --- certgen.c ---
void standin_certgen_start(struct standin_session *s);
void standin_certgen_end(struct standin_session *s);

// --- webhook.c: admission and conversion without an opinion ---
bool standin_webhook_answer(struct standin_session *s, int port, struct http_exchange *x);

// --- programs.c: programs of this machine, if they are installed ---
void standin_alertmanager_start(struct standin_session *s);
void standin_node_exporter_start(struct standin_session *s);
// Whether Grafana is installed, and the process becomes it.
bool standin_grafana_become(struct standin_session *s);
bool standin_grafana_installed(void);

// --- inference.c: vLLM and SGLang, or a simulated engine ---
void standin_vllm_start(struct standin_session *s);
void standin_sglang_start(struct standin_session *s);

// --- calls.c: a URL of the pod ---
struct standin_call;
// method NULL or "": POST. user NULL or "": without credentials. GS_EINVAL: another host.
struct gs_error *standin_call_new(struct standin_session *s, const char *url, const char *method,
                                  const char *user, const char *password,
                                  struct standin_call **ret);
void standin_call_soon(struct standin_call *c); // once after several calls of this function
void standin_call_free(struct standin_call *c); // accepts NULL

// --- reloader.c ---
void standin_reloader_start(struct standin_session *s);
void standin_reloader_changed(struct standin_session *s);
void standin_reloader_end(struct standin_session *s);

// --- sidecar.c ---
void standin_sidecar_start(struct standin_session *s);
void standin_sidecar_end(struct standin_session *s);

// --- gpu_operator.c ---
void standin_gpu_operator_start(struct standin_session *s);
void standin_gpu_operator_end(struct standin_session *s);
