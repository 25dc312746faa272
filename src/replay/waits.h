// SPDX-License-Identifier: Apache-2.0
// How long work waits before it is served, first come first served. In seconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct waits_batch {
    int64_t since_s;
    double work;
};

struct waits {
    struct waits_batch *batches; // those that wait, the oldest at `first`
    size_t first, n, cap;
    double *served; // work by the seconds that it waited; the last one: so many or more
    size_t n_served, served_cap;
};

void waits_add(struct waits *w, int64_t now_s, double work);
void waits_serve(struct waits *w, int64_t now_s, double work);
void waits_serve_at_once(struct waits *w, double work); // what came while nothing waited
// The seconds that at most this share of the served work waited longer than; 0 <= 1 - share.
double waits_quantile(const struct waits *w, double share);
void waits_finish(struct waits *w);
