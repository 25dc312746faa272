// SPDX-License-Identifier: Apache-2.0
// Keeps one EndpointSlice of this instance as it should be. One write is under way at a time; after
// it, the slice is compared again with the newest state.
#include "activator/activator_private.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define RETRY_FIRST_MS 200
#define RETRY_LAST_MS  10000
#define CORRECT_MS     2000 // between corrections of a slice that somebody else changes

struct activator_publisher {
    struct activator_env *env;
    const struct kube_cache *slices;
    char *ns, *name;
    json_t *want; // NULL: not known yet
    struct kube_request *write;
    struct gs_timer *timer; // of the next attempt to write
    int64_t retry_ms;       // of the timer after a failure; 0: the last write did not fail
    bool changed;           // something, while `write` was under way
    json_t *written;        // what was written last
    int64_t written_ns;
    bool withdrawn, deleting;        // deleting: `write` deletes the slice
    void (*on_withdrawn)(void *arg); // NULL: it was called
    void *withdrawn_arg;
};

static void publish(void *arg);

static void end_withdrawal(struct activator_publisher *p)
{
    void (*done)(void *arg) = p->on_withdrawn;
    p->on_withdrawn = NULL;
    done(p->withdrawn_arg); // may free it
}

static void write_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_publisher *p = arg;
    (void)body;
    bool deleted = p->deleting && (!err || status == 404);
    p->write = NULL;
    p->deleting = false;
    if (deleted && p->withdrawn) {
        gs_error_free(err);
        end_withdrawal(p);
        return;
    }
    if (err && status != 409 && status != 404)
        gs_warn("activator", "EndpointSlice %s/%s: %s", p->ns, p->name, gs_error_message(err));
    p->retry_ms = err && !deleted ? gs_backoff_next(p->retry_ms, RETRY_FIRST_MS, RETRY_LAST_MS) : 0;
    if (err || deleted) // nothing is written
        json_decref(GS_TAKE(p->written));
    gs_error_free(err);
    // The cache may not have the written object yet: its change publishes again if necessary.
    if (p->retry_ms || p->withdrawn || p->changed)
        gs_timer_start(p->timer, publish, (uint64_t)p->retry_ms);
}

static void write_slice(struct activator_publisher *p, const json_t *have)
{
    struct kube_client *c = p->env->client;
    CODEC_AUTO_JSON json_t *want = json_deep_copy(p->want);
    if (!have) {
        p->write = kube_create(c, ACTIVATOR_SLICES, p->ns, want, write_done, p);
        return;
    }
    codec_json_set(want, json_string(kube_resource_version(have)), "metadata", "resourceVersion",
                   NULL);
    p->write = kube_update(c, ACTIVATOR_SLICES, p->ns, p->name, NULL, want, write_done, p);
}

static void delete_slice(struct activator_publisher *p)
{
    p->deleting = true;
    p->write = kube_delete(p->env->client, ACTIVATOR_SLICES, p->ns, p->name, -1, write_done, p);
}

// What was written is there no more: somebody else changes the EndpointSlice. Two that correct each
// other must not do so without a pause. True: it is corrected later.
static bool waits_to_correct(struct activator_publisher *p)
{
    int64_t age_ms = (gs_mono_ns() - p->written_ns) / GS_NS_PER_MS;
    if (!p->written || !json_equal(p->written, p->want))
        return false;
    if (age_ms < CORRECT_MS) { // or the cache does not have it yet
        gs_timer_start(p->timer, publish, (uint64_t)(CORRECT_MS - age_ms));
        return true;
    }
    gs_warn("activator", "EndpointSlice %s/%s was changed by somebody else", p->ns, p->name);
    return false;
}

static void publish(void *arg)
{
    struct activator_publisher *p = arg;
    p->changed = p->write != NULL;
    if (p->write)
        return;
    if (p->withdrawn) {
        if (p->on_withdrawn)
            delete_slice(p);
        return;
    }
    if (!p->want || !kube_cache_synced(p->slices))
        return;
    const json_t *have = kube_cache_get(p->slices, p->ns, p->name);
    if (json_is_null(p->want)) {
        if (have)
            delete_slice(p);
        return;
    }
    if (activator_slice_is(have, p->want)) {
        p->retry_ms = 0;
        return;
    }
    if (waits_to_correct(p))
        return;
    json_decref(p->written);
    p->written = json_incref(p->want);
    p->written_ns = gs_mono_ns();
    write_slice(p, have);
}

struct activator_publisher *activator_publisher_new(struct activator_env *env,
                                                    const struct kube_cache *slices, const char *ns,
                                                    const char *name)
{
    struct activator_publisher *p = gs_alloc(sizeof(*p));
    p->env = env;
    p->slices = slices;
    p->ns = gs_strdup(ns);
    p->name = gs_strdup(name);
    p->timer = gs_timer_new(env->loop, p);
    return p;
}

void activator_publisher_set(struct activator_publisher *p, json_t *want)
{
    json_decref(p->want);
    p->want = want ? want : json_null();
    if (!p->retry_ms) // else the timer does, after a failure
        publish(p);
}

void activator_publisher_withdraw(struct activator_publisher *p, void (*done)(void *arg), void *arg)
{
    p->withdrawn = true;
    p->on_withdrawn = done;
    p->withdrawn_arg = arg;
    gs_timer_start(p->timer, publish, 0);
}

void activator_publisher_free(struct activator_publisher *p)
{
    if (!p)
        return;
    kube_request_cancel(p->write);
    gs_timer_free(p->timer);
    json_decref(p->written);
    json_decref(p->want);
    free(p->ns);
    free(p->name);
    free(p);
}
