// SPDX-License-Identifier: Apache-2.0
#include "hpa/hpa_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/event.h"
#include "kube/object.h"

#define TICK_MS  200
#define QUESTION "gpuscale asks whether another controller writes this status"

enum state { WAITING, OURS, THEIRS };

struct claim {
    struct hpa_ownership *claims;
    json_t *object; // the newest
    enum state state;
    int64_t until_ns;           // WAITING, THEIRS: monotonic
    char *their_time;           // of the last status that somebody else wrote; NULL: none
    struct kube_request *asked; // under way
};

struct hpa_ownership {
    struct kube_client *client;
    struct kube_recorder *recorder;
    struct hpa_ownership_config cfg;
    char *manager;
    struct gs_hmap *items; // "ns/name" to struct claim
    struct gs_timer *timer;
};

static void claim_free(void *value)
{
    struct claim *c = value;
    kube_request_cancel(c->asked);
    json_decref(c->object);
    free(c->their_time);
    free(c);
}

// --- who wrote the status ---
struct writers {
    const char *ours, *theirs; // times in RFC 3339, which sort as texts; NULL: never
    const char *their_name;
};

static bool later(const char *a, const char *b)
{
    return a && (!b || strcmp(a, b) > 0);
}

// People with kubectl control nothing.
static bool is_controller(const char *manager)
{
    return !gs_starts(manager, "kubectl");
}

static struct writers writers_of(const struct hpa_ownership *c, const json_t *hpa)
{
    struct writers w = {0};
    const json_t *fields = codec_json_get(hpa, "metadata", "managedFields", NULL);
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const json_t *f = json_array_get(fields, i);
        const char *manager = codec_json_str(f, "manager", NULL),
                   *time = codec_json_str(f, "time", NULL);
        if (!manager || !time || !gs_streq(codec_json_str(f, "subresource", NULL), "status"))
            continue;
        if (gs_streq(manager, c->manager)) {
            if (later(time, w.ours))
                w.ours = time;
        } else if (is_controller(manager) && later(time, w.theirs)) {
            w.theirs = time;
            w.their_name = manager;
        }
    }
    return w;
}

// --- states ---
static void set_state(struct claim *c, enum state state)
{
    const struct hpa_ownership *all = c->claims;
    int64_t ms = state == WAITING ? all->cfg.wait_ms : all->cfg.again_ms;
    c->state = state;
    c->until_ns = gs_mono_ns() + ms * GS_NS_PER_MS;
}

static void lose(struct claim *c, const char *who)
{
    set_state(c, THEIRS);
    gs_warn("hpa", "%s/%s is left alone: %s writes its status; two must not scale one object",
            kube_namespace(c->object), kube_name(c->object), who);
    kube_event(c->claims->recorder, c->object, "Warning", "ControlledByAnother",
               "%s writes this status, so %s does not scale it: two must not scale one object", who,
               c->claims->manager);
}

// --- asking ---
static void answered(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct claim *c = arg;
    (void)status;
    (void)body;
    c->asked = NULL;
    if (err)
        gs_debug("hpa", "%s/%s is not asked: %s", kube_namespace(c->object), kube_name(c->object),
                 gs_error_message(err));
    gs_error_free(err); // then the other one is still its last writer, and it stays theirs
}

static void ask(struct claim *c)
{
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(c->object);
    json_t *status = json_object_get(copy, "status");
    const char *able = codec_json_str(kube_condition(c->object, "AbleToScale"), "status", NULL);
    set_state(c, WAITING);
    if (c->asked || !json_is_array(json_object_get(status, "conditions")))
        return; // nothing to change in it: it is waited
    kube_set_condition(json_object_get(status, "conditions"), "AbleToScale", able ? able : "True",
                       "Asked", QUESTION, gs_unix_ms());
    c->asked = kube_update(c->claims->client, KUBE_HPAS, kube_namespace(copy), kube_name(copy),
                           "status", copy, answered, c);
}

static void begin(struct claim *c)
{
    struct writers w = writers_of(c->claims, c->object);
    c->their_time = gs_strdup(w.theirs);
    if (c->claims->cfg.trusted || (w.ours && !later(w.theirs, w.ours)))
        set_state(c, OURS);
    else if (w.theirs)
        ask(c);
    else
        set_state(c, WAITING);
}

// --- time ---
static void waited(struct claim *c)
{
    struct writers w = writers_of(c->claims, c->object);
    if (later(w.theirs, w.ours))
        lose(c, w.their_name);
    else
        set_state(c, OURS);
}

static void tick(void *arg)
{
    struct hpa_ownership *all = arg;
    int64_t now_ns = gs_mono_ns();
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(all->items, &pos, NULL, &value)) {
        struct claim *c = value;
        if (c->state == OURS || c->until_ns > now_ns)
            continue;
        if (c->state == THEIRS) {
            ask(c);
            continue;
        }
        waited(c);
        if (c->state == OURS)
            all->cfg.changed(all->cfg.arg, kube_namespace(c->object), kube_name(c->object));
    }
}

// --- outside ---
struct hpa_ownership *hpa_ownership_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct hpa_ownership_config *cfg)
{
    struct hpa_ownership *c = gs_alloc(sizeof(*c));
    c->client = client;
    c->cfg = *cfg;
    c->manager = gs_strdup(cfg->manager);
    c->recorder = kube_recorder_new(client, c->manager, NULL);
    c->items = gs_hmap_new(claim_free);
    c->timer = gs_timer_new(loop, c);
    gs_timer_repeat(c->timer, tick, TICK_MS, TICK_MS);
    return c;
}

static void closed(void *arg)
{
    struct hpa_ownership *c = arg;
    free(c->manager);
    free(c);
}

void hpa_ownership_free(struct hpa_ownership *c)
{
    if (!c)
        return;
    gs_hmap_free(c->items);
    kube_recorder_free(c->recorder);
    gs_timer_close(c->timer, closed);
}

void hpa_ownership_forget(struct hpa_ownership *c, const json_t *hpa)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    struct claim *old = gs_hmap_remove_str(c->items, key);
    if (old)
        claim_free(old);
}

static struct claim *add(struct hpa_ownership *all, const char *key, const json_t *hpa)
{
    struct claim *c = gs_alloc(sizeof(*c));
    c->claims = all;
    c->object = json_incref((json_t *)hpa);
    gs_hmap_put_str(all->items, key, c);
    begin(c);
    return c;
}

bool hpa_ownership_update(struct hpa_ownership *all, const json_t *hpa)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    struct claim *c = gs_hmap_get_str(all->items, key);
    if (c && !gs_streq(kube_uid(c->object), kube_uid(hpa)))
        c = NULL; // another of that name
    if (!c)
        return add(all, key, hpa)->state == OURS;
    json_decref(c->object);
    c->object = json_incref((json_t *)hpa);
    struct writers w = writers_of(all, hpa);
    if (!later(w.theirs, c->their_time))
        return c->state == OURS;
    free(c->their_time);
    c->their_time = gs_strdup(w.theirs);
    if (c->state != THEIRS)
        lose(c, w.their_name);
    return false;
}
