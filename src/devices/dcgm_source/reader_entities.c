// SPDX-License-Identifier: Apache-2.0
// What the engine knows: GPUs by UUID, their MIG devices, switches, links, CPUs and cores.
#include "dcgm_source/reader_private.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static struct dcgm_entity *add(struct dcgm_reader_entities *list, uint32_t group, uint32_t id,
                               uint32_t parent)
{
    static struct dcgm_entity beyond_limit;
    if (list->len == DCGM_SOURCE_MAX_ENTITIES)
        return &beyond_limit;
    struct dcgm_entity *e = &list->items[list->len++];
    *e = (struct dcgm_entity){.group = group, .id = id, .parent = parent};
    return e;
}

static uint32_t find(const struct dcgm_reader_entities *list, uint32_t group, uint32_t id)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (list->items[i].group == group && list->items[i].id == id)
            return i;
    return DCGM_SOURCE_NO_PARENT;
}

static int add_gpus(const struct dcgm_reader *r, struct dcgm_reader_entities *list)
{
    uint32_t ids[DCGM_MAX_GPUS] = {0};
    int n = 0;
    int code = r->lib.all_devices(r->handle, ids, &n);
    if (code != DCGM_OK)
        return code;
    GS_AUTO_FREE struct dcgm_attributes *a = gs_alloc(sizeof(*a));
    for (int i = 0; i < n && i < DCGM_MAX_GPUS; i++) {
        dcgm_reader_beat(r);
        memset(a, 0, sizeof(*a));
        a->version = DCGM_ATTRIBUTES;
        code = r->lib.attributes(r->handle, ids[i], a);
        if (code == DCGM_CONNECTION_LOST || code == DCGM_VERSION_MISMATCH)
            return code;
        if (code != DCGM_OK)
            continue; // it cannot be matched with a GPU of NVML
        struct dcgm_entity *e = add(list, DCGM_ENTITY_GPU, ids[i], DCGM_SOURCE_NO_PARENT);
        snprintf(e->uuid, sizeof(e->uuid), "%.*s", (int)sizeof(e->uuid) - 1, a->identifiers.uuid);
        snprintf(e->pci_bus_id, sizeof(e->pci_bus_id), "%.*s", (int)sizeof(e->pci_bus_id) - 1,
                 a->identifiers.pci_bus_id);
    }
    return DCGM_OK;
}

// With GPUs of different limits, two instances could get the same ID: such values belong to nobody.
static bool is_ambiguous(const struct dcgm_mig_hierarchy *h, uint32_t at)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (i != at && h->rows[i].entity.group == DCGM_ENTITY_GPU_I &&
            h->rows[i].entity.id == h->rows[at].entity.id)
            return true;
    return false;
}

static int add_instances(const struct dcgm_reader *r, struct dcgm_reader_entities *list)
{
    if (!r->lib.mig_hierarchy)
        return DCGM_OK;
    GS_AUTO_FREE struct dcgm_mig_hierarchy *h = gs_alloc(sizeof(*h));
    h->version = DCGM_MIG_HIERARCHY;
    int code = r->lib.mig_hierarchy(r->handle, h);
    if (code != DCGM_OK)
        return code == DCGM_CONNECTION_LOST ? code : DCGM_OK;
    if (h->count > DCGM_MAX_HIERARCHY)
        h->count = DCGM_MAX_HIERARCHY;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct dcgm_mig_row *row = &h->rows[i];
        uint32_t parent = find(list, DCGM_ENTITY_GPU, row->parent.id);
        if (row->entity.group != DCGM_ENTITY_GPU_I || row->parent.group != DCGM_ENTITY_GPU ||
            parent == DCGM_SOURCE_NO_PARENT || is_ambiguous(h, i))
            continue;
        struct dcgm_entity *e = add(list, DCGM_ENTITY_GPU_I, row->entity.id, parent);
        e->instance = row->info.nvml_instance_id;
        memcpy(e->uuid, list->items[parent].uuid, sizeof(e->uuid));
    }
    return DCGM_OK;
}

static void add_links(struct dcgm_reader_entities *list, uint32_t parent_group, uint32_t parent_id,
                      const uint32_t *states, size_t n)
{
    uint32_t parent = find(list, parent_group, parent_id);
    for (size_t port = 0; parent != DCGM_SOURCE_NO_PARENT && port < n; port++) {
        if (states[port] != DCGM_LINK_UP)
            continue;
        add(list, DCGM_ENTITY_LINK, DCGM_LINK_ID(parent_group, port, parent_id), parent)
            ->link_state = states[port];
    }
}

static void add_switch_links(struct dcgm_reader_entities *list, const struct dcgm_switch_links *s,
                             uint32_t n)
{
    for (uint32_t i = 0; i < n && i < DCGM_MAX_SWITCHES; i++)
        add_links(list, DCGM_ENTITY_SWITCH, s[i].id, s[i].state, 256);
}

// Version 5 since 4.6, version 4 since 4.0.
static int add_all_links(const struct dcgm_reader *r, struct dcgm_reader_entities *list)
{
    if (!r->lib.link_status)
        return DCGM_OK;
    GS_AUTO_FREE struct dcgm_link_status_v5 *v5 = gs_alloc(sizeof(*v5));
    v5->version = DCGM_LINK_STATUS_V5;
    int code = r->lib.link_status(r->handle, v5);
    if (code == DCGM_OK) {
        for (uint32_t i = 0; i < v5->n_gpus && i < DCGM_MAX_GPUS; i++)
            add_links(list, DCGM_ENTITY_GPU, v5->gpus[i].id, v5->gpus[i].state, 36);
        add_switch_links(list, v5->switches, v5->n_switches);
    }
    if (code != DCGM_VERSION_MISMATCH)
        return code == DCGM_CONNECTION_LOST ? code : DCGM_OK;
    struct dcgm_link_status_v4 *v4 = (struct dcgm_link_status_v4 *)v5; // smaller
    memset(v5, 0, sizeof(*v5));
    v4->version = DCGM_LINK_STATUS_V4;
    code = r->lib.link_status(r->handle, v4);
    for (uint32_t i = 0; code == DCGM_OK && i < v4->n_gpus && i < DCGM_MAX_GPUS; i++)
        add_links(list, DCGM_ENTITY_GPU, v4->gpus[i].id, v4->gpus[i].state, 18);
    if (code == DCGM_OK)
        add_switch_links(list, v4->switches, v4->n_switches);
    return code == DCGM_CONNECTION_LOST ? code : DCGM_OK;
}

static int add_switches(const struct dcgm_reader *r, struct dcgm_reader_entities *list)
{
    uint32_t ids[DCGM_MAX_READ_ENTITIES];
    int n = DCGM_MAX_READ_ENTITIES;
    int code = r->lib.entities
                   ? r->lib.entities(r->handle, DCGM_ENTITY_SWITCH, ids, &n, DCGM_ONLY_SUPPORTED)
                   : DCGM_NOT_SUPPORTED;
    for (int i = 0; code == DCGM_OK && i < n && i < DCGM_MAX_SWITCHES; i++)
        add(list, DCGM_ENTITY_SWITCH, ids[i], DCGM_SOURCE_NO_PARENT);
    return code == DCGM_CONNECTION_LOST ? code : DCGM_OK;
}

static int add_cpus(const struct dcgm_reader *r, bool cores, struct dcgm_reader_entities *list)
{
    struct dcgm_cpu_hierarchy_v1 h = {.version = DCGM_CPU_HIERARCHY_V1};
    int code = r->lib.cpu_hierarchy ? r->lib.cpu_hierarchy(r->handle, &h) : DCGM_NOT_SUPPORTED;
    for (uint32_t i = 0; code == DCGM_OK && i < h.count && i < DCGM_MAX_CPUS; i++) {
        uint32_t parent = list->len;
        add(list, DCGM_ENTITY_CPU, h.cpus[i].id, DCGM_SOURCE_NO_PARENT);
        for (uint32_t core = 0; cores && core < DCGM_MAX_CORES; core++)
            if (h.cpus[i].cores.bitmask[core / 64] >> (core % 64) & 1)
                add(list, DCGM_ENTITY_CPU_CORE, core, parent);
    }
    return code == DCGM_CONNECTION_LOST ? code : DCGM_OK;
}

int dcgm_reader_discover(const struct dcgm_reader *r, struct dcgm_reader_entities *ret)
{
    const struct dcgm_source_needs needs = dcgm_source_plan_needs(&r->shared->plan);
    ret->len = 0;
    int code = needs.gpus ? add_gpus(r, ret) : DCGM_OK;
    dcgm_reader_beat(r);
    if (code == DCGM_OK && needs.profiling)
        code = add_instances(r, ret);
    if (code == DCGM_OK && needs.switches)
        code = add_switches(r, ret);
    if (code == DCGM_OK && needs.links)
        code = add_all_links(r, ret);
    dcgm_reader_beat(r);
    if (code == DCGM_OK && needs.cpus)
        code = add_cpus(r, needs.cores, ret);
    return code;
}
