// SPDX-License-Identifier: Apache-2.0
// Creates the observation for hpa_decide() from objects and responses of the Kubernetes API.
#pragma once

#include "base/arena.h"
#include "hpa/hpa.h"
#include "kube/cache.h"
#include "kube/selector.h"

// --- samples ---
//
// Response bodies of the metrics APIs as samples.

// Strings of the samples live in the arena. Error texts are those of kube-controller-manager's
// metrics client after "unable to fetch metrics from X API: ".
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
// Fails if a pod of the list lacks the container: older controllers treat that as an error.
struct gs_error *hpa_check_container(const json_t *body, const char *container);

// --- pods ---
//
// Converts cached pods to the form that hpa_decide() uses.

// Pods of the namespace that the selector matches, with their requests for the resource metrics of
// the spec as that release sums them. Strings are borrowed from the cache: use them before it
// changes. The arrays and error texts live in the arena.
void hpa_observe_pods(const struct hpa_spec *spec, const struct kube_cache *pods,
                      const struct kube_selector *selector, int release, struct gs_arena *arena,
                      const struct hpa_pod **ret_pods, size_t *ret_n);

// The same for the items of a list that the API has filtered; also returns their objects.
void hpa_observe_list(const struct hpa_spec *spec, const json_t *items, int release,
                      struct gs_arena *arena, const struct hpa_pod **ret_pods,
                      const json_t ***ret_objects, size_t *ret_n);

// The GPUs in the limits of a pod, or of the template of one. Slices count as GPUs.
int64_t hpa_gpus_of_pod(const json_t *pod);
