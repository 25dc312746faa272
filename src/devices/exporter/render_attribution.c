// SPDX-License-Identifier: Apache-2.0
// gpuscale_exporter_pod_attribution: how the values of each pod were determined.
#include "exporter/exporter_private.h"

#include "base/mem.h"
#include "metrics/write.h"

#include <xxhash.h>

static const char family[] = "gpuscale_exporter_pod_attribution";

static const char *const kind_names[] = {"exclusive", "attributed", "estimate"};

void exporter_render_pod_labels(const struct exporter_entity *e, const char *ns, const char *pod,
                                const char *container, struct gs_buf *ret)
{
    exporter_render_add_label_u64(ret, "gpu", "", e->device->index);
    exporter_render_add_label(ret, "UUID", e->device->uuid);
    if (e->instance) {
        exporter_render_add_label_u64(ret, "GPU_I_ID", "", e->instance->gpu_instance_id);
        exporter_render_add_compute_instance(ret, e->instance);
    }
    exporter_render_add_label_if(ret, "container", container);
    exporter_render_add_label(ret, "namespace", ns);
    exporter_render_add_label(ret, "pod", pod);
}

// --- pods on a device ---

enum value { UTILIZATION, MEMORY, VALUES };

struct pod_line {
    const struct gs_buf *labels;
    bool has[VALUES];
    enum exporter_attribution_kind kind[VALUES];
};

struct pod_lines {
    struct pod_line *items;
    size_t len, cap;
};

static struct pod_line *line_of(struct pod_lines *list, const struct gs_buf *labels)
{
    for (size_t i = 0; i < list->len; i++) {
        const struct gs_buf *b = list->items[i].labels;
        if (b->len == labels->len && memcmp(b->data, labels->data, b->len) == 0)
            return &list->items[i];
    }
    gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
    list->items[list->len] = (struct pod_line){.labels = labels};
    return &list->items[list->len++];
}

static void add_attributed_value(struct pod_line *l, enum value v,
                                 enum exporter_attribution_kind kind)
{
    l->has[v] = true;
    if (kind > l->kind[v])
        l->kind[v] = kind;
}

static void add_process(struct pod_lines *list, const struct exporter_process_line *p)
{
    const struct gpu_process *g = p->process;
    struct pod_line *l = line_of(list, &p->pod_labels);
    if (g->has_util)
        add_attributed_value(l, UTILIZATION,
                             g->util_estimated ? EXPORTER_ATTRIBUTION_ESTIMATE : p->kind);
    if (g->has_memory)
        add_attributed_value(l, MEMORY,
                             g->memory_estimated ? EXPORTER_ATTRIBUTION_ESTIMATE : p->kind);
}

// --- writing ---

static void write_pod(const struct pod_line *l, struct gs_buf *out)
{
    static const char *const values[] = {"utilization", "memory"};
    for (enum value v = 0; v < VALUES; v++) {
        if (!l->has[v])
            continue;
        gs_buf_addf(out, "%s{", family);
        gs_buf_add_slice(out, gs_buf_slice(l->labels));
        gs_buf_addf(out, ",value=\"%s\",attribution=\"%s\"} 1\n", values[v],
                    kind_names[l->kind[v]]);
    }
}

static bool has_activity(const struct exporter_entity *e)
{
    return !e->instance || e->instance->prof[0].validity == GPU_VALID;
}

// If a pod has the device to itself, the device's lines contain its values, unless processes of
// others use the device.
static void write_exclusive(const struct exporter_renderer *r, const struct exporter_entity *e,
                            struct gs_buf *own, struct gs_buf *out)
{
    const struct exporter_device_holder *h = e->exclusive;
    struct pod_line l = {.labels = own, .has = {true, true}};
    if (!h || e->device->lost || e->device->hung)
        return;
    // A MIG device has activity values if the driver provides performance counters for it.
    l.has[UTILIZATION] = has_activity(e);
    gs_buf_clear(own);
    exporter_render_pod_labels(e, h->namespace_name, h->pod, h->container, own);
    for (size_t i = 0; i < r->processes.used; i++) {
        const struct exporter_process_line *p = &r->processes.items[i];
        if (p->entity == e && p->shown && p->foreign)
            l.kind[UTILIZATION] = l.kind[MEMORY] = EXPORTER_ATTRIBUTION_ESTIMATE;
    }
    write_pod(&l, out);
}

static void write_all_pods(struct exporter_renderer *r, struct gs_buf *out)
{
    struct pod_lines list = {0};
    GS_AUTO_BUF struct gs_buf own = {0};
    gs_buf_clear(out);
    metrics_write_family(out, family, METRICS_GAUGE,
                         "How a pod comes to its figures on a GPU: it has the GPU to itself "
                         "(exclusive), readings of its processes (attributed), or an estimate.");
    size_t header = out->len;
    for (size_t i = 0; i < r->entities.len; i++)
        write_exclusive(r, &r->entities.items[i], &own, out);
    for (size_t i = 0; i < r->processes.used; i++) {
        const struct exporter_process_line *p = &r->processes.items[i];
        if (p->shown && p->pod_labels.len && !p->of_exclusive)
            add_process(&list, p);
    }
    for (size_t i = 0; i < list.len; i++)
        write_pod(&list.items[i], out);
    if (out->len == header)
        gs_buf_clear(out);
    free(list.items);
}

// Everything that the lines depend on.
static uint64_t hash_of(const struct exporter_renderer *r)
{
    uint64_t hash = r->entities_version + 1;
    for (size_t i = 0; i < r->processes.used; i++) {
        const struct exporter_process_line *p = &r->processes.items[i];
        const uint64_t of[] = {
            p->hash,
            (uint64_t)p->process->has_util | (uint64_t)p->process->has_memory << 1 |
                (uint64_t)p->process->util_estimated << 2 |
                (uint64_t)p->process->memory_estimated << 3,
        };
        hash = XXH3_64bits_withSeed(of, sizeof(of), hash);
    }
    for (size_t i = 0; i < r->entities.len; i++)
        hash = hash * 8 + r->entities.items[i].device->lost * 4 +
               r->entities.items[i].device->hung * 2 + has_activity(&r->entities.items[i]);
    return hash;
}

void exporter_render_write_attributions(struct exporter_renderer *r, struct gs_buf *out)
{
    uint64_t hash = hash_of(r);
    if (hash != r->attributions_of)
        write_all_pods(r, &r->attributions);
    r->attributions_of = hash;
    gs_buf_add_slice(out, gs_buf_slice(&r->attributions));
}
