// SPDX-License-Identifier: Apache-2.0
// The family gpuscale_inference_* of a target that is a pod: after each scrape of an inference
// engine's page, its signals are stored beside the series of the page. If two jobs scrape the same
// pod, the first one stores them, until its scrape fails.
#include "engine/scrape/scrape_private.h"

#include "base/mem.h"
#include "base/num.h"

enum { MAX_BOUNDS = 64, HISTOGRAM_SLOTS = MAX_BOUNDS + 2 }; // buckets, sum and count

// The series of one model.
struct signals_series {
    char *key;   // of the owner
    bool cached; // the following are right
    uint32_t slots[SIGNALS_N_QUANTITIES];
    uint32_t *histograms[SIGNALS_N_HISTOGRAMS]; // HISTOGRAM_SLOTS; NULL: not stored yet
    size_t n_bounds[SIGNALS_N_HISTOGRAMS];
};

struct scrape_signals {
    struct scrape_signals_shared *shared;
    struct signals_page *page;
    char *ns, *pod;
    struct tsdb_group *group;
    uint64_t epoch;                // of the group, for which the slots are right
    const char *engine;            // of the series; borrowed from the table; NULL: none
    struct signals_series *series; // by row
    size_t n_series, series_cap;
};

struct scrape_signals_shared {
    struct tsdb *db;
    const struct signals_table *table;
    struct gs_hmap *owners; // key -> struct scrape_signals
};

struct scrape_signals_shared *scrape_signals_shared_new(struct tsdb *db,
                                                        const struct signals_table *table)
{
    struct scrape_signals_shared *s = gs_alloc(sizeof(*s));
    s->db = db;
    s->table = table;
    s->owners = gs_hmap_new(NULL);
    return s;
}

void scrape_signals_shared_free(struct scrape_signals_shared *s)
{
    if (!s)
        return;
    gs_hmap_free(s->owners);
    free(s);
}

static struct gs_slice find_label(const struct metrics_label *labels, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq_str(labels[i].name, name))
            return labels[i].value;
    return (struct gs_slice){0};
}

// The pod of a target: the label that its series have, otherwise what discovery knows.
static struct gs_slice pod_label(const struct scrape_target_spec *s, const char *label,
                                 const char *discovered)
{
    struct gs_slice value = find_label(s->labels, s->n_labels, label);
    return value.len ? value : find_label(s->discovered, s->n_discovered, discovered);
}

struct scrape_signals *scrape_signals_new(struct scrape_signals_shared *shared,
                                          const struct scrape_target_spec *spec)
{
    struct gs_slice ns = pod_label(spec, "namespace", "__meta_kubernetes_namespace");
    struct gs_slice pod = pod_label(spec, "pod", "__meta_kubernetes_pod_name");
    if (!shared || !ns.len || !pod.len)
        return NULL;
    struct scrape_signals *s = gs_alloc(sizeof(*s));
    s->shared = shared;
    s->page = signals_page_new(shared->table);
    s->ns = gs_slice_dup(ns);
    s->pod = gs_slice_dup(pod);
    return s;
}

static void release_owner(struct scrape_signals *s, const struct signals_series *x)
{
    if (x->key && gs_hmap_get_str(s->shared->owners, x->key) == s)
        gs_hmap_remove_str(s->shared->owners, x->key);
}

static void series_finish(struct scrape_signals *s, struct signals_series *x)
{
    release_owner(s, x);
    free(x->key);
    for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
        free(x->histograms[h]);
}

void scrape_signals_free(struct scrape_signals *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_series; i++)
        series_finish(s, &s->series[i]);
    free(s->series);
    if (s->group)
        tsdb_group_free(s->group);
    signals_page_free(s->page);
    free(s->ns);
    free(s->pod);
    free(s);
}

struct signals_page *scrape_signals_page(const struct scrape_signals *s)
{
    return s ? s->page : NULL;
}

void scrape_signals_pod(const struct scrape_signals *s, const char **ret_ns, const char **ret_pod)
{
    *ret_ns = s->ns;
    *ret_pod = s->pod;
}

// --- series ---

static struct signals_series *series_of_row(struct scrape_signals *s, size_t row)
{
    const struct signals_row *r = signals_page_row(s->page, row);
    while (s->n_series <= row) {
        gs_grow(&s->series, &s->series_cap, s->n_series, sizeof(*s->series));
        s->series[s->n_series++] = (struct signals_series){0};
    }
    struct signals_series *x = &s->series[row];
    if (!x->key)
        x->key =
            gs_format("%s\x1f%s\x1f%s\x1f" GS_SLICE_FMT "\x1f" GS_SLICE_FMT, s->ns, s->pod,
                      signals_page_engine(s->page), GS_SLICE_ARG(r->model), GS_SLICE_ARG(r->role));
    return x;
}

static bool takes_ownership(struct scrape_signals *s, const struct signals_series *x)
{
    const struct scrape_signals *owner = gs_hmap_get_str(s->shared->owners, x->key);
    if (!owner)
        gs_hmap_put_str(s->shared->owners, x->key, s);
    return !owner || owner == s;
}

static bool get_slot(struct scrape_signals *s, const struct signals_row *r, const char *quantity,
                     const char *suffix, const char *le, uint32_t *ret)
{
    GS_AUTO_FREE char *name = gs_format(SIGNALS_PREFIX "%s%s", quantity, suffix);
    const struct metrics_label labels[] = {
        {GS_SLICE("__name__"), gs_slice_of(name)},
        {GS_SLICE("namespace"), gs_slice_of(s->ns)},
        {GS_SLICE("pod"), gs_slice_of(s->pod)},
        {GS_SLICE("engine"), gs_slice_of(signals_page_engine(s->page))},
        {GS_SLICE("model"), r->model},
        {GS_SLICE("role"), r->role},
        {GS_SLICE("le"), gs_slice_of(le)},
    };
    // GS_EINVAL, GS_ELIMIT: as for a series of the page, this one is left out.
    GS_AUTO_ERROR struct gs_error *err =
        tsdb_group_slot(s->group, labels, GS_ARRAY_LEN(labels), ret);
    if (err)
        *ret = UINT32_MAX;
    return !err;
}

static void put(struct scrape_signals *s, uint32_t slot, double value)
{
    if (slot != UINT32_MAX)
        (void)tsdb_group_put(s->group, slot, value);
}

static void find_histogram(struct scrape_signals *s, struct signals_series *x,
                           const struct signals_row *r, size_t h)
{
    char le[GS_DOUBLE_SIZE];
    const struct signals_histogram *in = &r->histogram[h];
    const char *name = signals_quantity_name((enum signals_quantity)(SIGNALS_TTFT_SECONDS + h));
    uint32_t *slots = x->histograms[h];
    if (!slots)
        slots = x->histograms[h] = gs_alloc_array(HISTOGRAM_SLOTS, sizeof(*slots));
    x->n_bounds[h] = in->n;
    get_slot(s, r, name, "_sum", "", &slots[0]);
    get_slot(s, r, name, "_count", "", &slots[1]);
    for (size_t i = 0; i < in->n; i++)
        get_slot(s, r, name, "_bucket", gs_format_double(in->bounds[i], le), &slots[2 + i]);
}

static void put_histogram(struct scrape_signals *s, struct signals_series *x,
                          const struct signals_row *r, size_t h)
{
    const struct signals_histogram *in = &r->histogram[h];
    if (in->n > MAX_BOUNDS)
        return;
    if (x->n_bounds[h] != in->n)
        find_histogram(s, x, r, h);
    put(s, x->histograms[h][0], in->sum);
    put(s, x->histograms[h][1], in->count);
    for (size_t i = 0; i < in->n; i++)
        put(s, x->histograms[h][2 + i], in->counts[i]);
}

static void put_row(struct scrape_signals *s, struct signals_series *x, const struct signals_row *r)
{
    if (!x->cached) {
        memset(x->slots, 0xff, sizeof(x->slots));
        memset(x->n_bounds, 0, sizeof(x->n_bounds));
    }
    for (size_t q = 0; q < SIGNALS_N_QUANTITIES; q++) {
        const char *name = signals_quantity_name((enum signals_quantity)q);
        if (!r->has[q])
            continue;
        if (signals_quantity_type((enum signals_quantity)q) == METRICS_HISTOGRAM) {
            put_histogram(s, x, r, q - SIGNALS_TTFT_SECONDS);
            continue;
        }
        if (x->slots[q] == UINT32_MAX)
            get_slot(s, r, name, "", "", &x->slots[q]);
        put(s, x->slots[q], r->value[q]);
    }
    x->cached = true;
}

// Series have left the store, and their slots may have been assigned to others.
static void check_epoch(struct scrape_signals *s)
{
    if (tsdb_group_epoch(s->group) == s->epoch)
        return;
    s->epoch = tsdb_group_epoch(s->group);
    for (size_t i = 0; i < s->n_series; i++)
        s->series[i].cached = false;
}

// Another engine can listen on the port of a restarted pod.
static void check_engine(struct scrape_signals *s, const char *engine)
{
    if (s->engine == engine)
        return;
    for (size_t i = 0; i < s->n_series; i++)
        series_finish(s, &s->series[i]);
    s->n_series = 0;
    s->engine = engine;
}

static void store_rows(struct scrape_signals *s)
{
    const struct signals_row *r;
    for (size_t i = 0; (r = signals_page_row(s->page, i)); i++) {
        if (!r->present && i >= s->n_series)
            continue;
        struct signals_series *x = series_of_row(s, i);
        if (!r->present)
            release_owner(s, x);
        else if (takes_ownership(s, x))
            put_row(s, x, r);
    }
}

static bool begin_group(struct scrape_signals *s, int64_t t_ms)
{
    if (!s->group)
        s->group = tsdb_group_new(s->shared->db);
    GS_AUTO_ERROR struct gs_error *err = tsdb_group_begin(s->group, t_ms);
    return !err;
}

static void commit_group(struct scrape_signals *s)
{
    size_t added, fresh;
    tsdb_group_commit(s->group, &added, &fresh);
}

void scrape_signals_store(struct scrape_signals *s, int64_t t_ms)
{
    const char *engine = signals_page_engine(s->page);
    if (!engine && !s->group)
        return;
    if (!begin_group(s, t_ms))
        return;
    check_engine(s, engine);
    check_epoch(s);
    if (engine)
        store_rows(s);
    commit_group(s);
}

void scrape_signals_end(struct scrape_signals *s, int64_t t_ms)
{
    for (size_t i = 0; i < s->n_series; i++)
        release_owner(s, &s->series[i]);
    if (!s->group)
        return;
    int64_t last = tsdb_group_last_ms(s->group);
    if (begin_group(s, t_ms > last ? t_ms : last + 1))
        commit_group(s);
}

void scrape_signals_failed(struct scrape_signals *s, int64_t t_ms)
{
    signals_page_failed(s->page);
    scrape_signals_end(s, t_ms);
}
