// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents of the three APIs, for the aggregator and `kubectl explain`: version 3 has a
// document for each group version, version 2 has one in total. Common Kubernetes types are inlined,
// so that the aggregator does not have to merge them.
#include "adapter/api/api_private.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <stdio.h>

// --- types ---

#define STRING(text)   "{\"type\":\"string\",\"description\":\"" text "\"}"
#define TIME(text)     "{\"type\":\"string\",\"format\":\"date-time\",\"description\":\"" text "\"}"
#define SECONDS(text)  "{\"type\":\"integer\",\"format\":\"int64\",\"description\":\"" text "\"}"
#define QUANTITY(text) "{\"type\":\"string\",\"description\":\"A quantity: " text "\"}"
#define TYPE_META                                                                                  \
    "\"apiVersion\":" STRING("Version of this representation.") ",\"kind\":" STRING("Its kind.")
#define META(text) "\"metadata\":{\"type\":\"object\",\"description\":\"" text "\"}"
#define OBJECT                                                                                     \
    "\"describedObject\":{\"type\":\"object\",\"description\":\"The object that the value is "     \
    "of.\",\"properties\":{\"kind\":" STRING("Kind.") ",\"namespace\":" STRING(                    \
        "Namespace.") ",\"name\":" STRING("Name.") ",\"apiVersion\":" STRING("Version.") "}}"
#define SELECTOR                                                                                   \
    "\"selector\":{\"type\":\"object\",\"description\":\"Labels that the series were picked "      \
    "by.\","                                                                                       \
    "\"properties\":{\"matchLabels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"     \
    "\"string\"}},\"matchExpressions\":{\"type\":\"array\",\"items\":{\"type\":\"object\","        \
    "\"required\":[\"key\",\"operator\"],\"properties\":{\"key\":{\"type\":\"string\"},"           \
    "\"operator\":{\"type\":\"string\"},\"values\":{\"type\":\"array\",\"items\":{\"type\":"       \
    "\"string\"}}}}}}}"
#define WHEN  "\"timestamp\":" TIME("When the value was measured.")
#define VALUE "\"value\":" QUANTITY("the value.")
#define USAGE                                                                                      \
    "\"usage\":{\"type\":\"object\",\"description\":\"CPU and memory in use.\","                   \
    "\"additionalProperties\":{\"type\":\"string\"}}"
#define WINDOW "\"window\":" STRING("Time over which the usage was measured, a duration.")
#define LIST(item)                                                                                 \
    "{\"type\":\"object\",\"required\":[\"items\"],\"properties\":{" TYPE_META                     \
    "," META("Of the list.") ",\"items\":{\"type\":\"array\",\"items\":{\"$ref\":\"" item "\"}}}}"
#define RANGE "Seconds in front of the timestamp that the value is of."

struct schema {
    const char *kind; // determines the name
    const char *text;
    bool top; // an API object, not a part of one
};

static const struct schema custom_v1beta1[] = {
    {"MetricValue",
     "{\"type\":\"object\",\"required\":[\"describedObject\",\"metricName\",\"timestamp\","
     "\"value\"],"
     "\"properties\":{" TYPE_META "," OBJECT ",\"metricName\":" STRING(
         "Name of the metric.") "," WHEN ",\"window\":" SECONDS(RANGE) "," VALUE "," SELECTOR "}}",
     true},
    {"MetricValueList", LIST("MetricValue"), true},
    {0}};

static const struct schema custom_v1beta2[] = {
    {"MetricValue",
     "{\"type\":\"object\",\"required\":[\"describedObject\",\"metric\",\"timestamp\",\"value\"],"
     "\"properties\":{" TYPE_META "," OBJECT
     ",\"metric\":{\"type\":\"object\",\"required\":[\"name\"],\"properties\":{\"name\":" STRING(
         "Name of the metric.") "," SELECTOR "}}," WHEN
                                ",\"windowSeconds\":" SECONDS(RANGE) "," VALUE "}}",
     true},
    {"MetricValueList", LIST("MetricValue"), true},
    {0}};

static const struct schema external_v1beta1[] = {
    {"ExternalMetricValue",
     "{\"type\":\"object\",\"required\":[\"metricName\",\"metricLabels\",\"timestamp\",\"value\"],"
     "\"properties\":{" TYPE_META ",\"metricName\":" STRING(
         "Name of the metric.") ",\"metricLabels\":{\"type\":\"object\",\"additionalProperties\":{"
                                "\"type\":\"string\"}}," WHEN
                                ",\"window\":" SECONDS(RANGE) "," VALUE "}}",
     true},
    {"ExternalMetricValueList", LIST("ExternalMetricValue"), true},
    {0}};

static const struct schema resource_v1beta1[] = {
    {"ContainerMetrics",
     "{\"type\":\"object\",\"required\":[\"name\",\"usage\"],\"properties\":{\"name\":" STRING(
         "Name of the container.") "," USAGE "}}",
     false},
    {"NodeMetrics",
     "{\"type\":\"object\",\"required\":[\"timestamp\",\"window\",\"usage\"],\"properties\":"
     "{" TYPE_META "," META("Of the node.") "," WHEN "," WINDOW "," USAGE "}}",
     true},
    {"NodeMetricsList", LIST("NodeMetrics"), true},
    {"PodMetrics",
     "{\"type\":\"object\",\"required\":[\"timestamp\",\"window\",\"containers\"],\"properties\":"
     "{" TYPE_META "," META("Of the pod.") "," WHEN "," WINDOW
                                           ",\"containers\":{\"type\":\"array\",\"items\":{\"$"
                                           "ref\":\"ContainerMetrics\"}}}}",
     true},
    {"PodMetricsList", LIST("PodMetrics"), true},
    {0}};

// --- paths ---

struct route {
    const char *path; // below the group-version
    const char *kind, *action;
};

static const struct route custom_routes[] = {
    {"/namespaces/{namespace}/metrics/{name}", "MetricValueList", "list"},
    {"/namespaces/{namespace}/{resource}/{name}/{subresource}", "MetricValueList", "list"},
    {"/{resource}/{name}/{subresource}", "MetricValueList", "list"},
    {0}};
static const struct route external_routes[] = {
    {"/namespaces/{namespace}/{resource}", "ExternalMetricValueList", "list"}, {0}};
static const struct route resource_routes[] = {
    {"/nodes", "NodeMetricsList", "list"},
    {"/nodes/{name}", "NodeMetrics", "get"},
    {"/pods", "PodMetricsList", "list"},
    {"/namespaces/{namespace}/pods", "PodMetricsList", "list"},
    {"/namespaces/{namespace}/pods/{name}", "PodMetrics", "get"},
    {0}};

static const struct part {
    const char *group, *version, *package;
    const struct schema *schemas;
    const struct route *routes;
    bool selects_series; // has metricLabelSelector
} parts[] = {
    {ADAPTER_API_CUSTOM, "v1beta1", "custom_metrics", custom_v1beta1, custom_routes, true},
    {ADAPTER_API_CUSTOM, "v1beta2", "custom_metrics", custom_v1beta2, custom_routes, true},
    {ADAPTER_API_EXTERNAL, "v1beta1", "external_metrics", external_v1beta1, external_routes, false},
    {ADAPTER_API_RESOURCE, "v1beta1", "metrics", resource_v1beta1, resource_routes, false},
};

// --- building documents ---

#define V2_REFS "#/definitions/"
#define V3_REFS "#/components/schemas/"

static char *type_name(const struct part *p, const char *kind)
{
    return gs_format("io.k8s.metrics.pkg.apis.%s.%s.%s", p->package, p->version, kind);
}

static json_t *reference(const struct part *p, const char *refs, const char *kind)
{
    GS_AUTO_FREE char *name = type_name(p, kind);
    return codec_json_strf("%s%s", refs, name);
}

// Expands short names in $ref to full ones.
static void complete(json_t *schema, const struct part *p, const char *refs)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;
    json_object_foreach_safe (schema, next, key, value) {
        if (gs_streq(key, "$ref") && json_is_string(value))
            json_object_set_new(schema, key, reference(p, refs, json_string_value(value)));
        else
            complete(value, p, refs);
    }
    json_array_foreach (schema, i, value)
        complete(value, p, refs);
}

static json_t *kind_of(const struct part *p, const char *kind)
{
    return json_pack("{s:s, s:s, s:s}", "group", p->group, "kind", kind, "version", p->version);
}

static void add_schemas(json_t *out, const struct part *p, const char *refs)
{
    for (const struct schema *s = p->schemas; s->kind; s++) {
        json_t *schema = NULL;
        GS_AUTO_FREE char *name = type_name(p, s->kind);
        gs_error_free(codec_json_parse(gs_slice_of(s->text), true, &schema));
        complete(schema, p, refs);
        if (s->top)
            json_object_set_new(schema, "x-kubernetes-group-version-kind",
                                json_pack("[o]", kind_of(p, s->kind)));
        json_object_set_new(out, name, schema);
    }
}

static json_t *parameter(const char *name, const char *in, bool v3)
{
    json_t *q =
        json_pack("{s:s, s:s, s:b}", "name", name, "in", in, "required", gs_streq(in, "path"));
    if (v3)
        json_object_set_new(q, "schema",
                            json_pack("{s:s, s:b}", "type", "string", "uniqueItems", 1));
    else
        codec_json_set_str(q, "type", "string");
    return q;
}

static json_t *parameters(const struct part *p, const struct route *r, bool v3)
{
    json_t *list = json_array();
    for (const char *at = r->path; (at = strchr(at, '{')); at++) {
        GS_AUTO_FREE char *name = gs_strndup(at + 1, strcspn(at + 1, "}"));
        json_array_append_new(list, parameter(name, "path", v3));
    }
    if (gs_streq(r->action, "list"))
        json_array_append_new(list, parameter("labelSelector", "query", v3));
    if (gs_streq(r->action, "list") && p->selects_series)
        json_array_append_new(list, parameter("metricLabelSelector", "query", v3));
    return list;
}

// "list" + "/namespaces/{namespace}/pods" -> listMetricsV1beta1NamespacesNamespacePods
static char *operation_id(const struct part *p, const struct route *r)
{
    GS_AUTO_BUF struct gs_buf id = {0};
    bool upper = true;
    gs_buf_addf(&id, "%s_%s_%s_", r->action, p->package, p->version);
    for (const char *c = r->path; *c; c++) {
        if (*c == '/' || *c == '{' || *c == '}') {
            upper = true;
            continue;
        }
        if (upper)
            gs_buf_add_char(&id, (char)(*c - 'a' + 'A'));
        else
            gs_buf_add_char(&id, *c);
        upper = false;
    }
    return gs_buf_take(&id);
}

static json_t *operation(const struct part *p, const struct route *r, const char *refs, bool v3)
{
    GS_AUTO_FREE char *id = operation_id(p, r);
    json_t *schema = json_pack("{s:o}", "$ref", reference(p, refs, r->kind));
    json_t *ok = json_pack("{s:s}", "description", "OK");
    if (v3)
        json_object_set_new(ok, "content",
                            json_pack("{s:{s:o}}", "application/json", "schema", schema));
    else
        json_object_set_new(ok, "schema", schema);
    GS_AUTO_FREE char *description = gs_format("%s of %s", r->kind, p->group);
    json_t *op = json_pack("{s:s, s:s, s:[s], s:o, s:{s:o}, s:s, s:o}", "operationId", id,
                           "description", description, "tags", p->package, "parameters",
                           parameters(p, r, v3), "responses", "200", ok, "x-kubernetes-action",
                           r->action, "x-kubernetes-group-version-kind", kind_of(p, r->kind));
    if (!v3) {
        json_object_set_new(op, "produces", json_pack("[s]", "application/json"));
        json_object_set_new(op, "schemes", json_pack("[s]", "https"));
    }
    return op;
}

static void add_paths(json_t *out, const struct part *p, const char *refs, bool v3)
{
    for (const struct route *r = p->routes; r->path; r++) {
        GS_AUTO_FREE char *path = gs_format("/apis/%s/%s%s", p->group, p->version, r->path);
        json_object_set_new(out, path, json_pack("{s:o}", "get", operation(p, r, refs, v3)));
    }
}

static json_t *document(const char *key, const char *version, json_t *paths)
{
    return json_pack("{s:s, s:{s:s, s:s}, s:o}", key, version, "info", "title",
                     "prometheus-metrics-adapter", "version", "1.0.0", "paths", paths);
}

static json_t *make_v3(const struct part *p)
{
    json_t *paths = json_object(), *schemas = json_object();
    add_paths(paths, p, V3_REFS, true);
    add_schemas(schemas, p, V3_REFS);
    json_t *doc = document("openapi", "3.0.0", paths);
    json_object_set_new(doc, "components", json_pack("{s:o}", "schemas", schemas));
    return doc;
}

static json_t *make_v2(const struct adapter_api *a)
{
    json_t *paths = json_object(), *schemas = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        if (!adapter_api_has_group(a, parts[i].group))
            continue;
        add_paths(paths, &parts[i], V2_REFS, false);
        add_schemas(schemas, &parts[i], V2_REFS);
    }
    json_t *doc = document("swagger", "2.0", paths);
    json_object_set_new(doc, "definitions", schemas);
    return doc;
}

// --- responses ---

static uint64_t hash_of(const json_t *doc, struct gs_buf *ret_text)
{
    codec_json_dump(doc, ret_text);
    return gs_hash(ret_text->data, ret_text->len);
}

static void reply(struct adapter_api_call *c, json_t *doc)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    char tag[24];
    (void)snprintf(tag, sizeof(tag), "\"%016llX\"", (unsigned long long)hash_of(doc, &text));
    json_decref(doc);
    http_add_header(c->x, "Etag", tag);
    http_add_header(c->x, "Vary", "Accept");
    if (gs_streq(http_header(c->x, "If-None-Match"), tag))
        http_reply(c->x, 304, "application/json", (struct gs_slice){0});
    else
        http_reply(c->x, 200, "application/json", gs_buf_slice(&text));
}

// Clients fetch a document again when its hash changes.
static json_t *make_index(const struct adapter_api *a)
{
    json_t *paths = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        GS_AUTO_BUF struct gs_buf text = {0};
        if (!adapter_api_has_group(a, parts[i].group))
            continue;
        CODEC_AUTO_JSON json_t *doc = make_v3(&parts[i]);
        GS_AUTO_FREE char *key = gs_format("apis/%s/%s", parts[i].group, parts[i].version);
        json_object_set_new(paths, key,
                            json_pack("{s:o}", "serverRelativeURL",
                                      codec_json_strf("/openapi/v3/%s?hash=%016llX", key,
                                                      (unsigned long long)hash_of(doc, &text))));
    }
    return json_pack("{s:o}", "paths", paths);
}

bool adapter_api_reply_openapi(struct adapter_api_call *c)
{
    const char *path = http_path(c->x);
    if (gs_streq(path, "/openapi/v2")) {
        reply(c, make_v2(c->a));
        return true;
    }
    if (gs_streq(path, "/openapi/v3") || gs_streq(path, "/openapi/v3/")) {
        reply(c, make_index(c->a));
        return true;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        GS_AUTO_FREE char *own =
            gs_format("/openapi/v3/apis/%s/%s", parts[i].group, parts[i].version);
        if (gs_streq(path, own) && adapter_api_has_group(c->a, parts[i].group)) {
            reply(c, make_v3(&parts[i]));
            return true;
        }
    }
    return false;
}
