// SPDX-License-Identifier: Apache-2.0
#include "store_peer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "engine/remote/remote_private.h"
#include "wire.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define READY_S 1800 // to read a log of two hours
#define TRIES   100
#define PAUSE   (200 * GS_NS_PER_MS)

// Size of a request: targets times rounds.
enum { FAST_TARGETS = 8, FAST_ROUNDS = 30, SLOW_TARGETS = 10 };

// --- processes ---

struct side side_start(void (*fn)(void *arg, const struct side *self), void *arg)
{
    int to[2], from[2];
    if (pipe(to) < 0 || pipe(from) < 0)
        bench_fail("no pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("no process");
    struct side parent = {pid, from[0], to[1]}, child = {0, to[0], from[1]};
    const struct side *other = pid ? &child : &parent;
    close(other->in);
    close(other->out);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fn(arg, &child);
        _exit(0);
    }
    return parent;
}

void side_wait(const struct side *s)
{
    char c;
    if (read(s->in, &c, 1) != 1)
        bench_fail("a process of the measurement has ended");
}

void side_go(const struct side *s)
{
    if (write(s->out, "", 1) != 1)
        bench_fail("a process of the measurement has ended");
}

void side_done(const struct side *self)
{
    side_go(self);
    side_wait(self);
}

// --- Prometheus ---

void peer_start(struct peer *p)
{
    GS_AUTO_FREE char *config = gs_format("%s/peer.yml", bench_dir());
    GS_AUTO_FREE char *file = gs_format("--config.file=%s", config);
    GS_AUTO_FREE char *path = gs_format("--storage.tsdb.path=%s/peer", bench_dir());
    p->port = bench_free_port();
    GS_AUTO_FREE char *address = gs_format("--web.listen-address=127.0.0.1:%u", p->port);
    FILE *f = fopen(config, "w");
    if (!f || fputs("global: {}\n", f) < 0 || fclose(f) != 0)
        bench_fail("%s cannot be written", config);
    const char *const argv[] = {
        p->program, file, path, address, "--web.enable-remote-write-receiver", NULL};
    GS_AUTO_FREE char *log = gs_format("peer-%u.log", p->starts++);
    int64_t begun = gs_mono_ns();
    p->pid = bench_start(log, argv);
    free(bench_wait_for_text_long(p->pid, "Server is ready to receive web requests", READY_S));
    p->start_s = (double)(gs_mono_ns() - begun) / 1e9;
    p->start_cpu_s = (double)bench_cpu_ns(p->pid) / 1e9;
}

void peer_kill(struct peer *p)
{
    bench_kill(p->pid);
}

// The sum of all lines of a metric. 0: no lines.
static double metric_sum(struct gs_slice page, const char *name)
{
    size_t n = strlen(name);
    double sum = 0;
    for (const char *line = page.data; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || (line[n] != ' ' && line[n] != '{'))
            continue;
        const char *space = strchr(line, ' ');
        sum += space ? strtod(space, NULL) : 0;
    }
    return sum;
}

void peer_check(const struct peer *p, uint64_t samples, uint64_t series)
{
    static const char *const refused[] = {"prometheus_tsdb_out_of_order_samples_total",
                                          "prometheus_tsdb_out_of_bound_samples_total",
                                          "prometheus_tsdb_too_old_samples_total"};
    struct wire w;
    struct gs_slice page;
    wire_connect(&w, p->port);
    if (!wire_get(&w, "/metrics", &page))
        bench_fail("%s has no metrics", p->program);
    for (size_t i = 0; i < GS_ARRAY_LEN(refused); i++)
        if (metric_sum(page, refused[i]) != 0)
            bench_fail("%s: %s is %.0f", p->program, refused[i], metric_sum(page, refused[i]));
    double got = metric_sum(page, "prometheus_tsdb_head_samples_appended_total");
    if (got != (double)samples || metric_sum(page, "prometheus_tsdb_head_series") != (double)series)
        bench_fail("%s has %.0f samples of %.0f series instead of %.0f of %.0f", p->program, got,
                   metric_sum(page, "prometheus_tsdb_head_series"), (double)samples,
                   (double)series);
    wire_close(&w);
}

double peer_ask(uint16_t port, const char *query, double at_s)
{
    struct wire w;
    struct gs_slice body;
    GS_AUTO_FREE char *path = gs_format("/api/v1/query?time=%.3f&query=%s", at_s, query);
    wire_connect(&w, port);
    bool ok = wire_get(&w, path, &body);
    const char *value = ok ? strstr(body.data, "\"value\":[") : NULL;
    const char *number = value ? strchr(value, ',') : NULL;
    if (!number || number[1] != '"')
        bench_fail("no number for %s: %.*s", query, (int)body.len, body.data);
    double v = strtod(number + 2, NULL);
    wire_close(&w);
    return v;
}

// --- feeding ---

struct feeder {
    const struct peer_feed *f;
    struct wire wire;
    struct gs_buf raw, packed;
    int64_t times[FAST_ROUNDS];
    double values[HISTORY_SERIES][FAST_ROUNDS];
};

static void add_target(struct feeder *d, size_t target, size_t first, size_t rounds)
{
    struct history *h = d->f->history;
    double column[HISTORY_SERIES];
    struct history_device device;
    for (size_t r = 0; r < rounds; r++) {
        history_values(h, target, first + r, column);
        d->times[r] = history_time(h, target, first + r);
        for (size_t i = 0; i < HISTORY_SERIES; i++)
            d->values[i][r] = column[i];
    }
    for (int g = 0; g < HISTORY_GPUS; g++) {
        history_device(target, g, &device);
        for (int i = g; i < HISTORY_SERIES; i += HISTORY_GPUS)
            remote_encode_series(&d->raw, history_labels(&device, i), HISTORY_LABELS, d->times,
                                 d->values[i], rounds);
    }
}

static const char headers[] = "Content-Type: application/x-protobuf\r\n"
                              "Content-Encoding: snappy\r\n"
                              "X-Prometheus-Remote-Write-Version: 0.1.0\r\n";

static void post(struct feeder *d)
{
    remote_compress(gs_buf_slice(&d->raw), &d->packed);
    gs_buf_clear(&d->raw);
    for (int i = 0; i < TRIES; i++) {
        struct gs_slice reply;
        if (d->wire.fd < 0 && !wire_try_connect(&d->wire, d->f->port)) {
            bench_sleep(PAUSE);
            continue;
        }
        d->wire.headers = headers;
        int status = wire_try_post(&d->wire, "/api/v1/write", gs_buf_slice(&d->packed), &reply);
        if (status / 100 == 2)
            return;
        if (status && status != 429 && status / 100 != 5)
            bench_fail("remote write: status %d: %.*s", status, (int)reply.len, reply.data);
        if (!status)
            wire_close(&d->wire);
        bench_sleep(PAUSE);
    }
    bench_fail("remote write: no success after %d tries", TRIES);
}

static void send_rounds(struct feeder *d, size_t first, size_t rounds, size_t targets)
{
    for (size_t t = 0; t < d->f->history->n; t++) {
        add_target(d, t, first, rounds);
        if ((t + 1) % targets == 0 || t + 1 == d->f->history->n)
            post(d);
    }
}

// Counters continue as if the previous rounds had been sent.
static void skip_rounds(const struct peer_feed *f)
{
    double unused[HISTORY_SERIES];
    for (size_t r = 0; r < f->first; r++)
        for (size_t t = 0; t < f->history->n; t++)
            history_values(f->history, t, r, unused);
}

void peer_feed(void *feed, const struct side *self)
{
    const struct peer_feed *f = feed;
    struct feeder d = {.f = f, .wire.fd = -1};
    skip_rounds(f);
    for (size_t r = f->first; r < f->end; r += FAST_ROUNDS)
        send_rounds(&d, r, f->end - r < FAST_ROUNDS ? f->end - r : FAST_ROUNDS, FAST_TARGETS);
    side_done(self);
    for (size_t r = f->end; r < f->end + f->tail; r++) {
        int64_t next = gs_mono_ns() + f->history->step_ms * GS_NS_PER_MS;
        send_rounds(&d, r, 1, SLOW_TARGETS);
        int64_t left = next - gs_mono_ns();
        if (left > 0)
            bench_sleep(left);
    }
    wire_close(&d.wire);
    gs_buf_finish(&d.raw);
    gs_buf_finish(&d.packed);
    side_done(self);
}

uint64_t peer_feed_samples(const struct peer_feed *f)
{
    return (uint64_t)(f->end + f->tail - f->first) * f->history->n * HISTORY_SERIES;
}
