// SPDX-License-Identifier: Apache-2.0
#include "tsdb/chunk.h"

#include <endian.h>

#define MAX_REPEATS 15u

// A struct of local variables, so that the compiler keeps them in registers.
struct writer {
    uint8_t *at;
    uint64_t last_bits; // bits of the previous value
    int64_t last_number;
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
    size_t more =
        (size_t)(z >= TSDB_CHUNK_REPEATS) + (z >> 14 != 0) + (z >> 21 != 0) + (z >> 28 != 0);
    unsigned bits = forms[more].low_bits;
    put_bytes(w, forms[more].head | (z & ((1u << bits) - 1)) | z >> bits << 8, 1 + more);
}

static inline void put_number(struct writer *w, unsigned places, int64_t number)
{
    if (places != w->places) {
        put_bytes(w, TSDB_CHUNK_PLACES | places << 8, 2);
        w->places = places;
        w->last_number = 0;
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
                       .last_number = b->last_number,
                       .places = b->last_places,
                       .samples = b->samples,
                       .repeats = b->last_repeats};
    if (gap) {
        end_repeats(&w);
        w.absents = (unsigned)gap;
    }
    if (n == TSDB_CHUNK_RUN && tsdb_decimal_run(values, w.places, numbers)) {
        for (size_t i = 0; i < TSDB_CHUNK_RUN; i++) {
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
    b->last_number = w.last_number;
    b->last_places = w.places & 0xf;
    b->samples = w.samples & 0x7f;
    return (size_t)(w.at - out);
}
