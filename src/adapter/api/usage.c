// SPDX-License-Identifier: Apache-2.0
// metrics.k8s.io: CPU and memory usage of pods and nodes, for `kubectl top` and HPAs with Resource
// metrics. The API server lists the objects; two queries for each namespace return their usage.
#include "adapter/api/api_private.h"

#include "adapter/provider/provider.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "kube/status.h"

#include <math.h>

enum { CPU, MEMORY, MEASURES };
enum { MAX_OBJECTS = 50000, MAX_CONTAINERS = 256 };

// The objects of one namespace (nodes: all nodes) and the results of their queries.
struct part {
    struct adapter_api_usage_call *u;
    const char *ns; // NULL: nodes
    size_t from, n; // range in u->objects
    struct usage_query {
        struct part *part;
        struct source_op *op;
        struct source_result *result;
        struct gs_buf label;
    } queries[MEASURES];
};

struct adapter_api_usage_call {
    struct adapter_api_call *c;
    struct adapter_api_generation generation; // at the start of the request
    struct kube_request *rq;
    bool pods, one;
    json_t *list; // from the API server
    const json_t **objects;
    size_t n;
    struct part *parts;
    size_t n_parts, waiting;
};

void adapter_api_usage_cancel(struct adapter_api_usage_call *u)
{
    if (!u)
        return;
    kube_request_cancel(u->rq);
    for (size_t i = 0; i < u->n_parts; i++)
        for (int k = 0; k < MEASURES; k++) {
            source_cancel(u->parts[i].queries[k].op);
            source_result_unref(u->parts[i].queries[k].result);
            gs_buf_finish(&u->parts[i].queries[k].label);
        }
    json_decref(u->list);
    free(u->objects);
    free(u->parts);
    free(u);
}

// --- writing ---

static void add_cpu(struct gs_buf *out, double v)
{
    char text[KUBE_QUANTITY_SIZE];
    int64_t milli = 0;
    (void)kube_quantity_from_double(v > 0 ? v : 0, &milli);
    gs_buf_addf(out, "\"cpu\":\"%s\"", kube_quantity_format_milli(milli, text));
}

static void add_memory(struct gs_buf *out, double v)
{
    char text[KUBE_QUANTITY_SIZE];
    int64_t milli = 0;
    (void)kube_quantity_from_double(v > 0 ? v : 0, &milli);
    bool whole = milli % 1000 == 0 && milli >= 1024000;
    gs_buf_addf(out, "\"memory\":\"%s\"",
                whole ? kube_quantity_format_bytes(milli / 1000, text)
                      : kube_quantity_format_milli(milli, text));
}

struct container {
    struct gs_slice name;
    double v[MEASURES];
    bool has[MEASURES];
};

struct usage {
    struct container containers[MAX_CONTAINERS]; // nodes: the first one
    size_t n;
    int64_t t_ms; // of the earliest sample
    bool has[MEASURES];
};

static void add_sample(struct usage *u, int measure, struct gs_slice name,
                       const struct source_sample *s)
{
    size_t i = 0;
    double milli;
    if (!isfinite(s->value) || fabs(milli = s->value * 1000) >= 0x1p63)
        return;
    while (i < u->n && !gs_slice_eq(u->containers[i].name, name))
        i++;
    if (i == MAX_CONTAINERS || (i < u->n && u->containers[i].has[measure]))
        return;
    if (i == u->n)
        u->containers[u->n++] = (struct container){.name = name};
    u->containers[i].v[measure] = milli / 1000;
    u->containers[i].has[measure] = true;
    u->has[measure] = true;
    u->t_ms = u->t_ms && u->t_ms < s->t_ms ? u->t_ms : s->t_ms;
}

static const struct adapter_config_resource_rule *rule_of(const struct adapter_api_usage_call *u,
                                                          int measure)
{
    const struct adapter_config_resource_rules *r = u->generation.resource;
    return measure == CPU ? &r->cpu : &r->memory;
}

static void collect_usage(const struct part *p, const char *name, struct usage *ret)
{
    for (int k = 0; k < MEASURES; k++) {
        const struct usage_query *q = &p->queries[k];
        const char *label = rule_of(p->u, k)->container_label;
        for (size_t i = 0; q->result && i < q->result->n; i++) {
            const struct source_sample *s = &q->result->samples[i];
            if (gs_slice_eq_str(source_sample_label(s, gs_buf_slice(&q->label)), name))
                add_sample(ret, k,
                           p->u->pods ? source_sample_label(s, gs_slice_of(label)) : GS_SLICE(""),
                           s);
        }
    }
}

static void add_usage(const struct container *c, struct gs_buf *out)
{
    gs_buf_add_str(out, "\"usage\":{");
    add_cpu(out, c->v[CPU]);
    gs_buf_add_char(out, ',');
    add_memory(out, c->v[MEMORY]);
    gs_buf_add_char(out, '}');
}

static void add_metadata(const json_t *obj, struct gs_buf *out)
{
    char now[GS_RFC3339_SIZE];
    CODEC_AUTO_JSON json_t *meta = json_object();
    codec_json_set_str(meta, "name", kube_name(obj));
    codec_json_set_str(meta, "namespace", kube_namespace(obj));
    codec_json_set_str(meta, "creationTimestamp", gs_format_rfc3339(gs_unix_ms(), now));
    json_t *labels = codec_json_get(obj, "metadata", "labels", NULL);
    if (json_object_size(labels))
        json_object_set(meta, "labels", labels);
    gs_buf_add_str(out, "\"metadata\":");
    codec_json_dump(meta, out);
}

// Leaves out containers without CPU or memory data, because missing data does not mean zero.
static void add_containers(const struct usage *u, struct gs_buf *out)
{
    size_t n = 0;
    gs_buf_add_str(out, "\"containers\":[");
    for (size_t i = 0; i < u->n; i++) {
        const struct container *c = &u->containers[i];
        if (!c->has[CPU] || !c->has[MEMORY])
            continue;
        gs_buf_add_str(out, n++ ? ",{\"name\":" : "{\"name\":");
        adapter_api_add_json_string(out, c->name);
        gs_buf_add_char(out, ',');
        add_usage(c, out);
        gs_buf_add_char(out, '}');
    }
    gs_buf_add_char(out, ']');
}

// False: its CPU or its memory is unknown.
static bool add_usage_object(const struct part *p, const json_t *obj, const char *head,
                             struct gs_buf *out)
{
    GS_AUTO_FREE struct usage *u = gs_alloc(sizeof(*u));
    char text[GS_RFC3339_SIZE];
    collect_usage(p, kube_name(obj), u);
    bool both = false;
    for (size_t i = 0; i < u->n; i++)
        both = both || (u->containers[i].has[CPU] && u->containers[i].has[MEMORY]);
    if (!both)
        return false;
    gs_buf_addf(out, "%s", head);
    add_metadata(obj, out);
    gs_buf_addf(out, ",\"timestamp\":\"%s\"", gs_format_rfc3339(u->t_ms, text));
    gs_buf_addf(out, ",\"window\":\"%s\",",
                gs_format_duration(p->u->generation.resource->window_ns, text));
    if (p->u->pods)
        add_containers(u, out);
    else
        add_usage(&u->containers[0], out);
    gs_buf_add_char(out, '}');
    return true;
}

static void not_found(struct adapter_api_usage_call *u, const char *resource)
{
    const struct adapter_api_path *p = &u->c->path;
    GS_AUTO_FREE char *name = p->object_ns && !gs_streq(resource, "pods")
                                  ? gs_format("%s/%s", p->object_ns, p->object_name)
                                  : gs_strdup(p->object_name);
    kube_reply_status(u->c->x, kube_status_not_found(resource, name));
}

// Converts the body to the requested representation. NULL: plain JSON, no conversion.
static const char *wrong_form(const struct adapter_api_usage_call *u, enum adapter_api_form form)
{
    if (form == ADAPTER_API_PARTIAL && !u->one)
        return "you requested PartialObjectMetadata, but the requested object is a list";
    if (form == ADAPTER_API_PARTIAL_LIST && u->one)
        return "you requested PartialObjectMetadataList, but the requested object is not a list";
    return NULL;
}

static bool is_include(const char *text)
{
    return !text || !*text || gs_streq(text, "Metadata") || gs_streq(text, "Object") ||
           gs_streq(text, "None");
}

static void reply_body(struct adapter_api_usage_call *u, struct gs_slice body)
{
    struct http_exchange *x = u->c->x;
    const char *version = NULL, *include = http_query(x, "includeObject");
    enum adapter_api_form form = adapter_api_form_of(x, &u->c->path, &version);
    const char *wrong = wrong_form(u, form);
    CODEC_AUTO_JSON json_t *value = NULL, *other = NULL;
    if (wrong) {
        kube_reply_failure(x, 406, "NotAcceptable", "%s", wrong);
        return;
    }
    if (form == ADAPTER_API_TABLE && !is_include(include)) {
        kube_reply_failure(x, 400, "BadRequest",
                           "Unable to convert to Table as requested: includeObject: Invalid value: "
                           "\"%s\": must be 'Metadata', 'Object', 'None', or empty",
                           include);
        return;
    }
    gs_error_free(form != ADAPTER_API_PLAIN ? codec_json_parse(body, false, &value) : NULL);
    if (!value) {
        kube_reply_compact(x, 200, body);
        return;
    }
    other = form == ADAPTER_API_TABLE ? adapter_api_usage_table(value, version, include)
                                      : adapter_api_usage_partial(value, version);
    kube_reply_json(x, 200, other);
}

static void reply(struct adapter_api_usage_call *u)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *kind = u->pods ? "PodMetrics" : "NodeMetrics";
    size_t n = 0;
    GS_AUTO_FREE char *head =
        u->one ? gs_format("{\"kind\":\"%s\",\"apiVersion\":\"" ADAPTER_API_RESOURCE "/v1beta1\",",
                           kind)
               : gs_strdup("{");
    if (!u->one)
        gs_buf_addf(&out,
                    "{\"kind\":\"%sList\",\"apiVersion\":\"" ADAPTER_API_RESOURCE
                    "/v1beta1\",\"metadata\":{},\"items\":[",
                    kind);
    for (size_t i = 0; i < u->n_parts; i++)
        for (size_t k = 0; k < u->parts[i].n; k++) {
            size_t before = out.len;
            if (n)
                gs_buf_add_char(&out, ',');
            if (add_usage_object(&u->parts[i], u->objects[u->parts[i].from + k], head, &out))
                n++;
            else
                out.len = before;
        }
    if (u->one && !n) {
        not_found(u, u->pods ? "podmetrics.metrics.k8s.io" : "nodemetrics.metrics.k8s.io");
        return;
    }
    gs_buf_add_str(&out, u->one ? "\n" : "]}\n");
    reply_body(u, gs_buf_slice(&out));
}

// --- queries ---

static void answered(struct adapter_api_usage_call *u)
{
    if (--u->waiting)
        return;
    struct adapter_api_call *c = u->c;
    reply(u);
    adapter_api_call_end(c);
}

static void on_usage_result(void *arg, struct source_result *r, struct gs_error *err)
{
    struct usage_query *q = arg;
    q->op = NULL;
    if (err)
        gs_warn("adapter", "resource metrics: %s", gs_error_message(err));
    else if (r->type == SOURCE_VECTOR)
        q->result = source_result_ref(r);
    gs_error_free(err);
    answered(q->part->u);
}

static void send_usage_query(struct part *p, int measure)
{
    struct adapter_api_usage_call *u = p->u;
    const struct adapter_api_generation *g = &u->generation;
    const struct adapter_config_resource_rule *rule = rule_of(u, measure);
    const struct template_program *t = u->pods ? rule->container_query : rule->node_query;
    const char **names = gs_alloc_array(p->n + 1, sizeof(*names));
    for (size_t i = 0; i < p->n; i++)
        names[i] = kube_name(u->objects[p->from + i]);
    GS_AUTO_BUF struct gs_buf query = {0};
    const struct provider_query_request q = {
        .mapper = g->mapper,
        .resources = &rule->resources,
        .template_ = t,
        .series = GS_SLICE(""),
        .ns = p->ns,
        .resource = provider_rest_mapper_find_text(g->mapper, u->pods ? "pods" : "nodes"),
        .names = names,
        .n_names = p->n,
        .extra_group_by = u->pods ? rule->container_label : NULL,
    };
    struct gs_error *err = t ? provider_query_build(&q, &query, &p->queries[measure].label)
                             : gs_error_new(GS_EINVAL, "a rule of resourceRules has no query");
    free(names);
    p->queries[measure].part = p;
    if (!err) {
        p->queries[measure].op =
            source_query(source_pick(g->source, g->extra_sources, g->resource->source), query.data,
                         0, on_usage_result, &p->queries[measure]);
        return;
    }
    gs_warn("adapter", "resource metrics: %s", gs_error_message(err));
    gs_error_free(err);
    u->waiting--;
}

static int compare_objects(const void *a, const void *b)
{
    const json_t *x = *(const json_t *const *)a, *y = *(const json_t *const *)b;
    const char *x_ns = kube_namespace(x), *y_ns = kube_namespace(y);
    int c = strcmp(x_ns ? x_ns : "", y_ns ? y_ns : "");
    return c ? c : strcmp(kube_name(x), kube_name(y));
}

static void make_parts(struct adapter_api_usage_call *u)
{
    u->parts = gs_alloc_array(u->n + 1, sizeof(*u->parts));
    for (size_t i = 0; i < u->n; i++) {
        const char *ns = u->pods ? kube_namespace(u->objects[i]) : NULL;
        struct part *last = u->n_parts ? &u->parts[u->n_parts - 1] : NULL;
        if (last && gs_streq(last->ns, ns)) {
            last->n++;
            continue;
        }
        u->parts[u->n_parts++] = (struct part){.u = u, .ns = ns, .from = i, .n = 1};
    }
}

static void on_objects_listed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct adapter_api_usage_call *u = arg;
    struct adapter_api_call *c = u->c;
    size_t i;
    json_t *item;
    u->rq = NULL;
    if (err) {
        kube_reply_failure(c->x, 500, "InternalError",
                           "Internal error occurred: unable to list matching resources: %s",
                           gs_error_message(err));
        gs_error_free(err);
        adapter_api_call_end(c);
        return;
    }
    u->list = json_incref(body);
    const json_t *items = json_object_get(body, "items");
    u->objects = gs_alloc_array(json_array_size(items) + 1, sizeof(*u->objects));
    json_array_foreach (items, i, item)
        if (kube_name(item) && u->n < MAX_OBJECTS)
            u->objects[u->n++] = item;
    if (u->one && !u->n) {
        not_found(u, u->pods ? "pods" : "node");
        adapter_api_call_end(c);
        return;
    }
    if (u->n > 1)
        qsort(u->objects, u->n, sizeof(*u->objects), compare_objects);
    make_parts(u);
    u->waiting = u->n_parts * MEASURES + 1;
    for (i = 0; i < u->n_parts; i++)
        for (int k = 0; k < MEASURES; k++)
            send_usage_query(&u->parts[i], k);
    answered(u);
}

static void add_parameter(struct gs_buf *query, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    gs_buf_addf(query, "%s%s=", query->len ? "&" : "", name);
    http_encode(gs_slice_of(value), query);
}

void adapter_api_usage(struct adapter_api_call *c)
{
    const struct adapter_api_path *p = &c->path;
    if (!c->a->o.kube) {
        kube_reply_failure(
            c->x, 500, "InternalError",
            "Internal error occurred: objects cannot be listed: no cluster is configured");
        adapter_api_call_end(c);
        return;
    }
    struct adapter_api_usage_call *u = gs_alloc(sizeof(*u));
    u->c = c;
    u->generation = c->a->generation;
    c->usage = u;
    u->pods = gs_streq(p->object_resource, "pods");
    u->one = p->object_name != NULL;
    const char *fields = http_query(c->x, "fieldSelector");
    GS_AUTO_BUF struct gs_buf query = {0}, selector = {0};
    if (u->pods)
        gs_buf_add_str(&selector, "status.phase=Running");
    if (u->one)
        gs_buf_addf(&selector, "%smetadata.name=%s", selector.len ? "," : "", p->object_name);
    else if (fields && *fields)
        gs_buf_addf(&selector, "%s%s", selector.len ? "," : "", fields);
    add_parameter(&query, "fieldSelector", selector.data);
    if (!u->one)
        add_parameter(&query, "labelSelector", http_query(c->x, "labelSelector"));
    u->rq = kube_list(c->a->o.kube, u->pods ? KUBE_PODS : KUBE_NODES, p->object_ns,
                      query.len ? query.data : NULL, on_objects_listed, u);
}
