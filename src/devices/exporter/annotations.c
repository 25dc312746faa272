// SPDX-License-Identifier: Apache-2.0
// Which GPU a pod has, from the annotations of schedulers that share GPUs: Alibaba's gpushare,
// HAMi, Volcano. Their device IDs are only counters, so the kubelet does not know the GPU.
// Annotations are written by others: sizes and numbers are limited.
#include "exporter/device_map.h"

#include "base/num.h"
#include "base/slice.h"
#include "codec/json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ANNOTATION = 64 * 1024, MAX_NUMBER = 1023 };

const char *exporter_sharing_name(enum exporter_sharing s)
{
    static const char *const names[EXPORTER_SHARING_KINDS] = {
        "", "gpushare", "HAMi", "Volcano vGPU", "Volcano gpu-share",
    };
    return names[s];
}

static const char *annotation(const json_t *pod, const char *name)
{
    const char *text = codec_json_str(pod, "metadata", "annotations", name, NULL);
    return text && strlen(text) <= MAX_ANNOTATION ? text : NULL;
}

static bool parse_number(struct gs_slice s, uint64_t max, uint64_t *ret)
{
    struct gs_error *err = gs_parse_u64(gs_slice_trim(s), max, ret);
    gs_error_free(err);
    return !err;
}

// Index of a container in spec.containers or spec.initContainers; -1: not found.
static int position(const json_t *pod, const char *list, const char *container)
{
    const json_t *items = codec_json_get(pod, "spec", list, NULL);
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        const char *name = codec_json_str(item, "name", NULL);
        if (name && strcmp(name, container) == 0)
            return (int)i;
    }
    return -1;
}

// --- gpushare of Alibaba ---

// {"<container>":{"<GPU>":<units>}}; numbers may be strings.
static const json_t *of_container(const json_t *allocation, int container)
{
    char key[16];
    snprintf(key, sizeof(key), "%d", container);
    return codec_json_get(allocation, key, NULL);
}

static uint64_t units_of(const json_t *value)
{
    uint64_t n = 0;
    if (json_is_integer(value) && json_integer_value(value) > 0)
        n = (uint64_t)json_integer_value(value);
    else if (json_is_string(value))
        parse_number(gs_slice_of(json_string_value(value)), UINT32_MAX, &n);
    return n <= UINT32_MAX ? n : 0;
}

static json_t *parse_object(const char *text)
{
    json_t *j = NULL;
    struct gs_error *err = text ? codec_json_parse(gs_slice_of(text), false, &j) : NULL;
    gs_error_free(err);
    if (j && json_is_object(j))
        return j;
    json_decref(j);
    return NULL;
}

static size_t aliyun_allocation(const json_t *pod, const char *container,
                                struct exporter_annotation_grant *ret, bool *ret_found)
{
    CODEC_AUTO_JSON json_t *memory =
        parse_object(annotation(pod, "scheduler.framework.gpushare.allocation"));
    CODEC_AUTO_JSON json_t *cores =
        parse_object(annotation(pod, "gpushare.alibabacloud.com/core-percentage"));
    int at = position(pod, "containers", container);
    *ret_found = memory && at >= 0;
    if (!*ret_found)
        return 0;
    size_t n = 0;
    const char *gpu;
    json_t *units;
    const json_t *core_of = of_container(cores, at);
    json_object_foreach ((json_t *)(uintptr_t)of_container(memory, at), gpu, units) {
        uint64_t index;
        if (n == EXPORTER_GRANT_MAX || !units_of(units) ||
            !parse_number(gs_slice_of(gpu), MAX_NUMBER, &index))
            continue;
        ret[n++] = (struct exporter_annotation_grant){
            .number = (uint32_t)index,
            .units = (unsigned)units_of(units),
            .cores = (unsigned)units_of(codec_json_get(core_of, gpu, NULL)),
        };
    }
    return n;
}

// The open-source gpushare: one GPU per pod. The scheduler sets the index before the device plugin
// has allocated it.
static size_t aliyun_index(const json_t *pod, struct exporter_annotation_grant *ret,
                           bool *ret_found)
{
    const char *index = annotation(pod, "ALIYUN_COM_GPU_MEM_IDX");
    const char *assigned = annotation(pod, "ALIYUN_COM_GPU_MEM_ASSIGNED");
    const char *total = annotation(pod, "ALIYUN_COM_GPU_MEM_DEV");
    uint64_t n, units = 0;
    *ret_found =
        index && parse_number(gs_slice_of(index), MAX_NUMBER, &n) && !gs_streq(assigned, "false");
    if (!*ret_found)
        return 0;
    if (total && !parse_number(gs_slice_of(total), UINT32_MAX, &units))
        units = 0;
    ret[0] =
        (struct exporter_annotation_grant){.number = (uint32_t)n, .device_units = (unsigned)units};
    return 1;
}

static size_t aliyun(const json_t *pod, const char *container,
                     struct exporter_annotation_grant *ret, bool *ret_found)
{
    size_t n = aliyun_allocation(pod, container, ret, ret_found);
    return *ret_found ? n : aliyun_index(pod, ret, ret_found);
}

// --- HAMi, and Volcano's vGPU, which is derived from it ---

// "UUID,type,MiB,percent". A MIG device that HAMi creates itself ("UUID[0-1]") cannot be
// distinguished from the other MIG devices of the GPU, so it is not attributed.
static bool hami_device(struct gs_slice text, struct exporter_annotation_grant *ret)
{
    struct gs_slice uuid = gs_slice_trim(gs_slice_cut(&text, ','));
    struct gs_slice type = gs_slice_cut(&text, ',');
    struct gs_slice memory = gs_slice_cut(&text, ','), cores = gs_slice_cut(&text, ',');
    uint64_t mib = 0, percent = 0;
    bool known = gs_slice_starts(uuid, "GPU-") || gs_slice_starts(uuid, "MIG-");
    if (!known || uuid.len >= sizeof(ret->uuid) || memchr(uuid.data, '[', uuid.len) ||
        !gs_slice_starts(type, "NVIDIA") || !parse_number(memory, UINT32_MAX, &mib) ||
        (cores.data && !parse_number(cores, 100, &percent)))
        return false;
    *ret = (struct exporter_annotation_grant){
        .memory_mib = mib, .cores = (unsigned)percent, .whole = percent == 100};
    memcpy(ret->uuid, uuid.data, uuid.len);
    return true;
}

static size_t hami_container(struct gs_slice text, struct exporter_annotation_grant *ret)
{
    size_t n = 0;
    while (text.data && n < EXPORTER_GRANT_MAX)
        n += hami_device(gs_slice_cut(&text, ':'), &ret[n]);
    return n;
}

// One entry per container, each terminated by ';'. Newer versions include the init containers; the
// number of entries shows which version wrote them.
static size_t hami(const json_t *pod, const char *text, const char *container,
                   struct exporter_annotation_grant *ret, bool *ret_found)
{
    size_t entries = 0;
    for (struct gs_slice s = gs_slice_of(text); s.len; entries++)
        gs_slice_cut(&s, ';');
    size_t inits = json_array_size(codec_json_get(pod, "spec", "initContainers", NULL));
    size_t containers = json_array_size(codec_json_get(pod, "spec", "containers", NULL));
    int at = position(pod, "containers", container);
    int init = at < 0 ? position(pod, "initContainers", container) : -1;
    *ret_found = false;
    if (entries == inits + containers && (at >= 0 || init >= 0))
        at = at >= 0 ? at + (int)inits : init;
    else if (entries != containers || at < 0)
        return 0;
    *ret_found = true;
    struct gs_slice rest = gs_slice_of(text), entry = {0};
    for (int i = 0; i <= at; i++)
        entry = gs_slice_cut(&rest, ';');
    return hami_container(entry, ret);
}

static size_t hami_any(const json_t *pod, const char *const *names, size_t n_names,
                       const char *container, struct exporter_annotation_grant *ret,
                       bool *ret_found)
{
    *ret_found = false;
    for (size_t i = 0; i < n_names; i++) {
        const char *text = annotation(pod, names[i]);
        if (text)
            return hami(pod, text, container, ret, ret_found);
    }
    return 0;
}

// --- Volcano's gpu-share ---

// "0" or "0,2" for the whole pod; several only if whole GPUs are requested.
static size_t volcano(const json_t *pod, struct exporter_annotation_grant *ret, bool *ret_found)
{
    const char *text = annotation(pod, "volcano.sh/gpu-index");
    const char *assigned = annotation(pod, "volcano.sh/gpu-assigned");
    size_t n = 0;
    *ret_found = text && !gs_streq(assigned, "false");
    struct gs_slice rest = *ret_found ? gs_slice_of(text) : (struct gs_slice){0};
    while (rest.data && n < EXPORTER_GRANT_MAX) {
        uint64_t index;
        if (parse_number(gs_slice_cut(&rest, ','), MAX_NUMBER, &index))
            ret[n++] = (struct exporter_annotation_grant){.number = (uint32_t)index};
        else
            *ret_found = false;
    }
    return *ret_found ? n : 0;
}

size_t exporter_annotation_grants(enum exporter_sharing s, const json_t *pod, const char *container,
                                  struct exporter_annotation_grant ret[EXPORTER_GRANT_MAX],
                                  bool *ret_found)
{
    static const char *const hami_names[] = {"hami.io/vgpu-devices-allocated",
                                             "4pd.io/vgpu-ids-new"};
    static const char *const vgpu_names[] = {"volcano.sh/vgpu-ids-new"};
    *ret_found = false;
    switch (s) {
    case EXPORTER_SHARING_ALIYUN:
        return aliyun(pod, container, ret, ret_found);
    case EXPORTER_SHARING_HAMI:
        return hami_any(pod, hami_names, 2, container, ret, ret_found);
    case EXPORTER_SHARING_VGPU:
        return hami_any(pod, vgpu_names, 1, container, ret, ret_found);
    case EXPORTER_SHARING_VOLCANO:
        return volcano(pod, ret, ret_found);
    default:
        return 0;
    }
}
