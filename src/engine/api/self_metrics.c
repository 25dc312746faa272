// SPDX-License-Identifier: Apache-2.0
// /api/v1/status/self_metrics: the series of /metrics as JSON, in protobuf's notation of
// io.prometheus.client.MetricFamily.
#include "engine/api/api_private.h"

#include "base/num.h"
#include "metrics/reader.h"

#include <math.h>
#include <stdio.h>

// A family of the page, between two lines "# HELP".
struct family {
    struct gs_slice name, help, type, samples;
};

static json_t *number_json(double v)
{
    if (isnan(v))
        return json_string("NaN");
    if (isinf(v))
        return json_string(v > 0 ? "Infinity" : "-Infinity");
    return json_real(v);
}

static json_t *slice_json(struct gs_slice s)
{
    return json_stringn(s.data, s.len);
}

// A 64-bit number is a string in protobuf's JSON.
static json_t *count_json(double v)
{
    char text[32];
    snprintf(text, sizeof(text), "%.0f", v);
    return json_string(text);
}

// Without the label whose values make one metric of several series.
static json_t *labels_without(const struct metrics_sample *s, const char *without,
                              struct gs_slice *ret_value)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->n_labels; i++) {
        if (without && gs_slice_eq_str(s->labels[i].name, without)) {
            *ret_value = s->labels[i].value;
            continue;
        }
        json_array_append_new(list, json_pack("{s:o,s:o}", "name", slice_json(s->labels[i].name),
                                              "value", slice_json(s->labels[i].value)));
    }
    return list;
}

// The metric with these labels: the last one, or a new one. Takes labels.
static json_t *metric_with(json_t *metrics, json_t *labels)
{
    json_t *last = json_array_get(metrics, json_array_size(metrics) - 1);
    const json_t *before = json_object_get(last, "label");
    if (last && (before ? json_equal(before, labels) : !json_array_size(labels))) {
        json_decref(labels);
        return last;
    }
    json_t *metric = json_object();
    if (json_array_size(labels))
        json_object_set(metric, "label", labels);
    json_decref(labels);
    json_array_append_new(metrics, metric);
    return metric;
}

static json_t *member(json_t *obj, const char *key, bool list)
{
    json_t *value = json_object_get(obj, key);
    if (!value) {
        value = list ? json_array() : json_object();
        json_object_set_new(obj, key, value);
    }
    return value;
}

struct family_reader {
    const struct family *family;
    json_t *metrics;
};

static void add_single(const struct family_reader *f, const struct metrics_sample *s)
{
    const char *key = gs_slice_eq_str(f->family->type, "counter") ? "counter"
                      : gs_slice_eq_str(f->family->type, "gauge") ? "gauge"
                                                                  : "untyped";
    json_t *metric = json_object(), *labels = labels_without(s, NULL, NULL);
    if (json_array_size(labels))
        json_object_set(metric, "label", labels);
    json_decref(labels);
    json_object_set_new(metric, key, json_pack("{s:o}", "value", number_json(s->value)));
    json_array_append_new(f->metrics, metric);
}

// A series of a summary or histogram.
static bool add_part(const struct family_reader *f, const struct metrics_sample *s, bool histogram)
{
    struct gs_slice border = {0}, name = f->family->name;
    struct gs_slice end = gs_slice_make(s->name.data + name.len, s->name.len - name.len);
    json_t *metric =
        metric_with(f->metrics, labels_without(s, histogram ? "le" : "quantile", &border));
    json_t *all = member(metric, histogram ? "histogram" : "summary", false);
    double at;
    if (gs_slice_eq_str(end, "_count")) {
        json_object_set_new(all, "sampleCount", count_json(s->value));
    } else if (gs_slice_eq_str(end, "_sum")) {
        json_object_set_new(all, "sampleSum", number_json(s->value));
    } else {
        GS_AUTO_ERROR struct gs_error *err = gs_parse_double(border, &at);
        json_array_append_new(member(all, histogram ? "bucket" : "quantile", true),
                              json_pack("{s:o,s:o}", histogram ? "upperBound" : "quantile",
                                        number_json(err ? NAN : at),
                                        histogram ? "cumulativeCount" : "value",
                                        histogram ? count_json(s->value) : number_json(s->value)));
    }
    return true;
}

static bool add_sample(void *arg, const struct metrics_sample *s)
{
    const struct family_reader *f = arg;
    bool histogram = gs_slice_eq_str(f->family->type, "histogram");
    if ((histogram || gs_slice_eq_str(f->family->type, "summary")) &&
        s->name.len >= f->family->name.len)
        return add_part(f, s, histogram);
    add_single(f, s);
    return true;
}

static json_t *family_json(const struct family *family)
{
    static const char *const types[][2] = {{"counter", "COUNTER"},
                                           {"gauge", "GAUGE"},
                                           {"summary", "SUMMARY"},
                                           {"histogram", "HISTOGRAM"}};
    const char *type = "UNTYPED";
    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
        if (gs_slice_eq_str(family->type, types[i][0]))
            type = types[i][1];
    struct family_reader f = {family, json_array()};
    gs_error_free(metrics_parse_text(family->samples, NULL, add_sample, &f));
    return json_pack("{s:o,s:o,s:s,s:o}", "name", slice_json(family->name), "help",
                     slice_json(family->help), "type", type, "metric", f.metrics);
}

// Takes the next family from the page. Returns false at its end.
static bool next_family(struct gs_slice *page, struct family *ret)
{
    static const char help[] = "# HELP ", type[] = "# TYPE ";
    struct gs_slice line;
    do {
        if (!page->len)
            return false;
        line = gs_slice_cut(page, '\n');
    } while (!gs_slice_starts(line, help));
    line = gs_slice_make(line.data + strlen(help), line.len - strlen(help));
    *ret = (struct family){.name = gs_slice_cut(&line, ' '), .help = line};
    const char *start = page->data, *end = start;
    while (page->len && !gs_slice_starts(*page, help)) {
        line = gs_slice_cut(page, '\n');
        end = line.data + line.len;
        if (!gs_slice_starts(line, type))
            continue;
        line = gs_slice_make(line.data + strlen(type), line.len - strlen(type));
        gs_slice_cut(&line, ' ');
        ret->type = line;
        start = end;
    }
    ret->samples = gs_slice_make(start, (size_t)(end - start));
    return true;
}

void engine_api_self_metrics(struct engine_api_request *r)
{
    const char *pattern = engine_api_param(r, "metric_name_pattern");
    struct tsdb_regex *wanted = NULL;
    struct gs_error *err = *pattern ? tsdb_regex_new(gs_slice_of(pattern), &wanted) : NULL;
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "invalid metric_name_pattern: %s",
                        gs_error_message(err));
        gs_error_free(err);
        return;
    }
    GS_AUTO_BUF struct gs_buf text = {0};
    engine_api_write_own_metrics(r->api, &text);
    struct gs_slice page = gs_buf_slice(&text);
    struct family family;
    json_t *all = json_array();
    while (next_family(&page, &family))
        if (!wanted || tsdb_regex_matches(wanted, family.name))
            json_array_append_new(all, family_json(&family));
    if (wanted)
        tsdb_regex_free(wanted);
    engine_api_reply_json(r, all);
}
