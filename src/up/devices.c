// SPDX-License-Identifier: Apache-2.0
#include "up/up_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "nvmlsim/simulation/simulation.h"

#include <unistd.h>

#define DEFAULT_SPEC "8xA100-SXM4-80GB"

static void add_id(struct up_devices *d, const char *uuid, unsigned slice, unsigned slices)
{
    gs_grow(&d->ids, &d->cap, d->n, sizeof(*d->ids));
    d->ids[d->n++] = slices > 1 ? gs_format("%s::%u", uuid, slice) : gs_strdup(uuid);
}

// Node labels allow letters, digits, '-', '_' and '.'.
static char *as_label(const char *text)
{
    char *label = gs_strdup(text);
    for (char *c = label; *c; c++)
        if (*c == ' ' || *c == '/' || *c == '(' || *c == ')')
            *c = '-';
    return label;
}

static void list_simulated(struct up_devices *d)
{
    d->n_gpus = nvmlsim_gpu_count(d->sim);
    for (unsigned i = 0; i < d->n_gpus; i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(d->sim, i, &info);
        if (!d->product)
            d->product = as_label(info.model);
        unsigned slices = info.time_slices > 1 ? info.time_slices : 1;
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
    // The name is unique for each data directory and user, so that instances do not share GPUs.
    d->sim_name = gs_format("/gpuscale-%u-%08x", (unsigned)getuid(),
                            (unsigned)gs_hash(data_dir, strlen(data_dir)));
    err = nvmlsim_create(d->sim_name, &spec, &d->sim);
    if (err)
        return gs_error_wrap(err, "simulated GPUs");
    d->simulated = true;
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
        for (size_t i = 0; i < snapshot->n_devices; i++) {
            if (!d->product)
                d->product = as_label(snapshot->devices[i].name);
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
