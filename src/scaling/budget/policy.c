// SPDX-License-Identifier: Apache-2.0
// The text of the ConfigMap with the budgets. Every byte comes from a manifest, so all lists and
// numbers have a limit, and an error names its line.
#include "budget/budget.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "codec/yaml_reader.h"
#include "kube/names.h"
#include "kube/object.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define MAX_WEIGHT 1000.0

// A selector is not memory of the arena, so that it is released here if the rest is wrong.
struct policy_file {
    struct budget_policy *policy;
    const char *mode;
    const json_t *budgets;
};

// --- values ---

static bool parse_weight(const char *text, double *ret)
{
    double weight = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &weight);
    if (err || !(weight > 0 && weight <= MAX_WEIGHT))
        return false;
    *ret = weight;
    return true;
}

static void read_classes(struct codec_reader *r, const json_t *v, void *out)
{
    struct budget_policy *p = ((struct policy_file *)out)->policy;
    const char *name;
    json_t *item;
    if (!codec_reader_is_mapping(r, v, "priorityClasses"))
        return;
    size_t n = json_object_size(v);
    if (n > BUDGET_MAX_NAMES) {
        codec_reader_fail(r, v, "more than %d priority classes", BUDGET_MAX_NAMES);
        return;
    }
    p->classes = codec_reader_alloc(r, (n + 1) * sizeof(*p->classes));
    json_object_foreach ((json_t *)v, name, item) {
        struct budget_class *c = &p->classes[p->n_classes++];
        c->name = codec_reader_format(r, "%s", name);
        if (!parse_weight(codec_read_text(r, item), &c->weight))
            codec_reader_fail(r, item, "priority class %s: want a weight above 0 and up to %g",
                              name, MAX_WEIGHT);
    }
}

static void read_namespaces(struct codec_reader *r, const json_t *v, void *out)
{
    struct budget_scope *s = out;
    codec_read_texts(r, v, &s->namespaces, &s->n_namespaces);
    if (!s->n_namespaces && !r->err)
        codec_reader_fail(r, v, "namespaces is empty: leave it out for all namespaces");
    if (s->n_namespaces > BUDGET_MAX_NAMES)
        codec_reader_fail(r, v, "more than %d namespaces", BUDGET_MAX_NAMES);
    for (size_t i = 0; i < s->n_namespaces && !r->err; i++)
        if (!kube_check_dns_label(gs_slice_of(s->namespaces[i]), NULL))
            codec_reader_fail(r, v, "\"%s\" is no name of a namespace", s->namespaces[i]);
}

static void check_labels(struct codec_reader *r, const json_t *v, void *out)
{
    (void)out;
    codec_reader_is_mapping(r, v, "matchLabels");
}

static void check_expressions(struct codec_reader *r, const json_t *v, void *out)
{
    (void)out;
    if (!json_is_array(v))
        codec_reader_fail(r, v, "matchExpressions: want a list");
}

static void check_selector(struct codec_reader *r, const json_t *v)
{
    static const struct codec_field fields[] = {
        {"matchLabels", CODEC_FIELD_CUSTOM, 0, check_labels},
        {"matchExpressions", CODEC_FIELD_CUSTOM, 0, check_expressions},
        {0},
    };
    char unused;
    codec_read_mapping(r, v, fields, "selector", &unused);
}

// "app=chat,tier in (a,b)" or a LabelSelector.
static void read_selector(struct codec_reader *r, const json_t *v, void *out)
{
    struct budget_scope *s = out;
    kube_selector_finish(&s->selector);
    s->selector = (struct kube_selector){0};
    if (json_is_object(v))
        check_selector(r, v);
    if (r->err)
        return;
    GS_AUTO_ERROR struct gs_error *err =
        json_is_object(v) ? kube_selector_from_json(v, &s->selector)
                          : kube_selector_parse(codec_read_text(r, v), &s->selector);
    if (err)
        codec_reader_fail(r, v, "selector: %s", gs_error_message(err));
}

static void read_idle_after(struct codec_reader *r, const json_t *v, void *out)
{
    struct budget_scope *s = out;
    const char *text = json_string_value(v);
    if (!text || !codec_parse_duration(text, &s->idle_after_ms) ||
        s->idle_after_ms < BUDGET_LEAST_IDLE_MS || s->idle_after_ms > BUDGET_MOST_IDLE_MS)
        codec_reader_fail(r, v, "idleAfter: want a duration from 5m to 24h");
}

// --- scopes ---

static void check_scope(struct codec_reader *r, const json_t *v, const struct budget_policy *p,
                        const struct budget_scope *s)
{
    if (!s->name || !kube_check_dns_label(gs_slice_of(s->name), NULL))
        codec_reader_fail(r, v, "a budget needs a name of lower-case letters, digits and hyphens");
    else if (s->gpus > BUDGET_MAX_GPUS)
        codec_reader_fail(r, v, "budget %s: want gpus: 0 to %d", s->name, BUDGET_MAX_GPUS);
    else if (!json_object_get(v, "gpus"))
        codec_reader_fail(r, v, "budget %s: gpus is missing", s->name);
    else if (s->gpu && !*s->gpu)
        codec_reader_fail(r, v, "budget %s: gpu is empty", s->name);
    for (size_t i = 0; i < p->n_scopes && !r->err; i++)
        if (gs_streq(p->scopes[i].name, s->name))
            codec_reader_fail(r, v, "budget %s is given twice", s->name);
}

// A key without a value, such as from an unset variable of a template, must neither be a budget of
// 0 GPUs nor one of all namespaces.
static void check_values(struct codec_reader *r, const json_t *v)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)v, key, value)
        if (json_is_null(value))
            codec_reader_fail(r, v, "%s has no value: set it or remove the key", key);
}

static void read_scope(struct codec_reader *r, const json_t *v, struct budget_policy *p)
{
#define AT(field) offsetof(struct budget_scope, field)
    static const struct codec_field fields[] = {
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"namespaces", CODEC_FIELD_CUSTOM, 0, read_namespaces},
        {"selector", CODEC_FIELD_CUSTOM, 0, read_selector},
        {"gpu", CODEC_FIELD_TEXT, AT(gpu), NULL},
        {"gpus", CODEC_FIELD_COUNT, AT(gpus), NULL},
        {"idleAfter", CODEC_FIELD_CUSTOM, 0, read_idle_after},
        {0},
    };
#undef AT
    struct budget_scope s = {0};
    if (!codec_reader_is_mapping(r, v, "budget"))
        return;
    check_values(r, v);
    codec_read_mapping(r, v, fields, "budget", &s);
    if (!r->err)
        check_scope(r, v, p, &s);
    if (r->err)
        kube_selector_finish(&s.selector);
    else
        p->scopes[p->n_scopes++] = s;
}

static void read_scopes(struct codec_reader *r, const json_t *list, struct budget_policy *p)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list)) {
        codec_reader_fail(r, list, "budgets: want a list of budgets");
        return;
    }
    if (n > BUDGET_MAX_SCOPES) {
        codec_reader_fail(r, list, "more than %d budgets", BUDGET_MAX_SCOPES);
        return;
    }
    p->scopes = codec_reader_alloc(r, (n + 1) * sizeof(*p->scopes));
    for (size_t i = 0; i < n && !r->err; i++)
        read_scope(r, json_array_get(list, i), p);
}

static void keep_list(struct codec_reader *r, const json_t *v, void *out)
{
    (void)r;
    ((struct policy_file *)out)->budgets = v;
}

static void read_file(struct codec_reader *r, const json_t *v, struct budget_policy *p)
{
    static const struct codec_field fields[] = {
        {"mode", CODEC_FIELD_TEXT, offsetof(struct policy_file, mode), NULL},
        {"priorityClasses", CODEC_FIELD_CUSTOM, 0, read_classes},
        {"budgets", CODEC_FIELD_CUSTOM, 0, keep_list},
        {0},
    };
    struct policy_file f = {.policy = p, .mode = "dryRun"};
    if (!codec_reader_is_mapping(r, v, BUDGET_KEY))
        return;
    codec_read_mapping(r, v, fields, "file of budgets", &f);
    if (r->err)
        return;
    p->enforce = gs_streq(f.mode, "enforce");
    if (!p->enforce && !gs_streq(f.mode, "dryRun"))
        codec_reader_fail(r, json_object_get(v, "mode"), "mode \"%s\": want dryRun or enforce",
                          f.mode);
    else if (!f.budgets)
        codec_reader_fail(r, v, "budgets are missing");
    else
        read_scopes(r, f.budgets, p);
}

struct gs_error *budget_policy_parse(struct gs_slice yaml, const char *name,
                                     struct budget_policy *ret)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    struct budget_policy p = {.arena.limit = 8 * BUDGET_MAX_TEXT};
    struct gs_error *err = NULL;
    if (yaml.len > BUDGET_MAX_TEXT)
        return gs_error_new(GS_EINVAL, "%s: more than %d bytes", name, BUDGET_MAX_TEXT);
    err = codec_yaml_parse_texts(yaml, name, &docs, &marks);
    if (!err && docs.len != 1)
        err = gs_error_new(GS_EINVAL, "%s: want one YAML document with budgets, found %zu", name,
                           docs.len);
    if (!err) {
        struct codec_reader r = {.name = name, .marks = marks, .arena = &p.arena};
        read_file(&r, docs.items[0].value, &p);
        err = r.err;
        free(r.ignored);
    }
    codec_yaml_marks_free(marks);
    codec_yaml_docs_finish(&docs);
    if (err)
        budget_policy_finish(&p);
    else
        *ret = p;
    return err;
}

struct gs_error *budget_policy_of(const json_t *config_map, struct budget_policy *ret)
{
    const char *text = codec_json_str(config_map, "data", BUDGET_KEY, NULL);
    GS_AUTO_FREE char *key = kube_key(config_map);
    if (!text)
        return gs_error_new(GS_ENOTFOUND, "ConfigMap %s has no data." BUDGET_KEY, key);
    GS_AUTO_FREE char *name = gs_format("ConfigMap %s: " BUDGET_KEY, key);
    return budget_policy_parse(gs_slice_of(text), name, ret);
}

void budget_policy_finish(struct budget_policy *p)
{
    for (size_t i = 0; i < p->n_scopes; i++)
        kube_selector_finish(&p->scopes[i].selector);
    gs_arena_finish(&p->arena);
    *p = (struct budget_policy){0};
}

// --- matching ---

// Whole words of a model only: A10 is not A100. In product names, spaces and hyphens are the same.
static bool has_word(const char *model, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = model; *at; at++) {
        bool begins = at == model || !isalnum((unsigned char)at[-1]);
        if (begins && strncasecmp(at, word, len) == 0 && !isalnum((unsigned char)at[len]))
            return true;
    }
    return false;
}

bool budget_scope_has_namespace(const struct budget_scope *s, const char *ns)
{
    bool named = !s->n_namespaces;
    for (size_t i = 0; i < s->n_namespaces && !named; i++)
        named = gs_streq(s->namespaces[i], ns);
    return named;
}

bool budget_scope_matches(const struct budget_scope *s, const char *ns, const json_t *labels,
                          const char *model)
{
    return budget_scope_has_namespace(s, ns) && (!s->gpu || (model && has_word(model, s->gpu))) &&
           kube_selector_matches(&s->selector, labels);
}

struct gs_error *budget_weight(const struct budget_policy *p, const char *annotation,
                               const char *priority_class, double *ret)
{
    *ret = 1;
    for (size_t i = 0; priority_class && i < p->n_classes; i++)
        if (gs_streq(p->classes[i].name, priority_class))
            *ret = p->classes[i].weight;
    if (annotation && !parse_weight(annotation, ret))
        return gs_error_new(
            GS_EINVAL, BUDGET_PRIORITY_ANNOTATION ": \"%.60s\": want a number above 0 and up to %g",
            annotation, MAX_WEIGHT);
    return NULL;
}
