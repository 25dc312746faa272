// SPDX-License-Identifier: Apache-2.0
// What the manager and the JSON views see of a group's state. Private to the room.
#pragma once

#include "base/hmap.h"
#include "engine/rules/rules.h"
#include "template/template.h"
#include "tsdb/tsdb.h"

enum rules_health { RULES_UNKNOWN, RULES_OK, RULES_ERR };

// A label list and its texts in one allocation.
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
    bool restored; // the for state is known: the series of alerts may be written
    enum rules_health health;
    char *last_error;
    int64_t duration_ns, last_eval_ms;
};

struct rules_runner {
    struct rules_runner_config cfg;
    const struct rules_group *group;
    int64_t interval_ms;
    struct rules_state *rules;
    // Series of rules that a reload took away: ended by the next evaluation.
    struct tsdb_group **ended;
    size_t n_ended, cap_ended;
    int64_t duration_ns, last_eval_ms, last_eval_t_ms;
    size_t last_samples;
    uint64_t evaluations, failures, iterations, missed;
    double restore_seconds;
    bool canceled; // its queries are told to end; what they gave is not used
};

int64_t rules_runner_offset(const struct rules_runner *r);
enum rules_alert_state rules_state_of(const struct rules_state *s); // the highest of its alerts

// alert.c
// One evaluation's result as label sets with values.
struct rules_sample {
    struct metrics_label *labels; // sorted
    size_t n_labels;
    double value;
};
// The alerts of a rule after its expression gave these samples. Samples to store (ALERTS,
// ALERTS_FOR_STATE) go to ret, in the arena.
struct gs_error *rules_alerts_update(struct rules_runner *r, struct rules_state *s, int64_t t_ms,
                                     const struct rules_sample *in, size_t n,
                                     struct gs_arena *arena, struct rules_sample **ret,
                                     size_t *ret_n);
void rules_alerts_parse_templates(struct rules_state *s);
void rules_active_alert_free(void *alert);
// Sorted by name.
void rules_sort_labels(struct metrics_label *items, size_t n);
// Sets or adds; an empty value takes the label away. items has room for one more.
void rules_set_label(struct metrics_label *items, size_t *n, struct gs_slice name,
                     struct gs_slice value);
// A text that is equal for equal label sets.
void rules_labels_key(const struct metrics_label *items, size_t n, struct gs_buf *out);
// query: of templates and of rules: an instant query as samples in the arena.
struct gs_error *rules_query(const struct rules_runner_config *cfg, const struct promql_expr *expr,
                             int64_t t_ms, struct gs_arena *arena, struct rules_sample **ret,
                             size_t *ret_n);
// Which alerts are to be sent now: calls fn for each, and remembers that it was sent.
void rules_runner_due(struct rules_runner *r, int64_t t_ms, int64_t resend_ms,
                      void (*fn)(void *arg, const struct rules_alert *a, int64_t valid_until_ms),
                      void *arg);
void rules_runner_await_restore(struct rules_runner *r);
// Ends all series of the group.
void rules_runner_end_series(struct rules_runner *r, int64_t t_ms);
