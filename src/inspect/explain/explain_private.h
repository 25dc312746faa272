// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module.
#pragma once

#include "explain/explain.h"
#include "kube/session.h"

#define EXPLAIN_TIMEOUT_MS 30000

// How long nodes took from their order until they were ready, for the pools of these nodes (an
// array of names): members of inspect_pool_startup(); new reference. NULL: no such node is in a
// pool, or nodes cannot be read.
json_t *explain_node_startup(struct kube_session *s, const json_t *nodes);

// If err is GS_ENOTFOUND of this object: adds the namespace in which it was searched, and the names
// or namespaces that exist. Takes err and returns it or the new one.
struct gs_error *explain_not_found(const struct explain_cluster *o, struct kube_gvr r,
                                   const char *name, struct gs_error *err);

// --- metric.c: why a metric of pods has no value ---

// Texts are borrowed.
struct explain_metric_of {
    const char *ns, *kind, *name; // of the workload
    const char *metric;
    const char *selector; // of its pods
    const json_t *pod;    // one of them; NULL: not known
};
// {"state", "text", "evidence", "fix"} by what the adapter of the cluster has of the pods; new
// reference. NULL: not known.
json_t *explain_metric_diagnosis(struct kube_session *s, const struct explain_metric_of *of);
// The same of what is known of the pods (struct diagnosis_metric_input.series).
json_t *explain_metric_diagnosis_json(const struct explain_metric_of *of, const json_t *series);
void explain_metric_add_diagnosis(const json_t *d, struct gs_buf *out); // lines for people
