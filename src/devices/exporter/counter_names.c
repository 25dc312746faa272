// SPDX-License-Identifier: Apache-2.0
// The names of metrics on both sides of the renames of dcgm-exporter 4.9, some of which also change
// the unit. A metric with both names has two rows.
#include "exporter/counters_private.h"

#include "base/mem.h"
#include "dcgm/fields.h"

#define RATIO "DCGM_FI_DEV_GPU_UTIL_RATIO"

bool exporter_names_parse(const char *text, enum exporter_names *ret)
{
    static const char *const names[] = {
        [EXPORTER_NAMES_4_8] = "4.8", [EXPORTER_NAMES_4_9] = "4.9", [EXPORTER_NAMES_BOTH] = "both"};
    for (size_t i = EXPORTER_NAMES_4_8; i < GS_ARRAY_LEN(names); i++) {
        if (!gs_streq(text, names[i]))
            continue;
        *ret = (enum exporter_names)i;
        return true;
    }
    return false;
}

// The row under another name of its field, or of the field in the other unit. Type and help of a
// row are for its unit.
static void add_renamed(struct exporter_counters *to, const struct exporter_counter *row,
                        const char *name, int id)
{
    enum gpu_field f = gpu_field_by_id(id);
    if (exporter_counters_have_name(to, name) || (f == GPU_F_COUNT && id != row->id))
        return;
    bool same = id == row->id;
    const struct gpu_field_info *info = f == GPU_F_COUNT ? NULL : gpu_field_info(f);
    struct exporter_counter r = *row;
    r.field = f;
    r.id = id;
    r.name = gs_strdup(name);
    r.type = gs_strdup(same || row->kind == EXPORTER_COUNTER_LABEL ? row->type : info->type);
    r.help = gs_strdup(same ? row->help : info->help);
    exporter_counters_add(to, r);
}

static void add_names(struct exporter_counters *to, const struct exporter_counter *row,
                      enum exporter_names names)
{
    struct dcgm_rename r;
    if (!dcgm_rename_of(row->name, &r)) {
        add_renamed(to, row, row->name, row->id);
        return;
    }
    if (names != EXPORTER_NAMES_4_9)
        add_renamed(to, row, r.old_name, (int)r.old_id);
    if (names != EXPORTER_NAMES_4_8)
        add_renamed(to, row, r.new_name, (int)r.new_id);
}

void exporter_counters_rename(struct exporter_counters *c, enum exporter_names names)
{
    if (names == EXPORTER_NAMES_OF_FILE)
        return;
    struct exporter_counters old = *c;
    c->rows = NULL;
    c->len = c->cap = 0;
    for (size_t i = 0; i < old.len; i++) {
        add_names(c, &old.rows[i], names);
        exporter_counter_finish(&old.rows[i]);
    }
    free(old.rows);
    exporter_counters_sort(c);
}

// Whether a row is in a unit that DCGM 4.7 replaced, or in the one that replaced it.
static bool in_unit(const struct exporter_counter *row, bool old)
{
    const struct dcgm_unit_change *u = dcgm_unit_change_of((unsigned)row->id);
    return u && (old ? u->old_id : u->new_id) == (unsigned)row->id;
}

// DCGM 4.6 had this name with a value in percent. A file that has it beside metrics in old units
// may mean that one.
void exporter_counters_check_ratio(struct exporter_counters *c)
{
    bool old_units = false, new_units = false;
    for (size_t i = 0; i < c->len; i++) {
        old_units |= in_unit(&c->rows[i], true);
        new_units |= in_unit(&c->rows[i], false) && !gs_streq(c->rows[i].name, RATIO);
    }
    if (exporter_counters_have_name(c, RATIO) && old_units && !new_units)
        exporter_counters_warn(
            c, gs_strdup(RATIO " is 0 to 1, as since DCGM 4.7; DCGM 4.6 wrote percent under this "
                               "name, as DCGM_FI_DEV_GPU_UTIL is"));
}
