// SPDX-License-Identifier: Apache-2.0
// Credit for pods that are coming. A queue grows while its pods start, and a controller that reads
// only the queue orders again and again for the same demand. Pure functions: a proposal and what
// is coming in, a proposal with its reason out.
#pragma once

#include "base/attr.h"
#include "startup/startup.h"

// --- with known rates ---

struct startup_work {
    double backlog;  // waiting work, in any unit (requests, tokens)
    double arriving; // work per second
    double rate;     // work per second of one replica
    double drain_s;  // the backlog must be gone after so many seconds from the last start
};
// The number of replicas for the arriving work and for the part of the backlog that the ready and
// the starting pods do not drain until drain_s after the last start. rate must be positive.
int32_t startup_replicas_for(const struct startup_work *w, const struct startup_coming *c,
                             int64_t now_ms);

// --- without rates: from the trend of a value ---

#define STARTUP_TREND 16
// Values of a metric while pods start, and how fast it grew when the last pods were ordered. Zero
// is an empty one.
struct startup_trend {
    struct {
        int64_t at_ms;
        double value;
    } points[STARTUP_TREND];
    uint32_t n, next;
    double ordered_growth; // per second
    int32_t ordered;       // ready and starting pods after the last order
};
void startup_trend_add(struct startup_trend *t, double value, int64_t now_ms);
// Per second over the last minute; false: fewer than two values.
bool startup_trend_growth(const struct startup_trend *t, int64_t now_ms, double *ret);

struct startup_credit {
    int32_t proposal; // what remains
    bool used;        // it is lower than the one given
    char *text;       // "would be 7, credit for 3 starting: stays 4"; NULL: not used. Caller frees
};
// current: replicas that are set. proposal: of a metric that counts waiting work. The proposal is
// reduced only to max(current, what the growth of the value justifies), never below `current`.
void startup_credit_apply(struct startup_trend *t, const struct startup_coming *c, int32_t current,
                          int32_t proposal, int64_t now_ms, struct startup_credit *ret);
