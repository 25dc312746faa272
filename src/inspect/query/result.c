// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a response.
#include "query/query_private.h"

#include <math.h>
#include <stdlib.h>

static struct gs_error *strange(const char *what)
{
    return gs_error_new(GS_EPROTO, "the response lacks a %s", what);
}

static struct gs_error *no_memory(void)
{
    return gs_error_new(GS_ELIMIT, "no memory for the response");
}

static int compare_label_names(const void *a, const void *b)
{
    return strcmp(((const struct query_label *)a)->name, ((const struct query_label *)b)->name);
}

static struct gs_error *read_series_labels(const json_t *metric, struct gs_arena *arena,
                                           struct query_series *ret)
{
    const char *name;
    json_t *value;
    if (!json_is_object(metric))
        return strange("label set");
    ret->labels = gs_arena_alloc(arena, (json_object_size(metric) + 1) * sizeof(*ret->labels));
    if (!ret->labels)
        return no_memory();
    json_object_foreach ((json_t *)metric, name, value) {
        if (!json_is_string(value))
            return strange("text as a label's value");
        ret->labels[ret->n_labels++] = (struct query_label){name, json_string_value(value)};
    }
    if (ret->n_labels)
        qsort(ret->labels, ret->n_labels, sizeof(*ret->labels), compare_label_names);
    return NULL;
}

// A native histogram as its count and sum. Only other servers send them.
static const char *histogram_text(const json_t *h, struct gs_arena *arena)
{
    const char *count = codec_json_str(h, "count", NULL), *sum = codec_json_str(h, "sum", NULL);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "histogram(count=%s sum=%s)", count ? count : "?", sum ? sum : "?");
    return gs_arena_strndup(arena, text.data, text.len);
}

// [1700000000.5, "1"]
static struct gs_error *read_point(const json_t *pair, struct gs_arena *arena,
                                   struct query_point *ret)
{
    const json_t *t = json_array_get(pair, 0), *v = json_array_get(pair, 1);
    double seconds = json_number_value(t);
    if (!json_is_number(t) || !(fabs(seconds) < 1e15) || (!json_is_string(v) && !json_is_object(v)))
        return strange("pair of time and value");
    ret->t_ms = llround(seconds * 1000);
    ret->value = json_is_string(v) ? json_string_value(v) : histogram_text(v, arena);
    return ret->value ? NULL : no_memory();
}

static struct gs_error *read_sample_list(const json_t *item, struct gs_arena *arena,
                                         struct query_series *ret)
{
    static const char *const one[] = {"value", "histogram"}, *const many[] = {"values",
                                                                              "histograms"};
    size_t n = 0;
    for (size_t i = 0; i < 2; i++)
        n += (json_object_get(item, one[i]) != NULL) +
             json_array_size(json_object_get(item, many[i]));
    ret->points = gs_arena_alloc(arena, (n + 1) * sizeof(*ret->points));
    if (!ret->points)
        return no_memory();
    struct gs_error *err = NULL;
    for (size_t i = 0; i < 2 && !err; i++) {
        const json_t *pair = json_object_get(item, one[i]);
        const json_t *list = json_object_get(item, many[i]);
        if (pair)
            err = read_point(pair, arena, &ret->points[ret->n_points++]);
        for (size_t k = 0; k < json_array_size(list) && !err; k++)
            err = read_point(json_array_get(list, k), arena, &ret->points[ret->n_points++]);
    }
    return err;
}

static struct gs_error *read_result_list(const json_t *list, struct gs_arena *arena,
                                         struct query_result *ret)
{
    size_t n = json_array_size(list);
    struct gs_error *err = json_is_array(list) ? NULL : strange("list of series");
    ret->series = gs_arena_alloc(arena, (n + 1) * sizeof(*ret->series));
    if (!ret->series)
        return err ? err : no_memory();
    for (size_t i = 0; i < n && !err; i++) {
        const json_t *item = json_array_get(list, i);
        struct query_series *s = &ret->series[ret->n++];
        err = read_series_labels(json_object_get(item, "metric"), arena, s);
        if (!err)
            err = read_sample_list(item, arena, s);
    }
    return err;
}

struct gs_error *query_read_result(const json_t *data, struct gs_arena *arena,
                                   struct query_result *ret)
{
    static const char *const types[] = {"vector", "matrix", "scalar", "string"};
    const char *type = codec_json_str(data, "resultType", NULL);
    const json_t *result = json_object_get(data, "result");
    size_t i = 0;
    *ret = (struct query_result){0};
    while (i < GS_ARRAY_LEN(types) && !gs_streq(type, types[i]))
        i++;
    if (i == GS_ARRAY_LEN(types))
        return strange("known type of result");
    ret->type = (int)i;
    if (ret->type == QUERY_VECTOR || ret->type == QUERY_MATRIX)
        return read_result_list(result, arena, ret);
    ret->series = gs_arena_alloc(arena, sizeof(*ret->series));
    struct query_point *point = gs_arena_alloc(arena, sizeof(*point));
    if (!ret->series || !point)
        return no_memory();
    *ret->series = (struct query_series){.points = point, .n_points = 1};
    ret->n = 1;
    return read_point(result, arena, point);
}

struct gs_error *query_read_series(const json_t *data, struct gs_arena *arena,
                                   struct query_result *ret)
{
    size_t n = json_array_size(data);
    *ret = (struct query_result){.type = QUERY_VECTOR};
    struct gs_error *err = json_is_array(data) ? NULL : strange("list of series");
    ret->series = gs_arena_alloc(arena, (n + 1) * sizeof(*ret->series));
    if (!ret->series)
        return err ? err : no_memory();
    for (; ret->n < n && !err; ret->n++)
        err = read_series_labels(json_array_get(data, ret->n), arena, &ret->series[ret->n]);
    return err;
}

const char *query_label_of(const struct query_series *s, const char *name)
{
    const struct query_label key = {name, NULL};
    const struct query_label *found =
        s->n_labels ? bsearch(&key, s->labels, s->n_labels, sizeof(key), compare_label_names)
                    : NULL;
    return found ? found->value : NULL;
}

struct query_names query_label_names(const struct query_result *r, struct gs_arena *arena)
{
    size_t all = 0, n = 0, distinct = 0;
    for (size_t i = 0; i < r->n; i++)
        all += r->series[i].n_labels;
    const char **names = gs_arena_alloc(arena, (all + 1) * sizeof(*names));
    if (!names)
        return (struct query_names){0};
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->series[i].n_labels; k++)
            names[n++] = r->series[i].labels[k].name;
    if (n)
        qsort(names, n, sizeof(*names), gs_compare_texts);
    for (size_t i = 0; i < n; i++)
        if (!distinct || !gs_streq(names[distinct - 1], names[i]))
            names[distinct++] = names[i];
    return (struct query_names){names, distinct};
}
