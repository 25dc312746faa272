// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer with a NUL after its contents. If a limit is set, an append that would
// exceed it adds nothing and sets `overflow`, which callers check once at the end.
#pragma once

#include "base/slice.h"

#include <stdarg.h>
#include <stdint.h>

struct gs_buf {
    char *data; // NULL while empty
    size_t len;
    size_t cap;
    size_t limit; // 0: none
    bool overflow;
};

void gs_buf_add(struct gs_buf *b, const void *data, size_t len);
void gs_buf_add_str(struct gs_buf *b, const char *s);
void gs_buf_add_slice(struct gs_buf *b, struct gs_slice s);
void gs_buf_add_char(struct gs_buf *b, char c);
void gs_buf_addf(struct gs_buf *b, const char *fmt, ...) GS_PRINTF(2, 3);
void gs_buf_vaddf(struct gs_buf *b, const char *fmt, va_list ap) GS_PRINTF(2, 0);
void gs_buf_add_u64(struct gs_buf *b, uint64_t v); // decimal
// Space for n more bytes, for code where speed matters. The caller writes there, adds the number of
// bytes to len and sets the NUL after them, or adds nothing. NULL if the limit would be exceeded.
char *gs_buf_room(struct gs_buf *b, size_t n);
void gs_buf_clear(struct gs_buf *b);             // keeps the memory
void gs_buf_consume(struct gs_buf *b, size_t n); // drops n bytes at the front
void gs_buf_finish(struct gs_buf *b);            // frees; the struct is empty and usable again
char *gs_buf_take(struct gs_buf *b) GS_MUST_USE; // the string, "" if empty; caller frees
struct gs_slice gs_buf_slice(const struct gs_buf *b);
#define GS_AUTO_BUF GS_CLEANUP(gs_buf_finish)
