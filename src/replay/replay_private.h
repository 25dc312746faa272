// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "hpa/hpa.h"
#include "replay/decision_tables.h"
#include "replay/replay.h"

#include <stddef.h>
#include <stdint.h>

// --- scenarios ---
//
// Reading (scenario.c) and changing (settings.c) a scenario.

#define REPLAY_MAX_REPLICAS 10000

struct replay_scenario_file { // a scenario with its texts
    struct replay_scenario s;
    struct gs_arena arena;
};

struct gs_error *replay_scenario_check(const struct replay_scenario *s);
// Sets the prices of the scenario from its GPU and instance type.
struct gs_error *replay_scenario_find_prices(struct replay_scenario *s);

// --- recordings ---

// Queries the server and writes a scenario to the file.
struct gs_error *replay_recording_write(const struct replay_recording *r, const char *path);

// --- prices ---
//
// The prices of GPUs and nodes: a table in a YAML file, or in the scenario.

// New reference of a valid table. Errors begin with the path.
struct gs_error *replay_prices_load(const char *path, json_t **ret);
struct gs_error *replay_prices_check(const json_t *table);
// Per hour. Errors list the entries of the table.
struct gs_error *replay_prices_of_gpu(const json_t *table, const char *model, double *ret);
struct gs_error *replay_prices_of_instance(const json_t *table, const char *type, size_t *ret_gpus,
                                           double *ret);

// --- wait times ---
//
// How long work waits before it is served (first in, first out), in seconds.

struct replay_waits_batch {
    int64_t since_s;
    double work;
};

struct replay_waits {
    struct replay_waits_batch *batches; // waiting, the oldest at `first`
    size_t first, n, cap;
    double *served; // work by its wait in seconds; the last entry: this long or longer
    size_t n_served, served_cap;
};

void replay_waits_add(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve(struct replay_waits *w, int64_t now_s, double work);
void replay_waits_serve_at_once(struct replay_waits *w,
                                double work); // work that arrived while nothing waited
// The quantile of the waits of the served work, in seconds; share from 0 to 1.
double replay_waits_quantile(const struct replay_waits *w, double share);
void replay_waits_finish(struct replay_waits *w);

// --- simulated cluster ---
//
// Pods, nodes and the load that is served, in steps of one second.

struct replay_pod {
    char name[24];
    int64_t created_ms, started_ms, ready_ms; // started: INT64_MAX while it waits for a node
    size_t node;
};

struct replay_drain { // a pod that is terminating
    int64_t until_ms;
    size_t node;
};

struct replay_node {
    int64_t ready_ms, idle_since_ms; // idle: INT64_MAX while a pod is on it
    size_t used;                     // GPUs
    bool removed;
};

// The state at one second; the controller sees it `delay` later.
struct replay_moment {
    double load, utilization, queue;
    int32_t ready;
};

// Seconds in which all work was served at once: load and utilization are calculated from the load's
// curve when they are read.
struct replay_calm {
    int64_t first, last; // seconds
    int32_t ready;
};

// Counts that only change with the pods and nodes; cached until then.
struct replay_counts {
    int64_t until_ms; // when the next of them is ready
    bool stale;
    bool rest; // no pod waits and no node may be removed
    int32_t ready, running, draining;
    size_t nodes, nodes_ready;
};

struct replay_cluster {
    const struct replay_scenario *s;
    int64_t t_ms;
    struct replay_pod *pods; // the oldest first
    size_t n_pods, pods_cap;
    struct replay_drain *drains;
    size_t n_drains, drains_cap;
    struct replay_node *nodes;
    size_t n_nodes, nodes_cap;
    size_t next_name;
    double queue; // work that waits, in units of load * seconds
    struct replay_waits waits;
    struct replay_moment *past; // of the last seconds, by second modulo n_past, a power of two
    size_t n_past, history_steps;
    struct replay_calm calm;        // the last seconds, which are not in `past`
    struct replay_moment now, seen; // results of the getters
    struct replay_curve_piece load,
        load_before; // of the load now, and of the load that the controller sees
    struct replay_counts counts;
    size_t version; // changes when pods or nodes change
    struct replay_summary sum;
    double replica_seconds, queue_seconds;
};

void replay_cluster_start(struct replay_cluster *cluster, const struct replay_scenario *s);
void replay_cluster_scale(struct replay_cluster *cluster, int32_t replicas); // takes effect at once
void replay_cluster_lose(struct replay_cluster *cluster,
                         size_t n); // the oldest pods end, new ones start
void replay_cluster_run(struct replay_cluster *cluster, int64_t until_ms); // in steps of a second
// The counts now; `version` changes when pods or nodes may have changed.
const struct replay_counts *replay_cluster_count(struct replay_cluster *cluster);
const struct replay_moment *replay_cluster_now(struct replay_cluster *cluster);
// What the controller sees now.
const struct replay_moment *replay_cluster_observed(struct replay_cluster *cluster);
void replay_cluster_finish(struct replay_cluster *cluster);

// --- schema of YAML values ---
//
// The expected form of the values of a YAML file, as data: one description per field. A value is
// checked before anything is read from it.

enum replay_schema_kind {
    REPLAY_SCHEMA_END, // of a list of alternatives
    REPLAY_SCHEMA_NULL,
    REPLAY_SCHEMA_BOOL,
    REPLAY_SCHEMA_COUNT,    // integer, min to max
    REPLAY_SCHEMA_NUMBER,   // min to max
    REPLAY_SCHEMA_SECONDS,  // number, min to max
    REPLAY_SCHEMA_QUANTITY, // number, or text as of Kubernetes: 250m
    REPLAY_SCHEMA_TEXT,
    REPLAY_SCHEMA_CHOICE, // text out of `choices`
    REPLAY_SCHEMA_OBJECT, // with `fields` only
    REPLAY_SCHEMA_MAP,    // any keys, values of schema `item`
    REPLAY_SCHEMA_LIST,   // of schema `item`, max entries
    REPLAY_SCHEMA_ANY,    // checked elsewhere
};

struct replay_schema_field;
// A value must match one of the alternatives: an array that ends with REPLAY_SCHEMA_END.
// Alternatives have different JSON types, so that a wrong value has one reason.
struct replay_schema {
    enum replay_schema_kind kind;
    double min, max;
    const char *const *choices; // ends with NULL
    const struct replay_schema_field *fields;
    const struct replay_schema *item;
};
struct replay_schema_field {
    const char *name; // NULL ends the fields
    const struct replay_schema *schema;
};

// Positions of values, for errors.
struct replay_document {
    const char *file;
    const struct codec_yaml_marks *marks;
    int line; // used for values without a position
};

// "file:12:3: steps[0].at: …". path: names the value. GS_EINVAL: it does not fit.
struct gs_error *replay_schema_check(const struct replay_document *src, const json_t *value,
                                     const struct replay_schema *schema, const char *path);
// An error at a value's place, or at the line of the source.
struct gs_error *replay_schema_error(const struct replay_document *src, const json_t *value,
                                     const char *fmt, ...) GS_PRINTF(3, 4) GS_MUST_USE;

// --- schema of decision tables ---
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

// --- rows of decision tables ---
//
// A document with `columns` and `rows` stands for one case per row.

// A row as a case of its own: name, spec, config and one step. GS_EINVAL: the row does not fit.
// doc: checked by replay_table_check(). src: its line is the row's.
struct gs_error *replay_table_expand_row(const struct replay_document *src, const json_t *doc,
                                         size_t row, json_t **ret);

// --- observations of decision tables ---
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
    struct hpa_metric_observation metrics[REPLAY_OBSERVATION_MAX_METRICS];
    struct hpa_sample *samples[REPLAY_OBSERVATION_MAX_METRICS];
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

// --- expectations of decision tables ---
//
// Compares a decision with what a decision table expects.

// Differences are added to the failures of the result, each beginning with `where` ("at 30 s").
void replay_table_check_decision(const json_t *want, const struct hpa_spec *spec,
                                 const struct hpa_decision *d, const char *where,
                                 struct codec_test_case *result);
