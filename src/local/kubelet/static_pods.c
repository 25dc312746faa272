// SPDX-License-Identifier: Apache-2.0
// Pods that show parts of this program. As for static pods of Kubernetes, an annotation of the
// mirror pod contains the hash of its definition, and a mirror pod with another one is replaced.
// https://kubernetes.io/docs/tasks/configure-pod-container/static-pod/
#include "local/kubelet/kubelet_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/kubelet/shim.h"

#include <inttypes.h>

#define ANN_SOURCE "kubernetes.io/config.source"

enum { STATIC_RETRY_MS = 1000 };

struct kubelet_static {
    struct kubelet_static *next;
    struct kubelet *k;
    json_t *pod;
    char *log_path;
    struct kube_request *request;
    struct gs_timer *timer;
};

// --- which pods ---

static const char *mirror_of(const json_t *pod)
{
    return kube_annotation(pod, KUBE_ANN_MIRROR);
}

static const struct kubelet_static *find(const struct kubelet *k, const json_t *pod)
{
    for (const struct kubelet_static *s = k->statics; s; s = s->next)
        if (gs_streq(kube_name(s->pod), kube_name(pod)) &&
            gs_streq(kube_namespace(s->pod), kube_namespace(pod)) &&
            gs_streq(mirror_of(s->pod), mirror_of(pod)))
            return s;
    return NULL;
}

const char *kubelet_static_log_path(const struct kubelet *k, const json_t *pod)
{
    const struct kubelet_static *s = mirror_of(pod) ? find(k, pod) : NULL;
    return s ? s->log_path : NULL;
}

static void delete_mirror(struct kubelet *k, const json_t *pod, kube_done done, void *arg)
{
    struct kube_request *r = kube_delete(k->cluster->client, KUBE_PODS, kube_namespace(pod),
                                         kube_name(pod), 0, done, arg);
    if (arg)
        ((struct kubelet_static *)arg)->request = r;
}

bool kubelet_static_is_leftover(struct kubelet *k, const json_t *pod)
{
    if (!mirror_of(pod) || find(k, pod))
        return false;
    if (!kube_is_deleting(pod) ||
        codec_json_int(pod, 0, "metadata", "deletionGracePeriodSeconds", NULL) > 0)
        delete_mirror(k, pod, NULL, NULL);
    return true;
}

// --- creating them ---

static void sync_static(void *arg);

static void on_request_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kubelet_static *s = arg;
    (void)status, (void)body;
    s->request = NULL;
    // Such as a namespace that does not exist yet.
    if (err)
        gs_debug("kubelet", "static pod %s: %s", kube_name(s->pod), gs_error_message(err));
    gs_error_free(err);
    gs_timer_start(s->timer, sync_static, STATIC_RETRY_MS);
}

static void sync_static(void *arg)
{
    struct kubelet_static *s = arg;
    struct kubelet *k = s->k;
    if (!k->synced || k->stopping || s->request)
        return;
    const json_t *now = kube_cache_get(k->cluster->pods, kube_namespace(s->pod), kube_name(s->pod));
    if (!now)
        s->request = kube_create(k->cluster->client, KUBE_PODS, kube_namespace(s->pod), s->pod,
                                 on_request_done, s);
    else if (!mirror_of(now))
        gs_warn("kubelet", "another pod has the name of the static pod %s/%s",
                kube_namespace(s->pod), kube_name(s->pod));
    else if (!gs_streq(mirror_of(now), mirror_of(s->pod)))
        delete_mirror(k, now, on_request_done, s);
}

// Not at once: kubectl delete may wait for ever if it finds a pod of the same name again.
void kubelet_statics_sync(struct kubelet *k, bool now)
{
    for (struct kubelet_static *s = k->statics; s; s = s->next)
        gs_timer_start(s->timer, sync_static, now ? 0 : STATIC_RETRY_MS);
}

void kubelet_add_static_pod(struct kubelet *k, const json_t *pod, const char *log_path)
{
    struct kubelet_static *s = gs_alloc(sizeof(*s));
    *s = (struct kubelet_static){.k = k, .next = k->statics, .log_path = gs_strdup(log_path)};
    s->pod = json_deep_copy(pod);
    codec_json_set(s->pod, json_string(k->node_name), "spec", "nodeName", NULL);
    // No process would read the volume of a token.
    codec_json_set(s->pod, json_false(), "spec", "automountServiceAccountToken", NULL);
    GS_AUTO_FREE char *text = json_dumps(s->pod, JSON_COMPACT | JSON_SORT_KEYS);
    GS_AUTO_FREE char *hash = gs_format("%016" PRIx64, gs_hash(text, strlen(text)));
    codec_json_set(s->pod, json_string(hash), "metadata", "annotations", KUBE_ANN_MIRROR, NULL);
    codec_json_set(s->pod, json_string("gpuscale"), "metadata", "annotations", ANN_SOURCE, NULL);
    s->timer = gs_timer_new(k->cluster->loop, s);
    k->statics = s;
    kubelet_statics_sync(k, true);
}

void kubelet_statics_free(struct kubelet *k)
{
    for (struct kubelet_static *s; (s = k->statics);) {
        k->statics = s->next;
        kube_request_cancel(s->request);
        gs_timer_free(s->timer);
        json_decref(s->pod);
        free(s->log_path);
        free(s);
    }
}

// --- their logs ---

struct kubelet_log {
    char *path;
    struct kubelet_shim_log log;
    struct gs_buf pending;
};

struct gs_error *kubelet_log_open(const char *path, struct kubelet_log **ret)
{
    struct kubelet_log *l = gs_alloc(sizeof(*l));
    l->path = gs_strdup(path);
    struct gs_error *err = kubelet_shim_log_open(l->path, &l->log);
    if (err) {
        free(l->path);
        free(l);
        return err;
    }
    *ret = l;
    return NULL;
}

void kubelet_log_add(struct kubelet_log *l, struct gs_slice lines)
{
    gs_buf_add_slice(&l->pending, lines);
    kubelet_shim_log_write(&l->log, "stderr", &l->pending, false);
}

void kubelet_log_close(struct kubelet_log *l)
{
    if (!l)
        return;
    kubelet_shim_log_finish(&l->log);
    gs_buf_finish(&l->pending);
    free(l->path);
    free(l);
}
