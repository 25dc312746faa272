// SPDX-License-Identifier: Apache-2.0
#include "exporter/render.h"

#include "base/file.h"
#include "base/mem.h"
#include "metrics/write.h"

#include <inttypes.h>

enum { MAX_JOB_FILE = 64 * 1024, MAX_VARIANTS = 256 };

struct render_ctx {
    const struct render_names *names;
    const struct gpu_snapshot *gpus;
};

// What one line of a device family is about: a GPU, or one of its MIG devices.
struct entity {
    const struct gpu_device *device;
    const struct gpu_instance *instance; // NULL: the GPU itself
    const struct device_holders *holders;
    const struct device_holder *exclusive;
    struct gs_buf labels;     // up to the label fields
    struct gs_buf all_labels; // and whose it is: made once, since twenty lines have the same
    // A line for each of them instead, when there are several owners to name.
    struct variant *variants;
    size_t n_variants;
};

// The same entity for one pod (of several that share it) or one HPC job.
struct variant {
    const struct device_holder *holder; // NULL: nobody
    char vgpu[16], *job;
    bool per_pod; // GPU_UTIL and FB_USED are the pod's own
    bool has_util, has_memory;
    uint64_t util, memory_mib;
    struct gs_buf labels;
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

static void add_model(const struct render_names *names, const char *model, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add(&text, "", 0);
    for (const char *p = model; names->replace_blanks && *p; p++) {
        bool blank = *p == ' ' || *p == '\t';
        if (!blank)
            gs_buf_add_char(&text, *p);
        else if (p[1] != ' ' && p[1] != '\t')
            gs_buf_add_char(&text, '-');
    }
    add_label(out, "modelName", names->replace_blanks ? text.data : model);
}

static void add_label_fields(const struct render_names *names, const struct gpu_snapshot *g,
                             struct entity *e)
{
    const struct counters *c = names->counters;
    for (size_t i = c->n_families; i < c->len; i++) {
        enum gpu_field f = c->rows[i].field;
        const char *text = gpu_field_text(g, e->device, f);
        char number[32];
        const struct gpu_value *v = &e->device->fields[f];
        if (gpu_field_info(f)->kind != GPU_TEXT && v->validity == GPU_VALID) {
            snprintf(number, sizeof(number), v->is_double ? "%f" : "%.0f",
                     v->is_double ? v->d : (double)v->i);
            text = number;
        }
        add_label_if(&e->labels, c->rows[i].name, text);
    }
}

static void add_entity_labels(const struct render_names *names, const struct gpu_snapshot *g,
                              struct entity *e)
{
    const struct gpu_device *d = e->device;
    add_label_u64(&e->labels, "gpu", "", d->index);
    add_label(&e->labels, names->old_namespace ? "uuid" : "UUID", d->uuid);
    add_label(&e->labels, "pci_bus_id", d->pci_bus_id);
    add_label_u64(&e->labels, "device", "nvidia", d->index);
    add_model(names, d->name, &e->labels);
    if (e->instance) {
        add_label(&e->labels, "GPU_I_PROFILE", e->instance->profile);
        add_label_u64(&e->labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
    }
    if (names->hostname_label)
        add_label_if(&e->labels, names->hostname_label, names->hostname);
    add_label_fields(names, g, e);
}

// What is behind the device's labels: the pod's labels, then the rest sorted by name.
struct attributes {
    const struct device_holder *holder;
    const char *xid_code, *xid_text, *vgpu, *job;
};

static void add_attributes(const struct render_names *names, const struct attributes *a,
                           struct gs_buf *out)
{
    const struct device_holder *h = a->holder;
    bool old = names->old_namespace;
    struct render_pod pod = {0};
    bool known = h && names->pod && names->pod(names->pod_arg, h->namespace_name, h->pod, &pod);
    if (known && pod.labels)
        gs_buf_add_str(out, pod.labels);
    if (h)
        add_label(out, old ? "container_name" : "container", h->container);
    if (a->xid_code) {
        add_label(out, "err_code", a->xid_code);
        add_label(out, "err_msg", a->xid_text);
    }
    add_label_if(out, "hpc_job", a->job);
    if (h && old) {
        add_label(out, "pod_name", h->pod);
        add_label(out, "pod_namespace", h->namespace_name);
    } else if (h) {
        add_label(out, "namespace", h->namespace_name);
        add_label(out, "pod", h->pod);
    }
    if (known)
        add_label_if(out, "pod_uid", pod.uid);
    add_label_if(out, "vgpu", a->vgpu);
}

// --- several owners ---

static struct variant *add_variant(struct entity *e, const struct device_holder *h)
{
    e->variants = gs_realloc_array(e->variants, e->n_variants + 1, sizeof(*e->variants));
    struct variant *v = &e->variants[e->n_variants++];
    *v = (struct variant){.holder = h};
    return v;
}

static void make_virtual(const struct render_names *names, struct entity *e)
{
    if (!names->virtual_gpus || !e->holders || !e->holders->len)
        return;
    for (size_t i = 0; i < e->holders->len; i++) {
        const struct device_holder *h = &e->holders->items[i];
        struct variant *v = add_variant(e, h);
        v->per_pod = h->shared || e->holders->len > 1;
        snprintf(v->vgpu, sizeof(v->vgpu), "%s", h->replica);
    }
}

// Each line of the file is a job; the pods that there are stay on each line.
static void make_jobs(const struct render_names *names, struct entity *e)
{
    if (!names->hpc_dir)
        return;
    GS_AUTO_FREE char *path = e->instance ? gs_format("%s/%u.%u", names->hpc_dir, e->device->index,
                                                      e->instance->gpu_instance_id)
                                          : gs_format("%s/%u", names->hpc_dir, e->device->index);
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_JOB_FILE, &text);
    if (err)
        return;
    struct gs_slice rest = gs_buf_slice(&text);
    while (rest.data && e->n_variants < MAX_VARIANTS) {
        struct gs_slice job = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        if (job.len)
            add_variant(e, e->exclusive)->job = gs_slice_dup(job);
    }
}

static void finish_variants(const struct render_names *names, struct entity *e)
{
    for (size_t i = 0; i < e->n_variants; i++) {
        struct variant *v = &e->variants[i];
        struct attributes a = {.holder = v->holder, .vgpu = v->vgpu, .job = v->job};
        gs_buf_add_slice(&v->labels, gs_buf_slice(&e->labels));
        add_attributes(names, &a, &v->labels);
    }
}

// --- which devices ---

// "g:0,2-4" has `n`; without a list all.
static bool listed(const char *devices, unsigned n)
{
    const char *p = strchr(devices, ':');
    if (!p)
        return true;
    while (*p) {
        char *end;
        unsigned long first = strtoul(p + 1, &end, 10), last = first;
        if (end == p + 1)
            return false;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (n >= first && n <= last)
            return true;
        p = strchr(end, ',');
        if (!p)
            return false;
    }
    return false;
}

bool render_devices_valid(const char *devices)
{
    if (gs_streq(devices, "f") || gs_streq(devices, "g") || gs_streq(devices, "i") ||
        gs_streq(devices, "g+i"))
        return true;
    if ((devices[0] != 'g' && devices[0] != 'i') || devices[1] != ':')
        return false;
    const char *p = devices + 2;
    for (;;) {
        size_t n = strspn(p, "0123456789");
        if (n == 0 || n > 4)
            return false;
        p += n;
        if (*p == '-') {
            n = strspn(p + 1, "0123456789");
            if (n == 0 || n > 4)
                return false;
            p += 1 + n;
        }
        if (!*p)
            return true;
        if (*p++ != ',')
            return false;
    }
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
    add_entity_labels(names, g, e);
    gs_buf_add_slice(&e->all_labels, gs_buf_slice(&e->labels));
    struct attributes a = {.holder = e->exclusive};
    add_attributes(names, &a, &e->all_labels);
    make_virtual(names, e);
    make_jobs(names, e);
    finish_variants(names, e);
}

// As dcgm-exporter: by default the MIG devices of a GPU, or the GPU when it has none.
static void list_entities(const struct render_names *names, const struct gpu_snapshot *g,
                          const struct device_map *map, struct entities *list)
{
    const char *devices = names->devices ? names->devices : "f";
    bool both = gs_streq(devices, "g+i");
    for (size_t i = 0; i < g->n_devices; i++) {
        const struct gpu_device *d = &g->devices[i];
        bool gpu = devices[0] == 'f' ? !d->n_instances : devices[0] == 'g';
        bool instances = devices[0] != 'g' || both;
        for (size_t k = 0; instances && k < d->n_instances; k++)
            if (devices[0] != 'i' || listed(devices, d->instances[k].gpu_instance_id))
                add_entity(names, g, map, d, &d->instances[k], list);
        if (gpu && d->uuid[0] && listed(devices, d->index))
            add_entity(names, g, map, d, NULL, list);
    }
}

static void entities_finish(struct entities *list)
{
    for (size_t i = 0; i < list->len; i++) {
        gs_buf_finish(&list->items[i].labels);
        gs_buf_finish(&list->items[i].all_labels);
        for (size_t k = 0; k < list->items[i].n_variants; k++) {
            gs_buf_finish(&list->items[i].variants[k].labels);
            free(list->items[i].variants[k].job);
        }
        free(list->items[i].variants);
    }
    free(list->items);
}

// --- families of DCGM ---

static struct gpu_value field_of(const struct entity *e, enum gpu_field f)
{
    const struct gpu_instance *i = e->device->lost || e->device->hung ? NULL : e->instance;
    if (i && f >= GPU_F_PROF_FIRST)
        return i->prof[f - GPU_F_PROF_FIRST];
    if (i && f == GPU_F_FB_TOTAL)
        return i->fb_total;
    if (i && f == GPU_F_FB_FREE)
        return i->fb_free;
    if (i && f == GPU_F_FB_USED)
        return i->fb_used;
    if (i && f == GPU_F_FB_RESERVED)
        return i->fb_reserved;
    if (i && f == GPU_F_FB_USED_PERCENT)
        return i->fb_used_ratio;
    return e->device->fields[f];
}

static void write_value(struct gpu_value v, const struct render_ctx *ctx, struct gs_buf *out)
{
    gs_buf_add(out, "} ", 2);
    if (v.is_double)
        gs_buf_addf(out, "%f", v.d);
    else if (v.i < 0)
        gs_buf_addf(out, "%" PRId64, v.i);
    else
        gs_buf_add_u64(out, (uint64_t)v.i);
    if (ctx->names->timestamps) {
        gs_buf_add_char(out, ' ');
        gs_buf_add_u64(out, (uint64_t)ctx->gpus->unix_ms);
    }
    gs_buf_add_char(out, '\n');
}

static void write_line_of(const struct render_ctx *ctx, const struct counter *c,
                          const struct gs_buf *labels, struct gpu_value v, struct gs_buf *out)
{
    gs_buf_add_str(out, c->name);
    gs_buf_add_char(out, '{');
    gs_buf_add_slice(out, gs_buf_slice(labels));
    write_value(v, ctx, out);
}

static void write_xid(const struct render_ctx *ctx, const struct counter *c, const struct entity *e,
                      const struct variant *variant, struct gpu_value v, struct gs_buf *out)
{
    char code[24];
    snprintf(code, sizeof(code), "%" PRId64, v.i);
    struct attributes a = {.holder = variant ? variant->holder : e->exclusive,
                           .xid_code = code,
                           .xid_text = render_xid_text(v.i),
                           .vgpu = variant ? variant->vgpu : NULL,
                           .job = variant ? variant->job : NULL};
    GS_AUTO_BUF struct gs_buf labels = {0};
    gs_buf_add_slice(&labels, gs_buf_slice(&e->labels));
    add_attributes(ctx->names, &a, &labels);
    write_line_of(ctx, c, &labels, v, out);
}

static void write_plain(const struct render_ctx *ctx, const struct counter *c,
                        const struct entity *e, const struct variant *variant, struct gpu_value v,
                        struct gs_buf *out)
{
    if (c->field == GPU_F_XID_ERRORS)
        write_xid(ctx, c, e, variant, v, out);
    else
        write_line_of(ctx, c, variant ? &variant->labels : &e->all_labels, v, out);
}

// With --kubernetes-virtual-gpus utilisation and memory are the device's first, then each pod's.
static void write_shared(const struct render_ctx *ctx, const struct counter *c,
                         const struct entity *e, struct gpu_value v, struct gs_buf *out)
{
    bool util = c->field == GPU_F_GPU_UTIL, memory = c->field == GPU_F_FB_USED;
    bool whole_written = false;
    for (size_t i = 0; i < e->n_variants; i++) {
        const struct variant *p = &e->variants[i];
        if (!p->per_pod || (!util && !memory)) {
            if (v.validity == GPU_VALID)
                write_plain(ctx, c, e, p, v, out);
            continue;
        }
        if (!whole_written && v.validity == GPU_VALID)
            write_line_of(ctx, c, &e->labels, v, out);
        whole_written = true;
        struct gpu_value own = {.validity = GPU_VALID,
                                .i = (int64_t)(util ? p->util : p->memory_mib)};
        if (util ? p->has_util : p->has_memory)
            write_line_of(ctx, c, &p->labels, own, out);
    }
}

static void write_header(const struct counter *c, struct gs_buf *out)
{
    // Help and type as the file has them; the type may be one that is not ours.
    metrics_write_family(out, c->name, METRICS_GAUGE, c->help);
    out->len -= strlen("gauge\n");
    gs_buf_add_str(out, c->type);
    gs_buf_add_char(out, '\n');
}

static void write_family(const struct render_ctx *ctx, const struct entities *list,
                         const struct counter *c, struct gs_buf *out)
{
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        const struct entity *e = &list->items[i];
        struct gpu_value v = field_of(e, c->field);
        if (v.validity != GPU_VALID)
            continue;
        if (!header)
            write_header(c, out);
        header = true;
        if (e->n_variants)
            write_shared(ctx, c, e, v, out);
        else
            write_plain(ctx, c, e, NULL, v, out);
    }
}

// --- families that dcgm-exporter computes ---

static void write_window(const struct render_ctx *ctx, const struct counter *c,
                         const struct entity *e, const char *const (*labels)[2], size_t n,
                         uint64_t value, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf all = {0};
    gs_buf_add_slice(&all, gs_buf_slice(&e->labels));
    for (size_t i = 0; i < n; i++)
        add_label_if(&all, labels[i][0], labels[i][1]);
    struct attributes a = {.holder = e->exclusive};
    add_attributes(ctx->names, &a, &all);
    write_line_of(ctx, c, &all, (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)value},
                  out);
}

static void write_xid_counts(const struct render_ctx *ctx, const struct entity *e,
                             const struct counter *c, struct gs_buf *out)
{
    char window[24], xid[16];
    snprintf(window, sizeof(window), "%" PRIu64, ctx->names->xid_window_ms);
    for (size_t i = 0; i < e->device->n_xids; i++) {
        snprintf(xid, sizeof(xid), "%u", e->device->xids[i].xid);
        const char *const labels[][2] = {{"window_size_in_ms", window}, {"xid", xid}};
        write_window(ctx, c, e, labels, 2, e->device->xids[i].count, out);
    }
    const char *const none[][2] = {{"window_size_in_ms", window}};
    if (!e->device->n_xids)
        write_window(ctx, c, e, none, 1, 0, out);
}

static void write_clock_counts(const struct render_ctx *ctx, const struct entity *e,
                               const struct counter *c, struct gs_buf *out)
{
    static const char *const events[GPU_CLOCK_EVENTS] = {
        "gpu_idle",   "clocks_setting", "power_cap",      "hw_slowdown",    "sync_boost",
        "sw_thermal", "hw_thermal",     "hw_power_brake", "display_clocks",
    };
    char window[24];
    snprintf(window, sizeof(window), "%" PRIu64, ctx->names->clock_window_ms);
    for (size_t i = 0; i < GPU_CLOCK_EVENTS; i++) {
        const char *const labels[][2] = {{"clock_event", events[i]}, {"window_size_in_ms", window}};
        write_window(ctx, c, e, labels, 2, e->device->clock_events[i], out);
    }
}

static void write_computed(const struct render_ctx *ctx, const struct entities *list,
                           const struct counter *c, struct gs_buf *out)
{
    bool header = false;
    for (size_t i = 0; i < list->len; i++) {
        const struct entity *e = &list->items[i];
        if (e->device->fields[c->field].validity != GPU_VALID)
            continue;
        if (!header)
            write_header(c, out);
        header = true;
        if (c->kind == COUNTER_EXP_XIDS)
            write_xid_counts(ctx, e, c, out);
        else
            write_clock_counts(ctx, e, c, out);
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
        add_label_if(&labels, "DriverVersion", ctx->gpus->driver_version);
        if (e->instance) {
            add_label_u64(&labels, "GPU_I_ID", "", e->instance->gpu_instance_id);
            add_label_if(&labels, "GPU_I_PROFILE", e->instance->profile);
        }
        add_label_if(&labels, "NodeName", ctx->names->node_name);
        add_identity(e, &labels);
        gs_buf_addf(out, "%s{", name);
        gs_buf_add_slice(out, gs_buf_slice(&labels));
        write_value(v, ctx, out);
    }
}

// A pod's processes on a shared device, summed up; never above the device's own value.
static void sum_pods(const struct sample *sample, struct entities *list)
{
    for (size_t i = 0; i < list->len; i++) {
        struct entity *e = &list->items[i];
        const struct gpu_device *d = e->device;
        size_t at = (size_t)(d - sample->gpus->devices);
        for (size_t k = 0; k < d->n_processes && e->n_variants; k++) {
            const struct gpu_process *p = &d->processes[k];
            const struct owner *o = &sample->owners[at][k];
            if ((e->instance && p->gpu_instance != e->instance->gpu_instance_id) ||
                o->kind != OWNER_POD || !o->pod[0])
                continue;
            for (size_t n = 0; n < e->n_variants; n++) {
                struct variant *v = &e->variants[n];
                if (!v->holder || !gs_streq(v->holder->pod, o->pod) ||
                    !gs_streq(v->holder->namespace_name, o->namespace_name) ||
                    (o->container[0] && !gs_streq(v->holder->container, o->container)))
                    continue;
                v->util += p->sm_util;
                v->has_util |= p->has_util;
                v->memory_mib += p->memory_bytes >> 20;
                v->has_memory |= p->has_memory;
                break;
            }
        }
        for (size_t n = 0; n < e->n_variants; n++)
            if (e->variants[n].util > 100)
                e->variants[n].util = 100;
    }
}

void render_gpus(const struct render_names *given, const struct sample *sample,
                 const struct device_map *map, const struct device_replicas *replicas,
                 struct gs_buf *out)
{
    GS_CLEANUP(counters_finish) struct counters defaults = {0};
    struct render_names names = *given;
    if (!names.counters) {
        counters_default(&defaults);
        names.counters = &defaults;
    }
    const struct render_ctx ctx = {&names, sample->gpus};
    struct entities entities = {0};
    list_entities(&names, sample->gpus, map, &entities);
    sum_pods(sample, &entities);
    for (size_t i = 0; i < names.counters->n_families; i++) {
        const struct counter *c = &names.counters->rows[i];
        if (c->kind == COUNTER_FIELD)
            write_family(&ctx, &entities, c, out);
        else
            write_computed(&ctx, &entities, c, out);
    }
    struct process_lines processes = {0};
    list_processes(&names, sample, &entities, &processes);
    for (size_t i = 0; i < GS_ARRAY_LEN(process_families); i++)
        write_process_family(&processes, process_families[i].name, process_families[i].help,
                             process_families[i].value_of, out);
    write_allocated(&names, &entities, replicas, out);
    for (size_t i = 0; i < GS_ARRAY_LEN(device_families); i++)
        if (map || !device_families[i].needs_map)
            write_device_family(&ctx, &entities, i, replicas, out);
    for (size_t i = 0; i < processes.len; i++)
        gs_buf_finish(&processes.items[i].labels);
    free(processes.items);
    entities_finish(&entities);
}
