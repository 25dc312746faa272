// SPDX-License-Identifier: Apache-2.0
// CPU and memory at rest of a whole `gpuscale up`: with the example service deployed and no load,
// without the pods themselves; and with a pool of 20 machines with 160 GPUs.
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTLE_NS (5 * GS_NS_PER_SEC)
#define UP_MB     60.0
// Of 20 machines. The memory is PSS: their exporters share most of their resident memory.
#define POOL          "a=20x8,price=1"
#define POOL_MACHINES 20
#define POOL_MB       150.0
#define POOL_CPU      3.0

struct options {
    const char *gpuscale, *intent_api, *manifest;
    int64_t seconds;
};

enum { UP, EXPORTER, SUPERVISORS, N_GROUPS };

static void find_groups(pid_t up, struct usage_group *g)
{
    pid_t children[USAGE_PIDS];
    size_t n = bench_children(up, children, USAGE_PIDS);
    g[UP] = (struct usage_group){.pids = {up}, .n = 1};
    for (size_t i = 0; i < n; i++) {
        struct usage_group *of =
            &g[bench_is_command(children[i], "exporter") ? EXPORTER : SUPERVISORS];
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
        usage_print(i == SUPERVISORS ? supervisors : names[i], u[i], "");
        sum.rss_mb += u[i].rss_mb;
        sum.pss_mb += u[i].pss_mb;
        sum.private_mb += u[i].private_mb;
        sum.cpu_percent += u[i].cpu_percent;
    }
    snprintf(verdict, sizeof(verdict), "%.0f MB resident: %s", UP_MB,
             bench_verdict(sum.rss_mb <= UP_MB));
    usage_print("up: all of these, without the pods", sum, verdict);
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
    struct usage_group groups[N_GROUPS] = {0};
    struct usage u[N_GROUPS];
    find_groups(up, groups);
    usage_measure(groups, N_GROUPS, o->seconds, 0, u);
    print_up(u, groups[SUPERVISORS].n);
    bench_check_running(up);
    bench_stop(up);
}

static void measure_pool(const struct options *o)
{
    GS_AUTO_FREE char *data = gs_format("%s/pool-data", bench_dir());
    const char *const argv[] = {o->gpuscale,
                                "up",
                                "--gpus",
                                "none",
                                "--pool",
                                POOL,
                                "--scale-down-enabled=false",
                                "--data-dir",
                                data,
                                "--api-port",
                                "0",
                                "--prometheus-port",
                                "0",
                                NULL};
    pid_t up = bench_start("up-pool.log", argv), children[USAGE_PIDS];
    free(bench_wait_for_text(up, "Ready: "));
    bench_sleep(3 * SETTLE_NS);
    struct usage_group groups[2] = {{.pids = {up}, .n = 1}};
    struct usage u[2], sum = {0};
    size_t n = bench_children(up, children, USAGE_PIDS);
    for (size_t i = 0; i < n; i++)
        if (bench_is_command(children[i], "exporter"))
            groups[1].pids[groups[1].n++] = children[i];
    if (groups[1].n != POOL_MACHINES)
        bench_fail("gpuscale up has %zu exporters for %d machines", groups[1].n, POOL_MACHINES);
    usage_measure(groups, 2, o->seconds, 0, u);
    for (size_t i = 0; i < 2; i++) {
        usage_print(i ? "up: exporters of 20 machines, 160 GPUs" : "up: with 20 machines", u[i],
                    "");
        sum.rss_mb += u[i].rss_mb;
        sum.pss_mb += u[i].pss_mb;
        sum.private_mb += u[i].private_mb;
        sum.cpu_percent += u[i].cpu_percent;
    }
    char verdict[64];
    snprintf(verdict, sizeof(verdict), "%.0f MB PSS, %.0f %%: %s", POOL_MB, POOL_CPU,
             bench_verdict(sum.pss_mb <= POOL_MB && sum.cpu_percent <= POOL_CPU));
    usage_print("up: both", sum, verdict);
    bench_check_running(up);
    bench_stop(up);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    printf("At rest, over %d s each (MB of 10^6 bytes; SIMULATED GPUs)\n", (int)o->seconds);
    usage_print_header();
    measure_up(o);
    measure_pool(o);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE",
     .help = "The program to measure, as an absolute path."},
    {"intent-api", GS_OPT_STRING, AT(intent_api), "FILE",
     .help = "The example service, as an absolute path."},
    {"manifest", GS_OPT_STRING, AT(manifest), "FILE",
     .help = "What up applies: examples/demo/intent-api.yaml."},
    {"seconds", GS_OPT_INT, AT(seconds), "N", "30", .min = 1, .max = 86400,
     .help = "Length of each measurement."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_command command = {.name = "rest",
                                       .summary = "Measure CPU and memory at rest.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
