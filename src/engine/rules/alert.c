// SPDX-License-Identifier: Apache-2.0
// The states of alerts: pending, firing, kept firing, resolved.
// https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/
#include "engine/rules/rules_private.h"

#include "base/log.h"
#include "base/mem.h"

#define RESOLVED_RETENTION_MS (15 * 60 * 1000)

void rules_active_alert_free(void *alert)
{
    struct rules_active_alert *a = alert;
    free(a->labels);
    free(a->annotations);
    free(a);
}

static struct template_program **parse_all(const struct rules_rule *rule,
                                           const struct metrics_label *items, size_t n)
{
    GS_AUTO_FREE char *name = gs_format("__alert_%s", rule->name);
    struct template_program **list = gs_alloc_array(n + 1, sizeof(struct template_program *));
    // A label with an invalid template disabled the rule, or belongs to the group.
    for (size_t i = 0; i < n; i++)
        gs_error_free(template_parse(items[i].value, name, &list[i]));
    return list;
}

void rules_alerts_parse_templates(struct rules_state *s)
{
    s->label_templates = parse_all(s->rule, s->rule->labels, s->rule->n_labels);
    s->annotation_templates = parse_all(s->rule, s->rule->annotations, s->rule->n_annotations);
}

// --- expansion ---

struct expansion {
    const struct rules_runner *r;
    const struct rules_state *s;
    int64_t t_ms;
    struct gs_arena *arena;
    struct template_data data;
};

static struct gs_error *template_query(void *arg, struct gs_slice text, struct gs_arena *arena,
                                       struct template_sample **ret, size_t *ret_n)
{
    const struct expansion *x = arg;
    GS_CLEANUP(promql_expr_freep) struct promql_expr *expr = NULL;
    struct rules_sample *items = NULL;
    size_t n = 0;
    struct gs_error *err = promql_parse(text, &expr);
    if (!err)
        err = rules_query(&x->r->cfg, expr, x->t_ms, arena, &items, &n);
    if (err)
        return err;
    struct template_sample *out = gs_arena_alloc(arena, (n + 1) * sizeof(*out));
    if (!out)
        return gs_error_new(GS_ELIMIT, "the result of the query is too large");
    for (size_t i = 0; i < n; i++)
        out[i] = (struct template_sample){items[i].labels, items[i].n_labels, items[i].value};
    *ret = out;
    *ret_n = n;
    return NULL;
}

static struct gs_slice expand_template(struct expansion *x, const struct template_program *t,
                                       struct gs_slice text)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    if (!t)
        return text;
    GS_AUTO_ERROR struct gs_error *err = template_expand(t, &x->data, &out);
    if (err) {
        gs_buf_clear(&out);
        gs_buf_addf(&out, "<error expanding template: error executing template __alert_%s: %s>",
                    x->s->rule->name, gs_error_message(err));
        gs_warn("rules", "%s: %s", x->s->rule->name, gs_error_message(err));
    }
    const char *copy = gs_arena_strndup(x->arena, out.data ? out.data : "", out.len);
    return copy ? gs_slice_make(copy, out.len) : GS_SLICE("");
}

static struct rules_labels *pack(const struct metrics_label *items, size_t n)
{
    size_t bytes = sizeof(struct rules_labels) + n * sizeof(*items);
    for (size_t i = 0; i < n; i++)
        bytes += items[i].name.len + items[i].value.len + 2;
    struct rules_labels *out = gs_alloc(bytes);
    char *p = (char *)&out->items[n];
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        memcpy(p, items[i].name.data, items[i].name.len);
        out->items[i].name = gs_slice_make(p, items[i].name.len);
        p += items[i].name.len + 1;
        if (items[i].value.len)
            memcpy(p, items[i].value.data, items[i].value.len);
        out->items[i].value = gs_slice_make(p, items[i].value.len);
        p += items[i].value.len + 1;
    }
    return out;
}

// Labels and annotations of the alert, with templates executed.
static struct rules_active_alert *make_alert(struct expansion *x, const struct rules_sample *in)
{
    const struct rules_rule *rule = x->s->rule;
    size_t room = in->n_labels + rule->n_labels + 1, n = 0;
    struct metrics_label *labels = gs_arena_alloc(x->arena, room * sizeof(*labels));
    struct metrics_label *notes =
        gs_arena_alloc(x->arena, (rule->n_annotations + 1) * sizeof(*notes));
    if (!labels || !notes)
        return NULL;
    x->data.labels = in->labels;
    x->data.n_labels = in->n_labels;
    x->data.value = in->value;
    for (size_t i = 0; i < in->n_labels; i++)
        if (!gs_slice_eq_str(in->labels[i].name, "__name__"))
            labels[n++] = in->labels[i];
    for (size_t i = 0; i < rule->n_labels; i++)
        rules_set_label(labels, &n, rule->labels[i].name,
                        expand_template(x, x->s->label_templates[i], rule->labels[i].value));
    rules_set_label(labels, &n, GS_SLICE("alertname"), gs_slice_of(rule->name));
    rules_sort_labels(labels, n);
    for (size_t i = 0; i < rule->n_annotations; i++)
        notes[i] = (struct metrics_label){
            rule->annotations[i].name,
            expand_template(x, x->s->annotation_templates[i], rule->annotations[i].value)};
    struct rules_active_alert *a = gs_alloc(sizeof(*a));
    a->labels = pack(labels, n);
    a->annotations = pack(notes, rule->n_annotations);
    a->a = (struct rules_alert){.state = RULES_ALERT_PENDING,
                                .rule = rule,
                                .labels = a->labels->items,
                                .n_labels = n,
                                .annotations = a->annotations->items,
                                .n_annotations = rule->n_annotations,
                                .value = in->value,
                                .active_at_ms = x->t_ms};
    return a;
}

static struct gs_error *make_alerts(struct expansion *x, const struct rules_sample *in, size_t n,
                                    struct gs_hmap *ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    for (size_t i = 0; i < n; i++) {
        struct rules_active_alert *a = make_alert(x, &in[i]);
        if (!a)
            return gs_error_new(GS_ELIMIT, "the alerts of the rule need too much memory");
        gs_buf_clear(&key);
        rules_labels_key(a->a.labels, a->a.n_labels, &key);
        if (gs_hmap_get(ret, gs_buf_slice(&key))) {
            rules_active_alert_free(a);
            return gs_error_new(
                GS_ECONFLICT,
                "vector contains metrics with the same labelset after applying alert labels");
        }
        gs_hmap_put(ret, gs_buf_slice(&key), a);
    }
    return NULL;
}

// --- states ---

// Adds new alerts. Alerts that are active already get their new value and annotations.
static void merge_alerts(struct rules_state *s, struct gs_hmap *now)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    struct gs_hmap *fresh = gs_hmap_new(NULL);
    while (gs_hmap_next(now, &pos, &key, &value)) {
        struct rules_active_alert *a = value, *old = gs_hmap_get(s->active, key);
        if (!old || old->a.state == RULES_ALERT_INACTIVE) {
            gs_hmap_put(fresh, key, a);
            continue;
        }
        old->a.value = a->a.value;
        struct rules_labels *notes = old->annotations;
        old->annotations = a->annotations;
        old->a.annotations = old->annotations->items;
        old->a.n_annotations = old->annotations->n;
        a->annotations = notes;
    }
    pos = 0;
    while (gs_hmap_next(fresh, &pos, &key, &value))
        gs_hmap_put(s->active, key, gs_hmap_remove(now, key));
    gs_hmap_free(fresh);
}

// Returns false if the alert can be removed.
static bool without_result(struct rules_state *s, struct rules_active_alert *x, int64_t t_ms,
                           bool *ret_keep_firing)
{
    struct rules_alert *a = &x->a;
    *ret_keep_firing = false;
    if (a->state == RULES_ALERT_FIRING && s->rule->keep_firing_for_ms > 0) {
        if (!a->keep_firing_since_ms)
            a->keep_firing_since_ms = t_ms;
        *ret_keep_firing = t_ms - a->keep_firing_since_ms < s->rule->keep_firing_for_ms;
    }
    bool keep = a->state != RULES_ALERT_PENDING &&
                (!a->resolved_at_ms || t_ms - a->resolved_at_ms <= RESOLVED_RETENTION_MS);
    if (a->state != RULES_ALERT_INACTIVE && !*ret_keep_firing) {
        a->state = RULES_ALERT_INACTIVE;
        a->resolved_at_ms = t_ms;
    }
    return keep;
}

struct gathering {
    struct gs_arena *arena;
    struct rules_sample *items;
    size_t n;
    bool failed;
};

static void add_alert_sample(struct gathering *g, const struct rules_rule *rule,
                             const struct rules_alert *a, const char *name, double value)
{
    static const char *const states[] = {"inactive", "pending", "firing"};
    size_t n = 0;
    struct metrics_label *labels =
        gs_arena_alloc(g->arena, (rule->n_labels + a->n_labels + 3) * sizeof(*labels));
    if (!labels) {
        g->failed = true;
        return;
    }
    for (size_t i = 0; i < rule->n_labels; i++)
        labels[n++] = rule->labels[i];
    for (size_t i = 0; i < a->n_labels; i++)
        rules_set_label(labels, &n, a->labels[i].name, a->labels[i].value);
    rules_set_label(labels, &n, GS_SLICE("__name__"), gs_slice_of(name));
    rules_set_label(labels, &n, GS_SLICE("alertname"), gs_slice_of(rule->name));
    if (gs_streq(name, "ALERTS"))
        rules_set_label(labels, &n, GS_SLICE("alertstate"), gs_slice_of(states[a->state]));
    rules_sort_labels(labels, n);
    g->items[g->n++] = (struct rules_sample){labels, n, value};
}

// If the clock was set back, times can be in the future. They are limited to now, so that alerts do
// not wait until then.
static void bound_times(struct rules_active_alert *x, int64_t t_ms)
{
    int64_t *times[] = {&x->a.active_at_ms, &x->a.fired_at_ms, &x->a.keep_firing_since_ms,
                        &x->a.resolved_at_ms};
    for (size_t i = 0; i < GS_ARRAY_LEN(times); i++)
        if (*times[i] > t_ms)
            *times[i] = t_ms;
    if (x->last_sent_ms > t_ms)
        x->last_sent_ms = 0;
}

static void one_alert(struct rules_state *s, struct rules_active_alert *x, bool has_result,
                      int64_t t_ms, struct gathering *g, bool *ret_forget, size_t *active)
{
    struct rules_alert *a = &x->a;
    bool keep_firing = false;
    bound_times(x, t_ms);
    if (has_result)
        a->keep_firing_since_ms = 0;
    else
        *ret_forget = !without_result(s, x, t_ms, &keep_firing);
    if (!has_result && !keep_firing)
        return;
    ++*active;
    if (a->state == RULES_ALERT_PENDING && t_ms - a->active_at_ms >= s->rule->for_ms) {
        a->state = RULES_ALERT_FIRING;
        a->fired_at_ms = t_ms;
    } else if (a->state == RULES_ALERT_FIRING && t_ms - a->active_at_ms < s->rule->for_ms) {
        // A reload has raised `for` above the time that the alert has been active.
        a->state = RULES_ALERT_PENDING;
        a->fired_at_ms = a->keep_firing_since_ms = x->last_sent_ms = 0;
    }
    if (!s->restored)
        return;
    add_alert_sample(g, s->rule, a, "ALERTS", 1);
    // Whole seconds, rounded down, like Go's Time.Unix.
    int64_t since_s = a->active_at_ms / 1000 - (a->active_at_ms % 1000 < 0);
    add_alert_sample(g, s->rule, a, "ALERTS_FOR_STATE", (double)since_s);
}

static struct gs_error *advance_alert(struct rules_runner *r, struct rules_state *s,
                                      struct gs_hmap *keys, int64_t t_ms, struct gathering *g)
{
    size_t pos = 0, active = 0, n_expired = 0;
    struct gs_slice key;
    void *value;
    GS_AUTO_FREE struct gs_slice *expired =
        gs_alloc_array(gs_hmap_len(s->active) + 1, sizeof(*expired));
    while (gs_hmap_next(s->active, &pos, &key, &value)) {
        bool forget = false;
        one_alert(s, value, gs_hmap_get(keys, key) != NULL, t_ms, g, &forget, &active);
        if (forget)
            expired[n_expired++] = gs_slice_make(gs_slice_dup(key), key.len);
    }
    for (size_t i = 0; i < n_expired; i++) {
        rules_active_alert_free(gs_hmap_remove(s->active, expired[i]));
        free((char *)expired[i].data);
    }
    if (r->group->limit > 0 && active > (size_t)r->group->limit) {
        gs_hmap_clear(s->active);
        return gs_error_new(GS_ELIMIT, "exceeded limit of %lld with %zu alerts",
                            (long long)r->group->limit, active);
    }
    return g->failed ? gs_error_new(GS_ELIMIT, "the alerts of the rule need too much memory")
                     : NULL;
}

struct gs_error *rules_alerts_update(struct rules_runner *r, struct rules_state *s, int64_t t_ms,
                                     const struct rules_sample *in, size_t n,
                                     struct gs_arena *arena, struct rules_sample **ret,
                                     size_t *ret_n)
{
    struct expansion x = {.r = r,
                          .s = s,
                          .t_ms = t_ms,
                          .arena = arena,
                          .data = {.external_labels = r->cfg.external_labels,
                                   .n_external_labels = r->cfg.n_external_labels,
                                   .external_url = r->cfg.external_url,
                                   .now_ms = t_ms,
                                   .query = template_query,
                                   .query_arg = &x}};
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *now = gs_hmap_new(rules_active_alert_free);
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *keys = gs_hmap_new(NULL);
    struct gs_error *err = make_alerts(&x, in, n, now);
    if (err)
        return err;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(now, &pos, &key, &value))
        gs_hmap_put(keys, key, keys);
    merge_alerts(s, now);
    struct gathering g = {.arena = arena};
    g.items = gs_arena_alloc(arena, (2 * gs_hmap_len(s->active) + 1) * sizeof(*g.items));
    if (!g.items)
        return gs_error_new(GS_ELIMIT, "the alerts of the rule need too much memory");
    err = advance_alert(r, s, keys, t_ms, &g);
    if (err)
        return err;
    *ret = g.items;
    *ret_n = g.n;
    return NULL;
}

enum rules_alert_state rules_state_of(const struct rules_state *s)
{
    enum rules_alert_state max = RULES_ALERT_INACTIVE;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(s->active, &pos, &key, &value))
        if (((struct rules_active_alert *)value)->a.state > max)
            max = ((struct rules_active_alert *)value)->a.state;
    return max;
}

void rules_runner_alerts(const struct rules_runner *r,
                         void (*fn)(void *arg, const struct rules_alert *a), void *arg)
{
    for (size_t i = 0; i < r->group->n_rules; i++) {
        size_t pos = 0;
        struct gs_slice key;
        void *value;
        while (gs_hmap_next(r->rules[i].active, &pos, &key, &value))
            if (!((struct rules_active_alert *)value)->a.resolved_at_ms)
                fn(arg, &((struct rules_active_alert *)value)->a);
    }
}

static bool needs_sending(const struct rules_active_alert *x, int64_t t_ms, int64_t resend_ms)
{
    if (x->a.state == RULES_ALERT_PENDING)
        return false;
    if (x->a.resolved_at_ms > x->last_sent_ms)
        return true;
    return x->last_sent_ms + resend_ms < t_ms;
}

void rules_runner_due(struct rules_runner *r, int64_t t_ms, int64_t resend_ms,
                      void (*fn)(void *arg, const struct rules_alert *a, int64_t valid_until_ms),
                      void *arg)
{
    // The Alertmanager resolves the alert only after more than two evaluations or requests have
    // failed.
    int64_t valid_ms = 4 * (r->interval_ms > resend_ms ? r->interval_ms : resend_ms);
    for (size_t i = 0; i < r->group->n_rules; i++) {
        size_t pos = 0;
        struct gs_slice key;
        void *value;
        if (r->rules[i].health != RULES_OK)
            continue;
        while (gs_hmap_next(r->rules[i].active, &pos, &key, &value)) {
            struct rules_active_alert *x = value;
            if (!needs_sending(x, t_ms, resend_ms))
                continue;
            x->last_sent_ms = t_ms;
            fn(arg, &x->a, t_ms + valid_ms);
        }
    }
}
