// SPDX-License-Identifier: Apache-2.0
#include "hpa/resources.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <ctype.h>

struct found {
    char *group, *version, *resource;
};

struct hpa_resources {
    struct kube_client *client;
    struct gs_hmap *found; // "apiVersion kind" to struct found
    struct hpa_lookup *lookups;
};

struct hpa_lookup {
    struct hpa_resources *owner;
    struct hpa_lookup *prev, *next;
    struct kube_request *request;
    char *api_version, *kind;
    void (*cb)(void *arg, struct gs_error *err);
    void *arg;
};

static const struct {
    const char *group, *version, *kind, *resource;
} well_known[] = {
    {"apps", "v1", "Deployment", "deployments"},
    {"apps", "v1", "ReplicaSet", "replicasets"},
    {"apps", "v1", "StatefulSet", "statefulsets"},
    {"apps", "v1", "DaemonSet", "daemonsets"},
    {"", "v1", "ReplicationController", "replicationcontrollers"},
    {"", "v1", "Namespace", "namespaces"},
    {"", "v1", "Node", "nodes"},
    {"", "v1", "Pod", "pods"},
    {"", "v1", "Service", "services"},
    {"networking.k8s.io", "v1", "Ingress", "ingresses"},
};

static void free_found(void *value)
{
    struct found *f = value;
    free(f->group);
    free(f->version);
    free(f->resource);
    free(f);
}

struct hpa_resources *hpa_resources_new(struct kube_client *client)
{
    struct hpa_resources *r = gs_alloc(sizeof(*r));
    r->client = client;
    r->found = gs_hmap_new(free_found);
    return r;
}

void hpa_resources_free(struct hpa_resources *r)
{
    if (!r)
        return;
    while (r->lookups)
        hpa_lookup_cancel(r->lookups);
    gs_hmap_free(r->found);
    free(r);
}

static struct gs_error *split_version(const char *api_version, struct gs_slice *ret_group,
                                      struct gs_slice *ret_version)
{
    const char *slash = strchr(api_version, '/');
    if (slash && strchr(slash + 1, '/'))
        return gs_error_new(GS_EINVAL, "unexpected GroupVersion string: %s", api_version);
    *ret_group = gs_slice_make(api_version, slash ? (size_t)(slash - api_version) : 0);
    *ret_version = gs_slice_of(slash ? slash + 1 : api_version);
    return NULL;
}

// Kubernetes' mapper also knows every kind in lower case, and people write it so.
static bool same_kind(const char *kind, const char *text)
{
    if (!kind)
        return false;
    for (; *kind && *text; kind++, text++)
        if (*kind != *text && tolower((unsigned char)*kind) != *text)
            return false;
    return *kind == *text;
}

static char *key_of(const char *api_version, const char *kind)
{
    return gs_format("%s %s", api_version, kind);
}

struct gs_error *hpa_resources_get(const struct hpa_resources *r, const char *api_version,
                                   const char *kind, bool *ret_known, struct kube_gvr *ret)
{
    struct gs_slice group, version;
    struct gs_error *err = split_version(api_version, &group, &version);
    if (err)
        return err;
    // The group decides: an object may name a version of it that is long gone.
    for (size_t i = 0; i < GS_ARRAY_LEN(well_known); i++) {
        if (gs_slice_eq_str(group, well_known[i].group) && same_kind(well_known[i].kind, kind)) {
            *ret = (struct kube_gvr){well_known[i].group, well_known[i].version,
                                     well_known[i].resource};
            *ret_known = true;
            return NULL;
        }
    }
    GS_AUTO_FREE char *key = key_of(api_version, kind);
    const struct found *f = gs_hmap_get_str(r->found, key);
    *ret_known = f != NULL;
    if (f)
        *ret = (struct kube_gvr){f->group, f->version, f->resource};
    return NULL;
}

static void lookup_unlink(struct hpa_lookup *l)
{
    if (l->prev)
        l->prev->next = l->next;
    else
        l->owner->lookups = l->next;
    if (l->next)
        l->next->prev = l->prev;
}

static void lookup_free(struct hpa_lookup *l)
{
    free(l->api_version);
    free(l->kind);
    free(l);
}

void hpa_lookup_cancel(struct hpa_lookup *l)
{
    if (!l)
        return;
    lookup_unlink(l);
    kube_request_cancel(l->request);
    lookup_free(l);
}

// Of an APIResourceList; subresources have a slash in their name.
static const char *resource_of(const json_t *list, const char *kind)
{
    const json_t *resources = json_object_get(list, "resources");
    for (size_t i = 0; i < json_array_size(resources); i++) {
        const json_t *item = json_array_get(resources, i);
        const char *name = gs_json_str(item, "name", NULL);
        if (name && !strchr(name, '/') && same_kind(gs_json_str(item, "kind", NULL), kind))
            return name;
    }
    return NULL;
}

static struct gs_error *remember(struct hpa_lookup *l, const json_t *list)
{
    struct gs_slice group = {0}, version = {0};
    struct gs_error *err = split_version(l->api_version, &group, &version);
    if (err)
        return err;
    const char *resource = resource_of(list, l->kind);
    if (!resource)
        return gs_error_new(GS_ENOTFOUND, "no matches for kind \"%s\" in version \"%s\"", l->kind,
                            l->api_version);
    struct found *f = gs_alloc(sizeof(*f));
    f->group = gs_slice_dup(group);
    f->version = gs_slice_dup(version);
    f->resource = gs_strdup(resource);
    GS_AUTO_FREE char *key = key_of(l->api_version, l->kind);
    // Another look-up may have been faster; its strings are in use.
    if (gs_hmap_get_str(l->owner->found, key))
        free_found(f);
    else
        gs_hmap_put_str(l->owner->found, key, f);
    return NULL;
}

static void lookup_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_lookup *l = arg;
    if (status == 404) {
        gs_error_free(err);
        err = NULL;
        body = NULL;
    }
    if (!err)
        err = remember(l, body);
    lookup_unlink(l);
    l->cb(l->arg, err);
    lookup_free(l);
}

struct hpa_lookup *hpa_resources_discover(struct hpa_resources *r, const char *api_version,
                                          const char *kind,
                                          void (*cb)(void *arg, struct gs_error *err), void *arg)
{
    struct hpa_lookup *l = gs_alloc(sizeof(*l));
    l->owner = r;
    l->api_version = gs_strdup(api_version);
    l->kind = gs_strdup(kind);
    l->cb = cb;
    l->arg = arg;
    l->next = r->lookups;
    if (l->next)
        l->next->prev = l;
    r->lookups = l;
    GS_AUTO_BUF struct gs_buf path = {0};
    const char *slash = strchr(api_version, '/');
    gs_buf_add_str(&path, slash ? "/apis/" : "/api/");
    if (slash) {
        http_encode(gs_slice_make(api_version, (size_t)(slash - api_version)), &path);
        gs_buf_add_char(&path, '/');
    }
    http_encode(gs_slice_of(slash ? slash + 1 : api_version), &path);
    l->request = kube_raw_get(r->client, path.data, lookup_done, l);
    return l;
}
