// SPDX-License-Identifier: Apache-2.0
// The pods of a simulated fleet as slo_decide() reads them.
#include "inference/slo_view.h"

#include "base/assert.h"

#define NS_PER_MS INT64_C(1000000)

enum inference_histogram inference_slo_histogram(enum slo_latency l)
{
    static const enum inference_histogram histograms[SLO_OTHER] = {
        [SLO_TTFT] = INFERENCE_TTFT,
        [SLO_ITL] = INFERENCE_ITL,
        [SLO_E2E] = INFERENCE_E2E,
        [SLO_QUEUE] = INFERENCE_QUEUE,
    };
    gs_assert(l < SLO_OTHER);
    return histograms[l];
}

void inference_slo_phase(const struct inference_pod *p, int64_t t0_ms, int64_t now_ms,
                         double start_s, struct slo_pod *ret)
{
    *ret = (struct slo_pod){
        .name = p->name, .phase = SLO_POD_READY, .since_ms = t0_ms + p->since_ns / NS_PER_MS};
    if (p->phase == INFERENCE_POD_UNSCHEDULABLE)
        ret->phase = SLO_POD_UNSCHEDULABLE;
    if (p->phase != INFERENCE_POD_STARTING)
        return;
    int64_t expected_ms = ret->since_ms + (int64_t)(start_s * 1000);
    ret->phase = now_ms > expected_ms ? SLO_POD_LATE : SLO_POD_STARTING;
    if (ret->phase == SLO_POD_STARTING)
        ret->expected_ms = expected_ms;
}

void inference_slo_signals(const struct inference_pod *p, const struct inference_parameters *engine,
                           struct slo_pod *ret)
{
    const struct inference_stats *in = p->stats;
    const struct inference_distribution *ttft = &in->histograms[INFERENCE_TTFT];
    double requests = 0;
    for (size_t i = 0; i <= ttft->n; i++)
        requests += (double)ttft->counts[i];
    slo_pod_set(ret, SLO_WAITING, p->state.waiting);
    slo_pod_set(ret, SLO_RUNNING, p->state.running);
    slo_pod_set(ret, SLO_KV_USED_RATIO, (double)p->state.used_blocks / engine->num_blocks);
    slo_pod_set(ret, SLO_KV_CAPACITY_TOKENS, (double)engine->num_blocks * engine->block_size);
    slo_pod_set(ret, SLO_PROMPT_TOKENS, in->prompt_tokens);
    slo_pod_set(ret, SLO_GENERATION_TOKENS, in->output_tokens);
    slo_pod_set(ret, SLO_REQUESTS, requests);
    slo_pod_set(ret, SLO_PREEMPTIONS, in->preemptions);
}

double inference_slo_counts(const struct inference_distribution *d, double *ret)
{
    double sum = 0;
    for (size_t i = 0; i <= d->n; i++)
        ret[i] = sum += (double)d->counts[i];
    return sum;
}
