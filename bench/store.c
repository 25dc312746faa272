// SPDX-License-Identifier: Apache-2.0
// The store with hours of history, written at full speed: time of an append, bytes per sample,
// memory while the retention deletes old samples, and the restart of the engine after kill -9.
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "history.h"
#include "store_peer.h"
#include "tsdb/tsdb.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH        20 // targets
#define APPEND_NS    25.0
#define SAMPLE_BYTES 2.0
#define PEAK         1.2 // of the memory when the retention is full
#define PEER         4.0 // Prometheus' memory, at least so many times ours
#define READY_S      300
#define REST_S       30 // after a restart; also the last part of the pace in which memory is read

struct options {
    const char *gpuscale, *peer;
    int64_t series, minutes, retention_minutes, step_ms, settle;
    bool log;
};

struct target {
    struct tsdb_group *group;
    uint32_t slots[HISTORY_SERIES];
};

struct world {
    const struct options *o;
    struct tsdb *db;
    struct history *history;
    struct target *targets;
    uint64_t samples;
    int64_t append_ns, upkeep_ns;
};

// --- filling ---

static void add_target(struct world *w, size_t t)
{
    struct target *target = &w->targets[t];
    struct history_device devices[HISTORY_GPUS];
    target->group = tsdb_group_new(w->db);
    for (int g = 0; g < HISTORY_GPUS; g++)
        history_device(t, g, &devices[g]);
    for (int i = 0; i < HISTORY_SERIES; i++)
        bench_check(tsdb_group_slot(target->group, history_labels(&devices[i % HISTORY_GPUS], i),
                                    HISTORY_LABELS, &target->slots[i]));
}

// With the frequency of the program, which uses the real clock: the bytes of five minutes, within
// its limits.
static uint64_t snapshot_bytes(const struct options *o)
{
    const uint64_t least = (uint64_t)16 << 20, most = (uint64_t)128 << 20;
    uint64_t bytes = (uint64_t)(o->series * 300000 / o->step_ms) * 3;
    return bytes < least ? least : bytes < most ? bytes : most;
}

static void make_world(struct world *w, const char *path, int64_t begin_ms)
{
    const struct options *o = w->o;
    const struct tsdb_config cfg = {.retention_ms = o->retention_minutes * 60000,
                                    .storage_path = o->log ? path : NULL,
                                    .snapshot_bytes = snapshot_bytes(o)};
    bench_check(tsdb_open(&cfg, &w->db));
    w->history = history_new(o->series, o->step_ms, begin_ms);
    w->targets = gs_alloc_array(w->history->n, sizeof(*w->targets));
    for (size_t t = 0; t < w->history->n; t++)
        add_target(w, t);
}

static void pass(struct world *w, size_t t, int64_t at_ms, const double values[HISTORY_SERIES])
{
    struct target *target = &w->targets[t];
    size_t added, fresh;
    bench_check(tsdb_group_begin(target->group, at_ms));
    for (size_t i = 0; i < HISTORY_SERIES; i++)
        tsdb_group_put(target->group, target->slots[i], values[i]);
    tsdb_group_commit(target->group, &added, &fresh);
    w->samples += added;
}

static void all_targets(struct world *w, size_t round)
{
    static double values[BATCH][HISTORY_SERIES]; // generated before the time is measured
    int64_t times[BATCH];
    for (size_t t = 0; t < w->history->n; t += BATCH) {
        size_t n = w->history->n - t < BATCH ? w->history->n - t : BATCH;
        for (size_t i = 0; i < n; i++) {
            times[i] = history_time(w->history, t + i, round);
            history_values(w->history, t + i, round, values[i]);
        }
        int64_t begun = gs_thread_cpu_ns();
        for (size_t i = 0; i < n; i++)
            pass(w, t + i, times[i], values[i]);
        w->append_ns += gs_thread_cpu_ns() - begun;
    }
    int64_t begun = gs_thread_cpu_ns();
    tsdb_sync(w->db);
    if (round % 2 == 0)
        tsdb_gc(w->db, w->history->begin_ms + (int64_t)round * w->o->step_ms);
    w->upkeep_ns += gs_thread_cpu_ns() - begun;
}

static double rss_mb(pid_t pid)
{
    return (double)bench_status_kib(pid, "VmRSS") * 1024 / 1e6;
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
    if (w->o->log)
        snprintf(figure, sizeof(figure), "%.2f in memory, %.2f in files, of %.0f M samples held",
                 bytes, (double)s.blocks_bytes / held, held / 1e6);
    else
        snprintf(figure, sizeof(figure), "%.2f, of %.0f M samples held", bytes, held / 1e6);
    print_row("bytes a sample", figure, w->o->log ? NULL : "2", bytes <= SAMPLE_BYTES);
    snprintf(figure, sizeof(figure),
             "%.0f MB with the first samples, %.0f MB (mean) with the retention full", start_mb,
             full_mb);
    print_row("resident memory", figure, NULL, true);
    snprintf(figure, sizeof(figure), "%.2f x", peak_mb / full_mb);
    print_row("its peak, of that mean", figure, "1.2", peak_mb <= PEAK * full_mb);
}

struct plan {
    const struct options *o;
    const char *path; // of the store
    int64_t begin_ms;
    size_t rounds, full, tail; // tail: more of them, at their own pace, when there is a peer
};

static void fill(void *plan, const struct side *self)
{
    const struct plan *p = plan;
    struct world w = {.o = p->o};
    make_world(&w, p->path, p->begin_ms);
    double start_mb = 0, sum_mb = 0, peak_mb = 0;
    int readings = 0; // with the retention full
    for (size_t i = 0; i < p->rounds; i++) {
        all_targets(&w, i);
        if (i == 60 || i + 1 == p->rounds || (i > 60 && i % 10 == 0)) {
            double mb = rss_mb(getpid());
            start_mb = i == 60 ? mb : start_mb;
            if (i < p->full && i + 1 < p->rounds)
                continue;
            sum_mb += mb;
            readings++;
            peak_mb = mb > peak_mb ? mb : peak_mb;
        }
    }
    print_store(&w, sum_mb / readings, peak_mb, start_mb);
    side_done(self);
    for (size_t i = 0; i < p->tail; i++) {
        int64_t next = gs_mono_ns() + p->o->step_ms * GS_NS_PER_MS;
        all_targets(&w, p->rounds + i);
        int64_t left = next - gs_mono_ns();
        if (left > 0)
            bench_sleep(left);
    }
    side_done(self); // and is killed
}

// --- comparison with Prometheus ---

struct memory {
    double rss, anon, file, peak; // MB
};

static struct memory memory_of(pid_t pid)
{
    return (struct memory){(double)bench_status_kib(pid, "VmRSS") * 1024 / 1e6,
                           (double)bench_status_kib(pid, "RssAnon") * 1024 / 1e6,
                           (double)bench_status_kib(pid, "RssFile") * 1024 / 1e6,
                           (double)bench_status_kib(pid, "VmHWM") * 1024 / 1e6};
}

static void print_memory(const char *who, struct memory m, uint64_t samples)
{
    printf("  %-24s %8.1f %10.1f %8.1f %8.1f %14.2f\n", who, m.rss, m.anon, m.file, m.peak,
           m.rss * 1e6 / (double)samples);
    fflush(stdout);
}

static void add_reading(struct memory *sum, struct memory m)
{
    sum->rss += m.rss / REST_S;
    sum->anon += m.anon / REST_S;
    sum->file += m.file / REST_S;
    sum->peak = m.peak;
}

// The mean of the last REST_S seconds, while both receive samples in real time.
static void read_memory(const struct options *o, pid_t theirs, pid_t ours, struct memory ret[2])
{
    bench_sleep((o->settle - REST_S) * GS_NS_PER_SEC);
    for (int i = 0; i < REST_S; i++) {
        add_reading(&ret[0], memory_of(theirs));
        add_reading(&ret[1], memory_of(ours));
        bench_sleep(GS_NS_PER_SEC);
    }
}

static void print_ratio(const char *what, double theirs, double ours)
{
    char figure[64];
    snprintf(figure, sizeof(figure), "%.1f", theirs / ours);
    print_row(what, figure, "4", theirs / ours >= PEER);
}

// Samples that were written until the process was killed. Time has passed since then.
static int64_t end_of(const struct plan *p)
{
    return p->begin_ms + (int64_t)(p->rounds + p->tail) * p->o->step_ms;
}

static pid_t start_engine(const struct plan *p, uint16_t port, double *ret_s, double *ret_cpu_s)
{
    GS_AUTO_FREE char *config = gs_format("%s/prometheus.yml", bench_dir());
    GS_AUTO_FREE char *storage = gs_format("--storage.path=%s", p->path);
    GS_AUTO_FREE char *file = gs_format("--config.file=%s", config);
    GS_AUTO_FREE char *address = gs_format("--web.listen-address=127.0.0.1:%u", port);
    int64_t late_ms = gs_unix_ms() - end_of(p);
    GS_AUTO_FREE char *keep =
        gs_format("--storage.tsdb.retention.time=%llds",
                  (long long)(p->o->retention_minutes * 60 + (late_ms > 0 ? late_ms / 1000 : 0)));
    FILE *f = fopen(config, "w");
    if (!f || fputs("global: {}\n", f) < 0 || fclose(f) != 0)
        bench_fail("%s cannot be written", config);
    const char *const argv[] = {p->o->gpuscale, "engine", file, storage, keep, address, NULL};
    int64_t begun = gs_mono_ns();
    pid_t engine = bench_start("engine.log", argv);
    free(bench_wait_for_text_long(engine, "is ready", READY_S));
    *ret_s = (double)(gs_mono_ns() - begun) / 1e9;
    *ret_cpu_s = (double)bench_cpu_ns(engine) / 1e9;
    return engine;
}

// FUNCTION over the last minutes of a metric of a twentieth of the targets.
static double ask(const struct plan *p, uint16_t port, const char *function, int64_t minutes)
{
    GS_AUTO_FREE char *query =
        gs_format("sum(%s_over_time(DCGM_FI_DEV_POWER_USAGE%%7Bnamespace%%3D%%22team-0%%22%%7D%%5B"
                  "%lldm%%5D))",
                  function, (long long)minutes);
    // Between two samples: the targets' seconds are multiples of 20 ms, and up to 3 ms late.
    return peer_ask(port, query, (double)(end_of(p) - 10) / 1e3);
}

// Samples before the kill are present and equal to those of Prometheus. The store drops files by
// the real clock, which advanced while Prometheus was filled.
static void compare(const struct plan *p, const struct peer *peer, uint16_t ours)
{
    size_t targets = ((size_t)(p->o->series + HISTORY_SERIES - 1) / HISTORY_SERIES + 19) / 20;
    int64_t late = (gs_unix_ms() - end_of(p)) / 60000;
    int64_t minutes = p->o->retention_minutes - 1 - (late > 0 ? late : 0);
    if (minutes < 1 || p->o->minutes < p->o->retention_minutes)
        return;
    double want = (double)(targets * HISTORY_GPUS) * (double)(minutes * 60000 / p->o->step_ms);
    double got = ask(p, ours, "count", minutes);
    char figure[160];
    snprintf(figure, sizeof(figure), "%.0f of %.0f in %lld minutes", got, want, (long long)minutes);
    print_row("samples of a metric after it", figure, NULL, true);
    if (got != want)
        bench_fail("samples are missing");
    if (!p->o->peer)
        return;
    double a = ask(p, peer->port, "sum", minutes), b = ask(p, ours, "sum", minutes);
    snprintf(figure, sizeof(figure), "%.17g and %.17g", a, b);
    print_row("their sum, Prometheus' and ours", figure, NULL, true);
    if (fabs(a - b) > 1e-9 * fabs(a))
        bench_fail("the stores differ");
}

static void restart_both(const struct plan *p, struct peer *peer, uint64_t samples)
{
    uint16_t port = bench_free_port();
    double seconds, cpu;
    pid_t engine = start_engine(p, port, &seconds, &cpu);
    compare(p, peer, port);
    if (p->o->peer) {
        peer_kill(peer);
        peer_start(peer);
    }
    bench_sleep(REST_S * GS_NS_PER_SEC);
    char figure[160];
    snprintf(figure, sizeof(figure), "%.1f s, %.1f s of CPU; %.0f MB resident %d s later", seconds,
             cpu, rss_mb(engine), REST_S);
    print_row("restart after kill -9, until it is ready", figure, NULL, true);
    if (p->o->peer) {
        snprintf(figure, sizeof(figure), "%.1f s, %.1f s of CPU; %.1f and %.1f times",
                 peer->start_s, peer->start_cpu_s, peer->start_s / seconds,
                 peer->start_cpu_s / cpu);
        print_row("Prometheus' restart after kill -9", figure, NULL, true);
        printf("  %-24s resident       anon     file     most bytes a sample\n", "restarted, MB");
        struct memory theirs = memory_of(peer->pid), ours = memory_of(engine);
        print_memory("Prometheus", theirs, samples);
        print_memory("gpuscale engine", ours, samples);
        print_ratio("ratio of what is resident after a restart", theirs.rss, ours.rss);
    }
    bench_stop(engine);
}

static void beside_peer(const struct plan *p, struct peer *peer, const struct side *ours,
                        uint64_t *ret_samples)
{
    const struct options *o = p->o;
    size_t kept = p->full > p->tail ? p->full - p->tail : 0; // the tail makes it full
    struct peer_feed feed = {
        .first = p->rounds > kept ? p->rounds - kept : 0, .end = p->rounds, .tail = p->tail};
    struct memory memory[2] = {0};
    feed.history = history_new(o->series, o->step_ms, p->begin_ms);
    peer->program = o->peer;
    peer_start(peer);
    feed.port = peer->port;
    int64_t begun = gs_mono_ns();
    struct side theirs = side_start(peer_feed, &feed);
    side_wait(ours);
    side_wait(&theirs);
    *ret_samples = peer_feed_samples(&feed);
    printf("  %-56s %.0f s\n", "sent to Prometheus and taken",
           (double)(gs_mono_ns() - begun) / 1e9);
    print_memory("Prometheus, just filled", memory_of(peer->pid), *ret_samples);
    side_go(ours);
    side_go(&theirs);
    read_memory(o, peer->pid, ours->pid, memory);
    side_wait(ours);
    side_wait(&theirs);
    peer_check(peer, *ret_samples, feed.history->n * HISTORY_SERIES);
    printf("  then %lld s at their pace, a mean of the last %d s; both hold %.1f M samples\n",
           (long long)o->settle, REST_S, (double)*ret_samples / 1e6);
    printf("  %-24s resident       anon     file     most bytes a sample\n", "MB");
    print_memory("Prometheus", memory[0], *ret_samples);
    print_memory("gpuscale's store", memory[1], *ret_samples);
    print_ratio("ratio of what is resident", memory[0].rss, memory[1].rss);
    side_go(&theirs);
    waitpid(theirs.pid, NULL, 0);
    history_free(feed.history);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    if (o->peer && o->settle < REST_S)
        bench_fail("--settle: at least %d", REST_S);
    bench_begin();
    printf(
        "Store: %lld series each %lld ms, %lld minutes, %lld kept (DCGM-like values; CPU time)\n",
        (long long)o->series, (long long)o->step_ms, (long long)o->minutes,
        (long long)o->retention_minutes);
    fflush(stdout);
    GS_AUTO_FREE char *path = gs_format("%s/store", bench_dir());
    struct plan plan = {.o = o,
                        .path = path,
                        .rounds = (size_t)(o->minutes * 60000 / o->step_ms),
                        .full = (size_t)(o->retention_minutes * 60000 / o->step_ms),
                        .tail = o->peer ? (size_t)(o->settle * 1000 / o->step_ms) : 0};
    plan.begin_ms = gs_unix_ms() - (int64_t)plan.rounds * o->step_ms;
    struct peer peer = {0};
    uint64_t samples = 0;
    struct side side = side_start(fill, &plan);
    if (o->peer) {
        beside_peer(&plan, &peer, &side, &samples);
    } else {
        side_wait(&side);
        side_go(&side);
        side_wait(&side);
    }
    kill(side.pid, SIGKILL);
    waitpid(side.pid, NULL, 0);
    if (o->log && o->gpuscale)
        restart_both(&plan, &peer, samples);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE",
     .help = "The absolute path of the program to measure."},
    {"series", GS_OPT_INT, AT(series), "N", "100000", .min = HISTORY_SERIES, .max = 2000000,
     .help = "Series."},
    {"minutes", GS_OPT_INT, AT(minutes), "N", "150", .min = 2, .max = 6000,
     .help = "Minutes of history."},
    {"retention-minutes", GS_OPT_INT, AT(retention_minutes), "N", "120", .min = 1, .max = 6000,
     .help = "How long samples are kept."},
    {"step-ms", GS_OPT_INT, AT(step_ms), "N", "1000", .min = 100, .max = 60000,
     .help = "Time between samples."},
    {"log", GS_OPT_BOOL, AT(log), .help = "With a log and snapshots on disk."},
    {"peer", GS_OPT_STRING, AT(peer), "FILE",
     .help = "A Prometheus that is given the same samples by remote write, as an absolute path."},
    {"settle", GS_OPT_INT, AT(settle), "SECONDS", "150", .max = 3600,
     .help = "How long both then take samples as they come, before memory is compared."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_command command = {.name = "store",
                                       .summary = "Measure the store under hours of history.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
