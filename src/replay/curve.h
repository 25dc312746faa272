// SPDX-License-Identifier: Apache-2.0
// A value over time, from points: straight lines between them, the first and last value outside.
// Private to the room.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct replay_curve_point {
    int64_t t_ms;
    double v;
};

struct replay_curve {
    struct replay_curve_point *points; // in time order; two at one time are a step
    size_t n, cap;
    int64_t repeat_ms; // starts over after so long; 0: never
};

void replay_curve_add(struct replay_curve *c, int64_t t_ms, double v);
double replay_curve_at(const struct replay_curve *c, int64_t t_ms); // 0 without points
// The time before which the value goes on along the line it is on; INT64_MAX: for ever.
int64_t replay_curve_straight_until(const struct replay_curve *c, int64_t t_ms);
void replay_curve_finish(struct replay_curve *c);

// The straight piece of a curve around a time, so that its neighbours need no search.
struct replay_curve_piece {
    int64_t from_ms, until_ms; // until: not any more
    int64_t base_ms;
    double v, rise, over_ms; // v at base, v + rise over_ms later
};
void replay_curve_find_piece(const struct replay_curve *c, int64_t t_ms,
                             struct replay_curve_piece *ret);

// As replay_curve_at(), to the last bit; `piece` is zero at the start and belongs to one curve.
static inline double replay_curve_near(const struct replay_curve *c, int64_t t_ms,
                                       struct replay_curve_piece *piece)
{
    if (t_ms < piece->from_ms || t_ms >= piece->until_ms)
        replay_curve_find_piece(c, t_ms, piece);
    return piece->v + piece->rise * (double)(t_ms - piece->base_ms) / piece->over_ms;
}
