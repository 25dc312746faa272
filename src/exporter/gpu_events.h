// SPDX-License-Identifier: Apache-2.0
// What happens to GPUs, as log lines and as a text for /health: XIDs, GPUs that are lost, and GPUs
// for which a driver call does not return.
#pragma once

#include "base/buf.h"
#include "gpu/gpu.h"

struct exporter_gpu_events;
struct exporter_gpu_events *exporter_gpu_events_new(void);
void exporter_gpu_events_free(struct exporter_gpu_events *e);

// Logs what has changed since the last snapshot. The first XID of a number is logged at once, more
// of them at most once a minute. now_ns: gs_mono_ns of the snapshot.
void exporter_gpu_events_take(struct exporter_gpu_events *e, const struct gpu_snapshot *s,
                              int64_t now_ns);

// Appends the GPUs that are lost or hang: "1 of 2 GPUs are lost: GPU 1 (GPU-…, 00000000:18:00.0)".
// False: all are well.
bool exporter_gpu_events_problems(const struct gpu_snapshot *s, struct gs_buf *out);
