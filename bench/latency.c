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
    int64_t seeds, first_seed, minutes, window_s;
    bool held_out, quick, log, learned;
    const char *only, *trace, *knative, *ray, *dynamo, *keda;
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
    &latency_oracle,    &latency_present, &latency_gpuscale, &latency_ahead, &latency_hpa_average,
    &latency_hpa_value, &latency_keda,    &latency_knative,  &latency_ray,   &latency_dynamo,
};

static bool is_chosen(const struct options *o, const struct latency_trace *t)
{
    return o->trace ? strcmp(t->name, o->trace) == 0 : t->held_out == o->held_out;
}

// --- other systems ---

static bool runs[LATENCY_N_PEERS];

static bool is_absent(const struct latency_policy *p)
{
    return (p == &latency_knative && !runs[LATENCY_KNATIVE]) ||
           (p == &latency_ray && !runs[LATENCY_RAY]) ||
           (p == &latency_dynamo && !runs[LATENCY_DYNAMO]);
}

static void start_peers(const struct options *o)
{
    const char *const commands[] = {[LATENCY_KNATIVE] = o->knative,
                                    [LATENCY_RAY] = o->ray,
                                    [LATENCY_DYNAMO] = o->dynamo,
                                    [LATENCY_KEDA] = o->keda};
    for (size_t i = 0; i < LATENCY_N_PEERS; i++) {
        const char *version =
            commands[i] ? latency_peer_start((enum latency_peer)i, commands[i]) : NULL;
        runs[i] = version;
        if (version)
            printf("Beside %s\n", version);
        else if (commands[i])
            printf("Not beside the program that does not run: %s\n", commands[i]);
    }
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
static void run_static(const struct table *t, const struct latency_trace *trace,
                       struct latency_result *ret)
{
    for (int n = (int)trace->load; n <= 60; n++) {
        run_seeds(t, trace, &latency_static, n, ret);
        if (latency_share(ret) >= 0.95)
            return;
    }
}

static void print_causes(const struct row *r)
{
    const struct latency_causes *c = &latency_causes;
    double n = (double)r->all.runs;
    if (c->need > 0)
        printf(
            "  replica hours a run: need %.2f, bounds %.2f, survivors %.2f, window %.2f; of these "
            "starting %.2f; draining %.2f\n",
            c->need / n, c->bound / n, c->guard / n, c->window / n, c->starting / n,
            c->draining / n);
    latency_causes = (struct latency_causes){0};
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
    (void)fflush(stdout);
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
        // Starts that wait for no node gain nothing from placeholders.
        bool useless = p == &latency_ahead && t->start_s <= LATENCY_POD_S;
        if ((t->o->only && !strstr(p->name, t->o->only)) || is_absent(p) || useless)
            continue;
        for (size_t k = 0; k == 0 || (k < 4 && p->settings[k] > 0 && !t->o->quick); k++) {
            run_row(t, p, p->settings[k]);
            print_row(t, &t->rows[t->n - 1]);
            print_causes(&t->rows[t->n - 1]);
        }
    }
}

// --- bars ---

#define WITHIN_BAR    0.95
#define HOURS_BAR     0.80 // of the static pool
#define POINTS_BAR    0.03 // at equal cost
#define CHEAPER_BAR   0.90 // at an equal share
#define PEAK_BAR      1.3  // of the oracle
#define REVERSALS_BAR 2.0  // an hour under constant load
#define DECISION_US   20.0
enum { STALE_FAULTS = 1000 };

static const struct row *row_of(const struct table *t, const struct latency_policy *p)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->rows[i].policy == p)
            return &t->rows[i];
    }
    return NULL;
}

static double hours(const struct latency_result *r)
{
    return r->hours / (double)r->runs;
}

// Against the best pool of each trace.
static void check_static(const struct table *t, const struct row *us)
{
    const struct row *pool = row_of(t, &latency_static), *oracle = row_of(t, &latency_oracle);
    struct latency_result ours = {0}, theirs = {0};
    for (size_t i = 0; i < latency_n_traces; i++) {
        const struct latency_result *a = &us->traces[i], *b = &pool->traces[i];
        // A constant load needs a constant pool.
        if (!a->runs || latency_traces[i].shape == INFERENCE_CONSTANT)
            continue;
        double share = latency_share(a), part = a->hours / b->hours;
        printf(
            "  %-16s %5.1f %% within, %.2f of the GPU hours of the best pool (oracle %.2f): %s\n",
            latency_traces[i].name, 100 * share, part, oracle->traces[i].hours / b->hours,
            bench_verdict(share >= WITHIN_BAR && part <= HOURS_BAR));
        add(&ours, a);
        add(&theirs, b);
    }
    double share = latency_share(&ours), part = ours.hours / theirs.hours;
    printf("  %-16s %5.1f %% within (95), %.2f of the GPU hours (0.80): %s\n", "all of these",
           100 * share, part, bench_verdict(share >= WITHIN_BAR && part <= HOURS_BAR));
}

struct point {
    double hours, share;
};

static int by_hours(const void *a, const void *b)
{
    double x = ((const struct point *)a)->hours, y = ((const struct point *)b)->hours;
    return (x > y) - (x < y);
}

enum { ALL_TRACES = -1 };

// What the settings of a policy reach for these GPU hours, and need for this share, on the lines
// between them. In its favour: a policy that is never so cheap reaches what its cheapest setting
// does, and one that never reaches the share needs what its best setting does.
static void reach(const struct table *t, const struct latency_policy *p, int trace,
                  struct point ours, struct point *ret_cost, struct point *ret_share)
{
    struct point points[4] = {{0}}, best = {0};
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        const struct latency_result *of = trace == ALL_TRACES ? &r->all : &r->traces[trace];
        if (r->policy == p && n < GS_ARRAY_LEN(points))
            points[n++] = (struct point){hours(of), latency_share(of)};
    }
    qsort(points, n, sizeof(*points), by_hours);
    *ret_cost = points[0];
    *ret_share = (struct point){INFINITY, ours.share};
    for (size_t i = 0; i < n; i++) {
        const struct point *b = &points[i], *a = i ? &points[i - 1] : b;
        double width = b->hours - a->hours, height = b->share - a->share;
        best = b->share > best.share ? *b : best;
        double share = b->hours <= ours.hours ? b->share
                       : a->hours <= ours.hours && width > 0
                           ? a->share + height * (ours.hours - a->hours) / width
                           : 0;
        if (share >= ret_cost->share)
            *ret_cost = (struct point){fmin(b->hours, ours.hours), share};
        if (b->share >= ours.share)
            ret_share->hours =
                fmin(ret_share->hours, a->share < ours.share && height > 0
                                           ? a->hours + width * (ours.share - a->share) / height
                                           : b->hours);
    }
    *ret_share = isinf(ret_share->hours) ? best : *ret_share;
}

static bool is_better(struct point ours, struct point cost, struct point share)
{
    return ours.share - cost.share >= POINTS_BAR || ours.hours <= CHEAPER_BAR * share.hours;
}

// The traces on which the bar is missed.
static void print_missed(const struct table *t, const struct row *us,
                         const struct latency_policy *p)
{
    const char *separator = "; alone, missed on ";
    for (size_t i = 0; i < latency_n_traces; i++) {
        const struct latency_result *r = &us->traces[i];
        struct point cost, share, ours;
        if (!r->runs)
            continue;
        ours = (struct point){hours(r), latency_share(r)};
        reach(t, p, (int)i, ours, &cost, &share);
        if (is_better(ours, cost, share))
            continue;
        printf("%s%s", separator, latency_traces[i].name);
        separator = ", ";
    }
    printf("\n");
}

static void check_peer(const struct table *t, const struct row *us, const struct latency_policy *p)
{
    struct point cost, share, ours = {hours(&us->all), latency_share(&us->all)};
    if (!row_of(t, p))
        return;
    reach(t, p, ALL_TRACES, ours, &cost, &share);
    printf("  %-30s %.1f %% for %.2f h, %.1f %% for %.2f h: %s", p->name, 100 * cost.share,
           cost.hours, 100 * share.share, share.hours, bench_verdict(is_better(ours, cost, share)));
    print_missed(t, us, p);
}

// What can be reached without a forecast.
static void print_present(const struct table *t, const struct row *us)
{
    struct point cost, share, ours = {hours(&us->all), latency_share(&us->all)};
    reach(t, &latency_present, ALL_TRACES, ours, &cost, &share);
    printf("  oracle of the present (no peer): %.1f %% for %.2f h, %.1f %% for %.2f h\n",
           100 * cost.share, cost.hours, 100 * share.share, share.hours);
}

static void check_peak(const struct table *t, const struct row *us)
{
    const struct row *oracle = row_of(t, &latency_oracle);
    double worst = 0;
    const char *where = "";
    for (size_t i = 0; i < latency_n_traces; i++) {
        double ratio = us->traces[i].runs ? us->traces[i].peak / oracle->traces[i].peak : 0;
        if (ratio > worst) {
            worst = ratio;
            where = latency_traces[i].name;
        }
    }
    printf("  peak %.2f times the oracle's, on %s (1.3): %s\n", worst, where,
           bench_verdict(worst <= PEAK_BAR));
}

static void check_reversals(const struct table *t, const struct row *us)
{
    for (size_t i = 0; i < latency_n_traces; i++) {
        const struct latency_result *r = &us->traces[i];
        if (!r->runs || latency_traces[i].shape != INFERENCE_CONSTANT)
            continue;
        double rate = r->reversals / (double)r->runs / ((double)t->o->minutes / 60);
        printf("  %.1f reversals an hour under constant load (2): %s\n", rate,
               bench_verdict(rate <= REVERSALS_BAR));
    }
}

static void check(const struct table *t)
{
    const struct row *us = row_of(t, &latency_gpuscale);
    printf("gpuscale, %g percent, start-up %.0f s\n", us->setting, t->start_s);
    check_static(t, us);
    printf(
        " %.1f %% for %.2f h; against each peer at these hours and at this share, 3 points better "
        "or 10 %% cheaper\n",
        100 * latency_share(&us->all), hours(&us->all));
    for (size_t i = 0; i < GS_ARRAY_LEN(policies); i++) {
        if (policies[i] != &latency_oracle && policies[i] != &latency_gpuscale &&
            policies[i] != &latency_present && policies[i] != &latency_ahead)
            check_peer(t, us, policies[i]);
    }
    print_present(t, us);
    check_peak(t, us);
    check_reversals(t, us);
}

static void check_stale(void)
{
    struct latency_result unused = {0};
    for (uint64_t k = 0; latency_n_stale < STALE_FAULTS; k++) {
        struct latency_case c;
        latency_case_open(&c, &latency_traces[k % latency_n_traces], 60, 3600, 500 + k);
        c.stale = true;
        latency_run(&c, &latency_gpuscale, 95, &unused);
        latency_case_close(&c);
    }
    printf("\n%lld scale-ups in %lld minutes with old values (0): %s\n",
           (long long)latency_stale_ups, (long long)latency_n_stale,
           bench_verdict(!latency_stale_ups));
    double us = (double)latency_decision_ns / 1000 / (double)latency_n_decisions;
    printf("%.1f us a decision, of %lld (20): %s\n", us, (long long)latency_n_decisions,
           bench_verdict(us <= DECISION_US));
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    static const double starts[] = {60, 180};
    latency_log = o->log;
    latency_window_s = o->window_s;
    latency_learned = o->learned;
    start_peers(o);
    for (size_t i = 0; i < GS_ARRAY_LEN(starts); i++) {
        if (o->start_s > 0 && o->start_s != starts[i])
            continue;
        struct table t = {.o = o, .start_s = starts[i]};
        run_table(&t);
        if (!o->only)
            check(&t);
        for (size_t k = 0; k < t.n; k++)
            free(t.rows[k].traces);
    }
    latency_peers_stop();
    if (!o->only)
        check_stale();
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"seeds", GS_OPT_INT, AT(seeds), "N", "5", .min = 1, .max = 1000,
     .help = "Runs of each policy on each trace."},
    {"first-seed", GS_OPT_INT, AT(first_seed), "N", "1", .max = INT32_MAX,
     .help = "Seed of the first one."},
    {"minutes", GS_OPT_INT, AT(minutes), "N", "60", .min = 5, .max = 1440,
     .help = "Length of a trace."},
    {"held-out", GS_OPT_BOOL, AT(held_out), .help = "The traces that are kept aside."},
    {"quick", GS_OPT_BOOL, AT(quick), .help = "Only the first setting of each policy."},
    {"only", GS_OPT_STRING, AT(only), "TEXT", .help = "Only policies whose name has this text."},
    {"knative", GS_OPT_STRING, AT(knative), "COMMAND",
     .help = "Knative's autoscaler, of bench/latency-peers."},
    {"ray", GS_OPT_STRING, AT(ray), "COMMAND", .help = "Ray Serve's policy."},
    {"dynamo", GS_OPT_STRING, AT(dynamo), "COMMAND", .help = "Dynamo's planner."},
    {"keda", GS_OPT_STRING, AT(keda), "COMMAND",
     .help = "KEDA's scaler, of tests/differential/keda. Without it, the values are used as they "
             "are."},
    {"trace", GS_OPT_STRING, AT(trace), "NAME", .help = "Only this trace."},
    {"start", GS_OPT_DOUBLE, AT(start_s), "SECONDS", "0",
     .help = "Only this start-up time, 60 or 180."},
    {"window", GS_OPT_INT, AT(window_s), "SECONDS", "-1", .min = -1, .max = 3600,
     .help = "Stabilization window of gpuscale's autoscaler for fewer replicas; -1: the default."},
    {"learned", GS_OPT_BOOL, AT(learned),
     .help = "Each run of gpuscale begins with what it has learned in another hour of the trace."},
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
