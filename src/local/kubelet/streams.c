// SPDX-License-Identifier: Apache-2.0
// Requests for streams into containers (exec, attach, port-forward): checks with the kubelet's
// errors, a limit for each pod, and the list of open streams, which end with their container or
// the kubelet.
#include "local/kubelet/streaming.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/status.h"
#include "local/kubelet/logs.h"

// --- the list ---

void kubelet_stream_add(struct kubelet *k, struct kubelet_stream *s, const struct kubelet_worker *w,
                        const char *container_id)
{
    s->k = k;
    s->pod_uid = gs_strdup(w->uid);
    s->container_id = gs_strdup(container_id);
    s->prev = NULL;
    s->next = k->streams;
    if (s->next)
        s->next->prev = s;
    k->streams = s;
}

void kubelet_stream_remove(struct kubelet_stream *s)
{
    if (s->prev)
        s->prev->next = s->next;
    else if (s->k)
        s->k->streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->k = NULL;
    s->prev = s->next = NULL;
    free(GS_TAKE(s->pod_uid));
    free(GS_TAKE(s->container_id));
}

static size_t count_of_pod(const struct kubelet *k, const char *uid)
{
    size_t n = 0;
    for (const struct kubelet_stream *s = k->streams; s; s = s->next)
        n += gs_streq(s->pod_uid, uid);
    return n;
}

void kubelet_streams_end(struct kubelet *k, const char *container_id)
{
    for (struct kubelet_stream *s = k->streams; s; s = s->next)
        if (gs_streq(s->container_id, container_id))
            s->end(s);
}

void kubelet_streams_close_all(struct kubelet *k)
{
    for (struct kubelet_stream *s = k->streams, *next; s; s = next) {
        next = s->next;
        s->k = NULL;
        s->prev = s->next = NULL;
        s->end(s);
    }
    k->streams = NULL;
}

// --- requests ---

static void reply_bad(struct http_exchange *x, struct gs_error *err)
{
    kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
    gs_error_free(err);
}

static bool is_connect_method(struct http_exchange *x)
{
    const char *method = http_method(x);
    if (gs_streq(method, "GET") || gs_streq(method, "POST"))
        return true;
    kube_reply_failure(x, 405, "MethodNotAllowed",
                       "the server does not allow this method on the requested resource");
    return false;
}

// The kubelet answers in plain text, which the API server passes on.
static struct kubelet_container *find_running(struct http_exchange *x, struct kubelet_worker *w,
                                              const json_t *pod)
{
    const char *name = NULL;
    struct gs_error *err = kubelet_choose_container(x, pod, &name);
    struct kubelet_container *c = err ? NULL : kubelet_worker_find(w, name);
    if (!err && !c)
        err = gs_error_new(GS_EINVAL, "container %s is not valid for pod %s", name, kube_name(pod));
    if (err) {
        reply_bad(x, err);
        return NULL;
    }
    if (c->state == KUBELET_RUNNING && c->process)
        return c;
    if (w->is_static) {
        kube_reply_failure(x, 400, "BadRequest",
                           "container %s is a part of gpuscale up itself: it has no process of its "
                           "own",
                           name);
        return NULL;
    }
    http_reply_text(x, 500, "container not found (\"%s\")", name);
    return NULL;
}

static bool offers(const struct http_exchange *x, const char *protocol, bool *ret_any)
{
    const char *name, *value;
    for (size_t i = 0; (value = http_header_nth(x, i, &name)); i++) {
        if (!gs_slice_is_word(gs_slice_of(name), "x-stream-protocol-version"))
            continue;
        *ret_any = true;
        if (gs_lists_word(value, protocol))
            return true;
    }
    return false;
}

bool kubelet_spdy_protocol(struct http_exchange *x, const char *const *supported, const char **ret)
{
    bool any = false;
    if (!gs_lists_word(http_header(x, "Connection"), "upgrade") ||
        !gs_lists_word(http_header(x, "Upgrade"), "SPDY/3.1")) {
        kube_reply_failure(x, 400, "BadRequest", "Upgrade request required");
        return false;
    }
    GS_AUTO_BUF struct gs_buf names = {0};
    for (size_t i = 0; supported[i]; i++) {
        if (offers(x, supported[i], &any)) {
            *ret = supported[i];
            return true;
        }
        gs_buf_addf(&names, "%s%s", i ? " " : "", supported[i]);
    }
    *ret = NULL;
    if (any)
        kube_reply_failure(x, 403, "Forbidden",
                           "unable to upgrade: unable to negotiate protocol: server accepts [%s]",
                           names.data);
    return !any;
}

static void serve_port_forward(struct kubelet *k, const struct kubelet_worker *w,
                               struct http_exchange *x)
{
    if (w->ip && (w->is_static || kubelet_worker_alive(w)))
        kubelet_port_forward(k, w, x);
    else
        http_reply_text(x, 500, "pod %s is not running", w->name);
}

static void serve(struct kubelet *k, const char *subresource, const json_t *pod,
                  struct kubelet_worker *w, struct http_exchange *x)
{
    if (gs_streq(subresource, "portforward")) {
        serve_port_forward(k, w, x);
        return;
    }
    struct kubelet_container *c = find_running(x, w, pod);
    if (c && gs_streq(subresource, "attach"))
        kubelet_attach(k, c, x);
    else if (c)
        kubelet_exec(k, c, x);
}

void kubelet_streams_handle(void *kubelet, const char *subresource, const json_t *pod,
                            struct http_exchange *x)
{
    struct kubelet *k = kubelet;
    const char *uid = kube_uid(pod);
    struct kubelet_worker *w = uid ? gs_hmap_get_str(k->workers, uid) : NULL;
    if (!is_connect_method(x))
        return;
    if (!w)
        kube_reply_failure(x, 400, "BadRequest", "pod %s does not have a host assigned",
                           kube_name(pod));
    else if (count_of_pod(k, uid) >= KUBELET_STREAMS_PER_POD)
        kube_reply_failure(x, 429, "TooManyRequests",
                           "pod %s has %d exec, attach and port-forward sessions, which is the "
                           "limit; end one",
                           kube_name(pod), KUBELET_STREAMS_PER_POD);
    else
        serve(k, subresource, pod, w, x);
}
