// SPDX-License-Identifier: Apache-2.0
// Counts what the model reports, with the definitions of vLLM 0.9 to 0.33 and of SGLang.
#include "inference/stats.h"

#include "base/mem.h"

#include <string.h>

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

void inference_stats_init(struct inference_stats *s, const double *const *bounds, const size_t *n)
{
    memset(s, 0, sizeof(*s));
    for (size_t h = 0; h < INFERENCE_N_HISTOGRAMS; h++) {
        struct inference_distribution *d = &s->histograms[h];
        d->n = n[h];
        d->bounds = gs_alloc_array(n[h] + 1, sizeof(*d->bounds));
        d->counts = gs_alloc_array(n[h] + 1, sizeof(*d->counts));
        if (n[h])
            memcpy(d->bounds, bounds[h], n[h] * sizeof(*d->bounds));
    }
}

void inference_stats_finish(struct inference_stats *s)
{
    for (size_t h = 0; h < INFERENCE_N_HISTOGRAMS; h++) {
        free(s->histograms[h].bounds);
        free(s->histograms[h].counts);
    }
}

static void observe(struct inference_stats *s, enum inference_histogram h, double value)
{
    struct inference_distribution *d = &s->histograms[h];
    size_t low = 0, high = d->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (value <= d->bounds[middle])
            high = middle;
        else
            low = middle + 1;
    }
    d->counts[low]++;
    d->sum += value;
}

void inference_stats_token(struct inference_stats *s, const struct inference_token *t)
{
    s->output_tokens++;
    observe(s, t->nth == 1 ? INFERENCE_TTFT : INFERENCE_ITL, seconds(t->at - t->previous));
    if (t->nth > 1)
        return;
    s->prompt_tokens += t->prompt_tokens;
    s->cached_tokens += t->cached_tokens;
}

// A request that was aborted before its first step has no such times.
static void observe_times(struct inference_stats *s, const struct inference_finished *f)
{
    observe(s, INFERENCE_E2E, seconds(f->ended - f->arrived));
    if (!f->scheduled)
        return;
    observe(s, INFERENCE_QUEUE, seconds(f->scheduled - f->arrived));
    observe(s, INFERENCE_INFERENCE, seconds(f->ended - f->scheduled));
    if (!f->first_token)
        return;
    observe(s, INFERENCE_PREFILL, seconds(f->first_token - f->scheduled));
    observe(s, INFERENCE_DECODE, seconds(f->ended - f->first_token));
    if (f->output_tokens > 1)
        observe(s, INFERENCE_TPOT, seconds(f->ended - f->first_token) / (f->output_tokens - 1));
}

void inference_stats_finished(struct inference_stats *s, const struct inference_finished *f)
{
    s->finished[f->reason]++;
    s->finished_prompt_tokens += f->prompt_tokens;
    s->finished_output_tokens += f->output_tokens;
    observe_times(s, f);
    observe(s, INFERENCE_PROMPT, f->prompt_tokens);
    observe(s, INFERENCE_OUTPUT, f->output_tokens);
    observe(s, INFERENCE_COMPUTED, f->prompt_tokens - f->cached_tokens);
    observe(s, INFERENCE_PREEMPTIONS, f->preemptions);
    observe(s, INFERENCE_N, 1);
    if (f->max_tokens)
        observe(s, INFERENCE_MAX_TOKENS, f->max_tokens);
}

void inference_stats_step(struct inference_stats *s, const struct inference_step *step)
{
    s->preemptions += step->preemptions;
    s->queries += step->queries;
    s->hits += step->hits;
    s->busy_s += seconds(step->busy_ns);
    observe(s, INFERENCE_STEP, (double)step->prefill + step->decode);
}
