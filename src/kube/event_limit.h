// SPDX-License-Identifier: Apache-2.0
// How much is told about one object, as Kubernetes' own components do: different messages of one
// reason are combined from the tenth in ten minutes on, and after a burst of 25 events of one type
// there is one in five minutes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kube_event_limit;

struct kube_event_limit *kube_event_limit_new(void);
void kube_event_limit_free(struct kube_event_limit *l); // NULL is fine
// similar: what the events have in common (object, type, reason). True: to be told as combined.
bool kube_event_limit_combine(struct kube_event_limit *l, const char *similar, const char *message,
                              int64_t now_ms);
// about: object and type. Times are any clock's that does not go back.
bool kube_event_limit_allow(struct kube_event_limit *l, const char *about, int64_t now_ms);
