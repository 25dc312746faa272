// SPDX-License-Identifier: Apache-2.0
// The check before zero, and the starts from zero. A start begins with the evaluation that finds or
// sets replicas above zero, and ends with the first pod that serves; the learner of starts knows
// its phases.
#include "hpa_controller/zero.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "hpa/zero.h"
#include "kube/object.h"

#include <string.h>

struct wake {
    int64_t since_ms, begun_ms, ready_ms; // since, ready 0: unknown
    char *reason;
    bool failed; // zero again before a pod served
    struct startup_start start;
    bool has_start;
};

struct hpa_zero {
    // the last check
    char *after, *text; // NULL: none
    struct hpa_zero_check check;
    // replicas
    bool seen;
    int32_t replicas;
    int64_t zero_ms; // when they became zero; 0: unknown
    char *reason;    // of that; NULL: another controller
    struct wake wakes[HPA_ZERO_WAKES];
    size_t n_wakes; // the newest is the last
};

struct hpa_zero *hpa_zero_new(void)
{
    return gs_alloc(sizeof(struct hpa_zero));
}

void hpa_zero_free(struct hpa_zero *z)
{
    if (!z)
        return;
    for (size_t i = 0; i < z->n_wakes; i++)
        free(z->wakes[i].reason);
    free(z->after);
    free(z->text);
    free(z->reason);
    free(z);
}

void hpa_zero_shift(struct hpa_zero *z, int64_t ms)
{
    struct wake *last = z->n_wakes ? &z->wakes[z->n_wakes - 1] : NULL;
    if (z->zero_ms)
        z->zero_ms += ms;
    if (last && !last->ready_ms)
        last->begun_ms += ms;
}

// --- the check ---

bool hpa_zero_wanted(const struct hpa_spec *spec, int32_t replicas)
{
    return spec->zero_after_ms && spec->has_min && spec->min_replicas == 0 && replicas == 1;
}

static void add_services(const struct hpa_spec *spec, const char **names,
                         struct hpa_zero_query *ret)
{
    for (size_t i = 0; i < spec->n_metrics && ret->n_services < HPA_ZERO_MAX_SERVICES; i++) {
        const struct hpa_metric_spec *m = &spec->metrics[i];
        const char *name = NULL;
        if (m->type == HPA_METRIC_OBJECT && gs_streq(m->object_kind, "Service"))
            name = m->object_name;
        else if (m->type == HPA_METRIC_EXTERNAL)
            name = codec_json_str(m->selector, "matchLabels", "service", NULL);
        if (name)
            names[ret->n_services++] = name;
    }
    ret->services = names;
}

static void add_pods(const struct kube_cache *pods, const struct kube_selector *selector,
                     const char **names, struct hpa_zero_query *ret)
{
    const json_t *pod;
    size_t pos = 0;
    while (selector && ret->n_pods < HPA_ZERO_MAX_PODS &&
           (pod = kube_cache_select(pods, ret->ns, selector, &pos)))
        if (!kube_is_deleting(pod))
            names[ret->n_pods++] = kube_name(pod);
    ret->pods = names;
}

void hpa_zero_query_of(const struct hpa_spec *spec, const struct kube_cache *pods,
                       const struct kube_selector *selector, struct gs_arena *arena,
                       struct hpa_zero_query *ret)
{
    *ret = (struct hpa_zero_query){.ns = spec->ns, .after_ms = spec->zero_after_ms};
    add_services(spec, gs_arena_alloc(arena, HPA_ZERO_MAX_SERVICES * sizeof(char *)), ret);
    add_pods(pods, selector, gs_arena_alloc(arena, HPA_ZERO_MAX_PODS * sizeof(char *)), ret);
}

static void set_check(struct hpa_zero *z, bool held, const char *text)
{
    free(z->text);
    z->text = gs_strdup(text);
    z->check = (struct hpa_zero_check){.held = held, .text = z->text};
}

static bool has_check(const struct hpa_spec *spec)
{
    return (spec->zero_after_ms || spec->zero_after_wrong) && spec->has_min &&
           spec->min_replicas == 0;
}

const struct hpa_zero_check *hpa_zero_checked(struct hpa_zero *z, const struct hpa_spec *spec,
                                              int32_t replicas, const struct hpa_zero_fetch *fetch,
                                              const char *error)
{
    char after[GS_RFC3339_SIZE];
    bool held = true;
    free(GS_TAKE(z->after));
    if (!has_check(spec)) {
        free(GS_TAKE(z->text));
        return NULL;
    }
    if (spec->zero_after_wrong) {
        set_check(z, true,
                  "the annotation " HPA_ZERO_AFTER_ANNOTATION " is no duration from 10s to 24h");
        return &z->check;
    }
    z->after = gs_strdup(gs_format_units(spec->zero_after_ms * GS_NS_PER_MS, after));
    if (replicas == 0)
        return z->text ? &z->check : NULL;
    const char *text = fetch          ? hpa_zero_fetch_text(fetch, &held)
                       : error        ? error
                       : replicas > 1 ? "it is checked when it is the only one"
                                      : "no pod exists";
    if (!fetch && !error && replicas == 1)
        held = false;
    set_check(z, held, text);
    return &z->check;
}

// --- replicas ---

static struct wake *add_wake(struct hpa_zero *z)
{
    if (z->n_wakes == HPA_ZERO_WAKES) {
        free(z->wakes[0].reason);
        memmove(z->wakes, z->wakes + 1, (HPA_ZERO_WAKES - 1) * sizeof(z->wakes[0]));
        z->n_wakes--;
    }
    struct wake *w = &z->wakes[z->n_wakes++];
    *w = (struct wake){0};
    return w;
}

// The start that has not ended; NULL: none.
static struct wake *open_wake(struct hpa_zero *z)
{
    struct wake *last = z->n_wakes ? &z->wakes[z->n_wakes - 1] : NULL;
    return last && !last->ready_ms && !last->failed ? last : NULL;
}

static void note_zero(struct hpa_zero *z, bool ours, int64_t now_ms)
{
    struct wake *open = open_wake(z);
    if (open)
        open->failed = true;
    z->zero_ms = now_ms;
    free(GS_TAKE(z->reason));
    if (ours && z->text && !z->check.held)
        z->reason = gs_strdup(z->text);
}

// A restarted controller reads it from the object.
static int64_t zero_since(const struct hpa_zero *z, const struct hpa_spec *spec)
{
    const json_t *condition = kube_condition(spec->object, "ScaledToZero");
    bool zero = kube_condition_true(spec->object, "ScaledToZero");
    return z->zero_ms ? z->zero_ms
           : zero     ? kube_time_ms(json_object_get(condition, "lastTransitionTime"), 0)
                      : 0;
}

static void note_wake(struct hpa_zero *z, const struct hpa_spec *spec, const char *reason,
                      int64_t now_ms)
{
    struct wake *w = add_wake(z);
    w->since_ms = zero_since(z, spec);
    w->begun_ms = now_ms;
    w->reason = gs_strdup(reason);
}

// Created since the start, with a second for the clocks: times of objects are whole seconds.
static bool is_of(const struct wake *w, const struct hpa_start *s)
{
    return s->progress.state == STARTUP_READY && s->progress.created_ms >= w->begun_ms - 2000;
}

static void note_ready(struct wake *w, const struct hpa_spec *spec, const struct hpa_starts *starts,
                       const struct kube_selector *selector, int64_t now_ms)
{
    struct gs_arena arena = {0};
    const struct hpa_start *first = NULL;
    size_t n = 0;
    const struct hpa_start *all = hpa_starts_pods(starts, spec->ns, selector, now_ms, &arena, &n);
    for (size_t i = 0; i < n; i++)
        if (is_of(w, &all[i]) && (!first || all[i].progress.ready_ms < first->progress.ready_ms))
            first = &all[i];
    if (first) {
        w->ready_ms = first->progress.ready_ms;
        w->has_start = startup_start_of(hpa_starts_learner(starts), first->pod, &w->start);
    }
    gs_arena_finish(&arena);
}

void hpa_zero_observe(struct hpa_zero *z, const struct hpa_spec *spec, const struct hpa_decision *d,
                      const struct hpa_starts *starts, const struct kube_selector *selector,
                      int64_t now_ms)
{
    bool written = d->rescale && d->write == HPA_WRITE_DONE;
    int32_t now = written ? d->desired : d->current, before = z->seen ? z->replicas : d->current;
    if (d->outcome == HPA_OUTCOME_NO_SCALE)
        return;
    if (before != 0 && now == 0)
        note_zero(z, written, now_ms);
    else if (before == 0 && now != 0)
        note_wake(z, spec, written ? d->reason : "another controller or a user has scaled it",
                  now_ms);
    z->seen = true;
    z->replicas = now;
    struct wake *open = open_wake(z);
    if (open)
        note_ready(open, spec, starts, selector, now_ms);
}

// --- JSON ---

static void set_time(json_t *out, const char *name, int64_t ms)
{
    char text[GS_RFC3339_SIZE];
    if (ms)
        codec_json_set_str(out, name, gs_format_rfc3339(ms, text));
}

static json_t *seconds(int64_t ms)
{
    return json_real((double)(ms > 0 ? ms : 0) / 1000);
}

static void add_start(json_t *out, const struct startup_start *s)
{
    GS_AUTO_BUF struct gs_buf path = {0};
    json_t *phases = json_object();
    startup_path_text(s->path, &path);
    codec_json_set_str(out, "path", path.data);
    for (int p = 0; p < STARTUP_PHASES; p++)
        if (s->ms[p] >= 0)
            json_object_set_new(phases, startup_phase_name((enum startup_phase)p),
                                seconds(s->ms[p]));
    json_object_set_new(out, "phases", phases);
}

static json_t *wake_json(const struct wake *w)
{
    json_t *out = json_object();
    set_time(out, "since", w->since_ms);
    set_time(out, "time", w->begun_ms);
    codec_json_set_str(out, "reason", w->reason);
    if (w->ready_ms)
        json_object_set_new(out, "readySeconds", seconds(w->ready_ms - w->begun_ms));
    if (w->has_start)
        add_start(out, &w->start);
    if (w->failed)
        codec_json_set_str(out, "failed", "zero again before a pod was ready");
    return out;
}

json_t *hpa_zero_history_json(const struct hpa_zero *z)
{
    json_t *out = json_object(), *wakes = json_array();
    if (z->reason)
        codec_json_set_str(out, "reason", z->reason);
    if (z->after && z->text)
        json_object_set_new(out, "check",
                            json_pack("{s:s, s:b, s:s}", "after", z->after, "held", z->check.held,
                                      "text", z->text));
    for (size_t i = z->n_wakes; i-- > 0;)
        json_array_append_new(wakes, wake_json(&z->wakes[i]));
    if (json_array_size(wakes))
        json_object_set(out, "wakes", wakes);
    json_decref(wakes);
    if (json_object_size(out))
        return out;
    json_decref(out);
    return NULL;
}
