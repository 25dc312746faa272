// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine, read through NVML on a thread of libuv's pool, because driver calls
// block. Values become samples with the names and labels of the exporter.
#include "top/top_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <unistd.h>

enum { MAX_NAME = 64, MAX_LABELS = 12 };

static const enum gpu_field shown[] = {
    GPU_F_GPU_UTIL,
    GPU_F_FB_USED,
    GPU_F_FB_FREE,
    GPU_F_FB_RESERVED,
    GPU_F_FB_TOTAL,
    GPU_F_GPU_TEMP,
    GPU_F_POWER_USAGE,
    GPU_F_POWER_LIMIT,
    GPU_F_SM_CLOCK,
    GPU_F_MEM_COPY_UTIL,
    GPU_F_ENC_UTIL,
    GPU_F_DEC_UTIL,
    GPU_F_PROF_GR_ENGINE_ACTIVE,
};

struct nvml_source {
    struct top_source is;
    uv_loop_t *loop;
    struct gpu_backend *backend;
    char node[256];
    struct nvml_refresh *running;
};

// Outlives the source if the driver does not return.
struct nvml_refresh {
    uv_work_t work;
    struct nvml_source *source; // NULL: the source was freed
    struct gpu_backend *backend;
    char node[256];
    struct top_samples samples;
    struct gs_error *err;
    top_source_done done;
    void *arg;
};

// --- samples ---

struct labels {
    struct top_label items[MAX_LABELS];
    size_t n;
};

static void add_label(struct labels *l, const char *name, const char *value)
{
    l->items[l->n++] = (struct top_label){gs_slice_of(name), gs_slice_of(value)};
}

static struct gs_error *add_sample(struct nvml_refresh *r, const char *name, const struct labels *l,
                                   double value, int64_t t_ms)
{
    struct top_sample s = {gs_slice_of(name), l->items, l->n, value, t_ms};
    return top_samples_add(&r->samples, &s);
}

static struct gs_error *add_value(struct nvml_refresh *r, enum gpu_field f,
                                  const struct gpu_value *v, const struct labels *l, int64_t t_ms)
{
    if (!v || v->validity != GPU_VALID)
        return NULL;
    return add_sample(r, gpu_field_name(f), l, v->is_double ? v->d : (double)v->i, t_ms);
}

// The same name as in the exporter's label.
static void process_name(uint32_t pid, char *name, size_t size)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%u/comm", pid);
    GS_AUTO_BUF struct gs_buf comm = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, size, &comm);
    const char *line = err ? "" : comm.data;
    snprintf(name, size, "%.*s", (int)strcspn(line, "\n"), line);
}

static struct gs_error *add_process(struct nvml_refresh *r, const struct gpu_process *p,
                                    const struct labels *device, int64_t t_ms)
{
    char pid[16], name[MAX_NAME], instance[16];
    struct labels l = *device;
    snprintf(pid, sizeof(pid), "%u", p->pid);
    snprintf(instance, sizeof(instance), "%u", p->gpu_instance);
    process_name(p->pid, name, sizeof(name));
    add_label(&l, "ProcessId", pid);
    add_label(&l, "ProcessName", name);
    add_label(&l, "ProcessType",
              p->compute && p->graphics ? "C+G"
              : p->graphics             ? "G"
              : p->compute              ? "C"
                                        : "");
    if (p->gpu_instance != GPU_NO_INSTANCE)
        add_label(&l, "GPU_I_ID", instance);
    struct gs_error *err = NULL;
    if (p->has_util)
        err = add_sample(r, "DCGM_CUSTOM_PROCESS_SM_UTIL", &l, p->sm_util, t_ms);
    if (!err && p->has_memory)
        err = add_sample(r, "DCGM_CUSTOM_PROCESS_MEM_USED", &l, (double)(p->memory_bytes >> 20),
                         t_ms);
    return err;
}

static struct gs_error *add_instance(struct nvml_refresh *r, const struct gpu_instance *i,
                                     const struct labels *device, int64_t t_ms)
{
    char id[16], compute[16];
    struct labels l = *device;
    struct gs_error *err = NULL;
    snprintf(id, sizeof(id), "%u", i->gpu_instance_id);
    snprintf(compute, sizeof(compute), "%u", i->compute_instance_id);
    add_label(&l, "GPU_I_ID", id);
    add_label(&l, "GPU_I_PROFILE", i->profile);
    if (i->divided)
        add_label(&l, "GPU_CI_ID", compute);
    for (size_t k = 0; k < GS_ARRAY_LEN(shown) && !err; k++)
        err = add_value(r, shown[k], gpu_instance_value(i, shown[k]), &l, t_ms);
    return err;
}

static struct gs_error *add_device(struct nvml_refresh *r, const struct gpu_snapshot *s,
                                   const struct gpu_device *d)
{
    char index[16];
    struct labels l = {0};
    struct gs_error *err = NULL;
    snprintf(index, sizeof(index), "%u", d->index);
    add_label(&l, "gpu", index);
    add_label(&l, "UUID", d->uuid);
    add_label(&l, "modelName", d->name);
    add_label(&l, "hostname", r->node);
    add_label(&l, "DCGM_FI_DRIVER_VERSION", s->simulated ? "-simulated" : "");
    if (d->lost)
        err = add_sample(r, "gpuscale_exporter_gpu_lost", &l, 1, s->unix_ms);
    if (!err && d->hung)
        err = add_sample(r, "gpuscale_exporter_gpu_hung", &l, 1, s->unix_ms);
    for (size_t i = 0; i < GS_ARRAY_LEN(shown) && !err; i++)
        err = add_value(r, shown[i], &d->fields[shown[i]], &l, s->unix_ms);
    for (size_t i = 0; i < d->n_instances && !err; i++)
        err = add_instance(r, &d->instances[i], &l, s->unix_ms);
    for (size_t i = 0; i < d->n_processes && d->processes_valid && !err; i++)
        err = add_process(r, &d->processes[i], &l, s->unix_ms);
    return err;
}

// --- refreshing ---

static void read_driver(uv_work_t *work) // on a thread of the pool
{
    struct nvml_refresh *r = work->data;
    struct gpu_snapshot *s = NULL;
    r->err = gpu_backend_sample(r->backend, &s);
    for (size_t i = 0; !r->err && i < s->n_devices; i++)
        r->err = add_device(r, s, &s->devices[i]);
    if (!r->err && s->n_unopened) {
        GS_AUTO_FREE char *note = gs_format("The driver cannot open %zu of its GPUs: %s",
                                            s->n_unopened, gpu_nvml_error_name(s->unopened_code));
        top_samples_note(&r->samples, note);
    }
    gpu_snapshot_free(s);
}

static void after_read(uv_work_t *work, int status)
{
    struct nvml_refresh *r = work->data;
    struct gs_error *err = GS_TAKE(r->err);
    (void)status;
    if (r->source) {
        r->source->running = NULL;
        r->done(r->arg, err ? NULL : &r->samples, NULL, err);
    } else {
        gs_error_free(err);
        gpu_backend_close(r->backend);
    }
    top_samples_finish(&r->samples);
    free(r);
}

static void nvml_refresh(struct top_source *source, top_source_done done, void *arg)
{
    struct nvml_source *s = (struct nvml_source *)source;
    struct nvml_refresh *r = gs_alloc(sizeof(*r));
    r->work.data = r;
    r->source = s;
    r->backend = s->backend;
    memcpy(r->node, s->node, sizeof(s->node));
    r->done = done;
    r->arg = arg;
    s->running = r;
    (void)uv_queue_work(s->loop, &r->work, read_driver, after_read);
}

static void nvml_free(struct top_source *source)
{
    struct nvml_source *s = (struct nvml_source *)source;
    if (s->running)
        s->running->source = NULL; // closes the driver when the call returns
    else
        gpu_backend_close(s->backend);
    free(s->is.name);
    free(s);
}

struct gs_error *top_source_nvml_probe(const char *library)
{
    struct gpu_backend *backend = NULL;
    struct gpu_backend_config cfg = {.library = library};
    struct gs_error *err = gpu_backend_open(&cfg, &backend);
    enum gpu_driver state = err ? GPU_DRIVER_FAILED : gpu_backend_driver(backend);
    gpu_backend_close(backend);
    if (!err && (state == GPU_DRIVER_NO_GPU || state == GPU_DRIVER_NO_DEVICE))
        return gs_error_new(GS_ENOTFOUND, "the driver finds no GPU");
    return err;
}

void top_source_nvml_new(uv_loop_t *loop, const char *library, struct top_source **ret)
{
    static const struct top_source_ops ops = {nvml_refresh, nvml_free};
    bool wanted[GPU_F_COUNT] = {false};
    struct nvml_source *s = gs_alloc(sizeof(*s));
    for (size_t i = 0; i < GS_ARRAY_LEN(shown); i++)
        wanted[shown[i]] = true;
    s->is.ops = &ops;
    s->is.needs_two = true;
    s->is.name = gs_strdup("this machine (NVML)");
    s->loop = loop;
    if (gethostname(s->node, sizeof(s->node) - 1) < 0)
        s->node[0] = '\0';
    s->backend =
        gpu_backend_new(&(struct gpu_backend_config){.library = library, .wanted = wanted});
    *ret = &s->is;
}
