// SPDX-License-Identifier: Apache-2.0
#include "up/up_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"

#include <ctype.h>

struct item {
    json_t *object;
    char *where; // "file.yaml:12"
    char *group, *version, *resource;
};

struct up_apply {
    struct item *items;
    size_t len, cap, next;
    struct kube_client *client;
    struct kube_request *request;
    void (*done)(void *arg, struct gs_error *err);
    void *arg;
};

// The plural of a kind, by the rules that all built-in kinds of Kubernetes follow.
static char *plural_of(const char *kind)
{
    char *lower = gs_strdup(kind);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    size_t n = strlen(lower);
    char *plural;
    if (gs_streq(lower, "endpoints"))
        return lower;
    if (n > 1 && lower[n - 1] == 'y' && !strchr("aeiou", lower[n - 2]))
        plural = gs_format("%.*sies", (int)(n - 1), lower);
    else if (gs_ends(lower, "s") || gs_ends(lower, "x") || gs_ends(lower, "ch"))
        plural = gs_format("%ses", lower);
    else
        plural = gs_format("%ss", lower);
    free(lower);
    return plural;
}

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
    it->where = line ? gs_format("%s:%d", path, line) : gs_strdup(path);
    it->group = slash ? gs_strndup(api_version, (size_t)(slash - api_version)) : gs_strdup("");
    it->version = gs_strdup(slash ? slash + 1 : api_version);
    it->resource = plural_of(kind);
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
    static const char *const cluster_scoped[] = {"namespaces",
                                                 "nodes",
                                                 "clusterroles",
                                                 "clusterrolebindings",
                                                 "storageclasses",
                                                 "apiservices",
                                                 "customresourcedefinitions"};
    for (size_t i = 0; i < GS_ARRAY_LEN(cluster_scoped); i++)
        if (gs_streq(it->resource, cluster_scoped[i]))
            return NULL;
    const char *ns = kube_namespace(it->object);
    return ns ? ns : "default";
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
    a->request = kube_patch(a->client, gvr_of(it), namespace_of(it), kube_name(it->object), NULL,
                            KUBE_MERGE_PATCH, it->object, on_patched, a);
}

static void apply_next(struct up_apply *a)
{
    if (a->next == a->len) {
        end_apply(a, NULL);
        return;
    }
    struct item *it = &a->items[a->next];
    a->request = kube_create(a->client, gvr_of(it), namespace_of(it), it->object, on_created, a);
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
