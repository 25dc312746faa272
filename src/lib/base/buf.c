// SPDX-License-Identifier: Apache-2.0
// A growing string that always ends with a NUL. Exceeding the limit is not an error of each call:
// the buffer keeps what fits and sets `overflow`, which the owner checks once at the end.
#include "base/buf.h"

#include "base/mem.h"
#include "base/num.h"

#include <stdio.h>

// Reserves space for `more` bytes and the NUL. Returns false if the limit would be exceeded.
static bool reserve(struct gs_buf *b, size_t more)
{
    size_t need;
    if (__builtin_add_overflow(b->len, more, &need) || need == SIZE_MAX ||
        (b->limit && need > b->limit)) {
        b->overflow = true;
        return false;
    }
    if (need + 1 <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need + 1)
        cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
    if (b->limit && cap > b->limit + 1)
        cap = b->limit + 1; // which is enough for what the limit allows
    b->data = gs_realloc_array(b->data, cap, 1);
    b->cap = cap;
    return true;
}

char *gs_buf_room(struct gs_buf *b, size_t n)
{
    return reserve(b, n) ? b->data + b->len : NULL;
}

void gs_buf_add(struct gs_buf *b, const void *data, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void gs_buf_add_str(struct gs_buf *b, const char *s)
{
    gs_buf_add(b, s, strlen(s));
}

void gs_buf_add_slice(struct gs_buf *b, struct gs_slice s)
{
    gs_buf_add(b, s.data, s.len);
}

void gs_buf_add_char(struct gs_buf *b, char c)
{
    gs_buf_add(b, &c, 1);
}

// Prints into the free space first, which is usually enough. Otherwise the length is known then.
void gs_buf_vaddf(struct gs_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->len;
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        if ((size_t)n >= room)
            vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else if (room) {
        b->data[b->len] = '\0';
    }
    va_end(again);
}

void gs_buf_addf(struct gs_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(b, fmt, ap);
    va_end(ap);
}

void gs_buf_add_u64(struct gs_buf *b, uint64_t v)
{
    char text[20];
    gs_buf_add(b, text, (size_t)(gs_put_u64(text, v) - text));
}

void gs_buf_clear(struct gs_buf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = '\0';
}

void gs_buf_consume(struct gs_buf *b, size_t n)
{
    if (n >= b->len) {
        gs_buf_clear(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

void gs_buf_finish(struct gs_buf *b)
{
    free(b->data);
    *b = (struct gs_buf){.limit = b->limit};
}

char *gs_buf_take(struct gs_buf *b)
{
    char *text = b->data ? b->data : gs_strdup("");
    *b = (struct gs_buf){.limit = b->limit};
    return text;
}

struct gs_slice gs_buf_slice(const struct gs_buf *b)
{
    return (struct gs_slice){b->data, b->len};
}
