// SPDX-License-Identifier: Apache-2.0
// Discovery: the API groups, versions and resources of the server, and its version.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/aggregate.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

// Groups that serve reviews only.
static const char *const review_groups[] = {"authentication.k8s.io", "authorization.k8s.io"};

// --- groups ---

static json_t *group_version(const char *group, const char *version)
{
    json_t *v = json_object();
    GS_AUTO_BUF struct gs_buf text = {0};

    local_api_version(group, version, &text);
    codec_json_set_str(v, "groupVersion", text.data);
    codec_json_set_str(v, "version", version);
    return v;
}

static void add_version(json_t *versions, const char *version)
{
    if (!codec_json_has_string(versions, version))
        json_array_append_new(versions, json_string(version));
}

static bool is_review_group(const char *group)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(review_groups); i++)
        if (strcmp(review_groups[i], group) == 0)
            return true;
    return false;
}

static int by_version(const void *a, const void *b)
{
    return local_api_compare_versions(*(const char *const *)a, *(const char *const *)b);
}

// In the order of kube-apiserver: stable versions first, the newest of them in front.
static json_t *ordered(json_t *versions)
{
    size_t n = json_array_size(versions);
    GS_AUTO_FREE const char **texts = gs_alloc_array(n + 1, sizeof *texts);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        texts[i] = json_string_value(json_array_get(versions, i));
    qsort(texts, n, sizeof *texts, by_version);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    json_decref(versions);
    return list;
}

// The versions of a group, an array of strings that is empty for a group without resources. The
// built-in rows of a group agree, and are in order.
static json_t *versions_of(const struct local_api *api, const char *group)
{
    json_t *list = json_array();
    const struct local_api_resource *r;
    bool custom = false;

    for (size_t i = 0; (r = local_api_nth_resource(api, i)); i++) {
        if (strcmp(r->group, group) != 0)
            continue;
        custom |= r->custom != NULL;
        for (size_t v = 0; r->versions[v]; v++)
            add_version(list, r->versions[v]);
    }
    const char *other, *version;
    for (size_t i = 0; local_api_nth_aggregated(api->aggregation, i, &other, &version); i++)
        if (strcmp(other, group) == 0) {
            custom = true;
            add_version(list, version);
        }
    if (is_review_group(group))
        add_version(list, "v1");
    return custom ? ordered(list) : list;
}

static json_t *group_document(const char *group, const json_t *versions)
{
    json_t *doc = json_object();
    json_t *list = json_array();
    size_t i;
    json_t *version;

    codec_json_set_str(doc, "kind", "APIGroup");
    codec_json_set_str(doc, "apiVersion", "v1");
    codec_json_set_str(doc, "name", group);
    json_array_foreach ((json_t *)versions, i, version)
        json_array_append_new(list, group_version(group, json_string_value(version)));
    json_object_set_new(doc, "versions", list);
    json_object_set_new(doc, "preferredVersion",
                        group_version(group, json_string_value(json_array_get(versions, 0))));
    return doc;
}

static bool is_mounted(const struct local_api *api, const char *group)
{
    for (size_t i = 0; i < api->n_mounts; i++)
        if (strcmp(api->mounts[i].group, group) == 0)
            return true;
    return false;
}

// The names of all groups but the core, in the order of discovery.
static json_t *group_names(const struct local_api *api)
{
    json_t *names = json_array();
    const struct local_api_resource *r;

    for (size_t i = 0; (r = local_api_nth_resource(api, i)); i++)
        if (*r->group && !codec_json_has_string(names, r->group))
            json_array_append_new(names, json_string(r->group));
    for (size_t i = 0; i < GS_ARRAY_LEN(review_groups); i++)
        json_array_append_new(names, json_string(review_groups[i]));
    const char *group, *version;
    for (size_t i = 0; local_api_nth_aggregated(api->aggregation, i, &group, &version); i++)
        if (!codec_json_has_string(names, group) && !is_mounted(api, group))
            json_array_append_new(names, json_string(group));
    return names;
}

static json_t *all_groups(const struct local_api *api)
{
    CODEC_AUTO_JSON json_t *names = group_names(api);
    json_t *groups = json_array();
    size_t i;
    json_t *name;

    json_array_foreach (names, i, name) {
        CODEC_AUTO_JSON json_t *versions = versions_of(api, json_string_value(name));
        json_array_append_new(groups, group_document(json_string_value(name), versions));
    }
    for (i = 0; i < api->n_mounts; i++) {
        json_t *doc = api->mounts[i].describe(api->mounts[i].ctx, api->mounts[i].group);
        if (doc)
            json_array_append_new(groups, doc);
    }
    return groups;
}

void local_api_discovery_core(struct local_api *api, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *doc = json_object();
    json_t *versions = json_array();

    codec_json_set_str(doc, "kind", "APIVersions");
    json_array_append_new(versions, json_string("v1"));
    json_object_set_new(doc, "versions", versions);
    json_object_set_new(doc, "serverAddressByClientCIDRs", json_array());
    kube_reply_json(x, 200, doc);
}

void local_api_discovery_groups(struct local_api *api, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *doc = json_object();

    codec_json_set_str(doc, "kind", "APIGroupList");
    codec_json_set_str(doc, "apiVersion", "v1");
    json_object_set_new(doc, "groups", all_groups(api));
    kube_reply_json(x, 200, doc);
}

bool local_api_discovery_group(struct local_api *api, struct http_exchange *x, const char *group)
{
    CODEC_AUTO_JSON json_t *versions = *group ? versions_of(api, group) : json_array();

    if (json_array_size(versions) == 0)
        return false;
    CODEC_AUTO_JSON json_t *doc = group_document(group, versions);
    kube_reply_json(x, 200, doc);
    return true;
}

// --- resources ---

static json_t *strings(const char *const *items)
{
    json_t *list = json_array();

    for (size_t i = 0; items[i]; i++)
        json_array_append_new(list, json_string(items[i]));
    return list;
}

static json_t *resource_entry(const char *name, const char *singular, bool namespaced,
                              const char *kind, const char *const *verbs)
{
    json_t *entry = json_object();

    codec_json_set_str(entry, "name", name);
    codec_json_set_str(entry, "singularName", singular);
    codec_json_set_bool(entry, "namespaced", namespaced);
    codec_json_set_str(entry, "kind", kind);
    json_object_set_new(entry, "verbs", strings(verbs));
    return entry;
}

static void add_main(json_t *list, const struct local_api_resource *r)
{
    static const char *const verbs[] = {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch", NULL};
    static const char *const of_namespaces[] = {"create", "delete", "get",   "list",
                                                "patch",  "update", "watch", NULL};
    bool one_by_one = *r->group == '\0' && strcmp(r->plural, "namespaces") == 0;
    json_t *entry = resource_entry(r->plural, r->singular, r->namespaced, r->kind,
                                   one_by_one ? of_namespaces : verbs);

    if (r->short_names)
        json_object_set_new(entry, "shortNames", strings(r->short_names));
    if (r->categories || r->category)
        json_object_set_new(
            entry, "categories",
            strings(r->categories ? r->categories : (const char *[]){r->category, NULL}));
    json_array_append_new(list, entry);
}

static void add_part(json_t *list, const struct local_api_resource *r, const char *part,
                     const char *group, const char *version, const char *kind,
                     const char *const *verbs)
{
    GS_AUTO_FREE char *name = gs_format("%s/%s", r->plural, part);
    json_t *entry = resource_entry(name, "", r->namespaced, kind, verbs);

    codec_json_set_str(entry, "group", group);
    codec_json_set_str(entry, "version", version);
    json_array_append_new(list, entry);
}

static void add_parts(json_t *list, const struct local_api_resource *r)
{
    static const char *const write[] = {"get", "patch", "update", NULL};
    static const char *const create[] = {"create", NULL};
    static const char *const get[] = {"get", NULL};
    static const char *const update[] = {"update", NULL};
    static const char *const connect[] = {"create", "get", NULL};
    static const char *const proxy[] = {"create", "delete", "get", "patch", "update", NULL};
    bool core = *r->group == '\0';

    if (core && strcmp(r->plural, "namespaces") == 0)
        add_part(list, r, "finalize", NULL, NULL, r->kind, update);
    if (core && strcmp(r->plural, "pods") == 0) {
        add_part(list, r, "attach", NULL, NULL, "PodAttachOptions", connect);
        add_part(list, r, "binding", NULL, NULL, "Binding", create);
        add_part(list, r, "ephemeralcontainers", NULL, NULL, r->kind, write);
        add_part(list, r, "eviction", "policy", "v1", "Eviction", create);
        add_part(list, r, "exec", NULL, NULL, "PodExecOptions", connect);
        add_part(list, r, "log", NULL, NULL, "Pod", get);
        add_part(list, r, "portforward", NULL, NULL, "PodPortForwardOptions", connect);
        add_part(list, r, "proxy", NULL, NULL, "PodProxyOptions", proxy);
    }
    if (core && strcmp(r->plural, "nodes") == 0)
        add_part(list, r, "proxy", NULL, NULL, "NodeProxyOptions", proxy);
    if (core && strcmp(r->plural, "services") == 0)
        add_part(list, r, "proxy", NULL, NULL, "ServiceProxyOptions", proxy);
    if (core && strcmp(r->plural, "serviceaccounts") == 0)
        add_part(list, r, "token", "authentication.k8s.io", "v1", "TokenRequest", create);
    if (local_api_resource_has(r, LOCAL_API_R_SCALE))
        add_part(list, r, "scale", "autoscaling", "v1", "Scale", write);
    if (local_api_resource_has(r, LOCAL_API_R_STATUS))
        add_part(list, r, "status", NULL, NULL, r->kind, write);
}

bool local_api_discovery_version(struct local_api *api, struct http_exchange *x, const char *group,
                                 const char *version)
{
    CODEC_AUTO_JSON json_t *versions = versions_of(api, group);
    CODEC_AUTO_JSON json_t *doc = json_object();
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *list = json_array();
    const struct local_api_resource *r;

    codec_json_set_str(doc, "kind", "APIResourceList");
    codec_json_set_str(doc, "apiVersion", "v1");
    local_api_version(group, version, &text);
    codec_json_set_str(doc, "groupVersion", text.data);
    json_object_set_new(doc, "resources", list);
    if (!codec_json_has_string(versions, version))
        return false;
    for (size_t i = 0; (r = local_api_nth_resource(api, i)); i++) {
        if (strcmp(r->group, group) != 0 || !local_api_resource_version(r, version))
            continue;
        add_main(list, r);
        add_parts(list, r);
    }
    local_api_review_resources(group, list);
    kube_reply_json(x, 200, doc);
    return true;
}

// --- version ---

void local_api_version_info(struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *doc = json_object();

    codec_json_set_str(doc, "major", KUBE_VERSION_MAJOR);
    codec_json_set_str(doc, "minor", KUBE_VERSION_MINOR);
    codec_json_set_str(doc, "gitVersion", LOCAL_API_GIT_VERSION);
    codec_json_set_str(doc, "gitCommit", "");
    codec_json_set_str(doc, "gitTreeState", "clean");
    codec_json_set_str(doc, "buildDate", "1970-01-01T00:00:00Z");
    codec_json_set_str(doc, "goVersion", "none");
    codec_json_set_str(doc, "compiler", "cc");
    codec_json_set_str(doc, "platform", "linux/amd64");
    kube_reply_json(x, 200, doc);
}
