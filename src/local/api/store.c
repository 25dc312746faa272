// SPDX-License-Identifier: Apache-2.0
// Each bucket is an array sorted by (namespace, name): lists come out in Kubernetes' order and
// pages continue by binary search. An insert moves pointers, which for the object counts of one
// machine is cheaper than a tree.
#include "local/api/store.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>

#define DEFAULT_MAX_OBJECTS 100000
#define DEFAULT_RING_LEN    10000
#define DEFAULT_RING_BYTES  ((size_t)16 << 20)

struct entry {
    char *ns, *name;
    struct local_api_store_version *version;
};

struct bucket {
    struct entry *items;
    size_t len, cap;
    size_t memory; // of the objects, in bytes
};

struct local_api_store {
    struct local_api_store_db *db;
    struct bucket *buckets;
    char **bucket_names;
    size_t n_buckets, buckets_cap, names_cap;
    size_t n_objects, max_objects;
    uint64_t rv;
    // Ring of changes: ring[(first + i) % ring_cap], 0 <= i < ring_len.
    struct local_api_store_change *ring;
    size_t ring_cap, ring_first, ring_len;
    size_t ring_bytes, ring_max_bytes;
    uint64_t forgotten_rv; // of the newest change that is no longer in the ring
    void (*on_change)(void *arg, const struct local_api_store_change *change);
    void *arg;
};

// --- versions ---

static struct local_api_store_version *version_new(json_t *tree, uint64_t rv)
{
    struct local_api_store_version *v = gs_alloc(sizeof *v);
    struct gs_buf text = {0};

    codec_json_dump(tree, &text);
    v->refs = 1;
    v->rv = rv;
    v->tree = tree;
    v->text_len = text.len;
    v->memory = text.len + codec_json_memory(tree);
    v->text = gs_buf_take(&text);
    return v;
}

struct local_api_store_version *
local_api_store_version_ref(const struct local_api_store_version *shared)
{
    struct local_api_store_version *v = (struct local_api_store_version *)shared;

    if (v)
        v->refs++;
    return v;
}

void local_api_store_version_unref(struct local_api_store_version *v)
{
    if (!v || --v->refs > 0)
        return;
    json_decref(v->tree);
    free(v->text);
    free(v);
}

json_t *local_api_store_version_tree(const struct local_api_store_version *v)
{
    json_t *tree = NULL;

    if (v->tree)
        return json_incref(v->tree);
    GS_AUTO_ERROR struct gs_error *err =
        codec_json_parse_accepted(gs_slice_make(v->text, v->text_len), &tree);
    return err ? json_object() : tree;
}

// --- index ---

static int compare(const struct entry *e, const char *ns, const char *name)
{
    int c = strcmp(e->ns, ns);
    return c != 0 ? c : strcmp(e->name, name);
}

size_t local_api_store_seek(const struct local_api_store *s, size_t bucket, const char *ns,
                            const char *name)
{
    const struct bucket *b = &s->buckets[bucket];
    size_t lo = 0, hi = b->len;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare(&b->items[mid], ns, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct entry *find(const struct local_api_store *s, size_t bucket, const char *ns,
                          const char *name)
{
    const struct bucket *b = &s->buckets[bucket];
    size_t i = local_api_store_seek(s, bucket, ns, name);

    return i < b->len && compare(&b->items[i], ns, name) == 0 ? &b->items[i] : NULL;
}

static void insert(struct local_api_store *s, size_t bucket, const char *ns, const char *name,
                   struct local_api_store_version *version)
{
    struct bucket *b = &s->buckets[bucket];
    size_t i = local_api_store_seek(s, bucket, ns, name);

    gs_grow(&b->items, &b->cap, b->len, sizeof *b->items);
    memmove(&b->items[i + 1], &b->items[i], (b->len - i) * sizeof *b->items);
    b->items[i] = (struct entry){gs_strdup(ns), gs_strdup(name), version};
    b->len++;
    b->memory += version->memory;
    s->n_objects++;
}

static void entry_finish(struct entry *e)
{
    free(e->ns);
    free(e->name);
    local_api_store_version_unref(e->version);
}

static void erase(struct local_api_store *s, size_t bucket, struct entry *e)
{
    struct bucket *b = &s->buckets[bucket];
    size_t i = (size_t)(e - b->items);

    b->memory -= e->version->memory;
    entry_finish(e);
    memmove(e, e + 1, (b->len - i - 1) * sizeof *e);
    b->len--;
    s->n_objects--;
}

uint64_t local_api_store_rv(const struct local_api_store *s)
{
    return s->rv;
}

size_t local_api_store_len(const struct local_api_store *s, size_t bucket)
{
    return s->buckets[bucket].len;
}

size_t local_api_store_total(const struct local_api_store *s)
{
    return s->n_objects;
}

size_t local_api_store_memory(const struct local_api_store *s, size_t bucket)
{
    return s->buckets[bucket].memory;
}

size_t local_api_store_total_memory(const struct local_api_store *s)
{
    size_t sum = 0;

    for (size_t b = 0; b < s->n_buckets; b++)
        sum += s->buckets[b].memory;
    return sum;
}

size_t local_api_store_memory_of(const json_t *obj)
{
    return json_dumpb(obj, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) + codec_json_memory(obj);
}

const struct local_api_store_version *local_api_store_get(const struct local_api_store *s,
                                                          size_t bucket, const char *ns,
                                                          const char *name)
{
    const struct entry *e = find(s, bucket, ns, name);
    return e ? e->version : NULL;
}

const struct local_api_store_version *local_api_store_at(const struct local_api_store *s,
                                                         size_t bucket, size_t i,
                                                         const char **ret_ns, const char **ret_name)
{
    const struct bucket *b = &s->buckets[bucket];

    if (i >= b->len)
        return NULL;
    if (ret_ns)
        *ret_ns = b->items[i].ns;
    if (ret_name)
        *ret_name = b->items[i].name;
    return b->items[i].version;
}

size_t local_api_store_bucket(struct local_api_store *s, const char *name)
{
    for (size_t b = 0; b < s->n_buckets; b++)
        if (strcmp(s->bucket_names[b], name) == 0)
            return b;
    gs_grow(&s->buckets, &s->buckets_cap, s->n_buckets, sizeof *s->buckets);
    gs_grow(&s->bucket_names, &s->names_cap, s->n_buckets, sizeof *s->bucket_names);
    s->buckets[s->n_buckets] = (struct bucket){0};
    s->bucket_names[s->n_buckets] = gs_strdup(name);
    return s->n_buckets++;
}

// --- ring ---

static size_t change_bytes(const struct local_api_store_change *c)
{
    // The analyzer takes each place of the ring for the one dropped last.
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    return c->after->text_len + (c->before ? c->before->text_len : 0) + sizeof *c;
}

static void ring_drop_first(struct local_api_store *s)
{
    struct local_api_store_change *c = &s->ring[s->ring_first];

    s->forgotten_rv = c->rv;
    s->ring_bytes -= change_bytes(c);
    local_api_store_version_unref(c->before);
    local_api_store_version_unref(c->after);
    s->ring_first = (s->ring_first + 1) % s->ring_cap;
    s->ring_len--;
}

static void ring_add(struct local_api_store *s, const struct local_api_store_change *c)
{
    while (s->ring_len > 0 &&
           (s->ring_len == s->ring_cap || s->ring_bytes + change_bytes(c) > s->ring_max_bytes))
        ring_drop_first(s);
    struct local_api_store_change *slot = &s->ring[(s->ring_first + s->ring_len) % s->ring_cap];
    *slot = *c;
    local_api_store_version_ref(slot->before); // NOLINT(clang-analyzer-unix.Malloc): likewise
    local_api_store_version_ref(slot->after);
    s->ring_len++;
    s->ring_bytes += change_bytes(c);
}

uint64_t local_api_store_oldest_rv(const struct local_api_store *s)
{
    return s->forgotten_rv;
}

bool local_api_store_replay(const struct local_api_store *s, uint64_t rv,
                            void (*fn)(void *arg, const struct local_api_store_change *change),
                            void *arg)
{
    if (rv < s->forgotten_rv)
        return false;
    for (size_t i = 0; i < s->ring_len; i++) {
        const struct local_api_store_change *c = &s->ring[(s->ring_first + i) % s->ring_cap];
        if (c->rv > rv)
            fn(arg, c);
    }
    return true;
}

// Tells the ring and the listener, then lets the replaced version keep only its text.
static void publish(struct local_api_store *s, const struct local_api_store_change *c)
{
    ring_add(s, c);
    if (s->on_change)
        s->on_change(s->arg, c);
    if (c->before) {
        json_decref(c->before->tree);
        c->before->tree = NULL;
    }
}

// --- writes ---

static void set_rv(json_t *obj, uint64_t rv)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, rv);
    codec_json_set(obj, json_string(text), "metadata", "resourceVersion", NULL);
}

static struct gs_error *check_room(const struct local_api_store *s, const struct entry *e)
{
    if (e || s->n_objects < s->max_objects)
        return NULL;
    return gs_error_new(GS_ELIMIT, "the store holds %zu objects, its limit: delete some",
                        s->n_objects);
}

struct gs_error *local_api_store_put(struct local_api_store *s, size_t bucket, json_t *obj,
                                     const struct local_api_store_version **ret)
{
    CODEC_AUTO_JSON json_t *owned = obj;
    const char *ns = codec_json_str(obj, "metadata", "namespace", NULL);
    const char *name = codec_json_str(obj, "metadata", "name", NULL);

    if (!name)
        return gs_error_new(GS_EINTERNAL, "an object without metadata.name reached the store");
    ns = ns ? ns : "";
    struct entry *e = find(s, bucket, ns, name);
    struct gs_error *err = check_room(s, e);
    if (err)
        return err;
    uint64_t rv = s->rv + 1;
    set_rv(obj, rv);
    GS_CLEANUP(local_api_store_version_unrefp)
    struct local_api_store_version *version = version_new(json_incref(owned), rv);
    if (s->db) {
        err = local_api_store_db_put(s->db, s->bucket_names[bucket], ns, name, rv,
                                     gs_slice_make(version->text, version->text_len));
        if (err)
            return err;
    }
    s->rv = rv;
    GS_CLEANUP(local_api_store_version_unrefp) struct local_api_store_version *before = NULL;
    if (e) {
        before = e->version;
        e->version = local_api_store_version_ref(version);
        s->buckets[bucket].memory += version->memory - before->memory;
    } else {
        insert(s, bucket, ns, name, local_api_store_version_ref(version));
    }
    if (ret)
        *ret = version;
    publish(s, &(struct local_api_store_change){
                   rv, bucket, before ? LOCAL_API_STORE_MODIFIED : LOCAL_API_STORE_ADDED, before,
                   version});
    return NULL;
}

struct gs_error *local_api_store_delete(struct local_api_store *s, size_t bucket, const char *ns,
                                        const char *name)
{
    struct entry *e = find(s, bucket, ns, name);

    if (!e)
        return gs_error_new(GS_ENOTFOUND, "%s \"%s\" is not in the store", s->bucket_names[bucket],
                            name);
    uint64_t rv = s->rv + 1;
    if (s->db) {
        struct gs_error *err =
            local_api_store_db_delete(s->db, s->bucket_names[bucket], ns, name, rv);
        if (err)
            return err;
    }
    s->rv = rv;
    GS_CLEANUP(local_api_store_version_unrefp)
    struct local_api_store_version *before = local_api_store_version_ref(e->version);
    json_t *last = json_deep_copy(before->tree);
    set_rv(last, rv);
    GS_CLEANUP(local_api_store_version_unrefp)
    struct local_api_store_version *after = version_new(last, rv);
    erase(s, bucket, e);
    publish(s,
            &(struct local_api_store_change){rv, bucket, LOCAL_API_STORE_DELETED, before, after});
    // No longer current: the ring keeps the text only.
    json_decref(after->tree);
    after->tree = NULL;
    return NULL;
}

// --- opening ---

static void load_row(void *arg, const char *bucket, const char *ns, const char *name, uint64_t rv,
                     struct gs_slice body)
{
    struct local_api_store *s = arg;
    json_t *tree = NULL;

    GS_AUTO_ERROR struct gs_error *err = codec_json_parse_accepted(body, &tree);
    if (err || !json_is_object(tree)) {
        gs_warn("store", "%s \"%s\": cannot be read, left out: %s", bucket, name,
                err ? gs_error_message(err) : "not an object");
        json_decref(tree);
        return;
    }
    insert(s, local_api_store_bucket(s, bucket), ns, name, version_new(tree, rv));
}

struct gs_error *local_api_store_open(const struct local_api_store_config *cfg,
                                      struct local_api_store **ret)
{
    GS_CLEANUP(local_api_store_closep) struct local_api_store *s = gs_alloc(sizeof *s);

    for (size_t i = 0; i < cfg->n_buckets; i++)
        local_api_store_bucket(s, cfg->bucket_names[i]);
    s->max_objects = cfg->max_objects ? cfg->max_objects : DEFAULT_MAX_OBJECTS;
    s->ring_cap = cfg->ring_len ? cfg->ring_len : DEFAULT_RING_LEN;
    s->ring = gs_alloc_array(s->ring_cap, sizeof *s->ring);
    s->ring_max_bytes = cfg->ring_bytes ? cfg->ring_bytes : DEFAULT_RING_BYTES;
    s->on_change = cfg->on_change;
    s->arg = cfg->arg;
    if (cfg->path) {
        struct gs_error *err = local_api_store_db_open(cfg->path, &s->db);
        if (!err)
            err = local_api_store_db_load(s->db, load_row, s, &s->rv);
        if (err)
            return err;
        s->forgotten_rv = s->rv;
    }
    *ret = GS_TAKE(s);
    return NULL;
}

void local_api_store_close(struct local_api_store *s)
{
    if (!s)
        return;
    while (s->ring_len > 0)
        ring_drop_first(s);
    for (size_t b = 0; b < s->n_buckets; b++) {
        for (size_t i = 0; i < s->buckets[b].len; i++)
            entry_finish(&s->buckets[b].items[i]);
        free(s->buckets[b].items);
        free(s->bucket_names[b]);
    }
    free(s->buckets);
    free(s->bucket_names);
    free(s->ring);
    local_api_store_db_close(s->db);
    free(s);
}
