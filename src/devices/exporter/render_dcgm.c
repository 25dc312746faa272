// SPDX-License-Identifier: Apache-2.0
// Families that only DCGM has: fields of GPUs, NVSwitches, NVLinks, CPUs and cores, with the labels
// of dcgm-exporter. A family has its header once, and the lines of all its entities after it.
#include "exporter/exporter_private.h"

#include "base/mem.h"
#include "dcgm/fields.h"

#include <string.h>

// --- which entities ---

// Links of a GPU belong to the selection of GPUs, those of a switch to that of switches.
static bool is_link_selected(const struct exporter_renderer *r, const struct dcgm_entity *e,
                             const struct gpu_device *d)
{
    const char *devices = r->names->devices ? r->names->devices : "f";
    const char *switches = r->names->switches ? r->names->switches : "f";
    if (DCGM_LINK_PARENT_GROUP(e->id) == DCGM_ENTITY_GPU)
        return d && exporter_selection_has(devices, 'g', d->index);
    return exporter_selection_has(switches, 'g', DCGM_LINK_PARENT(e->id)) &&
           exporter_selection_has(switches, 'i', DCGM_LINK_PORT(e->id));
}

static bool is_core_selected(const char *cpus, const struct dcgm_latest *l,
                             const struct dcgm_entity *e)
{
    return e->parent < l->n_entities &&
           exporter_selection_has(cpus, 'g', l->entities[e->parent].id) &&
           exporter_selection_has(cpus, 'i', e->id);
}

static bool is_selected(const struct exporter_renderer *r, const struct dcgm_latest *l,
                        const struct dcgm_entity *e, const struct gpu_device *d)
{
    const char *switches = r->names->switches ? r->names->switches : "f";
    const char *cpus = r->names->cpus ? r->names->cpus : "f";
    switch (e->group) {
    case DCGM_ENTITY_SWITCH:
        return exporter_selection_has(switches, 'g', e->id);
    case DCGM_ENTITY_LINK:
        return e->link_state == DCGM_LINK_UP && is_link_selected(r, e, d);
    case DCGM_ENTITY_CPU:
        return exporter_selection_has(cpus, 'g', e->id);
    case DCGM_ENTITY_CPU_CORE:
        return is_core_selected(cpus, l, e);
    default:
        return false; // GPUs and MIG devices are entities of the page
    }
}

// --- labels ---

// dcgm-exporter numbers the links of a GPU from 1, and those of a switch from 0.
static void add_link(const struct dcgm_entity *e, const struct gpu_device *d, struct gs_buf *out)
{
    if (!d) {
        exporter_render_add_label_u64(out, "nvlink", "", DCGM_LINK_PORT(e->id));
        exporter_render_add_label_u64(out, "nvswitch", "nvswitch", DCGM_LINK_PARENT(e->id));
        return;
    }
    exporter_render_add_label_u64(out, "nvlink", "", DCGM_LINK_PORT(e->id) + 1);
    exporter_render_add_label_u64(out, "gpu", "", d->index);
    exporter_render_add_label(out, "gpu_uuid", d->uuid);
    exporter_render_add_label(out, "pci_bus_id", d->pci_bus_id);
    exporter_render_add_label_u64(out, "device", "nvidia", d->index);
    exporter_render_add_label(out, "model_name", d->name);
}

static void add_identity(const struct dcgm_latest *l, const struct dcgm_entity *e,
                         const struct gpu_device *d, struct gs_buf *out)
{
    if (e->group == DCGM_ENTITY_SWITCH) {
        exporter_render_add_label_u64(out, "nvswitch", "nvswitch", e->id);
    } else if (e->group == DCGM_ENTITY_LINK) {
        add_link(e, d, out);
    } else if (e->group == DCGM_ENTITY_CPU) {
        exporter_render_add_label_u64(out, "cpu", "", e->id);
    } else {
        exporter_render_add_label_u64(out, "cpucore", "", e->id);
        exporter_render_add_label_u64(out, "cpu", "", l->entities[e->parent].id);
    }
}

// Label rows that are about the machine, such as the driver's version. Those of a GPU also apply to
// its links.
static void add_label_rows(const struct exporter_renderer *r, const struct gpu_device *d,
                           struct gs_buf *out)
{
    const struct gpu_snapshot *g = r->in.sample->gpus;
    for (size_t i = r->counters->n_families; g->n_devices && i < r->counters->len; i++) {
        const struct exporter_counter *c = &r->counters->rows[i];
        const struct dcgm_field *f = dcgm_field_by_name(c->name);
        char number[32];
        if (d || (f && f->level == DCGM_ENTITY_NONE))
            exporter_render_add_label_if(
                out, c->name, exporter_render_label_field(g, d ? d : &g->devices[0], c, number));
    }
}

// dcgm-exporter gives the links of a GPU the labels of its pod.
static void add_pod(const struct exporter_renderer *r, const struct gpu_device *d,
                    struct gs_buf *out)
{
    size_t at = (size_t)(d - r->in.sample->gpus->devices);
    const struct exporter_device_holders *holders = exporter_device_map_find(r->in.map, d, NULL);
    struct exporter_attributes a = {
        .holder = exporter_render_sole_holder(r->in.sample, at, NULL, holders)};
    exporter_render_add_attributes(r->names, &a, out);
}

static void make_labels(const struct exporter_renderer *r, const struct dcgm_latest *l,
                        const struct dcgm_entity *e, const struct gpu_device *d, struct gs_buf *out)
{
    gs_buf_clear(out);
    add_identity(l, e, d, out);
    // dcgm-exporter 4.8.2 writes Hostname for all but links.
    bool link = e->group == DCGM_ENTITY_LINK;
    if (r->names->hostname_label)
        exporter_render_add_label_if(out, link ? "hostname" : r->names->hostname_label,
                                     r->names->hostname);
    add_label_rows(r, d, out);
    if (d)
        add_pod(r, d, out);
}

void exporter_render_list_dcgm(struct exporter_renderer *r)
{
    const struct dcgm_latest *l = r->in.sample->dcgm;
    struct exporter_dcgm_labels *all = &r->dcgm;
    size_t n = l ? l->n_entities : 0;
    if (n > all->n) {
        all->items = gs_realloc_array(all->items, n, sizeof(*all->items));
        memset(all->items + all->n, 0, (n - all->n) * sizeof(*all->items));
        all->n = n;
    }
    for (size_t i = 0; i < n; i++) {
        const struct dcgm_entity *e = &l->entities[i];
        bool of_gpu =
            e->group == DCGM_ENTITY_LINK && DCGM_LINK_PARENT_GROUP(e->id) == DCGM_ENTITY_GPU;
        const struct gpu_device *d = of_gpu ? dcgm_source_device(r->in.sample->gpus, l, e) : NULL;
        if (is_selected(r, l, e, d))
            make_labels(r, l, e, d, &all->items[i]);
        else
            gs_buf_clear(&all->items[i]);
    }
}

void exporter_render_dcgm_finish(struct exporter_renderer *r)
{
    for (size_t i = 0; i < r->dcgm.n; i++)
        gs_buf_finish(&r->dcgm.items[i]);
    free(r->dcgm.items);
    r->dcgm = (struct exporter_dcgm_labels){0};
}

// --- lines ---

// The entity of the page that a GPU or MIG device of DCGM is. NULL: none.
static const struct exporter_entity *entity_of(const struct exporter_renderer *r,
                                               const struct dcgm_latest *l,
                                               const struct dcgm_entity *e)
{
    const struct gpu_device *d = dcgm_source_device(r->in.sample->gpus, l, e);
    for (size_t i = 0; d && i < r->entities.len; i++) {
        const struct exporter_entity *x = &r->entities.items[i];
        bool same = e->group == DCGM_ENTITY_GPU
                        ? !x->instance
                        : x->instance && x->instance->gpu_instance_id == e->instance;
        if (x->device == d && same)
            return x;
    }
    return NULL;
}

static const struct gs_buf *labels_of(const struct exporter_renderer *r,
                                      const struct dcgm_latest *l, uint32_t at)
{
    const struct dcgm_entity *e = &l->entities[at];
    if (e->group != DCGM_ENTITY_GPU && e->group != DCGM_ENTITY_GPU_I)
        return r->dcgm.items[at].len ? &r->dcgm.items[at] : NULL;
    const struct exporter_entity *x = entity_of(r, l, e);
    return x ? &x->all_labels : NULL;
}

void exporter_render_write_dcgm(struct exporter_renderer *r, size_t row, struct gs_buf *out)
{
    const struct exporter_counter *c = &r->counters->rows[row];
    const struct dcgm_latest *l = r->in.sample->dcgm;
    bool header = false;
    for (size_t i = 0; l && i < l->n_values; i++) {
        const struct dcgm_value *raw = &l->values[i];
        if (raw->field != c->id || raw->entity >= l->n_entities || raw->type == DCGM_TYPE_TEXT)
            continue;
        const struct gs_buf *labels = labels_of(r, l, raw->entity);
        struct gpu_value v = dcgm_source_value(l, raw, r->in.sample->mono_ns);
        if (!labels || v.validity != GPU_VALID)
            continue;
        if (!header)
            exporter_render_write_header(&r->headers[row], c->name, c->type, c->help, out);
        header = true;
        exporter_render_write_line(r, c->name, labels, v, out);
    }
}
