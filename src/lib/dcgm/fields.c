// SPDX-License-Identifier: Apache-2.0
// Lookups of DCGM's fields by id and by the names of each release.
#include "dcgm/fields.h"

#include <string.h>

#include "base/slice.h"
#include "dcgm/fields_private.h"

const struct dcgm_field *dcgm_field_at(size_t i)
{
    return i < dcgm_field_table_len ? &dcgm_field_table[i] : NULL;
}

const struct dcgm_field *dcgm_field_by_id(unsigned id)
{
    size_t low = 0, high = dcgm_field_table_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dcgm_field_table[middle].id == id)
            return &dcgm_field_table[middle];
        if (dcgm_field_table[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

// Names that DCGM 3 has, and DCGM 4 at most as a second name.
static unsigned id_of_old_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned id;
    } rows[] = {
        {DCGM_FIELD_PREFIX "DEV_CLOCK_THROTTLE_REASONS", 112},
        {DCGM_FIELD_PREFIX "DEV_NVSWITCH_LINK_DEVICE_UUID", 878},
        {DCGM_FIELD_PREFIX "PROF_NVLINK_THROUGHPUT_FIRST", 1040},
        {DCGM_FIELD_PREFIX "PROF_NVLINK_THROUGHPUT_LAST", 1075},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        if (gs_streq(rows[i].name, name))
            return rows[i].id;
    return 0;
}

const struct dcgm_field *dcgm_field_by_name(const char *name)
{
    if (!gs_starts(name, DCGM_FIELD_PREFIX))
        return NULL;
    const char *rest = name + strlen(DCGM_FIELD_PREFIX);
    for (size_t i = 0; i < dcgm_field_table_len; i++) {
        const struct dcgm_field *f = &dcgm_field_table[i];
        if (gs_streq(f->name + strlen(DCGM_FIELD_PREFIX), rest) ||
            (f->renamed && gs_streq(f->renamed + strlen(DCGM_FIELD_PREFIX), rest)))
            return f;
    }
    return dcgm_field_by_id(id_of_old_name(name));
}

const struct dcgm_unit_change *dcgm_unit_change_at(size_t i)
{
    return i < dcgm_unit_changes_len ? &dcgm_unit_changes[i] : NULL;
}

const struct dcgm_unit_change *dcgm_unit_change_of(unsigned id)
{
    for (size_t i = 0; i < dcgm_unit_changes_len; i++)
        if (dcgm_unit_changes[i].old_id == id || dcgm_unit_changes[i].new_id == id)
            return &dcgm_unit_changes[i];
    return NULL;
}

bool dcgm_rename_of(const char *name, struct dcgm_rename *ret)
{
    const struct dcgm_field *f = dcgm_field_by_name(name);
    if (!f)
        return false;
    const struct dcgm_unit_change *u = dcgm_unit_change_of(f->id);
    if (u) {
        const struct dcgm_field *old = dcgm_field_by_id(u->old_id);
        const struct dcgm_field *new = dcgm_field_by_id(u->new_id);
        *ret = (struct dcgm_rename){old->name, old->renamed, new->name, u->old_unit, u->new_unit,
                                    u->factor, old->id,      new->id,   new->since};
        return true;
    }
    *ret = (struct dcgm_rename){.old_name = f->name,
                                .new_name = f->renamed,
                                .factor = 1,
                                .old_id = f->id,
                                .new_id = f->id,
                                .since = f->renamed_since};
    return f->renamed;
}
