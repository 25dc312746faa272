// SPDX-License-Identifier: Apache-2.0
// The custom metrics API over TCP: 2,000 pods, 5,000 series, and a selector for 100 pods. The
// server is a separate process, so that its CPU time can be measured.
#include "micro.h"

#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "kube/client.h"
#include "net/http/server.h"
#include "wire.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define METRIC   "DCGM_CUSTOM_PROCESS_SM_UTIL"
#define PODS_URL "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/"
#define ALL_BAR  5000.0 // requests a second and core

enum { PODS = 2000, PICKED = 100, OTHER_SERIES = 3000, MAX_CONNECTIONS = 8 };

// --- server ---

static void put(struct tsdb *db, const char *metric, int pod, double value)
{
    char name[48], uuid[48], gpu[4];
    snprintf(name, sizeof(name), "pod-%04d", pod);
    snprintf(uuid, sizeof(uuid), "GPU-%08x-0b70-4009-91bb-827c77ae4c6b", pod * 7919);
    snprintf(gpu, sizeof(gpu), "%d", pod % 8);
    const struct metrics_label labels[] = {
        {GS_SLICE("__name__"), gs_slice_of(metric)},
        {GS_SLICE("NamespaceName"), GS_SLICE("default")},
        {GS_SLICE("PodName"), gs_slice_of(name)},
        {GS_SLICE("ContainerName"), GS_SLICE("api")},
        {GS_SLICE("NodeName"), GS_SLICE("gpu-node-0001")},
        {GS_SLICE("UUID"), gs_slice_of(uuid)},
        {GS_SLICE("gpu"), gs_slice_of(gpu)},
        {GS_SLICE("modelName"), GS_SLICE("NVIDIA A100-SXM4-80GB")},
        {GS_SLICE("job"), GS_SLICE("gpuscale")},
    };
    bench_check(tsdb_append(db, labels, GS_ARRAY_LEN(labels), gs_unix_ms(), value));
}

static void make_series(struct tsdb *db)
{
    char other[32];
    for (int i = 0; i < PODS; i++)
        put(db, METRIC, i, i % 100);
    for (int i = 0; i < OTHER_SERIES; i++) {
        snprintf(other, sizeof(other), "OTHER_METRIC_%d", i / PODS);
        put(db, other, i % PODS, i);
    }
}

static void no_op(void *arg)
{
    (void)arg;
}

static void serve_pods(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    if (http_query(x, "watch")) {
        http_reply_stream(x, 200, "application/json", no_op, NULL);
        return;
    }
    GS_AUTO_BUF struct gs_buf list = {0};
    gs_buf_add_str(&list, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{"
                          "\"resourceVersion\":\"5\"},\"items\":[");
    bool picked_only = http_query(x, "labelSelector") != NULL;
    for (int i = 0; i < PODS; i += picked_only ? PODS / PICKED : 1)
        gs_buf_addf(&list,
                    "%s{\"metadata\":{\"name\":\"pod-%04d\",\"namespace\":\"default\",\"labels\":{"
                    "\"app\":\"%s\",\"pod-template-hash\":\"6d5f9c7b8\"}}}",
                    i ? "," : "", i, i % (PODS / PICKED) ? "other" : "picked");
    gs_buf_add_str(&list, "]}");
    http_reply(x, 200, "application/json", gs_buf_slice(&list));
}

_Noreturn void micro_adapter_serve(void)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct http_client *api = http_client_new_loopback(&loop, serve_pods, NULL, NULL);
    struct kube_client *client = kube_client_new(api);
    struct engine *engine = NULL;
    struct adapter *adapter = NULL;
    bench_check(engine_new(&loop, &(struct engine_options){0}, &engine));
    make_series(engine_tsdb(engine));
    const struct adapter_options o = {
        .kube = client, .engine = engine, .trusted = true, .gpu_metrics = true};
    bench_check(adapter_new(&loop, &o, &adapter));
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    struct http_server *server = NULL;
    bench_check(http_server_start(&loop, &cfg, adapter_handle, adapter, &server));
    printf("port %u\n", http_server_port(server));
    (void)fflush(stdout);
    for (;;)
        uv_run(&loop, UV_RUN_DEFAULT);
}

// --- load ---

struct connection {
    pthread_t thread;
    struct wire wire;
    const char *path;
    int64_t end_ns;
    size_t bytes;
    struct bench_series latency_ms;
};

static void *load(void *arg)
{
    struct connection *c = arg;
    for (int64_t from = gs_mono_ns(); from < c->end_ns;) {
        struct gs_slice body;
        if (!wire_get(&c->wire, c->path, &body))
            bench_fail("%s was not answered with 200", c->path);
        int64_t now = gs_mono_ns();
        bench_add(&c->latency_ms, (double)(now - from) / 1e6);
        c->bytes = body.len;
        from = now;
    }
    return NULL;
}

static void measure(const char *what, pid_t server, uint16_t port, const char *path, int n,
                    double seconds, double bar)
{
    struct connection connections[MAX_CONNECTIONS] = {0};
    struct bench_series all = {0};
    int64_t cpu = bench_cpu_ns(server), start = gs_mono_ns();
    for (int i = 0; i < n; i++) {
        struct connection *c = &connections[i];
        c->path = path;
        c->end_ns = start + (int64_t)(seconds * 1e9);
        wire_connect(&c->wire, port);
        if (pthread_create(&c->thread, NULL, load, c) != 0)
            bench_fail("no thread");
    }
    for (int i = 0; i < n; i++) {
        pthread_join(connections[i].thread, NULL);
        for (size_t k = 0; k < connections[i].latency_ms.len; k++)
            bench_add(&all, connections[i].latency_ms.items[k]);
        bench_series_finish(&connections[i].latency_ms);
        wire_close(&connections[i].wire);
    }
    double passed = (double)(gs_mono_ns() - start) / 1e9;
    double core_s = (double)(bench_cpu_ns(server) - cpu) / 1e9;
    double a_core = (double)all.len / core_s;
    char title[96], figure[96];
    snprintf(title, sizeof(title), "adapter: %s, %d connection%s", what, n, n > 1 ? "s" : "");
    snprintf(figure, sizeof(figure), "%.0f rps, %.0f a core; p50 %.2f, p99 %.2f ms",
             (double)all.len / passed, a_core, bench_percentile(&all, 50),
             bench_percentile(&all, 99));
    micro_row(title, figure, bar > 0 ? "5,000 a core" : NULL, a_core >= bar);
    bench_series_finish(&all);
}

void micro_adapter(double seconds, const char *self)
{
    const char *const argv[] = {self, "--serve-adapter", NULL};
    pid_t server = bench_start("adapter.log", argv);
    GS_AUTO_FREE char *text = bench_wait_for_text(server, "port ");
    uint16_t port = (uint16_t)strtoul(text, NULL, 10);
    static const char all[] = PODS_URL "*/" METRIC "?labelSelector=app%3Dpicked";
    measure("pods/*, 100 of 2,000 pods", server, port, all, 1, seconds, ALL_BAR);
    measure("pods/*, 100 of 2,000 pods", server, port, all, MAX_CONNECTIONS, seconds, ALL_BAR);
    measure("one pod of 2,000", server, port, PODS_URL "pod-1000/" METRIC, 1, seconds, 0);
    bench_stop(server);
}
