// SPDX-License-Identifier: Apache-2.0
#include "tsdb/stream.h"

#include "base/mem.h"
#include "tsdb/decimal.h"

// A NaN as the stale marker is one: no number and no text gives these bits.
#define ABSENT_BITS UINT64_C(0x7ff0000000000003)
#define NO_PLACES   15
#define MAX_REPEATS 15u
#define MAX_ABSENTS 15u // behind them is DECIMAL_RAW

double stream_absent(void)
{
    return decimal_of_bits(ABSENT_BITS);
}

bool stream_is_absent(double v)
{
    return decimal_bits(v) == ABSENT_BITS;
}

// --- writing ---

// Bytes of a run under way.
struct run {
    struct block *b;
    unsigned repeats, absents; // not written yet; one of them is zero
    size_t len;
    uint8_t data[STREAM_RUN * DECIMAL_MAX_BYTES + TIMES_MAX / MAX_ABSENTS + 2];
};

static void put_other(struct run *r, unsigned code)
{
    r->data[r->len++] = (uint8_t)(code << 3 | DECIMAL_OTHER);
}

static void end_repeats(struct run *r)
{
    if (r->repeats)
        put_other(r, r->repeats);
    r->b->last_repeats = r->repeats & 0xf;
    r->repeats = 0;
}

static void end_absents(struct run *r)
{
    for (unsigned n; r->absents; r->absents -= n) {
        n = r->absents < MAX_ABSENTS ? r->absents : MAX_ABSENTS;
        put_other(r, MAX_REPEATS + n);
    }
}

static void put_value(struct run *r, double v)
{
    struct block *b = r->b;
    int64_t number;
    int places = tsdb_is_stale(v) ? DECIMAL_OTHER : decimal_places(v, b->last_places, &number);
    if (places == DECIMAL_OTHER) {
        put_other(r, 0);
    } else if (places < 0) {
        r->len += decimal_put_raw(r->data + r->len, v);
    } else {
        int64_t base = b->last_places == places ? b->last_number : 0;
        r->len += decimal_put(r->data + r->len, (unsigned)places, number - base);
        b->last_places = (uint8_t)places;
        b->last_number = number;
    }
    b->last_value = v;
}

static void put_sample(struct run *r, double v)
{
    end_absents(r);
    if (r->b->samples && decimal_bits(v) == decimal_bits(r->b->last_value)) {
        if (r->repeats == MAX_REPEATS)
            end_repeats(r);
        r->repeats++;
    } else {
        end_repeats(r);
        put_value(r, v);
    }
    r->b->samples++;
}

static void seal(struct stream *s, ptrdiff_t *bytes)
{
    if (s->n_sealed == s->cap) {
        uint32_t cap = s->cap ? s->cap + s->cap / 2 + 1 : 2;
        s->sealed = gs_realloc_array(s->sealed, cap, sizeof(*s->sealed));
        *bytes += (ptrdiff_t)((cap - s->cap) * sizeof(*s->sealed));
        s->cap = cap;
    }
    s->sealed[s->n_sealed++] = s->open;
    s->open = NULL;
}

static void open_block(struct stream *s, struct times *times, size_t at, ptrdiff_t *bytes)
{
    if (s->open)
        seal(s, bytes);
    struct block *b = gs_alloc(sizeof(*b));
    b->times = times_ref(times);
    b->first = (uint8_t)at;
    b->last_places = NO_PLACES;
    s->open = b;
    *bytes += (ptrdiff_t)sizeof(*b);
}

// Runs come each few passes: room for just this one keeps a hundred thousand blocks tight.
static void add_bytes(struct stream *s, const struct run *r, ptrdiff_t *bytes)
{
    struct block *b = s->open;
    size_t len = b->len + r->len;
    if (len > b->cap) {
        *bytes += (ptrdiff_t)(len - b->cap);
        b = gs_realloc_array(b, 1, sizeof(*b) + len);
        b->cap = (uint16_t)len;
        s->open = b;
    }
    memcpy(b->data + b->len, r->data, r->len);
    b->len = (uint16_t)len;
    b->dirty = true;
}

void stream_put(struct stream *s, struct times *times, size_t at, const double *values, size_t n,
                ptrdiff_t *bytes)
{
    while (n && stream_is_absent(values[n - 1]))
        n--;
    for (; n && stream_is_absent(*values); values++, n--)
        at++;
    if (!n)
        return;
    if (!s->open || s->open->times != times)
        open_block(s, times, at, bytes);
    struct block *b = s->open;
    struct run r;
    r.b = b;
    r.len = 0;
    r.repeats = b->last_repeats; // taken back, as there may be more
    b->len = (uint16_t)(b->len - (r.repeats > 0));
    r.absents = (unsigned)(at - b->first - b->n);
    if (r.absents)
        end_repeats(&r);
    for (size_t i = 0; i < n; i++) {
        if (stream_is_absent(values[i])) {
            end_repeats(&r);
            r.absents++;
        } else {
            put_sample(&r, values[i]);
        }
    }
    end_repeats(&r);
    b->n = (uint8_t)(at + n - b->first);
    add_bytes(s, &r, bytes);
}

// The column of the open block when this stream alone has it and it takes one more time.
static struct times *own_times(struct stream *s)
{
    struct block *b = s->open;
    bool own = b && b->times->refs == 1 && !b->times->packed && !b->first && b->n == b->times->n;
    if (!own)
        return NULL;
    if (b->times->n < TIMES_MAX)
        return b->times;
    b->times = times_pack(b->times);
    return NULL;
}

void stream_append(struct stream *s, int64_t t_ms, double value, ptrdiff_t *bytes)
{
    size_t before = s->open ? times_bytes(s->open->times) : 0;
    struct times *t = own_times(s);
    if (s->open)
        *bytes += (ptrdiff_t)(times_bytes(s->open->times) - before);
    if (t) {
        t = times_push(t, t_ms);
        s->open->times = t;
        *bytes += (ptrdiff_t)(times_bytes(t) - before);
        stream_put(s, t, t->n - 1u, &value, 1, bytes);
        return;
    }
    t = times_push(times_new(4), t_ms);
    *bytes += (ptrdiff_t)times_bytes(t);
    stream_put(s, t, 0, &value, 1, bytes);
    times_unref(t);
}

// --- reading ---

struct cursor {
    const uint8_t *at;
    int64_t number;
    double value;
    unsigned places, repeats, absents;
};

static uint64_t get_varint(const uint8_t **at)
{
    const uint8_t *p = *at;
    uint64_t v = *p & 0x7f;
    // The limit is for bytes from a file; what was written here ends before.
    for (unsigned shift = 7; *p++ & 0x80 && shift < 64; shift += 7)
        v |= (uint64_t)(*p & 0x7f) << shift;
    *at = p;
    return v;
}

static void get_number(struct cursor *c, uint8_t first)
{
    unsigned places = first & 7;
    uint64_t z = (first >> 3) & 0xf;
    if (first & 0x80)
        z |= get_varint(&c->at) << 4;
    int64_t n = decimal_unzigzag(z);
    c->number = c->places == places ? c->number + n : n;
    c->places = places;
    c->value = (double)c->number / decimal_powers[places];
}

// Of the next pass; stream_absent(): none.
static double next_value(struct cursor *c)
{
    if (c->absents) {
        c->absents--;
        return stream_absent();
    }
    if (c->repeats) {
        c->repeats--;
        return c->value;
    }
    uint8_t first = *c->at++;
    unsigned form = first & 7, code = first >> 3;
    if (form <= DECIMAL_MAX_PLACES) {
        get_number(c, first);
    } else if (first == DECIMAL_RAW) {
        uint64_t bits = 0;
        for (int i = 0; i < 8; i++)
            bits |= (uint64_t)*c->at++ << (8 * i);
        c->value = decimal_of_bits(bits);
    } else if (code == 0) {
        c->value = tsdb_stale_marker();
    } else if (code <= MAX_REPEATS) {
        c->repeats = code - 1;
    } else {
        c->absents = code - MAX_REPEATS - 1;
        return stream_absent();
    }
    return c->value;
}

static struct cursor begin(const struct block *b)
{
    return (struct cursor){.at = b->data, .places = NO_PLACES};
}

size_t stream_blocks(const struct stream *s)
{
    return s->n_sealed + (s->open != NULL);
}

struct block *stream_block(const struct stream *s, size_t i)
{
    return i < s->n_sealed ? s->sealed[i] : s->open;
}

// A packed column is one block's own.
static int64_t block_first_ms(const struct block *b)
{
    return b->times->packed ? b->times->first_ms : b->times->at[b->first];
}

static int64_t block_last_ms(const struct block *b)
{
    return b->times->packed ? b->times->last_ms : b->times->at[b->first + b->n - 1];
}

int64_t stream_first_ms(const struct stream *s)
{
    return block_first_ms(stream_block(s, 0));
}

int64_t stream_last_ms(const struct stream *s)
{
    return block_last_ms(s->open);
}

// The first block that ends at or after t_ms.
static size_t find_block(const struct stream *s, int64_t t_ms)
{
    size_t low = 0, high = stream_blocks(s);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (block_last_ms(stream_block(s, mid)) < t_ms)
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

void samples_push(struct tsdb_samples *s, int64_t t_ms, double value)
{
    make_room_for(s, 1);
    s->t[s->n] = t_ms;
    s->v[s->n++] = value;
}

static void read_block(const struct block *b, int64_t mint, int64_t maxt, struct tsdb_samples *ret)
{
    int64_t scratch[TIMES_MAX];
    const int64_t *t = times_read(b->times, scratch) + b->first;
    struct cursor c = begin(b);
    make_room_for(ret, b->n);
    size_t n = ret->n;
    for (size_t i = 0; i < b->n && t[i] <= maxt; i++) {
        double v = next_value(&c);
        ret->t[n] = t[i];
        ret->v[n] = v;
        n += t[i] >= mint && !stream_is_absent(v);
    }
    ret->n = n;
}

void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret)
{
    size_t blocks = stream_blocks(s);
    for (size_t i = find_block(s, mint); i < blocks && block_first_ms(stream_block(s, i)) <= maxt;
         i++)
        read_block(stream_block(s, i), mint, maxt, ret);
}

bool stream_at(const struct stream *s, int64_t t_ms, struct tsdb_point *ret)
{
    if (stream_empty(s) || stream_first_ms(s) > t_ms)
        return false;
    if (stream_last_ms(s) <= t_ms) {
        *ret = (struct tsdb_point){stream_last_ms(s), s->open->last_value};
        return true;
    }
    size_t at = find_block(s, t_ms);
    if (block_first_ms(stream_block(s, at)) > t_ms)
        at--; // in the gap between two blocks
    const struct block *b = stream_block(s, at);
    int64_t scratch[TIMES_MAX];
    const int64_t *t = times_read(b->times, scratch) + b->first;
    struct cursor c = begin(b);
    for (size_t i = 0; i < b->n && t[i] <= t_ms; i++) {
        double v = next_value(&c);
        if (!stream_is_absent(v))
            *ret = (struct tsdb_point){t[i], v};
    }
    return true;
}

// --- upkeep ---

static void block_free(struct block *b, ptrdiff_t *bytes)
{
    *bytes -= (ptrdiff_t)(sizeof(*b) + b->cap + times_unref(b->times));
    free(b);
}

void stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples, ptrdiff_t *bytes)
{
    uint32_t gone = 0;
    while (gone < s->n_sealed && block_last_ms(s->sealed[gone]) < oldest_ms) {
        *ret_samples += s->sealed[gone]->samples;
        block_free(s->sealed[gone++], bytes);
    }
    s->n_sealed -= gone;
    if (gone && s->n_sealed)
        memmove(s->sealed, s->sealed + gone, s->n_sealed * sizeof(*s->sealed));
    if (!s->n_sealed && s->open && block_last_ms(s->open) < oldest_ms) {
        *ret_samples += s->open->samples;
        stream_clear(s, bytes);
    }
}

void stream_clear(struct stream *s, ptrdiff_t *bytes)
{
    for (size_t i = 0; i < s->n_sealed; i++)
        block_free(s->sealed[i], bytes);
    if (s->open)
        block_free(s->open, bytes);
    *bytes -= (ptrdiff_t)(s->cap * sizeof(*s->sealed));
    free(s->sealed);
    *s = (struct stream){0};
}

// --- loading ---

// Decodes all of it: what a reader will meet, and what an appender has to know.
static bool check(struct block *b)
{
    // A value takes at most DECIMAL_MAX_BYTES: reading stays within the zeros behind the data.
    uint8_t padded[TIMES_MAX * DECIMAL_MAX_BYTES + DECIMAL_MAX_BYTES + 1] = {0};
    memcpy(padded, b->data, b->len);
    struct cursor c = {.at = padded, .places = NO_PLACES};
    double v = stream_absent();
    for (size_t i = 0; i < b->n; i++) {
        v = next_value(&c);
        if (c.at > padded + b->len || (i == 0 && stream_is_absent(v)))
            return false;
        b->samples = (b->samples + !stream_is_absent(v)) & 0x7f;
    }
    b->last_value = v;
    b->last_number = c.number;
    b->last_places = c.places & 0xf;
    return c.at == padded + b->len && !c.repeats && !c.absents && !stream_is_absent(v);
}

// Takes away the blocks that the one from first_ms on, and those behind it, replace. False: it
// would overlap another.
static bool make_place(struct stream *s, int64_t first_ms, ptrdiff_t *samples, ptrdiff_t *bytes)
{
    while (s->open && block_first_ms(s->open) >= first_ms) {
        *samples -= s->open->samples;
        block_free(s->open, bytes);
        s->open = s->n_sealed ? s->sealed[--s->n_sealed] : NULL;
    }
    return !s->open || block_last_ms(s->open) < first_ms;
}

bool stream_load(struct stream *s, struct times *times, size_t first, size_t n,
                 struct gs_slice data, ptrdiff_t *samples, ptrdiff_t *bytes)
{
    if (data.len > TIMES_MAX * DECIMAL_MAX_BYTES)
        return false;
    struct block *b = gs_alloc(sizeof(*b) + data.len);
    b->times = times_ref(times);
    b->first = (uint8_t)first;
    b->n = (uint8_t)n;
    b->len = b->cap = (uint16_t)data.len;
    memcpy(b->data, data.data, data.len);
    *bytes += (ptrdiff_t)(sizeof(*b) + data.len);
    if (!check(b) || !make_place(s, block_first_ms(b), samples, bytes)) {
        block_free(b, bytes);
        return false;
    }
    if (s->open)
        seal(s, bytes);
    s->open = b;
    *samples += b->samples;
    return true;
}
