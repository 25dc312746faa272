// SPDX-License-Identifier: Apache-2.0
#include "gpu/backend.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"

#include <stdio.h>
#include <string.h>

// Before the first pass there is no previous one; the window of rates starts this long ago.
#define FIRST_WINDOW_US 1000000

enum gpu_validity backend_validity(nvml_ret ret)
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

// What a device or driver lacks, and what is an answer and not a failure.
static bool is_failure(enum nvml_call call, nvml_ret ret)
{
    if (ret == NVML_OK || backend_validity(ret) == GPU_NOT_SUPPORTED)
        return false;
    switch (call) {
    case NVML_CALL_event_set_wait:
        return ret != NVML_TIMEOUT;
    case NVML_CALL_samples:
    case NVML_CALL_process_utilization:
    case NVML_CALL_processes_utilization:
        return ret != NVML_NOT_FOUND && ret != NVML_INSUFFICIENT_SIZE;
    case NVML_CALL_mig_handle:
        return ret != NVML_NOT_FOUND && ret != NVML_INVALID_ARGUMENT;
    default:
        return ret != NVML_INSUFFICIENT_SIZE;
    }
}

nvml_ret backend_note(struct gpu_backend *b, enum nvml_call call, nvml_ret ret)
{
    // The event wait speaks for all devices together.
    if (ret == NVML_GPU_IS_LOST && call != NVML_CALL_event_set_wait)
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

void *backend_scratch(struct gpu_backend *b, size_t n, size_t size)
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

static void unready(struct gpu_backend *b)
{
    if (b->ready) {
        backend_stop_events(b);
        if (b->nvml.shutdown)
            b->nvml.shutdown();
    }
    nvml_unload(&b->nvml);
    b->ready = false;
}

static struct gs_error *nvml_error(struct gpu_backend *b, enum nvml_call call, nvml_ret ret)
{
    const char *hint = "";
    if (ret == NVML_DRIVER_NOT_LOADED)
        hint = "; the NVIDIA kernel module is not loaded (nvidia-smi tells more)";
    else if (ret == NVML_LIB_RM_VERSION_MISMATCH)
        hint = "; the driver was upgraded: reload the kernel module or restart the machine";
    else if (ret == NVML_NO_PERMISSION)
        hint = "; no access to the device nodes /dev/nvidia*";
    return gs_error_new(GS_EUNAVAIL, "NVML (%s): %s failed: %s (%d)%s",
                        b->nvml.path ? b->nvml.path : "not loaded", nvml_call_symbol(call),
                        gpu_nvml_error_name(ret), ret, hint);
}

static struct gs_error *make_ready(struct gpu_backend *b)
{
    if (b->ready)
        return NULL;
    struct gs_error *err = nvml_load(b->library, &b->nvml);
    if (err)
        return err;
    if (b->cfg.simulated_only && !b->nvml.simulated) {
        err = gs_error_new(GS_EINVAL, "%s is not the simulated NVML library", b->nvml.path);
        nvml_unload(&b->nvml);
        return err;
    }
    nvml_ret ret = NVML(b, init);
    if (ret) {
        err = nvml_error(b, NVML_CALL_init, ret);
        nvml_unload(&b->nvml);
        return err;
    }
    b->simulated = b->nvml.simulated;
    b->ready = true;
    return NULL;
}

struct gs_error *gpu_backend_open(const struct gpu_backend_config *cfg, struct gpu_backend **ret)
{
    struct gpu_backend *b = gs_alloc(sizeof(*b));
    b->cfg = *cfg;
    b->library = gs_strdup(cfg->library);
    b->cfg.library = NULL;
    struct gs_error *err = make_ready(b);
    if (err) {
        gpu_backend_close(b);
        return err;
    }
    *ret = b;
    return NULL;
}

void gpu_backend_close(struct gpu_backend *b)
{
    if (!b)
        return;
    unready(b);
    free(b->library);
    free(b->errors);
    free(b->scratch);
    free(b);
}

bool gpu_backend_simulated(const struct gpu_backend *b)
{
    return b->simulated;
}

// --- enumeration ---

static struct known_device *known_by_uuid(struct gpu_backend *b, const char *uuid)
{
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->known[i].used && gs_streq(b->known[i].uuid, uuid))
            return &b->known[i];
    return NULL;
}

static struct known_device *known_by_index(struct gpu_backend *b, uint32_t index)
{
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->known[i].used && !b->known[i].seen && b->known[i].index == index)
            return &b->known[i];
    return NULL;
}

static struct known_device *known_new(struct gpu_backend *b)
{
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
            if (!b->known[i].used || (pass && !b->known[i].seen))
                return &b->known[i];
    return NULL;
}

static void read_identity(struct gpu_backend *b, nvml_device handle, const char *uuid,
                          struct known_device *k)
{
    *k = (struct known_device){.used = true, .xid_validity = GPU_UNKNOWN};
    uint64_t now = (uint64_t)gs_unix_us();
    k->util_seen_us = k->process_seen_us = now - FIRST_WINDOW_US;
    snprintf(k->uuid, sizeof(k->uuid), "%s", uuid);
    char name[NVML_TEXT_NAME] = "";
    if (NVML(b, name, handle, name, sizeof(name)) == NVML_OK)
        snprintf(k->name, sizeof(k->name), "%.*s", (int)sizeof(name) - 1, name);
    unsigned minor = 0;
    k->has_minor = NVML(b, minor, handle, &minor) == NVML_OK;
    k->minor = minor;
    struct nvml_pci_info pci = {0};
    if (NVML(b, pci_info, handle, &pci) == NVML_OK)
        // A fallback symbol fills the legacy text only, with a domain of four digits.
        snprintf(k->pci_bus_id, sizeof(k->pci_bus_id), "%s%.*s", pci.bus_id[0] ? "" : "0000",
                 pci.bus_id[0] ? 31 : 15, pci.bus_id[0] ? pci.bus_id : pci.bus_id_legacy);
}

// Finds the device behind an index. NULL: nothing can be said about it.
static struct known_device *identify(struct gpu_backend *b, uint32_t index)
{
    b->device_lost = false;
    nvml_device handle = NULL;
    char uuid[NVML_TEXT_UUID] = "";
    nvml_ret ret = NVML(b, handle_by_index, index, &handle);
    if (ret == NVML_OK)
        ret = NVML(b, uuid, handle, uuid, sizeof(uuid));
    if (ret == NVML_GPU_IS_LOST)
        return known_by_index(b, index);
    if (ret != NVML_OK || !uuid[0])
        return NULL;
    uuid[sizeof(uuid) - 1] = '\0';
    struct known_device *k = known_by_uuid(b, uuid);
    if (!k) {
        k = known_new(b);
        if (!k)
            return NULL;
        read_identity(b, handle, uuid, k);
    } else if (k->handle != handle) {
        k->xid_registered = false;
    }
    k->handle = handle;
    return k;
}

static void mark_lost(struct gpu_device *d)
{
    d->lost = true;
    d->processes_valid = false;
    d->process_util = GPU_LOST;
    d->n_processes = d->n_instances = 0;
    for (size_t f = 0; f < GPU_F_COUNT; f++)
        d->fields[f] = (struct gpu_value){.validity = GPU_LOST};
}

static void read_device(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    backend_watch_events(b, k);
    backend_read_fields(b, k, d);
    if (!b->device_lost)
        backend_read_instances(b, k, d);
    if (!b->device_lost)
        backend_read_processes(b, k, d);
}

static void add_device(struct gpu_backend *b, uint32_t index, struct gpu_snapshot *s)
{
    struct known_device *k = identify(b, index);
    if (!k || k->seen)
        return;
    k->seen = true;
    k->index = index;
    struct gpu_device *d = &s->devices[s->n_devices++];
    d->index = index;
    d->minor = k->minor;
    d->has_minor = k->has_minor;
    memcpy(d->uuid, k->uuid, sizeof(d->uuid));
    memcpy(d->name, k->name, sizeof(d->name));
    memcpy(d->pci_bus_id, k->pci_bus_id, sizeof(d->pci_bus_id));
    d->memory_total = k->memory_total;
    if (!b->device_lost)
        read_device(b, k, d);
    if (b->device_lost) {
        mark_lost(d);
        k->xid_registered = k->has_nvlink = false;
    }
    k->memory_total = d->memory_total;
}

static void enumerate(struct gpu_backend *b, unsigned count, struct gpu_snapshot *s)
{
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        b->known[i].seen = false;
    s->devices = gs_alloc_array(count ? count : 1, sizeof(*s->devices));
    for (uint32_t i = 0; i < count; i++)
        add_device(b, i, s);
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (!b->known[i].seen)
            b->known[i] = (struct known_device){0};
}

// XIDs are taken after the devices were registered, and also tell of the pass that just ended.
static void fill_xids(struct gpu_backend *b, struct gpu_snapshot *s)
{
    backend_take_events(b);
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct known_device *k = known_by_uuid(b, s->devices[i].uuid);
        if (!k || s->devices[i].lost)
            continue;
        s->devices[i].fields[GPU_F_XID_ERRORS] = (struct gpu_value){
            .validity = k->xid_validity,
            .i = (int64_t)k->last_xid,
        };
    }
}

struct gs_error *gpu_backend_sample(struct gpu_backend *b, struct gpu_snapshot **ret)
{
    int64_t start = gs_mono_ns();
    struct gs_error *err = make_ready(b);
    if (err)
        return err;
    unsigned count = 0;
    nvml_ret code = NVML(b, count, &count);
    if (code != NVML_OK) {
        err = nvml_error(b, NVML_CALL_count, code);
        // Also after the driver was unloaded or replaced: a fresh start is the only way back.
        unready(b);
        return err;
    }
    struct gpu_snapshot *s = gs_alloc(sizeof(*s));
    s->simulated = b->simulated;
    if (NVML(b, driver_version, s->driver_version, sizeof(s->driver_version)) != NVML_OK)
        s->driver_version[0] = '\0';
    enumerate(b, count < GPU_MAX_DEVICES ? count : GPU_MAX_DEVICES, s);
    fill_xids(b, s);
    s->errors = gs_alloc_array(b->n_errors ? b->n_errors : 1, sizeof(*s->errors));
    if (b->n_errors)
        memcpy(s->errors, b->errors, b->n_errors * sizeof(*s->errors));
    s->n_errors = b->n_errors;
    s->unix_ms = gs_unix_ms();
    s->duration_us = (gs_mono_ns() - start) / 1000;
    *ret = s;
    return NULL;
}
