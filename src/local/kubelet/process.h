// SPDX-License-Identifier: Apache-2.0
// A command under a supervisor process (local/shim.h), as the kubelet sees it.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kubelet_process;

struct kubelet_process_spec {
    const char *self_exe;
    char *const *argv; // NULL-terminated
    char *const *env;  // NULL-terminated "NAME=value"
    const char *cwd;
    const char *preload;     // for the command only; NULL: none
    const char *log_path;    // NULL: the output goes to on_output
    const char *status_path; // NULL: none; on_started is not called then
    unsigned grace_ms;
};

struct kubelet_process_exit {
    int exit_code;
    int exec_errno; // the command could not be started
    int64_t started_ms, finished_ms;
    bool supervisor_died; // by a signal: descendants may be left
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
// SIGTERM now, SIGKILL of everything below it after grace_ms. A second call can only shorten.
void kubelet_process_stop(struct kubelet_process *p, int64_t grace_ms);
// What runs is killed; no callback afterwards. NULL is fine.
void kubelet_process_free(struct kubelet_process *p);
