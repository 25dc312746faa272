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
    double rate;     // work per second of one replica; positive
    double drain_s;  // the backlog must be gone so many seconds after the last start; positive
};
// The number of replicas for the arriving work, and for the part of the backlog that the ready and
// the starting pods do not drain. At least 0.
int32_t startup_replicas_for(const struct startup_work *w, const struct startup_coming *c,
                             int64_t now_ms);

// --- without rates: from the trend of a value ---

#define STARTUP_TREND 16
// The last values of a metric, and how fast it grew when pods were ordered. Empty if zero.
struct startup_trend {
    struct startup_point {
        int64_t at_ms;
        double value;
    } points[STARTUP_TREND], newest; // points are at least 3 seconds apart
    uint32_t n;                      // of all points; the next place is n % STARTUP_TREND
    bool has_order;
    double ordered_growth; // per second
    int64_t ordered_ms;
    int32_t ordered_ready; // pods whose effect it shows
    double rate;           // by which one more ready pod lowers the growth, learned; 0: unknown
};
// NaN is ignored.
void startup_trend_add(struct startup_trend *t, double value, int64_t now_ms);
// Per second, over the last 30 seconds. False: the values are of less than 5 seconds.
bool startup_trend_growth(const struct startup_trend *t, double *ret);
// Shifts the times after the wall clock was set by this amount.
void startup_trend_shift(struct startup_trend *t, int64_t ms);
// New reference; times are relative to now. Wrong or missing members are zero.
json_t *startup_trend_json(const struct startup_trend *t, int64_t now_ms);
struct startup_trend startup_trend_from_json(const json_t *in, int64_t now_ms);

struct startup_credit {
    int32_t proposal; // what remains of the proposal
    char *text;       // "would be 7, credit for 3 starting pods: stays at 4"; NULL: unchanged.
                      // The caller frees it
};
// current: the replicas that are set. proposal: what a metric of waiting work proposes, whose
// newest value was added to the trend. Call it for each decision: it learns, too. A proposal above
// `current` is reduced
// - to `current` while pods start or have just started, unless the value grows faster than when
//   they were ordered, or the learned rate shows that they do not suffice;
// - to `current` if the value falls so fast that it is gone before one more pod would serve;
// - to what the learned rate justifies, and at least a quarter more than `current`, otherwise.
void startup_credit_apply(struct startup_trend *t, const struct startup_coming *c, int32_t current,
                          int32_t proposal, struct startup_credit *ret);
