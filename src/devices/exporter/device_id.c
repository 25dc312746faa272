// SPDX-License-Identifier: Apache-2.0
// Device IDs of the kubelet as keys of the device map. Device plugins add marks for replicas and
// units to the UUID, or use indexes; a key is what is left, in one form for all.
#include "exporter/device_map.h"

#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { GPU_UUID_LEN = 4 + 36 }; // "GPU-" and 8-4-4-4-12

static bool all_digits(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isdigit((unsigned char)s.data[i]))
            return false;
    return s.len > 0 && s.len <= 9;
}

static bool printed_completely(int n, size_t size)
{
    return n > 0 && (size_t)n < size;
}

// --- resources ---

// How the GPU of a resource is selected, independent of the format of its IDs.
static enum exporter_sharing sharing_of_resource(const char *resource)
{
    static const struct {
        const char *name;
        enum exporter_sharing sharing;
    } rows[] = {
        {"aliyun.com/gpu-mem", EXPORTER_SHARING_ALIYUN},
        {"volcano.sh/gpu-memory", EXPORTER_SHARING_VOLCANO},
        {"volcano.sh/gpu-number", EXPORTER_SHARING_VOLCANO},
        {"volcano.sh/vgpu-number", EXPORTER_SHARING_VGPU},
        {"volcano.sh/vgpu-memory", EXPORTER_SHARING_VGPU},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        if (gs_streq(resource, rows[i].name))
            return rows[i].sharing;
    return EXPORTER_SHARING_NONE;
}

bool exporter_device_resource_is_gpu(const char *resource, const char *const *extra, size_t n_extra)
{
    if (gs_streq(resource, "nvidia.com/gpu") || gs_streq(resource, "nvidia.com/gpu.shared") ||
        gs_starts(resource, "nvidia.com/mig-") ||
        sharing_of_resource(resource) != EXPORTER_SHARING_NONE)
        return true;
    for (size_t i = 0; i < n_extra; i++)
        if (gs_streq(resource, extra[i]))
            return true;
    return false;
}

static bool is_companion(const char *resource)
{
    static const char *const companions[] = {
        "aliyun.com/gpu-count",  "aliyun.com/gpu-core.percentage",
        "nvidia.com/gpumem",     "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",   "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(companions); i++)
        if (gs_streq(resource, companions[i]))
            return true;
    return false;
}

bool exporter_device_resource_looks_like_gpu(const char *resource)
{
    return strcasestr(resource, "gpu") != NULL && !is_companion(resource);
}

bool exporter_device_resource_of_nvidia(const char *resource)
{
    return gs_starts(resource, "nvidia.com/") && !is_companion(resource);
}

// --- IDs ---

// Removes "::<n>" (NVIDIA) or "/vgpu<n>" (GKE); true if present.
static bool cut_replica(struct gs_slice *id, struct gs_slice *ret_mark)
{
    for (size_t i = 0; i + 1 < id->len; i++) {
        if (id->data[i] == ':' && id->data[i + 1] == ':') {
            *ret_mark = gs_slice_make(id->data + i + 2, id->len - i - 2);
            id->len = i;
            return true;
        }
    }
    const char *slash = id->len ? memrchr(id->data, '/', id->len) : NULL;
    if (!slash)
        return false;
    struct gs_slice last = gs_slice_make(slash + 1, id->len - (size_t)(slash + 1 - id->data));
    if (!gs_slice_starts(last, "vgpu") || !all_digits(gs_slice_make(last.data + 4, last.len - 4)))
        return false;
    *ret_mark = gs_slice_make(last.data + 4, last.len - 4);
    id->len = (size_t)(slash - id->data);
    return true;
}

// "GPU-<uuid>-_-<n>" (gpushare), "GPU-<uuid>-<n>" (HAMi), "<index>-<n>" (Volcano).
static enum exporter_sharing cut_unit(const char *resource, struct gs_slice *id)
{
    enum exporter_sharing by_resource = sharing_of_resource(resource);
    bool uuid = id->len > GPU_UUID_LEN && gs_slice_starts(*id, "GPU-");
    struct gs_slice rest = uuid ? gs_slice_make(id->data + GPU_UUID_LEN, id->len - GPU_UUID_LEN)
                                : (struct gs_slice){0};
    bool aliyun =
        gs_slice_starts(rest, "-_-") && all_digits(gs_slice_make(rest.data + 3, rest.len - 3));
    bool hami =
        gs_slice_starts(rest, "-") && all_digits(gs_slice_make(rest.data + 1, rest.len - 1));
    if (aliyun || hami)
        id->len = GPU_UUID_LEN;
    if (by_resource != EXPORTER_SHARING_NONE)
        return by_resource;
    return aliyun ? EXPORTER_SHARING_ALIYUN : hami ? EXPORTER_SHARING_HAMI : EXPORTER_SHARING_NONE;
}

// "MIG-GPU-<uuid>/<gi>/<ci>" of drivers before R470.
static bool old_mig_key(struct gs_slice id, char *ret, size_t size)
{
    struct gs_slice rest = gs_slice_make(id.data + 4, id.len - 4);
    struct gs_slice uuid = gs_slice_cut(&rest, '/'), gi = gs_slice_cut(&rest, '/');
    bool later = all_digits(rest) && !gs_slice_eq_str(rest, "0"); // the first device has no number
    return all_digits(gi) &&
           printed_completely(snprintf(ret, size, GS_SLICE_FMT "/gi" GS_SLICE_FMT "%s" GS_SLICE_FMT,
                                       GS_SLICE_ARG(uuid), GS_SLICE_ARG(gi), later ? "/ci" : "",
                                       GS_SLICE_ARG(later ? rest : GS_SLICE(""))),
                              size);
}

static bool volcano_key(struct gs_slice id, char *ret, size_t size)
{
    struct gs_slice index = gs_slice_cut(&id, '-');
    return all_digits(index) &&
           printed_completely(snprintf(ret, size, "#" GS_SLICE_FMT, GS_SLICE_ARG(index)), size);
}

bool exporter_device_id_parse(const char *resource, struct gs_slice id,
                              struct exporter_device_id *ret)
{
    struct gs_slice mark = GS_SLICE("");
    *ret = (struct exporter_device_id){0};
    ret->sharing = cut_unit(resource, &id);
    if (ret->sharing == EXPORTER_SHARING_NONE)
        ret->replica = cut_replica(&id, &mark);
    snprintf(ret->mark, sizeof(ret->mark), GS_SLICE_FMT, GS_SLICE_ARG(mark));
    if (gs_slice_starts(id, "MIG-GPU-"))
        return old_mig_key(id, ret->key, sizeof(ret->key));
    if (ret->sharing == EXPORTER_SHARING_VOLCANO)
        return volcano_key(id, ret->key, sizeof(ret->key));
    return printed_completely(snprintf(ret->key, sizeof(ret->key), GS_SLICE_FMT, GS_SLICE_ARG(id)),
                              sizeof(ret->key));
}

static bool is_uuid(const char *key)
{
    bool mig = gs_starts(key, "MIG-");
    if (!mig && !gs_starts(key, "GPU-"))
        return false;
    size_t n = strspn(key + 4, "0123456789abcdefABCDEF-");
    return n == GPU_UUID_LEN - 4 && (!key[4 + n] || key[4 + n] == '/');
}

bool exporter_device_id_renamed(const char *resource, struct gs_slice id,
                                struct exporter_device_id *ret)
{
    if (is_companion(resource) || !exporter_device_id_parse(resource, id, ret) ||
        ret->sharing != EXPORTER_SHARING_NONE)
        return false;
    bool node = gs_starts(ret->key, "nvidia") && isdigit((unsigned char)ret->key[6]);
    return is_uuid(ret->key) || (node && exporter_device_resource_of_nvidia(resource));
}

// --- claims ---

bool exporter_device_key_of_profile(const char *gpu, const char *profile, char *ret, size_t size)
{
    char plain[32];
    size_t n = 0;
    for (; *profile && n + 1 < sizeof(plain); profile++)
        if (isalnum((unsigned char)*profile))
            plain[n++] = (char)tolower((unsigned char)*profile);
    plain[n] = '\0';
    return n && printed_completely(snprintf(ret, size, "%s/profile/%s", gpu, plain), size);
}

bool exporter_device_key_of_claim(const char *device, char *ret, size_t size)
{
    if (!gs_starts(device, "gpu-"))
        return false;
    struct gs_slice rest = gs_slice_of(device + 4), minor = gs_slice_cut(&rest, '-');
    if (!all_digits(minor))
        return false;
    char gpu[32], profile[32];
    snprintf(gpu, sizeof(gpu), "nvidia" GS_SLICE_FMT, GS_SLICE_ARG(minor));
    if (!rest.data)
        return printed_completely(snprintf(ret, size, "%s", gpu), size);
    if (!gs_slice_starts(rest, "mig-"))
        return false;
    gs_slice_cut(&rest, '-');
    struct gs_slice name = gs_slice_cut(&rest, '-');
    // Older drivers have the number of the profile here instead of its name.
    if (all_digits(name) ||
        !printed_completely(snprintf(profile, sizeof(profile), GS_SLICE_FMT, GS_SLICE_ARG(name)),
                            sizeof(profile)))
        return false;
    return exporter_device_key_of_profile(gpu, profile, ret, size);
}
