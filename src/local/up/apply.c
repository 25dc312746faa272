// SPDX-License-Identifier: Apache-2.0
// Applies files at the start, one object after the other: create, or merge patch if it exists, with
// kubectl's annotation. The resource of a kind comes from discovery each time, since an object may
// have added it.
#include "up/up_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"

struct item {
    json_t *object;
    char *where; // "file.yaml:12"
    char *group, *version;
    char *resource; // from the API's discovery, when it is applied
    bool namespaced;
    bool of_file; // not of --values
};

struct up_apply {
    struct item *items;
    size_t len, cap, next;
    struct kube_client *client;
    struct kube_request *request;
    void (*done)(void *arg, struct gs_error *err);
    void *arg;
};

static struct gs_error *add_file_object(struct up_apply *a, json_t *object, const char *path,
                                        int line)
{
    const char *api_version = kube_api_version(object), *kind = kube_kind(object);
    if (!api_version || !kind || !kube_name(object))
        return gs_error_new(GS_EINVAL, "%s:%d: %s is not set", path, line,
                            !api_version ? "apiVersion"
                            : !kind      ? "kind"
                                         : "metadata.name");
    gs_grow(&a->items, &a->cap, a->len, sizeof(*a->items));
    struct item *it = &a->items[a->len++];
    const char *slash = strchr(api_version, '/');
    it->object = json_incref(object);
    it->of_file = line > 0;
    it->where = line ? gs_format("%s:%d", path, line) : gs_strdup(path);
    it->group = slash ? gs_strndup(api_version, (size_t)(slash - api_version)) : gs_strdup("");
    it->version = gs_strdup(slash ? slash + 1 : api_version);
    return NULL;
}

static struct gs_error *add_document(struct up_apply *a, const struct codec_yaml_doc *doc,
                                     const char *path)
{
    const json_t *list =
        gs_streq(kube_kind(doc->value), "List") ? json_object_get(doc->value, "items") : NULL;
    if (!json_is_object(doc->value))
        return gs_error_new(GS_EINVAL, "%s:%d: not a Kubernetes object", path, doc->line);
    if (!list)
        return add_file_object(a, doc->value, path, doc->line);
    size_t i;
    json_t *object;
    json_array_foreach (list, i, object) {
        struct gs_error *err = add_file_object(a, object, path, doc->line);
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *up_apply_load(const char *const *paths, size_t n, struct up_apply **ret)
{
    struct up_apply *a = gs_alloc(sizeof(*a));
    struct gs_error *err = NULL;
    for (size_t i = 0; i < n && !err; i++) {
        struct codec_yaml_docs docs = {0};
        err = codec_yaml_load_file(paths[i], &docs);
        for (size_t k = 0; k < docs.len && !err; k++)
            err = add_document(a, &docs.items[k], paths[i]);
        codec_yaml_docs_finish(&docs);
    }
    if (err) {
        up_apply_free(a);
        return err;
    }
    *ret = a;
    return NULL;
}

struct gs_error *up_apply_add(struct up_apply *a, const json_t *objects, const char *where)
{
    size_t i;
    json_t *object;
    struct gs_error *err = NULL;
    json_array_foreach (objects, i, object)
        if (!err)
            err = add_file_object(a, object, where, 0);
    return err;
}

static void apply_next(struct up_apply *a);

static struct kube_gvr gvr_of(const struct item *it)
{
    return (struct kube_gvr){it->group, it->version, it->resource};
}

// NULL: the kind is cluster-scoped.
static const char *namespace_of(const struct item *it)
{
    const char *ns = kube_namespace(it->object);
    return !it->namespaced ? NULL : ns ? ns : "default";
}

static void end_apply(struct up_apply *a, struct gs_error *err)
{
    a->done(a->arg, err);
}

static void end_item(struct up_apply *a, const char *verb, struct gs_error *err)
{
    struct item *it = &a->items[a->next];
    a->request = NULL;
    if (err) {
        end_apply(a, gs_error_wrap(err, "%s: %s %s", it->where, kube_kind(it->object),
                                   kube_name(it->object)));
        return;
    }
    gs_info("up", "%s/%s %s", it->resource, kube_name(it->object), verb);
    a->next++;
    apply_next(a);
}

static void on_patched(void *arg, int status, json_t *body, struct gs_error *err)
{
    (void)status, (void)body;
    end_item(arg, "configured", err);
}

static void on_existing(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct up_apply *a = arg;
    const struct item *it = &a->items[a->next];
    (void)status;
    if (err) {
        end_item(a, "", err);
        return;
    }
    CODEC_AUTO_JSON json_t *patch = up_last_applied_patch(it->object, body);
    a->request = kube_patch(a->client, gvr_of(it), namespace_of(it), kube_name(it->object), NULL,
                            KUBE_MERGE_PATCH, patch, on_patched, a);
}

static void on_created(void *arg, int status, json_t *body, struct gs_error *err)
{
    (void)status, (void)body;
    struct up_apply *a = arg;
    struct item *it = &a->items[a->next];
    if (!err || gs_error_code(err) != GS_EEXIST) {
        end_item(a, "created", err);
        return;
    }
    gs_error_free(err);
    a->request = kube_get(a->client, gvr_of(it), namespace_of(it), kube_name(it->object), NULL,
                          on_existing, a);
}

static const json_t *resource_of_kind(const json_t *discovery, const char *kind)
{
    size_t i;
    json_t *resource;
    json_array_foreach (json_object_get(discovery, "resources"), i, resource) {
        const char *name = codec_json_str(resource, "name", NULL);
        if (name && !strchr(name, '/') && gs_streq(codec_json_str(resource, "kind", NULL), kind))
            return resource;
    }
    return NULL;
}

// Each time: an object may have added its kind just before.
static void on_discovered(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct up_apply *a = arg;
    struct item *it = &a->items[a->next];
    const char *kind = kube_kind(it->object);
    const json_t *resource = err ? NULL : resource_of_kind(body, kind);
    if (err && gs_error_code(err) != GS_ENOTFOUND) {
        end_item(a, "", err);
        return;
    }
    gs_error_free(err);
    (void)status;
    if (!resource) {
        end_item(a, "",
                 gs_error_new(GS_EINVAL, "no matches for kind \"%s\" in version \"%s\"", kind,
                              kube_api_version(it->object)));
        return;
    }
    it->resource = gs_strdup(codec_json_str(resource, "name", NULL));
    it->namespaced = codec_json_bool(resource, false, "namespaced", NULL);
    if (it->of_file) {
        json_t *annotated = up_last_applied_add(it->object, namespace_of(it));
        json_decref(it->object);
        it->object = annotated;
    }
    a->request = kube_create(a->client, gvr_of(it), namespace_of(it), it->object, on_created, a);
}

static void apply_next(struct up_apply *a)
{
    if (a->next == a->len) {
        end_apply(a, NULL);
        return;
    }
    const struct item *it = &a->items[a->next];
    GS_AUTO_FREE char *path = *it->group ? gs_format("/apis/%s/%s", it->group, it->version)
                                         : gs_format("/api/%s", it->version);
    a->request = kube_raw_get(a->client, path, on_discovered, a);
}

void up_apply_start(struct up_apply *a, struct kube_client *client,
                    void (*done)(void *arg, struct gs_error *err), void *arg)
{
    a->client = client;
    a->done = done;
    a->arg = arg;
    apply_next(a);
}

void up_apply_free(struct up_apply *a)
{
    if (!a)
        return;
    kube_request_cancel(a->request);
    for (size_t i = 0; i < a->len; i++) {
        json_decref(a->items[i].object);
        free(a->items[i].where);
        free(a->items[i].group);
        free(a->items[i].version);
        free(a->items[i].resource);
    }
    free(a->items);
    free(a);
}
