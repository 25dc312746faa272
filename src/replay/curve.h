// SPDX-License-Identifier: Apache-2.0
// A value over time, from points: straight lines between them, the first and last value outside.
// Private to the room.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct curve_point {
    int64_t t_ms;
    double v;
};

struct curve {
    struct curve_point *points; // in time order; two at one time are a step
    size_t n, cap;
    int64_t repeat_ms; // starts over after so long; 0: never
};

void curve_add(struct curve *c, int64_t t_ms, double v);
double curve_at(const struct curve *c, int64_t t_ms); // 0 without points
// The time before which the value goes on along the line it is on; INT64_MAX: for ever.
int64_t curve_straight_until(const struct curve *c, int64_t t_ms);
void curve_finish(struct curve *c);
