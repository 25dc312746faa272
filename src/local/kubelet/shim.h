// SPDX-License-Identifier: Apache-2.0
// The supervisor process of a container (`gpuscale pod-shim`, kubelet_pod_shim_main) and its
// protocol with the kubelet. Tests include this header.
//
//     gpuscale pod-shim [--parent PID] [--log FILE] [--status FILE] [--report-fd N] [--grace MS]
//                       [--preload LIBRARY] [--staging DIR] [--mount MOUNT]… [--keep PATH]…
//                       [--join PID] [--hostname NAME] [--cwd DIR] [--session pipes|terminal]
//                       [--console FILE] [--stdin yes] [--tty yes] -- COMMAND [ARG]…
//
// SIGTERM is forwarded to COMMAND, which has the grace time to end. KUBELET_SHIM_SIGNAL_STOP, sent
// by sigqueue(3), does the same with its value as the grace time (milliseconds; 0: kill at once). A
// later signal can shorten the grace time. It is a real-time signal, so none is lost. Without --log
// the output of COMMAND is copied to the shim's stdout, both streams in one. The status file
// contains "key value" lines (below). It is written when the command runs and again when everything
// has ended. A byte on the report descriptor follows the first write.
//
// With --mount, COMMAND runs in a mount namespace of its own (mounts.h; --staging is required).
// Paths of --keep stay reachable there, and COMMAND and its environment name them where they are
// (kept.h). With --join it runs in the namespaces of that process. --cwd is its working directory
// there.
//
// With --hostname COMMAND runs in a UTS namespace with this host name, if that is permitted.
//
// With --console the shim serves attach on that Unix socket (console.h). With --stdin COMMAND has
// an input, which --console writes to, and with --tty a terminal.
//
// With --session (exec in a container) COMMAND has the shim's own standard streams, and with
// "terminal" the terminal of its stdin becomes its controlling terminal. Nothing is copied. The
// report descriptor receives "s" when COMMAND runs, or "e", the number of exec's errno, a blank and
// the message of the status.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KUBELET_SHIM_SIGNAL_STOP SIGRTMIN
// exec failed: the exit code that container runtimes report.
#define KUBELET_SHIM_EXIT_NOT_STARTED 128
#define KUBELET_SHIM_MAX_MESSAGE      500

struct kubelet_shim_status {
    pid_t shim_pid, pid;                    // pid: of COMMAND
    uint64_t shim_start_ticks, start_ticks; // kubelet_proc_start_time of both
    int64_t started_ms, finished_ms;        // Unix milliseconds; 0: not (yet)
    int exit_code;                          // 128 + signal if a signal killed it
    int exec_errno;                         // errno of exec if COMMAND was not started, else 0
    char message[KUBELET_SHIM_MAX_MESSAGE]; // why COMMAND was not started; "": exec_errno says it
};

struct gs_error *kubelet_shim_status_read(const char *path, struct kubelet_shim_status *ret);
struct gs_error *kubelet_shim_status_write(const char *path, const struct kubelet_shim_status *s);

// --- shim_log.c: a container's log file in the CRI format ---
// Format: "2026-01-02T03:04:05.123456789Z stdout F line". Lines longer than 16 KiB are split into
// entries with the tag P (partial) and a last entry with F (full). The file is rotated to FILE.1 at
// 10 MiB; the previous FILE.1 is replaced. Source: the log format of the Kubernetes Container
// Runtime Interface.

#define KUBELET_SHIM_LOG_MAX_BYTES (10u * 1024 * 1024)
#define KUBELET_SHIM_LOG_MAX_LINE  (16u * 1024)

struct kubelet_shim_log {
    const char *path; // borrowed
    int fd;
    size_t size;
};

struct gs_error *kubelet_shim_log_open(const char *path, struct kubelet_shim_log *ret);
void kubelet_shim_log_finish(struct kubelet_shim_log *l);

// Removes whole lines from `pending` and writes them. The unfinished rest stays in `pending`; with
// `flush` (end of the stream) it is written as well. A full disk loses lines and never stops the
// container.
void kubelet_shim_log_write(struct kubelet_shim_log *l, const char *stream, struct gs_buf *pending,
                            bool flush);

// --- proctree.c: processes in /proc ---
// Entries that cannot be read (other users, just ended) are ignored.

// Sends `sig` to every descendant of `root` at any depth, not to root itself. Returns the number of
// descendants, live or not yet reaped.
size_t kubelet_proc_signal_descendants(pid_t root, int sig);
// Clock ticks after boot at which the process started. 0 if the process does not exist. Together
// with the pid it identifies a process, since pids are reused.
uint64_t kubelet_proc_start_time(pid_t pid);
// Sends SIGKILL to the processes (never the caller) with the entry `first` and, unless NULL, the
// entry `second` ("NAME=value") in their initial environment. Returns their number.
size_t kubelet_proc_kill_marked(const char *first, const char *second);
