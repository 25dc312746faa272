// SPDX-License-Identifier: Apache-2.0
// How many buckets of histograms are in use, as promtool query analyze prints it.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "query/query_private.h"

#include <limits.h>
#include <stdlib.h>

static const char header[] =
    "Bucket stats for each histogram series over time\n"
    "------------------------------------------------\n"
    "First the min, avg, and max number of populated buckets, followed by the total\n"
    "number of buckets (only if different from the max number of populated buckets\n"
    "which is typical for classic but not native histograms).\n\n";
static const char footer[] = "\nAggregated bucket stats\n"
                             "-----------------------\n"
                             "Each line shows min/avg/max over the series above.\n";

// Populated buckets of one histogram.
struct statistics {
    long min, max, total;
    double avg;
};

struct distribution {
    long min, max, count;
    double avg;
};

// Over all histograms of one kind.
struct meta_statistics {
    struct distribution min, avg, max, total;
};

// The buckets of a classic histogram.
struct classic {
    char *key; // the name with the labels except le
    struct bucket {
        double le;
        const json_t *values;
        size_t order;
    } * buckets;
    size_t n, cap;
};

struct analysis {
    struct classic *items;
    size_t n, cap;
    struct gs_hmap *numbers; // of items, by key: index + 1
    struct meta_statistics classic, native;
};

static void update_distribution(struct distribution *d, long n)
{
    d->min = !d->count || n < d->min ? n : d->min;
    d->max = n > d->max ? n : d->max;
    d->count++;
    d->avg += (double)n / (double)d->count - d->avg / (double)d->count;
}

static void update_all(struct meta_statistics *m, const struct statistics *s)
{
    update_distribution(&m->min, s->min);
    update_distribution(&m->avg, (long)s->avg);
    update_distribution(&m->max, s->max);
    update_distribution(&m->total, s->total);
}

static void print_statistics(const char *key, const char *kind, const struct statistics *s)
{
    printf("- %s (%s): %ld/%.3f/%ld", key, kind, s->min, s->avg, s->max);
    if (s->max != s->total)
        printf("/%ld", s->total);
    printf("\n");
}

static void print_distribution(const char *what, const struct distribution *d)
{
    printf("\n- %s: %ld/%.3f/%ld", what, d->min, d->avg, d->max);
}

static bool is_same(const struct distribution *a, const struct distribution *b)
{
    return a->min == b->min && a->max == b->max && a->count == b->count && !(a->avg < b->avg) &&
           !(a->avg > b->avg);
}

static void print_meta(const char *kind, const struct meta_statistics *m)
{
    if (!m->min.count)
        return;
    printf("\n%s histogram series (%ld in total):", kind, m->min.count);
    print_distribution("min populated", &m->min);
    print_distribution("avg populated", &m->avg);
    print_distribution("max populated", &m->max);
    if (!is_same(&m->max, &m->total))
        print_distribution("total", &m->total);
    printf("\n");
}

// --- reading ---

static int by_name(const void *a, const void *b)
{
    const struct query_label *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// name{a="b"}, without le.
static char *key_of(const json_t *metric)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    struct query_label *labels = gs_alloc_array(json_object_size(metric) + 1, sizeof(*labels));
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)metric, name, value)
        if (json_is_string(value) && !gs_streq(name, "le"))
            labels[n++] = (struct query_label){name, json_string_value(value)};
    if (n)
        qsort(labels, n, sizeof(*labels), by_name);
    query_add_metric(&key, labels, n);
    free(labels);
    if (key.len && !memchr(key.data, '{', key.len))
        gs_buf_add_str(&key, "{}");
    return gs_strdup(key.data ? key.data : "{}");
}

static struct classic *classic_of(struct analysis *a, const json_t *metric)
{
    GS_AUTO_FREE char *key = key_of(metric);
    size_t number = (size_t)(uintptr_t)gs_hmap_get_str(a->numbers, key);
    if (number)
        return &a->items[number - 1];
    gs_grow(&a->items, &a->cap, a->n, sizeof(*a->items));
    a->items[a->n++] = (struct classic){.key = GS_TAKE(key)};
    gs_hmap_put_str(a->numbers, a->items[a->n - 1].key, (void *)(uintptr_t)a->n);
    return &a->items[a->n - 1];
}

static void add_bucket(struct analysis *a, const json_t *metric, const json_t *values)
{
    const char *le = codec_json_str(metric, "le", NULL);
    const char *name = codec_json_str(metric, "__name__", NULL);
    if (!le || !name || !gs_ends(name, "_bucket"))
        return;
    struct classic *c = classic_of(a, metric);
    double bound = 0;
    gs_error_free(gs_parse_double(gs_slice_of(le), &bound)); // as in promtool, others are 0
    gs_grow(&c->buckets, &c->cap, c->n, sizeof(*c->buckets));
    c->buckets[c->n] = (struct bucket){bound, values, c->n};
    c->n++;
}

static int by_bound(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;
    if (x->le < y->le || x->le > y->le)
        return x->le < y->le ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static double value_at(const json_t *values, size_t i, double *ret_time)
{
    const json_t *point = json_array_get(values, i);
    double v = 0;
    *ret_time = json_number_value(json_array_get(point, 0));
    const char *text = json_string_value(json_array_get(point, 1));
    gs_error_free(gs_parse_double(gs_slice_of(text ? text : "0"), &v));
    return v;
}

// Buckets whose own count, without the bucket below, is not 0. Series that are shorter than the
// first one end the search, as in promtool.
static struct gs_error *count_populated(const struct classic *c, size_t at, long *ret)
{
    double before = 0, time = 0, first_time = 0;
    *ret = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (at >= json_array_size(c->buckets[i].values))
            return NULL;
        double v = value_at(c->buckets[i].values, at, i ? &time : &first_time);
        if (i && (time < first_time || time > first_time))
            return gs_error_new(GS_EPROTO, "matrix result is not time aligned");
        double own = v - before;
        *ret += own >= 1 || own <= -1;
        before = v;
    }
    return NULL;
}

static struct gs_error *analyze_classic(struct analysis *a, struct classic *c)
{
    size_t samples = c->n ? json_array_size(c->buckets[0].values) : 0;
    struct statistics s = {.min = LONG_MAX, .total = (long)c->n};
    double sum = 0;
    if (samples < 2)
        return NULL;
    qsort(c->buckets, c->n, sizeof(*c->buckets), by_bound);
    samples = json_array_size(c->buckets[0].values);
    for (size_t i = 0; i < samples; i++) {
        long n = 0;
        struct gs_error *err = count_populated(c, i, &n);
        if (err)
            return err;
        sum += (double)n;
        s.min = n < s.min ? n : s.min;
        s.max = n > s.max ? n : s.max;
    }
    s.avg = samples ? sum / (double)samples : 0;
    print_statistics(c->key, "classic", &s);
    update_all(&a->classic, &s);
    return NULL;
}

// --- native histograms, of a Prometheus ---

static void analyze_native(struct analysis *a, const json_t *metric, const json_t *histograms)
{
    CODEC_AUTO_JSON json_t *bounds = json_object();
    struct statistics s = {.min = LONG_MAX};
    double sum = 0;
    size_t i, k;
    json_t *point, *bucket;
    if (json_array_size(histograms) < 2)
        return;
    json_array_foreach (histograms, i, point) {
        const json_t *buckets = json_object_get(json_array_get(point, 1), "buckets");
        long n = (long)json_array_size(buckets);
        json_array_foreach (buckets, k, bucket) {
            const char *low = json_string_value(json_array_get(bucket, 1));
            const char *high = json_string_value(json_array_get(bucket, 2));
            GS_AUTO_FREE char *key =
                gs_format("%lld %s %s", (long long)json_integer_value(json_array_get(bucket, 0)),
                          low ? low : "", high ? high : "");
            json_object_set_new(bounds, key, json_true());
        }
        sum += (double)n;
        s.min = n < s.min ? n : s.min;
        s.max = n > s.max ? n : s.max;
    }
    s.avg = sum / (double)json_array_size(histograms);
    s.total = (long)json_object_size(bounds);
    GS_AUTO_FREE char *key = key_of(metric);
    print_statistics(key, "native", &s);
    update_all(&a->native, &s);
}

// --- the whole ---

static void forget_classic(struct analysis *a)
{
    for (size_t i = 0; i < a->n; i++) {
        free(a->items[i].key);
        free(a->items[i].buckets);
    }
    free(a->items);
    a->items = NULL;
    a->n = a->cap = 0;
    gs_hmap_clear(a->numbers);
}

static struct gs_error *analyze_answer(struct analysis *a, const json_t *data)
{
    struct gs_error *err = NULL;
    size_t i;
    json_t *series;
    if (!gs_streq(codec_json_str(data, "resultType", NULL), "matrix"))
        return gs_error_new(GS_EPROTO, "query of buckets resulted in non-Matrix");
    json_array_foreach (json_object_get(data, "result"), i, series) {
        const json_t *metric = json_object_get(series, "metric");
        const json_t *values = json_object_get(series, "values");
        if (json_array_size(values))
            add_bucket(a, metric, values);
        else
            analyze_native(a, metric, json_object_get(series, "histograms"));
    }
    for (i = 0; i < a->n && !err; i++)
        err = analyze_classic(a, &a->items[i]);
    forget_classic(a);
    return err;
}

static struct gs_error *analyze_match(struct analysis *a, const struct query_peer *peer,
                                      const struct query_analysis *o, int64_t at_ms,
                                      const char *match)
{
    GS_AUTO_BUF struct gs_buf params = {0}, seconds = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    char duration[GS_RFC3339_SIZE];
    GS_AUTO_FREE char *expr = gs_format("%s[%s]", match, gs_format_units(o->duration_ns, duration));
    query_add_seconds(&seconds, at_ms);
    query_add_param(&params, "query", gs_slice_of(expr));
    query_add_param(&params, "time", gs_buf_slice(&seconds));
    struct gs_error *err = query_fetch(peer, "/api/v1/query", gs_buf_slice(&params), &answer);
    return err ? err : analyze_answer(a, json_object_get(answer, "data"));
}

struct gs_error *query_analyze(const struct query_peer *peer, const struct query_analysis *o)
{
    int64_t at_ms = gs_unix_ms();
    if (!gs_streq(o->type, "histogram"))
        return gs_error_new(GS_EINVAL, "analyze type is %s, must be 'histogram'",
                            o->type ? o->type : "missing");
    struct gs_error *err = o->time ? query_parse_time(o->time, at_ms, &at_ms) : NULL;
    if (err)
        return gs_error_wrap(err, "--time");
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *numbers = gs_hmap_new(NULL);
    struct analysis a = {.numbers = numbers};
    printf("%s", header);
    for (size_t i = 0; i < o->match->len && !err; i++)
        err = analyze_match(&a, peer, o, at_ms, o->match->items[i]);
    if (err)
        return err;
    printf("%s", footer);
    print_meta("Native", &a.native);
    print_meta("Classic", &a.classic);
    return NULL;
}
