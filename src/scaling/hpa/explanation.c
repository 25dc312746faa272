// SPDX-License-Identifier: Apache-2.0
// The explanation of a decision as JSON: values, pods, thresholds, limits, and where the cluster's
// own controller differs. A pure function of an inspection.
#include "hpa/explanation.h"
#include "hpa/hpa_private.h"
#include "hpa/zero.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "hpa/observe.h"
#include "hpa/release.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/inspect/inspect.h"

#include <math.h>

// A larger difference between two measurements is worth a note.
#define FAR_APART 0.2

static json_t *quantity(int64_t milli)
{
    char text[KUBE_QUANTITY_SIZE];
    return json_string(kube_quantity_format_milli(milli, text));
}

static double seconds(int64_t ms)
{
    return round((double)ms / 100) / 10;
}

static double shown_number(const struct hpa_metric_result *m)
{
    if (m->has_utilization)
        return m->utilization;
    return (double)(m->has_value ? m->value : m->average_value) / 1000;
}

// The value that is compared with the target: "55 %", "average 46", "value 12".
static json_t *shown_value(const struct hpa_metric_result *m)
{
    if (m->has_utilization)
        return codec_json_strf("%d %%", m->utilization);
    return codec_json_strf("%s %.12g", m->has_value ? "value" : "average", shown_number(m));
}

// --- samples ---
static bool has_pods(const struct hpa_metric_spec *m)
{
    return m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE ||
           m->type == HPA_METRIC_PODS;
}

static void add_pod_sample(json_t *out, const struct hpa_sample *s, int64_t now_ms)
{
    json_object_set_new(out, "value", quantity(s->value));
    json_object_set_new(out, "ageSeconds", json_real(seconds(now_ms - s->timestamp_ms)));
    if (s->window_ms > 0)
        json_object_set_new(out, "windowSeconds", json_real(seconds(s->window_ms)));
}

static const struct hpa_sample *sample_of(const struct hpa_metric_observation *o, const char *pod)
{
    for (size_t i = o->n_samples; i-- > 0;) // the last of several samples counts
        if (gs_streq(o->samples[i].pod, pod))
            return &o->samples[i];
    return NULL;
}

static void add_pod_owner(json_t *out, const json_t *pod)
{
    const json_t *ref = kube_controller_ref(pod);
    const char *kind = codec_json_str(ref, "kind", NULL), *name = codec_json_str(ref, "name", NULL);
    if (kind && name)
        json_object_set_new(out, "owner", codec_json_strf("%s/%s", kind, name));
}

static json_t *pods_json(const struct hpa_inspection_result *found, const struct hpa_config *cfg,
                         size_t metric)
{
    size_t n = found->obs->n_pods;
    const struct hpa_metric_observation *o = &found->obs->metrics[metric];
    GS_AUTO_FREE enum hpa_pod_state *states = gs_alloc_array(n + 1, sizeof(*states));
    hpa_pod_states(found->spec, found->obs, cfg, metric, found->now_ms, states);
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct hpa_pod *pod = &found->obs->pods[i];
        const struct hpa_sample *s = sample_of(o, pod->name);
        json_t *p = json_object();
        codec_json_set_str(p, "name", pod->name);
        add_pod_owner(p, found->pods[i]);
        if (s)
            add_pod_sample(p, s, found->now_ms);
        if (pod->requests_milli && pod->requests_milli[metric] >= 0)
            json_object_set_new(p, "request", quantity(pod->requests_milli[metric]));
        codec_json_set_bool(p, "counted", states[i] == HPA_POD_COUNTED);
        codec_json_set_str(p, "how", hpa_pod_state_text(states[i]));
        json_array_append_new(out, p);
    }
    return out;
}

static json_t *series_json(const struct hpa_inspection_result *found, size_t metric)
{
    const struct hpa_metric_observation *o = &found->obs->metrics[metric];
    json_t *out = json_array();
    for (size_t i = 0; i < o->n_samples; i++) {
        json_t *s = json_object();
        add_pod_sample(s, &o->samples[i], found->now_ms);
        json_array_append_new(out, s);
    }
    return out;
}

// --- metrics ---
static void add_threshold(json_t *out, const char *name, const struct hpa_threshold *t)
{
    if (!t->found)
        return;
    json_t *turn = json_object();
    json_object_set_new(turn, "at", shown_value(&t->at));
    codec_json_set_int(turn, "desired", t->desired);
    json_object_set_new(out, name, turn);
}

// Percent, or the number of the quantity.
static json_t *target_json(const struct hpa_metric_spec *m)
{
    const char *type = m->has_utilization     ? "Utilization"
                       : m->has_average_value ? "AverageValue"
                                              : "Value";
    double v = m->has_utilization     ? m->utilization
               : m->has_average_value ? (double)m->average_value / 1000
                                      : (double)m->value / 1000;
    return json_pack("{s:s, s:f}", "type", type, "value", v);
}

static json_t *metric_json(const struct hpa_inspection_result *found, const struct hpa_config *cfg,
                           size_t i, const struct hpa_metric_result *r)
{
    const struct hpa_metric_spec *m = &found->spec->metrics[i];
    struct hpa_threshold below, above;
    json_t *out = json_object();
    codec_json_set_str(out, "type", m->type_text);
    codec_json_set_str(out, "name", m->name);
    codec_json_set_bool(out, "ok", r->ok);
    codec_json_set_str(out, "explanation", r->explanation);
    json_object_set_new(out, "target", target_json(m));
    if (r->ok && !r->fallback && (r->has_value || !hpa_lacks_replicas(m, found->obs))) {
        json_object_set_new(out, "current", shown_value(r));
        json_object_set_new(out, "value", json_real(shown_number(r)));
    }
    if (r->ok) {
        if (isfinite(r->ratio) && !r->fallback)
            json_object_set_new(out, "ratio", json_real(r->ratio));
        codec_json_set_int(out, "proposal", r->proposal);
    }
    if (found->obs->metrics[i].error || r->fallback || hpa_has_extra_value(found->obs, m))
        return out;
    if (has_pods(m))
        json_object_set_new(out, "pods", pods_json(found, cfg, i));
    else
        json_object_set_new(out, "series", series_json(found, i));
    hpa_find_thresholds(found->history, found->spec, found->obs, cfg, i, found->now_ms, &below,
                        &above);
    add_threshold(out, "below", &below);
    add_threshold(out, "above", &above);
    return out;
}

// --- the cluster's own controller ---
static void add_difference(json_t *list, const char *fmt, ...) GS_PRINTF(2, 3);
static void add_difference(json_t *list, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    json_array_append_new(list, json_string(text));
}

static void compare_condition(const json_t *object, const struct hpa_decision *d, const char *type,
                              json_t *list)
{
    const json_t *theirs = kube_condition(object, type);
    const struct hpa_condition *ours = hpa_decision_condition(d, type);
    const char *status = codec_json_str(theirs, "status", NULL),
               *reason = codec_json_str(theirs, "reason", NULL);
    if (!ours || !status || !reason ||
        (gs_streq(ours->status, status) && gs_streq(ours->reason, reason)))
        return;
    add_difference(list, "%s: the cluster says %s %s, this explanation %s %s", type, status, reason,
                   ours->status, ours->reason);
}

static bool is_held(const json_t *object)
{
    const char *reason = codec_json_str(kube_condition(object, "AbleToScale"), "reason", NULL);
    return gs_streq(reason, "ScaleDownStabilized") || gs_streq(reason, "ScaleUpStabilized");
}

static void compare_counts(const json_t *object, const struct hpa_decision *d, bool remembers,
                           json_t *list)
{
    int64_t desired = codec_json_int(object, 0, "status", "desiredReplicas", NULL);
    int64_t current = codec_json_int(object, 0, "status", "currentReplicas", NULL);
    if (d->outcome == HPA_OUTCOME_NO_SCALE)
        return;
    if (current != d->current)
        add_difference(list,
                       "its status was calculated for %lld replica%s, and the target now has %d",
                       (long long)current, current == 1 ? "" : "s", d->current);
    if (desired != d->desired && d->outcome != HPA_OUTCOME_NO_COUNT)
        add_difference(list, "desired: the cluster says %lld, this explanation %d%s",
                       (long long)desired, d->desired,
                       is_held(object) && !remembers
                           ? "; an earlier recommendation of its stabilisation window holds it, "
                             "which cannot be read from outside"
                           : "");
}

// The value in the cluster's status, in the unit of the result. NAN: absent.
static double cluster_value(const json_t *object, size_t i, const struct hpa_metric_result *r)
{
    const json_t *entry =
        json_array_get(codec_json_get(object, "status", "currentMetrics", NULL), i);
    const char *key;
    json_t *source;
    json_object_foreach ((json_t *)entry, key, source) {
        const json_t *current = json_object_get(source, "current");
        const json_t *percent = json_object_get(current, "averageUtilization");
        if (r->has_utilization)
            return json_is_integer(percent) ? (double)json_integer_value(percent) : NAN;
        const char *text = codec_json_str(current, r->has_value ? "value" : "averageValue", NULL);
        int64_t milli = 0;
        GS_AUTO_ERROR struct gs_error *err =
            text ? kube_quantity_parse_milli(gs_slice_of(text), &milli) : NULL;
        if (text && !err)
            return (double)milli;
    }
    return NAN;
}

static void compare_metric(const struct hpa_inspection_result *found, const struct hpa_decision *d,
                           size_t i, json_t *list)
{
    const struct hpa_metric_result *r = &d->metrics[i];
    const char *name = found->spec->metrics[i].name;
    if (r->fallback)
        return; // it has no value
    if (r->ok && !r->has_value && hpa_lacks_replicas(&found->spec->metrics[i], found->obs))
        return; // what a status then shows depends on the release
    double theirs = cluster_value(found->spec->object, i, r);
    double ours = r->has_utilization ? (double)r->utilization
                  : r->has_value     ? (double)r->value
                                     : (double)r->average_value;
    double scale = fmax(fabs(theirs), fabs(ours));
    if (!r->ok && !isnan(theirs))
        add_difference(list, "%s: the cluster shows a value, this explanation has none", name);
    else if (r->ok && isnan(theirs))
        add_difference(list, "%s: the cluster shows no value", name);
    else if (r->ok && fabs(theirs - ours) > FAR_APART * scale)
        add_difference(list, "%s: the cluster's last value is %.4g, now it is %.4g", name,
                       r->has_utilization ? theirs : theirs / 1000,
                       r->has_utilization ? ours : ours / 1000);
}

static json_t *cluster_json(const struct hpa_inspection_result *found, const struct hpa_decision *d)
{
    const json_t *object = found->spec->object;
    json_t *out = json_object(), *list = json_array();
    bool silent = !json_array_size(codec_json_get(object, "status", "conditions", NULL));
    json_object_set_new(out, "differences", list);
    codec_json_set_int(out, "currentReplicas",
                       codec_json_int(object, 0, "status", "currentReplicas", NULL));
    codec_json_set_int(out, "desiredReplicas",
                       codec_json_int(object, 0, "status", "desiredReplicas", NULL));
    if (silent) {
        add_difference(list, "no controller has written a status yet");
        return out;
    }
    compare_counts(object, d, found->history != NULL, list);
    compare_condition(object, d, "ScalingActive", list);
    // The value that a window keeps differs from the value that is limited here.
    if (found->history || !is_held(object))
        compare_condition(object, d, "ScalingLimited", list);
    for (size_t i = 0; i < d->n_metrics; i++)
        compare_metric(found, d, i, list);
    return out;
}

// --- explanation ---
static json_t *conditions_json(const struct hpa_decision *d)
{
    json_t *out = json_array();
    for (size_t i = 0; i < d->n_conditions; i++)
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:s}", "type", d->conditions[i].type,
                                             "status", d->conditions[i].status, "reason",
                                             d->conditions[i].reason, "message",
                                             d->conditions[i].message));
    return out;
}

static void add_counts(json_t *out, const struct hpa_inspection_result *found,
                       const struct hpa_decision *d)
{
    const struct hpa_spec *spec = found->spec;
    json_t *counts = json_object();
    if (found->obs->scale_found) {
        codec_json_set_int(counts, "current", d->current);
        codec_json_set_int(counts, "running", found->obs->status_replicas);
        codec_json_set_int(counts, "desired", d->desired);
    }
    if (d->proposal >= 0)
        codec_json_set_int(counts, "proposal", d->proposal);
    codec_json_set_int(counts, "min", spec->has_min ? spec->min_replicas : 1);
    codec_json_set_int(counts, "max", spec->max_replicas);
    json_object_set_new(out, "replicas", counts);
}

// --- limits ---

static json_t *rules_json(const struct hpa_spec *spec, const struct hpa_config *cfg, bool up)
{
    const struct hpa_rules *rules = up ? &spec->up : &spec->down;
    static const char *const selects[] = {
        [HPA_SELECT_MAX] = "Max", [HPA_SELECT_MIN] = "Min", [HPA_SELECT_DISABLED] = "Disabled"};
    int64_t window = up ? 0 : cfg->downscale_window_ms / 1000;
    json_t *out = json_object(), *policies = json_array();
    bool own = rules->has_tolerance && hpa_since(cfg->release, HPA_SINCE_OWN_TOLERANCE);
    json_object_set_new(out, "tolerance", json_real(own ? rules->tolerance : cfg->tolerance));
    if (spec->has_behavior && rules->window_seconds >= 0)
        window = rules->window_seconds;
    codec_json_set_int(out, "windowSeconds", window);
    if (!spec->has_behavior) {
        json_decref(policies);
        return out;
    }
    codec_json_set_str(out, "selectPolicy", selects[rules->select]);
    json_object_set_new(out, "policies", policies);
    for (size_t i = 0; i < rules->n_policies; i++)
        json_array_append_new(policies,
                              json_pack("{s:s, s:i, s:i}", "type",
                                        rules->policies[i].percent ? "Percent" : "Pods", "value",
                                        (int)rules->policies[i].value, "periodSeconds",
                                        (int)rules->policies[i].period_seconds));
    return out;
}

// The rules that limit changes, and the counts that one sync may reach now.
static json_t *limits_json(const struct hpa_inspection_result *found, const struct hpa_config *cfg)
{
    const struct hpa_reach reach =
        hpa_reach_now(found->history, found->spec, found->obs, cfg, found->now_ms);
    json_t *up = rules_json(found->spec, cfg, true), *down = rules_json(found->spec, cfg, false);
    if (found->obs->scale_found) {
        codec_json_set_int(up, "most", reach.most);
        codec_json_set_int(down, "least", reach.least);
    }
    return json_pack("{s:o, s:o}", "scaleUp", up, "scaleDown", down);
}

// --- GPUs ---

// By the extended resources of the pods, of which the largest number counts. Slices count as GPUs.
static int64_t gpus_per_pod(const struct hpa_inspection_result *found)
{
    int64_t most = 0;
    for (size_t i = 0; i < found->obs->n_pods; i++) {
        int64_t n = hpa_gpus_of_pod(found->pods[i]);
        most = n > most ? n : most;
    }
    return most;
}

// --- the latency target ---

// The controller keeps what the decision needs, so nothing is decided without it.
static json_t *latency_json(const struct hpa_inspection_result *found)
{
    const char *annotation = kube_annotation(found->spec->object, HPA_LATENCY_ANNOTATION);
    if (found->latency)
        return json_incref((json_t *)(uintptr_t)found->latency);
    if (!annotation)
        return NULL;
    const char *why = found->history_error ? found->history_error
                      : found->history     ? "it has not evaluated the object yet"
                                           : "its history was not requested";
    json_t *out = json_object();
    codec_json_set_str(out, "annotation", annotation);
    codec_json_set_bool(out, "applied", false);
    json_object_set_new(out, "error",
                        codec_json_strf("only the controller of gpuscale decides "
                                        "about a latency target: %s",
                                        why));
    return out;
}

// The controller applied it to its own decision, which the history explains.
static void apply_budget(const json_t *budget, struct hpa_decision *d)
{
    const char *text = codec_json_str(budget, "text", NULL);
    int64_t replicas = codec_json_int(budget, -1, "replicas", NULL);
    if (codec_json_bool(budget, false, "applied", NULL) && text && replicas >= 0 &&
        replicas <= INT32_MAX)
        hpa_decision_cap(d, (int32_t)replicas, text);
}

json_t *hpa_explanation_json(const struct hpa_inspection_result *found,
                             const struct hpa_config *cfg)
{
    const struct hpa_spec *spec = found->spec;
    struct hpa_decision d;
    char at[GS_RFC3339_SIZE];
    hpa_decide_with(found->history, spec, found->obs, cfg, found->now_ms, &d);
    apply_budget(found->budget, &d);
    json_t *out = json_object(), *metrics = json_array();
    codec_json_set_str(out, "namespace", spec->ns);
    codec_json_set_str(out, "name", spec->name);
    json_object_set_new(out, "target",
                        codec_json_strf("%s/%s", spec->target_kind, spec->target_name));
    codec_json_set_str(out, "time", gs_format_rfc3339(found->now_ms, at));
    add_counts(out, found, &d);
    codec_json_set_str(out, "reason", d.reason);
    codec_json_set_str(out, "held", d.explanation ? d.explanation : "");
    json_object_set_new(out, "metrics", metrics);
    for (size_t i = 0; i < d.n_metrics; i++)
        json_array_append_new(metrics, metric_json(found, cfg, i, &d.metrics[i]));
    json_object_set_new(out, "limits", limits_json(found, cfg));
    json_object_set_new(out, "conditions", conditions_json(&d));
    json_object_set(out, "spec", json_object_get(spec->object, "spec"));
    codec_json_set_int(out, "gpusPerReplica", gpus_per_pod(found));
    if (found->history)
        json_object_set_new(out, "memory", hpa_history_json(found->history, found->now_ms));
    json_object_set_new(out, "cluster", cluster_json(found, &d));
    json_t *latency = latency_json(found), *fallback = hpa_fallback_json(spec, &d);
    if (latency)
        json_object_set_new(out, "slo", latency);
    json_t *zero = hpa_zero_json(found, cfg);
    if (zero)
        json_object_set_new(out, "zero", zero);
    if (fallback)
        json_object_set_new(out, "fallback", fallback);
    if (found->budget)
        json_object_set(out, "budget", (json_t *)(uintptr_t)found->budget);
    json_t *startup = found->startup ? json_incref((json_t *)(uintptr_t)found->startup)
                                     : inspect_startup(found->pods, found->obs->n_pods);
    if (startup)
        json_object_set_new(out, "startup", startup);
    hpa_decision_finish(&d);
    return out;
}
