// SPDX-License-Identifier: Apache-2.0
// Regular expressions of label matchers. Common patterns are compared directly: literals,
// alternations of literals, and a literal with ".*" at its start or end. PCRE2 matches others, with
// limits.
#include "tsdb/matcher.h"

#include "base/arena.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/regex.h"
#include "codec/encoding.h"

#define MATCH_LIMIT UINT32_C(200000)
#define MAX_PATTERN ((size_t)64 * 1024)
// Adapters put the names of all selected objects into one alternation.
#define MAX_LITERALS      ((size_t)100000)
#define MAX_LITERALS_TEXT ((size_t)16 * 1024 * 1024)
// Addresses such as 10.0.0.1:9100 have 81 combinations of length and places of dots.
#define MAX_DOTS       ((size_t)200)
#define MAX_DOTTED_LEN ((size_t)256)
#define ANY_CHAR       '\0'
#define OTHER_CHAR     0xff

struct tsdb_regex {
    enum { REGEX_ANY, REGEX_NOT_EMPTY, REGEX_LITERALS, REGEX_DOTTED, REGEX_AFFIX, REGEX_PCRE } form;
    // REGEX_LITERALS: a set. REGEX_DOTTED: also literals with "." for any character, as ANY_CHAR.
    struct gs_hmap *literals;
    // REGEX_DOTTED: length and places of the dots of each literal, each once.
    struct dots {
        size_t len, n;
        const uint32_t *at;
    } * dots;
    size_t n_dots, cap_dots;
    struct gs_arena arena;         // of dots
    char *prefix, *suffix, *infix; // REGEX_AFFIX: prefix.*infix.*suffix; NULL: absent
    const char *groups;            // of literals: compiled when an expansion needs its groups
    struct gs_regex *compiled;
};

void tsdb_regex_free(struct tsdb_regex *r)
{
    if (!r)
        return;
    gs_hmap_free(r->literals);
    free(r->dots);
    gs_arena_finish(&r->arena);
    free(r->prefix);
    free(r->suffix);
    free(r->infix);
    gs_regex_free(r->compiled);
    free(r);
}

static bool is_special(char c)
{
    return strchr("\\.+*?()|[]{}^$", c) != NULL && c != '\0';
}

// Copies the text without escapes if it is literal. Returns false if it contains other special
// characters.
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
        // After an escaped "|", the part ends with a backslash, and take_literal() fails.
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

// --- alternatives with dots ---

// As take_literal(), with ANY_CHAR for ".". Only ASCII, so that a dot is one byte.
static bool take_dotted(struct gs_slice text, struct gs_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\\' && i + 1 < text.len && is_special(text.data[i + 1]))
            c = text.data[++i];
        else if (c == '.')
            c = ANY_CHAR;
        else if (is_special(c) || c == '\0' || (unsigned char)c >= 0x80)
            return false;
        gs_buf_add_char(out, c);
    }
    return out->len <= MAX_DOTTED_LEN;
}

// Remembers where the dots of a literal are.
static bool add_dots(struct tsdb_regex *r, struct gs_slice literal)
{
    uint32_t at[MAX_DOTTED_LEN];
    size_t n = 0;
    for (size_t i = 0; i < literal.len; i++)
        if (literal.data[i] == ANY_CHAR)
            at[n++] = (uint32_t)i;
    for (size_t i = 0; i < r->n_dots; i++)
        if (r->dots[i].len == literal.len && r->dots[i].n == n &&
            (n == 0 || memcmp(r->dots[i].at, at, n * sizeof(*at)) == 0))
            return true;
    uint32_t *copy = gs_arena_alloc(&r->arena, (n + 1) * sizeof(*copy));
    if (!copy || r->n_dots == MAX_DOTS)
        return false;
    if (n)
        memcpy(copy, at, n * sizeof(*at));
    gs_grow(&r->dots, &r->cap_dots, r->n_dots, sizeof(*r->dots));
    r->dots[r->n_dots++] = (struct dots){literal.len, n, copy};
    return true;
}

// "10.0.0.1:9100|10.0.0.2:9100", as adapters and dashboards write them without escapes. PCRE2 has
// a limit of 64 KiB of code, and tries one alternative after the other.
static bool take_dotted_literals(struct tsdb_regex *r, struct gs_slice text)
{
    struct gs_hmap *set = gs_hmap_new(NULL);
    bool ok = true;
    if (text.len > 2 && text.data[0] == '(' && text.data[text.len - 1] == ')')
        text = gs_slice_make(text.data + 1, text.len - 2);
    while (ok && text.data) {
        GS_AUTO_BUF struct gs_buf literal = {0};
        ok = take_dotted(gs_slice_cut(&text, '|'), &literal) && gs_hmap_len(set) < MAX_LITERALS &&
             add_dots(r, gs_buf_slice(&literal));
        if (ok)
            gs_hmap_put(set, gs_buf_slice(&literal), r);
    }
    if (ok) {
        r->form = REGEX_DOTTED;
        r->literals = set;
    } else {
        gs_hmap_free(set);
    }
    return ok;
}

// Copies the text with one byte for each character: OTHER_CHAR, which no literal contains, for
// those that are not ASCII. Returns false if a literal cannot match: the text is too long or not
// UTF-8.
static bool copy_characters(struct gs_slice text, char out[MAX_DOTTED_LEN], size_t *ret_n)
{
    size_t n = 0;
    bool ascii = true;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        ascii = ascii && c < 0x80;
        if ((c & 0xc0) == 0x80) // within a character
            continue;
        if (n == MAX_DOTTED_LEN)
            return false;
        out[n++] = (char)(c < 0x80 ? c : OTHER_CHAR);
    }
    *ret_n = n;
    return ascii || codec_utf8_valid_prefix(text) == text.len;
}

static bool matches_dotted(const struct tsdb_regex *r, struct gs_slice text)
{
    char characters[MAX_DOTTED_LEN], copy[MAX_DOTTED_LEN];
    size_t n;
    if (!copy_characters(text, characters, &n))
        return false;
    for (size_t i = 0; i < r->n_dots; i++) {
        const struct dots *d = &r->dots[i];
        if (d->len != n)
            continue;
        if (n)
            memcpy(copy, characters, n);
        for (size_t k = 0; k < d->n; k++)
            copy[d->at[k]] = ANY_CHAR;
        if (gs_hmap_get(r->literals, gs_slice_make(copy, n)))
            return true;
    }
    return false;
}

static char *literal_of(struct gs_slice text)
{
    struct gs_buf out = {0};
    if (take_literal(text, &out))
        return gs_buf_take(&out);
    gs_buf_finish(&out);
    return NULL;
}

// Accepts "prefix.*", ".*suffix" and ".*infix.*".
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

static struct gs_error *compile_pattern(struct tsdb_regex *r, struct gs_slice pattern)
{
    static const struct gs_regex_options options = {
        .whole = true, .jit = true, .max_pattern = MAX_PATTERN, .match_limit = MATCH_LIMIT};
    return gs_regex_new(pattern, &options, &r->compiled);
}

// Literals are compared without PCRE2, which compiles long alternations slowly and limits their
// size.
static bool take_as_literals(struct tsdb_regex *r, struct gs_slice pattern)
{
    if (pattern.len > MAX_LITERALS_TEXT || codec_utf8_valid_prefix(pattern) < pattern.len ||
        !(take_literals(r, pattern) || take_dotted_literals(r, pattern)))
        return false;
    r->groups = gs_slice_starts(pattern, "(") ? "(.*)" : ".*"; // the match is the whole text
    return true;
}

struct gs_error *tsdb_regex_new(struct gs_slice pattern, struct tsdb_regex **ret)
{
    if (!pattern.data)
        pattern = GS_SLICE("");
    struct tsdb_regex *r = gs_alloc(sizeof(*r));
    struct gs_error *err = NULL;
    if (!take_as_literals(r, pattern)) {
        err = compile_pattern(r, pattern);
        choose_form(r, pattern);
    }
    if (err) {
        tsdb_regex_free(r);
        return err;
    }
    *ret = r;
    return NULL;
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
    case REGEX_DOTTED:
        return matches_dotted(r, text);
    case REGEX_AFFIX:
        if (r->prefix)
            return gs_slice_starts(text, r->prefix);
        if (r->suffix)
            return gs_slice_ends(text, r->suffix);
        return !*r->infix || (text.len && memmem(text.data, text.len, r->infix, strlen(r->infix)));
    case REGEX_PCRE:
        break;
    }
    return gs_regex_matches(r->compiled, text);
}

bool tsdb_regex_can_be_slow(const struct tsdb_regex *r)
{
    return r->form == REGEX_PCRE;
}

bool tsdb_regex_expand(const struct tsdb_regex *r, struct gs_slice text, struct gs_slice template_,
                       struct gs_buf *ret)
{
    if (!r->compiled) { // the only change after creation
        struct tsdb_regex *mutable_regex = (struct tsdb_regex *)(uintptr_t)r;
        struct gs_error *err = tsdb_regex_matches(r, text)
                                   ? compile_pattern(mutable_regex, gs_slice_of(r->groups))
                                   : NULL;
        gs_error_free(err);
    }
    return r->compiled && gs_regex_expand(r->compiled, text, template_, ret);
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
