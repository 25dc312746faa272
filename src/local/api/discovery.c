// SPDX-License-Identifier: Apache-2.0
// Discovery: the API groups, versions and resources of the server, and its version.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"

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

static json_t *group_document(const char *group, const char *const *versions)
{
    json_t *doc = json_object();
    json_t *list = json_array();

    codec_json_set_str(doc, "kind", "APIGroup");
    codec_json_set_str(doc, "apiVersion", "v1");
    codec_json_set_str(doc, "name", group);
    for (size_t i = 0; versions[i]; i++)
        json_array_append_new(list, group_version(group, versions[i]));
    json_object_set_new(doc, "versions", list);
    json_object_set_new(doc, "preferredVersion", group_version(group, versions[0]));
    return doc;
}

// The versions of a group are those of its rows, which agree within a group.
static const char *const *versions_of(const char *group)
{
    static const char *const v1_only[] = {"v1", NULL};

    for (size_t i = 0; i < local_api_n_resources; i++)
        if (strcmp(local_api_resources[i].group, group) == 0)
            return local_api_resources[i].versions;
    for (size_t i = 0; i < GS_ARRAY_LEN(review_groups); i++)
        if (strcmp(review_groups[i], group) == 0)
            return v1_only;
    return NULL;
}

static json_t *all_groups(const struct local_api *api)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < local_api_n_resources; i++) {
        const char *group = local_api_resources[i].group;
        if (*group && strcmp(group, local_api_resources[i - 1].group) != 0)
            json_array_append_new(groups, group_document(group, versions_of(group)));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(review_groups); i++)
        json_array_append_new(groups,
                              group_document(review_groups[i], versions_of(review_groups[i])));
    for (size_t i = 0; i < api->n_mounts; i++) {
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
    const char *const *versions = *group ? versions_of(group) : NULL;

    if (!versions)
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
    json_t *entry = resource_entry(
        r->plural, r->singular, local_api_resource_has(r, LOCAL_API_R_NAMESPACED), r->kind, verbs);

    if (r->short_names)
        json_object_set_new(entry, "shortNames", strings(r->short_names));
    if (r->category)
        json_object_set_new(entry, "categories", strings((const char *[]){r->category, NULL}));
    json_array_append_new(list, entry);
}

static void add_part(json_t *list, const struct local_api_resource *r, const char *part,
                     const char *group, const char *version, const char *kind,
                     const char *const *verbs)
{
    GS_AUTO_FREE char *name = gs_format("%s/%s", r->plural, part);
    json_t *entry =
        resource_entry(name, "", local_api_resource_has(r, LOCAL_API_R_NAMESPACED), kind, verbs);

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
    bool core = *r->group == '\0';

    if (core && strcmp(r->plural, "namespaces") == 0)
        add_part(list, r, "finalize", NULL, NULL, r->kind, update);
    if (core && strcmp(r->plural, "pods") == 0) {
        add_part(list, r, "binding", NULL, NULL, "Binding", create);
        add_part(list, r, "eviction", "policy", "v1", "Eviction", create);
        add_part(list, r, "log", NULL, NULL, "Pod", get);
    }
    if (local_api_resource_has(r, LOCAL_API_R_SCALE))
        add_part(list, r, "scale", "autoscaling", "v1", "Scale", write);
    if (local_api_resource_has(r, LOCAL_API_R_STATUS))
        add_part(list, r, "status", NULL, NULL, r->kind, write);
}

bool local_api_discovery_version(struct local_api *api, struct http_exchange *x, const char *group,
                                 const char *version)
{
    const char *const *versions = versions_of(group);
    CODEC_AUTO_JSON json_t *doc = json_object();
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *list = json_array();
    bool served = false;

    for (size_t i = 0; versions && versions[i]; i++)
        served |= strcmp(versions[i], version) == 0;
    codec_json_set_str(doc, "kind", "APIResourceList");
    codec_json_set_str(doc, "apiVersion", "v1");
    local_api_version(group, version, &text);
    codec_json_set_str(doc, "groupVersion", text.data);
    json_object_set_new(doc, "resources", list);
    if (!served)
        return false;
    for (size_t i = 0; i < local_api_n_resources; i++) {
        if (strcmp(local_api_resources[i].group, group) != 0)
            continue;
        add_main(list, &local_api_resources[i]);
        add_parts(list, &local_api_resources[i]);
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
    codec_json_set_str(doc, "gitVersion", "v" KUBE_VERSION ".0+gpuscale." GPUSCALE_VERSION);
    codec_json_set_str(doc, "gitCommit", "");
    codec_json_set_str(doc, "gitTreeState", "clean");
    codec_json_set_str(doc, "buildDate", "1970-01-01T00:00:00Z");
    codec_json_set_str(doc, "goVersion", "none");
    codec_json_set_str(doc, "compiler", "cc");
    codec_json_set_str(doc, "platform", "linux/amd64");
    kube_reply_json(x, 200, doc);
}
