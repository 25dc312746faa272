// SPDX-License-Identifier: Apache-2.0
#include "tsdb/chunk.h"

#include <endian.h>

static inline uint64_t get_bytes(const uint8_t **at, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++)
        v |= (uint64_t)(*at)[i] << (8 * i);
    *at += n;
    return v;
}

static uint64_t get_change(const uint8_t **at, uint8_t first)
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

// The state between two rows. The number is unsigned, so that values of a damaged file cannot
// overflow.
struct last {
    uint64_t number;
    unsigned places;
    double other;               // the last value that was no number,
    const uint8_t *other_until; // if no number follows: the end of its codes
};

// Always inlined: for a call, the compiler would keep the state in memory.
#define INLINE __attribute__((always_inline)) static inline

INLINE double number_value(const struct last *l)
{
    double number = (double)(int64_t)l->number; // most have no places
    return l->places ? number / tsdb_decimal_powers[l->places] : number;
}

INLINE void add_change(struct last *l, uint64_t zigzag)
{
    l->number += (uint64_t)tsdb_decimal_unzigzag(zigzag);
}

struct bytes { // of a chunk
    const uint8_t *start, *end;
};

// The next eight bytes, with zeros after the end. False: there are none, or the chunk is shorter.
INLINE bool load_bytes(const struct bytes *b, const uint8_t *at, uint64_t *ret)
{
    bool whole = b->end - at >= 8;
    if (at >= b->end || (!whole && b->end - b->start < 8))
        return false;
    memcpy(ret, whole ? at : b->end - 8, sizeof(*ret));
    *ret = le64toh(*ret) >> (whole ? 0 : 8 * (8 - (b->end - at)));
    return true;
}

// Codes of one and two bytes follow each other like random numbers, so that a branch for each would
// often be predicted wrongly. Here the only branch is for other codes, which are rare or regular.
// Takes up to `n` rows, and stops at another code. ret NULL: the rows are skipped.
INLINE size_t get_short_rows(const struct bytes *b, const uint8_t **ret_at, struct last *l,
                             size_t n, double *ret)
{
    enum { A_LOAD = 4 }; // rows in eight bytes
    const uint8_t *at = *ret_at;
    size_t i = 0;
    uint64_t bytes;
    bool others = false;
    while (i < n && !others && load_bytes(b, at, &bytes)) {
        size_t until = n - i < A_LOAD ? n : i + A_LOAD;
        for (; i < until; i++) {
            uint64_t first = bytes & 0xff, two = first >> 7;
            others = (first & 0x7f) >= TSDB_CHUNK_REPEATS - two * (TSDB_CHUNK_REPEATS - 0x40);
            if (others)
                break;
            add_change(l, (first & 0x7f) | ((bytes >> 2 & 0x3fc0) & -two));
            if (ret)
                ret[i] = number_value(l);
            at += 1 + two;
            bytes >>= 8 + 8 * two;
        }
    }
    *ret_at = at;
    return i;
}

// Codes of three bytes, which counters have for most rows. Otherwise as get_short_rows().
INLINE size_t get_long_rows(const uint8_t **ret_at, struct last *l, size_t n, double *ret)
{
    const uint8_t *at = *ret_at;
    size_t i = 0;
    for (; i < n && (at[0] & 0xe0u) == 0xc0; i++, at += 3) {
        add_change(l, (at[0] & 0x1fu) | (uint64_t)at[1] << 5 | (uint64_t)at[2] << 13);
        if (ret)
            ret[i] = number_value(l);
    }
    *ret_at = at;
    return i;
}

// Any code. Returns the number of rows that it represents. *ret_v: the value in each row.
INLINE size_t get_rows(const uint8_t **at, struct last *l, double *ret_v)
{
    bool other = *at == l->other_until;
    uint8_t first = *(*at)++;
    size_t n = first >= TSDB_CHUNK_REPEATS && first < 0x80 ? first - (TSDB_CHUNK_REPEATS - 1u) : 1;
    if (first == TSDB_CHUNK_ABSENT) {
        n = (size_t)get_bytes(at, 1);
        n = n ? n : 1; // 0 occurs in damaged files only
    } else if (first == TSDB_CHUNK_RAW || first == TSDB_CHUNK_STALE) {
        other = true;
        l->other =
            tsdb_decimal_of_bits(first == TSDB_CHUNK_RAW ? get_bytes(at, 8) : TSDB_STALE_BITS);
    } else if (first == TSDB_CHUNK_PLACES) {
        l->places = *(*at)++ % (TSDB_DECIMAL_MAX_PLACES + 1);
        l->number = 0;
        uint8_t change = *(*at)++;
        add_change(l, get_change(at, change));
        other = false;
    } else if (first < TSDB_CHUNK_REPEATS || (first >= 0x80 && first < TSDB_CHUNK_PLACES)) {
        add_change(l, get_change(at, first));
        other = false;
    }
    l->other_until = other ? *at : NULL;
    *ret_v = first == TSDB_CHUNK_ABSENT ? tsdb_absent() : other ? l->other : number_value(l);
    return n;
}

// Passes over rows up to `until` at least. Returns the next row. If it is after `until`, *ret_v is
// the value of the rows from there on.
static size_t skip_rows(const struct bytes *b, const uint8_t **data, struct last *ret_last,
                        size_t until, double *ret_v)
{
    struct last l = *ret_last;
    const uint8_t *at = *data;
    double v = 0;
    size_t i = 0;
    while (i < until) {
        i += get_short_rows(b, &at, &l, until - i, NULL);
        i += get_long_rows(&at, &l, until - i, NULL);
        if (i < until)
            i += get_rows(&at, &l, &v);
    }
    *data = at;
    *ret_last = l;
    *ret_v = v;
    return i;
}

// Decodes n rows. Returns the number of rows that the last code represents beyond them.
static size_t read_rows(const struct bytes *b, const uint8_t **data, struct last *ret_last,
                        size_t n, double *ret)
{
    struct last l = *ret_last;
    const uint8_t *at = *data;
    size_t i = 0, last = 0;
    for (;;) {
        i += get_short_rows(b, &at, &l, n - i, ret + i);
        i += get_long_rows(&at, &l, n - i, ret + i);
        if (i == n)
            break;
        double v;
        for (last = i + get_rows(&at, &l, &v); i < last && i < n; i++)
            ret[i] = v;
    }
    *data = at;
    *ret_last = l;
    return last > n ? last - n : 0;
}

void tsdb_chunk_decode(const uint8_t *data, size_t len, size_t from, size_t until, double *ret,
                       struct tsdb_chunk_position *ret_place)
{
    const struct bytes b = {data, data + len};
    struct last l = {.other = 0};
    double v;
    size_t next = skip_rows(&b, &data, &l, from, &v), pending = next > until ? next - until : 0;
    for (size_t i = from; i < next && i < until; i++)
        ret[i - from] = v;
    if (next < until)
        pending = read_rows(&b, &data, &l, until - next, ret + (next - from));
    if (ret_place)
        *ret_place = (struct tsdb_chunk_position){data, (int64_t)l.number, l.places, pending};
}
