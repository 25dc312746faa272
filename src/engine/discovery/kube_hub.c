// SPDX-License-Identifier: Apache-2.0
#include "engine/discovery/kube_hub.h"

#include "base/mem.h"
#include "kube/kubeconfig.h"
#include "kube/watch_errors.h"

struct discovery_hub_cache {
    char *key;
    unsigned refs;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    struct discovery_hub_cluster *cluster;
    struct discovery_hub_cache *next;
};

struct discovery_hub_cluster {
    char *key; // "" the engine's own
    unsigned refs;
    struct http_client *http; // NULL: the kube_client is borrowed
    struct kube_client *kube;
    struct discovery_hub_cache *caches;
    struct discovery_kubernetes_hub *hub;
    struct discovery_hub_cluster *next;
};

struct discovery_kubernetes_hub {
    uv_loop_t *loop;
    struct kube_client *own;
    struct discovery_hub_cluster *clusters;
};

struct discovery_kubernetes_hub *discovery_kubernetes_hub_new(uv_loop_t *loop,
                                                              struct kube_client *own_cluster)
{
    struct discovery_kubernetes_hub *h = gs_alloc(sizeof(*h));
    h->loop = loop;
    h->own = own_cluster;
    return h;
}

void discovery_kubernetes_hub_free(struct discovery_kubernetes_hub *h)
{
    free(h);
}

uv_loop_t *discovery_hub_loop(struct discovery_kubernetes_hub *h)
{
    return h->loop;
}

// --- clusters ---

static struct gs_error *connect_cluster(struct discovery_hub_cluster *c,
                                        const struct engine_config_kubernetes_sd *cfg)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    const struct endpoint_options options = {
        .refresh_ms = KUBE_CONFIG_REFRESH_MS, .component = "discovery", .name = cfg->api_server};
    struct gs_error *err = NULL;
    if (cfg->api_server)
        err = endpoint_client_new(c->hub->loop, cfg->api_server, &cfg->http, &options, &c->http);
    else
        err = kube_config_load(cfg->kubeconfig_file, NULL, &k);
    if (!err && !cfg->api_server)
        err = kube_config_connect(&k, c->hub->loop, NULL, &c->http);
    if (err)
        return gs_error_wrap(err, "kubernetes_sd_configs");
    c->kube = kube_client_new(c->http);
    return NULL;
}

static void exporter_cluster_free(struct discovery_hub_cluster *c)
{
    if (c->http) {
        kube_client_free(c->kube);
        http_client_free(c->http);
    }
    free(c->key);
    free(c);
}

struct gs_error *discovery_hub_cluster_open(struct discovery_kubernetes_hub *h,
                                            const struct engine_config_kubernetes_sd *cfg,
                                            struct discovery_hub_cluster **ret)
{
    GS_AUTO_FREE char *key = gs_format("%s|%s", cfg->api_server ? cfg->api_server : "",
                                       cfg->kubeconfig_file ? cfg->kubeconfig_file : "");
    for (struct discovery_hub_cluster *c = h->clusters; c; c = c->next) {
        if (gs_streq(c->key, key)) {
            c->refs++;
            *ret = c;
            return NULL;
        }
    }
    struct discovery_hub_cluster *c = gs_alloc(sizeof(*c));
    c->hub = h;
    c->key = GS_TAKE(key);
    c->refs = 1;
    bool own = !cfg->api_server && !cfg->kubeconfig_file && h->own;
    struct gs_error *err = own ? NULL : connect_cluster(c, cfg);
    if (err) {
        exporter_cluster_free(c);
        return err;
    }
    if (own)
        c->kube = h->own;
    c->next = h->clusters;
    h->clusters = c;
    *ret = c;
    return NULL;
}

void discovery_hub_cluster_close(struct discovery_hub_cluster *c)
{
    if (!c || --c->refs)
        return;
    struct discovery_hub_cluster **link = &c->hub->clusters;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    exporter_cluster_free(c);
}

// --- caches ---

struct discovery_hub_cache *discovery_hub_cache_open(struct discovery_hub_cluster *c,
                                                     struct kube_gvr r, const char *ns,
                                                     const char *query)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s?%s", r.resource, ns ? ns : "", query ? query : "");
    for (struct discovery_hub_cache *k = c->caches; k; k = k->next) {
        if (gs_streq(k->key, key)) {
            k->refs++;
            return k;
        }
    }
    struct discovery_hub_cache *k = gs_alloc(sizeof(*k));
    k->key = GS_TAKE(key);
    k->refs = 1;
    k->cluster = c;
    k->cache = kube_cache_new(c->hub->loop, c->kube, r, ns, query);
    GS_AUTO_FREE char *what =
        gs_format("%s%s%s", r.resource, ns ? " of namespace " : "", ns ? ns : "");
    k->errors = kube_watch_errors_new(c->hub->loop, k->cache, "discovery", what);
    k->next = c->caches;
    c->caches = k;
    kube_cache_start(k->cache);
    return k;
}

void discovery_hub_cache_close(struct discovery_hub_cache *k)
{
    if (!k || --k->refs)
        return;
    struct discovery_hub_cache **link = &k->cluster->caches;
    while (*link != k)
        link = &(*link)->next;
    *link = k->next;
    kube_watch_errors_free(k->errors);
    kube_cache_free(k->cache);
    free(k->key);
    free(k);
}

struct kube_cache *discovery_hub_cache_get(struct discovery_hub_cache *c)
{
    return c->cache;
}
