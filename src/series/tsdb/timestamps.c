// SPDX-License-Identifier: Apache-2.0
// A time column that the series of a scrape share, in milliseconds. A complete column is packed as
// varints of second differences, which are mostly 0 for a regular interval.
#include "tsdb/chunk.h"

#include "base/mem.h"

static struct tsdb_timestamps *resized(struct tsdb_timestamps *t, size_t cap)
{
    t = gs_realloc_array(t, 1, sizeof(*t) + cap * sizeof(t->at[0]));
    t->cap = (uint16_t)cap;
    return t;
}

struct tsdb_timestamps *tsdb_timestamps_new(size_t cap)
{
    struct tsdb_timestamps *t = gs_alloc(sizeof(*t) + cap * sizeof(t->at[0]));
    t->cap = (uint16_t)cap;
    t->refs = 1;
    return t;
}

struct tsdb_timestamps *tsdb_timestamps_ref(struct tsdb_timestamps *t)
{
    t->refs++;
    return t;
}

size_t tsdb_timestamps_unref(struct tsdb_timestamps *t)
{
    if (!t || --t->refs)
        return 0;
    size_t bytes = tsdb_timestamps_bytes(t);
    free(t);
    return bytes;
}

struct tsdb_timestamps *tsdb_timestamps_append(struct tsdb_timestamps *t, int64_t t_ms)
{
    if (t->n == t->cap)
        t = resized(t, t->cap * 2 < TSDB_TIMESTAMPS_MAX ? (size_t)t->cap * 2 : TSDB_TIMESTAMPS_MAX);
    if (!t->n)
        t->first_ms = t_ms;
    t->last_ms = t->at[t->n++] = t_ms;
    return t;
}

struct tsdb_timestamps *tsdb_timestamps_pack(struct tsdb_timestamps *t)
{
    uint8_t bytes[TSDB_TIMESTAMPS_MAX * 10];
    size_t len = 0;
    int64_t step = 0;
    for (size_t i = 1; i < t->n; i++) {
        int64_t next = t->at[i] - t->at[i - 1];
        len += tsdb_decimal_put_varint(bytes + len, tsdb_decimal_zigzag(next - step));
        step = next;
    }
    size_t cap = (len + sizeof(t->at[0]) - 1) / sizeof(t->at[0]);
    if (!len || cap >= t->cap)
        return t;
    memcpy(t->at, bytes, len);
    t->packed = (uint16_t)len;
    return resized(t, cap);
}

size_t tsdb_timestamps_bytes(const struct tsdb_timestamps *t)
{
    return sizeof(*t) + t->cap * sizeof(t->at[0]);
}

const int64_t *tsdb_timestamps_read(const struct tsdb_timestamps *t,
                                    int64_t scratch[TSDB_TIMESTAMPS_MAX])
{
    if (!t->packed)
        return t->at;
    const uint8_t *in = (const uint8_t *)t->at;
    int64_t step = 0;
    scratch[0] = t->first_ms;
    for (size_t i = 1; i < t->n; i++) {
        uint64_t z = 0;
        for (unsigned shift = 0;; shift += 7) {
            z |= (uint64_t)(*in & 0x7f) << shift;
            if (!(*in++ & 0x80))
                break;
        }
        step += tsdb_decimal_unzigzag(z);
        scratch[i] = scratch[i - 1] + step;
    }
    return scratch;
}
