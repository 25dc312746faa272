// SPDX-License-Identifier: Apache-2.0
// Processes: which of them have a device open, their memory, and their utilization.
#include "base/mem.h"
#include "nvmlsim/nvml_lib.h"

// The end of a bucket in Unix time varies by about a microsecond between calls. This must not make
// a record that the caller has read look new.
#define SEEN_SLACK_NS GS_NS_PER_MS

enum { MODE_COMPUTE, MODE_GRAPHICS, MODE_MPS, MODE_ALL };

struct process_list {
    nvmlProcessDetail_v1_t items[NVMLSIM_SHM_PROCESSES];
    unsigned n;
};

// A PID cannot occur twice on the same instance: if it was reused, the dead process is removed.
static void list_processes(const struct nvml_call *c, struct process_list *ret)
{
    struct nvmlsim_shm_gpu *g = c->gpu;
    unsigned wanted = c->device->timeline;
    ret->n = 0;
    NVMLSIM_SHM_HOLD(held, &g->lock);
    nvmlsim_process_reap(g);
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++) {
        const struct nvmlsim_shm_process p = g->processes[i];
        if (p.state != NVMLSIM_SHM_PROC_LIVE || (wanted && p.timeline != wanted))
            continue;
        bool in_mig = p.timeline > 0 && p.timeline <= c->board->n_mig;
        ret->items[ret->n++] = (nvmlProcessDetail_v1_t){
            .pid = (uint32_t)p.pid,
            .usedGpuMemory = p.memory,
            .gpuInstanceId = in_mig ? c->board->mig[p.timeline - 1].gi_id : NVML_NO_INSTANCE,
            .computeInstanceId = in_mig ? c->board->mig[p.timeline - 1].ci_id : NVML_NO_INSTANCE,
        };
    }
}

// Fills the caller's array of entries of `stride` bytes. The first bytes of a detail entry are the
// entry of the shorter layouts.
static nvmlReturn_t give_processes(const struct process_list *list, size_t stride, unsigned *count,
                                   void *infos)
{
    unsigned room = infos ? *count : 0;
    *count = list->n;
    if (room < list->n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < list->n; i++)
        memcpy((char *)infos + i * stride, &list->items[i], stride);
    return NVML_SUCCESS;
}

// On a GPU with MIG, only root sees processes of other users.
static nvmlReturn_t check_list(const struct nvml_call *c)
{
    return c->device->timeline == 0 && c->board->n_mig && !nvmlsim_is_privileged()
               ? NVML_ERROR_NO_PERMISSION
               : NVML_SUCCESS;
}

static nvmlReturn_t compute_processes(const char *fn, nvmlDevice_t device, size_t stride,
                                      unsigned *count, void *infos)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_ANY, count != NULL);
    nvmlReturn_t rc = c.rc ? c.rc : check_list(&c);
    if (rc)
        return rc;
    GS_AUTO_FREE struct process_list *list = gs_alloc(sizeof(*list));
    list_processes(&c, list);
    return give_processes(list, stride, count, infos);
}

// Graphics and MPS are not simulated.
static nvmlReturn_t no_processes(const char *fn, nvmlDevice_t device, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_ANY, count != NULL);
    if (!c.rc)
        *count = 0;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                           nvmlProcessInfo_v1_t *infos)
{
    return compute_processes(__func__, device, sizeof(*infos), count, infos);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                              nvmlProcessInfo_v2_t *infos)
{
    return compute_processes(__func__, device, sizeof(*infos), count, infos);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                              nvmlProcessInfo_v2_t *infos)
{
    return compute_processes(__func__, device, sizeof(*infos), count, infos);
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_v1_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                               nvmlProcessInfo_v2_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                               nvmlProcessInfo_v2_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                              nvmlProcessInfo_v1_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device,
                                                                 unsigned *count,
                                                                 nvmlProcessInfo_v2_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device,
                                                                 unsigned *count,
                                                                 nvmlProcessInfo_v2_t *infos)
{
    return no_processes(__func__, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                            nvmlProcessDetailList_v1_t *list)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, list != NULL);
    if (c.rc)
        return c.rc;
    if (list->version != NVML_VERSION_WORD(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list->mode > MODE_ALL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t rc = check_list(&c);
    if (rc)
        return rc;
    GS_AUTO_FREE struct process_list *found = gs_alloc(sizeof(*found));
    if (list->mode == MODE_COMPUTE || list->mode == MODE_ALL)
        list_processes(&c, found);
    return give_processes(found, sizeof(*list->procArray), &list->numProcArrayEntries,
                          list->procArray);
}

struct util_list {
    nvmlProcessUtilizationInfo_v1_t items[NVMLSIM_SHM_PROCESSES];
    unsigned n;
};

// The end of the newest bucket in which the process was active; 0: none.
static uint32_t last_active_bucket(const struct nvmlsim_shm_bucket *ring, uint32_t first,
                                   uint32_t end)
{
    for (uint32_t id = end; id > first; id--)
        if (ring[(id - 1) % NVMLSIM_SHM_BUCKETS].id == id - 1 &&
            ring[(id - 1) % NVMLSIM_SHM_BUCKETS].busy_ns > 0)
            return id;
    return 0;
}

// One record per process that was active since then: averages over the whole window.
static void list_utilisation(const struct nvml_call *c, uint64_t last_seen, struct util_list *ret)
{
    struct nvmlsim_shm_gpu *g = c->gpu;
    ret->n = 0;
    NVMLSIM_SHM_HOLD(held, &g->lock);
    uint32_t first, end;
    nvmlsim_activity_window(last_seen ? nvmlsim_mono_of_unix_us(last_seen) + SEEN_SLACK_NS : 0,
                            gs_mono_ns(), &first, &end);
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES && first < end; i++) {
        if (g->processes[i].state == NVMLSIM_SHM_PROC_FREE)
            continue;
        const struct nvmlsim_shm_bucket *ring = g->process_rings[i];
        uint32_t newest = last_active_bucket(ring, first, end);
        if (!newest)
            continue;
        struct nvmlsim_activity_sum sum;
        nvmlsim_activity_sum(ring, first, end, &sum);
        ret->items[ret->n++] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = nvmlsim_unix_us_of((int64_t)newest * NVMLSIM_SHM_BUCKET_NS),
            .pid = (uint32_t)g->processes[i].pid,
            .smUtil = nvmlsim_activity_percent(sum.busy_ns, sum.span_ns),
            .memUtil = nvmlsim_activity_percent(sum.mem_ns, sum.span_ns),
        };
    }
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                      nvmlProcessUtilizationSample_t *samples,
                                                      unsigned *count, unsigned long long last_seen)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_NO_MIG | NVMLSIM_CALL_MAXWELL,
                                      count != NULL);
    if (c.rc)
        return c.rc;
    if (!samples) {
        *count = NVMLSIM_SHM_PROCESSES; // the capacity, as the driver returns it
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    GS_AUTO_FREE struct util_list *list = gs_alloc(sizeof(*list));
    list_utilisation(&c, last_seen, list);
    unsigned room = *count;
    *count = list->n;
    if (list->n == 0)
        return NVML_ERROR_NOT_FOUND;
    if (room < list->n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < list->n; i++) {
        const nvmlProcessUtilizationInfo_v1_t *u = &list->items[i];
        samples[i] = (nvmlProcessUtilizationSample_t){
            .pid = u->pid, .timeStamp = u->timeStamp, .smUtil = u->smUtil, .memUtil = u->memUtil};
    }
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                            nvmlProcessesUtilizationInfo_v1_t *info)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_NO_MIG | NVMLSIM_CALL_MAXWELL,
                                      info != NULL);
    if (c.rc)
        return c.rc;
    if (info->version != NVML_VERSION_WORD(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!info->procUtilArray || info->processSamplesCount == 0) {
        info->processSamplesCount = NVMLSIM_SHM_PROCESSES;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    GS_AUTO_FREE struct util_list *list = gs_alloc(sizeof(*list));
    list_utilisation(&c, info->lastSeenTimeStamp, list);
    unsigned room = info->processSamplesCount;
    info->processSamplesCount = list->n;
    if (list->n == 0)
        return NVML_ERROR_NOT_FOUND;
    if (room < list->n)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(info->procUtilArray, list->items, list->n * sizeof(list->items[0]));
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, int *mode)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_NO_MIG, mode != NULL);
    if (!c.rc)
        *mode = 0;
    return c.rc;
}
