// SPDX-License-Identifier: Apache-2.0
// A connection for commands that read a cluster and end: a loop of its own that runs only while
// the command waits, with a timeout for each wait.
#include "kube/session.h"
#include "kube/trim.h"

struct gs_error *kube_session_open(struct kube_session *s, const char *kubeconfig,
                                   const char *context, const char *command)
{
    *s = (struct kube_session){0};
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->timer);
    s->timer.data = s;
    struct gs_error *err =
        kube_connection_open(&s->loop, kubeconfig, context, command, &s->connection);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    s->client = s->connection.client;
    s->ns = s->connection.ns;
    return NULL;
}

void kube_session_close(struct kube_session *s)
{
    kube_connection_close(&s->connection);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&s->loop);
}

static void on_timeout(uv_timer_t *t)
{
    struct kube_session *s = t->data;
    s->timed_out = true;
}

struct gs_error *kube_session_wait(struct kube_session *s, const bool *done, unsigned timeout_ms)
{
    s->timed_out = false;
    uv_timer_start(&s->timer, on_timeout, timeout_ms, 0);
    while (!*done && !s->timed_out)
        uv_run(&s->loop, UV_RUN_ONCE);
    uv_timer_stop(&s->timer);
    if (*done)
        return NULL;
    return gs_error_new(GS_ETIMEOUT, "the cluster did not answer within %u s",
                        (timeout_ms + 999) / 1000);
}

struct listing {
    void (*trim)(json_t *obj); // NULL: none
    bool done;
    json_t *body;
    struct gs_error *err;
};

static void on_listed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct listing *l = arg;
    l->done = true;
    l->err = err;
    l->body = err ? NULL : json_incref(body);
}

static void trim_listed(void *arg, json_t *object)
{
    const struct listing *l = arg;
    l->trim(object);
}

// Nodes and pods are many. Others are kept whole: doctor reads managers and arguments.
static void (*trim_of(struct kube_gvr r))(json_t *obj)
{
    if (*r.group)
        return NULL;
    return gs_streq(r.resource, "nodes")  ? kube_trim_node
           : gs_streq(r.resource, "pods") ? kube_trim_object
                                          : NULL;
}

struct gs_error *kube_session_list(struct kube_session *s, struct kube_gvr r, const char *ns,
                                   const char *query, unsigned timeout_ms, json_t **ret)
{
    struct listing l = {.trim = trim_of(r)};
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, NULL, NULL);
    if (query && *query)
        gs_buf_addf(&path, "?%s", query);
    struct kube_request *request =
        kube_list_pages(s->client, path.data, l.trim ? trim_listed : NULL, on_listed, &l);
    struct gs_error *err = kube_session_wait(s, &l.done, timeout_ms);
    if (err) {
        kube_request_cancel(request);
        return err;
    }
    if (l.err)
        return l.err;
    *ret = l.body;
    return NULL;
}
