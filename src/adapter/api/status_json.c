// SPDX-License-Identifier: Apache-2.0
// The state of the adapter as JSON: APIs, sources, rules, metrics, errors.
#include "adapter/api/api_private.h"

#include "base/mem.h"

enum { MAX_METRICS = 1000, MAX_RULES = 500 };

static void set_time(json_t *out, const char *key, int64_t ms)
{
    if (ms > 0)
        json_object_set_new(out, key, json_real((double)ms / 1000));
}

static json_t *apis_json(const struct adapter_api *a)
{
    json_t *out = json_array();
    for (size_t i = 0; i < ADAPTER_API_N_SERVICES; i++) {
        const struct adapter_api_service *service = &adapter_api_services[i];
        const json_t *found = adapter_api_status_service(a->status, i);
        const struct adapter_api_delegate *previous = adapter_api_delegate(a, service->group);
        if (!adapter_api_has_group(a, service->group))
            continue;
        json_t *api = found ? json_deep_copy(found) : json_object();
        codec_json_set_str(api, "name", service->name);
        if (a->o.mounted)
            codec_json_set_str(api, "state", "mounted");
        else if (!found)
            codec_json_set_str(api, "state", "unknown");
        if (previous) {
            struct adapter_api_delegate_stats s = {0};
            adapter_api_delegate_stats(previous, &s);
            codec_json_set_str(api, "previousOwner", adapter_api_delegate_name(previous));
            json_object_set_new(api, "previousOwnerUp", json_boolean(s.up));
        }
        json_array_append_new(out, api);
    }
    return out;
}

static const char *source_label(const struct adapter_api *a, size_t i)
{
    const struct adapter_config *c = a->generation.config;
    return i && c && i <= c->n_sources ? c->sources[i - 1].name : "default";
}

static json_t *sources_json(const struct adapter_api *a)
{
    const struct adapter_api_generation *g = &a->generation;
    json_t *out = json_array();
    for (size_t i = 0; g->source && i <= (g->config ? g->config->n_sources : 0); i++) {
        const struct source *source = source_pick(g->source, g->extra_sources, i);
        struct source_stats s = {0};
        source_stats(source, &s);
        json_t *item = json_object();
        codec_json_set_str(item, "name", source_label(a, i));
        codec_json_set_str(item, "url", source_name(source));
        codec_json_set_int(item, "queries", (int64_t)s.queries);
        codec_json_set_int(item, "failures", (int64_t)s.failures);
        codec_json_set_int(item, "shared", (int64_t)s.shared);
        json_object_set_new(item, "seconds", json_real(s.seconds));
        set_time(item, "lastAnswer", s.last_ok_ms);
        codec_json_set_str(item, "error", s.last_error);
        json_array_append_new(out, item);
    }
    return out;
}

// --- rules and metrics ---

struct rule_list {
    struct provider_registry_rule_state *items;
    size_t n;
};

static void read_rules(const struct provider_registry *r, struct rule_list *ret)
{
    ret->n = r ? provider_registry_rules(r) : 0;
    ret->items = gs_alloc_array(ret->n + 1, sizeof(*ret->items));
    for (size_t i = 0; i < ret->n; i++)
        provider_registry_rule(r, i, &ret->items[i]);
}

static const struct provider_registry_rule_state *find_rule(const struct rule_list *rules,
                                                            const struct adapter_config_rule *rule)
{
    for (size_t i = 0; i < rules->n; i++)
        if (rules->items[i].rule == rule)
            return &rules->items[i];
    return NULL;
}

static void add_rules(const struct adapter_api *a, const struct rule_list *rules, json_t *out)
{
    for (size_t i = 0; i < rules->n && json_array_size(out) < MAX_RULES; i++) {
        const struct provider_registry_rule_state *s = &rules->items[i];
        json_t *item = json_object();
        codec_json_set_str(item, "rule", s->rule->place);
        codec_json_set_str(item, "api", s->rule->external ? "external" : "custom");
        codec_json_set_str(item, "seriesQuery", s->rule->series_query);
        codec_json_set_str(item, "source", source_label(a, s->rule->source));
        codec_json_set_int(item, "metrics", (int64_t)s->metrics);
        if (s->shapes)
            codec_json_set_int(item, "series", (int64_t)s->shapes->series);
        set_time(item, "lastList", s->last_ok_ms);
        codec_json_set_str(item, "error", s->error);
        json_array_append_new(out, item);
    }
}

struct metric_list {
    json_t *out;
    size_t n;        // also those that are left out
    json_t *current; // borrowed
    const struct provider_registry_metric *last;
};

static void set_slice(json_t *out, const char *key, struct gs_slice text)
{
    GS_AUTO_FREE char *copy = gs_slice_dup(text);
    codec_json_set_str(out, key, copy);
}

// The series that have the name of m, too, and are not served.
static void add_shadowed(const struct adapter_api *a, const struct provider_registry_metric *m,
                         json_t *out)
{
    const struct provider_registry *pod_series = a->generation.pod_series;
    const struct gs_slice both[] = {
        m->shadowed, pod_series ? provider_registry_shadowed(pod_series, m) : GS_SLICE("")};
    for (size_t i = 0; i < GS_ARRAY_LEN(both); i++) {
        if (!both[i].len)
            continue;
        GS_AUTO_FREE char *text = gs_slice_dup(both[i]);
        json_t *list = json_object_get(out, "shadows");
        if (!list)
            json_object_set_new(out, "shadows", list = json_array());
        // Metrics of several resources are one item.
        const char *last = json_string_value(json_array_get(list, json_array_size(list) - 1));
        if (!gs_streq(last, text))
            json_array_append_new(list, json_string(text));
    }
}

// A metric of several resources is one item.
static void add_metric(const struct adapter_api *a, const struct rule_list *rules,
                       const struct provider_registry_metric *m, struct metric_list *list)
{
    const struct provider_registry_rule_state *rule = find_rule(rules, m->rule);
    if (!list->last || list->last->rule != m->rule || !gs_slice_eq(list->last->name, m->name)) {
        list->current = NULL;
        list->last = m;
        if (++list->n > MAX_METRICS)
            return;
        list->current = json_object();
        codec_json_set_str(list->current, "api", m->rule->external ? "external" : "custom");
        set_slice(list->current, "name", m->name);
        json_object_set_new(list->current, "resources", json_array());
        codec_json_set_str(list->current, "rule", m->rule->place);
        set_slice(list->current, "series", m->series);
        set_time(list->current, "newest",
                 adapter_api_status_newest(a->status, m->rule->source, m->series));
        if (rule)
            set_time(list->current, "lastList", rule->last_ok_ms);
        json_array_append_new(list->out, list->current);
    }
    if (!list->current || !m->resource)
        return;
    add_shadowed(a, m, list->current);
    json_array_append_new(json_object_get(list->current, "resources"),
                          codec_json_strf("%s%s%s", m->resource, *m->group ? "." : "", m->group));
}

static void add_registry_metrics(const struct adapter_api *a, const struct provider_registry *r,
                                 const struct rule_list *rules, struct metric_list *list)
{
    const struct provider_registry_metric *m;
    for (int external = 0; external < 2; external++) {
        list->last = NULL;
        for (size_t i = 0; r && (m = provider_registry_nth(r, external, i)); i++)
            add_metric(a, rules, m, list);
    }
}

// All are served for the same resources: pods, namespaces and workloads.
static void add_pod_series(const struct adapter_api *a, const struct rule_list *rules,
                           struct metric_list *list)
{
    const struct adapter_api_generation *g = &a->generation;
    const struct provider_registry_metric *m;
    list->last = NULL;
    for (size_t i = 0; g->pod_series && (m = provider_registry_nth(g->pod_series, false, i)); i++) {
        const struct provider_rest_mapping *r =
            provider_rest_mapper_find(g->mapper, gs_slice_of(m->group), gs_slice_of(m->resource));
        GS_AUTO_FREE char *name = gs_slice_dup(m->name);
        if (gs_streq(m->resource, "pods") &&
            !(r && provider_registry_find(g->registry, r, m->namespaced, name)))
            add_metric(a, rules, m, list);
    }
}

static void add_resource_metric(const struct adapter_api *a, const char *name,
                                const struct adapter_config_resource_rule *rule,
                                struct metric_list *list)
{
    const struct adapter_config_resource_rules *all = a->generation.resource;
    list->n++;
    json_array_append_new(list->out,
                          json_pack("{s:s, s:s, s:[s,s], s:s, s:s, s:s}", "api", "resource", "name",
                                    name, "resources", "nodes", "pods", "rule", "resourceRules",
                                    "series", rule->container_text ? rule->container_text : "",
                                    "source", source_label(a, all->source)));
}

// --- the document ---

static json_t *requests_json(const struct adapter_api *a)
{
    struct adapter_api_auth_stats s = {0};
    adapter_api_auth_stats(a->o.auth, &s);
    uint64_t failed = s.token_review_failures + s.access_review_failures;
    return json_pack("{s:I, s:I, s:I, s:I}", "answered", (json_int_t)a->counts.answered,
                     "unauthenticated", (json_int_t)s.unauthenticated, "forbidden",
                     (json_int_t)s.forbidden, "failedReviews", (json_int_t)failed);
}

json_t *adapter_api_status_json(const struct adapter_api *a)
{
    const struct adapter_api_generation *g = &a->generation;
    json_t *out = json_object(), *rules = json_array();
    struct metric_list metrics = {.out = json_array()};
    struct rule_list own, gpu, pod_series;
    const char *wrong = a->o.not_ready ? a->o.not_ready(a->o.arg) : NULL;
    read_rules(g->registry, &own);
    read_rules(g->gpu, &gpu);
    read_rules(g->pod_series, &pod_series);
    if (g->resource) {
        add_resource_metric(a, "cpu", &g->resource->cpu, &metrics);
        add_resource_metric(a, "memory", &g->resource->memory, &metrics);
    }
    add_registry_metrics(a, g->registry, &own, &metrics);
    add_registry_metrics(a, g->gpu, &gpu, &metrics);
    add_pod_series(a, &pod_series, &metrics);
    add_rules(a, &own, rules);
    add_rules(a, &gpu, rules);
    add_rules(a, &pod_series, rules);
    codec_json_set_str(out, "version", GPUSCALE_VERSION);
    codec_json_set_str(out, "notReady", wrong ? wrong : a->stopping ? "the program ends" : NULL);
    json_object_set_new(out, "apis", apis_json(a));
    json_object_set_new(out, "sources", sources_json(a));
    json_object_set_new(out, "rules", rules);
    codec_json_set_int(out, "ruleCount", (int64_t)(own.n + gpu.n + pod_series.n));
    if (g->pod_series)
        codec_json_set_int(out, "podSeriesLeftOut",
                           (int64_t)provider_registry_left_out(g->pod_series));
    json_object_set_new(out, "metrics", metrics.out);
    codec_json_set_int(out, "metricCount", (int64_t)metrics.n);
    json_object_set_new(out, "requests", requests_json(a));
    if (a->o.more_status)
        a->o.more_status(a->o.arg, out);
    free(own.items);
    free(gpu.items);
    free(pod_series.items);
    return out;
}
