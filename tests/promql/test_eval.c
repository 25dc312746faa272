// SPDX-License-Identifier: Apache-2.0
// Scripts of samples, queries and what they give: tests/promql/eval/*.test.
//
//   load STEP                          samples of series, STEP apart from 0 on; clears the store
//     SERIES VALUES                    as promql/series.h
//   eval instant at TIME EXPR          then the expected series, one a line: LABELS VALUE
//   eval_ordered instant at TIME EXPR  in this order
//   eval range from TIME to TIME step TIME EXPR    LABELS VALUE … with _ for none
//   eval_fail instant|range … EXPR     then the error's text
//   expect warn|info TEXT              among the expected lines
//
// experimental.test and delayed_names.test have features enabled.
#include "promql/promql.h"
#include "promql/series.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "label_of.h"
#include "unit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_LINES 64

struct script {
    const char *file;
    size_t line;
    struct tsdb *db;
    struct promql_engine *engine;
    size_t wrong; // queries
};

struct query {
    char *text; // the line, for messages
    const char *expr;
    bool fails, ordered, range;
    int64_t start_ms, end_ms, step_ms;
    char *wanted[MAX_LINES];
    size_t n_wanted;
};

static _Noreturn void fail_at(const struct script *s, const char *what, const char *detail)
{
    fail_msg("%s:%zu: %s: %s", s->file, s->line, what, detail);
    abort();
}

static int64_t time_of(const struct script *s, const char *text)
{
    int64_t ns;
    struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    if (err)
        fail_at(s, "time", text);
    return ns / GS_NS_PER_MS;
}

// Cuts the next word off.
static char *word(char **at)
{
    while (**at == ' ')
        (*at)++;
    char *start = *at;
    while (**at && **at != ' ')
        (*at)++;
    if (**at)
        *(*at)++ = 0;
    return start;
}

// Cuts "name{…}" off, blanks in quotes and braces included.
static char *series_text(char **at)
{
    while (**at == ' ')
        (*at)++;
    char *start = *at;
    bool quoted = false, braces = false;
    for (; **at && (quoted || braces || **at != ' '); (*at)++) {
        if (**at == '"' && (*at)[-1] != '\\')
            quoted = !quoted;
        braces = quoted ? braces : **at == '{' || (braces && **at != '}');
    }
    if (**at)
        *(*at)++ = 0;
    return start;
}

// --- load ---

static void append(struct script *s, const struct metrics_label *l, size_t n, int64_t t_ms,
                   double v)
{
    struct gs_error *err = tsdb_append(s->db, l, n, t_ms, v);
    if (err)
        fail_at(s, "append", gs_error_message(err));
}

static void load_values(struct script *s, const struct metrics_label *l, size_t n, int64_t step_ms,
                        const char *text)
{
    struct gs_arena arena = {0};
    struct promql_values values;
    struct gs_error *err = promql_parse_values(gs_slice_of(text), &arena, &values);
    if (err)
        fail_at(s, "values", gs_error_message(err));
    struct promql_values_reader r = {.values = &values};
    double v;
    bool omitted;
    for (int64_t t = 0; promql_values_next(&r, &v, &omitted); t += step_ms)
        if (!omitted)
            append(s, l, n, t, v);
    gs_arena_finish(&arena);
}

static void load_line(struct script *s, int64_t step_ms, char *line)
{
    struct promql_expr *x;
    struct gs_error *err = promql_parse_metric(gs_slice_of(series_text(&line)), &x);
    if (err)
        fail_at(s, "series", gs_error_message(err));
    const struct promql_node *n = promql_expr_root(x);
    struct metrics_label labels[16];
    assert_true(n->u.selector.n_matchers <= GS_ARRAY_LEN(labels));
    for (size_t i = 0; i < n->u.selector.n_matchers; i++)
        labels[i] =
            (struct metrics_label){n->u.selector.matchers[i].name, n->u.selector.matchers[i].value};
    load_values(s, labels, n->u.selector.n_matchers, step_ms, line);
    promql_expr_free(x);
}

static void clear(struct script *s)
{
    if (s->engine)
        promql_engine_free(s->engine);
    if (s->db)
        tsdb_free(s->db);
    s->engine = NULL;
    s->db = NULL;
}

static void begin(struct script *s)
{
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 40};
    clear(s);
    s->db = tsdb_new(&cfg);
    s->engine = promql_engine_new(s->db, NULL);
}

// --- results as lines ---

static void add_labels(struct gs_buf *out, const struct promql_result *r, struct tsdb_labels l)
{
    const char *sep = "";
    gs_buf_add_slice(out, label_of(r, l, "__name__"));
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < l.n; i++) {
        gs_buf_addf(out, "%s" GS_SLICE_FMT "=\"" GS_SLICE_FMT "\"", sep,
                    GS_SLICE_ARG(promql_text(r, l.pairs[i].name)),
                    GS_SLICE_ARG(promql_text(r, l.pairs[i].value)));
        sep = ",";
    }
    gs_buf_add_char(out, '}');
}

static size_t result_lines(const struct promql_result *r, char **ret)
{
    size_t n = 0;
    for (size_t i = 0; i < r->matrix.n && n < MAX_LINES; i++) {
        struct gs_buf out = {0};
        char text[GS_DOUBLE_SIZE];
        add_labels(&out, r, r->matrix.series[i].labels);
        for (size_t k = 0; k < r->matrix.n_steps; k++) {
            double v = r->matrix.series[i].v[k];
            gs_buf_addf(&out, " %s", promql_absent(v) ? "_" : gs_format_double(v, text));
        }
        ret[n++] = gs_buf_take(&out);
    }
    for (size_t i = 0; i < r->n_warnings && n < MAX_LINES; i++)
        ret[n++] = gs_format("expect warn %s", r->warnings[i]);
    for (size_t i = 0; i < r->n_infos && n < MAX_LINES; i++)
        ret[n++] = gs_format("expect info %s", r->infos[i]);
    return n;
}

static bool same_value(const char *a, const char *b)
{
    double x, y;
    if (gs_streq(a, b))
        return true;
    if (*a == '_' || *b == '_')
        return false;
    if (gs_parse_double(gs_slice_of(a), &x) || gs_parse_double(gs_slice_of(b), &y))
        return false;
    return x == y || fabs(x - y) <= 1e-12 * fabs(x);
}

static bool same_line(const char *a, const char *b, bool fails)
{
    GS_AUTO_FREE char *x = gs_strdup(a);
    GS_AUTO_FREE char *y = gs_strdup(b);
    char *p = x, *q = y;
    if (gs_starts(a, "expect ") || fails)
        return gs_streq(a, b);
    if (!gs_streq(series_text(&p), series_text(&q)))
        return false;
    for (;;) {
        const char *v = word(&p), *w = word(&q);
        if (!*v || !*w)
            return *v == *w;
        if (!same_value(v, w))
            return false;
    }
}

static char *joined(char *const *lines, size_t n)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&out, "\n    %s", lines[i]);
    return gs_buf_take(&out);
}

static bool same_lines(const struct query *q, char *const *got, size_t n)
{
    bool used[MAX_LINES] = {false};
    if (n != q->n_wanted)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t k = q->ordered ? i : 0;
        while (k < n && (used[k] || !same_line(got[i], q->wanted[k], q->fails)))
            k = q->ordered ? n : k + 1;
        if (k == n)
            return false;
        used[k] = true;
    }
    return true;
}

static void compare(struct script *s, const struct query *q, char *const *got, size_t n)
{
    if (same_lines(q, got, n))
        return;
    char *is = joined(got, n), *should = joined(q->wanted, q->n_wanted);
    print_error("%s:%zu: %s\n  gave%s\n  wanted%s\n", s->file, s->line, q->text, is, should);
    free(is);
    free(should);
    s->wrong++;
}

// Runs twice: the second run uses the caches of the first.
static void run_query(struct script *s, const struct query *q)
{
    for (int pass = 0; pass < 2; pass++) {
        struct promql_expr *x = NULL;
        struct promql_result r = {0};
        char *got[MAX_LINES];
        size_t n = 0;
        struct gs_error *err = promql_parse(gs_slice_of(q->expr), &x);
        if (!err)
            err = q->range ? promql_range(s->engine, x, q->start_ms, q->end_ms, q->step_ms, &r)
                           : promql_instant(s->engine, x, q->end_ms, &r);
        if (err)
            got[n++] = gs_strdup(gs_error_message(err));
        else
            n = result_lines(&r, got);
        if (q->fails != !!err) {
            print_error("%s:%zu: %s: %s\n", s->file, s->line, q->text, err ? got[0] : "no error");
            s->wrong++;
        } else {
            compare(s, q, got, n);
        }
        for (size_t i = 0; i < n; i++)
            free(got[i]);
        gs_error_free(err);
        promql_result_finish(&r);
        promql_expr_free(x);
    }
}

static void parse_query(const struct script *s, char *line, struct query *q)
{
    q->text = gs_strdup(line);
    const char *verb = word(&line);
    q->fails = gs_streq(verb, "eval_fail");
    q->ordered = gs_streq(verb, "eval_ordered");
    q->range = gs_streq(word(&line), "range");
    if (q->range) {
        word(&line);
        q->start_ms = time_of(s, word(&line));
    }
    word(&line);
    q->end_ms = time_of(s, word(&line));
    if (q->range) {
        word(&line);
        q->step_ms = time_of(s, word(&line));
    }
    q->expr = q->text + strlen(q->text) - strlen(line);
}

static void finish_query(struct script *s, struct query *q)
{
    if (!q->text)
        return;
    run_query(s, q);
    for (size_t i = 0; i < q->n_wanted; i++)
        free(q->wanted[i]);
    free(q->text);
    *q = (struct query){0};
}

static void run_script(const char *file, char *text)
{
    struct script s = {.file = file};
    bool experimental = gs_streq(file, "experimental.test");
    promql_set_features(experimental ? PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL
                        : gs_streq(file, "delayed_names.test") ? PROMQL_DELAYED_NAMES
                                                               : 0);
    struct query q = {0};
    int64_t step_ms = 0;
    for (char *line = text; line; s.line++) {
        char *next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        bool indented = *line == ' ';
        while (*line == ' ')
            line++;
        if (*line && *line != '#' && indented && q.text) {
            assert_true(q.n_wanted < MAX_LINES);
            q.wanted[q.n_wanted++] = gs_strdup(line);
        } else if (*line && *line != '#' && indented) {
            load_line(&s, step_ms, line);
        } else if (*line && *line != '#') {
            finish_query(&s, &q);
            if (gs_starts(line, "load ")) {
                begin(&s);
                step_ms = time_of(&s, line + 5);
            } else {
                parse_query(&s, line, &q);
            }
        }
        line = next;
    }
    finish_query(&s, &q);
    clear(&s);
    assert_int_equal(s.wrong, 0);
}

static void test_scripts(void **state)
{
    GS_AUTO_FREE char *dir = gs_format("%s/tests/promql/eval", getenv("GPUSCALE_SOURCE_ROOT"));
    DIR *d = opendir(dir);
    assert_non_null(d);
    size_t n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (!gs_ends(e->d_name, ".test"))
            continue;
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, e->d_name);
        struct gs_buf text = {0};
        assert_ok(gs_file_read(path, 1 << 20, &text));
        GS_AUTO_FREE char *owned = gs_buf_take(&text);
        run_script(e->d_name, owned);
        n++;
    }
    closedir(d);
    assert_true(n > 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scripts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
