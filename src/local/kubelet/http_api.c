// SPDX-License-Identifier: Apache-2.0
// The kubelet's own HTTP API, for the subresource proxy of its node and for scrapes. Source: the
// kubelet's server package.
#include "local/kubelet/kubelet_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/status.h"
#include "local/kubelet/pod_worker.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

static void reply_text(struct http_exchange *x, const struct gs_buf *text)
{
    http_reply(x, 200, METRICS_TYPE, gs_buf_slice(text));
}

static void serve_health(struct kubelet *k, struct http_exchange *x)
{
    http_reply_text(x, 200, "ok");
}

static void serve_resource_metrics(struct kubelet *k, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    kubelet_write_node_metrics(k, &text);
    reply_text(x, &text);
}

static void serve_metrics(struct kubelet *k, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf text = {0};
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
    gs_buf_addf(&text,
                "# TYPE kubelet_node_name gauge\nkubelet_node_name{node=\"%s\"} 1\n"
                "# TYPE kubelet_running_containers gauge\n"
                "kubelet_running_containers{container_state=\"running\"} %zu\n"
                "# TYPE kubelet_running_pods gauge\nkubelet_running_pods %zu\n",
                k->node_name, containers, pods);
    reply_text(x, &text);
}

static void serve_pods(struct kubelet *k, struct http_exchange *x)
{
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

static void serve_summary(struct kubelet *k, struct http_exchange *x)
{
    CODEC_AUTO_JSON json_t *summary = kubelet_stats_summary(k);
    kube_reply_json(x, 200, summary);
}

void kubelet_serve_path(void *kubelet, const char *path, struct http_exchange *x)
{
    static const struct {
        const char *path;
        void (*serve)(struct kubelet *k, struct http_exchange *x);
    } paths[] = {
        {"/healthz", serve_health},
        {"/healthz/ping", serve_health},
        {"/healthz/syncloop", serve_health},
        {"/metrics", serve_metrics},
        {"/metrics/cadvisor", serve_resource_metrics},
        {"/metrics/resource", serve_resource_metrics},
        {"/pods", serve_pods},
        {"/stats/summary", serve_summary},
    };
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        if (!gs_slice_eq_str(gs_slice_make(path, len), paths[i].path))
            continue;
        if (gs_streq(http_method(x), "GET"))
            paths[i].serve(kubelet, x);
        else
            http_reply_text(x, 405, "405: Method Not Allowed");
        return;
    }
    http_reply_text(x, 404, "404 page not found\n");
}

void kubelet_handle(void *kubelet, struct http_exchange *x)
{
    kubelet_serve_path(kubelet, http_path(x), x);
}
