// SPDX-License-Identifier: Apache-2.0
// Regular expressions in the syntax of Go's regexp (RE2), run by PCRE2. A pattern is translated
// first where the two differ: classes, flags, octal escapes, repetitions, names of groups.
// PCRE2 backtracks, so steps, depth and heap of a match are limited; a match that exceeds them
// counts as no match. A gs_regex belongs to one thread: it has the result of its last match.
#include "base/regex.h"

#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#define MAX_PATTERN    ((size_t)16 * 1024)
#define MATCH_LIMIT    UINT32_C(1000000)
#define DEPTH_LIMIT    UINT32_C(10000)
#define HEAP_LIMIT_KIB UINT32_C(8192)

#define WHOLE_BEGIN "^(?s:"
#define WHOLE_END   ")$"

struct gs_regex {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    uint32_t groups, limit;
    uint64_t *left; // steps of a search at all positions of the text together; NULL: whole texts
};

// --- from Go's syntax to that of PCRE2 ---

static bool is_decimal_digit(char c)
{
    return c >= '0' && c <= '9';
}

// The length of "{2}", "{2,}" or "{2,3}" at the beginning. 0: no repetition.
static size_t repeat_len(struct gs_slice s)
{
    size_t i = 1;
    while (i < s.len && is_decimal_digit(s.data[i]))
        i++;
    if (i == 1)
        return 0;
    if (i < s.len && s.data[i] == ',')
        for (i++; i < s.len && is_decimal_digit(s.data[i]);)
            i++;
    return i < s.len && s.data[i] == '}' ? i + 1 : 0;
}

// Bytes of an escape at the beginning, with the braces that may follow it: "\\p{Greek}". The text
// between "\\Q" and "\\E" is part of it.
static size_t escape_len(struct gs_slice s)
{
    if (s.len < 2)
        return s.len;
    if (s.data[1] == 'Q') {
        const char *end = memmem(s.data, s.len, "\\E", 2);
        return end ? (size_t)(end - s.data) + 2 : s.len;
    }
    if (s.len > 2 && s.data[2] != '{' && (s.data[1] == 'p' || s.data[1] == 'P'))
        return 3;
    if (s.len > 2 && s.data[2] != '{' && s.data[1] == 'x')
        return s.len < 4 ? s.len : 4;
    if (s.len < 3 || s.data[2] != '{' || !strchr("pPxoNgk", s.data[1]))
        return 2;
    const char *end = memchr(s.data, '}', s.len);
    return end ? (size_t)(end - s.data) + 1 : 2;
}

static bool is_repetition(struct gs_slice s)
{
    return s.len && (strchr("*+?", *s.data) ? *s.data != '\0' : *s.data == '{' && repeat_len(s));
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

// An escape that PCRE2 reads differently, in a class or outside of one. Returns the bytes that were
// translated; 0: none.
static size_t add_escape(struct gs_slice s, bool in_class, struct gs_buf *out)
{
    char c = '\0';
    if (s.len > 1)
        c = s.data[1];
    if (c == 'v') { // a vertical tab, not a class
        gs_buf_add_str(out, "\\x0b");
        return 2;
    }
    if (c == 's' || c == 'S') { // without the vertical tab
        static const char *const forms[] = {"[\\t\\n\\f\\r ]", "[^\\t\\n\\f\\r ]", "\\t\\n\\f\\r ",
                                            "\\S\\x0b"};
        gs_buf_add_str(out, forms[2 * in_class + (c == 'S')]);
        return 2;
    }
    if (!is_octal(c) || (c != '0' && (s.len < 3 || !is_octal(s.data[2]))))
        return 0;
    size_t n = 1;
    unsigned code = 0;
    for (; n < s.len && n < 4 && is_octal(s.data[n]); n++)
        code = code * 8 + (unsigned)(s.data[n] - '0');
    gs_buf_addf(out, "\\x{%x}", code);
    return n;
}

static bool is_class_escape(struct gs_slice s)
{
    return s.len > 1 && *s.data == '\\' && strchr("dDsSwWpP", s.data[1]) && s.data[1];
}

size_t gs_regex_class_len(struct gs_slice s, bool *ret_known)
{
    static const char *const names[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                        "digit", "graph", "lower", "print", "punct",
                                        "space", "upper", "word",  "xdigit"};
    *ret_known = true;
    if (s.len < 2 || s.data[0] != '[' || s.data[1] != ':')
        return 0;
    const char *end = memmem(s.data + 2, s.len - 2, ":]", 2);
    if (!end)
        return 0;
    struct gs_slice name = gs_slice_make(s.data + 2, (size_t)(end - s.data) - 2);
    if (gs_slice_starts(name, "^"))
        name = gs_slice_make(name.data + 1, name.len - 1);
    *ret_known = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        *ret_known = *ret_known || gs_slice_eq_str(name, names[i]);
    return (size_t)(end - s.data) + 2;
}

// In Go, \p{Lu} has the letters of both cases after (?i). Returns the bytes that were translated;
// 0: none.
static size_t add_folded(struct gs_slice s, struct gs_buf *out)
{
    static const char *const cases[] = {"{Lu}", "{Ll}", "{Lt}", "{^Lu}", "{^Ll}", "{^Lt}"};
    if (s.len < 2 || (s.data[1] != 'p' && s.data[1] != 'P'))
        return 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (!gs_slice_starts(gs_slice_make(s.data + 2, s.len - 2), cases[i]))
            continue;
        gs_buf_addf(out, "\\%c%s", s.data[1], i < 3 ? "{L&}" : "{^L&}");
        return 2 + strlen(cases[i]);
    }
    return 0;
}

// A class from its bracket on. Returns its length.
static size_t add_class(struct gs_slice pattern, bool fold, struct gs_buf *out)
{
    size_t i = 1, first;
    gs_buf_add_char(out, '[');
    if (i < pattern.len && pattern.data[i] == '^')
        gs_buf_add_char(out, pattern.data[i++]);
    first = i;
    if (i < pattern.len && pattern.data[i] == ':') { // text, not the name of a class
        gs_buf_add_str(out, "\\:");
        i++;
    }
    while (i < pattern.len && (pattern.data[i] != ']' || i == first)) {
        struct gs_slice rest = gs_slice_make(pattern.data + i, pattern.len - i);
        bool known;
        size_t n = gs_regex_class_len(rest, &known), translated = 0;
        bool set = n || is_class_escape(rest);
        if (!n && *rest.data == '\\') {
            translated = fold ? add_folded(rest, out) : 0;
            translated = translated ? translated : add_escape(rest, true, out);
            n = translated ? translated : escape_len(rest);
        } else if (!n && *rest.data == '[') {
            gs_buf_add_char(out, '\\');
        }
        n = n ? n : 1;
        if (!translated)
            gs_buf_add(out, rest.data, n);
        i += n;
        // A hyphen after a set is text. PCRE2 reports it as a wrong range.
        if (set && i + 1 < pattern.len && pattern.data[i] == '-' && pattern.data[i + 1] != ']') {
            gs_buf_add_str(out, "\\-");
            i++;
        }
    }
    if (i < pattern.len)
        gs_buf_add_char(out, pattern.data[i++]);
    return i;
}

#define DIGIT_PREFIX "d_" // of the names of groups that begin with a digit

// The length of "(?P<" or "(?<" before a digit. 0: another text.
static size_t digit_group_len(struct gs_slice s)
{
    size_t n = gs_slice_starts(s, "(?P<") ? 4 : gs_slice_starts(s, "(?<") ? 3 : 0;
    return n && n < s.len && is_decimal_digit(s.data[n]) ? n : 0;
}

// The bytes of an assertion that PCRE2 does not repeat. 0: another element.
static size_t assertion_len(struct gs_slice s)
{
    if (*s.data == '^' || *s.data == '$')
        return 1;
    return s.len > 1 && *s.data == '\\' && s.data[1] && strchr("AbBz", s.data[1]) ? 2 : 0;
}

// The bytes of "(?i)" and similar flags at the beginning, of several if they follow each other.
static size_t flags_len(struct gs_slice s)
{
    size_t n = 0, at = 0;
    while (at + 3 < s.len && s.data[at] == '(' && s.data[at + 1] == '?') {
        size_t end = at + 2;
        while (end < s.len && s.data[end] && strchr("imsU-", s.data[end]))
            end++;
        if (end == at + 2 || end == s.len || s.data[end] != ')')
            break;
        n = at = end + 1;
    }
    return n;
}

static struct gs_slice skip(struct gs_slice s, size_t n)
{
    return gs_slice_make(s.data + n, s.len - n);
}

// The bytes of a repetition with its "?".
static size_t repetition_len(struct gs_slice s)
{
    if (!is_repetition(s))
        return 0;
    size_t n = *s.data == '{' ? repeat_len(s) : 1;
    return n + (n < s.len && s.data[n] == '?');
}

struct translation {
    struct gs_buf *out;
    struct group {
        size_t at; // where it begins in out
        bool fold; // value of fold outside of it
    } * groups;
    size_t depth, cap;
    bool fold;      // letters have no case: (?i)
    size_t element; // where the last element begins in out
};

// Reads "(?i-s)" or "(?i:".
static void read_flags(struct translation *t, struct gs_slice flags)
{
    bool on = true;
    for (size_t i = 2; i < flags.len && flags.data[i] && strchr("imsU-()?", flags.data[i]); i++) {
        on = flags.data[i] == '(' || (on && flags.data[i] != '-');
        if (flags.data[i] == 'i')
            t->fold = on;
    }
}

// "a*(?i)*" repeats "a*" in Go. PCRE2 repeats neither flags nor repetitions.
static size_t add_repeated_flags(struct translation *t, struct gs_slice pattern, size_t flags)
{
    struct gs_slice repetition = skip(pattern, flags);
    size_t n = repetition_len(repetition);
    GS_AUTO_BUF struct gs_buf element = {0};
    gs_buf_add(&element, t->out->data ? t->out->data + t->element : "", t->out->len - t->element);
    t->out->len = t->element;
    gs_buf_addf(t->out, "(?:" GS_SLICE_FMT ")", GS_SLICE_ARG(gs_buf_slice(&element)));
    gs_buf_add(t->out, repetition.data, n);
    gs_buf_add(t->out, pattern.data, flags);
    read_flags(t, gs_slice_make(pattern.data, flags));
    return flags + n;
}

static void open_group(struct translation *t, struct gs_slice pattern, size_t at)
{
    gs_grow(&t->groups, &t->cap, t->depth, sizeof(*t->groups));
    t->groups[t->depth++] = (struct group){at, t->fold};
    if (gs_slice_starts(pattern, "(?"))
        read_flags(t, pattern);
}

static void close_group(struct translation *t)
{
    const struct group *g = &t->groups[--t->depth];
    t->element = g->at;
    t->fold = g->fold;
}

// Adds an element, and returns its bytes in the pattern.
static size_t add_element(struct translation *t, struct gs_slice pattern)
{
    struct gs_buf *out = t->out;
    size_t n = assertion_len(pattern), translated = 0, group = digit_group_len(pattern);
    size_t flags = flags_len(pattern), begin = out->len;
    if (flags && is_repetition(skip(pattern, flags)))
        return add_repeated_flags(t, pattern, flags);
    if (flags || (is_repetition(pattern) && out->len)) {
        n = flags ? flags : repetition_len(pattern);
        gs_buf_add(out, pattern.data, n);
        if (flags)
            read_flags(t, gs_slice_make(pattern.data, flags));
        return n;
    }
    if (n && is_repetition(skip(pattern, n))) {
        gs_buf_addf(out, "(?:%.*s)", (int)n, pattern.data);
        translated = n;
    } else if (group) {
        gs_buf_add_str(out, "(?P<" DIGIT_PREFIX);
        n = translated = group;
    } else if (*pattern.data == '[') {
        n = translated = add_class(pattern, t->fold, out);
    } else if (!n && *pattern.data == '\\') {
        translated = t->fold ? add_folded(pattern, out) : 0;
        translated = translated ? translated : add_escape(pattern, false, out);
        n = translated ? translated : escape_len(pattern);
    } else if (!n && *pattern.data == '{' && !(n = repeat_len(pattern))) {
        gs_buf_add_char(out, '\\');
    }
    n = n ? n : 1;
    if (!translated)
        gs_buf_add(out, pattern.data, n);
    t->element = begin;
    if (*pattern.data == '(')
        open_group(t, pattern, begin);
    else if (*pattern.data == ')' && t->depth)
        close_group(t);
    return n;
}

// From Go's syntax to that of PCRE2. Since version 10.43, PCRE2 reads {,3} and { 1, 2 } as
// repetitions. In Go they are plain text. Ends when out has `until` bytes; returns the bytes of the
// pattern that were read.
static size_t add_portable(struct gs_slice pattern, size_t until, struct gs_buf *out)
{
    struct translation t = {.out = out, .element = out->len};
    size_t at = 0;
    while (at < pattern.len && out->len < until) {
        size_t n = add_element(&t, skip(pattern, at));
        // The bytes of a character belong together.
        while (at + n < pattern.len && ((unsigned char)pattern.data[at + n] & 0xc0) == 0x80)
            gs_buf_add_char(out, pattern.data[at + n++]);
        at += n;
    }
    free(t.groups);
    return at;
}

// --- compiling ---

static pcre2_code *compile(struct gs_slice pattern, const struct gs_regex_options *o,
                           struct gs_error **ret_err)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    uint32_t flags = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                     (o->any_bytes ? PCRE2_MATCH_INVALID_UTF : 0) |
                     (o->whole ? 0 : PCRE2_AUTO_CALLOUT);
    size_t before = o->whole ? strlen(WHOLE_BEGIN) : 0;
    int code = 0;
    PCRE2_SIZE at = 0;
    gs_buf_add_str(&text, o->whole ? WHOLE_BEGIN : "");
    (void)add_portable(pattern, SIZE_MAX, &text);
    gs_buf_add_str(&text, o->whole ? WHOLE_END : "");
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)(text.len ? text.data : ""), text.len, flags, &code, &at, NULL);
    if (!re) {
        PCRE2_UCHAR reason[256] = "";
        GS_AUTO_BUF struct gs_buf start = {0};
        pcre2_get_error_message(code, reason, sizeof(reason));
        size_t in_pattern = at > before ? add_portable(pattern, at - before, &start) : 0;
        *ret_err = gs_error_new(GS_EINVAL, "error parsing regexp: %s at byte %zu",
                                (const char *)reason, in_pattern);
    }
    return re;
}

// PCRE2 counts the steps of its limit again at each position of a text, so a search in a long text
// could take the limit as many times as the text has bytes.
static int count_step(pcre2_callout_block *block, void *arg)
{
    uint64_t *left = arg;
    (void)block;
    if (*left == 0)
        return PCRE2_ERROR_MATCHLIMIT;
    --*left;
    return 0;
}

static void set_steps(const struct gs_regex *r, uint64_t steps)
{
    if (r->left)
        *r->left = steps;
}

struct gs_error *gs_regex_new(struct gs_slice pattern, const struct gs_regex_options *o,
                              struct gs_regex **ret)
{
    static const struct gs_regex_options defaults;
    struct gs_error *err = NULL;
    if (!o)
        o = &defaults;
    size_t max = o->max_pattern ? o->max_pattern : MAX_PATTERN;
    if (pattern.len > max)
        return gs_error_new(GS_ELIMIT, "regular expression longer than %zu bytes", max);
    err = gs_regex_check(pattern);
    if (err)
        return err;
    pcre2_code *re = compile(pattern, o, &err);
    if (err)
        return err;
    if (o->jit)
        (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    struct gs_regex *r = gs_alloc(sizeof(*r));
    r->code = re;
    r->match = pcre2_match_data_create_from_pattern(re, NULL);
    r->limits = pcre2_match_context_create(NULL);
    r->limit = o->match_limit ? o->match_limit : MATCH_LIMIT;
    pcre2_set_match_limit(r->limits, r->limit);
    if (!o->whole) {
        r->left = gs_alloc(sizeof(*r->left));
        pcre2_set_callout(r->limits, count_step, r->left);
    }
    pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->limits, HEAP_LIMIT_KIB);
    pcre2_pattern_info(re, PCRE2_INFO_CAPTURECOUNT, &r->groups);
    *ret = r;
    return NULL;
}

void gs_regex_free(struct gs_regex *r)
{
    if (!r)
        return;
    pcre2_match_context_free(r->limits);
    free(r->left);
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    free(r);
}

unsigned gs_regex_groups(const struct gs_regex *r)
{
    return r->groups;
}

// --- matching ---

static bool match_at(const struct gs_regex *r, struct gs_slice text, size_t from)
{
    return pcre2_match(r->code, (PCRE2_SPTR)(text.data ? text.data : ""), text.len, from, 0,
                       r->match, r->limits) > 0;
}

bool gs_regex_matches(const struct gs_regex *r, struct gs_slice text)
{
    set_steps(r, r->limit);
    return match_at(r, text, 0);
}

// The groups of the last match.
static struct gs_slice group_at(const struct gs_regex *r, struct gs_slice text, uint32_t i)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->match);
    if (i >= pcre2_get_ovector_count(r->match) || span[2 * i] == PCRE2_UNSET)
        return GS_SLICE("");
    return gs_slice_make(text.data + span[2 * i], span[2 * i + 1] - span[2 * i]);
}

// Names that consist of digits are numbers. A number that no group has: the name is unknown.
static uint32_t number_of_group(const struct gs_regex *r, struct gs_slice name)
{
    bool digits = name.len > 0 && name.len < 9;
    uint32_t number = 0;
    for (size_t i = 0; i < name.len && digits; i++) {
        digits = is_decimal_digit(name.data[i]);
        number = number * 10 + (uint32_t)(name.data[i] - '0');
    }
    if (digits)
        return number;
    char copy[128];
    bool prefixed = name.len && is_decimal_digit(*name.data);
    if (name.len + strlen(DIGIT_PREFIX) >= sizeof(copy))
        return UINT32_MAX;
    snprintf(copy, sizeof(copy), "%s" GS_SLICE_FMT, prefixed ? DIGIT_PREFIX : "",
             GS_SLICE_ARG(name));
    int found = pcre2_substring_number_from_name(r->code, (PCRE2_SPTR)copy);
    return found > 0 ? (uint32_t)found : UINT32_MAX;
}

static struct gs_slice group_named(const struct gs_regex *r, struct gs_slice text,
                                   struct gs_slice name)
{
    return group_at(r, text, number_of_group(r, name));
}

bool gs_regex_group(const struct gs_regex *r, struct gs_slice text, const char *name,
                    struct gs_slice *ret)
{
    if (pcre2_substring_number_from_name(r->code, (PCRE2_SPTR)name) <= 0 ||
        !gs_regex_matches(r, text))
        return false;
    *ret = group_named(r, text, gs_slice_of(name));
    return true;
}

// --- expansion ---

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// rest begins after a "$". Returns the length of the reference, and its name. 0: no reference.
static size_t read_reference(struct gs_slice rest, struct gs_slice *ret_name)
{
    bool braces = rest.len && rest.data[0] == '{';
    size_t n = braces, from = braces;
    while (n < rest.len && is_word(rest.data[n]))
        n++;
    if (n == from || (braces && (n == rest.len || rest.data[n] != '}')))
        return 0;
    *ret_name = gs_slice_make(rest.data + from, n - from);
    return n + braces;
}

static bool has_group(const struct gs_regex *r, struct gs_slice name)
{
    return number_of_group(r, name) <= r->groups;
}

bool gs_regex_unknown_group(const struct gs_regex *r, struct gs_slice form,
                            struct gs_slice *ret_name)
{
    for (size_t i = 0; i < form.len; i++) {
        struct gs_slice name, rest = gs_slice_make(form.data + i + 1, form.len - i - 1);
        if (form.data[i] != '$')
            continue;
        size_t n = read_reference(rest, &name);
        if (n && !has_group(r, name)) {
            *ret_name = name;
            return true;
        }
        i += n ? n : rest.len && rest.data[0] == '$';
    }
    return false;
}

static void add_expanded(const struct gs_regex *r, struct gs_slice text, struct gs_slice form,
                         struct gs_buf *out)
{
    for (size_t i = 0; i < form.len;) {
        struct gs_slice name, rest = gs_slice_make(form.data + i + 1, form.len - i - 1);
        bool dollar = form.data[i] == '$';
        if (dollar && rest.len && rest.data[0] == '$') {
            gs_buf_add_char(out, '$');
            i += 2;
            continue;
        }
        size_t n = dollar ? read_reference(rest, &name) : 0;
        if (n)
            gs_buf_add_slice(out, group_named(r, text, name));
        else
            gs_buf_add_char(out, form.data[i]);
        i += 1 + n;
    }
}

bool gs_regex_expand(const struct gs_regex *r, struct gs_slice text, struct gs_slice form,
                     struct gs_buf *out)
{
    if (!gs_regex_matches(r, text))
        return false;
    add_expanded(r, text, form, out);
    return true;
}

static size_t next_character(struct gs_slice text, size_t at)
{
    do
        at++;
    while (at < text.len && ((unsigned char)text.data[at] & 0xc0) == 0x80);
    return at;
}

// Steps of all matches in a text: these times the limit of a match, and steps for each byte.
enum { REPLACE_LIMITS = 4, REPLACE_STEPS = 16 };

void gs_regex_replace_all(const struct gs_regex *r, struct gs_slice text, struct gs_slice form,
                          struct gs_buf *out)
{
    size_t done = 0, from = 0;
    set_steps(r, (uint64_t)REPLACE_LIMITS * r->limit + REPLACE_STEPS * (uint64_t)text.len);
    while (from <= text.len && !out->overflow && match_at(r, text, from)) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->match);
        size_t start = span[0], end = span[1];
        if (start < from || end < start)
            break;
        gs_buf_add(out, text.data + done, start - done);
        if (end > done ||
            start == 0) // as in Go, an empty match directly after another match is ignored
            add_expanded(r, text, form, out);
        done = end;
        from = end == start ? next_character(text, end) : end;
    }
    if (done < text.len)
        gs_buf_add(out, text.data + done, text.len - done);
}
