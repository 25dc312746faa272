// SPDX-License-Identifier: Apache-2.0
// Encodes values of a chunk: changes of decimal numbers, repeats, absent rows, and runs of eight
// numbers packed with the bits that they need.
#include "tsdb/chunk.h"

#include <endian.h>

#define MAX_REPEATS 15u

// A struct of local variables, so that the compiler keeps them in registers.
struct writer {
    uint8_t *at;
    uint64_t last_bits; // bits of the previous value
    int64_t last_number;
    bool number_known;
    unsigned places, samples;
    unsigned repeats, absents; // not written yet; at least one of them is zero
};

// Stores 8 bytes at once. The first n bytes are valid.
static inline void put_bytes(struct writer *w, uint64_t v, size_t n)
{
    uint64_t bytes = htole64(v);
    memcpy(w->at, &bytes, sizeof(bytes));
    w->at += n;
}

static inline void end_repeats(struct writer *w)
{
    if (w->repeats)
        put_bytes(w, TSDB_CHUNK_REPEATS + w->repeats - 1, 1);
    w->repeats = 0;
}

static inline void end_absents(struct writer *w)
{
    if (w->absents)
        put_bytes(w, TSDB_CHUNK_ABSENT | w->absents << 8, 2); // at most TSDB_TIMESTAMPS_MAX
    w->absents = 0;
}

// The bytes after the first one.
static inline size_t more_bytes(uint64_t z)
{
    return (size_t)(z >= TSDB_CHUNK_REPEATS) + (z >> 14 != 0) + (z >> 21 != 0) + (z >> 28 != 0) +
           4u * (z >> 35 != 0);
}

// The sizes of changes are not predictable, so the code has no branches.
static inline void put_change(struct writer *w, int64_t number)
{
    static const struct {
        uint8_t head, low_bits;
    } forms[] = {{0, 7}, {0x80, 6}, {0xc0, 5}, {0xe0, 4}, {0xf0, 3}};
    // Unsigned, because the previous value may come from a damaged file.
    uint64_t z = tsdb_decimal_zigzag((int64_t)((uint64_t)number - (uint64_t)w->last_number));
    w->last_number = number;
    if (z >> 35) {
        put_bytes(w, TSDB_CHUNK_WIDE, 1);
        put_bytes(w, z, 8);
        return;
    }
    size_t more = more_bytes(z);
    unsigned bits = forms[more].low_bits;
    put_bytes(w, forms[more].head | (z & ((1u << bits) - 1)) | z >> bits << 8, 1 + more);
}

// --- packed codes ---

struct packing {           // of eight numbers
    uint64_t base, zigzag; // zigzag: as it is stored
    unsigned width, selector;
    size_t bytes; // with the two bytes before
};

static inline unsigned bits_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

// before: what the base is stored relative to.
static inline struct packing choose_base(const int64_t v[TSDB_CHUNK_RUN], int64_t before)
{
    int64_t low = v[0], high = v[0];
    for (size_t i = 1; i < TSDB_CHUNK_RUN; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    uint64_t z = tsdb_decimal_zigzag((int64_t)((uint64_t)low - (uint64_t)before));
    unsigned width = bits_of((uint64_t)high - (uint64_t)low), selector = 1u + (z >> 8 != 0);
    selector += z >> 24 != 0;
    struct packing p = {(uint64_t)low, z, width, selector,
                        2u + tsdb_chunk_base_bytes[selector] + width};
    unsigned from_zero = low < 0 ? 64 : bits_of((uint64_t)high);
    return 2 + from_zero <= p.bytes ? (struct packing){0, 0, from_zero, 0, 2 + from_zero} : p;
}

static inline void put_differences(struct writer *w, const struct packing *p,
                                   const int64_t v[TSDB_CHUNK_RUN])
{
    uint64_t bits = 0;
    unsigned n = 0; // below 8
    for (size_t i = 0; i < TSDB_CHUNK_RUN; i++) {
        bits |= ((uint64_t)v[i] - p->base) << n;
        n += p->width;
        put_bytes(w, bits, n / 8);
        bits >>= n / 8 * 8;
        n %= 8;
    }
}

// The bytes of the changes in codes of their own.
static inline size_t plain_bytes(const int64_t changes[TSDB_CHUNK_RUN])
{
    size_t bytes = 0;
    bool same = false;
    for (size_t i = 0; i < TSDB_CHUNK_RUN; i++) {
        uint64_t z = tsdb_decimal_zigzag(changes[i]);
        bytes += z ? 1 + more_bytes(z) : !same;
        same = !z;
    }
    return bytes;
}

// False: codes for single passes are shorter.
static inline bool put_packed(struct writer *w, const int64_t numbers[TSDB_CHUNK_RUN])
{
    enum { WORTH = 1 }; // bytes, for faster decoding
    int64_t changes[TSDB_CHUNK_RUN];
    uint64_t last = (uint64_t)w->last_number;
    for (size_t i = 0; i < TSDB_CHUNK_RUN; i++) {
        changes[i] = (int64_t)((uint64_t)numbers[i] - last);
        last = (uint64_t)numbers[i];
    }
    size_t plain = plain_bytes(changes);
    if (plain <= 1) // all values repeat, as most do
        return false;
    struct packing n = choose_base(numbers, w->last_number), c = choose_base(changes, 0);
    const struct packing *best = n.bytes <= c.bytes ? &n : &c;
    if (best->bytes > plain + WORTH || best->width > TSDB_CHUNK_MAX_WIDTH)
        return false;
    end_absents(w);
    end_repeats(w);
    unsigned code = best == &n ? TSDB_CHUNK_NUMBERS : TSDB_CHUNK_CHANGES;
    put_bytes(w, code | best->width << 8 | best->selector << 14, 2);
    put_bytes(w, best->zigzag, tsdb_chunk_base_bytes[best->selector]);
    put_differences(w, best, best == &n ? numbers : changes);
    w->last_number = numbers[TSDB_CHUNK_RUN - 1];
    w->samples += TSDB_CHUNK_RUN;
    return true;
}

// --- values ---

static inline void put_number(struct writer *w, unsigned places, int64_t number)
{
    if (places != w->places || !w->number_known) {
        put_bytes(w, TSDB_CHUNK_PLACES | places << 8, 2);
        w->places = places;
        w->last_number = 0;
        w->number_known = true;
    }
    put_change(w, number);
}

static inline bool is_repeat(struct writer *w, uint64_t bits)
{
    if (!w->samples++ || bits != w->last_bits)
        return false;
    end_absents(w);
    if (w->repeats == MAX_REPEATS)
        end_repeats(w);
    w->repeats++;
    return true;
}

static inline void begin_value(struct writer *w, uint64_t bits)
{
    end_absents(w);
    end_repeats(w);
    w->last_bits = bits;
}

static void put_any(struct writer *w, double v)
{
    int64_t number;
    if (tsdb_is_absent(v)) {
        end_repeats(w);
        w->absents++;
        return;
    }
    if (is_repeat(w, tsdb_decimal_bits(v)))
        return;
    begin_value(w, tsdb_decimal_bits(v));
    int places = tsdb_decimal_places(v, w->places, &number);
    if (places >= 0) {
        put_number(w, (unsigned)places, number);
    } else if (tsdb_is_stale_inline(v)) {
        put_bytes(w, TSDB_CHUNK_STALE, 1);
    } else {
        put_bytes(w, TSDB_CHUNK_RAW, 1);
        put_bytes(w, tsdb_decimal_bits(v), 8);
    }
}

size_t tsdb_chunk_encode(struct tsdb_head_chunk *b, size_t gap, const double *values, size_t n,
                         uint8_t out[TSDB_CHUNK_RUN_BYTES])
{
    int64_t numbers[TSDB_CHUNK_RUN];
    struct writer w = {.at = out,
                       .last_bits = tsdb_decimal_bits(b->last_value),
                       .last_number = tsdb_decimal_number(b->last_value, b->last_places),
                       .number_known = b->last_decimal || !b->samples,
                       .places = b->last_places,
                       .samples = b->samples,
                       .repeats = b->last_repeats};
    if (gap) {
        end_repeats(&w);
        w.absents = (unsigned)gap;
    }
    if (n == TSDB_CHUNK_RUN && w.number_known && tsdb_decimal_run(values, w.places, numbers)) {
        bool packed = put_packed(&w, numbers);
        if (packed)
            w.last_bits = tsdb_decimal_bits(values[TSDB_CHUNK_RUN - 1]);
        for (size_t i = 0; !packed && i < TSDB_CHUNK_RUN; i++) {
            uint64_t bits = tsdb_decimal_bits(values[i]);
            if (is_repeat(&w, bits))
                continue;
            begin_value(&w, bits);
            put_change(&w, numbers[i]);
        }
    } else {
        for (size_t i = 0; i < n; i++)
            put_any(&w, values[i]);
    }
    b->last_repeats = w.repeats & 0xf;
    end_repeats(&w);
    b->last_value = tsdb_decimal_of_bits(w.last_bits);
    b->last_places = w.places & 0xf;
    b->last_decimal =
        w.number_known && tsdb_decimal_number(b->last_value, w.places) == w.last_number;
    b->samples = w.samples & 0x7f;
    return (size_t)(w.at - out);
}
