// SPDX-License-Identifier: Apache-2.0
// Properties of pods, and integers or percentages, for the controllers.
#pragma once

#include "codec/json.h"

const char *local_pod_phase(const json_t *pod); // "Pending" if unset
bool local_pod_active(const json_t *pod);       // neither terminal nor being deleted
bool local_pod_ready(const json_t *pod);        // condition Ready is True
// Ready for at least min_ready_seconds. *ret_wait_ms: the time until it is available, -1: unknown.
bool local_pod_available(const json_t *pod, int64_t min_ready_seconds, int64_t now_ms,
                         int64_t *ret_wait_ms);
// --- GPUs of containers ---
//
// A device id is "GPU-<uuid>", a time slice "GPU-<uuid>::<n>" of one, or "MIG-<uuid>". Time slices
// that are renamed (renameByDefault of NVIDIA's device plug-in) are a resource of their own.

#define LOCAL_GPU        "nvidia.com/gpu"
#define LOCAL_GPU_SHARED "nvidia.com/gpu.shared"

bool local_gpu_is_slice(const char *device_id);
// How many GPUs a container requests of one of these resources.
int64_t local_container_gpus(const json_t *container, const char *resource);

// The longest grace period (24 days), so that milliseconds fit every counter. Manifests may contain
// any int64.
#define LOCAL_MAX_GRACE_S INT64_C(2000000)

// "25%" or 3, of total; percentages rounded up or down.
int64_t local_scaled(const json_t *int_or_percent, int64_t total, bool round_up, int64_t fallback);
