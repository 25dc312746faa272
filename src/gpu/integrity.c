// SPDX-License-Identifier: Apache-2.0
// What tells of a board and its fabric rather than of its load: the checksums of the InfoROM, and
// where the GPU stands with the fabric manager of an NVSwitch system.
#include "gpu/backend.h"

// The driver reads all of the InfoROM for it.
#define INFOROM_AGAIN_NS (60 * GS_NS_PER_SEC)

static void read_inforom(struct gpu_reader *r, struct known_device *k, struct gpu_device *d)
{
    int64_t now = gs_mono_ns();
    if (!k->inforom_ns || now - k->inforom_ns > INFOROM_AGAIN_NS) {
        nvml_ret ret = NVML(r, validate_inforom, k->handle);
        k->inforom_ns = now;
        k->inforom =
            ret == NVML_CORRUPTED_INFOROM ? backend_integer(NVML_OK, 0) : backend_integer(ret, 1);
    }
    d->fields[GPU_F_INFOROM_VALID] = k->inforom;
}

// DCGM's numbers; its 0, for a GPU without a fabric, is absence here.
static struct gpu_value fabric_status(const struct nvml_fabric_info *f)
{
    enum { NOT_STARTED = 1, IN_PROGRESS, SUCCESS, FAILURE, UNRECOGNIZED };
    switch (f->state) {
    case NVML_FABRIC_NOT_STARTED:
        return backend_integer(NVML_OK, NOT_STARTED);
    case NVML_FABRIC_IN_PROGRESS:
        return backend_integer(NVML_OK, IN_PROGRESS);
    case NVML_FABRIC_COMPLETED:
        return backend_integer(NVML_OK, f->status == NVML_OK ? SUCCESS : FAILURE);
    default:
        return backend_integer(NVML_OK, UNRECOGNIZED);
    }
}

static void read_fabric(struct gpu_reader *r, struct known_device *k, struct gpu_device *d)
{
    struct nvml_fabric_info f = {.version = NVML_VERSION_WORD(struct nvml_fabric_info, 3)};
    nvml_ret ret = NVML(r, fabric_info, k->handle, &f);
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH || ret == NVML_INVALID_ARGUMENT) { // an older driver
        f = (struct nvml_fabric_info){
            .version = (uint32_t)offsetof(struct nvml_fabric_info, health_summary) | 2U << 24};
        ret = NVML(r, fabric_info, k->handle, &f);
    }
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH || (ret == NVML_OK && f.state == 0))
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_STATUS] = ret == NVML_OK ? fabric_status(&f) : backend_invalid(ret);
    d->fields[GPU_F_FABRIC_HEALTH_MASK] = backend_integer(ret, f.health_mask);
    if (ret == NVML_OK && f.health_summary == 0)
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_FABRIC_HEALTH_SUMMARY] = backend_integer(ret, f.health_summary);
}

void backend_read_integrity(struct gpu_reader *r, struct known_device *k, struct gpu_device *d)
{
    if (r->due_group[GPU_G_INFOROM])
        read_inforom(r, k, d);
    if (r->due_group[GPU_G_FABRIC] && !r->device_lost)
        read_fabric(r, k, d);
}
