// SPDX-License-Identifier: Apache-2.0
// Scaling decisions beside each other on simulated inference engines: the share of requests within
// a latency target, and the GPU hours for it, of each policy and trace. docs/benchmarks.md has the
// results.
#include "latency.h"

#include "base/mem.h"
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct options {
    int64_t seeds, first_seed, minutes;
    bool held_out, quick, log;
    const char *only, *trace;
    double start_s;
};

enum { MAX_ROWS = 40 };

struct row {
    const struct latency_policy *policy;
    double setting;
    struct latency_result *traces; // one for each trace
    struct latency_result all;
};

struct table {
    const struct options *o;
    double start_s;
    struct row rows[MAX_ROWS];
    size_t n;
};

static const struct latency_policy *const policies[] = {
    &latency_oracle, &latency_gpuscale, &latency_hpa_average, &latency_hpa_value, &latency_keda};

static bool is_chosen(const struct options *o, const struct latency_trace *t)
{
    return o->trace ? strcmp(t->name, o->trace) == 0 : t->held_out == o->held_out;
}

// --- runs ---

static void add(struct latency_result *to, const struct latency_result *r)
{
    to->within += r->within;
    to->requests += r->requests;
    to->hours += r->hours;
    to->peak = fmax(to->peak, r->peak);
    to->reversals += r->reversals;
    to->runs += r->runs;
}

static void run_seeds(const struct table *t, const struct latency_trace *trace,
                      const struct latency_policy *p, double setting, struct latency_result *ret)
{
    *ret = (struct latency_result){0};
    for (int64_t k = 0; k < t->o->seeds; k++) {
        struct latency_case c;
        latency_case_open(&c, trace, t->start_s, (double)t->o->minutes * 60,
                          (uint64_t)(t->o->first_seed + k));
        latency_run(&c, p, setting, ret);
        latency_case_close(&c);
    }
}

// The smallest pool with 95 % of the requests within the target.
static double run_static(const struct table *t, const struct latency_trace *trace,
                         struct latency_result *ret)
{
    double n = ceil(trace->load);
    for (;; n++) {
        run_seeds(t, trace, &latency_static, n, ret);
        if (latency_share(ret) >= 0.95 || n >= 60)
            return n;
    }
}

static void run_row(struct table *t, const struct latency_policy *p, double setting)
{
    struct row *r = &t->rows[t->n++];
    *r = (struct row){.policy = p, .setting = setting};
    r->traces = gs_alloc_array(latency_n_traces, sizeof(*r->traces));
    for (size_t i = 0; i < latency_n_traces; i++) {
        if (!is_chosen(t->o, &latency_traces[i]))
            continue;
        if (p == &latency_static)
            run_static(t, &latency_traces[i], &r->traces[i]);
        else
            run_seeds(t, &latency_traces[i], p, setting, &r->traces[i]);
        add(&r->all, &r->traces[i]);
    }
}

// --- output ---

static void print_head(const struct table *t)
{
    printf("\nStart-up %.0f s, %lld runs of %lld minutes each: within the target (%%), GPU hours a "
           "run\n%-38s",
           t->start_s, (long long)t->o->seeds, (long long)t->o->minutes, "");
    for (size_t i = 0; i < latency_n_traces; i++) {
        if (is_chosen(t->o, &latency_traces[i]))
            printf(" %15s", latency_traces[i].name);
    }
    printf(" %14s %5s\n", "all", "peak");
}

static void print_result(const struct latency_result *r, int width)
{
    char text[32];
    snprintf(text, sizeof(text), "%.1f %6.2f", 100 * latency_share(r), r->hours / (double)r->runs);
    printf(" %*s", width, text);
}

static void print_row(const struct table *t, const struct row *r)
{
    char name[80];
    snprintf(name, sizeof(name), "%s", r->policy->name);
    if (r->policy->unit)
        snprintf(name, sizeof(name), "%s, %g %s", r->policy->name, r->setting, r->policy->unit);
    printf("%-38s", name);
    for (size_t i = 0; i < latency_n_traces; i++) {
        if (is_chosen(t->o, &latency_traces[i]))
            print_result(&r->traces[i], 15);
    }
    print_result(&r->all, 14);
    printf(" %5.0f\n", r->all.peak);
    fflush(stdout);
}

static void run_table(struct table *t)
{
    print_head(t);
    if (!t->o->only) {
        run_row(t, &latency_static, 0);
        print_row(t, &t->rows[t->n - 1]);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        const struct latency_policy *p = policies[i];
        if (t->o->only && !strstr(p->name, t->o->only))
            continue;
        for (size_t k = 0; k == 0 || (k < 4 && p->settings[k] > 0 && !t->o->quick); k++) {
            run_row(t, p, p->settings[k]);
            print_row(t, &t->rows[t->n - 1]);
        }
    }
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    static const double starts[] = {60, 180};
    latency_log = o->log;
    for (size_t i = 0; i < GS_ARRAY_LEN(starts); i++) {
        if (o->start_s > 0 && o->start_s != starts[i])
            continue;
        struct table t = {.o = o, .start_s = starts[i]};
        run_table(&t);
        for (size_t k = 0; k < t.n; k++)
            free(t.rows[k].traces);
    }
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"seeds", GS_OPT_INT, AT(seeds), "N", "20", .min = 1, .max = 1000,
     .help = "Runs of each policy on each trace."},
    {"first-seed", GS_OPT_INT, AT(first_seed), "N", "1", .max = INT32_MAX,
     .help = "Seed of the first one."},
    {"minutes", GS_OPT_INT, AT(minutes), "N", "60", .min = 5, .max = 1440,
     .help = "Length of a trace."},
    {"held-out", GS_OPT_BOOL, AT(held_out), .help = "The traces that are kept aside."},
    {"quick", GS_OPT_BOOL, AT(quick), .help = "Only the first setting of each policy."},
    {"only", GS_OPT_STRING, AT(only), "TEXT", .help = "Only policies whose name has this text."},
    {"trace", GS_OPT_STRING, AT(trace), "NAME", .help = "Only this trace."},
    {"start", GS_OPT_DOUBLE, AT(start_s), "SECONDS", "0",
     .help = "Only this start-up time, 60 or 180."},
    {"log", GS_OPT_BOOL, AT(log), .help = "Print the decisions of gpuscale that change something."},
    {0},
};

int main(int argc, char **argv)
{
    static const struct gs_command command = {
        .name = "latency",
        .summary = "Measure scaling decisions for latency targets.",
        .opts = rows,
        .opts_size = sizeof(struct options),
        .run = run,
    };
    return bench_main(&command, argc, argv);
}
