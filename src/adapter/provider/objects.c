// SPDX-License-Identifier: Apache-2.0
// Names, labels and owners of objects, by lists of metadata only (PartialObjectMetadataList).
// Equal lists in progress are sent once, and results are shared for a short time. Bodies can be
// large, so they are read without a tree.
#include "adapter/provider/provider_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/json.h"

#include <sys/queue.h>

enum { MAX_NAMES = 100000, MAX_KEPT = 1024 };
#define MAX_REPLY ((size_t)256 * 1024 * 1024)

struct list;
struct provider_objects_op {
    TAILQ_ENTRY(provider_objects_op) peers;
    struct list *list;
    provider_objects_fn cb;
    void *arg;
};
TAILQ_HEAD(objects_ops, provider_objects_op);

// One list that is pending or cached.
struct list {
    struct provider_objects *o;
    TAILQ_ENTRY(list) all;
    char *key, *path;
    bool details;
    struct http_op *http;
    struct objects_ops ops;
    struct provider_object_names *names;
    int64_t done_ns;
};
TAILQ_HEAD(lists, list);

struct provider_objects {
    struct kube_client *kube;
    int64_t max_age_ns;
    struct gs_hmap *by_key;
    struct lists lists; // the oldest first
};

struct provider_objects *provider_objects_new(struct kube_client *kube, int64_t max_age_ms)
{
    struct provider_objects *o = gs_alloc(sizeof(*o));
    o->kube = kube;
    o->max_age_ns = max_age_ms * GS_NS_PER_MS;
    o->by_key = gs_hmap_new(NULL);
    TAILQ_INIT(&o->lists);
    return o;
}

struct provider_object_names *provider_object_names_ref(struct provider_object_names *n)
{
    n->refs++;
    return n;
}

static void detail_finish(struct provider_object_detail *d)
{
    free(d->owner_kind);
    free(d->owner_name);
    json_decref(d->labels);
}

void provider_object_names_unref(struct provider_object_names *n)
{
    if (!n || --n->refs)
        return;
    for (size_t i = 0; i < n->n; i++) {
        free(n->items[i]);
        if (n->details)
            detail_finish(&n->details[i]);
    }
    free(n->items);
    free(n->details);
    free(n);
}

static void list_free(struct list *l)
{
    TAILQ_REMOVE(&l->o->lists, l, all);
    if (gs_hmap_get_str(l->o->by_key, l->key) == l)
        gs_hmap_remove_str(l->o->by_key, l->key);
    http_op_cancel(l->http);
    provider_object_names_unref(l->names);
    free(l->key);
    free(l->path);
    free(l);
}

void provider_objects_free(struct provider_objects *o)
{
    if (!o)
        return;
    struct list *l;
    struct provider_objects_op *op;
    while ((l = TAILQ_FIRST(&o->lists))) {
        while ((op = TAILQ_FIRST(&l->ops))) {
            TAILQ_REMOVE(&l->ops, op, peers);
            free(op);
        }
        list_free(l);
    }
    gs_hmap_free(o->by_key);
    free(o);
}

// --- reading ---

struct metadata {
    struct gs_slice name, labels, owners; // labels and owners: raw JSON
};

static bool read_metadata(struct codec_json_pull *j, struct gs_arena *a, struct metadata *ret)
{
    struct gs_slice key;
    if (!codec_json_pull_object(j))
        return false;
    while (codec_json_pull_member(j, a, &key)) {
        if (gs_slice_eq_str(key, "name"))
            codec_json_pull_string(j, a, &ret->name);
        else if (gs_slice_eq_str(key, "labels"))
            codec_json_pull_skip(j, &ret->labels);
        else if (gs_slice_eq_str(key, "ownerReferences"))
            codec_json_pull_skip(j, &ret->owners);
        else
            codec_json_pull_skip(j, NULL);
    }
    return !j->bad;
}

static void read_detail(const struct metadata *m, struct provider_object_detail *ret)
{
    CODEC_AUTO_JSON json_t *owners = NULL;
    size_t i;
    json_t *o;
    *ret = (struct provider_object_detail){0};
    gs_error_free(m->labels.len ? codec_json_parse(m->labels, false, &ret->labels) : NULL);
    gs_error_free(m->owners.len ? codec_json_parse(m->owners, false, &owners) : NULL);
    json_array_foreach (owners, i, o) {
        const char *kind = codec_json_str(o, "kind", NULL), *name = codec_json_str(o, "name", NULL);
        if (!codec_json_bool(o, false, "controller", NULL) || !kind || !name || ret->owner_kind)
            continue;
        ret->owner_kind = gs_strdup(kind);
        ret->owner_name = gs_strdup(name);
    }
}

struct item {
    char *name;
    struct provider_object_detail detail;
};

struct items {
    struct item *list;
    size_t n, cap;
};

static bool read_items(struct codec_json_pull *j, bool details, struct items *out)
{
    struct gs_arena scratch = {.limit = (size_t)16 * 1024 * 1024};
    bool ok = codec_json_pull_null(j) || codec_json_pull_array(j);
    while (ok && j->depth > 1 && codec_json_pull_item(j)) {
        struct gs_slice key;
        struct metadata m = {0};
        ok = codec_json_pull_object(j);
        while (ok && codec_json_pull_member(j, &scratch, &key)) {
            if (gs_slice_eq_str(key, "metadata"))
                ok = read_metadata(j, &scratch, &m);
            else
                codec_json_pull_skip(j, NULL);
        }
        ok = ok && !j->bad && out->n < MAX_NAMES;
        if (ok && m.name.len) {
            gs_grow(&out->list, &out->cap, out->n, sizeof(*out->list));
            struct item *item = &out->list[out->n++];
            *item = (struct item){.name = gs_slice_dup(m.name)};
            if (details)
                read_detail(&m, &item->detail);
        }
        gs_arena_recycle(&scratch);
    }
    gs_arena_finish(&scratch);
    return ok && !j->bad;
}

static int compare_object_names(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

// Takes ownership of the items.
static struct provider_object_names *names_of(struct items *items, bool details)
{
    struct provider_object_names *n = gs_alloc(sizeof(*n));
    n->refs = 1;
    n->n = items->n;
    n->items = gs_alloc_array(items->n + 1, sizeof(*n->items));
    n->details = details ? gs_alloc_array(items->n + 1, sizeof(*n->details)) : NULL;
    if (items->n > 1)
        qsort(items->list, items->n, sizeof(*items->list), compare_object_names);
    for (size_t i = 0; i < items->n; i++) {
        n->items[i] = items->list[i].name;
        if (details)
            n->details[i] = items->list[i].detail;
    }
    free(items->list);
    return n;
}

static struct gs_error *read_list(struct gs_slice body, bool details,
                                  struct provider_object_names **ret)
{
    struct codec_json_pull j = codec_json_pull_of(body);
    j.max_depth = CODEC_JSON_MAX_PULL_DEPTH; // an object that is nested deeply must not hide others
    struct items items = {0};
    struct gs_arena scratch = {.limit = (size_t)1024 * 1024};
    struct gs_slice key;
    bool ok = codec_json_pull_object(&j);
    while (ok && codec_json_pull_member(&j, &scratch, &key)) {
        if (gs_slice_eq_str(key, "items"))
            ok = read_items(&j, details, &items);
        else
            codec_json_pull_skip(&j, NULL);
    }
    gs_arena_finish(&scratch);
    struct provider_object_names *n = names_of(&items, details);
    if (!ok || j.bad) {
        provider_object_names_unref(n);
        return gs_error_new(GS_EPROTO, "the cluster's list cannot be read: %s",
                            j.bad ? j.bad : "too long");
    }
    *ret = n;
    return NULL;
}

static struct gs_error *refusal(const struct http_response *a)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    gs_error_free(codec_json_parse(a->body, false, &body));
    const char *message = codec_json_str(body, "message", NULL);
    return gs_error_new(a->status == 401 || a->status == 403 ? GS_EPERM
                        : a->status == 404                   ? GS_ENOTFOUND
                                                             : GS_EUNAVAIL,
                        "%s (HTTP status %d)", message ? message : "no reason given", a->status);
}

static void drop_old(struct provider_objects *o)
{
    for (struct list *l = TAILQ_FIRST(&o->lists), *next; l; l = next) {
        bool over = gs_mono_ns() - l->done_ns > o->max_age_ns || gs_hmap_len(o->by_key) > MAX_KEPT;
        if (!l->done_ns || !TAILQ_EMPTY(&l->ops) || !over)
            return;
        next = TAILQ_NEXT(l, all);
        list_free(l);
    }
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct list *l = arg;
    struct provider_objects *o = l->o;
    struct provider_objects_op *op;
    l->http = NULL;
    if (!err)
        err = a->status == 200 ? read_list(a->body, l->details, &l->names) : refusal(a);
    l->done_ns = gs_mono_ns();
    if (!err && o->max_age_ns)
        l->names->until_ns = l->done_ns + o->max_age_ns;
    if (err || o->max_age_ns == 0) // later callers send a new request
        gs_hmap_remove_str(o->by_key, l->key);
    while ((op = TAILQ_FIRST(&l->ops))) {
        TAILQ_REMOVE(&l->ops, op, peers);
        op->cb(op->arg, l->names,
               err ? gs_error_new(gs_error_code(err), "%s", gs_error_message(err)) : NULL);
        free(op);
    }
    if (err || o->max_age_ns == 0)
        list_free(l);
    gs_error_free(err);
    drop_old(o);
}

// --- requests ---

static void fetch_object_list(struct list *l)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct http_header headers[] = {
        {"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
                   "application/json"},
        {0}};
    const struct http_request request = {
        .path = l->path, .headers = headers, .max_reply = MAX_REPLY};
    l->http = http_send(kube_client_http(l->o->kube), &request, &callbacks, l);
}

struct provider_objects_op *provider_objects_list(struct provider_objects *o, struct kube_gvr r,
                                                  const char *ns, const char *selector,
                                                  bool details, provider_objects_fn cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, NULL, NULL);
    gs_buf_add_str(&path, "?resourceVersion=0");
    if (selector && *selector) {
        gs_buf_add_str(&path, "&labelSelector=");
        http_encode(gs_slice_of(selector), &path);
    }
    GS_AUTO_FREE char *key = gs_format("%c%s", details ? 'd' : 'n', path.data);
    struct list *l = gs_hmap_get_str(o->by_key, key);
    if (l && l->done_ns && gs_mono_ns() - l->done_ns <= o->max_age_ns) {
        struct provider_object_names *names = provider_object_names_ref(l->names);
        cb(arg, names, NULL);
        provider_object_names_unref(names);
        return NULL;
    }
    if (l && l->done_ns) { // expired; freed by drop_old()
        gs_hmap_remove_str(o->by_key, key);
        l = NULL;
    }
    bool fresh = !l;
    if (fresh) {
        l = gs_alloc(sizeof(*l));
        l->o = o;
        l->key = GS_TAKE(key);
        l->details = details;
        l->path = gs_strdup(path.data);
        TAILQ_INIT(&l->ops);
        TAILQ_INSERT_TAIL(&o->lists, l, all);
        gs_hmap_put_str(o->by_key, l->key, l);
    }
    struct provider_objects_op *op = gs_alloc(sizeof(*op));
    *op = (struct provider_objects_op){.list = l, .cb = cb, .arg = arg};
    TAILQ_INSERT_TAIL(&l->ops, op, peers);
    if (fresh)
        fetch_object_list(l);
    return op;
}

void provider_objects_cancel(struct provider_objects_op *op)
{
    if (!op)
        return;
    TAILQ_REMOVE(&op->list->ops, op, peers);
    free(op);
}
