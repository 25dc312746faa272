// SPDX-License-Identifier: Apache-2.0
// Calls that return values: the newest sample of watched fields, the present value with the flag
// "live", and all samples since a time. A field without a watch has the status -16.
#include "dcgmsim/dcgmsim_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define E (&dcgmsim_engine)

static void latest(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                   struct dcgmsim_value *ret)
{
    const struct dcgmsim_series *s = dcgmsim_find_series(e, f->id);
    if (s && s->n)
        *ret = s->samples[s->n - 1];
    else
        dcgmsim_give_blank(ret, f->type, 0, s ? DCGM_NO_DATA : DCGM_NOT_WATCHED);
}

static void read_one(const struct dcgm_entity_pair *e, unsigned field, bool live,
                     struct dcgmsim_value *ret)
{
    const struct dcgm_field *f = dcgmsim_field(field);
    *ret = (struct dcgmsim_value){.ts = live ? gs_unix_us() : 0};
    if (!f)
        dcgmsim_give_blank(ret, DCGM_TYPE_INT64, 0, DCGM_UNKNOWN_FIELD);
    else if (live)
        dcgmsim_read(e, f, NULL, ret);
    else
        latest(e, f, ret);
}

static void put_data(const struct dcgmsim_value *v, union dcgm_value_data *ret)
{
    memset(ret, 0, sizeof(ret->str));
    if (v->type == DCGM_TYPE_TEXT)
        snprintf(ret->str, sizeof(ret->str), "%s", v->text);
    else if (v->type == DCGM_TYPE_DOUBLE)
        ret->dbl = v->d;
    else
        ret->i64 = v->i;
}

static void put_v1(const struct dcgmsim_value *v, unsigned field, struct dcgm_value_v1 *ret)
{
    ret->version = DCGM_VALUE_V1;
    ret->field_id = (uint16_t)field;
    ret->field_type = (uint16_t)v->type;
    ret->status = v->status;
    ret->ts = v->ts;
    put_data(v, &ret->value);
}

static int read_entity(const char *fn, dcgm_handle h, struct dcgm_entity_pair e,
                       const uint16_t *fields, uint32_t n, struct dcgm_value_v1 *ret)
{
    DCGM_CALL c = dcgmsim_enter(fn, h, fields && ret && n && n <= DCGM_MAX_GROUP_FIELDS);
    if (c.rc)
        return c.rc;
    if (!dcgmsim_entity_exists(&e) && e.group != DCGM_ENTITY_NONE)
        return DCGM_BAD_PARAMETER;
    for (uint32_t i = 0; i < n; i++) {
        struct dcgmsim_value v;
        read_one(&e, fields[i], false, &v);
        put_v1(&v, fields[i], &ret[i]);
    }
    return DCGM_OK;
}

DCGM_API int dcgmEntityGetLatestValues(dcgm_handle h, uint32_t group, int id, uint16_t *fields,
                                       uint32_t n, struct dcgm_value_v1 *ret)
{
    return read_entity(__func__, h, DCGMSIM_PAIR(group, id), fields, n, ret);
}

DCGM_API int dcgmGetLatestValuesForFields(dcgm_handle h, int gpu, uint16_t *fields, uint32_t n,
                                          struct dcgm_value_v1 *ret)
{
    return read_entity(__func__, h, DCGMSIM_PAIR(DCGM_ENTITY_GPU, gpu), fields, n, ret);
}

static void put_v2(const struct dcgm_entity_pair *e, unsigned field, bool live,
                   struct dcgm_value_v2 *ret)
{
    struct dcgmsim_value v;
    read_one(e, field, live, &v);
    ret->version = DCGM_VALUE_V2;
    ret->entity_group = e->group;
    ret->entity_id = e->id;
    ret->field_id = (uint16_t)field;
    ret->field_type = (uint16_t)v.type;
    ret->status = v.status;
    ret->unused = 0;
    ret->ts = v.ts;
    put_data(&v, &ret->value);
}

DCGM_API int dcgmEntitiesGetLatestValues(dcgm_handle h, struct dcgm_entity_pair *entities,
                                         uint32_t n_entities, uint16_t *fields, uint32_t n_fields,
                                         uint32_t flags, struct dcgm_value_v2 *ret)
{
    bool valid = entities && fields && ret && n_entities && n_fields &&
                 n_entities <= DCGM_MAX_READ_ENTITIES && n_fields <= DCGM_MAX_GROUP_FIELDS;
    DCGM_CALL c = dcgmsim_enter(__func__, h, valid);
    if (c.rc)
        return c.rc;
    for (uint32_t e = 0; e < n_entities; e++)
        if (!dcgmsim_entity_exists(&entities[e]) && entities[e].group != DCGM_ENTITY_NONE)
            return DCGM_BAD_PARAMETER;
    for (uint32_t e = 0; e < n_entities; e++)
        for (uint32_t f = 0; f < n_fields; f++)
            put_v2(&entities[e], fields[f], flags & DCGM_READ_LIVE, ret++);
    return DCGM_OK;
}

// --- calls with a callback: it runs without the lock, because it may call the library ---

struct found {
    struct dcgm_entity_pair entity;
    unsigned field;
    struct dcgmsim_value value;
};

struct results {
    struct found *items;
    size_t n, cap;
};

static void add_result(struct results *all, const struct dcgm_entity_pair *e, unsigned field,
                       const struct dcgmsim_value *v)
{
    gs_grow(&all->items, &all->cap, all->n, sizeof(*all->items));
    all->items[all->n++] = (struct found){.entity = *e, .field = field, .value = *v};
}

static void collect_since(const struct dcgm_entity_pair *e, unsigned field, int64_t since,
                          int64_t *newest, struct results *all)
{
    const struct dcgmsim_series *s = dcgmsim_find_series(e, field);
    for (size_t i = 0; s && i < s->n; i++) {
        if (s->samples[i].ts < since)
            continue;
        add_result(all, e, field, &s->samples[i]);
        *newest = s->samples[i].ts > *newest ? s->samples[i].ts : *newest;
    }
}

// since < 0: the newest values only.
static int collect(unsigned client, dcgm_group group, dcgm_field_group fields, int64_t since,
                   int64_t *newest, struct results *all)
{
    struct dcgmsim_group scratch = {0};
    const struct dcgmsim_group *g = dcgmsim_find_group(client, group, &scratch);
    const struct dcgmsim_field_group *f = dcgmsim_find_fields(client, fields);
    for (unsigned e = 0; g && f && e < g->n; e++) {
        for (unsigned i = 0; i < f->n; i++) {
            struct dcgmsim_value v;
            if (since >= 0) {
                collect_since(&g->entities[e], f->ids[i], since, newest, all);
                continue;
            }
            read_one(&g->entities[e], f->ids[i], false, &v);
            add_result(all, &g->entities[e], f->ids[i], &v);
        }
    }
    free(scratch.entities);
    return g && f ? DCGM_OK : DCGM_NOT_CONFIGURED;
}

static int deliver(const struct results *all, dcgm_values_fn *fn, void *arg)
{
    GS_AUTO_FREE struct dcgm_value_v1 *v = gs_alloc(sizeof(*v));
    for (size_t i = 0; i < all->n; i++) {
        const struct found *r = &all->items[i];
        put_v1(&r->value, r->field, v);
        if (fn(r->entity.group, r->entity.id, v, 1, arg))
            break;
    }
    return DCGM_OK;
}

DCGM_API int dcgmGetValuesSince_v2(dcgm_handle h, dcgm_group g, dcgm_field_group f,
                                   long long since_us, long long *ret_next, dcgm_values_fn *fn,
                                   void *arg)
{
    struct results all = {0};
    int64_t newest = since_us - 1;
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret_next && fn && since_us >= 0);
    int rc = c.rc ? c.rc : collect(c.client, g, f, since_us, &newest, &all);
    dcgmsim_leave(&c);
    if (!rc)
        rc = deliver(&all, fn, arg);
    if (!rc)
        *ret_next = newest + 1;
    free(all.items);
    return rc;
}

DCGM_API int dcgmGetLatestValues_v2(dcgm_handle h, dcgm_group g, dcgm_field_group f,
                                    dcgm_values_fn *fn, void *arg)
{
    struct results all = {0};
    int64_t newest = 0;
    DCGM_CALL c = dcgmsim_enter(__func__, h, fn != NULL);
    int rc = c.rc ? c.rc : collect(c.client, g, f, -1, &newest, &all);
    dcgmsim_leave(&c);
    if (!rc)
        rc = deliver(&all, fn, arg);
    free(all.items);
    return rc;
}
