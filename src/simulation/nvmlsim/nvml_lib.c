// SPDX-License-Identifier: Apache-2.0
// The core of the simulated libnvidia-ml: init, shutdown, handles, and the frame of every call.
// Programs may call it from any thread; calls hold a lock shared, init and shutdown hold it
// exclusively, and a call that hangs sleeps without it.
#include "nvmlsim/nvml_lib.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "nvmlsim/nvmlsim_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// 12.8 is the newest interface version whose calls and field IDs this library provides.

#define HANG_STEP_NS (20 * GS_NS_PER_MS)

enum { INIT_FLAG_ALL = 7 };

// Calls hold it shared; init and shutdown hold it exclusively.
static pthread_rwlock_t state_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct nvmlsim *attached;
static unsigned n_init;

static struct nvml_device handles[NVMLSIM_MAX_GPUS][NVMLSIM_SHM_TIMELINES];

nvmlDevice_t nvmlsim_device_handle(unsigned gpu, unsigned timeline)
{
    return &handles[gpu][timeline];
}

static bool valid_handle(const struct nvmlsim *sim, nvmlDevice_t device)
{
    uintptr_t at = (uintptr_t)device, first = (uintptr_t)handles;
    return at >= first && at < first + sizeof(handles) && (at - first) % sizeof(*device) == 0 &&
           device->gpu < sim->n_gpus && device->timeline <= sim->boards[device->gpu].n_mig;
}

void nvmlsim_call_leave(struct nvml_call *c)
{
    if (c->entered)
        pthread_rwlock_unlock(&state_lock);
}

static void call_enter(struct nvml_call *c)
{
    pthread_rwlock_rdlock(&state_lock);
    c->entered = true;
    c->sim = attached;
    c->seg = attached ? attached->seg : NULL;
    if (!attached)
        c->rc = NVML_ERROR_UNINITIALIZED;
}

// Sleeps without the lock, so that a hanging call does not block nvmlShutdown.
static void hang(struct nvml_call *c, const struct nvmlsim_fault_hit *hit)
{
    int64_t until = gs_mono_ns() + (int64_t)hit->hang_ms * GS_NS_PER_MS;
    while (!c->rc && gs_mono_ns() < until && nvmlsim_fault_unchanged(c->seg, hit)) {
        nvmlsim_call_leave(c);
        int64_t left = until - gs_mono_ns();
        struct timespec step = {.tv_nsec = left < 0              ? 0
                                           : left < HANG_STEP_NS ? left
                                                                 : HANG_STEP_NS};
        nanosleep(&step, NULL);
        call_enter(c);
    }
}

static void apply_faults(struct nvml_call *c, const char *fn, int gpu)
{
    struct nvmlsim_fault_hit hit;
    if (c->rc || !nvmlsim_fault_match(c->seg, fn, gpu, &hit))
        return;
    if (hit.hang_ms)
        hang(c, &hit);
    if (!c->rc)
        c->rc = hit.code;
}

struct nvml_call nvmlsim_call_system(const char *fn, bool valid)
{
    struct nvml_call c = {0};
    call_enter(&c);
    if (!c.rc && !valid)
        c.rc = NVML_ERROR_INVALID_ARGUMENT;
    apply_faults(&c, fn, -1);
    return c;
}

struct nvml_call nvmlsim_call_attached(void)
{
    struct nvml_call c = {0};
    call_enter(&c);
    return c;
}

static nvmlReturn_t check_device(const struct nvml_call *c, unsigned flags)
{
    static const struct {
        unsigned flag;
        enum nvmlsim_arch least;
    } ages[] = {{NVMLSIM_CALL_MAXWELL, NVMLSIM_KEPLER + 1},
                {NVMLSIM_CALL_VOLTA, NVMLSIM_VOLTA},
                {NVMLSIM_CALL_AMPERE, NVMLSIM_AMPERE},
                {NVMLSIM_CALL_HOPPER, NVMLSIM_HOPPER}};
    const struct nvmlsim_model *m = &c->board->model;
    bool mig = nvmlsim_device_is_mig(c);
    if ((flags & NVMLSIM_CALL_MIG) && !mig)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (mig && !(flags & (NVMLSIM_CALL_ANY | NVMLSIM_CALL_MIG)))
        return NVML_ERROR_NOT_SUPPORTED;
    if (((flags & NVMLSIM_CALL_NO_MIG) && c->board->n_mig) ||
        ((flags & NVMLSIM_CALL_HBM) && !(m->flags & NVMLSIM_HBM)) ||
        ((flags & NVMLSIM_CALL_ECC) && !(m->flags & NVMLSIM_ECC)) ||
        ((flags & NVMLSIM_CALL_FAN) && !(m->flags & NVMLSIM_FAN)))
        return NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < GS_ARRAY_LEN(ages); i++)
        if ((flags & ages[i].flag) && m->arch < ages[i].least)
            return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

struct nvml_call nvmlsim_call_device(const char *fn, nvmlDevice_t device, unsigned flags,
                                     bool valid)
{
    struct nvml_call c = {0};
    call_enter(&c);
    if (c.rc)
        return c;
    if (!valid_handle(c.sim, device) || !valid) {
        c.rc = NVML_ERROR_INVALID_ARGUMENT;
        return c;
    }
    c.device = device;
    apply_faults(&c, fn, (int)device->gpu);
    // After a hang, the attachment may have changed.
    if (!c.rc && !valid_handle(c.sim, device))
        c.rc = NVML_ERROR_INVALID_ARGUMENT;
    if (c.rc)
        return c;
    c.gpu = &c.seg->gpus[device->gpu];
    c.board = &c.sim->boards[device->gpu];
    if (__atomic_load_n(&c.gpu->lost, __ATOMIC_ACQUIRE))
        c.rc = NVML_ERROR_GPU_IS_LOST;
    if (!c.rc)
        c.rc = check_device(&c, flags);
    return c;
}

nvmlReturn_t nvmlsim_give_text(char *dst, unsigned size, const char *text)
{
    size_t n = strlen(text) + 1;
    if (n > size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(dst, text, n);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlsim_give_number(const char *fn, nvmlDevice_t device, unsigned flags,
                                 unsigned value, unsigned *ret)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, flags, ret != NULL);
    if (!c.rc)
        *ret = value;
    return c.rc;
}

nvmlReturn_t nvmlsim_give_choice(const char *fn, nvmlDevice_t device, int value, int *ret)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, ret != NULL);
    if (!c.rc)
        *ret = value;
    return c.rc;
}

bool nvmlsim_is_privileged(void)
{
    return geteuid() == 0;
}

void nvmlsim_read_gauges(const struct nvml_call *c, struct nvmlsim_activity_gauges *ret)
{
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    nvmlsim_activity_gauges(c->gpu, c->board, c->sim->created, gs_mono_ns(), ret);
}

bool nvmlsim_read_set_value(const struct nvml_call *c, uint32_t what, uint64_t *ret)
{
    if (__atomic_load_n(&c->gpu->n_values, __ATOMIC_ACQUIRE) == 0)
        return false;
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    for (unsigned i = 0; i < NVMLSIM_SHM_VALUES; i++) {
        if (c->gpu->values[i].used && c->gpu->values[i].what == what) {
            *ret = c->gpu->values[i].value;
            return true;
        }
    }
    return false;
}

uint64_t nvmlsim_unix_us_of(int64_t mono_ns)
{
    return (uint64_t)(gs_unix_us() + (mono_ns - gs_mono_ns()) / 1000);
}

int64_t nvmlsim_mono_of_unix_us(uint64_t unix_us)
{
    int64_t now_us = gs_unix_us(), now_ns = gs_mono_ns();
    if (unix_us > INT64_MAX / 1000)
        return now_ns;
    int64_t at = now_ns + ((int64_t)unix_us - now_us) * 1000;
    return at < 0 ? 0 : at > now_ns ? now_ns : at;
}

static nvmlReturn_t attach(void)
{
    const char *name = getenv(NVMLSIM_ENV);
    if (!name || !*name)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    struct gs_error *err = nvmlsim_attach(name, &attached);
    if (!err)
        return NVML_SUCCESS;
    enum gs_code code = gs_error_code(err);
    gs_error_free(err);
    switch (code) {
    case GS_ENOTFOUND:
    case GS_EINVAL:
    case GS_EUNAVAIL:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case GS_EPERM:
        return NVML_ERROR_NO_PERMISSION;
    default:
        return NVML_ERROR_UNKNOWN;
    }
}

static void fill_handles(void)
{
    for (unsigned g = 0; g < NVMLSIM_MAX_GPUS; g++)
        for (unsigned t = 0; t < NVMLSIM_SHM_TIMELINES; t++)
            handles[g][t] = (struct nvml_device){g, t};
}

static nvmlReturn_t init_locked(void)
{
    if (n_init == 0) {
        nvmlReturn_t rc = attach();
        if (rc)
            return rc;
        fill_handles();
    }
    n_init++;
    return NVML_SUCCESS;
}

static nvmlReturn_t shutdown_locked(void)
{
    if (n_init == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (--n_init == 0) {
        nvmlsim_detach(attached);
        attached = NULL;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t init(const char *fn)
{
    pthread_rwlock_wrlock(&state_lock);
    nvmlReturn_t rc = init_locked();
    pthread_rwlock_unlock(&state_lock);
    if (rc)
        return rc;
    {
        NVML_CALL c = nvmlsim_call_system(fn, true);
        rc = c.rc;
    }
    if (rc) {
        pthread_rwlock_wrlock(&state_lock);
        shutdown_locked();
        pthread_rwlock_unlock(&state_lock);
    }
    return rc;
}

NVML_API nvmlReturn_t nvmlInit(void)
{
    return init(__func__);
}

NVML_API nvmlReturn_t nvmlInit_v2(void)
{
    return init(__func__);
}

NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    return flags & ~(unsigned)INIT_FLAG_ALL ? NVML_ERROR_INVALID_ARGUMENT : init(__func__);
}

NVML_API nvmlReturn_t nvmlShutdown(void)
{
    {
        NVML_CALL c = nvmlsim_call_system(__func__, true);
        if (c.rc)
            return c.rc;
    }
    pthread_rwlock_wrlock(&state_lock);
    nvmlReturn_t rc = shutdown_locked();
    pthread_rwlock_unlock(&state_lock);
    return rc;
}

NVML_API const char *nvmlErrorString(nvmlReturn_t code)
{
    switch (code) {
    case NVML_SUCCESS:
        return "Success";
#define CODE_TEXT(number, name, text)                                                              \
    case number:                                                                                   \
        return text;
        NVML_CODES(CODE_TEXT) // NOLINT(bugprone-branch-clone): some have the same text
#undef CODE_TEXT
    default:
        return "Unknown Error";
    }
}

NVML_API int gpuscaleNvmlIsSimulated(void)
{
    return 1;
}

unsigned nvmlsim_driver_branch(struct nvmlsim_shm_segment *seg)
{
    struct nvml_call c = {.seg = seg, .gpu = &seg->gpus[0]};
    uint64_t set = NVMLSIM_DRIVER_BRANCH;
    nvmlsim_read_set_value(&c, NVMLSIM_VALUE_DRIVER_BRANCH, &set);
    return (unsigned)set % 1000;
}

nvmlReturn_t nvmlsim_give_driver_version(const struct nvml_call *c, const char *before,
                                         char *version, unsigned length)
{
    char text[80];
    snprintf(text, sizeof(text), "%s%u." NVMLSIM_DRIVER_MINOR, before,
             nvmlsim_driver_branch(c->seg));
    return nvmlsim_give_text(version, length, text);
}

NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    NVML_CALL c = nvmlsim_call_system(__func__, version != NULL);
    return c.rc ? c.rc : nvmlsim_give_driver_version(&c, "", version, length);
}

NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    NVML_CALL c = nvmlsim_call_system(__func__, version != NULL);
    return c.rc ? c.rc : nvmlsim_give_driver_version(&c, "12.", version, length);
}

static nvmlReturn_t cuda_version(const char *fn, int *version)
{
    NVML_CALL c = nvmlsim_call_system(fn, version != NULL);
    if (!c.rc)
        *version = NVMLSIM_CUDA_VERSION;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(__func__, version);
}

NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(__func__, version);
}

// The command line, as the driver's library reads it; truncated to the buffer.
NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    NVML_CALL c = nvmlsim_call_system(__func__, name != NULL && length > 0);
    if (c.rc)
        return c.rc;
    char path[40];
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
    ssize_t n = read(fd, name, length - 1);
    close(fd);
    if (n < 0)
        return NVML_ERROR_NOT_FOUND;
    name[n] = 0;
    return NVML_SUCCESS;
}
