// SPDX-License-Identifier: Apache-2.0
// EndpointSlices of other instances whose pod is gone or not ready: after a crash, or the death of
// a node, nobody else would delete them, and connections to them would fail or hang.
#include "activator/activator_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define CHECK_MS 5000

struct activator_peers {
    struct activator_env *env;
    const struct kube_cache *slices;
    char *own; // name of the own slice
    struct gs_timer *timer;
    struct kube_request *request;
    char *slice, *ns; // that is being checked
    size_t turn;      // the slices are checked one after the other
};

static void check_next(void *arg);

static void wait(struct activator_peers *p)
{
    free(GS_TAKE(p->slice));
    free(GS_TAKE(p->ns));
    gs_timer_start(p->timer, check_next, CHECK_MS);
}

static void on_deleted(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_peers *p = arg;
    (void)body;
    p->request = NULL;
    if (err && status != 404)
        gs_warn("activator", "EndpointSlice %s/%s of a pod that is gone: %s", p->ns, p->slice,
                gs_error_message(err));
    gs_error_free(err);
    wait(p);
}

static void on_pod(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_peers *p = arg;
    bool gone = status == 404;
    bool fails = !err && (kube_pod_has_ended(body) || !kube_condition_true(body, "Ready"));
    p->request = NULL;
    gs_error_free(err);
    if (!gone && !fails) {
        wait(p);
        return;
    }
    gs_info("activator", "EndpointSlice %s/%s: its activator %s", p->ns, p->slice,
            gone ? "does not exist any more" : "is not ready");
    p->request = kube_delete(p->env->client, ACTIVATOR_SLICES, p->ns, p->slice, -1, on_deleted, p);
}

// NULL: the instance is no pod.
static const json_t *pod_of(const json_t *slice)
{
    return json_object_get(json_array_get(json_object_get(slice, "endpoints"), 0), "targetRef");
}

// NULL: only the own slice is left.
static const json_t *next_slice(struct activator_peers *p)
{
    size_t pos = 0, n = 0;
    const json_t *slice, *first = NULL;
    while ((slice = kube_cache_next(p->slices, &pos))) {
        if (gs_streq(kube_name(slice), p->own) || !activator_slice_is_own(slice) ||
            !codec_json_str(pod_of(slice), "name", NULL))
            continue;
        if (!first)
            first = slice;
        if (n++ == p->turn) {
            p->turn++;
            return slice;
        }
    }
    p->turn = 1;
    return first;
}

static void check_next(void *arg)
{
    struct activator_peers *p = arg;
    const json_t *slice = next_slice(p), *ref = pod_of(slice);
    if (!slice)
        return;
    p->slice = gs_strdup(kube_name(slice));
    p->ns = gs_strdup(kube_namespace(slice));
    p->request = kube_get(p->env->client, KUBE_PODS, codec_json_str(ref, "namespace", NULL),
                          codec_json_str(ref, "name", NULL), NULL, on_pod, p);
}

struct activator_peers *activator_peers_new(struct activator_env *env,
                                            const struct kube_cache *slices, const char *service)
{
    struct activator_peers *p = gs_alloc(sizeof(*p));
    p->env = env;
    p->slices = slices;
    p->own = activator_slice_name(service, env->cfg.identity);
    p->timer = gs_timer_new(env->loop, p);
    return p;
}

void activator_peers_check(struct activator_peers *p)
{
    if (!p->request && !gs_timer_is_active(p->timer))
        gs_timer_start(p->timer, check_next, 0);
}

void activator_peers_free(struct activator_peers *p)
{
    if (!p)
        return;
    kube_request_cancel(p->request);
    gs_timer_free(p->timer);
    free(p->slice);
    free(p->ns);
    free(p->own);
    free(p);
}
