// SPDX-License-Identifier: Apache-2.0
#include "up/up_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "nvmlsim/simulation/simulation.h"

#include <ctype.h>
#include <unistd.h>

#define DEFAULT_SPEC "8xA100-SXM4-80GB"

static void add_id(struct up_devices *d, const char *uuid, unsigned slice, unsigned slices)
{
    if (slice == 0)
        d->n_whole++;
    gs_grow(&d->ids, &d->cap, d->n, sizeof(*d->ids));
    d->ids[d->n++] = slices > 1 ? gs_format("%s::%u", uuid, slice) : gs_strdup(uuid);
}

// The longest value of a label without the suffix of shared GPUs.
#define MAX_PRODUCT ((size_t)63 - strlen("-SHARED"))

// Node labels allow letters, digits, '-', '_' and '.', and begin and end with a letter or digit.
static char *as_label(const char *text)
{
    while (*text && !isalnum((unsigned char)*text))
        text++;
    char *label = gs_strndup(text, strnlen(text, MAX_PRODUCT));
    size_t len = strlen(label);
    while (len && !isalnum((unsigned char)label[len - 1]))
        label[--len] = '\0';
    for (char *c = label; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_' && *c != '.')
            *c = '-';
    return label;
}

static void list_simulated(struct up_devices *d)
{
    d->n_gpus = nvmlsim_gpu_count(d->sim);
    for (unsigned i = 0; i < d->n_gpus; i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(d->sim, i, &info);
        unsigned slices = info.time_slices > 1 ? info.time_slices : 1;
        if (!d->product) {
            d->product = as_label(info.product);
            d->memory_mib = info.memory_total >> 20;
            d->slices = slices;
        }
        for (unsigned s = 0; s < slices; s++) {
            for (unsigned m = 0; m < info.n_mig; m++)
                add_id(d, info.mig_uuid[m], s, slices);
            if (!info.n_mig)
                add_id(d, info.uuid, s, slices);
        }
    }
}

static struct gs_error *open_simulated(const char *text, const char *data_dir, struct up_devices *d)
{
    struct nvmlsim_spec spec;
    struct gs_error *err = simulation_load_spec(text, &spec);
    if (!err)
        err = simulation_find_library(&d->sim_library);
    if (err)
        return err;
    GS_AUTO_FREE char *prefix = gs_format("/gpuscale-up-%u-", (unsigned)getuid());
    nvmlsim_remove_unused(prefix);
    // The name is unique for each data directory and user, so that instances do not share GPUs.
    d->sim_name = gs_format("%s%08x", prefix, (unsigned)gs_hash(data_dir, strlen(data_dir)));
    err = nvmlsim_create(d->sim_name, &spec, &d->sim);
    if (err)
        return gs_error_wrap(err, "simulated GPUs");
    d->simulated = true;
    snprintf(d->driver_version, sizeof(d->driver_version), "%u." NVMLSIM_DRIVER_MINOR,
             (unsigned)NVMLSIM_DRIVER_BRANCH);
    d->cuda_version = NVMLSIM_CUDA_VERSION;
    list_simulated(d);
    return NULL;
}

static struct gs_error *open_real(struct up_devices *d)
{
    struct gpu_backend *backend;
    const struct gpu_backend_config cfg = {0};
    struct gs_error *err = gpu_backend_open(&cfg, &backend);
    if (err)
        return err;
    struct gpu_snapshot *snapshot;
    err = gpu_backend_sample(backend, &snapshot);
    if (!err) {
        d->n_gpus = snapshot->n_devices;
        d->slices = 1;
        memcpy(d->driver_version, snapshot->driver_version, sizeof(d->driver_version));
        d->cuda_version = snapshot->cuda_version;
        for (size_t i = 0; i < snapshot->n_devices; i++) {
            if (!d->product) {
                d->product = as_label(snapshot->devices[i].name);
                d->memory_mib = snapshot->devices[i].memory_total >> 20;
            }
            if (!snapshot->devices[i].lost)
                add_id(d, snapshot->devices[i].uuid, 0, 1);
        }
        gpu_snapshot_free(snapshot);
    }
    gpu_backend_close(backend);
    if (!err && !d->n)
        err = gs_error_new(GS_ENOTFOUND, "the NVIDIA driver has no usable GPU");
    return err;
}

struct gs_error *up_devices_open(const char *spec, const char *data_dir, struct up_devices *ret)
{
    struct up_devices d = {0};
    struct gs_error *err = NULL;
    if (!spec) {
        err = open_real(&d);
        if (err && gs_error_code(err) == GS_ENOTFOUND) {
            gs_debug("up", "%s", gs_error_message(err));
            gs_info("up", "no NVIDIA driver on this machine: simulating " DEFAULT_SPEC
                          " (--gpus chooses others)");
            gs_error_free(err);
            err = NULL;
            spec = DEFAULT_SPEC;
        } else if (err) {
            err = gs_error_wrap(err, "the GPUs of this machine (--gpus " DEFAULT_SPEC
                                     " simulates some instead)");
        }
    }
    if (!err && spec)
        err = open_simulated(spec, data_dir, &d);
    if (err) {
        up_devices_finish(&d);
        return err;
    }
    *ret = d;
    return NULL;
}

void up_devices_finish(struct up_devices *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->ids[i]);
    free(d->ids);
    free(d->product);
    if (d->sim) {
        nvmlsim_detach(d->sim);
        gs_error_free(nvmlsim_unlink(d->sim_name));
    }
    free(d->sim_name);
    free(d->sim_library);
    *d = (struct up_devices){0};
}
