// SPDX-License-Identifier: Apache-2.0
// The skeleton of a long-running program: file limit, loop, signals, listeners, health, messages to
// systemd, ordered end. All programs of gpuscale use it, so that they behave alike:
//
// - SIGTERM and SIGINT stop the program: /readyz fails, the program ends what takes time, the
//   listeners close, requests in progress are answered, and the exit code is 0. A second signal
//   ends it at once, a third one kills it.
// - SIGHUP reloads the configuration. A program without one ignores it.
// - systemd (sd_notify(3)) is notified when requests are served, while a reload or a stop runs.
//
// Order of calls: program_new(), the parts of the program, program_listen(), program_run(),
// program_close(), release of the parts, program_free(). After an error, the rest of this order.
// All functions are called on the thread that called program_new().
#pragma once

#include "net/grpc/grpc.h"
#include "net/http/routes.h"
#include "net/http/server.h"

struct program;

struct program_config {
    const char *name;          // component of log lines: "hpa"
    void (*reload)(void *arg); // for SIGHUP, while program_run() runs; NULL: nothing to reload
    // Begins the end of what takes time, and later (or at once) calls program_stopped(). Requests
    // are served meanwhile. NULL: nothing.
    void (*stop)(void *arg);
    // Of /healthz and /livez, and with readiness of /readyz. False: the status is 503. Appends
    // lines with details. NULL: always healthy and, until a stop, ready.
    bool (*health)(void *arg, bool readiness, struct gs_buf *details);
    void *arg;
    bool stops_on_quit;       // SIGQUIT is as SIGTERM
    bool stops_with_terminal; // SIGHUP is as SIGTERM if the terminal of stderr has gone
    bool reports_stop;        // `stop` prints what happens: the signal is not logged
};

// Raises the limit of open files, and handles signals from now on. Until program_run(), they only
// set program_stopping(). The configuration is copied.
struct program *program_new(const struct program_config *cfg);
uv_loop_t *program_loop(struct program *p);
bool program_stopping(const struct program *p); // a signal or program_stop() came

// --- listeners ---

struct program_listener {
    const char *flag;    // in errors: "--web.listen-address"
    const char *address; // HOST:PORT, :PORT or [IPV6]:PORT
    bool optional;       // the address "" is no listener
    // The line of the log is "PREFIXhttp://HOST:PORTPATH". prefix NULL: "". path NULL: no line.
    const char *prefix, *path;
    const struct http_server_config *http; // limits, TLS, listen_fd; NULL: defaults, without TLS
    const struct http_route *rows;         // served beside /healthz, /livez and /readyz; or:
    http_handler handler;
    void *ctx; // of the rows or the handler
};

// Serves HTTP until program_close(). *ret (may be NULL) is borrowed. GS_EEXIST: the address is in
// use.
struct gs_error *program_listen(struct program *p, const struct program_listener *l,
                                struct http_server **ret);

// Listens for gRPC at the address, on all addresses without a HOST. *ret_where: "127.0.0.1:7443",
// owned by the caller. The caller frees the server after program_close(). Errors: as above.
struct gs_error *program_listen_grpc(struct program *p, const char *flag, const char *address,
                                     struct grpc_server *server, char **ret_where);

enum { PROGRAM_MAX_LISTEN_FDS = 8 };
// The listening sockets that systemd passes (sd_listen_fds(3)), from LISTEN_PID and LISTEN_FDS,
// which are removed. GS_ENOTFOUND: none. GS_EINVAL: more than PROGRAM_MAX_LISTEN_FDS.
struct gs_error *program_take_listen_fds(int *ret_fds, size_t *ret_n);

// --- run ---

// Serves until a stop has ended, or an error. Returns the error of program_fail().
struct gs_error *program_run(struct program *p);
void program_stop(struct program *p, const char *why); // as SIGTERM; why: for the log
void program_stopped(struct program *p);               // the stop of the configuration has ended
// Ends program_run() at once. Takes the error. The first one is returned.
void program_fail(struct program *p, struct gs_error *err);
// Stops the listeners of program_listen(). Their handlers are not called from now on.
void program_close(struct program *p);
// Runs the loop until all handles are closed. Accepts NULL.
void program_free(struct program *p);
