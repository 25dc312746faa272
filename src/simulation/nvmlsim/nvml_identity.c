// SPDX-License-Identifier: Apache-2.0
// Enumeration and identity.
#include "base/mem.h"
#include "base/slice.h"
#include "nvmlsim/nvml_lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static nvmlReturn_t get_count(const char *fn, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_system(fn, count != NULL);
    if (!c.rc)
        *count = c.sim->n_gpus;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
    return get_count(__func__, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    return get_count(__func__, count);
}

// Finds a handle by a key. The checks of a device call apply to the result.
static nvmlReturn_t give_handle(const char *fn, unsigned gpu, unsigned timeline, nvmlDevice_t *ret)
{
    nvmlDevice_t handle = nvmlsim_device_handle(gpu, timeline);
    NVML_CALL c = nvmlsim_call_device(fn, handle, NVMLSIM_CALL_ANY, true);
    if (!c.rc)
        *ret = handle;
    return c.rc;
}

static nvmlReturn_t by_index(const char *fn, unsigned index, nvmlDevice_t *device)
{
    {
        NVML_CALL c = nvmlsim_call_system(fn, device != NULL);
        if (c.rc)
            return c.rc;
        if (index >= c.sim->n_gpus)
            return NVML_ERROR_INVALID_ARGUMENT;
    }
    return give_handle(fn, index, 0, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return by_index(__func__, index, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return by_index(__func__, index, device);
}

static nvmlReturn_t find_uuid(const char *fn, const char *uuid, bool valid, nvmlDevice_t *ret)
{
    NVML_CALL c = nvmlsim_call_system(fn, valid);
    for (unsigned i = 0; !c.rc && i < c.sim->n_gpus; i++) {
        const struct nvmlsim_shm_board *g = &c.sim->boards[i];
        for (unsigned t = 0; t <= g->n_mig; t++) {
            if (gs_streq(uuid, t ? g->mig[t - 1].uuid : g->uuid)) {
                *ret = nvmlsim_device_handle(i, t);
                return NVML_SUCCESS;
            }
        }
    }
    return c.rc ? c.rc : NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlDevice_t found = NULL;
    nvmlReturn_t rc = find_uuid(__func__, uuid, uuid && device, &found);
    return rc ? rc : give_handle(__func__, found->gpu, found->timeline, device);
}

// "00000000:10:00.0", also with a shorter domain or without one.
static bool same_bus_id(const char *full, const char *given)
{
    const char *first = strchr(full, ':'), *mine = strchr(given, ':');
    if (!mine)
        return false;
    if (strchr(mine + 1, ':')) { // a domain is present
        char *end = NULL;
        return strtoul(given, &end, 16) == 0 && end == mine && strcasecmp(first, mine) == 0;
    }
    return strcasecmp(first + 1, given) == 0;
}

static nvmlReturn_t find_bus_id(const char *fn, const char *bus_id, bool valid, unsigned *ret)
{
    NVML_CALL c = nvmlsim_call_system(fn, valid);
    for (unsigned i = 0; !c.rc && i < c.sim->n_gpus; i++) {
        if (same_bus_id(c.sim->boards[i].pci_bus_id, bus_id)) {
            *ret = i;
            return NVML_SUCCESS;
        }
    }
    return c.rc ? c.rc : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t by_bus_id(const char *fn, const char *bus_id, nvmlDevice_t *device)
{
    unsigned gpu = 0;
    nvmlReturn_t rc = find_bus_id(fn, bus_id, bus_id && device, &gpu);
    return rc ? rc : give_handle(fn, gpu, 0, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return by_bus_id(__func__, bus_id, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return by_bus_id(__func__, bus_id, device);
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, index != NULL);
    if (!c.rc)
        *index = nvmlsim_device_is_mig(&c) ? device->timeline - 1 : device->gpu;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, name != NULL);
    if (c.rc)
        return c.rc;
    if (!nvmlsim_device_is_mig(&c))
        return nvmlsim_give_text(name, length, c.board->model.product);
    GS_AUTO_FREE char *full =
        gs_format("%s MIG %s", c.board->model.product, nvmlsim_device_mig(&c)->profile);
    return nvmlsim_give_text(name, length, full);
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, uuid != NULL);
    if (c.rc)
        return c.rc;
    return nvmlsim_give_text(
        uuid, length, nvmlsim_device_is_mig(&c) ? nvmlsim_device_mig(&c)->uuid : c.board->uuid);
}

NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, minor != NULL);
    if (!c.rc)
        *minor = device->gpu;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, serial != NULL);
    if (c.rc)
        return c.rc;
    if (c.board->model.flags & NVMLSIM_CONSUMER)
        return NVML_ERROR_NOT_SUPPORTED;
    char text[30];
    snprintf(text, sizeof(text), "SIMULATED%04u", device->gpu);
    return nvmlsim_give_text(serial, length, text);
}

static nvmlReturn_t pci_info(const char *fn, nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, pci != NULL);
    if (c.rc)
        return c.rc;
    nvmlPciInfo_t info = {.bus = c.board->pci_bus,
                          .pciDeviceId = c.board->model.pci_device_id,
                          .pciSubSystemId = c.board->model.pci_device_id};
    snprintf(info.busIdLegacy, sizeof(info.busIdLegacy), "%04X:%02X:%02X.0", info.domain, info.bus,
             info.device);
    memcpy(info.busId, c.board->pci_bus_id, sizeof(info.busId));
    *pci = info;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(__func__, device, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(__func__, device, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return pci_info(__func__, device, pci);
}

NVML_API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *architecture)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, architecture != NULL);
    if (!c.rc)
        *architecture = c.board->model.arch;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, int *brand)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, brand != NULL);
    if (!c.rc)
        *brand = (int)c.board->model.brand;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                         int *minor)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, major && minor);
    if (!c.rc) {
        *major = (int)c.board->model.cc_major;
        *minor = (int)c.board->model.cc_minor;
    }
    return c.rc;
}

// Not virtualized, persistence mode on, shared compute mode.
NVML_API nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, int *mode)
{
    return nvmlsim_give_choice(__func__, device, 0, mode);
}

NVML_API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, int *mode)
{
    return nvmlsim_give_choice(__func__, device, 1, mode);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, int *mode)
{
    return nvmlsim_give_choice(__func__, device, 0, mode);
}

// A simulated GPU is on no bus.
NVML_API nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, node != NULL);
    return c.rc ? c.rc : NVML_ERROR_NOT_SUPPORTED;
}
