// SPDX-License-Identifier: Apache-2.0
// Event sets. Only events after the registration are delivered. Waiters sleep on the event counter
// in shared memory.
#include "base/mem.h"
#include "nvmlsim/nvml_lib.h"

#define WAIT_STEP_MS 100 // interval at which a waiter checks for nvmlShutdown
#define V1_SIZE      offsetof(nvmlEventData_t, gpuInstanceId)

struct nvml_event_set {
    pthread_mutex_t lock;
    uint64_t mask[NVMLSIM_MAX_GPUS]; // 0: not registered
    uint64_t next[NVMLSIM_MAX_GPUS]; // index of the next event to read
};

static uint64_t supported(const struct nvmlsim_shm_board *g)
{
    return NVML_EVENT_XID | (g->model.flags & NVMLSIM_ECC ? NVML_EVENT_SBE | NVML_EVENT_DBE : 0);
}

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    NVML_CALL c = nvmlsim_call_system(__func__, set != NULL);
    if (c.rc)
        return c.rc;
    struct nvml_event_set *s = gs_alloc(sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    *set = s;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device,
                                                       unsigned long long *types)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, types != NULL);
    if (!c.rc)
        *types = supported(c.board);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                               nvmlEventSet_t set)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, set != NULL);
    if (c.rc)
        return c.rc;
    if (types & ~supported(c.board))
        return NVML_ERROR_NOT_SUPPORTED;
    uint64_t now;
    {
        NVMLSIM_SHM_HOLD(held, &c.gpu->lock);
        now = c.gpu->n_events;
    }
    NVMLSIM_SHM_HOLD(held_set, &set->lock);
    if (!set->mask[device->gpu])
        set->next[device->gpu] = now;
    set->mask[device->gpu] |= types;
    return NVML_SUCCESS;
}

static bool next_of_gpu(struct nvml_event_set *set, struct nvmlsim_shm_gpu *g, unsigned index,
                        nvmlEventData_t *ret)
{
    NVMLSIM_SHM_HOLD(held, &g->lock);
    uint64_t n = __atomic_load_n(&g->n_events, __ATOMIC_RELAXED);
    if (n > NVMLSIM_SHM_EVENTS && set->next[index] < n - NVMLSIM_SHM_EVENTS)
        set->next[index] = n - NVMLSIM_SHM_EVENTS; // older ones were overwritten
    if (set->next[index] > n)
        set->next[index] = n;
    while (set->next[index] < n) {
        const struct nvmlsim_shm_event e = g->events[set->next[index]++ % NVMLSIM_SHM_EVENTS];
        if (!(e.type & set->mask[index]))
            continue;
        *ret = (nvmlEventData_t){.device = nvmlsim_device_handle(index, 0),
                                 .eventType = e.type,
                                 .eventData = e.data,
                                 .gpuInstanceId = e.gi_id,
                                 .computeInstanceId = e.ci_id};
        return true;
    }
    return false;
}

// Returns an event, else GPU_IS_LOST if a registered GPU is lost, else TIMEOUT.
static nvmlReturn_t poll_set(struct nvml_event_set *set, const struct nvml_call *c,
                             nvmlEventData_t *ret)
{
    bool lost = false;
    NVMLSIM_SHM_HOLD(held, &set->lock);
    for (unsigned i = 0; i < c->sim->n_gpus; i++) {
        if (!set->mask[i])
            continue;
        if (next_of_gpu(set, &c->seg->gpus[i], i, ret))
            return NVML_SUCCESS;
        lost = lost || __atomic_load_n(&c->seg->gpus[i].lost, __ATOMIC_ACQUIRE);
    }
    return lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
}

// Checks the set, then waits for a new event. The wait is short and therefore keeps the attachment:
// nvmlShutdown waits for it.
static nvmlReturn_t wait_step(nvmlEventSet_t set, int64_t until, nvmlEventData_t *ret)
{
    NVML_CALL c = nvmlsim_call_attached();
    if (c.rc)
        return c.rc;
    uint32_t seen = __atomic_load_n(&c.seg->event_seq, __ATOMIC_ACQUIRE);
    nvmlReturn_t rc = poll_set(set, &c, ret);
    int64_t left_ms = (until - gs_mono_ns() + GS_NS_PER_MS - 1) / GS_NS_PER_MS;
    if (rc == NVML_ERROR_TIMEOUT && left_ms > 0)
        nvmlsim_shm_event_wait(c.seg, seen,
                               left_ms < WAIT_STEP_MS ? (unsigned)left_ms : WAIT_STEP_MS);
    return rc;
}

static nvmlReturn_t wait_event(const char *fn, nvmlEventSet_t set, nvmlEventData_t *data,
                               size_t size, unsigned timeout_ms)
{
    {
        NVML_CALL c = nvmlsim_call_system(fn, set && data);
        if (c.rc)
            return c.rc;
    }
    int64_t until = gs_mono_ns() + (int64_t)timeout_ms * GS_NS_PER_MS;
    nvmlReturn_t rc;
    nvmlEventData_t found;
    do
        rc = wait_step(set, until, &found);
    while (rc == NVML_ERROR_TIMEOUT && gs_mono_ns() < until);
    if (!rc)
        memcpy(data, &found, size);
    return rc;
}

NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
                                       unsigned timeout_ms)
{
    return wait_event(__func__, set, data, V1_SIZE, timeout_ms);
}

NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                          unsigned timeout_ms)
{
    return wait_event(__func__, set, data, sizeof(*data), timeout_ms);
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    NVML_CALL c = nvmlsim_call_system(__func__, set != NULL);
    if (c.rc)
        return c.rc;
    pthread_mutex_destroy(&set->lock);
    free(set);
    return NVML_SUCCESS;
}
