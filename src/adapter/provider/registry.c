// SPDX-License-Identifier: Apache-2.0
// Which metrics exist, from lists of series that run in rounds. A round lists each distinct
// seriesQuery once; the tables are rebuilt when all lists of the round have ended. A list that
// fails keeps its previous series, so an outage of Prometheus removes no metric.
#include "adapter/provider/provider.h"
#include "base/backoff.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/timer.h"

enum { MAX_METRICS = 500000 };

// One list of series. Rules with the same seriesQuery and source share it.
enum {
    FIRST_RETRY_MS = 500,
    WATCH_MS = 250,  // interval of checks of source_series_version()
    ROUND_SHARE = 50 // rounds take at most 1/50 of the time
};

struct series_list {
    struct provider_registry *registry;
    const char *selector;
    struct source *source;
    struct source_op *op;
    struct source_shapes *shapes; // of the last successful list
    struct source_shapes *fresh;  // of this round; replace `shapes` at its end
    char *error;
    int64_t last_ok_ms;
};

struct table {
    struct gs_arena arena;
    struct provider_registry_metric *items;
    size_t n, cap;
    size_t listed;         // those that are no alias come first
    struct gs_hmap *index; // key -> position + 1
};

struct provider_registry {
    struct provider_registry_options o;
    struct series_list *lists;
    size_t n_lists, waiting;
    size_t *list_of; // of each rule
    size_t *served;  // metrics of each rule
    struct table custom, external;
    struct gs_timer *timer;
    struct gs_timer *watch;     // NULL: no source has a version
    uint64_t version;           // of the sources when the last round began
    int64_t begun_ns, ended_ns; // of the last round
    int64_t retry_ms;           // the last wait while nothing was found
    int64_t rounds;
    size_t left_out; // names over the limit
};

// --- the tables ---

static void table_reset(struct table *t)
{
    free(t->items);
    gs_arena_finish(&t->arena);
    gs_hmap_free(t->index);
    *t = (struct table){.index = gs_hmap_new(NULL)};
}

static void make_key(struct gs_buf *key, const char *group, const char *resource, bool namespaced,
                     struct gs_slice metric)
{
    gs_buf_clear(key);
    gs_buf_addf(key, "%s/%s/%c/", group, resource, namespaced ? 'n' : 'r');
    gs_buf_add_slice(key, metric);
}

// The later rule wins. Rules with the same list differ only in how they aggregate series.
static void replace_metric(struct provider_registry_metric *old,
                           const struct provider_registry_metric *m)
{
    struct provider_registry_metric merged = *m;
    bool other_list = strcmp(old->rule->series_query, m->rule->series_query) != 0;
    merged.name = old->name;
    merged.shadowed = gs_slice_eq(old->series, m->series) ? old->shadowed : old->series;
    for (size_t i = 0, n = 0; n < PROVIDER_MAX_ALTERNATIVES; n++)
        merged.alternatives[n] = n == 0 && other_list ? old->rule : old->alternatives[i++];
    *old = merged;
}

static void add_metric(struct table *t, struct gs_buf *key,
                       const struct provider_registry_metric *m)
{
    size_t at = (size_t)(uintptr_t)gs_hmap_get(t->index, gs_buf_slice(key));
    if (at) { // the later series wins
        struct provider_registry_metric *old = &t->items[at - 1];
        if (m->alias && !old->alias)
            return;
        if (old->rule == m->rule && old->order > m->order)
            return;
        replace_metric(old, m);
        return;
    }
    if (t->n == MAX_METRICS)
        return;
    gs_grow(&t->items, &t->cap, t->n, sizeof(*t->items));
    t->items[t->n] = *m;
    const char *copy = gs_arena_strndup(&t->arena, m->name.data, m->name.len);
    t->items[t->n].name = gs_slice_make(copy, m->name.len);
    gs_hmap_put(t->index, gs_buf_slice(key), (void *)(uintptr_t)++t->n);
}

static const char *intern_metric_text(struct table *t, const char *s)
{
    return gs_arena_strdup(&t->arena, s);
}

static void add_for_label(struct provider_registry *r, const struct adapter_config_rule *rule,
                          const struct source_shape *s, struct gs_slice label, struct gs_slice name,
                          struct gs_buf *key)
{
    struct table *t = &r->custom;
    struct gs_slice group, resource;
    if (!adapter_config_label_resource(&rule->resources, label, &group, &resource))
        return;
    const struct provider_rest_mapping *m = provider_rest_mapper_find(r->o.mapper, group, resource);
    if (!m)
        return;
    bool namespaced = !provider_rest_mapper_is_root(m);
    make_key(key, m->group, m->resource, namespaced, name);
    struct provider_registry_metric row = {.rule = rule,
                                           .series = s->name,
                                           .group = intern_metric_text(t, m->group),
                                           .resource = intern_metric_text(t, m->resource),
                                           .namespaced = namespaced,
                                           .name = name,
                                           .alias = s->alias,
                                           .order = s->last_seen};
    add_metric(t, key, &row);
}

static void add_for_labels(struct provider_registry *r, const struct adapter_config_rule *rule,
                           const struct source_shape *s, struct gs_slice name, struct gs_buf *key)
{
    for (size_t i = 0; i < s->n_labels; i++)
        add_for_label(r, rule, s, s->labels[i], name, key);
    for (size_t i = 0; r->o.names_only && i < rule->resources.n_overrides; i++)
        add_for_label(r, rule, s, gs_slice_of(rule->resources.overrides[i].label), name, key);
}

static void add_shape(struct provider_registry *r, const struct adapter_config_rule *rule,
                      const struct source_shape *s, struct gs_buf *name, struct gs_buf *key)
{
    const struct adapter_config_filter *filter;
    gs_buf_clear(name);
    if (!adapter_config_rule_name(rule, s->name, name, &filter))
        return;
    if (!rule->external) {
        add_for_labels(r, rule, s, gs_buf_slice(name), key);
        return;
    }
    make_key(key, "", "", true, gs_buf_slice(name));
    struct provider_registry_metric row = {.rule = rule,
                                           .series = s->name,
                                           .namespaced = true,
                                           .name = gs_buf_slice(name),
                                           .alias = s->alias,
                                           .order = s->last_seen};
    add_metric(&r->external, key, &row);
}

static int compare_metrics(const void *a, const void *b)
{
    const struct provider_registry_metric *x = a, *y = b;
    if (x->alias != y->alias)
        return x->alias - y->alias;
    int c = x->resource ? strcmp(x->resource, y->resource) : 0;
    c = c || !x->group ? c : strcmp(x->group, y->group);
    return c ? c : gs_slice_compare(x->name, y->name);
}

static void sort_table(struct table *t, struct gs_buf *key)
{
    if (t->n > 1)
        qsort(t->items, t->n, sizeof(*t->items), compare_metrics);
    gs_hmap_clear(t->index);
    t->listed = 0;
    for (size_t i = 0; i < t->n; i++) {
        t->listed += !t->items[i].alias;
        const struct provider_registry_metric *m = &t->items[i];
        make_key(key, m->group ? m->group : "", m->resource ? m->resource : "", m->namespaced,
                 m->name);
        gs_hmap_put(t->index, gs_buf_slice(key), (void *)(uintptr_t)(i + 1));
    }
}

static size_t rule_index(const struct provider_registry *r, const struct adapter_config_rule *rule)
{
    return (size_t)(rule - r->o.config->rules);
}

static void count_served(struct provider_registry *r, const struct table *t)
{
    for (size_t i = 0; i < t->n; i++)
        r->served[rule_index(r, t->items[i].rule)] += !t->items[i].alias;
}

// The number of shapes of a list that are used. Those of names are sorted.
static size_t served_names(const struct provider_registry *r, size_t list)
{
    size_t n = r->lists[list].shapes->n;
    return r->o.max_names && n > r->o.max_names ? r->o.max_names : n;
}

void provider_registry_rebuild(struct provider_registry *r)
{
    const struct adapter_config *c = r->o.config;
    GS_AUTO_BUF struct gs_buf name = {0}, key = {0};
    table_reset(&r->custom);
    table_reset(&r->external);
    r->left_out = 0;
    for (size_t i = 0; i < r->n_lists; i++)
        r->left_out += r->lists[i].shapes ? r->lists[i].shapes->n - served_names(r, i) : 0;
    for (size_t i = 0; i < c->n_rules; i++) {
        const struct source_shapes *s = r->lists[r->list_of[i]].shapes;
        size_t n = s ? served_names(r, r->list_of[i]) : 0;
        for (size_t k = 0; k < n; k++)
            add_shape(r, &c->rules[i], &s->items[k], &name, &key);
    }
    sort_table(&r->custom, &key);
    sort_table(&r->external, &key);
    if (c->n_rules)
        memset(r->served, 0, c->n_rules * sizeof(*r->served));
    count_served(r, &r->custom);
    count_served(r, &r->external);
}

// --- lists ---

static void on_relist_timer(void *arg)
{
    provider_registry_relist(arg);
}

static void take_fresh(struct provider_registry *r)
{
    struct source_shapes **old = gs_alloc_array(r->n_lists + 1, sizeof(struct source_shapes *));
    for (size_t i = 0; i < r->n_lists; i++) {
        struct series_list *q = &r->lists[i];
        if (!q->fresh)
            continue;
        old[i] = q->shapes;
        q->shapes = GS_TAKE(q->fresh);
    }
    provider_registry_rebuild(r);
    for (size_t i = 0; i < r->n_lists; i++)
        source_shapes_free(old[i]);
    free(old);
}

// False: the source does not respond yet or has not scraped any series.
bool provider_registry_found(const struct provider_registry *r)
{
    for (size_t i = 0; i < r->n_lists; i++)
        if (r->lists[i].shapes && r->lists[i].shapes->series)
            return true;
    return false;
}

// Rounds take at most 1/ROUND_SHARE of the time of a server that lists names.
static int64_t next_round_ms(struct provider_registry *r)
{
    if (provider_registry_found(r)) {
        int64_t pause = (r->ended_ns - r->begun_ns) / GS_NS_PER_MS * ROUND_SHARE;
        r->retry_ms = 0;
        return r->o.names_only && pause > r->o.relist_ms ? pause : r->o.relist_ms;
    }
    r->retry_ms = gs_backoff_next(r->retry_ms, FIRST_RETRY_MS, r->o.relist_ms);
    return r->retry_ms;
}

static void end_round(struct provider_registry *r)
{
    r->rounds++;
    r->ended_ns = gs_mono_ns();
    take_fresh(r);
    gs_timer_start(r->timer, on_relist_timer, (uint64_t)next_round_ms(r));
    if (r->o.on_round)
        r->o.on_round(r->o.arg);
}

static void on_shapes(void *arg, struct source_shapes *shapes, struct gs_error *err)
{
    struct series_list *q = arg;
    struct provider_registry *r = q->registry;
    q->op = NULL;
    bool new_error = err && !gs_streq(q->error, gs_error_message(err));
    if (new_error)
        gs_warn("adapter", "series %s: %s%s", q->selector, gs_error_message(err),
                q->shapes ? "; the series of the last list stay in use" : "");
    free(q->error);
    q->error = err ? gs_strdup(gs_error_message(err)) : NULL;
    gs_error_free(err);
    if (!q->error) {
        // The tables refer to the old shapes until the end of the round rebuilds them.
        source_shapes_free(q->fresh);
        q->fresh = shapes;
        q->last_ok_ms = gs_unix_ms();
    }
    if (--r->waiting == 0)
        end_round(r);
}

// Returns the sum of the sources' versions; 0: no source has one.
static uint64_t sources_version(const struct provider_registry *r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < r->n_lists; i++)
        sum += source_series_version(r->lists[i].source);
    return sum;
}

// Lists new series immediately instead of in the next periodic round.
static void on_watch_timer(void *arg)
{
    struct provider_registry *r = arg;
    int64_t pause = (r->ended_ns - r->begun_ns) * ROUND_SHARE;
    if (!r->waiting && sources_version(r) != r->version && gs_mono_ns() - r->ended_ns >= pause)
        provider_registry_relist(r);
}

void provider_registry_relist(struct provider_registry *r)
{
    if (r->waiting)
        return;
    gs_timer_stop(r->timer);
    int64_t age = r->o.max_age_ms ? r->o.max_age_ms : r->o.relist_ms;
    r->waiting = r->n_lists;
    r->version = sources_version(r);
    r->begun_ns = gs_mono_ns();
    for (size_t i = 0; i < r->n_lists; i++) {
        struct series_list *q = &r->lists[i];
        q->op = (r->o.names_only ? source_names : source_series)(q->source, q->selector,
                                                                 gs_unix_ms() - age, on_shapes, q);
    }
    if (!r->n_lists)
        r->rounds++;
}

void provider_registry_stop(struct provider_registry *r)
{
    gs_timer_stop(r->timer);
    for (size_t i = 0; i < r->n_lists; i++) {
        source_cancel(r->lists[i].op);
        r->lists[i].op = NULL;
    }
    r->waiting = SIZE_MAX; // prevents further rounds
}

// --- setup ---

static void make_lists(struct provider_registry *r)
{
    const struct adapter_config *c = r->o.config;
    r->lists = gs_alloc_array(c->n_rules + 1, sizeof(*r->lists));
    r->list_of = gs_alloc_array(c->n_rules + 1, sizeof(*r->list_of));
    r->served = gs_alloc_array(c->n_rules + 1, sizeof(*r->served));
    for (size_t i = 0; i < c->n_rules; i++) {
        struct source *source = source_pick(r->o.source, r->o.extra_sources, c->rules[i].source);
        const char *selector = c->rules[i].series_query;
        size_t k = 0;
        while (k < r->n_lists &&
               (r->lists[k].source != source || strcmp(r->lists[k].selector, selector) != 0))
            k++;
        if (k == r->n_lists)
            r->lists[r->n_lists++] =
                (struct series_list){.registry = r, .selector = selector, .source = source};
        r->list_of[i] = k;
    }
}

struct provider_registry *provider_registry_new(uv_loop_t *loop,
                                                const struct provider_registry_options *o)
{
    struct provider_registry *r = gs_alloc(sizeof(*r));
    r->o = *o;
    r->timer = gs_timer_new(loop, r);
    make_lists(r);
    table_reset(&r->custom);
    table_reset(&r->external);
    provider_registry_relist(r);
    if (sources_version(r)) {
        r->watch = gs_timer_new(loop, r);
        gs_timer_repeat(r->watch, on_watch_timer, WATCH_MS, WATCH_MS);
    }
    return r;
}

void provider_registry_free(struct provider_registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_lists; i++) {
        source_cancel(r->lists[i].op);
        source_shapes_free(r->lists[i].shapes);
        source_shapes_free(r->lists[i].fresh);
        free(r->lists[i].error);
    }
    table_reset(&r->custom);
    table_reset(&r->external);
    gs_hmap_free(r->custom.index);
    gs_hmap_free(r->external.index);
    gs_timer_free(r->timer);
    if (r->watch)
        gs_timer_free(r->watch);
    free(r->lists);
    free(r->list_of);
    free(r->served);
    free(r);
}

// --- lookups ---

static const struct provider_registry_metric *find_metric(const struct table *t, const char *group,
                                                          const char *resource, bool namespaced,
                                                          const char *metric)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    make_key(&key, group, resource, namespaced, gs_slice_of(metric));
    size_t at = (size_t)(uintptr_t)gs_hmap_get(t->index, gs_buf_slice(&key));
    return at ? &t->items[at - 1] : NULL;
}

const struct provider_registry_metric *
provider_registry_find(const struct provider_registry *r,
                       const struct provider_rest_mapping *resource, bool namespaced,
                       const char *metric)
{
    return find_metric(&r->custom, resource->group, resource->resource, namespaced, metric);
}

const struct provider_registry_metric *
provider_registry_find_external(const struct provider_registry *r, const char *metric)
{
    return find_metric(&r->external, "", "", true, metric);
}

char *provider_registry_resources_of(const struct provider_registry *r, const char *metric)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < r->custom.n; i++) {
        const struct provider_registry_metric *m = &r->custom.items[i];
        if (!gs_slice_eq_str(m->name, metric))
            continue;
        gs_buf_addf(&out, "%s%s%s%s", out.len ? ", " : "", m->resource, *m->group ? "." : "",
                    m->group);
    }
    return gs_buf_take(&out);
}

struct gs_slice provider_registry_shadowed(const struct provider_registry *lower,
                                           const struct provider_registry_metric *m)
{
    GS_AUTO_FREE char *name = gs_slice_dup(m->name);
    const struct provider_registry_metric *other =
        m->resource ? find_metric(&lower->custom, m->group, m->resource, m->namespaced, name)
                    : NULL;
    return other && !gs_slice_eq(other->series, m->series) ? other->series : GS_SLICE("");
}

size_t provider_registry_left_out(const struct provider_registry *r)
{
    return r->left_out;
}

const char *provider_registry_similar(const struct provider_registry *r,
                                      const struct provider_rest_mapping *resource,
                                      const char *metric)
{
    GS_AUTO_FREE const char **names = gs_alloc_array(r->custom.n + 1, sizeof(*names));
    size_t n = 0;
    for (size_t i = 0; i < r->custom.n; i++)
        if (gs_streq(r->custom.items[i].resource, resource->resource) &&
            gs_streq(r->custom.items[i].group, resource->group))
            names[n++] = r->custom.items[i].name.data;
    return gs_suggest(metric, names, n);
}

const struct provider_registry_metric *provider_registry_nth(const struct provider_registry *r,
                                                             bool external, size_t i)
{
    const struct table *t = external ? &r->external : &r->custom;
    return i < t->listed ? &t->items[i] : NULL;
}

size_t provider_registry_rules(const struct provider_registry *r)
{
    return r->o.config->n_rules;
}

void provider_registry_rule(const struct provider_registry *r, size_t i,
                            struct provider_registry_rule_state *ret)
{
    const struct series_list *q = &r->lists[r->list_of[i]];
    *ret = (struct provider_registry_rule_state){.rule = &r->o.config->rules[i],
                                                 .last_ok_ms = q->last_ok_ms,
                                                 .error = q->error,
                                                 .shapes = q->shapes,
                                                 .metrics = r->served[i]};
}

bool provider_registry_complete(const struct provider_registry *r)
{
    for (size_t i = 0; i < r->n_lists; i++)
        if (!r->lists[i].last_ok_ms)
            return false;
    return true;
}

int64_t provider_registry_rounds(const struct provider_registry *r)
{
    return r->rounds;
}
