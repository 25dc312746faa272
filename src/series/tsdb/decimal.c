// SPDX-License-Identifier: Apache-2.0
// Doubles as decimal integers with few places, which most metrics are: 0.25 is 25 with two places.
// A number is used only if it gives the same bits back.
#include "tsdb/chunk.h"

#include <math.h>

#define TOO_LARGE 1e12 // below, the number with all decimals fits into 63 bits

int64_t tsdb_decimal_number(double v, unsigned places)
{
    double scaled = v * tsdb_decimal_powers[places];
    return fabs(scaled) < 0x1p62 ? (int64_t)(scaled + (v < 0 ? -0.5 : 0.5)) : 0;
}

static bool is_decimal(double v, unsigned places, int64_t *ret)
{
    *ret = tsdb_decimal_number(v, places);
    return (double)*ret / tsdb_decimal_powers[places] == v;
}

int tsdb_decimal_fewest_places(double v, unsigned hint, int64_t *ret_n)
{
    if (!(fabs(v) < TOO_LARGE) || (v == 0 && signbit(v)))
        return -1;
    return is_decimal(v, 0, ret_n) ? 0 : tsdb_decimal_places(v, hint, ret_n);
}

int tsdb_decimal_places(double v, unsigned hint, int64_t *ret_n)
{
    if (!(fabs(v) < TOO_LARGE) || (v == 0 && signbit(v)))
        return -1;
    if (hint <= TSDB_DECIMAL_MAX_PLACES && is_decimal(v, hint, ret_n))
        return (int)hint;
    for (unsigned places = 0; places <= TSDB_DECIMAL_MAX_PLACES; places++)
        if (is_decimal(v, places, ret_n))
            return (int)places;
    return -1;
}

// Does the same as is_decimal() for all values at once, without branches and conversions of single
// numbers: the sum of a number below 2^51 and 1.5 * 2^52 has the number in its low bits.
bool tsdb_decimal_run(const double v[TSDB_DECIMAL_RUN], unsigned places,
                      int64_t ret[TSDB_DECIMAL_RUN])
{
    const double power = tsdb_decimal_powers[places], shift = 0x1.8p52, limit = 0x1p51;
    uint64_t differ = 0;
    for (int i = 0; i < TSDB_DECIMAL_RUN; i++) {
        double scaled = v[i] * power, sum = scaled + shift;
        ret[i] = (int64_t)(tsdb_decimal_bits(sum) - tsdb_decimal_bits(shift));
        // Also differs for -0, for numbers that are too large, and for NaN and infinity.
        differ |= tsdb_decimal_bits((sum - shift) / power) ^ tsdb_decimal_bits(v[i]);
        differ |= (uint64_t) !(fabs(scaled) < limit);
    }
    return !differ;
}

size_t tsdb_decimal_put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

size_t tsdb_decimal_put(uint8_t *out, unsigned places, int64_t n)
{
    uint64_t z = tsdb_decimal_zigzag(n);
    out[0] = (uint8_t)(places | (unsigned)(z & 0xf) << 3 | (z > 0xf ? 0x80u : 0));
    return z > 0xf ? 1 + tsdb_decimal_put_varint(out + 1, z >> 4) : 1;
}

size_t tsdb_decimal_put_raw(uint8_t *out, double v)
{
    uint64_t bits = tsdb_decimal_bits(v);
    out[0] = TSDB_DECIMAL_RAW;
    for (int i = 0; i < 8; i++)
        out[1 + i] = (uint8_t)(bits >> (8 * i));
    return 9;
}
