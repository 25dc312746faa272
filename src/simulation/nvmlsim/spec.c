// SPDX-License-Identifier: Apache-2.0
// Specifications as text ("2xTesla-T4,A100"), and the model that a specification results in. An
// unknown model is possible if its memory is given.
#include "nvmlsim/sim.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "nvmlsim/nvmlsim_private.h"

static struct gs_error *unknown_model(const char *name)
{
    GS_AUTO_BUF struct gs_buf known = {0};
    const char *const *names = nvmlsim_model_names();
    size_t n = 0;
    for (; names[n]; n++)
        gs_buf_addf(&known, "%s%s", n ? ", " : "", names[n]);
    const char *near = gs_suggest(name, names, n);
    return gs_error_new(GS_EINVAL, "unknown GPU model \"%s\"%s%s%s; known models: %s", name,
                        near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                        known.data);
}

struct gs_error *nvmlsim_gpu_spec_set_model(struct nvmlsim_gpu_spec *g, const char *name)
{
    if (!*name || strlen(name) >= sizeof(g->model))
        return gs_error_new(GS_EINVAL, "a GPU model has 1 to %zu characters, not %zu",
                            sizeof(g->model) - 1, strlen(name));
    const struct nvmlsim_model *model = nvmlsim_model_find(name);
    if (!model && g->memory_mib == 0)
        return unknown_model(name);
    memset(g->model, 0, sizeof(g->model));
    const char *canonical = model ? model->name : name;
    memcpy(g->model, canonical, strlen(canonical));
    return NULL;
}

struct gs_error *nvmlsim_model_resolve(const struct nvmlsim_gpu_spec *g, struct nvmlsim_model *ret)
{
    const struct nvmlsim_model *known = nvmlsim_model_find(g->model);
    if (g->memory_mib > UINT32_MAX || (!known && g->memory_mib < 16))
        return gs_error_new(
            GS_EINVAL,
            "the model \"%s\" is unknown and therefore needs a memory size of at least 16 "
            "MiB",
            g->model);
    if (!known) {
        nvmlsim_model_custom(g->model, g->memory_mib, ret);
        return NULL;
    }
    if (g->memory_mib && g->memory_mib <= known->reserved_mib)
        return gs_error_new(GS_EINVAL, "%llu MiB is too small for a %s: its driver reserves %u MiB",
                            (unsigned long long)g->memory_mib, known->name, known->reserved_mib);
    *ret = *known;
    if (g->memory_mib)
        ret->memory_mib = (uint32_t)g->memory_mib;
    return NULL;
}

struct gs_error *nvmlsim_gpu_spec_check(const struct nvmlsim_gpu_spec *g)
{
    struct nvmlsim_model model;
    struct nvmlsim_mig_placed placed[NVMLSIM_MAX_MIG];
    struct gs_error *err = nvmlsim_model_resolve(g, &model);
    return err || !g->n_mig ? err : nvmlsim_mig_place_spec(g, &model, placed);
}

// Removes a prefix such as "8x"; returns 1 if there is none. Model names may contain an x.
static struct gs_error *cut_count(struct gs_slice *item, uint64_t *ret)
{
    size_t digits = 0;
    while (digits < item->len && item->data[digits] >= '0' && item->data[digits] <= '9')
        digits++;
    if (digits == 0 || digits == item->len || (item->data[digits] | 0x20) != 'x') {
        *ret = 1;
        return NULL;
    }
    struct gs_error *err = gs_parse_u64(gs_slice_make(item->data, digits), NVMLSIM_MAX_GPUS, ret);
    if (err || *ret == 0) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\": want 1 to %d GPUs",
                            GS_SLICE_ARG(*item), NVMLSIM_MAX_GPUS);
    }
    item->data += digits + 1;
    item->len -= digits + 1;
    return NULL;
}

struct gs_error *nvmlsim_spec_add(struct nvmlsim_spec *spec, const struct nvmlsim_gpu_spec *gpu,
                                  unsigned count)
{
    if (count > NVMLSIM_MAX_GPUS - spec->n_gpus)
        return gs_error_new(GS_EINVAL, "%u GPUs; at most %d can be simulated", spec->n_gpus + count,
                            NVMLSIM_MAX_GPUS);
    for (unsigned i = 0; i < count; i++)
        spec->gpus[spec->n_gpus++] = *gpu;
    return NULL;
}

struct gs_error *nvmlsim_spec_parse(const char *text, struct nvmlsim_spec *ret)
{
    GS_AUTO_FREE struct nvmlsim_spec *spec = gs_alloc(sizeof(*spec));
    struct gs_slice rest = gs_slice_of(text);
    while (rest.data) {
        struct gs_slice item = gs_slice_trim(gs_slice_cut(&rest, ','));
        uint64_t count = 0;
        struct gs_error *err = cut_count(&item, &count);
        if (err)
            return err;
        if (!item.len)
            return gs_error_new(GS_EINVAL,
                                "\"%s\" is not a list of GPUs; want, for example, "
                                "8xA100-SXM4-80GB or 2xTesla-K80,1xTesla-T4",
                                text);
        GS_AUTO_FREE char *name = gs_slice_dup(item);
        struct nvmlsim_gpu_spec gpu = {0};
        err = nvmlsim_gpu_spec_set_model(&gpu, name);
        if (!err)
            err = nvmlsim_spec_add(spec, &gpu, (unsigned)count);
        if (err)
            return err;
    }
    if (spec->n_gpus == 0)
        return gs_error_new(GS_EINVAL,
                            "no GPUs are specified; want, for example, 8xA100-SXM4-80GB");
    *ret = *spec;
    return NULL;
}
