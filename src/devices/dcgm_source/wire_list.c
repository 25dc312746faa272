// SPDX-License-Identifier: Apache-2.0
// The entities of a host engine, as far as a plan needs them. There is no message for the
// attributes of a GPU: its UUID and PCI address are fields, which are read live.
#include "dcgm_source/wire_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "dcgm/code.h"

#include <stdio.h>

enum { FIELD_UUID = 54, FIELD_PCI_BUS_ID = 57 };

// --- the table ---

static int compare(const void *a, const void *b)
{
    const struct dcgm_entity *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

size_t dcgm_source_wire_find(const struct dcgm_source_wire_table *t, uint32_t group, uint32_t id)
{
    size_t low = 0, high = t->len;
    struct dcgm_entity key = {.group = group, .id = id};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = compare(&key, &t->items[middle]);
        if (c == 0)
            return middle;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return SIZE_MAX;
}

void dcgm_source_wire_table_finish(struct dcgm_source_wire_table *t)
{
    free(t->items);
    *t = (struct dcgm_source_wire_table){0};
}

// NULL: the table is full.
static struct dcgm_entity *add(struct dcgm_source_wire_table *t, uint32_t group, uint32_t id)
{
    if (t->len >= DCGM_SOURCE_MAX_ENTITIES)
        return NULL;
    gs_grow(&t->items, &t->cap, t->len, sizeof(*t->items));
    t->items[t->len] =
        (struct dcgm_entity){.group = group, .id = id, .parent = DCGM_SOURCE_NO_PARENT};
    return &t->items[t->len++];
}

// Equal IDs would be two entities with one value: neither can be told apart.
static void sort_and_drop_equal(struct dcgm_source_wire_table *t)
{
    size_t n = 0;
    if (t->len)
        qsort(t->items, t->len, sizeof(*t->items), compare);
    for (size_t i = 0, end; i < t->len; i = end) {
        for (end = i + 1; end < t->len && !compare(&t->items[i], &t->items[end]);)
            end++;
        if (end == i + 1)
            t->items[n++] = t->items[i];
    }
    t->len = n;
}

// --- GPUs and MIG devices ---

static void take_text(const struct dcgm_wire_value *v, struct dcgm_source_wire_table *t)
{
    size_t at = dcgm_source_wire_find(t, v->entity.group, v->entity.id);
    if (at == SIZE_MAX || v->type != DCGM_TYPE_TEXT || v->status != DCGM_OK ||
        gs_slice_starts(v->text, "<<<")) // blank
        return;
    struct dcgm_entity *e = &t->items[at];
    if (v->field == FIELD_UUID)
        snprintf(e->uuid, sizeof(e->uuid), GS_SLICE_FMT, GS_SLICE_ARG(v->text));
    else if (v->field == FIELD_PCI_BUS_ID)
        snprintf(e->pci_bus_id, sizeof(e->pci_bus_id), GS_SLICE_FMT, GS_SLICE_ARG(v->text));
}

// At most DCGM_MAX_GPUS entities.
static struct gs_error *read_texts(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    struct dcgm_wire_read *m = &dcgm_source_wire_message(w)->read;
    struct gs_slice values;
    int code;
    for (size_t i = 0; i < t->len; i++)
        m->entities[m->n_entities++] = (struct dcgm_entity_pair){DCGM_ENTITY_GPU, t->items[i].id};
    if (!m->n_entities)
        return NULL;
    m->fields[0] = FIELD_UUID;
    m->fields[1] = FIELD_PCI_BUS_ID;
    m->n_fields = 2;
    m->flags = DCGM_READ_LIVE;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_READ, &code, &values);
    while (!err && !code && values.len) {
        struct dcgm_wire_value v;
        err = dcgm_wire_value_next(&values, &v);
        if (!err)
            take_text(&v, t);
    }
    return err;
}

static struct gs_error *list_gpus(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    int code;
    dcgm_source_wire_message(w);
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_DEVICES, &code, NULL);
    if (!err && code)
        err = gs_error_new(GS_EUNAVAIL, "the DCGM host engine does not list its GPUs: %s",
                           dcgm_code_text(code));
    if (err)
        return err;
    for (uint32_t i = 0; i < w->message->devices.count; i++)
        add(t, DCGM_ENTITY_GPU, w->message->devices.ids[i]);
    sort_and_drop_equal(t);
    return read_texts(w, t);
}

static void add_instance(const struct dcgm_mig_row *row, struct dcgm_source_wire_table *t)
{
    size_t parent = dcgm_source_wire_find(t, row->parent.group, row->parent.id);
    if (row->entity.group != DCGM_ENTITY_GPU_I || row->parent.group != DCGM_ENTITY_GPU ||
        parent == SIZE_MAX)
        return;
    struct dcgm_entity gpu = t->items[parent]; // add() may move it
    struct dcgm_entity *e = add(t, DCGM_ENTITY_GPU_I, row->entity.id);
    if (!e)
        return;
    e->instance = row->info.nvml_instance_id;
    e->parent = gpu.id; // an ID until the table is complete
    memcpy(e->uuid, gpu.uuid, sizeof(e->uuid));
}

// The GPUs stay sorted in front of what is added, so that parents can be found meanwhile.
static struct gs_error *list_instances(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    int code;
    dcgm_source_wire_message(w)->hierarchy.data.version = DCGM_MIG_HIERARCHY;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_HIERARCHY, &code, NULL);
    const struct dcgm_mig_hierarchy *h = &w->message->hierarchy.data;
    for (uint32_t i = 0; !err && !code && i < h->count; i++)
        add_instance(&h->rows[i], t);
    return err; // engines without a GPU that has MIG may refuse
}

// --- switches and links ---

static struct gs_error *list_switches(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    int code;
    struct dcgm_wire_entities *m = &dcgm_source_wire_message(w)->entities;
    m->group = DCGM_ENTITY_SWITCH;
    m->count = DCGM_WIRE_MAX_ENTITIES;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_ENTITIES, &code, NULL);
    for (uint32_t i = 0; !err && !code && i < m->count; i++)
        add(t, DCGM_ENTITY_SWITCH, m->ids[i]);
    return err;
}

// Only links that are up have values.
static void add_links(uint32_t group, uint32_t parent, const uint32_t *states, uint32_t n,
                      struct dcgm_source_wire_table *t)
{
    for (uint32_t port = 0; port < n && parent < 256; port++) {
        struct dcgm_entity *e = NULL;
        if (states[port] == DCGM_LINK_UP)
            e = add(t, DCGM_ENTITY_LINK, DCGM_LINK_ID(group, port, parent));
        if (e)
            e->link_state = states[port];
    }
}

static void add_switch_links(const struct dcgm_switch_links *s, uint32_t n,
                             struct dcgm_source_wire_table *t)
{
    for (uint32_t i = 0; i < n; i++)
        add_links(DCGM_ENTITY_SWITCH, s[i].id, s[i].state, GS_ARRAY_LEN(s[i].state), t);
}

static struct gs_error *list_links_v3(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    int code;
    struct dcgm_link_status_v4 *s = &dcgm_source_wire_message(w)->links_v3.data;
    s->version = DCGM_LINK_STATUS_V4;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_LINKS_V3, &code, NULL);
    if (err || code) // before DCGM 4.0 there is another message
        return err;
    for (uint32_t i = 0; i < s->n_gpus; i++)
        add_links(DCGM_ENTITY_GPU, s->gpus[i].id, s->gpus[i].state, 18, t);
    add_switch_links(s->switches, s->n_switches, t);
    return NULL;
}

static struct gs_error *list_links(struct dcgm_source_wire *w, struct dcgm_source_wire_table *t)
{
    int code;
    struct dcgm_link_status_v5 *s = &dcgm_source_wire_message(w)->links_v4.data;
    s->version = DCGM_LINK_STATUS_V5;
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_LINKS_V4, &code, NULL);
    if (!err && code)
        return list_links_v3(w, t);
    for (uint32_t i = 0; !err && i < s->n_gpus; i++)
        add_links(DCGM_ENTITY_GPU, s->gpus[i].id, s->gpus[i].state, 36, t);
    if (!err)
        add_switch_links(s->switches, s->n_switches, t);
    return err;
}

// --- CPUs ---

static void add_cores(const struct dcgm_wire_cpu *cpu, struct dcgm_source_wire_table *t)
{
    for (uint32_t core = 0; core < DCGM_MAX_CORES; core++) {
        struct dcgm_entity *e = NULL;
        if (cpu->cores.bitmask[core / 64] >> core % 64 & 1)
            e = add(t, DCGM_ENTITY_CPU_CORE, core);
        if (e)
            e->parent = cpu->id;
    }
}

static struct gs_error *list_cpus(struct dcgm_source_wire *w, bool cores,
                                  struct dcgm_source_wire_table *t)
{
    int code;
    dcgm_source_wire_message(w);
    struct gs_error *err = dcgm_source_wire_exchange(w, DCGM_WIRE_CPUS, &code, NULL);
    if (err || code) // the module is not loaded: the machine has no CPU of NVIDIA
        return err;
    const struct dcgm_wire_cpus *m = &w->message->cpus;
    for (uint32_t i = 0; i < m->count; i++)
        add(t, DCGM_ENTITY_CPU, m->cpus[i].id);
    for (uint32_t i = 0; i < m->count && cores; i++)
        add_cores(&m->cpus[i], t);
    return NULL;
}

// --- all ---

static uint32_t index_or_none(const struct dcgm_source_wire_table *t, uint32_t group, uint32_t id)
{
    size_t at = dcgm_source_wire_find(t, group, id);
    return at == SIZE_MAX ? DCGM_SOURCE_NO_PARENT : (uint32_t)at;
}

// Children have the ID of their parent until here.
static void set_parents(struct dcgm_source_wire_table *t)
{
    for (size_t i = 0; i < t->len; i++) {
        struct dcgm_entity *e = &t->items[i];
        if (e->group == DCGM_ENTITY_GPU_I)
            e->parent = index_or_none(t, DCGM_ENTITY_GPU, e->parent);
        else if (e->group == DCGM_ENTITY_CPU_CORE)
            e->parent = index_or_none(t, DCGM_ENTITY_CPU, e->parent);
        else if (e->group == DCGM_ENTITY_LINK)
            e->parent = index_or_none(t, DCGM_LINK_PARENT_GROUP(e->id), DCGM_LINK_PARENT(e->id));
    }
}

struct gs_error *dcgm_source_wire_list(struct dcgm_source_wire *w,
                                       const struct dcgm_source_plan *plan,
                                       struct dcgm_source_wire_table *ret)
{
    const struct dcgm_source_needs needs = dcgm_source_plan_needs(plan);
    struct gs_error *err = needs.gpus ? list_gpus(w, ret) : NULL;
    if (!err && needs.profiling)
        err = list_instances(w, ret);
    if (!err && needs.switches)
        err = list_switches(w, ret);
    if (!err && needs.links)
        err = list_links(w, ret);
    if (!err && needs.cpus)
        err = list_cpus(w, needs.cores, ret);
    sort_and_drop_equal(ret);
    set_parents(ret);
    return err;
}
