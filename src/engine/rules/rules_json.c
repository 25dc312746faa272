// SPDX-License-Identifier: Apache-2.0
// /api/v1/rules, /alerts, /alertmanagers and the metrics of rules, in the format of Prometheus:
// https://prometheus.io/docs/prometheus/latest/querying/api/#rules
#include "engine/rules/rules_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "metrics/write.h"

#include <math.h>
#include <time.h>

static int compare_groups(const void *a, const void *b)
{
    const struct rules_group *x = (*(const struct rules_runner *const *)a)->group;
    const struct rules_group *y = (*(const struct rules_runner *const *)b)->group;
    int c = strcmp(x->file, y->file);
    return c ? c : strcmp(x->name, y->name);
}

const struct rules_runner **rules_manager_groups(const struct rules_manager *m, size_t *ret_n)
{
    size_t n = m->files.n, k = 0;
    for (size_t i = 0; i < m->n_extras; i++)
        n += m->extras[i].n;
    const struct rules_runner **list = gs_alloc_array(n + 1, sizeof(struct rules_runner *));
    for (size_t i = 0; i < m->files.n; i++)
        list[k++] = m->files.groups[i]->runner;
    for (size_t i = 0; i < m->n_extras; i++)
        for (size_t j = 0; j < m->extras[i].n; j++)
            list[k++] = m->extras[i].groups[j]->runner;
    if (k > 1)
        qsort(list, k, sizeof(*list), compare_groups);
    *ret_n = k;
    return list;
}

// --- JSON ---

// Go's RFC3339Nano format in UTC. 0 becomes Go's zero time.
static json_t *time_json(int64_t unix_ms)
{
    char text[64];
    if (!unix_ms)
        return json_string("0001-01-01T00:00:00Z");
    int64_t seconds = unix_ms / 1000, ms = unix_ms % 1000;
    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    time_t t = (time_t)seconds;
    struct tm tm;
    size_t n = gmtime_r(&t, &tm) ? strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) : 0;
    if (ms) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, ".%03d", (int)ms);
        while (text[n - 1] == '0')
            n--;
    }
    (void)snprintf(text + n, sizeof(text) - n, "Z");
    return json_string(text);
}

static json_t *labels_json(const struct metrics_label *items, size_t n)
{
    json_t *obj = json_object();
    for (size_t i = 0; i < n; i++) {
        json_t *v =
            json_stringn(items[i].value.data ? items[i].value.data : "", items[i].value.len);
        if (v)
            json_object_setn_new(obj, items[i].name.data, items[i].name.len, v);
    }
    return obj;
}

// Go's FormatFloat(v, 'e', -1, 64): shortest digits, always with an exponent.
static json_t *value_json(double v)
{
    char text[GS_DOUBLE_SIZE], digits[GS_DOUBLE_SIZE];
    gs_format_double(v, text);
    if (!isfinite(v))
        return json_string(text);
    const char *p = text + (text[0] == '-'), *e = strchr(p, 'e');
    int exponent = e ? (int)strtol(e + 1, NULL, 10) : 0, point = -1;
    size_t n = 0;
    bool leading = true;
    for (; *p && p != e; p++) {
        if (*p == '.') {
            point = (int)n;
            continue;
        }
        // 0.00…: each zero after the point decreases the exponent by one.
        if (leading && *p == '0') {
            exponent -= point >= 0;
            continue;
        }
        leading = false;
        digits[n++] = *p;
    }
    exponent += (point >= 0 ? point : (int)n) - 1;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (!n) {
        digits[n++] = '0';
        exponent = 0;
    }
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_addf(&out, "%s%c%s%.*se%c%02d", text[0] == '-' ? "-" : "", digits[0], n > 1 ? "." : "",
                (int)(n - 1), digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    return json_string(out.data);
}

static const char *state_name(enum rules_alert_state s)
{
    static const char *const names[] = {"inactive", "pending", "firing"};
    return names[s];
}

static json_t *alert_json(const struct rules_alert *a)
{
    json_t *obj = json_object();
    json_object_set_new(obj, "labels", labels_json(a->labels, a->n_labels));
    json_object_set_new(obj, "annotations", labels_json(a->annotations, a->n_annotations));
    codec_json_set_str(obj, "state", state_name(a->state));
    json_object_set_new(obj, "activeAt", time_json(a->active_at_ms));
    if (a->keep_firing_since_ms)
        json_object_set_new(obj, "keepFiringSince", time_json(a->keep_firing_since_ms));
    json_object_set_new(obj, "value", value_json(a->value));
    return obj;
}

static json_t *alerts_of(const struct rules_state *s)
{
    json_t *list = json_array();
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(s->active, &pos, &key, &value))
        if (!((struct rules_active_alert *)value)->a.resolved_at_ms)
            json_array_append_new(list, alert_json(&((struct rules_active_alert *)value)->a));
    return list;
}

static json_t *query_json(const struct rules_rule *rule)
{
    if (!rule->expr)
        return json_string(rule->text);
    GS_AUTO_BUF struct gs_buf text = {0};
    promql_print(promql_expr_root(rule->expr), &text);
    return json_stringn(text.data ? text.data : "", text.len);
}

// 300, 0.5
static json_t *seconds_json(int64_t ms)
{
    return ms % 1000 ? json_real((double)ms / 1000) : json_integer(ms / 1000);
}

// The fields in the order of Prometheus.
static void add_alert_fields(json_t *obj, const struct rules_state *s)
{
    const struct rules_rule *rule = s->rule;
    json_object_set_new(obj, "duration", seconds_json(rule->for_ms));
    json_object_set_new(obj, "keepFiringFor", seconds_json(rule->keep_firing_for_ms));
    json_object_set_new(obj, "labels", labels_json(rule->labels, rule->n_labels));
    json_object_set_new(obj, "annotations", labels_json(rule->annotations, rule->n_annotations));
    json_object_set_new(obj, "alerts", alerts_of(s));
}

static json_t *rule_json(const struct rules_state *s)
{
    static const char *const health[] = {"unknown", "ok", "err"};
    const struct rules_rule *rule = s->rule;
    bool alerts = rule->kind == RULES_ALERT;
    json_t *obj = json_object();
    if (alerts)
        codec_json_set_str(obj, "state",
                           s->last_eval_ms ? state_name(rules_state_of(s)) : "unknown");
    codec_json_set_str(obj, "name", rule->name);
    json_object_set_new(obj, "query", query_json(rule));
    if (alerts)
        add_alert_fields(obj, s);
    else if (rule->n_labels)
        json_object_set_new(obj, "labels", labels_json(rule->labels, rule->n_labels));
    codec_json_set_str(obj, "health", health[s->health]);
    if (s->last_error)
        codec_json_set_str(obj, "lastError", s->last_error);
    json_object_set_new(obj, "evaluationTime", json_real((double)s->duration_ns / 1e9));
    json_object_set_new(obj, "lastEvaluation", time_json(s->last_eval_ms));
    codec_json_set_str(obj, "type", alerts ? "alerting" : "recording");
    return obj;
}

static json_t *group_json(const struct rules_runner *r, const char *type)
{
    json_t *rules = json_array();
    for (size_t i = 0; i < r->group->n_rules; i++) {
        const char *kind = r->rules[i].rule->kind == RULES_ALERT ? "alert" : "record";
        if (!type || !*type || gs_streq(type, kind))
            json_array_append_new(rules, rule_json(&r->rules[i]));
    }
    json_t *obj = json_object();
    codec_json_set_str(obj, "name", r->group->name);
    codec_json_set_str(obj, "file", r->group->file);
    json_object_set_new(obj, "rules", rules);
    json_object_set_new(obj, "interval", seconds_json(r->interval_ms));
    codec_json_set_int(obj, "limit", r->group->limit);
    json_object_set_new(obj, "evaluationTime", json_real((double)r->duration_ns / 1e9));
    json_object_set_new(obj, "lastEvaluation", time_json(r->last_eval_ms));
    return obj;
}

json_t *rules_json(const struct rules_manager *m, const char *type)
{
    size_t n;
    GS_AUTO_FREE const struct rules_runner **groups = rules_manager_groups(m, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, group_json(groups[i], type));
    return json_pack("{s:o}", "groups", list);
}

json_t *rules_alerts_json(const struct rules_manager *m)
{
    size_t n;
    GS_AUTO_FREE const struct rules_runner **groups = rules_manager_groups(m, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < groups[i]->group->n_rules; k++) {
            json_t *some = alerts_of(&groups[i]->rules[k]);
            json_array_extend(list, some);
            json_decref(some);
        }
    return json_pack("{s:o}", "alerts", list);
}

json_t *rules_alertmanagers_json(const struct rules_manager *m)
{
    return rules_notifier_json(m->notifier);
}

// --- metrics ---

enum group_metric {
    EVALUATIONS,
    FAILURES,
    INTERVAL,
    ITERATIONS,
    MISSED,
    LAST_DURATION,
    LAST_TIMESTAMP,
    LAST_SAMPLES,
    LAST_RESTORE,
    N_RULES,
    SWITCHED_OFF,
};

static double metric_of(const struct rules_runner *r, enum group_metric which)
{
    size_t off = 0;
    switch (which) {
    case EVALUATIONS:
        return (double)r->evaluations;
    case FAILURES:
        return (double)r->failures;
    case INTERVAL:
        return (double)r->interval_ms / 1000;
    case ITERATIONS:
        return (double)r->iterations;
    case MISSED:
        return (double)r->missed;
    case LAST_DURATION:
        return (double)r->duration_ns / 1e9;
    case LAST_TIMESTAMP:
        return (double)r->last_eval_ms / 1000;
    case LAST_SAMPLES:
        return (double)r->last_samples;
    case LAST_RESTORE:
        return r->restore_seconds;
    case N_RULES:
        return (double)r->group->n_rules;
    case SWITCHED_OFF:
        for (size_t i = 0; i < r->group->n_rules; i++)
            off += !r->rules[i].rule->expr;
        return (double)off;
    }
    return 0;
}

static const struct {
    const char *name, *help;
    enum metrics_type type;
    enum group_metric which;
} group_metrics[] = {
    {"prometheus_rule_evaluations_total", "Evaluations of rules.", METRICS_COUNTER, EVALUATIONS},
    {"prometheus_rule_evaluation_failures_total", "Evaluations of rules that failed.",
     METRICS_COUNTER, FAILURES},
    {"prometheus_rule_group_interval_seconds", "Time between evaluations of a group.",
     METRICS_GAUGE, INTERVAL},
    {"prometheus_rule_group_iterations_total", "Evaluations of groups, missed ones included.",
     METRICS_COUNTER, ITERATIONS},
    {"prometheus_rule_group_iterations_missed_total",
     "Missed evaluations of groups because the previous one took too long.", METRICS_COUNTER,
     MISSED},
    {"prometheus_rule_group_last_duration_seconds", "Duration of the last evaluation.",
     METRICS_GAUGE, LAST_DURATION},
    {"prometheus_rule_group_last_evaluation_timestamp_seconds", "Time of the last evaluation.",
     METRICS_GAUGE, LAST_TIMESTAMP},
    {"prometheus_rule_group_last_evaluation_samples", "Samples that the last evaluation stored.",
     METRICS_GAUGE, LAST_SAMPLES},
    {"prometheus_rule_group_last_restore_duration_seconds",
     "Duration of restoring the states of alerts.", METRICS_GAUGE, LAST_RESTORE},
    {"prometheus_rule_group_rules", "Rules of a group.", METRICS_GAUGE, N_RULES},
    {"gpuscale_rule_group_rules_switched_off",
     "Rules of a group that are not evaluated because of errors.", METRICS_GAUGE, SWITCHED_OFF},
};

static void write_group_metrics(const struct rules_runner **groups, size_t n, struct gs_buf *out)
{
    for (size_t k = 0; n && k < GS_ARRAY_LEN(group_metrics); k++) {
        metrics_write_family(out, group_metrics[k].name, group_metrics[k].type,
                             group_metrics[k].help);
        for (size_t i = 0; i < n; i++) {
            GS_AUTO_FREE char *key =
                gs_format("%s;%s", groups[i]->group->file, groups[i]->group->name);
            struct metrics_label l = {GS_SLICE("rule_group"), gs_slice_of(key)};
            metrics_write_sample(out, group_metrics[k].name, &l, 1,
                                 metric_of(groups[i], group_metrics[k].which));
        }
    }
}

void rules_manager_write_metrics(const struct rules_manager *m, struct gs_buf *out)
{
    size_t n;
    GS_AUTO_FREE const struct rules_runner **groups = rules_manager_groups(m, &n);
    write_group_metrics(groups, n, out);
    metrics_write_family(out, "prometheus_rule_group_duration_seconds", METRICS_SUMMARY,
                         "Durations of evaluations of groups.");
    metrics_write_sample(out, "prometheus_rule_group_duration_seconds_sum", NULL, 0, m->seconds);
    metrics_write_sample(out, "prometheus_rule_group_duration_seconds_count", NULL, 0,
                         (double)m->evaluations);
    rules_notifier_write_metrics(m->notifier, out);
}
