// SPDX-License-Identifier: Apache-2.0
// Groups, field groups and watches on a host engine. They end with the connection, so nothing is
// destroyed here unless it is replaced. Profiling fields have watches of their own, because an
// engine that refuses them refuses the whole watch.
#include "dcgm_source/wire_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "dcgm/code.h"
#include "dcgm/fields.h"

#include <stdio.h>
#include <unistd.h>

// Entities of one group: 64 before DCGM 4.0.
static size_t group_size(const struct dcgm_source_wire *w)
{
    return w->major >= 4 ? DCGM_MAX_READ_ENTITIES : DCGM_WIRE_MAX_ENTITIES;
}

// --- deciding ---

static struct dcgm_source_wire_unit *add_unit(struct dcgm_source_wire_units *u, bool prof,
                                              const uint16_t *fields, uint32_t n_fields)
{
    gs_grow(&u->items, &u->cap, u->len, sizeof(*u->items));
    struct dcgm_source_wire_unit *unit = &u->items[u->len++];
    *unit = (struct dcgm_source_wire_unit){.prof = prof, .n_fields = n_fields};
    memcpy(unit->fields, fields, n_fields * sizeof(*fields));
    return unit;
}

// Puts the entity into the unit with these fields, of which there are several if they are many.
static void add_to_unit(struct dcgm_source_wire_units *u, bool prof, const uint16_t *fields,
                        uint32_t n_fields, uint32_t entity, size_t max_entities)
{
    struct dcgm_source_wire_unit *unit = NULL;
    for (size_t i = 0; i < u->len && !unit; i++) {
        struct dcgm_source_wire_unit *x = &u->items[i];
        if (x->prof == prof && x->n_fields == n_fields && x->n_entities < max_entities &&
            !memcmp(x->fields, fields, n_fields * sizeof(*fields)))
            unit = x;
    }
    if (!unit)
        unit = add_unit(u, prof, fields, n_fields);
    gs_grow(&unit->entities, &unit->cap_entities, unit->n_entities, sizeof(*unit->entities));
    unit->entities[unit->n_entities++] = entity;
}

static void add_plain(const struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                      const struct dcgm_source_wire_table *t, uint32_t at,
                      struct dcgm_source_wire_units *u)
{
    uint16_t fields[DCGM_MAX_GROUP_FIELDS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        if (dcgm_source_field_fits(plan->fields[i], t->items[at].group))
            fields[n++] = plan->fields[i];
        if (n == DCGM_MAX_GROUP_FIELDS || (n && i + 1 == plan->n_fields)) {
            add_to_unit(u, false, fields, n, at, group_size(w));
            n = 0;
        }
    }
}

// The profiling fields that this GPU can measure. Before Hopper that depends on the GPU.
static struct gs_error *supported_prof(struct dcgm_source_wire *w,
                                       const struct dcgm_source_plan *plan,
                                       const struct dcgm_entity *gpu,
                                       uint16_t ret_fields[DCGM_SOURCE_MAX_FIELDS], uint32_t *ret_n,
                                       int *ret_code)
{
    *ret_n = 0;
    if (!dcgm_source_prof_fields(plan, gpu, NULL, ret_fields))
        return NULL;
    struct dcgm_metric_groups *m = &dcgm_source_wire_message(w)->metric_groups.data;
    m->version = DCGM_METRIC_GROUPS;
    m->gpu = gpu->id;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_METRIC_GROUPS, ret_code, NULL);
    if (!err && !*ret_code)
        *ret_n = dcgm_source_prof_fields(plan, gpu, m, ret_fields);
    if (*ret_n > DCGM_MAX_GROUP_FIELDS)
        *ret_n = DCGM_MAX_GROUP_FIELDS;
    return err;
}

static struct gs_error *add_prof(struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                                 const struct dcgm_source_wire_table *t, uint32_t gpu_at,
                                 struct dcgm_source_wire_units *u)
{
    uint16_t fields[DCGM_SOURCE_MAX_FIELDS];
    uint32_t n = 0;
    int code = DCGM_OK;
    struct gs_error *err = supported_prof(w, plan, &t->items[gpu_at], fields, &n, &code);
    if (code)
        u->prof_code = code;
    for (uint32_t i = 0; !err && n && i < t->len; i++)
        if (i == gpu_at || (t->items[i].group == DCGM_ENTITY_GPU_I && t->items[i].parent == gpu_at))
            add_to_unit(u, true, fields, n, i, group_size(w));
    return err;
}

// --- creating ---

static struct gs_error *create_field_group(struct dcgm_source_wire *w, const uint16_t *fields,
                                           uint32_t n, int *ret_code, uint32_t *ret_id)
{
    struct dcgm_field_group_info *info = &dcgm_source_wire_message(w)->field_group.info;
    info->version = DCGM_FIELD_GROUP_INFO;
    info->count = n;
    memcpy(info->fields, fields, n * sizeof(*fields));
    snprintf(info->name, sizeof(info->name), "gpuscale-%d-%u", (int)getpid(), w->request);
    struct gs_error *err =
        dcgm_source_wire_exchange(w, DCGM_WIRE_FIELD_GROUP_CREATE, ret_code, NULL);
    if (!err && !*ret_code)
        *ret_id = (uint32_t)info->id;
    return err;
}

static struct gs_error *destroy_field_group(struct dcgm_source_wire *w, uint32_t id)
{
    int code;
    struct dcgm_field_group_info *info = &dcgm_source_wire_message(w)->field_group.info;
    info->version = DCGM_FIELD_GROUP_INFO;
    info->id = id;
    return dcgm_source_wire_exchange(w, DCGM_WIRE_FIELD_GROUP_DESTROY, &code, NULL);
}

// Once in a process: each connection finds the same.
static void warn_of_unknown(uint16_t field)
{
    static uint64_t warned[(UINT16_MAX + 1) / 64];
    const struct dcgm_field *f = dcgm_field_by_id(field);
    uint64_t bit = UINT64_C(1) << field % 64;
    if (!(__atomic_fetch_or(&warned[field / 64], bit, __ATOMIC_RELAXED) & bit))
        gs_warn("dcgm", "the host engine does not know field %u (%s): no metric", field,
                f ? f->name : "unknown");
}

// An engine refuses all fields if it does not know one. Keeps those that it knows.
static struct gs_error *keep_known(struct dcgm_source_wire *w, const uint16_t *fields, uint32_t n,
                                   uint16_t *kept, uint32_t *n_kept)
{
    int code = DCGM_OK;
    uint32_t id = 0;
    struct gs_error *err = create_field_group(w, fields, n, &code, &id);
    if (!err && !code) {
        memcpy(kept + *n_kept, fields, n * sizeof(*fields));
        *n_kept += n;
        return destroy_field_group(w, id);
    }
    if (err)
        return err;
    if (n == 1) {
        warn_of_unknown(fields[0]);
        return NULL;
    }
    err = keep_known(w, fields, n / 2, kept, n_kept); // at most seven levels
    return err ? err : keep_known(w, fields + n / 2, n - n / 2, kept, n_kept);
}

static struct gs_error *create_fields(struct dcgm_source_wire *w,
                                      struct dcgm_source_wire_unit *unit, int *ret_code)
{
    struct gs_error *err =
        create_field_group(w, unit->fields, unit->n_fields, ret_code, &unit->field_group);
    if (err || *ret_code != DCGM_BAD_PARAMETER)
        return err;
    uint16_t kept[DCGM_MAX_GROUP_FIELDS];
    uint32_t n = 0;
    err = keep_known(w, unit->fields, unit->n_fields, kept, &n);
    memcpy(unit->fields, kept, n * sizeof(*kept));
    unit->n_fields = n;
    *ret_code = DCGM_OK;
    if (err || !n)
        return err;
    return create_field_group(w, kept, n, ret_code, &unit->field_group);
}

static struct gs_error *create_group(struct dcgm_source_wire *w,
                                     const struct dcgm_source_wire_table *t,
                                     struct dcgm_source_wire_unit *unit, int *ret_code)
{
    struct dcgm_wire_group *m = &dcgm_source_wire_message(w)->group;
    m->type = DCGM_GROUP_EMPTY;
    snprintf(m->name, sizeof(m->name), "gpuscale-%d-%u", (int)getpid(), w->request);
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_GROUP_CREATE, ret_code, NULL);
    if (!err && !*ret_code)
        unit->group = (uint32_t)m->id;
    for (size_t i = 0; !err && !*ret_code && i < unit->n_entities; i++) {
        const struct dcgm_entity *e = &t->items[unit->entities[i]];
        struct dcgm_wire_member *member = &dcgm_source_wire_message(w)->member;
        member->group = unit->group;
        member->entity = (struct dcgm_entity_pair){e->group, e->id};
        err = dcgm_source_wire_exchange(w, DCGM_WIRE_GROUP_ADD, ret_code, NULL);
    }
    return err;
}

static struct gs_error *set_watch(struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                                  const struct dcgm_source_wire_unit *unit,
                                  enum dcgm_wire_kind kind, int *ret_code)
{
    struct dcgm_wire_watch *m = &dcgm_source_wire_message(w)->watch;
    m->group = unit->group;
    m->field_group = unit->field_group;
    m->interval_us = plan->interval_ns / 1000;
    m->keep_s = 2.0 * (double)plan->interval_ns / (double)GS_NS_PER_SEC + 1;
    m->keep_samples = 2;
    return dcgm_source_wire_exchange(w, kind, ret_code, NULL);
}

static struct gs_error *watch_unit(struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                                   struct dcgm_source_wire_units *u,
                                   struct dcgm_source_wire_unit *unit)
{
    int code = DCGM_OK;
    struct gs_error *err = set_watch(w, plan, unit, DCGM_WIRE_WATCH, &code);
    unit->watched = !err && !code;
    if (!err && code && unit->prof)
        u->prof_code = code;
    else if (!err && code)
        gs_warn("dcgm", "the host engine does not watch field %u and %u others: %s",
                unit->fields[0], unit->n_fields - 1, dcgm_code_text(code));
    return err;
}

static struct gs_error *create_unit(struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                                    const struct dcgm_source_wire_table *t,
                                    struct dcgm_source_wire_units *u,
                                    struct dcgm_source_wire_unit *unit)
{
    int code = DCGM_OK;
    struct gs_error *err = create_fields(w, unit, &code);
    if (!err && !code && !unit->n_fields)
        return NULL;
    if (!err && !code)
        err = create_group(w, t, unit, &code);
    if (!err && code)
        err = gs_error_new(GS_EUNAVAIL, "the DCGM host engine cannot create groups: %s",
                           dcgm_code_text(code));
    return err ? err : watch_unit(w, plan, u, unit);
}

struct gs_error *dcgm_source_wire_watch(struct dcgm_source_wire *w,
                                        const struct dcgm_source_plan *plan,
                                        const struct dcgm_source_wire_table *t,
                                        struct dcgm_source_wire_units *ret)
{
    struct gs_error *err = NULL;
    for (uint32_t i = 0; i < t->len && !err; i++) {
        add_plain(w, plan, t, i, ret);
        if (t->items[i].group == DCGM_ENTITY_GPU)
            err = add_prof(w, plan, t, i, ret);
    }
    for (size_t i = 0; i < ret->len && !err; i++)
        err = create_unit(w, plan, t, ret, &ret->items[i]);
    return err;
}

struct gs_error *dcgm_source_wire_watch_prof(struct dcgm_source_wire *w,
                                             const struct dcgm_source_plan *plan,
                                             struct dcgm_source_wire_units *u, bool all)
{
    struct gs_error *err = NULL;
    int code;
    u->prof_code = DCGM_OK;
    for (size_t i = 0; i < u->len && !err; i++) {
        struct dcgm_source_wire_unit *unit = &u->items[i];
        if (!unit->prof || !unit->n_fields || (unit->watched && !all))
            continue;
        if (unit->watched)
            err = set_watch(w, plan, unit, DCGM_WIRE_UNWATCH, &code);
        err = err ? err : watch_unit(w, plan, u, unit);
    }
    return err;
}

void dcgm_source_wire_units_finish(struct dcgm_source_wire_units *u)
{
    for (size_t i = 0; i < u->len; i++)
        free(u->items[i].entities);
    free(u->items);
    *u = (struct dcgm_source_wire_units){0};
}
