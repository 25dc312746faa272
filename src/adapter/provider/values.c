// SPDX-License-Identifier: Apache-2.0
// Converts samples to values of objects, and reports why there are none.
#include "adapter/provider/provider_private.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

// Maps the value of the object's label to its sample. The last of several samples wins, as in
// prometheus-adapter.
static struct gs_hmap *by_object(const struct provider_call *c, const struct source_result *r)
{
    struct gs_hmap *map = gs_hmap_new(NULL);
    for (size_t i = 0; i < r->n; i++)
        if (!c->timed || !provider_times_is_mark(&r->samples[i]))
            gs_hmap_put(map, source_sample_label(&r->samples[i], gs_buf_slice(&c->label)),
                        (void *)(uintptr_t)&r->samples[i]);
    return map;
}

// --- no data ---

enum { MAX_DIAGNOSES = 16 };

static void on_missing(void *arg, const char *cause)
{
    struct provider_call *c = arg;
    c->no_data = NULL;
    c->p->diagnoses--;
    if (cause)
        provider_fail(c, PROVIDER_NO_SAMPLE, "%s", cause);
    else
        provider_fail(c, PROVIDER_NO_SAMPLE, "the query of the rule at %s returns no sample for it",
                      c->rule->place);
}

// Starts the search for the reason, unless too many searches are in progress.
static void diagnose(struct provider_call *c)
{
    const struct provider_rest_mapping *m = c->resource;
    const struct provider_no_data_request rq = {.kube = c->p->o.kube,
                                                .object = {m->group, m->version, m->resource},
                                                .ns = c->rq.ns,
                                                .name = c->rq.name,
                                                .source = provider_source(c),
                                                .series = c->series,
                                                .matchers = gs_buf_slice(&c->matchers)};
    c->p->diagnoses++;
    if (c->p->diagnoses > MAX_DIAGNOSES)
        on_missing(c, NULL);
    else
        c->no_data = provider_no_data_find(&rq, on_missing, c);
}

enum { MAX_NAMED = 3 };

// The objects that have samples, as "services/web, services/web2 and 4 more". NULL: none, because
// the query does not keep the label. Caller frees.
static char *objects_of(const struct provider_call *c, const struct gs_hmap *map)
{
    struct gs_buf out = {0};
    size_t pos = 0, n = 0, all = gs_hmap_len(map);
    GS_AUTO_FREE char **names = gs_alloc_array(all + 1, sizeof(*names));
    struct gs_slice key;
    void *value;
    while (n < all && gs_hmap_next(map, &pos, &key, &value))
        if (key.len)
            names[n++] = gs_slice_dup(key);
    if (n)
        qsort(names, n, sizeof(*names), gs_compare_texts);
    for (size_t i = 0; i < n; i++) {
        if (i < MAX_NAMED)
            gs_buf_addf(&out, "%s%s/%s", i ? ", " : "", c->resource->resource, names[i]);
        free(names[i]);
    }
    if (n > MAX_NAMED)
        gs_buf_addf(&out, " and %zu more", n - MAX_NAMED);
    return n ? gs_buf_take(&out) : NULL;
}

static void no_sample(struct provider_call *c, const struct gs_hmap *map, bool unusable)
{
    size_t n = gs_hmap_len(map);
    GS_AUTO_FREE char *others = n ? objects_of(c, map) : NULL;
    if (unusable)
        provider_fail(c, PROVIDER_NO_SAMPLE, "its value is NaN or infinite");
    else if (others)
        provider_fail(c, PROVIDER_NO_SAMPLE,
                      "the query of the rule at %s returns no sample with %s=\"%s\", but samples "
                      "for %s",
                      c->rule->place, c->label.data, c->rq.name, others);
    else if (n)
        provider_fail(
            c, PROVIDER_NO_SAMPLE,
            "the query of the rule at %s returns %zu samples, none with %s=\"%s\" (is the "
            "label lost by an aggregation?)",
            c->rule->place, n, c->label.data, c->rq.name);
    else
        diagnose(c);
}

// --- values ---

// Aggregates the values of a workload's pods. False: no pod has a value.
static bool aggregate_workload(const struct provider_call *c, const struct gs_hmap *map,
                               const struct gs_hmap *times, const struct provider_workload *o,
                               struct provider_value *ret)
{
    size_t n = 0;
    *ret = (struct provider_value){.name = o->name};
    for (size_t i = 0; i < o->n_pods; i++) {
        const struct source_sample *s = gs_hmap_get_str(map, c->names[o->pods[i]]);
        if (!s || !isfinite(s->value))
            continue;
        int64_t t_ms = provider_times_look_up(times, gs_slice_of(c->names[o->pods[i]]), s->t_ms);
        ret->value = provider_aggregate_values(c->aggregate, ret->value, s->value, n);
        ret->t_ms = n && ret->t_ms < t_ms ? ret->t_ms : t_ms;
        n++;
    }
    return n > 0;
}

static void aggregate_workloads(struct provider_call *c, const struct gs_hmap *map,
                                const struct gs_hmap *times)
{
    const struct provider_workloads *o = c->workloads;
    struct provider_value *values = gs_alloc_array(o->n + 1, sizeof(*values));
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++)
        n += aggregate_workload(c, map, times, &o->items[i], &values[n]);
    provider_trace(c, "%zu samples of %zu pods, %zu of %zu %s have a value", gs_hmap_len(map),
                   c->n_names, n, o->n, c->resource->resource);
    if (n || gs_streq(c->rq.name, "*"))
        provider_end(c,
                     &(struct provider_answer){.outcome = PROVIDER_OK, .values = values, .n = n});
    else
        provider_fail(c, PROVIDER_NO_SAMPLE, "none of its %zu pods has a sample now", c->n_names);
    free(values);
}

static void match_names(struct provider_call *c, const struct gs_hmap *map,
                        const struct gs_hmap *times)
{
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
        values[n++] = (struct provider_value){
            c->names[i], s->value,
            provider_times_look_up(times, gs_slice_of(c->names[i]), s->t_ms)};
    }
    provider_trace(c, "%zu samples, %zu of %zu objects have a value", gs_hmap_len(map), n,
                   c->n_names);
    if (n || gs_streq(c->rq.name, "*"))
        provider_end(c,
                     &(struct provider_answer){.outcome = PROVIDER_OK, .values = values, .n = n});
    else
        no_sample(c, map, unusable);
    free(values);
}

static void take_external(struct provider_call *c, const struct source_result *r,
                          const struct gs_hmap *times)
{
    struct source_sample *samples = gs_alloc_array(r->n + 1, sizeof(*samples));
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (c->timed && provider_times_is_mark(&r->samples[i]))
            continue;
        samples[n] = r->samples[i];
        samples[n].t_ms = provider_times_look_up(times, GS_SLICE(""), samples[n].t_ms);
        n++;
    }
    provider_end(c, &(struct provider_answer){.outcome = PROVIDER_OK,
                                              .samples = samples,
                                              .n_samples = n,
                                              .scalar = r->type == SOURCE_SCALAR});
    free(samples);
}

void provider_take_result(struct provider_call *c, const struct source_result *r)
{
    static const struct source_result none;
    // provider_end() may free the call.
    bool external = c->rq.external, aggregates = c->aggregates;
    struct gs_hmap *times = provider_times_index(c->timed ? r : &none, gs_buf_slice(&c->label));
    struct gs_hmap *map = external ? NULL : by_object(c, r);
    if (external)
        take_external(c, r, times);
    else if (aggregates)
        aggregate_workloads(c, map, times);
    else
        match_names(c, map, times);
    gs_hmap_free(map);
    gs_hmap_free(times);
}
