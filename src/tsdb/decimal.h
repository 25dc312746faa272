// SPDX-License-Identifier: Apache-2.0
// Doubles as bytes, for blocks of samples and for the log. Private to the room.
//
// A value is a decimal number n / 10^places, places 0 to 6 (C prints six), when that is exact to
// the bit: the low three bits of its first byte are the places, four more begin the zigzag of n,
// the highest says that bytes with seven bits each follow. Otherwise TSDB_DECIMAL_RAW and the eight
// bytes of the double. The other bytes whose low bits are TSDB_DECIMAL_OTHER belong to the caller:
// what is not a number.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    TSDB_DECIMAL_MAX_PLACES = 6,
    TSDB_DECIMAL_OTHER = 7,
    TSDB_DECIMAL_RAW = 0xff,
    TSDB_DECIMAL_MAX_BYTES = 11,
    TSDB_DECIMAL_RUN = 8,
};

static const double tsdb_decimal_powers[TSDB_DECIMAL_MAX_PLACES + 1] = {1,     10,     100,    1000,
                                                                        10000, 100000, 1000000};

static inline uint64_t tsdb_decimal_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static inline double tsdb_decimal_of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline uint64_t tsdb_decimal_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ -(uint64_t)(v < 0);
}

static inline int64_t tsdb_decimal_unzigzag(uint64_t z)
{
    return (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

// The numbers of all values with these places. False: not all have one, or one is too large here.
bool tsdb_decimal_run(const double v[TSDB_DECIMAL_RUN], unsigned places,
                      int64_t ret[TSDB_DECIMAL_RUN]);
// -1: no decimal number. hint: places that are tried first, of a value like this one.
int tsdb_decimal_places(double v, unsigned hint, int64_t *ret_n);
int tsdb_decimal_fewest_places(double v, unsigned hint,
                               int64_t *ret_n); // whole numbers before the hint
// Both return how many of at most TSDB_DECIMAL_MAX_BYTES bytes they wrote.
size_t tsdb_decimal_put(uint8_t *out, unsigned places, int64_t n);
size_t tsdb_decimal_put_raw(uint8_t *out, double v);
size_t tsdb_decimal_put_varint(uint8_t *out, uint64_t v);
