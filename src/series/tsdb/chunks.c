// SPDX-License-Identifier: Apache-2.0
// The samples of one series: sealed chunks, and one open chunk that grows. Chunks are in order of
// time and do not overlap. Sealed chunks are in regions of memory or in a mapped file; time
// columns are shared by the series of a scrape.
#include "tsdb/chunk.h"

#include "base/mem.h"

#include <assert.h>

#define MAX_STEP 255u

// --- writing ---

// Without spare capacity: a series gets a chunk every two minutes or less often, and there are many
// series.
static void resize_sealed(struct tsdb_chunks *s, size_t n, struct tsdb_chunk_heap *heap)
{
    heap->bytes += ((ptrdiff_t)n - (ptrdiff_t)s->n_sealed) * (ptrdiff_t)sizeof(*s->sealed);
    if (n)
        s->sealed = gs_realloc_array(s->sealed, n, sizeof(*s->sealed));
    else
        free(GS_TAKE(s->sealed));
    s->n_sealed = (uint32_t)n;
}

void tsdb_chunks_add_sealed(struct tsdb_chunks *s, const struct tsdb_chunk *b,
                            struct tsdb_chunk_heap *heap)
{
    resize_sealed(s, (size_t)s->n_sealed + 1, heap);
    s->sealed[s->n_sealed - 1] = *b;
}

struct tsdb_chunk tsdb_chunks_take_sealed(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    struct tsdb_chunk last = s->sealed[s->n_sealed - 1];
    resize_sealed(s, s->n_sealed - 1, heap);
    return last;
}

static struct tsdb_chunk view(const struct tsdb_head_chunk *b)
{
    return (struct tsdb_chunk){.times = b->times,
                               .data = b->data,
                               .len = b->len,
                               .first = b->first,
                               .n = b->n,
                               .samples = b->samples};
}

static void seal_open(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    struct tsdb_head_chunk *b = GS_TAKE(s->open);
    struct tsdb_chunk sealed = view(b);
    sealed.data = tsdb_regions_put(&heap->regions, b->data, b->len);
    heap->unsaved += b->len;
    tsdb_chunks_add_sealed(s, &sealed, heap);
    heap->bytes += b->len;
    tsdb_head_free(b, heap);
}

// The new chunk begins with one and a half times the size of the previous one, so that it is
// reallocated once or twice and wastes little memory.
static void open_chunk(struct tsdb_chunks *s, struct tsdb_timestamps *times, size_t at,
                       struct tsdb_chunk_heap *heap)
{
    size_t step = TSDB_CHUNK_MIN_STEP;
    if (s->open) {
        step = TSDB_CHUNK_MIN_STEP + s->open->len / 2u;
        seal_open(s, heap);
    }
    step = step < MAX_STEP ? step : MAX_STEP;
    s->open = tsdb_head_new(step, heap);
    s->open->times = tsdb_timestamps_ref(times);
    s->open->first = at & 0x7f;
}

void tsdb_chunks_put(struct tsdb_chunks *s, struct tsdb_timestamps *times, size_t at,
                     const double *values, size_t n, struct tsdb_chunk_heap *heap)
{
    uint8_t bytes[TSDB_CHUNK_RUN_BYTES];
    while (n && tsdb_is_absent(values[n - 1]))
        n--;
    for (; n && tsdb_is_absent(*values); values++, n--)
        at++;
    if (!n)
        return;
    if (!s->open || s->open->times != times)
        open_chunk(s, times, at, heap);
    struct tsdb_head_chunk *b = s->open;
    size_t kept = b->len - (b->last_repeats > 0);
    size_t more = tsdb_chunk_encode(b, at - b->first - b->n, values, n, bytes);
    s->open = b = tsdb_head_reserve(b, kept + more, heap);
    memcpy(b->data + kept, bytes, more);
    b->len = (kept + more) & 0x7ff;
    b->n = (at + n - b->first) & 0x7f;
    b->dirty = true;
}

// The time column of the open chunk, if no other list shares it and it has space for one more time.
// Otherwise NULL.
static struct tsdb_timestamps *own_times(struct tsdb_chunks *s)
{
    struct tsdb_head_chunk *b = s->open;
    bool own = b && b->times->refs == 1 && !b->times->packed && !b->first && b->n == b->times->n;
    if (!own)
        return NULL;
    if (b->times->n < TSDB_TIMESTAMPS_MAX)
        return b->times;
    b->times = tsdb_timestamps_pack(b->times);
    return NULL;
}

void tsdb_chunks_append(struct tsdb_chunks *s, int64_t t_ms, double value,
                        struct tsdb_chunk_heap *heap)
{
    size_t before = s->open ? tsdb_timestamps_bytes(s->open->times) : 0;
    struct tsdb_timestamps *t = own_times(s);
    if (s->open)
        heap->bytes += (ptrdiff_t)(tsdb_timestamps_bytes(s->open->times) - before);
    if (t) {
        t = tsdb_timestamps_append(t, t_ms);
        s->open->times = t;
        heap->bytes += (ptrdiff_t)(tsdb_timestamps_bytes(t) - before);
        tsdb_chunks_put(s, t, t->n - 1u, &value, 1, heap);
        return;
    }
    t = tsdb_timestamps_append(tsdb_timestamps_new(4), t_ms);
    heap->bytes += (ptrdiff_t)tsdb_timestamps_bytes(t);
    tsdb_chunks_put(s, t, 0, &value, 1, heap);
    tsdb_timestamps_unref(t);
}

// --- reading ---

static size_t count_chunks(const struct tsdb_chunks *s)
{
    return s->n_sealed + (s->open != NULL);
}

struct tsdb_chunk tsdb_chunks_at(const struct tsdb_chunks *s, size_t i)
{
    return i < s->n_sealed ? s->sealed[i] : view(s->open);
}

static int64_t first_ms_of(const struct tsdb_chunks *s, size_t i)
{
    struct tsdb_chunk b = tsdb_chunks_at(s, i);
    return tsdb_chunk_first_ms(&b);
}

static int64_t last_ms_of(const struct tsdb_chunks *s, size_t i)
{
    struct tsdb_chunk b = tsdb_chunks_at(s, i);
    return tsdb_chunk_last_ms(&b);
}

int64_t tsdb_chunks_first_ms(const struct tsdb_chunks *s)
{
    return first_ms_of(s, 0);
}

int64_t tsdb_chunks_last_ms(const struct tsdb_chunks *s)
{
    struct tsdb_chunk b = view(s->open);
    return tsdb_chunk_last_ms(&b);
}

// The index of the first chunk that ends at or after t_ms. Mostly it is one of the newest, and
// looking at others would wait for memory.
static size_t find_chunk(const struct tsdb_chunks *s, int64_t t_ms)
{
    enum { NEWEST = 3 };
    size_t low = 0, high = count_chunks(s);
    for (size_t i = 0; i < NEWEST && high; i++, high--) {
        if (last_ms_of(s, high - 1) < t_ms)
            return high;
        if (first_ms_of(s, high - 1) <= t_ms)
            return high - 1;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (last_ms_of(s, mid) < t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void tsdb_samples_reserve(struct tsdb_samples *s, size_t more)
{
    if (s->n + more <= s->cap)
        return;
    s->cap = (s->n + more) * 2;
    s->t = gs_realloc_array(s->t, s->cap, sizeof(*s->t));
    s->v = gs_realloc_array(s->v, s->cap, sizeof(*s->v));
}

// The index of the first of n rows at or after t_ms.
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
        kept += !tsdb_is_absent(v[i]);
    }
    return kept;
}

static void read_chunk(const struct tsdb_chunk *b, int64_t mint, int64_t maxt,
                       struct tsdb_samples *ret)
{
    int64_t scratch[TSDB_TIMESTAMPS_MAX];
    const int64_t *t = tsdb_timestamps_read(b->times, scratch) + b->first;
    size_t from = t[0] < mint ? find_pass(t, b->n, mint) : 0;
    size_t until = t[b->n - 1] > maxt ? find_pass(t, b->n, maxt + 1) : b->n;
    if (until <= from)
        return;
    size_t n = until - from;
    tsdb_samples_reserve(ret, n);
    assert(ret->t && ret->v);
    memcpy(ret->t + ret->n, t + from, n * sizeof(*t));
    tsdb_chunk_decode(b->data, b->len, from, until, ret->v + ret->n, NULL);
    ret->n += b->samples == b->n ? n : drop_absents(ret->t + ret->n, ret->v + ret->n, n);
}

void tsdb_chunks_read(const struct tsdb_chunks *s, int64_t mint, int64_t maxt,
                      struct tsdb_samples *ret)
{
    size_t chunks = count_chunks(s);
    for (size_t i = find_chunk(s, mint); i < chunks; i++) {
        struct tsdb_chunk b = tsdb_chunks_at(s, i);
        if (tsdb_chunk_first_ms(&b) > maxt)
            break;
        read_chunk(&b, mint, maxt, ret);
    }
}

bool tsdb_chunks_find(const struct tsdb_chunks *s, int64_t t_ms, struct tsdb_point *ret)
{
    if (tsdb_chunks_empty(s) || tsdb_chunks_first_ms(s) > t_ms)
        return false;
    if (tsdb_chunks_last_ms(s) <= t_ms) {
        *ret = (struct tsdb_point){tsdb_chunks_last_ms(s), s->open->last_value};
        return true;
    }
    size_t at = find_chunk(s, t_ms);
    struct tsdb_chunk b = tsdb_chunks_at(s, at);
    if (tsdb_chunk_first_ms(&b) > t_ms)
        b = tsdb_chunks_at(s, at - 1); // t_ms is between two chunks
    int64_t scratch[TSDB_TIMESTAMPS_MAX];
    double values[TSDB_TIMESTAMPS_MAX];
    const int64_t *t = tsdb_timestamps_read(b.times, scratch) + b.first;
    // T_ms is before the last row, or after the end of the chunk.
    size_t n = find_pass(t, b.n, t_ms + 1);
    tsdb_chunk_decode(b.data, b.len, 0, n, values, NULL);
    while (n > 1 && tsdb_is_absent(values[n - 1])) // the first row has a value
        n--;
    *ret = (struct tsdb_point){t[n - 1], values[n - 1]};
    return true;
}

// --- upkeep ---

void tsdb_chunk_free(struct tsdb_chunk *b, struct tsdb_chunk_heap *heap)
{
    heap->bytes -= (ptrdiff_t)tsdb_timestamps_unref(b->times);
    if (b->place == TSDB_CHUNK_MAPPED)
        return;
    heap->bytes -= b->len;
    heap->unsaved -= tsdb_chunk_is_saved(b) ? 0 : b->len;
    tsdb_regions_drop(&heap->regions, b->data, b->len);
}

static void free_open(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    struct tsdb_head_chunk *b = GS_TAKE(s->open);
    heap->bytes -= (ptrdiff_t)tsdb_timestamps_unref(b->times);
    tsdb_head_free(b, heap);
}

void tsdb_chunks_drop(struct tsdb_chunks *s, int64_t oldest_ms, uint64_t *ret_samples,
                      struct tsdb_chunk_heap *heap)
{
    size_t n_dropped = 0;
    while (n_dropped < s->n_sealed && tsdb_chunk_last_ms(&s->sealed[n_dropped]) < oldest_ms) {
        *ret_samples += s->sealed[n_dropped].samples;
        tsdb_chunk_free(&s->sealed[n_dropped++], heap);
    }
    size_t kept = s->n_sealed - n_dropped;
    if (n_dropped && kept)
        memmove(s->sealed, s->sealed + n_dropped, kept * sizeof(*s->sealed));
    if (n_dropped)
        resize_sealed(s, kept, heap);
    if (!s->n_sealed && s->open && tsdb_chunks_last_ms(s) < oldest_ms) {
        *ret_samples += s->open->samples;
        tsdb_chunks_clear(s, heap);
    }
}

// Removes the chunks from index `from` on. Returns the number of their samples.
static uint64_t drop_newest(struct tsdb_chunks *s, size_t from, struct tsdb_chunk_heap *heap)
{
    uint64_t samples = 0;
    if (s->open) {
        samples += s->open->samples;
        free_open(s, heap);
    }
    while (s->n_sealed > from) {
        struct tsdb_chunk last = tsdb_chunks_take_sealed(s, heap);
        samples += last.samples;
        tsdb_chunk_free(&last, heap);
    }
    return samples;
}

// Remaining samples of the last chunk are appended again, because the newest chunk must accept
// values.
void tsdb_chunks_delete_after(struct tsdb_chunks *s, int64_t t_ms, uint64_t *ret_samples,
                              struct tsdb_chunk_heap *heap)
{
    if (tsdb_chunks_empty(s) || tsdb_chunks_last_ms(s) <= t_ms)
        return;
    struct tsdb_samples kept = {0};
    size_t from = find_chunk(s, t_ms + 1);
    struct tsdb_chunk b = tsdb_chunks_at(s, from);
    if (from && tsdb_chunk_first_ms(&b) > t_ms)
        b = tsdb_chunks_at(s, --from);
    read_chunk(&b, INT64_MIN, t_ms, &kept);
    *ret_samples += drop_newest(s, from, heap) - kept.n;
    for (size_t i = 0; i < kept.n; i++)
        tsdb_chunks_append(s, kept.t[i], kept.v[i], heap);
    if (!s->open)
        tsdb_chunks_clear(s, heap);
    tsdb_samples_finish(&kept);
}

void tsdb_chunks_clear(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    for (size_t i = 0; i < s->n_sealed; i++)
        tsdb_chunk_free(&s->sealed[i], heap);
    if (s->open)
        free_open(s, heap);
    resize_sealed(s, 0, heap);
}
