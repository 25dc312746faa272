// SPDX-License-Identifier: Apache-2.0
// The scale subresource of an HPA's target: found by the target's kind, read, and written with
// retries when somebody else changed it meanwhile.
#pragma once

#include "hpa/hpa.h"
#include "hpa/resources.h"

#include <uv.h>

struct hpa_scale;

// What the callbacks get: err NULL means done (err is owned by the callee).
typedef void (*hpa_scale_done)(void *arg, struct gs_error *err);

// The object of one pass. spec is borrowed.
struct hpa_scale *hpa_scale_new(uv_loop_t *loop, struct kube_client *client,
                                struct hpa_resources *resources, const struct hpa_spec *spec);
void hpa_scale_free(struct hpa_scale *s); // cancels; NULL is fine; also from a callback

// Calls back later. Afterwards the getters tell what was read.
void hpa_scale_read(struct hpa_scale *s, hpa_scale_done cb, void *arg);
int32_t hpa_scale_spec_replicas(const struct hpa_scale *s);
int32_t hpa_scale_status_replicas(const struct hpa_scale *s);
const char *hpa_scale_selector(const struct hpa_scale *s); // "" when there is none
void hpa_scale_write(struct hpa_scale *s, int32_t replicas, hpa_scale_done cb, void *arg);
