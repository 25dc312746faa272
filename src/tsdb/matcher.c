// SPDX-License-Identifier: Apache-2.0
// Patterns that label matchers mostly are - literals, alternations of literals, a literal with ".*"
// at its ends - are compared directly; the rest is PCRE2's, under limits.
#include "tsdb/matcher.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "codec/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MATCH_LIMIT UINT32_C(200000)
#define DEPTH_LIMIT UINT32_C(2000)
#define MAX_PATTERN ((size_t)64 * 1024)
// Names of objects that a selector picked come as one alternation.
#define MAX_LITERALS      ((size_t)100000)
#define MAX_LITERALS_TEXT ((size_t)16 * 1024 * 1024)

struct tsdb_regex {
    enum { REGEX_ANY, REGEX_NOT_EMPTY, REGEX_LITERALS, REGEX_AFFIX, REGEX_PCRE } form;
    struct gs_hmap *literals;      // REGEX_LITERALS: a set
    char *prefix, *suffix, *infix; // REGEX_AFFIX: prefix.*infix.*suffix, NULL: none
    char *pattern;                 // of literals: compiled when an expansion needs its groups
    size_t pattern_len;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

void tsdb_regex_free(struct tsdb_regex *r)
{
    if (!r)
        return;
    gs_hmap_free(r->literals);
    free(r->pattern);
    free(r->prefix);
    free(r->suffix);
    free(r->infix);
    pcre2_match_data_free(r->data);
    pcre2_match_context_free(r->context);
    pcre2_code_free(r->code);
    free(r);
}

static bool is_special(char c)
{
    return strchr("\\.+*?()|[]{}^$", c) != NULL && c != '\0';
}

// Copies text while it is literal; an escaped special character is one. False: something else.
static bool take_literal(struct gs_slice text, struct gs_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\\' && i + 1 < text.len && is_special(text.data[i + 1]))
            c = text.data[++i];
        else if (is_special(c) || c == '\0')
            return false;
        gs_buf_add_char(out, c);
    }
    return true;
}

static bool take_literals(struct tsdb_regex *r, struct gs_slice text)
{
    struct gs_hmap *set = gs_hmap_new(NULL);
    bool ok = true;
    if (text.len > 2 && text.data[0] == '(' && text.data[text.len - 1] == ')')
        text = gs_slice_make(text.data + 1, text.len - 2);
    while (ok && text.data) {
        GS_AUTO_BUF struct gs_buf literal = {0};
        // An escaped "|" makes take_literal stop at the backslash before the cut: not this form.
        ok = take_literal(gs_slice_cut(&text, '|'), &literal) && gs_hmap_len(set) < MAX_LITERALS;
        if (ok)
            gs_hmap_put(set, gs_buf_slice(&literal), r);
    }
    if (ok) {
        r->form = REGEX_LITERALS;
        r->literals = set;
    } else {
        gs_hmap_free(set);
    }
    return ok;
}

static char *literal_of(struct gs_slice text)
{
    struct gs_buf out = {0};
    if (take_literal(text, &out))
        return gs_buf_take(&out);
    gs_buf_finish(&out);
    return NULL;
}

// "prefix.*", ".*suffix", ".*infix.*"
static bool take_affixes(struct tsdb_regex *r, struct gs_slice text)
{
    bool front = gs_slice_starts(text, ".*"), back = text.len > 2 && gs_slice_ends(text, ".*");
    if (back && text.len > 3 && text.data[text.len - 3] == '\\')
        return false; // "\.*"
    if (!front && !back)
        return false;
    struct gs_slice middle =
        gs_slice_make(text.data + (front ? 2 : 0), text.len - (front ? 2 : 0) - (back ? 2 : 0));
    char *literal = literal_of(middle);
    if (!literal)
        return false;
    r->form = REGEX_AFFIX;
    *(front && back ? &r->infix : front ? &r->suffix : &r->prefix) = literal;
    return true;
}

static void choose_form(struct tsdb_regex *r, struct gs_slice pattern)
{
    r->form = REGEX_PCRE;
    if (gs_slice_eq_str(pattern, ".*"))
        r->form = REGEX_ANY;
    else if (gs_slice_eq_str(pattern, ".+"))
        r->form = REGEX_NOT_EMPTY;
    else
        (void)take_affixes(r, pattern);
}

// Bytes of "{2}", "{2,}" or "{2,3}" at the beginning; 0: it is none of them.
static size_t repeat_len(struct gs_slice s)
{
    static const char digits[] = "0123456789";
    size_t i = 1;
    while (i < s.len && memchr(digits, s.data[i], 10))
        i++;
    if (i == 1)
        return 0;
    if (i < s.len && s.data[i] == ',')
        for (i++; i < s.len && memchr(digits, s.data[i], 10);)
            i++;
    return i < s.len && s.data[i] == '}' ? i + 1 : 0;
}

// Bytes of an escape at the beginning, with the braces that may follow it: "\\p{Greek}". What is
// between "\\Q" and "\\E" is one.
static size_t escape_len(struct gs_slice s)
{
    if (s.len < 2)
        return s.len;
    if (s.data[1] == 'Q') {
        const char *end = memmem(s.data, s.len, "\\E", 2);
        return end ? (size_t)(end - s.data) + 2 : s.len;
    }
    if (s.len < 3 || s.data[2] != '{' || !strchr("pPxoNgk", s.data[1]))
        return 2;
    const char *end = memchr(s.data, '}', s.len);
    return end ? (size_t)(end - s.data) + 1 : 2;
}

void tsdb_regex_text(struct gs_slice pattern, struct gs_buf *out)
{
    while (pattern.len) {
        size_t n = 1;
        if (*pattern.data == '\\')
            n = escape_len(pattern);
        else if (*pattern.data == '{' && !(n = repeat_len(pattern))) {
            gs_buf_add_char(out, '\\');
            n = 1;
        }
        gs_buf_add(out, pattern.data, n);
        pattern = gs_slice_make(pattern.data + n, pattern.len - n);
    }
}

static struct gs_error *compile(struct tsdb_regex *r, struct gs_slice pattern)
{
    GS_AUTO_BUF struct gs_buf anchored = {0};
    gs_buf_add_str(&anchored, "^(?s:");
    tsdb_regex_text(pattern, &anchored);
    gs_buf_add_str(&anchored, ")$");
    int code;
    PCRE2_SIZE offset;
    r->code = pcre2_compile((PCRE2_SPTR)anchored.data, anchored.len,
                            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code,
                            &offset, NULL);
    if (!r->code) {
        char text[256];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
        return gs_error_new(GS_EINVAL, "regular expression: %s at byte %zu", text,
                            offset > 5 ? (size_t)offset - 5 : 0);
    }
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    r->data = pcre2_match_data_create_from_pattern(r->code, NULL);
    r->context = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(r->context, MATCH_LIMIT);
    pcre2_set_depth_limit(r->context, DEPTH_LIMIT);
    return NULL;
}

// Literals are compared without PCRE2, which takes long to compile many of them and refuses more.
static bool take_as_literals(struct tsdb_regex *r, struct gs_slice pattern)
{
    if (pattern.len > MAX_LITERALS_TEXT || codec_utf8_valid_prefix(pattern) < pattern.len ||
        !take_literals(r, pattern))
        return false;
    r->pattern = gs_slice_dup(pattern);
    r->pattern_len = pattern.len;
    return true;
}

struct gs_error *tsdb_regex_new(struct gs_slice pattern, struct tsdb_regex **ret)
{
    if (!pattern.data)
        pattern = GS_SLICE("");
    struct tsdb_regex *r = gs_alloc(sizeof(*r));
    struct gs_error *err = NULL;
    if (!take_as_literals(r, pattern)) {
        if (pattern.len > MAX_PATTERN)
            err = gs_error_new(GS_ELIMIT, "regular expression longer than %zu bytes", MAX_PATTERN);
        else
            err = compile(r, pattern);
        choose_form(r, pattern);
    }
    if (err) {
        tsdb_regex_free(r);
        return err;
    }
    *ret = r;
    return NULL;
}

static int pcre_match(const struct tsdb_regex *r, struct gs_slice text)
{
    const char *data = text.data ? text.data : "";
    return pcre2_match(r->code, (PCRE2_SPTR)data, text.len, 0, 0, r->data, r->context);
}

bool tsdb_regex_matches(const struct tsdb_regex *r, struct gs_slice text)
{
    switch (r->form) {
    case REGEX_ANY:
        return true;
    case REGEX_NOT_EMPTY:
        return text.len > 0;
    case REGEX_LITERALS:
        return gs_hmap_get(r->literals, text) != NULL;
    case REGEX_AFFIX:
        if (r->prefix)
            return gs_slice_starts(text, r->prefix);
        if (r->suffix)
            return gs_slice_ends(text, r->suffix);
        return !*r->infix || (text.len && memmem(text.data, text.len, r->infix, strlen(r->infix)));
    case REGEX_PCRE:
        break;
    }
    return pcre_match(r, text) > 0;
}

// --- expansion ---

struct template_program {
    const struct tsdb_regex *regex;
    struct gs_slice text; // that was matched
    const PCRE2_SIZE *spans;
    uint32_t n_spans;
    struct gs_buf *out;
};

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int group_number(const struct template_program *t, struct gs_slice name)
{
    int number = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '0' || name.data[i] > '9' || number > 1000) {
            GS_AUTO_FREE char *text = gs_slice_dup(name);
            return pcre2_substring_number_from_name(t->regex->code, (PCRE2_SPTR)text);
        }
        number = number * 10 + (name.data[i] - '0');
    }
    return number;
}

static void add_group(const struct template_program *t, struct gs_slice name)
{
    int number = group_number(t, name);
    if (number < 0 || (uint32_t)number >= t->n_spans || t->spans[2 * number] == PCRE2_UNSET)
        return;
    gs_buf_add(t->out, t->text.data + t->spans[2 * number],
               t->spans[2 * number + 1] - t->spans[2 * number]);
}

// At the character behind "$". Returns how many bytes were used; 0: no reference, "$" stands.
static size_t add_reference(const struct template_program *t, struct gs_slice rest)
{
    if (!rest.len)
        return 0;
    if (rest.data[0] == '$') {
        gs_buf_add_char(t->out, '$');
        return 1;
    }
    bool braces = rest.data[0] == '{';
    size_t start = braces, end = start;
    while (end < rest.len && is_word(rest.data[end]))
        end++;
    if (end == start || (braces && (end == rest.len || rest.data[end] != '}')))
        return 0;
    add_group(t, gs_slice_make(rest.data + start, end - start));
    return end + braces;
}

bool tsdb_regex_expand(const struct tsdb_regex *r, struct gs_slice text, struct gs_slice template_,
                       struct gs_buf *ret)
{
    if (!r->code) { // the one change that it knows
        struct tsdb_regex *mine = (struct tsdb_regex *)(uintptr_t)r;
        struct gs_error *err = tsdb_regex_matches(r, text) && r->pattern_len <= MAX_PATTERN
                                   ? compile(mine, gs_slice_make(r->pattern, r->pattern_len))
                                   : NULL;
        gs_error_free(err);
    }
    if (!r->code || pcre_match(r, text) <= 0)
        return false;
    const struct template_program t = {r, text, pcre2_get_ovector_pointer(r->data),
                                       pcre2_get_ovector_count(r->data), ret};
    for (size_t i = 0; i < template_.len; i++) {
        size_t used = 0;
        if (template_.data[i] == '$')
            used = add_reference(&t, gs_slice_make(template_.data + i + 1, template_.len - i - 1));
        if (!used)
            gs_buf_add_char(ret, template_.data[i]);
        i += used;
    }
    return true;
}

bool tsdb_matcher_matches(const struct tsdb_matcher *m, struct gs_slice value)
{
    switch (m->op) {
    case TSDB_EQ:
        return gs_slice_eq(value, m->value);
    case TSDB_NEQ:
        return !gs_slice_eq(value, m->value);
    case TSDB_RE:
        return tsdb_regex_matches(m->regex, value);
    case TSDB_NRE:
        break;
    }
    return !tsdb_regex_matches(m->regex, value);
}
