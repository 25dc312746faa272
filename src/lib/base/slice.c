// SPDX-License-Identifier: Apache-2.0
// Slices: bytes that another object owns, without a NUL. A slice with data NULL is the end of a
// list that gs_slice_cut() splits, which differs from an empty item.
#include "base/slice.h"

#include "base/mem.h"

#include <strings.h>

int gs_slice_compare(struct gs_slice a, struct gs_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool gs_slice_is_word(struct gs_slice s, const char *ascii)
{
    return s.len == strlen(ascii) && (!s.len || strncasecmp(s.data, ascii, s.len) == 0);
}

bool gs_lists_word(const char *list, const char *ascii)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data)
        if (gs_slice_is_word(gs_slice_trim(gs_slice_cut(&rest, ',')), ascii))
            return true;
    return false;
}

bool gs_slice_starts(struct gs_slice s, const char *prefix)
{
    size_t n = strlen(prefix);
    return s.len >= n && memcmp(s.data, prefix, n) == 0;
}

bool gs_slice_ends(struct gs_slice s, const char *suffix)
{
    size_t n = strlen(suffix);
    return s.len >= n && memcmp(s.data + s.len - n, suffix, n) == 0;
}

bool gs_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool gs_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool gs_has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return true;
    return false;
}

struct gs_slice gs_slice_trim(struct gs_slice s)
{
    while (s.len && gs_is_blank(s.data[0])) {
        s.data++;
        s.len--;
    }
    while (s.len && gs_is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

struct gs_slice gs_slice_cut(struct gs_slice *s, char sep)
{
    struct gs_slice head = *s;
    const char *at = s->len ? memchr(s->data, sep, s->len) : NULL;
    if (!at) {
        *s = (struct gs_slice){NULL, 0};
        return head;
    }
    head.len = (size_t)(at - s->data);
    s->data = at + 1;
    s->len -= head.len + 1;
    return head;
}

char *gs_slice_dup(struct gs_slice s)
{
    return gs_strndup(s.data, s.len);
}

bool gs_streq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool gs_is_one_of(const char *s, const char *const *texts, size_t n)
{
    for (size_t i = 0; s && i < n; i++)
        if (strcmp(s, texts[i]) == 0)
            return true;
    return false;
}

bool gs_starts(const char *s, const char *prefix)
{
    return s && gs_slice_starts(gs_slice_of(s), prefix);
}

bool gs_ends(const char *s, const char *suffix)
{
    return s && gs_slice_ends(gs_slice_of(s), suffix);
}

int gs_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
