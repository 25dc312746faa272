// SPDX-License-Identifier: Apache-2.0
// What the supervisor process (`gpuscale pod-shim`, kubelet_pod_shim_main) and the kubelet agree
// on.
//
//     gpuscale pod-shim [--parent PID] [--log FILE] [--status FILE] [--report-fd N] [--grace MS]
//                       [--preload LIBRARY] -- COMMAND [ARG]…
//
// SIGTERM is forwarded to COMMAND, which has the grace time to end. KUBELET_SHIM_SIGNAL_STOP, by
// sigqueue(3), does the same with its value as the grace time (milliseconds; 0: kill at once); a
// later one can shorten it, and since it is a real-time signal none is lost. Without --log the
// output of COMMAND goes to the shim's stdout, both streams in one. The status file holds "key
// value" lines (below), written when the command runs and again when all is over; a byte on the
// report descriptor says that the first was written.
#pragma once

#include "base/error.h"

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#define KUBELET_SHIM_SIGNAL_STOP SIGRTMIN
#define KUBELET_SHIM_EXIT_NOT_STARTED                                                              \
    128 // exec failed; the exit code that container runtimes report

struct kubelet_shim_status {
    pid_t shim_pid, pid;                    // pid: of COMMAND
    uint64_t shim_start_ticks, start_ticks; // kubelet_proc_start_time of both
    int64_t started_ms, finished_ms;        // Unix milliseconds; 0: not (yet)
    int exit_code;                          // 128 + signal when killed by one
    int exec_errno;                         // why COMMAND could not be started; 0: it was
};

struct gs_error *kubelet_shim_status_read(const char *path, struct kubelet_shim_status *ret);
struct gs_error *kubelet_shim_status_write(const char *path, const struct kubelet_shim_status *s);
