// SPDX-License-Identifier: Apache-2.0
// Decompression of Snappy's block format. libsnappy cannot pause within a block.
#include "codec/encoding.h"

#include "base/mem.h"

#include <stdint.h>

#define CHECK_EVERY ((size_t)64 * 1024) // bytes between two calls of go_on
// One byte of a block yields fewer bytes than this: a copy of 64 bytes has at least three.
#define MAX_RATIO ((size_t)22)

static struct gs_error *corrupt(void)
{
    return gs_error_new(GS_EINVAL, "snappy: corrupt input");
}

static bool read_size(struct gs_slice *in, size_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35 && in->len; shift += 7) {
        unsigned char c = (unsigned char)*in->data;
        in->data++;
        in->len--;
        value |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80) {
            *ret = (size_t)value;
            return value <= UINT32_MAX;
        }
    }
    return false;
}

struct gs_error *codec_snappy_size(struct gs_slice in, size_t *ret)
{
    size_t size;
    if (!read_size(&in, &size))
        return corrupt();
    *ret = size;
    return NULL;
}

// Reads n bytes, little-endian.
static bool read_number(struct gs_slice *in, size_t n, size_t *ret)
{
    size_t value = 0;
    if (in->len < n)
        return false;
    for (size_t i = 0; i < n; i++)
        value |= (size_t)(unsigned char)in->data[i] << 8 * i;
    in->data += n;
    in->len -= n;
    *ret = value;
    return true;
}

static bool add_literal(struct gs_slice *in, size_t code, struct gs_buf *out, size_t size)
{
    size_t len = code;
    if (code >= 60 && !read_number(in, code - 59, &len))
        return false;
    len++;
    if (len > in->len || len > size - out->len)
        return false;
    memcpy(out->data + out->len, in->data, len);
    out->len += len;
    in->data += len;
    in->len -= len;
    return true;
}

// The copy may overlap its source: the bytes that it appends are then repeated.
static bool add_copy(size_t offset, size_t len, struct gs_buf *out, size_t size)
{
    if (!offset || offset > out->len || len > size - out->len)
        return false;
    char *to = out->data + out->len;
    const char *from = to - offset;
    if (offset >= len) {
        memcpy(to, from, len);
    } else {
        for (size_t i = 0; i < len; i++)
            to[i] = from[i];
    }
    out->len += len;
    return true;
}

static bool add_element(struct gs_slice *in, struct gs_buf *out, size_t size)
{
    unsigned char tag = (unsigned char)*in->data;
    size_t offset;
    in->data++;
    in->len--;
    switch (tag & 3) {
    case 0:
        return add_literal(in, tag >> 2, out, size);
    case 1:
        return read_number(in, 1, &offset) &&
               add_copy((size_t)(tag >> 5) << 8 | offset, 4 + (tag >> 2 & 7), out, size);
    case 2:
        return read_number(in, 2, &offset) && add_copy(offset, 1 + (tag >> 2), out, size);
    default:
        return read_number(in, 4, &offset) && add_copy(offset, 1 + (tag >> 2), out, size);
    }
}

struct gs_error *codec_unsnappy(struct gs_slice in, size_t max, bool (*go_on)(void *arg), void *arg,
                                struct gs_buf *ret)
{
    size_t size, checked_at = 0;
    if (!read_size(&in, &size))
        return corrupt();
    if (size > max)
        return gs_error_new(GS_ELIMIT, "snappy: more than %zu bytes when unpacked", max);
    if (size / MAX_RATIO > in.len)
        return corrupt();
    GS_AUTO_BUF struct gs_buf out = {.data = gs_try_realloc(NULL, size + 1), .cap = size + 1};
    if (!out.data)
        return gs_error_new(GS_ELIMIT, "snappy: no memory for %zu bytes", size);
    while (in.len) {
        if (!add_element(&in, &out, size))
            return corrupt();
        if (go_on && out.len - checked_at >= CHECK_EVERY) {
            checked_at = out.len;
            if (!go_on(arg))
                return gs_error_new(GS_ECONFLICT, "snappy: stopped");
        }
    }
    if (out.len != size)
        return corrupt();
    out.data[size] = '\0';
    *ret = out;
    out = (struct gs_buf){0};
    return NULL;
}
