// SPDX-License-Identifier: Apache-2.0
#include "local/workqueue.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"

#define BACKOFF_FIRST_MS 50
#define BACKOFF_LAST_MS  30000
// Keys that are due run until this time has passed; the rest waits for the next turn of the loop.
#define TURN_LIMIT_NS (20 * GS_NS_PER_MS)

struct item {
    char *key;
    int64_t due_ns; // 0: not waiting
    size_t place;   // in the heap, from 1; 0: not in it, because it does not wait or is busy
    bool busy;
    unsigned failures;
};

struct call {
    struct local_reconcile *work;
    struct call *prev, *next;
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
    struct call *calls;
    unsigned holds;   // calls under way, and the function while it runs
    int64_t again_ms; // -1: no
    bool failed;
};

struct local_workqueue {
    struct kube_client *client;
    char *name;
    local_reconcile_fn fn;
    void *arg;
    struct gs_hmap *items;
    // The items that wait, the one that is due first at heap[1]. heap[0] is not used.
    struct item **heap;
    size_t heap_len, heap_cap;
    struct local_reconcile *works;
    struct gs_timer *timer;
    bool closed;
};

static void item_free(void *p)
{
    struct item *i = p;
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
    q->items = gs_hmap_new(item_free);
    q->timer = gs_timer_new(loop, q);
    return q;
}

static void call_free(struct call *c)
{
    json_decref(c->about);
    free(c->reason);
    free(c->message);
    free(c);
}

static void work_free(struct local_reconcile *w)
{
    while (w->calls) {
        struct call *c = w->calls;
        w->calls = c->next;
        kube_request_cancel(c->request);
        call_free(c);
    }
    free(w->key);
    free(w->ns);
    free(w);
}

void local_workqueue_free(struct local_workqueue *q)
{
    if (!q || q->closed)
        return;
    q->closed = true;
    while (q->works) {
        struct local_reconcile *w = q->works;
        q->works = w->next;
        work_free(w);
    }
    gs_hmap_free(q->items);
    free(q->heap);
    free(q->name);
    gs_timer_close(q->timer, free);
}

// --- when ---

static void heap_set(struct local_workqueue *q, size_t place, struct item *i)
{
    q->heap[place] = i;
    i->place = place;
}

static void heap_up(struct local_workqueue *q, size_t place)
{
    struct item *i = q->heap[place];
    for (; place > 1 && q->heap[place / 2]->due_ns > i->due_ns; place /= 2)
        heap_set(q, place, q->heap[place / 2]);
    heap_set(q, place, i);
}

static void heap_down(struct local_workqueue *q, size_t place)
{
    struct item *i = q->heap[place];
    for (size_t child; (child = 2 * place) <= q->heap_len; place = child) {
        if (child < q->heap_len && q->heap[child + 1]->due_ns < q->heap[child]->due_ns)
            child++;
        if (q->heap[child]->due_ns >= i->due_ns)
            break;
        heap_set(q, place, q->heap[child]);
    }
    heap_set(q, place, i);
}

static void heap_add(struct local_workqueue *q, struct item *i)
{
    if (i->place == 0) {
        gs_grow(&q->heap, &q->heap_cap, q->heap_len + 1, sizeof(struct item *));
        heap_set(q, ++q->heap_len, i);
    }
    heap_up(q, i->place); // its time only ever becomes earlier
}

static struct item *heap_take_first(struct local_workqueue *q)
{
    struct item *first = q->heap[1], *last = q->heap[q->heap_len--];
    first->place = 0;
    if (last != first) {
        heap_set(q, 1, last);
        heap_down(q, 1);
    }
    return first;
}

static void run_due(void *arg);

static void arm(struct local_workqueue *q)
{
    if (q->heap_len == 0) {
        gs_timer_stop(q->timer);
        return;
    }
    int64_t wait_ns = q->heap[1]->due_ns - gs_mono_ns();
    // At least 1: libuv runs a timer that is due at once again in the same turn.
    uint64_t ms = wait_ns > 0 ? (uint64_t)((wait_ns + GS_NS_PER_MS - 1) / GS_NS_PER_MS) : 1;
    gs_timer_start(q->timer, run_due, ms);
}

// The item waits, unless it is busy: then it waits once it is over.
static void wait_for(struct local_workqueue *q, struct item *i)
{
    if (i->busy || !i->due_ns)
        return;
    heap_add(q, i);
    if (i->place == 1)
        arm(q);
}

static void add_key(struct local_workqueue *q, const char *key, int64_t ms)
{
    struct item *i = gs_hmap_get_str(q->items, key);
    if (!i) {
        i = gs_alloc(sizeof(*i));
        i->key = gs_strdup(key);
        gs_hmap_put_str(q->items, key, i);
    }
    int64_t due = gs_mono_ns() + ms * GS_NS_PER_MS;
    if (i->due_ns && i->due_ns <= due)
        return;
    i->due_ns = due;
    wait_for(q, i);
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

static int64_t back_off_ms(unsigned failures)
{
    int64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < failures && ms < BACKOFF_LAST_MS; i++)
        ms *= 2;
    return ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
}

// --- runs ---

static void work_unhold(struct local_reconcile *w)
{
    if (--w->holds > 0)
        return;
    struct local_workqueue *q = w->queue;
    struct item *i = gs_hmap_get_str(q->items, w->key);
    i->busy = false;
    i->failures = w->failed ? i->failures + 1 : 0;
    if (w->failed)
        add_key(q, w->key, back_off_ms(i->failures));
    if (w->again_ms >= 0)
        add_key(q, w->key, w->again_ms);
    if (i->due_ns)
        wait_for(q, i); // it was added while it was busy
    else if (!i->failures)
        item_free(gs_hmap_remove_str(q->items, w->key));
    if (w->prev)
        w->prev->next = w->next;
    else
        q->works = w->next;
    if (w->next)
        w->next->prev = w->prev;
    work_free(w);
}

static void run_key(struct local_workqueue *q, struct item *i)
{
    struct local_reconcile *w = gs_alloc(sizeof(*w));
    const char *slash = strchr(i->key, '/');
    w->queue = q;
    w->key = gs_strdup(i->key);
    w->ns = slash ? gs_strndup(i->key, (size_t)(slash - i->key)) : NULL;
    w->name = slash ? w->key + (slash - i->key) + 1 : w->key;
    w->again_ms = -1;
    w->holds = 1;
    w->next = q->works;
    if (w->next)
        w->next->prev = w;
    q->works = w;
    i->busy = true;
    i->due_ns = 0;
    q->fn(q->arg, w, w->ns, w->name);
    work_unhold(w);
}

static void run_due(void *arg)
{
    struct local_workqueue *q = arg;
    int64_t now = gs_mono_ns(), end_ns = now + TURN_LIMIT_NS;
    while (q->heap_len && q->heap[1]->due_ns <= now && gs_mono_ns() < end_ns)
        run_key(q, heap_take_first(q));
    arm(q);
}

void local_reconcile_requeue(struct local_reconcile *w, int64_t ms)
{
    if (w->again_ms < 0 || ms < w->again_ms)
        w->again_ms = ms;
}

void local_reconcile_fail(struct local_reconcile *w, struct gs_error *err)
{
    const struct item *i = gs_hmap_get_str(w->queue->items, w->key);
    enum gs_code code = gs_error_code(err);
    // One line for a work, and fewer the longer it goes on: at the 1st, 2nd, 4th, 8th … failure.
    bool repeated = w->failed || (i->failures & (i->failures + 1)) != 0;
    w->failed = true;
    if (repeated || code == GS_ECONFLICT || code == GS_EEXIST || code == GS_ENOTFOUND)
        gs_debug(w->queue->name, "%s: %s", w->key, gs_error_message(err));
    else
        gs_warn(w->queue->name, "%s: %s", w->key, gs_error_message(err));
    gs_error_free(err);
}

// --- writes ---

static void call_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct call *c = arg;
    struct local_reconcile *w = c->work;
    if (c->prev)
        c->prev->next = c->next;
    else
        w->calls = c->next;
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
    call_free(c);
    work_unhold(w);
}

static struct call *call_new(struct local_reconcile *w, local_write_fn cb, void *arg)
{
    struct call *c = gs_alloc(sizeof(*c));
    c->work = w;
    c->cb = cb;
    c->arg = arg;
    c->next = w->calls;
    if (c->next)
        c->next->prev = c;
    w->calls = c;
    w->holds++;
    return c;
}

void local_reconcile_event(struct local_reconcile *w, struct kube_recorder *r, const json_t *about,
                           const char *reason, const char *fmt, ...)
{
    struct call *c = w->calls; // the newest
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
    struct call *c = call_new(w, cb, arg);
    c->request = kube_create(w->queue->client, r, ns, obj, call_done, c);
}

void local_reconcile_create_sub(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                                const char *name, const char *subresource, const json_t *obj,
                                local_write_fn cb, void *arg)
{
    struct call *c = call_new(w, cb, arg);
    c->request = kube_create_sub(w->queue->client, r, ns, name, subresource, obj, call_done, c);
}

void local_reconcile_update(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                            const char *subresource, local_write_fn cb, void *arg)
{
    struct call *c = call_new(w, cb, arg);
    c->request = kube_update(w->queue->client, r, kube_namespace(obj), kube_name(obj), subresource,
                             obj, call_done, c);
}

void local_reconcile_patch(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                           const char *name, const char *subresource, const json_t *patch,
                           local_write_fn cb, void *arg)
{
    struct call *c = call_new(w, cb, arg);
    c->request = kube_patch(w->queue->client, r, ns, name, subresource, KUBE_MERGE_PATCH, patch,
                            call_done, c);
}

void local_reconcile_delete(struct local_reconcile *w, struct kube_gvr r, const char *ns,
                            const char *name, local_write_fn cb, void *arg)
{
    struct call *c = call_new(w, cb, arg);
    c->deletes = true;
    c->request = kube_delete(w->queue->client, r, ns, name, -1, call_done, c);
}

void local_reconcile_get(struct local_reconcile *w, const char *path, local_write_fn cb, void *arg)
{
    struct call *c = call_new(w, cb, arg);
    c->deletes = true; // what is not there is an answer, not a failure
    c->request = kube_raw_get(w->queue->client, path, call_done, c);
}
