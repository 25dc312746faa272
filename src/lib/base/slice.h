// SPDX-License-Identifier: Apache-2.0
// A borrowed view of bytes with a length. Not NUL-terminated.
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct gs_slice {
    const char *data;
    size_t len;
};

#define GS_SLICE(lit)   ((struct gs_slice){(lit), sizeof(lit) - 1}) // string literals only
#define GS_SLICE_FMT    "%.*s"                                      // with GS_SLICE_ARG
#define GS_SLICE_ARG(s) (int)(s).len, (s).data

static inline struct gs_slice gs_slice_of(const char *s) // NULL gives the empty slice
{
    return (struct gs_slice){s, s ? strlen(s) : 0};
}

static inline struct gs_slice gs_slice_make(const void *data, size_t len)
{
    return (struct gs_slice){data, len};
}

static inline bool gs_slice_eq(struct gs_slice a, struct gs_slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool gs_slice_eq_str(struct gs_slice a, const char *b)
{
    return gs_slice_eq(a, gs_slice_of(b));
}

int gs_slice_compare(struct gs_slice a, struct gs_slice b);  // by bytes, as memcmp; for sorting
bool gs_slice_is_word(struct gs_slice s, const char *ascii); // in upper or lower case
// Whether a list with commas, such as a header of HTTP, contains the word. NULL is an empty list.
bool gs_lists_word(const char *list, const char *ascii);
bool gs_slice_starts(struct gs_slice s, const char *prefix);
bool gs_slice_ends(struct gs_slice s, const char *suffix);
struct gs_slice gs_slice_trim(struct gs_slice s); // ASCII blanks, tabs, CR, LF off both ends
// Cuts the part before the first `sep` off *s and returns it; *s becomes what follows. Without a
// `sep` returns all of *s and leaves {NULL, 0}. Loop while s.data.
struct gs_slice gs_slice_cut(struct gs_slice *s, char sep);
char *gs_slice_dup(struct gs_slice s) GS_MUST_USE; // NUL-terminated copy

// NULL-tolerant comparisons of C strings.
bool gs_streq(const char *a, const char *b);
// Whether one of the texts is equal to s. s may be NULL.
bool gs_is_one_of(const char *s, const char *const *texts, size_t n);
bool gs_starts(const char *s, const char *prefix);
bool gs_ends(const char *s, const char *suffix);
int gs_compare_texts(const void *a, const void *b); // for qsort() of an array of C strings

bool gs_is_blank(char c);           // space, tab, carriage return, line feed; no locale
bool gs_is_word(char c);            // a letter, a digit or _; no locale
bool gs_has_control(const char *s); // an ASCII control character
