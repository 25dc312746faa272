// SPDX-License-Identifier: Apache-2.0
// Watches that several jobs share: jobs with the same cluster, resource, namespace and selectors
// use one cache. Both levels count references; the last user closes the watch.
#include "engine/discovery/discovery_private.h"

#include "base/mem.h"
#include "kube/cache.h"
#include "kube/kubeconfig.h"
#include "kube/trim.h"

struct discovery_informer {
    char *key;
    unsigned refs;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    struct discovery_informer_cluster *cluster;
    struct discovery_informer *next;
};

struct discovery_informer_cluster {
    char *key; // "": the engine's own cluster
    unsigned refs;
    struct http_client *http; // NULL: the kube_client is borrowed
    struct kube_client *kube;
    struct discovery_informer *caches;
    struct discovery_informers *informers;
    struct discovery_informer_cluster *next;
};

struct discovery_informers {
    uv_loop_t *loop;
    struct kube_client *own;
    struct discovery_informer_cluster *clusters;
};

struct discovery_informers *discovery_informers_new(uv_loop_t *loop,
                                                    struct kube_client *own_cluster)
{
    struct discovery_informers *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->own = own_cluster;
    return s;
}

void discovery_informers_free(struct discovery_informers *s)
{
    free(s);
}

uv_loop_t *discovery_informers_loop(struct discovery_informers *s)
{
    return s->loop;
}

// --- clusters ---

static struct gs_error *connect_cluster(struct discovery_informer_cluster *c,
                                        const struct engine_config_kubernetes_sd *cfg)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    const struct endpoint_options options = {
        .refresh_ms = KUBE_CONFIG_REFRESH_MS, .component = "discovery", .name = cfg->api_server};
    struct gs_error *err = NULL;
    if (cfg->api_server)
        err = endpoint_client_new(c->informers->loop, cfg->api_server, &cfg->http, &options,
                                  &c->http);
    else
        err = kube_config_load(cfg->kubeconfig_file, NULL, &k);
    if (!err && !cfg->api_server)
        err = kube_config_connect(&k, c->informers->loop, NULL, &c->http);
    if (err)
        return gs_error_wrap(err, "kubernetes_sd_configs");
    c->kube = kube_client_new(c->http);
    return NULL;
}

static void cluster_free(struct discovery_informer_cluster *c)
{
    if (c->http) {
        kube_client_free(c->kube);
        http_client_free(c->http);
    }
    free(c->key);
    free(c);
}

struct gs_error *discovery_informer_cluster_open(struct discovery_informers *s,
                                                 const struct engine_config_kubernetes_sd *cfg,
                                                 struct discovery_informer_cluster **ret)
{
    GS_AUTO_FREE char *key = gs_format("%s|%s", cfg->api_server ? cfg->api_server : "",
                                       cfg->kubeconfig_file ? cfg->kubeconfig_file : "");
    for (struct discovery_informer_cluster *c = s->clusters; c; c = c->next) {
        if (gs_streq(c->key, key)) {
            c->refs++;
            *ret = c;
            return NULL;
        }
    }
    struct discovery_informer_cluster *c = gs_alloc(sizeof(*c));
    c->informers = s;
    c->key = GS_TAKE(key);
    c->refs = 1;
    bool own = !cfg->api_server && !cfg->kubeconfig_file && s->own;
    struct gs_error *err = own ? NULL : connect_cluster(c, cfg);
    if (err) {
        cluster_free(c);
        return err;
    }
    if (own)
        c->kube = s->own;
    c->next = s->clusters;
    s->clusters = c;
    *ret = c;
    return NULL;
}

void discovery_informer_cluster_close(struct discovery_informer_cluster *c)
{
    if (!c || --c->refs)
        return;
    struct discovery_informer_cluster **link = &c->informers->clusters;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    cluster_free(c);
}

// --- caches ---

// What labels are made of. Most pods of a cluster are no targets.
static void trim_pod(json_t *pod)
{
    static const char *const of_spec[] = {"affinity", "nodeSelector", "tolerations",
                                          "topologySpreadConstraints"};
    static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};
    json_t *spec = json_object_get(pod, "spec"), *status = json_object_get(pod, "status"), *item;
    size_t i;
    kube_trim_pod(pod);
    for (size_t k = 0; k < GS_ARRAY_LEN(of_spec); k++)
        json_object_del(spec, of_spec[k]);
    for (size_t k = 0; k < GS_ARRAY_LEN(lists); k++)
        json_array_foreach (json_object_get(status, lists[k]), i, item) {
            json_object_del(item, "state");
            json_object_del(item, "lastState");
            json_object_del(item, "imageID");
        }
}

struct discovery_informer *discovery_informer_open(struct discovery_informer_cluster *c,
                                                   struct kube_gvr r, const char *ns,
                                                   const char *query)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s?%s", r.resource, ns ? ns : "", query ? query : "");
    for (struct discovery_informer *k = c->caches; k; k = k->next) {
        if (gs_streq(k->key, key)) {
            k->refs++;
            return k;
        }
    }
    struct discovery_informer *k = gs_alloc(sizeof(*k));
    k->key = GS_TAKE(key);
    k->refs = 1;
    k->cluster = c;
    k->cache = kube_cache_new(c->informers->loop, c->kube, r, ns, query);
    kube_cache_set_trim(k->cache, gs_streq(r.resource, "pods")    ? trim_pod
                                  : gs_streq(r.resource, "nodes") ? kube_trim_node
                                                                  : kube_trim_object);
    GS_AUTO_FREE char *what =
        gs_format("%s%s%s", r.resource, ns ? " of namespace " : "", ns ? ns : "");
    k->errors = kube_watch_errors_new(c->informers->loop, k->cache, "discovery", what);
    k->next = c->caches;
    c->caches = k;
    kube_cache_start(k->cache);
    return k;
}

void discovery_informer_close(struct discovery_informer *k)
{
    if (!k || --k->refs)
        return;
    struct discovery_informer **link = &k->cluster->caches;
    while (*link != k)
        link = &(*link)->next;
    *link = k->next;
    kube_watch_errors_free(k->errors);
    kube_cache_free(k->cache);
    free(k->key);
    free(k);
}

struct kube_cache *discovery_informer_cache(struct discovery_informer *c)
{
    return c->cache;
}
