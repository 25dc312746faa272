// SPDX-License-Identifier: Apache-2.0
// Zero replicas as pure functions: the annotation, its effect on a decision, and the explanation of
// a target without replicas. Kubernetes records in the condition ScaledToZero when its autoscaler,
// and not a user, has set zero; before 1.36 that is unknown.
#include "hpa/zero.h"
#include "hpa/hpa_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "kube/object.h"

#define LEAST_AFTER_MS (INT64_C(10) * 1000)
#define MOST_AFTER_MS  (INT64_C(24) * 3600 * 1000)

// --- the annotation ---

struct gs_error *hpa_zero_after(const json_t *object, int64_t *ret_ms)
{
    const char *text = kube_annotation(object, HPA_ZERO_AFTER_ANNOTATION);
    int64_t ns = 0;
    *ret_ms = 0;
    if (!text)
        return NULL;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    int64_t ms = ns / GS_NS_PER_MS;
    if (err || ms < LEAST_AFTER_MS || ms > MOST_AFTER_MS)
        return gs_error_new(GS_EINVAL,
                            "annotation " HPA_ZERO_AFTER_ANNOTATION ": \"%s\": want a duration "
                            "from 10s to 24h",
                            text);
    *ret_ms = ms;
    return NULL;
}

// --- the decision ---

int32_t hpa_hold_zero(struct hpa_evaluation *p, int32_t desired)
{
    const struct hpa_zero_check *zero = p->obs->zero;
    if (desired > 0 || p->out->current == 0 || !zero || !zero->held)
        return desired;
    hpa_set_decision_condition(p->out, HPA_SCALING_LIMITED, "True", "InUse",
                               "the last replica remains: %s", zero->text);
    hpa_explain(p, "the last replica remains: %s", zero->text);
    return 1;
}

bool hpa_zero_check_from_json(const json_t *zero, struct hpa_zero_check *ret)
{
    const json_t *check = json_object_get(zero, "check");
    const char *text = codec_json_str(check, "text", NULL);
    if (!text)
        return false;
    *ret =
        (struct hpa_zero_check){.held = codec_json_bool(check, true, "held", NULL), .text = text};
    return true;
}

// --- the explanation ---

static bool is_request_metric(const struct hpa_metric_spec *m)
{
    return m->name &&
           (gs_starts(m->name, "gpuscale_activator_") || gs_starts(m->name, "gpuscale_inference_"));
}

static bool reads_requests_only(const struct hpa_spec *spec)
{
    for (size_t i = 0; i < spec->n_metrics; i++)
        if (!is_request_metric(&spec->metrics[i]))
            return false;
    return spec->n_metrics > 0;
}

// For how long all recommendations were zero before the target was scaled.
static int64_t window_ms(const struct hpa_spec *spec, const struct hpa_config *cfg)
{
    return spec->has_behavior && spec->down.window_seconds >= 0
               ? (int64_t)spec->down.window_seconds * 1000
               : cfg->downscale_window_ms;
}

static char *reason_of(const struct hpa_inspection_result *found, const struct hpa_config *cfg)
{
    const char *noted = codec_json_str(found->zero, "reason", NULL);
    int64_t ms = window_ms(found->spec, cfg);
    const char *what = reads_requests_only(found->spec) ? "no request" : "no work in any metric";
    char text[GS_RFC3339_SIZE];
    if (noted)
        return gs_strdup(noted);
    return ms > 0 ? gs_format("%s for %s", what, gs_format_units(ms * GS_NS_PER_MS, text))
                  : gs_strdup(what);
}

static void add_since(json_t *out, const struct hpa_inspection_result *found,
                      const struct hpa_config *cfg)
{
    const json_t *condition = kube_condition(found->spec->object, "ScaledToZero");
    json_t *since = json_object_get(condition, "lastTransitionTime");
    int64_t since_ms = kube_time_ms(since, 0);
    if (!found->obs->scale_found || found->obs->spec_replicas != 0 ||
        !kube_condition_true(found->spec->object, "ScaledToZero"))
        return;
    GS_AUTO_FREE char *reason = reason_of(found, cfg);
    codec_json_set_str(out, "reason", reason);
    if (!since_ms)
        return;
    json_object_set(out, "since", since);
    codec_json_set_int(out, "seconds",
                       found->now_ms > since_ms ? (found->now_ms - since_ms) / 1000 : 0);
}

json_t *hpa_zero_json(const struct hpa_inspection_result *found, const struct hpa_config *cfg)
{
    static const char *const of_controller[] = {"check", "wakes"};
    if (!found->spec->has_min || found->spec->min_replicas != 0)
        return NULL;
    json_t *out = json_object();
    add_since(out, found, cfg);
    for (size_t i = 0; i < GS_ARRAY_LEN(of_controller); i++) {
        json_t *part = json_object_get(found->zero, of_controller[i]);
        if (part)
            json_object_set(out, of_controller[i], part);
    }
    return out;
}

static void add_phases(const json_t *phases, struct gs_buf *out)
{
    const char *before = " (";
    for (int p = 0; p < STARTUP_PHASES; p++) {
        const char *name = startup_phase_name((enum startup_phase)p);
        double s = json_number_value(json_object_get(phases, name));
        if (!(s >= 0.05))
            continue;
        gs_buf_addf(out, "%s%s %.1fs", before, name, s);
        before = ", ";
    }
    if (*before == ',')
        gs_buf_add_char(out, ')');
}

static void add_last_wake(const json_t *wakes, struct gs_buf *out)
{
    const json_t *wake = json_array_get(wakes, 0);
    const json_t *ready = json_object_get(wake, "readySeconds");
    const char *failed = codec_json_str(wake, "failed", NULL);
    const char *time = codec_json_str(wake, "time", NULL);
    if (!wake)
        return;
    gs_buf_addf(out, "The last start from zero: %s, ", time ? time : "");
    if (ready) {
        gs_buf_addf(out, "ready after %.1fs", json_number_value(ready));
        add_phases(json_object_get(wake, "phases"), out);
    } else {
        gs_buf_add_str(out, failed ? failed : "no pod is ready yet");
    }
    gs_buf_add_str(out, ".\n");
}

void hpa_zero_text(const json_t *zero, struct gs_buf *out)
{
    const char *since = codec_json_str(zero, "since", NULL);
    const char *reason = codec_json_str(zero, "reason", NULL);
    const char *check = codec_json_str(zero, "check", "text", NULL);
    char age[GS_RFC3339_SIZE];
    if (since)
        gs_buf_addf(out, "At zero since %s (%s): %s.\n", since,
                    gs_format_units(codec_json_int(zero, 0, "seconds", NULL) * GS_NS_PER_SEC, age),
                    reason ? reason : "");
    else if (reason)
        gs_buf_addf(out, "At zero: %s.\n", reason);
    else if (check && !codec_json_bool(zero, false, "check", "held", NULL))
        gs_buf_addf(out, "The last replica may end: %s.\n", check); // else the result has it
    add_last_wake(json_object_get(zero, "wakes"), out);
}
