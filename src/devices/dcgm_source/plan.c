// SPDX-License-Identifier: Apache-2.0
// What a plan needs of an engine, for both clients: which entities, and which fields each of them
// has.
#include "dcgm_source/source_private.h"

#include "base/slice.h"
#include "dcgm/fields.h"

#include <string.h>

bool dcgm_source_field_fits(uint16_t field, uint32_t group)
{
    const struct dcgm_field *f = dcgm_field_by_id(field);
    unsigned level = f && !dcgm_source_is_prof(field) ? f->level : DCGM_ENTITY_NONE;
    switch (group) {
    case DCGM_ENTITY_NONE:
    case DCGM_ENTITY_GPU_I:
        return false;
    case DCGM_ENTITY_GPU:
        return level == DCGM_ENTITY_GPU || level == DCGM_ENTITY_GPU_I ||
               level == DCGM_ENTITY_GPU_CI;
    case DCGM_ENTITY_SWITCH:
        return level == DCGM_ENTITY_SWITCH || level == DCGM_ENTITY_LINK;
    case DCGM_ENTITY_CPU:
        return level == DCGM_ENTITY_CPU || level == DCGM_ENTITY_CPU_CORE;
    default:
        return group == level;
    }
}

struct dcgm_source_needs dcgm_source_plan_needs(const struct dcgm_source_plan *plan)
{
    struct dcgm_source_needs n = {0};
    for (uint32_t i = 0; i < plan->n_fields && i < DCGM_SOURCE_MAX_FIELDS; i++) {
        uint16_t id = plan->fields[i];
        bool prof = dcgm_source_is_prof(id);
        n.gpus |= prof || dcgm_source_field_fits(id, DCGM_ENTITY_GPU);
        n.profiling |= prof;
        n.switches |= dcgm_source_field_fits(id, DCGM_ENTITY_SWITCH);
        n.links |= dcgm_source_field_fits(id, DCGM_ENTITY_LINK);
        n.cpus |= dcgm_source_field_fits(id, DCGM_ENTITY_CPU);
        n.cores |= dcgm_source_field_fits(id, DCGM_ENTITY_CPU_CORE);
    }
    n.gpus |= n.links; // their parents
    return n;
}

bool dcgm_source_plan_has_gpu(const struct dcgm_source_plan *plan, const char *uuid)
{
    for (uint32_t i = 0; uuid[0] && i < plan->n_prof_gpus && i < GPU_MAX_DEVICES; i++)
        if (strncmp(plan->prof_gpus[i], uuid, sizeof(plan->prof_gpus[i])) == 0)
            return true;
    return false;
}

static bool is_in_groups(const struct dcgm_metric_groups *m, uint16_t field)
{
    for (uint32_t g = 0; g < m->count && g < GS_ARRAY_LEN(m->groups); g++)
        for (uint32_t i = 0; i < m->groups[g].n_fields && i < GS_ARRAY_LEN(m->groups[g].fields);
             i++)
            if (m->groups[g].fields[i] == field)
                return true;
    return false;
}

uint32_t dcgm_source_prof_fields(const struct dcgm_source_plan *plan, const struct dcgm_entity *gpu,
                                 const struct dcgm_metric_groups *groups,
                                 uint16_t ret[DCGM_SOURCE_MAX_FIELDS])
{
    bool all = dcgm_source_plan_has_gpu(plan, gpu->uuid);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_fields && i < DCGM_SOURCE_MAX_FIELDS; i++) {
        uint16_t id = plan->fields[i];
        if (dcgm_source_is_prof(id) && (all || id >= DCGM_SOURCE_PROF_DCGM_ONLY) &&
            (!groups || is_in_groups(groups, id)))
            ret[n++] = id;
    }
    return n;
}
