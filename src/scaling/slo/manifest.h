// SPDX-License-Identifier: Apache-2.0
// Mistakes of an autoscaler with a latency target, or with the metric that applies one: a pure
// function of the object. `gpuscale check hpa` and `gpuscale doctor` report them.
#pragma once

#include "codec/json.h"

// Adds an item {"error": BOOL, "problem": "…", "fix": "…"} for each mistake. error: the target or
// the metric has no effect, or another effect than intended. hpa: an object of autoscaling/v2.
void slo_manifest_mistakes(const json_t *hpa, json_t *items);
