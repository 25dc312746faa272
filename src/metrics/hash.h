// SPDX-License-Identifier: Apache-2.0
// A wide hash of identities: four independent lanes of 64 x 64 -> 128 bit multiplications, 64 bytes
// a turn. For tables in memory only; the value may differ between versions of the program.
#pragma once

#include "base/hmap.h"

#include <stdint.h>

static inline uint64_t metrics_hash_load(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline uint64_t metrics_hash_fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

struct metrics_hash_lanes {
    uint64_t a, b, c, d;
};

static inline void metrics_hash_block(struct metrics_hash_lanes *s, const char *p)
{
    s->a = metrics_hash_fold(metrics_hash_load(p) ^ s->a,
                             metrics_hash_load(p + 8) ^ 0x9e3779b97f4a7c15ULL);
    s->b = metrics_hash_fold(metrics_hash_load(p + 16) ^ s->b,
                             metrics_hash_load(p + 24) ^ 0xc2b2ae3d27d4eb4fULL);
    s->c = metrics_hash_fold(metrics_hash_load(p + 32) ^ s->c,
                             metrics_hash_load(p + 40) ^ 0x165667b19e3779f9ULL);
    s->d = metrics_hash_fold(metrics_hash_load(p + 48) ^ s->d,
                             metrics_hash_load(p + 56) ^ 0xd6e8feb86659fd93ULL);
}

static inline uint64_t metrics_hash(const char *p, size_t n, uint64_t seed)
{
    if (n < 64)
        return metrics_hash_fold(gs_hash(p, n) ^ seed, 0x9e3779b97f4a7c15ULL);
    struct metrics_hash_lanes s = {seed ^ n, seed + 0x85ebca6b27d4eb4fULL, ~seed,
                                   seed ^ 0xff51afd7ed558ccdULL};
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        metrics_hash_block(&s, p + i);
    if (i < n)
        metrics_hash_block(&s, p + n - 64);
    return metrics_hash_fold(s.a ^ (s.b << 1 | s.b >> 63), s.c ^ (s.d << 1 | s.d >> 63)) ^ s.b ^
           s.d;
}
