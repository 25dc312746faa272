// SPDX-License-Identifier: Apache-2.0
// EndpointSlices of other instances whose pod is gone or not ready: after a crash, or the death of
// a node, nobody else would delete them, and connections to them would fail or hang. The pods are
// read one after the other, each every 5 seconds, however many Services there are.
#include "activator/activator_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define CHECK_MS  5000
#define MAX_PEERS 64

struct activator_watch {
    struct activator_peers *peers;
    const struct kube_cache *slices; // of one Service
    struct activator_watch *prev, *next;
};

struct pod {
    const char *ns, *name; // borrowed from a slice
};

struct activator_peers {
    struct activator_env *env;
    struct activator_watch *watches;
    struct gs_timer *timer;
    struct kube_request *request;
    char *ns, *name; // of the pod that is being read
    size_t n, turn;  // of the last round
};

// False: the slice is not of another instance that is a pod.
static bool pod_of(const struct activator_peers *p, const json_t *slice, struct pod *ret)
{
    const json_t *endpoint = json_array_get(json_object_get(slice, "endpoints"), 0);
    const struct activator_config *cfg = &p->env->cfg;
    ret->ns = codec_json_str(endpoint, "targetRef", "namespace", NULL);
    ret->name = codec_json_str(endpoint, "targetRef", "name", NULL);
    return activator_slice_is_own(slice) && ret->ns && ret->name &&
           !gs_streq(kube_annotation(slice, ACTIVATOR_ANN_IDENTITY), cfg->identity);
}

static bool has_pod(const struct pod *pods, size_t n, const struct pod *pod)
{
    for (size_t i = 0; i < n; i++)
        if (gs_streq(pods[i].ns, pod->ns) && gs_streq(pods[i].name, pod->name))
            return true;
    return false;
}

static size_t find_pods(const struct activator_peers *p, struct pod *ret)
{
    size_t n = 0;
    for (const struct activator_watch *w = p->watches; w; w = w->next) {
        size_t pos = 0;
        const json_t *slice;
        struct pod pod;
        while (n < MAX_PEERS && (slice = kube_cache_next(w->slices, &pos)))
            if (pod_of(p, slice, &pod) && !has_pod(ret, n, &pod))
                ret[n++] = pod;
    }
    return n;
}

// --- one that is gone ---

static void on_deleted(void *arg, int status, json_t *body, struct gs_error *err)
{
    (void)arg, (void)body;
    if (err && status != 404)
        gs_warn("activator", "EndpointSlice of an activator that is gone: %s",
                gs_error_message(err));
    gs_error_free(err);
}

static void delete_slices(const struct activator_peers *p, const char *why)
{
    const struct pod gone = {p->ns, p->name};
    for (const struct activator_watch *w = p->watches; w; w = w->next) {
        size_t pos = 0;
        const json_t *slice;
        struct pod pod;
        while ((slice = kube_cache_next(w->slices, &pos))) {
            if (!pod_of(p, slice, &pod) || !has_pod(&gone, 1, &pod))
                continue;
            gs_info("activator", "EndpointSlice %s/%s: its activator %s", kube_namespace(slice),
                    kube_name(slice), why);
            kube_delete(p->env->client, ACTIVATOR_SLICES, kube_namespace(slice), kube_name(slice),
                        -1, on_deleted, NULL);
        }
    }
}

// --- rounds ---

static void check_next(void *arg);

static void on_pod(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_peers *p = arg;
    p->request = NULL;
    if (status == 404)
        delete_slices(p, "does not exist any more");
    else if (!err && (kube_pod_has_ended(body) || !kube_condition_true(body, "Ready")))
        delete_slices(p, "is not ready");
    gs_error_free(err);
    free(GS_TAKE(p->ns));
    free(GS_TAKE(p->name));
    gs_timer_start(p->timer, check_next, CHECK_MS / p->n);
}

static void check_next(void *arg)
{
    struct activator_peers *p = arg;
    struct pod pods[MAX_PEERS];
    p->n = find_pods(p, pods);
    if (!p->n)
        return;
    const struct pod *pod = &pods[p->turn++ % p->n];
    p->ns = gs_strdup(pod->ns);
    p->name = gs_strdup(pod->name);
    p->request = kube_get(p->env->client, KUBE_PODS, p->ns, p->name, NULL, on_pod, p);
}

// --- public ---

struct activator_peers *activator_peers_new(struct activator_env *env)
{
    struct activator_peers *p = gs_alloc(sizeof(*p));
    p->env = env;
    p->timer = gs_timer_new(env->loop, p);
    return p;
}

struct activator_watch *activator_peers_watch(struct activator_peers *p,
                                              const struct kube_cache *slices)
{
    struct activator_watch *w = gs_alloc(sizeof(*w));
    *w = (struct activator_watch){.peers = p, .slices = slices, .next = p->watches};
    if (w->next)
        w->next->prev = w;
    p->watches = w;
    return w;
}

void activator_peers_unwatch(struct activator_watch *w)
{
    if (!w)
        return;
    *(w->prev ? &w->prev->next : &w->peers->watches) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    free(w);
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
    free(p->ns);
    free(p->name);
    free(p);
}
