// SPDX-License-Identifier: Apache-2.0
#include "cluster.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "bench.h"
#include "net/http/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOW_MS = 1000, ENDLESS_BLOCK = 256 * 1024 };

struct cluster {
    uv_loop_t loop;
    int pods;
    enum cluster_mode mode;
    struct gs_hmap *lists; // selector and form -> body
    uint64_t queries, lists_asked, reviews;
};

// --- Kubernetes ---

static void reply_json(struct http_exchange *x, int status, const char *text)
{
    http_reply(x, status, "application/json", gs_slice_of(text));
}

static const char groups[] =
    "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{\"name\":\"apps\",\"versions\":["
    "{"
    "\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}],\"preferredVersion\":{\"groupVersion\":"
    "\"apps/v1\",\"version\":\"v1\"}}]}";
static const char core[] =
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":["
    "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":["
    "\"get\",\"list\",\"watch\"]},{\"name\":\"namespaces\",\"singularName\":\"namespace\","
    "\"namespaced\":false,\"kind\":\"Namespace\",\"verbs\":[\"get\",\"list\"]},{\"name\":"
    "\"services\",\"singularName\":\"service\",\"namespaced\":true,\"kind\":\"Service\",\"verbs\":["
    "\"get\",\"list\"]},{\"name\":\"nodes\",\"singularName\":\"node\",\"namespaced\":false,"
    "\"kind\":"
    "\"Node\",\"verbs\":[\"get\",\"list\"]}]}";
static const char apps[] =
    "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"apps/"
    "v1\",\"resources\":"
    "[{\"name\":\"deployments\",\"singularName\":\"deployment\",\"namespaced\":true,\"kind\":"
    "\"Deployment\",\"verbs\":[\"get\",\"list\"]}]}";
static const char allowed[] =
    "{\"kind\":\"SubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\",\"metadata\":{},"
    "\"spec\":{},\"status\":{\"allowed\":true}}";

// Metadata and the rest have about the size of a real GPU pod's.
static void add_pod(struct gs_buf *out, int i, bool whole)
{
    gs_buf_addf(
        out,
        "{%s\"metadata\":{\"name\":\"" CLUSTER_POD_FMT
        "\",\"generateName\":\"inference-6d5f9c7b8-\","
        "\"namespace\":\"" CLUSTER_NS "\",\"uid\":\"%08x-0b70-4009-91bb-827c77ae4c6b\","
        "\"resourceVersion\":\"%d\",\"creationTimestamp\":\"2026-01-02T03:04:05Z\",\"labels\":{"
        "\"app\":\"inference\",\"hpa\":\"%d\",\"pod-template-hash\":\"6d5f9c7b8\"},"
        "\"annotations\":{\"prometheus.io/scrape\":\"true\",\"prometheus.io/port\":\"8000\"},"
        "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":"
        "\"inference-6d5f9c7b8\",\"uid\":\"9f2c1d7e-51a2-4a46-b9ab-6a4f0c5a8f3d\",\"controller\":"
        "true,\"blockOwnerDeletion\":true}]}",
        whole ? "" : "\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",", i,
        (unsigned)i * 7919, 1000 + i, i / CLUSTER_PODS_OF_HPA);
    if (whole)
        gs_buf_addf(
            out,
            ",\"spec\":{\"containers\":[{\"name\":\"inference\",\"image\":"
            "\"registry.example.com/inference:1.2.3\",\"args\":[\"--model=/models/llm\",\"--port="
            "8000\"],\"ports\":[{\"containerPort\":8000,\"protocol\":\"TCP\"}],\"env\":[{\"name\":"
            "\"MODEL\",\"value\":\"llm\"},{\"name\":\"THREADS\",\"value\":\"8\"}],\"resources\":{"
            "\"limits\":{\"cpu\":\"8\",\"memory\":\"64Gi\",\"nvidia.com/gpu\":\"1\"},\"requests\":{"
            "\"cpu\":\"8\",\"memory\":\"64Gi\",\"nvidia.com/gpu\":\"1\"}},\"readinessProbe\":{"
            "\"httpGet\":{\"path\":\"/ready\",\"port\":8000,\"scheme\":\"HTTP\"},\"periodSeconds\":"
            "10},\"imagePullPolicy\":\"IfNotPresent\"}],\"nodeName\":\"gpu-node-%d\","
            "\"serviceAccountName\":\"default\",\"restartPolicy\":\"Always\",\"tolerations\":[{"
            "\"key\":\"nvidia.com/gpu\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}]},"
            "\"status\":{\"phase\":\"Running\",\"hostIP\":\"10.0.0.%d\",\"podIP\":\"10.1.%d.%d\","
            "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":"
            "\"2026-01-02T03:04:25Z\"}],\"containerStatuses\":[{\"name\":\"inference\",\"state\":{"
            "\"running\":{\"startedAt\":\"2026-01-02T03:04:15Z\"}},\"ready\":true,\"restartCount\":"
            "0,"
            "\"image\":\"registry.example.com/inference:1.2.3\"}]}",
            i / 8, i / 8 % 250, i / 250 % 250, i % 250);
    gs_buf_add_char(out, '}');
}

static char *make_list(const struct cluster *c, const char *selector, bool whole)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    int from = 0, to = c->pods;
    if (gs_starts(selector, "hpa=")) {
        from = (int)strtol(selector + 4, NULL, 10) * CLUSTER_PODS_OF_HPA;
        to = from + CLUSTER_PODS_OF_HPA;
    } else if (gs_starts(selector, "first=")) {
        to = (int)strtol(selector + 6, NULL, 10);
    }
    gs_buf_addf(&out,
                "{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"5\"},"
                "\"items\":[",
                whole ? "PodList" : "PartialObjectMetadataList", whole ? "v1" : "meta.k8s.io/v1");
    for (int i = from; i < to && i < c->pods; i++) {
        if (i > from)
            gs_buf_add_char(&out, ',');
        add_pod(&out, i, whole);
    }
    gs_buf_add_str(&out, "]}");
    return gs_buf_take(&out);
}

static void serve_pods(void *ctx, struct http_exchange *x)
{
    struct cluster *c = ctx;
    const char *selector = http_query(x, "labelSelector"), *accept = http_header(x, "Accept");
    bool whole = !accept || !strstr(accept, "PartialObjectMetadata");
    GS_AUTO_FREE char *key = gs_format("%d %s", whole, selector ? selector : "");
    char *body = gs_hmap_get_str(c->lists, key);
    if (!body) {
        body = make_list(c, selector ? selector : "", whole);
        gs_hmap_put_str(c->lists, key, body);
    }
    c->lists_asked++;
    reply_json(x, 200, body);
}

static void serve_api(void *ctx, struct http_exchange *x)
{
    struct cluster *c = ctx;
    const char *path = http_path(x);
    static const struct {
        const char *path, *body;
    } fixed[] = {
        {"/api", "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}"},
        {"/apis", groups},
        {"/api/v1", core},
        {"/apis/apps/v1", apps},
        {"/version", "{\"major\":\"1\",\"minor\":\"30\",\"gitVersion\":\"v1.30.0\"}"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(fixed); i++)
        if (gs_streq(path, fixed[i].path)) {
            reply_json(x, 200, fixed[i].body);
            return;
        }
    if (strstr(path, "/subjectaccessreviews")) {
        c->reviews++;
        reply_json(x, 201, allowed);
    } else if (gs_streq(path, "/api/v1/namespaces/" CLUSTER_NS "/pods")) {
        serve_pods(c, x);
    } else {
        reply_json(x, 404,
                   "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":"
                   "\"NotFound\",\"message\":\"not here\",\"code\":404}");
    }
}

void cluster_kubeconfig(const char *path, uint16_t port)
{
    GS_AUTO_FREE char *text = gs_format(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: "
        "{server: "
        "'http://127.0.0.1:%u'}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- "
        "name: u\n  user: {}\n",
        port);
    bench_check(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

// --- Prometheus ---

static const char *const mode_names[] = {
#define MODE_NAME(id, name) name,
    CLUSTER_MODES(MODE_NAME)};

// The pods in pod="…" or pod=~"…|…" of a query, in its order. The value contains the number of the
// pod, and its fraction the time: the second modulo 1000.
static void add_samples(const struct cluster *c, const char *query, struct gs_buf *out)
{
    const char *at = strstr(query, "pod=");
    double now = (double)gs_unix_ms() / 1000;
    int second = (int)((int64_t)now % 1000);
    size_t n = 0;
    while (at && (at = strstr(at, "pod-"))) {
        int i = (int)strtol(at + 4, NULL, 10);
        at += 4;
        if (i >= c->pods)
            continue;
        if (c->mode == CLUSTER_OTHERS)
            i += c->pods; // a pod that does not exist
        gs_buf_addf(out, "%s{\"metric\":{\"pod\":\"" CLUSTER_POD_FMT "\"},\"value\":[%.3f,",
                    n++ ? "," : "", i, now);
        static const char *const huge[] = {"1e400", "NaN", "+Inf", "-Inf", "1e300", "1e19"};
        if (c->mode == CLUSTER_HUGE)
            gs_buf_addf(out, "\"%s\"]}", huge[i % (int)GS_ARRAY_LEN(huge)]);
        else if (c->mode == CLUSTER_TYPES)
            gs_buf_addf(out, "%d]}", i);
        else
            gs_buf_addf(out, "\"%d.%03d\"]}", i, second);
    }
}

static void reply_vector(const struct cluster *c, struct http_exchange *x, const char *query)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    uint64_t turn = c->queries;
    bool other = c->mode == CLUSTER_TYPES && turn % 2;
    gs_buf_addf(&out, "{\"status\":\"success\",\"data\":{\"resultType\":\"%s\",\"result\":[",
                other ? "matrix" : "vector");
    add_samples(c, query, &out);
    gs_buf_add_str(&out, "]}}");
    struct gs_slice body = gs_buf_slice(&out);
    if (c->mode == CLUSTER_JSON)
        body = turn % 3 == 0   ? GS_SLICE("<html>not Prometheus</html>")
               : turn % 3 == 1 ? gs_slice_make(body.data, body.len / 2)
                               : GS_SLICE("{\"status\":\"success\",\"data\":null}");
    http_reply(x, 200, "application/json", body);
}

struct waiting {
    struct cluster *c;
    struct http_exchange *x;
    struct http_stream *stream;
    char *query;
    uv_timer_t timer;
};

static void waiting_closed(uv_handle_t *h)
{
    struct waiting *w = h->data;
    free(w->query);
    free(w);
}

static void on_peer_left(void *arg)
{
    struct waiting *w = arg;
    w->stream = NULL;
    uv_close((uv_handle_t *)&w->timer, waiting_closed);
}

static void on_slow(uv_timer_t *t)
{
    struct waiting *w = t->data;
    reply_vector(w->c, w->x, w->query);
    uv_close((uv_handle_t *)t, waiting_closed);
}

static void on_more(uv_timer_t *t)
{
    struct waiting *w = t->data;
    static char block[ENDLESS_BLOCK];
    memset(block, '1', sizeof(block));
    if (http_stream_pending(w->stream) < sizeof(block))
        http_stream_write(w->stream, gs_slice_make(block, sizeof(block)));
}

static struct waiting *wait_with(struct cluster *c, struct http_exchange *x, const char *query)
{
    struct waiting *w = gs_alloc(sizeof(*w));
    *w = (struct waiting){.c = c, .x = x, .query = gs_strdup(query)};
    uv_timer_init(&c->loop, &w->timer);
    w->timer.data = w;
    return w;
}

void cluster_add_series(struct gs_buf *out, int64_t i)
{
    int pod = (int)(i % CLUSTER_SERIES_PODS);
    gs_buf_addf(out,
                "gpu_metric_%02d{namespace=\"" CLUSTER_NS "\",pod=\"" CLUSTER_POD_FMT
                "\",gpu=\"%d\",uuid=\"GPU-%08x-0b70-4009-91bb-827c77ae4c6b\",node=\"gpu-node-%d\"} "
                "%d.5",
                (int)(i / CLUSTER_SERIES_PODS), pod, pod % 8, (unsigned)pod * 7919, pod / 8,
                (int)(i % 100));
}

// An exporter's page.
static void serve_page(struct http_exchange *x)
{
    const char *n = http_query(x, "series");
    int64_t series = n ? strtoll(n, NULL, 10) : 0;
    GS_AUTO_BUF struct gs_buf out = {0};
    for (int64_t i = 0; i < series; i++) {
        cluster_add_series(&out, i);
        gs_buf_add_char(&out, '\n');
    }
    http_reply(x, 200, "text/plain; version=0.0.4", gs_buf_slice(&out));
}

static void serve_query(struct cluster *c, struct http_exchange *x)
{
    gs_error_free(http_read_form(x));
    const char *query = http_query(x, "query");
    if (!query) {
        reply_json(x, 400,
                   "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"no query\"}");
        return;
    }
    c->queries++;
    if (c->mode == CLUSTER_SLOW) {
        struct waiting *w = wait_with(c, x, query);
        http_on_abort(x, on_peer_left, w);
        uv_timer_start(&w->timer, on_slow, SLOW_MS, 0);
    } else if (c->mode == CLUSTER_ENDLESS) {
        struct waiting *w = wait_with(c, x, query);
        w->stream = http_reply_stream(x, 200, "application/json", on_peer_left, w);
        http_stream_write(w->stream, GS_SLICE("{\"status\":\"success\",\"data\":{\"resultType\":"
                                              "\"vector\",\"result\":["));
        uv_timer_start(&w->timer, on_more, 1, 1);
    } else if (c->mode == CLUSTER_DROP) {
        struct waiting *w = wait_with(c, x, query);
        w->stream = http_reply_stream(x, 200, "application/json", on_peer_left, w);
        http_stream_write(w->stream, GS_SLICE("{\"status\":"));
        http_stream_end(w->stream);
    } else {
        reply_vector(c, x, query);
    }
}

static void serve_source(void *ctx, struct http_exchange *x)
{
    struct cluster *c = ctx;
    const char *path = http_path(x), *is = http_query(x, "is");
    if (gs_streq(path, "/api/v1/query")) {
        serve_query(c, x);
    } else if (gs_streq(path, "/api/v1/series")) {
        reply_json(x, 200,
                   "{\"status\":\"success\",\"data\":[{\"__name__\":\"" CLUSTER_METRIC
                   "\",\"namespace\":"
                   "\"" CLUSTER_NS "\",\"pod\":\"pod-00000\",\"gpu\":\"0\"}]}");
    } else if (gs_streq(path, "/metrics")) {
        serve_page(x);
    } else if (gs_streq(path, "/mode") && is) {
        for (int i = 0; i < CLUSTER_N_MODES; i++)
            if (gs_streq(is, mode_names[i]))
                c->mode = (enum cluster_mode)i;
        http_reply_text(x, 200, "%s\n", mode_names[c->mode]);
    } else if (gs_streq(path, "/counts")) {
        http_reply_text(x, 200, "%llu %llu %llu\n", (unsigned long long)c->queries,
                        (unsigned long long)c->lists_asked, (unsigned long long)c->reviews);
    } else {
        http_reply_text(x, 404, "not here\n");
    }
}

_Noreturn void cluster_serve(int pods, uint16_t kubernetes_port, uint16_t source_port)
{
    struct cluster c = {.pods = pods, .lists = gs_hmap_new(free)};
    struct http_server *kubernetes = NULL, *source = NULL;
    struct http_server_config cfg = {
        .address = "127.0.0.1", .port = kubernetes_port, .max_connections = 10000};
    uv_loop_init(&c.loop);
    bench_check(http_server_start(&c.loop, &cfg, serve_api, &c, &kubernetes));
    cfg.port = source_port;
    bench_check(http_server_start(&c.loop, &cfg, serve_source, &c, &source));
    printf("kubernetes port %u\nsource port %u\n", http_server_port(kubernetes),
           http_server_port(source));
    (void)fflush(stdout);
    for (;;)
        uv_run(&c.loop, UV_RUN_DEFAULT);
}
