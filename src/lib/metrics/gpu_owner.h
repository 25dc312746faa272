// SPDX-License-Identifier: Apache-2.0
// Which pod uses a GPU, and on which node it is, from the labels of a series of a GPU exporter
// (gpuscale's, NVIDIA's, ACK's, or an older one).
//
// A series also has the labels of the scrape target, and these are no owners: without honor_labels,
// the labels of the exporter are renamed (exported_pod), and `pod` is the exporter's own pod. With
// honor_labels that is the same for a GPU without a pod. An exporter that does not know its node
// reports its own host name, which in a pod is the name of the pod. Therefore the labels of the
// target must be known: those of its series `up`, and the node of that pod from kube_pod_info.
// The web interface has the same rules (web/gpu-owner.js), and both read the cases of
// tests/metrics/gpu_owner.json.
#pragma once

#include "base/hmap.h"
#include "base/slice.h"

// The labels of one series.
struct metrics_gpu_series {
    // The value of a label; empty: absent.
    struct gs_slice (*label)(const void *series, const char *name);
    const void *series;
};

// A scraped pod.
struct metrics_gpu_target {
    const char *ns, *pod;
    const char *node; // where the pod runs; "": unknown
};

struct metrics_gpu_pod {
    struct gs_slice ns, pod; // borrowed from the series; pod is empty: the GPU has no pod
};

// target: that of the series; NULL: unknown, or not a pod.
struct metrics_gpu_pod metrics_gpu_owner(const struct metrics_gpu_series *s,
                                         const struct metrics_gpu_target *target);
// The name of the node, otherwise of the machine, otherwise the address of the exporter. Borrowed
// from the series or the target; empty: unknown.
struct gs_slice metrics_gpu_node(const struct metrics_gpu_series *s,
                                 const struct metrics_gpu_target *target);

// --- targets ---
//
// The targets that are pods, from series `up` and kube_pod_info in any order.

struct metrics_gpu_targets;
struct metrics_gpu_targets *metrics_gpu_targets_new(void);
void metrics_gpu_targets_free(struct metrics_gpu_targets *t); // NULL is fine
// A series `up`. One without the label `pod` is ignored.
void metrics_gpu_targets_add(struct metrics_gpu_targets *t, const struct metrics_gpu_series *up);
// A series kube_pod_info.
void metrics_gpu_targets_add_pod(struct metrics_gpu_targets *t,
                                 const struct metrics_gpu_series *pod_info);
// The target of a series, by its labels `job` and `instance`. NULL: it is not a known pod. t may be
// NULL. Borrowed until the next change.
const struct metrics_gpu_target *metrics_gpu_target_of(const struct metrics_gpu_targets *t,
                                                       const struct metrics_gpu_series *s);
