// SPDX-License-Identifier: Apache-2.0
// Fields by name and by id. Names of other releases of DCGM are in the table of its fields.
#include "gpu/gpu.h"

#include "base/slice.h"
#include "dcgm/fields.h"

enum gpu_field gpu_field_by_id(int id)
{
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        if (gpu_field_info(f)->id == id)
            return f;
    return GPU_F_COUNT;
}

enum gpu_field gpu_field_by_name(const char *name)
{
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        if (gs_streq(gpu_field_name(f), name))
            return f;
    const struct dcgm_field *field = dcgm_field_by_name(name);
    return field ? gpu_field_by_id(field->id) : GPU_F_COUNT;
}

bool gpu_field_is_dcgm_only(const char *name)
{
    return dcgm_field_by_name(name) && gpu_field_by_name(name) == GPU_F_COUNT;
}
