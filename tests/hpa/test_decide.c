// SPDX-License-Identifier: Apache-2.0
// Runs the decision tables of tests/hpa/cases: each YAML document is one case, a spec and a
// sequence of observations with the decision that must follow. The form is described in
// cases/README.md.
#include "base/file.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "kube/quantity.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define T0_MS    INT64_C(1700000000000)
#define MAX_PODS 1200

struct test_case {
    char *label; // "file.yaml:12 name"
    json_t *value;
};

// What a step observes; strings are borrowed from the case.
struct scene {
    struct hpa_pod pods[MAX_PODS];
    int64_t requests[MAX_PODS][8];
    char names[MAX_PODS][32];
    struct hpa_metric_observation metrics[8];
    struct hpa_sample *samples[8];
    struct hpa_observation obs;
};

static int64_t milli_of(const json_t *v)
{
    char text[64];
    if (json_is_string(v))
        snprintf(text, sizeof(text), "%s", json_string_value(v));
    else if (json_is_integer(v))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(v));
    else
        snprintf(text, sizeof(text), "%.15g", json_number_value(v));
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(text), &milli);
    if (err)
        fail_msg("quantity %s: %s", text, gs_error_message(err));
    return milli;
}

static int64_t seconds_ms(const json_t *obj, const char *name, double fallback)
{
    const json_t *v = json_object_get(obj, name);
    return (int64_t)((v ? json_number_value(v) : fallback) * 1000);
}

static enum hpa_pod_phase phase_of(const char *text)
{
    static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed", "Unknown"};
    for (size_t i = 0; text && i < GS_ARRAY_LEN(names); i++)
        if (strcmp(text, names[i]) == 0)
            return (enum hpa_pod_phase)i;
    return HPA_POD_RUNNING;
}

static enum hpa_tri tri_of(const json_t *v)
{
    if (json_is_boolean(v))
        return json_is_true(v) ? HPA_TRUE : HPA_FALSE;
    const char *text = json_string_value(v);
    if (!text || strcmp(text, "True") == 0)
        return HPA_TRUE;
    if (strcmp(text, "absent") == 0)
        return HPA_ABSENT;
    return strcmp(text, "False") == 0 ? HPA_FALSE : HPA_TRI_UNKNOWN;
}

static void set_pod(struct scene *s, size_t i, const json_t *in, int64_t now_ms, size_t n_metrics)
{
    struct hpa_pod *pod = &s->pods[i];
    snprintf(s->names[i], sizeof(s->names[i]), "pod-%zu", i);
    *pod = (struct hpa_pod){
        .name = s->names[i],
        .phase = phase_of(gs_json_str(in, "phase", NULL)),
        .deleting = gs_json_bool(in, false, "deleting", NULL),
        .ready = tri_of(json_object_get(in, "ready")),
        .has_start_time = !json_is_null(json_object_get(in, "started")),
    };
    pod->start_time_ms = now_ms + seconds_ms(in, "started", -3600);
    pod->ready_transition_ms = now_ms + seconds_ms(in, "readySince", -3590);
    const json_t *request = json_object_get(in, "request");
    if (!request)
        return;
    for (size_t m = 0; m < n_metrics; m++)
        s->requests[i][m] = json_is_null(request) ? -1 : milli_of(request);
    pod->requests_milli = s->requests[i];
}

static void load_pods(struct scene *s, const json_t *pods, int64_t now_ms, size_t n_metrics)
{
    size_t n = json_is_integer(pods) ? (size_t)json_integer_value(pods) : json_array_size(pods);
    assert_true(n <= MAX_PODS);
    for (size_t i = 0; i < n; i++)
        set_pod(s, i, json_is_integer(pods) ? NULL : json_array_get(pods, i), now_ms, n_metrics);
    s->obs.pods = s->pods;
    s->obs.n_pods = n;
}

// A quantity, or {pod, value, age, window}; null: the pod has no sample.
static void load_samples(struct scene *s, size_t m, const json_t *in, int64_t now_ms)
{
    const json_t *list = json_object_get(in, "samples");
    s->metrics[m].error = gs_json_str(in, "error", NULL);
    s->samples[m] = gs_alloc_array(json_array_size(list) + 1, sizeof(struct hpa_sample));
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_null(v))
            continue;
        struct hpa_sample *sample = &s->samples[m][n++];
        const json_t *value = json_is_object(v) ? json_object_get(v, "value") : v;
        const char *pod = json_is_object(v) ? gs_json_str(v, "pod", NULL) : NULL;
        *sample = (struct hpa_sample){.pod = pod ? pod : s->names[i],
                                      .value = milli_of(value),
                                      .timestamp_ms = now_ms - seconds_ms(v, "age", 0),
                                      .window_ms = seconds_ms(v, "window", 0)};
        if (!pod)
            snprintf(s->names[i], sizeof(s->names[i]), "pod-%zu", i);
    }
    s->metrics[m].samples = s->samples[m];
    s->metrics[m].n_samples = n;
}

static void load_scale(struct scene *s, const json_t *step, int32_t last)
{
    struct hpa_observation *o = &s->obs;
    const json_t *scale = json_object_get(step, "scale");
    o->scale_error = gs_json_str(scale, "error", NULL);
    o->scale_found = !o->scale_error;
    o->spec_replicas = json_is_integer(scale) ? (int32_t)json_integer_value(scale)
                                              : (int32_t)gs_json_int(scale, last, "spec", NULL);
    o->status_replicas = (int32_t)gs_json_int(scale, o->spec_replicas, "status", NULL);
    const char *selector = gs_json_str(scale, "selector", NULL);
    o->selector = selector ? selector : "app=web";
    o->selector_error = gs_json_str(scale, "selectorError", NULL);
    o->ambiguous_with = gs_json_str(scale, "ambiguousWith", NULL);
    o->scaled_to_zero = gs_json_bool(scale, false, "scaledToZero", NULL);
    o->has_scaled_to_zero = json_object_get(scale, "scaledToZero") != NULL;
}

static void scene_finish(struct scene *s)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(s->samples); i++)
        free(s->samples[i]);
    free(s);
}

// --- expectations ---
static const struct hpa_condition *condition(const struct hpa_decision *d, const char *type)
{
    for (size_t i = 0; i < d->n_conditions; i++)
        if (strcmp(d->conditions[i].type, type) == 0)
            return &d->conditions[i];
    return NULL;
}

static void expect_text(const char *at, const char *what, const char *want, const char *got)
{
    if (!got || strcmp(want, got) != 0)
        fail_msg("%s: %s\n  want: %s\n  got:  %s", at, what, want, got ? got : "(none)");
}

static void expect_int(const char *at, const char *what, const json_t *want, int64_t got)
{
    if (want && json_integer_value(want) != got)
        fail_msg("%s: %s: want %lld, got %lld", at, what, (long long)json_integer_value(want),
                 (long long)got);
}

static void check_conditions(const char *at, const json_t *want, const struct hpa_decision *d)
{
    const char *type;
    json_t *v;
    json_object_foreach ((json_t *)want, type, v) {
        const struct hpa_condition *c = condition(d, type);
        char got[1024] = "(none)";
        // "True Reason", or with the message behind ": ".
        bool with_message = json_is_string(v) && strchr(json_string_value(v), ':');
        if (c)
            snprintf(got, sizeof(got), "%s %s%s%s", c->status, c->reason, with_message ? ": " : "",
                     with_message ? c->message : "");
        expect_text(at, type, json_is_null(v) ? "(none)" : json_string_value(v), got);
    }
}

static void check_events(const char *at, const json_t *want, const struct hpa_decision *d)
{
    if (!want)
        return;
    if (json_array_size(want) != d->n_events)
        fail_msg("%s: events: want %zu, got %zu (first: %s)", at, json_array_size(want),
                 d->n_events, d->n_events ? d->events[0].message : "none");
    for (size_t i = 0; i < d->n_events; i++) {
        char got[1024];
        const char *text = json_string_value(json_array_get(want, i));
        snprintf(got, sizeof(got), "%s%s%s", d->events[i].reason, strchr(text, ':') ? ": " : "",
                 strchr(text, ':') ? d->events[i].message : "");
        expect_text(at, "event", text, got);
        assert_true(d->events[i].warning);
    }
}

static void check_quantity(const char *at, const char *what, const json_t *want, bool has,
                           int64_t got)
{
    if (!want)
        return;
    char text[KUBE_QUANTITY_SIZE];
    if (json_is_null(want)) {
        if (has)
            fail_msg("%s: %s: want none, got %s", at, what, kube_quantity_format_milli(got, text));
    } else if (!has || milli_of(want) != got) {
        fail_msg("%s: %s: want %lld milli, got %s", at, what, (long long)milli_of(want),
                 has ? kube_quantity_format_milli(got, text) : "none");
    }
}

static void check_metrics(const char *at, const json_t *want, const struct hpa_decision *d)
{
    if (json_is_null(want) && d->metrics)
        fail_msg("%s: metrics were computed", at);
    for (size_t i = 0; i < json_array_size(want); i++) {
        const json_t *w = json_array_get(want, i);
        assert_true(i < d->n_metrics);
        const struct hpa_metric_result *r = &d->metrics[i];
        const json_t *text = json_object_get(w, "description");
        if (text)
            expect_text(at, "description", json_string_value(text), r->description);
        text = json_object_get(w, "explanation");
        if (text)
            expect_text(at, "metric explanation", json_string_value(text), r->explanation);
        text = json_object_get(w, "ok");
        if (text && json_is_true(text) != r->ok)
            fail_msg("%s: metric %zu: ok is %d", at, i, r->ok);
        expect_int(at, "utilization", json_object_get(w, "utilization"), r->utilization);
        expect_int(at, "metric proposal", json_object_get(w, "proposal"), r->proposal);
        check_quantity(at, "average", json_object_get(w, "average"), r->has_average_value,
                       r->average_value);
        check_quantity(at, "value", json_object_get(w, "value"), r->has_value, r->value);
    }
}

static void check_step(const char *at, const json_t *want, const struct hpa_decision *d)
{
    expect_int(at, "desired", json_object_get(want, "desired"), d->desired);
    expect_int(at, "proposal", json_object_get(want, "proposal"), d->proposal);
    const json_t *text = json_object_get(want, "reason");
    if (text)
        expect_text(at, "reason", json_string_value(text), d->reason);
    text = json_object_get(want, "explanation");
    if (text)
        expect_text(at, "explanation", json_string_value(text), d->explanation);
    const json_t *drop = json_object_get(want, "dropScaledToZero");
    if (drop && json_is_true(drop) != d->drop_scaled_to_zero)
        fail_msg("%s: drop_scaled_to_zero is %d", at, d->drop_scaled_to_zero);
    check_conditions(at, json_object_get(want, "conditions"), d);
    check_events(at, json_object_get(want, "events"), d);
    if (json_object_get(want, "metrics"))
        check_metrics(at, json_object_get(want, "metrics"), d);
    if (d->rescale != (d->desired != d->current))
        fail_msg("%s: rescale is %d for %d -> %d", at, d->rescale, d->current, d->desired);
}

// --- running ---
static json_t *make_object(const json_t *spec)
{
    GS_AUTO_JSON json_t *in =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", "autoscaling/v2", "kind",
                  "HorizontalPodAutoscaler", "metadata", "namespace", "shop", "name", "web", "uid",
                  "u-1", "spec", json_deep_copy(spec));
    gs_json_set(
        in,
        json_pack("{s:s, s:s, s:s}", "apiVersion", "apps/v1", "kind", "Deployment", "name", "web"),
        "spec", "scaleTargetRef", NULL);
    json_t *out = NULL;
    GS_AUTO_ERROR struct gs_error *err = hpa_to_v2(in, &out);
    if (err)
        fail_msg("%s", gs_error_message(err));
    hpa_default(out);
    return out;
}

static struct hpa_config make_config(const json_t *in)
{
    struct hpa_config cfg = hpa_config_default();
    cfg.downscale_window_ms =
        seconds_ms(in, "downscaleWindow", (double)cfg.downscale_window_ms / 1000);
    cfg.cpu_init_period_ms = seconds_ms(in, "cpuInitPeriod", (double)cfg.cpu_init_period_ms / 1000);
    cfg.readiness_delay_ms =
        seconds_ms(in, "readinessDelay", (double)cfg.readiness_delay_ms / 1000);
    cfg.scale_to_zero = gs_json_bool(in, cfg.scale_to_zero, "scaleToZero", NULL);
    const json_t *tolerance = json_object_get(in, "tolerance");
    if (tolerance)
        cfg.tolerance = json_number_value(tolerance);
    return cfg;
}

struct run {
    const struct test_case *test;
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    const json_t *pods, *metrics; // as last given
    int32_t replicas;
};

static void run_pass(struct run *r, const json_t *step, const char *at, int64_t now_ms)
{
    struct scene *s = gs_alloc(sizeof(*s));
    load_scale(s, step, r->replicas);
    load_pods(s, r->pods, now_ms, r->spec.n_metrics);
    for (size_t m = 0; m < r->spec.n_metrics && m < GS_ARRAY_LEN(s->metrics); m++)
        load_samples(s, m, json_array_get(r->metrics, m), now_ms);
    s->obs.metrics = s->metrics;
    struct hpa_decision d;
    hpa_decide(&r->spec, &s->obs, &r->cfg, r->history, now_ms, &d);
    check_step(at, json_object_get(step, "expect"), &d);
    if (d.rescale && gs_json_bool(step, true, "write", NULL)) {
        hpa_history_scaled(r->history, &r->spec, d.current, d.desired, now_ms);
        r->replicas = d.desired;
    } else if (s->obs.scale_found) {
        r->replicas = d.current;
    }
    hpa_decision_finish(&d);
    scene_finish(s);
}

static void run_step(struct run *r, const json_t *step)
{
    double at = json_number_value(json_object_get(step, "at"));
    const json_t *every = json_object_get(step, "every");
    const json_t *until = json_object_get(step, "until");
    if (json_object_get(step, "pods"))
        r->pods = json_object_get(step, "pods");
    if (json_object_get(step, "metrics"))
        r->metrics = json_object_get(step, "metrics");
    do {
        GS_AUTO_FREE char *label = gs_format("%s, at %g s", r->test->label, at);
        run_pass(r, step, label, T0_MS + (int64_t)(at * 1000));
        at += json_number_value(every);
    } while (until && at <= json_number_value(until));
}

static void run_case(void **state)
{
    const struct test_case *test = *state;
    struct run r = {.test = test, .history = hpa_history_new()};
    GS_AUTO_JSON json_t *object = make_object(json_object_get(test->value, "spec"));
    GS_AUTO_ERROR struct gs_error *err = hpa_spec_parse(object, &r.spec);
    if (err)
        fail_msg("%s: %s", test->label, gs_error_message(err));
    r.cfg = make_config(json_object_get(test->value, "config"));
    const json_t *steps = json_object_get(test->value, "steps");
    assert_true(json_array_size(steps) > 0);
    for (size_t i = 0; i < json_array_size(steps); i++)
        run_step(&r, json_array_get(steps, i));
    hpa_spec_finish(&r.spec);
    hpa_history_free(r.history);
}

struct suite {
    struct test_case *cases;
    size_t len, cap;
};

static void load_file(struct suite *suite, const char *dir, const char *file)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, file);
    struct gs_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_yaml_load_file(path, &docs);
    if (err) {
        fprintf(stderr, "%s\n", gs_error_message(err));
        exit(1);
    }
    for (size_t i = 0; i < docs.len; i++) {
        gs_grow(&suite->cases, &suite->cap, suite->len, sizeof(*suite->cases));
        const char *name = gs_json_str(docs.items[i].value, "name", NULL);
        suite->cases[suite->len++] = (struct test_case){
            .label = gs_format("%s:%d %s", file, docs.items[i].line, name ? name : "?"),
            .value = json_incref(docs.items[i].value),
        };
    }
    gs_yaml_docs_finish(&docs);
}

int main(void)
{
    struct suite suite = {0};
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *dir = gs_format("%s/tests/hpa/cases", root ? root : ".");
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (gs_ends(entries[i]->d_name, ".yaml"))
            load_file(&suite, dir, entries[i]->d_name);
        free(entries[i]);
    }
    if (n < 0 || suite.len == 0) {
        fprintf(stderr, "%s: no cases\n", dir);
        return 1;
    }
    free(entries);
    struct CMUnitTest *tests = gs_alloc_array(suite.len, sizeof(*tests));
    for (size_t i = 0; i < suite.len; i++)
        tests[i] = (struct CMUnitTest){
            .name = suite.cases[i].label, .test_func = run_case, .initial_state = &suite.cases[i]};
    int failed = _cmocka_run_group_tests("hpa decisions", tests, suite.len, NULL, NULL);
    for (size_t i = 0; i < suite.len; i++) {
        free(suite.cases[i].label);
        json_decref(suite.cases[i].value);
    }
    free(suite.cases);
    free(tests);
    return failed;
}
