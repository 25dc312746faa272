// SPDX-License-Identifier: Apache-2.0
// gpuscale adapter compared with prometheus-adapter: the same rules, Prometheus and simulated
// cluster. They are measured in turns, with the requests of kube-controller-manager.
#include "adapter_bed.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOT     "/apis/custom.metrics.k8s.io/v1beta1"
#define PODS_URL ROOT "/namespaces/" CLUSTER_NS "/pods/"

enum { MAX_CONNECTIONS = 16, PODS = CLUSTER_SERIES_PODS, OBJECTS = 200, SETTLE_S = 6 };

struct options {
    const char *gpuscale, *real, *prometheus, *promtool;
    double seconds;
    int64_t series, connections, serve;
    const char *row;
    bool alone;
};

struct side {
    const char *name, *program[3], *extra[4];
    pid_t pid;
    uint16_t port;
    bool own_engine;
    double start_s, list_mb, end_mb;
};

enum { REAL, OURS, UNSHARED, ENGINE, ENGINE_UNSHARED, N_SIDES };

// --- data ---

// One sample a minute ago and one in a quarter of an hour: with a long look-back, each query of the
// run finds the first one.
static void write_series(const char *path, int64_t series)
{
    FILE *f = fopen(path, "w");
    if (!f)
        bench_fail("%s cannot be written", path);
    int64_t now = gs_unix_ms() / 1000;
    GS_AUTO_BUF struct gs_buf labels = {0};
    for (int64_t i = 0; i < series; i++) {
        gs_buf_clear(&labels);
        cluster_add_series(&labels, i);
        fprintf(f, "%s %lld\n%s %lld\n", labels.data, (long long)now - 60, labels.data,
                (long long)now + 900);
    }
    fputs("# EOF\n", f);
    if (fclose(f) != 0)
        bench_fail("%s cannot be written", path);
}

static void run_to_end(const char *const *argv)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(127);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        bench_fail("%s failed", argv[0]);
}

static char *start_prometheus(const struct options *o)
{
    GS_AUTO_FREE char *data = gs_format("%s/data.om", bench_dir());
    GS_AUTO_FREE char *blocks = gs_format("%s/tsdb", bench_dir());
    GS_AUTO_FREE char *config = gs_format("%s/prometheus.yml", bench_dir());
    uint16_t port = bench_free_port();
    write_series(data, o->series);
    const char *const make[] = {o->promtool, "tsdb", "create-blocks-from", "openmetrics", data,
                                blocks,      NULL};
    run_to_end(make);
    bench_check(gs_file_write_atomic(config, 0600, GS_SLICE("global: {}\n")));
    GS_AUTO_FREE char *f = gs_format("--config.file=%s", config);
    GS_AUTO_FREE char *l = gs_format("--web.listen-address=127.0.0.1:%u", port);
    GS_AUTO_FREE char *t = gs_format("--storage.tsdb.path=%s", blocks);
    const char *const argv[] = {
        o->prometheus, f, l, t, "--query.lookback-delta=2h", "--storage.tsdb.retention.time=100y",
        NULL};
    pid_t pid = bench_start("prometheus.log", argv);
    free(bench_wait_for_text(pid, "Server is ready"));
    return gs_format("http://127.0.0.1:%u", port);
}

// --- the adapters ---

static char *write_rules(void)
{
    char *path = gs_format("%s/rules.yaml", bench_dir());
    bench_check(gs_file_write_atomic(
        path, 0600,
        GS_SLICE(
            "rules:\n- seriesQuery: '{__name__=~\"^gpu_metric_.*\",pod!=\"\"}'\n"
            "  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}\n"
            "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n")));
    return path;
}

// The engine in the process scrapes the same series.
static char *write_engine_config(const struct options *o, const struct adapter_bed *b)
{
    char *path = gs_format("%s/engine.yml", bench_dir());
    GS_AUTO_FREE char *text = gs_format(
        "global: {scrape_interval: 15s, scrape_timeout: 15s}\nscrape_configs:\n- job_name: gpu\n"
        "  params: {series: ['%lld']}\n  static_configs: [{targets: ['127.0.0.1:%u']}]\n",
        (long long)o->series, b->source_port);
    bench_check(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    return path;
}

static bool answers(const struct adapter_bed *b, uint16_t port, const char *path, const char *text)
{
    struct wire w;
    struct gs_slice body;
    if (!adapter_try_connect(b, &w, port))
        return false;
    bool ok =
        wire_try_get(&w, path, &body) == 200 && memmem(body.data, body.len, text, strlen(text));
    wire_close(&w);
    return ok;
}

static double resident_mb(pid_t pid)
{
    return (double)bench_memory(pid).rss_kib * 1024 / 1e6;
}

static void start_side(struct side *s, const struct adapter_bed *b, const char *source,
                       const char *rules)
{
    if (s->own_engine)
        source = NULL;
    s->port = bench_free_port();
    int64_t from = gs_mono_ns(), deadline = from + 120 * GS_NS_PER_SEC;
    s->pid = adapter_start(b, s->name, s->program, s->port, source, rules, s->extra);
    while (!answers(b, s->port, ROOT, "gpu_metric_00")) {
        bench_check_running(s->pid);
        if (gs_mono_ns() > deadline)
            bench_fail("%s does not list its metrics", s->name);
        bench_sleep(20 * GS_NS_PER_MS);
    }
    s->start_s = (double)(gs_mono_ns() - from) / 1e9;
    bench_sleep(SETTLE_S * GS_NS_PER_SEC);
    s->list_mb = resident_mb(s->pid);
}

// --- load ---

struct load {
    pthread_t thread;
    struct wire wire;
    const char *const *paths;
    size_t n_paths, next;
    size_t items; // expected in each response
    int64_t end_ns;
    struct bench_series latency_ms;
};

static size_t count_items(struct gs_slice body)
{
    static const char name[] = "\"describedObject\"";
    size_t n = 0;
    const char *end = body.data + body.len;
    for (const char *at = body.data; (at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1));
         at++)
        n++;
    return n;
}

static void *load(void *arg)
{
    struct load *l = arg;
    for (int64_t from = gs_mono_ns(); from < l->end_ns;) {
        struct gs_slice body;
        const char *path = l->paths[l->next++ % l->n_paths];
        if (!wire_get(&l->wire, path, &body))
            bench_fail("%s was not answered with 200: %.*s", path, (int)body.len, body.data);
        int64_t now = gs_mono_ns();
        if (!l->latency_ms.len && count_items(body) != l->items)
            bench_fail("%s: not %zu values: %.300s", path, l->items, body.data);
        bench_add(&l->latency_ms, (double)(now - from) / 1e6);
        from = now;
    }
    return NULL;
}

struct result {
    double a_core, cpu_us, p50, p99;
};

static struct result measure(const struct adapter_bed *b, const struct side *s,
                             const char *const *paths, size_t n_paths, size_t items,
                             int connections, double seconds)
{
    struct load loads[MAX_CONNECTIONS] = {0};
    struct bench_series all = {0};
    struct gs_slice body;
    for (int i = 0; i < connections; i++) {
        adapter_connect(b, &loads[i].wire, s->port);
        (void)wire_get(&loads[i].wire, paths[0],
                       &body); // permissions are cached, connections are open
    }
    int64_t cpu = bench_cpu_ns(s->pid), start = gs_mono_ns();
    for (int i = 0; i < connections; i++) {
        loads[i].paths = paths;
        loads[i].n_paths = n_paths;
        loads[i].next = (size_t)i * 17;
        loads[i].items = items;
        loads[i].end_ns = start + (int64_t)(seconds * 1e9);
        if (pthread_create(&loads[i].thread, NULL, load, &loads[i]) != 0)
            bench_fail("no thread");
    }
    for (int i = 0; i < connections; i++) {
        pthread_join(loads[i].thread, NULL);
        for (size_t k = 0; k < loads[i].latency_ms.len; k++)
            bench_add(&all, loads[i].latency_ms.items[k]);
        bench_series_finish(&loads[i].latency_ms);
        wire_close(&loads[i].wire);
    }
    double core_s = (double)(bench_cpu_ns(s->pid) - cpu) / 1e9;
    struct result r = {.a_core = (double)all.len / core_s,
                       .cpu_us = core_s / (double)all.len * 1e6,
                       .p50 = bench_percentile(&all, 50),
                       .p99 = bench_percentile(&all, 99)};
    bench_series_finish(&all);
    return r;
}

static void print_ratios(const struct result *r)
{
    printf(
        "    ratios: %.1f in requests a core (unshared %.1f), %.1f in p99 (unshared %.1f); bar 10: "
        "%s, %s\n",
        r[OURS].a_core / r[REAL].a_core, r[UNSHARED].a_core / r[REAL].a_core,
        r[REAL].p99 / r[OURS].p99, r[REAL].p99 / r[UNSHARED].p99,
        bench_verdict(r[OURS].a_core >= 10 * r[REAL].a_core),
        bench_verdict(r[OURS].p99 * 10 <= r[REAL].p99));
}

static void compare(const struct options *o, const struct adapter_bed *b, struct side *sides,
                    const char *what, const char *const *paths, size_t n_paths, size_t items,
                    int connections)
{
    struct result r[N_SIDES];
    if (o->row && !strstr(what, o->row))
        return;
    printf("\n  %s, %d connection%s\n", what, connections, connections > 1 ? "s" : "");
    printf("    %-28s %12s %12s %10s %10s\n", "", "a core, rps", "CPU, us", "p50, ms", "p99, ms");
    for (int i = o->alone ? OURS : REAL; i < N_SIDES; i++) {
        r[i] = measure(b, &sides[i], paths, n_paths, items, connections, o->seconds);
        printf("    %-28s %12.0f %12.1f %10.3f %10.3f\n", sides[i].name, r[i].a_core, r[i].cpu_us,
               r[i].p50, r[i].p99);
    }
    if (!o->alone)
        print_ratios(r);
    if (items == 1)
        printf("    bars of single objects: 40,000 a core: %s; p99 1 ms: %s\n",
               bench_verdict(r[OURS].a_core >= 40000), bench_verdict(r[OURS].p99 < 1));
}

static void print_sizes(const struct side *sides)
{
    printf("\n    %-28s %12s %22s %12s\n", "", "ready, s", "resident, listed, MB", "at the end");
    for (int i = 0; i < N_SIDES; i++)
        printf("    %-28s %12.2f %22.1f %12.1f\n", sides[i].name, sides[i].start_s,
               sides[i].list_mb, sides[i].end_mb);
    printf("    resident memory, bar a tenth: %s listed (%.1f), %s at the end (%.1f)\n",
           bench_verdict(sides[OURS].list_mb * 10 <= sides[REAL].list_mb),
           sides[REAL].list_mb / sides[OURS].list_mb,
           bench_verdict(sides[OURS].end_mb * 10 <= sides[REAL].end_mb),
           sides[REAL].end_mb / sides[OURS].end_mb);
}

static void run_all(const struct options *o, const struct adapter_bed *b, struct side *sides)
{
    static const char few[] = PODS_URL "*/gpu_metric_00?labelSelector=first%3D100";
    static const char many[] = PODS_URL "*/gpu_metric_00?labelSelector=first%3D5000";
    const char *const few_list[] = {few}, *const many_list[] = {many};
    char objects[OBJECTS][160];
    const char *list[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        snprintf(objects[i], sizeof(objects[i]), PODS_URL CLUSTER_POD_FMT "/gpu_metric_01", i * 25);
        list[i] = objects[i];
    }
    compare(o, b, sides, "pods/*, a selector of 100 pods", few_list, 1, 100, 1);
    compare(o, b, sides, "pods/*, a selector of 100 pods", few_list, 1, 100, (int)o->connections);
    compare(o, b, sides, "pods/*, a selector of 5,000 pods", many_list, 1, PODS, 1);
    compare(o, b, sides, "one pod, the same", list, 1, 1, 1);
    compare(o, b, sides, "one pod, 200 in turn", list, OBJECTS, 1, (int)o->connections);
    bench_sleep(SETTLE_S * GS_NS_PER_SEC);
    for (int i = o->alone ? OURS : REAL; i < N_SIDES; i++)
        sides[i].end_mb = resident_mb(sides[i].pid);
    print_sizes(sides);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv;
    if (o->serve)
        cluster_serve((int)o->serve, 0, 0);
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    GS_AUTO_FREE char *cached = gs_format("%s%s/gpuscale/prometheus-adapter/adapter-v0.12.0",
                                          cache  ? cache
                                          : home ? home
                                                 : "",
                                          cache ? "" : "/.cache");
    const char *real = o->real ? o->real : cached;
    if (!o->alone && access(real, X_OK) != 0) {
        printf("skipped: there is no prometheus-adapter at %s (tests/differential/adapter.sh "
               "builds it)\n",
               real);
        return NULL;
    }
    bench_begin();
    struct adapter_bed b = {0};
    adapter_bed_start(&b, "/proc/self/exe", PODS);
    printf("The adapter and prometheus-adapter 0.12, %lld series, %d pods\n", (long long)o->series,
           PODS);
    GS_AUTO_FREE char *source = start_prometheus(o), *rules = write_rules();
    GS_AUTO_FREE char *engine_config = write_engine_config(o, &b);
    GS_AUTO_FREE char *engine_flag = gs_format("--engine-config=%s", engine_config);
    // Its limit of five requests per second to the cluster is raised, because it is not measured
    // here.
    struct side sides[N_SIDES] = {
        [REAL] = {.name = "prometheus-adapter",
                  .program = {real},
                  .extra = {"--client-qps=10000", "--client-burst=10000"}},
        [OURS] = {.name = "gpuscale", .program = {o->gpuscale, "adapter"}},
        [UNSHARED] = {.name = "gpuscale, nothing shared",
                      .program = {o->gpuscale, "adapter"},
                      .extra = {"--value-max-age=0s"}},
        [ENGINE] = {.name = "gpuscale, its engine",
                    .program = {o->gpuscale, "adapter"},
                    .extra = {engine_flag},
                    .own_engine = true},
        [ENGINE_UNSHARED] = {.name = "the same, nothing shared",
                             .program = {o->gpuscale, "adapter"},
                             .extra = {engine_flag, "--value-max-age=0s"},
                             .own_engine = true},
    };
    for (int i = o->alone ? OURS : REAL; i < N_SIDES; i++)
        start_side(&sides[i], &b, source, rules);
    run_all(o, &b, sides);
    adapter_bed_finish(&b);
    *ret_exit = 0;
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE", "build/src/cmd/gpuscale",
     .help = "The program."},
    {"real", GS_OPT_STRING, AT(real), "FILE",
     .help = "prometheus-adapter. Default: the one that the differential test has built."},
    {"prometheus", GS_OPT_STRING, AT(prometheus), "FILE", "/usr/bin/prometheus",
     .help = "Prometheus, the source of both adapters."},
    {"promtool", GS_OPT_STRING, AT(promtool), "FILE", "/usr/bin/promtool",
     .help = "promtool, which creates the data."},
    {"seconds", GS_OPT_DOUBLE, AT(seconds), "N", "3", .help = "Duration of each measurement."},
    {"series", GS_OPT_INT, AT(series), "N", "100000", .min = PODS, .max = 10000000,
     .help = "Number of series that the rule finds."},
    {"connections", GS_OPT_INT, AT(connections), "N", "8", .min = 1, .max = MAX_CONNECTIONS,
     .help = "Number of connections, for the rows with several."},
    {"row", GS_OPT_STRING, AT(row), "TEXT",
     .help = "Only run rows whose title contains this text."},
    {"alone", GS_OPT_BOOL, AT(alone), .help = "Do not measure prometheus-adapter."},
    {"serve", GS_OPT_INT, AT(serve), "PODS", "0", .max = 1000000,
     .help = "Only run the simulated cluster, with this number of pods."},
    {0},
};

static const struct gs_command command = {
    .name = "adapter-peer",
    .summary = "Compare the adapter with prometheus-adapter.",
    .description = "Measures requests per second and core, latency, memory and start of both.",
    .opts = rows,
    .opts_size = sizeof(struct options),
    .max_args = 0,
    .run = run,
};

int main(int argc, char **argv)
{
    return bench_main(&command, argc, argv);
}
