// SPDX-License-Identifier: Apache-2.0
// The status of PodDisruptionBudgets, which the eviction API and the disruption controller write.
#pragma once

#include "codec/json.h"

// How long a pod in status.disruptedPods counts as disrupted before its deletion is visible.
#define LOCAL_DISRUPTION_TIMEOUT_MS INT64_C(120000)

// Sets the condition DisruptionAllowed by status.disruptionsAllowed.
void local_disruption_set_allowed(json_t *status);
// The same for another state. message may be "".
void local_disruption_set_condition(json_t *status, bool allowed, const char *reason,
                                    const char *message);
