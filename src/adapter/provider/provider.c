// SPDX-License-Identifier: Apache-2.0
// A request is a chain of asynchronous steps: the workload's selector (GPU metrics of workloads
// only), the list of objects, the query, the values.
#include "adapter/provider/provider_private.h"

#include "adapter/provider/provider.h"
#include "base/mem.h"

// --- ends ---

static const char *copy_request_text(struct provider_call *c, const char *s)
{
    return gs_arena_strdup(&c->arena, s);
}

static void value_call_free(struct provider_call *c)
{
    TAILQ_REMOVE(&c->p->calls, c, all);
    provider_workloads_cancel(c->workloads_op);
    provider_workloads_free(c->workloads);
    source_cancel(c->op);
    kube_selector_finish(&c->selector);
    gs_buf_finish(&c->query);
    gs_buf_finish(&c->timed_query);
    gs_buf_finish(&c->label);
    gs_buf_finish(&c->matchers);
    gs_buf_finish(&c->trace);
    gs_buf_finish(&c->cause);
    provider_objects_cancel(c->list_op);
    if (c->no_data)
        c->p->diagnoses--;
    provider_no_data_cancel(c->no_data);
    provider_object_names_unref(c->listed);
    gs_arena_finish(&c->arena);
    free(c);
}

struct source *provider_source(const struct provider_call *c)
{
    const struct provider_options *o = &c->p->o;
    return source_pick(o->source, o->extra_sources, c->rule->source);
}

void provider_end(struct provider_call *c, struct provider_answer *a)
{
    a->resource = c->resource;
    a->unserved = c->unserved;
    a->window_ms = c->rule ? c->rule->window_ms : 0;
    a->cause = c->cause.data ? c->cause.data : "";
    a->trace = c->trace.data ? c->trace.data : "";
    a->until_ns = c->until_ns;
    a->query = c->rule && c->query.len ? c->query.data : NULL;
    a->source = a->query ? provider_source(c) : NULL;
    if (c->listed && c->listed->until_ns < a->until_ns)
        a->until_ns = c->listed->until_ns;
    if (c->workloads && c->workloads->until_ns < a->until_ns)
        a->until_ns = c->workloads->until_ns;
    c->done = true;
    c->cb(c->arg, a);
    if (!c->inside)
        value_call_free(c);
}

// Causes become events and conditions. They name metrics and rules; `explain metric` prints
// queries.
static void limit_cause(struct gs_buf *cause)
{
    size_t n = PROVIDER_MAX_CAUSE;
    if (cause->len <= n)
        return;
    while (n && ((unsigned char)cause->data[n] & 0xc0) == 0x80)
        n--; // whole characters
    cause->len = n;
    gs_buf_add_str(cause, "…");
}

void provider_fail(struct provider_call *c, enum provider_outcome outcome, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gs_buf_clear(&c->cause);
    gs_buf_vaddf(&c->cause, fmt, ap);
    va_end(ap);
    limit_cause(&c->cause);
    if (c->rq.trace)
        gs_buf_addf(&c->trace, "=> %s\n", c->cause.data);
    provider_end(c, &(struct provider_answer){.outcome = outcome});
}

void provider_trace(struct provider_call *c, const char *fmt, ...)
{
    va_list ap;
    if (!c->rq.trace)
        return;
    va_start(ap, fmt);
    gs_buf_vaddf(&c->trace, fmt, ap);
    va_end(ap);
    gs_buf_add_char(&c->trace, '\n');
}

// --- the query ---

static void send_query(struct provider_call *c);

static void source_failed(struct provider_call *c, struct gs_error *err)
{
    enum gs_code code = gs_error_code(err);
    bool unreachable = code == GS_EUNAVAIL || code == GS_ETIMEOUT;
    if (c->timed && !unreachable && code != GS_EPERM) {
        // Either the rule's query or its combination with timestamps causes the error.
        gs_error_free(err);
        c->timed = false;
        c->timed_failed = true;
        send_query(c);
        return;
    }
    provider_fail(c, PROVIDER_SOURCE_FAILED, "%s%s",
                  unreachable         ? "the source is unavailable: "
                  : code == GS_EINVAL ? "the source rejects the query: "
                                      : "",
                  gs_error_message(err));
    gs_error_free(err);
}

static void on_vector(void *arg, struct source_result *r, struct gs_error *err)
{
    struct provider_call *c = arg;
    c->op = NULL;
    if (err) {
        source_failed(c, err);
        return;
    }
    if (c->timed_failed)
        gs_hmap_put_str(c->p->untimed, c->rule->place, c->p);
    c->until_ns = r->until_ns;
    bool wanted = r->type == SOURCE_VECTOR || (c->rq.external && r->type == SOURCE_SCALAR);
    if (wanted)
        provider_take_result(c, r);
    else
        provider_fail(c, PROVIDER_SOURCE_FAILED,
                      "the query of the rule at %s returns no instant vector", c->rule->place);
}

static void send_query(struct provider_call *c)
{
    c->op = source_query(provider_source(c), c->timed ? c->timed_query.data : c->query.data, 0,
                         on_vector, c);
}

// Timestamps double the cost of a query, which is small for the engine in this process.
static bool wants_times(const struct provider_call *c)
{
    enum { MAX_FAR = 100 };
    const struct provider_options *o = &c->p->o;
    if (o->times == PROVIDER_TIMES_NEVER || !provider_times_known(c->rule->query_text) ||
        gs_hmap_get_str(c->p->untimed, c->rule->place))
        return false;
    return o->times == PROVIDER_TIMES_ALWAYS || source_is_near(provider_source(c)) ||
           c->n_names <= MAX_FAR;
}

static struct gs_error *build_query(const struct provider_call *c,
                                    const struct adapter_config_rule *rule, struct gs_buf *query,
                                    struct gs_buf *label, struct gs_buf *matchers)
{
    const struct provider_query_request q = {
        .mapper = c->p->o.mapper,
        .resources = &rule->resources,
        .template_ = rule->query,
        .series = c->series,
        .ns = c->rq.external && !rule->resources.namespaced ? NULL : c->rq.ns,
        .resource = c->rq.external
                        ? NULL
                        : provider_rest_mapper_find(c->p->o.mapper, gs_slice_of(c->queried->group),
                                                    gs_slice_of(c->queried->resource)),
        .names = c->names,
        .n_names = c->n_names,
        .selector = &c->selector,
        .matchers = matchers,
    };
    return provider_query_build(&q, query, label);
}

static struct gs_error *add_alternative(struct provider_call *c,
                                        const struct adapter_config_rule *rule)
{
    GS_AUTO_BUF struct gs_buf query = {0}, label = {0}, matchers = {0}, timed = {0};
    struct gs_error *err = build_query(c, rule, &query, &label, &matchers);
    if (err)
        return err;
    provider_times_add(&query, gs_buf_slice(&label), c->series, gs_buf_slice(&matchers), &timed);
    provider_times_add_alternative(&query, gs_buf_slice(&c->label), gs_buf_slice(&label),
                                   &c->query);
    provider_times_add_alternative(&timed, gs_buf_slice(&c->label), gs_buf_slice(&label),
                                   &c->timed_query);
    return NULL;
}

static struct gs_error *build_queries(struct provider_call *c)
{
    struct gs_error *err = build_query(c, c->rule, &c->query, &c->label, &c->matchers);
    if (err)
        return err;
    c->timed = wants_times(c);
    if (c->timed)
        provider_times_add(&c->query, gs_buf_slice(&c->label), c->series,
                           gs_buf_slice(&c->matchers), &c->timed_query);
    for (size_t i = 0; i < PROVIDER_MAX_ALTERNATIVES && c->alternatives[i] && !err; i++)
        err = add_alternative(c, c->alternatives[i]);
    return err;
}

static void trace_aliases(struct provider_call *c)
{
    GS_AUTO_BUF struct gs_buf query = {0}, notes = {0};
    if (c->rq.trace)
        source_aliased_query(provider_source(c), c->query.data, &query, &notes);
    struct gs_slice rest = gs_buf_slice(&notes);
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        provider_trace(c, "alias of " GS_SLICE_FMT, GS_SLICE_ARG(line));
    }
    if (query.len)
        provider_trace(c, "query with aliases: %s", query.data);
}

static void send_value_query(struct provider_call *c)
{
    struct gs_error *err = build_queries(c);
    if (err) {
        provider_fail(c, c->rq.external ? PROVIDER_SOURCE_FAILED : PROVIDER_NO_METRIC,
                      "rule at %s: %s", c->rule->place, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    if (c->rule->source)
        provider_trace(c, "source %s", c->p->o.config->sources[c->rule->source - 1].name);
    provider_trace(c, "query: %s", c->query.data);
    trace_aliases(c);
    send_query(c);
}

// --- lists of objects ---

static void nothing_matches(struct provider_call *c)
{
    const char *selector = c->rq.label_selector;
    if (selector && *selector)
        provider_fail(c, PROVIDER_NO_METRIC, "no %s%s%s match the selector %s",
                      c->resource->resource, c->rq.ns ? " in namespace " : "",
                      c->rq.ns ? c->rq.ns : "", selector);
    else
        provider_fail(c, PROVIDER_NO_METRIC, "there are no %s%s%s", c->resource->resource,
                      c->rq.ns ? " in namespace " : "", c->rq.ns ? c->rq.ns : "");
}

static void on_names_listed(void *arg, struct provider_object_names *names, struct gs_error *err)
{
    struct provider_call *c = arg;
    c->list_op = NULL;
    if (err) {
        provider_fail(c, PROVIDER_LIST_FAILED, "listing %s: %s", c->queried->resource,
                      gs_error_message(err));
        gs_error_free(err);
        return;
    }
    c->listed = provider_object_names_ref(names);
    c->names = (const char *const *)names->items;
    c->n_names = names->n;
    provider_trace(c, "%zu %s match the selector", c->n_names, c->queried->resource);
    if (c->n_names)
        send_value_query(c);
    else
        nothing_matches(c);
}

static void list_objects(struct provider_call *c, const char *selector)
{
    if (!c->p->objects) {
        provider_fail(c, PROVIDER_LIST_FAILED, "%s cannot be listed: no cluster is configured",
                      c->queried->resource);
        return;
    }
    const struct kube_gvr gvr = {c->queried->group, c->queried->version, c->queried->resource};
    // The call may be freed already if the callback has run.
    struct provider_objects_op *op =
        provider_objects_list(c->p->objects, gvr, c->rq.ns, selector, false, on_names_listed, c);
    if (op)
        c->list_op = op;
}

// --- workloads ---

static const struct provider_workload_kind *owner_of(const struct provider_rest_mapping *r)
{
    const struct provider_workload_kind *o;
    for (size_t i = 0; (o = provider_workload_kind_nth(i)); i++)
        if (gs_streq(o->group, r->group) && gs_streq(o->resource, r->resource))
            return o;
    return NULL;
}

static void on_workload_pods(void *arg, struct provider_workloads *o, int status,
                             struct gs_error *err)
{
    struct provider_call *c = arg;
    bool all = gs_streq(c->rq.name, "*");
    c->workloads_op = NULL;
    if (err) {
        provider_fail(c, status == 404 ? PROVIDER_NO_SAMPLE : PROVIDER_LIST_FAILED, "%s",
                      gs_error_message(err));
        gs_error_free(err);
        return;
    }
    c->workloads = o;
    c->names = o->pods;
    c->n_names = o->n_pods;
    provider_trace(c, "%zu %s with %zu pods", o->n, c->resource->resource, o->n_pods);
    if (o->n_pods)
        send_value_query(c);
    else if (all && o->n)
        provider_fail(c, PROVIDER_NO_METRIC, "none of the %zu %s has pods", o->n,
                      c->resource->resource);
    else if (all)
        nothing_matches(c);
    else
        provider_fail(c, PROVIDER_NO_SAMPLE, "%s", o->n ? "it has no pods" : "it selects no pods");
}

static void find_workload_pods(struct provider_call *c)
{
    if (!c->p->objects) {
        provider_fail(c, PROVIDER_LIST_FAILED,
                      "its pods cannot be listed: no cluster is configured");
        return;
    }
    bool all = gs_streq(c->rq.name, "*");
    const struct provider_workloads_request rq = {.kube = c->p->o.kube,
                                                  .objects = c->p->objects,
                                                  .kind = owner_of(c->resource),
                                                  .version = c->resource->version,
                                                  .ns = c->rq.ns,
                                                  .name = all ? NULL : c->rq.name,
                                                  .selector = all ? c->rq.label_selector : NULL};
    provider_trace(c, "pods of %s %s, by selector and controller", c->resource->kind, c->rq.name);
    c->workloads_op = provider_workloads_find(&rq, on_workload_pods, c);
}

// --- the rule ---

// Copies a mapping: the mapper may load new resources before the call ends.
static struct provider_rest_mapping copy_mapped(struct provider_call *c,
                                                const struct provider_rest_mapping *m)
{
    return (struct provider_rest_mapping){
        copy_request_text(c, m->group),    copy_request_text(c, m->version),
        copy_request_text(c, m->resource), copy_request_text(c, m->singular),
        copy_request_text(c, m->kind),     m->namespaced};
}

static bool take_rule(struct provider_call *c, const struct provider_registry_metric *m)
{
    if (!m)
        return false;
    c->rule = m->rule;
    c->series =
        gs_slice_make(gs_arena_strndup(&c->arena, m->series.data, m->series.len), m->series.len);
    return true;
}

static const struct provider_registry *pod_series(const struct provider_call *c)
{
    return c->rq.no_pod_series ? NULL : c->p->o.pod_series;
}

// Finds the rule for pods of a metric of a workload. plain: how the metric without a suffix is
// aggregated.
static bool find_of_pods(struct provider_call *c, const struct provider_registry *r,
                         const struct provider_rest_mapping *pods, enum provider_aggregate plain)
{
    if (!r)
        return false;
    c->aggregate = plain;
    if (take_rule(c, provider_registry_find(r, pods, true, c->rq.metric)))
        return true;
    struct gs_slice base = provider_gpu_metric(c->rq.metric, &c->aggregate);
    GS_AUTO_FREE char *name = gs_slice_dup(base);
    return take_rule(c, provider_registry_find(r, pods, true, name));
}

// Serves a metric of a workload from those of its pods.
static bool find_owned(struct provider_call *c)
{
    const struct provider_rest_mapping *pods =
        provider_rest_mapper_find_text(c->p->o.mapper, "pods");
    if (!owner_of(c->resource) || !pods || !c->rq.ns ||
        (!find_of_pods(c, c->p->o.gpu, pods, PROVIDER_AVERAGE) &&
         !find_of_pods(c, pod_series(c), pods, provider_pod_series_aggregate(c->rq.metric))))
        return false;
    c->pods_copy = copy_mapped(c, pods);
    c->queried = &c->pods_copy;
    c->aggregates = true;
    return true;
}

// Exporters name their node by different labels (Hostname, hostname), so a metric of nodes uses all
// of them. Pods do not: one of their labels may be the pod of the exporter.
static bool find_gpu_rule(struct provider_call *c)
{
    const struct provider_registry_metric *m =
        provider_registry_find(c->p->o.gpu, c->resource, c->rq.ns != NULL, c->rq.metric);
    if (!take_rule(c, m))
        return false;
    if (!*c->resource->group && gs_streq(c->resource->resource, "nodes"))
        memcpy(c->alternatives, m->alternatives, sizeof(c->alternatives));
    return true;
}

static bool find_rule(struct provider_call *c)
{
    const struct provider_options *o = &c->p->o;
    bool namespaced = c->rq.ns != NULL;
    return take_rule(c,
                     provider_registry_find(o->registry, c->resource, namespaced, c->rq.metric)) ||
           (o->gpu && find_gpu_rule(c)) ||
           (pod_series(c) && take_rule(c, provider_registry_find(pod_series(c), c->resource,
                                                                 namespaced, c->rq.metric))) ||
           find_owned(c);
}

// No series has the name, although every series of a pod would be served.
static void no_pod_series(struct provider_call *c)
{
    const struct provider_registry *r = c->p->o.pod_series;
    const struct provider_rest_mapping *pods =
        provider_rest_mapper_find_text(c->p->o.mapper, "pods");
    const char *similar = pods ? provider_registry_similar(r, pods, c->rq.metric) : NULL;
    if (!provider_registry_complete(r))
        provider_fail(c, PROVIDER_NO_METRIC,
                      "no sample yet: the series of pods have not been listed");
    else
        provider_fail(c, PROVIDER_NO_METRIC,
                      "no rule serves it, and no series of this name has the labels namespace and "
                      "pod%s%s",
                      similar ? "; similar: " : "", similar ? similar : "");
}

static void no_rule(struct provider_call *c)
{
    GS_AUTO_FREE char *others = provider_registry_resources_of(c->p->o.registry, c->rq.metric);
    GS_AUTO_FREE char *gpu = !*others && c->p->o.gpu
                                 ? provider_registry_resources_of(c->p->o.gpu, c->rq.metric)
                                 : gs_strdup("");
    size_t bad = 0;
    struct provider_registry_rule_state s;
    for (size_t i = 0; i < provider_registry_rules(c->p->o.registry); i++) {
        provider_registry_rule(c->p->o.registry, i, &s);
        bad += s.error != NULL;
    }
    c->unserved = true;
    if (*others)
        provider_fail(c, PROVIDER_NO_METRIC, "it is served for %s only", others);
    else if (*gpu)
        provider_fail(c, PROVIDER_NO_METRIC, "no sample yet for %s: it is served for %s only",
                      c->resource->resource, gpu);
    else if (provider_fail_idle(c))
        return;
    else if (bad)
        provider_fail(c, PROVIDER_NO_METRIC,
                      "no rule serves it, and the series of %zu rules cannot be listed", bad);
    else if (c->p->o.gpu && provider_gpu_name(c->rq.metric))
        provider_fail(c, PROVIDER_NO_METRIC, "no sample yet: no series of this name exists");
    else if (c->p->o.pod_series && provider_registry_complete(c->p->o.registry))
        no_pod_series(c);
    else if (!provider_registry_complete(c->p->o.registry))
        provider_fail(c, PROVIDER_NO_METRIC,
                      "no sample yet: the series of the rules have not been listed");
    else
        provider_fail(c, PROVIDER_NO_METRIC, "no rule serves it");
}

static void start_external(struct provider_call *c)
{
    const struct provider_options *o = &c->p->o;
    if (!take_rule(c, provider_registry_find_external(o->registry, c->rq.metric)) &&
        !(o->gpu && take_rule(c, provider_registry_find_external(o->gpu, c->rq.metric)))) {
        c->unserved = true;
        if (!provider_fail_idle(c))
            provider_fail(c, PROVIDER_NO_METRIC, "no external rule serves it");
        return;
    }
    provider_trace(c, "rule at %s, series " GS_SLICE_FMT, c->rule->place, GS_SLICE_ARG(c->series));
    send_value_query(c);
}

static void trace_series(struct provider_call *c, struct gs_slice series)
{
    if (series.len)
        provider_trace(c, "instead of the series " GS_SLICE_FMT ", which has this name, too",
                       GS_SLICE_ARG(series));
}

// What the rule hides: other series of the name.
static void trace_shadowed(struct provider_call *c)
{
    const struct provider_options *o = &c->p->o;
    bool namespaced = c->rq.ns != NULL;
    const struct provider_registry_metric *m =
        provider_registry_find(o->registry, c->queried, namespaced, c->rq.metric);
    if (!m && o->pod_series)
        m = provider_registry_find(o->pod_series, c->queried, namespaced, c->rq.metric);
    if (!m)
        return;
    trace_series(c, m->shadowed);
    if (o->pod_series)
        trace_series(c, provider_registry_shadowed(o->pod_series, m));
}

static void start_provider_call(struct provider_call *c)
{
    const struct provider_rest_mapping *m =
        provider_rest_mapper_find_text(c->p->o.mapper, c->rq.resource);
    if (!m) {
        c->unserved = true;
        provider_fail(c, gs_streq(c->rq.name, "*") ? PROVIDER_LIST_FAILED : PROVIDER_NO_METRIC,
                      "the cluster has no resource %s", c->rq.resource);
        return;
    }
    c->resource_copy = copy_mapped(c, m);
    c->resource = c->queried = &c->resource_copy;
    if (!find_rule(c)) {
        c->resource = c->queried = &c->resource_copy;
        no_rule(c);
        return;
    }
    provider_trace(c, "rule at %s, series " GS_SLICE_FMT, c->rule->place, GS_SLICE_ARG(c->series));
    if (c->rq.trace)
        trace_shadowed(c);
    if (c->aggregates) {
        find_workload_pods(c);
    } else if (gs_streq(c->rq.name, "*")) {
        list_objects(c, c->rq.label_selector);
    } else {
        c->one_name[0] = c->rq.name;
        c->names = c->one_name;
        c->n_names = 1;
        send_value_query(c);
    }
}

const char *provider_outcome_text(enum provider_outcome outcome)
{
    static const char *const texts[] = {
        [PROVIDER_OK] = "200",
        [PROVIDER_NO_METRIC] = "404 no such metric",
        [PROVIDER_NO_SAMPLE] = "404 no sample",
        [PROVIDER_SOURCE_FAILED] = "500 the source failed",
        [PROVIDER_LIST_FAILED] = "500 the list failed",
    };
    return texts[outcome];
}

// --- setup ---

struct provider *provider_new(const struct provider_options *o)
{
    struct provider *p = gs_alloc(sizeof(*p));
    p->o = *o;
    p->objects = o->kube ? provider_objects_new(o->kube, o->list_age_ms) : NULL;
    p->untimed = gs_hmap_new(NULL);
    TAILQ_INIT(&p->calls);
    return p;
}

void provider_free(struct provider *p)
{
    if (!p)
        return;
    for (struct provider_call *c = TAILQ_FIRST(&p->calls), *next; c; c = next) {
        next = TAILQ_NEXT(c, all);
        value_call_free(c);
    }
    provider_objects_free(p->objects);
    gs_hmap_free(p->untimed);
    free(p);
}

struct provider_call *provider_request_values(struct provider *p, const struct provider_request *rq,
                                              provider_fn cb, void *arg)
{
    struct provider_call *c = gs_alloc(sizeof(*c));
    c->p = p;
    TAILQ_INSERT_TAIL(&p->calls, c, all);
    c->rq = (struct provider_request){
        .resource = copy_request_text(c, rq->resource),
        .ns = copy_request_text(c, rq->ns),
        .name = copy_request_text(c, rq->name),
        .metric = copy_request_text(c, rq->metric),
        .label_selector = copy_request_text(c, rq->label_selector),
        .external = rq->external,
        .no_pod_series = rq->no_pod_series,
        .trace = rq->trace,
    };
    GS_AUTO_BUF struct gs_buf selector = {0};
    if (rq->selector)
        kube_selector_format(rq->selector, &selector);
    gs_error_free(kube_selector_parse(selector.data, &c->selector)); // it was parsed before
    c->cb = cb;
    c->arg = arg;
    c->inside = true;
    if (rq->external)
        start_external(c);
    else
        start_provider_call(c);
    c->inside = false;
    if (!c->done)
        return c;
    value_call_free(c);
    return NULL;
}

void provider_cancel(struct provider_call *c)
{
    if (c)
        value_call_free(c);
}
