// SPDX-License-Identifier: Apache-2.0
// Replaces the names of one release in expressions by those of another. Only the bytes of names are
// replaced, and factors are added, so that expressions keep the format of their authors.
#include "aliases/aliases_private.h"

#include "base/mem.h"

#include <string.h>

struct conversion {
    struct gs_slice text;
    enum aliases_release to;
    bool names_only;
    struct aliases_edits edits;
    struct gs_buf *changes, *problem;
};

static bool is_name_char(char c)
{
    return gs_is_word(c) || c == ':';
}

// The next word that is a name, from *at on, which moves behind it. False: the text has no other.
static bool next_word(struct gs_slice text, size_t *at, struct gs_slice *ret)
{
    while (*at < text.len && !is_name_char(text.data[*at]))
        ++*at;
    size_t start = *at;
    while (*at < text.len && is_name_char(text.data[*at]))
        ++*at;
    *ret = gs_slice_make(text.data + start, *at - start);
    return ret->len > 0;
}

static bool name_in_release(struct gs_slice name, enum aliases_release to, struct aliases_name *ret)
{
    struct aliases_name all[ALIASES_MAX];
    size_t n = aliases_of(name, all);
    for (size_t i = 0; i < n; i++)
        if (all[i].release == to) {
            *ret = all[i];
            return true;
        }
    return false;
}

// --- one unit ---

// a * -b would need them, but no operator that binds less tightly than multiplication.
static bool needs_parens(const struct promql_node *parent)
{
    if (!parent || parent->kind != PROMQL_BINARY)
        return parent && parent->kind == PROMQL_SUBQUERY;
    enum promql_op op = parent->u.binary.op;
    return op == PROMQL_MUL || op == PROMQL_DIV || op == PROMQL_MOD || op == PROMQL_POW ||
           op == PROMQL_ATAN2;
}

// Adds text[start, end) with each word that has another name replaced.
static void add_converted(const struct conversion *c, size_t start, size_t end, struct gs_buf *out)
{
    struct gs_slice part = gs_slice_make(c->text.data + start, end - start), word;
    size_t at = 0, done = 0;
    while (next_word(part, &at, &word)) {
        struct aliases_name a;
        if (!name_in_release(word, c->to, &a))
            continue;
        gs_buf_add(out, part.data + done, (size_t)(word.data - part.data) - done);
        gs_buf_add_str(out, a.name);
        done = at;
    }
    gs_buf_add(out, part.data + done, part.len - done);
}

static void convert_unit(struct conversion *c, const struct aliases_unit *u,
                         const struct aliases_name *a)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const struct aliases_name s = aliases_scaled(a, c->names_only ? ALIASES_FREE : u->scale);
    const struct promql_node *whole = u->whole, *selector = u->selector;
    bool same = s.multiplier == 1 && s.divisor == 1;
    bool parens = !same && needs_parens(u->parent);
    if (parens)
        aliases_open_paren(c->text, whole->start, &text);
    gs_buf_add(&text, c->text.data + whole->start, selector->start - whole->start);
    add_converted(c, selector->start, selector->end, &text);
    gs_buf_add(&text, c->text.data + selector->end, whole->end - selector->end);
    aliases_add_factor(&s, &text);
    gs_buf_add_str(&text, parens ? ")" : "");
    aliases_edits_add(&c->edits, whole->start, whole->end, &text);
}

static void note_change(const struct conversion *c, struct gs_slice name,
                        const struct aliases_name *a)
{
    GS_AUTO_FREE char *copy = gs_slice_dup(name);
    aliases_note(copy, a, c->changes);
}

static void add_problem(struct conversion *c, const char *what, const struct promql_node *n)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    gs_buf_add(&line, c->text.data + n->start, n->end - n->start);
    gs_buf_addf(&line, ": %s", what);
    aliases_add_line(c->problem, gs_buf_slice(&line));
}

// --- regular expressions for names ---

struct pattern_search {
    const struct promql_node *selector;
    enum aliases_release to;
    bool misses; // the pattern selects a name, but not the one of the other release
    bool has_both;
};

static void search_missing(void *arg, const char *name)
{
    struct pattern_search *s = arg;
    struct aliases_name a;
    if (!aliases_pattern_fits(s->selector, name) || !name_in_release(gs_slice_of(name), s->to, &a))
        return;
    if (aliases_pattern_fits(s->selector, a.name))
        s->has_both = true;
    else
        s->misses = true;
}

// Each name in the pattern has the same factor, which *ret gets. False: they differ. *ret_n: the
// number of names that have another one.
static bool factor_of_words(const struct conversion *c, const struct promql_node *selector,
                            struct aliases_name *ret, size_t *ret_n)
{
    struct gs_slice part =
        gs_slice_make(c->text.data + selector->start, selector->end - selector->start);
    struct gs_slice word;
    size_t at = 0;
    bool same = true;
    *ret_n = 0;
    while (next_word(part, &at, &word)) {
        struct aliases_name a;
        if (!name_in_release(word, c->to, &a))
            continue;
        same =
            same && (!(*ret_n)++ || (a.multiplier == ret->multiplier && a.divisor == ret->divisor));
        *ret = a;
    }
    return same;
}

static void note_words(const struct conversion *c, const struct promql_node *selector)
{
    struct gs_slice part =
        gs_slice_make(c->text.data + selector->start, selector->end - selector->start);
    struct gs_slice word;
    size_t at = 0;
    while (next_word(part, &at, &word)) {
        struct aliases_name a;
        if (name_in_release(word, c->to, &a))
            note_change(c, word, &a);
    }
}

static void convert_pattern(struct conversion *c, const struct aliases_unit *u)
{
    struct pattern_search s = {u->selector, c->to, false, false};
    struct aliases_name a = {.multiplier = 1, .divisor = 1};
    aliases_each_name(search_missing, &s);
    size_t n;
    bool same = factor_of_words(c, u->selector, &a, &n);
    // A pattern such as DCGM_FI_DEV_.+ selects the names of each release.
    if (!s.misses || (!n && s.has_both))
        return;
    if (!n || !same || a.multiplier != 1 || a.divisor != 1) {
        add_problem(c, "its regular expression selects metrics whose units change differently",
                    u->selector);
        return;
    }
    note_words(c, u->selector);
    convert_unit(c, u, &a);
}

static void visit_unit(void *arg, const struct aliases_unit *u)
{
    struct conversion *c = arg;
    struct gs_slice name = aliases_selected_name(u->selector);
    struct aliases_name a;
    if (!name.len && aliases_has_pattern(u->selector)) {
        convert_pattern(c, u);
    } else if (name_in_release(name, c->to, &a)) {
        if (u->scale == ALIASES_RAW && (a.multiplier != 1 || a.divisor != 1)) {
            add_problem(c, "a range without a function cannot be multiplied", u->selector);
            return;
        }
        note_change(c, name, &a);
        convert_unit(c, u, &a);
    }
}

// --- texts ---

void aliases_convert_labels(struct gs_slice text, enum aliases_release to, struct gs_buf *ret_text)
{
    bool newer = to == ALIASES_4_9;
    const char *from = newer ? ALIASES_OLD_DRIVER_LABEL : ALIASES_NEW_DRIVER_LABEL;
    const char *by = newer ? ALIASES_NEW_DRIVER_LABEL : ALIASES_OLD_DRIVER_LABEL;
    struct gs_slice word;
    size_t at = 0, done = 0;
    while (next_word(text, &at, &word)) {
        if (!gs_slice_eq_str(word, from))
            continue;
        gs_buf_add(ret_text, text.data + done, (size_t)(word.data - text.data) - done);
        gs_buf_add_str(ret_text, by);
        done = at;
    }
    if (done)
        gs_buf_add(ret_text, text.data + done, text.len - done);
}

static struct gs_error *convert_text(struct gs_slice expr, enum aliases_release to, bool names_only,
                                     struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                     struct gs_buf *ret_problem)
{
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    struct gs_error *err = promql_parse(expr, &x);
    if (err)
        return err;
    struct conversion c = {promql_expr_text(x), to, names_only, {0}, ret_changes, ret_problem};
    aliases_each_unit(promql_expr_root(x), visit_unit, &c);
    GS_AUTO_BUF struct gs_buf text = {0}, relabeled = {0};
    aliases_edits_apply(&c.edits, c.text, &text);
    aliases_convert_labels(gs_buf_slice(&text), to, &relabeled);
    if (relabeled.len)
        gs_buf_add_slice(ret_text, gs_buf_slice(&relabeled));
    else if (c.edits.len)
        gs_buf_add_slice(ret_text, gs_buf_slice(&text));
    aliases_edits_finish(&c.edits);
    return NULL;
}

struct gs_error *aliases_convert(struct gs_slice expr, enum aliases_release to,
                                 struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                 struct gs_buf *ret_problem)
{
    return convert_text(expr, to, false, ret_text, ret_changes, ret_problem);
}

struct gs_error *aliases_convert_selector(struct gs_slice selector, enum aliases_release to,
                                          struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                          struct gs_buf *ret_problem)
{
    return convert_text(selector, to, true, ret_text, ret_changes, ret_problem);
}
