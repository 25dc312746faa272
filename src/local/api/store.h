// SPDX-License-Identifier: Apache-2.0
// Where the API's objects live: an index in memory for reading, SQLite for surviving a restart, and
// a ring of the last changes for watches. Private to the API server.
//
// One counter gives every change its resourceVersion. A stored object never changes: a write makes
// a new version that replaces it. A write is on disk (in SQLite's WAL) before it is seen by
// readers; when the disk refuses it, nothing has changed. Single-threaded.
#pragma once

#include "codec/json.h"

struct local_api_store;

// One state of one object, shared by the index, the ring and running requests.
struct local_api_store_version {
    unsigned refs;
    uint64_t rv;
    json_t *tree; // NULL once another version replaced this one; use local_api_store_version_tree()
    char *text;   // compact JSON
    size_t text_len;
};
void local_api_store_version_unref(struct local_api_store_version *v); // NULL is fine
GS_DEFINE_CLEANUP(struct local_api_store_version *, local_api_store_version_unref)
// New reference; parses the text when the tree is gone.
json_t *local_api_store_version_tree(const struct local_api_store_version *v);

enum local_api_store_change_type {
    LOCAL_API_STORE_ADDED,
    LOCAL_API_STORE_MODIFIED,
    LOCAL_API_STORE_DELETED
};
struct local_api_store_change {
    uint64_t rv;
    size_t bucket;
    enum local_api_store_change_type type;
    struct local_api_store_version *before; // NULL for LOCAL_API_STORE_ADDED
    struct local_api_store_version
        *after; // of LOCAL_API_STORE_DELETED: the last state under the deletion's version
};

struct local_api_store_config {
    const char *path;                // SQLite file; NULL: memory only
    const char *const *bucket_names; // n_buckets distinct names, one a kind of object
    size_t n_buckets;
    size_t max_objects; // over all buckets; 0: 100000
    size_t ring_len;    // changes kept for watches; 0: 10000
    size_t ring_bytes;  // of JSON text held by them; 0: 16 MiB
    // Called after each change, from inside the writing call.
    void (*on_change)(void *arg, const struct local_api_store_change *change);
    void *arg;
};

// A file that is not a sound database is set aside ("….corrupt-TIME") with a warning in the log,
// and an empty one is started. GS_EEXIST: another process has it open.
struct gs_error *local_api_store_open(const struct local_api_store_config *cfg,
                                      struct local_api_store **ret);
void local_api_store_close(struct local_api_store *s);
GS_DEFINE_CLEANUP(struct local_api_store *, local_api_store_close)

uint64_t local_api_store_rv(const struct local_api_store *s); // of the last change
size_t local_api_store_len(const struct local_api_store *s, size_t bucket);
size_t local_api_store_total(const struct local_api_store *s); // objects in all buckets
// ns "" for cluster-scoped objects. NULL when absent. Borrowed until the next write.
const struct local_api_store_version *local_api_store_get(const struct local_api_store *s,
                                                          size_t bucket, const char *ns,
                                                          const char *name);
// Objects in order of namespace, then name: the first index at or after (ns, name), and the object
// at an index, NULL behind the last. Indices hold until the next write to the bucket.
size_t local_api_store_seek(const struct local_api_store *s, size_t bucket, const char *ns,
                            const char *name);
const struct local_api_store_version *local_api_store_at(const struct local_api_store *s,
                                                         size_t bucket, size_t i,
                                                         const char **ret_ns,
                                                         const char **ret_name);

// Adds or replaces the object named by its metadata. Takes obj, sets metadata.resourceVersion.
// GS_ELIMIT: too many objects; GS_EIO: the disk refused. ret may be NULL; borrowed.
struct gs_error *local_api_store_put(struct local_api_store *s, size_t bucket, json_t *obj,
                                     const struct local_api_store_version **ret);
struct gs_error *local_api_store_delete(struct local_api_store *s, size_t bucket, const char *ns,
                                        const char *name);

// Replays changes after `rv` in order. false: the ring does not reach back that far (410 Gone);
// then nothing was called. fn must not write to the store.
bool local_api_store_replay(const struct local_api_store *s, uint64_t rv,
                            void (*fn)(void *arg, const struct local_api_store_change *change),
                            void *arg);
uint64_t local_api_store_oldest_rv(
    const struct local_api_store *s); // the smallest rv that local_api_store_replay accepts
