// SPDX-License-Identifier: Apache-2.0
// Recorded history of an inference service: its recorded requests are served again by simulated
// engines, once with the present settings and once with the others. The speed of the engines is
// fitted to the recorded time between tokens.
#include "replay/history.h"
#include "replay/history_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "replay/scenario_private.h"
#include "replay/service.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FEW_REQUESTS 0.02 // per second; fewer have no mean length
#define MAX_FIT      10.0

struct replay_history_engines {
    // Of all pods: requests, tokens and generated tokens per second; running requests. itl: mean
    // seconds between tokens; without points: not recorded.
    struct replay_curve requests, prompt, generated, running, itl;
    char model[SLO_NAME_SIZE], gpu[SLO_NAME_SIZE]; // "": unknown
    char present[SLO_TEXT_MAX], changed[SLO_TEXT_MAX];
    double speed; // of the engines relative to the model; 0: not fitted
};

// --- reading ---

static struct gs_error *read_curves(struct replay_history_engines *e, const json_t *in)
{
    const struct {
        const char *name;
        struct replay_curve *curve;
        bool optional;
    } curves[] = {{"requests", &e->requests, false},
                  {"promptTokens", &e->prompt, false},
                  {"generationTokens", &e->generated, false},
                  {"running", &e->running, true},
                  {"itl", &e->itl, true}};
    for (size_t i = 0; i < GS_ARRAY_LEN(curves); i++) {
        const json_t *series = json_object_get(in, curves[i].name);
        if (curves[i].optional && !json_is_array(series))
            continue;
        struct gs_error *err = replay_history_read_series(series, curves[i].curve);
        if (err)
            return gs_error_wrap(err, "inference.%s", curves[i].name);
    }
    return NULL;
}

// A longer name is unknown.
static void read_name(const json_t *in, const char *key, char ret[SLO_NAME_SIZE])
{
    const char *text = codec_json_str(in, key, NULL);
    if (text && strlen(text) < SLO_NAME_SIZE)
        snprintf(ret, SLO_NAME_SIZE, "%s", text);
}

// "NVIDIA H100 80GB HBM3" is H100-80GB-HBM3 in the table of GPUs.
static void simplify_gpu(char *name)
{
    static const char maker[] = "NVIDIA ";
    if (gs_starts(name, maker))
        memmove(name, name + strlen(maker), strlen(name + strlen(maker)) + 1);
    for (; *name; name++)
        if (*name == ' ')
            *name = '-';
}

// Takes those of the latency target out of the settings.
static struct gs_error *read_target(struct replay_history_engines *e, const json_t *question,
                                    struct hpa_setting *settings, size_t *n)
{
    const char *now = codec_json_str(question, "slo", NULL);
    struct gs_error *err = replay_service_set_target(e->present, NULL, now ? now : "");
    size_t kept = 0;
    memcpy(e->changed, e->present, sizeof(e->changed));
    for (size_t i = 0; !err && i < *n; i++) {
        const struct hpa_setting s = settings[i];
        if (gs_streq(s.name, "slo"))
            err = replay_service_set_target(e->changed, NULL, s.value);
        else if (gs_starts(s.name, "slo."))
            err = replay_service_set_target(e->changed, s.name + strlen("slo."), s.value);
        else
            settings[kept++] = s;
    }
    *n = kept;
    return err;
}

static bool sets_target(const struct hpa_setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (replay_history_has_setting(settings[i].name))
            return true;
    return false;
}

struct gs_error *replay_history_engines_read(struct replay_history *h, const json_t *question,
                                             struct hpa_setting *settings, size_t *n_settings)
{
    const json_t *in = json_object_get(question, "inference");
    if (!json_is_object(in)) {
        if (sets_target(settings, *n_settings))
            return gs_error_new(GS_EINVAL, "a latency target needs the recorded signals of "
                                           "inference engines (gpuscale_inference_*)");
        return NULL;
    }
    h->engines = gs_alloc(sizeof(*h->engines));
    struct replay_history_engines *e = h->engines;
    struct gs_error *err = read_curves(e, in);
    read_name(in, "model", e->model);
    read_name(in, "gpu", e->gpu);
    if (!err)
        err = read_target(e, question, settings, n_settings);
    simplify_gpu(e->gpu);
    return err;
}

void replay_history_engines_span(const struct replay_history *h, int64_t *start_ms, int64_t *end_ms)
{
    const struct replay_curve *c = &h->engines->requests;
    int64_t first = c->points[0].t_ms, last = c->points[c->n - 1].t_ms;
    *start_ms = first > *start_ms ? first : *start_ms;
    *end_ms = last < *end_ms ? last : *end_ms;
}

// --- the service ---

// From the start of the recorded time on.
static struct replay_curve moved(const struct replay_curve *c, int64_t start_ms)
{
    struct replay_curve out = {0};
    for (size_t i = 0; i < c->n; i++)
        replay_curve_add(&out, c->points[i].t_ms - start_ms, c->points[i].v);
    return out;
}

// Tokens of a request over time, where there are requests.
static void add_means(const struct replay_curve *tokens, const struct replay_curve *requests,
                      struct replay_curve *ret)
{
    struct replay_curve_piece piece = {0};
    for (size_t i = 0; i < tokens->n; i++) {
        double rate = replay_curve_at(requests, tokens->points[i].t_ms, &piece);
        if (rate >= FEW_REQUESTS)
            replay_curve_add(ret, tokens->points[i].t_ms, fmax(tokens->points[i].v / rate, 1));
    }
}

// The time between tokens by the model, with that many running requests on a replica and that many
// tokens of prompts per second.
static double predicted_itl(const struct inference_parameters *p, double running, double context,
                            double prompt_rate)
{
    double step = p->cost.host_ns + fmax(p->cost.weights_ns, running * p->cost.compute_ns) +
                  running * (context * p->cost.kv_ns + p->cost.sequence_ns);
    double busy = fmin(prompt_rate * p->cost.compute_ns / 1e9, 0.9); // with prompts
    return step / 1e9 / (1 - busy);
}

// The median of predicted / recorded; 0: not recorded.
static double fit_speed(const struct replay_history *h, const struct inference_parameters *p,
                        double context)
{
    const struct replay_history_engines *e = h->engines;
    struct replay_curve_piece running = {0}, prompt = {0}, replicas = {0};
    GS_AUTO_FREE double *ratios = gs_alloc_array(e->itl.n + 1, sizeof(*ratios));
    size_t n = 0;
    for (size_t i = 0; e->running.n && i < e->itl.n; i++) {
        int64_t t = e->itl.points[i].t_ms;
        // The curve of the replicas begins at the start of the recorded time.
        double pods = fmax(replay_curve_at(&h->replicas, t - h->start_ms, &replicas), 1);
        double busy = fmax(replay_curve_at(&e->running, t, &running) / pods, 1);
        double tokens = replay_curve_at(&e->prompt, t, &prompt) / pods;
        if (e->itl.points[i].v > 0)
            ratios[n++] = predicted_itl(p, busy, context, tokens) / e->itl.points[i].v;
    }
    if (!n)
        return 0;
    qsort(ratios, n, sizeof(*ratios), gs_compare_doubles);
    return fmin(fmax(ratios[n / 2], 1 / MAX_FIT), MAX_FIT);
}

static struct gs_error *check_tokens(const struct replay_history *h)
{
    double tokens = replay_curve_mean(&h->engines->generated, 0) * (double)h->duration_ms / 1000;
    if (tokens > REPLAY_HISTORY_TOKENS)
        return gs_error_new(GS_ELIMIT,
                            "%.3g generated tokens are too many to simulate; at most %.3g: choose "
                            "a shorter time",
                            tokens, REPLAY_HISTORY_TOKENS);
    return NULL;
}

const char *replay_history_engines_goal(const struct replay_history *h)
{
    return *h->engines->changed ? h->engines->changed : h->engines->present;
}

struct gs_error *replay_history_engines_set(const struct replay_history *h, bool changed,
                                            struct replay_scenario *s)
{
    struct replay_history_engines *e = h->engines;
    struct replay_curve prompt = {0}, output = {0};
    struct replay_service *v = s->service = gs_alloc(sizeof(*v));
    struct gs_error *err = check_tokens(h);
    replay_service_init(v);
    v->max_tokens = 1.5 * REPLAY_HISTORY_TOKENS;
    if (err)
        return err;
    if (*e->model)
        v->setup.model = e->model;
    if (*e->gpu)
        v->setup.gpu = e->gpu;
    add_means(&e->prompt, &e->requests, &prompt);
    add_means(&e->generated, &e->requests, &output);
    v->prompt_curve = moved(&prompt, h->start_ms);
    v->output_curve = moved(&output, h->start_ms);
    replay_curve_finish(&s->load);
    s->load = moved(&e->requests, h->start_ms);
    memcpy(v->slo, changed ? e->changed : e->present, sizeof(v->slo));
    memcpy(v->goal, replay_history_engines_goal(h), sizeof(v->goal));
    double context = replay_curve_mean(&prompt, 0) + replay_curve_mean(&output, 0) / 2;
    replay_curve_finish(&prompt);
    replay_curve_finish(&output);
    err = replay_service_prepare(s);
    if (err)
        return err;
    e->speed = v->setup.speed = fit_speed(h, &v->engine, context);
    return replay_service_prepare(s);
}

void replay_history_engines_assume(const struct replay_history *h, json_t *assumptions)
{
    const struct replay_history_engines *e = h->engines;
    const struct replay_service *v = h->present.s.service;
    json_array_append_new(
        assumptions,
        codec_json_strf("SIMULATED: the recorded requests are served by a model of %s on %s.",
                        v->setup.model, v->setup.gpu));
    json_array_append_new(
        assumptions,
        e->speed > 0
            ? codec_json_strf("Its speed was multiplied by %.2f, so that the time between tokens "
                              "is the recorded one.",
                              e->speed)
            : json_string("Its speed could not be compared with recorded times."));
    json_array_append_new(assumptions, json_string("Requests that were not served are not "
                                                   "recorded: the real demand may be higher."));
}

bool replay_history_has_setting(const char *name)
{
    return gs_streq(name, "slo") || (gs_starts(name, "slo.") && name[strlen("slo.")]);
}

void replay_history_engines_free(struct replay_history_engines *e)
{
    if (!e)
        return;
    replay_curve_finish(&e->requests);
    replay_curve_finish(&e->prompt);
    replay_curve_finish(&e->generated);
    replay_curve_finish(&e->running);
    replay_curve_finish(&e->itl);
    free(e);
}
