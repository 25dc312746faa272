// SPDX-License-Identifier: Apache-2.0
#include "exporter/render.h"

#include "base/mem.h"
#include "metrics/write.h"

#include <inttypes.h>

// What one line of a device family is about: a GPU, or one of its MIG devices.
struct entity {
    const struct gpu_device *device;
    const struct gpu_instance *instance; // NULL: the GPU itself
    const struct device_holders *holders;
    const struct device_holder *exclusive;
    struct gs_buf labels;     // up to DCGM_FI_DRIVER_VERSION
    struct gs_buf all_labels; // and whose it is: made once, since twenty lines have the same
};

struct entities {
    struct entity *items;
    size_t len, cap;
};

static void add_label(struct gs_buf *b, const char *name, const char *value)
{
    if (b->len)
        gs_buf_add_char(b, ',');
    gs_buf_add_str(b, name);
    gs_buf_add(b, "=\"", 2);
    metrics_write_label_value(b, gs_slice_of(value));
    gs_buf_add_char(b, '"');
}

static void add_label_u64(struct gs_buf *b, const char *name, const char *prefix, uint64_t value)
{
    add_label(b, name, prefix);
    b->len--; // the closing quote
    gs_buf_add_u64(b, value);
    gs_buf_add_char(b, '"');
}

static void add_label_if(struct gs_buf *b, const char *name, const char *value)
{
    if (value && value[0])
        add_label(b, name, value);
}

static void add_entity_labels(const struct render_names *names, const char *driver_version,
                              struct entity *e)
{
    const struct gpu_device *d = e->device;
    add_label_u64(&e->labels, "gpu", "", d->index);
    add_label(&e->labels, "UUID", d->uuid);
    add_label(&e->labels, "pci_bus_id", d->pci_bus_id);
    add_label_u64(&e->labels, "device", "nvidia", d->index);
    add_label(&e->labels, "modelName", d->name);
    if (e->instance) {
        add_label(&e->labels, "GPU_I_PROFILE", e->instance->profile);
        add_label_u64(&e->labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
    }
    if (names->hostname_label)
        add_label_if(&e->labels, names->hostname_label, names->hostname);
    add_label_if(&e->labels, "DCGM_FI_DRIVER_VERSION", driver_version);
}

// Behind the device's labels, sorted by name.
static void add_attributes(const struct entity *e, const char *xid_code, const char *xid_text,
                           struct gs_buf *out)
{
    const struct device_holder *h = e->exclusive;
    struct gs_buf tail = {0};
    if (h)
        add_label(&tail, "container", h->container);
    if (xid_code) {
        add_label(&tail, "err_code", xid_code);
        add_label(&tail, "err_msg", xid_text);
    }
    if (h) {
        add_label(&tail, "namespace", h->namespace_name);
        add_label(&tail, "pod", h->pod);
    }
    if (tail.len) {
        gs_buf_add_char(out, ',');
        gs_buf_add_slice(out, gs_buf_slice(&tail));
    }
    gs_buf_finish(&tail);
}

static void add_entity(const struct render_names *names, const struct gpu_snapshot *g,
                       const struct device_map *map, const struct gpu_device *d,
                       const struct gpu_instance *instance, struct entities *list)
{
    gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
    struct entity *e = &list->items[list->len++];
    *e = (struct entity){.device = d, .instance = instance};
    e->holders = device_map_find(map, d, instance);
    // Of a shared GPU the device's values are nobody's in particular: the last of several pods
    // would win, and change with every kubelet reply. The per-process families tell who does what.
    e->exclusive = device_holders_exclusive(e->holders);
    add_entity_labels(names, g->driver_version, e);
    gs_buf_add_slice(&e->all_labels, gs_buf_slice(&e->labels));
    add_attributes(e, NULL, NULL, &e->all_labels);
}

// As dcgm-exporter's default: the MIG devices of a GPU, or the GPU when it has none.
static void list_entities(const struct render_names *names, const struct gpu_snapshot *g,
                          const struct device_map *map, struct entities *list)
{
    for (size_t i = 0; i < g->n_devices; i++) {
        const struct gpu_device *d = &g->devices[i];
        for (size_t k = 0; k < d->n_instances; k++)
            add_entity(names, g, map, d, &d->instances[k], list);
        if (!d->n_instances)
            add_entity(names, g, map, d, NULL, list);
    }
}

static void entities_finish(struct entities *list)
{
    for (size_t i = 0; i < list->len; i++) {
        gs_buf_finish(&list->items[i].labels);
        gs_buf_finish(&list->items[i].all_labels);
    }
    free(list->items);
}

// --- families of DCGM ---

static struct gpu_value field_of(const struct entity *e, enum gpu_field f)
{
    if (e->instance && !e->device->lost) {
        if (f == GPU_F_FB_FREE)
            return e->instance->fb_free;
        if (f == GPU_F_FB_USED)
            return e->instance->fb_used;
        if (f == GPU_F_FB_RESERVED)
            return e->instance->fb_reserved;
    }
    return e->device->fields[f];
}

static void add_xid_labels(const struct entity *e, int64_t xid, struct gs_buf *out)
{
    char code[24];
    snprintf(code, sizeof(code), "%" PRId64, xid);
    gs_buf_add_slice(out, gs_buf_slice(&e->labels));
    add_attributes(e, code, render_xid_text(xid), out);
}

static void write_field(const struct entity *e, enum gpu_field f, struct gpu_value v,
                        struct gs_buf *out)
{
    gs_buf_add_str(out, gpu_field_name(f));
    gs_buf_add_char(out, '{');
    if (f == GPU_F_XID_ERRORS)
        add_xid_labels(e, v.i, out);
    else
        gs_buf_add_slice(out, gs_buf_slice(&e->all_labels));
    gs_buf_add(out, "} ", 2);
    if (v.is_double)
        gs_buf_addf(out, "%f", v.d);
    else if (v.i < 0)
        gs_buf_addf(out, "%" PRId64, v.i);
    else
        gs_buf_add_u64(out, (uint64_t)v.i);
    gs_buf_add_char(out, '\n');
}

static void write_family(const struct entities *list, enum gpu_field f, struct gs_buf *out)
{
    const struct gpu_field_info *info = gpu_field_info(f);
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        struct gpu_value v = field_of(&list->items[i], f);
        if (v.validity != GPU_VALID)
            continue;
        if (!header)
            metrics_write_family(out, info->name,
                                 gs_streq(info->type, "counter") ? METRICS_COUNTER : METRICS_GAUGE,
                                 info->help);
        header = true;
        write_field(&list->items[i], f, v, out);
    }
}

// --- families per process and per container ---

struct process_line {
    const struct gpu_process *process;
    struct gs_buf labels;
};

struct process_lines {
    struct process_line *items;
    size_t len, cap;
};

static const struct entity *entity_of(const struct entities *list, const struct gpu_device *d,
                                      uint32_t gpu_instance)
{
    for (size_t i = 0; i < list->len; i++) {
        const struct entity *e = &list->items[i];
        if (e->device != d)
            continue;
        if (!e->instance || e->instance->gpu_instance_id == gpu_instance)
            return e;
    }
    return NULL;
}

static const struct device_holder *find_holder(const struct device_holders *holders, const char *ns,
                                               const char *pod, const char *container)
{
    for (size_t i = 0; holders && i < holders->len; i++) {
        const struct device_holder *h = &holders->items[i];
        if (gs_streq(h->namespace_name, ns) && gs_streq(h->pod, pod) &&
            (!container[0] || gs_streq(h->container, container)))
            return h;
    }
    return NULL;
}

static void add_identity(const struct entity *e, struct gs_buf *b)
{
    add_label(b, "UUID", e->device->uuid);
    add_label_u64(b, "device", "nvidia", e->device->index);
    add_label_u64(b, "gpu", "", e->device->index);
    add_label(b, "modelName", e->device->name);
}

static void add_container(const struct render_names *names, const struct entity *e,
                          const char *mode, const char *ns, const char *pod, const char *container,
                          struct gs_buf *b)
{
    add_label(b, "AllocateMode", mode);
    add_label_if(b, "ContainerName", container);
    if (e->instance) {
        add_label_u64(b, "GPU_I_ID", "", e->instance->gpu_instance_id);
        add_label_if(b, "GPU_I_PROFILE", e->instance->profile);
    }
    add_label_if(b, "NamespaceName", ns);
    add_label_if(b, "NodeName", names->node_name);
    add_label_if(b, "PodName", pod);
}

static const char *process_type(const struct gpu_process *p)
{
    if (p->compute && p->graphics)
        return "C+G";
    return p->graphics ? "G" : p->compute ? "C" : "";
}

static const char *mode_of(const struct device_holder *h)
{
    return !h ? "none" : h->shared ? "share" : "exclusive";
}

// False when nothing can be said about whose the process is, and it is not here any more.
static bool process_labels(const struct render_names *names, const struct entity *e,
                           const struct gpu_process *p, const struct owner *o, struct gs_buf *b)
{
    const struct device_holder *h = NULL;
    const char *ns = "", *pod = "", *container = "";
    bool named = o->kind == OWNER_POD && o->pod[0];
    if (named) {
        ns = o->namespace_name;
        pod = o->pod;
        container = o->container;
        h = find_holder(e->holders, ns, pod, container);
    } else if (o->kind != OWNER_HOST) {
        // A pod without a name, or a pid that we cannot see: who alone holds the GPU is meant.
        h = e->exclusive;
    }
    if (h) {
        ns = h->namespace_name;
        pod = h->pod;
        container = h->container;
    }
    if (o->kind == OWNER_GONE && !h)
        return false;
    add_container(names, e, mode_of(h), ns, pod, container, b);
    add_label_u64(b, "ProcessId", "", p->pid);
    add_label_if(b, "ProcessName", o->process_name);
    add_label_if(b, "ProcessType", process_type(p));
    add_identity(e, b);
    return true;
}

static void list_processes(const struct render_names *names, const struct sample *sample,
                           const struct entities *entities, struct process_lines *list)
{
    for (size_t i = 0; i < sample->gpus->n_devices; i++) {
        const struct gpu_device *d = &sample->gpus->devices[i];
        for (size_t k = 0; k < d->n_processes; k++) {
            const struct entity *e = entity_of(entities, d, d->processes[k].gpu_instance);
            struct process_line line = {.process = &d->processes[k]};
            if (!e ||
                !process_labels(names, e, line.process, &sample->owners[i][k], &line.labels)) {
                gs_buf_finish(&line.labels);
                continue;
            }
            gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
            list->items[list->len++] = line;
        }
    }
}

static void write_line(const char *name, const struct gs_buf *labels, uint64_t value,
                       struct gs_buf *out)
{
    gs_buf_add_str(out, name);
    gs_buf_add_char(out, '{');
    gs_buf_add_slice(out, gs_buf_slice(labels));
    gs_buf_add(out, "} ", 2);
    gs_buf_add_u64(out, value);
    gs_buf_add_char(out, '\n');
}

static bool sm_util_of(const struct gpu_process *p, uint64_t *ret)
{
    *ret = p->sm_util;
    return p->has_util;
}

static bool memory_of(const struct gpu_process *p, uint64_t *ret)
{
    *ret = p->memory_bytes >> 20;
    return p->has_memory;
}

static void write_process_family(const struct process_lines *list, const char *name,
                                 const char *help,
                                 bool (*value_of)(const struct gpu_process *, uint64_t *),
                                 struct gs_buf *out)
{
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        uint64_t value = 0;
        if (!value_of(list->items[i].process, &value))
            continue;
        if (!header)
            metrics_write_family(out, name, METRICS_GAUGE, help);
        header = true;
        write_line(name, &list->items[i].labels, value, out);
    }
}

// Of a shared device each replica stands for an equal part of the memory, as far as it is known how
// many there are.
static bool allocated_mib(const struct entity *e, const struct device_holder *h,
                          const struct device_replicas *replicas, uint64_t *ret)
{
    uint64_t total = (e->instance ? e->instance->memory_total : e->device->memory_total) >> 20;
    if (h->shared) {
        unsigned n = device_replicas_find(replicas, e->device, e->instance);
        if (!n || h->replicas > n)
            return false;
        total = total * h->replicas / n;
    }
    *ret = total;
    return total > 0;
}

static void write_allocated(const struct render_names *names, const struct entities *list,
                            const struct device_replicas *replicas, struct gs_buf *out)
{
    static const char name[] = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED";
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        const struct entity *e = &list->items[i];
        for (size_t k = 0; e->holders && k < e->holders->len; k++) {
            const struct device_holder *h = &e->holders->items[k];
            uint64_t value = 0;
            if (!allocated_mib(e, h, replicas, &value))
                continue;
            if (!header)
                metrics_write_family(out, name, METRICS_GAUGE,
                                     "GPU memory allocated to the container (in MiB).");
            header = true;
            GS_AUTO_BUF struct gs_buf labels = {0};
            add_container(names, e, mode_of(h), h->namespace_name, h->pod, h->container, &labels);
            add_identity(e, &labels);
            write_line(name, &labels, value, out);
        }
    }
}

void render_gpus(const struct render_names *names, const struct sample *sample,
                 const struct device_map *map, const struct device_replicas *replicas,
                 struct gs_buf *out)
{
    struct entities entities = {0};
    list_entities(names, sample->gpus, map, &entities);
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        write_family(&entities, f, out);
    struct process_lines processes = {0};
    list_processes(names, sample, &entities, &processes);
    write_process_family(&processes, "DCGM_CUSTOM_PROCESS_SM_UTIL",
                         "SM utilization of the process over the sample interval (in %).",
                         sm_util_of, out);
    write_process_family(&processes, "DCGM_CUSTOM_PROCESS_MEM_USED",
                         "GPU memory used by the process (in MiB).", memory_of, out);
    write_allocated(names, &entities, replicas, out);
    for (size_t i = 0; i < processes.len; i++)
        gs_buf_finish(&processes.items[i].labels);
    free(processes.items);
    entities_finish(&entities);
}
