// SPDX-License-Identifier: Apache-2.0
// Writes messages of remote write 1.0 (prometheus.WriteRequest), with sizes calculated first, so
// that nothing is moved, and compresses them with Snappy. Stale markers keep the payload of their
// NaN.
#include "engine/remote/remote_private.h"
#include "tsdb/exemplars.h"

#include <snappy-c.h>

#define TAG_BYTES(field)   (uint8_t)((field) << 3 | 2)
#define TAG_VARINT(field)  (uint8_t)((field) << 3 | 0)
#define TAG_FIXED64(field) (uint8_t)((field) << 3 | 1)

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

static char *put_varint(char *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (char)(v | 0x80);
    *p++ = (char)v;
    return p;
}

static char *put_bytes(char *p, unsigned field, struct gs_slice s)
{
    *p++ = (char)TAG_BYTES(field);
    p = put_varint(p, s.len);
    if (s.len)
        memcpy(p, s.data, s.len);
    return p + s.len;
}

static size_t bytes_size(size_t len)
{
    return 1 + varint_size(len) + len;
}

static size_t label_size(const struct metrics_label *l)
{
    return bytes_size(l->name.len) + bytes_size(l->value.len);
}

static size_t sample_size(int64_t t)
{
    return 1 + 8 + 1 + varint_size((uint64_t)t);
}

// A value and a time, which are in the fields `field` and `field + 1`.
static char *put_point(char *p, unsigned field, int64_t t, double v)
{
    uint64_t bits;
    // Copies the bits, because the stale marker is a NaN with a payload.
    memcpy(&bits, &v, sizeof(bits));
    *p++ = (char)TAG_FIXED64(field);
    for (int i = 0; i < 8; i++)
        *p++ = (char)(bits >> 8 * i);
    *p++ = (char)TAG_VARINT(field + 1);
    return put_varint(p, (uint64_t)t);
}

static char *put_sample(char *p, int64_t t, double v)
{
    *p++ = (char)TAG_BYTES(2);
    p = put_varint(p, sample_size(t));
    return put_point(p, 1, t, v);
}

static size_t labels_size(const struct metrics_label *labels, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += bytes_size(label_size(&labels[i]));
    return size;
}

static char *put_labels(char *p, const struct metrics_label *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *p++ = (char)TAG_BYTES(1);
        p = put_varint(p, label_size(&labels[i]));
        p = put_bytes(p, 1, labels[i].name);
        p = put_bytes(p, 2, labels[i].value);
    }
    return p;
}

// Begins an element of WriteRequest.timeseries with its labels. NULL: the limit of the buffer.
static char *begin_series(struct gs_buf *out, const struct metrics_label *labels, size_t n,
                          size_t rest)
{
    size_t size = labels_size(labels, n) + rest;
    char *p = gs_buf_room(out, bytes_size(size) + 1);
    if (!p)
        return NULL;
    *p++ = (char)TAG_BYTES(1);
    p = put_varint(p, size);
    return put_labels(p, labels, n);
}

static void end_series(struct gs_buf *out, char *end)
{
    *end = '\0';
    out->len = (size_t)(end - out->data);
}

void remote_encode_series(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                          const int64_t *t, const double *v, size_t n_samples)
{
    size_t size = 0;
    for (size_t i = 0; i < n_samples; i++)
        size += bytes_size(sample_size(t[i]));
    char *p = begin_series(out, labels, n_labels, size);
    if (!p)
        return;
    for (size_t i = 0; i < n_samples; i++)
        p = put_sample(p, t[i], v[i]);
    end_series(out, p);
}

void remote_encode_exemplar(struct gs_buf *out, const struct metrics_label *labels, size_t n_labels,
                            const struct tsdb_exemplar *e)
{
    size_t size = labels_size(e->labels, e->n_labels) + sample_size(e->t_ms);
    char *p = begin_series(out, labels, n_labels, bytes_size(size));
    if (!p)
        return;
    *p++ = (char)TAG_BYTES(3);
    p = put_varint(p, size);
    p = put_labels(p, e->labels, e->n_labels);
    end_series(out, put_point(p, 2, e->t_ms, e->value));
}

void remote_compress(struct gs_slice raw, struct gs_buf *ret)
{
    gs_buf_clear(ret);
    size_t len = snappy_max_compressed_length(raw.len);
    char *room = gs_buf_room(ret, len + 1);
    if (room && snappy_compress(raw.data, raw.len, room, &len) == SNAPPY_OK) {
        ret->len = len;
        room[len] = '\0';
    }
}
