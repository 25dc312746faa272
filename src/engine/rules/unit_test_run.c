// SPDX-License-Identifier: Apache-2.0
// Runs a test like promtool. Each evaluation stores the samples up to its time, evaluates the
// groups in order, and compares the alerts whose time is within the step. The expressions are
// evaluated at the end.
#include "engine/rules/unit_test_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "promql/series.h"

#include <math.h>

struct input {
    const struct metrics_label *labels;
    size_t n_labels;
    struct promql_values values;
    struct promql_values_reader reader;
    uint64_t next; // index of the next value
    const char *where;
};

struct run {
    const struct rules_test_file *file;
    const struct rules_test_group *test;
    const struct rules_tests_options *options;
    struct codec_test_case *result;
    struct gs_arena arena;
    struct tsdb *db;
    struct rules_runner_config cfg;
    struct input *inputs;
    size_t n_inputs;
    struct rules_runner **runners;
    size_t n_runners;
};

// --- input series ---

// Parses `name{a="b"}` or an empty text to label sets in the arena.
static struct gs_error *parse_labels(struct gs_arena *arena, const char *text,
                                     struct metrics_label **ret, size_t *ret_n)
{
    struct promql_expr *x = NULL;
    if (!gs_slice_trim(gs_slice_of(text)).len) {
        *ret_n = 0;
        return NULL;
    }
    struct gs_error *err = promql_parse_metric(gs_slice_of(text), &x);
    if (err)
        return err;
    const struct promql_node *n = promql_expr_root(x);
    size_t n_labels = n->u.selector.n_matchers;
    struct metrics_label *items = gs_arena_alloc(arena, (n_labels + 1) * sizeof(*items));
    for (size_t i = 0; i < n_labels; i++) {
        struct gs_slice name = n->u.selector.matchers[i].name;
        struct gs_slice value = n->u.selector.matchers[i].value;
        items[i] = (struct metrics_label){
            {gs_arena_strndup(arena, name.data, name.len), name.len},
            {gs_arena_strndup(arena, value.data ? value.data : "", value.len), value.len}};
    }
    promql_expr_free(x);
    rules_sort_labels(items, n_labels);
    *ret = items;
    *ret_n = n_labels;
    return NULL;
}

static int compare_label_sets(const struct metrics_label *a, size_t n_a,
                              const struct metrics_label *b, size_t n_b)
{
    for (size_t i = 0; i < n_a && i < n_b; i++) {
        const struct gs_slice sides[][2] = {{a[i].name, b[i].name}, {a[i].value, b[i].value}};
        for (size_t k = 0; k < 2; k++) {
            struct gs_slice x = sides[k][0], y = sides[k][1];
            size_t n = x.len < y.len ? x.len : y.len;
            int c = n ? memcmp(x.data, y.data, n) : 0;
            if (c || x.len != y.len)
                return c ? c : x.len > y.len ? 1 : -1;
        }
    }
    return (n_a > n_b) - (n_a < n_b);
}

// As in promtool, the last of several definitions of a series is used.
static void add_input(struct run *r, const struct input *in)
{
    for (size_t i = 0; i < r->n_inputs; i++)
        if (compare_label_sets(r->inputs[i].labels, r->inputs[i].n_labels, in->labels,
                               in->n_labels) == 0) {
            r->inputs[i] = *in;
            return;
        }
    r->inputs[r->n_inputs++] = *in;
}

static bool read_inputs(struct run *r)
{
    const struct rules_test_group *t = r->test;
    r->inputs = gs_alloc_array(t->n_series + 1, sizeof(*r->inputs));
    for (size_t i = 0; i < t->n_series; i++) {
        struct input in = {.where = t->series[i].where};
        struct metrics_label *labels = NULL;
        GS_AUTO_ERROR struct gs_error *err =
            parse_labels(&r->arena, t->series[i].series, &labels, &in.n_labels);
        in.labels = labels;
        if (!err && !in.n_labels)
            err = gs_error_new(GS_EINVAL, "a series needs a name or a label");
        if (err) {
            rules_test_fail(r->result, "    %s: series \"%s\": %s", t->series[i].where,
                            t->series[i].series, gs_error_message(err));
            return false;
        }
        err = promql_parse_values(gs_slice_of(t->series[i].values), &r->arena, &in.values);
        if (err) {
            rules_test_fail(r->result, "    %s: values of \"%s\": %s", t->series[i].where,
                            t->series[i].series, gs_error_message(err));
            return false;
        }
        add_input(r, &in);
    }
    for (size_t i = 0; i < r->n_inputs; i++)
        r->inputs[i].reader.values = &r->inputs[i].values;
    return true;
}

// Stores the samples from the start until t_ms after it.
static bool store_until(struct run *r, int64_t t_ms)
{
    uint64_t n = (uint64_t)(t_ms / r->test->interval_ms) + 1;
    for (size_t i = 0; i < r->n_inputs; i++) {
        struct input *in = &r->inputs[i];
        double v;
        bool omitted;
        while (in->next < n && promql_values_next(&in->reader, &v, &omitted)) {
            int64_t at = r->test->start_ms + (int64_t)in->next++ * r->test->interval_ms;
            GS_AUTO_ERROR struct gs_error *err =
                omitted ? NULL : tsdb_append(r->db, in->labels, in->n_labels, at, v);
            if (err) {
                rules_test_fail(r->result, "    %s: %s", in->where, gs_error_message(err));
                return false;
            }
        }
    }
    return true;
}

// --- rules ---

static bool evaluate_groups(struct run *r, int64_t t_ms)
{
    char time[GS_RFC3339_SIZE];
    bool ok = true;
    for (size_t g = 0; g < r->n_runners; g++) {
        struct rules_runner *runner = r->runners[g];
        rules_runner_eval(runner, r->test->start_ms + t_ms);
        for (size_t i = 0; i < runner->group->n_rules; i++) {
            if (!runner->rules[i].last_error)
                continue;
            rules_test_fail(r->result, "    rule: %s, time: %s, err: %s",
                            runner->rules[i].rule->name, gs_format_units(t_ms * GS_NS_PER_MS, time),
                            runner->rules[i].last_error);
            ok = false;
        }
    }
    return ok;
}

struct collected {
    const char *name;
    struct rules_test_alert *items;
    size_t n, cap;
};

static void collect_alert(void *arg, const struct rules_alert *a)
{
    struct collected *c = arg;
    if (a->state != RULES_ALERT_FIRING || !gs_streq(a->rule->name, c->name))
        return;
    gs_grow(&c->items, &c->cap, c->n, sizeof(*c->items));
    c->items[c->n++] =
        (struct rules_test_alert){a->labels, a->annotations, a->n_labels, a->n_annotations};
}

static int by_labels(const void *a, const void *b)
{
    const struct rules_test_alert *x = a, *y = b;
    int c = compare_label_sets(x->labels, x->n_labels, y->labels, y->n_labels);
    return c ? c
             : compare_label_sets(x->annotations, x->n_annotations, y->annotations,
                                  y->n_annotations);
}

// The expected alerts with the label alertname, which the file omits.
static struct rules_test_alert *wanted_alerts(struct run *r, const struct rules_test_alerts *x)
{
    struct rules_test_alert *wanted =
        gs_arena_alloc(&r->arena, (x->n_alerts + 1) * sizeof(*wanted));
    for (size_t i = 0; i < x->n_alerts; i++) {
        const struct rules_test_alert *a = &x->alerts[i];
        struct metrics_label *labels =
            gs_arena_alloc(&r->arena, (a->n_labels + 1) * sizeof(*labels));
        size_t n = 0;
        for (; n < a->n_labels; n++)
            labels[n] = a->labels[n];
        rules_set_label(labels, &n, GS_SLICE("alertname"), gs_slice_of(x->name));
        rules_sort_labels(labels, n);
        wanted[i] = (struct rules_test_alert){labels, a->annotations, n, a->n_annotations};
    }
    if (x->n_alerts)
        qsort(wanted, x->n_alerts, sizeof(*wanted), by_labels);
    return wanted;
}

static void compare_alerts(struct run *r, const struct rules_test_alerts *x)
{
    struct collected got = {.name = x->name};
    for (size_t g = 0; g < r->n_runners; g++)
        rules_runner_alerts(r->runners[g], collect_alert, &got);
    if (got.n)
        qsort(got.items, got.n, sizeof(*got.items), by_labels);
    struct rules_test_alert *wanted = wanted_alerts(r, x);
    bool same = got.n == x->n_alerts;
    for (size_t i = 0; same && i < got.n; i++)
        same = by_labels(&got.items[i], &wanted[i]) == 0;
    if (!same)
        rules_test_alerts_differ(r->result, r->options, x, wanted, x->n_alerts, got.items, got.n);
    free(got.items);
}

// --- expressions ---

static int sample_by_labels(const void *a, const void *b)
{
    const struct rules_sample *x = a, *y = b;
    return compare_label_sets(x->labels, x->n_labels, y->labels, y->n_labels);
}

static bool same_value(const struct run *r, double a, double b)
{
    return a == b ||
           (r->file->fuzzy && (nextafter(a, -INFINITY) == b || nextafter(a, INFINITY) == b));
}

static struct gs_error *wanted_samples(struct run *r, const struct rules_test_expr *x,
                                       struct rules_sample **ret)
{
    struct rules_sample *items = gs_arena_alloc(&r->arena, (x->n_samples + 1) * sizeof(*items));
    if (!items)
        return gs_error_new(GS_ELIMIT, "too much memory");
    for (size_t i = 0; i < x->n_samples; i++) {
        const struct rules_test_sample *s = &x->samples[i];
        struct gs_error *err =
            parse_labels(&r->arena, s->labels, &items[i].labels, &items[i].n_labels);
        if (!err && *s->histogram)
            err = gs_error_new(GS_ENOTSUP, "native histograms are not supported");
        if (err)
            return gs_error_wrap(err, "labels \"%s\"", s->labels);
        items[i].value = s->value;
    }
    if (x->n_samples)
        qsort(items, x->n_samples, sizeof(*items), sample_by_labels);
    *ret = items;
    return NULL;
}

static struct gs_error *query_at(struct run *r, const struct rules_test_expr *x,
                                 struct rules_sample **ret, size_t *ret_n)
{
    struct promql_expr *expr = NULL;
    struct gs_error *err = promql_parse(gs_slice_of(x->expr), &expr);
    if (!err)
        err = rules_query(&r->cfg, expr, r->test->start_ms + x->eval_ms, &r->arena, ret, ret_n);
    promql_expr_free(expr);
    return err;
}

static void compare_expr(struct run *r, const struct rules_test_expr *x)
{
    struct rules_sample *got = NULL, *wanted = NULL;
    size_t n = 0;
    char time[GS_RFC3339_SIZE];
    GS_AUTO_ERROR struct gs_error *err = query_at(r, x, &got, &n);
    if (!err)
        err = wanted_samples(r, x, &wanted);
    if (err) {
        rules_test_fail(r->result, "    %s: expr: \"%s\", time: %s, err: %s", x->where, x->expr,
                        gs_format_units(x->eval_ms * GS_NS_PER_MS, time), gs_error_message(err));
        return;
    }
    if (n)
        qsort(got, n, sizeof(*got), sample_by_labels);
    bool same = n == x->n_samples;
    for (size_t i = 0; same && i < n; i++)
        same = sample_by_labels(&got[i], &wanted[i]) == 0 &&
               same_value(r, wanted[i].value, got[i].value);
    if (!same)
        rules_test_samples_differ(r->result, r->options, x, wanted, x->n_samples, got, n);
}

// --- debugging ---

static int64_t last_eval(const struct rules_test_group *t)
{
    int64_t max = 0;
    for (size_t i = 0; i < t->n_alerts; i++)
        max = t->alerts[i].eval_ms > max ? t->alerts[i].eval_ms : max;
    for (size_t i = 0; i < t->n_exprs; i++)
        max = t->exprs[i].eval_ms > max ? t->exprs[i].eval_ms : max;
    return max;
}

// All samples of the test, in the format of promtool.
static void print_debug_samples(struct run *r)
{
    const struct rules_test_group *t = r->test;
    int64_t seconds = last_eval(t) / 1000 + 1;
    GS_AUTO_FREE char *text = gs_format("{__name__=~\".+\"}[%llds]", (long long)seconds);
    struct promql_expr *expr = NULL;
    struct promql_result result = {0};
    char took[GS_RFC3339_SIZE];
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(text), &expr);
    if (!err)
        err = promql_instant(r->cfg.engine, expr, t->start_ms + seconds * 1000, &result);
    if (err) {
        fprintf(stderr, "DEBUG: Failed query exec, expr: \"%s\", err: %s\n", text,
                gs_error_message(err));
    } else {
        fprintf(stderr, "DEBUG: Dump of all data (input_series and rules) at %s:\n",
                gs_format_duration(seconds * GS_NS_PER_SEC, took));
        rules_test_print_series(&result, stderr);
        promql_result_finish(&result);
    }
    promql_expr_free(expr);
}

// --- the whole ---

static bool alerts_have_names(struct run *r)
{
    for (size_t i = 0; i < r->test->n_alerts; i++)
        if (!*r->test->alerts[i].name) {
            rules_test_fail(
                r->result,
                "    %s: an item under alert_rule_test misses required attribute alertname",
                r->test->alerts[i].where);
            return false;
        }
    return true;
}

static bool run_steps(struct run *r)
{
    const struct rules_test_group *t = r->test;
    int64_t step = r->file->interval_ms, end = last_eval(t);
    for (int64_t at = 0; at <= end; at += step) {
        if (!store_until(r, at) || !evaluate_groups(r, at))
            return false;
        for (size_t i = 0; i < t->n_alerts; i++)
            if (t->alerts[i].eval_ms >= at && t->alerts[i].eval_ms - at < step)
                compare_alerts(r, &t->alerts[i]);
    }
    return true;
}

static void begin_test(struct run *r, const struct rules_test_rules *rules)
{
    const struct tsdb_config store = {.retention_ms = INT64_MAX / 2};
    const struct promql_config limits = {.default_step_ms = r->file->interval_ms};
    r->db = tsdb_new(&store);
    r->cfg = (struct rules_runner_config){
        .db = r->db,
        .engine = promql_engine_new(r->db, &limits),
        .external_labels = r->test->external_labels,
        .n_external_labels = r->test->n_external_labels,
        .external_url = r->test->external_url,
    };
    r->runners = gs_alloc_array(rules->n + 1, sizeof(*r->runners));
    for (size_t i = 0; i < rules->n; i++)
        r->runners[r->n_runners++] =
            rules_runner_new(&r->cfg, rules->groups[i], r->test->interval_ms);
}

static void end_test(struct run *r)
{
    for (size_t i = 0; i < r->n_runners; i++)
        rules_runner_free(r->runners[i]);
    free(r->runners);
    free(r->inputs);
    promql_engine_free(r->cfg.engine);
    tsdb_free(r->db);
    gs_arena_finish(&r->arena);
}

void rules_test_group_run(const struct rules_test_file *f, const struct rules_test_group *g,
                          const struct rules_test_rules *rules, const struct rules_tests_options *o,
                          struct codec_test_case *ret)
{
    struct run r = {.file = f, .test = g, .options = o, .result = ret};
    char took[GS_RFC3339_SIZE];
    int64_t started = gs_mono_ns();
    if (o->debug)
        fprintf(stderr, "DEBUG: Starting test %s\n", ret->name);
    begin_test(&r, rules);
    if (alerts_have_names(&r) && read_inputs(&r) && run_steps(&r)) {
        for (size_t i = 0; i < g->n_exprs; i++)
            compare_expr(&r, &g->exprs[i]);
        if (o->debug)
            print_debug_samples(&r);
    }
    end_test(&r);
    if (o->debug)
        fprintf(stderr, "DEBUG: Test %s finished, took %s\n", ret->name,
                gs_format_duration(gs_mono_ns() - started, took));
}
