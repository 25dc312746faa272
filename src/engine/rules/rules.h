// SPDX-License-Identifier: Apache-2.0
// Recording and alerting rules: evaluates groups at their intervals, stores the results and sends
// alerts to Alertmanagers.
// https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/
// An invalid rule is reported with file, group, rule and position, and only this rule is disabled.
// Deviation: Prometheus rejects the whole file.
#pragma once

#include "codec/json.h"
#include "engine/config/config.h"
#include "engine/config/selection.h"
#include "kube/client.h"
#include "promql/promql.h"

#include <uv.h>

struct rules_problem {
    char *text; // "rules.yaml:20:7: group \"gpu_scaling\", rule 3 (vision-api_scaling_avg): 1:60:
                // parse error: …"
};
struct rules_problems {
    struct rules_problem *items;
    size_t len, cap;
    bool ignore_unknown_fields; // set by the caller: unknown fields are not reported
};
void rules_problems_finish(struct rules_problems *p);

enum rules_kind { RULES_RECORD, RULES_ALERT };

struct rules_rule {
    enum rules_kind kind;
    const char *name;               // `record` or `alert`
    const char *text;               // the expression as written
    const struct promql_expr *expr; // NULL: disabled, `problem` has the reason
    const char *problem;
    int64_t for_ms, keep_firing_for_ms;
    const struct metrics_label *labels, *annotations; // templates not yet expanded
    size_t n_labels, n_annotations;
    int line; // in the file
};

struct rules_group {
    const char *name, *file;
    int64_t interval_ms; // 0: the global evaluation interval
    int64_t query_offset_ms;
    int64_t limit;                      // 0: none
    const struct metrics_label *labels; // group labels
    size_t n_labels;
    const struct rules_rule *rules;
    size_t n_rules;
};

struct rules_set { // immutable, owns its groups
    const struct rules_group *groups;
    size_t n_groups;
    void *own;
};

// Parses a rule file (`groups:`), a PrometheusRule object or a list of either. Structural errors
// are GS_EINVAL with file:line; invalid rules are added to problems and stay in the set, disabled.
struct gs_error *rules_parse(struct gs_slice text, const char *file,
                             struct rules_problems *problems, struct rules_set **ret);
// The same for one document of a file, whose scalars are strings as of codec_yaml_parse_texts().
struct gs_error *rules_parse_document(const json_t *document, const struct codec_yaml_marks *marks,
                                      const char *file, struct rules_problems *problems,
                                      struct rules_set **ret);
// Loads the files that match the globs. A file that cannot be read is added to problems; the others
// are loaded.
struct gs_error *rules_load_files(const char *const *globs, size_t n,
                                  struct rules_problems *problems, struct rules_set **ret);
void rules_set_free(struct rules_set *s);

// --- evaluation, without loop or clock: what the manager, the unit tests and fuzzing drive ---

struct rules_runner; // the state of one group: active alerts, last errors, durations

// Times of alerts, as Prometheus' flags --rules.alert.*. All in milliseconds.
struct rules_timing {
    int64_t outage_tolerance_ms; // alerts that were active before are not restored
    int64_t for_grace_ms;        // minimum time until a restored, pending alert fires
    int64_t resend_delay_ms;     // between notifications of the same alert
};
#define RULES_TIMING_DEFAULT ((struct rules_timing){60 * 60 * 1000, 10 * 60 * 1000, 60 * 1000})

struct rules_runner_config {
    struct tsdb *db;
    struct promql_engine *engine;
    const struct metrics_label *external_labels;
    size_t n_external_labels;
    const char *external_url;
    int64_t query_offset_ms; // interval of groups that set none
    struct rules_timing timing;
};

// A result of a rule. The runner appends it to the store.
struct rules_runner *rules_runner_new(const struct rules_runner_config *cfg,
                                      const struct rules_group *group, int64_t interval_ms);
void rules_runner_free(struct rules_runner *r);
void rules_runner_eval(struct rules_runner *r, int64_t t_ms);
// Restores active alerts from ALERTS_FOR_STATE in the store, after a restart.
void rules_runner_restore(struct rules_runner *r, int64_t now_ms);
// Moves the state of unchanged rules (name, expression, labels) from the old runner.
void rules_runner_take_over(struct rules_runner *r, struct rules_runner *old);

enum rules_alert_state { RULES_ALERT_INACTIVE, RULES_ALERT_PENDING, RULES_ALERT_FIRING };
struct rules_alert {
    enum rules_alert_state state;
    const struct rules_rule *rule;
    const struct metrics_label *labels, *annotations; // expanded; labels include alertname
    size_t n_labels, n_annotations;
    double value;
    int64_t active_at_ms, fired_at_ms, resolved_at_ms, keep_firing_since_ms;
};
void rules_runner_alerts(const struct rules_runner *r,
                         void (*fn)(void *arg, const struct rules_alert *a), void *arg);

// --- the manager ---

struct rules_manager;
struct kube_client;
struct discovery_stats;
struct rules_manager *rules_manager_new(uv_loop_t *loop, struct tsdb *db,
                                        struct promql_engine *engine, const char *external_url);
void rules_manager_free(struct rules_manager *m);
// Before the first rules are applied. Without it: RULES_TIMING_DEFAULT.
void rules_manager_set_timing(struct rules_manager *m, const struct rules_timing *timing);
// kube: the cluster of kubernetes_sd_configs without an api_server, or NULL. stats: counters of
// discovery, or NULL.
void rules_manager_set_discovery(struct rules_manager *m, struct kube_client *kube,
                                 struct discovery_stats *stats);
// Loads rule_files and Alertmanagers of the configuration. problems: invalid rules, for the log.
struct gs_error *rules_manager_apply(struct rules_manager *m, const struct engine_config *cfg,
                                     struct rules_problems *problems);
// Adds or replaces a named set in addition to the configuration's files (PrometheusRule objects).
// Takes set; NULL removes the named set.
void rules_manager_apply_extra(struct rules_manager *m, const char *name, struct rules_set *set);

// /api/v1/rules (type: "alert", "record" or NULL), /api/v1/alerts, /api/v1/alertmanagers: `data`.
json_t *rules_json(const struct rules_manager *m, const char *type);
json_t *rules_alerts_json(const struct rules_manager *m);
json_t *rules_alertmanagers_json(const struct rules_manager *m);
void rules_manager_write_metrics(const struct rules_manager *m, struct gs_buf *out);

// --- PrometheusRule objects ---
// Rules from the cluster: each PrometheusRule object (monitoring.coreos.com/v1) is a rule set of
// the manager. A wrong rule, group or unknown field is logged and left out; the rest of the object
// is evaluated. The resource is optional.

struct rules_objects;

// ns NULL: all namespaces. selector: a label selector of the objects, or NULL. selection takes
// precedence over it; NULL: none. Both are borrowed.
struct rules_objects *rules_objects_new(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                        const char *selector,
                                        const struct engine_config_selection *selection,
                                        struct rules_manager *m);
// The selection decides differently from now on: all objects are decided again.
void rules_objects_select_again(struct rules_objects *o);
void rules_objects_free(struct rules_objects *o); // its rules stay until the manager is freed
// Why the objects cannot be read; NULL: no error.
const char *rules_objects_error(const struct rules_objects *o);
// Appends the metrics about the objects in the text format.
void rules_objects_write_metrics(const struct rules_objects *o, struct gs_buf *out);
