// SPDX-License-Identifier: Apache-2.0
// The frame around each exported call: is NVML initialised, is the handle one of ours, is the GPU
// lost, does a fault rule match. A call that passes holds the attachment until the end of its
// scope, so that nvmlShutdown of another thread waits for it.
#pragma once

#include "base/attr.h"
#include "base/clock.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/nvmlsim_private.h"

#include <stdbool.h>

#define NVML_API __attribute__((visibility("default")))

// A handle: gpu, and timeline 0 for the GPU itself, 1… for its MIG instances.
struct nvml_device {
    unsigned gpu, timeline;
};

enum nvmlsim_call_flags {
    NVMLSIM_CALL_GPU = 0,          // a whole GPU; a MIG handle gives NOT_SUPPORTED
    NVMLSIM_CALL_ANY = 1 << 0,     // a MIG handle is fine
    NVMLSIM_CALL_MIG = 1 << 1,     // only a MIG handle
    NVMLSIM_CALL_NO_MIG = 1 << 2,  // NOT_SUPPORTED while the GPU is in MIG mode
    NVMLSIM_CALL_HBM = 1 << 3,     // NOT_SUPPORTED without memory sensors
    NVMLSIM_CALL_ECC = 1 << 4,     // NOT_SUPPORTED without ECC
    NVMLSIM_CALL_VOLTA = 1 << 5,   // NOT_SUPPORTED on older boards
    NVMLSIM_CALL_AMPERE = 1 << 6,  // likewise
    NVMLSIM_CALL_HOPPER = 1 << 7,  // likewise
    NVMLSIM_CALL_MAXWELL = 1 << 8, // likewise
    NVMLSIM_CALL_FAN = 1 << 9,     // NOT_SUPPORTED without a fan
};

struct nvml_call {
    nvmlReturn_t rc; // not 0: return it
    bool entered;
    const struct nvmlsim *sim;
    struct nvmlsim_shm_segment *seg;
    struct nvmlsim_shm_gpu *gpu;           // device calls
    const struct nvmlsim_shm_board *board; // likewise
    const struct nvml_device *device;      // likewise
};

// `fn`: __func__. `valid`: whether the arguments besides the handle are usable.
struct nvml_call nvmlsim_call_system(const char *fn, bool valid);
struct nvml_call nvmlsim_call_attached(void); // no fault rule applies: a step inside of a call
struct nvml_call nvmlsim_call_device(const char *fn, nvmlDevice_t device, unsigned flags,
                                     bool valid);
void nvmlsim_call_leave(struct nvml_call *c);
#define NVML_CALL GS_CLEANUP(nvmlsim_call_leave) struct nvml_call

// Handles; timeline 0 is the GPU.
nvmlDevice_t nvmlsim_device_handle(unsigned gpu, unsigned timeline);

// Copies a text with its NUL; INSUFFICIENT_SIZE when it does not fit.
nvmlReturn_t nvmlsim_give_text(char *dst, unsigned size, const char *text);

static inline bool nvmlsim_device_is_mig(const struct nvml_call *c)
{
    return c->device->timeline > 0;
}

static inline const struct nvmlsim_shm_mig *nvmlsim_device_mig(const struct nvml_call *c)
{
    return &c->board->mig[c->device->timeline - 1];
}

// The driver tells these only to root.
bool nvmlsim_is_privileged(void);

// The gauges of the GPU as of now.
void nvmlsim_read_gauges(const struct nvml_call *c, struct nvmlsim_activity_gauges *ret);

// 570 of 570.124.06.
unsigned nvmlsim_driver_branch(struct nvmlsim_shm_segment *seg);

// What nvmlsim_set_value has set, else *ret stays as it is.
bool nvmlsim_read_set_value(const struct nvml_call *c, uint32_t what, uint64_t *ret);

// Between monotonic time and Unix microseconds, as the clocks stand now.
uint64_t nvmlsim_unix_us_of(int64_t mono_ns);
int64_t nvmlsim_mono_of_unix_us(uint64_t unix_us);
