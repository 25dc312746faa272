// SPDX-License-Identifier: Apache-2.0
// The embedded API with the loops on it, and a kubelet of the test: it makes pods Running and Ready
// as far as it is told to, and ends those that are deleted.
#pragma once

#include "../kube/loop.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/pod.h"
#include "net/http/client.h"

struct cluster {
    uv_loop_t loop;
    struct local_api *api;
    struct http_client *http;
    struct kube_client *client;
    struct local_cluster *c;
    // the kubelet
    bool bound_only;  // takes only pods that the scheduler has bound
    int ready_budget; // how many more pods become ready; -1: all
    bool hold_deletions;
    int next_ip;
    // what the test looks at on each change of pods
    void (*check)(struct cluster *k);
    // faults: one of so many requests of the loops fails, 0: none
    unsigned fail_every, requests;
    unsigned writes; // requests other than GET
    // a call of the test
    bool done;
    int status;
    json_t *body;
};

static void call_took(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct cluster *k = arg;
    k->done = true;
    k->status = status;
    json_decref(k->body);
    k->body = json_incref(body);
    gs_error_free(err);
}

static inline int await(struct cluster *k)
{
    loop_until(&k->loop, k->done);
    k->done = false;
    return k->status;
}

static void serve_or_fail(void *ctx, struct http_exchange *x)
{
    struct cluster *k = ctx;
    k->writes += !gs_streq(http_method(x), "GET");
    // Not periodic: else it may hit the same request of each attempt.
    if (k->fail_every && (++k->requests * 2654435761u >> 16) % k->fail_every == 0)
        http_reply_text(x, 500, "injected fault");
    else
        local_api_handle(k->api, x);
}

// --- the kubelet of the test ---

static inline void kubelet_look_all(struct cluster *k);

static void kubelet_forgot(void *arg, int status, json_t *body, struct gs_error *err)
{
    gs_error_free(err); // conflicts come again by the next change
    if (status == 500)  // injected
        kubelet_look_all(arg);
}

static void kubelet_ready(struct cluster *k, const json_t *pod, bool ready)
{
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339(gs_unix_ms(), now);
    const char *had = codec_json_str(pod, "status", "podIP", NULL);
    GS_AUTO_FREE char *fresh = gs_format("127.64.9.%d", ++k->next_ip);
    CODEC_AUTO_JSON json_t *patch =
        json_pack("{s:{s:s, s:s, s:[{s:s, s:s, s:s}]}}", "status", "phase", "Running", "podIP",
                  had ? had : fresh, "conditions", "type", "Ready", "status",
                  ready ? "True" : "False", "lastTransitionTime", now);
    kube_patch(k->client, KUBE_PODS, kube_namespace(pod), kube_name(pod), "status",
               KUBE_STRATEGIC_PATCH, patch, kubelet_forgot, k);
}

static void kubelet_look(struct cluster *k, const json_t *pod)
{
    if (k->bound_only && !codec_json_str(pod, "spec", "nodeName", NULL) && !kube_is_deleting(pod))
        return;
    if (kube_is_deleting(pod)) {
        if (!k->hold_deletions)
            kube_delete(k->client, KUBE_PODS, kube_namespace(pod), kube_name(pod), 0,
                        kubelet_forgot, k);
    } else if (!codec_json_str(pod, "status", "podIP", NULL) && !kube_pod_has_ended(pod) &&
               k->ready_budget != 0) {
        if (k->ready_budget > 0)
            k->ready_budget--;
        kubelet_ready(k, pod, true);
    }
}

static inline void kubelet_look_all(struct cluster *k)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k->c->pods, &pos)))
        kubelet_look(k, pod);
}

static void kubelet_changed(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct cluster *k = arg;
    if (k->check)
        k->check(k);
    if (new_pod)
        kubelet_look(k, new_pod);
}

// --- set-up ---

static inline void cluster_watch(struct cluster *k)
{
    k->c = local_cluster_new(&k->loop, k->client, "node-1", NULL);
    struct kube_cache_handlers h = {.on_change = kubelet_changed, .arg = k};
    kube_cache_add_handlers(k->c->pods, &h);
}

// max_pods: the quota of the API; 0: the default.
static inline void cluster_open_with(struct cluster *k, size_t max_pods)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {"system:admin", groups, 1};
    *k = (struct cluster){.ready_budget = -1};
    assert_int_equal(uv_loop_init(&k->loop), 0);
    const struct local_api_config cfg = {.node_name = "node-1", .max_pods = max_pods};
    assert_ok(local_api_new(&k->loop, &cfg, &k->api));
    k->http = http_client_new_loopback(&k->loop, serve_or_fail, k, &admin);
    k->client = kube_client_new(k->http);
    cluster_watch(k);
    loop_until(&k->loop, local_cluster_synced(k->c));
}

static inline void cluster_open(struct cluster *k)
{
    cluster_open_with(k, 0);
}

// Everything that the program would lose by a restart, except the loops: free those before.
static inline void cluster_forget(struct cluster *k)
{
    local_cluster_free(k->c);
    kube_client_free(k->client);
    k->client = kube_client_new(k->http);
}

static inline void cluster_close(struct cluster *k)
{
    local_cluster_free(k->c);
    kube_client_free(k->client);
    http_client_free(k->http);
    local_api_free(k->api);
    json_decref(k->body);
    loop_finish(&k->loop);
}

// --- calls ---

// YAML of one object, created in its namespace ("default" when it names none).
static inline void cluster_create(struct cluster *k, struct kube_gvr r, const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    const char *ns = kube_namespace(docs.items[0].value);
    bool cluster_scoped = gs_streq(r.resource, "nodes") || gs_streq(r.resource, "namespaces");
    kube_create(k->client, r,
                cluster_scoped ? NULL
                : ns           ? ns
                               : "default",
                docs.items[0].value, call_took, k);
    if (await(k) != 201)
        fail_msg("creating: HTTP %d %s", k->status, codec_json_str(k->body, "message", NULL));
    codec_yaml_docs_finish(&docs);
}

static inline void cluster_patch(struct cluster *k, struct kube_gvr r, const char *name,
                                 const char *sub, const char *yaml)
{
    struct codec_yaml_docs docs = {0};
    bool cluster_scoped = gs_streq(r.resource, "nodes") || gs_streq(r.resource, "namespaces");
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    kube_patch(k->client, r, cluster_scoped ? NULL : "default", name, sub, KUBE_MERGE_PATCH,
               docs.items[0].value, call_took, k);
    if (await(k) != 200)
        fail_msg("patching %s: HTTP %d %s", name, k->status,
                 codec_json_str(k->body, "message", NULL));
    codec_yaml_docs_finish(&docs);
}

static inline void cluster_delete(struct cluster *k, struct kube_gvr r, const char *ns,
                                  const char *name)
{
    kube_delete(k->client, r, ns, name, -1, call_took, k);
    int status = await(k);
    if (status != 200 && status != 202)
        fail_msg("deleting %s: HTTP %d", name, status);
}

static inline void cluster_node(struct cluster *k, const char *gpus)
{
    cluster_create(k, KUBE_NODES,
                   "{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: "
                   "{kubernetes.io/hostname: node-1}}}");
    GS_AUTO_FREE char *status =
        gs_format("status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110', nvidia.com/gpu: "
                  "'%s'}, conditions: [{type: Ready, status: 'True'}]}",
                  gpus);
    cluster_patch(k, KUBE_NODES, "node-1", "status", status);
}

// --- looking ---

static inline size_t cluster_pods(struct cluster *k, bool (*is)(const json_t *pod))
{
    size_t pos = 0, n = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(k->c->pods, &pos)))
        n += !is || is(pod);
    return n;
}

static inline bool pod_serves(const json_t *pod)
{
    return local_pod_active(pod) && local_pod_ready(pod);
}

static inline const json_t *cluster_deployment(struct cluster *k, const char *name)
{
    return kube_cache_get(k->c->deployments, "default", name);
}

static inline int64_t cluster_count(struct cluster *k, const char *name, const char *field)
{
    return codec_json_int(cluster_deployment(k, name), 0, "status", field, NULL);
}

static inline const char *cluster_reason(const json_t *obj, const char *condition)
{
    const char *reason = codec_json_str(kube_condition(obj, condition), "reason", NULL);
    return reason ? reason : "";
}

// Whether there is an event with this reason whose message contains the text.
static inline bool cluster_event(struct cluster *k, const char *reason, const char *text)
{
    kube_list(k->client, KUBE_EVENTS, NULL, NULL, call_took, k);
    assert_int_equal(await(k), 200);
    size_t i;
    json_t *e;
    json_array_foreach (json_object_get(k->body, "items"), i, e) {
        const char *message = codec_json_str(e, "message", NULL);
        if (gs_streq(codec_json_str(e, "reason", NULL), reason) && message && strstr(message, text))
            return true;
    }
    return false;
}
