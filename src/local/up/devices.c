// SPDX-License-Identifier: Apache-2.0
// The GPUs of the first node: the machine's, or simulated ones if there is no driver or the user
// wants it. A driver that fails is an error, not a reason to simulate.
#include "up/up_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "gpu/gpu.h"

#include <unistd.h>

#define DEFAULT_SPEC "8xA100-SXM4-80GB"

static struct gs_error *open_simulated(const char *text, const char *data_dir,
                                       struct machines_gpus *ret)
{
    GS_AUTO_FREE char *prefix = gs_format("/gpuscale-up-%u-", (unsigned)getuid());
    GS_AUTO_FREE char *set = machines_set_name(data_dir);
    nvmlsim_remove_unused(prefix);
    return gs_streq(text, "none") || gs_streq(text, "0") ? NULL
                                                         : machines_gpus_simulate(text, set, ret);
}

static struct gs_error *open_real(struct machines_gpus *d)
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
                d->product = machines_gpu_product(snapshot->devices[i].name);
                d->memory_mib = snapshot->devices[i].memory_total >> 20;
            }
            if (!snapshot->devices[i].lost)
                machines_gpus_add(d, snapshot->devices[i].uuid, 0, 1);
        }
        gpu_snapshot_free(snapshot);
    }
    gpu_backend_close(backend);
    if (!err && !d->n)
        err = gs_error_new(GS_ENOTFOUND, "the NVIDIA driver has no usable GPU");
    return err;
}

struct gs_error *up_devices_open(const char *spec, const char *data_dir, struct machines_gpus *ret)
{
    struct machines_gpus d = {0};
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
        machines_gpus_finish(&d);
        return err;
    }
    *ret = d;
    return NULL;
}
