// SPDX-License-Identifier: Apache-2.0
// A recorded history, run with its present and with changed settings.
#pragma once

#include "hpa/hpa.h"
#include "hpa/whatif.h"
#include "replay/replay.h"

#define REPLAY_HISTORY_SAMPLES 11000 // of a series: the steps of a range query
#define REPLAY_HISTORY_METRICS 16
#define REPLAY_HISTORY_FULL    100.0 // utilization of a replica that serves no more, percent

// One of the two runs.
struct replay_history_side {
    struct replay_scenario s;
    struct replay_result result;
    double above_s; // time above the present target
};

struct replay_history {
    struct hpa_spec spec;
    struct hpa_config cfg;
    json_t *settings;
    int64_t start_ms, duration_ms; // of Unix time
    double coverage;               // of the time, from 0 to 1
    size_t gpus;
    bool queue; // the load waits in a queue; otherwise values are divided among the replicas
    struct replay_history_engines *engines; // simulated ones serve the load instead; NULL: no
    struct replay_curve *values;            // of each metric, from the start
    struct replay_curve replicas, load;
    struct replay_history_side present, changed;
};

// [[seconds, "value"], …] as a curve in milliseconds of Unix time. Samples that are not finite, or
// negative, are left out. GS_EINVAL: fewer than two are left.
struct gs_error *replay_history_read_series(const json_t *in, struct replay_curve *ret);
void replay_history_move(struct replay_curve *c, int64_t start_ms);

// --- history_fetch.c ---

struct replay_history_source;
// NAME OP "VALUE", such as pod=~"web-.*".
void replay_history_add_matcher(struct gs_buf *out, const char *label, const char *op,
                                const char *value);
int64_t replay_history_step_ms(const struct replay_history_source *s);
// The first series of a range query: {metric, values}; new reference. GS_ENOTFOUND: none.
struct gs_error *replay_history_query(const struct replay_history_source *s, struct gs_slice expr,
                                      int64_t now_ms, json_t **ret);

// --- history_signals.c ---

// Sets the member "inference" of the question, if the pods have signals of engines.
struct gs_error *replay_history_fetch_engines(const struct replay_history_source *s,
                                              const json_t *explanation, int64_t now_ms,
                                              json_t *question);

// --- history_engines.c: an inference service ---

#define REPLAY_HISTORY_TOKENS 1e8 // generated in the recorded time

// Reads the member "inference" of the question, and the settings of the latency target. Settings
// that are left are those of the autoscaler.
struct gs_error *replay_history_engines_read(struct replay_history *h, const json_t *question,
                                             struct hpa_setting *settings, size_t *n_settings);
// Limits the recorded time to that in which the signals exist.
void replay_history_engines_span(const struct replay_history *h, int64_t *start_ms,
                                 int64_t *end_ms);
// Makes the service of a run. changed: with the other latency target. After the span is known.
struct gs_error *replay_history_engines_set(const struct replay_history *h, bool changed,
                                            struct replay_scenario *s);
const char *replay_history_engines_goal(const struct replay_history *h); // "": no target
void replay_history_engines_assume(const struct replay_history *h, json_t *assumptions);
void replay_history_engines_free(struct replay_history_engines *e); // accepts NULL

// Whether the value is that of the pods of the target, not of an Object or External metric.
bool replay_history_is_of_pods(const struct hpa_metric_spec *m);
// Sets the member summary of an answer, from its other members.
void replay_history_add_summary(json_t *answer);
