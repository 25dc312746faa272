// SPDX-License-Identifier: Apache-2.0
// The model in real time: each step is a step of the GPU, and the model learns of its end when that
// has ended. A step that the GPU was late with, because others use it, too, is longer for the
// model.
#include "inference/server_private.h"

#include "base/clock.h"
#include "base/log.h"

// The GPU's thread wakes up a little late. Only more than this is the GPU's own delay.
#define LATE_NS GS_NS_PER_MS

static struct inference_stats *stats_of(struct inference_server *s,
                                        const struct inference_answer *a)
{
    return &s->stats[inference_answer_is_streamed(a) ? INFERENCE_STREAMED : INFERENCE_WHOLE];
}

static void on_token(void *arg, void *user, const struct inference_token *t)
{
    inference_stats_token(stats_of(arg, user), t);
    inference_answer_token(user, t->nth);
}

static void on_finish(void *arg, void *user, const struct inference_finished *f)
{
    inference_stats_finished(stats_of(arg, user), f);
    inference_answer_finish(user, f);
}

static void on_step(void *arg, const struct inference_step *step)
{
    struct inference_server *s = arg;
    inference_stats_step(&s->stats[INFERENCE_WHOLE], step);
}

const struct inference_model_events inference_server_events = {
    .token = on_token, .finish = on_finish, .step = on_step};

void inference_server_pump(struct inference_server *s)
{
    const struct inference_step *step = inference_model_step(s->model);
    if (step && !inference_gpu_is_busy(s->gpu))
        inference_gpu_begin(s->gpu, step->busy_ns, step->sm_share, step->end);
}

void inference_server_step_done(void *arg)
{
    struct inference_server *s = arg;
    struct gs_error *err = inference_gpu_take_error(s->gpu);
    const struct inference_step *step = s->model ? inference_model_step(s->model) : NULL;
    if (err) {
        program_fail(s->program, gs_error_wrap(err, "EngineCore: SIMULATED CUDA error"));
        return;
    }
    if (!step)
        return;
    int64_t now = gs_mono_ns();
    inference_model_end_step(s->model, now > step->end + LATE_NS ? now : step->end);
    inference_server_pump(s);
}
