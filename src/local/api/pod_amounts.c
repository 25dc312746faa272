// SPDX-License-Identifier: Apache-2.0
// Amounts that a pod requests or limits, for quotas, limit ranges and scheduling: containers and
// sidecars are added up, other init containers run alone, so the largest counts. In milli-units.
#include "base/num.h"
#include "kube/quantity.h"
#include "local/api/admission.h"

bool local_api_amount(const json_t *quantity, int64_t *ret_milli)
{
    int64_t milli = 0;

    if (json_is_string(quantity)) {
        GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(
            gs_slice_make(json_string_value(quantity), json_string_length(quantity)), &milli);
        if (err)
            return false;
    } else if (json_is_integer(quantity)) {
        if (__builtin_mul_overflow(json_integer_value(quantity), INT64_C(1000), &milli))
            milli = INT64_MAX;
    } else {
        return false;
    }
    *ret_milli = milli;
    return true;
}

bool local_api_container_amount(const json_t *container, const char *kind, const char *resource,
                                int64_t *ret_milli)
{
    return local_api_amount(codec_json_get(container, "resources", kind, resource, NULL),
                            ret_milli);
}

bool local_api_pod_amount(const json_t *pod, const char *kind, const char *resource,
                          int64_t *ret_milli)
{
    int64_t sum = 0, largest = 0, n;
    bool found = false;
    size_t i;
    json_t *container;

    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container)
        if (local_api_container_amount(container, kind, resource, &n)) {
            found = true;
            sum = gs_add_clamped(sum, n);
        }
    json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), i, container)
        if (local_api_container_amount(container, kind, resource, &n)) {
            found = true;
            // A sidecar runs as long as the containers.
            if (gs_streq(codec_json_str(container, "restartPolicy", NULL), "Always"))
                sum = gs_add_clamped(sum, n);
            else if (n > largest)
                largest = n;
        }
    if (local_api_amount(codec_json_get(pod, "spec", "overhead", resource, NULL), &n))
        sum = gs_add_clamped(sum, n);
    if (found)
        *ret_milli = sum > largest ? sum : largest;
    return found;
}

void local_api_amount_text(const char *resource, int64_t milli, char buf[KUBE_QUANTITY_SIZE])
{
    if (strstr(resource, "memory") || strstr(resource, "storage"))
        kube_quantity_format_bytes(milli / 1000 + (milli % 1000 > 0), buf);
    else
        kube_quantity_format_milli(milli, buf);
}
