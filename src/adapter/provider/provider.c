// SPDX-License-Identifier: Apache-2.0
// One request as a chain of steps, each of which may wait: owner's selector (GPU metrics of
// Deployments and the like) -> list of objects -> query -> values.
#include "adapter/provider/provider.h"

#include "adapter/provider/gpu.h"
#include "adapter/provider/objects.h"
#include "adapter/provider/owners.h"
#include "adapter/provider/query.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"

#include <math.h>
#include <sys/queue.h>

TAILQ_HEAD(calls, provider_call);

struct provider {
    struct provider_options o;
    struct objects *objects; // NULL: no cluster
    struct calls calls;
};

struct provider_call {
    struct provider *p;
    TAILQ_ENTRY(provider_call) all;
    struct gs_arena arena;
    struct provider_request rq; // texts in the arena; selector copied from its text
    struct kube_selector selector;
    provider_fn cb;
    void *arg;
    bool inside;   // still in provider_ask
    bool unserved; // no rule is for it
    bool done;
    const struct registry_metric *metric; // valid until the next wait only
    const struct adapter_rule *rule;
    struct gs_slice series;
    const struct mapped *resource; // of the request
    struct mapped resource_copy, pods_copy;
    const struct mapped *asked; // whose values are asked for: the resource, or pods of an owner
    bool folds;
    enum gpu_fold fold;
    const char *const *names;
    size_t n_names;
    const char *one_name[1];
    struct object_names *listed; // owns names, of a list
    struct objects_op *list_op;
    struct gs_buf query, label, trace, cause;
    struct owners_op *owners_op;
    struct owners *owners; // owns names, of their pods
    struct source_op *op;
    int64_t until_ns; // of the source's answer
};

// --- ends ---

static const char *keep(struct provider_call *c, const char *s)
{
    return s ? gs_arena_strndup(&c->arena, s, strlen(s)) : NULL;
}

static void call_free(struct provider_call *c)
{
    TAILQ_REMOVE(&c->p->calls, c, all);
    owners_cancel(c->owners_op);
    owners_free(c->owners);
    source_cancel(c->op);
    kube_selector_finish(&c->selector);
    gs_buf_finish(&c->query);
    gs_buf_finish(&c->label);
    gs_buf_finish(&c->trace);
    gs_buf_finish(&c->cause);
    objects_cancel(c->list_op);
    object_names_unref(c->listed);
    gs_arena_finish(&c->arena);
    free(c);
}

static void end(struct provider_call *c, struct provider_answer *a)
{
    a->resource = c->resource;
    a->unserved = c->unserved;
    a->cause = c->cause.data ? c->cause.data : "";
    a->trace = c->trace.data ? c->trace.data : "";
    a->until_ns = c->until_ns;
    if (c->listed && c->listed->until_ns < a->until_ns)
        a->until_ns = c->listed->until_ns;
    if (c->owners && c->owners->until_ns < a->until_ns)
        a->until_ns = c->owners->until_ns;
    c->done = true;
    c->cb(c->arg, a);
    if (!c->inside)
        call_free(c);
}

static GS_PRINTF(3, 4) void fail(struct provider_call *c, enum provider_outcome outcome,
                                 const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gs_buf_clear(&c->cause);
    gs_buf_vaddf(&c->cause, fmt, ap);
    va_end(ap);
    if (c->rq.trace)
        gs_buf_addf(&c->trace, "=> %s\n", c->cause.data);
    end(c, &(struct provider_answer){.outcome = outcome});
}

static GS_PRINTF(2, 3) void trace(struct provider_call *c, const char *fmt, ...)
{
    va_list ap;
    if (!c->rq.trace)
        return;
    va_start(ap, fmt);
    gs_buf_vaddf(&c->trace, fmt, ap);
    va_end(ap);
    gs_buf_add_char(&c->trace, '\n');
}

// --- values ---

static struct gs_slice label_of(const struct source_sample *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return GS_SLICE("");
}

// Samples by the value of the object's label; the last one of several counts, as in
// prometheus-adapter.
static struct gs_hmap *by_object(const struct provider_call *c, const struct source_result *r)
{
    struct gs_hmap *map = gs_hmap_new(NULL);
    for (size_t i = 0; i < r->n; i++)
        gs_hmap_put(map, label_of(&r->samples[i], gs_buf_slice(&c->label)),
                    (void *)(uintptr_t)&r->samples[i]);
    return map;
}

static void no_sample(struct provider_call *c, const struct source_result *r, bool unusable)
{
    enum provider_outcome outcome = PROVIDER_NO_SAMPLE;
    if (unusable)
        fail(c, outcome, "its value is not a number that can be served (NaN or infinite)");
    else if (r->n == 0)
        fail(c, outcome, "the query of the rule at %s gives no sample for it now: %s",
             c->rule->place, c->query.data);
    else
        fail(
            c, outcome,
            "the query of the rule at %s gives %zu samples, none with %s=\"%s\" (is the label lost "
            "by an aggregation?)",
            c->rule->place, r->n, c->label.data, c->rq.name);
}

// Of an owner's pods one value. False: none of them has one.
static bool fold_one(const struct provider_call *c, const struct gs_hmap *map,
                     const struct owner *o, struct provider_value *ret)
{
    size_t n = 0;
    *ret = (struct provider_value){.name = o->name};
    for (size_t i = 0; i < o->n_pods; i++) {
        const struct source_sample *s = gs_hmap_get_str(map, c->names[o->pods[i]]);
        if (!s || !isfinite(s->value))
            continue;
        ret->value = gpu_fold_values(c->fold, ret->value, s->value, n);
        ret->t_ms = n && ret->t_ms < s->t_ms ? ret->t_ms : s->t_ms;
        n++;
    }
    return n > 0;
}

static void fold(struct provider_call *c, const struct gs_hmap *map, const struct source_result *r)
{
    const struct owners *o = c->owners;
    struct provider_value *values = gs_alloc_array(o->n + 1, sizeof(*values));
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++)
        n += fold_one(c, map, &o->items[i], &values[n]);
    trace(c, "%zu samples of %zu pods, %zu of %zu %s have a value", r->n, c->n_names, n, o->n,
          c->resource->resource);
    if (n || gs_streq(c->rq.name, "*"))
        end(c, &(struct provider_answer){.outcome = PROVIDER_OK, .values = values, .n = n});
    else
        fail(c, PROVIDER_NO_SAMPLE, "none of its %zu pods has a sample now: %s", c->n_names,
             c->query.data);
    free(values);
}

static void match_names(struct provider_call *c, const struct source_result *r)
{
    struct gs_hmap *map = by_object(c, r);
    if (c->folds) {
        fold(c, map, r);
        gs_hmap_free(map);
        return;
    }
    struct provider_value *values = gs_alloc_array(c->n_names + 1, sizeof(*values));
    size_t n = 0;
    bool unusable = false;
    for (size_t i = 0; i < c->n_names; i++) {
        const struct source_sample *s = gs_hmap_get_str(map, c->names[i]);
        if (!s)
            continue;
        if (!isfinite(s->value)) {
            unusable = true;
            continue;
        }
        values[n++] = (struct provider_value){c->names[i], s->value, s->t_ms};
    }
    gs_hmap_free(map);
    trace(c, "%zu samples, %zu of %zu objects have a value", r->n, n, c->n_names);
    if (n || gs_streq(c->rq.name, "*"))
        end(c, &(struct provider_answer){.outcome = PROVIDER_OK, .values = values, .n = n});
    else
        no_sample(c, r, unusable);
    free(values);
}

static void on_vector(void *arg, struct source_result *r, struct gs_error *err)
{
    struct provider_call *c = arg;
    c->op = NULL;
    if (err) {
        enum gs_code code = gs_error_code(err);
        fail(c, PROVIDER_SOURCE_FAILED, "%s%s",
             code == GS_EUNAVAIL || code == GS_ETIMEOUT ? "the source does not answer: "
             : code == GS_EINVAL                        ? "the source calls the query wrong: "
                                                        : "",
             gs_error_message(err));
        gs_error_free(err);
        return;
    }
    c->until_ns = r->until_ns;
    bool wanted = r->type == SOURCE_VECTOR || (c->rq.external && r->type == SOURCE_SCALAR);
    if (!wanted)
        fail(c, PROVIDER_SOURCE_FAILED, "the query of the rule at %s gives no instant vector: %s",
             c->rule->place, c->query.data);
    else if (c->rq.external)
        end(c, &(struct provider_answer){.outcome = PROVIDER_OK, .result = r});
    else
        match_names(c, r);
}

// --- the query ---

static void ask(struct provider_call *c)
{
    const struct query_request q = {
        .mapper = c->p->o.mapper,
        .resources = &c->rule->resources,
        .template_ = c->rule->query,
        .series = c->series,
        .ns = c->rq.external && !c->rule->resources.namespaced ? NULL : c->rq.ns,
        .resource = c->rq.external ? NULL
                                   : mapper_find(c->p->o.mapper, gs_slice_of(c->asked->group),
                                                 gs_slice_of(c->asked->resource)),
        .names = c->names,
        .n_names = c->n_names,
        .selector = &c->selector,
    };
    struct gs_error *err = query_build(&q, &c->query, &c->label);
    if (err) {
        fail(c, c->rq.external ? PROVIDER_SOURCE_FAILED : PROVIDER_NO_METRIC, "rule at %s: %s",
             c->rule->place, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    if (c->rule->source)
        trace(c, "source %s", c->p->o.config->sources[c->rule->source - 1].name);
    trace(c, "query: %s", c->query.data);
    const struct provider_options *o = &c->p->o;
    c->op = source_query(source_pick(o->source, o->others, c->rule->source), c->query.data, 0,
                         on_vector, c);
}

// --- lists of objects ---

static void nothing_matches(struct provider_call *c)
{
    const char *selector = c->rq.label_selector;
    if (selector && *selector)
        fail(c, PROVIDER_NO_METRIC, "no %s%s%s match the selector %s", c->resource->resource,
             c->rq.ns ? " in namespace " : "", c->rq.ns ? c->rq.ns : "", selector);
    else
        fail(c, PROVIDER_NO_METRIC, "there are no %s%s%s", c->resource->resource,
             c->rq.ns ? " in namespace " : "", c->rq.ns ? c->rq.ns : "");
}

static void on_list(void *arg, struct object_names *names, struct gs_error *err)
{
    struct provider_call *c = arg;
    c->list_op = NULL;
    if (err) {
        fail(c, PROVIDER_LIST_FAILED, "listing %s: %s", c->asked->resource, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    c->listed = object_names_ref(names);
    c->names = (const char *const *)names->items;
    c->n_names = names->n;
    trace(c, "%zu %s match the selector", c->n_names, c->asked->resource);
    if (c->n_names)
        ask(c);
    else
        nothing_matches(c);
}

static void list_objects(struct provider_call *c, const char *selector)
{
    if (!c->p->objects) {
        fail(c, PROVIDER_LIST_FAILED, "there is no cluster to list %s of", c->asked->resource);
        return;
    }
    const struct kube_gvr gvr = {c->asked->group, c->asked->version, c->asked->resource};
    // Answered from inside, the call may be over.
    struct objects_op *op = objects_list(c->p->objects, gvr, c->rq.ns, selector, false, on_list, c);
    if (op)
        c->list_op = op;
}

// --- owners of pods ---

static const struct gpu_owner *owner_of(const struct mapped *r)
{
    const struct gpu_owner *o;
    for (size_t i = 0; (o = gpu_owner_nth(i)); i++)
        if (gs_streq(o->group, r->group) && gs_streq(o->resource, r->resource))
            return o;
    return NULL;
}

static void on_owners(void *arg, struct owners *o, int status, struct gs_error *err)
{
    struct provider_call *c = arg;
    bool all = gs_streq(c->rq.name, "*");
    c->owners_op = NULL;
    if (err) {
        fail(c, status == 404 ? PROVIDER_NO_SAMPLE : PROVIDER_LIST_FAILED, "%s",
             gs_error_message(err));
        gs_error_free(err);
        return;
    }
    c->owners = o;
    c->names = o->pods;
    c->n_names = o->n_pods;
    trace(c, "%zu %s with %zu pods", o->n, c->resource->resource, o->n_pods);
    if (o->n_pods)
        ask(c);
    else if (all && o->n)
        fail(c, PROVIDER_NO_METRIC, "none of the %zu %s has pods", o->n, c->resource->resource);
    else if (all)
        nothing_matches(c);
    else
        fail(c, PROVIDER_NO_SAMPLE, "%s", o->n ? "it has no pods" : "it selects no pods");
}

static void ask_owners(struct provider_call *c)
{
    if (!c->p->objects) {
        fail(c, PROVIDER_LIST_FAILED, "there is no cluster to ask for its pods");
        return;
    }
    bool all = gs_streq(c->rq.name, "*");
    const struct owners_request rq = {.kube = c->p->o.kube,
                                      .objects = c->p->objects,
                                      .kind = owner_of(c->resource),
                                      .version = c->resource->version,
                                      .ns = c->rq.ns,
                                      .name = all ? NULL : c->rq.name,
                                      .selector = all ? c->rq.label_selector : NULL};
    trace(c, "pods of %s %s, by selector and controller", c->resource->kind, c->rq.name);
    c->owners_op = owners_find(&rq, on_owners, c);
}

// --- the rule ---

// The mapper may learn something else before the call ends.
static struct mapped copy_mapped(struct provider_call *c, const struct mapped *m)
{
    return (struct mapped){keep(c, m->group),    keep(c, m->version), keep(c, m->resource),
                           keep(c, m->singular), keep(c, m->kind),    m->namespaced};
}

static bool take(struct provider_call *c, const struct registry_metric *m)
{
    if (!m)
        return false;
    c->rule = m->rule;
    c->series =
        gs_slice_make(gs_arena_strndup(&c->arena, m->series.data, m->series.len), m->series.len);
    return true;
}

// GPU metrics of an owner: those of its pods.
static bool find_owned(struct provider_call *c)
{
    const struct mapped *pods = mapper_find_text(c->p->o.mapper, "pods");
    if (!c->p->o.gpu || !owner_of(c->resource) || !pods || !c->rq.ns)
        return false;
    c->fold = GPU_AVERAGE;
    if (!take(c, registry_find(c->p->o.gpu, pods, true, c->rq.metric))) {
        struct gs_slice base = gpu_metric(c->rq.metric, &c->fold);
        GS_AUTO_FREE char *name = gs_slice_dup(base);
        if (!take(c, registry_find(c->p->o.gpu, pods, true, name)))
            return false;
    }
    c->pods_copy = copy_mapped(c, pods);
    c->asked = &c->pods_copy;
    c->folds = true;
    return true;
}

static bool find_rule(struct provider_call *c)
{
    const struct provider_options *o = &c->p->o;
    bool namespaced = c->rq.ns != NULL;
    return take(c, registry_find(o->registry, c->resource, namespaced, c->rq.metric)) ||
           (o->gpu && take(c, registry_find(o->gpu, c->resource, namespaced, c->rq.metric))) ||
           find_owned(c);
}

static void no_rule(struct provider_call *c)
{
    GS_AUTO_FREE char *others = registry_resources_of(c->p->o.registry, c->rq.metric);
    GS_AUTO_FREE char *gpu =
        !*others && c->p->o.gpu ? registry_resources_of(c->p->o.gpu, c->rq.metric) : gs_strdup("");
    size_t bad = 0;
    struct registry_rule_state s;
    for (size_t i = 0; i < registry_rules(c->p->o.registry); i++) {
        registry_rule(c->p->o.registry, i, &s);
        bad += s.error != NULL;
    }
    c->unserved = true;
    if (*others || *gpu)
        fail(c, PROVIDER_NO_METRIC, "it is served for %s only", *others ? others : gpu);
    else if (bad)
        fail(c, PROVIDER_NO_METRIC, "no rule serves it, and %zu rules do not get their series",
             bad);
    else
        fail(c, PROVIDER_NO_METRIC, "no rule serves it");
}

static void start_external(struct provider_call *c)
{
    if (!take(c, registry_find_external(c->p->o.registry, c->rq.metric))) {
        c->unserved = true;
        fail(c, PROVIDER_NO_METRIC, "no external rule serves it");
        return;
    }
    trace(c, "rule at %s, series " GS_SLICE_FMT, c->rule->place, GS_SLICE_ARG(c->series));
    ask(c);
}

static void start(struct provider_call *c)
{
    const struct mapped *m = mapper_find_text(c->p->o.mapper, c->rq.resource);
    if (!m) {
        c->unserved = true;
        fail(c, gs_streq(c->rq.name, "*") ? PROVIDER_LIST_FAILED : PROVIDER_NO_METRIC,
             "the cluster has no resource %s", c->rq.resource);
        return;
    }
    c->resource_copy = copy_mapped(c, m);
    c->resource = c->asked = &c->resource_copy;
    if (!find_rule(c)) {
        c->resource = c->asked = &c->resource_copy;
        no_rule(c);
        return;
    }
    trace(c, "rule at %s, series " GS_SLICE_FMT, c->rule->place, GS_SLICE_ARG(c->series));
    if (c->folds) {
        ask_owners(c);
    } else if (gs_streq(c->rq.name, "*")) {
        list_objects(c, c->rq.label_selector);
    } else {
        c->one_name[0] = c->rq.name;
        c->names = c->one_name;
        c->n_names = 1;
        ask(c);
    }
}

// --- life ---

struct provider *provider_new(const struct provider_options *o)
{
    struct provider *p = gs_alloc(sizeof(*p));
    p->o = *o;
    p->objects = o->kube ? objects_new(o->kube, o->list_age_ms) : NULL;
    TAILQ_INIT(&p->calls);
    return p;
}

void provider_free(struct provider *p)
{
    if (!p)
        return;
    struct provider_call *c;
    while ((c = TAILQ_FIRST(&p->calls)))
        call_free(c);
    objects_free(p->objects);
    free(p);
}

struct provider_call *provider_ask(struct provider *p, const struct provider_request *rq,
                                   provider_fn cb, void *arg)
{
    struct provider_call *c = gs_alloc(sizeof(*c));
    c->p = p;
    TAILQ_INSERT_TAIL(&p->calls, c, all);
    c->rq = (struct provider_request){
        .resource = keep(c, rq->resource),
        .ns = keep(c, rq->ns),
        .name = keep(c, rq->name),
        .metric = keep(c, rq->metric),
        .label_selector = keep(c, rq->label_selector),
        .external = rq->external,
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
        start(c);
    c->inside = false;
    if (!c->done)
        return c;
    call_free(c);
    return NULL;
}

void provider_cancel(struct provider_call *c)
{
    if (c)
        call_free(c);
}
