// SPDX-License-Identifier: Apache-2.0
// `check metrics`: the recommendations of Prometheus for names of metrics and labels, with the
// texts of promtool. https://prometheus.io/docs/practices/naming/
#include "base/table.h"
#include "engine/check.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "metrics/reader.h"
#include "net/web_config/web_config.h"
#include "recognize/recognize.h"

#include <ctype.h>

#define MAX_EXPOSITION ((size_t)64 << 20)

struct family {
    char *name;
    enum metrics_type type;
    bool has_help, has_type, sampled;
    bool split;           // other metrics are between its lines
    struct gs_hmap *seen; // label sets without le and quantile of their kind
    // Of histograms and summaries: buckets or quantiles of the first label set.
    char *first;
    size_t n_lines, n_repeated;
};

struct problem {
    char *metric;
    const char *text; // static, or
    char *own_text;   // of this problem
};

struct lint {
    struct gs_hmap *families; // name -> struct family
    struct problem *problems;
    size_t n, cap;
    const char *failure; // the beginning of errors
    bool all_errors;     // report each error, not only the first one
    size_t n_errors, n_samples;
    const struct family *last; // of the last sample
};

static void family_free(void *p)
{
    struct family *f = p;
    gs_hmap_free(f->seen);
    free(f->first);
    free(f->name);
    free(f);
}

static struct family *family_of(struct lint *l, struct gs_slice name)
{
    struct family *f = gs_hmap_get(l->families, name);
    if (f)
        return f;
    f = gs_alloc(sizeof(*f));
    f->name = gs_slice_dup(name);
    f->seen = gs_hmap_new(NULL);
    gs_hmap_put(l->families, name, f);
    return f;
}

// A client library of Go cannot read such a text.
static void report_second(struct lint *l, const struct metrics_metadata *m, const char *line,
                          const char *more)
{
    if (l->n_errors++ && !l->all_errors)
        return;
    fprintf(stderr,
            "%s: text format parsing error in line %zu: second %s line for metric name "
            "\"" GS_SLICE_FMT "\"%s\n",
            l->failure, m->number, line, GS_SLICE_ARG(m->family), more);
}

static void on_metadata(void *arg, const struct metrics_metadata *m)
{
    struct family *f = family_of(arg, m->family);
    if (m->help.data && f->has_help)
        report_second(arg, m, "HELP", "");
    if (m->type_name && (f->has_type || f->sampled))
        report_second(arg, m, "TYPE", ", or TYPE reported after samples");
    f->has_help = f->has_help || m->help.data;
    f->has_type = f->has_type || m->type_name;
    if (m->type_name)
        f->type = m->type;
}

// own_text: allocated, or NULL.
static void add_problem(struct lint *l, const char *metric, const char *text, char *own_text)
{
    gs_grow(&l->problems, &l->cap, l->n, sizeof(*l->problems));
    l->problems[l->n++] = (struct problem){gs_strdup(metric), own_text ? own_text : text, own_text};
}

// --- samples ---

static bool has_lines_of(enum metrics_type t)
{
    return t == METRICS_HISTOGRAM || t == METRICS_SUMMARY;
}

// The family of a line: name_bucket belongs to the histogram name.
static struct family *family_of_sample(struct lint *l, struct gs_slice name)
{
    static const char *const suffixes[] = {"_bucket", "_count", "_sum"};
    struct family *f = gs_hmap_get(l->families, name);
    for (size_t i = 0; !f && i < GS_ARRAY_LEN(suffixes); i++) {
        if (!gs_slice_ends(name, suffixes[i]))
            continue;
        f = gs_hmap_get(l->families, gs_slice_make(name.data, name.len - strlen(suffixes[i])));
        if (f && !has_lines_of(f->type))
            f = NULL;
    }
    return f ? f : family_of(l, name);
}

static bool is_camel_case(const char *name, size_t len)
{
    for (size_t i = 1; i < len; i++)
        if (islower((unsigned char)name[i - 1]) && isupper((unsigned char)name[i]))
            return true;
    return false;
}

static void check_label(struct lint *l, const struct family *f, struct gs_slice name)
{
    bool typed = f->type != METRICS_UNTYPED;
    if (is_camel_case(name.data, name.len))
        add_problem(l, f->name, "label names should be written in 'snake_case' not 'camelCase'",
                    NULL);
    if (typed && f->type != METRICS_HISTOGRAM && gs_slice_eq_str(name, "le"))
        add_problem(l, f->name, "non-histogram metrics should not have \"le\" label", NULL);
    if (typed && f->type != METRICS_SUMMARY && gs_slice_eq_str(name, "quantile"))
        add_problem(l, f->name, "non-summary metrics should not have \"quantile\" label", NULL);
}

// Whether the label only tells lines of one histogram or summary apart.
static bool is_of_line(const struct family *f, struct gs_slice name)
{
    return (f->type == METRICS_HISTOGRAM && gs_slice_eq_str(name, "le")) ||
           (f->type == METRICS_SUMMARY && gs_slice_eq_str(name, "quantile"));
}

// As promtool, all label sets of a histogram are assumed to have the buckets of the first one.
static void count_line(struct family *f, struct gs_slice key, const struct metrics_label *labels,
                       size_t n)
{
    if (!f->first)
        f->first = gs_slice_dup(key);
    if (!gs_slice_eq_str(key, f->first))
        return;
    for (size_t i = 1; i < n; i++)
        f->n_lines += is_of_line(f, labels[i].name);
}

// labels: __name__ first.
static void check_sample(void *arg, const struct metrics_line *line,
                         const struct metrics_label *labels, size_t n)
{
    struct lint *l = arg;
    struct family *f = family_of_sample(l, labels[0].value);
    GS_AUTO_BUF struct gs_buf key = {0};
    f->split = f->split || (f->sampled && l->last != f);
    f->sampled = true;
    l->last = f;
    l->n_samples++;
    gs_buf_add_char(&key, '{');
    for (size_t i = 1; i < n; i++)
        if (!is_of_line(f, labels[i].name))
            gs_buf_addf(&key, "%zu:" GS_SLICE_FMT "%zu:" GS_SLICE_FMT, labels[i].name.len,
                        GS_SLICE_ARG(labels[i].name), labels[i].value.len,
                        GS_SLICE_ARG(labels[i].value));
    count_line(f, gs_buf_slice(&key), labels, n);
    if (gs_hmap_get(f->seen, gs_buf_slice(&key))) {
        f->n_repeated++;
        if (!has_lines_of(f->type))
            add_problem(l, f->name, "metric not unique", NULL);
        return;
    }
    gs_hmap_put(f->seen, gs_buf_slice(&key), f);
    for (size_t i = 1; i < n; i++)
        if (!is_of_line(f, labels[i].name))
            check_label(l, f, labels[i].name);
}

// --- names of families ---

// The base unit of a word such as "milliseconds"; NULL: it is not a unit.
static const char *base_unit(const char *word)
{
    static const char *const units[][2] = {
        {"amperes", "amperes"},    {"bytes", "bytes"},     {"celsius", "celsius"},
        {"grams", "grams"},        {"joules", "joules"},   {"kelvin", "kelvin"},
        {"meters", "meters"},      {"metres", "metres"},   {"seconds", "seconds"},
        {"volts", "volts"},        {"minutes", "seconds"}, {"hours", "seconds"},
        {"days", "seconds"},       {"weeks", "seconds"},   {"kelvins", "kelvin"},
        {"fahrenheit", "celsius"}, {"rankine", "celsius"}, {"inches", "meters"},
        {"yards", "meters"},       {"miles", "meters"},    {"bits", "bytes"},
        {"calories", "joules"},    {"pounds", "grams"},    {"ounces", "grams"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++)
        if (gs_streq(word, units[i][0]))
            return units[i][1];
    return NULL;
}

static const char *base_of_word(const char *word)
{
    static const char *const prefixes[] = {"pico", "nano",  "micro", "milli", "centi", "deci",
                                           "deca", "hecto", "kilo",  "kibi",  "mega",  "mebi",
                                           "giga", "gibi",  "tera",  "tebi",  "peta",  "pebi"};
    const char *base = base_unit(word);
    for (size_t i = 0; !base && i < GS_ARRAY_LEN(prefixes); i++)
        if (gs_starts(word, prefixes[i]))
            base = base_unit(word + strlen(prefixes[i]));
    return base;
}

static void check_units(struct lint *l, const struct family *f)
{
    struct gs_slice rest = gs_slice_of(f->name);
    while (rest.data) {
        GS_AUTO_FREE char *word = gs_slice_dup(gs_slice_cut(&rest, '_'));
        const char *base = base_of_word(word);
        if (!base)
            continue;
        if (!gs_streq(word, base))
            add_problem(l, f->name, NULL,
                        gs_format("use base unit \"%s\" instead of \"%s\"", base, word));
        return;
    }
}

static bool has_word(const char *lower, const char *word)
{
    GS_AUTO_FREE char *inside = gs_format("_%s_", word);
    GS_AUTO_FREE char *end = gs_format("_%s", word);
    return strstr(lower, inside) || gs_ends(lower, end);
}

static void check_words(struct lint *l, const struct family *f)
{
    static const char *const types[] = {[METRICS_UNTYPED] = "untyped",
                                        [METRICS_COUNTER] = "counter",
                                        [METRICS_GAUGE] = "gauge",
                                        [METRICS_HISTOGRAM] = "histogram",
                                        [METRICS_SUMMARY] = "summary"};
    static const char *const abbreviations[] = {"s",  "ms", "us", "ns", "sec", "b", "kb",
                                                "mb", "gb", "tb", "pb", "m",   "h", "d"};
    GS_AUTO_FREE char *lower = gs_strdup(f->name);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (f->type != METRICS_UNTYPED && has_word(lower, types[f->type]))
        add_problem(l, f->name, NULL,
                    gs_format("metric name should not include type '%s'", types[f->type]));
    for (size_t i = 0; i < GS_ARRAY_LEN(abbreviations); i++)
        if (has_word(lower, abbreviations[i]))
            add_problem(l, f->name, "metric names should not contain abbreviated units", NULL);
}

static void check_suffixes(struct lint *l, const struct family *f)
{
    bool total = gs_ends(f->name, "_total"), lines = has_lines_of(f->type);
    if (f->type == METRICS_COUNTER && !total)
        add_problem(l, f->name, "counter metrics should have \"_total\" suffix", NULL);
    if (f->type == METRICS_UNTYPED)
        return;
    if (f->type != METRICS_COUNTER && total)
        add_problem(l, f->name, "non-counter metrics should not have \"_total\" suffix", NULL);
    if (f->type != METRICS_HISTOGRAM && gs_ends(f->name, "_bucket"))
        add_problem(l, f->name, "non-histogram metrics should not have \"_bucket\" suffix", NULL);
    if (!lines && gs_ends(f->name, "_count"))
        add_problem(l, f->name,
                    "non-histogram and non-summary metrics should not have \"_count\" suffix",
                    NULL);
    if (!lines && gs_ends(f->name, "_sum"))
        add_problem(l, f->name,
                    "non-histogram and non-summary metrics should not have \"_sum\" suffix", NULL);
}

static void check_family(struct lint *l, const struct family *f)
{
    if (!f->sampled)
        return;
    if (!f->has_help)
        add_problem(l, f->name, "no help text", NULL);
    if (strchr(f->name, ':'))
        add_problem(l, f->name, "metric names should not contain ':'", NULL);
    if (is_camel_case(f->name, strlen(f->name)))
        add_problem(l, f->name, "metric names should be written in 'snake_case' not 'camelCase'",
                    NULL);
    check_units(l, f);
    check_words(l, f);
    check_suffixes(l, f);
}

// --- the whole ---

static int by_metric_and_text(const void *a, const void *b)
{
    const struct problem *x = a, *y = b;
    int order = strcmp(x->metric, y->metric);
    return order ? order : strcmp(x->text, y->text);
}

static void lint_finish(struct lint *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->problems[i].metric);
        free(l->problems[i].own_text);
    }
    free(l->problems);
    gs_hmap_free(l->families);
}

// --- the number of series ---

struct cardinality {
    const char *name;
    size_t n;
};

static int by_cardinality(const void *a, const void *b)
{
    const struct cardinality *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static size_t cardinality_of(const struct family *f)
{
    size_t sets = gs_hmap_len(f->seen);
    return has_lines_of(f->type) ? sets * (2 + f->n_lines) : sets + f->n_repeated;
}

// The table of Go's tabwriter.
static void print_cardinalities(const struct lint *l)
{
    static const struct gs_table_style tabwriter = {.gap = 4, .left = SIZE_MAX, .fill = true};
    GS_AUTO_FREE struct cardinality *rows =
        gs_alloc_array(gs_hmap_len(l->families) + 1, sizeof(*rows));
    size_t n = 0, total = 0, pos = 0;
    void *item;
    while (gs_hmap_next(l->families, &pos, NULL, &item)) {
        const struct family *f = item;
        if (!f->sampled)
            continue;
        rows[n] = (struct cardinality){f->name, cardinality_of(f)};
        total += rows[n].n;
        n++;
    }
    if (n)
        qsort(rows, n, sizeof(*rows), by_cardinality);
    GS_CLEANUP(gs_table_freep) struct gs_table *t = gs_table_new(n + 2, 3);
    GS_AUTO_BUF struct gs_buf out = {0};
    if (!t)
        return;
    gs_table_add(t, "Metric");
    gs_table_add(t, "Cardinality");
    gs_table_add(t, "Percentage");
    for (size_t i = 0; i < n; i++) {
        gs_table_add(t, rows[i].name);
        gs_table_addf(t, "%zu", rows[i].n);
        gs_table_addf(t, "%.2f%%", 100.0 * (double)rows[i].n / (double)total);
    }
    gs_table_add(t, "Total");
    gs_table_addf(t, "%zu", total);
    gs_table_add(t, "100%");
    gs_table_print(t, &tabwriter, &out);
    printf("%s", out.data);
}

// A Prometheus reads such a text, but its format requires one group for each metric.
static void check_groups(struct lint *l)
{
    size_t pos = 0;
    void *item;
    while (gs_hmap_next(l->families, &pos, NULL, &item)) {
        const struct family *f = item;
        if (f->split)
            add_problem(l, f->name, "lines of other metrics are between the lines of the metric",
                        NULL);
    }
}

static size_t count_families(const struct lint *l)
{
    size_t pos = 0, n = 0;
    void *item;
    while (gs_hmap_next(l->families, &pos, NULL, &item))
        n += ((const struct family *)item)->sampled;
    return n;
}

static void print_problems(struct lint *l, bool own)
{
    size_t pos = 0;
    void *f;
    while (gs_hmap_next(l->families, &pos, NULL, &f))
        check_family(l, f);
    if (own)
        check_groups(l);
    if (l->n)
        qsort(l->problems, l->n, sizeof(*l->problems), by_metric_and_text);
    for (size_t i = 0; i < l->n; i++)
        fprintf(stderr, "%s %s\n", l->problems[i].metric, l->problems[i].text);
}

static struct gs_error *read_exposition(struct lint *l, struct gs_slice text, bool own)
{
    struct gs_error *err = metrics_read_text(text, on_metadata, check_sample, l);
    if (!own || (!err && l->n_samples))
        return err;
    GS_AUTO_FREE char *foreign =
        recognize_foreign(text, RECOGNIZE_EXPOSITION, "metrics in the text format");
    if (!err || foreign) {
        gs_error_free(err);
        err = gs_error_new(GS_EINVAL, "%s", foreign ? foreign : "the text has no metrics");
    }
    return err;
}

int engine_check_metrics(const char *path, const struct engine_check_metrics_options *o)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    bool own = !o->promtool_texts;
    struct lint l = {.families = gs_hmap_new(family_free),
                     .failure = o->lint ? "error while linting"
                                        : "error while parsing text to metric families",
                     .all_errors = own};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_EXPOSITION, &text);
    if (!err)
        err = read_exposition(&l, gs_buf_slice(&text), own);
    bool failed = err || l.n_errors;
    if (err && !l.n_errors)
        fprintf(stderr, "%s: %s\n", l.failure, gs_error_message(err));
    if (!failed && o->lint)
        print_problems(&l, own);
    if (!failed && o->extended)
        print_cardinalities(&l);
    if (!failed && own)
        printf("%s: %zu metrics, %zu samples\n", path, count_families(&l), l.n_samples);
    int code = failed ? 1 : l.n ? ENGINE_CHECK_EXIT_LINT : 0;
    lint_finish(&l);
    return code;
}

// promtool accepts an empty file.
static struct gs_error *load_web_config(const char *path, bool promtool_texts)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct web_config *w = NULL;
    struct gs_error *err = web_config_load(path, &w);
    struct gs_error *unread = gs_file_read(path, MAX_EXPOSITION, &text);
    web_config_free(w);
    GS_AUTO_FREE char *foreign = promtool_texts || unread
                                     ? NULL
                                     : recognize_foreign(gs_buf_slice(&text), RECOGNIZE_WEB_CONFIG,
                                                         "a file of --web.config.file");
    gs_error_free(unread);
    if (!foreign)
        return err;
    gs_error_free(err);
    return gs_error_new(GS_EINVAL, "%s", foreign);
}

int engine_check_web_config(int n_files, char **files, bool promtool_texts)
{
    int code = 0;
    for (int i = 0; i < n_files; i++) {
        struct gs_error *err = load_web_config(files[i], promtool_texts);
        fprintf(stderr, "%s %s%s\n", files[i], err ? "FAILED: " : "SUCCESS",
                err ? gs_error_message(err) : "");
        code |= err != NULL;
        gs_error_free(err);
    }
    return code;
}
