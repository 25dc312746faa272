// SPDX-License-Identifier: Apache-2.0
#include "tsdb/stream.h"

#include "base/mem.h"
#include "tsdb/block_read.h"

#define MAX_REPEATS 15u

// --- writing ---

// Bytes of a run under way.
struct run {
    struct block *b;
    unsigned repeats, absents; // not written yet; one of them is zero
    size_t len;
    uint8_t data[STREAM_RUN * (DECIMAL_MAX_BYTES + 2) + 2];
};

static void put_bytes(struct run *r, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        r->data[r->len++] = (uint8_t)(v >> (8 * i));
}

static void end_repeats(struct run *r)
{
    if (r->repeats)
        r->data[r->len++] = (uint8_t)(BLOCK_REPEATS + r->repeats - 1);
    r->b->last_repeats = r->repeats & 0xf;
    r->repeats = 0;
}

static void end_absents(struct run *r)
{
    if (r->absents)
        put_bytes(r, BLOCK_ABSENT | r->absents << 8, 2); // at most TIMES_MAX
    r->absents = 0;
}

static void put_change(struct run *r, int64_t change)
{
    uint64_t z = decimal_zigzag(change);
    if (z < BLOCK_REPEATS)
        r->data[r->len++] = (uint8_t)z;
    else if (z < 1u << 14)
        put_bytes(r, 0x80 | (z & 0x3f) | (z >> 6) << 8, 2);
    else if (z < 1u << 21)
        put_bytes(r, 0xc0 | (z & 0x1f) | (z >> 5) << 8, 3);
    else if (z < 1u << 28)
        put_bytes(r, 0xe0 | (z & 0xf) | (z >> 4) << 8, 4);
    else if (z < UINT64_C(1) << 35)
        put_bytes(r, 0xf0 | (z & 7) | (z >> 3) << 8, 5);
    else {
        r->data[r->len++] = BLOCK_WIDE;
        put_bytes(r, z, 8);
    }
}

static void put_value(struct run *r, double v)
{
    struct block *b = r->b;
    int64_t number;
    int places = decimal_places(v, b->last_places, &number);
    b->last_value = v;
    if (places < 0) {
        bool stale = stream_is_stale(v);
        r->data[r->len++] = stale ? BLOCK_STALE : BLOCK_RAW;
        put_bytes(r, decimal_bits(v), stale ? 0 : 8);
        return;
    }
    if (places != b->last_places) {
        put_bytes(r, BLOCK_PLACES | (unsigned)places << 8, 2);
        b->last_places = (uint8_t)(places & 0xf);
        b->last_number = 0;
    }
    put_change(r, number - b->last_number);
    b->last_number = number;
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

// A few places at a time: a block comes each two minutes or less often, and there are many streams.
void stream_seal(struct stream *s, const struct sealed *b, struct stream_heap *heap)
{
    if (s->n_sealed == s->cap) {
        s->cap += 4;
        s->sealed = gs_realloc_array(s->sealed, s->cap, sizeof(*s->sealed));
        heap->bytes += (ptrdiff_t)(4 * sizeof(*s->sealed));
    }
    s->sealed[s->n_sealed++] = *b;
}

static struct sealed view(const struct block *b)
{
    return (struct sealed){.times = b->times,
                           .data = b->data,
                           .len = b->len & 0x7ff,
                           .first = b->first & 0x7f,
                           .n = b->n & 0x7f,
                           .samples = b->samples};
}

static void seal_open(struct stream *s, struct stream_heap *heap)
{
    struct block *b = GS_TAKE(s->open);
    struct sealed sealed = view(b);
    sealed.data = slabs_put(&heap->slabs, b->data, b->len);
    stream_seal(s, &sealed, heap);
    heap->bytes -= (ptrdiff_t)sizeof(*b) + b->cap - b->len;
    free(b);
}

static void open_block(struct stream *s, struct times *times, size_t at, struct stream_heap *heap)
{
    if (s->open)
        seal_open(s, heap);
    struct block *b = gs_alloc(sizeof(*b));
    b->times = times_ref(times);
    b->first = (uint8_t)at;
    s->open = b;
    heap->bytes += (ptrdiff_t)sizeof(*b);
}

// By a few runs at a time.
static struct block *resize(struct block *b, size_t cap, struct stream_heap *heap)
{
    heap->bytes += (ptrdiff_t)cap - b->cap;
    b = gs_realloc_array(b, 1, sizeof(*b) + cap);
    b->cap = (uint16_t)cap;
    return b;
}

static void add_bytes(struct stream *s, const struct run *r, struct stream_heap *heap)
{
    struct block *b = s->open;
    size_t len = b->len + r->len;
    if (len > b->cap)
        s->open = b = resize(b, len + len / 4 + 16, heap);
    memcpy(b->data + b->len, r->data, r->len);
    b->len = (uint16_t)len;
    b->dirty = true;
}

void stream_put(struct stream *s, struct times *times, size_t at, const double *values, size_t n,
                struct stream_heap *heap)
{
    while (n && stream_is_absent(values[n - 1]))
        n--;
    for (; n && stream_is_absent(*values); values++, n--)
        at++;
    if (!n)
        return;
    if (!s->open || s->open->times != times)
        open_block(s, times, at, heap);
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
    add_bytes(s, &r, heap);
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

void stream_append(struct stream *s, int64_t t_ms, double value, struct stream_heap *heap)
{
    size_t before = s->open ? times_bytes(s->open->times) : 0;
    struct times *t = own_times(s);
    if (s->open)
        heap->bytes += (ptrdiff_t)(times_bytes(s->open->times) - before);
    if (t) {
        t = times_push(t, t_ms);
        s->open->times = t;
        heap->bytes += (ptrdiff_t)(times_bytes(t) - before);
        stream_put(s, t, t->n - 1u, &value, 1, heap);
        return;
    }
    t = times_push(times_new(4), t_ms);
    heap->bytes += (ptrdiff_t)times_bytes(t);
    stream_put(s, t, 0, &value, 1, heap);
    times_unref(t);
}

// --- reading ---

static size_t stream_blocks(const struct stream *s)
{
    return s->n_sealed + (s->open != NULL);
}

struct sealed stream_block(const struct stream *s, size_t i)
{
    return i < s->n_sealed ? s->sealed[i] : view(s->open);
}

int64_t stream_first_ms(const struct stream *s)
{
    struct sealed b = stream_block(s, 0);
    return block_first_ms(&b);
}

int64_t stream_last_ms(const struct stream *s)
{
    struct sealed b = view(s->open);
    return block_last_ms(&b);
}

// The first block that ends at or after t_ms.
static size_t find_block(const struct stream *s, int64_t t_ms)
{
    size_t low = 0, high = stream_blocks(s);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct sealed b = stream_block(s, mid);
        if (block_last_ms(&b) < t_ms)
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

// The first of n passes at or after t_ms.
static size_t find_pass(const int64_t *t, size_t n, int64_t t_ms)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t[mid] < t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static size_t drop_absents(int64_t *t, double *v, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        t[kept] = t[i];
        v[kept] = v[i];
        kept += !stream_is_absent(v[i]);
    }
    return kept;
}

static void read_block(const struct sealed *b, int64_t mint, int64_t maxt, struct tsdb_samples *ret)
{
    int64_t scratch[TIMES_MAX];
    const int64_t *t = times_read(b->times, scratch) + b->first;
    size_t from = t[0] < mint ? find_pass(t, b->n, mint) : 0;
    size_t until = t[b->n - 1] > maxt ? find_pass(t, b->n, maxt + 1) : b->n;
    if (until <= from)
        return;
    size_t n = until - from;
    make_room_for(ret, n);
    memcpy(ret->t + ret->n, t + from, n * sizeof(*t));
    block_read(b->data, from, until, ret->v + ret->n, NULL);
    ret->n += b->samples == b->n ? n : drop_absents(ret->t + ret->n, ret->v + ret->n, n);
}

void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret)
{
    size_t blocks = stream_blocks(s);
    for (size_t i = find_block(s, mint); i < blocks; i++) {
        struct sealed b = stream_block(s, i);
        if (block_first_ms(&b) > maxt)
            break;
        read_block(&b, mint, maxt, ret);
    }
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
    struct sealed b = stream_block(s, at);
    if (block_first_ms(&b) > t_ms)
        b = stream_block(s, at - 1); // in the gap between two blocks
    int64_t scratch[TIMES_MAX];
    double values[TIMES_MAX];
    const int64_t *t = times_read(b.times, scratch) + b.first;
    size_t n = find_pass(t, b.n, t_ms + 1); // t_ms is before the last one, or in the gap
    block_read(b.data, 0, n, values, NULL);
    while (n > 1 && stream_is_absent(values[n - 1])) // the first one has a value
        n--;
    *ret = (struct tsdb_point){t[n - 1], values[n - 1]};
    return true;
}

// --- upkeep ---

void sealed_free(struct sealed *b, struct stream_heap *heap)
{
    heap->bytes -= (ptrdiff_t)times_unref(b->times);
    if (b->place == SEALED_MAPPED)
        return;
    heap->bytes -= b->len;
    slabs_drop(&heap->slabs, b->data, b->len);
}

static void free_open(struct stream *s, struct stream_heap *heap)
{
    struct block *b = GS_TAKE(s->open);
    heap->bytes -= (ptrdiff_t)(sizeof(*b) + b->cap + times_unref(b->times));
    free(b);
}

void stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples,
                 struct stream_heap *heap)
{
    uint32_t gone = 0;
    while (gone < s->n_sealed && block_last_ms(&s->sealed[gone]) < oldest_ms) {
        *ret_samples += s->sealed[gone].samples;
        sealed_free(&s->sealed[gone++], heap);
    }
    s->n_sealed -= gone;
    if (gone && s->n_sealed)
        memmove(s->sealed, s->sealed + gone, s->n_sealed * sizeof(*s->sealed));
    if (!s->n_sealed && s->open && stream_last_ms(s) < oldest_ms) {
        *ret_samples += s->open->samples;
        stream_clear(s, heap);
    }
}

void stream_clear(struct stream *s, struct stream_heap *heap)
{
    for (size_t i = 0; i < s->n_sealed; i++)
        sealed_free(&s->sealed[i], heap);
    if (s->open)
        free_open(s, heap);
    heap->bytes -= (ptrdiff_t)(s->cap * sizeof(*s->sealed));
    free(s->sealed);
    *s = (struct stream){0};
}
