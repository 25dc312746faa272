// SPDX-License-Identifier: Apache-2.0
// TokenReviews and SubjectAccessReviews with a cache, as apiserver's webhook authenticator has it:
// equal reviews in progress are sent once, and allowed and denied results are kept for different
// times. A review that the API server could not answer is sent again, five times in all.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"

#include <sys/queue.h>

enum {
    MAX_KEPT = 8192,
    MAX_KEY = 10000, // bytes; longer reviews are not cached
    TRIES = 5,
};

struct entry;
struct adapter_api_reviews_op {
    TAILQ_ENTRY(adapter_api_reviews_op) peers;
    struct entry *entry;
    adapter_api_reviews_fn cb;
    void *arg;
};
TAILQ_HEAD(ops, adapter_api_reviews_op);

struct entry {
    struct adapter_api_reviews *reviews;
    TAILQ_ENTRY(entry) all;
    char *key;
    json_t *body, *status;
    int64_t until_ns; // end of the cache time
    struct kube_request *rq;
    struct ops ops;
    unsigned tries;
};
TAILQ_HEAD(entries, entry);

struct adapter_api_reviews {
    uv_loop_t *loop;
    struct adapter_api_reviews_options o;
    struct gs_hmap *by_key;
    struct entries entries; // the oldest first
    struct adapter_api_reviews_stats stats;
};

struct adapter_api_reviews *adapter_api_reviews_new(uv_loop_t *loop,
                                                    const struct adapter_api_reviews_options *o)
{
    struct adapter_api_reviews *r = gs_alloc(sizeof(*r));
    r->loop = loop;
    r->o = *o;
    r->by_key = gs_hmap_new(NULL);
    TAILQ_INIT(&r->entries);
    return r;
}

static void entry_free(struct entry *e)
{
    TAILQ_REMOVE(&e->reviews->entries, e, all);
    if (gs_hmap_get_str(e->reviews->by_key, e->key) == e)
        gs_hmap_remove_str(e->reviews->by_key, e->key);
    kube_request_cancel(e->rq);
    json_decref(e->body);
    json_decref(e->status);
    free(e->key);
    free(e);
}

void adapter_api_reviews_free(struct adapter_api_reviews *r)
{
    if (!r)
        return;
    struct entry *e;
    struct adapter_api_reviews_op *op;
    while ((e = TAILQ_FIRST(&r->entries))) {
        while ((op = TAILQ_FIRST(&e->ops))) {
            TAILQ_REMOVE(&e->ops, op, peers);
            free(op);
        }
        entry_free(e);
    }
    gs_hmap_free(r->by_key);
    free(r);
}

static bool is_kept(const struct entry *e)
{
    return strlen(e->key) <= MAX_KEY;
}

static void deliver_review(struct entry *e, const struct gs_error *err)
{
    struct adapter_api_reviews_op *op;
    int64_t until_ns = is_kept(e) ? e->until_ns : 0;
    while ((op = TAILQ_FIRST(&e->ops))) {
        TAILQ_REMOVE(&e->ops, op, peers);
        op->cb(op->arg, e->status, until_ns,
               err ? gs_error_new(gs_error_code(err), "%s", gs_error_message(err)) : NULL);
        free(op);
    }
}

static void send_review(struct entry *e);

static bool worth_another_try(int status)
{
    return status == 0 || status == 429 || status == 500 || status == 503 || status == 504;
}

static void on_review_response(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct entry *e = arg;
    struct adapter_api_reviews *r = e->reviews;
    e->rq = NULL;
    if (err && worth_another_try(status) && ++e->tries < TRIES) {
        gs_error_free(err);
        send_review(e);
        return;
    }
    const json_t *answer = err ? NULL : json_object_get(body, "status");
    if (!err && !json_is_object(answer))
        err = gs_error_new(GS_EPROTO, "the API server returned the %s without a status", r->o.kind);
    if (err) {
        r->stats.failed++;
        gs_hmap_remove_str(r->by_key, e->key);
        deliver_review(e, err);
        gs_error_free(err);
        entry_free(e);
        return;
    }
    e->status = json_incref((json_t *)(uintptr_t)answer);
    int64_t ttl = r->o.is_good(answer) ? r->o.good_ttl_ms : r->o.bad_ttl_ms;
    e->until_ns = gs_mono_ns() + ttl * GS_NS_PER_MS;
    deliver_review(e, NULL);
    if (ttl <= 0 || !is_kept(e))
        entry_free(e);
}

static void send_review(struct entry *e)
{
    struct adapter_api_reviews *r = e->reviews;
    r->stats.sent++;
    e->rq = kube_create(r->o.kube, r->o.gvr, NULL, e->body, on_review_response, e);
}

static void drop_oldest(struct adapter_api_reviews *r)
{
    struct entry *e, *next;
    for (e = TAILQ_FIRST(&r->entries); e && gs_hmap_len(r->by_key) >= MAX_KEPT; e = next) {
        next = TAILQ_NEXT(e, all);
        if (e->status && TAILQ_EMPTY(&e->ops))
            entry_free(e);
    }
}

struct adapter_api_reviews_op *adapter_api_reviews_send(struct adapter_api_reviews *r, json_t *spec,
                                                        adapter_api_reviews_fn cb, void *arg)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    codec_json_dump(spec, &key);
    struct entry *e = gs_hmap_get_str(r->by_key, key.data);
    if (e && e->status && e->until_ns <= gs_mono_ns()) {
        entry_free(e);
        e = NULL;
    }
    if (e && e->status) {
        r->stats.cached++;
        json_decref(spec);
        json_t *status = json_incref(e->status);
        cb(arg, status, e->until_ns, NULL);
        json_decref(status);
        return NULL;
    }
    bool fresh = !e;
    if (fresh) {
        drop_oldest(r);
        e = gs_alloc(sizeof(*e));
        e->reviews = r;
        e->key = gs_strdup(key.data);
        TAILQ_INIT(&e->ops);
        TAILQ_INSERT_TAIL(&r->entries, e, all);
        gs_hmap_put_str(r->by_key, e->key, e);
        GS_AUTO_FREE char *version = gs_format("%s/%s", r->o.gvr.group, r->o.gvr.version);
        e->body = json_pack("{s:s, s:s, s:{}, s:O}", "kind", r->o.kind, "apiVersion", version,
                            "metadata", "spec", spec);
    }
    json_decref(spec);
    struct adapter_api_reviews_op *op = gs_alloc(sizeof(*op));
    op->entry = e;
    op->cb = cb;
    op->arg = arg;
    TAILQ_INSERT_TAIL(&e->ops, op, peers);
    if (fresh)
        send_review(e);
    return op;
}

void adapter_api_reviews_cancel(struct adapter_api_reviews_op *op)
{
    if (!op)
        return;
    TAILQ_REMOVE(&op->entry->ops, op, peers);
    free(op);
}

void adapter_api_reviews_stats(const struct adapter_api_reviews *r,
                               struct adapter_api_reviews_stats *ret)
{
    *ret = r->stats;
}
