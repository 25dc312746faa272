// SPDX-License-Identifier: Apache-2.0
// Conversion of dashboards and rules. Expressions are found by their keys, so that no schema of
// Grafana or of the operator is needed. At the end the new file is read and compared with what it
// should contain, so that a text that was placed wrongly is never written.
#include "aliases/documents_private.h"

#include "base/mem.h"
#include "dcgm/fields.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 16 * 1024 * 1024, MAX_NESTED = 4 };

struct document {
    struct gs_slice text;
    const char *name;
    const struct codec_yaml_marks *marks;
    enum aliases_release to;
    struct aliases_report *report;
    struct aliases_place *places;
    size_t n_places, cap;
    size_t nested; // documents around this one
    struct gs_error *err;
};

static struct gs_error *convert_document(struct document *d, struct gs_buf *ret);

void aliases_report_finish(struct aliases_report *r)
{
    gs_buf_finish(&r->changes);
    gs_buf_finish(&r->problems);
}

static void add_problem(struct document *d, const json_t *value, const char *what)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    gs_buf_addf(&line, "%s:%d: %s", d->name, codec_yaml_mark_of(d->marks, value).line, what);
    aliases_add_line(&d->report->problems, gs_buf_slice(&line));
    d->report->n_problems++;
}

static void replace_value(struct document *d, json_t *value, struct gs_slice text)
{
    struct gs_slice old = gs_slice_make(json_string_value(value), json_string_length(value));
    gs_grow(&d->places, &d->cap, d->n_places, sizeof(*d->places));
    struct aliases_place *p = &d->places[d->n_places++];
    if (!aliases_place_scalar(d->text, codec_yaml_mark_of(d->marks, value), old, text, p) &&
        !d->err)
        d->err = gs_error_new(GS_ENOTSUP,
                              "%s:%d: this text cannot be replaced without changing the format of "
                              "the file",
                              d->name, codec_yaml_mark_of(d->marks, value).line);
    d->report->n_changed++;
    json_string_setn_nocheck(value, text.data, text.len);
}

// --- texts by their keys ---

static bool mentions_field(struct gs_slice text)
{
    return memmem(text.data, text.len, DCGM_FIELD_PREFIX, strlen(DCGM_FIELD_PREFIX)) != NULL;
}

static void convert_expression(struct document *d, json_t *value)
{
    struct gs_slice old = gs_slice_make(json_string_value(value), json_string_length(value));
    GS_AUTO_BUF struct gs_buf text = {0}, problem = {0};
    if (!mentions_field(old))
        return;
    GS_AUTO_ERROR struct gs_error *err =
        aliases_convert_panel(old, d->to, &text, &d->report->changes, &problem);
    if (err) {
        GS_AUTO_FREE char *why = gs_format("not converted: %s", gs_error_message(err));
        add_problem(d, value, why);
        return;
    }
    struct gs_slice rest = gs_buf_slice(&problem);
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        GS_AUTO_FREE char *why = gs_format("not converted: " GS_SLICE_FMT, GS_SLICE_ARG(line));
        add_problem(d, value, why);
    }
    if (text.len)
        replace_value(d, value, gs_buf_slice(&text));
}

// A text for people, such as a legend or an annotation: labels in templates are replaced.
static void convert_template(struct document *d, json_t *value)
{
    struct gs_slice old = gs_slice_make(json_string_value(value), json_string_length(value));
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!mentions_field(old) || !memmem(old.data, old.len, "{{", 2))
        return;
    if (memmem(old.data, old.len, "query ", strlen("query ")))
        add_problem(d, value, "a query in a template is not converted");
    aliases_convert_labels(old, d->to, &text);
    if (text.len)
        replace_value(d, value, gs_buf_slice(&text));
}

// A dashboard in a ConfigMap, or rules in one.
static void convert_nested(struct document *d, json_t *value)
{
    struct gs_slice old = gs_slice_make(json_string_value(value), json_string_length(value));
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_FREE char *name = gs_format("%s:%d", d->name, codec_yaml_mark_of(d->marks, value).line);
    struct document inner = {
        .text = old, .name = name, .to = d->to, .report = d->report, .nested = d->nested + 1};
    size_t changed = d->report->n_changed;
    GS_AUTO_ERROR struct gs_error *err = convert_document(&inner, &text);
    if (err)
        add_problem(d, value, gs_error_message(err));
    else if (d->report->n_changed > changed)
        replace_value(d, value, gs_buf_slice(&text));
}

static bool is_nested(const struct document *d, const json_t *value)
{
    const char *text = json_string_value(value);
    return d->nested < MAX_NESTED && strchr(text, '\n') && mentions_field(gs_slice_of(text)) &&
           (strstr(text, "\"expr\"") || strstr(text, "expr:"));
}

static void visit_text(struct document *d, const char *key, json_t *value)
{
    static const char *const expressions[] = {"expr", "query", "definition"};
    static const char *const of_rules[] = {"seriesQuery", "metricsQuery"};
    for (size_t i = 0; i < GS_ARRAY_LEN(expressions); i++)
        if (gs_streq(key, expressions[i])) {
            convert_expression(d, value);
            return;
        }
    for (size_t i = 0; i < GS_ARRAY_LEN(of_rules); i++)
        if (gs_streq(key, of_rules[i]) && mentions_field(gs_slice_of(json_string_value(value)))) {
            add_problem(d, value,
                        "rules of the adapter are not converted; its --dcgm-aliases "
                        "reads both names");
            return;
        }
    if (is_nested(d, value))
        convert_nested(d, value);
    else
        convert_template(d, value);
}

static void visit_value(struct document *d, const char *key, json_t *value)
{
    size_t i;
    const char *name;
    json_t *item;
    if (json_is_string(value))
        visit_text(d, key, value);
    else if (json_is_object(value))
        json_object_foreach (value, name, item)
            visit_value(d, name, item);
    else if (json_is_array(value))
        json_array_foreach (value, i, item)
            visit_value(d, key, item);
}

// --- the new file ---

static int compare_places(const void *a, const void *b)
{
    const struct aliases_place *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// An alias of YAML has the place of its anchor, so the same text can be replaced twice.
static void apply_places(struct document *d, struct gs_buf *out)
{
    size_t at = 0;
    if (d->n_places)
        qsort(d->places, d->n_places, sizeof(*d->places), compare_places);
    for (size_t i = 0; i < d->n_places; i++) {
        const struct aliases_place *p = &d->places[i];
        if (p->start < at)
            continue;
        gs_buf_add(out, d->text.data + at, p->start - at);
        gs_buf_add_slice(out, gs_buf_slice(&p->text));
        at = p->end;
    }
    gs_buf_add(out, d->text.data + at, d->text.len - at);
}

static struct gs_error *compare_result(const struct document *d,
                                       const struct codec_yaml_docs *wanted, struct gs_slice text)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs found = {0};
    struct gs_error *err = codec_yaml_parse(text, d->name, &found);
    bool same = !err && found.len == wanted->len;
    for (size_t i = 0; same && i < found.len; i++)
        same = json_equal(found.items[i].value, wanted->items[i].value);
    gs_error_free(err);
    return same
               ? NULL
               : gs_error_new(GS_ENOTSUP,
                              "%s: the file cannot be edited without changing its format", d->name);
}

static struct gs_error *convert_document(struct document *d, struct gs_buf *ret)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_marked(d->text, d->name, &docs, &marks);
    if (err)
        return err;
    d->marks = marks;
    for (size_t i = 0; i < docs.len; i++)
        visit_value(d, NULL, docs.items[i].value);
    apply_places(d, ret);
    err = d->err ? d->err : compare_result(d, &docs, gs_buf_slice(ret));
    for (size_t i = 0; i < d->n_places; i++)
        gs_buf_finish(&d->places[i].text);
    free(d->places);
    return err;
}

struct gs_error *aliases_convert_document(struct gs_slice text, const char *name,
                                          enum aliases_release to, struct aliases_report *report,
                                          struct gs_buf *ret_text)
{
    struct document d = {.text = text, .name = name, .to = to, .report = report};
    if (text.len > MAX_FILE)
        return gs_error_new(GS_ELIMIT, "%s: the file has more than %d bytes", name, MAX_FILE);
    return convert_document(&d, ret_text);
}
