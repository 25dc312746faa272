// SPDX-License-Identifier: Apache-2.0
// Decisions that hold a latency target, each with new samples of twenty engines: gauges, counters
// and two histograms with the buckets of vLLM.
#include "micro.h"

#include "base/mem.h"
#include "slo/slo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECISION_BAR_US 20.0 // of twenty pods

enum { PODS = 20, BUCKETS = 24, WARM_UP = 400, SCRAPE_MS = 5000 };

struct service {
    struct slo_policy policy;
    struct slo_state *state;
    struct slo_pod pods[PODS];
    char names[PODS][32];
    double bounds[BUCKETS], counts[PODS][2][BUCKETS], sums[PODS];
    int64_t now_ms;
    size_t proposals;
    bool terse;
};

static void scrape(struct service *s, size_t i, double load)
{
    struct slo_pod *p = &s->pods[i];
    for (size_t b = 0; b < BUCKETS; b++) {
        double f = (double)(b + 1) / BUCKETS;
        s->counts[i][0][b] += 40 * load * f;
        s->counts[i][1][b] += 4000 * load * f;
    }
    s->sums[i] += 4000 * load * 0.02 * (1 + load);
    slo_pod_set(p, SLO_WAITING, load > 1 ? 30 * load : 0);
    slo_pod_set(p, SLO_RUNNING, 40 * load);
    slo_pod_set(p, SLO_KV_USED_RATIO, 0.5 * load);
    slo_pod_set(p, SLO_KV_CAPACITY_TOKENS, 160000);
    slo_pod_set(p, SLO_PROMPT_TOKENS, p->v[SLO_PROMPT_TOKENS] + 20000 * load);
    slo_pod_set(p, SLO_GENERATION_TOKENS, p->v[SLO_GENERATION_TOKENS] + 4000 * load);
    slo_pod_set(p, SLO_REQUESTS, s->counts[i][0][BUCKETS - 1]);
    p->latency[SLO_TTFT] = (struct slo_histogram){s->bounds, s->counts[i][0], BUCKETS, 0, false};
    p->latency[SLO_ITL] =
        (struct slo_histogram){s->bounds, s->counts[i][1], BUCKETS, s->sums[i], true};
    p->sampled_ms = s->now_ms;
}

static void decide(void *arg)
{
    struct service *s = arg;
    struct slo_decision d;
    s->now_ms += SCRAPE_MS;
    // Between a fifth and more than all of what the engines carry, so that everything is learned.
    double load = 0.65 + 0.45 * sin((double)s->now_ms / 400000);
    for (size_t i = 0; i < PODS; i++)
        scrape(s, i, load + 0.002 * (double)i);
    const struct slo_observation obs = {.pods = s->pods,
                                        .n_pods = PODS,
                                        .replicas = PODS,
                                        .min = 1,
                                        .max = 100,
                                        .scrape_ms = SCRAPE_MS};
    slo_decide(&s->policy, &obs, s->state, s->now_ms, s->terse, &d);
    if (d.hold)
        bench_fail("the decision holds: %s", d.hold_text);
    s->proposals += d.proposal != PODS;
}

static void measure(double seconds, bool terse, const char *what)
{
    struct service *s = gs_alloc(sizeof(*s));
    char figure[80];
    s->terse = terse;
    s->now_ms = 1700000000000;
    s->state = slo_state_new();
    bench_check(slo_policy_parse("ttft=1s,itl=50ms", &s->policy));
    for (size_t b = 0; b < BUCKETS; b++)
        s->bounds[b] = b + 1 < BUCKETS ? 0.001 * pow(1.6, (double)b) : INFINITY;
    for (size_t i = 0; i < PODS; i++) {
        snprintf(s->names[i], sizeof(s->names[i]), "llm-6d5f9c7b8-%02zu", i);
        s->pods[i] = (struct slo_pod){.name = s->names[i], .since_ms = 1};
    }
    for (int i = 0; i < WARM_UP; i++)
        decide(s);
    if (!s->proposals)
        bench_fail("no latency decision proposed anything");
    double us = 1e6 * micro_time(seconds, decide, s);
    snprintf(figure, sizeof(figure), "%.1f µs each", us);
    micro_row(what, figure, "20 µs", us <= DECISION_BAR_US);
    slo_state_free(s->state);
    free(s);
}

void micro_slo(double seconds)
{
    measure(seconds, false, "latency target: decisions with texts, 20 pods");
    measure(seconds, true, "latency target: decisions without texts, 20 pods");
}
