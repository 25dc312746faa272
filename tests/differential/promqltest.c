// SPDX-License-Identifier: Apache-2.0
// Runs Prometheus' own test scripts of PromQL against src/promql. Their language:
// https://github.com/prometheus/prometheus/tree/main/promql/promqltest
// As Prometheus does, each instant query also runs as the middle step of a range query and, with @
// after each selector, at other times.
//
// Usage: promqltest [-v] [-d] EXCEPTIONS FILE...
// EXCEPTIONS has lines "FILE:LINE,LINE... REASON" of plain statements that need not pass. Exit code
// 1: another plain statement fails, or an exception passes. -v: all failures are printed. -d: with
// the feature promql-delayed-name-removal; exceptions with its name as reason do not apply.
#include "promql/promql.h"
#include "promql/series.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/regex.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define MAX_LINES 256

#define DELAYED_NAMES "promql-delayed-name-removal"

enum class { PLAIN, EXPERIMENTAL, NATIVE, N_CLASSES };

static unsigned features = PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL | PROMQL_UTF8_NAMES;

struct script {
    const char *file; // without its folder
    struct tsdb *db;
    struct promql_engine *engine;
    struct gs_hmap *native; // names of metrics with native histograms
};

struct statement {
    size_t line;
    const char *expr;
    bool range, fails, ordered, raw;
    int64_t start_ms, end_ms, step_ms;
    const char *lines[MAX_LINES]; // expected
    size_t n_lines;
    enum class class;
};

struct tally {
    size_t run[N_CLASSES], passed[N_CLASSES];
    struct gs_hmap *exceptions; // FILE:LINE
    size_t wrong;
    bool verbose;
};

static _Noreturn void stop(const char *file, size_t line, const char *what, const char *detail)
{
    fprintf(stderr, "promqltest: %s:%zu: %s: %s\n", file, line, what, detail);
    exit(2);
}

static int64_t time_of(const char *text)
{
    int64_t ns = 0;
    struct gs_error *err = gs_streq(text, "0") ? NULL : gs_parse_duration(gs_slice_of(text), &ns);
    if (err)
        stop("", 0, "time", text);
    return ns / GS_NS_PER_MS;
}

static char *word(char **at)
{
    while (gs_is_blank(**at))
        (*at)++;
    char *start = *at;
    while (**at && !gs_is_blank(**at))
        (*at)++;
    if (**at)
        *(*at)++ = 0;
    while (gs_is_blank(**at))
        (*at)++;
    return start;
}

// Cuts "name{…}" off. Quotes and braces can contain blanks.
static char *series_text(char **at)
{
    char *start = *at, quote = 0;
    int braces = 0;
    for (; **at && (quote || braces || !gs_is_blank(**at)); (*at)++) {
        if (quote)
            quote = **at == '\\' && (*at)[1] ? ((*at)++, quote) : **at == quote ? 0 : quote;
        else if (**at == '"' || **at == '\'' || **at == '`')
            quote = **at;
        else
            braces += (**at == '{') - (**at == '}');
    }
    if (**at)
        *(*at)++ = 0;
    while (gs_is_blank(**at))
        (*at)++;
    return start;
}

// --- load ---

static void clear(struct script *s)
{
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 42};
    promql_engine_free(s->engine);
    tsdb_free(s->db);
    gs_hmap_clear(s->native);
    s->db = tsdb_new(&cfg);
    s->engine = promql_engine_new(s->db, NULL);
}

static void append_values(const struct script *s, const struct promql_node *n,
                          const struct promql_values *values, int64_t step_ms)
{
    struct metrics_label *l = gs_alloc((n->u.selector.n_matchers) * sizeof(*l));
    for (size_t i = 0; i < n->u.selector.n_matchers; i++)
        l[i] =
            (struct metrics_label){n->u.selector.matchers[i].name, n->u.selector.matchers[i].value};
    struct promql_values_reader r = {.values = values};
    double v;
    bool omitted;
    for (int64_t t = 0; promql_values_next(&r, &v, &omitted); t += step_ms)
        if (!omitted)
            gs_error_free(tsdb_append(s->db, l, n->u.selector.n_matchers, t, v));
    free(l);
}

static void load_line(struct script *s, int64_t step_ms, bool convert, const char *line)
{
    GS_AUTO_FREE char *copy = gs_strdup(line);
    char *at = copy;
    const char *series = series_text(&at);
    struct promql_expr *x;
    if (gs_ends(series, "@st")) // a start timestamp: not stored
        return;
    struct gs_error *err = promql_parse_metric(gs_slice_of(series), &x);
    if (err) { // a name that needs quotes
        gs_error_free(err);
        return;
    }
    struct gs_arena arena = {0};
    struct promql_values values;
    err = promql_parse_values(gs_slice_of(at), &arena, &values);
    const struct promql_node *n = promql_expr_root(x);
    if (err)
        gs_hmap_put(s->native, n->u.selector.name, s);
    else
        append_values(s, n, &values, step_ms);
    struct gs_slice name = n->u.selector.name;
    if (convert && gs_slice_ends(name, "_bucket"))
        gs_hmap_put(s->native, gs_slice_make(name.data, name.len - strlen("_bucket")), s);
    gs_error_free(err);
    gs_arena_finish(&arena);
    promql_expr_free(x);
}

// Whether a later line of the same command has this series: that line is used.
static bool is_repeated(char **lines, size_t n, size_t i)
{
    GS_AUTO_FREE char *copy = gs_strdup(lines[i]);
    char *at = copy;
    const char *series = series_text(&at);
    size_t len = strlen(series);
    for (size_t k = i + 1; k < n && *lines[k]; k++)
        if (strncmp(lines[k], series, len) == 0 && gs_is_blank(lines[k][len]))
            return true;
    return false;
}

static size_t load(struct script *s, char **lines, size_t n, size_t i)
{
    char *at = lines[i];
    bool convert = gs_streq(word(&at), "load_with_nhcb");
    int64_t step_ms = time_of(word(&at));
    for (i++; i < n && *lines[i]; i++)
        if (!is_repeated(lines, n, i))
            load_line(s, step_ms, convert, lines[i]);
    return i;
}

// --- comparison ---

static bool almost_equal(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return true;
    double sum = fabs(a) + fabs(b), difference = fabs(a - b);
    if (a == 0 || b == 0 || sum < 2.2250738585072014e-308)
        return difference < 1e-6 * 2.2250738585072014e-308;
    return difference / fmin(sum, 1.79769313486231571e308) < 1e-6;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *sorted_labels(char **pairs, size_t n)
{
    struct gs_buf out = {0};
    if (n)
        qsort(pairs, n, sizeof(*pairs), compare_lines);
    gs_buf_add_str(&out, "{");
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&out, "%s%s", i ? "," : "", pairs[i]);
        free(pairs[i]);
    }
    gs_buf_add_str(&out, "}");
    return gs_buf_take(&out);
}

static char *pair_text(struct gs_slice name, struct gs_slice value)
{
    return gs_format(GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(name), GS_SLICE_ARG(value));
}

static char *result_labels(const struct promql_result *r, struct tsdb_labels l)
{
    char *pairs[64];
    size_t n = 0;
    for (; n < tsdb_labels_len(l) && n < GS_ARRAY_LEN(pairs); n++) {
        struct metrics_label label = promql_label_at(r, l, n);
        pairs[n] = pair_text(label.name, label.value);
    }
    return sorted_labels(pairs, n);
}

static char *wanted_labels(const struct promql_node *s)
{
    char *pairs[64];
    size_t n = 0;
    for (size_t i = 0; i < s->u.selector.n_matchers && n < GS_ARRAY_LEN(pairs); i++)
        if (s->u.selector.matchers[i].value.len)
            pairs[n++] = pair_text(s->u.selector.matchers[i].name, s->u.selector.matchers[i].value);
    return sorted_labels(pairs, n);
}

struct wanted {
    char *labels;
    struct gs_arena arena;
    struct promql_values values;
    bool found;
};

// The expected series. Returns a reason for failure, or NULL.
static char *read_wanted(const char *line, struct wanted *ret)
{
    GS_AUTO_FREE char *copy = gs_strdup(line);
    char *at = copy;
    struct promql_expr *x;
    struct gs_error *err = promql_parse_metric(gs_slice_of(series_text(&at)), &x);
    if (!err) {
        ret->labels = wanted_labels(promql_expr_root(x));
        promql_expr_free(x);
        err = promql_parse_values(gs_slice_of(at), &ret->arena, &ret->values);
    }
    char *reason = err ? gs_strdup(gs_error_message(err)) : NULL;
    gs_error_free(err);
    return reason;
}

// One value at time t of a series of the result, or absent.
static double value_at(const struct promql_result *r, size_t i, int64_t t)
{
    if (r->is_raw) {
        for (size_t k = 0; k < r->raw[i].n; k++)
            if (r->raw[i].t[k] == t)
                return r->raw[i].v[k];
        return promql_absent_value();
    }
    int64_t step = r->matrix.n_steps > 1 ? (t - r->start_ms) / r->step_ms : 0;
    if (step < 0 || (size_t)step >= r->matrix.n_steps)
        return promql_absent_value();
    return r->matrix.series[i].v[step];
}

struct view { // what is compared: times from start to end
    int64_t start_ms, end_ms, step_ms;
    bool ordered;
};

static char *compare_values(const struct promql_result *r, size_t i, const struct wanted *w,
                            const struct view *view)
{
    struct promql_values_reader reader = {.values = &w->values};
    for (int64_t t = view->start_ms; t <= view->end_ms; t += view->step_ms) {
        double v = value_at(r, i, t), wanted = promql_absent_value();
        bool omitted = true;
        bool more = promql_values_next(&reader, &wanted, &omitted);
        bool absent = !more || omitted;
        if (absent != promql_absent(v) || (!absent && !almost_equal(wanted, v)))
            return gs_format("%s at %lld: %.17g, not %.17g%s", w->labels, (long long)t, v, wanted,
                             absent ? " (none)" : "");
    }
    return NULL;
}

static bool has_value(const struct promql_result *r, size_t i, const struct view *view)
{
    for (int64_t t = view->start_ms; t <= view->end_ms; t += view->step_ms)
        if (!promql_absent(value_at(r, i, t)))
            return true;
    return false;
}

static char *compare_series(const struct promql_result *r, struct wanted *w, size_t n,
                            const struct view *view)
{
    size_t total = r->is_raw ? r->n_raw : r->matrix.n, position = 0;
    for (size_t i = 0; i < total; i++) {
        if (!has_value(r, i, view))
            continue;
        GS_AUTO_FREE char *labels =
            result_labels(r, r->is_raw ? r->raw[i].labels : r->matrix.series[i].labels);
        size_t k = 0;
        while (k < n && (w[k].found || !gs_streq(w[k].labels, labels)))
            k++;
        if (k == n)
            return gs_format("unexpected series %s", labels);
        if (view->ordered && k != position++)
            return gs_format("%s is in the wrong place", labels);
        char *reason = compare_values(r, i, &w[k], view);
        if (reason)
            return reason;
        w[k].found = true;
    }
    for (size_t k = 0; k < n; k++)
        if (!w[k].found)
            return gs_format("no series %s", w[k].labels);
    return NULL;
}

static bool is_expect(const char *line)
{
    return gs_starts(line, "expect ") || gs_starts(line, "expect\t");
}

static char *compare_result(const struct statement *q, const struct promql_result *r,
                            const struct view *view)
{
    struct wanted *w = gs_alloc((q->n_lines + 1) * sizeof(*w));
    size_t n = 0;
    char *reason = NULL;
    bool done = false;
    for (size_t i = 0; i < q->n_lines && !reason && !done; i++) {
        double scalar;
        struct gs_error *err = gs_parse_double(gs_slice_of(q->lines[i]), &scalar);
        if (is_expect(q->lines[i])) {
            if (gs_starts(q->lines[i], "expect string ")) {
                size_t len = strlen(q->lines[i]);
                struct gs_slice text =
                    len < 16 ? GS_SLICE("") : gs_slice_make(q->lines[i] + 15, len - 16);
                done = true;
                if (r->type != PROMQL_RESULT_STRING || !gs_slice_eq(text, r->string))
                    reason = gs_strdup("another string");
            }
        } else if (!err) {
            done = true;
            bool same = r->matrix.n == 1 && !r->is_raw && r->matrix.series[0].labels.n == 0 &&
                        almost_equal(value_at(r, 0, view->start_ms), scalar);
            if (!same)
                reason = gs_format("%.17g, not the scalar %.17g",
                                   r->matrix.n ? value_at(r, 0, view->start_ms) : 0, scalar);
        } else {
            reason = read_wanted(q->lines[i], &w[n++]);
        }
        gs_error_free(err);
    }
    if (!reason && !done)
        reason = compare_series(r, w, n, view);
    for (size_t i = 0; i < n; i++) {
        free(w[i].labels);
        gs_arena_finish(&w[i].arena);
    }
    free(w);
    return reason;
}

// --- expect lines ---

// Whether a text is what "msg: TEXT" or "regex: PATTERN" of a line after `head` wants.
static bool text_matches(const char *line, const char *head, const char *text)
{
    const char *at = line + strlen(head);
    while (gs_is_blank(*at))
        at++;
    bool message = gs_starts(at, "msg:"), pattern = gs_starts(at, "regex:");
    if (!message && !pattern)
        return true;
    struct gs_slice wanted = gs_slice_trim(gs_slice_of(strchr(at, ':') + 1));
    if (message)
        return gs_slice_eq_str(wanted, text);
    struct gs_regex *re;
    struct gs_error *err = gs_regex_new(wanted, NULL, &re);
    bool matches = !err && gs_regex_matches(re, gs_slice_of(text));
    if (!err)
        gs_regex_free(re);
    gs_error_free(err);
    return matches;
}

static char *check_notes(const struct statement *q, const char *head, const char *const *texts,
                         size_t n)
{
    size_t lines = 0;
    GS_AUTO_FREE bool *matched = gs_alloc((n + 1) * sizeof(*matched));
    for (size_t i = 0; i < q->n_lines; i++) {
        if (!gs_starts(q->lines[i], head))
            continue;
        bool any = false;
        for (size_t k = 0; k < n; k++) {
            bool matches = text_matches(q->lines[i], head, texts[k]);
            matched[k] = matched[k] || matches;
            any = any || matches;
        }
        if (!any)
            return gs_format("no annotation for \"%s\"%s%s", q->lines[i], n ? "; first: " : "",
                             n ? texts[0] : "");
        lines++;
    }
    for (size_t k = 0; lines && k < n; k++)
        if (!matched[k])
            return gs_format("unexpected annotation: %s", texts[k]);
    GS_AUTO_FREE char *none = gs_format("expect no_%s", head + strlen("expect "));
    for (size_t i = 0; i < q->n_lines; i++)
        if (gs_streq(q->lines[i], none) && n)
            return gs_format("unexpected annotation: %s", texts[0]);
    return NULL;
}

static char *check_failure(const struct statement *q, const char *message)
{
    if (!q->fails)
        return gs_format("error: %s", message);
    for (size_t i = 0; i < q->n_lines; i++)
        if (gs_starts(q->lines[i], "expect fail") &&
            !text_matches(q->lines[i], "expect fail", message))
            return gs_format("error: %s, wanted %s", message, q->lines[i]);
    return NULL;
}

// --- runs ---

static char *run_once(const struct script *s, const struct statement *q, struct gs_slice text,
                      const struct view *times, bool range, bool notes, const struct view *view)
{
    struct promql_expr *x = NULL;
    struct promql_result r = {0};
    char *reason = NULL;
    struct gs_error *err = promql_parse(text, &x);
    if (!err)
        err = range ? promql_range(s->engine, x, times->start_ms, times->end_ms, times->step_ms, &r)
                    : promql_instant(s->engine, x, times->end_ms, &r);
    if (err) {
        reason = check_failure(q, gs_error_message(err));
    } else if (q->fails) {
        reason = gs_strdup("no error");
    } else {
        reason = notes ? check_notes(q, "expect warn", r.warnings, r.n_warnings) : NULL;
        if (!reason && notes)
            reason = check_notes(q, "expect info", r.infos, r.n_infos);
        if (!reason)
            reason = compare_result(q, &r, view);
    }
    gs_error_free(err);
    promql_result_finish(&r);
    promql_expr_free(x);
    return reason;
}

static bool pin(void *arg, const struct promql_node *n)
{
    struct promql_node *node = (struct promql_node *)n; // the tree belongs to this program
    struct promql_shift *shift = n->kind == PROMQL_SELECTOR   ? &node->u.selector.shift
                                 : n->kind == PROMQL_SUBQUERY ? &node->u.subquery.shift
                                                              : NULL;
    if (shift && shift->at == PROMQL_AT_NONE) {
        shift->at = PROMQL_AT_TIME;
        shift->at_ms = *(int64_t *)arg;
    }
    return n->kind != PROMQL_SUBQUERY;
}

static bool has_varying_call(const char *expr)
{
    static const char *const names[] = {
        "days_in_month",  "day_of_month", "day_of_week", "day_of_year", "hour",
        "minute",         "month",        "year",        "time",        "timestamp",
        "predict_linear", "start",        "end",         "range",       "step"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        for (const char *at = strcasestr(expr, names[i]); at; at = strcasestr(at + 1, names[i])) {
            const char *after = at + strlen(names[i]);
            while (gs_is_blank(*after))
                after++;
            bool whole = at == expr || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
            if (whole && *after == '(')
                return true;
        }
    }
    return false;
}

static bool uses_query_times(const char *expr)
{
    return strstr(expr, "start()") || strstr(expr, "end()") || strstr(expr, "range()") ||
           strstr(expr, "step()");
}

static char *run_instant(const struct script *s, const struct statement *q, struct gs_slice text,
                         int64_t at_ms)
{
    struct view times = {at_ms, at_ms, 1, q->ordered};
    struct view raw = {q->start_ms, q->end_ms, q->step_ms, false};
    char *reason = run_once(s, q, text, &times, false, true, q->raw ? &raw : &times);
    bool string = q->n_lines && gs_starts(q->lines[0], "expect string");
    if (reason || q->fails || q->raw || q->ordered || string || uses_query_times(q->expr))
        return reason;
    struct view around = {at_ms - 60000, at_ms + 60000, 60000, false};
    times.ordered = false;
    reason = run_once(s, q, text, &around, true, false, &times);
    char *with = reason ? gs_format("as a range query: %s", reason) : NULL;
    free(reason);
    return with;
}

static char *run_pinned(const struct script *s, const struct statement *q)
{
    struct promql_expr *x;
    struct gs_error *err = promql_parse(gs_slice_of(q->expr), &x);
    if (err) {
        gs_error_free(err);
        return NULL;
    }
    int64_t t = q->end_ms;
    GS_AUTO_BUF struct gs_buf text = {0};
    promql_walk(promql_expr_root(x), pin, &t);
    promql_print(promql_expr_root(x), &text);
    promql_expr_free(x);
    const int64_t at_zero[] = {-1000, 0, 1000}, others[] = {-10 * t, 0, t / 5, t, 10 * t};
    const int64_t *at = t ? others : at_zero;
    char *reason = NULL;
    size_t i = 0;
    while (i < (t ? 5U : 3U) && !reason)
        reason = run_instant(s, q, gs_slice_make(text.data, text.len), at[i++]);
    char *with =
        reason ? gs_format("%s at %lld: %s", text.data, (long long)at[i - 1], reason) : NULL;
    free(reason);
    return with;
}

static char *run_statement(const struct script *s, const struct statement *q)
{
    struct gs_slice text = gs_slice_of(q->expr);
    if (q->range) {
        struct view times = {q->start_ms, q->end_ms, q->step_ms, false};
        return run_once(s, q, text, &times, true, true, &times);
    }
    char *reason = run_instant(s, q, text, q->end_ms);
    return reason || has_varying_call(q->expr) ? reason : run_pinned(s, q);
}

// --- classes ---

static bool has_word(const char *text, struct gs_slice w)
{
    for (const char *at = text; w.len && (at = strstr(at, w.data)); at++) {
        bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        bool after = isalnum((unsigned char)at[w.len]) || at[w.len] == '_' || at[w.len] == ':';
        if (!before && !after)
            return true;
    }
    return false;
}

static bool find_nameless(void *arg, const struct promql_node *n)
{
    if (n->kind == PROMQL_SELECTOR && !n->u.selector.name.len)
        *(bool *)arg = true;
    return true;
}

static bool has_nameless_selector(const char *expr)
{
    bool found = false;
    struct promql_expr *x = NULL;
    struct gs_error *err = promql_parse(gs_slice_of(expr), &x);
    if (!err)
        promql_walk(promql_expr_root(x), find_nameless, &found);
    promql_expr_free(x);
    gs_error_free(err);
    return found;
}

static bool is_native(const struct script *s, const struct statement *q)
{
    for (size_t i = 0; i < q->n_lines; i++)
        if (strstr(q->lines[i], "{{"))
            return true;
    static const char *const functions[] = {"histogram_count", "histogram_sum", "histogram_avg",
                                            "histogram_stddev", "histogram_stdvar"};
    for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++)
        if (has_word(q->expr, gs_slice_of(functions[i])))
            return true;
    if (!gs_hmap_len(s->native))
        return false;
    if (has_nameless_selector(q->expr) || gs_streq(s->file, "native_histograms.test"))
        return true;
    size_t at = 0;
    struct gs_slice name;
    void *value;
    while (gs_hmap_next(s->native, &at, &name, &value)) {
        GS_AUTO_FREE char *text = gs_slice_dup(name);
        if (has_word(q->expr, gs_slice_of(text)))
            return true;
    }
    return false;
}

static bool is_experimental(const struct statement *q)
{
    struct promql_expr *x = NULL;
    promql_set_features(0);
    struct gs_error *err = promql_parse(gs_slice_of(q->expr), &x);
    promql_set_features(features);
    promql_expr_free(x);
    bool known = !err;
    gs_error_free(err);
    return !known;
}

// --- scripts ---

static void read_times(struct statement *q, char *at)
{
    const char *verb = word(&at);
    q->fails = gs_streq(verb, "eval_fail");
    q->ordered = gs_streq(verb, "eval_ordered");
    q->range = gs_streq(word(&at), "range");
    word(&at); // at, from
    if (q->range) {
        q->start_ms = time_of(word(&at));
        word(&at);
    }
    q->end_ms = time_of(word(&at));
    if (q->range) {
        word(&at);
        q->step_ms = time_of(word(&at));
    }
    q->expr = at;
}

static void read_expectations(struct statement *q)
{
    for (size_t i = 0; i < q->n_lines; i++) {
        q->fails = q->fails || gs_starts(q->lines[i], "expect fail");
        q->ordered = q->ordered || gs_streq(q->lines[i], "expect ordered");
        if (!gs_starts(q->lines[i], "expect range vector from "))
            continue;
        GS_AUTO_FREE char *copy = gs_strdup(q->lines[i] + strlen("expect range vector from "));
        char *at = copy;
        q->raw = true;
        q->start_ms = time_of(word(&at));
        word(&at);
        q->end_ms = time_of(word(&at));
        word(&at);
        q->step_ms = time_of(word(&at));
    }
}

static size_t evaluate(const struct script *s, char **lines, size_t n, size_t i, struct tally *t)
{
    struct statement q = {.line = i + 1};
    GS_AUTO_FREE char *text = gs_strdup(lines[i]);
    read_times(&q, text);
    int64_t at_ms = q.end_ms;
    for (i++; i < n && *lines[i]; i++)
        if (q.n_lines < MAX_LINES)
            q.lines[q.n_lines++] = lines[i];
    read_expectations(&q);
    if (q.raw && q.end_ms != at_ms)
        stop(s->file, q.line, "a range vector ends at another time", q.expr);
    q.class = is_native(s, &q) ? NATIVE : is_experimental(&q) ? EXPERIMENTAL : PLAIN;
    GS_AUTO_FREE char *reason = run_statement(s, &q);
    GS_AUTO_FREE char *place = gs_format("%s:%zu", s->file, q.line);
    t->run[q.class]++;
    t->passed[q.class] += !reason;
    bool excepted = gs_hmap_get_str(t->exceptions, place);
    bool wrong = excepted ? !reason : reason && q.class == PLAIN;
    t->wrong += wrong;
    static const char *const names[] = {"plain", "experimental", "native histograms"};
    if (wrong || (reason && t->verbose))
        printf("%s (%s): %s\n    %s\n", place, names[q.class], q.expr,
               reason ? reason : "passes, but is listed as an exception");
    return i;
}

static void run_script(const char *path, struct tally *t)
{
    struct gs_buf content = {0};
    struct gs_error *err = gs_file_read(path, 1 << 22, &content);
    if (err)
        stop(path, 0, "read", gs_error_message(err));
    GS_AUTO_FREE char *text = gs_buf_take(&content);
    char **lines = NULL;
    size_t n = 0, cap = 0;
    struct gs_slice rest = gs_slice_of(text);
    while (rest.data) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        gs_grow(&lines, &cap, n, sizeof(*lines));
        lines[n++] = gs_slice_starts(line, "#") ? gs_strdup("") : gs_slice_dup(line);
    }
    struct script s = {.file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path,
                       .native = gs_hmap_new(NULL)};
    clear(&s);
    for (size_t i = 0; i < n;) {
        if (gs_starts(lines[i], "load"))
            i = load(&s, lines, n, i);
        else if (gs_starts(lines[i], "eval"))
            i = evaluate(&s, lines, n, i, t);
        else if (!*lines[i++])
            continue;
        else if (gs_starts(lines[i - 1], "clear"))
            clear(&s);
        else
            stop(s.file, i, "unknown command", lines[i - 1]);
    }
    for (size_t i = 0; i < n; i++)
        free(lines[i]);
    free(lines);
    promql_engine_free(s.engine);
    tsdb_free(s.db);
    gs_hmap_free(s.native);
}

static void read_exceptions(const char *path, struct tally *t)
{
    struct gs_buf content = {0};
    struct gs_error *err = gs_file_read(path, 1 << 20, &content);
    if (err)
        stop(path, 0, "read", gs_error_message(err));
    struct gs_slice rest = gs_slice_make(content.data, content.len);
    while (rest.data) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        struct gs_slice place = gs_slice_cut(&line, ' ');
        if (!place.len || gs_slice_starts(place, "#") ||
            ((features & PROMQL_DELAYED_NAMES) && gs_slice_ends(line, DELAYED_NAMES)))
            continue;
        struct gs_slice file = gs_slice_cut(&place, ':');
        while (place.data) {
            struct gs_slice number = gs_slice_cut(&place, ',');
            GS_AUTO_FREE char *key =
                gs_format(GS_SLICE_FMT ":" GS_SLICE_FMT, GS_SLICE_ARG(file), GS_SLICE_ARG(number));
            gs_hmap_put_str(t->exceptions, key, t);
        }
    }
    gs_buf_finish(&content);
}

int main(int argc, char **argv)
{
    struct tally t = {.exceptions = gs_hmap_new(NULL)};
    int first = 1;
    for (; first < argc && *argv[first] == '-'; first++) {
        t.verbose = t.verbose || gs_streq(argv[first], "-v");
        if (gs_streq(argv[first], "-d"))
            features |= PROMQL_DELAYED_NAMES;
    }
    if (argc < first + 2) {
        fprintf(stderr, "usage: promqltest [-v] [-d] EXCEPTIONS FILE...\n");
        return 2;
    }
    promql_set_features(features);
    read_exceptions(argv[first], &t);
    for (int i = first + 1; i < argc; i++)
        run_script(argv[i], &t);
    printf(
        "%splain statements: %zu of %zu passed; experimental: %zu of %zu; native histograms: %zu "
        "of %zu\n",
        features & PROMQL_DELAYED_NAMES ? DELAYED_NAMES ": " : "", t.passed[PLAIN], t.run[PLAIN],
        t.passed[EXPERIMENTAL], t.run[EXPERIMENTAL], t.passed[NATIVE], t.run[NATIVE]);
    gs_hmap_free(t.exceptions);
    return t.wrong ? 1 : 0;
}
