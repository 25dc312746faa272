// SPDX-License-Identifier: Apache-2.0
// A cache of one resource, filled by list and watch, and reports of errors that prevent this.
#pragma once

#include "kube/client.h"

// The cache lists the resource again after 410 Gone, and with exponential backoff after failures.
// Objects are shared and must not be changed: use json_deep_copy first. Only the thread of the loop
// may use a cache.

struct kube_cache;
struct kube_selector;

struct kube_cache_handlers {
    // old NULL: added; new NULL: deleted. Called after the cache itself has changed.
    void (*on_change)(void *arg, const json_t *old_obj, const json_t *new_obj);
    void (*on_synced)(void *arg); // called once, after the first list
    void *arg;
};

// ns NULL: all namespaces. query: extra encoded parameters or NULL.
struct kube_cache *kube_cache_new(uv_loop_t *loop, struct kube_client *client, struct kube_gvr r,
                                  const char *ns, const char *query);
// Adds handlers (copied). If the cache is synced, on_change is called for the existing objects, and
// then on_synced, before this returns.
void kube_cache_add_handlers(struct kube_cache *c, const struct kube_cache_handlers *h);
// Removes the handlers with this arg. They are not called again.
void kube_cache_remove_handlers(struct kube_cache *c, const void *arg);
// trim removes unneeded members of an object before it is stored. Call before the start.
void kube_cache_set_trim(struct kube_cache *c, void (*trim)(json_t *obj));
void kube_cache_start(struct kube_cache *c);
// It may be called inside a handler. The memory is freed after the loop has closed the cache's
// timer.
void kube_cache_free(struct kube_cache *c);

bool kube_cache_synced(const struct kube_cache *c);
const json_t *kube_cache_get(const struct kube_cache *c, const char *ns, const char *name);
size_t kube_cache_len(const struct kube_cache *c);
// Iteration in unspecified order; *pos starts at 0; NULL at the end.
const json_t *kube_cache_next(const struct kube_cache *c, size_t *pos);
// Iteration over the objects of a namespace that the selector selects, as of kube_cache_next(). It
// visits only objects with a label value that the selector requires. The cache must not change
// meanwhile.
const json_t *kube_cache_select(const struct kube_cache *c, const char *ns,
                                const struct kube_selector *s, size_t *pos);
json_t *kube_cache_objects(const struct kube_cache *c); // as an array, which holds them
// Last list or watch failure, NULL if healthy.
const char *kube_cache_error(const struct kube_cache *c);
bool kube_cache_denied(const struct kube_cache *c); // that failure was 401 or 403

// --- errors ---

// Missing permission must not look like an empty resource: the cause of a list failure is logged,
// each cause once. A resource that the API does not serve is not an error.

struct kube_watch_errors;
// component: of the log lines. what: subject of the text, such as "ServiceMonitor objects". The
// cache is borrowed and must outlive it.
struct kube_watch_errors *kube_watch_errors_new(uv_loop_t *loop, const struct kube_cache *cache,
                                                const char *component, const char *what);
void kube_watch_errors_free(struct kube_watch_errors *w);
