// SPDX-License-Identifier: Apache-2.0
#include "replay/decisions.h"

#include "base/mem.h"
#include "codec/yaml.h"
#include "hpa/convert.h"
#include "kube/quantity.h"
#include "kube/status.h"
#include "replay/rows.h"
#include "replay/scene.h"
#include "tsdb/matcher.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define T0_MS      INT64_C(1700000000000)
#define MAX_PASSES ((size_t)100000) // of one case

struct run {
    struct replay_case_result *result;
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    const json_t *pods, *metrics; // as last given
    int32_t replicas;
    double at; // seconds, of the pass
    size_t passes;
};

static void fail(struct run *r, const char *fmt, ...) GS_PRINTF(2, 3);
static void fail(struct run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    struct replay_case_result *c = r->result;
    gs_grow(&c->failures, &c->cap, c->n_failures, sizeof(*c->failures));
    c->failures[c->n_failures++] = gs_format("at %g s: %s", r->at, text);
}

// --- expectations ---

static void expect_text(struct run *r, const char *what, const json_t *want, const char *got)
{
    if (want && !gs_streq(json_string_value(want), got))
        fail(r, "%s\n  want: %s\n  got:  %s", what, json_string_value(want), got ? got : "(none)");
}

static void expect_int(struct run *r, const char *what, const json_t *want, int64_t got)
{
    if (want && json_integer_value(want) != got)
        fail(r, "%s: want %lld, got %lld", what, (long long)json_integer_value(want),
             (long long)got);
}

static void expect_bool(struct run *r, const char *what, const json_t *want, bool got)
{
    if (want && json_is_true(want) != got)
        fail(r, "%s: want %s, got %s", what, got ? "false" : "true", got ? "true" : "false");
}

// null: there must be none.
static void expect_quantity(struct run *r, const char *what, const json_t *want, bool has,
                            int64_t got)
{
    if (!want)
        return;
    char text[KUBE_QUANTITY_SIZE] = "none";
    int64_t milli = 0;
    if (has)
        kube_quantity_format_milli(got, text);
    GS_AUTO_ERROR struct gs_error *err = json_is_null(want) ? NULL : scene_milli(want, &milli);
    if (json_is_null(want) ? has : err || !has || milli != got) {
        GS_AUTO_FREE char *shown = gs_json_text(want);
        fail(r, "%s: want %s, got %s", what, shown, text);
    }
}

static const struct hpa_condition *find_condition(const struct hpa_decision *d, const char *type)
{
    for (size_t i = 0; i < d->n_conditions; i++)
        if (gs_streq(d->conditions[i].type, type))
            return &d->conditions[i];
    return NULL;
}

// "True Reason", or with the message behind ": "; null: not touched.
static void check_conditions(struct run *r, const json_t *want, const struct hpa_decision *d)
{
    const char *type;
    json_t *v;
    json_object_foreach ((json_t *)want, type, v) {
        const struct hpa_condition *c = find_condition(d, type);
        const char *text = json_is_string(v) ? json_string_value(v) : "(none)";
        bool long_form = strchr(text, ':') != NULL;
        GS_AUTO_FREE char *got = c ? gs_format("%s %s%s%s", c->status, c->reason,
                                               long_form ? ": " : "", long_form ? c->message : "")
                                   : gs_strdup("(none)");
        if (!gs_streq(text, got))
            fail(r, "condition %s\n  want: %s\n  got:  %s", type, text, got);
    }
}

static void check_events(struct run *r, const json_t *want, const struct hpa_decision *d)
{
    if (want && json_array_size(want) != d->n_events) {
        fail(r, "events: want %zu, got %zu%s%s", json_array_size(want), d->n_events,
             d->n_events ? ", the first: " : "", d->n_events ? d->events[0].message : "");
        return;
    }
    for (size_t i = 0; i < json_array_size(want); i++) {
        const char *text = json_string_value(json_array_get(want, i));
        bool long_form = text && strchr(text, ':');
        GS_AUTO_FREE char *got = gs_format("%s%s%s", d->events[i].reason, long_form ? ": " : "",
                                           long_form ? d->events[i].message : "");
        if (!gs_streq(text, got))
            fail(r, "event\n  want: %s\n  got:  %s", text, got);
    }
}

static void check_metric(struct run *r, const json_t *want, const struct hpa_metric_result *m)
{
    expect_text(r, "description", json_object_get(want, "description"), m->description);
    expect_text(r, "explanation of the metric", json_object_get(want, "explanation"),
                m->explanation);
    expect_bool(r, "ok", json_object_get(want, "ok"), m->ok);
    expect_int(r, "utilization", json_object_get(want, "utilization"), m->utilization);
    expect_int(r, "proposal of the metric", json_object_get(want, "proposal"), m->proposal);
    expect_quantity(r, "average", json_object_get(want, "average"), m->has_average_value,
                    m->average_value);
    expect_quantity(r, "value", json_object_get(want, "value"), m->has_value, m->value);
}

static void check_metrics(struct run *r, const json_t *want, const struct hpa_decision *d)
{
    if (json_is_null(want) && d->metrics)
        fail(r, "metrics were computed");
    for (size_t i = 0; i < json_array_size(want); i++) {
        if (!d->metrics || i >= d->n_metrics)
            fail(r, "metrics: there is no number %zu", i);
        else
            check_metric(r, json_array_get(want, i),
                         &d->metrics[hpa_metric_at(&r->spec, d->release, i)]);
    }
}

static void check(struct run *r, const json_t *want, const struct hpa_decision *d)
{
    expect_int(r, "desired", json_object_get(want, "desired"), d->desired);
    expect_int(r, "proposal", json_object_get(want, "proposal"), d->proposal);
    expect_text(r, "reason", json_object_get(want, "reason"), d->reason);
    expect_text(r, "explanation", json_object_get(want, "explanation"), d->explanation);
    expect_bool(r, "dropScaledToZero", json_object_get(want, "dropScaledToZero"),
                d->drop_scaled_to_zero);
    check_conditions(r, json_object_get(want, "conditions"), d);
    check_events(r, json_object_get(want, "events"), d);
    if (json_object_get(want, "metrics"))
        check_metrics(r, json_object_get(want, "metrics"), d);
    if (d->rescale != (d->desired != d->current))
        fail(r, "rescale is %s from %d to %d", d->rescale ? "true" : "false", d->current,
             d->desired);
}

// --- passes ---

// What is expected is what is there before the scale is written, with `done` or {error: text} what
// follows from that. False: it was not written.
static bool write_scale(struct run *r, const json_t *write, struct hpa_decision *d)
{
    const char *error = gs_json_str(write, "error", NULL);
    if (!d->rescale)
        return false;
    if (error || gs_streq(json_string_value(write), "done"))
        hpa_decision_written(&r->spec, &r->cfg, error, d);
    return !error && !json_is_false(write);
}

static struct gs_error *run_pass(struct run *r, const json_t *step)
{
    struct scene s;
    struct hpa_decision d;
    int64_t now_ms = T0_MS + llround(r->at * 1000);
    struct gs_error *err =
        scene_load(step, r->pods, r->metrics, r->spec.n_metrics, r->replicas, now_ms, &s);
    if (err)
        return err;
    hpa_decide(&r->spec, &s.obs, &r->cfg, r->history, now_ms, &d);
    bool written = write_scale(r, json_object_get(step, "write"), &d);
    check(r, json_object_get(step, "expect"), &d);
    if (written) {
        hpa_history_scaled(r->history, &r->spec, d.current, d.desired, now_ms);
        r->replicas = d.desired;
    } else if (s.obs.scale_found) {
        r->replicas = d.current;
    }
    hpa_decision_finish(&d);
    scene_finish(&s);
    return NULL;
}

static struct gs_error *check_keys(const json_t *obj, const char *what, const char *const *known,
                                   size_t n)
{
    const char *key;
    json_t *v;
    if (!json_is_object(obj))
        return gs_error_new(GS_EINVAL, "%s must be a mapping", what);
    json_object_foreach ((json_t *)obj, key, v) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found = found || gs_streq(known[i], key);
        if (!found)
            return gs_error_new(GS_EINVAL, "%s has no field \"%s\"", what, key);
    }
    return NULL;
}

static struct gs_error *run_step(struct run *r, const json_t *step)
{
    static const char *const keys[] = {"at",   "every",   "until",  "scale", "write",
                                       "pods", "metrics", "expect", "name",  "request"};
    static const char *const expectations[] = {"desired",     "proposal",         "reason",
                                               "explanation", "dropScaledToZero", "conditions",
                                               "events",      "metrics"};
    const json_t *expect = json_object_get(step, "expect"), *until = json_object_get(step, "until");
    double every = json_number_value(json_object_get(step, "every"));
    struct gs_error *err = check_keys(step, "a step", keys, GS_ARRAY_LEN(keys));
    if (!err && expect)
        err = check_keys(expect, "expect", expectations, GS_ARRAY_LEN(expectations));
    if (!err && until && !(every > 0))
        err = gs_error_new(GS_EINVAL, "a step with \"until\" needs \"every\", in seconds");
    if (json_object_get(step, "pods"))
        r->pods = json_object_get(step, "pods");
    if (json_object_get(step, "metrics"))
        r->metrics = json_object_get(step, "metrics");
    r->at = json_number_value(json_object_get(step, "at"));
    while (!err) {
        if (r->passes++ >= MAX_PASSES)
            return gs_error_new(GS_ELIMIT, "more than %zu passes in a case", MAX_PASSES);
        err = run_pass(r, step);
        r->at += every;
        if (!until || r->at > json_number_value(until))
            break;
    }
    return err;
}

// --- cases ---

static struct gs_error *make_spec(const json_t *spec, json_t **ret_object, struct hpa_spec *ret)
{
    GS_AUTO_JSON json_t *in =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", "autoscaling/v2", "kind",
                  "HorizontalPodAutoscaler", "metadata", "namespace", "shop", "name", "web", "uid",
                  "u-1", "spec", spec ? json_deep_copy(spec) : json_object());
    gs_json_set(
        in,
        json_pack("{s:s, s:s, s:s}", "apiVersion", "apps/v1", "kind", "Deployment", "name", "web"),
        "spec", "scaleTargetRef", NULL);
    struct gs_error *err = hpa_to_v2(in, ret_object);
    if (err)
        return err;
    hpa_default(*ret_object);
    return hpa_spec_parse(*ret_object, ret);
}

static struct gs_error *make_config(const json_t *in, struct hpa_config *ret)
{
    static const char *const keys[] = {"downscaleWindow", "cpuInitPeriod", "readinessDelay",
                                       "tolerance",       "scaleToZero",   "compat"};
    struct gs_error *err = in ? check_keys(in, "config", keys, GS_ARRAY_LEN(keys)) : NULL;
    struct hpa_config c = hpa_config_default();
    const char *compat = gs_json_str(in, "compat", NULL);
    if (!err && json_object_get(in, "compat") && !compat)
        err = gs_error_new(GS_EINVAL, "config.compat must be a text such as \"1.29\"");
    if (!err && compat)
        err = hpa_config_follow(&c, compat);
    c.downscale_window_ms = scene_ms(in, "downscaleWindow", (double)c.downscale_window_ms / 1000);
    c.cpu_init_period_ms = scene_ms(in, "cpuInitPeriod", (double)c.cpu_init_period_ms / 1000);
    c.readiness_delay_ms = scene_ms(in, "readinessDelay", (double)c.readiness_delay_ms / 1000);
    c.scale_to_zero = gs_json_bool(in, c.scale_to_zero, "scaleToZero", NULL);
    const json_t *tolerance = json_object_get(in, "tolerance");
    if (tolerance)
        c.tolerance = json_number_value(tolerance);
    *ret = c;
    return err;
}

static struct gs_error *run_steps(struct run *r, const json_t *steps)
{
    struct gs_error *err =
        json_array_size(steps) ? NULL : gs_error_new(GS_EINVAL, "a case needs \"steps\"");
    r->history = hpa_history_new();
    for (size_t i = 0; !err && i < json_array_size(steps); i++)
        err = run_step(r, json_array_get(steps, i));
    hpa_history_free(r->history);
    return err;
}

static struct gs_error *run_case(const json_t *value, struct replay_case_result *result)
{
    static const char *const keys[] = {"name", "spec", "config", "steps"};
    struct run r = {.result = result};
    GS_AUTO_JSON json_t *object = NULL;
    struct gs_error *err = check_keys(value, "a case", keys, GS_ARRAY_LEN(keys));
    if (!err)
        err = make_config(json_object_get(value, "config"), &r.cfg);
    if (!err)
        err = make_spec(json_object_get(value, "spec"), &object, &r.spec);
    if (err)
        return err;
    err = run_steps(&r, json_object_get(value, "steps"));
    hpa_spec_finish(&r.spec);
    return err;
}

static struct gs_error *run_named(const json_t *value, char *name, struct replay_case_results *ret)
{
    gs_grow(&ret->items, &ret->cap, ret->n, sizeof(*ret->items));
    struct replay_case_result *c = &ret->items[ret->n++];
    *c = (struct replay_case_result){.name = name};
    struct gs_error *err = run_case(value, c);
    ret->n_failed += c->n_failures > 0;
    return err ? gs_error_wrap(err, "%s", name) : NULL;
}

static struct gs_error *run_rows(const char *path, const struct gs_yaml_doc *doc, const char *name,
                                 struct replay_case_results *ret)
{
    const json_t *rows = json_object_get(doc->value, "rows");
    size_t n_columns = json_array_size(json_object_get(doc->value, "columns"));
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < json_array_size(rows); i++) {
        GS_AUTO_JSON json_t *value = NULL;
        const char *text = json_string_value(json_array_get(json_array_get(rows, i), n_columns));
        char *full = gs_format("%s:%d %s, row %zu%s%s", path, doc->line, name, i + 1,
                               text ? ": " : "", text ? text : "");
        err = rows_expand(doc->value, i, &value);
        if (!err) {
            err = run_named(value, full, ret);
        } else {
            err = gs_error_wrap(err, "%s:%d %s", path, doc->line, name);
            free(full);
        }
    }
    return err;
}

static struct gs_error *run_doc(const char *path, const struct gs_yaml_doc *doc,
                                const struct tsdb_regex *only, struct replay_case_results *ret)
{
    const char *name = gs_json_str(doc->value, "name", NULL);
    if (only && !tsdb_regex_matches(only, gs_slice_of(name ? name : "")))
        return NULL;
    name = name ? name : "(without a name)";
    if (json_object_get(doc->value, "rows"))
        return run_rows(path, doc, name, ret);
    return run_named(doc->value, gs_format("%s:%d %s", path, doc->line, name), ret);
}

struct gs_error *replay_run_cases(const char *path, const char *run,
                                  struct replay_case_results *ret)
{
    struct gs_yaml_docs docs = {0};
    struct tsdb_regex *only = NULL;
    struct gs_error *err = gs_yaml_load_file(path, &docs);
    if (!err && run) {
        GS_AUTO_FREE char *pattern = gs_format(".*(?:%s).*", run);
        err = tsdb_regex_new(gs_slice_of(pattern), &only);
    }
    for (size_t i = 0; !err && i < docs.len; i++)
        err = run_doc(path, &docs.items[i], only, ret);
    tsdb_regex_free(only);
    gs_yaml_docs_finish(&docs);
    return err;
}

void replay_case_results_finish(struct replay_case_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < r->items[i].n_failures; k++)
            free(r->items[i].failures[k]);
        free(r->items[i].failures);
        free(r->items[i].name);
    }
    free(r->items);
    *r = (struct replay_case_results){0};
}
