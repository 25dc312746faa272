// SPDX-License-Identifier: Apache-2.0
// A work queue of object keys ("ns/name") for controllers. A key that is added several times is
// reconciled once. Reconciliations of one key never overlap; a key that is added during one is
// reconciled again. Failures are retried with exponential backoff. A reconciliation reads caches,
// decides, and writes through local_reconcile_*(). It ends when its function has returned and all
// its writes are answered. Only the thread that made the queue may use it.
#pragma once

#include "kube/event.h"

#include <uv.h>

struct local_workqueue;
struct local_reconcile; // one reconciliation of a key; valid until its last write is answered

typedef void (*local_reconcile_fn)(void *arg, struct local_reconcile *w, const char *ns,
                                   const char *name);

// name: component, for logs.
struct local_workqueue *local_workqueue_new(uv_loop_t *loop, struct kube_client *client,
                                            const char *name, local_reconcile_fn fn, void *arg);
void local_workqueue_free(struct local_workqueue *q); // cancels all writes
// ns NULL: cluster-scoped. Nothing runs before the next turn of the loop.
void local_workqueue_add(struct local_workqueue *q, const char *ns, const char *name);
void local_workqueue_add_object(struct local_workqueue *q, const json_t *obj);
void local_workqueue_add_after(struct local_workqueue *q, const char *ns, const char *name,
                               int64_t ms);

// Writes of a reconciliation. cb may be NULL; its arguments are borrowed. If a write fails, the key
// is reconciled again after a delay; a conflict, "already exists" and "not found" are not logged as
// warnings, since they only mean that a cache was outdated. Deleting a missing object succeeds.
typedef void (*local_write_fn)(void *arg, const json_t *body, const struct gs_error *err);
void local_reconcile_create(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                            const json_t *obj, local_write_fn cb, void *arg);
void local_reconcile_create_sub(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                                const char *name, const char *subresource, const json_t *obj,
                                local_write_fn cb, void *arg);
void local_reconcile_update(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                            const char *subresource, local_write_fn cb, void *arg);
// A merge patch.
void local_reconcile_patch(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                           const char *name, const char *subresource, const json_t *patch,
                           local_write_fn cb, void *arg);
void local_reconcile_delete(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                            const char *name, local_write_fn cb, void *arg);
// The same, with the propagation policy Foreground.
void local_reconcile_delete_foreground(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                                       const char *name);
void local_reconcile_get(struct local_reconcile *w, const char *path, local_write_fn cb, void *arg);
// Records an event when the last write of the reconciliation succeeds.
void local_reconcile_event(struct local_reconcile *w, struct kube_recorder *r, const json_t *about,
                           const char *reason, const char *fmt, ...) GS_PRINTF(5, 6);
// Reconciles the key again, ms from now at the latest.
void local_reconcile_requeue(struct local_reconcile *w, int64_t ms);
// The reconciliation failed: the key is retried with exponential backoff. err is logged and freed.
void local_reconcile_fail(struct local_reconcile *w, struct gs_error *err);
