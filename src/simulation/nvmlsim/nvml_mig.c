// SPDX-License-Identifier: Apache-2.0
// MIG: mode, instances, profiles. A MIG device is a compute instance. The handle of the first one
// of a GPU instance also represents the GPU instance.
#include "nvmlsim/nvml_lib.h"

#define N_PROFILES 18 // NVML_GPU_INSTANCE_PROFILE_COUNT of 12.8, rounded up

NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current,
                                           unsigned *pending)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, current && pending);
    if (c.rc)
        return c.rc;
    if (c.board->model.mig_slices == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = c.board->n_mig > 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, count != NULL);
    if (!c.rc)
        *count = c.board->n_mig ? c.board->model.mig_slices : 0;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index,
                                                          nvmlDevice_t *mig)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, mig != NULL);
    if (c.rc)
        return c.rc;
    if (c.board->model.mig_slices == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (index >= c.board->model.mig_slices)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= c.board->n_mig)
        return NVML_ERROR_NOT_FOUND;
    *mig = nvmlsim_device_handle(device->gpu, 1 + index);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, is_mig != NULL);
    if (!c.rc)
        *is_mig = nvmlsim_device_is_mig(&c);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig,
                                                                   nvmlDevice_t *device)
{
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, device != NULL);
    if (!c.rc)
        *device = nvmlsim_device_handle(mig->gpu, 0);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned *id)
{
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, id != NULL);
    if (!c.rc)
        *id = nvmlsim_device_mig(&c)->gi_id;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned *id)
{
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, id != NULL);
    if (!c.rc)
        *id = nvmlsim_device_mig(&c)->ci_id;
    return c.rc;
}

static nvmlReturn_t attributes_of(const char *fn, nvmlDevice_t mig,
                                  nvmlDeviceAttributes_t *attributes)
{
    NVML_CALL c = nvmlsim_call_device(fn, mig, NVMLSIM_CALL_MIG, attributes != NULL);
    if (c.rc)
        return c.rc;
    const struct nvmlsim_shm_mig *m = nvmlsim_device_mig(&c);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = m->sms,
        .sharedCopyEngineCount = m->slices,
        .gpuInstanceSliceCount = m->slices,
        .computeInstanceSliceCount = m->ci_slices,
        .memorySizeMB = m->memory >> 20,
    };
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t mig, nvmlDeviceAttributes_t *attributes)
{
    return attributes_of(__func__, mig, attributes);
}

NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig,
                                                 nvmlDeviceAttributes_t *attributes)
{
    return attributes_of(__func__, mig, attributes);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id,
                                                   nvmlGpuInstance_t *instance)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, instance != NULL);
    if (c.rc)
        return c.rc;
    if (c.board->model.mig_slices == 0 || c.board->n_mig == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!nvmlsim_is_privileged())
        return NVML_ERROR_NO_PERMISSION;
    for (unsigned i = 0; i < c.board->n_mig; i++) {
        if (c.board->mig[i].gi_id == id) {
            *instance = (nvmlGpuInstance_t)(const void *)nvmlsim_device_handle(device->gpu, 1 + i);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance,
                                             nvmlGpuInstanceInfo_t *info)
{
    nvmlDevice_t mig = (nvmlDevice_t)(const void *)instance;
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, info != NULL);
    if (c.rc)
        return c.rc;
    const struct nvmlsim_shm_mig *m = nvmlsim_device_mig(&c);
    *info = (nvmlGpuInstanceInfo_t){.device = nvmlsim_device_handle(mig->gpu, 0),
                                    .id = m->gi_id,
                                    .profileId = m->nvml_profile,
                                    .placement = {.start = m->start, .size = m->mem_slices}};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned id,
                                                            nvmlComputeInstance_t *compute)
{
    nvmlDevice_t mig = (nvmlDevice_t)(const void *)instance;
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, compute != NULL);
    if (c.rc)
        return c.rc;
    if (!nvmlsim_is_privileged())
        return NVML_ERROR_NO_PERMISSION;
    for (unsigned i = 0; i < c.board->n_mig; i++) {
        if (c.board->mig[i].gi_id == nvmlsim_device_mig(&c)->gi_id && c.board->mig[i].ci_id == id) {
            *compute = (nvmlComputeInstance_t)(const void *)nvmlsim_device_handle(mig->gpu, 1 + i);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

// The timeline whose handle represents the GPU instance: its first compute instance.
static unsigned first_of(const struct nvml_call *c, const struct nvmlsim_shm_mig *m)
{
    for (unsigned i = 0; i < c->board->n_mig; i++)
        if (c->board->mig[i].gi_id == m->gi_id)
            return 1 + i;
    return 0;
}

NVML_API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance,
                                                    nvmlComputeInstanceInfo_t *info)
{
    nvmlDevice_t mig = (nvmlDevice_t)(const void *)instance;
    NVML_CALL c = nvmlsim_call_device(__func__, mig, NVMLSIM_CALL_MIG, info != NULL);
    if (c.rc)
        return c.rc;
    const struct nvmlsim_shm_mig *m = nvmlsim_device_mig(&c);
    *info = (nvmlComputeInstanceInfo_t){
        .device = nvmlsim_device_handle(mig->gpu, 0),
        .gpuInstance =
            (nvmlGpuInstance_t)(const void *)nvmlsim_device_handle(mig->gpu, first_of(&c, m)),
        .id = m->ci_id,
        .profileId = m->nvml_profile,
        .placement = {.start = m->ci_start, .size = m->ci_slices},
    };
    return NVML_SUCCESS;
}

// Callers count up from 0 until INVALID_ARGUMENT and skip NOT_SUPPORTED.
static nvmlReturn_t find_profile(const struct nvml_call *c, unsigned profile,
                                 const struct nvmlsim_mig_profile **ret)
{
    unsigned n = 0;
    const struct nvmlsim_mig_profile *profiles = nvmlsim_mig_profiles(c->board->model.name, &n);
    if (profile >= N_PROFILES)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < n; i++) {
        if (profiles[i].nvml_profile == profile) {
            *ret = &profiles[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned profile,
                                                          nvmlGpuInstanceProfileInfo_t *info)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, info != NULL);
    const struct nvmlsim_mig_profile *p = NULL;
    nvmlReturn_t rc = c.rc ? c.rc : find_profile(&c, profile, &p);
    if (!rc)
        *info = (nvmlGpuInstanceProfileInfo_t){.id = profile,
                                               .sliceCount = p->slices,
                                               .instanceCount = p->max_count,
                                               .multiprocessorCount = p->sms,
                                               .copyEngineCount = p->slices,
                                               .memorySizeMB = p->memory_mib};
    return rc;
}

static void give_profile_v2(const struct nvmlsim_mig_profile *p,
                            nvmlGpuInstanceProfileInfo_v2_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v2_t){.version = info->version,
                                              .id = p->nvml_profile,
                                              .sliceCount = p->slices,
                                              .instanceCount = p->max_count,
                                              .multiprocessorCount = p->sms,
                                              .copyEngineCount = p->slices,
                                              .memorySizeMB = p->memory_mib};
    nvmlsim_give_text(info->name, sizeof(info->name), p->name);
}

static void give_profile_v3(const struct nvmlsim_mig_profile *p,
                            nvmlGpuInstanceProfileInfo_v3_t *info)
{
    *info = (nvmlGpuInstanceProfileInfo_v3_t){.version = info->version,
                                              .id = p->nvml_profile,
                                              .sliceCount = p->slices,
                                              .instanceCount = p->max_count,
                                              .multiprocessorCount = p->sms,
                                              .copyEngineCount = p->slices,
                                              .memorySizeMB = p->memory_mib};
    nvmlsim_give_text(info->name, sizeof(info->name), p->name);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile,
                                                           nvmlGpuInstanceProfileInfo_v2_t *info)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, info != NULL);
    const struct nvmlsim_mig_profile *p = NULL;
    nvmlReturn_t rc = c.rc ? c.rc : find_profile(&c, profile, &p);
    if (rc)
        return rc;
    if (info->version == NVML_VERSION_WORD(nvmlGpuInstanceProfileInfo_v2_t, 2))
        give_profile_v2(p, info);
    else if (info->version == NVML_VERSION_WORD(nvmlGpuInstanceProfileInfo_v3_t, 3))
        give_profile_v3(p, (nvmlGpuInstanceProfileInfo_v3_t *)(void *)info);
    else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return NVML_SUCCESS;
}
