// SPDX-License-Identifier: Apache-2.0
// The kubelet's own HTTP API, for the subresource proxy of its node and for scrapes. Source: the
// kubelet's server package.
#include "local/kubelet/kubelet_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/status.h"
#include "local/kubelet/pod_worker.h"
#include "net/http/routes.h"

static void serve_health(void *kubelet, struct http_exchange *x)
{
    http_reply_text(x, 200, "ok");
}

static void write_resource_metrics(void *kubelet, struct gs_buf *out)
{
    kubelet_write_node_metrics(kubelet, out);
}

static void write_cadvisor_metrics(void *kubelet, struct gs_buf *out)
{
    kubelet_write_cadvisor_metrics(kubelet, out);
}

// Probes are not counted. The path exists, so that the target of a monitor is up.
static void write_probe_metrics(void *kubelet, struct gs_buf *out)
{
    gs_buf_add_str(out, "# TYPE prober_probe_total counter\n");
}

static void write_metrics(void *kubelet, struct gs_buf *out)
{
    const struct kubelet *k = kubelet;
    size_t pos = 0, pods = 0, containers = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(k->workers, &pos, &key, &value)) {
        const struct kubelet_container *c;
        size_t before = containers;
        for (size_t i = 0; (c = kubelet_worker_container(value, i)); i++)
            containers += c->state == KUBELET_RUNNING;
        pods += containers > before;
    }
    gs_buf_addf(out,
                "# TYPE kubelet_node_name gauge\nkubelet_node_name{node=\"%s\"} 1\n"
                "# TYPE kubelet_running_containers gauge\n"
                "kubelet_running_containers{container_state=\"running\"} %zu\n"
                "# TYPE kubelet_running_pods gauge\nkubelet_running_pods %zu\n",
                k->node_name, containers, pods);
}

static void serve_pods(void *kubelet, struct http_exchange *x)
{
    const struct kubelet *k = kubelet;
    size_t pos = 0;
    const json_t *pod;
    json_t *items = json_array();
    while ((pod = kube_cache_next(k->cluster->pods, &pos)))
        if (gs_streq(kube_pod_node(pod), k->node_name))
            json_array_append(items, (json_t *)pod);
    CODEC_AUTO_JSON json_t *list = json_pack("{s:s, s:s, s:{}, s:o}", "kind", "PodList",
                                             "apiVersion", "v1", "metadata", "items", items);
    kube_reply_json(x, 200, list);
}

static void serve_summary(void *kubelet, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *summary = kubelet_stats_summary(kubelet);
    kube_reply_json(x, 200, summary);
}

static const struct http_route routes[] = {
    {.path = "/healthz", .handle = serve_health},
    {.path = "/healthz/ping", .handle = serve_health},
    {.path = "/healthz/syncloop", .handle = serve_health},
    {.path = "/metrics", .write = write_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/metrics/cadvisor", .write = write_cadvisor_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/metrics/probes", .write = write_probe_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/metrics/resource", .write = write_resource_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/pods", .handle = serve_pods},
    {.path = "/stats/summary", .handle = serve_summary},
    {0},
};

void kubelet_serve_path(void *kubelet, const char *path, struct http_exchange *x)
{
    const struct http_routes all = {.rows = routes, .ctx = kubelet};
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    if (!http_routes_try(&all, x, gs_slice_make(path, len)))
        http_reply_text(x, 404, "404 page not found\n");
}

void kubelet_handle(void *kubelet, struct http_exchange *x)
{
    kubelet_serve_path(kubelet, http_path(x), x);
}
