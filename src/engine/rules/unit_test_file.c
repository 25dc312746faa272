// SPDX-License-Identifier: Apache-2.0
// Reads files of unit tests with field tables.
#include "engine/rules/unit_test_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml.h"
#include "engine/config/config.h"
#include "engine/rules/rules_private.h"

#include <math.h>

#define MAX_FILE ((size_t)64 * 1024 * 1024)

static void read_duration(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    if (!codec_parse_duration(text, out))
        codec_reader_fail(r, value, "not a valid duration string: \"%s\"", text);
}

// Accepts the number formats of YAML 1.1 and Prometheus.
static void read_value(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{".nan", NAN}, {".inf", INFINITY}, {"+.inf", INFINITY}, {"-.inf", -INFINITY}};
    const char *text = codec_read_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (strcasecmp(text, words[i].text) == 0) {
            *(double *)out = words[i].value;
            return;
        }
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), out);
    CODEC_AUTO_JSON json_t *number = err ? codec_yaml_plain_scalar(gs_slice_of(text)) : NULL;
    if (json_is_number(number))
        *(double *)out = json_number_value(number);
    else if (err)
        codec_reader_fail(r, value, "\"%s\" is not a number", text);
}

static void read_start_time(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    double seconds = 0;
    struct gs_error *err = gs_parse_double(gs_slice_of(text), &seconds);
    if (!err && fabs(seconds) < 1e11) { // the year 5138
        *(int64_t *)out = llround(seconds * 1000);
        return;
    }
    gs_error_free(err);
    err = gs_parse_rfc3339(gs_slice_of(text), out);
    if (err)
        codec_reader_fail(r, value, "cannot parse \"%s\" to a valid timestamp", text);
    gs_error_free(err);
}

static void read_alert_labels(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_alert *a = out;
    engine_config_labels(r, value, &a->labels, &a->n_labels);
}

static void read_annotations(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_alert *a = out;
    engine_config_labels(r, value, &a->annotations, &a->n_annotations);
}

static void read_alert(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"exp_labels", CODEC_FIELD_CUSTOM, 0, read_alert_labels},
        {"exp_annotations", CODEC_FIELD_CUSTOM, 0, read_annotations},
        {0},
    };
    codec_read_mapping(r, value, fields, "an expected alert", out);
}

static void read_exp_alerts(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_alerts *a = out;
    codec_read_list(r, value, sizeof(*a->alerts), read_alert, &a->alerts, &a->n_alerts);
}

static void read_alert_test(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"eval_time", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_alerts, eval_ms),
         read_duration},
        {"alertname", CODEC_FIELD_TEXT, offsetof(struct rules_test_alerts, name), NULL},
        {"exp_alerts", CODEC_FIELD_CUSTOM, 0, read_exp_alerts},
        {0},
    };
    struct rules_test_alerts *a = out;
    *a = (struct rules_test_alerts){.name = "", .where = codec_reader_line(r, value)};
    codec_read_mapping(r, value, fields, "alert_rule_test", a);
}

static void read_exp_sample(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"labels", CODEC_FIELD_TEXT, offsetof(struct rules_test_sample, labels), NULL},
        {"value", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_sample, value), read_value},
        {"histogram", CODEC_FIELD_TEXT, offsetof(struct rules_test_sample, histogram), NULL},
        {0},
    };
    struct rules_test_sample *s = out;
    *s = (struct rules_test_sample){.labels = "", .histogram = ""};
    codec_read_mapping(r, value, fields, "an expected sample", s);
}

static void read_exp_samples(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_expr *x = out;
    codec_read_list(r, value, sizeof(*x->samples), read_exp_sample, &x->samples, &x->n_samples);
}

static void read_expr_test(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"expr", CODEC_FIELD_TEXT, offsetof(struct rules_test_expr, expr), NULL},
        {"eval_time", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_expr, eval_ms), read_duration},
        {"exp_samples", CODEC_FIELD_CUSTOM, 0, read_exp_samples},
        {0},
    };
    struct rules_test_expr *x = out;
    *x = (struct rules_test_expr){.expr = "", .where = codec_reader_line(r, value)};
    codec_read_mapping(r, value, fields, "promql_expr_test", x);
}

static void read_series(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"series", CODEC_FIELD_TEXT, offsetof(struct rules_test_series, series), NULL},
        {"values", CODEC_FIELD_TEXT, offsetof(struct rules_test_series, values), NULL},
        {0},
    };
    struct rules_test_series *s = out;
    *s = (struct rules_test_series){
        .series = "", .values = "", .where = codec_reader_line(r, value)};
    codec_read_mapping(r, value, fields, "input_series", s);
}

static void read_series_list(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_group *g = out;
    codec_read_list(r, value, sizeof(*g->series), read_series, &g->series, &g->n_series);
}

static void read_expr_tests(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_group *g = out;
    codec_read_list(r, value, sizeof(*g->exprs), read_expr_test, &g->exprs, &g->n_exprs);
}

static void read_alert_tests(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_group *g = out;
    codec_read_list(r, value, sizeof(*g->alerts), read_alert_test, &g->alerts, &g->n_alerts);
}

static void read_external_labels(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_group *g = out;
    engine_config_labels(r, value, &g->external_labels, &g->n_external_labels);
}

static void read_test_group(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"interval", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_group, interval_ms),
         read_duration},
        {"input_series", CODEC_FIELD_CUSTOM, 0, read_series_list},
        {"alert_rule_test", CODEC_FIELD_CUSTOM, 0, read_alert_tests},
        {"promql_expr_test", CODEC_FIELD_CUSTOM, 0, read_expr_tests},
        {"external_labels", CODEC_FIELD_CUSTOM, 0, read_external_labels},
        {"external_url", CODEC_FIELD_TEXT, offsetof(struct rules_test_group, external_url), NULL},
        {"name", CODEC_FIELD_TEXT, offsetof(struct rules_test_group, name), NULL},
        {"start_timestamp", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_group, start_ms),
         read_start_time},
        {0},
    };
    struct rules_test_group *g = out;
    *g = (struct rules_test_group){.name = "", .external_url = ""};
    codec_read_mapping(r, value, fields, "a test", g);
}

static void read_groups(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_file *f = out;
    codec_read_list(r, value, sizeof(*f->groups), read_test_group, &f->groups, &f->n_groups);
}

static void read_rule_files(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_file *f = out;
    codec_read_texts(r, value, &f->rule_files, &f->n_rule_files);
    const char **files = (const char **)f->rule_files;
    for (size_t i = 0; i < f->n_rule_files; i++)
        files[i] = codec_reader_path(r, files[i]);
}

static void read_order(struct codec_reader *r, const json_t *value, void *out)
{
    struct rules_test_file *f = out;
    codec_read_texts(r, value, &f->order, &f->n_order);
    for (size_t i = 1; i < f->n_order; i++)
        for (size_t k = 0; k < i; k++)
            if (gs_streq(f->order[i], f->order[k]))
                codec_reader_fail(r, json_array_get(value, i),
                                  "group name repeated in evaluation order: %s", f->order[i]);
}

static void read_top(struct codec_reader *r, const json_t *top, struct rules_test_file *f)
{
    static const struct codec_field fields[] = {
        {"rule_files", CODEC_FIELD_CUSTOM, 0, read_rule_files},
        {"evaluation_interval", CODEC_FIELD_CUSTOM, offsetof(struct rules_test_file, interval_ms),
         read_duration},
        {"group_eval_order", CODEC_FIELD_CUSTOM, 0, read_order},
        {"tests", CODEC_FIELD_CUSTOM, 0, read_groups},
        {"fuzzy_compare", CODEC_FIELD_BOOL, offsetof(struct rules_test_file, fuzzy), NULL},
        {0},
    };
    codec_read_mapping(r, top, fields, "the test file", f);
    if (!f->interval_ms)
        f->interval_ms = 60000;
    struct rules_test_group *groups = (struct rules_test_group *)f->groups;
    for (size_t i = 0; i < f->n_groups; i++)
        if (!groups[i].interval_ms)
            groups[i].interval_ms = f->interval_ms;
}

struct gs_error *rules_test_file_parse(struct gs_slice text, const char *path, const char *dir,
                                       struct rules_test_file *ret)
{
    struct rules_test_file f = {0};
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, path, &docs, &marks);
    if (err)
        return err;
    struct codec_reader r = {.name = path, .base_dir = dir, .marks = marks, .arena = &f.arena};
    if (docs.len > 1)
        codec_reader_fail(&r, docs.items[1].value, "expected one YAML document with tests");
    read_top(&r, docs.len ? docs.items[0].value : NULL, &f);
    codec_yaml_docs_finish(&docs);
    free(r.ignored);
    if (r.err)
        rules_test_file_finish(&f);
    else
        *ret = f;
    return r.err;
}

struct gs_error *rules_test_file_read(const char *path, struct rules_test_file *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err)
        return err;
    const char *slash = strrchr(path, '/');
    GS_AUTO_FREE char *dir = gs_strndup(path, slash ? (size_t)(slash - path) : 0);
    return rules_test_file_parse(gs_buf_slice(&text), path, slash ? (*dir ? dir : "/") : NULL, ret);
}

void rules_test_file_finish(struct rules_test_file *f)
{
    gs_arena_finish(&f->arena);
    *f = (struct rules_test_file){0};
}
