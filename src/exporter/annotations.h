// SPDX-License-Identifier: Apache-2.0
// Which GPU a scheduler that shares GPUs chose for a container. The device ids that the kubelet
// hands out for such a resource only count units; the choice stands in annotations of the pod.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exporter_sharing {
    EXPORTER_SHARING_NONE,
    EXPORTER_SHARING_ALIYUN,  // gpushare: ALIYUN_COM_GPU_MEM_*,
                              // scheduler.framework.gpushare.allocation
    EXPORTER_SHARING_HAMI,    // hami.io/vgpu-devices-allocated, 4pd.io/vgpu-ids-new
    EXPORTER_SHARING_VGPU,    // Volcano's vGPU: volcano.sh/vgpu-ids-new
    EXPORTER_SHARING_VOLCANO, // Volcano's older gpu-share: volcano.sh/gpu-index
    EXPORTER_SHARING_KINDS
};
const char *exporter_sharing_name(enum exporter_sharing s);

enum { EXPORTER_GRANT_MAX = 32 };

// One GPU of a container.
struct exporter_annotation_grant {
    char uuid[96];         // "": by number
    uint32_t number;       // of /dev/nvidia<number> (gpushare), or NVML's index (Volcano)
    bool whole;            // nobody else is on it
    uint64_t memory_mib;   // granted; 0: not said
    unsigned units;        // granted, of the resource's unit; 0: as many as the kubelet handed out
    unsigned device_units; // that the GPU has; 0: not said
    unsigned cores;        // percent of the compute; 0: not limited
};

// pod: a Pod object. Returns how many grants the container has; *ret_found is false when the pod
// has no such annotation, or one that cannot be read.
size_t exporter_annotation_grants(enum exporter_sharing s, const json_t *pod, const char *container,
                                  struct exporter_annotation_grant ret[EXPORTER_GRANT_MAX],
                                  bool *ret_found);
