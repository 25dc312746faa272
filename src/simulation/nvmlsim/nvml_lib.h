// SPDX-License-Identifier: Apache-2.0
// Entry and exit of each exported call: checks that NVML is initialized, the handle is valid, the
// GPU is not lost, and no fault rule matches. A successful call holds the attachment until the end
// of its scope, so that nvmlShutdown of another thread waits for it.
#pragma once

#include "base/attr.h"
#include "base/clock.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/nvmlsim_private.h"

#include <stdbool.h>

#define NVML_API __attribute__((visibility("default")))

// A handle: the GPU, and timeline 0 for the GPU itself or 1… for its MIG instances.
struct nvml_device {
    unsigned gpu, timeline;
};

enum nvmlsim_call_flags {
    NVMLSIM_CALL_GPU = 0,          // a whole GPU; a MIG handle gives NOT_SUPPORTED
    NVMLSIM_CALL_ANY = 1 << 0,     // a MIG handle is allowed
    NVMLSIM_CALL_MIG = 1 << 1,     // only a MIG handle
    NVMLSIM_CALL_NO_MIG = 1 << 2,  // NOT_SUPPORTED while the GPU is in MIG mode
    NVMLSIM_CALL_HBM = 1 << 3,     // NOT_SUPPORTED without memory sensors
    NVMLSIM_CALL_ECC = 1 << 4,     // NOT_SUPPORTED without ECC
    NVMLSIM_CALL_VOLTA = 1 << 5,   // NOT_SUPPORTED on boards before Volta
    NVMLSIM_CALL_AMPERE = 1 << 6,  // before Ampere
    NVMLSIM_CALL_HOPPER = 1 << 7,  // before Hopper
    NVMLSIM_CALL_MAXWELL = 1 << 8, // before Maxwell
    NVMLSIM_CALL_FAN = 1 << 9,     // NOT_SUPPORTED without a fan
};

struct nvml_call {
    nvmlReturn_t rc; // not 0: return it
    bool entered;
    const struct nvmlsim *sim;
    struct nvmlsim_shm_segment *seg;
    struct nvmlsim_shm_gpu *gpu;           // only for device calls
    const struct nvmlsim_shm_board *board; // only for device calls
    const struct nvml_device *device;      // only for device calls
};

// `fn`: __func__. `valid`: whether the other arguments are valid.
struct nvml_call nvmlsim_call_system(const char *fn, bool valid);
struct nvml_call nvmlsim_call_attached(void); // without fault rules: a step inside a call
struct nvml_call nvmlsim_call_device(const char *fn, nvmlDevice_t device, unsigned flags,
                                     bool valid);
void nvmlsim_call_leave(struct nvml_call *c);
#define NVML_CALL GS_CLEANUP(nvmlsim_call_leave) struct nvml_call

// The handle of a GPU (timeline 0) or MIG instance.
nvmlDevice_t nvmlsim_device_handle(unsigned gpu, unsigned timeline);

// Copies a string with its NUL; INSUFFICIENT_SIZE if it does not fit.
nvmlReturn_t nvmlsim_give_text(char *dst, unsigned size, const char *text);

// A value of a whole GPU that is the same for each board with these features.
nvmlReturn_t nvmlsim_give_number(const char *fn, nvmlDevice_t device, unsigned flags,
                                 unsigned value, unsigned *ret);
nvmlReturn_t nvmlsim_give_choice(const char *fn, nvmlDevice_t device, int value, int *ret);

// The version of the driver after the text `before`.
nvmlReturn_t nvmlsim_give_driver_version(const struct nvml_call *c, const char *before,
                                         char *version, unsigned length);

static inline bool nvmlsim_device_is_mig(const struct nvml_call *c)
{
    return c->device->timeline > 0;
}

static inline const struct nvmlsim_shm_mig *nvmlsim_device_mig(const struct nvml_call *c)
{
    return &c->board->mig[c->device->timeline - 1];
}

// Whether the driver would return values that only root may read.
bool nvmlsim_is_privileged(void);

// The current gauges of the GPU.
void nvmlsim_read_gauges(const struct nvml_call *c, struct nvmlsim_activity_gauges *ret);

// The first number of the driver version: 570 of 570.124.06.
unsigned nvmlsim_driver_branch(struct nvmlsim_shm_segment *seg);

// Returns the value that nvmlsim_set_value has set; otherwise leaves *ret unchanged.
bool nvmlsim_read_set_value(const struct nvml_call *c, uint32_t what, uint64_t *ret);

// Convert between monotonic time and Unix microseconds with the current clock offset.
uint64_t nvmlsim_unix_us_of(int64_t mono_ns);
int64_t nvmlsim_mono_of_unix_us(uint64_t unix_us);
