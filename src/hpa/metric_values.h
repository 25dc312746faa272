// SPDX-License-Identifier: Apache-2.0
// The bodies that the metrics APIs answer with, as samples.
#pragma once

#include "base/arena.h"
#include "hpa/hpa.h"

// Strings of the samples live in the arena. Error texts are those behind "unable to fetch metrics
// from X API: " of kube-controller-manager's metrics client, without that beginning.
struct hpa_values {
    struct hpa_sample *items;
    size_t len, cap;
};

// custom.metrics.k8s.io MetricValueList, v1beta1 or v1beta2.
struct gs_error *hpa_read_custom(const json_t *body, struct gs_arena *arena, int64_t now_ms,
                                 struct hpa_values *ret);
// external.metrics.k8s.io ExternalMetricValueList.
struct gs_error *hpa_read_external(const json_t *body, int64_t now_ms, struct hpa_values *ret);
// metrics.k8s.io PodMetricsList: sum over the containers, or one container ("" for all). Pods
// without the resource are left out. ret_items: pods in the list.
struct gs_error *hpa_read_resource(const json_t *body, const char *resource, const char *container,
                                   struct gs_arena *arena, int64_t now_ms, struct hpa_values *ret,
                                   size_t *ret_items);
// Fails when a pod of the list has no such container: older controllers took that for an error.
struct gs_error *hpa_check_container(const json_t *body, const char *container);
