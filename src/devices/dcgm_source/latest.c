// SPDX-License-Identifier: Apache-2.0
// Reads of DCGM as values with a validity: DCGM has blanks and codes where the exporter has
// absence, and its values live by their own timestamps.
#include "dcgm_source/source_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"

#include <math.h>
#include <string.h>

#define FRESH_MIN_NS (3 * GS_NS_PER_SEC)
#define NO_RATE      1e12 // bytes/s; no GPU transfers as much

// --- memory ---

struct dcgm_latest *dcgm_latest_new(size_t n_entities, size_t n_values, size_t n_text)
{
    struct dcgm_latest *l = gs_alloc(sizeof(*l));
    l->entities = gs_alloc_array(n_entities ? n_entities : 1, sizeof(*l->entities));
    l->values = gs_alloc_array(n_values ? n_values : 1, sizeof(*l->values));
    l->texts = gs_alloc(n_text + 1);
    l->n_entities = n_entities;
    l->n_values = n_values;
    l->n_text = n_text + 1;
    return l;
}

struct dcgm_latest *dcgm_latest_copy(const struct dcgm_latest *l)
{
    struct dcgm_latest *copy = dcgm_latest_new(l->n_entities, l->n_values, l->n_text - 1);
    copy->mono_ns = l->mono_ns;
    copy->unix_us = l->unix_us;
    copy->offset_us = l->offset_us;
    copy->interval_ns = l->interval_ns;
    memcpy(copy->entities, l->entities, l->n_entities * sizeof(*l->entities));
    memcpy(copy->values, l->values, l->n_values * sizeof(*l->values));
    memcpy(copy->texts, l->texts, l->n_text);
    return copy;
}

void dcgm_latest_free(struct dcgm_latest *l)
{
    if (!l)
        return;
    free(l->entities);
    free(l->values);
    free(l->texts);
    free(l);
}

// --- validity ---

enum gpu_validity dcgm_source_validity(int code)
{
    switch (code) {
    case DCGM_OK:
        return GPU_VALID;
    case DCGM_PENDING:
    case DCGM_NO_DATA:
    case DCGM_NOT_WATCHED:
    case DCGM_PAUSED:
        return GPU_UNKNOWN;
    case DCGM_NOT_SUPPORTED:
    case DCGM_UNKNOWN_FIELD:
    case DCGM_GPU_NOT_SUPPORTED:
    case DCGM_MODULE_NOT_LOADED:
    case DCGM_PROFILING_NOT_SUPPORTED:
    case DCGM_INSTANCE_NOT_FOUND:
    case DCGM_COMPUTE_INSTANCE_NOT_FOUND:
        return GPU_NOT_SUPPORTED;
    case DCGM_NO_PERMISSION:
    case DCGM_REQUIRES_ROOT:
        return GPU_NO_PERMISSION;
    case DCGM_GPU_LOST:
        return GPU_LOST;
    default:
        return GPU_FAILED;
    }
}

// Of the four blanks, in their order: none yet, not found, not supported, no permission.
static enum gpu_validity validity_of_blank(int64_t n)
{
    static const enum gpu_validity of[] = {GPU_UNKNOWN, GPU_NOT_SUPPORTED, GPU_NOT_SUPPORTED,
                                           GPU_NO_PERMISSION};
    return n < (int64_t)GS_ARRAY_LEN(of) ? of[n] : GPU_FAILED;
}

static enum gpu_validity validity_of_integer(int64_t v)
{
    if (v >= DCGM_BLANK_INT64)
        return validity_of_blank(v - DCGM_BLANK_INT64);
    if (v >= DCGM_BLANK_INT32 && v <= DCGM_BLANK_INT32 + 3)
        return validity_of_blank(v - DCGM_BLANK_INT32);
    return GPU_VALID;
}

static enum gpu_validity validity_of_double(double v)
{
    if (!isfinite(v))
        return GPU_FAILED;
    if (v < DCGM_BLANK_DOUBLE)
        return GPU_VALID;
    double n = v - DCGM_BLANK_DOUBLE;
    return n <= 3 ? validity_of_blank((int64_t)n) : GPU_FAILED;
}

static enum gpu_validity validity_of_text(const char *text)
{
    static const char *const blanks[] = {DCGM_BLANK_TEXT_NONE, DCGM_BLANK_TEXT_NOT_FOUND,
                                         DCGM_BLANK_TEXT_NOT_SUPPORTED,
                                         DCGM_BLANK_TEXT_NO_PERMISSION};
    for (size_t i = 0; i < GS_ARRAY_LEN(blanks); i++)
        if (gs_streq(text, blanks[i]))
            return validity_of_blank((int64_t)i);
    return text ? GPU_VALID : GPU_FAILED;
}

static const char *text_of(const struct dcgm_latest *l, const struct dcgm_value *v)
{
    return v->type == DCGM_TYPE_TEXT && v->text < l->n_text ? l->texts + v->text : NULL;
}

int64_t dcgm_source_fresh_ns(const struct dcgm_latest *l)
{
    int64_t limit = l->interval_ns / 2 * 5;
    return limit > FRESH_MIN_NS ? limit : FRESH_MIN_NS;
}

static bool is_fresh(const struct dcgm_latest *l, const struct dcgm_value *v, int64_t now_ns)
{
    int64_t age, since = (now_ns - l->mono_ns) / 1000;
    if (__builtin_sub_overflow(l->unix_us - l->offset_us, v->ts_us, &age) ||
        __builtin_add_overflow(age, since, &age))
        return false;
    return age <= dcgm_source_fresh_ns(l) / 1000;
}

// --- plausibility ---

static bool is_ratio(unsigned id)
{
    return (id >= 1001 && id <= 1008) || (id >= 1013 && id <= 1034);
}

static bool is_rate(unsigned id)
{
    return (id >= 1009 && id <= 1012) || (id >= 1040 && id <= 1079);
}

// As in gpu/gpm.c: values slightly above 1 occur; much higher ones are invalid.
static struct gpu_value plausible(unsigned id, struct gpu_value v)
{
    double d = v.is_double ? v.d : (double)v.i;
    if (v.validity != GPU_VALID || id < DCGM_SOURCE_PROF_FIRST || id > DCGM_SOURCE_PROF_LAST)
        return v;
    if (d < 0 || (is_ratio(id) && d > 1.1) || (is_rate(id) && d >= NO_RATE))
        return (struct gpu_value){.validity = GPU_FAILED};
    if (is_ratio(id) && v.is_double && d > 1)
        v.d = 1;
    return v;
}

// --- values ---

struct gpu_value dcgm_source_value(const struct dcgm_latest *l, const struct dcgm_value *v,
                                   int64_t now_ns)
{
    struct gpu_value ret = {.validity = dcgm_source_validity(v->status)};
    if (ret.validity != GPU_VALID)
        return ret;
    if (v->type == DCGM_TYPE_DOUBLE) {
        ret = (struct gpu_value){validity_of_double(v->d), true, {.d = v->d}};
    } else if (v->type == DCGM_TYPE_INT64 || v->type == DCGM_TYPE_TIME) {
        ret = (struct gpu_value){validity_of_integer(v->i), false, {.i = v->i}};
    } else {
        ret.validity = v->type == DCGM_TYPE_TEXT ? validity_of_text(text_of(l, v)) : GPU_FAILED;
    }
    if (ret.validity == GPU_VALID && !is_fresh(l, v, now_ns))
        ret.validity = GPU_FAILED;
    return plausible(v->field, ret);
}

const char *dcgm_source_text(const struct dcgm_latest *l, const struct dcgm_value *v)
{
    const char *text = text_of(l, v);
    return v->status == DCGM_OK && text && validity_of_text(text) == GPU_VALID ? text : NULL;
}

// --- devices ---

// "00000000:10:00.0" and NVML's "0000:10:00.0" are the same address.
static const char *without_domain_zeros(const char *pci)
{
    while (*pci == '0' && pci[1] != ':')
        pci++;
    return pci;
}

static bool is_same_device(const struct gpu_device *d, const struct dcgm_entity *e)
{
    if (e->uuid[0])
        return strcmp(d->uuid, e->uuid) == 0;
    return e->pci_bus_id[0] && strcasecmp(without_domain_zeros(d->pci_bus_id),
                                          without_domain_zeros(e->pci_bus_id)) == 0;
}

const struct gpu_device *dcgm_source_device(const struct gpu_snapshot *g,
                                            const struct dcgm_latest *l,
                                            const struct dcgm_entity *e)
{
    if (e->group != DCGM_ENTITY_GPU && e->parent < l->n_entities)
        e = &l->entities[e->parent];
    for (size_t i = 0; e->group == DCGM_ENTITY_GPU && i < g->n_devices; i++)
        if (is_same_device(&g->devices[i], e))
            return &g->devices[i];
    return NULL;
}
