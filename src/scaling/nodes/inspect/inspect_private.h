// SPDX-License-Identifier: Apache-2.0
// Private to the module. Strings are borrowed from the objects unless noted.
#pragma once

#include "nodes/inspect/inspect.h"

// --- objects.c: properties of nodes, pods and events ---

// GPUs in a list of resources: whole, shared and MIG devices count one each.
int64_t inspect_gpus(const json_t *resources);
int64_t inspect_pod_gpus(const json_t *pod);
// Unix milliseconds; 0: absent or invalid.
int64_t inspect_condition_since(const json_t *obj, const char *type); // lastTransitionTime
bool inspect_event_is(const json_t *event, const char *component, const char *reason);
const json_t *inspect_taint(const json_t *node, const char *key); // NULL: none
// The NodeClaim of a node. NULL: none.
const json_t *inspect_claim_of(const struct inspect_input *in, const char *node);
// {"state": "Ready" …, "reason", "since"} of a node; new reference.
json_t *inspect_node_state(const json_t *node, int64_t now_ms);

// --- autoscaler_texts.c: what the Cluster Autoscaler publishes ---

// One entry of "[{GROUP 0->1 (max: 8)} …]" in the message of TriggeredScaleUp.
struct inspect_scale_up {
    struct gs_slice group;
    int64_t from, to, max;
};
// Takes the next entry from *rest, which starts as the message. False: no further one.
bool inspect_next_scale_up(struct gs_slice *rest, struct inspect_scale_up *ret);

// --- startup.c: how long starts take ---

// inspect_startup() of the pods of a workload.
json_t *inspect_workload_startup(const struct inspect_input *in, const char *ns,
                                 const char *workload);
// How long a pod that is ready took to start. False: unknown, or a container was restarted.
struct inspect_start {
    int64_t pending_ms, image_ms, ready_ms;
};
bool inspect_pod_start(const json_t *pod, struct inspect_start *ret);

// --- text ---
// Replaces control characters except newlines in the text from this byte on.
void inspect_make_printable(struct gs_buf *text, size_t from);
void inspect_add_gpus(int64_t n, struct gs_buf *out); // "1 GPU", "2 GPUs"
// "1m12s" of milliseconds, at least "0s". buf: GS_RFC3339_SIZE.
char *inspect_duration(int64_t ms, char *buf);
