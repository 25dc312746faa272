// SPDX-License-Identifier: Apache-2.0
// A local copy of one resource, kept by list and watch, and reports of why it cannot be kept.
#pragma once

#include "kube/client.h"

// The copy is listed again after 410 Gone, and with back-off on failures. Objects are shared and
// must not be changed: use json_deep_copy first. Everything runs on the loop's thread.

struct kube_cache;

struct kube_cache_handlers {
    // old NULL: added; new NULL: deleted. Called after the cache itself has changed.
    void (*on_change)(void *arg, const json_t *old_obj, const json_t *new_obj);
    void (*on_synced)(void *arg); // the first list is in; once
    void *arg;
};

// ns NULL: all namespaces. query: extra encoded parameters or NULL.
struct kube_cache *kube_cache_new(uv_loop_t *loop, struct kube_client *client, struct kube_gvr r,
                                  const char *ns, const char *query);
// Any number of handlers (copied); to one added after the sync the existing objects are replayed,
// and on_synced is called, before this returns.
void kube_cache_add_handlers(struct kube_cache *c, const struct kube_cache_handlers *h);
// Takes back the handlers with this arg: they are not called any more.
void kube_cache_remove_handlers(struct kube_cache *c, const void *arg);
// What is not needed of an object may be taken out before it is kept. Before the start.
void kube_cache_set_trim(struct kube_cache *c, void (*trim)(json_t *obj));
void kube_cache_start(struct kube_cache *c);
// May be called from inside a handler. The memory goes when the loop has closed the cache's timer.
void kube_cache_free(struct kube_cache *c);

bool kube_cache_synced(const struct kube_cache *c);
const json_t *kube_cache_get(const struct kube_cache *c, const char *ns, const char *name);
size_t kube_cache_len(const struct kube_cache *c);
// Iteration in unspecified order; *pos starts at 0; NULL at the end.
const json_t *kube_cache_next(const struct kube_cache *c, size_t *pos);
// Last list or watch failure, NULL when healthy.
const char *kube_cache_error(const struct kube_cache *c);
bool kube_cache_denied(const struct kube_cache *c); // that failure was a refusal: 401 or 403

// --- errors ---

// If objects may not be read, this must not look as if there were none: the log has the reason why
// a cache cannot be filled, once for each reason. A resource that the API does not have is no
// error.

struct kube_watch_errors;
// component: of the log. what: "ServiceMonitor objects". The cache is borrowed and must outlive it.
struct kube_watch_errors *kube_watch_errors_new(uv_loop_t *loop, const struct kube_cache *cache,
                                                const char *component, const char *what);
void kube_watch_errors_free(struct kube_watch_errors *w);
