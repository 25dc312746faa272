// SPDX-License-Identifier: Apache-2.0
// Reads all GPUs by NVML. Each GPU has its own thread (a worker), so that a call that hangs delays
// only its GPU; a pass waits until a deadline and takes what is there.
// A device is known by its UUID: its state (rates, XIDs) stays with it when indexes change. It is
// read, or keeps its last values for a short time, or is hung (its worker does not return), or
// lost (the driver says so). When all GPUs lack the driver, the library is unloaded and loaded
// again.
#include "gpu/gpu_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

// The first sample has no previous one; its rates start this long ago.
#define FIRST_WINDOW_US 1000000
#define STOP_WAIT_NS    (300 * GS_NS_PER_MS)

enum gpu_validity gpu_backend_validity(nvml_ret ret)
{
    switch (ret) {
    case NVML_OK:
        return GPU_VALID;
    case NVML_NOT_SUPPORTED:
    case NVML_FUNCTION_NOT_FOUND:
    case NVML_DEPRECATED:
        return GPU_NOT_SUPPORTED;
    case NVML_NO_PERMISSION:
        return GPU_NO_PERMISSION;
    case NVML_GPU_IS_LOST:
        return GPU_LOST;
    default:
        return GPU_FAILED;
    }
}

bool gpu_backend_lacks_driver(nvml_ret ret)
{
    return ret == NVML_UNINITIALIZED || ret == NVML_DRIVER_NOT_LOADED ||
           ret == NVML_LIB_RM_VERSION_MISMATCH;
}

bool gpu_backend_may_pass(nvml_ret ret)
{
    return gpu_backend_validity(ret) == GPU_FAILED && !gpu_backend_lacks_driver(ret) &&
           ret != NVML_RESET_REQUIRED && ret != NVML_GPU_NOT_FOUND && ret != NVML_INVALID_ARGUMENT;
}

// False for missing capabilities and for normal results.
static bool is_failure(enum nvml_call call, nvml_ret ret)
{
    if (ret == NVML_OK || gpu_backend_validity(ret) == GPU_NOT_SUPPORTED)
        return false;
    switch (call) {
    case NVML_CALL_event_set_wait:
        return ret != NVML_TIMEOUT;
    case NVML_CALL_samples:
    case NVML_CALL_process_utilization:
    case NVML_CALL_processes_utilization:
        return ret != NVML_NOT_FOUND && ret != NVML_INSUFFICIENT_SIZE;
    case NVML_CALL_validate_inforom: // reports a finding
        return ret != NVML_CORRUPTED_INFOROM;
    case NVML_CALL_fabric_info: // an older version is tried next
    case NVML_CALL_unrepairable:
    case NVML_CALL_margin:
        return ret != NVML_ARGUMENT_VERSION_MISMATCH;
    case NVML_CALL_sram_status: // only root may call it
        return ret != NVML_ARGUMENT_VERSION_MISMATCH && ret != NVML_NO_PERMISSION;
    case NVML_CALL_link_state: // boards have fewer links than their chip
        return ret != NVML_INVALID_ARGUMENT;
    case NVML_CALL_mig_handle:
        return ret != NVML_NOT_FOUND && ret != NVML_INVALID_ARGUMENT;
    default:
        return ret != NVML_INSUFFICIENT_SIZE;
    }
}

nvml_ret gpu_backend_note(struct gpu_reader *b, enum nvml_call call, nvml_ret ret)
{
    int64_t now = gs_mono_ns();
    b->calls[call]++;
    b->call_ns[call] += now - b->started_ns;
    b->answered += ret == NVML_OK;
    if (gpu_backend_lacks_driver(ret)) {
        b->driverless++;
        b->driverless_code = ret;
    }
    // The event wait concerns all devices, and in a pair the other GPU may be the lost one.
    if (ret == NVML_GPU_IS_LOST && call != NVML_CALL_event_set_wait && call != NVML_CALL_p2p_status)
        b->device_lost = true;
    if (!is_failure(call, ret))
        return ret;
    const char *symbol = nvml_call_symbol(call);
    for (size_t i = 0; i < b->n_errors; i++) {
        if (b->errors[i].call == symbol && b->errors[i].code == ret) {
            b->errors[i].count++;
            return ret;
        }
    }
    gs_grow(&b->errors, &b->cap_errors, b->n_errors, sizeof(*b->errors));
    b->errors[b->n_errors++] = (struct gpu_call_errors){symbol, ret, 1};
    return ret;
}

void *gpu_backend_scratch(struct gpu_reader *b, size_t n, size_t size)
{
    if (n * size > b->scratch_size) {
        free(b->scratch);
        b->scratch = gs_alloc_array(n, size);
        b->scratch_size = n * size;
    } else {
        memset(b->scratch, 0, n * size);
    }
    return b->scratch;
}

bool gpu_backend_wants(const struct gpu_reader *r, enum gpu_field first, enum gpu_field last)
{
    for (enum gpu_field f = first; f <= last; f++)
        if (r->backend->wanted[f])
            return true;
    return false;
}

// Removes state that depends on the driver: another driver may return other values, and handles may
// have the same addresses.
static void expire(struct gpu_known_device *k)
{
    k->xid_registered = false;
    k->handle = NULL;
    k->named = false;
    k->gpm_validity = GPU_UNKNOWN;
    k->p2p_ns = k->inforom_ns = k->links_ns = 0;
    k->cluster[0] = '\0';
    memset(k->p2p_peers, 0, sizeof(k->p2p_peers));
    memset(k->links, 0, sizeof(k->links));
    memset(k->read_ns, 0, sizeof(k->read_ns));
    memset(k->kept, 0, sizeof(k->kept));
}

// An event set that is created late is used in a later sample.
static void take_event_set(struct gpu_backend *b)
{
    if (!b->events && gpu_worker_idle(b->event_worker) && b->event_worker && b->event_worker->made)
        b->events = GS_TAKE(b->event_worker->made);
}

void gpu_backend_unload(struct gpu_backend *b)
{
    if (b->ready) {
        for (size_t i = 0; i < GPU_MAX_DEVICES; i++) {
            struct gpu_worker *w = b->workers[i];
            if (!w || !w->known)
                continue;
            gpu_backend_free_gpm(&b->nvml, w->known);
            expire(w->known);
        }
        take_event_set(b);
        if (b->events && b->nvml.event_set_free)
            b->nvml.event_set_free(b->events);
        b->events = NULL;
        if (b->nvml.shutdown)
            b->nvml.shutdown();
    }
    nvml_unload(&b->nvml);
    b->ready = false;
    b->counted_ns = 0;
    b->driver_version[0] = b->nvml_version[0] = '\0';
}

// The library stays loaded while a thread hangs in it.
static void unready(struct gpu_backend *b)
{
    if (gpu_workers_idle(b))
        gpu_backend_unload(b);
}

static void set_driver(struct gpu_backend *b, enum gpu_driver d)
{
    bool lacks = d == GPU_DRIVER_NO_LIBRARY || d == GPU_DRIVER_NOT_LOADED || d == GPU_DRIVER_NO_GPU;
    if (lacks && !b->nvml.simulated && !gpu_machine_may_have_gpu(b->sys))
        d = GPU_DRIVER_NO_DEVICE;
    b->driver = d;
}

static struct gs_error *nvml_error(struct gpu_backend *b, const char *what, nvml_ret ret)
{
    const char *hint = "";
    set_driver(b, gpu_driver_of(ret));
    if (ret == NVML_DRIVER_NOT_LOADED)
        hint = "; the NVIDIA kernel module is not loaded (run nvidia-smi for details)";
    else if (ret == NVML_LIB_RM_VERSION_MISMATCH)
        hint = "; the driver was upgraded: reload the kernel module or restart the machine";
    else if (ret == NVML_NO_PERMISSION)
        hint = "; no access to the device nodes /dev/nvidia*";
    return gs_error_new(GS_EUNAVAIL, "NVML (%s): %s failed: %s (%d)%s",
                        b->nvml.path ? b->nvml.path : "not loaded", what, gpu_nvml_error_name(ret),
                        ret, hint);
}

static struct gs_error *make_ready(struct gpu_backend *b)
{
    if (b->ready)
        return NULL;
    struct gs_error *err = nvml_load(b->library, &b->nvml);
    if (err) {
        set_driver(b,
                   gs_error_code(err) == GS_ENOTFOUND ? GPU_DRIVER_NO_LIBRARY : GPU_DRIVER_FAILED);
        return err;
    }
    if (b->cfg.simulated_only && !b->nvml.simulated) {
        set_driver(b, GPU_DRIVER_FAILED);
        err = gs_error_new(GS_EINVAL, "%s is not the simulated NVML library", b->nvml.path);
        nvml_unload(&b->nvml);
        return err;
    }
    nvml_ret ret = NVML(&b->reader, init);
    if (ret) {
        err = nvml_error(b, nvml_call_symbol(NVML_CALL_init), ret);
        nvml_unload(&b->nvml);
        return err;
    }
    b->simulated = b->nvml.simulated;
    b->ready = true;
    return NULL;
}

void gpu_backend_want(struct gpu_backend *b, const bool *wanted, const int64_t *every_ns)
{
    bool groups[GPU_G_COUNT] = {0};
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++) {
        bool want = wanted ? wanted[f] : f != GPU_F_PCIE_TX && f != GPU_F_PCIE_RX;
        b->wanted[f] = want;
        b->every_ns[f] = every_ns ? every_ns[f] : 0;
        groups[gpu_field_info(f)->group] |= want;
    }
    for (int g = 0; g < GPU_G_COUNT; g++)
        b->wants_group[g] = groups[g];
    b->wanted_version++;
}

static void set_config(struct gpu_backend *b, const struct gpu_backend_config *cfg)
{
    b->cfg = *cfg;
    b->library = gs_strdup(cfg->library);
    b->sys = gs_strdup(cfg->sys);
    b->cfg.library = b->cfg.sys = NULL;
    b->cfg.wanted = NULL;
    b->cfg.every_ns = NULL;
    gpu_backend_want(b, cfg->wanted, cfg->every_ns);
    if (!b->cfg.hung_after_ns)
        b->cfg.hung_after_ns = 10 * GS_NS_PER_SEC;
    if (!b->cfg.patience_ns)
        b->cfg.patience_ns = GS_NS_PER_SEC;
    if (b->cfg.patience_ns > b->cfg.hung_after_ns)
        b->cfg.patience_ns = b->cfg.hung_after_ns;
    if (!b->cfg.xid_window_ns)
        b->cfg.xid_window_ns = 300 * GS_NS_PER_SEC;
    if (!b->cfg.clock_window_ns)
        b->cfg.clock_window_ns = 300 * GS_NS_PER_SEC;
}

struct gpu_backend *gpu_backend_new(const struct gpu_backend_config *cfg)
{
    struct gpu_backend *b = gs_alloc(sizeof(*b));
    set_config(b, cfg);
    b->reader.nvml = &b->nvml;
    b->reader.backend = b;
    b->refs = 1;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->done, &attr);
    pthread_condattr_destroy(&attr);
    return b;
}

struct gs_error *gpu_backend_open(const struct gpu_backend_config *cfg, struct gpu_backend **ret)
{
    struct gpu_backend *b = gpu_backend_new(cfg);
    struct gs_error *err = make_ready(b);
    if (err) {
        gpu_backend_close(b);
        return err;
    }
    *ret = b;
    return NULL;
}

static bool any_thread(const struct gpu_backend *b)
{
    bool any = b->event_worker && b->event_worker->started;
    for (size_t i = 0; i < GPU_MAX_DEVICES && !any; i++)
        any = b->workers[i] && b->workers[i]->started;
    return any;
}

static void wake_all(struct gpu_backend *b)
{
    if (b->event_worker)
        pthread_cond_signal(&b->event_worker->posted);
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->workers[i])
            pthread_cond_signal(&b->workers[i]->posted);
}

bool gpu_backend_stop(struct gpu_backend *b)
{
    if (!b)
        return true;
    int64_t deadline = gs_mono_ns() + STOP_WAIT_NS;
    struct timespec at = {deadline / GS_NS_PER_SEC, deadline % GS_NS_PER_SEC};
    pthread_mutex_lock(&b->lock);
    b->ending = true;
    wake_all(b);
    while (any_thread(b) && gs_mono_ns() < deadline)
        pthread_cond_timedwait(&b->done, &b->lock, &at);
    bool ended = !any_thread(b);
    // A worker that has left its loop only drops its reference.
    while (ended && b->refs > 1) {
        pthread_mutex_unlock(&b->lock);
        sched_yield();
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    gpu_backend_unref(b);
    return ended;
}

void gpu_backend_close(struct gpu_backend *b)
{
    gpu_backend_stop(b);
}

enum gpu_driver gpu_backend_driver(const struct gpu_backend *b)
{
    return b->driver;
}

// --- assignment of devices ---

static struct gpu_worker *worker_of_uuid(struct gpu_backend *b, const char *uuid)
{
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++) {
        struct gpu_worker *w = b->workers[i];
        if (w && w->known && gs_streq(w->known->uuid, uuid))
            return w;
    }
    return NULL;
}

static void remove_known_device(struct gpu_backend *b, struct gpu_worker *w)
{
    if (w->known)
        gpu_backend_free_gpm(&b->nvml, w->known);
    free(w->known);
    w->known = NULL;
    gpu_device_free(w->last);
    w->last = NULL;
}

static struct gpu_known_device *known_new(const char *uuid)
{
    struct gpu_known_device *k = gs_alloc(sizeof(*k));
    uint64_t now = (uint64_t)gs_unix_us();
    k->util_seen_us = k->process_seen_us = now - FIRST_WINDOW_US;
    snprintf(k->uuid, sizeof(k->uuid), "%s", uuid);
    return k;
}

// Gives the worker the state of the device at its index. False: there is none.
static bool assign(struct gpu_backend *b, struct gpu_worker *w)
{
    if (w->ret == NVML_GPU_IS_LOST) // its name is still available
        return w->known != NULL;
    if (w->ret != NVML_OK)
        return false;
    struct gpu_worker *other = worker_of_uuid(b, w->uuid);
    if (other && other != w) {
        // Indices have changed. If a UUID occurs twice, or the other worker hangs, the other worker
        // keeps the device.
        if (!gpu_worker_idle(other) || (other->index < w->index && gs_streq(other->uuid, w->uuid)))
            return false;
        struct gpu_known_device *k = w->known;
        struct gpu_device *last = w->last;
        w->known = other->known;
        w->last = other->last;
        other->known = k;
        other->last = last;
    } else if (!other) {
        remove_known_device(b, w);
        w->known = known_new(w->uuid);
    }
    if (w->known->handle != w->handle)
        w->known->xid_registered = false;
    w->known->handle = w->handle;
    w->known->identified_ns = gs_mono_ns();
    return true;
}

static bool is_recent(const struct gpu_backend *b, int64_t mono_ns)
{
    return mono_ns && gs_mono_ns() - mono_ns <= b->cfg.hung_after_ns;
}

// Whether the device of an idle worker that was not read in this pass still has an entry: it is
// lost, has answered too late, or could not be identified for a moment.
static bool stays(const struct gpu_backend *b, const struct gpu_worker *w)
{
    if (!w->known || !w->last)
        return false;
    if (w->ret == NVML_OK)
        return gs_streq(w->uuid, w->known->uuid);
    return w->ret == NVML_GPU_IS_LOST ||
           (gpu_backend_may_pass(w->ret) && is_recent(b, w->known->identified_ns));
}

// Why it has no values. GPU_VALID: those of the last pass still count.
static enum gpu_validity reason_unread(const struct gpu_backend *b, const struct gpu_worker *w)
{
    if (w->ret == NVML_OK)
        return is_recent(b, w->known->identified_ns) ? GPU_VALID : GPU_HUNG;
    return gpu_backend_validity(w->ret);
}

// --- sampling ---

static void mark_absent(struct gpu_device *d, enum gpu_validity why)
{
    d->lost = why == GPU_LOST;
    d->hung = why == GPU_HUNG;
    d->processes_valid = false;
    d->process_util = why;
    d->n_processes = d->n_instances = 0;
    for (size_t f = 0; f < GPU_F_COUNT; f++)
        d->fields[f] = (struct gpu_value){.validity = why};
}

static void identify_all(struct gpu_backend *b, unsigned count, bool *posted, int64_t deadline)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!b->workers[i])
            gpu_worker_start(b, i, &b->workers[i]);
        posted[i] = b->workers[i] && gpu_worker_idle(b->workers[i]);
        if (posted[i])
            gpu_worker_post(b->workers[i], GPU_JOB_IDENTIFY);
    }
    if (!b->event_worker)
        gpu_worker_start(b, GPU_MAX_DEVICES, &b->event_worker);
    take_event_set(b);
    if (!b->events && b->event_worker && gpu_worker_idle(b->event_worker) &&
        gpu_backend_wants(&b->reader, GPU_F_XID_ERRORS, GPU_F_XID_ERRORS))
        gpu_worker_post(b->event_worker, GPU_JOB_MAKE_EVENTS);
    gpu_workers_wait(b, deadline);
    take_event_set(b);
    b->events_validity = GPU_UNKNOWN;
    if (!b->events && b->event_worker && gpu_worker_idle(b->event_worker))
        b->events_validity = gpu_backend_validity(b->event_worker->ret);
}

static void give_events(struct gpu_backend *b, struct gpu_worker *w)
{
    w->reader.events = b->events;
    w->reader.events_validity = b->events_validity;
}

static void read_all(struct gpu_backend *b, unsigned count, bool *posted, int64_t deadline)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gpu_worker *w = b->workers[i];
        posted[i] = posted[i] && gpu_worker_idle(w) && assign(b, w);
    }
    nvml_device handles[GPU_MAX_DEVICES] = {0};
    for (uint32_t i = 0; i < count; i++)
        if (posted[i] && b->workers[i]->ret == NVML_OK)
            handles[i] = b->workers[i]->known->handle;
    for (uint32_t i = 0; i < count; i++) {
        if (!posted[i])
            continue;
        memcpy(b->workers[i]->peers, handles, sizeof(handles));
        give_events(b, b->workers[i]);
        gpu_worker_post(b->workers[i], GPU_JOB_READ);
    }
    gpu_workers_wait(b, deadline);
    if (b->events && b->event_worker && gpu_worker_idle(b->event_worker)) {
        give_events(b, b->event_worker);
        gpu_worker_post(b->event_worker, GPU_JOB_TAKE_EVENTS);
        gpu_workers_wait(b, deadline);
    }
}

// A driver may be unloaded while the library still counts its GPUs. Fails if no GPU can be opened.
// A GPU that hangs, is lost or was missed still has an entry.
static struct gs_error *check_opened(struct gpu_backend *b, unsigned count)
{
    nvml_ret ret = NVML_OK;
    for (uint32_t i = 0; i < count; i++) {
        struct gpu_worker *w = b->workers[i];
        if (!w || !gpu_worker_idle(w) || w->ret == NVML_OK ||
            (w->ret == NVML_GPU_IS_LOST && w->known) || stays(b, w))
            return NULL;
        ret = w->ret;
    }
    return count ? nvml_error(b, "opening the GPUs", ret) : NULL;
}

// The same if handles and names are still cached but most calls fail.
static struct gs_error *check_answers(struct gpu_backend *b, unsigned count)
{
    unsigned answered = 0, driverless = 0;
    nvml_ret ret = NVML_OK;
    for (uint32_t i = 0; i < count; i++) {
        struct gpu_worker *w = b->workers[i];
        if (!w || !gpu_worker_idle(w))
            continue;
        answered += w->reader.answered;
        driverless += w->reader.driverless;
        ret = w->reader.driverless ? w->reader.driverless_code : ret;
    }
    if (driverless <= answered)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (b->workers[i] && gpu_worker_idle(b->workers[i])) {
            gpu_device_free(b->workers[i]->device);
            b->workers[i]->device = NULL;
        }
    }
    return nvml_error(b, "most of the calls", ret);
}

static struct gs_error *read_pass(struct gpu_backend *b, unsigned count, bool *posted,
                                  int64_t deadline)
{
    identify_all(b, count, posted, deadline);
    struct gs_error *err = check_opened(b, count);
    if (err)
        return err;
    read_all(b, count, posted, deadline);
    gpu_backend_remember_events(b);
    return check_answers(b, count);
}

static void take_known(struct gpu_backend *b, struct gpu_known_device *k, struct gpu_device *d)
{
    k->xid_watched |= k->xid_validity == GPU_VALID;
    gpu_backend_fill_xids(b, k, d);
    if (!d->lost)
        return;
    k->xid_registered = false;
    memset(k->links, 0, sizeof(k->links));
}

static void take_result(struct gpu_backend *b, struct gpu_worker *w)
{
    gpu_device_free(w->last);
    w->last = GS_TAKE(w->device);
    if (w->last->lost)
        mark_absent(w->last, GPU_LOST);
    if (w->known)
        take_known(b, w->known, w->last);
}

// Adds the device of an index to the snapshot. False: the index has none, or none that is known.
static bool collect_device(struct gpu_backend *b, struct gpu_worker *w, struct gpu_snapshot *s)
{
    struct gpu_device *d = &s->devices[s->n_devices];
    enum gpu_validity why = GPU_VALID;
    int64_t since = gpu_worker_busy_since_ns(w);
    if (since)
        why = gs_mono_ns() - since > b->cfg.hung_after_ns ? GPU_HUNG : GPU_VALID;
    else if (w->device) // also of a worker that was late
        take_result(b, w);
    else if (stays(b, w))
        why = reason_unread(b, w);
    else
        return false;
    if (!w->last && why == GPU_VALID)
        return false;
    *d = (struct gpu_device){.index = w->index};
    if (w->last) {
        struct gpu_device *copy = gpu_device_copy(w->last);
        *d = *copy;
        free(copy);
        d->index = w->index;
    } else if (w->known) {
        memcpy(d->uuid, w->known->uuid, sizeof(d->uuid));
    }
    if (why != GPU_VALID) {
        mark_absent(d, why);
        // If a worker hangs, only its device's name and XIDs may be read.
        if (w->known)
            gpu_backend_fill_xids(b, w->known, d);
    }
    s->n_devices++;
    return true;
}

// A thread may fail to start, and the first answer may be late. Later samples try both again.
static nvml_ret reason_unopened(struct gpu_worker *w)
{
    if (!w)
        return NVML_MEMORY;
    return gpu_worker_idle(w) && w->ret != NVML_OK ? w->ret : NVML_TIMEOUT;
}

static void collect_all(struct gpu_backend *b, unsigned count, struct gpu_snapshot *s)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gpu_worker *w = b->workers[i];
        if (w && collect_device(b, w, s))
            continue;
        s->n_unopened++;
        s->unopened_code = reason_unopened(w);
    }
}

static void merge_reader(const struct gpu_reader *r, struct gpu_snapshot *s)
{
    for (size_t i = 0; i < r->n_errors; i++) {
        size_t at = 0;
        while (at < s->n_errors &&
               (s->errors[at].call != r->errors[i].call || s->errors[at].code != r->errors[i].code))
            at++;
        if (at == s->n_errors) {
            s->errors = gs_realloc_array(s->errors, s->n_errors + 1, sizeof(*s->errors));
            s->errors[s->n_errors++] =
                (struct gpu_call_errors){r->errors[i].call, r->errors[i].code, 0};
        }
        s->errors[at].count += r->errors[i].count;
    }
    for (int c = 0; c < NVML_CALL_COUNT; c++) {
        s->calls[c].count += r->calls[c];
        s->calls[c].ns += r->call_ns[c];
    }
}

static void fill_counts(struct gpu_backend *b, struct gpu_snapshot *s)
{
    s->errors = gs_alloc_array(1, sizeof(*s->errors));
    s->calls = gs_alloc_array(NVML_CALL_COUNT, sizeof(*s->calls));
    s->n_calls = NVML_CALL_COUNT;
    for (int c = 0; c < NVML_CALL_COUNT; c++)
        s->calls[c] = (struct gpu_call_time){.call = nvml_call_symbol(c)};
    merge_reader(&b->reader, s);
    if (b->event_worker && gpu_worker_idle(b->event_worker))
        merge_reader(&b->event_worker->reader, s);
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->workers[i] && gpu_worker_idle(b->workers[i]))
            merge_reader(&b->workers[i]->reader, s);
}

// A failure that may pass leaves the number of the samples before.
static nvml_ret count_devices(struct gpu_backend *b)
{
    unsigned count = 0;
    nvml_ret ret = NVML(&b->reader, count, &count);
    if (ret != NVML_OK)
        return gpu_backend_may_pass(ret) && is_recent(b, b->counted_ns) ? NVML_OK : ret;
    b->count = count < GPU_MAX_DEVICES ? count : GPU_MAX_DEVICES;
    b->counted_ns = gs_mono_ns();
    return NVML_OK;
}

// Before the devices: the IDs of some fields depend on the driver. It cannot change while the
// library is initialized, so a failed call leaves what is known.
static void read_driver_version(struct gpu_backend *b)
{
    char text[NVML_TEXT_DRIVER_VERSION] = "";
    if (NVML(&b->reader, driver_version, text, sizeof(text)) != NVML_OK)
        return;
    gpu_backend_clean_text(text, sizeof(text));
    memcpy(b->driver_version, text, sizeof(text));
    b->driver_branch = (unsigned)strtoul(text, NULL, 10);
}

static void read_system(struct gpu_backend *b, struct gpu_snapshot *s)
{
    struct gpu_reader *r = &b->reader;
    s->simulated = b->simulated;
    memcpy(s->driver_version, b->driver_version, sizeof(s->driver_version));
    if (b->wanted[GPU_F_NVML_VERSION] &&
        NVML(r, nvml_version, s->nvml_version, sizeof(s->nvml_version)) == NVML_OK)
        memcpy(b->nvml_version, s->nvml_version, sizeof(b->nvml_version));
    gpu_backend_clean_text(b->nvml_version, sizeof(b->nvml_version));
    memcpy(s->nvml_version, b->nvml_version, sizeof(s->nvml_version));
    int cuda = 0;
    nvml_ret ret = NVML_OK;
    if (b->wanted[GPU_F_CUDA_DRIVER_VERSION])
        ret = NVML(r, cuda_version, &cuda);
    s->cuda_version = ret == NVML_OK ? cuda : 0;
    s->cuda_validity =
        b->wanted[GPU_F_CUDA_DRIVER_VERSION] ? gpu_backend_validity(ret) : GPU_UNKNOWN;
}

// Values that are the same for all GPUs of the driver.
static void fill_system(struct gpu_snapshot *s)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (!s->devices[i].lost && !s->devices[i].hung)
            s->devices[i].fields[GPU_F_CUDA_DRIVER_VERSION] =
                (struct gpu_value){.validity = s->cuda_validity, .i = s->cuda_version};
}

struct gs_error *gpu_backend_sample(struct gpu_backend *b, struct gpu_snapshot **ret)
{
    int64_t start = gs_mono_ns();
    struct gs_error *err = make_ready(b);
    if (err)
        return err;
    nvml_ret code = count_devices(b);
    if (code != NVML_OK) {
        err = nvml_error(b, nvml_call_symbol(NVML_CALL_count), code);
        // After the driver was unloaded or replaced, only a new initialization works.
        unready(b);
        return err;
    }
    unsigned count = b->count;
    set_driver(b, count ? GPU_DRIVER_UP : GPU_DRIVER_NO_GPU);
    read_driver_version(b);
    bool posted[GPU_MAX_DEVICES] = {0};
    err = read_pass(b, count, posted, start + b->cfg.patience_ns);
    if (err) {
        unready(b);
        return err;
    }
    struct gpu_snapshot *s = gs_alloc(sizeof(*s));
    s->devices = gs_alloc_array(count ? count : 1, sizeof(*s->devices));
    read_system(b, s);
    collect_all(b, count, s);
    fill_system(s);
    for (uint32_t i = count; i < GPU_MAX_DEVICES; i++)
        if (b->workers[i] && gpu_worker_idle(b->workers[i]))
            remove_known_device(b, b->workers[i]);
    fill_counts(b, s);
    s->unix_ms = gs_unix_ms();
    s->duration_us = (gs_mono_ns() - start) / 1000;
    *ret = s;
    return NULL;
}
