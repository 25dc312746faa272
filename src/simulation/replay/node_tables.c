// SPDX-License-Identifier: Apache-2.0
// Cases of nodes_plan(): runs the plan and compares it with the expectations. A list that is not
// expected must be empty; reasons are compared where a case names them.
#include "replay/node_tables.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/object.h"
#include "replay/decision_tables.h"
#include "replay/node_tables_private.h"
#include "tsdb/matcher.h"

#include <stdarg.h>
#include <string.h>

#define MAX_FILE ((size_t)64 * 1024 * 1024)

struct check {
    const struct replay_node_case *c;
    const struct nodes_plan *plan;
    struct codec_test_case *result;
};

static void differs(const struct check *k, const char *fmt, ...) GS_PRINTF(2, 3);
static void differs(const struct check *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    codec_test_case_fail(k->result, gs_vformat(fmt, ap));
    va_end(ap);
}

static void expect_text(const struct check *k, const char *what, const char *want, const char *got)
{
    if (!gs_streq(want, got))
        differs(k, "%s\n  want: %s\n  got:  %s", what, want ? want : "(none)",
                got ? got : "(none)");
}

static const char *node_name(const struct check *k, size_t node)
{
    return nodes_name(k->c->in.snapshot, node);
}

static const char *pod_name(const struct check *k, size_t pod)
{
    return kube_name(nodes_pod(k->c->in.snapshot, pod));
}

// --- lists as texts ---

static void add_item(struct gs_buf *b, const char *text)
{
    gs_buf_addf(b, "%s%s", b->len ? ", " : "", text);
}

// The order in the file.
static char *wanted_list(const json_t *list)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    size_t i;
    json_t *item;
    gs_buf_add_str(&b, "");
    if (json_is_string(list))
        add_item(&b, json_string_value(list));
    json_array_foreach ((json_t *)list, i, item)
        if (json_is_string(item))
            add_item(&b, json_string_value(item));
    return gs_buf_take(&b);
}

static const char *cause_name(enum nodes_cause cause)
{
    return cause == NODES_CAUSE_MINIMUM       ? " for its minimum"
           : cause == NODES_CAUSE_REPLACEMENT ? " instead of "
                                              : " for ";
}

// "2 of large for p, q", "1 of small for its minimum", "1 of small instead of a"
static char *order_text(const struct check *k, const struct nodes_order *o)
{
    GS_AUTO_BUF struct gs_buf b = {0}, pods = {0};
    for (size_t i = 0; i < o->n_pods; i++)
        gs_buf_addf(&pods, "%s%s", i ? "+" : "", pod_name(k, o->pods[i]));
    gs_buf_addf(&b, "%zu of %s%s%s%s", o->count, k->c->in.groups[o->group].name,
                cause_name(o->cause), o->n_pods ? pods.data : "",
                o->cause == NODES_CAUSE_REPLACEMENT ? node_name(k, o->node) : "");
    return gs_buf_take(&b);
}

static void check_orders(const struct check *k, const json_t *want)
{
    GS_AUTO_BUF struct gs_buf got = {0};
    GS_AUTO_FREE char *wanted = wanted_list(want);
    gs_buf_add_str(&got, "");
    for (size_t i = 0; i < k->plan->n_orders; i++) {
        GS_AUTO_FREE char *text = order_text(k, &k->plan->orders[i]);
        add_item(&got, text);
    }
    expect_text(k, "orders", wanted, got.data ? got.data : "");
}

static void check_removals(const struct check *k, const char *what, const json_t *want, bool drain)
{
    GS_AUTO_BUF struct gs_buf got = {0};
    GS_AUTO_FREE char *wanted = wanted_list(want);
    gs_buf_add_str(&got, "");
    for (size_t i = 0; i < k->plan->n_removals; i++)
        if (k->plan->removals[i].drain == drain)
            add_item(&got, node_name(k, k->plan->removals[i].node));
    expect_text(k, what, wanted, got.data ? got.data : "");
}

static void check_cordons(const struct check *k, const char *what, const json_t *want, bool cordon)
{
    size_t n = 0;
    for (size_t i = 0; i < k->plan->cordons.len; i++) {
        const struct nodes_cordon *c = &k->plan->cordons.items[i];
        if (c->cordon != cordon)
            continue;
        n++;
        GS_AUTO_FREE char *where = gs_format("%s: %s", what, node_name(k, c->node));
        expect_text(k, where, codec_json_str(want, node_name(k, c->node), NULL), c->why);
    }
    if (n != json_object_size(want))
        differs(k, "%s: want %zu nodes, got %zu", what, json_object_size(want), n);
}

// --- reasons ---

static void check_nodes(const struct check *k, const json_t *want)
{
    const char *name;
    json_t *text;
    json_object_foreach ((json_t *)want, name, text) {
        size_t node = nodes_find(k->c->in.snapshot, name);
        GS_AUTO_FREE char *got =
            node == NODES_NONE ? NULL : nodes_plan_node_text(&k->c->in, k->plan, node);
        GS_AUTO_FREE char *where = gs_format("node %s", name);
        expect_text(k, where, json_string_value(text), got);
    }
}

static char *pod_text(const struct check *k, const char *name)
{
    for (size_t i = 0; i < k->plan->n_pods; i++)
        if (gs_streq(pod_name(k, k->plan->pods[i].pod), name))
            return nodes_plan_pod_text(&k->c->in, k->plan, i);
    for (size_t i = 0; i < k->c->n_ignored; i++)
        if (gs_streq(k->c->ignored[i], name))
            return gs_strdup("it orders no nodes");
    return NULL;
}

static void check_pods(const struct check *k, const json_t *want)
{
    const char *name;
    json_t *text;
    json_object_foreach ((json_t *)want, name, text) {
        GS_AUTO_FREE char *got = pod_text(k, name);
        GS_AUTO_FREE char *where = gs_format("pod %s", name);
        expect_text(k, where, json_string_value(text), got);
    }
}

// {node: how long ago it became unneeded}
static void check_unneeded(const struct check *k, const json_t *want)
{
    for (size_t i = 0; want && i < k->c->in.n_nodes; i++) {
        char got[GS_RFC3339_SIZE] = "it is needed";
        int64_t since_ms = k->plan->nodes[i].unneeded_since_ms, ms = 0;
        const char *text = codec_json_str(want, node_name(k, i), NULL);
        if (since_ms)
            gs_format_duration((k->c->in.now_ms - since_ms) * GS_NS_PER_MS, got);
        bool same =
            text ? since_ms && codec_parse_duration(text, &ms) && ms == k->c->in.now_ms - since_ms
                 : !since_ms;
        if (!same)
            differs(k, "unneeded: node %s: want %s, got %s", node_name(k, i),
                    text ? text : "it is needed", got);
    }
}

// {node: for how long its replacement is awaited}
static void check_replaced(const struct check *k, const json_t *want)
{
    for (size_t i = 0; want && i < k->c->in.n_nodes; i++) {
        char got[GS_RFC3339_SIZE] = "nothing is awaited";
        int64_t ms = k->plan->nodes[i].replaced_until_ms - k->c->in.now_ms;
        const char *text = codec_json_str(want, node_name(k, i), NULL);
        if (ms > 0)
            gs_format_duration(ms * GS_NS_PER_MS, got);
        GS_AUTO_FREE char *where = gs_format("replaced: node %s", node_name(k, i));
        expect_text(k, where, text ? text : "nothing is awaited", got);
    }
}

// When the plan is made again without a change, as a duration from now.
static void check_again(const struct check *k, const json_t *want)
{
    char got[GS_RFC3339_SIZE] = "never";
    int64_t ms = k->plan->again_ms - k->c->in.now_ms;
    if (k->plan->again_ms != INT64_MAX)
        gs_format_duration(ms * GS_NS_PER_MS, got);
    if (want)
        expect_text(k, "again", json_string_value(want), got);
}

static void check_names(struct codec_reader *r, const json_t *v, void *out)
{
    const char *const *texts;
    size_t n;
    (void)out;
    codec_read_texts(r, v, &texts, &n);
}

static bool is_expectation(struct codec_reader *r, const json_t *want)
{
    static const struct codec_field fields[] = {
        {"orders", CODEC_FIELD_UNUSED, 0, check_names},
        {"removals", CODEC_FIELD_UNUSED, 0, check_names},
        {"drains", CODEC_FIELD_UNUSED, 0, check_names},
        {"cordons", CODEC_FIELD_UNUSED, 0, NULL},
        {"uncordons", CODEC_FIELD_UNUSED, 0, NULL},
        {"nodes", CODEC_FIELD_UNUSED, 0, NULL},
        {"pods", CODEC_FIELD_UNUSED, 0, NULL},
        {"unneeded", CODEC_FIELD_UNUSED, 0, NULL},
        {"replaced", CODEC_FIELD_UNUSED, 0, NULL},
        {"again", CODEC_FIELD_UNUSED, 0, codec_check_text},
        {0},
    };
    if (want)
        codec_read_mapping(r, want, fields, "the expectations", NULL);
    return !r->err;
}

static void compare(const struct check *k, const json_t *want)
{
    check_orders(k, json_object_get(want, "orders"));
    check_removals(k, "removals", json_object_get(want, "removals"), false);
    check_removals(k, "drains", json_object_get(want, "drains"), true);
    check_cordons(k, "cordons", json_object_get(want, "cordons"), true);
    check_cordons(k, "uncordons", json_object_get(want, "uncordons"), false);
    check_nodes(k, json_object_get(want, "nodes"));
    check_pods(k, json_object_get(want, "pods"));
    check_unneeded(k, json_object_get(want, "unneeded"));
    check_replaced(k, json_object_get(want, "replaced"));
    check_again(k, json_object_get(want, "again"));
}

// --- cases ---

static void run_case(struct codec_reader *r, const json_t *doc, const json_t *typed,
                     struct codec_test_case *result)
{
    struct replay_node_case c;
    replay_node_case_read(r, doc, typed, &c);
    if (!r->err && is_expectation(r, c.expect)) {
        struct nodes_plan plan;
        nodes_plan(&c.in, &plan);
        const struct check k = {&c, &plan, result};
        compare(&k, c.expect);
        nodes_plan_finish(&plan);
    }
    replay_node_case_finish(&c);
}

// The row's members instead of the document's; those of mappings are merged.
static json_t *with_row(const json_t *doc, const json_t *row)
{
    json_t *out = json_copy((json_t *)doc), *value;
    const char *key;
    json_object_del(out, "rows");
    json_object_foreach ((json_t *)row, key, value) {
        json_t *old = json_object_get(out, key);
        if (json_is_object(old) && json_is_object(value)) {
            json_t *merged = json_copy(old);
            json_object_update(merged, value);
            json_object_set_new(out, key, merged);
        } else {
            json_object_set(out, key, value);
        }
    }
    return out;
}

struct file {
    const char *path;
    const struct codec_yaml_marks *marks;
    const struct tsdb_regex *only;
    struct codec_test_report *ret;
};

static void run_one(const struct file *f, const json_t *doc, const json_t *typed, const char *name,
                    int line)
{
    struct gs_arena arena = {0};
    struct codec_reader r = {.name = f->path, .marks = f->marks, .arena = &arena};
    if (f->only && !tsdb_regex_matches(f->only, gs_slice_of(name)))
        return;
    struct codec_test_case *c =
        codec_test_report_add(f->ret, gs_format("%s:%d %s", f->path, line, name));
    run_case(&r, doc, typed, c);
    if (r.err)
        codec_test_case_fail(c, gs_strdup(gs_error_message(r.err)));
    f->ret->n_failed += c->n_failures > 0;
    gs_error_free(r.err);
    free(r.ignored);
    gs_arena_finish(&arena);
}

static void run_doc(const struct file *f, const struct codec_yaml_doc *doc, const json_t *typed)
{
    const json_t *rows = json_object_get(doc->value, "rows");
    const char *name = codec_json_str(doc->value, "name", NULL);
    if (!rows) {
        run_one(f, doc->value, typed, name ? name : "(without a name)", doc->line);
        return;
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *own = codec_json_str(row, "name", NULL);
        GS_AUTO_FREE char *both =
            gs_format("%s: %s", name ? name : "", own ? own : "(without a name)");
        CODEC_AUTO_JSON json_t *value = with_row(doc->value, row);
        CODEC_AUTO_JSON json_t *value_typed =
            with_row(typed, json_array_get(json_object_get(typed, "rows"), i));
        run_one(f, value, value_typed, both, codec_yaml_mark_of(f->marks, row).line);
    }
}

struct gs_error *replay_run_node_cases(const char *path, const char *run,
                                       struct codec_test_report *ret)
{
    struct codec_yaml_docs docs = {0}, typed = {0};
    struct codec_yaml_marks *marks = NULL;
    struct tsdb_regex *only = NULL;
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = codec_yaml_parse_texts(gs_buf_slice(&text), path, &docs, &marks);
    if (!err)
        err = codec_yaml_parse(gs_buf_slice(&text), path, &typed);
    if (!err && (!docs.len || docs.len != typed.len))
        err = gs_error_new(GS_EINVAL, "%s: the file has no cases", path);
    if (!err && run) {
        GS_AUTO_FREE char *pattern = gs_format(".*(?:%s).*", run);
        err = tsdb_regex_new(gs_slice_of(pattern), &only);
    }
    const struct file f = {path, marks, only, ret};
    for (size_t i = 0; !err && i < docs.len; i++)
        run_doc(&f, &docs.items[i], typed.items[i].value);
    tsdb_regex_free(only);
    codec_yaml_docs_finish(&docs);
    codec_yaml_docs_finish(&typed);
    codec_yaml_marks_free(marks);
    return err;
}

struct gs_error *replay_test_node_files(const struct codec_test_options *o, int n_files,
                                        char **files, int *ret_exit)
{
    return replay_test_each(replay_run_node_cases, o, n_files, files, ret_exit);
}
