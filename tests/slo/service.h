// SPDX-License-Identifier: Apache-2.0
// A service of equal engines for tests of decisions: each carries a number of requests a second,
// latencies grow with the load, and what exceeds it waits. Time moves in scrapes.
#pragma once

#include "base/mem.h"
#include "slo/slo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SERVICE_START_MS INT64_C(1700000000000)

enum { SERVICE_MAX_PODS = 64, SERVICE_BUCKETS = 14, SERVICE_SCRAPE_MS = 5000 };

static const double service_bounds[SERVICE_BUCKETS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75,
                                                       1,    2.5,   5,    10,  20,   80,  INFINITY};

struct service_engine {
    char name[16];
    double waiting, running, kv, prompt, generated, requests, rejected;
    double ttft[SERVICE_BUCKETS], itl[SERVICE_BUCKETS], itl_sum;
    enum slo_phase phase;
    int64_t since_ms, sampled_ms;
    bool frozen; // not scraped
};

struct service {
    struct slo_policy policy;
    struct slo_state *state;
    struct slo_decision decision;
    struct slo_observation obs;
    struct service_engine engines[SERVICE_MAX_PODS];
    struct slo_pod pods[SERVICE_MAX_PODS];
    size_t n;
    int64_t now_ms;
    unsigned signals; // bits of the signals that are reported
    bool has_ttft, has_itl;
    double rate;           // requests a second, of the service
    double clients;        // that send the next request after the last one; 0: `rate` counts
    double capacity;       // requests a second, of one engine
    double idle_s;         // time to the first token of an idle engine
    double prompt, output; // tokens of a request
    int64_t quiet_ms;      // since when fewer replicas are proposed
    int32_t most;          // of these proposals
};

static inline void service_set_replicas(struct service *s, size_t n, enum slo_phase phase)
{
    for (; s->n < n; s->n++) {
        struct service_engine *e = &s->engines[s->n];
        memset(e, 0, sizeof(*e));
        snprintf(e->name, sizeof(e->name), "llm-%zu", s->n);
        e->phase = phase;
        e->since_ms = s->now_ms;
    }
    s->n = n;
    s->obs.replicas = (int32_t)n;
}

static inline void service_init(struct service *s, const char *policy, size_t replicas)
{
    memset(s, 0, sizeof(*s));
    struct gs_error *err = slo_policy_parse(policy, &s->policy);
    if (err)
        fail_msg("%s", gs_error_message(err));
    s->state = slo_state_new();
    s->now_ms = SERVICE_START_MS;
    s->signals = (1U << SLO_SIGNALS) - 1 - (1U << SLO_UTILIZATION) - (1U << SLO_SLEEPING);
    s->has_ttft = s->has_itl = true;
    s->capacity = 10;
    s->idle_s = 0.1;
    s->prompt = 500;
    s->output = 100;
    s->obs.min = 1;
    s->obs.max = SERVICE_MAX_PODS;
    s->obs.scrape_ms = SERVICE_SCRAPE_MS;
    service_set_replicas(s, replicas, SLO_POD_READY);
}

static inline void service_finish(struct service *s)
{
    slo_state_free(s->state);
}

// An exponential distribution, cut at none.
static inline void service_latencies(double counts[SERVICE_BUCKETS], double n, double mean)
{
    for (size_t i = 0; i < SERVICE_BUCKETS; i++)
        counts[i] += isinf(service_bounds[i]) ? n : n * (1 - exp(-service_bounds[i] / mean));
}

static inline void service_serve(struct service *s, struct service_engine *e, double arrive,
                                 double seconds)
{
    double done = fmin(arrive * seconds + e->waiting, s->capacity * seconds);
    double rho = fmin(done / (s->capacity * seconds), 0.98);
    double itl = 0.02 / (1 - 0.8 * rho);
    e->waiting = fmax(e->waiting + arrive * seconds - done, 0);
    e->running = done / seconds * s->output * itl;
    e->kv = fmin(e->running * (s->prompt + s->output / 2) / 100000, 1);
    e->requests += done;
    e->prompt += done * s->prompt;
    e->generated += done * s->output;
    service_latencies(e->ttft, done, s->idle_s / (1 - rho) / 2.3 + e->waiting / s->capacity);
    service_latencies(e->itl, done * s->output, itl / 2.3);
    e->itl_sum += done * s->output * itl / 2.3;
}

static inline void service_fill(const struct service *s, struct service_engine *e,
                                struct slo_pod *p)
{
    const double values[SLO_SIGNALS] = {[SLO_WAITING] = e->waiting,
                                        [SLO_RUNNING] = e->running,
                                        [SLO_KV_USED_RATIO] = e->kv,
                                        [SLO_KV_CAPACITY_TOKENS] = 100000,
                                        [SLO_UTILIZATION] = fmin(e->running / 20, 1),
                                        [SLO_PROMPT_TOKENS] = e->prompt,
                                        [SLO_GENERATION_TOKENS] = e->generated,
                                        [SLO_REQUESTS] = e->requests,
                                        [SLO_REJECTIONS] = e->rejected};
    *p = (struct slo_pod){.name = e->name,
                          .phase = e->phase,
                          .since_ms = e->since_ms,
                          .sampled_ms = e->sampled_ms,
                          .has = s->signals};
    memcpy(p->v, values, sizeof(values));
    if (s->has_ttft)
        p->latency[SLO_TTFT] =
            (struct slo_histogram){service_bounds, e->ttft, SERVICE_BUCKETS, 0, false};
    if (s->has_itl)
        p->latency[SLO_ITL] =
            (struct slo_histogram){service_bounds, e->itl, SERVICE_BUCKETS, e->itl_sum, true};
}

// Each client waits for its request: what arrives is what was processed, and the rest waits. The
// router spreads the queue.
static inline void service_close_loop(struct service *s, size_t serving)
{
    double each = s->clients / (double)serving, busy = s->capacity * s->output * 0.02 * 5;
    s->rate = (double)serving * s->capacity * fmin(each / busy, 1);
    for (size_t i = 0; i < s->n; i++)
        s->engines[i].waiting = s->engines[i].phase == SLO_POD_READY ? fmax(each - busy, 0) : 0;
}

// Moves the time by one scrape and decides. The replicas stay as they are.
static inline void service_step(struct service *s)
{
    double seconds = SERVICE_SCRAPE_MS / 1000.0;
    size_t serving = 0;
    s->now_ms += SERVICE_SCRAPE_MS;
    for (size_t i = 0; i < s->n; i++)
        serving += s->engines[i].phase == SLO_POD_READY;
    if (s->clients > 0)
        service_close_loop(s, serving);
    for (size_t i = 0; i < s->n; i++) {
        struct service_engine *e = &s->engines[i];
        if (e->phase == SLO_POD_READY && !e->frozen) {
            service_serve(s, e, s->rate / (double)serving, seconds);
            e->sampled_ms = s->now_ms;
        }
        service_fill(s, e, &s->pods[i]);
    }
    s->obs.pods = s->pods;
    s->obs.n_pods = s->n;
    slo_decide(&s->policy, &s->obs, s->state, s->now_ms, false, &s->decision);
}

static inline void service_run(struct service *s, int64_t seconds)
{
    for (int64_t t = 0; t < seconds * 1000; t += SERVICE_SCRAPE_MS)
        service_step(s);
}

// Follows the proposals; new replicas need start_s seconds, and fewer come only after five minutes
// without a larger proposal. Returns the largest number of replicas.
static inline size_t service_follow(struct service *s, int64_t seconds, int64_t start_s)
{
    size_t peak = s->n;
    for (int64_t t = 0; t < seconds * 1000; t += SERVICE_SCRAPE_MS) {
        service_step(s);
        for (size_t i = 0; i < s->n; i++)
            if (s->engines[i].phase == SLO_POD_STARTING &&
                s->now_ms - s->engines[i].since_ms >= start_s * 1000) {
                s->engines[i].phase = SLO_POD_READY;
                s->engines[i].since_ms = s->now_ms;
            }
        int32_t want =
            s->decision.proposal < SERVICE_MAX_PODS ? s->decision.proposal : SERVICE_MAX_PODS;
        s->quiet_ms = want < (int32_t)s->n ? s->quiet_ms + SERVICE_SCRAPE_MS : 0;
        s->most = s->quiet_ms && want < s->most ? s->most : want;
        if (want > (int32_t)s->n || s->quiet_ms >= 300000) {
            service_set_replicas(s, (size_t)(want > (int32_t)s->n ? want : s->most),
                                 SLO_POD_STARTING);
            s->quiet_ms = 0;
            s->most = 0;
        }
        peak = s->n > peak ? s->n : peak;
    }
    return peak;
}

static inline const struct slo_bound *service_bound(const struct service *s, const char *name)
{
    for (size_t i = 0; i < s->decision.n_bounds; i++)
        if (!strcmp(s->decision.bounds[i].name, name))
            return &s->decision.bounds[i];
    return NULL;
}
