// SPDX-License-Identifier: Apache-2.0
// MIG devices of a GPU. Their handles become invalid when the GPU is reconfigured, so they are
// queried for each sample.
#include "gpu/gpu_private.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

// "NVIDIA A100-SXM4-80GB MIG 1g.10gb" -> "1g.10gb": the only source that needs no privilege.
static void read_profile(struct gpu_reader *b, nvml_device handle, struct gpu_instance *i)
{
    char name[NVML_TEXT_NAME] = "";
    if (NVML(b, name, handle, name, sizeof(name)) != NVML_OK)
        return;
    gpu_backend_clean_text(name, sizeof(name));
    const char *mig = strstr(name, "MIG ");
    if (mig)
        snprintf(i->profile, sizeof(i->profile), "%.31s", mig + strlen("MIG "));
}

static bool read_instance(struct gpu_reader *b, nvml_device handle, struct gpu_instance *i)
{
    unsigned gi = 0, ci = 0;
    if (NVML(b, gpu_instance_id, handle, &gi) != NVML_OK ||
        NVML(b, uuid, handle, i->uuid, sizeof(i->uuid)) != NVML_OK)
        return false;
    gpu_backend_clean_text(i->uuid, sizeof(i->uuid));
    i->gpu_instance_id = gi;
    if (NVML(b, compute_instance_id, handle, &ci) == NVML_OK)
        i->compute_instance_id = ci;
    read_profile(b, handle, i);
    i->fb = gpu_backend_read_memory(b, handle);
    if (i->fb.total_bytes.validity == GPU_VALID)
        i->memory_total = (uint64_t)i->fb.total_bytes.i;
    return true;
}

static void find_divided(struct gpu_device *d)
{
    for (size_t i = 0; i < d->n_instances; i++)
        for (size_t k = 0; k < d->n_instances; k++)
            if (i != k && d->instances[i].gpu_instance_id == d->instances[k].gpu_instance_id)
                d->instances[i].divided = true;
}

void gpu_backend_read_instances(struct gpu_reader *b, struct gpu_known_device *k,
                                struct gpu_device *d)
{
    unsigned current = 0, pending = 0, max = 0;
    if (NVML(b, mig_mode, k->handle, &current, &pending) != NVML_OK || !current ||
        NVML(b, mig_max, k->handle, &max) != NVML_OK || !max)
        return;
    max = max < GPU_MAX_INSTANCES ? max : GPU_MAX_INSTANCES;
    d->instances = gs_alloc_array(max, sizeof(*d->instances));
    bool valid = true;
    for (unsigned n = 0; n < max && !b->device_lost; n++) {
        nvml_device handle = NULL;
        // an unused index, or after the last one
        if (NVML(b, mig_handle, k->handle, n, &handle) != NVML_OK)
            continue;
        struct gpu_instance i = {0};
        if (!read_instance(b, handle, &i))
            continue;
        d->instances[d->n_instances++] = i;
        if (!gpu_backend_list_processes(b, handle, &i, d))
            valid = false;
    }
    d->processes_valid = d->n_instances && valid;
    find_divided(d);
}
