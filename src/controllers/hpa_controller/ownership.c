// SPDX-License-Identifier: Apache-2.0
// Makes sure that only one controller scales an object: it observes who writes the status
// (managedFields). If another controller did, a probe changes the status and waits whether that
// controller changes it back.
#include "hpa_controller/controller_private.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/event.h"
#include "kube/object.h"

#define TICK_MS  200
#define QUESTION "gpuscale probes whether another controller writes this status"

// WAITING becomes OURS or THEIRS after a time; THEIRS becomes WAITING with a probe; OURS becomes
// THEIRS when another controller writes the status.
enum state { WAITING, OURS, THEIRS };

struct owned_object {
    struct hpa_ownership *ownership;
    json_t *object; // the newest
    enum state state;
    int64_t until_ns;           // WAITING, THEIRS: monotonic
    char *their_time;           // of the last status that another controller wrote; NULL: none
    struct kube_request *probe; // NULL: none is pending
};

struct hpa_ownership {
    struct kube_client *client;
    struct kube_recorder *recorder;
    struct hpa_ownership_config cfg;
    char *manager;
    struct gs_hmap *items; // "ns/name" to struct owned_object
    struct gs_timer *timer;
};

static void owned_object_free(void *value)
{
    struct owned_object *c = value;
    kube_request_cancel(c->probe);
    json_decref(c->object);
    free(c->their_time);
    free(c);
}

// --- writers of the status ---
struct writers {
    const char *ours, *theirs; // times in RFC 3339, which sort as texts; NULL: never
    const char *their_name;
};

static bool is_later(const char *a, const char *b)
{
    return a && (!b || strcmp(a, b) > 0);
}

// Ignores writes by kubectl, which is not a controller.
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
            if (is_later(time, w.ours))
                w.ours = time;
        } else if (is_controller(manager) && is_later(time, w.theirs)) {
            w.theirs = time;
            w.their_name = manager;
        }
    }
    return w;
}

// --- states ---
static void set_state(struct owned_object *c, enum state state)
{
    const struct hpa_ownership *all = c->ownership;
    int64_t ms = state == WAITING ? all->cfg.wait_ms : all->cfg.again_ms;
    gs_assert(!(c->state == THEIRS && state == OURS)); // only a probe can change the owner
    c->state = state;
    c->until_ns = gs_mono_ns() + ms * GS_NS_PER_MS;
}

static void mark_theirs(struct owned_object *c, const char *who)
{
    set_state(c, THEIRS);
    gs_warn(
        "hpa",
        "%s/%s is not scaled: %s writes its status, and only one controller may scale an object",
        kube_namespace(c->object), kube_name(c->object), who);
    kube_event(c->ownership->recorder, c->object, "Warning", "ControlledByAnother",
               "%s writes this status, so %s does not scale the object: only one controller may",
               who, c->ownership->manager);
}

// --- probing ---
static void on_probe_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct owned_object *c = arg;
    (void)status;
    (void)body;
    c->probe = NULL;
    if (err)
        gs_debug("hpa", "%s/%s: probing its controller failed: %s", kube_namespace(c->object),
                 kube_name(c->object), gs_error_message(err));
    gs_error_free(err); // the other controller stays the owner
}

static void probe_controller(struct owned_object *c)
{
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(c->object);
    json_t *status = json_object_get(copy, "status");
    const char *able = codec_json_str(kube_condition(c->object, "AbleToScale"), "status", NULL);
    set_state(c, WAITING);
    if (c->probe || !json_is_array(json_object_get(status, "conditions")))
        return; // without conditions there is nothing to change; wait for a writer
    kube_set_condition(json_object_get(status, "conditions"), "AbleToScale", able ? able : "True",
                       "Asked", QUESTION, gs_unix_ms());
    c->probe = kube_update(c->ownership->client, KUBE_HPAS, kube_namespace(copy), kube_name(copy),
                           "status", copy, on_probe_written, c);
}

static void set_initial_state(struct owned_object *c)
{
    struct writers w = writers_of(c->ownership, c->object);
    c->their_time = gs_strdup(w.theirs);
    if (c->ownership->cfg.trusted || (w.ours && !is_later(w.theirs, w.ours)))
        set_state(c, OURS);
    else if (w.theirs)
        probe_controller(c);
    else
        set_state(c, WAITING);
}

// --- time ---
static void end_wait(struct owned_object *c)
{
    struct writers w = writers_of(c->ownership, c->object);
    if (is_later(w.theirs, w.ours))
        mark_theirs(c, w.their_name);
    else
        set_state(c, OURS);
}

static void on_ownership_timer(void *arg)
{
    struct hpa_ownership *all = arg;
    int64_t now_ns = gs_mono_ns();
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(all->items, &pos, NULL, &value)) {
        struct owned_object *c = value;
        if (c->state == OURS || c->until_ns > now_ns)
            continue;
        if (c->state == THEIRS) {
            probe_controller(c);
            continue;
        }
        end_wait(c);
        if (c->state == OURS)
            all->cfg.changed(all->cfg.arg, kube_namespace(c->object), kube_name(c->object));
    }
}

// --- public functions ---
struct hpa_ownership *hpa_ownership_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct hpa_ownership_config *cfg)
{
    struct hpa_ownership *c = gs_alloc(sizeof(*c));
    c->client = client;
    c->cfg = *cfg;
    c->manager = gs_strdup(cfg->manager);
    c->recorder = kube_recorder_new(client, c->manager, NULL);
    c->items = gs_hmap_new(owned_object_free);
    c->timer = gs_timer_new(loop, c);
    gs_timer_repeat(c->timer, on_ownership_timer, TICK_MS, TICK_MS);
    return c;
}

static void on_ownership_timer_closed(void *arg)
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
    gs_timer_close(c->timer, on_ownership_timer_closed);
}

void hpa_ownership_forget(struct hpa_ownership *c, const json_t *hpa)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    struct owned_object *old = gs_hmap_remove_str(c->items, key);
    if (old)
        owned_object_free(old);
}

static struct owned_object *add_owned_object(struct hpa_ownership *all, const char *key,
                                             const json_t *hpa)
{
    struct owned_object *c = gs_alloc(sizeof(*c));
    c->ownership = all;
    c->object = json_incref((json_t *)hpa);
    gs_hmap_put_str(all->items, key, c);
    set_initial_state(c);
    return c;
}

bool hpa_ownership_update(struct hpa_ownership *all, const json_t *hpa)
{
    GS_AUTO_FREE char *key = kube_key(hpa);
    struct owned_object *c = gs_hmap_get_str(all->items, key);
    if (c && !gs_streq(kube_uid(c->object), kube_uid(hpa)))
        c = NULL; // another object with that name
    if (!c)
        return add_owned_object(all, key, hpa)->state == OURS;
    json_decref(c->object);
    c->object = json_incref((json_t *)hpa);
    struct writers w = writers_of(all, hpa);
    if (!is_later(w.theirs, c->their_time))
        return c->state == OURS;
    free(c->their_time);
    c->their_time = gs_strdup(w.theirs);
    if (c->state != THEIRS)
        mark_theirs(c, w.their_name);
    return false;
}
