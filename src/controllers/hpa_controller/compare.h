// SPDX-License-Identifier: Apache-2.0
// Compares the values that two metrics adapters serve for the autoscalers of a cluster, as its
// controller would request them. Nothing is written. All functions are called on the thread of the
// loop.
#pragma once

#include "hpa/hpa.h"
#include "kube/client.h"

#include <uv.h>

struct hpa_compare;

struct hpa_compare_config {
    struct kube_client *cluster;        // for objects and scales
    struct kube_client *before, *after; // the adapters: that in use, and the new one
    const char *ns;                     // NULL: all namespaces
    // A value may change between the two requests: values that differ are read again after this
    // time, twice.
    int64_t again_ms;
};

// Borrows the clients and ns.
struct hpa_compare *hpa_compare_new(uv_loop_t *loop, const struct hpa_compare_config *cfg);
void hpa_compare_free(struct hpa_compare *c); // cancels; NULL is fine; not from done
// Compares each metric of the types Pods, Object and External once. done is called once, later.
// err: the objects cannot be read; the callee owns it.
void hpa_compare_round(struct hpa_compare *c, void (*done)(void *arg, struct gs_error *err),
                       void *arg);
// [{"namespace", "name", "type", "metric", "equal", "different", "onlyBefore", "onlyAfter",
// "neither", "difference"}]: for each metric the number of rounds with that result, and the last
// difference as text; new reference.
json_t *hpa_compare_json(const struct hpa_compare *c);
// Whether values were equal, none differed, and the new adapter lacked none.
bool hpa_compare_agrees(const struct hpa_compare *c);

// The options of `gpuscale compare`. Strings are borrowed; NULL: not given.
struct hpa_compare_options {
    const char *before, *after; // URLs
    const char *kubeconfig, *context, *ns, *http_config_file, *output;
    int64_t duration_ns, interval_ns;
};
// Compares until the duration is over, or until SIGINT or SIGTERM, and prints the result.
struct gs_error *hpa_compare_run(const struct hpa_compare_options *o, int *ret_exit);
