// SPDX-License-Identifier: Apache-2.0
// The engine between steps: requests in the order of their arrival, what the end of a step gives
// them, and their ends. schedule.c forms the steps.
#include "inference/model_private.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>

// --- random numbers: equal seeds give equal outputs everywhere ---

// In (0, 1].
static double next_uniform(struct inference_model *m)
{
    return ((double)(gs_seeded_next(&m->random) >> 11) + 1) / 9007199254740992.0;
}

static double next_normal(struct inference_model *m)
{
    double a = next_uniform(m), b = next_uniform(m);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

// --- requests ---

static uint32_t output_limit(const struct inference_parameters *p,
                             const struct inference_request *r)
{
    uint32_t room = p->max_model_len - r->prompt_tokens;
    return r->max_tokens && r->max_tokens < room ? r->max_tokens : room;
}

// The draws do not depend on the request, so that one request does not change the others.
static void draw_output(struct inference_model *m, struct inference_sequence *s,
                        const struct inference_request *r)
{
    const struct inference_parameters *p = &m->p;
    double normal = next_normal(m);
    s->fails = next_uniform(m) <= p->failure_ratio && p->failure_ratio > 0;
    s->limit = output_limit(p, r);
    s->output = s->limit;
    if (r->ignore_eos || !(p->output_mean > 0))
        return;
    double mu = log(p->output_mean) - p->output_sigma * p->output_sigma / 2;
    double length = round(exp(mu + p->output_sigma * normal));
    if (length < s->limit)
        s->output = length > 1 ? (uint32_t)length : 1;
}

enum inference_admission inference_model_add(struct inference_model *m, int64_t now,
                                             const struct inference_request *r,
                                             struct inference_sequence **ret)
{
    if (r->prompt_tokens >= m->p.max_model_len)
        return INFERENCE_TOO_LONG;
    bool begins = m->n_waiting == 0 && m->n_running < m->p.max_num_seqs;
    if (m->n_waiting >= m->p.max_queued && !begins)
        return INFERENCE_QUEUE_FULL;
    struct inference_sequence *s = gs_alloc(sizeof(*s));
    s->user = r->user;
    s->prompt = r->prompt_tokens ? r->prompt_tokens : 1;
    s->tokens = s->prompt;
    s->cached = r->cached_tokens < s->prompt ? r->cached_tokens : s->prompt - 1;
    s->max_tokens = r->max_tokens;
    s->arrived = s->last_token = now;
    draw_output(m, s, r);
    TAILQ_INSERT_TAIL(&m->waiting, s, link);
    m->n_waiting++;
    *ret = s;
    if (!m->has_step)
        inference_schedule(m, now);
    return INFERENCE_ADMITTED;
}

// Calls `finish` and frees the sequence, which is in neither list any more.
static void finish(struct inference_model *m, struct inference_sequence *s,
                   enum inference_reason reason, int64_t now)
{
    const struct inference_finished f = {
        .reason = reason,
        .prompt_tokens = s->prompt,
        .cached_tokens = s->cached,
        .output_tokens = s->tokens - s->prompt,
        .max_tokens = s->max_tokens,
        .preemptions = s->preemptions,
        .arrived = s->arrived,
        .scheduled = s->scheduled,
        .first_token = s->first_token,
        .ended = now,
    };
    m->used_blocks -= s->blocks;
    if (m->events.finish)
        m->events.finish(m->events.arg, s->user, &f);
    free(s);
}

static void remove_running(struct inference_model *m, uint32_t at)
{
    for (uint32_t i = at; i + 1 < m->n_running; i++)
        m->running[i] = m->running[i + 1];
    m->n_running--;
}

void inference_model_cancel(struct inference_model *m, struct inference_sequence *s, int64_t now)
{
    if (s->runs) {
        uint32_t i = 0;
        while (m->running[i] != s)
            i++;
        remove_running(m, i);
    } else {
        TAILQ_REMOVE(&m->waiting, s, link);
        m->n_waiting--;
    }
    finish(m, s, INFERENCE_ABORT, now);
}

// --- steps ---

const struct inference_step *inference_model_step(const struct inference_model *m)
{
    return m->has_step ? &m->step : NULL;
}

// Whether the output goes on after this token.
static bool add_token(struct inference_model *m, struct inference_sequence *s, int64_t at)
{
    s->tokens++;
    uint32_t nth = s->tokens - s->prompt;
    if (nth == 1)
        s->first_token = at;
    const struct inference_token t = {.nth = nth,
                                      .at = at,
                                      .previous = s->last_token,
                                      .prompt_tokens = s->prompt,
                                      .cached_tokens = s->cached};
    if (m->events.token)
        m->events.token(m->events.arg, s->user, &t);
    s->last_token = at;
    return nth < s->output;
}

static enum inference_reason end_reason(const struct inference_sequence *s)
{
    return s->fails ? INFERENCE_ERROR : s->output < s->limit ? INFERENCE_STOP : INFERENCE_LENGTH;
}

void inference_model_end_step(struct inference_model *m, int64_t at)
{
    uint32_t kept = 0, n = m->n_running;
    if (!m->has_step)
        return;
    m->has_step = false;
    m->step.end = at;
    for (uint32_t i = 0; i < n; i++) {
        struct inference_sequence *s = m->running[i];
        bool goes_on = true;
        s->computed += s->planned;
        if (s->planned && s->computed == s->tokens)
            goes_on = add_token(m, s, at);
        s->planned = 0;
        if (goes_on)
            m->running[kept++] = s;
        else
            finish(m, s, end_reason(s), at);
    }
    m->n_running = kept;
    if (m->events.step)
        m->events.step(m->events.arg, &m->step);
    inference_schedule(m, at);
}

void inference_model_advance(struct inference_model *m, int64_t now)
{
    while (m->has_step && m->step.end <= now)
        inference_model_end_step(m, m->step.end);
}

void inference_model_sleep(struct inference_model *m, bool sleep, int64_t now)
{
    m->sleeping = sleep;
    if (!m->has_step)
        inference_schedule(m, now);
}

struct inference_state inference_model_state(const struct inference_model *m)
{
    return (struct inference_state){.waiting = m->n_waiting,
                                    .running = m->n_running,
                                    .used_blocks = m->used_blocks,
                                    .sleeping = m->sleeping};
}

struct inference_model *inference_model_new(const struct inference_parameters *p,
                                            const struct inference_model_events *events)
{
    struct inference_model *m = gs_alloc(sizeof(*m));
    m->p = *p;
    m->events = *events;
    m->random = p->seed;
    m->running = gs_alloc_array(p->max_num_seqs, sizeof(*m->running));
    TAILQ_INIT(&m->waiting);
    return m;
}

void inference_model_free(struct inference_model *m)
{
    struct inference_sequence *s;
    if (!m)
        return;
    for (uint32_t i = 0; i < m->n_running; i++)
        free(m->running[i]);
    while ((s = TAILQ_FIRST(&m->waiting))) {
        TAILQ_REMOVE(&m->waiting, s, link);
        free(s);
    }
    free(m->running);
    free(m);
}
