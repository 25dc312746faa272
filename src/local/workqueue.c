// SPDX-License-Identifier: Apache-2.0
// A queue of keys to reconcile, with the guarantees of client-go's workqueue: a key is never
// reconciled twice at the same time, and a key that is added meanwhile is reconciled again after.
// Failures back off exponentially.
// A key: waiting (in the heap, by the time when it is due) -> busy, until the function and all of
// its writes have ended -> waiting again (requeued, failed, or added meanwhile) or forgotten.
#include "local/workqueue.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/turn.h"
#include "kube/object.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_LAST_MS  30000
// Due keys are reconciled for this long (base/turn.h), and at least one; the others wait for the
// next iteration of the loop.
#define TURNS 4

struct queued_key {
    char *key;
    int64_t due_ns; // 0: not waiting
    size_t place;   // in the heap, from 1; 0: not in it, because it does not wait or is busy
    bool busy;
    unsigned failures;
};

struct pending_write {
    struct local_reconcile *reconcile;
    struct pending_write *prev, *next;
    struct kube_request *request;
    local_write_fn cb;
    void *arg;
    bool deletes;
    struct kube_recorder *recorder; // of the event that success brings
    json_t *about;
    char *reason, *message;
};

struct local_reconcile {
    struct local_workqueue *queue;
    struct local_reconcile *prev, *next;
    char *key, *ns; // ns NULL: cluster-scoped
    const char *name;
    struct pending_write *writes;
    unsigned holds;     // writes under way, and the function while it runs
    int64_t requeue_ms; // -1: no
    bool failed;
};

struct local_workqueue {
    struct kube_client *client;
    char *name;
    local_reconcile_fn fn;
    void *arg;
    struct gs_hmap *items;
    // The keys that wait, the one that is due first at heap[1]. heap[0] is not used.
    struct queued_key **heap;
    size_t heap_len, heap_cap;
    struct local_reconcile *reconciles;
    struct gs_timer *timer;
    struct gs_thread_owner owner;
    bool closed;
};

static void free_key(void *p)
{
    struct queued_key *i = p;
    free(i->key);
    free(i);
}

struct local_workqueue *local_workqueue_new(uv_loop_t *loop, struct kube_client *client,
                                            const char *name, local_reconcile_fn fn, void *arg)
{
    struct local_workqueue *q = gs_alloc(sizeof(*q));
    q->client = client;
    q->name = gs_strdup(name);
    q->fn = fn;
    q->arg = arg;
    q->items = gs_hmap_new(free_key);
    q->timer = gs_timer_new(loop, q);
    gs_thread_owner_bind(&q->owner);
    return q;
}

static void free_write(struct pending_write *c)
{
    json_decref(c->about);
    free(c->reason);
    free(c->message);
    free(c);
}

static void free_reconcile(struct local_reconcile *w)
{
    while (w->writes) {
        struct pending_write *c = w->writes;
        w->writes = c->next;
        kube_request_cancel(c->request);
        free_write(c);
    }
    free(w->key);
    free(w->ns);
    free(w);
}

void local_workqueue_free(struct local_workqueue *q)
{
    if (!q || q->closed)
        return;
    gs_thread_owner_assert(&q->owner);
    q->closed = true;
    while (q->reconciles) {
        struct local_reconcile *w = q->reconciles;
        q->reconciles = w->next;
        free_reconcile(w);
    }
    gs_hmap_free(q->items);
    free(q->heap);
    free(q->name);
    gs_timer_close(q->timer, free);
}

// --- when ---

static void heap_set(struct local_workqueue *q, size_t place, struct queued_key *i)
{
    q->heap[place] = i;
    i->place = place;
}

static void heap_up(struct local_workqueue *q, size_t place)
{
    struct queued_key *i = q->heap[place];
    for (; place > 1 && q->heap[place / 2]->due_ns > i->due_ns; place /= 2)
        heap_set(q, place, q->heap[place / 2]);
    heap_set(q, place, i);
}

static void heap_down(struct local_workqueue *q, size_t place)
{
    struct queued_key *i = q->heap[place];
    for (size_t child; (child = 2 * place) <= q->heap_len; place = child) {
        if (child < q->heap_len && q->heap[child + 1]->due_ns < q->heap[child]->due_ns)
            child++;
        if (q->heap[child]->due_ns >= i->due_ns)
            break;
        heap_set(q, place, q->heap[child]);
    }
    heap_set(q, place, i);
}

static void heap_add(struct local_workqueue *q, struct queued_key *i)
{
    if (i->place == 0) {
        gs_grow(&q->heap, &q->heap_cap, q->heap_len + 1, sizeof(struct queued_key *));
        heap_set(q, ++q->heap_len, i);
    }
    heap_up(q, i->place); // its time only ever becomes earlier
}

// For assertions: no key is due before its parent, and each key has its place.
static bool heap_is_consistent(const struct local_workqueue *q)
{
    for (size_t i = 1; i <= q->heap_len; i++)
        if (q->heap[i]->place != i || q->heap[i]->busy ||
            (i > 1 && q->heap[i / 2]->due_ns > q->heap[i]->due_ns))
            return false;
    return true;
}

static struct queued_key *take_first_due(struct local_workqueue *q)
{
    gs_assert(q->heap_len > 0);
    struct queued_key *first = q->heap[1], *last = q->heap[q->heap_len--];
    first->place = 0;
    if (last != first) {
        heap_set(q, 1, last);
        heap_down(q, 1);
    }
    return first;
}

static void reconcile_due_keys(void *arg);

static void arm_queue_timer(struct local_workqueue *q)
{
    gs_assert_debug(heap_is_consistent(q));
    if (q->heap_len == 0) {
        gs_timer_stop(q->timer);
        return;
    }
    int64_t wait_ns = q->heap[1]->due_ns - gs_mono_ns();
    // At least 1: libuv runs a timer that is due at once again in the same turn.
    uint64_t ms = wait_ns > 0 ? (uint64_t)((wait_ns + GS_NS_PER_MS - 1) / GS_NS_PER_MS) : 1;
    gs_timer_start(q->timer, reconcile_due_keys, ms);
}

// A busy key waits once its reconciliation has ended.
static void wait_until_due(struct local_workqueue *q, struct queued_key *i)
{
    if (i->busy || !i->due_ns)
        return;
    heap_add(q, i);
    if (i->place == 1)
        arm_queue_timer(q);
}

static void add_key(struct local_workqueue *q, const char *key, int64_t ms)
{
    gs_thread_owner_assert(&q->owner);
    gs_assert(!q->closed);
    struct queued_key *i = gs_hmap_get_str(q->items, key);
    if (!i) {
        i = gs_alloc(sizeof(*i));
        i->key = gs_strdup(key);
        gs_hmap_put_str(q->items, key, i);
    }
    int64_t due = gs_mono_ns() + ms * GS_NS_PER_MS;
    if (i->due_ns && i->due_ns <= due)
        return;
    i->due_ns = due;
    wait_until_due(q, i);
}

void local_workqueue_add_after(struct local_workqueue *q, const char *ns, const char *name,
                               int64_t ms)
{
    if (!name)
        return;
    GS_AUTO_FREE char *key = ns ? gs_format("%s/%s", ns, name) : gs_strdup(name);
    add_key(q, key, ms);
}

void local_workqueue_add(struct local_workqueue *q, const char *ns, const char *name)
{
    local_workqueue_add_after(q, ns, name, 0);
}

void local_workqueue_add_object(struct local_workqueue *q, const json_t *obj)
{
    local_workqueue_add(q, kube_namespace(obj), kube_name(obj));
}

// --- runs ---

static void release_reconcile(struct local_reconcile *w)
{
    gs_assert(w->holds > 0);
    if (--w->holds > 0)
        return;
    struct local_workqueue *q = w->queue;
    struct queued_key *i = gs_hmap_get_str(q->items, w->key);
    gs_assert(i && i->busy && !w->writes);
    i->busy = false;
    i->failures = w->failed ? i->failures + 1 : 0;
    if (w->failed)
        add_key(q, w->key, gs_backoff_after(i->failures, BACKOFF_FIRST_MS, BACKOFF_LAST_MS));
    if (w->requeue_ms >= 0)
        add_key(q, w->key, w->requeue_ms);
    if (i->due_ns)
        wait_until_due(q, i); // it was added while it was busy
    else if (!i->failures)
        free_key(gs_hmap_remove_str(q->items, w->key));
    if (w->prev)
        w->prev->next = w->next;
    else
        q->reconciles = w->next;
    if (w->next)
        w->next->prev = w->prev;
    free_reconcile(w);
}

static void reconcile_key(struct local_workqueue *q, struct queued_key *i)
{
    gs_assert(!i->busy && i->place == 0); // a key is never reconciled twice at a time
    struct local_reconcile *w = gs_alloc(sizeof(*w));
    const char *slash = strchr(i->key, '/');
    w->queue = q;
    w->key = gs_strdup(i->key);
    w->ns = slash ? gs_strndup(i->key, (size_t)(slash - i->key)) : NULL;
    w->name = slash ? w->key + (slash - i->key) + 1 : w->key;
    w->requeue_ms = -1;
    w->holds = 1;
    w->next = q->reconciles;
    if (w->next)
        w->next->prev = w;
    q->reconciles = w;
    i->busy = true;
    i->due_ns = 0;
    q->fn(q->arg, w, w->ns, w->name);
    release_reconcile(w);
}

static void reconcile_due_keys(void *arg)
{
    struct local_workqueue *q = arg;
    int64_t now = gs_mono_ns(), end_ns = now + TURNS * gs_turn_ns();
    while (q->heap_len && q->heap[1]->due_ns <= now) {
        reconcile_key(q, take_first_due(q));
        if (gs_mono_ns() >= end_ns)
            break;
    }
    arm_queue_timer(q);
}

void local_reconcile_requeue(struct local_reconcile *w, int64_t ms)
{
    if (w->requeue_ms < 0 || ms < w->requeue_ms)
        w->requeue_ms = ms;
}

void local_reconcile_fail(struct local_reconcile *w, struct gs_error *err)
{
    const struct queued_key *i = gs_hmap_get_str(w->queue->items, w->key);
    enum gs_code code = gs_error_code(err);
    // One warning for each reconciliation, and only for the 1st, 2nd, 4th, 8th … failure in a row.
    bool repeated = w->failed || (i->failures & (i->failures + 1)) != 0;
    w->failed = true;
    if (repeated || code == GS_ECONFLICT || code == GS_EEXIST || code == GS_ENOTFOUND)
        gs_debug(w->queue->name, "%s: %s", w->key, gs_error_message(err));
    else
        gs_warn(w->queue->name, "%s: %s", w->key, gs_error_message(err));
    gs_error_free(err);
}

// --- writes ---

static void on_write_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct pending_write *c = arg;
    struct local_reconcile *w = c->reconcile;
    if (c->prev)
        c->prev->next = c->next;
    else
        w->writes = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (err && c->deletes && status == 404) {
        gs_error_free(err);
        err = NULL;
    }
    if (c->cb)
        c->cb(c->arg, body, err);
    if (err)
        local_reconcile_fail(w, err);
    else if (c->recorder)
        kube_event(c->recorder, c->about, "Normal", c->reason, "%s", c->message);
    free_write(c);
    release_reconcile(w);
}

static struct pending_write *new_write(struct local_reconcile *w, local_write_fn cb, void *arg)
{
    struct pending_write *c = gs_alloc(sizeof(*c));
    c->reconcile = w;
    c->cb = cb;
    c->arg = arg;
    c->next = w->writes;
    if (c->next)
        c->next->prev = c;
    w->writes = c;
    w->holds++;
    return c;
}

void local_reconcile_event(struct local_reconcile *w, struct kube_recorder *r, const json_t *about,
                           const char *reason, const char *fmt, ...)
{
    struct pending_write *c = w->writes; // the newest
    va_list ap;
    va_start(ap, fmt);
    c->message = gs_vformat(fmt, ap);
    va_end(ap);
    c->recorder = r;
    c->about = json_incref((json_t *)about);
    c->reason = gs_strdup(reason);
}

void local_reconcile_create(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                            const json_t *obj, local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->request = kube_create(w->queue->client, r, ns, obj, on_write_done, c);
}

void local_reconcile_create_sub(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                                const char *name, const char *subresource, const json_t *obj,
                                local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->request = kube_create_sub(w->queue->client, r, ns, name, subresource, obj, on_write_done, c);
}

void local_reconcile_update(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                            const char *subresource, local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->request = kube_update(w->queue->client, r, kube_namespace(obj), kube_name(obj), subresource,
                             obj, on_write_done, c);
}

void local_reconcile_patch(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                           const char *name, const char *subresource, const json_t *patch,
                           local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->request = kube_patch(w->queue->client, r, ns, name, subresource, KUBE_MERGE_PATCH, patch,
                            on_write_done, c);
}

void local_reconcile_delete(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                            const char *name, local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->deletes = true;
    c->request = kube_delete(w->queue->client, r, ns, name, -1, on_write_done, c);
}

void local_reconcile_delete_foreground(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                                       const char *name)
{
    struct pending_write *c = new_write(w, NULL, NULL);
    c->deletes = true;
    c->request =
        kube_delete_with(w->queue->client, r, ns, name, -1, "Foreground", on_write_done, c);
}

void local_reconcile_get(struct local_reconcile *w, const char *path, local_write_fn cb, void *arg)
{
    struct pending_write *c = new_write(w, cb, arg);
    c->deletes = true; // what is not there is an answer, not a failure
    c->request = kube_raw_get(w->queue->client, path, on_write_done, c);
}
