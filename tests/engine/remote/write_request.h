// SPDX-License-Identifier: Apache-2.0
// Decodes a WriteRequest for comparison with the encoder's input. Returns false for malformed
// input.
#pragma once

#include "base/buf.h"
#include "metrics/labels.h"

#include <stdint.h>

#define WRITE_REQUEST_LABELS 64

struct write_request_fn {
    void (*sample)(void *arg, const struct metrics_label *labels, size_t n, int64_t t, double v);
    void *arg;
};

static bool wr_varint(struct gs_slice *s, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && s->len; shift += 7) {
        unsigned char c = (unsigned char)*s->data++;
        s->len--;
        *ret |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

static bool wr_bytes(struct gs_slice *s, unsigned char tag, struct gs_slice *ret)
{
    uint64_t len;
    if (!s->len || (unsigned char)*s->data != tag)
        return false;
    s->data++;
    s->len--;
    if (!wr_varint(s, &len) || len > s->len)
        return false;
    *ret = gs_slice_make(s->data, len);
    s->data += len;
    s->len -= len;
    return true;
}

static bool wr_sample(struct gs_slice s, int64_t *ret_t, double *ret_v)
{
    uint64_t t;
    if (s.len < 10 || s.data[0] != 9 || s.data[9] != 16)
        return false;
    memcpy(ret_v, s.data + 1, 8); // little endian, like the machines on which the tests run
    s = gs_slice_make(s.data + 10, s.len - 10);
    if (!wr_varint(&s, &t) || s.len)
        return false;
    *ret_t = (int64_t)t;
    return true;
}

static bool wr_series(struct gs_slice s, const struct write_request_fn *fn)
{
    struct metrics_label labels[WRITE_REQUEST_LABELS];
    size_t n = 0;
    struct gs_slice part;
    while (s.len && *s.data == 10) {
        if (n == WRITE_REQUEST_LABELS || !wr_bytes(&s, 10, &part) ||
            !wr_bytes(&part, 10, &labels[n].name) || !wr_bytes(&part, 18, &labels[n].value) ||
            part.len)
            return false;
        n++;
    }
    while (s.len) {
        int64_t t;
        double v;
        if (!wr_bytes(&s, 18, &part) || !wr_sample(part, &t, &v))
            return false;
        fn->sample(fn->arg, labels, n, t, v);
    }
    return true;
}

static bool write_request_read(struct gs_slice s, const struct write_request_fn *fn)
{
    struct gs_slice series;
    while (s.len)
        if (!wr_bytes(&s, 10, &series) || !wr_series(series, fn))
            return false;
    return true;
}
