// SPDX-License-Identifier: Apache-2.0
// One look at an HPA through the API: the object, its target's scale, the pods and all metrics, as
// the controller would see them now. Nothing is written.
#pragma once

#include "hpa/hpa.h"
#include "kube/client.h"

#include <uv.h>

struct hpa_look;

// What was found; borrowed from the look.
struct hpa_seen {
    const struct hpa_spec *spec;
    const struct hpa_observation *obs;
    const json_t *const *pods; // the objects behind obs->pods, in the same order
    int64_t now_ms;            // when it was complete
    // What the controller remembers. NULL: unavailable, for the reason in memory_error.
    const struct hpa_history *memory;
    const char *memory_error; // NULL where the memory is there or was not requested
};

// cb is called later, once. err NULL: it was found; err is owned by the callee.
typedef void (*hpa_look_done)(void *arg, const struct hpa_seen *seen, struct gs_error *err);

struct hpa_look *hpa_look_start(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                const char *name, int release, hpa_look_done cb, void *arg);
// Also requests the memory of a controller of ours (hpa/memory.h); call it right after the start. A
// failure is reported in memory_error.
void hpa_look_ask_memory(struct hpa_look *l, struct kube_client *controller);
// Cancels; not from the callback, where what was found is still needed. NULL is fine.
void hpa_look_free(struct hpa_look *l);
