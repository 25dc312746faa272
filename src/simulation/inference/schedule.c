// SPDX-License-Identifier: Apache-2.0
// Forms a step as vLLM's scheduler does: first the sequences that run, in their order, then waiting
// ones, within the tokens of a step, the number of sequences and the blocks of the KV cache. If the
// blocks do not suffice, the last sequence that runs is preempted: its blocks are freed, and it
// waits before all others.
#include "inference/model_private.h"

#include <stddef.h>

// Estimate: a decode of one sequence keeps 40 % of the SMs busy, a step of 512 tokens all.
#define SM_SHARE_MIN    0.4
#define SM_SHARE_TOKENS 512.0

struct plan {
    uint32_t budget; // tokens
    uint64_t read;   // tokens of the cache
    struct inference_step step;
};

static bool reserve(struct inference_model *m, struct inference_sequence *s, uint32_t tokens)
{
    uint32_t need = (s->computed + tokens + m->p.block_size - 1) / m->p.block_size;
    uint32_t more = need > s->blocks ? need - s->blocks : 0;
    if (more > m->p.num_blocks - m->used_blocks)
        return false;
    m->used_blocks += more;
    s->blocks += more;
    return true;
}

static void preempt_last(struct inference_model *m, struct plan *plan)
{
    struct inference_sequence *s = m->running[--m->n_running];
    m->used_blocks -= s->blocks;
    s->blocks = s->computed = s->planned = 0;
    s->runs = false;
    s->preemptions++;
    plan->step.preemptions++;
    TAILQ_INSERT_HEAD(&m->waiting, s, link);
    m->n_waiting++;
}

static uint32_t wanted(const struct inference_sequence *s, const struct plan *plan)
{
    uint32_t left = s->tokens - s->computed;
    return left < plan->budget ? left : plan->budget;
}

static void plan_tokens(struct plan *plan, struct inference_sequence *s, uint32_t tokens)
{
    bool decode = s->computed >= s->prompt && tokens == 1;
    s->planned = tokens;
    plan->budget -= tokens;
    plan->read += s->computed;
    plan->step.sequences++;
    plan->step.decode += decode;
    plan->step.prefill += decode ? 0 : tokens;
}

static void plan_running(struct inference_model *m, struct plan *plan)
{
    for (uint32_t i = 0; i < m->n_running && plan->budget; i++) {
        struct inference_sequence *s = m->running[i];
        uint32_t tokens = wanted(s, plan);
        while (i < m->n_running && !reserve(m, s, tokens))
            preempt_last(m, plan);
        if (i < m->n_running)
            plan_tokens(plan, s, tokens);
    }
}

// The prefix cache is looked up when a prompt begins, also again after a preemption.
static void look_up_prefix(const struct inference_sequence *s, struct plan *plan)
{
    plan->step.queries += s->prompt;
    plan->step.hits += s->cached;
}

static void plan_waiting(struct inference_model *m, struct plan *plan, int64_t now)
{
    struct inference_sequence *s;
    while ((s = TAILQ_FIRST(&m->waiting)) && plan->budget && m->n_running < m->p.max_num_seqs) {
        uint32_t tokens;
        s->computed = s->cached;
        tokens = wanted(s, plan);
        if (!reserve(m, s, tokens)) {
            s->computed = 0;
            return;
        }
        TAILQ_REMOVE(&m->waiting, s, link);
        m->n_waiting--;
        m->running[m->n_running++] = s;
        s->runs = true;
        if (!s->scheduled)
            s->scheduled = now;
        look_up_prefix(s, plan);
        plan_tokens(plan, s, tokens);
    }
}

static void set_duration(const struct inference_parameters *p, struct plan *plan, int64_t now)
{
    const struct inference_cost *c = &p->cost;
    double tokens = (double)plan->step.prefill + plan->step.decode;
    double compute = tokens * c->compute_ns;
    double busy = (compute > c->weights_ns ? compute : c->weights_ns) +
                  (double)plan->read * c->kv_ns + plan->step.sequences * c->sequence_ns;
    double share = SM_SHARE_MIN + (1 - SM_SHARE_MIN) * tokens / SM_SHARE_TOKENS;
    plan->step.start = now;
    plan->step.busy_ns = (int64_t)busy;
    plan->step.end = now + (int64_t)(busy + c->host_ns);
    if (plan->step.end <= now)
        plan->step.end = now + 1;
    plan->step.sm_share = share < 1 ? share : 1;
}

void inference_schedule(struct inference_model *m, int64_t now)
{
    struct plan plan = {.budget = m->p.max_num_batched_tokens};
    m->has_step = false;
    if (m->sleeping)
        return;
    plan_running(m, &plan);
    if (!plan.step.preemptions)
        plan_waiting(m, &plan, now);
    if (!plan.step.sequences)
        return;
    set_duration(&m->p, &plan, now);
    m->step = plan.step;
    m->has_step = true;
}
