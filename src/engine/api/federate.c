// SPDX-License-Identifier: Apache-2.0
// /federate: the newest samples of the selected series in the text format, with their times and
// the external labels. https://prometheus.io/docs/prometheus/latest/federation/
#include "engine/api/api_private.h"

#include "base/num.h"
#include "metrics/write.h"

static const char text_type[] = "text/plain; version=0.0.4; charset=utf-8";

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

static int by_name(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int c = memcmp(x->name.data, y->name.data, n);
    if (c || x->name.len != y->name.len)
        return c ? c : x->name.len < y->name.len ? -1 : 1;
    return x->ref < y->ref ? -1 : x->ref > y->ref;
}

static struct gs_error *collect(struct api_request *r, const struct api_matches *m,
                                struct samples *ret)
{
    const struct engine_api_config *cfg = &r->api->cfg;
    struct gs_error *err = NULL;
    for (size_t i = 0; i < m->len && !err; i++) {
        GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
        size_t n;
        const struct tsdb_matcher *matchers = api_matchers(m->items[i], &n);
        err = tsdb_find(cfg->db, matchers, n, r->now_ms - cfg->lookback_ms, r->now_ms, 0, &refs);
        if (!err)
            add_found(cfg->db, &refs, r->now_ms, cfg->lookback_ms, ret);
    }
    if (!err && ret->len)
        qsort(ret->items, ret->len, sizeof(*ret->items), by_name);
    return err;
}

// --- write ---

static bool is_plain_name(struct gs_slice s, bool metric)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(metric && c == ':') && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

static void add_quoted(struct gs_buf *out, struct gs_slice s)
{
    gs_buf_add_char(out, '"');
    metrics_write_label_value(out, s);
    gs_buf_add_char(out, '"');
}

static void add_label(struct gs_buf *out, bool *first, struct gs_slice name, struct gs_slice value)
{
    gs_buf_add_char(out, *first ? '{' : ',');
    *first = false;
    if (is_plain_name(name, false))
        gs_buf_add_slice(out, name);
    else
        add_quoted(out, name);
    gs_buf_add_char(out, '=');
    add_quoted(out, value);
}

static void add_external(struct gs_buf *out, bool *first, const struct tsdb *db, tsdb_ref ref,
                         struct metrics_label external)
{
    GS_AUTO_FREE char *name = gs_slice_dup(external.name);
    if (!tsdb_series_label(db, ref, name).len)
        add_label(out, first, external.name, external.value);
}

// As Prometheus: labels that the series lacks, and an empty instance so that the puller's own does
// not come in its place.
static void add_externals(struct gs_buf *out, bool *first, const struct engine_api *a, tsdb_ref ref)
{
    static const struct metrics_label instance = {{"instance", 8}, {"", 0}};
    bool has_instance = false;
    size_t n = a->config ? a->config->n_external_labels : 0;
    for (size_t i = 0; i < n; i++) {
        struct metrics_label l = a->config->external_labels[i];
        has_instance = has_instance || gs_slice_eq_str(l.name, "instance");
        add_external(out, first, a->cfg.db, ref, l);
    }
    if (!has_instance)
        add_external(out, first, a->cfg.db, ref, instance);
}

static void add_sample(struct gs_buf *out, const struct engine_api *a, const struct sample *s)
{
    const struct tsdb_symbols *symbols = tsdb_symbols(a->cfg.db);
    struct tsdb_labels l = tsdb_series_labels(a->cfg.db, s->ref);
    bool plain = is_plain_name(s->name, true), first = true;
    if (plain) {
        gs_buf_add_slice(out, s->name);
    } else {
        gs_buf_add_char(out, '{');
        add_quoted(out, s->name);
        first = false;
    }
    for (size_t i = 0; i < l.n; i++)
        if (l.pairs[i].name != TSDB_SYMBOL_NAME)
            add_label(out, &first, tsdb_symbol_text(symbols, l.pairs[i].name),
                      tsdb_symbol_text(symbols, l.pairs[i].value));
    add_externals(out, &first, a, s->ref);
    if (!first)
        gs_buf_add_char(out, '}');
    char text[GS_DOUBLE_SIZE];
    gs_buf_addf(out, " %s %lld\n", gs_format_double(s->value, text), (long long)s->t_ms);
}

static void add_type(struct gs_buf *out, struct gs_slice name)
{
    gs_buf_add_str(out, "# TYPE ");
    if (is_plain_name(name, true))
        gs_buf_add_slice(out, name);
    else
        add_quoted(out, name);
    gs_buf_add_str(out, " untyped\n");
}

void api_federate(struct api_request *r)
{
    GS_CLEANUP(api_matches_finish) struct api_matches m = {0};
    GS_CLEANUP(samples_finish) struct samples found = {0};
    struct gs_error *err = api_parse_matches(r, &m);
    int status = err ? 400 : 500;
    if (!err)
        err = collect(r, &m, &found);
    if (err) {
        api_reply_text(r, status, "%s\n", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct gs_buf *out = &r->api->out;
    gs_buf_clear(out);
    for (size_t i = 0; i < found.len; i++) {
        const struct sample *s = &found.items[i];
        if (i && s->ref == s[-1].ref) // selected twice
            continue;
        if (!i || !gs_slice_eq(s->name, s[-1].name))
            add_type(out, s->name);
        add_sample(out, r->api, s);
    }
    api_reply_body(r, 200, text_type, gs_buf_slice(out));
}
