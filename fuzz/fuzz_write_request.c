// SPDX-License-Identifier: Apache-2.0
// Encoded remote_write requests decode to the same samples. Decoding arbitrary bytes terminates.
#include "base/mem.h"
#include "engine/remote/remote_private.h"

#include "../tests/engine/remote/write_request.h"

#include <snappy-c.h>

#define MAX_SAMPLES 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct expected {
    struct metrics_label labels[8];
    size_t n_labels;
    int64_t t[MAX_SAMPLES];
    double v[MAX_SAMPLES];
    size_t n, seen;
};

static void compare(void *arg, const struct metrics_label *labels, size_t n, int64_t t, double v)
{
    struct expected *e = arg;
    size_t i = e->seen++ % e->n;
    uint64_t bits, want;
    memcpy(&bits, &v, sizeof(bits));
    memcpy(&want, &e->v[i], sizeof(want));
    if (n != e->n_labels || t != e->t[i] || bits != want)
        __builtin_trap();
    for (size_t l = 0; l < n; l++)
        if (!gs_slice_eq(labels[l].name, e->labels[l].name) ||
            !gs_slice_eq(labels[l].value, e->labels[l].value))
            __builtin_trap();
}

static void ignore(void *arg, const struct metrics_label *labels, size_t n, int64_t t, double v)
{
    (void)arg, (void)labels, (void)n, (void)t, (void)v;
}

static struct gs_slice cut(struct gs_slice *s, size_t n)
{
    struct gs_slice out = gs_slice_make(s->data, n < s->len ? n : s->len);
    s->data += out.len;
    s->len -= out.len;
    return out;
}

static void fill(struct expected *e, struct gs_slice s)
{
    struct gs_slice counts = cut(&s, 2);
    e->n_labels = counts.len > 0 ? (unsigned char)counts.data[0] % 8 : 0;
    e->n = counts.len > 1 ? 1 + (unsigned char)counts.data[1] % MAX_SAMPLES : 1;
    for (size_t i = 0; i < e->n; i++) {
        struct gs_slice t = cut(&s, 8), v = cut(&s, 8);
        memcpy(&e->t[i], t.data, t.len);
        memcpy(&e->v[i], v.data, v.len);
    }
    for (size_t i = 0; i < e->n_labels; i++) {
        struct gs_slice len = cut(&s, 1);
        size_t n = len.len ? (unsigned char)len.data[0] : 0;
        e->labels[i].name = cut(&s, n % 16);
        e->labels[i].value = cut(&s, n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const struct write_request_fn any = {ignore, NULL};
    write_request_read(gs_slice_make(data, size), &any);
    struct expected e = {0};
    fill(&e, gs_slice_make(data, size));
    struct gs_buf raw = {0}, packed = {0};
    for (int i = 0; i < 2; i++)
        remote_encode_series(&raw, e.labels, e.n_labels, e.t, e.v, e.n);
    remote_compress(gs_buf_slice(&raw), &packed);
    size_t len = raw.len;
    GS_AUTO_FREE char *back = gs_alloc(len + 1);
    const struct write_request_fn fn = {compare, &e};
    if (snappy_uncompress(packed.data, packed.len, back, &len) != SNAPPY_OK || len != raw.len ||
        !write_request_read(gs_slice_make(back, len), &fn) || e.seen != 2 * e.n)
        __builtin_trap();
    gs_buf_finish(&raw);
    gs_buf_finish(&packed);
    return 0;
}
