// SPDX-License-Identifier: Apache-2.0
#include "usage.h"

#include "base/clock.h"
#include "bench.h"
#include "wire.h"

#include <stdio.h>

int64_t usage_cpu_ns(const struct usage_group *g)
{
    int64_t sum = 0;
    for (size_t i = 0; i < g->n; i++)
        sum += bench_cpu_ns(g->pids[i]);
    return sum;
}

struct usage usage_of(const struct usage_group *g, double seconds)
{
    struct usage u = {.cpu_percent = (double)(usage_cpu_ns(g) - g->cpu_ns) / 1e7 / seconds};
    for (size_t i = 0; i < g->n; i++) {
        struct bench_memory m = bench_memory(g->pids[i]);
        u.rss_mb += (double)m.rss_kib * 1024 / 1e6;
        u.pss_mb += (double)m.pss_kib * 1024 / 1e6;
        u.private_mb += (double)m.private_kib * 1024 / 1e6;
    }
    return u;
}

void usage_print_header(void)
{
    printf("  %-44s %7s %7s %7s %9s   %s\n", "", "RSS", "PSS", "private", "CPU, %", "bar");
}

void usage_print(const char *what, struct usage u, const char *verdict)
{
    printf("  %-44s %7.1f %7.1f %7.1f %9.2f   %s\n", what, u.rss_mb, u.pss_mb, u.private_mb,
           u.cpu_percent, verdict);
}

void usage_measure(struct usage_group *groups, size_t n, int64_t seconds, uint16_t port,
                   struct usage *ret)
{
    struct wire w;
    struct gs_slice body;
    if (port)
        wire_connect(&w, port);
    for (size_t i = 0; i < n; i++)
        groups[i].cpu_ns = usage_cpu_ns(&groups[i]);
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
