// SPDX-License-Identifier: Apache-2.0
// The last decision of each autoscaler, in words, for the status block.
#pragma once

#include "base/buf.h"
#include "hpa/hpa.h"

struct up_decisions;

struct up_decision {
    char *key;    // "ns/name"
    char *target; // "Deployment/web"
    int32_t current, desired, min, max;
    char *reading; // "46/20, 1 more" or why there is none
    char *why;     // one line
    int64_t decided_ms;
};

struct up_decisions *up_decisions_new(void);
void up_decisions_free(struct up_decisions *d);
// Returns the kept record, borrowed until the next call.
const struct up_decision *up_decisions_record(struct up_decisions *all, const struct hpa_spec *spec,
                                              const struct hpa_decision *d);
size_t up_decisions_len(const struct up_decisions *d);
const struct up_decision *up_decisions_at(const struct up_decisions *d, size_t i);
// Whether every autoscaler is at its lower limit (false without any).
bool up_decisions_all_at_min(const struct up_decisions *d);
