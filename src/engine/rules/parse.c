// SPDX-License-Identifier: Apache-2.0
// Parses rule files: documents and their groups. A document with a wrong structure is rejected.
// rules_build_rule() reports errors of single rules. For objects of a cluster, a wrong part costs
// only itself.
#include "engine/rules/rules_private.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/yaml_reader.h"

#include <glob.h>

#define MAX_FILE   ((size_t)16 * 1024 * 1024)
#define MAX_GROUPS 100000

void rules_problem(struct rules_problems *p, char *text)
{
    gs_grow(&p->items, &p->cap, p->len, sizeof(*p->items));
    p->items[p->len++] = (struct rules_problem){text};
}

void rules_problems_finish(struct rules_problems *p)
{
    for (size_t i = 0; i < p->len; i++)
        free(p->items[i].text);
    free(p->items);
    *p = (struct rules_problems){0};
}

char *rules_where(const struct rules_source *src, const json_t *value, const json_t *fallback)
{
    struct codec_yaml_mark m = codec_yaml_mark_of(src->marks, value);
    if (!m.line)
        m = codec_yaml_mark_of(src->marks, fallback);
    return m.line ? gs_format("%s:%d:%d", src->file, m.line, m.column) : gs_strdup(src->file);
}

const char *rules_format(struct rules_builder *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return gs_arena_strdup(&b->arena, text);
}

bool rules_scalar(struct rules_builder *b, const json_t *value, const char **ret)
{
    if (!value || json_is_null(value))
        return true;
    if (json_is_string(value)) {
        *ret = gs_arena_strndup(&b->arena, json_string_value(value), json_string_length(value));
        return true;
    }
    if (json_is_object(value) || json_is_array(value))
        return false;
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(value, &text);
    *ret = gs_arena_strndup(&b->arena, text.data, text.len);
    return true;
}

static int compare_group_names(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int c = memcmp(x->name.data, y->name.data, n);
    return c ? c : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

const char *rules_label_map(struct rules_builder *b, const json_t *value, bool label_names,
                            const struct metrics_label **ret, size_t *ret_n)
{
    const char *what = label_names ? "label" : "annotation";
    if (!value || json_is_null(value))
        return NULL;
    if (!json_is_object(value))
        return rules_format(b, "%ss must be a mapping of names to texts", what);
    struct metrics_label *items =
        gs_arena_alloc(&b->arena, json_object_size(value) * sizeof(*items) + 1);
    size_t n = 0;
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)value, name, v) {
        const char *text = "";
        // As in Prometheus 3, any UTF-8 text is a valid name. The YAML parser has checked the
        // encoding.
        if (!*name || (label_names && gs_streq(name, "__name__")))
            return rules_format(b, "invalid %s name: %s", what, name);
        if (!rules_scalar(b, v, &text))
            return rules_format(b, "%s \"%s\" must be a string", what, name);
        items[n++] = (struct metrics_label){gs_slice_of(gs_arena_strdup(&b->arena, name)),
                                            gs_slice_of(text)};
    }
    if (n)
        qsort(items, n, sizeof(*items), compare_group_names);
    *ret = items;
    *ret_n = n;
    return NULL;
}

static struct gs_error *fail_parse(const struct rules_source *src, const json_t *value,
                                   const json_t *fallback, const char *fmt, ...) GS_PRINTF(4, 5);
static struct gs_error *fail_parse(const struct rules_source *src, const json_t *value,
                                   const json_t *fallback, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    GS_AUTO_FREE char *where = rules_where(src, value, fallback);
    return gs_error_new(GS_EINVAL, "%s: %s", where, text);
}

// Takes err. If the other parts of the document are kept, the error becomes a problem.
static struct gs_error *leave_out(struct rules_builder *b, const struct rules_source *src,
                                  struct gs_error *err)
{
    if (!err || !src->keep_valid_parts)
        return err;
    rules_problem(b->problems, gs_strdup(gs_error_message(err)));
    gs_error_free(err);
    return NULL;
}

static struct gs_error *check_group_keys(struct rules_builder *b, const struct rules_source *src,
                                         const json_t *obj, const char *what,
                                         const char *const *known)
{
    const char *key;
    json_t *v;
    if (src->ignore_unknown_fields)
        return NULL;
    json_object_foreach ((json_t *)obj, key, v) {
        size_t i = 0;
        while (known[i] && !gs_streq(known[i], key))
            i++;
        struct gs_error *err =
            known[i] ? NULL : fail_parse(src, v, obj, "field %s not found in %s", key, what);
        err = leave_out(b, src, err);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *group_duration(struct rules_builder *b, const struct rules_source *src,
                                       const json_t *obj, const char *key, int64_t *ret_ms)
{
    const json_t *value = json_object_get(obj, key);
    const char *text = NULL;
    if (!rules_scalar(b, value, &text))
        return fail_parse(src, value, obj, "%s must be a duration", key);
    if (text && !codec_parse_duration(text, ret_ms))
        return fail_parse(src, value, obj, "%s: not a valid duration string: \"%s\"", key, text);
    return NULL;
}

static struct gs_error *group_limit(struct rules_builder *b, const struct rules_source *src,
                                    const json_t *obj, int64_t *ret)
{
    const json_t *value = json_object_get(obj, "limit");
    const char *text = NULL;
    if (!rules_scalar(b, value, &text))
        return fail_parse(src, value, obj, "limit must be a number");
    GS_AUTO_ERROR struct gs_error *err =
        text ? gs_parse_i64(gs_slice_of(text), INT32_MIN, INT32_MAX, ret) : NULL;
    return err ? fail_parse(src, value, obj, "limit: %s", gs_error_message(err)) : NULL;
}

static struct gs_error *build_rules(struct rules_builder *b, const struct rules_source *src,
                                    const json_t *obj, struct rules_group *g)
{
    const json_t *list = json_object_get(obj, "rules");
    if (!list || json_is_null(list))
        return NULL;
    if (!json_is_array(list))
        return fail_parse(src, list, obj, "rules must be a list");
    struct rules_rule *rules =
        gs_arena_alloc(&b->arena, json_array_size(list) * sizeof(*rules) + 1);
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        if (json_is_object(item)) {
            rules_build_rule(b, src, g, i + 1, item, &rules[g->n_rules++]);
            continue;
        }
        struct gs_error *err =
            leave_out(b, src,
                      fail_parse(src, item, obj, "group \"%s\", rule %zu: a rule must be a mapping",
                                 g->name, i + 1));
        if (err)
            return err;
    }
    g->rules = rules;
    return NULL;
}

static struct gs_error *build_group(struct rules_builder *b, const struct rules_source *src,
                                    const json_t *obj)
{
    static const char *const keys[] = {
        "name", "interval", "query_offset", "limit", "labels", "rules",
        // A Thanos field of PrometheusRule objects, which has no effect.
        "partial_response_strategy", NULL};
    if (!json_is_object(obj))
        return fail_parse(src, obj, NULL, "a group must be a mapping");
    struct rules_group g = {.file = gs_arena_strdup(&b->arena, src->file), .query_offset_ms = -1};
    const char *name = NULL;
    struct gs_error *err = check_group_keys(b, src, obj, "a rule group", keys);
    if (!err && (!rules_scalar(b, json_object_get(obj, "name"), &name) || !name || !*name))
        err = fail_parse(src, obj, NULL, "Groupname must not be empty");
    g.name = name;
    for (size_t i = 0; !err && i < b->n_groups; i++)
        if (gs_streq(b->groups[i].name, name) && gs_streq(b->groups[i].file, src->file))
            err =
                fail_parse(src, obj, NULL, "groupname: \"%s\" is repeated in the same file", name);
    if (!err)
        err = group_duration(b, src, obj, "interval", &g.interval_ms);
    if (!err)
        err = group_duration(b, src, obj, "query_offset", &g.query_offset_ms);
    if (!err)
        err = group_limit(b, src, obj, &g.limit);
    const json_t *labels = json_object_get(obj, "labels");
    const char *wrong = err ? NULL : rules_label_map(b, labels, true, &g.labels, &g.n_labels);
    if (wrong)
        err = fail_parse(src, labels, obj, "%s", wrong);
    if (!err)
        err = build_rules(b, src, obj, &g);
    if (err)
        return err;
    gs_grow(&b->groups, &b->cap_groups, b->n_groups, sizeof(*b->groups));
    b->groups[b->n_groups++] = g;
    return NULL;
}

static struct gs_error *build_groups(struct rules_builder *b, const struct rules_source *src,
                                     const json_t *holder)
{
    static const char *const keys[] = {"groups", NULL};
    struct gs_error *err = check_group_keys(b, src, holder, "a rule file", keys);
    const json_t *groups = json_object_get(holder, "groups");
    if (err || !groups || json_is_null(groups))
        return err;
    if (!json_is_array(groups))
        return fail_parse(src, groups, holder, "groups must be a list");
    if (json_array_size(groups) > MAX_GROUPS)
        return fail_parse(src, groups, holder, "more than %d groups", MAX_GROUPS);
    size_t i;
    json_t *g;
    json_array_foreach (groups, i, g)
        if ((err = leave_out(b, src, build_group(b, src, g))))
            return err;
    return NULL;
}

static struct gs_error *build_object(struct rules_builder *b, const struct rules_source *src,
                                     const json_t *doc, const char *kind)
{
    const json_t *spec = json_object_get(doc, "spec");
    if (!gs_streq(kind, "PrometheusRule"))
        return fail_parse(src, doc, NULL,
                          "objects of kind %s have no rules; expected PrometheusRule", kind);
    if (spec && !json_is_object(spec))
        return fail_parse(src, spec, doc, "spec must be a mapping");
    return spec ? build_groups(b, src, spec) : NULL;
}

struct gs_error *rules_build_document(struct rules_builder *b, const struct rules_source *src,
                                      const json_t *doc)
{
    if (!json_is_object(doc))
        return fail_parse(src, doc, NULL, "a rule file must be a mapping with groups");
    const char *kind = codec_json_str(doc, "kind", NULL);
    if (!kind)
        return build_groups(b, src, doc);
    if (!gs_ends(kind, "List"))
        return build_object(b, src, doc, kind);
    const json_t *items = json_object_get(doc, "items");
    if (!json_is_array(items))
        return fail_parse(src, doc, NULL, "a %s must have items", kind);
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        const char *item_kind = codec_json_str(item, "kind", NULL);
        struct gs_error *err =
            json_is_object(item)
                ? build_object(b, src, item, item_kind ? item_kind : "PrometheusRule")
                : fail_parse(src, item, doc, "an item of a list must be an object");
        if (err)
            return err;
    }
    return NULL;
}

// --- sets ---

struct set_memory {
    struct gs_arena arena;
    struct rules_group *groups;
    struct promql_expr **exprs;
    size_t n_exprs;
};

struct rules_set *rules_builder_end(struct rules_builder *b)
{
    struct rules_set *set = gs_alloc(sizeof(*set));
    struct set_memory *m = gs_alloc(sizeof(*m));
    *m = (struct set_memory){b->arena, b->groups, b->exprs, b->n_exprs};
    *set = (struct rules_set){.groups = b->groups, .n_groups = b->n_groups, .own = m};
    *b = (struct rules_builder){0};
    return set;
}

static void free_memory(struct set_memory *m)
{
    for (size_t i = 0; i < m->n_exprs; i++)
        promql_expr_free(m->exprs[i]);
    free(m->exprs);
    free(m->groups);
    gs_arena_finish(&m->arena);
}

void rules_builder_finish(struct rules_builder *b)
{
    free_memory(&(struct set_memory){b->arena, b->groups, b->exprs, b->n_exprs});
    *b = (struct rules_builder){0};
}

void rules_set_free(struct rules_set *s)
{
    if (!s)
        return;
    free_memory(s->own);
    free(s->own);
    free(s);
}

static struct gs_error *build_text(struct rules_builder *b, struct gs_slice text, const char *file)
{
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, file, &docs, &marks);
    struct rules_source src = {file, marks, b->problems->ignore_unknown_fields};
    size_t old_groups = b->n_groups;
    for (size_t i = 0; !err && i < docs.len; i++)
        err = rules_build_document(b, &src, docs.items[i].value);
    if (err)
        b->n_groups = old_groups; // keep no groups of a rejected file
    codec_yaml_docs_finish(&docs);
    return err;
}

struct gs_error *rules_parse(struct gs_slice text, const char *file,
                             struct rules_problems *problems, struct rules_set **ret)
{
    struct rules_builder b = {.problems = problems};
    struct gs_error *err = build_text(&b, text, file);
    if (!err)
        *ret = rules_builder_end(&b);
    else
        rules_builder_finish(&b);
    return err;
}

struct gs_error *rules_parse_document(const json_t *document, const struct codec_yaml_marks *marks,
                                      const char *file, struct rules_problems *problems,
                                      struct rules_set **ret)
{
    struct rules_builder b = {.problems = problems};
    struct rules_source src = {file, marks, problems->ignore_unknown_fields};
    struct gs_error *err = rules_build_document(&b, &src, document);
    if (!err)
        *ret = rules_builder_end(&b);
    else
        rules_builder_finish(&b);
    return err;
}

static void load_file(struct rules_builder *b, const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = build_text(b, gs_buf_slice(&text), path);
    if (err)
        rules_problem(b->problems, gs_strdup(gs_error_message(err)));
}

struct gs_error *rules_load_files(const char *const *globs, size_t n,
                                  struct rules_problems *problems, struct rules_set **ret)
{
    struct rules_builder b = {.problems = problems};
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *seen = gs_hmap_new(NULL);
    for (size_t i = 0; i < n; i++) {
        glob_t found = {0};
        int rc = glob(globs[i], 0, NULL, &found);
        for (size_t f = 0; rc == 0 && f < found.gl_pathc; f++) {
            if (!gs_hmap_get_str(seen, found.gl_pathv[f])) // two globs may match the same file
                load_file(&b, found.gl_pathv[f]);
            gs_hmap_put_str(seen, found.gl_pathv[f], seen);
        }
        if (rc == GLOB_NOMATCH && !strpbrk(globs[i], "*?["))
            rules_problem(problems, gs_format("%s: no such rule file", globs[i]));
        globfree(&found);
    }
    *ret = rules_builder_end(&b);
    return NULL;
}
