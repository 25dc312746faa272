// SPDX-License-Identifier: Apache-2.0
// The headless Service of all kubelets and its Endpoints, which charts scrape. Its name is the flag
// --kubelet-service of a Deployment of prometheus-operator, whose pod need not run. As in a
// cluster, it stays when the Deployment is deleted.
#include "local/operator/operator_private.h"

#include "base/mem.h"
#include "kube/object.h"

#define FLAG         "--kubelet-service="
#define KUBELET_PORT 10250

struct operator_kubelets {
    struct local_cluster *cluster;
    struct local_workqueue *queue; // of Services
    struct gs_hmap *names;         // "NS/NAME" of those that a Deployment names -> the map
};

// --- the flag ---

static bool is_operator(const json_t *container)
{
    const char *image = codec_json_str(container, "image", NULL);
    return image && strstr(image, "prometheus-operator") != NULL;
}

// "NS/NAME"; NULL: not set.
static const char *service_of(const json_t *deployment)
{
    size_t i, k;
    json_t *container, *arg;
    json_array_foreach (codec_json_get(deployment, "spec", "template", "spec", "containers", NULL),
                        i, container) {
        if (!is_operator(container))
            continue;
        json_array_foreach (json_object_get(container, "args"), k, arg) {
            const char *text = json_string_value(arg);
            if (text && gs_starts(text, FLAG) && strchr(text, '/'))
                return text + strlen(FLAG);
        }
    }
    return NULL;
}

static void enqueue(struct operator_kubelets *k, const char *service)
{
    struct gs_slice name = gs_slice_of(service), ns = gs_slice_cut(&name, '/');
    GS_AUTO_FREE char *ns_text = gs_slice_dup(ns), *name_text = gs_slice_dup(name);
    if (ns.len && name.len)
        local_workqueue_add(k->queue, ns_text, name_text);
}

static void on_deployment(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct operator_kubelets *k = arg;
    const char *service = new_obj ? service_of(new_obj) : NULL;
    (void)old_obj;
    if (!service)
        return;
    gs_hmap_put_str(k->names, service, k->names);
    enqueue(k, service);
}

static void on_node(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct operator_kubelets *k = arg;
    size_t pos = 0;
    struct gs_slice key;
    if (old_obj && new_obj &&
        json_equal(codec_json_get(old_obj, "status", "addresses", NULL),
                   codec_json_get(new_obj, "status", "addresses", NULL)) &&
        codec_json_int(old_obj, 0, "status", "daemonEndpoints", "kubeletEndpoint", "Port", NULL) ==
            codec_json_int(new_obj, 0, "status", "daemonEndpoints", "kubeletEndpoint", "Port",
                           NULL))
        return;
    while (gs_hmap_next(k->names, &pos, &key, NULL)) {
        GS_AUTO_FREE char *service = gs_slice_dup(key);
        enqueue(k, service);
    }
}

// --- the objects ---

static const struct {
    const char *name;
    int port;
} ports[] = {{"https-metrics", KUBELET_PORT}, {"http-metrics", 10255}, {"cadvisor", 4194}};

static json_t *labels_of(void)
{
    return json_pack("{s:s, s:s, s:s}", "k8s-app", "kubelet", "app.kubernetes.io/name", "kubelet",
                     OPERATOR_MANAGED_BY, "prometheus-operator");
}

static json_t *make_service(const char *ns, const char *name)
{
    json_t *list = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(ports); i++)
        json_array_append_new(
            list, json_pack("{s:s, s:i}", "name", ports[i].name, "port", ports[i].port));
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:o}, s:{s:s, s:s, s:o}}", "apiVersion", "v1", "kind",
                     "Service", "metadata", "name", name, "namespace", ns, "labels", labels_of(),
                     "spec", "type", "ClusterIP", "clusterIP", "None", "ports", list);
}

static const char *internal_ip(const json_t *node)
{
    size_t i;
    json_t *a;
    json_array_foreach (codec_json_get(node, "status", "addresses", NULL), i, a)
        if (gs_streq(codec_json_str(a, "type", NULL), "InternalIP"))
            return codec_json_str(a, "address", NULL);
    return NULL;
}

// The kubelet of each node may have another port, and then is in a subset of its own.
static json_t *subset_of(const json_t *node)
{
    const char *ip = internal_ip(node);
    int64_t port =
        codec_json_int(node, 0, "status", "daemonEndpoints", "kubeletEndpoint", "Port", NULL);
    if (!ip || kube_is_deleting(node))
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(ports); i++)
        json_array_append_new(list, json_pack("{s:s, s:I}", "name", ports[i].name, "port",
                                              (json_int_t)(i || !port ? ports[i].port : port)));
    return json_pack("{s:[{s:s, s:s, s:{s:s, s:s, s:s}}], s:o}", "addresses", "ip", ip, "nodeName",
                     kube_name(node), "targetRef", "kind", "Node", "name", kube_name(node), "uid",
                     kube_uid(node) ? kube_uid(node) : "", "ports", list);
}

static int compare_subsets(const void *a, const void *b)
{
    const json_t *x = json_array_get(json_object_get(*(json_t *const *)a, "addresses"), 0),
                 *y = json_array_get(json_object_get(*(json_t *const *)b, "addresses"), 0);
    return strcmp(codec_json_str(x, "nodeName", NULL), codec_json_str(y, "nodeName", NULL));
}

static json_t *subsets_of(const struct kube_cache *nodes)
{
    json_t **all = gs_alloc_array(kube_cache_len(nodes) + 1, sizeof(*all)), *out = json_array();
    size_t pos = 0, n = 0;
    for (const json_t *node; (node = kube_cache_next(nodes, &pos));)
        if ((all[n] = subset_of(node)))
            n++;
    qsort(all, n, sizeof(json_t *), compare_subsets);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, all[i]);
    free(all);
    return out;
}

static void sync_service(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    const struct operator_kubelets *k = arg;
    const struct local_cluster *c = k->cluster;
    CODEC_AUTO_JSON json_t *service = make_service(ns, name);
    CODEC_AUTO_JSON json_t *endpoints = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:o}, s:o}", "apiVersion", "v1", "kind", "Endpoints", "metadata",
        "name", name, "namespace", ns, "labels", labels_of(), "subsets", subsets_of(c->nodes));
    operator_ensure(w, KUBE_SERVICES, kube_cache_get(c->services, ns, name), service);
    operator_ensure(w, KUBE_ENDPOINTS, kube_cache_get(c->endpoints, ns, name), endpoints);
}

struct operator_kubelets *operator_kubelets_new(struct local_cluster *c)
{
    struct operator_kubelets *k = gs_alloc(sizeof(*k));
    k->cluster = c;
    k->names = gs_hmap_new(NULL);
    k->queue = local_workqueue_new(c->loop, c->client, "operator", sync_service, k);
    const struct kube_cache_handlers deployments = {.on_change = on_deployment, .arg = k},
                                     nodes = {.on_change = on_node, .arg = k};
    kube_cache_add_handlers(c->deployments, &deployments);
    kube_cache_add_handlers(c->nodes, &nodes);
    return k;
}

void operator_kubelets_free(struct operator_kubelets *k)
{
    if (!k)
        return;
    kube_cache_remove_handlers(k->cluster->deployments, k);
    kube_cache_remove_handlers(k->cluster->nodes, k);
    local_workqueue_free(k->queue);
    gs_hmap_free(k->names);
    free(k);
}
