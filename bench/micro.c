// SPDX-License-Identifier: Apache-2.0
// Throughput of the parts that run most often: exporter page, parser, decisions, metrics API.
#include "micro.h"

#include "base/clock.h"
#include "base/slice.h"

#include <stdio.h>
#include <time.h>

#define FIGURE_COLUMNS 48

struct options {
    double seconds;
    bool serve;
    const char *only;
};

static double thread_cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double micro_time(double seconds, void (*fn)(void *arg), void *arg)
{
    struct bench_series rounds = {0};
    double round = seconds / 20;
    fn(arg); // warm up memory and caches
    for (double start = thread_cpu_s(); thread_cpu_s() - start < seconds;) {
        double from = thread_cpu_s(), now = from;
        size_t n = 0;
        while (now - from < round) {
            fn(arg);
            n++;
            now = thread_cpu_s();
        }
        bench_add(&rounds, (now - from) / (double)n);
    }
    double median = bench_percentile(&rounds, 50);
    bench_series_finish(&rounds);
    return median;
}

// Columns on the terminal, not bytes.
static int columns(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

void micro_row(const char *what, const char *figure, const char *bar, bool met)
{
    printf("  %-56s %s", what, figure);
    if (bar)
        printf("%*s %s: %s", FIGURE_COLUMNS - columns(figure), "", bar, bench_verdict(met));
    putchar('\n');
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)ret_exit;
    if (o->serve)
        micro_adapter_serve();
    bench_begin();
    printf("Throughput (medians; CPU time of one thread, where not said otherwise)\n");
    bool all = !*o->only;
    if (all || gs_streq(o->only, "text"))
        micro_text(o->seconds);
    if (all || gs_streq(o->only, "answers"))
        micro_answers(o->seconds);
    if (all || gs_streq(o->only, "autoscaler"))
        micro_hpa(o->seconds);
    if (all || gs_streq(o->only, "latency"))
        micro_slo(o->seconds);
    if (all || gs_streq(o->only, "adapter"))
        micro_adapter(o->seconds, "/proc/self/exe");
    if (all || gs_streq(o->only, "expander"))
        micro_expander(o->seconds);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"seconds", GS_OPT_DOUBLE, AT(seconds), "N", "3", .help = "Time for each line."},
    {"only", GS_OPT_STRING, AT(only), "PART", "",
     .help = "text (exporter and scraper), answers, autoscaler, latency, adapter or expander."},
    {"serve-adapter", GS_OPT_BOOL, AT(serve),
     .help = "Serve the custom metrics API that is measured, until killed."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_command command = {.name = "micro",
                                       .summary = "Measure the throughput of the parts.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
