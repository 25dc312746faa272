// SPDX-License-Identifier: Apache-2.0
// How long work waits before it is served (first in, first out), in seconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct replay_waits_batch {
    int64_t since_s;
    double work;
};

struct replay_waits {
    struct replay_waits_batch *batches; // waiting, the oldest at `first`
    size_t first, n, cap;
    double *served; // work by its wait in seconds; the last entry: this long or longer
    size_t n_served, served_cap;
};

void replay_waits_add(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve_at_once(struct replay_waits *w,
                                double work); // work that arrived while nothing waited
// The quantile of the waits of the served work, in seconds; share from 0 to 1.
double replay_waits_quantile(const struct replay_waits *w, double share);
void replay_waits_finish(struct replay_waits *w);
