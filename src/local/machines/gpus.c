// SPDX-License-Identifier: Apache-2.0
// The GPUs of a node, real or simulated, as device IDs of the device plugin. A set of simulated
// GPUs is named by user and data directory, so that a later run finds and removes what a crash
// left.
#include "local/machines/machines_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "nvmlsim/simulation/simulation.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MODEL "A100-SXM4-80GB"

void machines_gpus_add(struct machines_gpus *d, const char *uuid, unsigned slice, unsigned slices)
{
    if (slice == 0)
        d->n_whole++;
    gs_grow(&d->ids, &d->cap, d->n, sizeof(*d->ids));
    d->ids[d->n++] = slices > 1 ? gs_format("%s::%u", uuid, slice) : gs_strdup(uuid);
}

// The longest value of a label without the suffix of shared GPUs.
#define MAX_PRODUCT ((size_t)63 - strlen("-SHARED"))

// Node labels allow letters, digits, '-', '_' and '.', and begin and end with a letter or digit.
char *machines_gpu_product(const char *text)
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

static void list_simulated(struct machines_gpus *d)
{
    d->n_gpus = nvmlsim_gpu_count(d->sim);
    for (unsigned i = 0; i < d->n_gpus; i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(d->sim, i, &info);
        unsigned slices = info.time_slices > 1 ? info.time_slices : 1;
        d->slices_renamed |= slices > 1 && info.slices_renamed;
        d->slices_single |= slices > 1 && info.slices_single;
        if (!d->product) {
            d->product = machines_gpu_product(info.product);
            d->memory_mib = info.memory_total >> 20;
            d->slices = slices;
        }
        for (unsigned s = 0; s < slices; s++) {
            for (unsigned m = 0; m < info.n_mig; m++)
                machines_gpus_add(d, info.mig_uuid[m], s, slices);
            if (!info.n_mig)
                machines_gpus_add(d, info.uuid, s, slices);
        }
    }
}

char *machines_gpu_spec(const struct nodes_pool *pool)
{
    char *spec = gs_format("%zux%s", pool->gpus, pool->gpu_model ? pool->gpu_model : DEFAULT_MODEL);
    for (char *c = spec; *c; c++)
        if (*c == ' ') // "Tesla T4"
            *c = '-';
    return spec;
}

char *machines_set_name(const char *data_dir)
{
    return gs_format("/gpuscale-up-%u-%08x", (unsigned)getuid(),
                     (unsigned)gs_hash(data_dir, strlen(data_dir)));
}

struct gs_error *machines_gpus_simulate(const char *spec_text, const char *set,
                                        struct machines_gpus *ret)
{
    struct machines_gpus d = {0};
    struct nvmlsim_spec spec;
    struct gs_error *err = simulation_load_spec(spec_text, &spec);
    if (!err)
        err = simulation_find_library(&d.sim_library);
    if (!err)
        err = nvmlsim_create(set, &spec, &d.sim);
    if (err) {
        free(d.sim_library);
        return gs_error_wrap(err, "simulated GPUs");
    }
    nvmlsim_engine_control(d.sim, NVMLSIM_ENGINE_START);
    d.sim_name = gs_strdup(set);
    d.simulated = true;
    snprintf(d.driver_version, sizeof(d.driver_version), "%u." NVMLSIM_DRIVER_MINOR,
             (unsigned)NVMLSIM_DRIVER_BRANCH);
    d.cuda_version = NVMLSIM_CUDA_VERSION;
    list_simulated(&d);
    *ret = d;
    return NULL;
}

void machines_gpus_finish(struct machines_gpus *d)
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
    *d = (struct machines_gpus){0};
}
