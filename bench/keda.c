// SPDX-License-Identifier: Apache-2.0
// KEDA's external scaler with many ScaledObjects on one connection, as KEDA's client has them: two
// streams for each, and reads at its polling interval. Measured is the time from a request at an
// activator (the page of its metrics changes) to the pushed activity, and the memory and CPU time
// of `gpuscale keda-scaler`.
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/timer.h"
#include "bench.h"
#include "cluster.h"
#include "codec/protobuf.h"
#include "net/grpc/grpc.h"
#include "net/http/routes.h"
#include "net/http/server.h"

#include <stdio.h>
#include <stdlib.h>

#define SERVICE   "/externalscaler.ExternalScaler/"
#define POLL_S    30 // KEDA's default pollingInterval
#define WAIT_NS   (60 * GS_NS_PER_SEC)
#define BAR_S     0.5
#define BAR_KIB   (20 * 1024)
#define SCRAPE_MS 250

struct options {
    const char *gpuscale;
    int64_t objects, steps;
};

struct object {
    struct load *load;
    struct gs_buf ref; // ScaledObjectRef
    bool known, active, has_spec;
    int value;
};

struct load {
    uv_loop_t loop;
    struct http_server *page;
    struct grpc_client *client;
    struct gs_timer *poll, *pause;
    struct object *objects;
    size_t n, known, with_spec, next_poll;
    uint64_t polled, failed;
    bool waiting;                   // for the pause
    int64_t changed_ns, scraped_ns; // of the page; scraped_ns 0: not since the change
};

// --- the page of the activators ---

static void serve_page(void *ctx, struct http_exchange *x)
{
    struct load *l = ctx;
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < l->n; i++)
        gs_buf_addf(&out, "gpuscale_activator_waiting{namespace=\"n%zu\",service=\"s\"} %d\n", i,
                    l->objects[i].value);
    if (l->changed_ns && !l->scraped_ns)
        l->scraped_ns = gs_mono_ns();
    http_reply(x, 200, HTTP_TYPE_METRICS, gs_buf_slice(&out));
}

// --- KEDA ---

static void add_pair(struct gs_buf *ref, const char *key, const char *value)
{
    GS_AUTO_BUF struct gs_buf pair = {0};
    codec_proto_add_bytes(&pair, 1, gs_slice_of(key));
    codec_proto_add_bytes(&pair, 2, gs_slice_of(value));
    codec_proto_add_bytes(ref, 3, gs_buf_slice(&pair));
}

static void make_ref(struct object *o, size_t i)
{
    GS_AUTO_FREE char *ns = gs_format("n%zu", i);
    codec_proto_add_bytes(&o->ref, 1, GS_SLICE("scaled-object"));
    codec_proto_add_bytes(&o->ref, 2, gs_slice_of(ns));
    add_pair(&o->ref, "scalerAddress", "gpuscale-keda-scaler.monitoring:9413");
    add_pair(&o->ref, "signal", "gpuscale_activator_waiting");
    add_pair(&o->ref, "object", "service/s");
    add_pair(&o->ref, "threshold", "8");
}

static void on_activity(void *arg, struct gs_slice message)
{
    struct object *o = arg;
    struct codec_proto_token t = {0};
    if (message.len)
        bench_check(codec_proto_next(&message, &t));
    o->load->known += !o->known;
    o->known = true;
    o->active = t.varint != 0;
}

static void on_spec(void *arg, struct gs_slice message)
{
    struct object *o = arg;
    (void)message;
    o->load->with_spec += !o->has_spec;
    o->has_spec = true;
}

static void on_stream_end(void *arg, const struct grpc_reply *reply)
{
    (void)arg;
    bench_fail("a stream has ended: %d %s", reply->status, reply->message);
}

static void on_value(void *arg, const struct grpc_reply *reply)
{
    struct load *l = arg;
    l->polled++;
    l->failed += reply->status != GRPC_OK;
}

// Every object is read once in the polling interval.
static void on_poll(void *arg)
{
    struct load *l = arg;
    GS_AUTO_BUF struct gs_buf rq = {0};
    struct object *o = &l->objects[l->next_poll++ % l->n];
    codec_proto_add_bytes(&rq, 1, gs_buf_slice(&o->ref));
    codec_proto_add_bytes(&rq, 2, GS_SLICE("s0-gpuscale_activator_waiting"));
    grpc_client_call(l->client, SERVICE "GetMetrics", gs_buf_slice(&rq), 0, on_value, l);
    grpc_client_call(l->client, SERVICE "IsActive", gs_buf_slice(&o->ref), 0, on_value, l);
}

static void open_streams(struct load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct object *o = &l->objects[i];
        grpc_client_call_stream(l->client, SERVICE "StreamIsActive", gs_buf_slice(&o->ref),
                                UINT32_MAX, on_activity, on_stream_end, o);
        grpc_client_call_stream(l->client, SERVICE "StreamMetricSpec", gs_buf_slice(&o->ref),
                                UINT32_MAX, on_spec, on_stream_end, o);
    }
}

// --- waiting ---

static void on_pause(void *arg)
{
    ((struct load *)arg)->waiting = false;
}

static void pause_for(struct load *l, uint64_t ms)
{
    l->waiting = true;
    gs_timer_start(l->pause, on_pause, ms);
    while (l->waiting)
        uv_run(&l->loop, UV_RUN_ONCE);
}

static void wait_activity(struct load *l, const struct object *o, bool active)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (o->active != active && gs_mono_ns() < deadline)
        uv_run(&l->loop, UV_RUN_ONCE);
    if (o->active != active)
        bench_fail("no push within %d s", (int)(WAIT_NS / GS_NS_PER_SEC));
}

// --- the measurement ---

static pid_t start_cluster(char **ret_kubeconfig)
{
    const char *const argv[] = {"/proc/self/exe", "--serve", NULL};
    pid_t pid = bench_start("cluster.log", argv);
    GS_AUTO_FREE char *port = bench_wait_for_text(pid, "kubernetes port ");
    *ret_kubeconfig = gs_format("%s/kubeconfig", bench_dir());
    cluster_kubeconfig(*ret_kubeconfig, (uint16_t)strtoul(port, NULL, 10));
    return pid;
}

static pid_t start_scaler(const struct load *l, const struct options *o, uint16_t port)
{
    GS_AUTO_FREE char *kubeconfig = NULL;
    start_cluster(&kubeconfig);
    GS_AUTO_FREE char *config = gs_format("%s/prometheus.yml", bench_dir());
    GS_AUTO_FREE char *yaml = gs_format(
        "global: {scrape_interval: %dms, scrape_timeout: %dms}\nscrape_configs:\n- job_name: a\n"
        "  honor_labels: true\n  static_configs: [{targets: ['127.0.0.1:%u']}]\n",
        SCRAPE_MS, SCRAPE_MS, http_server_port(l->page));
    bench_check(gs_file_write_atomic(config, 0600, gs_slice_of(yaml)));
    GS_AUTO_FREE char *engine = gs_format("--engine-config=%s", config);
    GS_AUTO_FREE char *kube = gs_format("--kubeconfig=%s", kubeconfig);
    GS_AUTO_FREE char *listen = gs_format("--grpc-listen-address=127.0.0.1:%u", port);
    const char *const argv[] = {o->gpuscale, "keda-scaler",           engine, kube,
                                listen,      "--web.listen-address=", NULL};
    pid_t pid = bench_start("scaler.log", argv);
    free(bench_wait_for_text(pid, "listening for KEDA"));
    return pid;
}

static void print_row(const char *what, struct bench_series *s)
{
    static const double percents[] = {0, 50, 90, 99, 100};
    printf("  %-44s", what);
    for (size_t i = 0; i < GS_ARRAY_LEN(percents); i++)
        printf(" %6.3f", bench_percentile(s, percents[i]));
}

static void measure(struct load *l, const struct options *o, pid_t pid)
{
    GS_CLEANUP(bench_series_finish) struct bench_series change = {0}, scrape = {0};
    int64_t begin_ns = gs_mono_ns(), cpu_ns = bench_cpu_ns(pid);
    for (int64_t i = 0; i < o->steps; i++) {
        uint16_t random[2];
        gs_random_bytes(random, sizeof(random));
        struct object *one = &l->objects[random[0] % l->n];
        pause_for(l, random[1] % (2 * SCRAPE_MS));
        one->value = 3;
        l->scraped_ns = 0;
        l->changed_ns = gs_mono_ns();
        wait_activity(l, one, true);
        int64_t now = gs_mono_ns();
        bench_add(&change, (double)(now - l->changed_ns) / GS_NS_PER_SEC);
        bench_add(&scrape, (double)(now - l->scraped_ns) / GS_NS_PER_SEC);
        one->value = 0;
        wait_activity(l, one, false);
    }
    double seconds = (double)(gs_mono_ns() - begin_ns) / GS_NS_PER_SEC;
    double cpu = (double)(bench_cpu_ns(pid) - cpu_ns) / GS_NS_PER_SEC / seconds;
    int64_t kib = bench_memory(pid).pss_kib;
    printf("  %-44s %6s %6s %6s %6s %6s   %s\n", "seconds until activity is pushed, from", "min",
           "p50", "p90", "p99", "max", "target");
    print_row("the scrape that shows it", &scrape);
    printf("\n");
    print_row("the request, with a scrape each 250 ms", &change);
    printf("   %.1f s at p99: %s\n", BAR_S, bench_verdict(bench_percentile(&change, 99) <= BAR_S));
    printf("  memory (PSS) %.1f MiB, peak RSS %.1f MiB   20 MiB: %s\n", (double)kib / 1024,
           (double)bench_peak_kib(pid) / 1024, bench_verdict(kib <= BAR_KIB));
    printf("  CPU %.1f %% of a core, %.0f reads/s, %llu of %llu failed\n", 100 * cpu,
           (double)l->polled / seconds, (unsigned long long)l->failed,
           (unsigned long long)l->polled);
}

static void start_load(struct load *l, const struct options *o)
{
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    l->n = (size_t)o->objects;
    l->objects = gs_alloc_array(l->n, sizeof(*l->objects));
    for (size_t i = 0; i < l->n; i++) {
        l->objects[i].load = l;
        make_ref(&l->objects[i], i);
    }
    uv_loop_init(&l->loop);
    l->poll = gs_timer_new(&l->loop, l);
    l->pause = gs_timer_new(&l->loop, l);
    bench_check(http_server_start(&l->loop, &cfg, serve_page, l, &l->page));
}

static void wait_streams(struct load *l)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while ((l->known < l->n || l->with_spec < l->n) && gs_mono_ns() < deadline)
        uv_run(&l->loop, UV_RUN_ONCE);
    if (l->known < l->n || l->with_spec < l->n)
        bench_fail("%zu of %zu streams have a first message", l->known + l->with_spec, 2 * l->n);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    struct load l = {0};
    uint16_t port = bench_free_port();
    bench_begin();
    start_load(&l, o);
    pid_t pid = start_scaler(&l, o, port);
    GS_AUTO_FREE char *target = gs_format("127.0.0.1:%u", port);
    bench_check(grpc_client_new(&l.loop, target, &l.client));
    pause_for(&l, 15000); // the series are listed
    printf("KEDA's external scaler, %lld ScaledObjects (%lld activations; SIMULATED)\n",
           (long long)o->objects, (long long)o->steps);
    printf("  memory before the streams (PSS) %.1f MiB\n",
           (double)bench_memory(pid).pss_kib / 1024);
    open_streams(&l);
    wait_streams(&l);
    gs_timer_repeat(l.poll, on_poll, 1, (uint64_t)(POLL_S * 1000) / l.n);
    measure(&l, o, pid);
    (void)fflush(stdout);
    bench_stop(pid);
    exit(0); // the streams are open
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE", "build/src/cmd/gpuscale",
     .help = "The program."},
    {"objects", GS_OPT_INT, AT(objects), "N", "1000", .min = 1, .max = 10000,
     .help = "Number of ScaledObjects."},
    {"steps", GS_OPT_INT, AT(steps), "N", "200", .min = 1, .max = 100000,
     .help = "Number of activations."},
    {0},
};

int main(int argc, char **argv)
{
    if (argc > 1 && gs_streq(argv[1], "--serve"))
        cluster_serve(0, 0, 0);
    const struct gs_command command = {.name = "keda",
                                       .summary = "Measure KEDA's external scaler.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
