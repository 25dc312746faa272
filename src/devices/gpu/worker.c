// SPDX-License-Identifier: Apache-2.0
// The threads that read devices, and the exchange with the coordinator.
#include "gpu/gpu_private.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/slice.h"

#include <signal.h>
#include <string.h>

enum { STACK_SIZE = 256 * 1024 };

void gpu_device_free(struct gpu_device *d)
{
    if (!d)
        return;
    free(d->processes);
    free(d->instances);
    free(d);
}

struct gpu_device *gpu_device_copy(const struct gpu_device *d)
{
    struct gpu_device *copy = gs_alloc(sizeof(*copy));
    *copy = *d;
    copy->processes = NULL;
    copy->instances = NULL;
    if (d->n_processes) {
        copy->processes = gs_alloc_array(d->n_processes, sizeof(*d->processes));
        memcpy(copy->processes, d->processes, d->n_processes * sizeof(*d->processes));
    }
    if (d->n_instances) {
        copy->instances = gs_alloc_array(d->n_instances, sizeof(*d->instances));
        memcpy(copy->instances, d->instances, d->n_instances * sizeof(*d->instances));
    }
    return copy;
}

static void reader_finish(struct gpu_reader *r)
{
    free(r->errors);
    free(r->scratch);
}

static void worker_free(struct gpu_worker *w)
{
    if (!w)
        return;
    pthread_cond_destroy(&w->posted);
    reader_finish(&w->reader);
    free(w->known);
    gpu_device_free(w->device);
    gpu_device_free(w->last);
    free(w);
}

// The last reference frees the back end. This may be a thread that returns from the driver late.
void gpu_backend_unref(struct gpu_backend *b)
{
    pthread_mutex_lock(&b->lock);
    gs_assert(b->refs > 0);
    bool last = --b->refs == 0;
    pthread_mutex_unlock(&b->lock);
    if (!last)
        return;
    gpu_backend_unload(b);
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        worker_free(b->workers[i]);
    worker_free(b->event_worker);
    reader_finish(&b->reader);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b->library);
    free(b->sys);
    free(b);
}

// --- worker thread ---

static nvml_ret read_uuid(struct gpu_worker *w)
{
    nvml_ret ret = NVML(&w->reader, uuid, w->handle, w->uuid, sizeof(w->uuid));
    gpu_backend_clean_text(w->uuid, sizeof(w->uuid));
    return ret == NVML_OK && !w->uuid[0] ? NVML_NOT_FOUND : ret;
}

// A handle stays valid until the library is shut down. So one of the two calls is enough to
// recognize a GPU that is known: its handle, or its UUID by the known handle.
static void identify_device(struct gpu_worker *w)
{
    const struct gpu_known_device *k = w->known && w->known->handle ? w->known : NULL;
    w->reader.device_lost = false;
    w->reader.answered = w->reader.driverless = 0;
    w->uuid[0] = '\0';
    nvml_ret opened = NVML(&w->reader, handle_by_index, w->index, &w->handle);
    bool reopened = k && gpu_backend_may_pass(opened);
    if (reopened)
        w->handle = k->handle;
    w->ret = opened == NVML_OK || reopened ? read_uuid(w) : opened;
    if (reopened && (w->ret != NVML_OK || !gs_streq(w->uuid, k->uuid))) {
        w->ret = opened;
    } else if (k && k->handle == w->handle && gpu_backend_may_pass(w->ret)) {
        memcpy(w->uuid, k->uuid, sizeof(w->uuid));
        w->ret = NVML_OK;
    }
}

// Sampling may start slightly early.
static bool is_due(const struct gpu_backend *b, const struct gpu_known_device *k, enum gpu_field f,
                   int64_t now)
{
    return b->wanted[f] && (!b->every_ns[f] || !k->read_ns[f] ||
                            now - k->read_ns[f] >= b->every_ns[f] - b->cfg.pass_ns / 2);
}

static void find_due(struct gpu_reader *r, struct gpu_known_device *k)
{
    int64_t now = gs_mono_ns();
    memset(r->due_group, 0, sizeof(r->due_group));
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++) {
        r->due[f] = is_due(r->backend, k, f, now);
        r->due_group[gpu_field_info(f)->group] |= r->due[f];
        if (r->due[f])
            k->read_ns[f] = now;
    }
}

// Fields that were not due keep their last value.
static void keep_values(const struct gpu_reader *r, struct gpu_known_device *k,
                        struct gpu_device *d)
{
    if (r->device_lost) {
        memset(k->read_ns, 0, sizeof(k->read_ns));
        memset(k->kept, 0, sizeof(k->kept));
        return;
    }
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++) {
        if (!r->backend->wanted[f] || !r->backend->every_ns[f])
            continue;
        if (!r->due[f] && d->fields[f].validity == GPU_UNKNOWN)
            d->fields[f] = k->kept[f];
        k->kept[f] = d->fields[f];
    }
}

static void read_device(struct gpu_worker *w)
{
    struct gpu_reader *r = &w->reader;
    struct gpu_known_device *k = w->known;
    struct gpu_device *d = gs_alloc(sizeof(*d));
    gpu_device_free(w->device); // a late result that was not used
    w->device = d;
    d->index = w->index;
    memcpy(d->uuid, k->uuid, sizeof(d->uuid));
    unsigned wanted = r->backend->wanted_version;
    if (!r->device_lost && (!k->named || k->named_version != wanted)) {
        gpu_backend_read_identity(r, k);
        k->named_version = wanted;
    }
    d->minor = k->minor;
    d->has_minor = k->has_minor;
    memcpy(d->name, k->name, sizeof(d->name));
    memcpy(d->pci_bus_id, k->pci_bus_id, sizeof(d->pci_bus_id));
    memcpy(d->texts, k->texts, sizeof(d->texts));
    d->memory_total = k->memory_total;
    find_due(r, k);
    if (!r->device_lost)
        gpu_backend_watch_events(r, k);
    if (!r->device_lost)
        gpu_backend_read_fields(r, k, d);
    if (!r->device_lost)
        gpu_backend_read_values(r, k, d);
    if (!r->device_lost)
        gpu_backend_read_p2p(r, k, w->peers, d);
    if (!r->device_lost)
        gpu_backend_read_integrity(r, k, d);
    if (!r->device_lost)
        gpu_backend_read_instances(r, k, d);
    if (!r->device_lost)
        gpu_backend_read_gpm(r, k, d);
    if (!r->device_lost)
        gpu_backend_read_processes(r, k, d);
    keep_values(r, k, d);
    gpu_backend_fill_clock_events(r, k, d);
    d->lost = r->device_lost;
    d->mono_ns = gs_mono_ns();
    k->memory_total = d->memory_total;
}

static void run_job(struct gpu_worker *w, enum gpu_job job)
{
    switch (job) {
    case GPU_JOB_IDENTIFY:
        identify_device(w);
        break;
    case GPU_JOB_READ:
        read_device(w);
        break;
    case GPU_JOB_MAKE_EVENTS:
        w->ret = gpu_backend_make_events(&w->reader, &w->made);
        break;
    case GPU_JOB_TAKE_EVENTS:
        w->ret = gpu_backend_take_events(&w->reader, w);
        break;
    case GPU_JOB_NONE:
        break;
    }
}

static bool awaited(const struct gpu_worker *w)
{
    return w && w->busy && !w->late;
}

static bool any_awaited(const struct gpu_backend *b)
{
    bool any = awaited(b->event_worker);
    for (size_t i = 0; i < GPU_MAX_DEVICES && !any; i++)
        any = awaited(b->workers[i]);
    return any;
}

static void *worker_main(void *arg)
{
    struct gpu_worker *w = arg;
    struct gpu_backend *b = w->backend;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->ending && w->job == GPU_JOB_NONE)
            pthread_cond_wait(&w->posted, &b->lock);
        if (b->ending)
            break;
        enum gpu_job job = w->job;
        w->job = GPU_JOB_NONE;
        pthread_mutex_unlock(&b->lock);
        run_job(w, job);
        pthread_mutex_lock(&b->lock);
        w->busy = w->late = false;
        w->busy_since_ns = 0;
        if (!any_awaited(b))
            pthread_cond_signal(&b->done);
    }
    w->busy = w->late = false;
    w->started = false;
    pthread_cond_broadcast(&b->done);
    pthread_mutex_unlock(&b->lock);
    gpu_backend_unref(b);
    return NULL;
}

void gpu_worker_start(struct gpu_backend *b, uint32_t index, struct gpu_worker **ret)
{
    struct gpu_worker *w = gs_alloc(sizeof(*w));
    w->backend = b;
    w->index = index;
    pthread_cond_init(&w->posted, NULL);
    w->reader.nvml = &b->nvml;
    w->reader.backend = b;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigset_t all, old;
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_mutex_lock(&b->lock);
    b->refs++;
    w->started = true;
    *ret = w; // the other threads iterate over all workers
    pthread_mutex_unlock(&b->lock);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&w->thread, &attr, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc) {
        pthread_mutex_lock(&b->lock);
        b->refs--;
        *ret = NULL;
        pthread_mutex_unlock(&b->lock);
        worker_free(w);
    }
}

// --- coordinator ---

void gpu_worker_post(struct gpu_worker *w, enum gpu_job job)
{
    struct gpu_backend *b = w->backend;
    pthread_mutex_lock(&b->lock);
    gs_assert(!w->busy); // else both threads would own its members
    w->job = job;
    w->busy = true;
    w->busy_since_ns = gs_mono_ns();
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&b->lock);
}

static void become_late(struct gpu_worker *w)
{
    if (w)
        w->late = w->busy;
}

void gpu_workers_wait(struct gpu_backend *b, int64_t deadline_ns)
{
    struct timespec at = {deadline_ns / GS_NS_PER_SEC, deadline_ns % GS_NS_PER_SEC};
    pthread_mutex_lock(&b->lock);
    while (any_awaited(b) && gs_mono_ns() < deadline_ns)
        pthread_cond_timedwait(&b->done, &b->lock, &at);
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        become_late(b->workers[i]);
    become_late(b->event_worker);
    pthread_mutex_unlock(&b->lock);
}

bool gpu_worker_idle(struct gpu_worker *w)
{
    return gpu_worker_busy_since_ns(w) == 0;
}

bool gpu_workers_idle(struct gpu_backend *b)
{
    bool idle = gpu_worker_idle(b->event_worker);
    for (size_t i = 0; i < GPU_MAX_DEVICES && idle; i++)
        idle = gpu_worker_idle(b->workers[i]);
    return idle;
}

int64_t gpu_worker_busy_since_ns(struct gpu_worker *w)
{
    if (!w)
        return 0;
    pthread_mutex_lock(&w->backend->lock);
    int64_t since = w->busy ? w->busy_since_ns : 0;
    pthread_mutex_unlock(&w->backend->lock);
    return since;
}
