// SPDX-License-Identifier: Apache-2.0
// Discovery: /apis, groups and their resources. Aggregated discovery is not served: on plain JSON
// the aggregator requests each group.
#include "adapter/api/api_private.h"

#include "adapter/provider/provider.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/status.h"

static const char *const groups[] = {ADAPTER_API_CUSTOM, ADAPTER_API_EXTERNAL,
                                     ADAPTER_API_RESOURCE};

static json_t *version_of(const char *group, const char *version)
{
    return json_pack("{s:o, s:s}", "groupVersion", codec_json_strf("%s/%s", group, version),
                     "version", version);
}

static json_t *group_document(const char *group)
{
    json_t *versions = json_array();
    json_array_append_new(versions, version_of(group, "v1beta1"));
    if (gs_streq(group, ADAPTER_API_CUSTOM))
        json_array_append_new(versions, version_of(group, "v1beta2"));
    return json_pack("{s:s, s:o, s:o, s:[{s:s, s:s}]}", "name", group, "versions", versions,
                     "preferredVersion", version_of(group, "v1beta1"), "serverAddressByClientCIDRs",
                     "clientCIDR", "0.0.0.0/0", "serverAddress", "");
}

json_t *adapter_api_describe_group(const struct adapter_api *a, const char *group)
{
    if (!adapter_api_has_group(a, group))
        return NULL;
    json_t *body = json_pack("{s:s, s:s}", "kind", "APIGroup", "apiVersion", "v1");
    CODEC_AUTO_JSON json_t *document = group_document(group);
    json_object_update(body, document);
    return body;
}

static void reply_group(struct adapter_api_call *c)
{
    CODEC_AUTO_JSON json_t *body = adapter_api_describe_group(c->a, c->path.group);
    kube_reply_json(c->x, 200, body);
}

static void reply_groups(struct adapter_api_call *c)
{
    CODEC_AUTO_JSON json_t *list = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++)
        if (adapter_api_has_group(c->a, groups[i]))
            json_array_append_new(list, group_document(groups[i]));
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:s, s:O}", "kind", "APIGroupList", "apiVersion", "v1", "groups", list);
    kube_reply_json(c->x, 200, body);
}

// --- resources of a group ---

// names: receives the listed names; may be NULL.
static void add_resource(struct gs_buf *out, size_t *n, struct gs_hmap *names, const char *resource,
                         const char *group, struct gs_slice metric, bool namespaced,
                         const char *kind)
{
    GS_AUTO_BUF struct gs_buf name = {0};
    gs_buf_addf(&name, "%s%s%s%s", resource, *group ? "." : "", group, *resource ? "/" : "");
    gs_buf_add_slice(&name, metric);
    if (names)
        gs_hmap_put(names, gs_buf_slice(&name), names);
    gs_buf_add_str(out, (*n)++ ? ",{\"name\":" : "{\"name\":");
    adapter_api_add_json_string(out, gs_buf_slice(&name));
    gs_buf_addf(out,
                ",\"singularName\":\"\",\"namespaced\":%s,\"kind\":\"%s\",\"verbs\":[\"get\"]}",
                namespaced ? "true" : "false", kind);
}

static bool is_known(const struct adapter_api *a, const struct provider_registry_metric *m)
{
    const struct provider_rest_mapping *r = provider_rest_mapper_find(
        a->generation.mapper, gs_slice_of(m->group), gs_slice_of(m->resource));
    GS_AUTO_FREE char *name = gs_slice_dup(m->name);
    return r && provider_registry_find(a->generation.registry, r, m->namespaced, name);
}

// External metrics of built-in rules.
static void add_external(const struct adapter_api *a, struct gs_buf *out, size_t *n,
                         struct gs_hmap *names)
{
    const struct provider_registry *gpu = a->generation.gpu;
    const struct provider_registry_metric *m;
    for (size_t i = 0; gpu && (m = provider_registry_nth(gpu, true, i)); i++) {
        GS_AUTO_FREE char *name = gs_slice_dup(m->name);
        if (!provider_registry_find_external(a->generation.registry, name))
            add_resource(out, n, names, "", "", m->name, m->namespaced, "ExternalMetricValueList");
    }
}

static void add_gpu(const struct adapter_api *a, struct gs_buf *out, size_t *n,
                    struct gs_hmap *names)
{
    const struct provider_registry_metric *m;
    const struct provider_workload_kind *o;
    for (size_t i = 0;
         a->generation.gpu && (m = provider_registry_nth(a->generation.gpu, false, i)); i++) {
        if (is_known(a, m))
            continue;
        add_resource(out, n, names, m->resource, m->group, m->name, m->namespaced,
                     "MetricValueList");
        for (size_t k = 0; gs_streq(m->resource, "pods") && (o = provider_workload_kind_nth(k));
             k++)
            add_resource(out, n, names, o->resource, o->group, m->name, true, "MetricValueList");
    }
}

// Only for pods, so that the document stays small: kubectl reads all of it.
static void add_pod_series(const struct adapter_api *a, struct gs_buf *out, size_t *n,
                           struct gs_hmap *names)
{
    const struct provider_registry_metric *m;
    for (size_t i = 0; a->generation.pod_series &&
                       (m = provider_registry_nth(a->generation.pod_series, false, i));
         i++)
        if (gs_streq(m->resource, "pods") && !is_known(a, m))
            add_resource(out, n, names, m->resource, m->group, m->name, m->namespaced,
                         "MetricValueList");
}

// Adds the delegate's resources that are not in `names`.
static void add_previous(const struct adapter_api_call *c, const struct gs_hmap *names,
                         struct gs_buf *out, size_t *n)
{
    const struct adapter_api_delegate *p = adapter_api_delegate(c->a, c->path.group);
    GS_AUTO_FREE char *version = gs_format("%s/%s", c->path.group, c->path.version);
    const json_t *list = p && !http_header(c->x, ADAPTER_API_FORWARDED_HEADER)
                             ? adapter_api_delegate_resources(p, version)
                             : NULL;
    size_t i;
    json_t *item;
    json_array_foreach ((json_t *)(uintptr_t)list, i, item) {
        const char *name = codec_json_str(item, "name", NULL);
        if (!name || (names && gs_hmap_get_str(names, name)))
            continue;
        if ((*n)++)
            gs_buf_add_char(out, ',');
        codec_json_dump(item, out);
    }
}

static void reply_list(struct adapter_api_call *c)
{
    const struct adapter_api *a = c->a;
    const struct provider_registry_metric *m;
    GS_AUTO_BUF struct gs_buf out = {0};
    size_t n = 0;
    bool external = gs_streq(c->path.group, ADAPTER_API_EXTERNAL);
    GS_CLEANUP(gs_hmap_freep)
    struct gs_hmap *names = adapter_api_delegate(a, c->path.group) ? gs_hmap_new(NULL) : NULL;
    gs_buf_addf(&out,
                "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"%s/%s\","
                "\"resources\":[",
                c->path.group, c->path.version);
    for (size_t i = 0; (m = provider_registry_nth(a->generation.registry, external, i)); i++)
        add_resource(&out, &n, names, external ? "" : m->resource, external ? "" : m->group,
                     m->name, m->namespaced,
                     external ? "ExternalMetricValueList" : "MetricValueList");
    if (external) {
        add_external(a, &out, &n, names);
    } else {
        add_gpu(a, &out, &n, names);
        add_pod_series(a, &out, &n, names);
    }
    add_previous(c, names, &out, &n);
    gs_buf_add_str(&out, "]}\n");
    kube_reply_compact(c->x, 200, gs_buf_slice(&out));
}

static void reply_usage_list(struct adapter_api_call *c)
{
    if (!c->a->generation.resource) { // only the delegate serves it
        GS_AUTO_BUF struct gs_buf out = {0};
        size_t n = 0;
        gs_buf_addf(&out, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":"
                          "\"" ADAPTER_API_RESOURCE "/v1beta1\",\"resources\":[");
        add_previous(c, NULL, &out, &n);
        gs_buf_add_str(&out, "]}\n");
        kube_reply_compact(c->x, 200, gs_buf_slice(&out));
        return;
    }
    CODEC_AUTO_JSON json_t *body = json_pack(
        "{s:s, s:s, s:s, s:[{s:s, s:s, s:b, s:s, s:[s,s]}, {s:s, s:s, s:b, s:s, s:[s,s]}]}", "kind",
        "APIResourceList", "apiVersion", "v1", "groupVersion", ADAPTER_API_RESOURCE "/v1beta1",
        "resources", "name", "nodes", "singularName", "", "namespaced", 0, "kind", "NodeMetrics",
        "verbs", "get", "list", "name", "pods", "singularName", "", "namespaced", 1, "kind",
        "PodMetrics", "verbs", "get", "list");
    kube_reply_json(c->x, 200, body);
}

bool adapter_api_discovery(struct adapter_api_call *c)
{
    const char *path = http_path(c->x);
    bool ours = c->path.group && adapter_api_has_group(c->a, c->path.group);
    if (ours && c->path.kind == ADAPTER_API_GROUP)
        reply_group(c);
    else if (ours && c->path.kind == ADAPTER_API_LIST &&
             gs_streq(c->path.group, ADAPTER_API_RESOURCE))
        reply_usage_list(c);
    else if (ours && c->path.kind == ADAPTER_API_LIST)
        reply_list(c);
    else if (gs_streq(path, "/apis") || gs_streq(path, "/apis/"))
        reply_groups(c);
    else
        return false;
    return true;
}
