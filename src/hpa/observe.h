// SPDX-License-Identifier: Apache-2.0
// Pods of a cache as the decision looks at them.
#pragma once

#include "base/arena.h"
#include "hpa/hpa.h"
#include "kube/cache.h"
#include "kube/selector.h"

// Pods of the namespace that the selector matches, with their requests for the resource metrics of
// the spec as that release sums them. Strings are borrowed from the cache: use them before it
// changes. The arrays and error texts live in the arena.
void hpa_observe_pods(const struct hpa_spec *spec, const struct kube_cache *pods,
                      const struct kube_selector *selector, int release, struct gs_arena *arena,
                      const struct hpa_pod **ret_pods, size_t *ret_n);

// The same of a list's items, which the API has selected; with the objects they were read from.
void hpa_observe_list(const struct hpa_spec *spec, const json_t *items, int release,
                      struct gs_arena *arena, const struct hpa_pod **ret_pods,
                      const json_t ***ret_objects, size_t *ret_n);
