// SPDX-License-Identifier: Apache-2.0
// Recording and alerting rules: groups evaluated on their interval into the store, alerts sent to
// Alertmanagers. https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/
//
// One wrong rule is reported with file, group, rule and position and switches off that rule alone
// (Prometheus refuses the whole file; deviation). `rules_load` with strict refuses, as promtool.
#pragma once

#include "codec/json.h"
#include "engine/config/config.h"
#include "promql/promql.h"

#include <uv.h>

struct rule_problem {
    char *text; // "rules.yaml:20:7: group \"gpu_scaling\", rule 3 (vision-api_scaling_avg): 1:60:
                // parse error: …"
};
struct rule_problems {
    struct rule_problem *items;
    size_t len, cap;
    bool ignore_unknown_fields; // set by who reads: they are no problem
};
void rule_problems_finish(struct rule_problems *p);

enum rule_kind { RULE_RECORD, RULE_ALERT };

struct rule {
    enum rule_kind kind;
    const char *name;               // record or alert
    const char *text;               // the expression as written
    const struct promql_expr *expr; // NULL: switched off, `problem` says why
    const char *problem;
    int64_t for_ms, keep_firing_for_ms;
    const struct metrics_label *labels, *annotations; // templates not yet expanded
    size_t n_labels, n_annotations;
    int line; // in the file
};

struct rule_group {
    const char *name, *file;
    int64_t interval_ms; // 0: the global evaluation interval
    int64_t query_offset_ms;
    int64_t limit;                      // 0: none
    const struct metrics_label *labels; // group labels
    size_t n_labels;
    const struct rule *rules;
    size_t n_rules;
};

struct rule_set { // immutable, owns its groups
    const struct rule_group *groups;
    size_t n_groups;
    void *own;
};

// A rule file (`groups:`), a PrometheusRule object or a list of either, as text. Structural
// mistakes are GS_EINVAL with file:line; wrong rules go to problems and stay in the set switched
// off.
struct gs_error *rules_parse(struct gs_slice text, const char *file, struct rule_problems *problems,
                             struct rule_set **ret);
// The files of globs; a file that cannot be read is a problem, the others load.
struct gs_error *rules_load_files(const char *const *globs, size_t n,
                                  struct rule_problems *problems, struct rule_set **ret);
void rule_set_free(struct rule_set *s);

// --- evaluation, without loop or clock: what the manager, the unit tests and fuzzing drive ---

struct rule_runner; // one group's state: active alerts, last errors, durations

struct rule_runner_config {
    struct tsdb *db;
    struct promql_engine *engine;
    const struct metrics_label *external_labels;
    size_t n_external_labels;
    const char *external_url;
    int64_t query_offset_ms; // of groups that set none
};

// A sample that a rule makes: appended to the store by the runner itself.
struct rule_runner *rule_runner_new(const struct rule_runner_config *cfg,
                                    const struct rule_group *group, int64_t interval_ms);
void rule_runner_free(struct rule_runner *r);
void rule_runner_eval(struct rule_runner *r, int64_t t_ms);
// Active alerts of the group from what ALERTS_FOR_STATE in the store says (after a restart).
void rule_runner_restore(struct rule_runner *r, int64_t now_ms);
// Moves the state of rules that did not change (name, expression, labels) from the old one.
void rule_runner_take_over(struct rule_runner *r, struct rule_runner *old);

enum rule_alert_state { ALERT_INACTIVE, ALERT_PENDING, ALERT_FIRING };
struct rule_alert {
    enum rule_alert_state state;
    const struct rule *rule;
    const struct metrics_label *labels, *annotations; // expanded; labels include alertname
    size_t n_labels, n_annotations;
    double value;
    int64_t active_at_ms, fired_at_ms, resolved_at_ms, keep_firing_since_ms;
};
void rule_runner_alerts(const struct rule_runner *r,
                        void (*fn)(void *arg, const struct rule_alert *a), void *arg);

// --- the manager ---

struct rules_manager;
struct kube_client;
struct sd_stats;
struct rules_manager *rules_manager_new(uv_loop_t *loop, struct tsdb *db,
                                        struct promql_engine *engine, const char *external_url);
void rules_manager_free(struct rules_manager *m);
// kube: where Alertmanagers of kubernetes_sd_configs without an api_server are looked for; NULL:
// nowhere. stats: what discovery counts into; NULL: nothing.
void rules_manager_set_discovery(struct rules_manager *m, struct kube_client *kube,
                                 struct sd_stats *stats);
// Loads rule_files and Alertmanagers of the configuration. problems: wrong rules, for the log.
struct gs_error *rules_manager_apply(struct rules_manager *m, const struct engine_config *cfg,
                                     struct rule_problems *problems);
// A set beside the configuration's files (PrometheusRule objects), identified by name. Takes set;
// NULL takes the named set away.
void rules_manager_apply_extra(struct rules_manager *m, const char *name, struct rule_set *set);

// /api/v1/rules (type: "alert", "record" or NULL), /api/v1/alerts, /api/v1/alertmanagers: `data`.
json_t *rules_json(const struct rules_manager *m, const char *type);
json_t *rules_alerts_json(const struct rules_manager *m);
json_t *rules_alertmanagers_json(const struct rules_manager *m);
void rules_manager_write_metrics(const struct rules_manager *m, struct gs_buf *out);
