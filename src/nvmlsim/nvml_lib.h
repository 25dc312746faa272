// SPDX-License-Identifier: Apache-2.0
// The frame around each exported call: is NVML initialised, is the handle one of ours, is the GPU
// lost, does a fault rule match. A call that passes holds the attachment until the end of its
// scope, so that nvmlShutdown of another thread waits for it.
#pragma once

#include "base/attr.h"
#include "base/clock.h"
#include "nvmlsim/account.h"
#include "nvmlsim/nvml_calls.h"
#include "nvmlsim/process.h"
#include "nvmlsim/shm.h"

#include <stdbool.h>

#define NVML_API __attribute__((visibility("default")))

// A handle: gpu, and timeline 0 for the GPU itself, 1… for its MIG instances.
struct nvml_device {
    unsigned gpu, timeline;
};

enum call_flags {
    CALL_GPU = 0,          // a whole GPU; a MIG handle gives NOT_SUPPORTED
    CALL_ANY = 1 << 0,     // a MIG handle is fine
    CALL_MIG = 1 << 1,     // only a MIG handle
    CALL_NO_MIG = 1 << 2,  // NOT_SUPPORTED while the GPU is in MIG mode
    CALL_HBM = 1 << 3,     // NOT_SUPPORTED without memory sensors
    CALL_ECC = 1 << 4,     // NOT_SUPPORTED without ECC
    CALL_VOLTA = 1 << 5,   // NOT_SUPPORTED on older boards
    CALL_AMPERE = 1 << 6,  // likewise
    CALL_HOPPER = 1 << 7,  // likewise
    CALL_MAXWELL = 1 << 8, // likewise
    CALL_FAN = 1 << 9,     // NOT_SUPPORTED without a fan
};

struct nvml_call {
    nvmlReturn_t rc; // not 0: return it
    bool entered;
    const struct sim *sim;
    struct shm_segment *seg;
    struct shm_gpu *gpu;              // device calls
    const struct shm_board *board;    // likewise
    const struct nvml_device *device; // likewise
};

// `fn`: __func__. `valid`: whether the arguments besides the handle are usable.
struct nvml_call call_system(const char *fn, bool valid);
struct nvml_call call_attached(void); // no fault rule applies: a step inside of a call
struct nvml_call call_device(const char *fn, nvmlDevice_t device, unsigned flags, bool valid);
void call_leave(struct nvml_call *c);
#define NVML_CALL GS_CLEANUP(call_leave) struct nvml_call

// Handles; timeline 0 is the GPU.
nvmlDevice_t device_handle(unsigned gpu, unsigned timeline);

// Copies a text with its NUL; INSUFFICIENT_SIZE when it does not fit.
nvmlReturn_t give_text(char *dst, unsigned size, const char *text);

static inline bool device_is_mig(const struct nvml_call *c)
{
    return c->device->timeline > 0;
}

static inline const struct shm_mig *device_mig(const struct nvml_call *c)
{
    return &c->board->mig[c->device->timeline - 1];
}

// The driver tells these only to root.
bool is_privileged(void);

// The gauges of the GPU as of now.
void read_gauges(const struct nvml_call *c, struct account_gauges *ret);

// 570 of 570.124.06.
unsigned driver_branch(struct shm_segment *seg);

// What sim_set_value has set, else *ret stays as it is.
bool read_set_value(const struct nvml_call *c, uint32_t what, uint64_t *ret);

// Between monotonic time and Unix microseconds, as the clocks stand now.
uint64_t unix_us_of(int64_t mono_ns);
int64_t mono_of_unix_us(uint64_t unix_us);
