// SPDX-License-Identifier: Apache-2.0
// Queries within the process. They use the same queue, limits and statistics as queries over HTTP,
// but the result is not converted to JSON.
#include "engine/api/api_private.h"

#include "base/clock.h"

#include <stdint.h>

struct engine_api_local_query {
    struct engine_api *api;
    char *text; // a query or a series selector
    bool series;
    int64_t t_ms, timeout_ms, begun_ns;
    engine_api_local_fn fn;
    void *arg;
    bool submitting, reported; // the submission has not returned yet; the result has been reported
    bool cancelled;
};

int64_t engine_api_local_query_begun_ns(const struct engine_api_local_query *query)
{
    return query->begun_ns;
}

void engine_api_local_query_free(struct engine_api_local_query *query)
{
    free(query->text);
    free(query);
}

// During the submission, the caller frees the object.
static void call_local_done(struct engine_api_local_query *query,
                            const struct engine_api_local_result *t, struct gs_error *err)
{
    if (query->cancelled)
        gs_error_free(err);
    else
        query->fn(query->arg, err ? NULL : t, err);
    query->reported = true;
    if (!query->submitting)
        engine_api_local_query_free(query);
}

void engine_api_local_query_refuse(struct engine_api_local_query *query, struct gs_error *err)
{
    call_local_done(query, NULL, err);
}

static void run_query(struct engine_api_local_query *query)
{
    struct engine_api *a = query->api;
    GS_CLEANUP(promql_expr_freep) struct promql_expr *expr = NULL;
    struct promql_result result = {0};
    struct gs_error *err = promql_parse(gs_slice_of(query->text), &expr);
    if (!err) {
        // The limit of the configuration still applies.
        int64_t left_ms = query->timeout_ms - (gs_mono_ns() - query->begun_ns) / GS_NS_PER_MS;
        if (left_ms > a->cfg.timeout_ms)
            left_ms = a->cfg.timeout_ms;
        promql_engine_set_limits(a->cfg.promql, left_ms > 0 ? left_ms : 1, 0);
        err = promql_instant(a->cfg.promql, expr, query->t_ms, &result);
        promql_engine_set_limits(a->cfg.promql, 0, 0);
    }
    a->n_queries++;
    a->query_seconds += (double)(gs_mono_ns() - query->begun_ns) / (double)GS_NS_PER_SEC;
    const struct engine_api_local_result t = {.db = a->cfg.db, .result = &result};
    call_local_done(query, &t, err);
    promql_result_finish(&result);
}

static void run_series(struct engine_api_local_query *query)
{
    struct tsdb *db = query->api->cfg.db;
    GS_CLEANUP(promql_expr_freep) struct promql_expr *expr = NULL;
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
    struct gs_error *err = engine_api_parse_strict(query->text, &expr);
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers = {0};
    if (!err)
        err = engine_api_prepare_search(query->api, expr, &answers);
    if (!err)
        err = tsdb_find(db, answers.matchers, answers.n, query->t_ms, INT64_MAX, 0, &refs);
    const struct engine_api_local_result t = {.db = db, .refs = &refs};
    call_local_done(query, &t, err);
}

void engine_api_local_query_run(struct engine_api_local_query *query)
{
    if (query->series)
        run_series(query);
    else
        run_query(query);
}

static struct engine_api_local_query *begin_local_query(struct engine_api_local_query query)
{
    struct engine_api_local_query *copy = gs_alloc(sizeof(*copy));
    *copy = query;
    copy->begun_ns = gs_mono_ns();
    copy->submitting = true;
    engine_api_queue_run_local(query.api->queue, query.api, copy);
    copy->submitting = false;
    if (!copy->reported)
        return copy;
    engine_api_local_query_free(copy);
    return NULL;
}

struct engine_api_local_query *engine_api_local_instant(struct engine_api *a, const char *query,
                                                        int64_t t_ms, int64_t timeout_ms,
                                                        engine_api_local_fn fn, void *arg)
{
    return begin_local_query((struct engine_api_local_query){.api = a,
                                                             .text = gs_strdup(query),
                                                             .t_ms = t_ms,
                                                             .timeout_ms = timeout_ms,
                                                             .fn = fn,
                                                             .arg = arg});
}

struct engine_api_local_query *engine_api_local_series(struct engine_api *a, const char *selector,
                                                       int64_t start_ms, engine_api_local_fn fn,
                                                       void *arg)
{
    return begin_local_query((struct engine_api_local_query){.api = a,
                                                             .text = gs_strdup(selector),
                                                             .series = true,
                                                             .t_ms = start_ms,
                                                             .fn = fn,
                                                             .arg = arg});
}

void engine_api_local_query_cancel(struct engine_api_local_query *query)
{
    if (!query)
        return;
    query->cancelled = true;
    engine_api_queue_cancel(query->api->queue, query);
}
