// SPDX-License-Identifier: Apache-2.0
#include "tsdb/stream.h"

#include "base/mem.h"

#include <math.h>

#define BLOCK_SAMPLES 120
#define FIRST_BYTES   24
#define MAX_SAMPLE    ((size_t)20) // bytes of one
#define MAX_PLACES    5
#define RAW           6
#define STALE         7
#define NO_PLACES     255

static const double powers[MAX_PLACES + 1] = {1, 10, 100, 1000, 10000, 100000};

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static uint64_t zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t z)
{
    return (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

// --- writing ---

static size_t put_varint(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static bool is_decimal(double v, int places, int64_t *ret)
{
    double scaled = v * powers[places];
    int64_t n = (int64_t)(scaled + (v < 0 ? -0.5 : 0.5));
    *ret = n;
    return (double)n / powers[places] == v;
}

// The places that the last value had are tried first: series keep theirs.
static int places_of(double v, uint8_t last, int64_t *ret)
{
    if (!(fabs(v) < 1e12) || (v == 0 && signbit(v)))
        return -1;
    if (last <= MAX_PLACES && is_decimal(v, last, ret))
        return last;
    for (int places = 0; places <= MAX_PLACES; places++)
        if (is_decimal(v, places, ret))
            return places;
    return -1;
}

// Five bits of the number beside the form, then seven a byte.
static size_t put_number(uint8_t *out, unsigned form, uint64_t z)
{
    size_t n = 0;
    out[n++] = (uint8_t)(form | (unsigned)(z & 0xf) << 3 | (z > 0xf ? 0x80u : 0));
    return z > 0xf ? n + put_varint(out + n, z >> 4) : n;
}

static size_t put_value(struct stream *s, uint8_t *out, double v)
{
    int64_t number;
    if (tsdb_is_stale(v)) {
        out[0] = STALE;
        return 1;
    }
    int places = places_of(v, s->last_places, &number);
    if (places < 0) {
        uint64_t bits = bits_of(v);
        out[0] = RAW;
        memcpy(out + 1, &bits, sizeof(bits));
        return 1 + sizeof(bits);
    }
    bool same = s->last_places == places;
    size_t n = put_number(out, (unsigned)places, zigzag(same ? number - s->last_number : number));
    s->last_places = (uint8_t)places;
    s->last_number = number;
    return n;
}

static struct block *open_block(struct stream *s, int64_t t_ms, size_t *grown)
{
    if (s->n_blocks == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 1;
        s->blocks = gs_realloc_array(s->blocks, cap, sizeof(struct block *));
        *grown += (cap - s->cap) * sizeof(struct block *);
        s->cap = cap;
    }
    struct block *b = gs_alloc(sizeof(*b) + FIRST_BYTES);
    *grown += sizeof(*b) + FIRST_BYTES;
    b->first_ms = t_ms;
    b->cap = FIRST_BYTES;
    s->blocks[s->n_blocks++] = b;
    s->last_places = NO_PLACES;
    s->last_step = 0;
    return b;
}

static struct block *make_room(struct stream *s, struct block *b, size_t *grown)
{
    if ((size_t)b->cap - b->len >= MAX_SAMPLE)
        return b;
    size_t cap = b->cap + b->cap / 2 + MAX_SAMPLE;
    b = gs_realloc_array(b, 1, sizeof(*b) + cap);
    *grown += cap - b->cap;
    b->cap = (uint16_t)cap;
    s->blocks[s->n_blocks - 1] = b;
    return b;
}

// A full block gives back what it did not need.
static void seal(struct stream *s, size_t *grown)
{
    struct block *b = s->blocks[s->n_blocks - 1];
    *grown -= (size_t)(b->cap - b->len);
    b = gs_realloc_array(b, 1, sizeof(*b) + b->len);
    b->cap = b->len;
    s->blocks[s->n_blocks - 1] = b;
}

size_t stream_append(struct stream *s, int64_t t_ms, double value)
{
    size_t grown = 0; // may wrap below zero when a block is sealed: the caller adds it
    struct block *b = s->n_blocks ? s->blocks[s->n_blocks - 1] : NULL;
    if (b && b->n == BLOCK_SAMPLES) {
        seal(s, &grown);
        b = NULL;
    }
    bool first = !b;
    b = make_room(s, first ? open_block(s, t_ms, &grown) : b, &grown);
    uint8_t *out = b->data + b->len;
    size_t n = 0;
    if (first) {
        n = put_value(s, out, value);
    } else {
        int64_t step = t_ms - s->last_ms;
        bool same = bits_of(value) == bits_of(s->last_value);
        n = put_varint(out, zigzag(step - s->last_step) << 1 | same);
        s->last_step = step;
        if (!same)
            n += put_value(s, out + n, value);
    }
    b->len = (uint16_t)(b->len + n);
    b->n++;
    b->last_ms = s->last_ms = t_ms;
    s->last_value = value;
    return grown;
}

// --- reading ---

struct cursor {
    const uint8_t *at;
    int64_t t_ms, step, number;
    double value;
    uint8_t places;
    size_t left; // samples
};

static uint64_t get_varint(struct cursor *c)
{
    uint64_t v = *c->at & 0x7f;
    unsigned shift = 7;
    while (*c->at++ & 0x80) {
        v |= (uint64_t)(*c->at & 0x7f) << shift;
        shift += 7;
    }
    return v;
}

static void get_value(struct cursor *c)
{
    uint8_t first = *c->at++;
    unsigned form = first & 7;
    if (form == STALE) {
        c->value = tsdb_stale_marker();
        return;
    }
    if (form == RAW) {
        memcpy(&c->value, c->at, sizeof(c->value));
        c->at += sizeof(c->value);
        return;
    }
    uint64_t z = (first >> 3) & 0xf;
    if (first & 0x80)
        z |= get_varint(c) << 4;
    int64_t n = unzigzag(z);
    c->number = c->places == form ? c->number + n : n;
    c->places = (uint8_t)form;
    c->value = (double)c->number / powers[form];
}

static struct cursor begin(const struct block *b)
{
    struct cursor c = {.at = b->data, .t_ms = b->first_ms, .places = NO_PLACES, .left = b->n};
    get_value(&c);
    return c;
}

static bool next(struct cursor *c)
{
    if (--c->left == 0)
        return false;
    uint64_t word = get_varint(c);
    c->step += unzigzag(word >> 1);
    c->t_ms += c->step;
    if (!(word & 1))
        get_value(c);
    return true;
}

int64_t stream_first_ms(const struct stream *s)
{
    return s->blocks[0]->first_ms;
}

// The first block that ends at or after t_ms.
static uint32_t find_block(const struct stream *s, int64_t t_ms)
{
    uint32_t low = 0, high = s->n_blocks;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (s->blocks[mid]->last_ms < t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void make_room_for(struct tsdb_samples *s, size_t more)
{
    if (s->n + more <= s->cap)
        return;
    s->cap = (s->n + more) * 2;
    s->t = gs_realloc_array(s->t, s->cap, sizeof(*s->t));
    s->v = gs_realloc_array(s->v, s->cap, sizeof(*s->v));
}

void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret)
{
    ret->n = 0;
    for (uint32_t i = find_block(s, mint); i < s->n_blocks && s->blocks[i]->first_ms <= maxt; i++) {
        make_room_for(ret, s->blocks[i]->n);
        struct cursor c = begin(s->blocks[i]);
        do {
            if (c.t_ms > maxt)
                return;
            ret->t[ret->n] = c.t_ms;
            ret->v[ret->n] = c.value;
            ret->n += c.t_ms >= mint;
        } while (next(&c));
    }
}

bool stream_at(const struct stream *s, int64_t t_ms, struct tsdb_point *ret)
{
    if (!s->n_blocks || s->blocks[0]->first_ms > t_ms)
        return false;
    if (s->last_ms <= t_ms) {
        *ret = (struct tsdb_point){s->last_ms, s->last_value};
        return true;
    }
    uint32_t i = find_block(s, t_ms);
    if (i == s->n_blocks || s->blocks[i]->first_ms > t_ms)
        i--; // in the gap between two blocks
    struct cursor c = begin(s->blocks[i]);
    do {
        if (c.t_ms > t_ms)
            break;
        *ret = (struct tsdb_point){c.t_ms, c.value};
    } while (next(&c));
    return true;
}

// --- upkeep ---

size_t stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples)
{
    uint32_t gone = 0;
    size_t bytes = 0;
    while (gone < s->n_blocks && s->blocks[gone]->last_ms < oldest_ms) {
        bytes += sizeof(struct block) + s->blocks[gone]->cap;
        *ret_samples += s->blocks[gone]->n;
        free(s->blocks[gone++]);
    }
    s->n_blocks -= gone;
    if (gone && s->n_blocks)
        memmove(s->blocks, s->blocks + gone, s->n_blocks * sizeof(struct block *));
    return bytes;
}

size_t stream_bytes(const struct stream *s)
{
    size_t bytes = s->cap * sizeof(struct block *);
    for (uint32_t i = 0; i < s->n_blocks; i++)
        bytes += sizeof(struct block) + s->blocks[i]->cap;
    return bytes;
}

void stream_finish(struct stream *s)
{
    for (uint32_t i = 0; i < s->n_blocks; i++)
        free(s->blocks[i]);
    free(s->blocks);
    *s = (struct stream){0};
}
