// SPDX-License-Identifier: Apache-2.0
// Decodes the codes of a chunk (chunk.h). Queries spend most of their time here, so the
// common codes are read without branches and eight numbers at once. Data may be damaged: reads
// never leave the chunk, whatever its bytes are.
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

INLINE uint64_t load_whole(const uint8_t *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof(v));
    return le64toh(v);
}

// The next eight bytes, with zeros after the end. False: there are none, or the chunk is shorter.
INLINE bool load_bytes(const struct bytes *b, const uint8_t *at, uint64_t *ret)
{
    bool whole = b->end - at >= 8;
    if (at >= b->end || (!whole && b->end - b->start < 8))
        return false;
    *ret = load_whole(whole ? at : b->end - 8) >> (whole ? 0 : 8 * (8 - (b->end - at)));
    return true;
}

// --- packed codes ---

struct packed { // eight passes
    uint64_t base;
    unsigned width;
    bool changes;      // else numbers
    const uint8_t *at; // the differences
};

// False: another code, or a damaged one.
INLINE bool find_packed(const struct bytes *b, const uint8_t *at, const struct last *l,
                        struct packed *ret)
{
    if (b->end - at < 2 || (at[0] != TSDB_CHUNK_NUMBERS && at[0] != TSDB_CHUNK_CHANGES))
        return false;
    bool changes = at[0] == TSDB_CHUNK_CHANGES;
    unsigned width = at[1] & 0x3fu, base_bytes = tsdb_chunk_base_bytes[at[1] >> 6];
    at += 2;
    if (width > TSDB_CHUNK_MAX_WIDTH || (size_t)(b->end - at) < base_bytes + width)
        return false;
    uint64_t base = (uint64_t)tsdb_decimal_unzigzag(get_bytes(&at, base_bytes));
    *ret = (struct packed){base + (changes || !base_bytes ? 0 : l->number), width, changes, at};
    return true;
}

// Unrolled, because the values do not depend on each other.
#define EACH_OF_RUN(i) _Pragma("GCC unroll 8") for (unsigned i = 0; i < TSDB_CHUNK_RUN; i++)

INLINE void unpack_narrow(uint64_t bits, unsigned width, uint64_t ret[TSDB_CHUNK_RUN])
{
    uint64_t mask = (UINT64_C(1) << width) - 1;
    EACH_OF_RUN (i) {
        ret[i] = bits & mask;
        bits >>= width;
    }
}

INLINE void unpack_wide(const struct bytes *b, const uint8_t *at, unsigned width,
                        uint64_t ret[TSDB_CHUNK_RUN])
{
    uint64_t mask = (UINT64_C(1) << width) - 1;
    uint8_t copy[TSDB_CHUNK_MAX_WIDTH + 8];
    if ((size_t)(b->end - at) < width + 8) {
        memset(copy, 0, sizeof(copy));
        memcpy(copy, at, width);
        at = copy;
    }
    EACH_OF_RUN (i)
        ret[i] = load_whole(at + i * width / 8) >> i * width % 8 & mask;
}

// Returns the position after it. ret NULL: the rows are skipped.
INLINE const uint8_t *unpack(const struct bytes *b, const struct packed *p, struct last *l,
                             double *ret)
{
    uint64_t numbers[TSDB_CHUNK_RUN], bits;
    if (p->width <= 8 && load_bytes(b, p->at, &bits))
        unpack_narrow(bits, p->width, numbers);
    else
        unpack_wide(b, p->at, p->width, numbers);
    if (p->changes) {
        EACH_OF_RUN (i)
            numbers[i] = l->number += p->base + numbers[i];
    } else {
        EACH_OF_RUN (i)
            numbers[i] += p->base;
        l->number = numbers[TSDB_CHUNK_RUN - 1];
    }
    if (ret && !l->places) {
        EACH_OF_RUN (i)
            ret[i] = (double)(int64_t)numbers[i];
    } else if (ret) {
        EACH_OF_RUN (i)
            ret[i] = (double)(int64_t)numbers[i] / tsdb_decimal_powers[l->places];
    }
    return p->at + p->width;
}

// Takes codes while their rows are among the next n. Returns the number of these.
INLINE size_t get_packed_rows(const struct bytes *b, const uint8_t **ret_at, struct last *l,
                              size_t n, double *ret)
{
    struct packed p;
    size_t i = 0;
    for (; n - i >= TSDB_CHUNK_RUN && find_packed(b, *ret_at, l, &p); i += TSDB_CHUNK_RUN)
        *ret_at = unpack(b, &p, l, ret ? ret + i : NULL);
    return i;
}

// --- other codes ---

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

// Passes over rows up to `until`. Returns the next row. If it is after `until`, *ret_v is the value
// of the rows from there on. If it is before, it is in a packed code with `until`.
static size_t skip_rows(const struct bytes *b, const uint8_t **data, struct last *ret_last,
                        size_t until, double *ret_v)
{
    struct last l = *ret_last;
    const uint8_t *at = *data;
    double v = 0;
    size_t i = 0;
    struct packed p;
    while (i < until) {
        i += get_packed_rows(b, &at, &l, until - i, NULL);
        i += get_short_rows(b, &at, &l, until - i, NULL);
        i += get_long_rows(&at, &l, until - i, NULL);
        if (i == until)
            break;
        if (!find_packed(b, at, &l, &p))
            i += get_rows(&at, &l, &v);
        else if (until - i < TSDB_CHUNK_RUN)
            break;
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
    struct packed p;
    double few[TSDB_CHUNK_RUN];
    for (;;) {
        i += get_packed_rows(b, &at, &l, n - i, ret + i);
        i += get_short_rows(b, &at, &l, n - i, ret + i);
        i += get_long_rows(&at, &l, n - i, ret + i);
        if (i == n)
            break;
        if (find_packed(b, at, &l, &p)) {
            if (n - i >= TSDB_CHUNK_RUN)
                continue;
            at = unpack(b, &p, &l, few);
            memcpy(ret + i, few, (n - i) * sizeof(*few));
            last = i + TSDB_CHUNK_RUN;
            break;
        }
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
    struct packed p;
    double v, few[TSDB_CHUNK_RUN];
    size_t next = skip_rows(&b, &data, &l, from, &v), pending = next > until ? next - until : 0;
    if (next < from && find_packed(&b, data, &l, &p)) {
        size_t before = from - next, more = TSDB_CHUNK_RUN - before;
        data = unpack(&b, &p, &l, few);
        memcpy(ret, few + before, (more < until - from ? more : until - from) * sizeof(*few));
        next += TSDB_CHUNK_RUN;
        pending = next > until ? next - until : 0;
    } else {
        for (size_t i = from; i < next && i < until; i++)
            ret[i - from] = v;
    }
    if (next < until)
        pending = read_rows(&b, &data, &l, until - next, ret + (next - from));
    if (ret_place)
        *ret_place = (struct tsdb_chunk_position){data, (int64_t)l.number, l.places, pending};
}
