// SPDX-License-Identifier: Apache-2.0
// Why a metric of an object has no value: the object does not exist, or its last sample is old, or
// it never had one. It costs a list and a query, so it runs only for a request that fails.
#include "adapter/provider/provider_private.h"

#include "base/clock.h"
#include "base/mem.h"

enum { FRESH_MS = 300000 }; // lookback of Prometheus

struct provider_no_data_op {
    struct provider_no_data_request rq;
    provider_no_data_fn cb;
    void *arg;
    struct kube_request *get;
    struct source_op *query;
};

static void end_no_data_search(struct provider_no_data_op *op, const char *cause)
{
    op->cb(op->arg, cause);
    free(op);
}

static void report_last_sample(struct provider_no_data_op *op, const struct source_result *r)
{
    char when[GS_RFC3339_SIZE], ago[GS_RFC3339_SIZE];
    GS_AUTO_FREE char *text = NULL;
    bool none = r->type != SOURCE_VECTOR || r->n == 0;
    double seconds = none ? 0 : r->samples[0].value;
    if (none || !(seconds > 0 && seconds < 1e12)) {
        text =
            gs_format("no series " GS_SLICE_FMT "{" GS_SLICE_FMT "} had a sample in the last hour",
                      GS_SLICE_ARG(op->rq.series), GS_SLICE_ARG(op->rq.matchers));
        end_no_data_search(op, text);
        return;
    }
    int64_t t_ms = (int64_t)(seconds * 1000), age_s = (gs_unix_ms() - t_ms) / 1000;
    gs_format_rfc3339(t_ms, when);
    gs_format_duration((age_s > 0 ? age_s : 0) * GS_NS_PER_SEC, ago);
    if (age_s * 1000 < FRESH_MS)
        text = gs_format("its series " GS_SLICE_FMT
                         " had a sample %s ago (%s), but the rule's query returns no sample for it",
                         GS_SLICE_ARG(op->rq.series), ago, when);
    else
        text = gs_format("its series " GS_SLICE_FMT " exists, but has no sample since %s (%s ago)",
                         GS_SLICE_ARG(op->rq.series), when, ago);
    end_no_data_search(op, text);
}

static void on_last_sample(void *arg, struct source_result *r, struct gs_error *err)
{
    struct provider_no_data_op *op = arg;
    op->query = NULL;
    if (err)
        end_no_data_search(op, NULL);
    else
        report_last_sample(op, r);
    gs_error_free(err);
}

static void query_last_sample(struct provider_no_data_op *op)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "max(max_over_time(timestamp(" GS_SLICE_FMT "{" GS_SLICE_FMT "})[1h:1m]))",
                GS_SLICE_ARG(op->rq.series), GS_SLICE_ARG(op->rq.matchers));
    op->query = source_query(op->rq.source, text.data, 0, on_last_sample, op);
}

static void on_object_listed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct provider_no_data_op *op = arg;
    const struct kube_gvr *r = &op->rq.object;
    const json_t *items = json_object_get(body, "items");
    op->get = NULL;
    if (!err && status == 200 && json_is_array(items) && json_array_size(items) == 0) {
        GS_AUTO_FREE char *text = gs_format("%s%s%s \"%s\" not found", r->resource,
                                            *r->group ? "." : "", r->group, op->rq.name);
        end_no_data_search(op, text);
    } else if (op->rq.series.len) {
        query_last_sample(op);
    } else {
        end_no_data_search(op, NULL);
    }
    gs_error_free(err);
}

// Uses a list with a name selector: the adapter may have the permission to list but not to get.
struct provider_no_data_op *provider_no_data_find(const struct provider_no_data_request *rq,
                                                  provider_no_data_fn cb, void *arg)
{
    struct provider_no_data_op *op = gs_alloc(sizeof(*op));
    *op = (struct provider_no_data_op){.rq = *rq, .cb = cb, .arg = arg};
    if (!rq->kube) {
        query_last_sample(op);
        return op;
    }
    GS_AUTO_BUF struct gs_buf query = {0};
    gs_buf_add_str(&query, "resourceVersion=0&fieldSelector=metadata.name%3D");
    http_encode(gs_slice_of(rq->name), &query);
    op->get = kube_list(rq->kube, rq->object, rq->ns, query.data, on_object_listed, op);
    return op;
}

void provider_no_data_cancel(struct provider_no_data_op *op)
{
    if (!op)
        return;
    kube_request_cancel(op->get);
    source_cancel(op->query);
    free(op);
}
