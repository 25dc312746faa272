// SPDX-License-Identifier: Apache-2.0
// The Nodes of the machines: which machines have registered, and the removal of the Nodes of
// machines that are gone, which the Cluster Autoscaler never does.
#include "base/log.h"
#include "base/mem.h"
#include "kube/cache.h"
#include "kube/connection.h"
#include "kube/object.h"
#include "node_provider/node_provider_private.h"

#define RETRY_MS 10000

struct node_provider_nodes {
    struct node_provider_nodes_config config;
    struct kube_connection cluster;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    struct gs_timer *timer;
    uint64_t removed;
};

static const char *provider_id_of(const json_t *node)
{
    const char *id = codec_json_str(node, "spec", "providerID", NULL);
    return id ? id : "";
}

static void trim_node(json_t *node)
{
    json_object_del(node, "status");
    codec_json_del(node, "metadata", "managedFields", NULL);
}

// --- removal ---

struct removal {
    struct node_provider_nodes *nodes;
    char *name;
};

static void on_removed(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct removal *r = arg;
    (void)status, (void)body;
    if (err && gs_error_code(err) != GS_ENOTFOUND) {
        gs_warn("node-provider", "removing the Node %s: %s; it is tried again", r->name,
                gs_error_message(err));
    } else if (!err) {
        r->nodes->removed++;
        gs_info("node-provider", "removed the Node %s: its machine is gone", r->name);
    }
    gs_error_free(err);
    free(r->name);
    free(r);
}

static void remove_node(struct node_provider_nodes *n, const json_t *node)
{
    if (n->config.keep_nodes || kube_is_deleting(node))
        return;
    struct removal *r = gs_alloc(sizeof(*r));
    r->nodes = n;
    r->name = gs_strdup(kube_name(node));
    (void)kube_delete(n->cluster.client, KUBE_NODES, NULL, r->name, -1, on_removed, r);
}

void node_provider_nodes_gone(struct node_provider_nodes *n, struct node_provider_machine *m)
{
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(n->cache, &pos)))
        if (gs_streq(provider_id_of(node), m->provider_id)) {
            remove_node(n, node);
            return; // the watch reports the removal
        }
}

static void retry_removals(void *arg)
{
    struct node_provider_nodes *n = arg;
    for (size_t i = 0; i < n->config.fleet->n_pools; i++) {
        const struct node_provider_pool *p = &n->config.fleet->pools[i];
        for (size_t k = 0; k < p->len; k++)
            if (p->machines[k]->step == NODE_PROVIDER_GONE && p->machines[k]->has_node)
                node_provider_nodes_gone(n, p->machines[k]);
    }
}

// --- registration ---

// The kubelet of a machine that was started without --provider-id. The API server accepts the field
// once.
static void set_provider_id(struct node_provider_nodes *n, const json_t *node)
{
    const struct node_provider_fleet *f = n->config.fleet;
    const struct node_provider_machine *m = NULL;
    for (size_t i = 0; i < f->n_pools && !m; i++)
        m = node_provider_find_named(&f->pools[i], kube_name(node));
    if (!m || m->step == NODE_PROVIDER_GONE || n->config.keep_nodes)
        return;
    gs_warn("node-provider",
            "%s/%s: its Node has no providerID; setting %s. Start the kubelet with "
            "--provider-id=\"$GPUSCALE_PROVIDER_ID\"",
            m->pool_name, m->name, m->provider_id);
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, json_string(m->provider_id), "spec", "providerID", NULL);
    (void)kube_patch(n->cluster.client, KUBE_NODES, NULL, m->name, NULL, KUBE_MERGE_PATCH, patch,
                     NULL, NULL);
}

static void on_node(void *arg, const json_t *old_node, const json_t *node)
{
    struct node_provider_nodes *n = arg;
    const json_t *any = node ? node : old_node;
    struct node_provider_machine *m =
        node_provider_find_machine(n->config.fleet, provider_id_of(any));
    if (node && !*provider_id_of(node)) {
        if (!old_node)
            set_provider_id(n, node);
        return;
    }
    if (!m)
        return;
    if (node && !m->has_node && m->step != NODE_PROVIDER_GONE)
        gs_info("node-provider", "%s/%s: the Node %s has registered", m->pool_name, m->name,
                kube_name(node));
    m->has_node = node != NULL;
    if (node && m->step == NODE_PROVIDER_GONE)
        remove_node(n, node);
}

static void on_synced(void *arg)
{
    struct node_provider_nodes *n = arg;
    n->config.fleet->watches_nodes = true;
}

// --- start ---

struct gs_error *node_provider_nodes_new(const struct node_provider_nodes_config *config,
                                         struct node_provider_nodes **ret)
{
    struct kube_connection cluster;
    struct gs_error *err =
        kube_connection_open(config->loop, config->kubeconfig, NULL, "node-provider", &cluster);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    struct node_provider_nodes *n = gs_alloc(sizeof(*n));
    n->config = *config;
    n->cluster = cluster;
    n->cache = kube_cache_new(config->loop, n->cluster.client, KUBE_NODES, NULL, NULL);
    n->errors = kube_watch_errors_new(config->loop, n->cache, "node-provider", "Node objects");
    n->timer = gs_timer_new(config->loop, n);
    kube_cache_set_trim(n->cache, trim_node);
    const struct kube_cache_handlers handlers = {
        .on_change = on_node, .on_synced = on_synced, .arg = n};
    kube_cache_add_handlers(n->cache, &handlers);
    kube_cache_start(n->cache);
    gs_timer_repeat(n->timer, retry_removals, RETRY_MS, RETRY_MS);
    *ret = n;
    return NULL;
}

struct kube_client *node_provider_nodes_client(const struct node_provider_nodes *n)
{
    return n->cluster.client;
}

void node_provider_nodes_set_fleet(struct node_provider_nodes *n, struct node_provider_fleet *f)
{
    size_t pos = 0;
    const json_t *node;
    n->config.fleet = f;
    f->watches_nodes = kube_cache_synced(n->cache);
    while ((node = kube_cache_next(n->cache, &pos)))
        on_node(n, NULL, node);
}

uint64_t node_provider_nodes_removed(const struct node_provider_nodes *n)
{
    return n ? n->removed : 0;
}

void node_provider_nodes_free(struct node_provider_nodes *n)
{
    if (!n)
        return;
    gs_timer_free(n->timer);
    kube_watch_errors_free(n->errors);
    kube_cache_free(n->cache);
    kube_connection_close(&n->cluster);
    free(n);
}
