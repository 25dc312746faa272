// SPDX-License-Identifier: Apache-2.0
// Records core/v1 Events about objects. A repeated event increments the count of the first.
#pragma once

#include "kube/client.h"

struct kube_recorder;
// component: source.component of the events ("horizontal-pod-autoscaler"); host may be NULL.
struct kube_recorder *kube_recorder_new(struct kube_client *c, const char *component,
                                        const char *host);
void kube_recorder_free(struct kube_recorder *r);
// type "Normal" or "Warning".
void kube_event(struct kube_recorder *r, const json_t *about, const char *type, const char *reason,
                const char *fmt, ...) GS_PRINTF(5, 6);
