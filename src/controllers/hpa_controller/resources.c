// SPDX-License-Identifier: Apache-2.0
// Finds the resource of a kind by discovery, for scale targets and described objects. Resources of
// Kubernetes are known; others are cached. A kind that the named version lacks is searched in the
// other versions of its group, as the REST mapper does.
#include "hpa_controller/controller_private.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <ctype.h>

#define MAX_VERSIONS 32 // of a group that are requested

struct found {
    char *group, *version, *resource;
    bool stale;         // must be discovered again
    struct found *next; // in the list `replaced`
};

struct hpa_resources {
    struct kube_client *client;
    struct gs_hmap *found;  // "apiVersion kind" to struct found
    struct found *replaced; // their strings may be in use
    struct hpa_lookup *lookups;
};

struct hpa_lookup {
    struct hpa_resources *owner;
    struct hpa_lookup *prev, *next;
    struct kube_request *request;
    char *api_version, *kind, *group;
    char *version;    // that is being requested
    json_t *versions; // of the group; NULL: not requested yet
    size_t n_tried;   // of them
    void (*cb)(void *arg, struct gs_error *err);
    void *arg;
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
    for (struct hpa_lookup *l = r->lookups, *next; l; l = next) {
        next = l->next;
        hpa_lookup_cancel(l);
    }
    gs_hmap_free(r->found);
    while (r->replaced) {
        struct found *f = r->replaced;
        r->replaced = f->next;
        free_found(f);
    }
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

// The REST mapper of Kubernetes also accepts kinds in lower case.
static bool same_kind(const char *kind, const char *text)
{
    if (!kind)
        return false;
    for (; *kind && *text; kind++, text++)
        if (*kind != *text && tolower((unsigned char)*kind) != *text)
            return false;
    return *kind == *text;
}

static char *cache_key(const char *api_version, const char *kind)
{
    return gs_format("%s %s", api_version, kind);
}

struct gs_error *hpa_resources_get(const struct hpa_resources *r, const char *api_version,
                                   const char *kind, bool *ret_known, struct kube_gvr *ret)
{
    struct gs_slice group = {0}, version = {0};
    struct gs_error *err = split_version(api_version, &group, &version);
    if (err)
        return err;
    // Only the group must match: the object may name a version that was removed.
    const struct kube_resource *known;
    for (size_t i = 0; (known = kube_resource_nth(i)); i++) {
        if (gs_slice_eq_str(group, known->group) && same_kind(known->kind, kind)) {
            *ret = (struct kube_gvr){known->group, known->version, known->plural};
            *ret_known = true;
            return NULL;
        }
    }
    GS_AUTO_FREE char *key = cache_key(api_version, kind);
    const struct found *f = gs_hmap_get_str(r->found, key);
    *ret_known = f && !f->stale;
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
    free(l->group);
    free(l->version);
    json_decref(l->versions);
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
        const char *name = codec_json_str(item, "name", NULL);
        if (name && !strchr(name, '/') && same_kind(codec_json_str(item, "kind", NULL), kind))
            return name;
    }
    return NULL;
}

void hpa_resources_forget(struct hpa_resources *r, const char *api_version, const char *kind)
{
    GS_AUTO_FREE char *key = cache_key(api_version, kind);
    struct found *f = gs_hmap_get_str(r->found, key);
    if (f)
        f->stale = true;
}

static void cache_resource(struct hpa_lookup *l, const char *resource)
{
    struct hpa_resources *r = l->owner;
    GS_AUTO_FREE char *key = cache_key(l->api_version, l->kind);
    struct found *old = gs_hmap_get_str(r->found, key);
    // Another lookup may have ended earlier; its strings are in use.
    if (old && gs_streq(old->version, l->version) && gs_streq(old->resource, resource)) {
        old->stale = false;
        return;
    }
    struct found *f = gs_alloc(sizeof(*f));
    f->group = gs_strdup(l->group);
    f->version = gs_strdup(l->version);
    f->resource = gs_strdup(resource);
    if (old) {
        old = gs_hmap_remove_str(r->found, key);
        old->next = r->replaced;
        r->replaced = old;
    }
    gs_hmap_put_str(r->found, key, f);
}

// Takes err.
static void lookup_end(struct hpa_lookup *l, struct gs_error *err)
{
    lookup_unlink(l);
    l->cb(l->arg, err);
    lookup_free(l);
}

static void request_version(struct hpa_lookup *l, const char *version);
static void request_group(struct hpa_lookup *l);

// The requested version lacks the kind: try other versions of the group.
static void request_next_version(struct hpa_lookup *l)
{
    if (!l->versions) {
        request_group(l);
        return;
    }
    while (l->n_tried < json_array_size(l->versions)) {
        const char *v = json_string_value(json_array_get(l->versions, l->n_tried++));
        if (v && !gs_streq(v, l->version)) {
            request_version(l, v);
            return;
        }
    }
    lookup_end(l, gs_error_new(GS_ENOTFOUND, "no matches for kind \"%s\" in group \"%s\"", l->kind,
                               l->group));
}

static void version_answered(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_lookup *l = arg;
    l->request = NULL;
    if (err && status != 404) {
        lookup_end(l, err);
        return;
    }
    const char *resource = err ? NULL : resource_of(body, l->kind);
    gs_error_free(err);
    if (resource) {
        cache_resource(l, resource);
        lookup_end(l, NULL);
    } else {
        request_next_version(l);
    }
}

static void request_version(struct hpa_lookup *l, const char *version)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    free(l->version);
    l->version = gs_strdup(version);
    gs_buf_add_str(&path, *l->group ? "/apis/" : "/api/");
    if (*l->group) {
        http_encode(gs_slice_of(l->group), &path);
        gs_buf_add_char(&path, '/');
    }
    http_encode(gs_slice_of(version), &path);
    l->request = kube_raw_get(l->owner->client, path.data, version_answered, l);
}

// --- the versions of a group, the preferred one first ---
static void read_versions(struct hpa_lookup *l, const json_t *group)
{
    const char *preferred = codec_json_str(group, "preferredVersion", "version", NULL);
    const json_t *versions = json_object_get(group, "versions");
    l->versions = json_array();
    if (preferred)
        json_array_append_new(l->versions, json_string(preferred));
    for (size_t i = 0; i < json_array_size(versions) && i < MAX_VERSIONS; i++) {
        const char *v = codec_json_str(json_array_get(versions, i), "version", NULL);
        if (v && !gs_streq(v, preferred))
            json_array_append_new(l->versions, json_string(v));
    }
}

static void group_answered(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_lookup *l = arg;
    l->request = NULL;
    if (err && status != 404) {
        lookup_end(l, err);
        return;
    }
    read_versions(l, err ? NULL : body);
    gs_error_free(err);
    request_next_version(l);
}

static void request_group(struct hpa_lookup *l)
{
    if (!*l->group) {
        l->versions = json_pack("[s]", "v1");
        request_next_version(l);
        return;
    }
    GS_AUTO_BUF struct gs_buf path = {0};
    gs_buf_add_str(&path, "/apis/");
    http_encode(gs_slice_of(l->group), &path);
    l->request = kube_raw_get(l->owner->client, path.data, group_answered, l);
}

struct hpa_lookup *hpa_resources_discover(struct hpa_resources *r, const char *api_version,
                                          const char *kind,
                                          void (*cb)(void *arg, struct gs_error *err), void *arg)
{
    struct hpa_lookup *l = gs_alloc(sizeof(*l));
    const char *slash = strchr(api_version, '/');
    l->owner = r;
    l->api_version = gs_strdup(api_version);
    l->group = gs_strndup(api_version, slash ? (size_t)(slash - api_version) : 0);
    l->kind = gs_strdup(kind);
    l->cb = cb;
    l->arg = arg;
    l->next = r->lookups;
    if (l->next)
        l->next->prev = l;
    r->lookups = l;
    request_version(l, slash ? slash + 1 : api_version);
    return l;
}
