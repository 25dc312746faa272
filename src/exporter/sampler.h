// SPDX-License-Identifier: Apache-2.0
// Samples the GPUs on a thread of its own, so that a driver call that hangs stops nothing else.
// What the thread hands over is immutable and then belongs to the loop. One lock, held for a few
// loads and stores on either side, never over a driver call.
#pragma once

#include "exporter/owner.h"
#include "gpu/gpu.h"

#include <uv.h>

struct exporter_sample {
    struct gpu_snapshot *gpus;
    struct exporter_owner **owners;          // [device][process], as in gpus->devices[].processes
    int64_t mono_ns;                         // when the pass ended
    uint64_t resolved[EXPORTER_OWNER_KINDS]; // processes looked up in /proc so far
};
void exporter_sample_free(struct exporter_sample *s);
GS_DEFINE_CLEANUP(struct exporter_sample *, exporter_sample_free)

// A pass that fails is tried again after a second (or the interval, where that is less) and then
// with growing pauses up to EXPORTER_SAMPLER_MAX_PAUSE_NS: each attempt may start helpers of the
// driver.
#define EXPORTER_SAMPLER_MAX_PAUSE_NS INT64_C(10000000000)

struct exporter_sampler_config {
    struct gpu_backend_config backend; // strings are copied
    int64_t interval_ns;
    struct exporter_owner_config owners;
    // On the loop. Exactly one of the two is NULL; both are the callee's then.
    void (*on_sample)(void *arg, struct exporter_sample *s, struct gs_error *err,
                      enum gpu_driver driver);
    void *arg;
};

struct exporter_sampler;

struct gs_error *exporter_sampler_start(uv_loop_t *loop, const struct exporter_sampler_config *cfg,
                                        struct exporter_sampler **ret);
// Other fields (wanted and every_ns of gpu_backend_config) from the next pass on.
void exporter_sampler_want(struct exporter_sampler *s, const bool *wanted, const int64_t *every_ns);
// Since when the thread is inside a pass (or the opening); 0 when it is not.
int64_t exporter_sampler_busy_since_ns(struct exporter_sampler *s);
// Ends the thread. When it does not come back from the driver in half a second it is left behind
// with its memory and false is returned: then the process must end by _exit(). No callback
// afterwards.
bool exporter_sampler_stop(struct exporter_sampler *s);
