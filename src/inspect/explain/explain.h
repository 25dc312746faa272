// SPDX-License-Identifier: Apache-2.0
// What `gpuscale explain hpa`, `gpuscale explain pod` and `gpuscale nodes` read from a cluster:
// connects, reads the objects, and returns the explanation that a pure function makes of them. Each
// call runs its own loop until all responses have arrived. Nothing is written.
#pragma once

#include "hpa/explanation.h"

// Strings are borrowed; NULL: not given.
struct explain_cluster {
    const char *ns, *kubeconfig, *context;
};

// Return inspect_nodes() or inspect_pod(); new references. Errors: no cluster, no such pod, no
// response within 30 s, nodes or pods cannot be read. Other objects are optional.
struct gs_error *explain_nodes(const struct explain_cluster *o, json_t **ret);
struct gs_error *explain_pod(const struct explain_cluster *o, const char *name, json_t **ret);

// The name of the autoscaler that scales this workload; the caller frees it. kind: "Deployment",
// also as kubectl accepts it ("deploy", "deployments.apps"). GS_ENOTFOUND: none does. GS_EINVAL:
// several do.
struct gs_error *explain_find_hpa(const struct explain_cluster *o, const char *kind,
                                  const char *name, char **ret);

// Adds how the adapter of the cluster answers the request for a metric. arg: a path of the metrics
// APIs, or METRIC of all pods, RESOURCE/METRIC or RESOURCE/NAME/METRIC of the namespace. *ret_exit
// 1: the metric has no value. Errors: no cluster, no response within 30 s, no permission.
struct gs_error *explain_metric(const struct explain_cluster *o, const char *arg,
                                struct gs_buf *out, int *ret_exit);

// The options of `gpuscale explain hpa`. Strings are borrowed; NULL: not given.
struct explain_hpa_options {
    const char *ns, *kubeconfig, *context, *compat, *controller;
    int64_t downscale_window, cpu_init_period, readiness_delay; // ns
    double tolerance;
    const struct hpa_setting *settings; // "what if"
    size_t n_settings;
};

// The controller that the options describe. GS_EINVAL: unknown release.
struct gs_error *explain_hpa_config(const struct explain_hpa_options *o, struct hpa_config *ret);
// *ret: hpa_explanation_json(), new reference. Errors: no cluster, no such object, no response
// within 30 s, no history although `controller` is set.
// A metric of pods without a value has a member "diagnosis": {"state", "text", "evidence", "fix"}.
struct gs_error *explain_hpa(const struct explain_hpa_options *o, const char *name, json_t **ret);
// Adds the text of an explanation of explain_hpa(), with the diagnoses.
void explain_hpa_text(const json_t *explanation, struct gs_buf *out);
