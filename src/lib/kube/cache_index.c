// SPDX-License-Identifier: Apache-2.0
// Finds the objects of a cache by namespace and label, so that a selector does not visit all pods
// of a large cluster. Keys of labels are indexed when a selector first requires them.
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/kube_private.h"
#include "kube/object.h"
#include "kube/selector.h"

// Selectors of workloads use two or three. Others visit the objects of their namespace.
#define MAX_KEYS 8

struct bucket {
    const json_t **objects; // borrowed from the cache
    size_t n, cap;
};

struct kube_index {
    char *keys[MAX_KEYS]; // of labels; the first is "": all objects of a namespace
    size_t n_keys;
    struct gs_hmap *buckets; // "key/namespace/value" with NUL instead of "/" to struct bucket
};

static void free_bucket(void *value)
{
    struct bucket *b = value;
    free(b->objects);
    free(b);
}

struct kube_index *kube_index_new(void)
{
    struct kube_index *x = gs_alloc(sizeof(*x));
    x->buckets = gs_hmap_new(free_bucket);
    return x;
}

void kube_index_free(struct kube_index *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->n_keys; i++)
        free(x->keys[i]);
    gs_hmap_free(x->buckets);
    free(x);
}

static void add_part(struct gs_buf *out, const char *text)
{
    gs_buf_add(out, text, strlen(text) + 1);
}

static struct gs_slice bucket_key(struct gs_buf *out, const char *key, const char *ns,
                                  const char *value)
{
    gs_buf_clear(out);
    add_part(out, key);
    add_part(out, ns ? ns : "");
    add_part(out, value);
    return gs_buf_slice(out);
}

// The value by which the object is found. NULL: it has no such label.
static const char *value_of(const json_t *object, const char *key)
{
    return *key ? codec_json_str(object, "metadata", "labels", key, NULL) : "";
}

static void bucket_add(struct kube_index *x, const char *key, const json_t *object)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *value = value_of(object, key);
    if (!value)
        return;
    struct gs_slice at = bucket_key(&text, key, kube_namespace(object), value);
    struct bucket *b = gs_hmap_get(x->buckets, at);
    if (!b) {
        b = gs_alloc(sizeof(*b));
        gs_hmap_put(x->buckets, at, b);
    }
    gs_grow(&b->objects, &b->cap, b->n, sizeof(*b->objects));
    b->objects[b->n++] = object;
}

static void bucket_remove(struct kube_index *x, const char *key, const json_t *object)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *value = value_of(object, key);
    if (!value)
        return;
    struct gs_slice at = bucket_key(&text, key, kube_namespace(object), value);
    struct bucket *b = gs_hmap_get(x->buckets, at);
    for (size_t i = 0; b && i < b->n; i++)
        if (b->objects[i] == object) {
            b->objects[i] = b->objects[--b->n];
            break;
        }
    if (b && !b->n)
        free_bucket(gs_hmap_remove(x->buckets, at));
}

void kube_index_replace(struct kube_index *x, const json_t *old_obj, const json_t *new_obj)
{
    for (size_t i = 0; i < x->n_keys; i++) {
        if (old_obj)
            bucket_remove(x, x->keys[i], old_obj);
        if (new_obj)
            bucket_add(x, x->keys[i], new_obj);
    }
}

// False: too many keys.
static bool want_key(struct kube_index *x, const struct gs_hmap *objects, const char *key)
{
    for (size_t i = 0; i < x->n_keys; i++)
        if (gs_streq(x->keys[i], key))
            return true;
    if (x->n_keys == MAX_KEYS)
        return false;
    x->keys[x->n_keys++] = gs_strdup(key);
    size_t pos = 0;
    void *object;
    struct gs_slice name;
    while (gs_hmap_next(objects, &pos, &name, &object))
        bucket_add(x, key, object);
    return true;
}

static const struct bucket *find_bucket(struct kube_index *x, const struct gs_hmap *objects,
                                        const char *key, const char *ns, const char *value)
{
    static const struct bucket none;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!want_key(x, objects, key))
        return NULL;
    const struct bucket *b = gs_hmap_get(x->buckets, bucket_key(&text, key, ns, value));
    return b ? b : &none;
}

const json_t *const *kube_index_find(struct kube_index *x, const struct gs_hmap *objects,
                                     const char *ns, const struct kube_selector *s, size_t *ret_n)
{
    const struct bucket *best = find_bucket(x, objects, "", ns, "");
    for (size_t i = 0; i < s->len; i++) {
        const struct kube_requirement *r = &s->items[i];
        const struct bucket *b = r->op == KUBE_SEL_EQ && r->n_values == 1
                                     ? find_bucket(x, objects, r->key, ns, r->values[0])
                                     : NULL;
        if (b && b->n < best->n)
            best = b;
    }
    *ret_n = best->n;
    return best->objects;
}
