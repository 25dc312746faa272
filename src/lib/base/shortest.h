// SPDX-License-Identifier: Apache-2.0
// The shortest decimal that parses to the same double, the closest if there are several
// (Schubfach): R. Giulietti, "The Schubfach way to render doubles", 2020.
#pragma once

#include <stdint.h>

struct gs_decimal {
    uint64_t digits; // up to 17 digits, not 0, no trailing zeros
    int exponent;    // the value is digits * 10^exponent
};

// v: finite and greater than 0.
struct gs_decimal gs_shortest_decimal(double v);
