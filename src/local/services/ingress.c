// SPDX-License-Identifier: Apache-2.0
// All Ingresses are read again after each change of one of them or of a TLS secret. Services and
// their endpoints are read for each request.
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/secret.h"
#include "local/ports.h"
#include "local/services/services_private.h"
#include "net/tls/tls.h"

#define INGRESSES ((struct kube_gvr){"networking.k8s.io", "v1", "ingresses"})

#define ANN_CLASS "kubernetes.io/ingress.class"

enum {
    HTTP_PORT = 80,
    HTTPS_PORT = 443,
    RETRY_MS = 5000,
    MAX_CONNECTIONS = 1024, // of each port of a router
    MAX_BODY = 8 * 1024 * 1024,
};

struct port {
    struct router *router;
    struct http_server *server; // NULL: does not listen
    int number;
    bool tls;
};

struct router {
    struct services_ingress *owner;
    char *key, *ip;
    struct port http, https;
    struct tls_pair pair; // that https shows
    struct services_ingress_routes routes;
    bool wanted;
    char *problem; // why a port does not listen
};

struct services_ingress {
    struct local_cluster *cluster;
    struct services_addresses *addresses;
    struct kube_cache *ingresses, *secrets;
    struct kube_recorder *recorder;
    struct local_workqueue *queue; // of the one key "all"
    struct services_ingress_calls *calls;
    struct gs_hmap *routers; // by key
    struct gs_hmap *noted;   // UID of an Ingress and reason -> the last event
};

// --- requests ---

static const json_t *find_port(const json_t *service, const struct services_ingress_route *r)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port)
        if (r->port_name ? gs_streq(codec_json_str(port, "name", NULL), r->port_name)
                         : codec_json_int(port, 0, "port", NULL) == r->port)
            return port;
    return NULL;
}

static void on_request(void *ctx, struct http_exchange *x)
{
    const struct port *p = ctx;
    struct services_ingress *g = p->router->owner;
    GS_AUTO_FREE char *path = services_ingress_path(http_path(x));
    if (!path) {
        services_ingress_refuse(x, 400);
        return;
    }
    const struct services_ingress_route *r =
        services_ingress_routes_find(&p->router->routes, http_header(x, "Host"), path);
    if (!r) {
        services_ingress_refuse(x, 404);
        return;
    }
    const json_t *service =
        r->service ? kube_cache_get(g->cluster->services, r->ns, r->service) : NULL;
    const json_t *port = find_port(service, r);
    struct services_endpoints_list list = {0};
    if (port)
        services_endpoints_of_port(g->cluster, service, port, &list);
    GS_AUTO_FREE char *backend = gs_format("%s/%s:%lld", r->ns, r->service ? r->service : "",
                                           (long long)codec_json_int(port, 0, "port", NULL));
    services_ingress_proxy(g->calls, x, backend, list.items, list.len, p->tls);
    free(list.items);
}

void services_ingress_route(struct services_ingress *g, const char *class, bool tls,
                            struct http_exchange *x)
{
    GS_AUTO_FREE char *key = gs_format("ingress-class/%s", class);
    struct router *r = gs_hmap_get_str(g->routers, key);
    if (r)
        on_request(tls ? &r->https : &r->http, x);
    else
        services_ingress_refuse(x, 404);
}

// --- routers ---

static void router_free(void *arg)
{
    struct router *r = arg;
    http_server_stop(r->http.server);
    http_server_stop(r->https.server);
    services_ingress_routes_finish(&r->routes);
    tls_pair_finish(&r->pair);
    free(r->problem);
    free(r->key);
    free(r->ip);
    free(r);
}

static const char *class_of(const json_t *ingress)
{
    const char *name = codec_json_str(ingress, "spec", "ingressClassName", NULL);
    if (!name || !*name)
        name = kube_annotation(ingress, ANN_CLASS);
    return name ? name : "";
}

static char *router_key(const json_t *ingress)
{
    if (strcmp(class_of(ingress), "alb") == 0)
        return gs_format("ingress/%s/%s", kube_namespace(ingress), kube_name(ingress));
    return gs_format("ingress-class/%s", class_of(ingress));
}

static const char *status_ip(const json_t *ingress)
{
    return codec_json_str(
        json_array_get(codec_json_get(ingress, "status", "loadBalancer", "ingress", NULL), 0), "ip",
        NULL);
}

// The address of an earlier start, if it is still free. NULL: none is free.
static char *lease_ip(struct services_ingress *g, const char *key, const json_t *ingress)
{
    const char *had = status_ip(ingress);
    if (had && local_is_balancer_ip(had) && !services_addresses_taken(g->addresses, had, key)) {
        services_addresses_keep_ip(g->addresses, key, SERVICES_ADDRESS_BALANCER, had);
        return gs_strdup(had);
    }
    return gs_strdup(services_addresses_lease_ip(g->addresses, key, SERVICES_ADDRESS_BALANCER));
}

static struct router *router_of(struct services_ingress *g, const json_t *ingress)
{
    GS_AUTO_FREE char *key = router_key(ingress);
    struct router *r = gs_hmap_get_str(g->routers, key);
    if (r)
        return r;
    r = gs_alloc(sizeof(*r));
    r->owner = g;
    r->ip = lease_ip(g, key, ingress);
    r->http = (struct port){.router = r};
    r->https = (struct port){.router = r, .tls = true};
    r->key = GS_TAKE(key);
    gs_hmap_put_str(g->routers, r->key, r);
    return r;
}

// --- certificates ---

// An event that is recorded once for each text.
static void note(struct services_ingress *g, const json_t *ingress, const char *type,
                 const char *reason, char *message)
{
    GS_AUTO_FREE char *key = gs_format("%s|%s", kube_uid(ingress), reason);
    char *last = gs_hmap_get_str(g->noted, key);
    if (gs_streq(last, message)) {
        free(message);
        return;
    }
    kube_event(g->recorder, ingress, type, reason, "%s", message);
    free(gs_hmap_remove_str(g->noted, key));
    gs_hmap_put_str(g->noted, key, message);
}

// Sets *pair to the first valid certificate of the Ingress, unless it has one.
static void add_certificate(struct services_ingress *g, const json_t *ingress,
                            struct tls_pair *pair)
{
    size_t i;
    json_t *tls;
    json_array_foreach (codec_json_get(ingress, "spec", "tls", NULL), i, tls) {
        const char *name = codec_json_str(tls, "secretName", NULL);
        if (!name || !*name)
            continue;
        const json_t *secret = kube_cache_get(g->secrets, kube_namespace(ingress), name);
        struct tls_pair found = {kube_secret_text(secret, "tls.crt"),
                                 kube_secret_text(secret, "tls.key")};
        struct gs_error *err =
            found.cert_pem && found.key_pem
                ? tls_check_pair(found.cert_pem, found.key_pem)
                : gs_error_new(GS_ENOTFOUND, "no Secret of type kubernetes.io/tls with this name");
        if (err)
            note(g, ingress, "Warning", "TLSSecretNotUsed",
                 gs_format("Secret \"%s\": %s", name, gs_error_message(err)));
        if (!err && !pair->cert_pem) {
            *pair = found;
            found = (struct tls_pair){0};
        }
        gs_error_free(err);
        tls_pair_finish(&found);
    }
}

// --- listening ---

static struct gs_error *start_server(struct router *r, struct port *p, int asked)
{
    struct http_server_config cfg = {
        .address = r->ip,
        .cert_pem = p->tls ? r->pair.cert_pem : NULL,
        .key_pem = p->tls ? r->pair.key_pem : NULL,
        .max_body = MAX_BODY,
        .max_connections = MAX_CONNECTIONS,
    };
    struct gs_error *err = NULL;
    for (int port = local_host_port(asked); port <= 65535; port += LOCAL_PORT_SHIFT) {
        gs_error_free(err);
        cfg.port = (uint16_t)port;
        p->number = port;
        err = http_server_start(r->owner->cluster->loop, &cfg, on_request, p, &p->server);
        if (!err || gs_error_code(err) != GS_EEXIST)
            break;
    }
    return err;
}

static void listen_on(struct router *r, struct port *p, int asked)
{
    struct gs_error *err = p->server ? NULL : start_server(r, p, asked);
    if (!err)
        return;
    free(r->problem);
    r->problem = gs_strdup(gs_error_message(err));
    gs_error_free(err);
}

static void serve_tls(struct router *r, struct tls_pair *pair)
{
    bool same =
        gs_streq(r->pair.cert_pem, pair->cert_pem) && gs_streq(r->pair.key_pem, pair->key_pem);
    if (!pair->cert_pem) {
        http_server_stop(GS_TAKE(r->https.server));
    } else if (!same && r->https.server) {
        gs_error_free(http_server_set_certificate(r->https.server, pair->cert_pem, pair->key_pem));
    }
    tls_pair_finish(&r->pair);
    r->pair = *pair;
    if (pair->cert_pem)
        listen_on(r, &r->https, HTTPS_PORT);
}

static void listen_all(struct router *r, struct tls_pair *pair)
{
    free(GS_TAKE(r->problem));
    if (!r->ip) {
        r->problem = gs_strdup("no free address in " LOCAL_BALANCER_IPS);
        tls_pair_finish(pair);
        return;
    }
    listen_on(r, &r->http, HTTP_PORT);
    serve_tls(r, pair);
}

// --- showing ---

static json_t *status_of(const struct router *r)
{
    const struct port *const ports[] = {&r->http, &r->https};
    json_t *list = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(ports); i++)
        if (ports[i]->server)
            json_array_append_new(
                list, json_pack("{s:i, s:s}", "port", ports[i]->number, "protocol", "TCP"));
    if (!json_array_size(list)) {
        json_decref(list);
        return json_object();
    }
    return json_pack("{s:[{s:s, s:o}]}", "ingress", "ip", r->ip, "ports", list);
}

static void annotate(json_t *patch, const json_t *ingress, const char *name, const char *text)
{
    const char *have = kube_annotation(ingress, name);
    if (!gs_streq(have ? have : "", text))
        codec_json_set(patch, *text ? json_string(text) : json_null(), "metadata", "annotations",
                       name, NULL);
}

static void show_ports(struct services_ingress *g, struct local_reconcile *w,
                       const struct router *r, const json_t *ingress)
{
    const struct port *const ports[] = {&r->http, &r->https};
    static const int asked[] = {HTTP_PORT, HTTPS_PORT};
    CODEC_AUTO_JSON json_t *patch = json_object();
    GS_AUTO_BUF struct gs_buf address = {0}, moved = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(ports); i++) {
        if (!ports[i]->server)
            continue;
        gs_buf_addf(&address, "%s%s:%d", address.len ? "," : "", r->ip, ports[i]->number);
        if (ports[i]->number != asked[i])
            gs_buf_addf(&moved, "%s%d=%d", moved.len ? "," : "", asked[i], ports[i]->number);
    }
    if (address.len)
        note(g, ingress, "Normal", "Sync", gs_format("Listening on %s", address.data));
    annotate(patch, ingress, LOCAL_ANN_ADDRESS, address.len ? address.data : "");
    annotate(patch, ingress, KUBE_ANN_PORTS, moved.len ? moved.data : "");
    if (json_object_size(patch))
        local_reconcile_patch(w, INGRESSES, kube_namespace(ingress), kube_name(ingress), NULL,
                              patch, NULL, NULL);
}

static void show(struct services_ingress *g, struct local_reconcile *w, const struct router *r,
                 const json_t *ingress)
{
    CODEC_AUTO_JSON json_t *status = status_of(r);
    const json_t *have = codec_json_get(ingress, "status", "loadBalancer", NULL);
    if (r->problem) {
        note(g, ingress, "Warning", "PortBusy",
             gs_format("Cannot listen on %s; trying again until it is free", r->problem));
        local_reconcile_requeue(w, RETRY_MS);
    }
    show_ports(g, w, r, ingress);
    if (json_object_size(status) ? json_equal(status, have) : json_object_size(have) == 0)
        return;
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, json_object_size(status) ? json_incref(status) : json_null(), "status",
                   "loadBalancer", NULL);
    local_reconcile_patch(w, INGRESSES, kube_namespace(ingress), kube_name(ingress), "status",
                          patch, NULL, NULL);
}

// --- all Ingresses ---

static int compare_ages(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    const char *ta = kube_created(a);
    const char *tb = kube_created(b);
    int c = strcmp(ta ? ta : "", tb ? tb : "");
    if (!c)
        c = strcmp(kube_namespace(a), kube_namespace(b));
    return c ? c : strcmp(kube_name(a), kube_name(b));
}

static void drop_unwanted(struct services_ingress *g)
{
    CODEC_AUTO_JSON json_t *gone = json_array();
    size_t pos = 0, i;
    struct gs_slice key;
    void *v;
    json_t *k;
    while (gs_hmap_next(g->routers, &pos, &key, &v))
        if (!((struct router *)v)->wanted)
            json_array_append_new(gone, json_stringn(key.data, key.len));
    json_array_foreach (gone, i, k) {
        router_free(gs_hmap_remove_str(g->routers, json_string_value(k)));
        services_addresses_drop(g->addresses, json_string_value(k));
    }
}

static void update_router(struct services_ingress *g, struct router *r, const json_t *const *all,
                          size_t n)
{
    struct tls_pair pair = {0};
    services_ingress_routes_finish(&r->routes);
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *key = router_key(all[i]);
        if (strcmp(key, r->key) != 0)
            continue;
        services_ingress_routes_add(&r->routes, all[i]);
        add_certificate(g, all[i], &pair);
    }
    services_ingress_routes_sort(&r->routes);
    listen_all(r, &pair);
}

static void sync_all(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct services_ingress *g = arg;
    GS_AUTO_FREE const json_t **all = NULL;
    size_t n = 0, cap = 0, pos = 0;
    const json_t *ingress;
    void *v;

    if (!local_cluster_synced(g->cluster) || !kube_cache_synced(g->ingresses) ||
        !kube_cache_synced(g->secrets)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    while ((ingress = kube_cache_next(g->ingresses, &pos)))
        if (!kube_is_deleting(ingress)) {
            gs_grow(&all, &cap, n, sizeof(*all));
            all[n++] = ingress;
        }
    if (n)
        qsort(all, n, sizeof(*all), compare_ages);
    for (pos = 0; gs_hmap_next(g->routers, &pos, NULL, &v);)
        ((struct router *)v)->wanted = false;
    for (size_t i = 0; i < n; i++)
        router_of(g, all[i])->wanted = true;
    drop_unwanted(g);
    for (pos = 0; gs_hmap_next(g->routers, &pos, NULL, &v);)
        update_router(g, v, all, n);
    for (size_t i = 0; i < n; i++)
        show(g, w, router_of(g, all[i]), all[i]);
}

// --- life ---

static void on_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct services_ingress *g = arg;
    local_workqueue_add(g->queue, NULL, "all");
}

struct services_ingress *services_ingress_new(struct local_cluster *c,
                                              struct services_addresses *addresses)
{
    struct services_ingress *g = gs_alloc(sizeof(*g));
    g->cluster = c;
    g->addresses = addresses;
    g->recorder = kube_recorder_new(c->client, "gpuscale-ingress", NULL);
    g->calls = services_ingress_calls_new(c->loop);
    g->routers = gs_hmap_new(router_free);
    g->noted = gs_hmap_new(free);
    g->queue = local_workqueue_new(c->loop, c->client, "ingress", sync_all, g);
    g->ingresses = kube_cache_new(c->loop, c->client, INGRESSES, NULL, NULL);
    g->secrets = kube_cache_new(c->loop, c->client, KUBE_SECRETS, NULL,
                                "fieldSelector=type%3Dkubernetes.io%2Ftls");
    struct kube_cache_handlers h = {.on_change = on_change, .arg = g};
    kube_cache_add_handlers(g->ingresses, &h);
    kube_cache_add_handlers(g->secrets, &h);
    kube_cache_start(g->ingresses);
    kube_cache_start(g->secrets);
    return g;
}

void services_ingress_free(struct services_ingress *g)
{
    if (!g)
        return;
    local_workqueue_free(g->queue);
    gs_hmap_free(g->routers);
    services_ingress_calls_free(g->calls);
    kube_cache_free(g->ingresses);
    kube_cache_free(g->secrets);
    kube_recorder_free(g->recorder);
    gs_hmap_free(g->noted);
    free(g);
}
