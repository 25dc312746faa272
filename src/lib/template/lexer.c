// SPDX-License-Identifier: Apache-2.0
// Tokens of Go's text/template, including strings, characters and numbers of Go, and trimming by
// "{{- " and " -}}". Error texts are those of Go.
#include "template/template_private.h"

#include "base/buf.h"
#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_word(char c)
{
    return c == '_' || isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static char peek_char(const struct template_lexer *lx, size_t offset)
{
    size_t i = lx->pos + offset;
    return (char)(i < lx->text.len ? lx->text.data[i] : '\0');
}

static bool looking_at(const struct template_lexer *lx, size_t offset, const char *s)
{
    size_t len = strlen(s), from = lx->pos + offset;
    return from <= lx->text.len && lx->text.len - from >= len &&
           memcmp(lx->text.data + from, s, len) == 0;
}

static void skip_spaces(struct template_lexer *lx)
{
    while (is_space(peek_char(lx, 0)))
        lx->pos++;
}

// " -}}": leading blanks of the text after the action are removed.
static bool trims_right(const struct template_lexer *lx)
{
    return is_space(peek_char(lx, 0)) && peek_char(lx, 1) == '-' && looking_at(lx, 2, lx->close);
}

bool template_skip_comment(struct template_lexer *lx)
{
    const char *from = lx->text.data + lx->pos + 2;
    size_t left = lx->pos + 2 <= lx->text.len ? lx->text.len - lx->pos - 2 : 0;
    const char *end = left ? memmem(from, left, "*/", 2) : NULL;
    if (!end) {
        lx->wrong = "unclosed comment";
        return false;
    }
    lx->pos = (uint32_t)(end + 2 - lx->text.data);
    bool trim = trims_right(lx);
    if (!trim && !looking_at(lx, 0, lx->close)) {
        lx->wrong = "comment ends before closing delimiter";
        return false;
    }
    lx->pos += trim ? 4 : 2;
    if (trim)
        skip_spaces(lx);
    return true;
}

bool template_next_text(struct template_lexer *lx, struct gs_slice *ret, bool *ret_end)
{
    struct gs_slice rest = {lx->text.data + lx->pos, lx->text.len - lx->pos};
    const char *open = rest.len ? memmem(rest.data, rest.len, lx->open, 2) : NULL;
    *ret_end = !open;
    if (!open) {
        *ret = rest;
        lx->pos = (uint32_t)lx->text.len;
        return true;
    }
    rest.len = (size_t)(open - rest.data);
    lx->pos += (uint32_t)rest.len + 2;
    if (peek_char(lx, 0) == '-' && is_space(peek_char(lx, 1))) {
        while (rest.len && is_space(rest.data[rest.len - 1]))
            rest.len--;
        lx->pos += 2;
    }
    *ret = rest;
    return true;
}

static void add_utf8(struct gs_buf *out, uint32_t c)
{
    char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xe0 | c >> 12);
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        b[n++] = (char)(0xf0 | c >> 18);
        b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    }
    gs_buf_add(out, b, n);
}

static bool digits(struct template_lexer *lx, size_t n, unsigned base, uint32_t *ret)
{
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = peek_char(lx, i);
        unsigned d = isdigit((unsigned char)c)    ? (unsigned)(c - '0')
                     : isxdigit((unsigned char)c) ? (unsigned)(tolower(c) - 'a' + 10)
                                                  : 99;
        if (d >= base)
            return false;
        v = v * base + d;
    }
    lx->pos += (uint32_t)n;
    *ret = v;
    return true;
}

// pos is after the backslash.
static bool escape(struct template_lexer *lx, struct gs_buf *out, char quote)
{
    static const char from[] = "abfnrtv\\", to[] = "\a\b\f\n\r\t\v\\";
    char c = peek_char(lx, 0);
    const char *hit = c ? strchr(from, c) : NULL;
    uint32_t v;
    if (hit || c == quote) {
        gs_buf_add_char(out, (char)(hit ? to[hit - from] : quote));
        lx->pos++;
        return true;
    }
    if (c >= '0' && c <= '7') {
        if (!digits(lx, 3, 8, &v) || v > 255)
            return false;
        gs_buf_add_char(out, (char)v);
        return true;
    }
    lx->pos++;
    if (c == 'x' && digits(lx, 2, 16, &v)) {
        gs_buf_add_char(out, (char)v);
        return true;
    }
    if ((c == 'u' && digits(lx, 4, 16, &v)) || (c == 'U' && digits(lx, 8, 16, &v))) {
        if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
            return false;
        add_utf8(out, v);
        return true;
    }
    return false;
}

// An interpreted string or character constant of Go. pos is after the opening quote.
static bool quoted(struct template_lexer *lx, struct gs_buf *out, char quote)
{
    for (;;) {
        if (lx->pos >= lx->text.len || peek_char(lx, 0) == '\n') {
            lx->wrong =
                quote == '"' ? "unterminated quoted string" : "unterminated character constant";
            return false;
        }
        char c = peek_char(lx, 0);
        lx->pos++;
        if (c == quote)
            return true;
        if (c != '\\') {
            gs_buf_add_char(out, c);
        } else if (!escape(lx, out, quote)) {
            lx->wrong = "invalid syntax";
            return false;
        }
    }
}

static bool lex_string(struct template_lexer *lx, struct template_token *t)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    lx->pos++;
    if (!quoted(lx, &out, '"'))
        return false;
    t->kind = TOKEN_STRING;
    const char *copy = gs_arena_strndup(lx->arena, out.data, out.len);
    if (!copy) {
        lx->wrong = "out of memory";
        return false;
    }
    t->s = gs_slice_make(copy, out.len);
    return true;
}

static bool lex_raw(struct template_lexer *lx, struct template_token *t)
{
    const char *from = lx->text.data + lx->pos + 1;
    const char *end = memchr(from, '`', lx->text.len - lx->pos - 1);
    if (!end) {
        lx->wrong = "unterminated raw quoted string";
        return false;
    }
    t->kind = TOKEN_STRING;
    t->s = gs_slice_make(from, (size_t)(end - from));
    lx->pos = (uint32_t)(end + 1 - lx->text.data);
    return true;
}

static bool decode_char(struct gs_slice s, int64_t *ret)
{
    unsigned char c = s.len ? (unsigned char)s.data[0] : 0;
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (s.len != n)
        return false;
    int64_t v = n == 1 ? c : c & (0xff >> (n + 1));
    for (size_t i = 1; i < n; i++)
        v = v << 6 | (s.data[i] & 0x3f);
    *ret = v;
    return true;
}

static bool lex_char(struct template_lexer *lx, struct template_token *t)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    lx->pos++;
    if (!quoted(lx, &out, '\''))
        return false;
    t->kind = TOKEN_INT;
    if (decode_char(gs_buf_slice(&out), &t->i))
        return true;
    lx->wrong = "malformed character constant";
    return false;
}

static bool parse_int(const char *s, int64_t *ret)
{
    bool minus = *s == '-';
    s += *s == '-' || *s == '+';
    int base = 10;
    if (s[0] == '0' && s[1]) {
        char c = (char)tolower(s[1]);
        base = c == 'x' ? 16 : c == 'b' ? 2 : 8;
        s += c == 'x' || c == 'b' || c == 'o' ? 2 : 1;
    }
    char *end;
    if (!isxdigit((unsigned char)*s))
        return false;
    errno = 0;
    unsigned long long v = strtoull(s, &end, base);
    if (*end || errno || v > (unsigned long long)INT64_MAX)
        return false;
    *ret = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static bool lex_number(struct template_lexer *lx, struct template_token *t)
{
    char text[64] = "";
    size_t n = 0;
    bool hex = false;
    while (n < sizeof(text) - 1) {
        char c = peek_char(lx, 0);
        bool sign = (c == '+' || c == '-') && (n == 0 || (!hex && tolower(text[n - 1]) == 'e') ||
                                               tolower(text[n - 1]) == 'p');
        if (!isalnum((unsigned char)c) && c != '.' && c != '_' && !sign)
            break;
        lx->pos++;
        if (c == '_')
            continue;
        text[n++] = c;
        hex = hex || tolower(c) == 'x';
    }
    text[n] = '\0';
    bool real = hex ? strpbrk(text, ".pP") != NULL : strpbrk(text, ".eE") != NULL;
    t->kind = TOKEN_INT;
    if (!real && parse_int(text, &t->i))
        return true;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &t->f);
    t->kind = TOKEN_FLOAT;
    if (!err && real)
        return true;
    lx->wrong = "bad number syntax";
    return false;
}

static struct gs_slice lex_word(struct template_lexer *lx)
{
    const char *from = lx->text.data + lx->pos;
    while (is_word(peek_char(lx, 0)))
        lx->pos++;
    return gs_slice_make(from, (size_t)(lx->text.data + lx->pos - from));
}

// Returns whether the character may follow a word, field or variable.
static bool at_terminator(const struct template_lexer *lx)
{
    return lx->pos >= lx->text.len || is_space(peek_char(lx, 0)) ||
           strchr(".,|:=)(", peek_char(lx, 0)) || looking_at(lx, 0, lx->close);
}

static bool lex_words(struct template_lexer *lx, struct template_token *t)
{
    char c = peek_char(lx, 0);
    if (c == '.' && !is_word(peek_char(lx, 1))) {
        t->kind = TOKEN_DOT;
        lx->pos++;
        return true;
    }
    t->kind = c == '.' ? TOKEN_FIELD : c == '$' ? TOKEN_VARIABLE : TOKEN_WORD;
    const char *from = lx->text.data + lx->pos;
    lx->pos += t->kind != TOKEN_WORD;
    t->s = lex_word(lx);
    if (t->kind == TOKEN_VARIABLE)
        t->s = gs_slice_make(from, t->s.len + 1);
    if (!at_terminator(lx)) {
        lx->wrong = "bad character in an action";
        return false;
    }
    return true;
}

static bool lex_sign(struct template_lexer *lx, struct template_token *t)
{
    if (looking_at(lx, 0, ":=")) {
        t->kind = TOKEN_DECLARE;
        lx->pos += 2;
        return true;
    }
    switch (peek_char(lx, 0)) {
    case '(':
        t->kind = TOKEN_LPAREN;
        break;
    case ')':
        t->kind = TOKEN_RPAREN;
        break;
    case '|':
        t->kind = TOKEN_PIPE;
        break;
    case ',':
        t->kind = TOKEN_COMMA;
        break;
    case '=':
        t->kind = TOKEN_ASSIGN;
        break;
    default:
        lx->wrong = "unexpected character in an action";
        return false;
    }
    lx->pos++;
    return true;
}

static bool lex_close(struct template_lexer *lx, struct template_token *t)
{
    bool trim = is_space(peek_char(lx, 0));
    t->kind = TOKEN_CLOSE;
    lx->pos += trim ? 4 : 2;
    t->end = lx->pos;
    if (trim)
        skip_spaces(lx);
    return true;
}

static bool lex_any(struct template_lexer *lx, struct template_token *t)
{
    char c = peek_char(lx, 0);
    if (looking_at(lx, 0, lx->close) || trims_right(lx))
        return lex_close(lx, t);
    if (is_space(c)) {
        t->kind = TOKEN_SPACE;
        while (is_space(peek_char(lx, 0)) && !trims_right(lx))
            lx->pos++;
        return true;
    }
    if (c == '"')
        return lex_string(lx, t);
    if (c == '`')
        return lex_raw(lx, t);
    if (c == '\'')
        return lex_char(lx, t);
    if (isdigit((unsigned char)c) || ((c == '+' || c == '-') && peek_char(lx, 1)) ||
        (c == '.' && isdigit((unsigned char)peek_char(lx, 1))))
        return lex_number(lx, t);
    if (c == '.' || c == '$' || is_word(c))
        return lex_words(lx, t);
    return lex_sign(lx, t);
}

bool template_next_token(struct template_lexer *lx, struct template_token *ret)
{
    *ret = (struct template_token){.kind = TOKEN_END, .start = lx->pos};
    if (looking_at(lx, 0, "/*")) {
        lx->wrong = "unexpected comment in an action";
        return false;
    }
    bool ok = lx->pos >= lx->text.len || lex_any(lx, ret);
    if (ret->kind != TOKEN_CLOSE)
        ret->end = lx->pos;
    return ok;
}
