// SPDX-License-Identifier: Apache-2.0
// What the source has of the pods of a request, for an explanation of why they have no value. It
// costs a list and a query over all series of up to 20 pods, so it runs only on demand.
#include "adapter/provider/provider_private.h"

#include "base/mem.h"
#include "metrics/pod_series.h"

struct provider_pod_facts_op {
    struct provider *p;
    char *ns;
    provider_pod_facts_fn cb;
    void *arg;
    struct provider_objects_op *list;
    struct provider_object_names *pods;
    struct source_op *query;
    bool inside, done; // still in provider_pod_facts_find(); the callback has run
};

static void facts_op_free(struct provider_pod_facts_op *op)
{
    provider_objects_cancel(op->list);
    source_cancel(op->query);
    provider_object_names_unref(op->pods);
    free(op->ns);
    free(op);
}

static void end_pod_facts(struct provider_pod_facts_op *op, const struct source_result *r)
{
    bool known = r && r->type == SOURCE_VECTOR;
    struct provider_pod_facts f = {.pods = op->pods ? op->pods->n : 0};
    if (r && known) {
        f.samples = r->samples;
        f.n = r->n;
    }
    provider_pod_facts_fn cb = op->cb;
    void *arg = op->arg;
    cb(arg, known || (op->pods && !op->pods->n) ? &f : NULL);
    op->done = true;
    if (!op->inside)
        facts_op_free(op);
}

static void on_pod_series(void *arg, struct source_result *r, struct gs_error *err)
{
    struct provider_pod_facts_op *op = arg;
    op->query = NULL;
    gs_error_free(err);
    end_pod_facts(op, r);
}

static void on_pods_listed(void *arg, struct provider_object_names *names, struct gs_error *err)
{
    struct provider_pod_facts_op *op = arg;
    GS_AUTO_BUF struct gs_buf query = {0};
    op->list = NULL;
    gs_error_free(err);
    if (names)
        op->pods = provider_object_names_ref(names);
    if (names &&
        metrics_pod_series_query(op->ns, (const char *const *)names->items, names->n, &query))
        op->query = source_query(op->p->o.source, query.data, 0, on_pod_series, op);
    else
        end_pod_facts(op, NULL);
}

struct provider_pod_facts_op *provider_pod_facts_find(struct provider *p, const char *ns,
                                                      const char *selector,
                                                      provider_pod_facts_fn cb, void *arg)
{
    static const struct kube_gvr pods = {"", "v1", "pods"};
    struct provider_pod_facts_op *op = gs_alloc(sizeof(*op));
    *op = (struct provider_pod_facts_op){
        .p = p, .ns = gs_strdup(ns), .cb = cb, .arg = arg, .inside = true};
    if (p->objects)
        op->list = provider_objects_list(p->objects, pods, ns, selector, false, on_pods_listed, op);
    else
        end_pod_facts(op, NULL);
    op->inside = false;
    if (!op->done)
        return op;
    facts_op_free(op);
    return NULL;
}

void provider_pod_facts_cancel(struct provider_pod_facts_op *op)
{
    if (op)
        facts_op_free(op);
}
