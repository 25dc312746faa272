// SPDX-License-Identifier: Apache-2.0
// `gpuscale test hpa`: cases for hpa_decide() from YAML files, with observations, time and
// expected decisions. A case that cannot be run is a failure of this case only.
#include "replay/decision_tables.h"

#include "base/file.h"
#include "base/mem.h"
#include "hpa/convert.h"
#include "replay/tables_private.h"
#include "tsdb/matcher.h"

#include <math.h>

#define T0_MS           INT64_C(1700000000000)
#define MAX_EVALUATIONS ((size_t)100000) // evaluations of one case
#define MAX_FILE        ((size_t)64 * 1024 * 1024)

struct run {
    const struct replay_document *src;
    struct codec_test_case *result;
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    const json_t *pods, *metrics; // as last given
    int32_t replicas;
    double at; // seconds, of the evaluation
    size_t n_evaluations;
};

// --- evaluations ---

// Expectations apply to the decision before the scale is written. With `done` or {error: text} they
// apply after the write. False: the scale was not written.
static bool write_scale(struct run *r, const json_t *write, struct hpa_decision *d)
{
    const char *error = codec_json_str(write, "error", NULL);
    if (!d->rescale)
        return false;
    if (error || gs_streq(json_string_value(write), "done"))
        hpa_decision_written(&r->spec, &r->cfg, error, d);
    return !error && !json_is_false(write);
}

static char *place_in_time(const struct run *r, const json_t *step)
{
    const char *name = codec_json_str(step, "name", NULL);
    return name ? gs_format("at %g s, %s", r->at, name) : gs_format("at %g s", r->at);
}

static struct gs_error *run_pass(struct run *r, const json_t *step)
{
    struct replay_observation s;
    struct hpa_decision d;
    int64_t now_ms = T0_MS + llround(r->at * 1000);
    struct gs_error *err = replay_observation_load(step, r->pods, r->metrics, &r->spec, &r->cfg,
                                                   r->replicas, now_ms, &s);
    if (err) {
        GS_AUTO_ERROR struct gs_error *observation_error = err;
        return replay_schema_error(r->src, step, "%s", gs_error_message(observation_error));
    }
    hpa_decide(&r->spec, &s.obs, &r->cfg, r->history, now_ms, &d);
    bool written = write_scale(r, json_object_get(step, "write"), &d);
    GS_AUTO_FREE char *where = place_in_time(r, step);
    replay_table_check_decision(json_object_get(step, "expect"), &r->spec, &d, where, r->result);
    if (written) {
        hpa_history_scaled(r->history, &r->spec, d.current, d.desired, now_ms);
        r->replicas = d.desired;
    } else if (s.obs.scale_found) {
        r->replicas = d.current;
    }
    hpa_decision_finish(&d);
    replay_observation_finish(&s);
    return NULL;
}

static struct gs_error *check_count(const struct run *r)
{
    size_t n = json_array_size(r->metrics);
    if (!r->metrics || n == r->spec.n_metrics)
        return NULL;
    return replay_schema_error(r->src, r->metrics,
                               "metrics: %zu entries for the %zu metrics of the spec", n,
                               r->spec.n_metrics);
}

static struct gs_error *run_step(struct run *r, const json_t *step)
{
    const json_t *until = json_object_get(step, "until");
    double every = json_number_value(json_object_get(step, "every"));
    if (json_object_get(step, "pods"))
        r->pods = json_object_get(step, "pods");
    if (json_object_get(step, "metrics"))
        r->metrics = json_object_get(step, "metrics");
    r->at = json_number_value(json_object_get(step, "at"));
    struct gs_error *err = check_count(r);
    while (!err) {
        if (r->n_evaluations++ >= MAX_EVALUATIONS)
            return replay_schema_error(r->src, step, "more than %zu evaluations in a case",
                                       MAX_EVALUATIONS);
        err = run_pass(r, step);
        r->at += every;
        if (!until || r->at > json_number_value(until))
            break;
    }
    return err;
}

// --- cases ---

static struct gs_error *make_spec(const struct replay_document *src, const json_t *doc,
                                  json_t **ret_object, struct hpa_spec *ret)
{
    const json_t *spec = json_object_get(doc, "spec");
    CODEC_AUTO_JSON json_t *in =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", "autoscaling/v2", "kind",
                  "HorizontalPodAutoscaler", "metadata", "namespace", "shop", "name", "web", "uid",
                  "u-1", "spec", spec ? json_deep_copy(spec) : json_object());
    codec_json_set(
        in,
        json_pack("{s:s, s:s, s:s}", "apiVersion", "apps/v1", "kind", "Deployment", "name", "web"),
        "spec", "scaleTargetRef", NULL);
    const json_t *annotations = json_object_get(doc, "annotations");
    if (annotations)
        codec_json_set(in, json_deep_copy(annotations), "metadata", "annotations", NULL);
    struct gs_error *err = hpa_to_v2(in, ret_object);
    if (err)
        return err;
    hpa_default(*ret_object);
    if (codec_json_bool(doc, true, "config", "validate", NULL))
        err = replay_table_check_object(src, doc, *ret_object);
    if (!err)
        err = hpa_check_protection(*ret_object);
    return err ? err : hpa_spec_parse(*ret_object, ret);
}

static struct gs_error *make_config(const struct replay_document *src, const json_t *in,
                                    struct hpa_config *ret)
{
    struct hpa_config c = hpa_config_default();
    const json_t *compat = json_object_get(in, "compat");
    const json_t *tolerance = json_object_get(in, "tolerance");
    GS_AUTO_ERROR struct gs_error *err =
        compat ? hpa_config_follow(&c, json_string_value(compat)) : NULL;
    if (err)
        return replay_schema_error(src, compat, "config.compat: %s", gs_error_message(err));
    c.downscale_window_ms =
        replay_observation_ms(in, "downscaleWindow", (double)c.downscale_window_ms / 1000);
    c.cpu_init_period_ms =
        replay_observation_ms(in, "cpuInitPeriod", (double)c.cpu_init_period_ms / 1000);
    c.readiness_delay_ms =
        replay_observation_ms(in, "readinessDelay", (double)c.readiness_delay_ms / 1000);
    c.scale_to_zero = codec_json_bool(in, c.scale_to_zero, "scaleToZero", NULL);
    if (tolerance)
        c.tolerance = json_number_value(tolerance);
    *ret = c;
    return NULL;
}

// [{replicas: 5, age: 60}] in the form of hpa_history_from_json().
static json_t *with_ms(const json_t *list)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach (list, i, item) {
        json_t *copy = json_copy(item);
        codec_json_set_int(copy, "ageMs", replay_observation_ms(item, "age", 0));
        json_array_append_new(out, copy);
    }
    return out;
}

// The history before the first step, with ages relative to time 0.
static struct gs_error *make_history(const json_t *in, struct hpa_history **ret)
{
    if (!in) {
        *ret = hpa_history_new();
        return NULL;
    }
    CODEC_AUTO_JSON json_t *out = json_pack(
        "{s:o, s:o, s:o}", "recommendations", with_ms(json_object_get(in, "recommendations")),
        "scaleUps", with_ms(json_object_get(in, "scaleUps")), "scaleDowns",
        with_ms(json_object_get(in, "scaleDowns")));
    return hpa_history_from_json(out, T0_MS, ret);
}

static struct gs_error *run_steps(struct run *r, const json_t *doc)
{
    const json_t *steps = json_object_get(doc, "steps");
    struct gs_error *err = make_history(json_object_get(doc, "history"), &r->history);
    if (err)
        return replay_schema_error(r->src, json_object_get(doc, "history"), "history: %s",
                                   gs_error_message(err));
    for (size_t i = 0; !err && i < json_array_size(steps); i++)
        err = run_step(r, json_array_get(steps, i));
    hpa_history_free(r->history);
    return err;
}

// doc: checked by replay_table_check(), with steps.
static struct gs_error *run_case(const struct replay_document *src, const json_t *doc,
                                 struct codec_test_case *result)
{
    struct run r = {.src = src, .result = result};
    CODEC_AUTO_JSON json_t *object = NULL;
    struct gs_error *err = make_config(src, json_object_get(doc, "config"), &r.cfg);
    if (!err)
        err = make_spec(src, doc, &object, &r.spec);
    if (err)
        return err;
    err = run_steps(&r, doc);
    hpa_spec_finish(&r.spec);
    return err;
}

// --- files ---

// Counts the case. An error is a failure of this case; the other cases still run.
static void end_case(struct codec_test_report *all, struct codec_test_case *c, struct gs_error *err)
{
    if (err)
        codec_test_case_fail(c, gs_strdup(gs_error_message(err)));
    gs_error_free(err);
    all->n_failed += c->n_failures > 0;
}

static void run_rows(const struct replay_document *src, const json_t *doc, const char *name,
                     struct codec_test_report *ret)
{
    const json_t *rows = json_object_get(doc, "rows");
    size_t n_columns = json_array_size(json_object_get(doc, "columns"));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        struct replay_document at = {src->file, src->marks,
                                     codec_yaml_mark_of(src->marks, row).line};
        CODEC_AUTO_JSON json_t *value = NULL;
        const char *text = json_string_value(json_array_get(row, n_columns));
        struct codec_test_case *c =
            codec_test_report_add(ret, gs_format("%s:%d %s, row %zu%s%s", src->file, src->line,
                                                 name, i + 1, text ? ": " : "", text ? text : ""));
        struct gs_error *err = replay_table_expand_row(&at, doc, i, &value);
        end_case(ret, c, err ? err : run_case(&at, value, c));
    }
}

static void run_doc(const struct replay_document *src, const json_t *doc,
                    const struct tsdb_regex *only, struct codec_test_report *ret)
{
    const char *name = codec_json_str(doc, "name", NULL);
    if (only && !tsdb_regex_matches(only, gs_slice_of(name ? name : "")))
        return;
    name = name ? name : "(without a name)";
    struct gs_error *err = replay_table_check(src, doc);
    if (!err && json_object_get(doc, "rows")) {
        run_rows(src, doc, name, ret);
        return;
    }
    struct codec_test_case *c =
        codec_test_report_add(ret, gs_format("%s:%d %s", src->file, src->line, name));
    end_case(ret, c, err ? err : run_case(src, doc, c));
}

struct gs_error *replay_run_cases(const char *path, const char *run, struct codec_test_report *ret)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    struct tsdb_regex *only = NULL;
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = codec_yaml_parse_marked(gs_buf_slice(&text), path, &docs, &marks);
    if (!err && !docs.len)
        err = gs_error_new(GS_EINVAL, "%s: the file has no cases", path);
    if (!err && run) {
        GS_AUTO_FREE char *pattern = gs_format(".*(?:%s).*", run);
        err = tsdb_regex_new(gs_slice_of(pattern), &only);
    }
    for (size_t i = 0; !err && i < docs.len; i++) {
        const struct replay_document src = {path, marks, docs.items[i].line};
        run_doc(&src, docs.items[i].value, only, ret);
    }
    tsdb_regex_free(only);
    codec_yaml_docs_finish(&docs);
    codec_yaml_marks_free(marks);
    return err;
}

static bool test_cases_file(replay_run_fn *run, const char *path, const char *only,
                            struct gs_buf *junit, size_t *n_cases)
{
    struct codec_test_report r = {0};
    GS_AUTO_ERROR struct gs_error *err = run(path, only, &r);
    bool ok = !err && !r.n_failed;
    printf("%s: %zu %s%s\n", path, r.n_cases, r.n_cases == 1 ? "case" : "cases",
           ok && r.n_cases ? ", all as expected" : "");
    *n_cases += r.n_cases;
    (void)fflush(stdout);
    codec_test_report_print(&r, stderr);
    if (err)
        fprintf(stderr, "  %s\n", gs_error_message(err));
    else if (!ok)
        fprintf(stderr, "  %zu of %zu cases FAILED\n", r.n_failed, r.n_cases);
    codec_junit_add(junit, path, &r, err ? gs_error_message(err) : NULL);
    codec_test_report_finish(&r);
    return ok;
}

struct gs_error *replay_test_each(replay_run_fn *run, const struct codec_test_options *opts,
                                  int n_files, char **files, int *ret_exit)
{
    GS_AUTO_FREE char *only = codec_test_pattern(opts);
    GS_AUTO_BUF struct gs_buf junit = {0};
    size_t n_cases = 0;
    *ret_exit = 0;
    codec_junit_begin(&junit);
    for (int i = 0; i < n_files; i++)
        if (!test_cases_file(run, files[i], only, &junit, &n_cases))
            *ret_exit = 1;
    if (only && !n_cases && !*ret_exit)
        return gs_error_new(GS_EINVAL, "no case has a name that --run=%s matches", only);
    return codec_junit_end(&junit, opts);
}

struct gs_error *replay_test_files(const struct codec_test_options *opts, int n_files, char **files,
                                   int *ret_exit)
{
    return replay_test_each(replay_run_cases, opts, n_files, files, ret_exit);
}
