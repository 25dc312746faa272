// SPDX-License-Identifier: Apache-2.0
// Corrects the shares of processes: drivers sample them at other times than the device, so they
// may add up to more than the device's value. They are scaled down to it; integers are distributed
// without a rest.
#include "exporter/sampler.h"

#include "base/assert.h"
#include "base/slice.h"

#include <stddef.h>

struct part {
    size_t offset; // of the uint32_t in struct gpu_process
    enum gpu_field device;
};

static uint32_t *usage_part(struct gpu_process *p, const struct part *part)
{
    return (uint32_t *)((char *)p + part->offset);
}

// --- activity that is reported for the MPS server ---

// Some drivers report the activity of MPS clients for their server. The individual clients are
// unknown, so each gets an equal part.
static void split_mps_server(struct gpu_device *d, const struct exporter_owner *owners)
{
    struct gpu_process *server = NULL;
    unsigned clients = 0;
    for (size_t i = 0; i < d->n_processes; i++) {
        struct gpu_process *p = &d->processes[i];
        if (gs_streq(owners[i].process_name, EXPORTER_MPS_SERVER))
            server = p;
        else if (p->mps && p->sm_util)
            return; // this driver reports the clients
        else
            clients += p->mps;
    }
    if (!server || !clients || !server->has_util || !server->sm_util)
        return;
    for (size_t i = 0, n = 0; i < d->n_processes; i++) {
        struct gpu_process *p = &d->processes[i];
        if (!p->mps || p == server)
            continue;
        p->sm_util =
            server->sm_util * (uint32_t)(n + 1) / clients - server->sm_util * (uint32_t)n / clients;
        p->mem_util = server->mem_util / clients;
        p->has_util = p->util_estimated = true;
        n++;
    }
    server->sm_util = server->mem_util = 0;
    server->util_estimated = true;
}

// --- caps ---

// Running sums are rounded, so that the parts add up exactly to the limit.
struct scale {
    uint64_t sum, bound;
    uint64_t seen, given;
};

static uint64_t scaled(struct scale *s, uint64_t v)
{
    s->seen += v;
    uint64_t upto = (uint64_t)((__uint128_t)s->seen * s->bound / s->sum);
    uint64_t part = upto - s->given;
    s->given = upto;
    return part;
}

static void cap_part(struct gpu_device *d, const struct part *part)
{
    const struct gpu_value *whole = &d->fields[part->device];
    struct scale s = {.bound = 100};
    if (whole->validity == GPU_VALID && !whole->is_double && whole->i >= 0 && whole->i < 100)
        s.bound = (uint64_t)whole->i;
    for (size_t i = 0; i < d->n_processes; i++)
        s.sum += d->processes[i].has_util ? *usage_part(&d->processes[i], part) : 0;
    if (s.sum <= s.bound)
        return;
    for (size_t i = 0; i < d->n_processes; i++) {
        struct gpu_process *p = &d->processes[i];
        if (!p->has_util || !*usage_part(p, part))
            continue;
        *usage_part(p, part) = (uint32_t)scaled(&s, *usage_part(p, part));
        p->util_estimated = true;
    }
    gs_assert(s.given == s.bound);
}

static bool is_in(const struct gpu_process *p, const struct gpu_instance *instance)
{
    return p->has_memory && (!instance || p->gpu_instance == instance->gpu_instance_id);
}

// used: in MiB.
static void cap_memory(struct gpu_device *d, const struct gpu_instance *instance,
                       const struct gpu_value *used)
{
    if (used->validity != GPU_VALID || used->is_double || used->i < 0)
        return;
    struct scale s = {.bound = (uint64_t)used->i};
    for (size_t i = 0; i < d->n_processes; i++)
        s.sum += is_in(&d->processes[i], instance) ? d->processes[i].memory_bytes >> 20 : 0;
    if (s.sum <= s.bound)
        return;
    for (size_t i = 0; i < d->n_processes; i++) {
        struct gpu_process *p = &d->processes[i];
        if (!is_in(p, instance))
            continue;
        p->memory_bytes = scaled(&s, p->memory_bytes >> 20) << 20;
        p->memory_estimated = true;
    }
    gs_assert(s.given == s.bound);
}

static void clamp_device(struct gpu_device *d, const struct exporter_owner *owners)
{
    static const struct part parts[] = {
        {offsetof(struct gpu_process, sm_util), GPU_F_GPU_UTIL},
        {offsetof(struct gpu_process, mem_util), GPU_F_MEM_COPY_UTIL},
        {offsetof(struct gpu_process, enc_util), GPU_F_ENC_UTIL},
        {offsetof(struct gpu_process, dec_util), GPU_F_DEC_UTIL},
    };
    split_mps_server(d, owners);
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
        cap_part(d, &parts[i]);
    for (size_t i = 0; i < d->n_instances; i++)
        cap_memory(d, &d->instances[i], &d->instances[i].fb.used);
    if (!d->n_instances)
        cap_memory(d, NULL, &d->fields[GPU_F_FB_USED]);
}

void exporter_clamp_process_usage(struct exporter_sample *s)
{
    for (size_t i = 0; i < s->gpus->n_devices; i++)
        if (s->gpus->devices[i].n_processes)
            clamp_device(&s->gpus->devices[i], s->owners[i]);
}
