// SPDX-License-Identifier: Apache-2.0
// The filters that compare one pod with one node: node selector, required node affinity, taints.
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "nodes/nodes_private.h"

// --- labels ---

static bool compare_numbers(const char *label, const json_t *values, bool greater)
{
    const char *bound = json_string_value(json_array_get(values, 0));
    int64_t a = 0, b = 0;
    if (!label || !bound)
        return false;
    struct gs_error *err = gs_parse_i64(gs_slice_of(label), INT64_MIN, INT64_MAX, &a);
    if (!err)
        err = gs_parse_i64(gs_slice_of(bound), INT64_MIN, INT64_MAX, &b);
    bool failed = err != NULL;
    gs_error_free(err);
    return !failed && (greater ? a > b : a < b);
}

bool nodes_expression_matches(const json_t *expr, const char *value)
{
    const char *op = codec_json_str(expr, "operator", NULL);
    const json_t *values = json_object_get(expr, "values");
    if (gs_streq(op, "In"))
        return value && codec_json_has_string(values, value);
    if (gs_streq(op, "NotIn"))
        return !value || !codec_json_has_string(values, value);
    if (gs_streq(op, "Exists"))
        return value != NULL;
    if (gs_streq(op, "DoesNotExist"))
        return value == NULL;
    if (gs_streq(op, "Gt"))
        return compare_numbers(value, values, true);
    return gs_streq(op, "Lt") && compare_numbers(value, values, false);
}

static bool term_matches(const json_t *term, const json_t *node)
{
    const json_t *labels = json_object_get(term, "matchExpressions");
    const json_t *fields = json_object_get(term, "matchFields");
    size_t i;
    json_t *expr;
    json_array_foreach ((json_t *)labels, i, expr) {
        const char *key = codec_json_str(expr, "key", NULL);
        if (!key || !nodes_expression_matches(expr, kube_label(node, key)))
            return false;
    }
    json_array_foreach ((json_t *)fields, i, expr) {
        if (!gs_streq(codec_json_str(expr, "key", NULL), "metadata.name") ||
            !nodes_expression_matches(expr, kube_name(node)))
            return false;
    }
    return json_array_size(labels) + json_array_size(fields) > 0;
}

bool nodes_selects(const json_t *pod, const json_t *node)
{
    const char *key;
    json_t *value, *term;
    json_object_foreach (codec_json_get(pod, "spec", "nodeSelector", NULL), key, value) {
        const char *label = kube_label(node, key);
        if (!label || !gs_streq(label, json_string_value(value)))
            return false;
    }
    const json_t *required = codec_json_get(pod, "spec", "affinity", "nodeAffinity",
                                            "requiredDuringSchedulingIgnoredDuringExecution", NULL);
    if (!required)
        return true;
    size_t i;
    json_array_foreach (json_object_get(required, "nodeSelectorTerms"), i, term) {
        if (term_matches(term, node))
            return true;
    }
    return false;
}

// --- taints ---

bool nodes_tolerates(const json_t *pod, const char *key, const char *value, const char *effect)
{
    size_t i;
    json_t *t;
    json_array_foreach (codec_json_get(pod, "spec", "tolerations", NULL), i, t) {
        const char *t_key = codec_json_str(t, "key", NULL),
                   *t_op = codec_json_str(t, "operator", NULL);
        const char *t_value = codec_json_str(t, "value", NULL);
        const char *t_effect = codec_json_str(t, "effect", NULL);
        bool exists = gs_streq(t_op, "Exists");
        if (t_effect && *t_effect && !gs_streq(t_effect, effect))
            continue;
        if (!t_key || !*t_key) {
            if (exists)
                return true;
            continue;
        }
        if (gs_streq(t_key, key) && (exists || gs_streq(t_value ? t_value : "", value)))
            return true;
    }
    return false;
}

char *nodes_untolerated_taint(const json_t *pod, const json_t *node, bool no_execute)
{
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        const char *key = codec_json_str(taint, "key", NULL);
        const char *value = codec_json_str(taint, "value", NULL);
        const char *effect = codec_json_str(taint, "effect", NULL);
        bool keeps_off =
            gs_streq(effect, "NoExecute") || (!no_execute && gs_streq(effect, "NoSchedule"));
        if (key && keeps_off && !nodes_tolerates(pod, key, value ? value : "", effect))
            return gs_format("node(s) had untolerated taint {%s: %s}", key, value ? value : "");
    }
    return NULL;
}

// --- verdicts ---
// The result depends on the pod's form and on the node's class, so it is computed once for both.

static const char hostname_key[] = "kubernetes.io/hostname";

static void note_key(struct nodes_snapshot *s, struct nodes_form *f, const char *key)
{
    if (gs_streq(key, hostname_key)) {
        f->by_name = true;
        return;
    }
    size_t before = s->keys.len;
    nodes_intern(&s->keys, gs_slice_of(key));
    if (s->keys.len != before) { // the classes are finer now
        s->generation++;
        nodes_names_clear(&s->classes);
    }
}

static void inspect(struct nodes_snapshot *s, struct nodes_form *f)
{
    f->inspected = true;
    const char *key;
    json_t *value, *term, *expr;
    size_t i, k;
    json_object_foreach (codec_json_get(f->pod, "spec", "nodeSelector", NULL), key, value)
        note_key(s, f, key);
    const json_t *terms =
        codec_json_get(f->pod, "spec", "affinity", "nodeAffinity",
                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
    json_array_foreach ((json_t *)terms, i, term) {
        if (json_array_size(json_object_get(term, "matchFields")))
            f->by_name = true;
        json_array_foreach (json_object_get(term, "matchExpressions"), k, expr) {
            const char *name = codec_json_str(expr, "key", NULL);
            if (name)
                note_key(s, f, name);
        }
    }
}

static bool is_ready(const struct nodes_node *n)
{
    return n->template || kube_condition_true(n->object, "Ready");
}

static void add_part(struct gs_buf *b, const char *text)
{
    if (text)
        gs_buf_add_str(b, text);
    gs_buf_add(b, text ? "\0" : "\0\1", text ? 1 : 2);
}

static uint32_t class_of(struct nodes_snapshot *s, struct nodes_node *n)
{
    if (n->generation == s->generation)
        return n->class;
    struct gs_buf *b = &s->scratch;
    gs_buf_clear(b);
    bool cordoned = codec_json_bool(n->object, false, "spec", "unschedulable", NULL);
    gs_buf_add_char(b, (char)('0' + cordoned + 2 * is_ready(n)));
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(n->object, "spec", "taints", NULL), i, taint) {
        add_part(b, codec_json_str(taint, "key", NULL));
        add_part(b, codec_json_str(taint, "value", NULL));
        add_part(b, codec_json_str(taint, "effect", NULL));
    }
    gs_buf_add_char(b, '\2');
    for (i = 0; i < s->keys.len; i++)
        add_part(b, kube_label(n->object, s->keys.items[i]));
    n->class = nodes_intern(&s->classes, gs_buf_slice(b));
    n->generation = s->generation;
    return n->class;
}

static char *find_reason(const struct nodes_form *f, const struct nodes_node *n)
{
    static const char unschedulable[] = "node.kubernetes.io/unschedulable";
    static const char not_ready[] = "node.kubernetes.io/not-ready";
    if (codec_json_bool(n->object, false, "spec", "unschedulable", NULL) &&
        !nodes_tolerates(f->pod, unschedulable, "", "NoSchedule"))
        return gs_strdup("node(s) were unschedulable");
    char *taint = nodes_untolerated_taint(f->pod, n->object, false);
    if (taint)
        return taint;
    if (!is_ready(n) && !nodes_tolerates(f->pod, not_ready, "", "NoSchedule"))
        return gs_format("node(s) had untolerated taint {%s: }", not_ready);
    if (!f->by_name && !nodes_selects(f->pod, n->object))
        return gs_strdup(NODES_NOT_SELECTED);
    return NULL;
}

static uint32_t verdict(struct nodes_snapshot *s, const struct nodes_form *f,
                        const struct nodes_node *n)
{
    GS_AUTO_FREE char *reason = find_reason(f, n);
    return reason ? 2 + nodes_intern(&s->verdicts, gs_slice_of(reason)) : NODES_FIT_OK;
}

static void make_verdicts(struct nodes_snapshot *s, struct nodes_form *f, uint32_t class)
{
    if (f->generation != s->generation) {
        f->n_verdicts = 0;
        f->generation = s->generation;
    }
    if (class < f->n_verdicts)
        return;
    size_t n = s->classes.len;
    f->verdicts = gs_realloc_array(f->verdicts, n, sizeof(*f->verdicts));
    memset(f->verdicts + f->n_verdicts, 0, (n - f->n_verdicts) * sizeof(*f->verdicts));
    f->n_verdicts = n;
}

const char *nodes_static_reason(struct nodes_snapshot *s, struct nodes_form *f, size_t node)
{
    struct nodes_node *n = &s->nodes[node];
    if (!f->inspected)
        inspect(s, f);
    uint32_t class = class_of(s, n);
    if (f->generation != s->generation || class >= f->n_verdicts)
        make_verdicts(s, f, class);
    if (f->verdicts[class] == NODES_FIT_UNKNOWN)
        f->verdicts[class] = verdict(s, f, n);
    if (f->verdicts[class] != NODES_FIT_OK)
        return s->verdicts.items[f->verdicts[class] - 2];
    if (f->by_name && !nodes_selects(f->pod, n->object))
        return NODES_NOT_SELECTED;
    return NULL;
}
