// SPDX-License-Identifier: Apache-2.0
// How long work waits before it is served, first come first served. In seconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct replay_waits_batch {
    int64_t since_s;
    double work;
};

struct replay_waits {
    struct replay_waits_batch *batches; // those that wait, the oldest at `first`
    size_t first, n, cap;
    double *served; // work by the seconds that it waited; the last one: so many or more
    size_t n_served, served_cap;
};

void replay_waits_add(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve_at_once(struct replay_waits *w,
                                double work); // what came while nothing waited
// The seconds that at most this share of the served work waited longer than; 0 <= 1 - share.
double replay_waits_quantile(const struct replay_waits *w, double share);
void replay_waits_finish(struct replay_waits *w);
