// SPDX-License-Identifier: Apache-2.0
// Text in columns of a terminal. The width is that of wcwidth(3) in a UTF-8 locale of its own, so
// it does not depend on LANG; escape sequences have no width and are kept when text is cut.
// gs_columns_clean() makes text of others safe to print.
#include "base/columns.h"

#include "base/mem.h"

#include <locale.h>
#include <wchar.h>

#define ELLIPSIS "…"

// The C library reports widths of characters only for the thread's locale, which may be "C".
static locale_t utf8_locale(void)
{
    static locale_t found;
    if (!found)
        found = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    return found;
}

// -1: not printable.
static int printed_columns(wchar_t c)
{
    locale_t utf8 = utf8_locale();
    if (!utf8)
        return 1;
    locale_t before = uselocale(utf8);
    int n = wcwidth(c);
    uselocale(before);
    return n;
}

static size_t columns_of(wchar_t c)
{
    int n = printed_columns(c);
    return n < 0 ? 1 : (size_t)n;
}

// Length of the escape sequence (ESC [ … letter) at the beginning; 0: no such sequence.
static size_t escape_len(struct gs_slice s)
{
    if (!s.len || s.data[0] != '\033')
        return 0;
    size_t n = 1;
    while (n < s.len &&
           !((s.data[n] >= 'a' && s.data[n] <= 'z') || (s.data[n] >= 'A' && s.data[n] <= 'Z')))
        n++;
    return n < s.len ? n + 1 : n;
}

// The first character and its bytes. A byte that is not UTF-8 counts as one character.
static size_t decode_character(struct gs_slice s, wchar_t *ret)
{
    unsigned char first = (unsigned char)s.data[0];
    size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    wchar_t c = n == 1 ? first : first & (0xff >> (n + 1));
    *ret = first;
    if (n == 1 || n > s.len)
        return 1;
    for (size_t i = 1; i < n; i++) {
        if ((s.data[i] & 0xc0) != 0x80)
            return 1;
        c = (wchar_t)((unsigned)c << 6 | ((unsigned char)s.data[i] & 0x3f));
    }
    *ret = c;
    return n;
}

static size_t take_character(struct gs_slice s, size_t *ret_columns)
{
    wchar_t c;
    size_t n = decode_character(s, &c);
    *ret_columns = n == 1 ? 1 : columns_of(c);
    return n;
}

// The number of bytes that fit into `width` columns, and their columns.
static size_t fitting_prefix(struct gs_slice s, size_t width, size_t *ret_columns)
{
    size_t at = 0, columns = 0;
    while (at < s.len) {
        struct gs_slice rest = gs_slice_make(s.data + at, s.len - at);
        size_t taken = 0, n = escape_len(rest);
        if (!n)
            n = take_character(rest, &taken);
        if (columns + taken > width)
            break;
        columns += taken;
        at += n;
    }
    *ret_columns = columns;
    return at;
}

size_t gs_columns_width(struct gs_slice s)
{
    size_t columns;
    fitting_prefix(s, SIZE_MAX / 2, &columns);
    return columns;
}

static void add_escapes(struct gs_buf *out, struct gs_slice s)
{
    while (s.len) {
        size_t n = escape_len(s);
        gs_buf_add(out, s.data, n);
        n += n == 0;
        s = gs_slice_make(s.data + n, s.len - n);
    }
}

void gs_columns_fit(struct gs_buf *out, struct gs_slice s, size_t width)
{
    size_t columns;
    size_t n = fitting_prefix(s, width, &columns);
    if (n == s.len || !width) {
        gs_buf_add(out, s.data, n);
        return;
    }
    n = fitting_prefix(s, width - 1, &columns);
    gs_buf_add(out, s.data, n);
    gs_buf_add_str(out, ELLIPSIS);
    add_escapes(out, gs_slice_make(s.data + n,
                                   s.len - n)); // the escape sequences that end colours are kept
}

void gs_columns_pad(struct gs_buf *out, struct gs_slice s, size_t width)
{
    gs_columns_fit(out, s, width);
    for (size_t columns = gs_columns_width(s); columns < width; columns++)
        gs_buf_add_char(out, ' ');
}

struct gs_slice gs_columns_wrap(struct gs_slice *rest, size_t width)
{
    size_t columns;
    size_t n = fitting_prefix(*rest, width, &columns), end = n;
    if (n == 0 && rest->len)
        end = n = take_character(*rest, &columns); // wider than the line: always consume something
    if (n < rest->len) {
        size_t blank = n;
        while (blank > 0 && rest->data[blank] != ' ')
            blank--;
        if (blank > 0)
            end = n = blank;
    }
    struct gs_slice line = gs_slice_make(rest->data, end);
    while (n < rest->len && rest->data[n] == ' ')
        n++;
    *rest = gs_slice_make(rest->data + n, rest->len - n);
    return line;
}

// Invisible although it has a width, or changes the direction of the text after it.
static bool is_hidden(wchar_t c)
{
    return c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff0 && c <= 0xfffb) || (c >= 0xe000 && c <= 0xf8ff) || c >= 0xe0000;
}

void gs_columns_clean(struct gs_buf *out, struct gs_slice s)
{
    while (s.len) {
        wchar_t c;
        size_t n = decode_character(s, &c);
        bool broken = n == 1 ? c < 0x20 || c > 0x7e : printed_columns(c) <= 0 || is_hidden(c);
        // Overlong forms of ASCII, too.
        if (broken || (n > 1 && c < 0xa0))
            gs_buf_add_str(out, "\xef\xbf\xbd");
        else
            gs_buf_add(out, s.data, n);
        s = gs_slice_make(s.data + n, s.len - n);
    }
}
