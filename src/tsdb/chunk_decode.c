// SPDX-License-Identifier: Apache-2.0
#include "tsdb/chunk.h"

static inline uint64_t get_bytes(const uint8_t **at, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)(*at)[i] << (8 * i);
    *at += n;
    return v;
}

static inline uint64_t get_change(const uint8_t **at, uint8_t first)
{
    if (first < 0x80)
        return first;
    if (first < 0xc0)
        return (first & 0x3fu) | get_bytes(at, 1) << 6;
    if (first < 0xe0)
        return (first & 0x1fu) | get_bytes(at, 2) << 5;
    if (first < 0xf0)
        return (first & 0xfu) | get_bytes(at, 3) << 4;
    return first < TSDB_CHUNK_WIDE ? (first & 7u) | get_bytes(at, 4) << 3 : get_bytes(at, 8);
}

// The previous value: a number, or `other`.
struct last {
    int64_t number;
    unsigned places;
    bool is_number;
    double other;
};

static inline double last_value(const struct last *l)
{
    return l->is_number ? (double)l->number / tsdb_decimal_powers[l->places] : l->other;
}

// The number of rows that the byte represents. *ret_v: the value in each row.
static size_t get_other(const uint8_t **at, uint8_t first, struct last *l, double *ret_v)
{
    if (first == TSDB_CHUNK_ABSENT) {
        size_t n = (size_t)get_bytes(at, 1);
        *ret_v = tsdb_absent();
        return n ? n : 1; // 0 occurs in damaged files only
    }
    if (first == TSDB_CHUNK_RAW || first == TSDB_CHUNK_STALE) {
        l->is_number = false;
        l->other =
            tsdb_decimal_of_bits(first == TSDB_CHUNK_RAW ? get_bytes(at, 8) : TSDB_STALE_BITS);
    }
    *ret_v = last_value(l);
    return first < 0x80 ? first - (TSDB_CHUNK_REPEATS - 1u) : 1;
}

static inline void get_number(const uint8_t **at, uint8_t first, struct last *l)
{
    if (first == TSDB_CHUNK_PLACES) {
        l->places = *(*at)++ % (TSDB_DECIMAL_MAX_PLACES + 1);
        l->number = 0;
        first = *(*at)++;
    }
    // Unsigned, so that values of a damaged file cannot overflow.
    uint64_t change = (uint64_t)tsdb_decimal_unzigzag(get_change(at, first));
    l->number = (int64_t)((uint64_t)l->number + change);
    l->is_number = true;
}

void tsdb_chunk_decode(const uint8_t *data, size_t from, size_t until, double *ret,
                       struct tsdb_chunk_position *ret_place)
{
    struct last l = {.other = 0};
    size_t i = 0;
    while (i < until) {
        uint8_t first = *data++;
        if (first < TSDB_CHUNK_REPEATS || (first >= 0x80 && first <= TSDB_CHUNK_PLACES)) {
            get_number(&data, first, &l);
            if (i >= from)
                ret[i - from] = (double)l.number / tsdb_decimal_powers[l.places];
            i++;
            continue;
        }
        double v;
        size_t end = i + get_other(&data, first, &l, &v);
        for (size_t k = i < from ? from : i; k < end && k < until; k++)
            ret[k - from] = v;
        i = end;
    }
    if (ret_place)
        *ret_place = (struct tsdb_chunk_position){data, l.number, l.places, i - until};
}
