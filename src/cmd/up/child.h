// SPDX-License-Identifier: Apache-2.0
// A child process whose output arrives line by line. With `restart` it is started again whenever it
// ends (after 0.5 s, doubling to 30 s while it does not stay up).
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct up_child;

struct up_child_config {
    const char *name;             // for the log: "exporter"
    const char *const *argv;      // NULL-terminated; argv[0] is the program
    const char *const *extra_env; // "NAME=value", NULL-terminated; may be NULL
    bool restart;
    void (*on_line)(void *arg, const char *line);                // stdout and stderr
    void (*on_exit)(void *arg, int64_t status, int term_signal); // each time it ends
    void *arg;
};

struct gs_error *up_child_start(uv_loop_t *loop, const struct up_child_config *cfg,
                                struct up_child **ret);
bool up_child_running(const struct up_child *c);
// SIGTERM now, SIGKILL after two seconds, no restart; on_exit still comes. NULL is fine.
void up_child_stop(struct up_child *c);
// Kills it at once if it still runs; no callback comes any more. The memory goes when the loop has
// closed its handles. NULL is fine.
void up_child_free(struct up_child *c);
