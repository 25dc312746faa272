// SPDX-License-Identifier: Apache-2.0
// The DCGM_CUSTOM_* families of ACK's exporter.
#include "exporter/render_impl.h"

#include "base/mem.h"
#include "metrics/write.h"

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
    render_add_label(b, "UUID", e->device->uuid);
    render_add_label_u64(b, "device", "nvidia", e->device->index);
    render_add_label_u64(b, "gpu", "", e->device->index);
    render_add_label(b, "modelName", e->device->name);
}

static void add_container(const struct render_names *names, const struct entity *e,
                          const char *mode, const char *ns, const char *pod, const char *container,
                          struct gs_buf *b)
{
    render_add_label(b, "AllocateMode", mode);
    render_add_label_if(b, "ContainerName", container);
    if (e->instance) {
        render_add_label_u64(b, "GPU_I_ID", "", e->instance->gpu_instance_id);
        render_add_label_if(b, "GPU_I_PROFILE", e->instance->profile);
    }
    render_add_label_if(b, "NamespaceName", ns);
    render_add_label_if(b, "NodeName", names->node_name);
    render_add_label_if(b, "PodName", pod);
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
    render_add_label_u64(b, "ProcessId", "", p->pid);
    render_add_label_if(b, "ProcessName", o->process_name);
    render_add_label_if(b, "ProcessType", process_type(p));
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

static bool mem_util_of(const struct gpu_process *p, uint64_t *ret)
{
    *ret = p->mem_util;
    return p->has_util;
}

static bool enc_util_of(const struct gpu_process *p, uint64_t *ret)
{
    *ret = p->enc_util;
    return p->has_util;
}

static bool dec_util_of(const struct gpu_process *p, uint64_t *ret)
{
    *ret = p->dec_util;
    return p->has_util;
}

static const struct {
    const char *name, *help;
    bool (*value_of)(const struct gpu_process *, uint64_t *);
} process_families[] = {
    {"DCGM_CUSTOM_PROCESS_SM_UTIL",
     "SM utilization of the process over the sample interval (in %).", sm_util_of},
    {"DCGM_CUSTOM_PROCESS_MEM_COPY_UTIL",
     "Memory copy utilization of the process over the sample interval (in %).", mem_util_of},
    {"DCGM_CUSTOM_PROCESS_ENCODE_UTIL",
     "Encoder utilization of the process over the sample interval (in %).", enc_util_of},
    {"DCGM_CUSTOM_PROCESS_DECODE_UTIL",
     "Decoder utilization of the process over the sample interval (in %).", dec_util_of},
    {"DCGM_CUSTOM_PROCESS_MEM_USED", "GPU memory used by the process (in MiB).", memory_of},
};

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

// --- families per device of ACK's exporter ---

// 0: nobody has it, 1: one container as a whole, 2: shared.
static bool mode_number(const struct entity *e, const struct device_replicas *replicas,
                        struct gpu_value *ret)
{
    (void)replicas;
    *ret = (struct gpu_value){.validity = GPU_VALID,
                              .i = !e->holders || !e->holders->len ? 0
                                   : e->exclusive                  ? 1
                                                                   : 2};
    return true;
}

static bool total_mib(const struct entity *e, const struct device_replicas *replicas,
                      struct gpu_value *ret)
{
    (void)replicas;
    uint64_t total = (e->instance ? e->instance->memory_total : e->device->memory_total) >> 20;
    *ret = (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)total};
    return total > 0;
}

static bool allocated_part(const struct entity *e, const struct device_replicas *replicas,
                           struct gpu_value *ret)
{
    struct gpu_value total;
    uint64_t sum = 0, mib = 0;
    if (!total_mib(e, replicas, &total))
        return false;
    for (size_t i = 0; e->holders && i < e->holders->len; i++) {
        if (!allocated_mib(e, &e->holders->items[i], replicas, &mib))
            return false;
        sum += mib;
    }
    double part = (double)sum / (double)total.i;
    *ret = (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = part > 1 ? 1 : part};
    return true;
}

static const struct {
    const char *name, *help;
    bool (*value_of)(const struct entity *, const struct device_replicas *, struct gpu_value *);
    bool needs_map;
} device_families[] = {
    {"DCGM_CUSTOM_ALLOCATE_MODE", "How the GPU is given out: 0 not, 1 as a whole, 2 shared.",
     mode_number, true},
    {"DCGM_CUSTOM_DEV_FB_TOTAL", "GPU memory (in MiB).", total_mib, false},
    {"DCGM_CUSTOM_DEV_FB_ALLOCATED", "Part of the GPU memory that containers were given (0 to 1).",
     allocated_part, true},
};

static void write_device_family(const struct render_ctx *ctx, const struct entities *list,
                                size_t family, const struct device_replicas *replicas,
                                struct gs_buf *out)
{
    const char *name = device_families[family].name;
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        const struct entity *e = &list->items[i];
        struct gpu_value v;
        if (e->device->lost || e->device->hung ||
            !device_families[family].value_of(e, replicas, &v))
            continue;
        if (!header)
            metrics_write_family(out, name, METRICS_GAUGE, device_families[family].help);
        header = true;
        GS_AUTO_BUF struct gs_buf labels = {0};
        render_add_label_if(&labels, "DriverVersion", ctx->gpus->driver_version);
        if (e->instance) {
            render_add_label_u64(&labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
            render_add_label_if(&labels, "GPU_I_PROFILE", e->instance->profile);
        }
        render_add_label_if(&labels, "NodeName", ctx->names->node_name);
        add_identity(e, &labels);
        gs_buf_addf(out, "%s{", name);
        gs_buf_add_slice(out, gs_buf_slice(&labels));
        render_write_value(v, ctx, out);
    }
}

void render_write_custom(const struct render_ctx *ctx, const struct sample *sample,
                         const struct entities *list, bool has_map,
                         const struct device_replicas *replicas, struct gs_buf *out)
{
    struct process_lines processes = {0};
    list_processes(ctx->names, sample, list, &processes);
    for (size_t i = 0; i < GS_ARRAY_LEN(process_families); i++)
        write_process_family(&processes, process_families[i].name, process_families[i].help,
                             process_families[i].value_of, out);
    write_allocated(ctx->names, list, replicas, out);
    for (size_t i = 0; i < GS_ARRAY_LEN(device_families); i++)
        if (has_map || !device_families[i].needs_map)
            write_device_family(ctx, list, i, replicas, out);
    for (size_t i = 0; i < processes.len; i++)
        gs_buf_finish(&processes.items[i].labels);
    free(processes.items);
}
