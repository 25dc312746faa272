// SPDX-License-Identifier: Apache-2.0
// Targets in the API: /api/v1/targets, targets/metadata, metadata, scrape_pools, and metrics about
// targets.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "engine/scrape/scrape_private.h"
#include "metrics/write.h"

#define NEVER "0001-01-01T00:00:00Z"

static json_t *string_of(struct gs_slice s)
{
    return json_stringn(s.data ? s.data : "", s.len);
}

static json_t *labels_json(const struct metrics_label *l, size_t n)
{
    json_t *obj = json_object();
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_slice_dup(l[i].name);
        json_object_set_new(obj, name, string_of(l[i].value));
    }
    return obj;
}

static json_t *active_json(const struct scrape_job *j, const struct scrape_target *t)
{
    const struct scrape_target_spec *s = scrape_target_spec(t);
    struct scrape_target_state state;
    char text[GS_RFC3339_SIZE];
    scrape_target_state(t, &state);
    json_t *obj = json_object();
    json_object_set_new(obj, "discoveredLabels", labels_json(s->discovered, s->n_discovered));
    json_object_set_new(obj, "labels", labels_json(s->labels, s->n_labels));
    codec_json_set_str(obj, "scrapePool", j->cfg->job_name);
    codec_json_set_str(obj, "scrapeUrl", s->url);
    codec_json_set_str(obj, "globalUrl", s->url);
    codec_json_set_str(obj, "lastError", state.error ? state.error : "");
    codec_json_set_str(obj, "lastScrape",
                       state.scraped ? gs_format_rfc3339_micro(state.last_ms * 1000, text) : NEVER);
    json_object_set_new(obj, "lastScrapeDuration", json_real(state.duration_s));
    codec_json_set_str(obj, "health", !state.scraped ? "unknown" : state.up ? "up" : "down");
    codec_json_set_str(obj, "scrapeInterval", gs_format_units(s->interval_ms * GS_NS_PER_MS, text));
    codec_json_set_str(obj, "scrapeTimeout", gs_format_units(s->timeout_ms * GS_NS_PER_MS, text));
    return obj;
}

static int compare_jobs(const void *a, const void *b)
{
    const struct scrape_job *x = *(const struct scrape_job *const *)a;
    const struct scrape_job *y = *(const struct scrape_job *const *)b;
    return strcmp(x->cfg->job_name, y->cfg->job_name);
}

// Calls fn for each job in the order of names.
static void each_job(const struct scrape_manager *m,
                     void (*fn)(void *arg, const struct scrape_job *j), void *arg)
{
    size_t n = 0;
    for (const struct scrape_set *s = m->sets; s; s = s->next)
        n += s->n;
    GS_AUTO_FREE const struct scrape_job **jobs = gs_alloc_array(n + 1, sizeof(*jobs));
    n = 0;
    for (const struct scrape_set *s = m->sets; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            jobs[n++] = s->jobs[i];
    if (n)
        qsort(jobs, n, sizeof(*jobs), compare_jobs);
    for (size_t i = 0; i < n; i++)
        fn(arg, jobs[i]);
}

static int compare_targets(const void *a, const void *b)
{
    const struct scrape_target *x = *(const struct scrape_target *const *)a;
    const struct scrape_target *y = *(const struct scrape_target *const *)b;
    return strcmp(scrape_target_spec(x)->url, scrape_target_spec(y)->url);
}

static void each_target(const struct scrape_job *j,
                        void (*fn)(void *arg, const struct scrape_job *j,
                                   const struct scrape_target *t),
                        void *arg)
{
    size_t n = 0, pos = 0;
    GS_AUTO_FREE struct scrape_target **list =
        gs_alloc_array(gs_hmap_len(j->targets) + 1, sizeof(struct scrape_target *));
    void *t;
    while (gs_hmap_next(j->targets, &pos, NULL, &t))
        list[n++] = t;
    if (n)
        qsort(list, n, sizeof(struct scrape_target *), compare_targets);
    for (size_t i = 0; i < n; i++)
        fn(arg, j, list[i]);
}

struct targets_view {
    const char *pool; // NULL: all
    bool shows_active, shows_dropped;
    json_t *active, *dropped, *counts;
};

static void add_active(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    struct targets_view *v = arg;
    json_array_append_new(v->active, active_json(j, t));
}

static void add_job(void *arg, const struct scrape_job *j)
{
    struct targets_view *v = arg;
    bool wanted = !v->pool || gs_streq(v->pool, j->cfg->job_name);
    if (v->shows_active && wanted)
        each_target(j, add_active, v);
    if (!v->shows_dropped)
        return;
    // As in Prometheus, the counts include all pools.
    json_object_set_new(v->counts, j->cfg->job_name, json_integer((json_int_t)j->n_dropped));
    for (size_t i = 0; wanted && i < j->n_dropped_kept; i++) {
        json_t *d = json_object();
        json_object_set_new(d, "discoveredLabels",
                            labels_json(j->dropped[i].discovered, j->dropped[i].n_discovered));
        codec_json_set_str(d, "scrapePool", j->cfg->job_name);
        json_array_append_new(v->dropped, d);
    }
}

json_t *scrape_targets_json(const struct scrape_manager *m, const char *state, const char *pool)
{
    bool any = gs_streq(state, "any");
    struct targets_view v = {.pool = pool,
                             .shows_active = any || gs_streq(state, "active"),
                             .shows_dropped = any || gs_streq(state, "dropped"),
                             .active = json_array(),
                             .dropped = json_array()};
    v.counts = v.shows_dropped ? json_object() : json_null();
    json_t *data = json_object();
    each_job(m, add_job, &v);
    json_object_set_new(data, "activeTargets", v.active);
    json_object_set_new(data, "droppedTargets", v.dropped);
    json_object_set_new(data, "droppedTargetCounts", v.counts);
    return data;
}

static void add_pool(void *arg, const struct scrape_job *j)
{
    json_array_append_new(arg, json_string(j->cfg->job_name));
}

json_t *scrape_pools_json(const struct scrape_manager *m)
{
    json_t *data = json_object(), *pools = json_array();
    each_job(m, add_pool, pools);
    json_object_set_new(data, "scrapePools", pools);
    return data;
}

const struct engine_config_scrape_config *scrape_pool_config(const struct scrape_manager *m,
                                                             const char *name)
{
    for (const struct scrape_set *s = m->sets; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            if (gs_streq(s->jobs[i]->cfg->job_name, name))
                return s->jobs[i]->cfg;
    return NULL;
}

// --- metadata ---

struct metadata_view {
    json_t *out; // an object by metric name, or, if target is set, an array
    const char *metric;
    int64_t limit, limit_per_metric;
    const struct tsdb_matcher *matchers;
    size_t n_matchers;
    const struct scrape_target_spec *target;
};

static json_t *metadata_json(const struct metrics_metadata *m)
{
    json_t *obj = json_object();
    codec_json_set_str(obj, "type", m->type_name);
    json_object_set_new(obj, "help", string_of(m->help));
    json_object_set_new(obj, "unit", string_of(m->unit));
    return obj;
}

static bool holds(const json_t *list, const json_t *item)
{
    size_t i;
    json_t *other;
    json_array_foreach ((json_t *)list, i, other) {
        if (json_equal(other, item))
            return true;
    }
    return false;
}

static void add_metadata(void *arg, const struct metrics_metadata *m)
{
    struct metadata_view *v = arg;
    GS_AUTO_FREE char *name = gs_slice_dup(m->family);
    if (v->metric && !gs_streq(v->metric, name))
        return;
    json_t *list = json_object_get(v->out, name);
    if (!list && v->limit > 0 && json_object_size(v->out) >= (size_t)v->limit)
        return;
    if (!list) {
        list = json_array();
        json_object_set_new(v->out, name, list);
    }
    json_t *item = metadata_json(m);
    bool full = v->limit_per_metric > 0 && json_array_size(list) >= (size_t)v->limit_per_metric;
    if (full || holds(list, item))
        json_decref(item);
    else
        json_array_append_new(list, item);
}

static void metadata_of_target(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    (void)j;
    scrape_metadata_each(scrape_ingest_metadata(scrape_target_ingest(t)), add_metadata, arg);
}

static void metadata_of_job(void *arg, const struct scrape_job *j)
{
    each_target(j, metadata_of_target, arg);
}

json_t *scrape_metadata_json(const struct scrape_manager *m, const char *metric, int64_t limit,
                             int64_t limit_per_metric)
{
    struct metadata_view v = {json_object(), metric, limit, limit_per_metric, NULL, 0, NULL};
    if (limit != 0)
        each_job(m, metadata_of_job, &v);
    return v.out;
}

static void add_target_metadata(void *arg, const struct metrics_metadata *m)
{
    struct metadata_view *v = arg;
    if ((v->metric && !gs_slice_eq_str(m->family, v->metric)) ||
        (v->limit > 0 && json_array_size(v->out) >= (size_t)v->limit))
        return;
    json_t *item = metadata_json(m);
    json_object_set_new(item, "target", labels_json(v->target->labels, v->target->n_labels));
    if (!v->metric)
        json_object_set_new(item, "metric", string_of(m->family));
    json_array_append_new(v->out, item);
}

static bool target_matches(const struct metadata_view *v, const struct scrape_target_spec *s)
{
    for (size_t i = 0; i < v->n_matchers; i++) {
        struct gs_slice value = GS_SLICE("");
        for (size_t k = 0; k < s->n_labels; k++)
            if (gs_slice_eq(s->labels[k].name, v->matchers[i].name))
                value = s->labels[k].value;
        if (!tsdb_matcher_matches(&v->matchers[i], value))
            return false;
    }
    return true;
}

static void target_metadata(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    (void)j;
    struct metadata_view *v = arg;
    v->target = scrape_target_spec(t);
    if (target_matches(v, v->target))
        scrape_metadata_each(scrape_ingest_metadata(scrape_target_ingest(t)), add_target_metadata,
                             v);
}

static void job_target_metadata(void *arg, const struct scrape_job *j)
{
    each_target(j, target_metadata, arg);
}

json_t *scrape_targets_metadata_json(const struct scrape_manager *m,
                                     const struct tsdb_matcher *matchers, size_t n_matchers,
                                     const char *metric, int64_t limit)
{
    struct metadata_view v = {json_array(), metric, limit, 0, matchers, n_matchers, NULL};
    each_job(m, job_target_metadata, &v);
    return v.out;
}

struct metadata_search {
    struct gs_slice series;
    struct metrics_metadata *ret;
    bool found;
};

static void search_target(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    (void)j;
    struct metadata_search *s = arg;
    s->found = s->found || scrape_metadata_find(scrape_ingest_metadata(scrape_target_ingest(t)),
                                                s->series, s->ret);
}

static void search_job(void *arg, const struct scrape_job *j)
{
    const struct metadata_search *s = arg;
    if (!s->found)
        each_target(j, search_target, arg);
}

bool scrape_manager_find_metadata(const struct scrape_manager *m, struct gs_slice series,
                                  struct metrics_metadata *ret)
{
    struct metadata_search s = {series, ret, false};
    each_job(m, search_job, &s);
    return s.found;
}

// --- own metrics ---

struct totals {
    size_t pools;
    uint64_t duplicates, out_of_order, limit_failures, exemplars_out_of_order, series_refused;
};

static void add_totals(void *arg, const struct scrape_job *j, const struct scrape_target *t)
{
    (void)j;
    struct totals *sum = arg;
    struct scrape_ingest_counts c;
    scrape_ingest_counts(scrape_target_ingest(t), &c);
    sum->duplicates += c.duplicates;
    sum->out_of_order += c.out_of_order;
    sum->exemplars_out_of_order += c.exemplars_out_of_order;
    sum->limit_failures += c.limit_failures;
    sum->series_refused += c.series_refused;
}

static void add_job_totals(void *arg, const struct scrape_job *j)
{
    ((struct totals *)arg)->pools++;
    each_target(j, add_totals, arg);
}

static void write_one(struct gs_buf *out, const char *name, enum metrics_type type,
                      const char *help, double v)
{
    metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, NULL, 0, v);
}

static void write_discovered(void *out, const struct scrape_job *j)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("config"), gs_slice_of(j->cfg->job_name)},
        {GS_SLICE("name"), GS_SLICE("scrape")},
    };
    metrics_write_sample(out, "prometheus_sd_discovered_targets", labels, 2,
                         (double)scrape_job_discovered(j));
}

void scrape_manager_write_metrics(const struct scrape_manager *m, struct gs_buf *out)
{
    struct totals t = {0};
    each_job(m, add_job_totals, &t);
    write_one(out, "prometheus_target_scrape_pools_total", METRICS_COUNTER, "Scrape pools.",
              (double)t.pools);
    metrics_write_family(out, "prometheus_sd_discovered_targets", METRICS_GAUGE,
                         "Current number of discovered targets.");
    each_job(m, write_discovered, out);
    write_one(out, "prometheus_target_scrapes_sample_duplicate_timestamp_total", METRICS_COUNTER,
              "Samples rejected because of another value for the same time.", (double)t.duplicates);
    write_one(out, "prometheus_target_scrapes_sample_out_of_order_total", METRICS_COUNTER,
              "Samples rejected because they are older than the previous sample.",
              (double)t.out_of_order);
    write_one(out, "prometheus_target_scrapes_exemplar_out_of_order_total", METRICS_COUNTER,
              "Total number of exemplar rejected due to not being out of the expected order.",
              (double)t.exemplars_out_of_order);
    write_one(out, "prometheus_target_scrapes_exceeded_sample_limit_total", METRICS_COUNTER,
              "Scrapes that failed at a limit.", (double)t.limit_failures);
    write_one(out, "gpuscale_scrapes_refused_series_total", METRICS_COUNTER,
              "Series of targets that are left out because they exceed a limit of one series.",
              (double)t.series_refused);
    write_one(out, "gpuscale_scrapes_total", METRICS_COUNTER, "Scrapes done.", (double)m->scrapes);
}
