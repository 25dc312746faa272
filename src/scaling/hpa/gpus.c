// SPDX-License-Identifier: Apache-2.0
// The GPUs that a pod has, by the extended resources of its containers.
#include "hpa/observe.h"

#include "base/num.h"
#include "base/slice.h"
#include "kube/quantity.h"

int64_t hpa_gpus_of_pod(const json_t *pod)
{
    static const char *const resources[] = {"nvidia.com/", "amd.com/gpu", "gpu.intel.com/",
                                            "habana.ai/gaudi"};
    const json_t *containers = codec_json_get(pod, "spec", "containers", NULL);
    int64_t sum = 0;
    for (size_t i = 0; i < json_array_size(containers); i++) {
        const char *name;
        json_t *value;
        json_t *limits = codec_json_get(json_array_get(containers, i), "resources", "limits", NULL);
        json_object_foreach (limits, name, value) {
            int64_t n = 0;
            bool gpu = false;
            for (size_t k = 0; k < GS_ARRAY_LEN(resources); k++)
                gpu = gpu || gs_starts(name, resources[k]);
            const char *text = gpu ? json_string_value(value) : NULL;
            GS_AUTO_ERROR struct gs_error *err =
                text ? kube_quantity_parse_value(gs_slice_of(text), &n) : NULL;
            sum = gs_add_clamped(sum, err ? 0 : n);
        }
    }
    return sum;
}
