// SPDX-License-Identifier: Apache-2.0
// /api/v1/query_exemplars.
#include "engine/api/api_private.h"

#include "base/clock.h"
#include "promql/ast.h"
#include "tsdb/exemplars.h"

struct selectors {
    struct tsdb_exemplar_selector *items;
    size_t n, cap;
};

static bool add_selector(void *arg, const struct promql_node *n)
{
    struct selectors *s = arg;
    if (n->kind == PROMQL_SELECTOR) {
        gs_grow(&s->items, &s->cap, s->n, sizeof(*s->items));
        s->items[s->n++] =
            (struct tsdb_exemplar_selector){n->u.selector.matchers, n->u.selector.n_matchers};
    }
    return true;
}

static void add_labels(struct gs_buf *out, const struct metrics_label *labels, size_t n)
{
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, ',');
        codec_json_add_string(out, labels[i].name, CODEC_JSON_PLAIN);
        gs_buf_add_char(out, ':');
        codec_json_add_string(out, labels[i].value, CODEC_JSON_PLAIN);
    }
    gs_buf_add_char(out, '}');
}

struct writer {
    struct engine_api_request *r;
    struct gs_buf *out;
    bool any;
};

static bool go_on(void *arg)
{
    const struct writer *w = arg;
    return engine_api_go_on(w->r);
}

static void write_exemplar(void *arg, const struct tsdb_exemplar_series *s,
                           const struct tsdb_exemplar *e, bool is_first)
{
    struct writer *w = arg;
    if (is_first) {
        gs_buf_add_str(w->out, w->any ? "]},{\"seriesLabels\":" : "{\"seriesLabels\":");
        add_labels(w->out, s->labels, s->n_labels);
        gs_buf_add_str(w->out, ",\"exemplars\":[");
    } else {
        gs_buf_add_char(w->out, ',');
    }
    w->any = true;
    gs_buf_add_str(w->out, "{\"labels\":");
    add_labels(w->out, e->labels, e->n_labels);
    gs_buf_add_str(w->out, ",\"value\":");
    engine_api_json_add_value(w->out, e->value);
    gs_buf_add_str(w->out, ",\"timestamp\":");
    char time[ENGINE_API_JSON_VALUE_SIZE];
    char *end = engine_api_json_put_time(time, e->t_ms);
    gs_buf_add(w->out, time, (size_t)(end - time));
    gs_buf_add_char(w->out, '}');
}

void engine_api_query_exemplars(struct engine_api_request *r)
{
    int64_t start, end;
    if (!engine_api_range(r, &start, &end))
        return;
    if (end < start) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "end timestamp must not be before start timestamp");
        return;
    }
    GS_CLEANUP(promql_expr_freep) struct promql_expr *expr = NULL;
    struct gs_error *err = promql_parse(gs_slice_of(engine_api_param(r, "query")), &expr);
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    struct selectors s = {0};
    promql_walk(promql_expr_root(expr), add_selector, &s);
    if (s.n) {
        struct writer w = {.r = r, .out = engine_api_begin(r)};
        const struct tsdb_exemplar_query q = {.selectors = s.items,
                                              .n_selectors = s.n,
                                              .mint = start,
                                              .maxt = end,
                                              .fn = write_exemplar,
                                              .go_on = go_on,
                                              .arg = &w};
        gs_buf_add_char(w.out, '[');
        if (tsdb_exemplars_query(r->api->cfg.db, &q))
            gs_buf_add_str(w.out, w.any ? "]}]" : "]");
        engine_api_end(r);
    } else { // as in Prometheus
        engine_api_reply_body(r, 204, NULL, GS_SLICE(""));
    }
    free(s.items);
}
