// SPDX-License-Identifier: Apache-2.0
// Expressions of Grafana's panels. Variables are no PromQL: each is replaced by a duration, a
// number or a name, whichever fits its place, while the expression is converted.
// https://grafana.com/docs/grafana/latest/dashboards/variables/variable-syntax/
#include "aliases/documents_private.h"

#include <stdio.h>
#include <string.h>

enum { MAX_VARIABLES = 64 };

struct variables {
    struct gs_slice items[MAX_VARIABLES]; // as written
    char words[MAX_VARIABLES][32];        // in their place
    size_t n;
};

// The variable that begins at this place; empty: there is no variable.
static struct gs_slice variable_at(struct gs_slice s, size_t at)
{
    size_t end = at;
    const char *close = NULL;
    if (s.len - at > 2 && s.data[at] == '$' && s.data[at + 1] == '{')
        close = memchr(s.data + at, '}', s.len - at);
    else if (s.len - at > 2 && s.data[at] == '[' && s.data[at + 1] == '[')
        close = memmem(s.data + at, s.len - at, "]]", 2);
    else if (s.data[at] == '$')
        for (end = at + 1; end < s.len && gs_is_word(s.data[end]);)
            end++;
    if (close)
        end = (size_t)(close - s.data) + (s.data[at] == '[' ? 2 : 1);
    return gs_slice_make(s.data + at, end > at + 1 ? end - at : 0);
}

static struct gs_slice word_before(struct gs_slice s)
{
    s = gs_slice_trim(s);
    size_t start = s.len;
    while (start > 0 && gs_is_word(s.data[start - 1]))
        start--;
    return gs_slice_make(s.data + start, s.len - start);
}

// Whether the text ends in the list of labels of `by (`, `on (` and others.
static bool in_label_list(struct gs_slice before)
{
    static const char *const words[] = {"by",       "without",    "on",
                                        "ignoring", "group_left", "group_right"};
    size_t at = before.len;
    while (at > 0 && before.data[at - 1] != '(' && before.data[at - 1] != ')')
        at--;
    if (!at || before.data[at - 1] != '(')
        return false;
    struct gs_slice word = word_before(gs_slice_make(before.data, at - 1));
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (gs_slice_is_word(word, words[i]))
            return true;
    return false;
}

static void add_word(struct gs_slice before, struct gs_slice after, size_t i, char *ret,
                     size_t size)
{
    struct gs_slice b = gs_slice_trim(before), a = gs_slice_trim(after);
    char last = '\0', next = '\0';
    if (b.len)
        last = b.data[b.len - 1];
    if (a.len)
        next = a.data[0];
    bool adjoins = (before.len && gs_is_word(before.data[before.len - 1])) ||
                   (after.len && gs_is_word(after.data[0]));
    if (last == '[' || last == ':' || next == ']' || gs_slice_eq_str(word_before(b), "offset"))
        snprintf(ret, size, "99800%02zus", i);
    else if (adjoins || next == '{' || in_label_list(before))
        snprintf(ret, size, "variable_99800_%02zu", i);
    else
        snprintf(ret, size, "99900%02zu", i);
}

// The quote of the string that a character is in, or that begins or ends with it.
static char quote_after(char quote, char c)
{
    if (quote && c == quote)
        return '\0';
    if (!quote && (c == '"' || c == '\'' || c == '`'))
        return c;
    return quote;
}

// Replaces the variables outside of strings by words.
static bool hide_variables(struct gs_slice s, struct variables *v, struct gs_buf *out)
{
    char quote = '\0';
    for (size_t i = 0; i < s.len;) {
        struct gs_slice name = {0};
        if (!quote)
            name = variable_at(s, i);
        if (quote && s.data[i] == '\\' && i + 1 < s.len)
            gs_buf_add_char(out, s.data[i++]);
        else
            quote = quote_after(quote, s.data[i]);
        if (!name.len) {
            gs_buf_add_char(out, s.data[i++]);
            continue;
        }
        if (v->n == MAX_VARIABLES)
            return false;
        struct gs_slice after = {s.data + i + name.len, s.len - i - name.len};
        add_word(gs_slice_make(s.data, i), after, v->n, v->words[v->n], sizeof(v->words[0]));
        gs_buf_add_str(out, v->words[v->n]);
        v->items[v->n++] = name;
        i += name.len;
    }
    return true;
}

static void show_variables(struct gs_slice s, const struct variables *v, struct gs_buf *out)
{
    size_t at = 0;
    while (at < s.len) {
        size_t i = 0;
        while (i < v->n && (s.len - at < strlen(v->words[i]) ||
                            memcmp(s.data + at, v->words[i], strlen(v->words[i])) != 0))
            i++;
        if (i < v->n)
            gs_buf_add_slice(out, v->items[i]);
        else
            gs_buf_add_char(out, s.data[at]);
        at += i < v->n ? strlen(v->words[i]) : 1;
    }
}

// Part of a name of a metric is a variable, so which metric it is is not known.
static void check_names(struct gs_slice hidden, struct gs_buf *problem)
{
    const char *at = memmem(hidden.data, hidden.len, "variable_99800_", strlen("variable_99800_"));
    struct gs_slice before =
        at ? word_before(gs_slice_make(hidden.data, (size_t)(at - hidden.data)))
           : (struct gs_slice){0};
    if (gs_slice_starts(before, "DCGM_"))
        aliases_add_line(problem, GS_SLICE("a variable is part of the name of a metric"));
}

// --- queries of variables ---

// The argument of a function of Grafana. names_only: it selects series, whose values are not used.
static bool take_argument(struct gs_slice expr, size_t *ret_start, size_t *ret_end,
                          bool *ret_names_only)
{
    static const struct {
        const char *start;
        bool names_only;
    } functions[] = {{"label_values(", true}, {"query_result(", false}};
    for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++) {
        size_t end = expr.len, n = strlen(functions[i].start);
        if (!gs_slice_starts(expr, functions[i].start))
            continue;
        char last = functions[i].names_only ? ',' : ')';
        while (end > n && expr.data[end - 1] != last)
            end--;
        *ret_start = n;
        *ret_end = end > n ? end - 1 : n;
        *ret_names_only = functions[i].names_only;
        return *ret_end > n;
    }
    return false;
}

// Converts a part of the text.
static struct gs_error *convert_part(struct gs_slice expr, size_t start, size_t end,
                                     bool names_only, enum aliases_release to,
                                     struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                     struct gs_buf *ret_problem)
{
    GS_AUTO_BUF struct gs_buf hidden = {0}, text = {0};
    struct variables v = {.n = 0};
    struct gs_slice part = gs_slice_make(expr.data + start, end - start);
    if (!hide_variables(part, &v, &hidden))
        return gs_error_new(GS_ELIMIT, "more than %d variables", MAX_VARIABLES);
    struct gs_error *err =
        names_only
            ? aliases_convert_selector(gs_buf_slice(&hidden), to, &text, ret_changes, ret_problem)
            : aliases_convert(gs_buf_slice(&hidden), to, &text, ret_changes, ret_problem);
    if (!err)
        check_names(gs_buf_slice(&hidden), ret_problem);
    if (err || !text.len)
        return err;
    gs_buf_add(ret_text, expr.data, start);
    show_variables(gs_buf_slice(&text), &v, ret_text);
    gs_buf_add(ret_text, expr.data + end, expr.len - end);
    return NULL;
}

struct gs_error *aliases_convert_panel(struct gs_slice expr, enum aliases_release to,
                                       struct gs_buf *ret_text, struct gs_buf *ret_changes,
                                       struct gs_buf *ret_problem)
{
    size_t start = 0, end = expr.len;
    bool names_only = false;
    if (gs_slice_starts(expr, "label_names(") || gs_slice_starts(expr, "metrics("))
        return gs_error_new(GS_ENOTSUP, "lists of names are not converted");
    take_argument(expr, &start, &end, &names_only);
    return convert_part(expr, start, end, names_only, to, ret_text, ret_changes, ret_problem);
}
