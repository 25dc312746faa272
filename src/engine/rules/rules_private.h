// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/arena.h"
#include "base/fiber.h"
#include "base/hmap.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "engine/rules/rules.h"
#include "net/http/client.h"
#include "template/template.h"
#include "tsdb/tsdb.h"

#include <sys/queue.h>
#include <uv.h>

// --- parser ---
// Reads rule groups from parsed YAML or Kubernetes objects.

// A rule set under construction.
struct rules_builder {
    struct gs_arena arena;
    struct rules_group *groups;
    size_t n_groups, cap_groups;
    struct promql_expr **exprs;
    size_t n_exprs, cap_exprs;
    struct rules_problems *problems;
};

// The origin of a document. marks NULL: an object without text.
struct rules_source {
    const char *file; // of errors and of the groups
    const struct codec_yaml_marks *marks;
    bool ignore_unknown_fields;
    // An error costs only the field, rule or group that has it, and is added to the problems. For
    // objects of a cluster. Otherwise it rejects the document, as Prometheus does with a file.
    bool keep_valid_parts;
};

// Reads the groups of a document: {groups: …}, a PrometheusRule or a list of PrometheusRules.
struct gs_error *rules_build_document(struct rules_builder *b, const struct rules_source *src,
                                      const json_t *doc);
// Reads one rule of a group. Never fails: an error is added to the problems and disables the rule.
void rules_build_rule(struct rules_builder *b, const struct rules_source *src,
                      const struct rules_group *group, size_t number, const json_t *obj,
                      struct rules_rule *ret);
struct rules_set *rules_builder_end(struct rules_builder *b); // takes the content
void rules_builder_finish(struct rules_builder *b);

// --- helpers of the two files ---

// Returns "file:line:column" of the first value with a position.
char *rules_where(const struct rules_source *src, const json_t *value, const json_t *fallback);
// Reads a scalar field as text, including numbers and booleans of JSON objects. *ret NULL: absent
// or null. Returns false if it is not a scalar.
bool rules_scalar(struct rules_builder *b, const json_t *value, const char **ret);
const char *rules_format(struct rules_builder *b, const char *fmt, ...) GS_PRINTF(2, 3);
// Reads {name: text}, sorted by name. Returns the text of an error or NULL.
const char *rules_label_map(struct rules_builder *b, const json_t *value, bool label_names,
                            const struct metrics_label **ret, size_t *ret_n);
void rules_problem(struct rules_problems *p, char *text); // takes text

// --- state of a group ---
// The state of a group, for the manager and the JSON views.

enum rules_health { RULES_UNKNOWN, RULES_OK, RULES_ERR };

// A label list and its strings in one allocation.
struct rules_labels {
    size_t n;
    struct metrics_label items[];
};

struct rules_active_alert {
    struct rules_alert a;
    struct rules_labels *labels, *annotations;
    int64_t last_sent_ms;
};

struct rules_state {
    const struct rules_rule *rule;
    struct tsdb_group *series;
    struct gs_hmap *active;                                            // alerts by their label set
    struct template_program **label_templates, **annotation_templates; // alerts only
    bool restored; // the state of `for` is restored: the series of alerts can be written
    enum rules_health health;
    char *last_error;
    int64_t duration_ns, last_eval_ms;
};

struct rules_runner {
    struct rules_runner_config cfg;
    const struct rules_group *group;
    int64_t interval_ms;
    struct rules_state *rules;
    // Series of rules that a reload removed: the next evaluation ends them.
    struct tsdb_group **ended;
    size_t n_ended, cap_ended;
    int64_t duration_ns, last_eval_ms, last_eval_t_ms;
    size_t last_samples;
    uint64_t evaluations, failures, iterations, missed;
    double restore_seconds;
    bool canceled; // its queries are cancelled and their results discarded
};

int64_t rules_runner_offset(const struct rules_runner *r);
// The highest state of its alerts: firing, pending, inactive.
enum rules_alert_state rules_state_of(const struct rules_state *s);

// alert.c: the result of an evaluation as label sets with values.
struct rules_sample {
    struct metrics_label *labels; // sorted
    size_t n_labels;
    double value;
};
// Updates the alerts of a rule from the result of its expression. ret gets the samples to store
// (ALERTS, ALERTS_FOR_STATE), allocated in the arena.
struct gs_error *rules_alerts_update(struct rules_runner *r, struct rules_state *s, int64_t t_ms,
                                     const struct rules_sample *in, size_t n,
                                     struct gs_arena *arena, struct rules_sample **ret,
                                     size_t *ret_n);
void rules_alerts_parse_templates(struct rules_state *s);
void rules_active_alert_free(void *alert);
// Sorted by name.
void rules_sort_labels(struct metrics_label *items, size_t n);
// Sets or adds a label; an empty value removes it. items must have space for one more.
void rules_set_label(struct metrics_label *items, size_t *n, struct gs_slice name,
                     struct gs_slice value);
// Returns a string that is equal for equal label sets.
void rules_labels_key(const struct metrics_label *items, size_t n, struct gs_buf *out);
// Runs an instant query of a template or rule and returns its samples in the arena.
struct gs_error *rules_query(const struct rules_runner_config *cfg, const struct promql_expr *expr,
                             int64_t t_ms, struct gs_arena *arena, struct rules_sample **ret,
                             size_t *ret_n);
// Calls fn for each alert that is due to be sent and records the time.
void rules_runner_due(struct rules_runner *r, int64_t t_ms, int64_t resend_ms,
                      void (*fn)(void *arg, const struct rules_alert *a, int64_t valid_until_ms),
                      void *arg);
void rules_runner_await_restore(struct rules_runner *r);
// Ends all series of the group.
void rules_runner_end_series(struct rules_runner *r, int64_t t_ms);

// --- notifications ---
// Sends alerts to Alertmanagers: POST /api/v2/alerts in batches, to all of them in parallel,
// through a bounded queue. https://prometheus.io/docs/alerting/latest/clients/

struct rules_notifier;
struct endpoint_tokens;
struct kube_client;

struct rules_notifier *rules_notifier_new(uv_loop_t *loop, const char *external_url);
// Call it before the first apply. kube: the cluster of kubernetes_sd_configs without an api_server,
// or NULL. stats: counters to update, or NULL.
void rules_notifier_set_discovery(struct rules_notifier *n, struct kube_client *kube,
                                  struct discovery_stats *stats);
void rules_notifier_free(struct rules_notifier *n);
// cfg is borrowed until the next apply. Queued alerts are kept.
void rules_notifier_apply(struct rules_notifier *n, const struct engine_config *cfg);
// Queues an alert. rules_notifier_flush sends it.
void rules_notifier_add(struct rules_notifier *n, const struct rules_alert *a,
                        int64_t valid_until_ms);
void rules_notifier_flush(struct rules_notifier *n);
json_t *rules_notifier_json(const struct rules_notifier *n); // of /api/v1/alertmanagers
void rules_notifier_write_metrics(const struct rules_notifier *n, struct gs_buf *out);

// --- targets (alertmanagers.c) ---

struct rules_alertmanager {
    struct rules_alertmanager_set *set;
    char *url; // "http://am:9093/api/v2/alerts"
    char *path;
    struct http_client *client;
    struct http_op *op;
    struct rules_notifier *notifier;
    uint64_t sent, errors, answers;
    double seconds; // of all responses
    int64_t begun_ns;
    size_t n_alerts; // of the request in flight
    bool retried;
    struct gs_buf body;
    bool keep; // during a rebuild of the set
};

// One alertmanager_config.
struct rules_alertmanager_set {
    struct rules_notifier *notifier;
    const struct engine_config_alertmanager_config *cfg;
    struct endpoint_tokens *tokens; // of all clients; NULL: none are needed
    struct rules_alertmanager **targets;
    size_t n, cap;
    char **dropped;
    size_t n_dropped, cap_dropped;
    struct rules_alertmanager_discovery *discoveries; // one per source
    size_t n_discoveries;
    bool attempted, delivered; // of the batch in flight
};

struct rules_alertmanager_set *
rules_alertmanager_set_new(struct rules_notifier *n, const struct discovery_context *ctx,
                           const struct engine_config_alertmanager_config *cfg);
// True if a discovery has not reported its first targets yet.
bool rules_alertmanager_set_pending(const struct rules_alertmanager_set *s);
void rules_alertmanager_set_free(struct rules_alertmanager_set *s);

// --- manager ---
// The manager and its views.

struct rules_managed_group {
    struct rules_manager *manager;
    struct rules_runner *runner;
    struct gs_timer *timer;
    uint64_t hash;
    int64_t next_ms;
    int evals_to_restore;   // 0: restored, or nothing to restore
    struct gs_fiber *fiber; // of the evaluation in progress; NULL: none
    int64_t eval_ms;
    TAILQ_ENTRY(rules_managed_group) paused;
};

struct rules_file_source {
    char *name; // NULL: the configuration's files
    struct rules_set *set;
    struct rules_managed_group **groups;
    size_t n;
    bool loaded; // once
};

struct rules_manager {
    uv_loop_t *loop;
    char *external_url;
    struct rules_runner_config runner_cfg;
    int64_t interval_ms;
    struct rules_file_source files, *extras;
    size_t n_extras, cap_extras;
    struct rules_notifier *notifier;
    uint64_t evaluations; // of groups
    double seconds;
    // Paused evaluations continue in the next iteration of the loop, one step of each.
    TAILQ_HEAD(, rules_managed_group) paused;
    struct rules_managed_group *running; // the next one to step
    struct gs_fiber *spare;
    uv_idle_t *turn;
};

// All groups, sorted by file and name; the caller frees the array.
const struct rules_runner **rules_manager_groups(const struct rules_manager *m, size_t *ret_n);
