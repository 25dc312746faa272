// SPDX-License-Identifier: Apache-2.0
// A container's log file in the CRI format: "2026-01-02T03:04:05.123456789Z stdout F line". Lines
// longer than 16 KiB are cut into entries tagged P (partial) before the last one's F (full). At 10
// MiB the file becomes FILE.1 (the former FILE.1 goes) and a new one starts. Source: the log format
// of the Kubernetes Container Runtime Interface.
#pragma once

#include "base/buf.h"
#include "base/error.h"

#define KUBELET_SHIM_LOG_MAX_BYTES (10u * 1024 * 1024)
#define KUBELET_SHIM_LOG_MAX_LINE  (16u * 1024)

struct kubelet_shim_log {
    const char *path; // borrowed
    int fd;
    size_t size;
};

struct gs_error *kubelet_shim_log_open(const char *path, struct kubelet_shim_log *ret);
void kubelet_shim_log_finish(struct kubelet_shim_log *l);

// Cuts whole lines off `pending`, which keeps the unfinished rest, and writes them. At the end of
// the stream (`flush`) the rest is written too. A full disk loses lines, never the container.
void kubelet_shim_log_write(struct kubelet_shim_log *l, const char *stream, struct gs_buf *pending,
                            bool flush);
