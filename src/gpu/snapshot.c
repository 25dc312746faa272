// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu.h"

#include "base/mem.h"

static const struct gpu_field_info fields[GPU_F_COUNT] = {
#define GPU_FIELD_ROW(sym, name, id, type, help) {name, type, help, id},
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
    free(s);
}
