// SPDX-License-Identifier: Apache-2.0
// Reports monitors and rules that no Prometheus object selects, because their authors expect
// targets. A release creates its objects one after the other, so an object is reported only if it
// is still not selected a moment later, and once for each reason.
#include "local/operator/operator_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define DELAY_MS    2000
#define MAX_WAITING 10000 // objects; more are not reported

struct waiting {
    enum engine_config_kind kind;
    json_t *obj;
};

struct operator_unselected {
    struct kube_recorder *recorder; // borrowed
    char *(*why)(void *arg, enum engine_config_kind kind, const json_t *obj);
    void *arg;
    struct gs_hmap *waiting;  // "kind/ns/name" -> struct waiting
    struct gs_hmap *reported; // the same -> the last text
    struct gs_timer *timer;
};

static void waiting_free(void *arg)
{
    struct waiting *w = arg;
    json_decref(w->obj);
    free(w);
}

const char *operator_kind_name(enum engine_config_kind kind)
{
    static const char *const names[] = {[ENGINE_CONFIG_SERVICE_MONITOR] = "ServiceMonitor",
                                        [ENGINE_CONFIG_POD_MONITOR] = "PodMonitor",
                                        [ENGINE_CONFIG_RULE] = "PrometheusRule"};
    return names[kind];
}

// Items of a list have no kind.
static json_t *with_kind(const struct waiting *w)
{
    json_t *obj = json_copy(w->obj);
    codec_json_set_str(obj, "apiVersion", OPERATOR_GROUP "/v1");
    codec_json_set_str(obj, "kind", operator_kind_name(w->kind));
    return obj;
}

static void report(struct operator_unselected *u, struct gs_slice key, const struct waiting *w)
{
    char *text = u->why(u->arg, w->kind, w->obj);
    if (!text || gs_streq(text, gs_hmap_get(u->reported, key))) {
        free(text);
        return;
    }
    CODEC_AUTO_JSON json_t *obj = with_kind(w);
    gs_warn("monitors", "%s %s/%s: not selected: %s", operator_kind_name(w->kind),
            kube_namespace(obj), kube_name(obj), text);
    kube_event(u->recorder, obj, "Warning", "NotSelected", "%s", text);
    if (gs_hmap_len(u->reported) >= MAX_WAITING)
        gs_hmap_clear(u->reported);
    gs_hmap_put(u->reported, key, text);
}

static void report_all(void *arg)
{
    struct operator_unselected *u = arg;
    size_t pos = 0;
    struct gs_slice key;
    void *w;
    while (gs_hmap_next(u->waiting, &pos, &key, &w))
        report(u, key, w);
    gs_hmap_clear(u->waiting);
}

void operator_unselected_add(struct operator_unselected *u, enum engine_config_kind kind,
                             const json_t *obj)
{
    GS_AUTO_FREE char *key =
        gs_format("%s/%s/%s", operator_kind_name(kind), kube_namespace(obj), kube_name(obj));
    if (gs_hmap_len(u->waiting) >= MAX_WAITING)
        return;
    struct waiting *w = gs_alloc(sizeof(*w));
    *w = (struct waiting){kind, json_incref((json_t *)(uintptr_t)obj)};
    gs_hmap_put_str(u->waiting, key, w);
    if (!gs_timer_is_active(u->timer))
        gs_timer_start(u->timer, report_all, DELAY_MS);
}

struct operator_unselected *
operator_unselected_new(struct local_cluster *c, struct kube_recorder *recorder,
                        char *(*why)(void *arg, enum engine_config_kind kind, const json_t *obj),
                        void *arg)
{
    struct operator_unselected *u = gs_alloc(sizeof(*u));
    *u = (struct operator_unselected){.recorder = recorder,
                                      .why = why,
                                      .arg = arg,
                                      .waiting = gs_hmap_new(waiting_free),
                                      .reported = gs_hmap_new(free),
                                      .timer = gs_timer_new(c->loop, u)};
    return u;
}

void operator_unselected_free(struct operator_unselected *u)
{
    if (!u)
        return;
    gs_timer_free(u->timer);
    gs_hmap_free(u->waiting);
    gs_hmap_free(u->reported);
    free(u);
}
