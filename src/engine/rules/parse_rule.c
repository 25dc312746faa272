// SPDX-License-Identifier: Apache-2.0
// Parses one rule, with the checks of Prometheus' rulefmt.
#include "engine/rules/rules_private.h"

#include "base/mem.h"
#include "base/option.h"
#include "codec/yaml_reader.h"
#include "template/template.h"

struct rule_build {
    struct rules_builder *b;
    const struct rules_source *src;
    const struct rules_group *group;
    size_t number;
    const json_t *obj;
    struct rules_rule *rule;
};

// The rule stores the first error. All errors are logged.
static void report_wrong_rule(struct rule_build *r, const json_t *at, const char *fmt, ...)
    GS_PRINTF(3, 4);
static void report_wrong_rule(struct rule_build *r, const json_t *at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    if (!r->rule->problem)
        r->rule->problem = rules_format(r->b, "%s", text);
    GS_AUTO_FREE char *where = rules_where(r->src, at, r->obj);
    rules_problem(r->b->problems, gs_format("%s: group \"%s\", rule %zu (%s): %s", where,
                                            r->group->name, r->number, r->rule->name, text));
}

static const json_t *field(const struct rule_build *r, const char *key)
{
    return json_object_get(r->obj, key);
}

static const char *text_field(struct rule_build *r, const char *key)
{
    const char *text = NULL;
    if (!rules_scalar(r->b, field(r, key), &text))
        report_wrong_rule(r, field(r, key), "%s must be a string", key);
    return text && *text ? text : NULL;
}

static int64_t duration_field(struct rule_build *r, const char *key)
{
    const char *text = text_field(r, key);
    int64_t ms = 0;
    if (text && !codec_parse_duration(text, &ms))
        report_wrong_rule(r, field(r, key), "%s: not a valid duration string: \"%s\"", key, text);
    return ms;
}

static void report_unknown(struct rule_build *r, const char *const *keys, size_t n, const char *key,
                           const json_t *at)
{
    const char *near = gs_suggest(key, keys, n);
    report_wrong_rule(r, at, "field %s not found in a rule%s%s%s", key,
                      near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static void check_unknown(struct rule_build *r)
{
    static const char *const keys[] = {"record", "alert",           "expr",        "for",
                                       "labels", "keep_firing_for", "annotations", NULL};
    const char *key;
    json_t *v;
    if (r->src->ignore_unknown_fields)
        return;
    json_object_foreach ((json_t *)r->obj, key, v) {
        size_t i = 0;
        while (keys[i] && !gs_streq(keys[i], key))
            i++;
        if (!keys[i])
            report_unknown(r, keys, i, key, v);
    }
}

static void parse_expr(struct rule_build *r)
{
    const char *text = text_field(r, "expr");
    r->rule->text = text ? text : "";
    if (!text) {
        report_wrong_rule(r, field(r, "expr"), "field 'expr' must be set in rule");
        return;
    }
    struct promql_expr *expr = NULL;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(text), &expr);
    if (err) {
        report_wrong_rule(r, field(r, "expr"), "could not parse expression: %s",
                          gs_error_message(err));
        return;
    }
    gs_grow(&r->b->exprs, &r->b->cap_exprs, r->b->n_exprs, sizeof(struct promql_expr *));
    r->b->exprs[r->b->n_exprs++] = expr;
    enum promql_type type = promql_expr_root(expr)->type;
    if (type != PROMQL_VECTOR && type != PROMQL_SCALAR)
        report_wrong_rule(r, field(r, "expr"), "rule result is not a vector or scalar");
    else
        r->rule->expr = expr;
}

static void check_record(struct rule_build *r)
{
    const json_t *at = field(r, "record");
    if (r->rule->n_annotations)
        report_wrong_rule(r, at, "invalid field 'annotations' in recording rule");
    if (r->rule->for_ms)
        report_wrong_rule(r, at, "invalid field 'for' in recording rule");
    if (r->rule->keep_firing_for_ms)
        report_wrong_rule(r, at, "invalid field 'keep_firing_for' in recording rule");
    if (strpbrk(r->rule->name, "{}"))
        report_wrong_rule(r, at,
                          "braces present in the recording rule name; should it be in expr?: %s",
                          r->rule->name);
}

static void check_templates(struct rule_build *r, const char *what, const json_t *at,
                            const struct metrics_label *items, size_t n)
{
    GS_AUTO_FREE char *name = gs_format("__alert_%s", r->rule->name);
    for (size_t i = 0; i < n; i++) {
        struct template_program *t = NULL;
        GS_AUTO_ERROR struct gs_error *err = template_parse(items[i].value, name, &t);
        template_free(t);
        if (err)
            report_wrong_rule(r, at, "%s \"" GS_SLICE_FMT "\": %s", what,
                              GS_SLICE_ARG(items[i].name), gs_error_message(err));
    }
}

static void parse_labels(struct rule_build *r)
{
    const json_t *labels = field(r, "labels"), *annotations = field(r, "annotations");
    struct rules_rule *rule = r->rule;
    const char *bad = rules_label_map(r->b, labels, true, &rule->labels, &rule->n_labels);
    if (bad)
        report_wrong_rule(r, labels, "%s", bad);
    bad = rules_label_map(r->b, annotations, false, &rule->annotations, &rule->n_annotations);
    if (bad)
        report_wrong_rule(r, annotations, "%s", bad);
    if (rule->kind == RULES_ALERT) {
        check_templates(r, "label", labels, rule->labels, rule->n_labels);
        check_templates(r, "annotation", annotations, rule->annotations, rule->n_annotations);
    }
}

// The labels of the rule have precedence over those of the group.
static void add_group_labels(struct rule_build *r)
{
    const struct rules_group *g = r->group;
    struct rules_rule *rule = r->rule;
    if (!g->n_labels)
        return;
    struct metrics_label *all =
        gs_arena_alloc(&r->b->arena, (g->n_labels + rule->n_labels) * sizeof(*all));
    size_t n = 0, i = 0, j = 0;
    while (i < g->n_labels || j < rule->n_labels) {
        int c = 0;
        if (i == g->n_labels)
            c = 1;
        else if (j == rule->n_labels)
            c = -1;
        else
            c = strcmp(g->labels[i].name.data, rule->labels[j].name.data);
        if (c < 0) {
            all[n++] = g->labels[i++];
        } else {
            i += c == 0;
            all[n++] = rule->labels[j++];
        }
    }
    rule->labels = all;
    rule->n_labels = n;
}

void rules_build_rule(struct rules_builder *b, const struct rules_source *src,
                      const struct rules_group *group, size_t number, const json_t *obj,
                      struct rules_rule *ret)
{
    *ret = (struct rules_rule){.name = "", .line = codec_yaml_mark_of(src->marks, obj).line};
    struct rule_build r = {b, src, group, number, obj, ret};
    const char *record = text_field(&r, "record"), *alert = text_field(&r, "alert");
    ret->kind = alert ? RULES_ALERT : RULES_RECORD;
    ret->name = alert ? alert : record ? record : "";
    check_unknown(&r);
    if (record && alert)
        report_wrong_rule(&r, field(&r, "record"), "only one of 'record' and 'alert' must be set");
    if (!record && !alert)
        report_wrong_rule(&r, NULL, "one of 'record' or 'alert' must be set");
    parse_expr(&r);
    ret->for_ms = duration_field(&r, "for");
    ret->keep_firing_for_ms = duration_field(&r, "keep_firing_for");
    parse_labels(&r);
    if (record)
        check_record(&r);
    add_group_labels(&r);
    if (ret->problem)
        ret->expr = NULL;
}
