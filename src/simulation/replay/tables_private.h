// SPDX-License-Identifier: Apache-2.0
// The parts of a decision table: what it contains, its rows as cases, what was observed, and what
// is expected of the decision.
#pragma once

#include "base/arena.h"
#include "hpa/hpa.h"
#include "replay/decision_tables.h"
#include "replay/schema.h"

// --- schema ---
//
// The fields of a decision table and their values. A case is checked before anything is read from
// it.

// A document: a case with steps, or columns and rows (of which each row is checked by itself).
struct gs_error *replay_table_check(const struct replay_document *src, const json_t *doc);
// The cell of a column, by the schema of its field.
enum replay_table_cell {
    REPLAY_CELL_STEP,      // field of the step
    REPLAY_CELL_EXPECT,    // … of expect
    REPLAY_CELL_METRIC,    // … of the first metric that is expected
    REPLAY_CELL_CONDITION, // … of the conditions that are expected
    REPLAY_CELL_OBSERVED,  // … of the first metric that is observed
    REPLAY_CELL_SPEC,      // checked as part of the spec
    REPLAY_CELL_CONFIG,
    REPLAY_CELL_TARGET, // target (quantity or percentage) of the first metric of the spec
};
struct gs_error *replay_table_check_cell(const struct replay_document *src,
                                         enum replay_table_cell place, const char *field,
                                         const json_t *cell);
// The autoscaler of a case as the API would validate it. object: with defaults.
struct gs_error *replay_table_check_object(const struct replay_document *src, const json_t *doc,
                                           const json_t *object);

// --- rows ---
//
// A document with `columns` and `rows` stands for one case per row.

// A row as a case of its own: name, spec, config and one step. GS_EINVAL: the row does not fit.
// doc: checked by replay_table_check(). src: its line is the row's.
struct gs_error *replay_table_expand_row(const struct replay_document *src, const json_t *doc,
                                         size_t row, json_t **ret);

// --- observations ---
//
// The observation of an evaluation, from the YAML of a decision table.

#define REPLAY_OBSERVATION_MAX_PODS    ((size_t)10000)
#define REPLAY_OBSERVATION_MAX_METRICS ((size_t)16)

struct replay_observation {
    struct hpa_observation obs;
    struct hpa_pod *pods;
    int64_t *requests; // of pod i and metric m: i * n_metrics + m
    char (*names)[24]; // "pod-7"
    size_t n_names;
    struct hpa_metric_observation metrics[REPLAY_OBSERVATION_MAX_METRICS + HPA_MAX_LOADS];
    struct hpa_sample *samples[REPLAY_OBSERVATION_MAX_METRICS + HPA_MAX_LOADS];
    struct startup_coming coming;
    struct gs_arena arena; // texts and requests of pods with containers
};

// pods and metrics: the last ones of the case, checked by replay_table_check(). replicas: after the
// previous evaluation. Texts are borrowed from the JSON. GS_EINVAL: the values do not fit the spec.
struct gs_error *replay_observation_load(const json_t *step, const json_t *pods,
                                         const json_t *metrics, const struct hpa_spec *spec,
                                         const struct hpa_config *cfg, int32_t replicas,
                                         int64_t now_ms, struct replay_observation *ret);
void replay_observation_finish(struct replay_observation *s);

// Reads a number or the text of a quantity. False: it is neither.
#define REPLAY_OBSERVATION_QUANTITY_SIZE 64
bool replay_observation_quantity_text(const json_t *v, char text[REPLAY_OBSERVATION_QUANTITY_SIZE]);
struct gs_error *replay_observation_milli(const json_t *v, int64_t *ret);
// obj[name], in seconds, as milliseconds.
int64_t replay_observation_ms(const json_t *obj, const char *name, double fallback_seconds);

// --- containers, as the controller reads them from the API ---
// requests: {container: {resource: quantity}} of the pod; null: the container has no such request.
void replay_observation_container_requests(struct gs_arena *arena, const struct hpa_spec *spec,
                                           int release, const char *pod, const json_t *requests,
                                           struct hpa_pod *ret);
// usage: {container: quantity} of the metric's resource; null: the container has no such usage.
// *ret_error: set if the release treats the response as an error. False: the pod has no sample.
bool replay_observation_container_usage(struct gs_arena *arena, const struct hpa_metric_spec *m,
                                        int release, const json_t *usage, struct hpa_sample *sample,
                                        const char **ret_error);

// --- expectations ---
//
// Compares a decision with what a decision table expects.

// Differences are added to the failures of the result, each beginning with `where` ("at 30 s").
void replay_table_check_decision(const json_t *want, const struct hpa_spec *spec,
                                 const struct hpa_decision *d, const char *where,
                                 struct codec_test_case *result);
