// SPDX-License-Identifier: Apache-2.0
// Annotations of schedulers that share GPUs, which anybody who can create a pod can write, and the
// device IDs that belong to them.
#include "base/mem.h"
#include "exporter/device_map.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *make_pod(const char *text)
{
    static const char *const names[] = {
        "scheduler.framework.gpushare.allocation",
        "gpushare.alibabacloud.com/core-percentage",
        "ALIYUN_COM_GPU_MEM_IDX",
        "ALIYUN_COM_GPU_MEM_DEV",
        "hami.io/vgpu-devices-allocated",
        "volcano.sh/vgpu-ids-new",
        "volcano.sh/gpu-index",
    };
    json_t *annotations = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_set_new(annotations, names[i], json_string(text));
    return json_pack("{s:{s:o},s:{s:[{s:s}{s:s}]}}", "metadata", "annotations", annotations, "spec",
                     "containers", "name", "a", "name", "b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    json_t *pod = make_pod(text);
    struct exporter_annotation_grant grants[EXPORTER_GRANT_MAX];
    struct exporter_device_id id;
    bool found;
    for (enum exporter_sharing s = EXPORTER_SHARING_NONE; s < EXPORTER_SHARING_KINDS; s++) {
        exporter_annotation_grants(s, pod, "a", grants, &found);
        exporter_annotation_grants(s, pod, "b", grants, &found);
    }
    exporter_device_id_parse("nvidia.com/gpu", gs_slice_make((const char *)data, size), &id);
    exporter_device_id_parse("volcano.sh/gpu-memory", gs_slice_make((const char *)data, size), &id);
    exporter_device_key_of_claim(text, id.key, sizeof(id.key));
    json_decref(pod);
    return 0;
}
