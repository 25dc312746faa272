// SPDX-License-Identifier: Apache-2.0
// /federate: the newest samples of the selected series in the text format, with their times and
// the external labels. https://prometheus.io/docs/prometheus/latest/federation/
#include "engine/api/api_private.h"

#include "base/num.h"
#include "metrics/write.h"

struct sample {
    tsdb_ref ref;
    struct gs_slice name;
    double value;
    int64_t t_ms;
};
struct samples {
    struct sample *items;
    size_t len, cap;
};

static void samples_finish(struct samples *s)
{
    free(s->items);
}

// --- select ---

static void add_found(const struct tsdb *db, const struct tsdb_refs *refs, int64_t now_ms,
                      int64_t lookback_ms, struct samples *ret)
{
    GS_AUTO_FREE double *v = gs_alloc_array(refs->len ? refs->len : 1, sizeof(*v));
    GS_AUTO_FREE int64_t *t = gs_alloc_array(refs->len ? refs->len : 1, sizeof(*t));
    tsdb_latest(db, refs->items, refs->len, now_ms, now_ms - lookback_ms, v, t);
    for (size_t i = 0; i < refs->len; i++) {
        struct gs_slice name = tsdb_series_label(db, refs->items[i], "__name__");
        if (tsdb_is_stale(v[i]) || !name.len)
            continue;
        gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
        ret->items[ret->len++] = (struct sample){refs->items[i], name, v[i], t[i]};
    }
}

static int compare_metric_names(const void *a, const void *b, void *unused)
{
    const struct sample *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int c = memcmp(x->name.data, y->name.data, n);
    if (c || x->name.len != y->name.len)
        return c ? c : x->name.len < y->name.len ? -1 : 1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static struct gs_error *collect_federated(struct engine_api_request *r,
                                          const struct engine_api_matches *m, struct samples *ret)
{
    const struct engine_api_config *cfg = &r->api->cfg;
    struct gs_error *err = NULL;
    for (size_t i = 0; i < m->len && !err; i++) {
        GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
        GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
        err = engine_api_prepare_search(r->api, m->items[i], &answers);
        if (!err)
            err = tsdb_find(cfg->db, answers.matchers, answers.n, r->now_ms - cfg->lookback_ms,
                            r->now_ms, 0, &refs);
        if (!err)
            add_found(cfg->db, &refs, r->now_ms, cfg->lookback_ms, ret);
    }
    if (!err && ret->len)
        engine_api_sort(ret->items, ret->len, sizeof(*ret->items), compare_metric_names, NULL,
                        engine_api_go_on, r);
    return err;
}

// --- write ---

struct page {
    const struct engine_api *api;
    struct gs_buf *out;
    enum metrics_escaping scheme;
};

static void write_quoted(struct gs_buf *out, struct gs_slice s)
{
    gs_buf_add_char(out, '"');
    metrics_write_label_value(out, s);
    gs_buf_add_char(out, '"');
}

// Escapes the name if the client requires it. Unlike metric names, label names cannot contain a
// colon without quotes.
static void write_federated_name(struct gs_buf *out, enum metrics_escaping scheme,
                                 struct gs_slice name)
{
    bool colon = memchr(name.data, ':', name.len) != NULL;
    if (scheme != METRICS_ESCAPE_NONE && !metrics_is_plain_name(name))
        metrics_escape_name(scheme, name, out);
    else if (metrics_is_plain_name(name) && (!colon || scheme != METRICS_ESCAPE_NONE))
        gs_buf_add_slice(out, name);
    else
        write_quoted(out, name);
}

static void write_federated_label(struct page *p, bool *first, struct gs_slice name,
                                  struct gs_slice value)
{
    gs_buf_add_char(p->out, *first ? '{' : ',');
    *first = false;
    write_federated_name(p->out, p->scheme, name);
    gs_buf_add_char(p->out, '=');
    write_quoted(p->out, value);
}

static void add_external(struct page *p, bool *first, tsdb_ref ref, struct metrics_label external)
{
    GS_AUTO_FREE char *name = gs_slice_dup(external.name);
    if (!tsdb_series_label(p->api->cfg.db, ref, name).len)
        write_federated_label(p, first, external.name, external.value);
}

// Like Prometheus, adds the external labels that the series lacks, and an empty instance, so that
// the scraping server does not add its own.
static void add_externals(struct page *p, bool *first, tsdb_ref ref)
{
    static const struct metrics_label instance = {{"instance", 8}, {"", 0}};
    bool has_instance = false;
    const struct engine_config *cfg = p->api->config;
    size_t n = cfg ? cfg->n_external_labels : 0;
    for (size_t i = 0; i < n; i++) {
        struct metrics_label l = cfg->external_labels[i];
        has_instance = has_instance || gs_slice_eq_str(l.name, "instance");
        add_external(p, first, ref, l);
    }
    if (!has_instance)
        add_external(p, first, ref, instance);
}

static void write_federated_metric(struct page *p, struct gs_slice name)
{
    if (metrics_is_plain_name(name))
        gs_buf_add_slice(p->out, name);
    else
        write_federated_name(p->out, p->scheme, name);
}

static void write_federated_sample(struct page *p, const struct sample *s)
{
    const struct tsdb *db = p->api->cfg.db;
    const struct tsdb_symbols *symbols = tsdb_symbols(db);
    struct tsdb_labels l = tsdb_series_labels(db, s->ref);
    struct gs_buf *out = p->out;
    bool quoted = p->scheme == METRICS_ESCAPE_NONE && !metrics_is_plain_name(s->name);
    bool first = !quoted;
    if (quoted)
        gs_buf_add_char(out, '{');
    write_federated_metric(p, s->name);
    for (size_t i = 0; i < l.n; i++)
        write_federated_label(p, &first, tsdb_symbol_text(symbols, l.pairs[i].name),
                              tsdb_symbol_text(symbols, l.pairs[i].value));
    add_externals(p, &first, s->ref);
    if (!first)
        gs_buf_add_char(out, '}');
    char text[GS_DOUBLE_SIZE];
    gs_buf_addf(out, " %s %lld\n", gs_format_double(s->value, text), (long long)s->t_ms);
}

static void write_type(struct page *p, struct gs_slice name)
{
    gs_buf_add_str(p->out, "# TYPE ");
    write_federated_metric(p, name);
    gs_buf_add_str(p->out, " untyped\n");
}

static void reply_federated(struct engine_api_request *r, const struct samples *found)
{
    struct page p = {r->api, engine_api_buffer(r),
                     metrics_escaping_for(http_header(r->x, "Accept"))};
    for (size_t i = 0; i < found->len && engine_api_go_on(r); i++) {
        const struct sample *s = &found->items[i];
        if (i && s->ref == s[-1].ref) // two selectors matched the series
            continue;
        if (!i || !gs_slice_eq(s->name, s[-1].name))
            write_type(&p, s->name);
        write_federated_sample(&p, s);
    }
    GS_AUTO_FREE char *type = gs_format("text/plain; version=0.0.4; charset=utf-8; escaping=%s",
                                        metrics_escaping_name(p.scheme));
    engine_api_reply_buffer(r, type);
}

void engine_api_federate(struct engine_api_request *r)
{
    GS_CLEANUP(engine_api_matches_finish) struct engine_api_matches m = {0};
    GS_CLEANUP(samples_finish) struct samples found = {0};
    struct gs_error *err = engine_api_parse_matches(r, &m);
    int status = err ? 400 : 500;
    struct tsdb_isolation hold;
    tsdb_isolation_begin(r->api->cfg.db, &hold);
    if (!err)
        err = collect_federated(r, &m, &found);
    if (err)
        engine_api_reply_text(r, status, "%s\n", gs_error_message(err));
    else
        reply_federated(r, &found);
    tsdb_isolation_end(r->api->cfg.db, &hold);
    gs_error_free(err);
}
