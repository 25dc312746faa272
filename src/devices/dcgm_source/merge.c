// SPDX-License-Identifier: Apache-2.0
// Fills the profiling fields that NVML does not have, of GPUs before Hopper and of their MIG
// devices, from DCGM's values. A field that NVML provides is never replaced.
#include "dcgm_source/source_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <string.h>

#define RENEW_NS      (600 * GS_NS_PER_SEC)
#define ENGINE_ACTIVE 1001
enum {
    BUSY_PERCENT = 50,
    BUSY_SAMPLES = 3,
    LAST_DEAD_FIELD = 1016, // of the fields that the same counters measure
};

// The dead-counter rule: NVML says that the GPU is busy, while DCGM's counters stay at exactly 0
// although their timestamps advance. It happens after some XIDs.
struct dead_counters {
    char uuid[96];
    unsigned n_samples;
    int64_t ts_us, renew_ns; // of the last value; gs_mono_ns of the next renewal, 0: none yet
    bool dead;
};

struct dcgm_merge {
    struct dcgm_source *source;
    struct dcgm_source_plan plan;
    struct dead_counters gpus[GPU_MAX_DEVICES];
    size_t n_gpus;
};

struct dcgm_merge *dcgm_source_merge_new(struct dcgm_source *s)
{
    struct dcgm_merge *m = gs_alloc(sizeof(*m));
    m->source = s;
    return m;
}

void dcgm_source_merge_free(struct dcgm_merge *m)
{
    free(m);
}

// --- plan ---

// GPM sets all fields at once to "not supported" if the GPU does not have it.
static bool has_no_gpm(const struct gpu_device *d)
{
    for (enum gpu_field f = GPU_F_PROF_FIRST; f < GPU_F_PROF_END; f++)
        if (d->fields[f].validity != GPU_NOT_SUPPORTED)
            return false;
    return true;
}

static void add_id(struct dcgm_source_plan *p, int id)
{
    for (uint32_t i = 0; i < p->n_fields; i++)
        if (p->fields[i] == id)
            return;
    if (id > 0 && id <= UINT16_MAX && p->n_fields < DCGM_SOURCE_MAX_FIELDS)
        p->fields[p->n_fields++] = (uint16_t)id;
}

// A GPU that is lost for a while keeps its place, because a new plan starts the client again.
static bool needs_dcgm(const struct gpu_device *d, const struct dcgm_source_plan *before)
{
    return d->lost || d->hung ? dcgm_source_plan_has_gpu(before, d->uuid) : has_no_gpm(d);
}

static void make_plan(const struct gpu_snapshot *g, const bool *wanted, const uint16_t *ids,
                      size_t n_ids, const struct dcgm_source_plan *before,
                      struct dcgm_source_plan *ret)
{
    bool any = false;
    for (enum gpu_field f = GPU_F_PROF_FIRST; f < GPU_F_PROF_END; f++)
        any |= wanted[f];
    for (size_t i = 0; any && i < g->n_devices && ret->n_prof_gpus < GPU_MAX_DEVICES; i++)
        if (needs_dcgm(&g->devices[i], before))
            memcpy(ret->prof_gpus[ret->n_prof_gpus++], g->devices[i].uuid,
                   sizeof(ret->prof_gpus[0]));
    for (enum gpu_field f = GPU_F_PROF_FIRST; ret->n_prof_gpus && f < GPU_F_PROF_END; f++)
        if (wanted[f])
            add_id(ret, gpu_field_info(f)->id);
    for (size_t i = 0; i < n_ids; i++)
        add_id(ret, ids[i]);
}

// --- values ---

static enum gpu_field field_of_id(unsigned id)
{
    for (enum gpu_field f = GPU_F_PROF_FIRST; f < GPU_F_PROF_END; f++)
        if (gpu_field_info(f)->id == (int)id)
            return f;
    return GPU_F_COUNT;
}

// NULL: the entity has no slots in the sample.
static struct gpu_value *slots_of(const struct gpu_snapshot *g, const struct dcgm_latest *l,
                                  const struct dcgm_entity *e)
{
    const struct gpu_device *found = dcgm_source_device(g, l, e);
    if (!found || (e->group != DCGM_ENTITY_GPU && e->group != DCGM_ENTITY_GPU_I))
        return NULL;
    struct gpu_device *d = &g->devices[found - g->devices];
    if (e->group == DCGM_ENTITY_GPU)
        return &d->fields[GPU_F_PROF_FIRST];
    for (size_t i = 0; i < d->n_instances; i++)
        if (d->instances[i].gpu_instance_id == e->instance)
            return d->instances[i].prof;
    return NULL;
}

static struct gpu_value of_kind(struct gpu_value v, enum gpu_kind kind)
{
    if (v.validity != GPU_VALID || v.is_double == (kind == GPU_DOUBLE))
        return v;
    if (kind == GPU_DOUBLE)
        return (struct gpu_value){GPU_VALID, true, {.d = (double)v.i}};
    return v.d < 9e18 ? (struct gpu_value){GPU_VALID, false, {.i = (int64_t)v.d}}
                      : (struct gpu_value){.validity = GPU_FAILED};
}

// All compute instances of a GPU instance have its values, as with GPM.
static void copy_to_compute_instances(const struct dcgm_merge *m, const struct gpu_snapshot *g)
{
    for (size_t i = 0; i < g->n_devices; i++) {
        struct gpu_device *d = &g->devices[i];
        for (size_t k = 1; dcgm_source_plan_has_gpu(&m->plan, d->uuid) && k < d->n_instances; k++)
            if (d->instances[k].gpu_instance_id == d->instances[k - 1].gpu_instance_id)
                memcpy(d->instances[k].prof, d->instances[k - 1].prof,
                       sizeof(d->instances[k].prof));
    }
}

static void take_values(const struct dcgm_merge *m, const struct gpu_snapshot *g,
                        const struct dcgm_latest *l)
{
    uint32_t of = UINT32_MAX;
    struct gpu_value *slots = NULL;
    int64_t now = gs_mono_ns();
    for (size_t i = 0; i < l->n_values; i++) {
        const struct dcgm_value *v = &l->values[i];
        const struct dcgm_entity *e = &l->entities[v->entity];
        enum gpu_field f = dcgm_source_is_prof(v->field) ? field_of_id(v->field) : GPU_F_COUNT;
        if (f == GPU_F_COUNT)
            continue;
        if (v->entity != of)
            slots = dcgm_source_plan_has_gpu(&m->plan, e->uuid) ? slots_of(g, l, e) : NULL;
        of = v->entity;
        if (slots)
            slots[f - GPU_F_PROF_FIRST] =
                of_kind(dcgm_source_value(l, v, now), gpu_field_info(f)->kind);
    }
}

// Before the values: the reason of those that DCGM does not give.
static void set_reason(const struct dcgm_merge *m, const struct gpu_snapshot *g, const bool *wanted,
                       enum gpu_validity reason)
{
    for (size_t i = 0; i < g->n_devices; i++) {
        struct gpu_device *d = &g->devices[i];
        if (d->lost || d->hung || !dcgm_source_plan_has_gpu(&m->plan, d->uuid))
            continue;
        for (enum gpu_field f = GPU_F_PROF_FIRST; f < GPU_F_PROF_END; f++) {
            if (!wanted[f])
                continue;
            d->fields[f].validity = reason;
            for (size_t k = 0; k < d->n_instances; k++)
                d->instances[k].prof[f - GPU_F_PROF_FIRST].validity = reason;
        }
    }
}

static enum gpu_validity reason_of(const struct dcgm_source_status *s, bool has_values)
{
    switch (s->report.state) {
    case DCGM_SOURCE_UP:
        if (s->report.prof_code)
            return dcgm_source_validity(s->report.prof_code);
        return has_values ? GPU_NOT_SUPPORTED : GPU_UNKNOWN;
    case DCGM_SOURCE_CONNECTING:
        return GPU_UNKNOWN;
    case DCGM_SOURCE_DOWN:
        return GPU_FAILED;
    default: // without an engine, it is as NVML says
        return GPU_NOT_SUPPORTED;
    }
}

// --- dead counters ---

static struct dead_counters *state_of(struct dcgm_merge *m, const char *uuid)
{
    for (size_t i = 0; i < m->n_gpus; i++)
        if (strcmp(m->gpus[i].uuid, uuid) == 0)
            return &m->gpus[i];
    if (m->n_gpus == GPU_MAX_DEVICES)
        m->n_gpus = 0; // GPUs were replaced
    struct dead_counters *s = &m->gpus[m->n_gpus++];
    *s = (struct dead_counters){0};
    memcpy(s->uuid, uuid, sizeof(s->uuid));
    return s;
}

static int64_t time_of(const struct dcgm_latest *l, const char *uuid)
{
    for (size_t i = 0; i < l->n_values; i++) {
        const struct dcgm_entity *e = &l->entities[l->values[i].entity];
        if (l->values[i].field == ENGINE_ACTIVE && e->group == DCGM_ENTITY_GPU &&
            strcmp(e->uuid, uuid) == 0)
            return l->values[i].ts_us;
    }
    return 0;
}

static void update_state(struct dead_counters *s, const struct gpu_device *d, int64_t ts_us)
{
    const struct gpu_value *util = &d->fields[GPU_F_GPU_UTIL];
    const struct gpu_value *active = &d->fields[GPU_F_PROF_GR_ENGINE_ACTIVE];
    if (active->validity != GPU_VALID || ts_us == s->ts_us)
        return;
    s->ts_us = ts_us;
    bool busy = util->validity == GPU_VALID && util->i >= BUSY_PERCENT;
    if (active->d != 0)
        s->dead = false;
    s->n_samples = active->d == 0 && busy ? s->n_samples + 1 : 0;
    if (s->n_samples < BUSY_SAMPLES || s->dead)
        return;
    s->dead = true;
    gs_warn("dcgm",
            "GPU %u: the profiling counters are 0 while the driver reports a utilization of %d %%: "
            "they are dead, so their metrics are absent and they are watched again",
            d->index, (int)util->i);
}

static void hide(struct gpu_device *d)
{
    for (enum gpu_field f = GPU_F_PROF_FIRST; f < GPU_F_PROF_END; f++)
        if (gpu_field_info(f)->id <= LAST_DEAD_FIELD && d->fields[f].validity == GPU_VALID)
            d->fields[f].validity = GPU_FAILED;
}

// GPUs in MIG mode have no GPU_UTIL.
static void apply_dead_counter_rule(struct dcgm_merge *m, const struct gpu_snapshot *g,
                                    const struct dcgm_latest *l)
{
    int64_t now = gs_mono_ns();
    for (size_t i = 0; i < g->n_devices; i++) {
        struct gpu_device *d = &g->devices[i];
        if (d->n_instances || !dcgm_source_plan_has_gpu(&m->plan, d->uuid))
            continue;
        struct dead_counters *s = state_of(m, d->uuid);
        update_state(s, d, time_of(l, d->uuid));
        if (!s->dead)
            continue;
        if (now >= s->renew_ns) {
            dcgm_source_renew_profiling(m->source);
            s->renew_ns = now + RENEW_NS;
        }
        hide(d);
    }
}

// An engine without GPUs, as on a machine whose switches are read, is not foreign.
static const char *find_foreign(const struct gpu_snapshot *g, const struct dcgm_latest *l)
{
    const char *uuid = NULL;
    for (size_t i = 0; i < l->n_entities; i++) {
        const struct dcgm_entity *e = &l->entities[i];
        if (e->group != DCGM_ENTITY_GPU)
            continue;
        if (dcgm_source_device(g, l, e))
            return NULL;
        uuid = e->uuid[0] ? e->uuid : uuid;
    }
    return g->n_devices ? uuid : NULL;
}

struct dcgm_latest *dcgm_source_merge(struct dcgm_merge *m, struct gpu_snapshot *g,
                                      const bool *wanted, const uint16_t *ids, size_t n_ids,
                                      int64_t interval_ns)
{
    GS_AUTO_FREE struct dcgm_source_plan *plan = gs_alloc(sizeof(*plan));
    plan->interval_ns = interval_ns;
    make_plan(g, wanted, ids, n_ids, &m->plan, plan);
    m->plan = *plan;
    dcgm_source_want(m->source, plan);
    if (!plan->n_fields)
        return NULL;
    struct dcgm_latest *l = dcgm_source_latest(m->source);
    struct dcgm_source_status status;
    if (l)
        dcgm_source_set_foreign(m->source, find_foreign(g, l));
    dcgm_source_status(m->source, &status);
    set_reason(m, g, wanted, reason_of(&status, l != NULL));
    if (!l)
        return NULL;
    take_values(m, g, l);
    copy_to_compute_instances(m, g);
    apply_dead_counter_rule(m, g, l);
    return l;
}
