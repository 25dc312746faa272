// SPDX-License-Identifier: Apache-2.0
// The table of fields (names, units, sources) and values of a snapshot by field. A snapshot is
// immutable after the back end has returned it, so it may be used by another thread.
#include "gpu/gpu.h"

#include "base/mem.h"
#include "base/slice.h"

static const struct gpu_field_info fields[GPU_F_COUNT] = {
#define GPU_FIELD_ROW(sym, name, id, kind, group, type, unit, source, help)                        \
    {name, type, unit, source, help, id, kind, group},
    GPU_FIELDS(GPU_FIELD_ROW)
#undef GPU_FIELD_ROW
};

const struct gpu_field_info *gpu_field_info(enum gpu_field f)
{
    return &fields[f];
}

const char *gpu_field_name(enum gpu_field f)
{
    return fields[f].name;
}

const char *gpu_validity_text(enum gpu_validity v)
{
    switch (v) {
    case GPU_UNKNOWN:
        return "not read yet";
    case GPU_VALID:
        return "valid";
    case GPU_NOT_SUPPORTED:
        return "not supported";
    case GPU_NO_PERMISSION:
        return "no permission";
    case GPU_LOST:
        return "GPU is lost";
    case GPU_FAILED:
        return "driver call failed";
    case GPU_HUNG:
        return "the driver does not respond";
    }
    return "unknown";
}

void gpu_snapshot_free(struct gpu_snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_devices; i++) {
        free(s->devices[i].processes);
        free(s->devices[i].instances);
    }
    free(s->devices);
    free(s->errors);
    free(s->calls);
    free(s);
}

const struct gpu_value *gpu_instance_value(const struct gpu_instance *i, enum gpu_field f)
{
    if (f >= GPU_F_PROF_FIRST && f < GPU_F_PROF_END)
        return &i->prof[f - GPU_F_PROF_FIRST];
    switch (f) {
    case GPU_F_FB_TOTAL:
        return &i->fb.total;
    case GPU_F_FB_FREE:
        return &i->fb.free;
    case GPU_F_FB_USED:
        return &i->fb.used;
    case GPU_F_FB_RESERVED:
        return &i->fb.reserved;
    case GPU_F_FB_USED_PERCENT:
        return &i->fb.used_ratio;
    case GPU_F_FB_TOTAL_BYTES:
        return &i->fb.total_bytes;
    case GPU_F_FB_FREE_BYTES:
        return &i->fb.free_bytes;
    case GPU_F_FB_USED_BYTES:
        return &i->fb.used_bytes;
    case GPU_F_FB_RESERVED_BYTES:
        return &i->fb.reserved_bytes;
    default:
        return NULL;
    }
}

const char *gpu_field_text(const struct gpu_snapshot *s, const struct gpu_device *d,
                           enum gpu_field f)
{
    const char *text = NULL;
    switch (f) {
    case GPU_F_DRIVER_VERSION:
        text = s->driver_version;
        break;
    case GPU_F_NVML_VERSION:
        text = s->nvml_version;
        break;
    case GPU_F_NAME:
        text = d->name;
        break;
    case GPU_F_UUID:
        text = d->uuid;
        break;
    case GPU_F_PCI_BUSID:
        text = d->pci_bus_id;
        break;
    case GPU_F_BRAND:
        text = d->texts[GPU_T_BRAND];
        break;
    case GPU_F_SERIAL:
        text = d->texts[GPU_T_SERIAL];
        break;
    case GPU_F_OEM_INFOROM:
        text = d->texts[GPU_T_OEM_INFOROM];
        break;
    case GPU_F_ECC_INFOROM:
        text = d->texts[GPU_T_ECC_INFOROM];
        break;
    case GPU_F_POWER_INFOROM:
        text = d->texts[GPU_T_POWER_INFOROM];
        break;
    case GPU_F_INFOROM_IMAGE:
        text = d->texts[GPU_T_INFOROM_IMAGE];
        break;
    case GPU_F_FABRIC_CLUSTER_UUID:
        text = d->texts[GPU_T_CLUSTER];
        break;
    case GPU_F_VBIOS:
        text = d->texts[GPU_T_VBIOS];
        break;
    default:
        break;
    }
    return text && text[0] ? text : NULL;
}
