// SPDX-License-Identifier: Apache-2.0
// Evaluates the rules of a group in order. Each rule can use the results of the rules before it.
#include "engine/rules/rules_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define MAX_EVAL_BYTES ((size_t)256 * 1024 * 1024)

struct rules_runner *rules_runner_new(const struct rules_runner_config *cfg,
                                      const struct rules_group *group, int64_t interval_ms)
{
    struct rules_runner *r = gs_alloc(sizeof(*r));
    *r = (struct rules_runner){.cfg = *cfg, .group = group, .interval_ms = interval_ms};
    r->rules = gs_alloc_array(group->n_rules + 1, sizeof(*r->rules));
    for (size_t i = 0; i < group->n_rules; i++) {
        struct rules_state *s = &r->rules[i];
        s->rule = &group->rules[i];
        s->series = tsdb_group_new(cfg->db);
        s->active = gs_hmap_new(rules_active_alert_free);
        s->restored = true;
        if (s->rule->kind == RULES_ALERT)
            rules_alerts_parse_templates(s);
        if (!s->rule->expr) {
            s->health = RULES_ERR;
            s->last_error = gs_strdup(s->rule->problem);
        }
    }
    return r;
}

static void free_templates(struct template_program **t, size_t n)
{
    for (size_t i = 0; t && i < n; i++)
        template_free(t[i]);
    free(t);
}

void rules_runner_free(struct rules_runner *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->group->n_rules; i++) {
        struct rules_state *s = &r->rules[i];
        if (s->series)
            tsdb_group_free(s->series);
        if (s->active)
            gs_hmap_free(s->active);
        free_templates(s->label_templates, s->rule->n_labels);
        free_templates(s->annotation_templates, s->rule->n_annotations);
        free(s->last_error);
    }
    for (size_t i = 0; i < r->n_ended; i++)
        tsdb_group_free(r->ended[i]);
    free(r->ended);
    free(r->rules);
    free(r);
}

int64_t rules_runner_offset(const struct rules_runner *r)
{
    int64_t own = r->group->query_offset_ms; // negative: not set
    return own >= 0 ? own : r->cfg.query_offset_ms;
}

// --- queries ---

static struct gs_error *no_memory(void)
{
    return gs_error_new(GS_ELIMIT, "the result of the rule needs more than %zu bytes",
                        MAX_EVAL_BYTES);
}

static struct gs_error *copy_sample(const struct promql_result *res, struct tsdb_labels labels,
                                    double value, struct gs_arena *arena, struct rules_sample *ret)
{
    size_t n = tsdb_labels_len(labels);
    struct metrics_label *items = gs_arena_alloc(arena, (n + 1) * sizeof(*items));
    if (!items)
        return no_memory();
    for (size_t i = 0; i < n; i++) {
        struct metrics_label label = promql_label_at(res, labels, i);
        // Copied, because the store can free symbols when results are stored.
        const char *name = gs_arena_strndup(arena, label.name.data, label.name.len);
        const char *text = gs_arena_strndup(arena, label.value.data, label.value.len);
        if (!name || !text)
            return no_memory();
        items[i] = (struct metrics_label){gs_slice_make(name, label.name.len),
                                          gs_slice_make(text, label.value.len)};
    }
    *ret = (struct rules_sample){items, n, value};
    return NULL;
}

static struct gs_error *copy_result(const struct promql_result *res, struct gs_arena *arena,
                                    struct rules_sample **ret, size_t *ret_n)
{
    const struct promql_matrix *m = &res->matrix;
    struct gs_error *err = NULL;
    size_t n = 0;
    struct rules_sample *items = gs_arena_alloc(arena, (m->n + 1) * sizeof(*items));
    if (!items)
        return no_memory();
    for (size_t i = 0; !err && i < m->n; i++) {
        struct tsdb_labels labels = m->series[i].labels;
        if (res->type == PROMQL_RESULT_SCALAR)
            labels = (struct tsdb_labels){0};
        if (m->n_steps && !promql_absent(m->series[i].v[0]))
            err = copy_sample(res, labels, m->series[i].v[0], arena, &items[n++]);
    }
    *ret = items;
    *ret_n = n;
    return err;
}

struct gs_error *rules_query(const struct rules_runner_config *cfg, const struct promql_expr *expr,
                             int64_t t_ms, struct gs_arena *arena, struct rules_sample **ret,
                             size_t *ret_n)
{
    struct promql_result res;
    struct gs_error *err = promql_instant(cfg->engine, expr, t_ms, &res);
    if (err)
        return err;
    if (res.is_raw || (res.type != PROMQL_RESULT_VECTOR && res.type != PROMQL_RESULT_SCALAR))
        err = gs_error_new(GS_EINVAL, "rule result is not a vector or scalar");
    else
        err = copy_result(&res, arena, ret, ret_n);
    promql_result_finish(&res);
    return err;
}

// --- label sets ---

static int compare_names(const void *a, const void *b)
{
    struct gs_slice x = ((const struct metrics_label *)a)->name;
    struct gs_slice y = ((const struct metrics_label *)b)->name;
    size_t n = x.len < y.len ? x.len : y.len;
    int c = n ? memcmp(x.data, y.data, n) : 0;
    return c ? c : (x.len > y.len) - (x.len < y.len);
}

void rules_sort_labels(struct metrics_label *items, size_t n)
{
    if (n > 1)
        qsort(items, n, sizeof(*items), compare_names);
}

void rules_set_label(struct metrics_label *items, size_t *n, struct gs_slice name,
                     struct gs_slice value)
{
    for (size_t i = 0; i < *n; i++)
        if (gs_slice_eq(items[i].name, name)) {
            if (value.len)
                items[i].value = value;
            else
                items[i] = items[--*n];
            return;
        }
    if (value.len)
        items[(*n)++] = (struct metrics_label){name, value};
}

void rules_labels_key(const struct metrics_label *items, size_t n, struct gs_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        gs_buf_add(out, &items[i].name.len, sizeof(items[i].name.len));
        gs_buf_add_slice(out, items[i].name);
        gs_buf_add(out, &items[i].value.len, sizeof(items[i].value.len));
        gs_buf_add_slice(out, items[i].value);
    }
}

// --- storing ---

static struct gs_error *put_sample(struct tsdb_group *g, const struct rules_sample *s)
{
    uint32_t slot;
    struct gs_error *err = tsdb_group_slot(g, s->labels, s->n_labels, &slot);
    if (!err && !tsdb_group_put(g, slot, s->value))
        err = gs_error_new(GS_EEXIST, "duplicate sample for timestamp");
    return err;
}

// Stores one sample of a series of the rule. An error affects only this sample. The first error is
// returned.
static struct gs_error *store_sample(const struct tsdb *db, struct rules_state *s, int64_t t_ms,
                                     const struct rules_sample *items, size_t n, size_t *ret_stored)
{
    uint64_t refused = tsdb_rejected_samples(db);
    struct gs_error *first = tsdb_group_begin(s->series, t_ms);
    if (first) { // the clock was set back
        tsdb_group_count_rejected(s->series, n);
        gs_error_free(first);
        return n ? gs_error_new(GS_ECONFLICT, "out of order sample") : NULL;
    }
    for (size_t i = 0; i < n; i++) {
        struct gs_error *err = put_sample(s->series, &items[i]);
        *ret_stored += !err;
        if (first)
            gs_error_free(err);
        else
            first = err;
    }
    size_t added, fresh;
    tsdb_group_commit(s->series, &added, &fresh);
    if (!first && tsdb_rejected_samples(db) > refused)
        first =
            gs_error_new(GS_EEXIST, "duplicate sample for timestamp: something else has written "
                                    "another value for the same series");
    return first;
}

static bool has_duplicates(const struct rules_sample *items, size_t n)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *seen = n > 1 ? gs_hmap_new(NULL) : NULL;
    GS_AUTO_BUF struct gs_buf key = {0};
    for (size_t i = 0; seen && i < n; i++) {
        gs_buf_clear(&key);
        rules_labels_key(items[i].labels, items[i].n_labels, &key);
        if (gs_hmap_get(seen, gs_buf_slice(&key)))
            return true;
        gs_hmap_put(seen, gs_buf_slice(&key), seen);
    }
    return false;
}

// Applies the metric name and the labels of the rule to the results of the expression.
static struct gs_error *record_samples(struct rules_runner *r, const struct rules_rule *rule,
                                       struct gs_arena *arena, struct rules_sample *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t room = items[i].n_labels + rule->n_labels + 1, k = items[i].n_labels;
        struct metrics_label *labels = gs_arena_alloc(arena, room * sizeof(*labels));
        if (!labels)
            return no_memory();
        memcpy(labels, items[i].labels, k * sizeof(*labels));
        rules_set_label(labels, &k, GS_SLICE("__name__"), gs_slice_of(rule->name));
        for (size_t l = 0; l < rule->n_labels; l++)
            rules_set_label(labels, &k, rule->labels[l].name, rule->labels[l].value);
        rules_sort_labels(labels, k);
        items[i].labels = labels;
        items[i].n_labels = k;
    }
    if (has_duplicates(items, n))
        return gs_error_new(
            GS_ECONFLICT,
            "vector contains metrics with the same labelset after applying rule labels");
    if (r->group->limit > 0 && n > (size_t)r->group->limit)
        return gs_error_new(GS_ELIMIT, "exceeded limit of %lld with %zu series",
                            (long long)r->group->limit, n);
    return NULL;
}

static struct gs_error *eval_rule(struct rules_runner *r, struct rules_state *s, int64_t t_ms,
                                  struct gs_arena *arena, size_t *ret_stored)
{
    struct rules_sample *items = NULL;
    size_t n = 0;
    int64_t at = t_ms - rules_runner_offset(r);
    struct gs_error *err = rules_query(&r->cfg, s->rule->expr, at, arena, &items, &n);
    if (!err && s->rule->kind == RULES_RECORD)
        err = record_samples(r, s->rule, arena, items, n);
    else if (!err)
        err = rules_alerts_update(r, s, t_ms, items, n, arena, &items, &n);
    return err ? err : store_sample(r->cfg.db, s, at, items, n, ret_stored);
}

// Returns true if the error is new since the last evaluation.
static bool set_health(struct rules_state *s, struct gs_error *err)
{
    bool news = err && !gs_streq(gs_error_message(err), s->last_error);
    free(s->last_error);
    s->last_error = err ? gs_strdup(gs_error_message(err)) : NULL;
    s->health = err ? RULES_ERR : RULES_OK;
    return news;
}

static void end_removed(struct rules_runner *r, int64_t t_ms)
{
    for (size_t i = 0; i < r->n_ended; i++) {
        struct gs_error *err = tsdb_group_begin(r->ended[i], t_ms);
        size_t added, fresh;
        if (!err)
            tsdb_group_commit(r->ended[i], &added, &fresh);
        gs_error_free(err); // there is no newer sample to end
        tsdb_group_free(r->ended[i]);
    }
    r->n_ended = 0;
}

void rules_runner_eval(struct rules_runner *r, int64_t t_ms)
{
    int64_t begun = gs_mono_ns();
    struct gs_arena arena = {.limit = MAX_EVAL_BYTES};
    r->last_samples = 0;
    for (size_t i = 0; i < r->group->n_rules; i++) {
        struct rules_state *s = &r->rules[i];
        if (!s->rule->expr)
            continue;
        int64_t rule_begun = gs_mono_ns();
        s->last_eval_ms = gs_unix_ms();
        GS_AUTO_ERROR struct gs_error *err = eval_rule(r, s, t_ms, &arena, &r->last_samples);
        if (r->canceled)
            break;
        bool news = set_health(s, err);
        s->duration_ns = gs_mono_ns() - rule_begun;
        r->evaluations++;
        r->failures += err != NULL;
        if (news) // log only new errors
            gs_warn("rules", "%s: group \"%s\", %s: %s", r->group->file, r->group->name,
                    s->rule->name, gs_error_message(err));
        gs_arena_clear(&arena);
    }
    gs_arena_finish(&arena);
    if (r->canceled)
        return;
    end_removed(r, t_ms - rules_runner_offset(r));
    r->iterations++;
    r->duration_ns = gs_mono_ns() - begun;
    r->last_eval_ms = gs_unix_ms();
    r->last_eval_t_ms = t_ms;
}

// --- reload ---

static bool same_labels(const struct rules_rule *a, const struct rules_rule *b)
{
    if (a->kind != b->kind || !gs_streq(a->name, b->name) || a->n_labels != b->n_labels)
        return false;
    for (size_t i = 0; i < a->n_labels; i++)
        if (!gs_slice_eq(a->labels[i].name, b->labels[i].name) ||
            !gs_slice_eq(a->labels[i].value, b->labels[i].value))
            return false;
    return true;
}

static void move_state(struct rules_state *to, struct rules_state *from)
{
    tsdb_group_free(to->series);
    gs_hmap_free(to->active);
    to->series = GS_TAKE(from->series);
    to->active = GS_TAKE(from->active);
    to->restored = from->restored;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(to->active, &pos, &key, &value))
        ((struct rules_active_alert *)value)->a.rule = to->rule;
    if (gs_streq(to->rule->text, from->rule->text) && to->rule->expr && from->rule->expr) {
        to->health = from->health;
        free(to->last_error);
        to->last_error = GS_TAKE(from->last_error);
        to->duration_ns = from->duration_ns;
        to->last_eval_ms = from->last_eval_ms;
    }
}

// Matches rules by name and labels. Duplicates are matched in order, as in Prometheus.
void rules_runner_take_over(struct rules_runner *r, struct rules_runner *old)
{
    for (size_t i = 0; i < r->group->n_rules; i++)
        for (size_t j = 0; j < old->group->n_rules; j++)
            if (old->rules[j].series && same_labels(r->rules[i].rule, old->rules[j].rule)) {
                move_state(&r->rules[i], &old->rules[j]);
                break;
            }
    for (size_t j = 0; j < old->group->n_rules; j++)
        if (old->rules[j].series) {
            gs_grow(&r->ended, &r->cap_ended, r->n_ended, sizeof(struct tsdb_group *));
            r->ended[r->n_ended++] = GS_TAKE(old->rules[j].series);
        }
    for (size_t j = 0; j < old->n_ended; j++) {
        gs_grow(&r->ended, &r->cap_ended, r->n_ended, sizeof(struct tsdb_group *));
        r->ended[r->n_ended++] = old->ended[j];
    }
    old->n_ended = 0;
    r->duration_ns = old->duration_ns;
    r->last_eval_ms = old->last_eval_ms;
    r->last_eval_t_ms = old->last_eval_t_ms;
    r->evaluations = old->evaluations;
    r->failures = old->failures;
    r->iterations = old->iterations;
    r->missed = old->missed;
    r->last_samples = old->last_samples;
}

void rules_runner_end_series(struct rules_runner *r, int64_t t_ms)
{
    for (size_t i = 0; i < r->group->n_rules; i++)
        if (r->rules[i].series) {
            gs_grow(&r->ended, &r->cap_ended, r->n_ended, sizeof(struct tsdb_group *));
            r->ended[r->n_ended++] = GS_TAKE(r->rules[i].series);
        }
    end_removed(r, t_ms - rules_runner_offset(r));
}
