// SPDX-License-Identifier: Apache-2.0
// One read: one request for each unit, and their replies as one result in the order of the table
// and of the plan.
#include "dcgm_source/wire_private.h"

#include "base/mem.h"
#include "dcgm/code.h"

enum { PAUSED_AFTER = 2 }; // reads with blank profiling fields only

struct ranked {
    uint32_t rank; // position of the field in the plan
    struct dcgm_value value;
};

struct collected {
    struct ranked *items;
    size_t len, cap;
    struct gs_buf texts;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value.entity != y->value.entity)
        return x->value.entity < y->value.entity ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static uint32_t rank_of(const struct dcgm_source_plan *plan, uint16_t field)
{
    uint32_t i = 0;
    while (i < plan->n_fields && plan->fields[i] != field)
        i++;
    return i;
}

// The offset of a copy. false: too many bytes of texts.
static bool add_text(struct gs_buf *texts, struct gs_slice text, uint32_t *ret)
{
    if (texts->len + text.len + 1 > DCGM_SOURCE_MAX_TEXT)
        return false;
    *ret = (uint32_t)texts->len;
    gs_buf_add_slice(texts, text);
    gs_buf_add_char(texts, 0);
    return true;
}

// Values that were not requested are left out.
static void collect(const struct dcgm_source_plan *plan, const struct dcgm_source_wire_table *t,
                    const struct dcgm_wire_value *v, struct collected *all)
{
    size_t entity = dcgm_source_wire_find(t, v->entity.group, v->entity.id);
    uint32_t rank = rank_of(plan, v->field);
    if (entity == SIZE_MAX || rank == plan->n_fields || all->len >= DCGM_SOURCE_MAX_VALUES)
        return;
    struct dcgm_value value = {.entity = (uint32_t)entity,
                               .field = v->field,
                               .type = v->type,
                               .status = v->status,
                               .ts_us = v->ts};
    if (v->type == DCGM_TYPE_DOUBLE)
        value.d = v->dbl;
    else if (v->type == DCGM_TYPE_INT64 || v->type == DCGM_TYPE_TIME)
        value.i = v->i64;
    else if (v->type != DCGM_TYPE_TEXT || !add_text(&all->texts, v->text, &value.text))
        return;
    gs_grow(&all->items, &all->cap, all->len, sizeof(*all->items));
    all->items[all->len++] = (struct ranked){rank, value};
}

static struct gs_error *read_unit(struct dcgm_source_wire *w, const struct dcgm_source_plan *plan,
                                  const struct dcgm_source_wire_table *t,
                                  const struct dcgm_source_wire_unit *unit, struct collected *all)
{
    struct gs_slice values = {0};
    int code = DCGM_OK;
    struct dcgm_wire_read *m = &dcgm_source_wire_message(w)->read;
    m->group = unit->group;
    m->field_group = unit->field_group;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_READ, &code, &values);
    if (!err && code)
        err = gs_error_new(GS_EUNAVAIL, "the DCGM host engine does not return values: %s",
                           dcgm_code_text(code));
    while (!err && values.len) {
        struct dcgm_wire_value v;
        err = dcgm_wire_value_next(&values, &v);
        if (!err)
            collect(plan, t, &v, all);
    }
    return err;
}

static struct dcgm_latest *make_latest(const struct dcgm_source_wire_table *t,
                                       const struct collected *all)
{
    struct dcgm_latest *l = dcgm_latest_new(t->len, all->len, all->texts.len);
    if (t->len)
        memcpy(l->entities, t->items, t->len * sizeof(*t->items));
    for (size_t i = 0; i < all->len; i++)
        l->values[i] = all->items[i].value;
    if (all->texts.len)
        memcpy(l->texts, all->texts.data, all->texts.len);
    return l;
}

static bool is_blank(const struct dcgm_value *v)
{
    return v->status == DCGM_PAUSED || (v->type == DCGM_TYPE_DOUBLE && v->d >= DCGM_BLANK_DOUBLE) ||
           (v->type == DCGM_TYPE_INT64 && v->i >= DCGM_BLANK_INT64);
}

// An engine that pauses its profiling says so in each value, or leaves them blank. They are also
// blank in the first interval of a watch.
static void note_pause(const struct collected *all, struct dcgm_source_wire_units *u)
{
    bool any = false, blank = true;
    for (size_t i = 0; i < all->len; i++) {
        if (!dcgm_source_is_prof(all->items[i].value.field))
            continue;
        any = true;
        blank = blank && is_blank(&all->items[i].value);
    }
    u->n_blank = any && blank ? u->n_blank + 1 : 0;
    if (u->n_blank > PAUSED_AFTER)
        u->prof_code = DCGM_PAUSED;
    else if (u->prof_code == DCGM_PAUSED)
        u->prof_code = DCGM_OK;
}

struct gs_error *dcgm_source_wire_read(struct dcgm_source_wire *w,
                                       const struct dcgm_source_plan *plan,
                                       const struct dcgm_source_wire_table *t,
                                       struct dcgm_source_wire_units *u, struct dcgm_latest **ret)
{
    struct collected all = {0};
    struct gs_error *err = NULL;
    for (size_t i = 0; i < u->len && !err; i++)
        if (u->items[i].watched)
            err = read_unit(w, plan, t, &u->items[i], &all);
    if (!err) {
        if (all.len)
            qsort(all.items, all.len, sizeof(*all.items), compare);
        note_pause(&all, u);
        *ret = make_latest(t, &all);
    }
    free(all.items);
    gs_buf_finish(&all.texts);
    return err;
}
