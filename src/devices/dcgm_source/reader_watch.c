// SPDX-License-Identifier: Apache-2.0
// Groups and watches in the engine. Profiling fields have watches of their own, one for each GPU: a
// refusal must not take the others along, and each GPU has its own metric groups.
#include "dcgm_source/reader_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RETRY_PROF_TIMES 60 // the first pause after a failure

bool dcgm_reader_is_fatal(int code)
{
    return code == DCGM_CONNECTION_LOST || code == DCGM_UNINITIALIZED ||
           code == DCGM_VERSION_MISMATCH;
}

// --- fields ---

static void add_field(const struct dcgm_reader *r, struct dcgm_reader_watch *w, uint16_t id)
{
    bool known = !r->lib.field_by_id || r->lib.field_by_id(id);
    if (known && w->n_fields < DCGM_MAX_GROUP_FIELDS)
        w->fields[w->n_fields++] = id;
}

static void add_fields(const struct dcgm_reader *r, struct dcgm_reader_watch *w, uint32_t group)
{
    const struct dcgm_source_plan *plan = &r->shared->plan;
    for (uint32_t i = 0; i < plan->n_fields && i < DCGM_SOURCE_MAX_FIELDS; i++)
        if (dcgm_source_field_fits(plan->fields[i], group))
            add_field(r, w, plan->fields[i]);
}

static void add_prof_fields(const struct dcgm_reader *r, struct dcgm_reader_watch *w,
                            const struct dcgm_entity *gpu, const struct dcgm_metric_groups *groups)
{
    uint16_t ids[DCGM_SOURCE_MAX_FIELDS];
    uint32_t n = dcgm_source_prof_fields(&r->shared->plan, gpu, groups, ids);
    for (uint32_t i = 0; i < n; i++)
        add_field(r, w, ids[i]);
}

// --- list ---

static struct dcgm_reader_watch *new_watch(struct dcgm_reader *r, bool prof)
{
    struct dcgm_reader_watch *w = &r->watches[r->n_watches++];
    *w = (struct dcgm_reader_watch){.prof = prof};
    w->entities = gs_alloc_array(r->entities.len + 1, sizeof(*w->entities));
    return w;
}

static void list_group(struct dcgm_reader *r, uint32_t group)
{
    struct dcgm_reader_watch *w = new_watch(r, false);
    for (uint32_t i = 0; i < r->entities.len && w->n_entities < DCGM_MAX_READ_ENTITIES; i++)
        if (r->entities.items[i].group == group)
            w->entities[w->n_entities++] = i;
    add_fields(r, w, group);
}

static void refuse_profiling(struct dcgm_reader *r, const char *call, int code)
{
    r->report.prof_code = code;
    dcgm_reader_describe(r, call, code, r->report.prof_problem, sizeof(r->report.prof_problem));
}

// The profiling fields of a watch, whose first entity is the GPU. An engine that does not list
// metric groups is asked for all of them.
static int find_prof_fields(struct dcgm_reader *r, struct dcgm_reader_watch *w)
{
    const struct dcgm_entity *gpu = &r->entities.items[w->entities[0]];
    w->n_fields = 0;
    add_prof_fields(r, w, gpu, NULL);
    if (!w->n_fields || !r->lib.metric_groups)
        return DCGM_OK;
    struct dcgm_metric_groups groups = {.version = DCGM_METRIC_GROUPS, .gpu = gpu->id};
    int code = r->lib.metric_groups(r->handle, &groups);
    w->n_fields = 0;
    if (code == DCGM_OK)
        add_prof_fields(r, w, gpu, &groups);
    else if (!dcgm_reader_is_fatal(code))
        refuse_profiling(r, "dcgmProfGetSupportedMetricGroups", code);
    return dcgm_reader_is_fatal(code) ? code : DCGM_OK;
}

static int list_profiling(struct dcgm_reader *r, uint32_t at)
{
    struct dcgm_reader_watch *w = new_watch(r, true);
    w->entities[w->n_entities++] = at;
    for (uint32_t i = 0; i < r->entities.len; i++)
        if (r->entities.items[i].group == DCGM_ENTITY_GPU_I && r->entities.items[i].parent == at)
            w->entities[w->n_entities++] = i;
    return find_prof_fields(r, w);
}

static int list_watches(struct dcgm_reader *r)
{
    int code = DCGM_OK;
    r->watches = gs_alloc_array(DCGM_MAX_GPUS + 5, sizeof(*r->watches));
    r->n_watches = 0;
    for (uint32_t i = 0; i < r->entities.len && code == DCGM_OK; i++)
        if (r->entities.items[i].group == DCGM_ENTITY_GPU)
            code = list_profiling(r, i);
    list_group(r, DCGM_ENTITY_GPU);
    list_group(r, DCGM_ENTITY_SWITCH);
    list_group(r, DCGM_ENTITY_LINK);
    list_group(r, DCGM_ENTITY_CPU);
    list_group(r, DCGM_ENTITY_CPU_CORE);
    return code;
}

// --- groups ---

static void name_group(const struct dcgm_reader *r, const struct dcgm_reader_watch *w, char *ret,
                       size_t size)
{
    snprintf(ret, size, "gpuscale-%d-%d", (int)getpid(), (int)(w - r->watches));
}

static int create_group(const struct dcgm_reader *r, struct dcgm_reader_watch *w)
{
    char name[64];
    name_group(r, w, name, sizeof(name));
    int code = r->lib.group_create(r->handle, DCGM_GROUP_EMPTY, name, &w->group);
    w->has_group = code == DCGM_OK;
    for (uint32_t i = 0; code == DCGM_OK && i < w->n_entities; i++) {
        const struct dcgm_entity *e = &r->entities.items[w->entities[i]];
        code = r->lib.group_add(r->handle, w->group, e->group, e->id);
    }
    return code;
}

// Keeps the fields that the engine accepts: one unknown ID makes the creation fail as a whole.
static int bisect_fields(const struct dcgm_reader *r, const char *name, uint16_t *ids, uint32_t n,
                         uint32_t *ret_kept)
{
    dcgm_field_group group;
    *ret_kept = 0;
    int code = r->lib.field_group_create(r->handle, (int)n, ids, name, &group);
    dcgm_reader_beat(r);
    if (code == DCGM_OK) {
        *ret_kept = n;
        return r->lib.field_group_destroy(r->handle, group);
    }
    if (code != DCGM_BAD_PARAMETER)
        return code;
    if (n == 1)
        return DCGM_OK;
    uint32_t left = 0, right = 0, half = n / 2;
    code = bisect_fields(r, name, ids, half, &left);
    if (code == DCGM_OK)
        code = bisect_fields(r, name, ids + half, n - half, &right);
    memmove(ids + left, ids + half, right * sizeof(*ids));
    *ret_kept = left + right;
    return code;
}

static int create_field_group(const struct dcgm_reader *r, struct dcgm_reader_watch *w)
{
    char name[64];
    name_group(r, w, name, sizeof(name));
    int code =
        r->lib.field_group_create(r->handle, (int)w->n_fields, w->fields, name, &w->field_group);
    if (code == DCGM_BAD_PARAMETER) {
        code = bisect_fields(r, name, w->fields, w->n_fields, &w->n_fields);
        if (code == DCGM_OK && w->n_fields)
            code = r->lib.field_group_create(r->handle, (int)w->n_fields, w->fields, name,
                                             &w->field_group);
    }
    w->has_field_group = code == DCGM_OK && w->n_fields;
    return code;
}

// --- watches ---

static int start_watch(struct dcgm_reader *r, struct dcgm_reader_watch *w)
{
    int64_t interval_us = r->shared->plan.interval_ns / 1000;
    int code = DCGM_OK;
    dcgm_reader_beat(r);
    if (!w->has_group)
        code = create_group(r, w);
    if (code == DCGM_OK && !w->has_field_group)
        code = create_field_group(r, w);
    if (code != DCGM_OK || !w->n_fields)
        return code;
    code = r->lib.watch(r->handle, w->group, w->field_group, interval_us,
                        2 * (double)interval_us / 1e6 + 1, 2);
    w->watched = code == DCGM_OK;
    dcgm_reader_beat(r);
    return code;
}

static void note_refusal(struct dcgm_reader *r, const struct dcgm_reader_watch *w, int code)
{
    if (w->prof) {
        refuse_profiling(r, "dcgmWatchFields", code);
    } else if (!r->report.code) {
        r->report.code = code;
        dcgm_reader_describe(r, "dcgmWatchFields", code, r->report.problem,
                             sizeof(r->report.problem));
    }
}

static int start_watches(struct dcgm_reader *r, bool only_prof)
{
    for (size_t i = 0; i < r->n_watches; i++) {
        struct dcgm_reader_watch *w = &r->watches[i];
        if (w->watched || !w->n_entities || !w->n_fields || (only_prof && !w->prof))
            continue;
        int code = start_watch(r, w);
        if (dcgm_reader_is_fatal(code))
            return code;
        if (code != DCGM_OK)
            note_refusal(r, w, code);
    }
    r->next_prof_ns = gs_mono_ns() + RETRY_PROF_TIMES * dcgm_reader_first_pause_ns(r);
    return DCGM_OK;
}

int dcgm_reader_watch_all(struct dcgm_reader *r)
{
    r->report.prof_code = r->report.code = 0;
    r->report.prof_problem[0] = r->report.problem[0] = 0;
    int code = list_watches(r);
    return code == DCGM_OK ? start_watches(r, false) : code;
}

int dcgm_reader_watch_profiling(struct dcgm_reader *r, bool renew)
{
    for (size_t i = 0; renew && i < r->n_watches; i++) {
        struct dcgm_reader_watch *w = &r->watches[i];
        if (w->prof && w->watched)
            r->lib.unwatch(r->handle, w->group, w->field_group);
        w->watched = w->watched && !w->prof;
    }
    r->report.prof_code = 0;
    r->report.prof_problem[0] = 0;
    int code = DCGM_OK;
    for (size_t i = 0; i < r->n_watches && code == DCGM_OK; i++)
        if (r->watches[i].prof && !r->watches[i].n_fields)
            code = find_prof_fields(r, &r->watches[i]);
    return code == DCGM_OK ? start_watches(r, true) : code;
}

// The engine may have gone: errors mean nothing here.
void dcgm_reader_unwatch_all(struct dcgm_reader *r)
{
    for (size_t i = 0; i < r->n_watches; i++) {
        struct dcgm_reader_watch *w = &r->watches[i];
        if (w->watched)
            r->lib.unwatch(r->handle, w->group, w->field_group);
        if (w->has_field_group)
            r->lib.field_group_destroy(r->handle, w->field_group);
        if (w->has_group)
            r->lib.group_destroy(r->handle, w->group);
        free(w->entities);
        dcgm_reader_beat(r);
    }
    free(r->watches);
    r->watches = NULL;
    r->n_watches = 0;
}
