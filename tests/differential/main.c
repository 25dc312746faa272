// SPDX-License-Identifier: Apache-2.0
// Sends the same queries to a real Prometheus and to src/series/promql with the same samples, and
// prints all differences.
#include "differential.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>

struct ours {
    struct tsdb *db;
    struct promql_engine *engine;
};

struct when {
    int64_t start_ms, end_ms, step_ms; // step 0: instant at end
};

// --- the samples ---

static void print_sample(void *arg, const struct metrics_label *l, size_t n, int64_t t_ms, double v)
{
    (void)arg;
    char number[GS_DOUBLE_SIZE];
    printf(GS_SLICE_FMT "{", GS_SLICE_ARG(l[0].value));
    for (size_t i = 1; i < n; i++)
        printf("%s" GS_SLICE_FMT "=\"" GS_SLICE_FMT "\"", i > 1 ? "," : "", GS_SLICE_ARG(l[i].name),
               GS_SLICE_ARG(l[i].value));
    printf("} %s %lld.%03d\n", gs_format_double(v, number), (long long)(t_ms / 1000),
           (int)(t_ms % 1000));
}

static void load_sample(void *arg, const struct metrics_label *l, size_t n, int64_t t_ms, double v)
{
    struct gs_error *err = tsdb_append(arg, l, n, t_ms, v);
    if (err) {
        fprintf(stderr, "append: %s\n", gs_error_message(err));
        exit(2);
    }
}

// --- our reply, in the form of Prometheus' ---

static json_t *metric_of(const struct promql_result *r, struct tsdb_labels l)
{
    json_t *metric = json_object();
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = promql_label_at(r, l, i);
        json_object_setn_new(metric, label.name.data, label.name.len,
                             json_stringn(label.value.data, label.value.len));
    }
    return metric;
}

static json_t *pair(int64_t t_ms, double v)
{
    char text[GS_DOUBLE_SIZE];
    return json_pack("[fs]", (double)t_ms / 1000, gs_format_double(v, text));
}

static void add_row(json_t *rows, json_t *metric, json_t *values)
{
    json_array_append_new(rows, json_pack("{soso}", "metric", metric, "values", values));
}

static json_t *rows_of(const struct promql_result *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < r->n_raw; i++) {
        json_t *values = json_array();
        for (size_t k = 0; k < r->raw[i].n; k++)
            json_array_append_new(values, pair(r->raw[i].t[k], r->raw[i].v[k]));
        add_row(rows, metric_of(r, r->raw[i].labels), values);
    }
    for (size_t i = 0; i < r->matrix.n; i++) {
        json_t *values = json_array();
        for (size_t k = 0; k < r->matrix.n_steps; k++)
            if (!promql_absent(r->matrix.series[i].v[k]))
                json_array_append_new(
                    values, pair(r->start_ms + (int64_t)k * r->step_ms, r->matrix.series[i].v[k]));
        if (json_array_size(values))
            add_row(rows, metric_of(r, r->matrix.series[i].labels), values);
        else
            json_decref(values);
    }
    return rows;
}

static json_t *numbers(const uint64_t *v, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(all, json_integer((json_int_t)v[i]));
    return all;
}

static json_t *statistics_of(const struct promql_result *r)
{
    const struct promql_statistics *s = r->statistics;
    return json_pack("{sIsIsoso}", "used", (json_int_t)s->used, "read", (json_int_t)s->read,
                     "used_at", numbers(s->used_at, r->n_steps), "read_at",
                     numbers(s->read_at, r->n_steps));
}

// Rows, a string, or {"error": text}. *ret_statistics: NULL without them.
static json_t *ask_us(struct ours *o, const char *query, struct when w, json_t **ret_statistics)
{
    *ret_statistics = NULL;
    promql_engine_set_statistics(o->engine, true);
    struct promql_expr *x = NULL;
    struct promql_result r = {0};
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(query), &x);
    if (!err)
        err = w.step_ms ? promql_range(o->engine, x, w.start_ms, w.end_ms, w.step_ms, &r)
                        : promql_instant(o->engine, x, w.end_ms, &r);
    json_t *reply = err ? json_pack("{ss}", "error", gs_error_message(err))
                    : r.type == PROMQL_RESULT_STRING ? json_stringn(r.string.data, r.string.len)
                                                     : rows_of(&r);
    if (!err)
        *ret_statistics = statistics_of(&r);
    if (!err)
        promql_result_finish(&r);
    promql_expr_free(x);
    return reply;
}

// --- the peer's ---

static json_t *error_of(json_t *reply)
{
    const char *text = json_string_value(json_object_get(reply, "error"));
    static const char prefix[] = "invalid parameter \"query\": ";
    if (text && strncmp(text, prefix, sizeof(prefix) - 1) == 0)
        text += sizeof(prefix) - 1;
    return text ? json_pack("{ss}", "error", text) : NULL;
}

static json_t *normal(json_t *data)
{
    const char *type = json_string_value(json_object_get(data, "resultType"));
    json_t *result = json_object_get(data, "result");
    if (strcmp(type, "string") == 0)
        return json_incref(json_array_get(result, 1));
    json_t *rows = json_array();
    if (strcmp(type, "scalar") == 0) {
        add_row(rows, json_object(), json_pack("[O]", result));
        return rows;
    }
    size_t i;
    json_t *row;
    json_array_foreach (result, i, row) {
        json_t *values = json_object_get(row, "values");
        json_t *one = json_object_get(row, "value");
        add_row(rows, json_incref(json_object_get(row, "metric")),
                values ? json_incref(values) : json_pack("[O]", one));
    }
    return rows;
}

static json_t *second_numbers(const json_t *points)
{
    json_t *all = json_array(), *point;
    size_t i;
    json_array_foreach (points, i, point)
        json_array_append(all, json_array_get(point, 1));
    return all;
}

// NULL: the peer does not count by steps.
static json_t *statistics_of_peer(const json_t *data)
{
    const json_t *s = json_object_get(json_object_get(data, "stats"), "samples");
    const json_t *used = json_object_get(s, "totalQueryableSamplesPerStep");
    const json_t *read = json_object_get(s, "samplesReadPerStep");
    if (!read)
        return NULL;
    return json_pack("{sOsOsoso}", "used", json_object_get(s, "totalQueryableSamples"), "read",
                     json_object_get(s, "samplesRead"), "used_at", second_numbers(used), "read_at",
                     second_numbers(read));
}

static json_t *ask_peer(int port, const char *query, struct when w, json_t **ret_statistics)
{
    *ret_statistics = NULL;
    GS_AUTO_BUF struct gs_buf form = {0};
    char number[32];
    peer_form(&form, "query", query);
    peer_form(&form, "stats", "all");
    snprintf(number, sizeof(number), "%.3f", (double)w.end_ms / 1000);
    peer_form(&form, w.step_ms ? "end" : "time", number);
    if (w.step_ms) {
        snprintf(number, sizeof(number), "%.3f", (double)w.start_ms / 1000);
        peer_form(&form, "start", number);
        snprintf(number, sizeof(number), "%.3f", (double)w.step_ms / 1000);
        peer_form(&form, "step", number);
    }
    json_t *reply = peer_post(port, w.step_ms ? "/api/v1/query_range" : "/api/v1/query", form.data);
    json_t *ret = error_of(reply);
    if (!ret) {
        ret = normal(json_object_get(reply, "data"));
        *ret_statistics = statistics_of_peer(json_object_get(reply, "data"));
    }
    json_decref(reply);
    return ret;
}

// --- comparison ---

static bool near(const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return true;
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (*end_a || *end_b || !isfinite(x) || !isfinite(y))
        return false;
    return fabs(x - y) <= 1e-12 * fmax(fabs(x), fabs(y)) || (fabs(x) < 1e-9 && fabs(y) < 1e-9);
}

static bool same_values(json_t *a, json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++) {
        json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        if (fabs(json_number_value(json_array_get(x, 0)) -
                 json_number_value(json_array_get(y, 0))) > 0.0005 ||
            !near(json_string_value(json_array_get(x, 1)), json_string_value(json_array_get(y, 1))))
            return false;
    }
    return true;
}

static json_t *by_metric(json_t *rows)
{
    json_t *map = json_object();
    size_t i;
    json_t *row;
    json_array_foreach (rows, i, row) {
        GS_AUTO_FREE char *key =
            json_dumps(json_object_get(row, "metric"), JSON_SORT_KEYS | JSON_COMPACT);
        json_object_set(map, key, json_object_get(row, "values"));
    }
    return map;
}

// Error texts may name either of several series, so they are compared up to the first brace.
static bool same_error(json_t *a, json_t *b)
{
    const char *x = json_string_value(json_object_get(a, "error"));
    const char *y = json_string_value(json_object_get(b, "error"));
    if (!x || !y)
        return false;
    size_t n = strcspn(x, "{");
    if (strstr(x, "parse error"))
        return strcmp(x, y) == 0;
    return n == strcspn(y, "{") && strncmp(x, y, n) == 0;
}

static bool same(json_t *a, json_t *b)
{
    if (json_is_object(a) || json_is_object(b))
        return same_error(a, b);
    if (json_is_string(a) || json_is_string(b))
        return json_equal(a, b);
    if (json_array_size(a) != json_array_size(b))
        return false;
    json_t *x = by_metric(a), *y = by_metric(b);
    bool ok =
        json_object_size(x) == json_array_size(a) && json_object_size(x) == json_object_size(y);
    const char *key;
    json_t *values;
    json_object_foreach (x, key, values)
        ok = ok && same_values(values, json_object_get(y, key));
    json_decref(x);
    json_decref(y);
    return ok;
}

static const struct when whens[] = {
    {0, DATA_START_MS + 40 * 60 * 1000 + 137, 0},
    {0, DATA_START_MS + 73 * 60 * 1000 + 9137, 0},
    {DATA_START_MS + 20 * 60 * 1000 + 3137, DATA_START_MS + 60 * 60 * 1000 + 137, 47000},
    {DATA_START_MS - 60 * 1000 + 137, DATA_END_MS + 8 * 60 * 1000, 613000},
    // At samples of the first pods: version 2 differs in the limits of ranges and look-back.
    {0, DATA_START_MS + 50 * 60 * 1000 + 411, 0},
    {DATA_START_MS + 30 * 60 * 1000 + 2111, DATA_START_MS + 50 * 60 * 1000 + 2111, 30000},
};

enum { INSTANTS = 2, WHENS_OF_2 = 4, WHENS = sizeof(whens) / sizeof(whens[0]) };

// Returns whether they differ, and prints them then.
static bool differ(const char *query, size_t at, bool ok, const json_t *got, const json_t *want)
{
    if (ok)
        return false;
    GS_AUTO_FREE char *g = json_dumps(got, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    GS_AUTO_FREE char *w = json_dumps(want, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    printf("DIFFERS (%zu): %s\n  got  %.600s\n  want %.600s\n", at, query, g, w);
    return true;
}

static int compare(struct ours *o, int port, const char *query, size_t n_whens)
{
    int wrong = 0;
    for (size_t i = 0; i < n_whens; i++) {
        json_t *our_statistics, *statistics;
        json_t *got = ask_us(o, query, whens[i], &our_statistics);
        json_t *want = ask_peer(port, query, whens[i], &statistics);
        if (differ(query, i, same(got, want), got, want))
            wrong = 1;
        if (our_statistics && statistics &&
            differ(query, i, json_equal(our_statistics, statistics), our_statistics, statistics))
            wrong = 1;
        json_decref(our_statistics);
        json_decref(statistics);
        json_decref(got);
        json_decref(want);
    }
    return wrong;
}

// Compares the error, or the one-line and the pretty format.
static int compare_format(int port, const char *query)
{
    struct promql_expr *x;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(query), &x);
    GS_AUTO_BUF struct gs_buf got = {0};
    GS_AUTO_BUF struct gs_buf form = {0};
    if (err) {
        gs_buf_add_str(&got, gs_error_message(err));
    } else {
        promql_print_pretty(promql_expr_root(x), &got);
        promql_expr_free(x);
    }
    peer_form(&form, "query", query);
    json_t *reply = peer_post(port, "/api/v1/format_query", form.data);
    json_t *error = error_of(reply);
    const char *want =
        json_string_value(error ? json_object_get(error, "error") : json_object_get(reply, "data"));
    bool ok = gs_slice_eq_str(gs_buf_slice(&got), want);
    if (!ok)
        printf("DIFFERS: %s\n--- got\n%s\n--- want\n%s\n", query, got.data ? got.data : "", want);
    json_decref(error);
    json_decref(reply);
    return !ok;
}

// --- verbs ---

// Lines of the file; # starts a comment, "3: " a query that only Prometheus 3 knows.
static int each_line(const char *path, bool three, int (*fn)(void *arg, const char *line),
                     void *arg)
{
    FILE *f = fopen(path, "r");
    char line[8192];
    int n = 0, wrong = 0;
    if (!f) {
        perror(path);
        return 1;
    }
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        bool only_three = strncmp(line, "3: ", 3) == 0;
        if (!*line || *line == '#' || (only_three && !three))
            continue;
        wrong += fn(arg, only_three ? line + 3 : line);
        n++;
    }
    fclose(f);
    printf("%s: %d queries, %d differ\n", path, n, wrong);
    return wrong || !n;
}

struct context {
    struct ours o;
    int port;
    size_t n_whens;
};

static int line_query(void *arg, const char *line)
{
    struct context *c = arg;
    return compare(&c->o, c->port, line, c->n_whens);
}

static int line_format(void *arg, const char *line)
{
    return compare_format(((struct context *)arg)->port, line);
}

// Prometheus 2.42 has other rules: extrapolation to zero, deviations of infinities, k out of
// bounds, less exact means.
static bool changed_in_3(const char *query)
{
    static const char *const words[] = {"rate(", "increase(", "stddev",       "stdvar",
                                        "topk",  "bottomk",   "avg_over_time"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(query, words[i]))
            return true;
    return false;
}

// Prometheus sets the time of @ only for the first step and moves it with the steps, if the
// argument beside a range, or the parameter of an aggregation, is evaluated for each step.
static bool moves_with_steps(const char *query)
{
    static const char *const words[] = {"predict_linear(", "quantile", "topk", "bottomk"};
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (strchr(query, '@') && strstr(query, words[i]))
            return true;
    return false;
}

// Queries that turn last digits into first digits or labels: of means (before version 3 also of
// groups, because version 3 adds more exactly) and their remainders, and of deviations of large
// numbers, whose order is undefined in Prometheus.
static bool magnifies(const char *query, bool three)
{
    bool deviation = strstr(query, "stddev") || strstr(query, "stdvar");
    bool shows = strstr(query, " % ") || strstr(query, "count_values");
    if (!three && strstr(query, "count_values") && strstr(query, "avg"))
        return true;
    return (shows && (deviation || strstr(query, "_over_time"))) ||
           (deviation && strstr(query, "time()"));
}

// Version 2 has no number for a quantile beside an infinity, and other last digits of degrees.
static bool has_other_numbers(const char *query)
{
    if (strstr(query, "deg(") || strstr(query, "rad("))
        return true;
    return strstr(query, "quantile") && (strstr(query, "special") || strstr(query, "_over_time"));
}

static int random_queries(struct context *c, uint64_t seed, int n, bool three)
{
    int wrong = 0, left_out = 0;
    for (int i = 0; i < n; i++) {
        GS_AUTO_BUF struct gs_buf query = {0};
        random_query(seed + (uint64_t)i, &query);
        // Before version 3, labels had to differ at each step; now they must differ over all steps.
        bool instants = moves_with_steps(query.data) || (!three && strstr(query.data, "label_"));
        const char *colon = strchr(query.data, ':');
        bool subquery = colon != NULL;
        // The steps of a nested subquery are at the start of its range, which version 2 includes.
        bool nested = subquery && strchr(colon + 1, ':');
        if ((!three && nested) ||
            (!three && (changed_in_3(query.data) || has_other_numbers(query.data))) ||
            (instants && subquery) || magnifies(query.data, three)) {
            left_out++;
            continue;
        }
        int differs = compare(&c->o, c->port, query.data, instants ? INSTANTS : c->n_whens);
        if (differs)
            printf("  seed %llu\n", (unsigned long long)seed + (unsigned long long)i);
        wrong += differs;
    }
    printf("random: %d queries from seed %llu, %d left out, %d differ\n", n,
           (unsigned long long)seed, left_out, wrong);
    return wrong != 0;
}

static int run(struct context *c, int argc, char **argv)
{
    bool random = argc > 1 && strcmp(argv[1], "random") == 0;
    bool three = argc > 4 + random && strcmp(argv[4 + random], "3") == 0;
    c->n_whens = three ? WHENS : WHENS_OF_2;
    if (argc > 3 && strcmp(argv[1], "queries") == 0)
        return each_line(argv[3], three, line_query, c);
    if (argc > 3 && strcmp(argv[1], "format") == 0)
        return each_line(argv[3], three, line_format, c);
    if (argc > 4 && random)
        return random_queries(c, strtoull(argv[3], NULL, 10), atoi(argv[4]), three);
    fprintf(stderr,
            "usage: %s data | queries PORT FILE [3] | format PORT FILE [3] | random PORT "
            "SEED COUNT [3]\n",
            argv[0]);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "data") == 0) {
        data_each(print_sample, NULL);
        puts("# EOF");
        return 0;
    }
    const struct tsdb_config cfg = {.retention_ms = INT64_C(100) * 24 * 3600 * 1000};
    struct context c = {.port = argc > 2 ? atoi(argv[2]) : 0};
    c.o.db = tsdb_new(&cfg);
    c.o.engine = promql_engine_new(c.o.db, NULL);
    data_each(load_sample, c.o.db);
    int ret = run(&c, argc, argv);
    promql_engine_free(c.o.engine);
    tsdb_free(c.o.db);
    return ret;
}
