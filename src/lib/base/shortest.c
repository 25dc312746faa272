// SPDX-License-Identifier: Apache-2.0
// The shortest decimal that parses to the same double. Source: Raffaello Giulietti, "The Schubfach
// way to render doubles".
#include "base/shortest.h"

#include <float.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 10^k for k in MIN_POWER..MAX_POWER, scaled to 128 bits with the highest one set, rounded up. They
// cover 1e-15 to 1e22, where metrics are; others take the way by the C library.
enum { MIN_POWER = -6, MAX_POWER = 34 };
static const struct power {
    uint64_t high, low;
} powers[] = {
    {UINT64_C(0x8637bd05af6c69b5), UINT64_C(0xa63f9a49c2c1b110)},
    {UINT64_C(0xa7c5ac471b478423), UINT64_C(0x0fcf80dc33721d54)},
    {UINT64_C(0xd1b71758e219652b), UINT64_C(0xd3c36113404ea4a9)},
    {UINT64_C(0x83126e978d4fdf3b), UINT64_C(0x645a1cac083126ea)},
    {UINT64_C(0xa3d70a3d70a3d70a), UINT64_C(0x3d70a3d70a3d70a4)},
    {UINT64_C(0xcccccccccccccccc), UINT64_C(0xcccccccccccccccd)},
    {UINT64_C(0x8000000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xa000000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xc800000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xfa00000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x9c40000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xc350000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xf424000000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x9896800000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xbebc200000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xee6b280000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x9502f90000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xba43b74000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xe8d4a51000000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x9184e72a00000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xb5e620f480000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xe35fa931a0000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x8e1bc9bf04000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xb1a2bc2ec5000000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xde0b6b3a76400000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x8ac7230489e80000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xad78ebc5ac620000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xd8d726b7177a8000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x878678326eac9000), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xa968163f0a57b400), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xd3c21bcecceda100), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x84595161401484a0), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xa56fa5b99019a5c8), UINT64_C(0x0000000000000000)},
    {UINT64_C(0xcecb8f27f4200f3a), UINT64_C(0x0000000000000000)},
    {UINT64_C(0x813f3978f8940984), UINT64_C(0x4000000000000000)},
    {UINT64_C(0xa18f07d736b90be5), UINT64_C(0x5000000000000000)},
    {UINT64_C(0xc9f2c9cd04674ede), UINT64_C(0xa400000000000000)},
    {UINT64_C(0xfc6f7c4045812296), UINT64_C(0x4d00000000000000)},
    {UINT64_C(0x9dc5ada82b70b59d), UINT64_C(0xf020000000000000)},
    {UINT64_C(0xc5371912364ce305), UINT64_C(0x6c28000000000000)},
    {UINT64_C(0xf684df56c3e01bc6), UINT64_C(0xc732000000000000)},
};

__extension__ typedef unsigned __int128 wide;

// The product's bits from 128 on, with the lowest one set when anything was cut off.
static uint64_t round_to_odd(struct power g, uint64_t c)
{
    wide x = (wide)g.low * c, y = (wide)g.high * c + (uint64_t)(x >> 64);
    return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

static struct gs_decimal without_zeros(uint64_t digits, int exponent)
{
    while (digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    return (struct gs_decimal){digits, exponent};
}

static struct gs_decimal by_library(double v)
{
    char text[40];
    // Only subnormal numbers may need fewer than 15 digits to be unique.
    for (int digits = v < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    uint64_t m = 0;
    int shift = 0;
    const char *c = text;
    for (bool fraction = false; *c != 'e'; c++) {
        if (*c == '.') {
            fraction = true;
            continue;
        }
        m = m * 10 + (uint64_t)(*c - '0');
        shift -= fraction;
    }
    return without_zeros(m, shift + (int)strtol(c + 1, NULL, 10));
}

// v = c * 2^q. The names are those of the paper.
static struct gs_decimal schubfach(uint64_t c, int q, bool lower_closer, double v)
{
    bool even = c % 2 == 0;
    // floor(log10(2^q)), or of 3/4 of it
    int k = (int)(((int64_t)q * 1262611 - (lower_closer ? 524031 : 0)) >> 22);
    if (-k < MIN_POWER || -k > MAX_POWER)
        return by_library(v);
    int h = q + (int)((-(int64_t)k * 1741647) >> 19) + 1;
    struct power g = powers[-k - MIN_POWER];
    uint64_t cbl = 4 * c - 2 + lower_closer;
    uint64_t lower = round_to_odd(g, cbl << h) + !even;
    uint64_t vb = round_to_odd(g, 4 * c << h);
    uint64_t upper = round_to_odd(g, (4 * c + 2) << h) - !even;
    uint64_t s = vb / 4;
    if (s >= 10) {
        uint64_t sp = s / 10;
        bool under = lower <= 40 * sp, over = 40 * sp + 40 <= upper;
        if (under != over)
            return without_zeros(sp + over, k + 1);
    }
    bool under = lower <= 4 * s, over = 4 * s + 4 <= upper;
    if (under != over)
        return without_zeros(s + over, k);
    uint64_t middle = 4 * s + 2;
    return without_zeros(s + (vb > middle || (vb == middle && (s & 1))), k);
}

struct gs_decimal gs_shortest_decimal(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int biased = (int)(bits >> 52 & 0x7ff);
    if (biased == 0)
        return by_library(v);
    return schubfach(fraction | UINT64_C(1) << 52, biased - 1075, fraction == 0 && biased > 1, v);
}
