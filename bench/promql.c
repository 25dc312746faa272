// SPDX-License-Identifier: Apache-2.0
// Queries of the PromQL engine over a store of N GPU series: microseconds of CPU time of the first
// evaluation (empty caches), of the following ones, of those after other work has evicted the store
// from the processor's caches, and of those after a pod with 26 series was added. With a query
// argument: only this query. The third argument is a number of pods with 26 series that ended
// within the last hour.
#include "promql/promql.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES    90 // a second apart
#define FIRST_MS   INT64_C(1700000000000)
#define LAST_MS    (FIRST_MS + (SAMPLES - 1) * 1000)
#define MAX_LABELS 16
// Targets of 8 GPUs, each with other metrics between those of a query.
#define TARGET_GPUS 8
#define METRICS     25
#define FEW_SERIES  10000 // with more, there are no other metrics
#define EVICT_BYTES ((size_t)96 << 20)

struct labels {
    struct metrics_label items[MAX_LABELS];
    char texts[MAX_LABELS][64];
    size_t n;
};

GS_PRINTF(3, 4)
static void add(struct labels *l, const char *name, const char *fmt, ...)
{
    char *text = l->texts[l->n];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(l->texts[0]), fmt, ap);
    va_end(ap);
    l->items[l->n++] = (struct metrics_label){gs_slice_of(name), gs_slice_of(text)};
}

static void gpu_labels(struct labels *l, unsigned i)
{
    l->n = 0;
    add(l, "__name__", "DCGM_FI_DEV_GPU_UTIL");
    add(l, "DCGM_FI_DRIVER_VERSION", "535.104.05");
    add(l, "Hostname", "node-%u", i / 8);
    add(l, "UUID", "GPU-%08x-0000-1111-2222-%012x", i, i * 7);
    add(l, "container", "main");
    add(l, "device", "nvidia%u", i % 8);
    add(l, "gpu", "%u", i % 8);
    add(l, "instance", "10.0.%u.%u:9400", i / 8 / 256, i / 8 % 256);
    add(l, "job", "dcgm");
    add(l, "modelName", "NVIDIA H100");
    add(l, "namespace", "team-%u", i % 20);
    add(l, "pod", "pod-%u", i);
}

static void pod_labels(struct labels *l, unsigned i)
{
    l->n = 0;
    add(l, "__name__", "kube_pod_labels");
    add(l, "instance", "10.1.0.1:8080");
    add(l, "job", "ksm");
    if (i % 10)
        add(l, "label_app", "other-%u", i % 50);
    else
        add(l, "label_app", "cuda-test");
    add(l, "namespace", "team-%u", i % 20);
    add(l, "pod", "pod-%u", i);
}

struct target {
    struct tsdb_group *group;
    uint32_t slots[METRICS * TARGET_GPUS + TARGET_GPUS]; // those of pods last
    size_t n;
};

static void name_metric(struct labels *l, unsigned metric)
{
    if (metric)
        snprintf(l->texts[0], sizeof(l->texts[0]), "DCGM_FI_DEV_%u", metric);
    l->items[0].value = gs_slice_of(l->texts[0]);
}

static struct target new_target(struct tsdb *db, unsigned first, unsigned until, unsigned metrics)
{
    struct labels l;
    struct target t = {.group = tsdb_group_new(db)};
    for (unsigned metric = 0; metric < metrics; metric++)
        for (unsigned i = first; i < until; i++) {
            gpu_labels(&l, i);
            name_metric(&l, metric);
            bench_check(tsdb_group_slot(t.group, l.items, l.n, &t.slots[t.n++]));
        }
    for (unsigned i = first; i < until; i++) {
        pod_labels(&l, i);
        bench_check(tsdb_group_slot(t.group, l.items, l.n, &t.slots[t.n++]));
    }
    return t;
}

// A percentage that jumps, as the load of a GPU does.
static double value_of(unsigned target, unsigned slot, unsigned second)
{
    uint32_t x = target * 2654435761u ^ slot * 2246822519u ^ second * 3266489917u;
    x = (x ^ x >> 15) * 2246822519u;
    return (x ^ x >> 13) % 101;
}

// Targets take turns, as when they are scraped.
static void fill(struct tsdb *db, unsigned n)
{
    size_t n_targets = (n + TARGET_GPUS - 1) / TARGET_GPUS;
    struct target *targets = gs_alloc_array(n_targets, sizeof(*targets));
    for (unsigned t = 0; t < n_targets; t++) {
        unsigned first = t * TARGET_GPUS, until = first + TARGET_GPUS;
        targets[t] = new_target(db, first, until < n ? until : n, n <= FEW_SERIES ? METRICS : 1);
    }
    for (unsigned k = 0; k < SAMPLES; k++) {
        for (unsigned t = 0; t < n_targets; t++) {
            struct target *at = &targets[t];
            size_t added, fresh;
            bench_check(tsdb_group_begin(at->group, FIRST_MS + k * 1000));
            for (unsigned i = 0; i < at->n; i++)
                tsdb_group_put(at->group, at->slots[i], value_of(t, i, k));
            tsdb_group_commit(at->group, &added, &fresh);
        }
    }
    free(targets);
}

static void evict_caches(void)
{
    static unsigned char *bytes;
    if (!bytes)
        bytes = gs_alloc(EVICT_BYTES);
    for (size_t i = 0; i < EVICT_BYTES; i += 64)
        bytes[i]++;
}

// A sample of each series of another pod: its labels, 25 metrics. end: stale markers instead.
static void add_pod(struct tsdb *db, unsigned i, int64_t t_ms, bool end)
{
    struct labels l;
    pod_labels(&l, i);
    bench_check(tsdb_append(db, l.items, l.n, t_ms, end ? tsdb_stale_marker() : 1));
    for (unsigned metric = 0; metric < 25; metric++) {
        gpu_labels(&l, i);
        name_metric(&l, metric);
        bench_check(tsdb_append(db, l.items, l.n, t_ms, end ? tsdb_stale_marker() : metric));
    }
}

static void add_ended_pods(struct tsdb *db, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        int64_t end_ms = LAST_MS - (int64_t)(n - i) * 3600000 / n;
        for (int64_t before_ms = 240000; before_ms >= 0; before_ms -= 60000)
            add_pod(db, 1000000 + i, end_ms - before_ms, !before_ms);
    }
}

static const char *const queries[] = {
    "avg by (namespace) (DCGM_FI_DEV_GPU_UTIL)",
    "avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL)",
    "sum(DCGM_FI_DEV_GPU_UTIL)",
    "avg_over_time(DCGM_FI_DEV_GPU_UTIL[1m])",
    "rate(DCGM_FI_DEV_GPU_UTIL[1m])",
    "avg(max by (node, pod, namespace) (DCGM_FI_DEV_GPU_UTIL) * on (pod) group_left (label_app) "
    "max by (pod, label_app) (kube_pod_labels{label_app=\"cuda-test\"}))",
    "avg(max by (node, pod, namespace) (DCGM_FI_DEV_GPU_UTIL) * on (pod) group_left (label_app) "
    "max by (pod, label_app) (kube_pod_labels))",
    "topk(5, DCGM_FI_DEV_GPU_UTIL)",
    "sum(DCGM_FI_DEV_GPU_UTIL{pod=~\"pod-.*00\"})",
    "DCGM_FI_DEV_GPU_UTIL",
};

static const char *const ranges[] = {
    "avg by (namespace) (DCGM_FI_DEV_GPU_UTIL)",
    "avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL)",
    "sum(DCGM_FI_DEV_GPU_UTIL)",
    "avg_over_time(DCGM_FI_DEV_GPU_UTIL[1m])",
    "max_over_time(DCGM_FI_DEV_GPU_UTIL[1m])",
    "rate(DCGM_FI_DEV_GPU_UTIL[1m])",
    "deriv(DCGM_FI_DEV_GPU_UTIL[1m])",
};

static int64_t once(struct promql_engine *e, const struct promql_expr *x, bool range,
                    size_t *ret_series)
{
    struct promql_result r;
    int64_t start = gs_thread_cpu_ns();
    if (range)
        bench_check(promql_range(e, x, LAST_MS - 59000, LAST_MS, 1000, &r));
    else
        bench_check(promql_instant(e, x, LAST_MS, &r));
    *ret_series = r.matrix.n;
    promql_result_finish(&r);
    return gs_thread_cpu_ns() - start;
}

static void measure(struct tsdb *db, struct promql_engine *e, const char *text, bool range)
{
    static unsigned pods = 2000000; // their numbers
    int64_t times[101] = {0}, cold[101] = {0}, busy[101] = {0};
    size_t n = range ? 7 : 51, middle = n / 2, series;
    struct promql_expr *x;
    bench_check(promql_parse(gs_slice_of(text), &x));
    int64_t first = once(e, x, range, &series);
    for (size_t i = 0; i < n; i++)
        times[i] = once(e, x, range, &series);
    for (size_t i = 0; i < n; i++) {
        evict_caches();
        cold[i] = once(e, x, range, &series);
    }
    for (size_t i = 0; i < n; i++) {
        add_pod(db, pods++, LAST_MS, false);
        busy[i] = once(e, x, range, &series);
    }
    qsort(times, n, sizeof(times[0]), gs_compare_int64s);
    qsort(cold, n, sizeof(cold[0]), gs_compare_int64s);
    qsort(busy, n, sizeof(busy[0]), gs_compare_int64s);
    printf("%9.0f %9.0f %9.0f %9.0f %9.0f %6.2f %8zu  %s%s\n", (double)first / 1000,
           (double)times[middle] / 1000, (double)times[n - 1] / 1000, (double)cold[middle] / 1000,
           (double)busy[middle] / 1000, (double)busy[middle] / (double)times[middle], series,
           range ? "[60 steps] " : "", text);
    promql_expr_free(x);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 10000;
    int ended = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
    if (n < 1 || n > 1000000 || ended < 0 || ended > 100000)
        bench_fail("usage: promql [SERIES [QUERY [ENDED-PODS]]]");
    struct tsdb *db = tsdb_new(NULL);
    add_ended_pods(db, (unsigned)ended);
    fill(db, (unsigned)n);
    struct promql_engine *e = promql_engine_new(db, NULL);
    printf("%d series of GPUs, as many of pods\n first µs    median       max      cold   new pod  "
           "ratio   "
           "series  query\n",
           n);
    for (size_t i = 0; i < GS_ARRAY_LEN(queries) && argc < 3; i++)
        measure(db, e, queries[i], false);
    for (size_t i = 0; i < GS_ARRAY_LEN(ranges) && argc < 3 && n <= 10000; i++)
        measure(db, e, ranges[i], true);
    if (argc > 2)
        measure(db, e, argv[2], false);
    promql_engine_free(e);
    tsdb_free(db);
    return 0;
}
