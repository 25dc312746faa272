// SPDX-License-Identifier: Apache-2.0
// Reads the object, the scale of its target, the pods and all metrics from the API, as the
// controller would now. Nothing is written.
#pragma once

#include "hpa/explanation.h"
#include "kube/client.h"

#include <uv.h>

struct hpa_inspection;

// Called once, later. err NULL: success. The callee owns err.
typedef void (*hpa_inspect_done)(void *arg, const struct hpa_inspection_result *seen,
                                 struct gs_error *err);

struct hpa_inspection *hpa_inspect_start(uv_loop_t *loop, struct kube_client *client,
                                         const char *ns, const char *name, int release,
                                         hpa_inspect_done cb, void *arg);
// Also requests the history of a gpuscale controller. Call it right after the start. A failure is
// reported in history_error.
void hpa_inspect_fetch_history(struct hpa_inspection *l, struct kube_client *controller);
// Cancels. Not from the callback, whose result is borrowed. NULL is fine.
void hpa_inspection_free(struct hpa_inspection *l);
