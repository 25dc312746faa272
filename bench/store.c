// SPDX-License-Identifier: Apache-2.0
// The store under hours of history, written as fast as it goes: time of an append, bytes a sample,
// memory while the retention drops what is old, and the restart of the engine after kill -9.
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "tsdb/tsdb.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIELDS       25
#define GPUS         8
#define SERIES       (FIELDS * GPUS) // of a target
#define TABLE        4096            // values of a field take turns
#define BATCH        20              // targets
#define APPEND_NS    25.0
#define SAMPLE_BYTES 2.0
#define PEAK         1.2 // of the memory when the retention is full
#define READY_NS     (300 * GS_NS_PER_SEC)

struct options {
    const char *gpuscale;
    int64_t series, minutes, retention_minutes, step_ms;
    bool log;
};

struct target {
    struct tsdb_group *group;
    uint32_t slots[SERIES];
    double counters[GPUS];
    uint32_t offset; // of its passes, and into the tables
};

struct world {
    const struct options *o;
    struct tsdb *db;
    struct target *targets;
    size_t n;
    double values[FIELDS][TABLE];
    uint64_t dice, samples;
    int64_t append_ns, upkeep_ns;
};

static const char *const fields[FIELDS] = {"SM_CLOCK",
                                           "MEM_CLOCK",
                                           "MEMORY_TEMP",
                                           "GPU_TEMP",
                                           "POWER_USAGE",
                                           "TOTAL_ENERGY_CONSUMPTION",
                                           "PCIE_REPLAY_COUNTER",
                                           "GPU_UTIL",
                                           "MEM_COPY_UTIL",
                                           "ENC_UTIL",
                                           "DEC_UTIL",
                                           "XID_ERRORS",
                                           "FB_FREE",
                                           "FB_USED",
                                           "NVLINK_BANDWIDTH_TOTAL",
                                           "VGPU_LICENSE_STATUS",
                                           "UNCORRECTABLE_REMAPPED_ROWS",
                                           "CORRECTABLE_REMAPPED_ROWS",
                                           "ROW_REMAP_FAILURE",
                                           "GR_ENGINE_ACTIVE",
                                           "PIPE_TENSOR_ACTIVE",
                                           "DRAM_ACTIVE",
                                           "PCIE_TX_BYTES",
                                           "PCIE_RX_BYTES",
                                           "FB_RESERVED"};
enum { ENERGY = 5 };

static unsigned roll(struct world *w, unsigned n)
{
    w->dice = w->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((w->dice >> 33) % n);
}

// The same kinds of values as bench/engine-peer.
static double draw(struct world *w, const char *field)
{
    if (strcmp(field, "GPU_UTIL") == 0 || strcmp(field, "MEM_COPY_UTIL") == 0)
        return roll(w, 101);
    if (strcmp(field, "POWER_USAGE") == 0)
        return (60000 + roll(w, 640000)) / 1e3;
    if (strstr(field, "ACTIVE"))
        return roll(w, 1000000) / 1e6;
    if (strstr(field, "BYTES"))
        return roll(w, 1000000000);
    if (strstr(field, "ENERGY"))
        return 30000 + roll(w, 1000);
    if (strstr(field, "FB_"))
        return 1000 + 1000 * (double)roll(w, 3);
    if (strstr(field, "TEMP"))
        return 40 + roll(w, 40);
    return strstr(field, "CLOCK") ? 210 * (1 + (double)roll(w, 9)) : 0;
}

// --- filling ---

static void add_target(struct world *w, size_t t)
{
    struct target *target = &w->targets[t];
    target->group = tsdb_group_new(w->db);
    target->offset = (uint32_t)(t * 7919);
    GS_AUTO_FREE char *host = gs_format("node-%04zu", t);
    GS_AUTO_FREE char *instance = gs_format("10.0.%zu.%zu:9400", t / 256, t % 256);
    GS_AUTO_FREE char *space = gs_format("team-%zu", t % 20);
    for (int i = 0; i < SERIES; i++) {
        int gpu = i % GPUS;
        GS_AUTO_FREE char *name = gs_format("DCGM_FI_DEV_%s", fields[i / GPUS]);
        GS_AUTO_FREE char *number = gs_format("%d", gpu);
        GS_AUTO_FREE char *uuid =
            gs_format("GPU-%08zx-52ab-4f2e-9c4e-%012zx", t * 8 + (size_t)gpu, t);
        GS_AUTO_FREE char *device = gs_format("nvidia%d", gpu);
        GS_AUTO_FREE char *pci = gs_format("00000000:%02X:00.0", gpu);
        GS_AUTO_FREE char *pod = gs_format("inference-%zu-%d", t, gpu);
        const struct metrics_label labels[] = {
            {GS_SLICE("__name__"), gs_slice_of(name)},
            {GS_SLICE("gpu"), gs_slice_of(number)},
            {GS_SLICE("UUID"), gs_slice_of(uuid)},
            {GS_SLICE("pci_bus_id"), gs_slice_of(pci)},
            {GS_SLICE("device"), gs_slice_of(device)},
            {GS_SLICE("modelName"), GS_SLICE("NVIDIA H100 80GB HBM3")},
            {GS_SLICE("Hostname"), gs_slice_of(host)},
            {GS_SLICE("DCGM_FI_DRIVER_VERSION"), GS_SLICE("550.54.15")},
            {GS_SLICE("container"), GS_SLICE("inference")},
            {GS_SLICE("namespace"), gs_slice_of(space)},
            {GS_SLICE("pod"), gs_slice_of(pod)},
            {GS_SLICE("instance"), gs_slice_of(instance)},
            {GS_SLICE("job"), GS_SLICE("gpu")},
        };
        bench_check(
            tsdb_group_slot(target->group, labels, GS_ARRAY_LEN(labels), &target->slots[i]));
    }
}

static void make_world(struct world *w, const char *path)
{
    const struct options *o = w->o;
    // A snapshot each ten minutes, as in the program, where the clock is the real one.
    const struct tsdb_config cfg = {.retention_ms = o->retention_minutes * 60000,
                                    .storage_path = o->log ? path : NULL,
                                    .snapshot_bytes =
                                        (uint64_t)(o->series * 600000 / o->step_ms) * 3};
    bench_check(tsdb_open(&cfg, &w->db));
    w->n = (size_t)(o->series + SERIES - 1) / SERIES;
    w->targets = gs_alloc_array(w->n, sizeof(*w->targets));
    for (int f = 0; f < FIELDS; f++)
        for (int i = 0; i < TABLE; i++)
            w->values[f][i] = draw(w, fields[f]);
    for (size_t t = 0; t < w->n; t++)
        add_target(w, t);
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * GS_NS_PER_SEC + t.tv_nsec;
}

static void make_values(struct world *w, struct target *t, size_t round, double values[SERIES])
{
    for (size_t f = 0; f < FIELDS; f++)
        for (size_t g = 0; g < GPUS; g++) {
            double v = w->values[f][(t->offset + round * 17 + g * 131 + f) % TABLE];
            if (f == ENERGY)
                v = t->counters[g] += v;
            values[f * GPUS + g] = v;
        }
}

// A pass comes up to 3 ms late, as scrapes do.
static void pass(struct world *w, struct target *t, int64_t at_ms, const double values[SERIES])
{
    size_t added, fresh;
    bench_check(tsdb_group_begin(t->group, at_ms + t->offset % 1000 + roll(w, 4)));
    for (size_t i = 0; i < SERIES; i++)
        tsdb_group_put(t->group, t->slots[i], values[i]);
    tsdb_group_commit(t->group, &added, &fresh);
    w->samples += added;
}

static void second(struct world *w, size_t round, int64_t at_ms)
{
    static double values[BATCH][SERIES]; // made before the clock is looked at
    for (size_t t = 0; t < w->n; t += BATCH) {
        size_t n = w->n - t < BATCH ? w->n - t : BATCH;
        for (size_t i = 0; i < n; i++)
            make_values(w, &w->targets[t + i], round, values[i]);
        int64_t begun = cpu_ns();
        for (size_t i = 0; i < n; i++)
            pass(w, &w->targets[t + i], at_ms, values[i]);
        w->append_ns += cpu_ns() - begun;
    }
    int64_t begun = cpu_ns();
    tsdb_sync(w->db);
    if (round % 2 == 0)
        tsdb_gc(w->db, at_ms);
    w->upkeep_ns += cpu_ns() - begun;
}

static double rss_mb(pid_t pid)
{
    return (double)bench_memory(pid).rss_kib * 1024 / 1e6;
}

static void print_row(const char *what, const char *figure, const char *bar, bool met)
{
    printf("  %-56s %s%s%s%s%s\n", what, figure, bar ? " (bar " : "", bar ? bar : "",
           bar ? ": " : "", bar ? (met ? "met)" : "MISSED)") : "");
    fflush(stdout);
}

static void print_store(const struct world *w, double full_mb, double peak_mb, double start_mb)
{
    struct tsdb_stats s;
    tsdb_stats(w->db, &s);
    char figure[160];
    double held = (double)w->samples * (double)w->o->retention_minutes / (double)w->o->minutes;
    if (w->o->minutes < w->o->retention_minutes)
        held = (double)w->samples;
    double ns = (double)w->append_ns / (double)w->samples, bytes = (double)s.bytes_samples / held;
    snprintf(figure, sizeof(figure), "%.1f ns", ns);
    print_row(w->o->log ? "append, with its log" : "append, no log", figure, "25 ns",
              ns <= APPEND_NS);
    snprintf(figure, sizeof(figure), "%.1f ns", (double)w->upkeep_ns / (double)w->samples);
    print_row("upkeep a sample: retention, log, snapshots", figure, NULL, true);
    snprintf(figure, sizeof(figure), "%.2f, of %.0f M samples held", bytes, held / 1e6);
    print_row("bytes a sample", figure, "2", bytes <= SAMPLE_BYTES);
    snprintf(figure, sizeof(figure),
             "%.0f MB with the first samples, %.0f MB with the retention full", start_mb, full_mb);
    print_row("resident memory", figure, NULL, true);
    snprintf(figure, sizeof(figure), "%.2f x", peak_mb / full_mb);
    print_row("peak of it behind that", figure, "1.2", peak_mb <= PEAK * full_mb);
}

static void fill(const struct options *o, const char *path, int64_t now_ms)
{
    struct world *w = gs_alloc(sizeof(*w));
    w->o = o;
    w->dice = 1;
    make_world(w, path);
    size_t rounds = (size_t)(o->minutes * 60000 / o->step_ms);
    size_t full = (size_t)(o->retention_minutes * 60000 / o->step_ms);
    double start_mb = 0, full_mb = 0, peak_mb = 0;
    for (size_t i = 0; i < rounds; i++) {
        second(w, i, now_ms - (int64_t)(rounds - i) * o->step_ms);
        if (i == 60 || i + 1 == rounds || (i > 60 && i % 60 == 0)) {
            double mb = rss_mb(getpid());
            start_mb = i == 60 ? mb : start_mb;
            full_mb = i <= full ? mb : full_mb;
            peak_mb = mb > peak_mb ? mb : peak_mb;
        }
    }
    print_store(w, full_mb, peak_mb, start_mb);
    raise(SIGKILL);
}

// --- the restart ---

static void restart(const struct options *o, const char *path)
{
    GS_AUTO_FREE char *config = gs_format("%s/prometheus.yml", bench_dir());
    GS_AUTO_FREE char *storage = gs_format("--storage.path=%s", path);
    GS_AUTO_FREE char *file = gs_format("--config.file=%s", config);
    GS_AUTO_FREE char *keep =
        gs_format("--storage.tsdb.retention.time=%lldm", (long long)o->retention_minutes);
    FILE *f = fopen(config, "w");
    if (!f || fputs("global: {}\n", f) < 0 || fclose(f) != 0)
        bench_fail("%s cannot be written", config);
    const char *const argv[] = {
        o->gpuscale, "engine", file, storage, keep, "--web.listen-address=127.0.0.1:0", NULL};
    int64_t begun = gs_mono_ns();
    pid_t engine = bench_start("engine.log", argv);
    free(bench_wait_for_text(engine, "is ready"));
    char figure[160];
    snprintf(figure, sizeof(figure), "%.1f s, %.0f MB resident",
             (double)(gs_mono_ns() - begun) / 1e9, rss_mb(engine));
    print_row("restart after kill -9, until it is ready", figure, NULL, true);
    bench_stop(engine);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    printf(
        "Store: %lld series each %lld ms, %lld minutes, %lld kept (DCGM-like values; CPU time)\n",
        (long long)o->series, (long long)o->step_ms, (long long)o->minutes,
        (long long)o->retention_minutes);
    fflush(stdout);
    GS_AUTO_FREE char *path = gs_format("%s/store", bench_dir());
    pid_t child = fork();
    if (child == 0)
        fill(o, path, gs_unix_ms());
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        bench_fail("the store has not been filled");
    if (o->log && o->gpuscale)
        restart(o, path);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {.name = "gpuscale",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(gpuscale),
     .help = "The program whose restart is measured, as an absolute path."},
    {.name = "series",
     .arg = "N",
     .def = "100000",
     .type = GS_OPT_INT,
     .min = SERIES,
     .max = 2000000,
     AT(series),
     .help = "Series."},
    {.name = "minutes",
     .arg = "N",
     .def = "150",
     .type = GS_OPT_INT,
     .min = 2,
     .max = 6000,
     AT(minutes),
     .help = "Minutes of history."},
    {.name = "retention-minutes",
     .arg = "N",
     .def = "120",
     .type = GS_OPT_INT,
     .min = 1,
     .max = 6000,
     AT(retention_minutes),
     .help = "How long samples are kept."},
    {.name = "step-ms",
     .arg = "N",
     .def = "1000",
     .type = GS_OPT_INT,
     .min = 100,
     .max = 60000,
     AT(step_ms),
     .help = "Time between samples."},
    {.name = "log", .type = GS_OPT_BOOL, AT(log), .help = "With a log and snapshots on disk."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_verb verb = {.name = "store",
                                 .summary = "Measure the store under hours of history.",
                                 .opts = rows,
                                 .opts_size = sizeof(struct options),
                                 .run = run};
    return bench_main(&verb, argc, argv);
}
