// SPDX-License-Identifier: Apache-2.0
// The DCGM_CUSTOM_* families of ACK's exporter.
#include "exporter/exporter_private.h"

#include "base/mem.h"

#include <xxhash.h>

// Indices of renderer.custom_headers; the families of processes come first.
enum { ALLOCATED_HEADER = 10, COMPUTE_HEADER = 11, DEVICE_HEADERS = 12 };

// --- families per process and per container ---

static const struct exporter_entity *entity_of(const struct exporter_entities *list,
                                               const struct gpu_device *d,
                                               const struct gpu_process *p)
{
    for (size_t i = 0; i < list->len; i++) {
        const struct exporter_entity *e = &list->items[i];
        if (e->device != d)
            continue;
        if (exporter_render_is_on(p, e->instance))
            return e;
    }
    return NULL;
}

static void add_identity(const struct exporter_entity *e, struct gs_buf *b)
{
    exporter_render_add_label(b, "UUID", e->device->uuid);
    exporter_render_add_label_u64(b, "device", "nvidia", e->device->index);
    exporter_render_add_label_u64(b, "gpu", "", e->device->index);
    exporter_render_add_label(b, "modelName", e->device->name);
}

static void add_container_label(const struct exporter_render_names *names,
                                const struct exporter_entity *e, const char *mode, const char *ns,
                                const char *pod, const char *container, struct gs_buf *b)
{
    exporter_render_add_label(b, "AllocateMode", mode);
    exporter_render_add_label_if(b, "ContainerName", container);
    if (e->instance) {
        exporter_render_add_compute_instance(b, e->instance);
        exporter_render_add_label_u64(b, "GPU_I_ID", "", e->instance->gpu_instance_id);
        exporter_render_add_label_if(b, "GPU_I_PROFILE", e->instance->profile);
    }
    exporter_render_add_label_if(b, "NamespaceName", ns);
    exporter_render_add_label_if(b, "NodeName", names->node_name);
    exporter_render_add_label_if(b, "PodName", pod);
}

static const char *process_type(const struct gpu_process *p)
{
    if (p->compute && p->graphics)
        return "C+G";
    return p->graphics ? "G" : p->compute ? "C" : "";
}

static const char *mode_of(const struct exporter_entity *e, const struct exporter_device_holder *h)
{
    return !h ? "none" : h == e->exclusive ? "exclusive" : "share";
}

// The owner of a process, and how it was determined.
struct whose {
    const struct exporter_device_holder *holder; // NULL: its container does not hold the device
    const char *ns, *pod, *container;            // "" if unknown
    enum exporter_attribution_kind kind;
    bool foreign;
};

// False: the owner is unknown and the process has ended.
static bool find_whose(const struct exporter_renderer *r, const struct exporter_entity *e,
                       const struct exporter_owner *o, struct whose *ret)
{
    *ret = (struct whose){
        .ns = "", .pod = "", .container = "", .kind = EXPORTER_ATTRIBUTION_PROCESSES};
    if (o->kind == EXPORTER_OWNER_POD && o->pod[0]) {
        ret->ns = o->namespace_name;
        ret->pod = o->pod;
        ret->container = o->container;
        ret->holder = exporter_render_find_holder(e->holders, o);
        ret->foreign = !ret->holder && r->in.map && r->in.map_requested_ns > o->seen_ns &&
                       exporter_device_map_is_complete(r->in.map, o->namespace_name, o->pod);
    } else if (o->kind != EXPORTER_OWNER_HOST) {
        // If the pod name is unknown or the PID is invisible, the exclusive holder of the GPU is
        // assumed.
        ret->holder = e->exclusive;
        ret->kind = EXPORTER_ATTRIBUTION_ESTIMATE;
    }
    if (ret->holder) {
        ret->ns = ret->holder->namespace_name;
        ret->pod = ret->holder->pod;
        if (ret->holder->container[0])
            ret->container = ret->holder->container;
    }
    return o->kind != EXPORTER_OWNER_GONE || ret->holder;
}

static void add_process(const struct exporter_renderer *r, const struct exporter_entity *e,
                        const struct gpu_process *p, const struct exporter_owner *o,
                        struct exporter_process_line *l)
{
    struct whose w;
    gs_buf_clear(&l->labels);
    gs_buf_clear(&l->pod_labels);
    l->entity = e;
    l->shown = e && find_whose(r, e, o, &w);
    if (!l->shown)
        return;
    l->foreign = w.foreign;
    l->of_exclusive = w.holder && w.holder == e->exclusive;
    l->kind = w.kind;
    add_container_label(r->names, e, mode_of(e, w.holder), w.ns, w.pod, w.container, &l->labels);
    exporter_render_add_label_u64(&l->labels, "ProcessId", "", p->pid);
    exporter_render_add_label_if(&l->labels, "ProcessName", o->process_name);
    exporter_render_add_label_if(&l->labels, "ProcessType", process_type(p));
    add_identity(e, &l->labels);
    if (w.pod[0])
        exporter_render_pod_labels(e, w.ns, w.pod, w.container, &l->pod_labels);
}

// Everything that the labels of a process depend on, except its device (that is the entity's).
static uint64_t hash_of(const struct exporter_renderer *r, const struct gpu_process *p,
                        const struct exporter_owner *o, size_t device)
{
    bool known = r->in.map_requested_ns > o->seen_ns; // the map contains it if its pod holds a GPU
    const struct {
        uint64_t device;
        uint32_t pid, gpu_instance, compute_instance, compute, graphics, known;
    } own = {device, p->pid, p->gpu_instance, p->compute_instance, p->compute, p->graphics, known};
    uint64_t hash = XXH3_64bits_withSeed(o, sizeof(*o), XXH3_64bits(&own, sizeof(own)));
    return hash ? hash : 1;
}

static struct exporter_process_line *next_line(struct exporter_process_lines *list)
{
    if (list->used == list->len) {
        gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
        list->items[list->len++] = (struct exporter_process_line){0};
    }
    return &list->items[list->used++];
}

static void list_processes(struct exporter_renderer *r)
{
    const struct exporter_sample *sample = r->in.sample;
    r->processes.used = 0;
    for (size_t i = 0; i < sample->gpus->n_devices; i++) {
        const struct gpu_device *d = &sample->gpus->devices[i];
        for (size_t k = 0; k < d->n_processes; k++) {
            const struct exporter_owner *o = &sample->owners[i][k];
            struct exporter_process_line *line = next_line(&r->processes);
            line->process = &d->processes[k];
            uint64_t hash = hash_of(r, line->process, o, i);
            if (line->hash == hash)
                continue;
            line->hash = hash;
            const struct exporter_entity *e = entity_of(&r->entities, d, line->process);
            add_process(r, e, line->process, o, line);
        }
    }
}

static struct gpu_value integer(uint64_t v)
{
    return (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)v};
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
    // Containers that can use GPUs which they do not hold, for example with
    // NVIDIA_VISIBLE_DEVICES=all.
    {"DCGM_CUSTOM_ILLEGAL_PROCESS_SM_UTIL",
     "SM utilization of a process whose container was not given the GPU (in %).", sm_util_of},
    {"DCGM_CUSTOM_ILLEGAL_PROCESS_MEM_COPY_UTIL",
     "Memory copy utilization of a process whose container was not given the GPU (in %).",
     mem_util_of},
    {"DCGM_CUSTOM_ILLEGAL_PROCESS_ENCODE_UTIL",
     "Encoder utilization of a process whose container was not given the GPU (in %).", enc_util_of},
    {"DCGM_CUSTOM_ILLEGAL_PROCESS_DECODE_UTIL",
     "Decoder utilization of a process whose container was not given the GPU (in %).", dec_util_of},
    {"DCGM_CUSTOM_ILLEGAL_PROCESS_MEM_USED",
     "GPU memory used by a process whose container was not given the GPU (in MiB).", memory_of},
};
enum { FIRST_ILLEGAL = 5 };

// The headers of these families are consecutive.
static void write_header(struct exporter_renderer *r, size_t at, const char *name, const char *help,
                         struct gs_buf *out)
{
    exporter_render_write_header(&r->custom_headers[at], name, "gauge", help, out);
}

static void write_process_family(struct exporter_renderer *r, size_t family, struct gs_buf *out)
{
    bool header = false;
    const char *name = process_families[family].name;
    for (size_t i = 0; i < r->processes.used; i++) {
        const struct exporter_process_line *line = &r->processes.items[i];
        uint64_t value = 0;
        if (!line->shown || (family >= FIRST_ILLEGAL && !line->foreign) ||
            !process_families[family].value_of(line->process, &value))
            continue;
        if (!header)
            write_header(r, family, name, process_families[family].help, out);
        header = true;
        exporter_render_write_line(r, name, &line->labels, integer(value), out);
    }
}

// The annotation's grant. Otherwise each replica or unit represents an equal part of the memory, if
// their number is known.
static bool allocated_mib(const struct exporter_entity *e, const struct exporter_device_holder *h,
                          const struct exporter_device_replicas *replicas, uint64_t *ret)
{
    uint64_t total = (e->instance ? e->instance->memory_total : e->device->memory_total) >> 20;
    if (h->memory_mib && total) {
        *ret = h->memory_mib < total ? h->memory_mib : total;
        return true;
    }
    if (h->shared) {
        unsigned n = h->device_units
                         ? h->device_units
                         : exporter_device_replicas_find(replicas, e->device, e->instance);
        if (!n || h->replicas > n)
            return false;
        total = total * h->replicas / n;
    }
    *ret = total;
    return total > 0;
}

static const struct gs_buf *held_labels(const struct exporter_renderer *r,
                                        struct exporter_entity *e, size_t k)
{
    if (!e->held) {
        e->n_held = e->holders->len;
        e->held = gs_alloc_array(e->n_held, sizeof(*e->held));
    }
    const struct exporter_device_holder *h = &e->holders->items[k];
    struct gs_buf *b = &e->held[k];
    if (!b->len) {
        add_container_label(r->names, e, mode_of(e, h), h->namespace_name, h->pod, h->container, b);
        add_identity(e, b);
    }
    return b;
}

static void write_allocated(struct exporter_renderer *r, struct gs_buf *out)
{
    static const char name[] = "DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED";
    bool header = false;
    for (size_t i = 0; i < r->entities.len; i++) {
        struct exporter_entity *e = &r->entities.items[i];
        for (size_t k = 0; e->holders && k < e->holders->len; k++) {
            uint64_t value = 0;
            if (!allocated_mib(e, &e->holders->items[k], r->in.replicas, &value))
                continue;
            if (!header)
                write_header(r, ALLOCATED_HEADER, name,
                             "GPU memory allocated to the container (in MiB).", out);
            header = true;
            exporter_render_write_line(r, name, held_labels(r, e, k), integer(value), out);
        }
    }
}

// A GPU that is shared without a compute limit has no line.
static void write_compute(struct exporter_renderer *r, struct gs_buf *out)
{
    static const char name[] = "DCGM_CUSTOM_CONTAINER_CP_ALLOCATED";
    bool header = false;
    for (size_t i = 0; i < r->entities.len; i++) {
        struct exporter_entity *e = &r->entities.items[i];
        for (size_t k = 0; e->holders && k < e->holders->len; k++) {
            const struct exporter_device_holder *h = &e->holders->items[k];
            double part = h == e->exclusive ? 1 : h->cores / 100.0;
            if (part <= 0 || part > 1)
                continue;
            if (!header)
                write_header(r, COMPUTE_HEADER, name,
                             "Part of the GPU's compute that the container was given (0 to 1).",
                             out);
            header = true;
            exporter_render_write_line(
                r, name, held_labels(r, e, k),
                (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = part}, out);
        }
    }
}

// --- families per device of ACK's exporter ---

// 0: not allocated, 1: allocated to one container, 2: shared.
static bool mode_number(const struct exporter_entity *e,
                        const struct exporter_device_replicas *replicas, struct gpu_value *ret)
{
    (void)replicas;
    *ret = (struct gpu_value){.validity = GPU_VALID,
                              .i = !e->holders || !e->holders->len ? 0
                                   : e->exclusive                  ? 1
                                                                   : 2};
    return true;
}

static bool total_mib(const struct exporter_entity *e,
                      const struct exporter_device_replicas *replicas, struct gpu_value *ret)
{
    (void)replicas;
    uint64_t total = (e->instance ? e->instance->memory_total : e->device->memory_total) >> 20;
    *ret = (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)total};
    return total > 0;
}

static bool allocated_part(const struct exporter_entity *e,
                           const struct exporter_device_replicas *replicas, struct gpu_value *ret)
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
    bool (*value_of)(const struct exporter_entity *, const struct exporter_device_replicas *,
                     struct gpu_value *);
    bool needs_map;
} device_families[] = {
    {"DCGM_CUSTOM_ALLOCATE_MODE", "How the GPU is given out: 0 not, 1 as a whole, 2 shared.",
     mode_number, true},
    {"DCGM_CUSTOM_DEV_FB_TOTAL", "GPU memory (in MiB).", total_mib, false},
    {"DCGM_CUSTOM_DEV_FB_ALLOCATED", "Part of the GPU memory that containers were given (0 to 1).",
     allocated_part, true},
};

static const struct gs_buf *device_labels(const struct exporter_renderer *r,
                                          struct exporter_entity *e)
{
    struct gs_buf *b = &e->custom;
    if (b->len)
        return b;
    exporter_render_add_label_if(b, "DriverVersion", r->in.sample->gpus->driver_version);
    if (e->instance) {
        exporter_render_add_compute_instance(b, e->instance);
        exporter_render_add_label_u64(b, "GPU_I_ID", "", e->instance->gpu_instance_id);
        exporter_render_add_label_if(b, "GPU_I_PROFILE", e->instance->profile);
    }
    exporter_render_add_label_if(b, "NodeName", r->names->node_name);
    add_identity(e, b);
    return b;
}

static void write_device_family(struct exporter_renderer *r, size_t family, struct gs_buf *out)
{
    const char *name = device_families[family].name;
    bool header = false;
    for (size_t i = 0; i < r->entities.len; i++) {
        struct exporter_entity *e = &r->entities.items[i];
        struct gpu_value v;
        if (e->device->lost || e->device->hung ||
            !device_families[family].value_of(e, r->in.replicas, &v))
            continue;
        if (!header)
            write_header(r, DEVICE_HEADERS + family, name, device_families[family].help, out);
        header = true;
        exporter_render_write_line(r, name, device_labels(r, e), v, out);
    }
}

_Static_assert(GS_ARRAY_LEN(process_families) <= ALLOCATED_HEADER, "headers of families");
_Static_assert(DEVICE_HEADERS + GS_ARRAY_LEN(device_families) <= EXPORTER_RENDER_CUSTOM_FAMILIES,
               "headers of families");

void exporter_render_write_custom(struct exporter_renderer *r, struct gs_buf *out)
{
    list_processes(r);
    for (size_t i = 0; i < GS_ARRAY_LEN(process_families); i++)
        write_process_family(r, i, out);
    write_allocated(r, out);
    write_compute(r, out);
    for (size_t i = 0; i < GS_ARRAY_LEN(device_families); i++)
        if (r->in.map || !device_families[i].needs_map)
            write_device_family(r, i, out);
    exporter_render_write_attributions(r, out);
}

void exporter_render_custom_finish(struct exporter_renderer *r)
{
    for (size_t i = 0; i < r->processes.len; i++) {
        gs_buf_finish(&r->processes.items[i].labels);
        gs_buf_finish(&r->processes.items[i].pod_labels);
    }
    free(r->processes.items);
    gs_buf_finish(&r->attributions);
    for (size_t i = 0; i < EXPORTER_RENDER_CUSTOM_FAMILIES; i++)
        gs_buf_finish(&r->custom_headers[i]);
}
