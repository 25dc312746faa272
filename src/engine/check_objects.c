// SPDX-License-Identifier: Apache-2.0
// Checks ServiceMonitor, PodMonitor and PrometheusRule objects, from manifests and from the values
// of a Helm chart, and counts them.
#include "engine/check_private.h"

#include "base/mem.h"
#include "base/option.h"
#include "engine/monitors/monitors.h"
#include "engine/rules/rules.h"
#include "kube/object.h"
#include "kube/schema.h"

#define GROUP     "monitoring.coreos.com/"
#define MAX_NAMES 64

static const struct {
    const char *kind;
    size_t offset; // in struct engine_check_counts
} kinds[] = {
    {"ServiceMonitor", offsetof(struct engine_check_counts, service_monitors)},
    {"PodMonitor", offsetof(struct engine_check_counts, pod_monitors)},
    {"PrometheusRule", offsetof(struct engine_check_counts, rule_objects)},
};

// --- counts ---

static void add_count(struct gs_buf *out, size_t n, const char *what)
{
    if (n)
        gs_buf_addf(out, "%s%zu %s%s", out->len ? ", " : "", n, what, n == 1 ? "" : "s");
}

char *engine_check_counts_text(const struct engine_check_counts *n)
{
    struct gs_buf out = {0};
    add_count(&out, n->scrapes, "scrape config");
    add_count(&out, n->service_monitors, "ServiceMonitor");
    add_count(&out, n->pod_monitors, "PodMonitor");
    add_count(&out, n->rule_objects, "PrometheusRule");
    add_count(&out, n->rules, "rule");
    add_count(&out, n->alertmanagers, "Alertmanager config");
    add_count(&out, n->remote_writes, "remote write");
    add_count(&out, n->rule_files, "rule file");
    add_count(&out, n->settings, "other setting");
    return out.len ? gs_buf_take(&out) : NULL;
}

// --- one object ---

// Where an error is, and what prints it.
struct object_check {
    const struct engine_check_object *o;
    const char *name;
    size_t wrong, doubted;
};

static char *place_of(const struct engine_check_object *o, const json_t *twin, const json_t *outer)
{
    struct codec_yaml_mark m = codec_yaml_mark_of(o->twin_marks, twin);
    if (!m.line)
        m = codec_yaml_mark_of(o->twin_marks, outer);
    return m.line ? gs_format("%s:%d:%d", o->path, m.line, m.column)
                  : gs_format("%s:%d", o->path, o->line);
}

// The path without its last name.
static struct gs_slice outer_path(const struct kube_schema_problem *p)
{
    size_t n = strlen(p->path) - strlen(p->field);
    return gs_slice_make(p->path, n ? n - 1 : 0);
}

// Go's types in other words: "[]v1.Rule" is a list.
static const char *type_words(const char *type)
{
    static const char *const words[][2] = {{"string", "a string"},
                                           {"bool", "true or false"},
                                           {"int32", "a whole number"},
                                           {"int64", "a whole number"},
                                           {"intstr.IntOrString", "a string or a whole number"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (gs_streq(type, words[i][0]))
            return words[i][1];
    return gs_starts(type, "[]") ? "a list" : "a mapping";
}

static char *problem_text(const struct kube_schema_problem *p)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    if (!p->owner && p->wanted)
        return gs_format("%s must be %s", p->path, type_words(p->wanted));
    if (!p->owner)
        return gs_format("%s: %s", p->path, p->text);
    for (const struct kube_field *f = p->owner->fields; f->name && n < MAX_NAMES; f++)
        names[n++] = f->name;
    const char *near = gs_suggest(p->field, names, n);
    struct gs_slice outer = outer_path(p);
    return gs_format(GS_SLICE_FMT "%sunknown field \"%s\"%s%s%s", GS_SLICE_ARG(outer),
                     outer.len ? ": " : "", p->field, near ? ", did you mean \"" : "",
                     near ? near : "", near ? "\"?" : "");
}

static void print_problem(void *arg, const struct kube_schema_problem *p)
{
    struct object_check *c = arg;
    GS_AUTO_FREE char *place = place_of(c->o, p->twin, p->outer_twin);
    GS_AUTO_FREE char *text = problem_text(p);
    fprintf(stderr, "  FAILED: %s: %s %s: %s\n", place, kube_kind(c->o->value), c->name, text);
    c->wrong++;
}

// A text with a position inside of the file ("a.yaml:6:62: …") or without one ("a.yaml: …").
static char *placed_text(const struct object_check *c, const char *text)
{
    size_t n = strlen(c->o->path);
    const char *kind = kube_kind(c->o->value);
    bool named = gs_starts(text, c->o->path) && text[n] == ':';
    if (!named || text[n + 1] == ' ')
        return gs_format("%s:%d: %s %s: %s", c->o->path, c->o->line, kind, c->name,
                         named ? text + n + 2 : text);
    const char *end = strstr(text + n, ": ");
    size_t place = end ? (size_t)(end - text) : n;
    return gs_format("%.*s: %s %s%s", (int)place, text, kind, c->name, text + place);
}

static void check_monitor(struct object_check *c)
{
    CODEC_AUTO_JSON json_t *warnings = json_array();
    size_t i;
    json_t *warning;
    GS_AUTO_ERROR struct gs_error *err =
        monitors_check(c->o->value, c->o->path, c->o->marks, warnings);
    if (err) {
        GS_AUTO_FREE char *text = placed_text(c, gs_error_message(err));
        fprintf(stderr, "  FAILED: %s\n", text);
        c->wrong++;
    }
    json_array_foreach (warnings, i, warning) {
        GS_AUTO_FREE char *text = placed_text(c, json_string_value(warning));
        printf("  WARNING: %s\n", text);
        c->doubted++;
    }
}

// Unknown fields are already reported.
static void check_rules(struct object_check *c, struct engine_check_counts *counts)
{
    GS_CLEANUP(rules_problems_finish)
    struct rules_problems problems = {.ignore_unknown_fields = true};
    struct rules_set *set = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        rules_parse_document(c->o->twin, c->o->twin_marks, c->o->path, &problems, &set);
    if (err)
        fprintf(stderr, "  FAILED: %s\n", gs_error_message(err));
    for (size_t i = 0; i < problems.len; i++)
        fprintf(stderr, "  FAILED: %s\n", problems.items[i].text);
    for (size_t i = 0; set && i < set->n_groups; i++)
        counts->rules += set->groups[i].n_rules;
    c->wrong += (err != NULL) + problems.len;
    rules_set_free(set);
}

static void check_required(struct object_check *c)
{
    static const char *const members[][3] = {{"ServiceMonitor", "selector", "endpoints"},
                                             {"PodMonitor", "selector", "podMetricsEndpoints"},
                                             {"PrometheusRule", "groups", NULL}};
    const char *kind = kube_kind(c->o->value);
    const json_t *spec = json_object_get(c->o->value, "spec");
    for (size_t i = 0; i < GS_ARRAY_LEN(members); i++)
        for (size_t k = 1; k < 3 && members[i][k] && gs_streq(kind, members[i][0]); k++) {
            if (json_object_get(spec, members[i][k]))
                continue;
            fprintf(stderr, "  FAILED: %s:%d: %s %s: spec.%s is missing\n", c->o->path, c->o->line,
                    kind, c->name, members[i][k]);
            c->wrong++;
        }
}

bool engine_check_object(const struct engine_check_options *o,
                         const struct engine_check_object *object,
                         struct engine_check_counts *counts)
{
    const char *name = kube_name(object->value), *kind = kube_kind(object->value);
    struct object_check c = {.o = object, .name = name ? name : "(no name)"};
    const struct kube_type *type = kube_schema_find(GROUP "v1", kind);
    if (type)
        kube_schema_visit(type, object->value, object->twin, print_problem, &c);
    check_required(&c);
    if (gs_streq(kind, "PrometheusRule"))
        check_rules(&c, counts);
    else if (!c.wrong)
        check_monitor(&c);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (gs_streq(kind, kinds[i].kind))
            ++*(size_t *)(void *)((char *)counts + kinds[i].offset);
    return !c.wrong && !(o->strict && c.doubted);
}
