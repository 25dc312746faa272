// SPDX-License-Identifier: Apache-2.0
// Making the server, and from a path to the function that answers it.
#include "local/api.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "local/api/admission.h"
#include "local/api/aggregate.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"
#include "local/api/proxy.h"
#include "net/tls/signature.h"

#define MAX_SEGMENTS      8
#define SWEEP_INTERVAL_MS 60000

#define DEFAULT_MAX_OBJECTS 10000
#define DEFAULT_MAX_PODS    1000

// --- life ---

static void on_sweep(void *arg)
{
    local_api_sweep_events(arg);
}

static void on_store_change(void *arg, const struct local_api_store_change *change)
{
    struct local_api *api = arg;

    local_api_watch_dispatch(api, change);
    local_api_crds_changed(api->crds, change);
    local_api_quota_changed(api, change);
    local_api_aggregation_changed(api->aggregation, change);
}

static struct gs_error *open_store(struct local_api *api, const char *data_dir)
{
    GS_AUTO_FREE char *path = data_dir ? gs_format("%s/state.db", data_dir) : NULL;
    GS_AUTO_FREE char **names = gs_alloc_array(local_api_n_resources, sizeof *names);

    for (size_t i = 0; i < local_api_n_resources; i++)
        names[i] = gs_format("%s/%s", local_api_resources[i].group, local_api_resources[i].plural);
    struct gs_error *err = local_api_store_open(
        &(struct local_api_store_config){.path = path,
                                         .bucket_names = (const char *const *)names,
                                         .n_buckets = local_api_n_resources,
                                         .on_change = on_store_change,
                                         .arg = api},
        &api->store);
    for (size_t i = 0; i < local_api_n_resources; i++)
        free(names[i]);
    return err;
}

static struct gs_error *read_token_key(struct local_api *api, const char *pem)
{
    char *made = NULL;
    struct gs_error *err = pem ? NULL : tls_signing_key_create(&made);

    if (!err)
        err = tls_signing_key_read(pem ? pem : made, &api->token_key);
    if (made)
        explicit_bzero(made, strlen(made));
    free(made);
    return err ? gs_error_wrap(err, "the key of service account tokens") : NULL;
}

struct gs_error *local_api_new(uv_loop_t *loop, const struct local_api_config *cfg,
                               struct local_api **ret)
{
    struct local_api *api = gs_alloc(sizeof *api);

    api->loop = loop;
    api->requests = gs_hmap_new(free);
    api->started_ms = gs_unix_ms();
    api->node_name = gs_strdup(cfg->node_name ? cfg->node_name : "localhost");
    api->max_objects = cfg->max_objects ? cfg->max_objects : DEFAULT_MAX_OBJECTS;
    api->max_pods = cfg->max_pods ? cfg->max_pods : DEFAULT_MAX_PODS;
    api->crds = local_api_crds_new(api);
    api->aggregation = local_api_aggregation_new(api);
    api->tls_servers = local_api_tls_servers_new(loop);
    struct gs_error *err = open_store(api, cfg->data_dir);
    if (err) {
        local_api_free(api);
        return gs_error_wrap(err, "opening the cluster's state");
    }
    local_api_crds_load(api->crds);
    api->ca_pem = gs_strdup(cfg->ca_pem);
    err = read_token_key(api, cfg->service_account_key);
    if (!err) {
        local_api_make_base_objects(api);
        err = local_api_aggregation_publish(api->aggregation);
    }
    if (err) {
        local_api_free(api);
        return err;
    }
    api->quota_timer = gs_timer_new(loop, api);
    api->sweep = gs_timer_new(loop, api);
    gs_timer_repeat(api->sweep, on_sweep, SWEEP_INTERVAL_MS, SWEEP_INTERVAL_MS);
    gs_timer_unref(api->sweep);
    *ret = api;
    return NULL;
}

void local_api_free(struct local_api *api)
{
    if (!api)
        return;
    local_api_watch_end_all(api);
    local_api_aggregation_free(api->aggregation);
    local_api_tls_servers_free(api->tls_servers);
    gs_timer_free(api->sweep);
    gs_timer_free(GS_TAKE(api->quota_timer));
    local_api_store_close(api->store);
    local_api_crds_free(api->crds);
    for (size_t i = 0; i < api->n_mounts; i++)
        free(api->mounts[i].group);
    free(api->mounts);
    gs_hmap_free(api->openapi);
    gs_hmap_free(api->requests);
    tls_signing_key_free(api->token_key);
    free(api->ca_pem);
    json_decref(api->token_user);
    json_decref(api->noticed);
    free(api->token_groups);
    free(api->node_name);
    for (size_t i = 0; i < api->n_nodes; i++)
        free(api->nodes[i].name);
    free(api->nodes);
    free(api);
}

void local_api_set_port(struct local_api *api, uint16_t port)
{
    api->port = port;
    local_api_make_own_service(api);
}

void local_api_mount(struct local_api *api, const char *group,
                     json_t *(*describe)(const void *ctx, const char *group), http_handler handler,
                     void *ctx)
{
    gs_grow(&api->mounts, &api->mounts_cap, api->n_mounts, sizeof *api->mounts);
    api->mounts[api->n_mounts++] =
        (struct local_api_mount){gs_strdup(group), describe, handler, ctx};
    local_api_aggregation_mounted(api->aggregation);
}

static void remove_kubelet(struct local_api *api, const char *node)
{
    for (size_t i = 0; i < api->n_nodes; i++)
        if (gs_streq(api->nodes[i].name, node)) {
            free(api->nodes[i].name);
            api->n_nodes--;
            memmove(&api->nodes[i], &api->nodes[i + 1], (api->n_nodes - i) * sizeof *api->nodes);
            return;
        }
}

void local_api_set_kubelet(struct local_api *api, const char *node,
                           const struct local_api_kubelet *k)
{
    remove_kubelet(api, node);
    if (!k)
        return;
    gs_grow(&api->nodes, &api->nodes_cap, api->n_nodes, sizeof *api->nodes);
    api->nodes[api->n_nodes++] = (struct local_api_node){gs_strdup(node), *k};
}

// --- paths ---

struct path {
    char *segments[MAX_SEGMENTS];
    size_t len;
};

static void path_finish(struct path *p)
{
    for (size_t i = 0; i < p->len; i++)
        free(p->segments[i]);
}

static struct gs_error *path_parse(const char *text, struct path *ret)
{
    struct gs_slice rest = gs_slice_of(text);

    while (rest.data) {
        struct gs_slice part = gs_slice_cut(&rest, '/');
        if (part.len == 0)
            continue;
        if (ret->len == MAX_SEGMENTS)
            return gs_error_new(GS_EINVAL, "the path has too many parts");
        struct gs_error *err = http_decode_segment(part, &ret->segments[ret->len]);
        if (err)
            return err;
        ret->len++;
    }
    return NULL;
}

static void reply_unknown_path(struct http_exchange *x)
{
    kube_reply_failure(x, 404, "NotFound", "the server could not find the requested resource");
}

// --- requests on resources ---

static json_t *read_options(struct local_api_request *r)
{
    const char *dry_run = http_query(r->x, "dryRun");
    const char *fields = http_query(r->x, "fieldValidation");

    r->include_object = http_query(r->x, "includeObject");
    if (dry_run && strcmp(dry_run, "All") == 0)
        r->dry_run = true;
    else if (dry_run && *dry_run)
        return kube_status_failure(422, "Invalid",
                                   "dryRun: Unsupported value: supported values: \"All\"", NULL);
    if (!fields || !*fields || strcmp(fields, "Warn") == 0)
        r->field_validation = LOCAL_API_FIELDS_WARN;
    else if (strcmp(fields, "Strict") == 0)
        r->field_validation = LOCAL_API_FIELDS_STRICT;
    else if (strcmp(fields, "Ignore") == 0)
        r->field_validation = LOCAL_API_FIELDS_IGNORE;
    else
        return kube_status_failure(422, "Invalid",
                                   "fieldValidation: Unsupported value: supported values: "
                                   "\"Ignore\", \"Strict\", \"Warn\"",
                                   NULL);
    return NULL;
}

static json_t *on_collection(const struct local_api_request *r, const char *method)
{
    bool has_ns = *r->ns != '\0' || !r->res->namespaced;

    if (strcmp(method, "GET") == 0)
        return local_api_query_bool(r->x, "watch") ? local_api_open_watch(r) : local_api_list(r);
    if (strcmp(method, "POST") == 0 && has_ns)
        return local_api_create(r);
    if (strcmp(method, "DELETE") == 0 && has_ns)
        return local_api_delete_collection(r);
    return local_api_method_not_allowed();
}

static json_t *on_object(const struct local_api_request *r, const char *method)
{
    if (r->res->namespaced && *r->ns == '\0')
        return kube_status_failure(404, "NotFound",
                                   "the server could not find the requested resource", NULL);
    if (r->sub)
        return local_api_subresource(r);
    if (strcmp(method, "GET") == 0)
        return local_api_query_bool(r->x, "watch") ? local_api_open_watch(r) : local_api_get(r);
    if (strcmp(method, "PUT") == 0)
        return local_api_update(r);
    if (strcmp(method, "PATCH") == 0)
        return local_api_patch(r);
    if (strcmp(method, "DELETE") == 0)
        return local_api_delete(r);
    return local_api_method_not_allowed();
}

// Fills in ns, name and sub from the part of the path after the version. NULL: no such resource.
static const struct local_api_resource *find_resource(struct local_api_request *r,
                                                      const char *group, char *const *seg, size_t n)
{
    bool of_namespace = n >= 3 && strcmp(seg[0], "namespaces") == 0 &&
                        strcmp(seg[2], "status") != 0 && strcmp(seg[2], "finalize") != 0;
    const struct local_api_resource *res;

    if (of_namespace) {
        r->ns = seg[1];
        seg += 2;
        n -= 2;
    }
    if (n > 3)
        return NULL;
    res = local_api_find_resource(r->api, group, r->version, seg[0]);
    if (!res || (of_namespace && !res->namespaced))
        return NULL;
    r->name = n > 1 ? seg[1] : NULL;
    r->sub = n > 2 ? seg[2] : NULL;
    return res;
}

static void serve_resource(struct local_api *api, struct http_exchange *x, const char *group,
                           const char *version, char *const *seg, size_t n)
{
    struct local_api_request r = {.api = api, .x = x, .version = version, .ns = ""};

    r.res = find_resource(&r, group, seg, n);
    if (!r.res) {
        reply_unknown_path(x);
        return;
    }
    local_api_count(&r);
    json_t *status = read_options(&r);
    if (!status)
        status = local_api_negotiate(&r);
    if (!status)
        status = r.name ? on_object(&r, http_method(x)) : on_collection(&r, http_method(x));
    if (status)
        kube_reply_status(x, status);
}

static void serve_review(struct local_api *api, struct http_exchange *x, const char *group,
                         const char *plural)
{
    json_t *status = strcmp(http_method(x), "POST") == 0 ? local_api_review(api, x, group, plural)
                                                         : local_api_method_not_allowed();
    if (status)
        kube_reply_status(x, status);
}

// seg: what follows the version.
static void serve_version(struct local_api *api, struct http_exchange *x, const char *group,
                          const char *version, char *const *seg, size_t n)
{
    if (n == 0) {
        if (!local_api_discovery_version(api, x, group, version))
            reply_unknown_path(x);
    } else if (local_api_review_kind(group, seg[n - 1]) && strcmp(version, "v1") == 0 &&
               (n == 1 || (n == 3 && strcmp(seg[0], "namespaces") == 0))) {
        serve_review(api, x, group, seg[n - 1]);
    } else {
        serve_resource(api, x, group, version, seg, n);
    }
}

static const struct local_api_mount *find_mount(const struct local_api *api, const char *group)
{
    for (size_t i = 0; i < api->n_mounts; i++)
        if (strcmp(api->mounts[i].group, group) == 0)
            return &api->mounts[i];
    return NULL;
}

static bool is_served(const struct local_api_mount *mount)
{
    CODEC_AUTO_JSON json_t *group = mount->describe(mount->ctx, mount->group);
    return group != NULL;
}

static bool is_built_in(const char *group, const char *version)
{
    for (size_t i = 0; i < local_api_n_resources; i++)
        if (strcmp(local_api_resources[i].group, group) == 0 &&
            local_api_resource_version(&local_api_resources[i], version))
            return true;
    return false;
}

static void serve_apis(struct local_api *api, struct http_exchange *x, const struct path *p)
{
    if (p->len == 1) {
        local_api_discovery_groups(api, x);
        return;
    }
    const struct local_api_mount *mount = find_mount(api, p->segments[1]);
    if (mount && is_served(mount)) {
        mount->handler(mount->ctx, x);
    } else if (mount) {
        reply_unknown_path(x);
    } else if (p->len == 2) {
        if (!local_api_discovery_group(api, x, p->segments[1]))
            reply_unknown_path(x);
    } else if (is_built_in(p->segments[1], p->segments[2]) ||
               !local_api_aggregate(api->aggregation, x, p->segments[1], p->segments[2])) {
        serve_version(api, x, p->segments[1], p->segments[2], p->segments + 3, p->len - 3);
    }
}

static void serve_core(struct local_api *api, struct http_exchange *x, const struct path *p)
{
    if (p->len == 1)
        local_api_discovery_core(api, x);
    else
        serve_version(api, x, "", p->segments[1], p->segments + 2, p->len - 2);
}

static void serve_root(struct http_exchange *x)
{
    static const char *const paths[] = {"/api",    "/api/v1",  "/apis",       "/healthz",
                                        "/livez",  "/metrics", "/openapi/v2", "/openapi/v3",
                                        "/readyz", "/version"};
    CODEC_AUTO_JSON json_t *body = json_object();
    json_t *list = json_array();

    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        json_array_append_new(list, json_string(paths[i]));
    json_object_set_new(body, "paths", list);
    kube_reply_json(x, 200, body);
}

static bool is_health(const char *segment)
{
    return strcmp(segment, "healthz") == 0 || strcmp(segment, "livez") == 0 ||
           strcmp(segment, "readyz") == 0;
}

static void serve_path(struct local_api *api, struct http_exchange *x, const struct path *p)
{
    const char *first = p->len > 0 ? p->segments[0] : "";

    if (p->len == 0)
        serve_root(x);
    else if (strcmp(first, "api") == 0)
        serve_core(api, x, p);
    else if (strcmp(first, "apis") == 0)
        serve_apis(api, x, p);
    else if (is_health(first))
        http_reply_text(x, 200, "ok");
    else if (strcmp(first, "version") == 0 && p->len == 1)
        local_api_version_info(x);
    else if (strcmp(first, "metrics") == 0 && p->len == 1)
        local_api_serve_metrics(api, x);
    else if (strcmp(first, "openapi") == 0)
        local_api_openapi(api, x, http_path(x));
    else
        reply_unknown_path(x);
}

// Health and version are open, as in Kubernetes' default roles; all else needs a proven identity.
static bool is_public(const struct path *p)
{
    return p->len > 0 && (is_health(p->segments[0]) || strcmp(p->segments[0], "version") == 0);
}

void local_api_handle(void *arg, struct http_exchange *x)
{
    struct local_api *api = arg;
    GS_CLEANUP(path_finish) struct path p = {0};
    GS_CLEANUP(local_api_proxy_path_finish) struct local_api_proxy_path proxied = {0};
    bool is_proxied = local_api_proxy_parse(http_path(x), &proxied);
    GS_AUTO_ERROR struct gs_error *err = is_proxied ? NULL : path_parse(http_path(x), &p);
    const struct http_identity *who = http_identity(x);

    if (err)
        kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
    else if ((!who || !who->user) && !is_public(&p))
        kube_reply_failure(x, 401, "Unauthorized", "Unauthorized");
    else if (is_proxied)
        local_api_serve_proxy(api, x, &proxied);
    else
        serve_path(api, x, &p);
}
