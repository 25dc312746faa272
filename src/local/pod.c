// SPDX-License-Identifier: Apache-2.0
// States of pods that several parts decide on: terminal, active, ready, available, as Kubernetes'
// podutil package has them, and amounts of GPUs.
#include "local/pod.h"

#include "base/clock.h"
#include "base/num.h"
#include "kube/object.h"

const char *local_pod_phase(const json_t *pod)
{
    const char *phase = kube_phase(pod);
    return phase && *phase ? phase : "Pending";
}

bool local_pod_active(const json_t *pod)
{
    return !kube_pod_has_ended(pod) && !kube_is_deleting(pod);
}

bool local_pod_ready(const json_t *pod)
{
    return kube_condition_true(pod, "Ready");
}

bool local_pod_available(const json_t *pod, int64_t min_ready_seconds, int64_t now_ms,
                         int64_t *ret_wait_ms)
{
    *ret_wait_ms = -1;
    if (!local_pod_ready(pod))
        return false;
    if (min_ready_seconds <= 0)
        return true;
    const json_t *since = json_object_get(kube_condition(pod, "Ready"), "lastTransitionTime");
    int64_t left = kube_time_ms(since, now_ms) + min_ready_seconds * 1000 - now_ms;
    if (left <= 0)
        return true;
    *ret_wait_ms = left;
    return false;
}

int64_t local_scaled(const json_t *int_or_percent, int64_t total, bool round_up, int64_t fallback)
{
    if (json_is_integer(int_or_percent))
        return json_integer_value(int_or_percent);
    struct gs_slice text = gs_slice_of(json_string_value(int_or_percent));
    int64_t percent;
    if (!gs_slice_ends(text, "%"))
        return fallback;
    text.len--;
    struct gs_error *err = gs_parse_i64(text, 0, INT32_MAX, &percent);
    if (err) {
        gs_error_free(err);
        return fallback;
    }
    return (percent * total + (round_up ? 99 : 0)) / 100;
}

bool local_gpu_is_slice(const char *device_id)
{
    return strstr(device_id, "::") != NULL;
}

int64_t local_container_gpus(const json_t *container, const char *resource)
{
    const json_t *limit = codec_json_get(container, "resources", "limits", resource, NULL);
    if (json_is_integer(limit))
        return json_integer_value(limit);
    const char *text = json_string_value(limit);
    char *end = NULL;
    long long n = text ? strtoll(text, &end, 10) : 0;
    return text && *text && *end == '\0' ? n : 0; // the API takes whole numbers only
}
