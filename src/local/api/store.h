// SPDX-License-Identifier: Apache-2.0
// The store of API objects: an index in memory for reads, SQLite for restarts, and a ring of the
// last changes for watches. Private to the API server.
//
// One counter gives every change its resourceVersion. A stored object never changes: a write
// creates a new version that replaces it. A write is on disk (in SQLite's WAL) before readers see
// it. If the disk write fails, nothing changes. Only the thread that opened the store may use it.
#pragma once

#include "base/slice.h"
#include "codec/json.h"

#include <stdint.h>

struct local_api_store;

// One state of one object, shared by the index, the ring and running requests.
struct local_api_store_version {
    unsigned refs;
    uint64_t rv;
    json_t *tree; // NULL after a newer version replaced it; use local_api_store_version_tree()
    char *text;   // compact JSON
    size_t text_len;
    size_t memory; // of text and tree, in bytes
};
struct local_api_store_version *
local_api_store_version_ref(const struct local_api_store_version *v);  // NULL is fine
void local_api_store_version_unref(struct local_api_store_version *v); // NULL is fine
GS_DEFINE_CLEANUP(struct local_api_store_version *, local_api_store_version_unref)
// New reference. Parses the text if the tree was freed.
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
    // LOCAL_API_STORE_DELETED: the last state with the resourceVersion of the deletion.
    struct local_api_store_version *after;
};

struct local_api_store_config {
    const char *path;                // SQLite file; NULL: memory only
    const char *const *bucket_names; // n_buckets distinct names, one per resource
    size_t n_buckets;
    size_t max_objects; // over all buckets; 0: 100000
    size_t ring_len;    // changes kept for watches; 0: 10000
    size_t ring_bytes;  // of their JSON text; 0: 16 MiB
    // Called after each change, inside the writing call.
    void (*on_change)(void *arg, const struct local_api_store_change *change);
    void *arg;
};

// A corrupt file is renamed to "….corrupt-TIME" with a warning in the log, and an empty one is
// created. GS_EEXIST: another process has it open.
struct gs_error *local_api_store_open(const struct local_api_store_config *cfg,
                                      struct local_api_store **ret);
void local_api_store_close(struct local_api_store *s);
GS_DEFINE_CLEANUP(struct local_api_store *, local_api_store_close)

// The bucket of a name that was not among bucket_names; created if absent. Buckets are never
// removed. Objects on disk of buckets that nobody requested are kept and not listed.
size_t local_api_store_bucket(struct local_api_store *s, const char *name);
uint64_t local_api_store_rv(const struct local_api_store *s); // of the last change
size_t local_api_store_len(const struct local_api_store *s, size_t bucket);
size_t local_api_store_total(const struct local_api_store *s); // objects in all buckets
// The memory of the objects of a bucket, and of all buckets, in bytes.
size_t local_api_store_memory(const struct local_api_store *s, size_t bucket);
size_t local_api_store_total_memory(const struct local_api_store *s);
// The memory that an object would take in the store.
size_t local_api_store_memory_of(const json_t *obj);
// ns "" for cluster-scoped objects. NULL if absent. Borrowed until the next write.
const struct local_api_store_version *local_api_store_get(const struct local_api_store *s,
                                                          size_t bucket, const char *ns,
                                                          const char *name);
// Objects are ordered by namespace, then name. seek returns the first index at or after (ns, name),
// at returns the object at an index, NULL after the last. A write to the bucket invalidates
// indices.
size_t local_api_store_seek(const struct local_api_store *s, size_t bucket, const char *ns,
                            const char *name);
const struct local_api_store_version *local_api_store_at(const struct local_api_store *s,
                                                         size_t bucket, size_t i,
                                                         const char **ret_ns,
                                                         const char **ret_name);

// Adds or replaces the object named by its metadata. Takes obj, sets metadata.resourceVersion.
// GS_ELIMIT: too many objects. GS_EIO: the disk write failed. ret may be NULL; borrowed.
struct gs_error *local_api_store_put(struct local_api_store *s, size_t bucket, json_t *obj,
                                     const struct local_api_store_version **ret);
struct gs_error *local_api_store_delete(struct local_api_store *s, size_t bucket, const char *ns,
                                        const char *name);

// Replays the changes after `rv` in order. False, without a call, if the ring no longer contains
// them (410 Gone). fn must not write to the store.
bool local_api_store_replay(const struct local_api_store *s, uint64_t rv,
                            void (*fn)(void *arg, const struct local_api_store_change *change),
                            void *arg);
// The smallest rv that local_api_store_replay accepts.
uint64_t local_api_store_oldest_rv(const struct local_api_store *s);

// --- store_db.c: the SQLite file of the store ---
// One row per object, WAL mode, one transaction per write. An exclusive lock keeps a second program
// from using the data directory.

struct local_api_store_db;

typedef void (*local_api_store_db_row_fn)(void *arg, const char *bucket, const char *ns,
                                          const char *name, uint64_t rv, struct gs_slice body);

struct gs_error *local_api_store_db_open(const char *path, struct local_api_store_db **ret);
void local_api_store_db_close(struct local_api_store_db *db);
GS_DEFINE_CLEANUP(struct local_api_store_db *, local_api_store_db_close)
// Calls fn for all rows. ret_rv: the greatest resourceVersion of any change so far.
struct gs_error *local_api_store_db_load(struct local_api_store_db *db,
                                         local_api_store_db_row_fn fn, void *arg, uint64_t *ret_rv);
struct gs_error *local_api_store_db_put(struct local_api_store_db *db, const char *bucket,
                                        const char *ns, const char *name, uint64_t rv,
                                        struct gs_slice body);
struct gs_error *local_api_store_db_delete(struct local_api_store_db *db, const char *bucket,
                                           const char *ns, const char *name, uint64_t rv);
