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

// The changes of the codes with one byte.
#define CHANGE(z)    (int8_t)((z) >> 1 ^ -((z)&1))
#define CHANGES4(z)  CHANGE(z), CHANGE((z) + 1), CHANGE((z) + 2), CHANGE((z) + 3)
#define CHANGES16(z) CHANGES4(z), CHANGES4((z) + 4), CHANGES4((z) + 8), CHANGES4((z) + 12)
static const int8_t changes[TSDB_CHUNK_REPEATS] = {
    CHANGES16(0),  CHANGES16(16), CHANGES16(32), CHANGES16(48),
    CHANGES16(64), CHANGES16(80), CHANGES16(96),
};

// Most rows: a change of up to three bytes. False: another code.
INLINE bool get_small_change(const uint8_t **at, struct last *l)
{
    const uint8_t *b = *at;
    if (b[0] < TSDB_CHUNK_REPEATS) {
        l->number += (uint64_t)(int64_t)changes[b[0]];
        *at += 1;
        return true;
    }
    if ((b[0] & 0xc0u) == 0x80) {
        add_change(l, (b[0] & 0x3fu) | (uint64_t)b[1] << 6);
        *at += 2;
        return true;
    }
    if ((b[0] & 0xe0u) == 0xc0) {
        add_change(l, (b[0] & 0x1fu) | (uint64_t)b[1] << 5 | (uint64_t)b[2] << 13);
        *at += 3;
        return true;
    }
    return false;
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
    } else if (first >= 0x80 && first < TSDB_CHUNK_PLACES) {
        add_change(l, get_change(at, first));
        other = false;
    }
    l->other_until = other ? *at : NULL;
    *ret_v = first == TSDB_CHUNK_ABSENT ? tsdb_absent() : other ? l->other : number_value(l);
    return n;
}

// Passes over rows up to `until` at least. Returns the next row. If it is after `until`, *ret_v is
// the value of the rows from there on.
static size_t skip_rows(const uint8_t **data, struct last *ret_last, size_t until, double *ret_v)
{
    struct last l = *ret_last;
    const uint8_t *at = *data;
    double v = 0;
    size_t i = 0;
    while (i < until) {
        if (get_small_change(&at, &l))
            i++;
        else
            i += get_rows(&at, &l, &v);
    }
    *data = at;
    *ret_last = l;
    *ret_v = v;
    return i;
}

// Decodes n rows. Returns the number of rows that the last code represents beyond them.
static size_t read_rows(const uint8_t **data, struct last *ret_last, size_t n, double *ret)
{
    struct last l = *ret_last;
    const uint8_t *at = *data;
    size_t i = 0, end = 0;
    while (i < n) {
        if (get_small_change(&at, &l)) {
            ret[i++] = number_value(&l);
            continue;
        }
        double v;
        for (end = i + get_rows(&at, &l, &v); i < end && i < n; i++)
            ret[i] = v;
    }
    *data = at;
    *ret_last = l;
    return end > n ? end - n : 0;
}

void tsdb_chunk_decode(const uint8_t *data, size_t from, size_t until, double *ret,
                       struct tsdb_chunk_position *ret_place)
{
    struct last l = {.other = 0};
    double v;
    size_t next = skip_rows(&data, &l, from, &v), pending = next > until ? next - until : 0;
    for (size_t i = from; i < next && i < until; i++)
        ret[i - from] = v;
    if (next < until)
        pending = read_rows(&data, &l, until - next, ret + (next - from));
    if (ret_place)
        *ret_place = (struct tsdb_chunk_position){data, (int64_t)l.number, l.places, pending};
}
