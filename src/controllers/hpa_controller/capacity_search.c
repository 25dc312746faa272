// SPDX-License-Identifier: Apache-2.0
// Objects that another process has made for autoscalers whose annotation was removed since then.
// They are found by their label.
#include "hpa_controller/capacity.h"

#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "hpa_controller/placeholder.h"

#define QUERY "labelSelector=gpuscale.dev%2Fcapacity-of"

enum { RESOURCES = 3 };

#define RETRY_MS     1000
#define MOST_WAIT_MS (5 * 60 * 1000)

struct hpa_capacity_search {
    struct kube_client *client;
    char *ns;
    void (*fn)(void *arg, const json_t *object, struct kube_gvr resource);
    void *arg;
    struct kube_gvr resources[RESOURCES];
    size_t at;                    // of them
    struct kube_request *request; // NULL: it has ended, or waits
    struct gs_timer *timer;
    int64_t wait_ms; // after failures; 0: the last list succeeded
};

static void list_next(void *arg);

// Takes err.
static void list_again(struct hpa_capacity_search *s, struct gs_error *err)
{
    if (!s->wait_ms)
        gs_warn("hpa", "capacity in advance: objects of an earlier process are not found yet: %s",
                gs_error_message(err));
    gs_error_free(err);
    s->wait_ms = gs_backoff_next(s->wait_ms, RETRY_MS, MOST_WAIT_MS);
    gs_timer_start(s->timer, list_next, (uint64_t)s->wait_ms);
}

static void on_list(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_capacity_search *s = arg;
    const json_t *items = json_object_get(body, "items"), *object;
    size_t i;
    s->request = NULL;
    if (err && status != 403 && status != 404) {
        list_again(s, err);
        return;
    }
    json_array_foreach (items, i, object)
        if (!err)
            s->fn(s->arg, object, s->resources[s->at]);
    gs_error_free(err);
    s->at++;
    s->wait_ms = 0;
    list_next(s);
}

static void list_next(void *arg)
{
    struct hpa_capacity_search *s = arg;
    if (s->at < RESOURCES)
        s->request = kube_list(s->client, s->resources[s->at], s->ns, QUERY, on_list, s);
}

struct hpa_capacity_search *
hpa_capacity_search_start(uv_loop_t *loop, struct kube_client *client, const char *ns,
                          void (*fn)(void *arg, const json_t *object, struct kube_gvr resource),
                          void *arg)
{
    struct hpa_capacity_search *s = gs_alloc(sizeof(*s));
    *s = (struct hpa_capacity_search){
        .client = client,
        .ns = gs_strdup(ns),
        .fn = fn,
        .arg = arg,
        .timer = gs_timer_new(loop, s),
        .resources = {HPA_CAPACITY_BUFFERS, HPA_CAPACITY_TEMPLATES, KUBE_DEPLOYMENTS}};
    list_next(s);
    return s;
}

void hpa_capacity_search_free(struct hpa_capacity_search *s)
{
    if (!s)
        return;
    kube_request_cancel(s->request);
    gs_timer_free(s->timer);
    free(s->ns);
    free(s);
}
