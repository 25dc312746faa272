// SPDX-License-Identifier: Apache-2.0
// What the loop knows and intends: as JSON and over HTTP.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/status.h"

#define API_VERSION AUTOSCALER_GROUP "/v1"

static json_t *pool_state(const struct autoscaler *a, const struct autoscaler_pool *p)
{
    int64_t now_ms = autoscaler_now(a);
    json_t *o = nodes_pool_json(p->pool);
    codec_json_set_int(o, "min", (int64_t)p->pool->min);
    codec_json_set_int(o, "target", (int64_t)p->target);
    codec_json_set_int(o, "ready", (int64_t)p->ready);
    codec_json_set_int(o, "upcoming", (int64_t)p->upcoming);
    codec_json_set_int(o, "unready", (int64_t)(p->unready + p->long_unregistered));
    codec_json_set_int(o, "unneeded", (int64_t)p->unneeded);
    codec_json_set_int(o, "failures", (int64_t)p->backoff.failures);
    if (p->scaling)
        kube_set_time(o, "scalingSince", p->scaling_since_ms);
    if (nodes_backoff_active(&p->backoff, now_ms)) {
        kube_set_time(o, "backoffUntil", p->backoff.until_ms);
        codec_json_set_str(o, "errorCode", p->error_code);
        codec_json_set_str(o, "errorMessage", p->error_message);
    }
    return o;
}

static json_t *pod_state(const struct autoscaler_pod *p)
{
    json_t *o = json_object();
    codec_json_set_str(o, "namespace", p->ns);
    codec_json_set_str(o, "name", p->name);
    codec_json_set_str(o, "uid", p->uid);
    kube_set_time(o, "pendingSince", p->pending_since_ms);
    if (p->coming) {
        codec_json_set_str(o, "pool", p->coming->pool->name);
        kube_set_time(o, "since", p->coming_since_ms);
        kube_set_time(o, "expected", p->expected_ms);
    }
    codec_json_set_str(o, "reason", p->reason);
    codec_json_set_str(o, "text", p->text);
    return o;
}

static json_t *node_state(const struct autoscaler_node *n)
{
    json_t *o = json_object();
    codec_json_set_str(o, "name", n->name);
    codec_json_set_str(o, "pool", n->pool->pool->name);
    if (n->utilization_of) {
        codec_json_set_str(o, "resource", n->utilization_of);
        json_object_set_new(o, "utilization", json_real(n->utilization));
    }
    kube_set_time(o, "unneededSince", n->unneeded_since_ms);
    codec_json_set_str(o, "unremovable", nodes_verdict_keeps(n->verdict) ? n->reason : NULL);
    codec_json_set_str(o, "reason", n->reason);
    codec_json_set_bool(o, "deleting", n->deletion != NULL);
    return o;
}

static json_t *decisions_state(const struct autoscaler *a)
{
    json_t *list = json_array();
    size_t n = a->n_decisions < AUTOSCALER_DECISIONS ? a->n_decisions : AUTOSCALER_DECISIONS;
    for (size_t i = 0; i < n; i++) { // the newest first
        const struct autoscaler_decision *d =
            &a->decisions[(a->n_decisions - 1 - i) % AUTOSCALER_DECISIONS];
        json_t *o = json_object();
        kube_set_time(o, "time", d->time_ms);
        codec_json_set_str(o, "text", d->text);
        json_array_append_new(list, o);
    }
    return list;
}

json_t *autoscaler_state(const struct autoscaler *a)
{
    json_t *pools = json_array(), *pods = json_array(), *nodes = json_array();
    struct gs_slice key;
    void *value;
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        json_array_append_new(pools, pool_state(a, &a->pools[i]));
    size_t pos = 0;
    while (gs_hmap_next(a->pods, &pos, &key, &value))
        json_array_append_new(pods, pod_state(value));
    pos = 0;
    while (gs_hmap_next(a->nodes, &pos, &key, &value))
        json_array_append_new(nodes, node_state(value));
    json_t *o = json_object();
    codec_json_set_str(o, "apiVersion", API_VERSION);
    codec_json_set_str(o, "kind", "Autoscaler");
    kube_set_time(o, "time", a->last_run_ms);
    codec_json_set_int(o, "runs", (int64_t)a->runs);
    codec_json_set_str(o, "expander", a->cfg.settings.expander);
    codec_json_set_bool(o, "healthy", a->healthy);
    codec_json_set_bool(o, "scaleDownInCooldown", a->in_cooldown);
    json_object_set_new(o, "pools", pools);
    json_object_set_new(o, "pods", pods);
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "decisions", decisions_state(a));
    return o;
}

// --- HTTP ---

json_t *autoscaler_group(const void *autoscaler, const char *group)
{
    (void)autoscaler;
    (void)group;
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}], s:{s:s, s:s}}", "kind", "APIGroup",
                     "apiVersion", "v1", "name", AUTOSCALER_GROUP, "versions", "groupVersion",
                     API_VERSION, "version", "v1", "preferredVersion", "groupVersion", API_VERSION,
                     "version", "v1");
}

void autoscaler_handle(void *autoscaler, struct http_exchange *x)
{
    const char *path = http_path(x), *root = "/apis/" API_VERSION;
    const char *rest = gs_starts(path, root) ? path + strlen(root) : NULL;
    CODEC_AUTO_JSON json_t *body = NULL;
    if (gs_streq(rest, "") || gs_streq(rest, "/"))
        body = json_pack("{s:s, s:s, s:s, s:[{s:s, s:s, s:b, s:s, s:[s]}]}", "kind",
                         "APIResourceList", "apiVersion", "v1", "groupVersion", API_VERSION,
                         "resources", "name", "autoscaler", "singularName", "autoscaler",
                         "namespaced", 0, "kind", "Autoscaler", "verbs", "get");
    else if (gs_streq(rest, "/autoscaler"))
        body = autoscaler_state(autoscaler);
    if (body)
        kube_reply_json(x, 200, body);
    else
        kube_reply_failure(x, 404, "NotFound", "the server could not find the requested resource");
}
