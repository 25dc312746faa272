// SPDX-License-Identifier: Apache-2.0
// Between the files of this module.
#pragma once

#include "codec/json.h"
#include "net/http/client.h"

#include <stdbool.h>
#include <stdint.h>

// --- errors of API servers ---

// status is 400 or more. The message of a Status body; of any other, what Kubernetes' client would
// say of it: "the server could not find the requested resource (get pods.metrics.k8s.io)".
struct gs_error *kube_response_error(const char *method, const char *path,
                                     const struct http_answer *answer, const json_t *body);

// --- limits of events ---

// How many events are written about one object, as Kubernetes' own components do it: different
// messages of one reason are combined from the tenth in ten minutes on, and after a burst of 25
// events of one type there is one in five minutes.

struct kube_event_limit;

struct kube_event_limit *kube_event_limit_new(void);
void kube_event_limit_free(struct kube_event_limit *l); // NULL is fine
// similar: what the events have in common (object, type, reason). True: write it as combined.
bool kube_event_limit_combine(struct kube_event_limit *l, const char *similar, const char *message,
                              int64_t now_ms);
// about: object and type. Times are any clock's that does not go back.
bool kube_event_limit_allow(struct kube_event_limit *l, const char *about, int64_t now_ms);
