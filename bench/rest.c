// SPDX-License-Identifier: Apache-2.0
// CPU and memory at rest: the exporter alone, asked by nobody and once a second, and a whole
// `gpuscale up` with the example service deployed and no load, without the pods themselves.
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_NS       (5 * GS_NS_PER_SEC)
#define EXPORTER_MB     8.0
#define EXPORTER_CPU    0.5
#define UP_MB           60.0
#define MAX_SUPERVISORS 64

struct options {
    const char *gpuscale, *intent_api, *manifest;
    int64_t seconds;
};

// What some processes use together.
struct usage {
    double rss_mb, pss_mb, private_mb, cpu_percent;
};

struct group {
    pid_t pids[MAX_SUPERVISORS];
    size_t n;
    int64_t cpu_ns; // at the start of the measurement
};

static int64_t cpu_of(const struct group *g)
{
    int64_t sum = 0;
    for (size_t i = 0; i < g->n; i++)
        sum += bench_cpu_ns(g->pids[i]);
    return sum;
}

static struct usage usage_of(const struct group *g, double seconds)
{
    struct usage u = {.cpu_percent = (double)(cpu_of(g) - g->cpu_ns) / 1e7 / seconds};
    for (size_t i = 0; i < g->n; i++) {
        struct bench_memory m = bench_memory(g->pids[i]);
        u.rss_mb += (double)m.rss_kib * 1024 / 1e6;
        u.pss_mb += (double)m.pss_kib * 1024 / 1e6;
        u.private_mb += (double)m.private_kib * 1024 / 1e6;
    }
    return u;
}

static void print_row(const char *what, struct usage u, const char *verdict)
{
    printf("  %-44s %7.1f %7.1f %7.1f %9.2f   %s\n", what, u.rss_mb, u.pss_mb, u.private_mb,
           u.cpu_percent, verdict);
}

// Measures the groups over the time and asks for the page once a second meanwhile (port 0: not).
static void measure(struct group *groups, size_t n, int64_t seconds, uint16_t port,
                    struct usage *ret)
{
    struct wire w;
    struct gs_slice body;
    if (port)
        wire_connect(&w, port);
    for (size_t i = 0; i < n; i++)
        groups[i].cpu_ns = cpu_of(&groups[i]);
    int64_t start = gs_mono_ns();
    for (int64_t s = 1; s <= seconds; s++) {
        if (port && !wire_get(&w, "/metrics", &body))
            bench_fail("the exporter does not answer with 200");
        bench_sleep(start + s * GS_NS_PER_SEC - gs_mono_ns());
    }
    double passed = (double)(gs_mono_ns() - start) / 1e9;
    for (size_t i = 0; i < n; i++)
        ret[i] = usage_of(&groups[i], passed);
    if (port)
        wire_close(&w);
}

static void judge_exporter(const char *what, struct usage u)
{
    char verdict[96];
    snprintf(verdict, sizeof(verdict), "%.0f MB resident: %s, %.1f %%: %s", EXPORTER_MB,
             bench_verdict(u.rss_mb <= EXPORTER_MB), EXPORTER_CPU,
             bench_verdict(u.cpu_percent <= EXPORTER_CPU));
    print_row(what, u, verdict);
}

// A page whose end is the end of the connection: Go's servers send no length.
static void scrape_to_the_end(uint16_t port)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct wire w;
    char chunk[65536];
    size_t got = 0;
    wire_connect(&w, port);
    ssize_t n = write(w.fd, request, strlen(request));
    while (n > 0 && (n = read(w.fd, chunk, sizeof(chunk))) > 0)
        got += (size_t)n;
    if (got == 0)
        bench_fail("node_exporter does not answer");
    close(w.fd);
}

static struct usage scrape_peer(struct group *g, int64_t seconds, uint16_t port)
{
    g->cpu_ns = cpu_of(g);
    int64_t start = gs_mono_ns();
    for (int64_t s = 1; s <= seconds; s++) {
        scrape_to_the_end(port);
        bench_sleep(start + s * GS_NS_PER_SEC - gs_mono_ns());
    }
    return usage_of(g, (double)(gs_mono_ns() - start) / 1e9);
}

// Prometheus' node_exporter, where it is installed (Debian: prometheus-node-exporter; the variable
// NODE_EXPORTER names another path): what an exporter costs that many have anyway.
static void measure_peer(const struct options *o, struct usage ours)
{
    const char *given = getenv("NODE_EXPORTER");
    const char *program = given ? given : "/usr/bin/prometheus-node-exporter";
    if (access(program, X_OK) != 0)
        return;
    uint16_t port = bench_free_port();
    char listen[64];
    snprintf(listen, sizeof(listen), "--web.listen-address=127.0.0.1:%u", port);
    const char *const argv[] = {program, listen, NULL};
    struct group g = {.pids = {bench_start("node_exporter.log", argv)}, .n = 1};
    free(bench_wait_for_text(g.pids[0], "Listening on"));
    bench_sleep(SETTLE_NS);
    struct usage u = scrape_peer(&g, o->seconds, port);
    char verdict[96];
    snprintf(verdict, sizeof(verdict), "%.1f times the memory, %.1f times the CPU",
             u.rss_mb / ours.rss_mb, u.cpu_percent / ours.cpu_percent);
    print_row("node_exporter, scraped every second", u, verdict);
    bench_stop(g.pids[0]);
}

static void measure_exporter(const struct options *o)
{
    uint16_t port = bench_free_port();
    char address[32], segment[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    snprintf(segment, sizeof(segment), "/gpuscale-bench-%d", (int)getpid());
    setenv("GPUSCALE_SIM", segment, 1); // devices of its own, idle
    const char *const argv[] = {o->gpuscale, "exporter", "--simulate", "8xA100-SXM4-80GB",
                                "--address", address,    NULL};
    struct group g = {.pids = {bench_start("exporter.log", argv)}, .n = 1};
    free(bench_wait_for_text(g.pids[0], "first sample"));
    struct usage u;
    bench_sleep(SETTLE_NS);
    measure(&g, 1, o->seconds, 0, &u);
    judge_exporter("exporter, 8 GPUs every second", u);
    measure(&g, 1, o->seconds, port, &u);
    judge_exporter("exporter, scraped every second", u);
    measure_peer(o, u);
    bench_check_running(g.pids[0]);
    bench_stop(g.pids[0]);
    unsetenv("GPUSCALE_SIM");
}

enum { UP, EXPORTER, SUPERVISORS, N_GROUPS };

static void find_groups(pid_t up, struct group *g)
{
    pid_t children[MAX_SUPERVISORS];
    size_t n = bench_children(up, children, MAX_SUPERVISORS);
    g[UP] = (struct group){.pids = {up}, .n = 1};
    for (size_t i = 0; i < n; i++) {
        struct group *of = &g[bench_is_verb(children[i], "exporter") ? EXPORTER : SUPERVISORS];
        of->pids[of->n++] = children[i];
    }
    if (g[EXPORTER].n != 1 || !g[SUPERVISORS].n)
        bench_fail("gpuscale up has %zu exporters and %zu supervisors of containers", g[EXPORTER].n,
                   g[SUPERVISORS].n);
}

static void print_up(const struct usage *u, size_t n_supervisors)
{
    static const char *const names[] = {"up: API, controllers, metrics, autoscaler",
                                        "up: exporter"};
    char supervisors[64], verdict[64];
    snprintf(supervisors, sizeof(supervisors), "up: supervisors of containers (%zu)",
             n_supervisors);
    struct usage sum = {0};
    for (size_t i = 0; i < N_GROUPS; i++) {
        print_row(i == SUPERVISORS ? supervisors : names[i], u[i], "");
        sum.rss_mb += u[i].rss_mb;
        sum.pss_mb += u[i].pss_mb;
        sum.private_mb += u[i].private_mb;
        sum.cpu_percent += u[i].cpu_percent;
    }
    snprintf(verdict, sizeof(verdict), "%.0f MB resident: %s", UP_MB,
             bench_verdict(sum.rss_mb <= UP_MB));
    print_row("up: all of these, without the pods", sum, verdict);
}

static void measure_up(const struct options *o)
{
    GS_AUTO_FREE char *image = gs_format("intent-api:*=%s", o->intent_api);
    GS_AUTO_FREE char *data = gs_format("%s/data", bench_dir());
    const char *const argv[] = {o->gpuscale,       "up",  "--gpus",     "8xA100-SXM4-80GB",
                                "--data-dir",      data,  "--api-port", "0",
                                "--exporter-port", "0",   "--filename", o->manifest,
                                "--image",         image, NULL};
    pid_t up = bench_start("up.log", argv);
    free(bench_wait_for_text(up, "Service: "));
    bench_sleep(2 * SETTLE_NS);
    struct group groups[N_GROUPS] = {0};
    struct usage u[N_GROUPS];
    find_groups(up, groups);
    measure(groups, N_GROUPS, o->seconds, 0, u);
    print_up(u, groups[SUPERVISORS].n);
    bench_check_running(up);
    bench_stop(up);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    printf("At rest, over %d s each (MB of 10^6 bytes; SIMULATED GPUs)\n", (int)o->seconds);
    printf("  %-44s %7s %7s %7s %9s   %s\n", "", "RSS", "PSS", "private", "CPU, %", "bar");
    measure_exporter(o);
    measure_up(o);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {.name = "gpuscale",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(gpuscale),
     .help = "The program to measure, as an absolute path."},
    {.name = "intent-api",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(intent_api),
     .help = "The example service, as an absolute path."},
    {.name = "manifest",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(manifest),
     .help = "What up applies: examples/demo/intent-api.yaml."},
    {.name = "seconds",
     .arg = "N",
     .def = "30",
     .type = GS_OPT_INT,
     .min = 1,
     .max = 86400,
     AT(seconds),
     .help = "Length of each measurement."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_verb verb = {.name = "rest",
                                 .summary = "Measure CPU and memory at rest.",
                                 .opts = rows,
                                 .opts_size = sizeof(struct options),
                                 .run = run};
    return bench_main(&verb, argc, argv);
}
