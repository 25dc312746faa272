// SPDX-License-Identifier: Apache-2.0
// The objects of lines: GPUs and MIG devices that --devices selects, and their owners.
#include "exporter/exporter_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "exporter/sampler.h"

#include <sys/stat.h>

enum { MAX_JOB_FILE = 64 * 1024, MAX_VARIANTS = 256 };

// --- several owners ---

static struct exporter_variant *add_variant(struct exporter_entity *e,
                                            const struct exporter_device_holder *h)
{
    e->variants = gs_realloc_array(e->variants, e->n_variants + 1, sizeof(*e->variants));
    struct exporter_variant *v = &e->variants[e->n_variants++];
    *v = (struct exporter_variant){.holder = h};
    return v;
}

static void make_virtual(const struct exporter_render_names *names, struct exporter_entity *e)
{
    if (!names->virtual_gpus || !e->holders || !e->holders->len)
        return;
    for (size_t i = 0; i < e->holders->len; i++) {
        const struct exporter_device_holder *h = &e->holders->items[i];
        struct exporter_variant *v = add_variant(e, h);
        v->per_pod = h->shared || e->holders->len > 1;
        snprintf(v->vgpu, sizeof(v->vgpu), "%s", h->replica);
    }
}

// Each line of the file is a job. Labels of the pods are kept on each line.
static void make_jobs(const struct exporter_render_names *names, struct exporter_entity *e)
{
    if (!names->hpc_dir)
        return;
    GS_AUTO_FREE char *path = e->instance ? gs_format("%s/%u.%u", names->hpc_dir, e->device->index,
                                                      e->instance->gpu_instance_id)
                                          : gs_format("%s/%u", names->hpc_dir, e->device->index);
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) // opening a FIFO would block
        return;
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_JOB_FILE, &text);
    if (err)
        return;
    struct gs_slice rest = gs_buf_slice(&text);
    while (rest.data && e->n_variants < MAX_VARIANTS) {
        struct gs_slice job = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        if (job.len)
            add_variant(e, e->lone)->job = gs_slice_dup(job);
    }
}

static void finish_variants(const struct exporter_render_names *names, struct exporter_entity *e)
{
    for (size_t i = 0; i < e->n_variants; i++) {
        struct exporter_variant *v = &e->variants[i];
        struct exporter_attributes a = {.holder = v->holder, .vgpu = v->vgpu, .job = v->job};
        gs_buf_add_slice(&v->labels, gs_buf_slice(&e->labels));
        exporter_render_add_attributes(names, &a, &v->labels);
    }
}

// --- selection of devices ---

bool exporter_render_devices_valid(const char *devices)
{
    bool several = strchr(devices, '+') != NULL;
    return exporter_selection_valid(devices) && (!several || gs_streq(devices, "g+i"));
}

static void add_entity(const struct exporter_renderer *r, size_t device_at, size_t instance_at,
                       struct exporter_entities *list)
{
    const struct exporter_render_names *names = r->names;
    const struct gpu_device *d = &r->in.sample->gpus->devices[device_at];
    gs_grow(&list->items, &list->cap, list->len, sizeof(*list->items));
    struct exporter_entity *e = &list->items[list->len++];
    *e = (struct exporter_entity){.device_at = device_at, .instance_at = instance_at, .device = d};
    e->instance = instance_at == EXPORTER_NO_INSTANCE_AT ? NULL : &d->instances[instance_at];
    e->holders = exporter_device_map_find(r->in.map, d, e->instance);
    // Values of a GPU that several pods share are not attributed to a pod: the label would be
    // arbitrary and change with each reply of the kubelet. The per-process families attribute them.
    e->exclusive = exporter_device_holders_exclusive(e->holders);
    e->lone = exporter_render_sole_holder(r->in.sample, device_at, e->instance, e->holders);
    exporter_render_add_entity_labels(r, e);
    gs_buf_add_slice(&e->all_labels, gs_buf_slice(&e->labels));
    struct exporter_attributes a = {.holder = e->lone};
    exporter_render_add_attributes(names, &a, &e->all_labels);
    make_virtual(names, e);
    make_jobs(names, e);
    finish_variants(names, e);
}

// As in dcgm-exporter, the default is the MIG devices of a GPU, or the GPU if it has none.
static bool means_gpu(const char *devices, const struct gpu_device *d)
{
    bool gpu = devices[0] == 'f' ? !d->n_instances : devices[0] == 'g';
    return gpu && d->uuid[0] && exporter_selection_has(devices, 'g', d->index);
}

static bool means_instance(const char *devices, const struct gpu_instance *i)
{
    return exporter_selection_has(devices, 'i', i->gpu_instance_id);
}

bool exporter_render_selects(const char *devices, const struct gpu_device *d,
                             const struct gpu_instance *instance)
{
    devices = devices ? devices : "f";
    return instance ? means_instance(devices, instance) : means_gpu(devices, d);
}

static bool has_instance(const struct gpu_device *d, unsigned id)
{
    for (size_t i = 0; i < d->n_instances; i++)
        if (d->instances[i].gpu_instance_id == id)
            return true;
    return false;
}

static bool is_there(const struct gpu_snapshot *g, bool instances, unsigned n)
{
    for (size_t i = 0; i < g->n_devices; i++)
        if (instances ? has_instance(&g->devices[i], n) : g->devices[i].index == n)
            return true;
    return false;
}

bool exporter_render_devices_missing(const char *devices, const struct gpu_snapshot *g,
                                     unsigned *ret)
{
    const char *at = NULL;
    unsigned first = 0, last = 0;
    while (exporter_selection_next(devices, &at, &first, &last)) {
        for (unsigned n = first; n <= last; n++) {
            if (!is_there(g, devices[0] == 'i', n)) {
                *ret = n;
                return true;
            }
        }
    }
    return false;
}

bool exporter_render_devices_match(const char *devices, const struct gpu_snapshot *g)
{
    bool any = false;
    for (size_t i = 0; i < g->n_devices && !any; i++) {
        const struct gpu_device *d = &g->devices[i];
        any = means_gpu(devices, d);
        for (size_t k = 0; k < d->n_instances && !any; k++)
            any = means_instance(devices, &d->instances[k]);
    }
    return any;
}

void exporter_render_list_entities(const struct exporter_renderer *r,
                                   struct exporter_entities *list)
{
    const struct gpu_snapshot *g = r->in.sample->gpus;
    const char *devices = r->names->devices ? r->names->devices : "f";
    for (size_t i = 0; i < g->n_devices; i++) {
        const struct gpu_device *d = &g->devices[i];
        for (size_t k = 0; k < d->n_instances; k++)
            if (means_instance(devices, &d->instances[k]))
                add_entity(r, i, k, list);
        if (means_gpu(devices, d))
            add_entity(r, i, EXPORTER_NO_INSTANCE_AT, list);
    }
}

static void variant_finish(struct exporter_variant *v)
{
    gs_buf_finish(&v->labels);
    gs_buf_finish(&v->xid.text);
    free(v->job);
}

static void entity_finish(struct exporter_entity *e)
{
    gs_buf_finish(&e->labels);
    gs_buf_finish(&e->all_labels);
    gs_buf_finish(&e->xid.text);
    gs_buf_finish(&e->custom);
    for (size_t i = 0; i < e->n_held; i++) // the holders may have been freed
        gs_buf_finish(&e->held[i]);
    free(e->held);
    for (size_t i = 0; i < e->n_variants; i++)
        variant_finish(&e->variants[i]);
    free(e->variants);
}

void exporter_render_entities_finish(struct exporter_entities *list)
{
    for (size_t i = 0; i < list->len; i++)
        entity_finish(&list->items[i]);
    free(list->items);
    *list = (struct exporter_entities){0};
}

const struct exporter_device_holder *
exporter_render_find_holder(const struct exporter_device_holders *holders,
                            const struct exporter_owner *o)
{
    const struct exporter_device_holder *of_pod = NULL;
    size_t n_of_pod = 0;
    for (size_t i = 0; holders && i < holders->len; i++) {
        const struct exporter_device_holder *h = &holders->items[i];
        if (!gs_streq(h->namespace_name, o->namespace_name) || !gs_streq(h->pod, o->pod))
            continue;
        // An owner without a container represents the whole pod.
        if (gs_streq(h->container, o->container) || !h->container[0])
            return h;
        of_pod = h;
        n_of_pod++;
    }
    return n_of_pod == 1 && !o->container[0] ? of_pod : NULL;
}

static struct exporter_variant *variant_of(const struct exporter_entity *e,
                                           const struct exporter_owner *o)
{
    const struct exporter_device_holder *h = o->kind == EXPORTER_OWNER_POD && o->pod[0]
                                                 ? exporter_render_find_holder(e->holders, o)
                                                 : NULL;
    for (size_t i = 0; h && i < e->n_variants; i++)
        if (e->variants[i].holder == h)
            return &e->variants[i];
    return NULL;
}

// A process that belongs to the pod, but to an unknown container of it.
static void set_busy(struct exporter_entity *e, const struct exporter_owner *o)
{
    for (size_t i = 0; i < e->n_variants; i++) {
        const struct exporter_device_holder *h = e->variants[i].holder;
        if (h && gs_streq(h->namespace_name, o->namespace_name) && gs_streq(h->pod, o->pod))
            e->variants[i].idle = false;
    }
}

// A process without a known owner may belong to anyone. An MPS server works for clients that the
// driver may not list.
static bool is_owner_known(const struct exporter_owner *o)
{
    return (o->kind == EXPORTER_OWNER_HOST || (o->kind == EXPORTER_OWNER_POD && o->pod[0])) &&
           !gs_streq(o->process_name, EXPORTER_MPS_SERVER);
}

// Whether all processes are listed and have a known owner.
static bool is_list_complete(const struct exporter_sample *sample, size_t device_at)
{
    const struct gpu_device *d = &sample->gpus->devices[device_at];
    bool complete = d->processes_valid && d->n_processes < GPU_MAX_PROCESSES;
    for (size_t i = 0; i < d->n_processes && complete; i++)
        complete = is_owner_known(&sample->owners[device_at][i]);
    return complete;
}

const struct exporter_device_holder *
exporter_render_sole_holder(const struct exporter_sample *sample, size_t device_at,
                            const struct gpu_instance *instance,
                            const struct exporter_device_holders *holders)
{
    const struct gpu_device *d = &sample->gpus->devices[device_at];
    if (!holders || holders->len != 1)
        return NULL;
    const struct exporter_device_holder *only = &holders->items[0];
    bool proved = !only->shared || is_list_complete(sample, device_at);
    for (size_t i = 0; i < d->n_processes && proved && only->shared; i++) {
        const struct exporter_owner *o = &sample->owners[device_at][i];
        if (exporter_render_is_on(&d->processes[i], instance))
            proved =
                o->kind == EXPORTER_OWNER_POD && exporter_render_find_holder(holders, o) == only;
    }
    return proved ? only : NULL;
}

// Pods without a process are idle if the list is complete.
static void find_idle(const struct exporter_sample *sample, struct exporter_entity *e)
{
    bool complete = is_list_complete(sample, e->device_at);
    for (size_t i = 0; i < e->n_variants; i++)
        e->variants[i].idle = complete && e->variants[i].holder;
}

static void sum_pods(const struct exporter_sample *sample, struct exporter_entity *e)
{
    for (size_t i = 0; i < e->n_variants; i++) {
        struct exporter_variant *v = &e->variants[i];
        v->util = v->mem_util = v->enc_util = v->dec_util = v->memory_mib = 0;
        v->has_util = v->has_memory = false;
    }
    find_idle(sample, e);
    for (size_t i = 0; i < e->device->n_processes; i++) {
        const struct gpu_process *p = &e->device->processes[i];
        const struct exporter_owner *o = &sample->owners[e->device_at][i];
        if (!exporter_render_is_on(p, e->instance))
            continue;
        struct exporter_variant *v = variant_of(e, o);
        if (!v) {
            set_busy(e, o);
            continue;
        }
        v->idle = false;
        v->util += p->sm_util;
        v->mem_util += p->mem_util;
        v->enc_util += p->enc_util;
        v->dec_util += p->dec_util;
        v->has_util |= p->has_util;
        v->memory_mib += p->memory_bytes >> 20;
        v->has_memory |= p->has_memory;
    }
}

// Never exceeds the device's own values: see exporter_clamp_process_usage.
void exporter_render_sum_pods(const struct exporter_sample *sample, struct exporter_entities *list)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->items[i].n_variants)
            sum_pods(sample, &list->items[i]);
}
