// SPDX-License-Identifier: Apache-2.0
// Tokens of PromQL. Positions and error texts are those of Prometheus' lexer, which Grafana and
// rule files show. It keeps whether it is inside braces, brackets or parentheses, as words mean
// different things there.
#include "promql/parser_private.h"

#include "base/mem.h"
#include "promql/ast.h"

#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

static const struct {
    const char *word;
    enum promql_token_type type;
    int code;
} words[] = {
    {"and", PROMQL_T_OPERATOR, PROMQL_AND},
    {"or", PROMQL_T_OPERATOR, PROMQL_OR},
    {"unless", PROMQL_T_OPERATOR, PROMQL_UNLESS},
    {"atan2", PROMQL_T_OPERATOR, PROMQL_ATAN2},
    {"sum", PROMQL_T_AGGREGATE, PROMQL_SUM},
    {"avg", PROMQL_T_AGGREGATE, PROMQL_AVG},
    {"count", PROMQL_T_AGGREGATE, PROMQL_COUNT},
    {"min", PROMQL_T_AGGREGATE, PROMQL_MIN},
    {"max", PROMQL_T_AGGREGATE, PROMQL_MAX},
    {"group", PROMQL_T_AGGREGATE, PROMQL_GROUP},
    {"stddev", PROMQL_T_AGGREGATE, PROMQL_STDDEV},
    {"stdvar", PROMQL_T_AGGREGATE, PROMQL_STDVAR},
    {"topk", PROMQL_T_AGGREGATE, PROMQL_TOPK},
    {"bottomk", PROMQL_T_AGGREGATE, PROMQL_BOTTOMK},
    {"count_values", PROMQL_T_AGGREGATE, PROMQL_COUNT_VALUES},
    {"quantile", PROMQL_T_AGGREGATE, PROMQL_QUANTILE},
    {"limitk", PROMQL_T_AGGREGATE, PROMQL_LIMITK},
    {"limit_ratio", PROMQL_T_AGGREGATE, PROMQL_LIMIT_RATIO},
    {"anchored", PROMQL_T_KEYWORD, PROMQL_K_ANCHORED},
    {"smoothed", PROMQL_T_KEYWORD, PROMQL_K_SMOOTHED},
    {"fill", PROMQL_T_KEYWORD, PROMQL_K_FILL},
    {"fill_left", PROMQL_T_KEYWORD, PROMQL_K_FILL_LEFT},
    {"fill_right", PROMQL_T_KEYWORD, PROMQL_K_FILL_RIGHT},
    {"bool", PROMQL_T_KEYWORD, PROMQL_K_BOOL},
    {"by", PROMQL_T_KEYWORD, PROMQL_K_BY},
    {"group_left", PROMQL_T_KEYWORD, PROMQL_K_GROUP_LEFT},
    {"group_right", PROMQL_T_KEYWORD, PROMQL_K_GROUP_RIGHT},
    {"ignoring", PROMQL_T_KEYWORD, PROMQL_K_IGNORING},
    {"offset", PROMQL_T_KEYWORD, PROMQL_K_OFFSET},
    {"on", PROMQL_T_KEYWORD, PROMQL_K_ON},
    {"without", PROMQL_T_KEYWORD, PROMQL_K_WITHOUT},
    {"start", PROMQL_T_PREPROCESSOR, PROMQL_P_START},
    {"end", PROMQL_T_PREPROCESSOR, PROMQL_P_END},
    {"step", PROMQL_T_PREPROCESSOR, PROMQL_P_STEP},
    {"range", PROMQL_T_PREPROCESSOR, PROMQL_P_RANGE},
    {"max_of", PROMQL_T_PREPROCESSOR, PROMQL_P_MAX_OF},
    {"min_of", PROMQL_T_PREPROCESSOR, PROMQL_P_MIN_OF},
    {"inf", PROMQL_T_NUMBER, 0},
    {"nan", PROMQL_T_NUMBER, 0},
};

static bool is_alpha(int c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int lexer_peek(const struct promql_lexer *l)
{
    return l->at < l->input.len ? (unsigned char)l->input.data[l->at] : -1;
}

// The length of the character of a name at `text`, of which n bytes are left. 0: it is none. With
// the feature, names have letters of Unicode, and dots except at the start.
static size_t name_character(const char *text, size_t n, bool start)
{
    bool wide = promql_features() & PROMQL_UTF8_NAMES;
    int c = n ? (unsigned char)*text : -1;
    if (is_alpha(c) || (!start && (isdigit(c) || (wide && c == '.'))))
        return 1;
    return wide && c >= 0x80 ? promql_letter(gs_slice_make(text, n)) : 0;
}

static size_t name_character_here(const struct promql_lexer *l, bool start)
{
    return name_character(l->input.data + l->at, l->input.len - l->at, start);
}

bool promql_is_plain_label(struct gs_slice name)
{
    size_t at = 0, n = 1;
    for (; at < name.len && n; at += n)
        n = name_character(name.data + at, name.len - at, at == 0);
    return n && name.len;
}

static bool is_space(int c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool accept(struct promql_lexer *l, const char *set)
{
    int c = lexer_peek(l);
    if (c <= 0 || !strchr(set, c))
        return false;
    l->at++;
    return true;
}

static struct promql_token emit_token(struct promql_lexer *l, enum promql_token_type type, int code)
{
    struct promql_token t = {type, code, (uint32_t)l->start, (uint32_t)l->at,
                             gs_slice_make(l->input.data + l->start, l->at - l->start)};
    return t;
}

static struct promql_token fail_lexer(struct promql_lexer *l, const char *fmt, ...) GS_PRINTF(2, 3);
static struct promql_token fail_lexer(struct promql_lexer *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    struct promql_token t = emit_token(l, PROMQL_T_ERROR, 0);
    const char *kept = gs_arena_strdup(l->arena, text);
    t.text = gs_slice_of(kept ? kept : "out of memory");
    return t;
}

static size_t rune_len(const struct promql_lexer *l, size_t at)
{
    unsigned char c = (unsigned char)l->input.data[at];
    size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return n < l->input.len - at ? n : l->input.len - at;
}

// "what: 'x'" for the character at this position, as Go's %q prints a rune.
static struct promql_token fail_rune(struct promql_lexer *l, const char *what, size_t at)
{
    if (at >= l->input.len)
        return fail_lexer(l, "%s '\xef\xbf\xbd'", what);
    const char *escaped = NULL;
    switch (l->input.data[at]) {
    case '\n':
        escaped = "\\n";
        break;
    case '\t':
        escaped = "\\t";
        break;
    case '\r':
        escaped = "\\r";
        break;
    case '\'':
        escaped = "\\'";
        break;
    case '\\':
        escaped = "\\\\";
        break;
    default:
        break;
    }
    if (escaped)
        return fail_lexer(l, "%s '%s'", what, escaped);
    unsigned char c = (unsigned char)l->input.data[at];
    if (c < 0x20 || c == 0x7f)
        return fail_lexer(l, "%s '\\x%02x'", what, c);
    return fail_lexer(l, "%s '%.*s'", what, (int)rune_len(l, at), l->input.data + at);
}

// --- numbers and durations ---

static bool is_any(const struct promql_lexer *l, const char *set)
{
    int c = lexer_peek(l);
    return c > 0 && strchr(set, c);
}

// Reads digits with dots, exponents and underscores. Returns false if it is not a number (it may be
// a duration); l->at is where it stopped.
static bool scan_number(struct promql_lexer *l)
{
    const char *digits = "0123456789";
    bool dot = false, exponent = false, hex = false;
    size_t first = l->at;
    if (accept(l, "0") && accept(l, "xX")) {
        (void)accept(l, "_");
        digits = "0123456789abcdefABCDEF";
        hex = true;
    }
    (void)accept(l, ".");
    (void)accept(l, digits);
    while (is_any(l, digits) || is_any(l, "._eE")) {
        if (is_any(l, digits)) {
            l->at++;
            continue;
        }
        if ((is_any(l, ".") && dot) || (is_any(l, "eE") && exponent)) {
            l->at++;
            return false;
        }
        if (accept(l, ".")) {
            dot = true;
            if (accept(l, "_.") || hex)
                return false;
        } else if (accept(l, "eE")) {
            exponent = true;
            (void)accept(l, "+-");
            if (accept(l, "._eE") || lexer_peek(l) < 0)
                return false;
        } else if (accept(l, "_")) {
            if (accept(l, "._eE") || lexer_peek(l) < 0)
                return false;
        }
    }
    return l->at != first && !is_alpha(lexer_peek(l)) && !isdigit(lexer_peek(l));
}

static bool scan_rest_of_duration(struct promql_lexer *l)
{
    if (!accept(l, "smhdwy"))
        return false;
    (void)accept(l, "s");
    while (isdigit(lexer_peek(l))) {
        while (isdigit(lexer_peek(l)))
            l->at++;
        if (!accept(l, "smhdw"))
            return false;
        (void)accept(l, "s");
    }
    if (!is_alpha(lexer_peek(l)) && !isdigit(lexer_peek(l)))
        return true;
    l->at++;
    return false;
}

static struct promql_token number_or_duration(struct promql_lexer *l)
{
    if (scan_number(l))
        return emit_token(l, PROMQL_T_NUMBER, 0);
    if (scan_rest_of_duration(l))
        return emit_token(l, PROMQL_T_DURATION, 0);
    GS_AUTO_BUF struct gs_buf quoted = {0};
    promql_quote(&quoted, gs_slice_make(l->input.data + l->start, l->at - l->start));
    return fail_lexer(l, "bad number or duration syntax: %s", quoted.data);
}

// --- strings ---

static int hex_digits(struct promql_lexer *l, int n, int base, uint32_t *ret)
{
    uint32_t v = 0;
    for (int i = 0; i < n; i++) {
        int c = lexer_peek(l), d = isdigit(c)                           ? c - '0'
                                   : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                        : 16;
        if (c < 0 || d >= base)
            return c < 0 ? -1 : 0;
        v = v * (uint32_t)base + (uint32_t)d;
        l->at++;
    }
    *ret = v;
    return 1;
}

static const char UNKNOWN[] = "unknown escape sequence";
static const char ILLEGAL[] = "illegal character in escape sequence";

// l->at is after a backslash. Returns NULL if the escape is valid.
static const char *check_escape(struct promql_lexer *l, char quote)
{
    int c = lexer_peek(l), n, base = 16;
    uint32_t max = 0x10ffff, v = 0;
    if (c < 0)
        return "escape sequence not terminated";
    if (strchr("abfnrtv\\", c) || c == quote) {
        l->at++;
        return NULL;
    }
    if (c >= '0' && c <= '7') {
        n = 3;
        base = 8;
        max = 255;
    } else if (c == 'x' || c == 'u' || c == 'U') {
        n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        max = c == 'x' ? 255 : max;
        l->at++;
    } else {
        return UNKNOWN;
    }
    int ok = hex_digits(l, n, base, &v);
    if (ok < 1)
        return ok ? "escape sequence not terminated" : ILLEGAL;
    if (v > max || (v >= 0xd800 && v < 0xe000))
        return "escape sequence is an invalid Unicode code point";
    return NULL;
}

static struct promql_token string(struct promql_lexer *l, char quote)
{
    bool raw = quote == '`';
    for (;;) {
        int c = lexer_peek(l);
        if (c < 0 || (c == '\n' && !raw))
            return fail_lexer(l, raw ? "unterminated raw string" : "unterminated quoted string");
        l->at++;
        if (c == quote)
            return emit_token(l, PROMQL_T_STRING, 0);
        const char *wrong = c == '\\' && !raw ? check_escape(l, quote) : NULL;
        int bad = lexer_peek(l);
        if (wrong == UNKNOWN)
            return fail_lexer(l, "%s U+%04X '%c'", wrong, (unsigned)bad, bad);
        if (wrong == ILLEGAL)
            return fail_lexer(l, "illegal character U+%04X '%c' in escape sequence", (unsigned)bad,
                              bad);
        if (wrong)
            return fail_lexer(l, "%s", wrong);
    }
}

// --- words ---

static struct promql_token word(struct promql_lexer *l)
{
    bool colon = false;
    for (size_t n = 1; n; l->at += n) {
        bool is_colon = lexer_peek(l) == ':';
        colon |= is_colon;
        n = is_colon ? 1 : name_character_here(l, false);
    }
    size_t len = l->at - l->start;
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (strlen(words[i].word) == len &&
            strncasecmp(words[i].word, l->input.data + l->start, len) == 0)
            return emit_token(l, words[i].type, words[i].code);
    return emit_token(l, colon ? PROMQL_T_METRIC_IDENTIFIER : PROMQL_T_IDENTIFIER, 0);
}

static struct promql_token inside_braces(struct promql_lexer *l)
{
    int c = lexer_peek(l);
    if (c < 0)
        return fail_lexer(l, "unexpected end of input inside braces");
    if (name_character_here(l, true)) {
        for (size_t n = 1; n; l->at += n)
            n = name_character_here(l, false);
        return emit_token(l, PROMQL_T_IDENTIFIER, 0);
    }
    l->at++;
    switch (c) {
    case ',':
        return emit_token(l, PROMQL_T_COMMA, 0);
    case '"':
    case '\'':
    case '`':
        return string(l, (char)c);
    case '=':
        return accept(l, "~") ? emit_token(l, PROMQL_T_EQL_REGEX, 0)
                              : emit_token(l, PROMQL_T_EQL, 0);
    case '!':
        if (accept(l, "~"))
            return emit_token(l, PROMQL_T_NEQ_REGEX, 0);
        if (accept(l, "="))
            return emit_token(l, PROMQL_T_OPERATOR, PROMQL_NEQ);
        return fail_rune(l, "unexpected character after '!' inside braces:", l->at);
    case '{':
        return fail_lexer(l, "unexpected left brace '{'");
    case '}':
        l->brace_open = false;
        return emit_token(l, PROMQL_T_RIGHT_BRACE, 0);
    default:
        return fail_rune(l, "unexpected character inside braces:", l->at - 1);
    }
}

static struct promql_token unclosed(struct promql_lexer *l)
{
    return fail_lexer(l, l->paren_depth ? "unclosed left parenthesis" : "unclosed left bracket");
}

static struct promql_token bracket(struct promql_lexer *l, int c);

// step, range, max_of, min_of. The first letter has been seen.
static struct promql_token duration_word(struct promql_lexer *l)
{
    size_t at = l->at;
    while (is_alpha(lexer_peek(l)))
        l->at++;
    size_t len = l->at - l->start;
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        if (words[i].type != PROMQL_T_PREPROCESSOR || words[i].code < PROMQL_P_STEP ||
            strlen(words[i].word) != len ||
            strncasecmp(words[i].word, l->input.data + l->start, len) != 0)
            continue;
        l->got_duration = true;
        return emit_token(l, words[i].type, words[i].code);
    }
    return fail_rune(l, "unexpected character in duration expression:", at);
}

static struct promql_token inside_brackets(struct promql_lexer *l)
{
    static const char arithmetic[] = "+-*/%^";
    static const int arithmetic_ops[] = {PROMQL_ADD, PROMQL_SUB, PROMQL_MUL,
                                         PROMQL_DIV, PROMQL_MOD, PROMQL_POW};
    int c = lexer_peek(l);
    if (c < 0)
        return fail_lexer(l, "unexpected end of input in duration expression");
    bool dotted =
        c == '.' && l->at + 1 < l->input.len && isdigit((unsigned char)l->input.data[l->at + 1]);
    if (isdigit(c) || dotted) {
        l->got_duration = l->got_number = true;
        return number_or_duration(l);
    }
    if (strchr("sSrRmM", c) && c)
        return duration_word(l);
    l->at++;
    const char *op = c ? strchr(arithmetic, c) : NULL;
    if (op)
        return emit_token(l, PROMQL_T_OPERATOR, arithmetic_ops[op - arithmetic]);
    switch (c) {
    case ']':
        l->bracket_open = false;
        return emit_token(l, PROMQL_T_RIGHT_BRACKET, 0);
    case ':':
        if (!l->got_duration) {
            l->start = l->at; // where Prometheus reports it
            return fail_lexer(l, "unexpected colon before duration in duration expression");
        }
        if (l->got_colon)
            return fail_lexer(l, "unexpected repeated colon in duration expression");
        l->got_colon = true;
        return emit_token(l, PROMQL_T_COLON, 0);
    case '(':
    case ')':
        return bracket(l, c);
    case ',':
        return emit_token(l, PROMQL_T_COMMA, 0);
    default:
        return fail_rune(l, "unexpected character in duration expression:", l->at - 1);
    }
}

static struct promql_token one_of(struct promql_lexer *l, const char *next, int with, int without)
{
    return accept(l, next) ? emit_token(l, PROMQL_T_OPERATOR, with)
                           : emit_token(l, PROMQL_T_OPERATOR, without);
}

static struct promql_token bracket(struct promql_lexer *l, int c)
{
    if (c == '{') {
        l->brace_open = true;
        return emit_token(l, PROMQL_T_LEFT_BRACE, 0);
    }
    if (c == ']' && !l->bracket_open)
        return fail_lexer(l, "unexpected right bracket ']'");
    if (c == ']') {
        l->bracket_open = false;
        return emit_token(l, PROMQL_T_RIGHT_BRACKET, 0);
    }
    if (c == '[' && l->bracket_open)
        return fail_lexer(l, "unexpected left bracket '['");
    if (c == '[') {
        l->bracket_open = true;
        l->got_colon = l->got_duration = l->got_number = false;
        return emit_token(l, PROMQL_T_LEFT_BRACKET, 0);
    }
    l->paren_depth += c == '(' ? 1 : -1;
    if (l->paren_depth < 0) {
        l->start = l->at; // where Prometheus reports it
        return fail_lexer(l, "unexpected right parenthesis ')'");
    }
    return emit_token(l, c == '(' ? PROMQL_T_LEFT_PAREN : PROMQL_T_RIGHT_PAREN, 0);
}

static struct promql_token statement(struct promql_lexer *l)
{
    static const char arithmetic[] = "+-*/%^";
    static const int arithmetic_ops[] = {PROMQL_ADD, PROMQL_SUB, PROMQL_MUL,
                                         PROMQL_DIV, PROMQL_MOD, PROMQL_POW};
    int c = lexer_peek(l);
    if (c < 0)
        return l->paren_depth || l->bracket_open ? unclosed(l) : emit_token(l, PROMQL_T_EOF, 0);
    if (c == ':' && l->bracket_open) {
        l->at++;
        if (l->got_colon)
            return fail_lexer(l, "unexpected colon ':'");
        l->got_colon = true;
        return emit_token(l, PROMQL_T_COLON, 0);
    }
    bool dotted =
        c == '.' && l->at + 1 < l->input.len && isdigit((unsigned char)l->input.data[l->at + 1]);
    if (isdigit(c) || dotted)
        return number_or_duration(l);
    if (c == ':' || name_character_here(l, true))
        return word(l);
    l->at++;
    const char *op = c ? strchr(arithmetic, c) : NULL;
    if (op)
        return emit_token(l, PROMQL_T_OPERATOR, arithmetic_ops[op - arithmetic]);
    switch (c) {
    case ',':
        return emit_token(l, PROMQL_T_COMMA, 0);
    case '@':
        return emit_token(l, PROMQL_T_AT, 0);
    case '=':
        if (accept(l, "="))
            return emit_token(l, PROMQL_T_OPERATOR, PROMQL_EQL);
        if (lexer_peek(l) == '~')
            return fail_lexer(l, "unexpected character after '=': '~'");
        return emit_token(l, PROMQL_T_EQL, 0);
    case '!':
        if (accept(l, "="))
            return emit_token(l, PROMQL_T_OPERATOR, PROMQL_NEQ);
        return fail_rune(l, "unexpected character after '!':", l->at);
    case '<':
        if (accept(l, "/"))
            return emit_token(l, PROMQL_T_OPERATOR, PROMQL_TRIM_UPPER);
        return one_of(l, "=", PROMQL_LTE, PROMQL_LSS);
    case '>':
        if (accept(l, "/"))
            return emit_token(l, PROMQL_T_OPERATOR, PROMQL_TRIM_LOWER);
        return one_of(l, "=", PROMQL_GTE, PROMQL_GTR);
    case '"':
    case '\'':
    case '`':
        return string(l, (char)c);
    case '(':
    case ')':
    case '{':
    case '[':
    case ']':
        return bracket(l, c);
    default:
        return fail_rune(l, "unexpected character:", l->at - 1);
    }
}

static void skip_blanks_and_comments(struct promql_lexer *l)
{
    for (;;) {
        while (is_space(lexer_peek(l)))
            l->at++;
        if (lexer_peek(l) != '#')
            return;
        while (lexer_peek(l) >= 0 && lexer_peek(l) != '\n' && lexer_peek(l) != '\r')
            l->at++;
    }
}

struct promql_token promql_lexer_next(struct promql_lexer *l)
{
    skip_blanks_and_comments(l);
    l->start = l->at;
    if (l->brace_open)
        return inside_braces(l);
    if (l->bracket_open && !l->got_number)
        return inside_brackets(l);
    return statement(l);
}

// The bytes of the UTF-8 character at the start of s; 0: none.
static size_t utf8_len(struct gs_slice s)
{
    const unsigned char *c = (const unsigned char *)s.data;
    size_t n = c[0] < 0x80   ? 1
               : c[0] < 0xc2 ? 0
               : c[0] < 0xe0 ? 2
               : c[0] < 0xf0 ? 3
               : c[0] < 0xf5 ? 4
                             : 0;
    if (n > s.len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool wrong = n > 2 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                           (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f));
    return wrong ? 0 : n;
}

void promql_quote(struct gs_buf *out, struct gs_slice s)
{
    static const char escapes[] = "\a\b\f\n\r\t\v\\\"", letters[] = "abfnrtv\\\"";
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        const char *e = c ? strchr(escapes, c) : NULL;
        if (e)
            gs_buf_addf(out, "\\%c", letters[e - escapes]);
        else if (c < 0x20 || c == 0x7f)
            gs_buf_addf(out, "\\x%02x", c);
        else {
            size_t n = utf8_len(gs_slice_make(s.data + i, s.len - i));
            if (n)
                gs_buf_add(out, s.data + i, n);
            else
                gs_buf_addf(out, "\\x%02x", c);
            i += n ? n - 1 : 0;
        }
    }
    gs_buf_add_char(out, '"');
}
