// SPDX-License-Identifier: Apache-2.0
// The controller around hpa_decide(): watches HPAs and pods, reads scales and metrics APIs, writes
// scales, status and events. Works on any Kubernetes API through kube_client.
#pragma once

#include "hpa/hpa.h"
#include "kube/cache.h"

struct hpa_controller;

// On an object: how often it is looked at ("5s"), from 1 s to 1 h, in place of the sync period.
#define HPA_SYNC_PERIOD_ANNOTATION "gpuscale.io/sync-period"

struct hpa_controller_config {
    int64_t sync_period_ms; // 15000
    struct hpa_config decide;
    // Decides as the cluster's controller would and writes nothing: no scale, no status, no event.
    bool shadow;
    // Whether an object is ours; asked for each change of it. NULL: all are.
    bool (*wanted)(void *arg, const json_t *hpa);
    void (*gone)(void *arg, const json_t *hpa); // deleted; may be NULL
    void *arg;
    const char *ns; // only its objects are read; NULL: all namespaces
};

// Called after each pass over an HPA, for the status block and the timeline. Borrowed.
typedef void (*hpa_observer)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d);

struct hpa_controller *hpa_controller_new(uv_loop_t *loop, struct kube_client *client,
                                          struct kube_cache *pods,
                                          const struct hpa_controller_config *cfg);
void hpa_controller_set_observer(struct hpa_controller *c, hpa_observer fn, void *arg);
void hpa_controller_start(struct hpa_controller *c);
// wanted() may say something else about it now.
void hpa_controller_look_again(struct hpa_controller *c, const char *ns, const char *name);
void hpa_controller_free(struct hpa_controller *c);
// What an HPA of the controller remembers, as hpa_history_json() has it; new reference. NULL: it
// does not look at such an HPA.
json_t *hpa_controller_memory(const struct hpa_controller *c, const char *ns, const char *name);
