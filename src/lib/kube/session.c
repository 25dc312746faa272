// SPDX-License-Identifier: Apache-2.0
// A connection for commands that read a cluster and end: a loop of its own that runs only while
// the command waits, with a timeout for each wait.
#include "kube/session.h"

#include "base/mem.h"
#include "kube/kubeconfig.h"

struct gs_error *kube_session_open(struct kube_session *s, const char *kubeconfig,
                                   const char *context, const char *command)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    GS_AUTO_FREE char *agent = gs_format("gpuscale-%s/%s", command, GPUSCALE_VERSION);
    *s = (struct kube_session){0};
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->timer);
    s->timer.data = s;
    struct gs_error *err = kube_config_load(kubeconfig, context, &k);
    if (!err)
        err = kube_config_connect(&k, &s->loop, agent, &s->http);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    s->client = kube_client_new(s->http);
    s->ns = gs_strdup(k.ns ? k.ns : "default");
    return NULL;
}

void kube_session_close(struct kube_session *s)
{
    if (s->client)
        kube_client_free(s->client);
    if (s->http)
        http_client_free(s->http);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&s->loop);
    free(s->ns);
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

struct gs_error *kube_session_list(struct kube_session *s, struct kube_gvr r, const char *ns,
                                   const char *query, unsigned timeout_ms, json_t **ret)
{
    struct listing l = {0};
    struct kube_request *request = kube_list(s->client, r, ns, query, on_listed, &l);
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
