// SPDX-License-Identifier: Apache-2.0
// Traces, the engine of all of them, and one run: a policy sees the fleet each second and decides
// in its own period.
#include "latency.h"

#include "base/mem.h"
#include "bench.h"
#include "inference/parameters.h"

#include <math.h>

#define S INT64_C(1000000000)

const struct latency_trace latency_traces[] = {
    {"constant", INFERENCE_CONSTANT, 5, 0, false, false},
    {"burstgpt", INFERENCE_BURSTGPT, 4, 0, false, false},
    {"azure-chat", INFERENCE_AZURE_CHAT, 4, 0, false, false},
    {"azure-code", INFERENCE_AZURE_CODE, 4, 0, false, false},
    {"day", INFERENCE_DAY, 4, 0, false, false},
    {"burst", INFERENCE_BURST, 4, 0, false, false},
    {"mixed", INFERENCE_MIXED, 4, 0, false, false},
    {"slow-leak", INFERENCE_AZURE_CHAT, 4, 0.5, false, false},
    {"failing-replica", INFERENCE_AZURE_CHAT, 4, 0, true, false},
    {"stairs", INFERENCE_STAIRS, 4, 0, false, true},
    {"flash-crowd", INFERENCE_FLASH_CROWD, 4, 0, false, true},
};
const size_t latency_n_traces = sizeof(latency_traces) / sizeof(latency_traces[0]);

// --- the engine ---

struct inference_parameters latency_engine(void)
{
    const struct inference_setup setup = {
        .model = "meta-llama/Llama-3.1-8B-Instruct",
        .gpu = "A10",
        .gpu_memory = (uint64_t)23028 << 20,
        .gpus = 1,
        .memory_utilization = 0.9,
        .max_num_batched_tokens = 256,
    };
    struct inference_parameters p;
    struct inference_sizes sizes;
    bench_check(inference_parameters_init(&setup, &p, &sizes));
    return p;
}

// Seconds that a request takes of an engine that does nothing else with a batch of 16.
static double request_work(const struct inference_arrival *a)
{
    static struct inference_parameters p;
    if (!p.num_blocks)
        p = latency_engine();
    return (a->prompt * p.cost.compute_ns + a->output * p.cost.weights_ns / 16) / 1e9;
}

double latency_work(const struct latency_case *c, double from_s, double until_s)
{
    size_t low = 0, high = c->n;
    double sum = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((double)c->arrivals[middle].at_ns / 1e9 < from_s)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < c->n && (double)c->arrivals[low].at_ns / 1e9 < until_s; low++)
        sum += request_work(&c->arrivals[low]);
    return sum;
}

double latency_mean_load(const struct latency_case *c)
{
    return latency_work(c, 0, c->duration_s) / c->duration_s / c->capacity;
}

// --- what an engine can do ---

static struct inference_fleet_setup fleet_setup(uint32_t replicas, double start_s, uint64_t seed)
{
    return (struct inference_fleet_setup){.engine = latency_engine(),
                                          .replicas = replicas,
                                          .start_s = start_s,
                                          .start_spread = 0.1,
                                          .ttft_s = LATENCY_TTFT_S,
                                          .tpot_s = LATENCY_TPOT_S,
                                          .seed = seed};
}

static double share_of(struct inference_fleet *f)
{
    struct inference_fleet_figures r = inference_fleet_figures(f);
    return r.arrived ? (double)r.within / (double)r.arrived : 1;
}

// The share within the target of four engines with this rate of requests of the shape's lengths.
static double share_at(enum inference_shape lengths, double rate, double *ret_work)
{
    const struct inference_arrivals settings = {
        .shape = lengths, .duration_s = 600, .rate = rate, .seed = 1000};
    struct latency_case c = {.duration_s = 600};
    bench_check(inference_arrivals_make(&settings, &c.arrivals, &c.n));
    // Evenly, with the lengths in the order of the trace.
    for (size_t i = 0; i < c.n; i++)
        c.arrivals[i].at_ns = (int64_t)((double)i / rate * 1e9);
    const struct inference_fleet_setup s = fleet_setup(4, 60, 1);
    struct inference_fleet *f = inference_fleet_new(&s, c.arrivals, c.n);
    inference_fleet_advance(f, 700 * S);
    double share = share_of(f);
    *ret_work = latency_work(&c, 0, 600) / 600 / 4;
    inference_fleet_free(f);
    free(c.arrivals);
    return share;
}

// Work a second at which 97 % of the requests are within the target.
static double find_capacity(enum inference_shape lengths, double *ret_rate)
{
    double low = 0.2, high = 64, work = 0, found = 0;
    for (int i = 0; i < 9; i++) {
        double rate = sqrt(low * high);
        if (share_at(lengths, rate, &work) >= 0.97) {
            low = rate;
            found = work;
        } else {
            high = rate;
        }
    }
    if (!(found > 0))
        bench_fail("no rate of %s meets the target", inference_shape_name(lengths));
    *ret_rate = low / 4;
    return found;
}

// Of one engine, for the lengths of each shape.
static double capacity_of(enum inference_shape shape, double *ret_rate)
{
    static double works[INFERENCE_N_SHAPES], rates[INFERENCE_N_SHAPES];
    enum inference_shape lengths =
        shape == INFERENCE_BURSTGPT || shape == INFERENCE_AZURE_CODE || shape == INFERENCE_MIXED
            ? shape
            : INFERENCE_CONSTANT;
    if (!(works[lengths] > 0))
        works[lengths] = find_capacity(lengths, &rates[lengths]);
    *ret_rate = rates[lengths];
    return works[lengths];
}

void latency_case_open(struct latency_case *c, const struct latency_trace *trace, double start_s,
                       double duration_s, uint64_t seed)
{
    struct inference_arrivals settings = {
        .shape = trace->shape, .duration_s = duration_s, .seed = seed};
    *c = (struct latency_case){
        .trace = trace, .start_s = start_s, .duration_s = duration_s, .seed = seed};
    c->capacity = capacity_of(trace->shape, &settings.rate);
    settings.rate *= trace->load;
    bench_check(inference_arrivals_make(&settings, &c->arrivals, &c->n));
}

void latency_case_close(struct latency_case *c)
{
    free(c->arrivals);
}

// --- a run ---

enum { MAX_PODS = 4096 };

static void look(struct inference_fleet *f, const struct latency_case *c,
                 struct inference_pod *pods, struct latency_view *ret)
{
    struct inference_fleet_moment m;
    inference_fleet_take_moment(f, &m);
    *ret = (struct latency_view){.c = c,
                                 .fleet = f,
                                 .t_s = (double)inference_fleet_now(f) / 1e9,
                                 .replicas = m.replicas,
                                 .ready = m.ready,
                                 .starting = m.starting + m.unschedulable,
                                 .waiting = m.waiting,
                                 .running = m.running,
                                 .pods = pods,
                                 .n_pods = inference_fleet_pods(f, pods, MAX_PODS)};
}

static void inject(struct inference_fleet *f, const struct latency_case *c, double t_s)
{
    if (!c->trace->faults)
        return;
    if (t_s == floor(c->duration_s / 3))
        inference_fleet_crash(f, 0);
    if (t_s == floor(c->duration_s / 2))
        inference_fleet_slow(f, 1, 4);
    if (t_s == floor(c->duration_s * 2 / 3))
        inference_fleet_slow(f, 1, 1);
}

void latency_run(const struct latency_case *c, const struct latency_policy *p, double setting,
                 struct latency_result *add)
{
    uint32_t first = (uint32_t)ceil(latency_work(c, 0, 60) / 60 / c->capacity);
    struct inference_fleet_setup s = fleet_setup(first ? first : 1, c->start_s, c->seed);
    s.leak_per_hour = c->trace->leak_per_hour;
    s.node_s = c->start_s - LATENCY_POD_S;
    if (p == &latency_static)
        s.replicas = (uint32_t)setting;
    struct inference_fleet *f = inference_fleet_new(&s, c->arrivals, c->n);
    struct inference_pod *pods = gs_alloc_array(MAX_PODS, sizeof(*pods));
    void *state = p->begin ? p->begin(p, c, setting) : NULL;
    double due = p->period_s;
    for (int64_t second = 1; second <= (int64_t)c->duration_s; second++) {
        double t = (double)second;
        inference_fleet_advance(f, (int64_t)(t * 1e9));
        inject(f, c, t);
        if (!p->decide || t < due)
            continue;
        struct latency_view v;
        look(f, c, pods, &v);
        due = t + p->period_s;
        uint32_t n = p->decide(state, &v);
        n = n < 1 ? 1 : n > LATENCY_MAX_REPLICAS ? LATENCY_MAX_REPLICAS : n;
        if (n != v.replicas)
            inference_fleet_scale(f, n);
        if (p->placeholders)
            inference_fleet_hold(f, p->placeholders(state));
    }
    struct inference_fleet_figures at_end = inference_fleet_figures(f);
    inference_fleet_advance(f, (int64_t)((c->duration_s + 300) * 1e9));
    struct inference_fleet_figures r = inference_fleet_figures(f);
    add->within += (double)r.within;
    add->requests += (double)r.arrived;
    add->hours += at_end.pod_hours;
    add->peak = fmax(add->peak, r.peak);
    add->reversals += at_end.reversals;
    add->runs++;
    if (p->end)
        p->end(state);
    free(pods);
    inference_fleet_free(f);
}

double latency_share(const struct latency_result *r)
{
    return r->requests > 0 ? r->within / r->requests : 1;
}
