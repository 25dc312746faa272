// SPDX-License-Identifier: Apache-2.0
// What the manager and the JSON views see of a group's state. Private to the room.
#pragma once

#include "base/hmap.h"
#include "engine/rules/rules.h"
#include "engine/rules/template.h"
#include "tsdb/tsdb.h"

enum rule_health { RULE_UNKNOWN, RULE_OK, RULE_ERR };

// A label list and its texts in one allocation.
struct rule_labels {
    size_t n;
    struct metrics_label items[];
};

struct active_alert {
    struct rule_alert a;
    struct rule_labels *labels, *annotations;
    int64_t last_sent_ms;
};

struct rule_state {
    const struct rule *rule;
    struct tsdb_group *series;
    struct gs_hmap *active;                                         // alerts by their label set
    struct rule_template **label_templates, **annotation_templates; // alerts only
    bool restored; // the for state is known: the series of alerts may be written
    enum rule_health health;
    char *last_error;
    int64_t duration_ns, last_eval_ms;
};

struct rule_runner {
    struct rule_runner_config cfg;
    const struct rule_group *group;
    int64_t interval_ms;
    struct rule_state *rules;
    // Series of rules that a reload took away: ended by the next evaluation.
    struct tsdb_group **ended;
    size_t n_ended, cap_ended;
    int64_t duration_ns, last_eval_ms, last_eval_t_ms;
    size_t last_samples;
    uint64_t evaluations, failures, iterations, missed;
    double restore_seconds;
    bool canceled; // its queries are told to end; what they gave is not used
};

int64_t rule_runner_offset(const struct rule_runner *r);
enum rule_alert_state rule_state_of(const struct rule_state *s); // the highest of its alerts

// alert.c
// One evaluation's result as label sets with values.
struct rule_sample {
    struct metrics_label *labels; // sorted
    size_t n_labels;
    double value;
};
// The alerts of a rule after its expression gave these samples. Samples to store (ALERTS,
// ALERTS_FOR_STATE) go to ret, in the arena.
struct gs_error *rule_alerts_update(struct rule_runner *r, struct rule_state *s, int64_t t_ms,
                                    const struct rule_sample *in, size_t n, struct gs_arena *arena,
                                    struct rule_sample **ret, size_t *ret_n);
void rule_alerts_parse_templates(struct rule_state *s);
void active_alert_free(void *alert);
// Sorted by name.
void rule_sort_labels(struct metrics_label *items, size_t n);
// Sets or adds; an empty value takes the label away. items has room for one more.
void rule_set_label(struct metrics_label *items, size_t *n, struct gs_slice name,
                    struct gs_slice value);
// A text that is equal for equal label sets.
void rule_labels_key(const struct metrics_label *items, size_t n, struct gs_buf *out);
// query: of templates and of rules: an instant query as samples in the arena.
struct gs_error *rule_query(const struct rule_runner_config *cfg, const struct promql_expr *expr,
                            int64_t t_ms, struct gs_arena *arena, struct rule_sample **ret,
                            size_t *ret_n);
// Which alerts are to be sent now: calls fn for each, and remembers that it was sent.
void rule_runner_due(struct rule_runner *r, int64_t t_ms, int64_t resend_ms,
                     void (*fn)(void *arg, const struct rule_alert *a, int64_t valid_until_ms),
                     void *arg);
void rule_runner_await_restore(struct rule_runner *r);
// Ends all series of the group.
void rule_runner_end_series(struct rule_runner *r, int64_t t_ms);
