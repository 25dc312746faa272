// SPDX-License-Identifier: Apache-2.0
// Labels that NVIDIA's GPU feature discovery, and GKE, set on nodes, from what the driver reports.
// What the driver does not report follows from the model's name, in the order of the table.
#include "local/machines/machines_private.h"

#include "base/mem.h"
#include "codec/json.h"

#include <string.h>

// What the driver's name of a GPU implies. The first row whose words all occur in the name applies.
static const struct gpu_model {
    const char *word, *second; // second may be NULL
    int cc_major, cc_minor;
    const char *gke; // cloud.google.com/gke-accelerator; NULL: GKE does not offer it
    bool mig;
} models[] = {
    {"K80", NULL, 3, 7, "nvidia-tesla-k80", false},
    {"P100", NULL, 6, 0, "nvidia-tesla-p100", false},
    {"P40", NULL, 6, 1, NULL, false},
    {"P4", NULL, 6, 1, "nvidia-tesla-p4", false},
    {"V100", NULL, 7, 0, "nvidia-tesla-v100", false},
    {"T4", NULL, 7, 5, "nvidia-tesla-t4", false},
    {"A100", "80GB", 8, 0, "nvidia-a100-80gb", true},
    {"A100", NULL, 8, 0, "nvidia-tesla-a100", true},
    {"A30", NULL, 8, 0, NULL, true},
    {"A10", NULL, 8, 6, NULL, false},
    {"A10G", NULL, 8, 6, NULL, false},
    {"A16", NULL, 8, 6, NULL, false},
    {"A40", NULL, 8, 6, NULL, false},
    {"L4", NULL, 8, 9, "nvidia-l4", false},
    {"L40", NULL, 8, 9, NULL, false},
    {"L40S", NULL, 8, 9, NULL, false},
    {"4090", NULL, 8, 9, NULL, false},
    {"H100", "NVL", 9, 0, NULL, true},
    {"H100", NULL, 9, 0, "nvidia-h100-80gb", true},
    {"H200", NULL, 9, 0, "nvidia-h200-141gb", true},
    {"GH200", NULL, 9, 0, NULL, true},
    {"B200", NULL, 10, 0, "nvidia-b200", true},
    {"GB200", NULL, 10, 0, "nvidia-gb200", true},
    {"6000", "Blackwell", 12, 0, "nvidia-rtx-pro-6000", true},
};

// A word of letters and digits between separators: "A100" is in "NVIDIA A100-SXM4-80GB", "A10" is
// not.
static bool has_word(const char *name, const char *word)
{
    static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strlen(word);
    for (const char *at = name; *at; at += strspn(at, alnum)) {
        at += strcspn(at, alnum);
        if (strspn(at, alnum) == len && strncmp(at, word, len) == 0)
            return true;
    }
    return false;
}

static const struct gpu_model *find_model(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(models); i++)
        if (has_word(name, models[i].word) &&
            (!models[i].second || has_word(name, models[i].second)))
            return &models[i];
    return NULL;
}

// GPU feature discovery's names of architectures.
static const char *family_of(int major, int minor)
{
    static const char *const names[] = {[3] = "kepler", [5] = "maxwell",    [6] = "pascal",
                                        [9] = "hopper", [10] = "blackwell", [12] = "blackwell"};
    if (major == 7)
        return minor < 5 ? "volta" : "turing";
    if (major == 8)
        return minor < 9 ? "ampere" : "ada-lovelace";
    return major >= 0 && (size_t)major < GS_ARRAY_LEN(names) ? names[major] : NULL;
}

static void set_number(json_t *labels, const char *key, long long n)
{
    json_object_set_new(labels, key, codec_json_strf("%lld", n));
}

static void add_model_labels(json_t *l, const struct machines_gpus *d)
{
    const struct gpu_model *m = d->product ? find_model(d->product) : NULL;
    if (!m)
        return;
    set_number(l, "nvidia.com/gpu.compute.major", m->cc_major);
    set_number(l, "nvidia.com/gpu.compute.minor", m->cc_minor);
    codec_json_set_str(l, "nvidia.com/gpu.family", family_of(m->cc_major, m->cc_minor));
    codec_json_set_str(l, "nvidia.com/mig.capable", m->mig ? "true" : "false");
    codec_json_set_str(l, "cloud.google.com/gke-accelerator", m->gke);
}

// Labels of the driver: "570.124.06-simulated" is 570, 124 and 06.
static void add_driver_labels(json_t *l, const char *version)
{
    static const char *const keys[][2] = {
        {"nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver-version.major"},
        {"nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver-version.minor"},
        {"nvidia.com/cuda.driver.rev", "nvidia.com/cuda.driver-version.revision"},
    };
    size_t len = strspn(version, "0123456789.");
    struct gs_slice rest = gs_slice_make(version, len);
    if (!len)
        return;
    json_object_set_new(l, "nvidia.com/cuda.driver-version.full", json_stringn(version, len));
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        struct gs_slice part = rest.data ? gs_slice_cut(&rest, '.') : gs_slice_of("");
        for (size_t k = 0; k < 2; k++)
            json_object_set_new(l, keys[i][k], json_stringn(part.data, part.len));
    }
}

static void add_cuda_labels(json_t *l, int version)
{
    if (version <= 0)
        return;
    int major = version / 1000, minor = version % 1000 / 10;
    set_number(l, "nvidia.com/cuda.runtime.major", major);
    set_number(l, "nvidia.com/cuda.runtime.minor", minor);
    set_number(l, "nvidia.com/cuda.runtime-version.major", major);
    set_number(l, "nvidia.com/cuda.runtime-version.minor", minor);
    json_object_set_new(l, "nvidia.com/cuda.runtime-version.full",
                        codec_json_strf("%d.%d", major, minor));
}

json_t *machines_gpu_labels(const struct machines_gpus *d)
{
    json_t *l = json_object();
    if (!d->n)
        return l;
    codec_json_set_str(l, "nvidia.com/gpu.present", "true");
    set_number(l, "nvidia.com/gpu.count", (long long)d->n_whole);
    set_number(l, "nvidia.com/gpu.replicas", d->slices);
    codec_json_set_str(l, "nvidia.com/gpu.sharing-strategy",
                       d->slices > 1 ? "time-slicing" : "none");
    if (d->product)
        json_object_set_new(l, "nvidia.com/gpu.product",
                            codec_json_strf("%s%s", d->product,
                                            d->slices > 1 && !d->slices_renamed ? "-SHARED" : ""));
    if (d->memory_mib)
        set_number(l, "nvidia.com/gpu.memory", (long long)d->memory_mib);
    add_model_labels(l, d);
    add_driver_labels(l, d->driver_version);
    add_cuda_labels(l, d->cuda_version);
    codec_json_set_str(l, "accelerator", "nvidia-gpu"); // by which guides select nodes
    return l;
}
