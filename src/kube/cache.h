// SPDX-License-Identifier: Apache-2.0
// A local copy of one resource, kept by list and watch (re-listing after 410 Gone, back-off on
// failure), with handlers. Objects are shared and must not be changed: json_deep_copy first.
#pragma once

#include "kube/client.h"

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
