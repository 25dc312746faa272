// SPDX-License-Identifier: Apache-2.0
// One command under a supervisor process (shim.h): of a container, or of an exec.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "local/kubelet/env.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

// --- process.c: a command under a supervisor process (shim.h) ---

struct kubelet_process;

struct kubelet_process_spec {
    const char *self_exe;
    char *const *argv; // NULL-terminated
    char *const *env;  // NULL-terminated "NAME=value"
    const char *cwd;
    const char *preload;      // for the command only; NULL: none
    const char *log_path;     // NULL: on_output receives the output
    const char *status_path;  // NULL: none; on_started is not called then
    const char *console_path; // socket for attach (console.h); NULL: none
    bool with_stdin, tty;     // the command has an input, a terminal
    unsigned grace_ms;
    // The mount namespace of the command (mounts.h): a new one with these mounts, or that of the
    // process `join`. NULL and 0: the machine's.
    const struct kubelet_words *mounts;
    const char *staging; // for mounts
    // Absolute paths that stay reachable when a mount hides them; NULL: none.
    const struct kubelet_words *keep;
    pid_t join;
    const char *inner_cwd; // in that namespace; NULL: cwd
    const char *hostname;  // of the command, where permitted; NULL: the machine's
};

struct kubelet_process_exit {
    int exit_code;
    int exec_errno; // errno of exec if the command could not be started, else 0
    int64_t started_ms, finished_ms;
    bool supervisor_died; // killed by a signal: descendants may still run
    const char *message;  // why the command was not started; "" or NULL: exec_errno says it
};

struct kubelet_process_callbacks {
    void (*on_started)(void *arg);
    void (*on_output)(void *arg, struct gs_slice bytes);
    void (*on_exit)(void *arg, const struct kubelet_process_exit *e); // once; free the process then
};

struct gs_error *kubelet_process_start(uv_loop_t *loop, const struct kubelet_process_spec *spec,
                                       const struct kubelet_process_callbacks *cb, void *arg,
                                       struct kubelet_process **ret);
pid_t kubelet_process_pid(const struct kubelet_process *p); // of the supervisor
// Sends SIGTERM now, and SIGKILL to all descendants after grace_ms. A second call can only shorten
// the grace time.
void kubelet_process_stop(struct kubelet_process *p, int64_t grace_ms);
// Kills the running processes. No callback follows. Accepts NULL.
void kubelet_process_free(struct kubelet_process *p);
