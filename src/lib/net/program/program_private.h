// SPDX-License-Identifier: Apache-2.0
// The state of a program, shared by the files of this module.
#pragma once

#include "net/program/program.h"

enum { PROGRAM_SIGNALS = 4, PROGRAM_MAX_SERVERS = 40 };

// Each phase follows the previous one; a second signal or an error skips to the last.
enum program_phase {
    PROGRAM_STARTING,
    PROGRAM_RUNNING,
    PROGRAM_STOPPING, // the stop of the configuration runs
    PROGRAM_DRAINING, // listeners are being closed, requests in progress are awaited
    PROGRAM_ENDED,
};

// A server, and how the end waits for it.
struct program_server {
    void (*drain)(void *server); // closes the listening sockets
    bool (*idle)(void *server);  // no request is in progress
    void *server;
};
struct program {
    struct program_config cfg;
    uv_loop_t loop;
    uv_signal_t signals[PROGRAM_SIGNALS];
    uv_timer_t drain;
    int64_t drain_since_ns; // 0: the listeners are open
    enum program_phase phase;
    bool stopping, reload_later, has_terminal;
    struct gs_error *err;                               // that ended the program
    struct http_server *listeners[PROGRAM_MAX_SERVERS]; // of program_listen()
    struct http_routes routes[PROGRAM_MAX_SERVERS];     // of each listener
    size_t n_listeners;
    struct http_routes health;
    struct program_server servers[PROGRAM_MAX_SERVERS]; // all of them
    size_t n_servers;
    char *notify_socket; // NULL: no service manager waits for messages
};

extern const struct http_route program_health_rows[]; // the program is their ctx
char *program_take_notify_socket(void);               // removes it from the environment; NULL: none
void program_add_server(struct program *p, const struct program_server *s);
// Sends a message such as "STATUS=…" to the service manager, if there is one.
void program_notify(const struct program *p, const char *message);
