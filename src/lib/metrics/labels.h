// SPDX-License-Identifier: Apache-2.0
// Label sets: immutable, sorted by name. The metric name is the label __name__.
#pragma once

#include "base/hmap.h"
#include "base/slice.h"

#include <stdint.h>

// Bytes of the longest label value that this program makes itself: functions of queries,
// relabeling, labels of rules. Nested functions could otherwise double a text with each level.
// Values that are scraped or received keep the limits of their protocols, also in a copy.
#define METRICS_MAX_MADE_VALUE ((size_t)64 * 1024)

struct metrics_label {
    struct gs_slice name, value;
};

struct metrics_labels; // immutable

void metrics_labels_free(struct metrics_labels *l);
// Sorts and copies the labels. The last of duplicate names wins; labels with empty values are
// dropped.
struct metrics_labels *metrics_labels_new(const struct metrics_label *items, size_t n);
size_t metrics_labels_len(const struct metrics_labels *l);
const struct metrics_label *metrics_labels_at(const struct metrics_labels *l, size_t i);

// --- hash of identities ---
// A fast hash of identities: four independent lanes of 64 x 64 -> 128 bit multiplications, 64 bytes
// per iteration. For tables in memory only: the value can differ between versions of the program.

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

static inline uint64_t metrics_hash(const char *p, size_t n, uint64_t seed)
{
    if (n < 64)
        return metrics_hash_fold(gs_hash(p, n) ^ seed, 0x9e3779b97f4a7c15ULL);
    // Separate variables, so that all of them stay in registers.
    uint64_t a = seed ^ n, b = seed + 0x85ebca6b27d4eb4fULL, c = ~seed,
             d = seed ^ 0xff51afd7ed558ccdULL;
    for (const char *last = p + n - 64;; p = p + 64 < last ? p + 64 : last) {
        a = metrics_hash_fold(metrics_hash_load(p) ^ a,
                              metrics_hash_load(p + 8) ^ 0x9e3779b97f4a7c15ULL);
        b = metrics_hash_fold(metrics_hash_load(p + 16) ^ b,
                              metrics_hash_load(p + 24) ^ 0xc2b2ae3d27d4eb4fULL);
        c = metrics_hash_fold(metrics_hash_load(p + 32) ^ c,
                              metrics_hash_load(p + 40) ^ 0x165667b19e3779f9ULL);
        d = metrics_hash_fold(metrics_hash_load(p + 48) ^ d,
                              metrics_hash_load(p + 56) ^ 0xd6e8feb86659fd93ULL);
        if (p == last)
            break;
    }
    return metrics_hash_fold(a ^ (b << 1 | b >> 63), c ^ (d << 1 | d >> 63)) ^ b ^ d;
}
