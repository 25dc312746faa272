// SPDX-License-Identifier: Apache-2.0
// The nodes of a cluster, and why one of its pods waits.
#include "explain/explain_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/inspect/inspect.h"
#include "nodes/pool.h"

#define STATUS_QUERY "fieldSelector=metadata.name%3Dcluster-autoscaler-status"
#define ORDERS_QUERY "fieldSelector=involvedObject.kind%3DPod%2Creason%3DTriggeredScaleUp"
#define STATE_PATH   "/apis/nodes.gpuscale.dev/v1/autoscaler"

static const struct kube_gvr NODE_CLAIMS = {"karpenter.sh", "v1", "nodeclaims"};

struct reading {
    struct kube_session cluster;
    char *line; // the last one of the log of an ended container
    json_t *nodes, *pods, *events, *claims, *maps, *autoscaler;
    bool done;
    json_t *body;
};

static json_t *items(const json_t *list)
{
    return json_object_get(list, "items");
}

// Other objects are optional: they may not exist, or not be readable by this user.
static void list_optional(struct kube_session *s, struct kube_gvr gvr, const char *ns,
                          const char *query, json_t **ret)
{
    GS_AUTO_ERROR struct gs_error *err =
        kube_session_list(s, gvr, ns, query, EXPLAIN_TIMEOUT_MS, ret);
    (void)err;
}

static void on_state(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct reading *r = arg;

    r->done = true;
    if (!err && status == 200)
        r->body = json_incref(body);
    gs_error_free(err);
}

static void read_state(struct reading *r)
{
    struct kube_request *request = kube_raw_get(r->cluster.client, STATE_PATH, on_state, r);
    GS_AUTO_ERROR struct gs_error *err =
        kube_session_wait(&r->cluster, &r->done, EXPLAIN_TIMEOUT_MS);

    if (err)
        kube_request_cancel(request);
    r->autoscaler = r->body;
}

static void on_log(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct reading *r = arg;

    r->done = true;
    if (response && response->status == 200 && !r->line)
        r->line = diagnosis_last_log_line(response->body);
    gs_error_free(err);
}

// Reads the log on demand: few pods have crashed.
static const char *last_line(void *arg, const json_t *pod, const json_t *container_status)
{
    struct reading *r = arg;
    const char *container = codec_json_str(container_status, "name", NULL);
    GS_AUTO_BUF struct gs_buf path = {0};

    kube_path(&path, KUBE_PODS, kube_namespace(pod), kube_name(pod), "log");
    gs_buf_add_str(&path, "?tailLines=20&limitBytes=65536&container=");
    http_encode(gs_slice_of(container ? container : ""), &path);
    if (codec_json_get(container_status, "state", "running", NULL))
        gs_buf_add_str(&path, "&previous=true");
    const struct http_request request = {.path = path.data};
    const struct http_callbacks cb = {.on_done = on_log};
    r->done = false;
    struct http_op *op = http_send(kube_client_http(r->cluster.client), &request, &cb, r);
    GS_AUTO_ERROR struct gs_error *err =
        kube_session_wait(&r->cluster, &r->done, EXPLAIN_TIMEOUT_MS);
    if (err)
        http_op_cancel(op);
    return r->line ? r->line : "";
}

static struct gs_error *read_cluster(struct reading *r, const struct explain_cluster *o)
{
    struct gs_error *err = kube_session_open(&r->cluster, o->kubeconfig, o->context, "nodes");

    if (!err)
        err = kube_session_list(&r->cluster, KUBE_NODES, NULL, NULL, EXPLAIN_TIMEOUT_MS, &r->nodes);
    if (!err)
        err = kube_session_list(&r->cluster, KUBE_PODS, NULL, NULL, EXPLAIN_TIMEOUT_MS, &r->pods);
    if (err)
        return err;
    list_optional(&r->cluster, KUBE_EVENTS, NULL, "fieldSelector=involvedObject.kind%3DPod",
                  &r->events);
    list_optional(&r->cluster, NODE_CLAIMS, NULL, NULL, &r->claims);
    list_optional(&r->cluster, KUBE_CONFIGMAPS, "kube-system", STATUS_QUERY, &r->maps);
    read_state(r);
    return NULL;
}

static void reading_finish(struct reading *r)
{
    kube_session_close(&r->cluster);
    free(r->line);
    json_decref(r->nodes);
    json_decref(r->pods);
    json_decref(r->events);
    json_decref(r->claims);
    json_decref(r->maps);
    json_decref(r->autoscaler);
}

static struct inspect_input input_of(const struct reading *r)
{
    return (struct inspect_input){
        .nodes = items(r->nodes),
        .pods = items(r->pods),
        .events = items(r->events),
        .claims = items(r->claims),
        .status = json_array_get(items(r->maps), 0),
        .autoscaler = r->autoscaler,
        .now_ms = gs_unix_ms(),
    };
}

struct gs_error *explain_nodes(const struct explain_cluster *o, json_t **ret)
{
    GS_CLEANUP(reading_finish) struct reading r = {0};
    struct gs_error *err = read_cluster(&r, o);

    if (err)
        return err;
    const struct inspect_input in = input_of(&r);
    *ret = inspect_nodes(&in);
    return NULL;
}

struct gs_error *explain_pod(const struct explain_cluster *o, const char *name, json_t **ret)
{
    GS_CLEANUP(reading_finish) struct reading r = {0};
    struct gs_error *err = read_cluster(&r, o);

    if (err)
        return err;
    struct inspect_input in = input_of(&r);
    in.last_line = last_line;
    in.arg = &r;
    const char *ns = o->ns ? o->ns : r.cluster.ns;
    json_t *explanation = inspect_pod(&in, ns, name);
    if (!explanation)
        return explain_not_found(o, KUBE_PODS, name,
                                 gs_error_new(GS_ENOTFOUND, "pods \"%s\" not found", name));
    *ret = explanation;
    return NULL;
}

// The members of all for the pools of these nodes. NULL: none has a sample.
static json_t *startup_of_nodes(const json_t *all, const json_t *nodes, const json_t *names)
{
    json_t *out = json_object();
    size_t i;
    const json_t *node;

    json_array_foreach (nodes, i, node) {
        const char *pool = nodes_pool_label(node);
        json_t *startup = pool ? json_object_get(all, pool) : NULL;
        if (startup && codec_json_has_string(names, kube_name(node)) &&
            codec_json_int(startup, 0, "samples", NULL) > 0)
            json_object_set(out, pool, startup);
    }
    if (json_object_size(out))
        return out;
    json_decref(out);
    return NULL;
}

json_t *explain_node_startup(struct kube_session *s, const json_t *names)
{
    CODEC_AUTO_JSON json_t *nodes = NULL, *events = NULL, *claims = NULL;

    if (!json_array_size(names))
        return NULL;
    list_optional(s, KUBE_NODES, NULL, NULL, &nodes);
    if (!nodes)
        return NULL;
    list_optional(s, KUBE_EVENTS, NULL, ORDERS_QUERY, &events);
    list_optional(s, NODE_CLAIMS, NULL, NULL, &claims);
    const struct inspect_input in = {.nodes = items(nodes),
                                     .events = items(events),
                                     .claims = items(claims),
                                     .now_ms = gs_unix_ms()};
    CODEC_AUTO_JSON json_t *all = inspect_pool_startup(&in);
    return startup_of_nodes(all, items(nodes), names);
}
