// SPDX-License-Identifier: Apache-2.0
// MIG profiles of the models, from NVIDIA's MIG user guide, and the placement of instances on
// memory slices, with the IDs that the driver assigns.
#include "nvmlsim/nvmlsim_private.h"

#include "base/buf.h"
#include "base/slice.h"

// NVML_GPU_INSTANCE_PROFILE_*
enum {
    P_1G = 0,
    P_2G = 1,
    P_3G = 2,
    P_4G = 3,
    P_7G = 4,
    P_1G_ME = 7,
    P_2G_ME = 8,
    P_1G_DOUBLE = 9
};

#define SEVEN(m1, m2, m4, m8, g1, g2, g4, g8, s1, sd, s2, s3, s4, s7)                              \
    {                                                                                              \
        {"1g." g1, P_1G, 1, 1, 7, s1, m1}, {"1g." g1 "+me", P_1G_ME, 1, 1, 1, s1, m1},             \
            {"1g." g2, P_1G_DOUBLE, 1, 2, 4, sd, m2}, {"2g." g2, P_2G, 2, 2, 3, s2, m2},           \
            {"3g." g4, P_3G, 3, 4, 2, s3, m4}, {"4g." g4, P_4G, 4, 4, 1, s4, m4},                  \
            {"7g." g8, P_7G, 7, 8, 1, s7, m8},                                                     \
    }

static const struct nvmlsim_mig_profile a100_40[] =
    SEVEN(4864, 9856, 19968, 40192, "5gb", "10gb", "20gb", "40gb", 14, 14, 28, 42, 56, 98);
static const struct nvmlsim_mig_profile a100_80[] =
    SEVEN(9728, 19968, 40192, 80384, "10gb", "20gb", "40gb", "80gb", 14, 14, 28, 42, 56, 98);
static const struct nvmlsim_mig_profile h100_80[] =
    SEVEN(9984, 20096, 40448, 81152, "10gb", "20gb", "40gb", "80gb", 16, 26, 32, 60, 64, 132);
static const struct nvmlsim_mig_profile h200[] =
    SEVEN(16384, 33280, 71424, 143104, "18gb", "35gb", "71gb", "141gb", 16, 26, 32, 60, 64, 132);
static const struct nvmlsim_mig_profile b200[] =
    SEVEN(21632, 43776, 91136, 182528, "23gb", "45gb", "90gb", "180gb", 18, 30, 36, 70, 74, 148);
static const struct nvmlsim_mig_profile h100_nvl[] =
    SEVEN(11008, 22144, 47488, 95360, "12gb", "24gb", "47gb", "94gb", 16, 26, 32, 60, 64, 132);
static const struct nvmlsim_mig_profile gb200[] =
    SEVEN(22336, 45184, 94080, 188416, "23gb", "47gb", "93gb", "186gb", 18, 30, 36, 70, 74, 152);
static const struct nvmlsim_mig_profile rtx_pro_6000[] = {
    {"1g.24gb", P_1G, 1, 1, 4, 46, 24064},  {"1g.24gb+me", P_1G_ME, 1, 1, 1, 46, 24064},
    {"2g.48gb", P_2G, 2, 2, 2, 94, 48512},  {"2g.48gb+me", P_2G_ME, 2, 2, 1, 94, 48512},
    {"4g.96gb", P_4G, 4, 4, 1, 188, 97152},
};
static const struct nvmlsim_mig_profile a30[] = {
    {"1g.6gb", P_1G, 1, 1, 4, 14, 5952},   {"1g.6gb+me", P_1G_ME, 1, 1, 1, 14, 5952},
    {"2g.12gb", P_2G, 2, 2, 2, 28, 11968}, {"2g.12gb+me", P_2G_ME, 2, 2, 1, 28, 11968},
    {"4g.24gb", P_4G, 4, 4, 1, 56, 24064},
};

const struct nvmlsim_mig_profile *nvmlsim_mig_profiles(const char *model, unsigned *ret_n)
{
    static const struct {
        const char *model;
        const struct nvmlsim_mig_profile *profiles;
        unsigned n;
    } boards[] = {
        {"A100-SXM4-40GB", a100_40, GS_ARRAY_LEN(a100_40)},
        {"A100-SXM4-80GB", a100_80, GS_ARRAY_LEN(a100_80)},
        {"H100-80GB-HBM3", h100_80, GS_ARRAY_LEN(h100_80)},
        {"H200", h200, GS_ARRAY_LEN(h200)},
        {"B200", b200, GS_ARRAY_LEN(b200)},
        {"A30", a30, GS_ARRAY_LEN(a30)},
        {"H100-NVL", h100_nvl, GS_ARRAY_LEN(h100_nvl)},
        {"GB200", gb200, GS_ARRAY_LEN(gb200)},
        {"RTX-PRO-6000", rtx_pro_6000, GS_ARRAY_LEN(rtx_pro_6000)},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(boards); i++) {
        if (gs_streq(boards[i].model, model)) {
            *ret_n = boards[i].n;
            return boards[i].profiles;
        }
    }
    *ret_n = 0;
    return NULL;
}

// Removes "1c.". 0: the whole GPU instance.
static uint32_t cut_slices(const char **name)
{
    const char *p = *name;
    if (p[0] < '1' || p[0] > '7' || p[1] != 'c' || p[2] != '.')
        return 0;
    *name += 3;
    return (uint32_t)(p[0] - '0');
}

static struct gs_error *find_profile(const struct nvmlsim_model *model, const char *name,
                                     const struct nvmlsim_mig_profile **ret)
{
    unsigned n = 0;
    const struct nvmlsim_mig_profile *profiles = nvmlsim_mig_profiles(model->name, &n);
    if (!n)
        return gs_error_new(GS_EINVAL, "%s does not support MIG", model->name);
    GS_AUTO_BUF struct gs_buf known = {0};
    for (unsigned i = 0; i < n; i++) {
        if (gs_streq(profiles[i].name, name)) {
            *ret = &profiles[i];
            return NULL;
        }
        gs_buf_addf(&known, "%s%s", i ? ", " : "", profiles[i].name);
    }
    return gs_error_new(GS_EINVAL, "%s has no MIG profile \"%s\"; it has %s", model->name, name,
                        known.data);
}

// IDs as the driver assigns them: larger instances first, then by position.
static uint32_t instance_id(const struct nvmlsim_mig_profile *p, uint32_t start, uint32_t all_mem)
{
    return all_mem / p->mem_slices - 1 + start / p->mem_slices;
}

struct board {
    uint32_t mem_slices, slices;
};

// Depth-first search over the possible starts. `used` is the bitmask of occupied memory slices.
static bool place_from(const struct board *b, struct nvmlsim_mig_placed *p, unsigned i, unsigned n,
                       uint32_t used, uint32_t compute_left)
{
    if (i == n)
        return true;
    const struct nvmlsim_mig_profile *prof = p[i].profile;
    if (prof->slices > compute_left)
        return false;
    uint32_t mask = (1U << prof->mem_slices) - 1;
    for (uint32_t at = 0; at + prof->mem_slices <= b->mem_slices; at += prof->mem_slices) {
        // Compute slices are assigned to memory slices; the eighth memory slice has none.
        if (at + prof->slices > b->slices || (used & (mask << at)))
            continue;
        p[i].start = at;
        p[i].gi_id = instance_id(prof, at, b->mem_slices);
        if (place_from(b, p, i + 1, n, used | (mask << at), compute_left - prof->slices))
            return true;
    }
    return false;
}

static bool counts_fit(const struct nvmlsim_mig_placed *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < n; j++)
            same += p[j].profile == p[i].profile;
        if (same > p[i].profile->max_count)
            return false;
    }
    return true;
}

// A compute instance is added to the previous GPU instance if the profile matches and slices are
// free.
static bool join_last(struct nvmlsim_mig_placed *p, unsigned i)
{
    if (!i || p[i - 1].profile != p[i].profile ||
        p[i - 1].ci_start + p[i - 1].ci_slices + p[i].ci_slices > p[i].profile->slices)
        return false;
    p[i].ci_id = p[i - 1].ci_id + 1;
    p[i].ci_start = p[i - 1].ci_start + p[i - 1].ci_slices;
    return true;
}

// Fills profiles and compute instances. *ret_first: the *ret_n entries that begin a GPU instance.
static struct gs_error *read_names(const struct nvmlsim_model *model, const char *const *names,
                                   unsigned n, struct nvmlsim_mig_placed *placed,
                                   unsigned *ret_first, unsigned *ret_n)
{
    *ret_n = 0;
    for (unsigned i = 0; i < n; i++) {
        const char *name = names[i];
        uint32_t slices = cut_slices(&name);
        struct gs_error *err = find_profile(model, name, &placed[i].profile);
        if (err)
            return err;
        if (slices > placed[i].profile->slices)
            return gs_error_new(GS_EINVAL, "MIG profile \"%s\": %s has %u compute slices", names[i],
                                name, placed[i].profile->slices);
        placed[i].ci_slices = slices ? slices : placed[i].profile->slices;
        if (!slices || !join_last(placed, i))
            ret_first[(*ret_n)++] = i;
    }
    return NULL;
}

struct gs_error *nvmlsim_mig_place(const struct nvmlsim_model *model, const char *const *names,
                                   unsigned n, struct nvmlsim_mig_placed *ret)
{
    struct nvmlsim_mig_placed placed[NVMLSIM_MAX_MIG] = {{0}}, instances[NVMLSIM_MAX_MIG] = {{0}};
    unsigned first[NVMLSIM_MAX_MIG] = {0}, n_instances = 0;
    if (n > NVMLSIM_MAX_MIG)
        return gs_error_new(GS_EINVAL, "%s: %u MIG instances: a GPU has at most %d", model->name, n,
                            NVMLSIM_MAX_MIG);
    struct gs_error *err = read_names(model, names, n, placed, first, &n_instances);
    if (err)
        return err;
    GS_AUTO_BUF struct gs_buf list = {0};
    for (unsigned i = 0; i < n; i++)
        gs_buf_addf(&list, "%s%s", i ? ", " : "", names[i]);
    for (unsigned i = 0; i < n_instances; i++)
        instances[i] = placed[first[i]];
    struct board b = {.mem_slices = model->mig_slices == 4 ? 4 : 8, .slices = model->mig_slices};
    if (!counts_fit(instances, n_instances) ||
        !place_from(&b, instances, 0, n_instances, 0, b.slices))
        return gs_error_new(GS_EINVAL,
                            "the MIG instances %s do not fit on one %s: it has %u compute and %u "
                            "memory slices",
                            list.data, model->name, b.slices, b.mem_slices);
    for (unsigned i = 0, k = 0; i < n; i++) {
        k += k + 1 < n_instances && first[k + 1] == i;
        placed[i].gi_id = instances[k].gi_id;
        placed[i].start = instances[k].start;
    }
    memcpy(ret, placed, n * sizeof(*ret));
    return NULL;
}

struct gs_error *nvmlsim_mig_place_spec(const struct nvmlsim_gpu_spec *g,
                                        const struct nvmlsim_model *model,
                                        struct nvmlsim_mig_placed *ret)
{
    const char *names[NVMLSIM_MAX_MIG];
    for (unsigned i = 0; i < g->n_mig && i < NVMLSIM_MAX_MIG; i++)
        names[i] = g->mig[i].profile;
    return nvmlsim_mig_place(model, names, g->n_mig, ret);
}
