// SPDX-License-Identifier: Apache-2.0
// Joins the parts of a latency decision: the annotation, the pods of the target, and the samples of
// their engines become an observation of slo_decide(), whose proposal enters hpa_decide().
#include "hpa_controller/latency.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/slice.h"
#include "kube/names.h"
#include "kube/object.h"
#include "slo/memory.h"

#include <math.h>

struct hpa_latency {
    char *annotation; // NULL: none
    char *invalid;    // why it is wrong; NULL: it is valid
    char *image;      // of most pods; NULL: not known yet
    struct slo_policy policy;
    struct slo_memory *memory;
    int64_t interval_ms;
    // the last decision
    bool decided;
    int64_t decided_ms;
    char *error;  // the samples could not be read; NULL: they were
    char *labels; // of its metrics
    struct slo_decision decision;
    struct hpa_extra extra;
};

// --- the annotation ---

struct hpa_latency *hpa_latency_new(void)
{
    return gs_alloc(sizeof(struct hpa_latency));
}

static void forget_decision(struct hpa_latency *l)
{
    free(GS_TAKE(l->error));
    free(GS_TAKE(l->labels));
    l->decided = false;
}

static void forget(struct hpa_latency *l)
{
    forget_decision(l);
    free(GS_TAKE(l->annotation));
    free(GS_TAKE(l->invalid));
    free(GS_TAKE(l->image));
    slo_memory_free(GS_TAKE(l->memory));
}

void hpa_latency_free(struct hpa_latency *l)
{
    if (!l)
        return;
    forget(l);
    free(l);
}

struct gs_error *hpa_latency_update(struct hpa_latency *l, const json_t *object)
{
    const char *text = kube_annotation(object, SLO_ANNOTATION);
    if (gs_streq(text, l->annotation))
        return NULL;
    // What was learned of the service stays valid with other targets.
    struct slo_memory *memory = text ? GS_TAKE(l->memory) : NULL;
    forget(l);
    if (!text)
        return NULL;
    l->annotation = gs_strdup(text);
    l->memory = memory ? memory : slo_memory_new();
    struct gs_error *err = slo_policy_parse(text, &l->policy);
    if (err)
        l->invalid = gs_strdup(gs_error_message(err));
    return err;
}

const struct slo_policy *hpa_latency_policy(const struct hpa_latency *l)
{
    return l->annotation && !l->invalid ? &l->policy : NULL;
}

int64_t hpa_latency_interval_ms(const struct hpa_latency *l)
{
    return l->interval_ms;
}

void hpa_latency_shift(struct hpa_latency *l, int64_t ms, int64_t now_ms)
{
    if (!l->memory)
        return;
    slo_memory_shift(l->memory, ms, now_ms);
    l->decided_ms += ms;
}

bool hpa_latency_has_target(const struct hpa_latency *l)
{
    return l->annotation != NULL;
}

json_t *hpa_latency_learned(const struct hpa_latency *l, bool with_forecast, int64_t now_ms)
{
    return l->memory ? slo_memory_json(l->memory, with_forecast, now_ms) : NULL;
}

struct gs_error *hpa_latency_restore(struct hpa_latency *l, const json_t *learned, int64_t now_ms)
{
    return slo_memory_restore(l->memory, learned, now_ms);
}

// --- pods ---

static struct slo_pod pod_of(const struct hpa_start *start)
{
    static const enum slo_phase phases[] = {
        [STARTUP_READY] = SLO_POD_READY, [STARTUP_STARTING] = SLO_POD_STARTING,
        [STARTUP_LATE] = SLO_POD_LATE,   [STARTUP_UNSCHEDULABLE] = SLO_POD_UNSCHEDULABLE,
        [STARTUP_FAILED] = SLO_POD_LATE,
    };
    const struct startup_progress *p = &start->progress;
    return (struct slo_pod){.name = kube_name(start->pod),
                            .phase = phases[p->state],
                            .since_ms = p->ready_ms ? p->ready_ms : p->created_ms,
                            .expected_ms = p->expected_ms};
}

static const char *image_of(const struct hpa_start *start)
{
    const json_t *list = codec_json_get(start->pod, "status", "containerStatuses", NULL);
    const char *id = codec_json_str(json_array_get(list, 0), "imageID", NULL);
    return start->progress.state == STARTUP_READY && id && *id ? id : NULL;
}

static size_t count_image(const struct hpa_start *starts, size_t n, const char *image)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += gs_streq(image_of(&starts[i]), image);
    return count;
}

// What is learned of the engines belongs to the image of most ready pods. A digest names it better
// than a tag. In a rollout, the image changes once: when the new one has more pods.
static const char *identity_of(struct hpa_latency *l, const struct hpa_start *starts, size_t n)
{
    size_t most = l->image ? count_image(starts, n, l->image) : 0;
    const char *found = most ? l->image : NULL, *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *image = image_of(&starts[i]);
        if (!image || gs_streq(image, found) || gs_streq(image, last))
            continue;
        size_t count = count_image(starts, n, image);
        last = image;
        if (count <= most)
            continue;
        most = count;
        found = image;
    }
    if (found && found != l->image) {
        char *image = gs_strdup(found);
        free(l->image);
        l->image = image;
    }
    return found ? l->image : NULL;
}

// Of one more replica. Without a start, nothing is assumed.
static double start_seconds(const struct hpa_latency_input *in, const struct hpa_start *starts,
                            size_t n)
{
    struct startup_expected e;
    if (!n)
        return 0;
    GS_AUTO_FREE char *workload = kube_workload(starts[0].pod);
    startup_expected_of_workload(hpa_starts_learner(in->starts), in->spec->ns, workload, &e);
    return e.basis == STARTUP_BASIS_DEFAULT ? 0 : (double)e.total.p90_ms / 1000;
}

// Readiness does not mean that a model is loaded. The first values of the engine do.
static void note_engines(const struct hpa_latency_input *in, const struct slo_pod *pods, size_t n)
{
    const unsigned engine = 1U << SLO_WAITING | 1U << SLO_RUNNING | 1U << SLO_KV_USED_RATIO;
    for (size_t i = 0; i < n; i++)
        if (pods[i].has & engine)
            startup_engine_ready(hpa_starts_learner(in->starts), in->spec->ns, pods[i].name,
                                 pods[i].sampled_ms);
}

// --- the decision ---

static void add_signals(const struct hpa_signals *signals, struct slo_reading *reading)
{
    for (size_t i = 0; i < signals->n; i++) {
        const struct hpa_signal *s = &signals->items[i];
        slo_reading_add(reading, s->name, s->pod, s->le, s->role, s->value, s->t_ms);
    }
}

static void decide(struct hpa_latency *l, const struct hpa_latency_input *in,
                   const struct hpa_start *starts, struct slo_pod *pods, size_t n)
{
    GS_CLEANUP(slo_reading_freep)
    struct slo_reading *reading = slo_reading_new(&l->policy, pods, n);
    struct slo_observation obs = {.pods = pods,
                                  .n_pods = n,
                                  .replicas = in->replicas,
                                  .min = in->spec->has_min ? in->spec->min_replicas : 1,
                                  .max = in->spec->max_replicas,
                                  .has_peer = in->peer_replicas >= 0,
                                  .peer_replicas = in->peer_replicas,
                                  .identity = identity_of(l, starts, n),
                                  .start_seconds = start_seconds(in, starts, n)};
    if (in->signals) {
        add_signals(in->signals, reading);
        l->interval_ms = in->signals->interval_ms ? in->signals->interval_ms : l->interval_ms;
    }
    obs.role = slo_reading_end(reading);
    obs.scrape_ms = l->interval_ms;
    note_engines(in, pods, n);
    slo_memory_decide(l->memory, &l->policy, &obs, in->now_ms, false, &l->decision);
}

static const struct hpa_extra *fail(struct hpa_latency *l, const char *why)
{
    l->error = gs_strdup(why);
    l->extra = (struct hpa_extra){.replicas = -1,
                                  .applied = !l->invalid && !l->policy.shadow,
                                  .held = !l->invalid && !l->policy.shadow,
                                  .name = HPA_LATENCY_NAME,
                                  .explanation = l->error};
    return &l->extra;
}

// The API server accepts target names that no workload can have.
static char *labels_of(const struct hpa_spec *spec)
{
    struct gs_buf out = {0};
    GS_AUTO_BUF struct gs_buf why = {0};
    const char *kind = gs_streq(spec->target_kind, "Deployment")    ? "deployment"
                       : gs_streq(spec->target_kind, "StatefulSet") ? "statefulset"
                                                                    : NULL;
    gs_buf_addf(&out, "namespace=\"%s\",horizontalpodautoscaler=\"%s\"", spec->ns, spec->name);
    if (kind && kube_check_dns_subdomain(gs_slice_of(spec->target_name), &why))
        gs_buf_addf(&out, ",%s=\"%s\"", kind, spec->target_name);
    return gs_buf_take(&out);
}

// NULL: it is decided.
static const char *decide_about_pods(struct hpa_latency *l, const struct hpa_latency_input *in)
{
    struct gs_arena arena = {0};
    const char *error = NULL;
    size_t n = 0;
    const struct hpa_start *starts =
        hpa_starts_pods(in->starts, in->spec->ns, in->selector, in->now_ms, &arena, &n);
    struct slo_pod *pods =
        n <= SLO_MAX_PODS ? gs_arena_alloc(&arena, (n + 1) * sizeof(*pods)) : NULL;
    for (size_t i = 0; pods && i < n; i++)
        pods[i] = pod_of(&starts[i]);
    if (pods)
        decide(l, in, starts, pods, n);
    else
        error = "too many pods";
    gs_arena_finish(&arena);
    return error;
}

const struct hpa_extra *hpa_latency_decide(struct hpa_latency *l,
                                           const struct hpa_latency_input *in)
{
    const char *error = l->invalid ? l->invalid : in->error;
    if (!l->annotation)
        return NULL;
    forget_decision(l);
    l->decided = true;
    l->decided_ms = in->now_ms;
    l->labels = labels_of(in->spec);
    if (!error && in->signals)
        error = in->signals->error;
    if (!error)
        error = decide_about_pods(l, in);
    if (error)
        return fail(l, error);
    l->extra = (struct hpa_extra){.replicas = l->decision.proposal,
                                  .applied = !l->policy.shadow,
                                  .held = l->decision.hold,
                                  .name = HPA_LATENCY_NAME,
                                  .explanation = l->decision.explanation};
    return &l->extra;
}

bool hpa_latency_outlook(const struct hpa_latency *l, struct hpa_latency_outlook *ret)
{
    const struct forecast *forecast = l->memory ? slo_memory_forecast(l->memory) : NULL;
    struct forecast_result r;
    if (!l->decided || l->error || !forecast)
        return false;
    forecast_read(forecast, &r);
    *ret = (struct hpa_latency_outlook){.decision = &l->decision,
                                        .applied = !l->policy.shadow,
                                        .growth = r.growth,
                                        .rise = slo_memory_rise(l->memory, &l->decision),
                                        .horizon_ms = r.horizon_ms};
    return true;
}

void hpa_latency_skip(struct hpa_latency *l)
{
    forget_decision(l);
}

// --- JSON ---

static json_t *describe_forecast(const struct forecast *f)
{
    struct forecast_result r;
    GS_AUTO_BUF struct gs_buf text = {0};
    forecast_read(f, &r);
    json_t *out = forecast_json(&r);
    forecast_text(&r, &text);
    codec_json_set_str(out, "text", text.data);
    return out;
}

json_t *hpa_latency_json(const struct hpa_latency *l, int64_t now_ms)
{
    if (!l->annotation || !l->decided)
        return NULL;
    json_t *out = l->error ? json_object() : slo_decision_json(&l->policy, &l->decision);
    codec_json_set_str(out, "annotation", l->annotation);
    codec_json_set_bool(out, "applied", l->extra.applied);
    codec_json_set_int(out, "ageMs", now_ms - l->decided_ms);
    if (l->error)
        codec_json_set_str(out, "error", l->error);
    const struct forecast *forecast = slo_memory_forecast(l->memory);
    if (forecast)
        json_object_set_new(out, "forecast", describe_forecast(forecast));
    return out;
}

// --- metrics ---

static const struct {
    const char *name, *help;
} families[HPA_LATENCY_FAMILIES] = {
    [HPA_LATENCY_DESIRED] = {SLO_METRIC_DESIRED,
                             "Replicas that hold the latency target, before the limits of the "
                             "autoscaler."},
    [HPA_LATENCY_PRESSURE] = {SLO_METRIC_PRESSURE,
                              "Measured percentile of the latency divided by its target."},
    [HPA_LATENCY_BOUND] = {"gpuscale_slo_bound_replicas",
                           "Replicas by one bound of the latency target."},
    [HPA_LATENCY_HOLD] = {"gpuscale_slo_hold",
                          "Whether the latency target keeps the replicas, for lack of samples."},
};

void hpa_latency_write_head(enum hpa_latency_family family, struct gs_buf *out)
{
    gs_buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", families[family].name,
                families[family].help, families[family].name);
}

static void write_bounds(const struct hpa_latency *l, struct gs_buf *out)
{
    for (size_t i = 0; i < l->decision.n_bounds; i++) {
        const struct slo_bound *b = &l->decision.bounds[i];
        if (b->proposal >= 0)
            gs_buf_addf(out, "%s{%s,bound=\"%s\"} %d\n", families[HPA_LATENCY_BOUND].name,
                        l->labels, b->name, b->proposal);
    }
}

void hpa_latency_write(const struct hpa_latency *l, enum hpa_latency_family family,
                       int64_t since_ms, struct gs_buf *out)
{
    const struct slo_decision *d = &l->decision;
    const char *name = families[family].name;
    if (!l->decided || l->error || l->decided_ms < since_ms)
        return;
    if (family == HPA_LATENCY_DESIRED)
        gs_buf_addf(out, "%s{%s} %d\n", name, l->labels, d->proposal);
    else if (family == HPA_LATENCY_PRESSURE && !isnan(d->pressure))
        gs_buf_addf(out, "%s{%s} %.6g\n", name, l->labels, d->pressure);
    else if (family == HPA_LATENCY_BOUND)
        write_bounds(l, out);
    else if (family == HPA_LATENCY_HOLD)
        gs_buf_addf(out, "%s{%s} %d\n", name, l->labels, d->hold);
}
