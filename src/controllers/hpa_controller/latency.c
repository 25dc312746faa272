// SPDX-License-Identifier: Apache-2.0
// Joins the parts of a latency decision: the annotation, the pods of the target, and the samples of
// their engines become an observation of slo_decide(), whose proposal enters hpa_decide().
#include "hpa_controller/latency.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "kube/names.h"
#include "kube/object.h"
#include "startup/startup.h"

#include <math.h>

struct hpa_latency {
    char *annotation; // NULL: none
    char *invalid;    // why it is wrong; NULL: it is valid
    struct slo_policy policy;
    struct slo_state *state;
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
    slo_state_free(GS_TAKE(l->state));
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
    struct slo_state *state = text ? GS_TAKE(l->state) : NULL;
    forget(l);
    if (!text)
        return NULL;
    l->annotation = gs_strdup(text);
    l->state = state ? state : slo_state_new();
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
    struct slo_state *moved = NULL;
    if (!l->state)
        return;
    CODEC_AUTO_JSON json_t *json = slo_state_json(l->state, now_ms - ms);
    GS_AUTO_ERROR struct gs_error *err = slo_state_from_json(json, now_ms, &moved);
    slo_state_free(l->state);
    l->state = err ? slo_state_new() : moved;
    l->decided_ms += ms;
}

// --- pods ---

static int64_t time_of(const char *text)
{
    int64_t ms = 0;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_rfc3339(gs_slice_of(text), &ms) : NULL;
    return err ? 0 : ms;
}

static bool is_candidate(const struct hpa_latency_input *in, const json_t *pod)
{
    const char *phase = codec_json_str(pod, "status", "phase", NULL);
    return kube_name(pod) && gs_streq(kube_namespace(pod), in->spec->ns) &&
           !kube_is_deleting(pod) && !gs_streq(phase, "Succeeded") && !gs_streq(phase, "Failed") &&
           kube_selector_matches(in->selector, codec_json_get(pod, "metadata", "labels", NULL));
}

static struct slo_pod pod_of(const json_t *object, int64_t now_ms)
{
    const json_t *ready = kube_condition(object, "Ready");
    int64_t created = time_of(codec_json_str(object, "metadata", "creationTimestamp", NULL));
    struct slo_pod pod = {.name = kube_name(object), .phase = SLO_POD_STARTING};
    pod.since_ms = created;
    if (kube_condition_true(object, "Ready")) {
        pod.phase = SLO_POD_READY;
        pod.since_ms = time_of(codec_json_str(ready, "lastTransitionTime", NULL));
    } else if (now_ms - created > STARTUP_DEFAULT_MS) {
        pod.phase = SLO_POD_LATE;
    } else {
        pod.expected_ms = created + STARTUP_DEFAULT_MS;
    }
    return pod;
}

// In the arena. NULL: over a limit.
static struct slo_pod *read_pods(const struct hpa_latency_input *in, struct gs_arena *arena,
                                 size_t *ret_n)
{
    size_t n = 0, at = 0, pos = 0;
    const json_t *pod;
    while (in->selector && (pod = kube_cache_next(in->pods, &pos)))
        n += is_candidate(in, pod);
    if (n > SLO_MAX_PODS)
        return NULL;
    struct slo_pod *out = gs_arena_alloc(arena, (n + 1) * sizeof(*out));
    pos = 0;
    while (out && n && (pod = kube_cache_next(in->pods, &pos)))
        if (is_candidate(in, pod))
            out[at++] = pod_of(pod, in->now_ms);
    *ret_n = n;
    return out;
}

// --- the decision ---

static void add_signals(const struct hpa_signals *signals, struct slo_reading *reading)
{
    for (size_t i = 0; i < signals->n; i++) {
        const struct hpa_signal *s = &signals->items[i];
        slo_reading_add(reading, s->name, s->pod, s->le, s->role, s->value, s->t_ms);
    }
}

static void decide(struct hpa_latency *l, const struct hpa_latency_input *in, struct slo_pod *pods,
                   size_t n)
{
    GS_CLEANUP(slo_reading_freep)
    struct slo_reading *reading = slo_reading_new(&l->policy, pods, n);
    struct slo_observation obs = {.pods = pods,
                                  .n_pods = n,
                                  .replicas = in->replicas,
                                  .min = in->spec->has_min ? in->spec->min_replicas : 1,
                                  .max = in->spec->max_replicas};
    if (in->signals) {
        add_signals(in->signals, reading);
        l->interval_ms = in->signals->interval_ms ? in->signals->interval_ms : l->interval_ms;
    }
    obs.role = slo_reading_end(reading);
    obs.scrape_ms = l->interval_ms;
    slo_decide(&l->policy, &obs, l->state, in->now_ms, false, &l->decision);
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

const struct hpa_extra *hpa_latency_decide(struct hpa_latency *l,
                                           const struct hpa_latency_input *in)
{
    struct gs_arena arena = {0};
    size_t n = 0;
    const char *error = l->invalid ? l->invalid : in->error;
    if (!l->annotation)
        return NULL;
    forget_decision(l);
    l->decided = true;
    l->decided_ms = in->now_ms;
    l->labels = labels_of(in->spec);
    if (!error && in->signals)
        error = in->signals->error;
    struct slo_pod *pods = error ? NULL : read_pods(in, &arena, &n);
    if (!error && !pods)
        error = "too many pods";
    if (error)
        return fail(l, error);
    decide(l, in, pods, n);
    gs_arena_finish(&arena);
    l->extra = (struct hpa_extra){.replicas = l->decision.proposal,
                                  .applied = !l->policy.shadow,
                                  .held = l->decision.hold,
                                  .name = HPA_LATENCY_NAME,
                                  .explanation = l->decision.explanation};
    return &l->extra;
}

// --- JSON ---

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
                       struct gs_buf *out)
{
    const struct slo_decision *d = &l->decision;
    const char *name = families[family].name;
    if (!l->decided || l->error)
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
