// SPDX-License-Identifier: Apache-2.0
// Shared by the files that run workloads, scenarios and decision tables in simulated time.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "codec/yaml_reader.h"
#include "hpa/hpa.h"
#include "nodes/choice.h"
#include "nodes/plan.h"
#include "nodes/pool.h"
#include "nodes/prices.h"
#include "nodes/scheduling.h"
#include "nodes/simulation.h"
#include "replay/decision_tables.h"
#include "replay/replay.h"

#include <stddef.h>
#include <stdint.h>

// --- scenarios ---
//
// Reading (scenario.c) and changing (settings.c) a scenario.

#define REPLAY_T0_MS           INT64_C(1700000000000) // start of a run, as Unix time
#define REPLAY_MAX_REPLICAS    10000
#define REPLAY_MAX_DURATION_MS (INT64_C(366) * 24 * 3600 * 1000)

struct replay_scenario_file { // a scenario with its texts
    struct replay_scenario s;
    struct gs_arena arena;
};

struct gs_error *replay_scenario_check(const struct replay_scenario *s);
// Sets the prices of the scenario from its GPU and instance type.
struct gs_error *replay_scenario_find_prices(struct replay_scenario *s);

// A number of at least 0. 0 after an error.
double replay_read_number(struct codec_reader *r, const json_t *v);
// A workload of a scenario with pools, without nodes of its own. typed: the same mapping, with
// types. Its texts are in the reader's arena. Never NULL: r->err says whether it may be used.
struct replay_scenario *replay_scenario_read_entry(struct codec_reader *r, const json_t *texts,
                                                   const json_t *typed, int64_t duration_ms);

// --- recorded history ---

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
    struct replay_curve *values; // of each metric, from the start
    struct replay_curve replicas, load;
    struct replay_history_side present, changed;
};

// Whether the value is that of the pods of the target, not of an Object or External metric.
bool replay_history_is_of_pods(const struct hpa_metric_spec *m);
// Sets the member summary of an answer, from its other members.
void replay_history_add_summary(json_t *answer);

// --- reports ---

json_t *replay_summary_json(const struct replay_summary *u);

// Parts of pictures: panels with values over time, one below the other.
enum {
    REPLAY_SVG_WIDTH = 960,
    REPLAY_SVG_LEFT = 64,
    REPLAY_SVG_RIGHT = 24,
    REPLAY_SVG_PANEL = 150, // height
    REPLAY_SVG_GAP = 40
};
#define REPLAY_SVG_NEARLY 0.4 // pixels: points that are nearer to the previous one are omitted

struct replay_svg_scale {
    double top, step; // of the values
    int64_t duration_ms;
    int y; // of the panel
};
void replay_svg_fit(struct replay_svg_scale *s, double top); // sets top and step
double replay_svg_x(const struct replay_svg_scale *s, int64_t t_ms);
double replay_svg_y(const struct replay_svg_scale *s, double v);
const char *replay_svg_colour(size_t i);
void replay_svg_begin(int height, struct gs_buf *out);
void replay_svg_axes(const char *title, const struct replay_svg_scale *s, bool with_times,
                     struct gs_buf *out);
void replay_svg_text(const char *s, struct gs_buf *out); // escaped, and cut if it is long

// --- recordings ---

// Queries the server and writes a scenario to the file.
struct gs_error *replay_recording_write(const struct replay_recording *r, const char *path);

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
    size_t node;                              // with a placer: the ticket
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

// Places the pods of a workload that shares its nodes with others. A ticket is the placer's number
// of a pod, from add() until remove().
struct replay_cluster;
struct replay_placer {
    void *ctx;
    size_t (*add)(void *ctx, struct replay_cluster *cluster); // a pod that waits
    void (*remove)(void *ctx, size_t ticket);                 // its resources are free
    void (*schedule)(void *ctx); // calls replay_cluster_placed() for the pods that have a node now
};

struct replay_cluster {
    const struct replay_scenario *s;
    const struct replay_placer *placer; // NULL: the nodes of the scenario
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

void replay_cluster_start(struct replay_cluster *cluster, const struct replay_scenario *s,
                          const struct replay_placer *placer);
void replay_cluster_scale(struct replay_cluster *cluster, int32_t replicas); // takes effect at once
void replay_cluster_lose(struct replay_cluster *cluster,
                         size_t n); // the oldest pods end, new ones start
void replay_cluster_run(struct replay_cluster *cluster, int64_t until_ms); // in steps of a second
// The pod of the ticket has a node now.
void replay_cluster_placed(struct replay_cluster *cluster, size_t ticket);
// The pod of the ticket ends, and a new one replaces it.
void replay_cluster_evict(struct replay_cluster *cluster, size_t ticket);
// The counts now; `version` changes when pods or nodes may have changed.
const struct replay_counts *replay_cluster_count(struct replay_cluster *cluster);
const struct replay_moment *replay_cluster_now(struct replay_cluster *cluster);
// What the controller sees now.
const struct replay_moment *replay_cluster_observed(struct replay_cluster *cluster);
void replay_cluster_finish(struct replay_cluster *cluster);

// --- a workload with its autoscaler ---

struct replay_view; // the observation of an evaluation

struct replay_workload_run {
    struct replay_cluster cluster;
    struct hpa_history *history;
    struct replay_view *view;
    int32_t replicas;
    int64_t next_sync_ms;
    size_t next_event;
    struct replay_result result; // rows: NULL, or with space for one per evaluation
};

// rows: record them.
void replay_workload_start(struct replay_workload_run *w, const struct replay_scenario *s,
                           const struct replay_placer *placer, bool rows);
// The events and the evaluation that are due now. Returns the time of the next ones.
int64_t replay_workload_act(struct replay_workload_run *w);
// Completes w->result, which then belongs to the caller.
void replay_workload_finish(struct replay_workload_run *w);

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

// --- scenarios with pools ---
//
// Several workloads on pools of nodes: a fleet. fleet_scenario.c and fleet_settings.c read and
// change it; fleet_run.c runs it with fleet_nodes.c (machines, scheduling), fleet_start.c (their
// start) and fleet_plan.c (the node autoscaler).

#define REPLAY_MAX_WORKLOADS ((size_t)500)
#define REPLAY_MAX_POOLS     ((size_t)100)
#define REPLAY_MAX_NODES     ((size_t)10000) // of a fleet
#define REPLAY_MAX_JOBS      ((size_t)200000)
#define REPLAY_MAX_GPUS      ((size_t)1024) // of a pod
#define REPLAY_MAX_JOB_SIZES ((size_t)32)   // kinds of jobs of a workload, by GPUs

// A time that is distributed log-normally. p90 == p50: constant.
struct replay_spread {
    int64_t p50_ms, p90_ms;
};

// Seeded random numbers: the n-th number of a stream does not depend on other streams.
double replay_random(uint64_t seed, uint64_t stream, uint64_t n); // above 0 and below 1
int64_t replay_random_time(const struct replay_spread *d, uint64_t seed, uint64_t stream,
                           uint64_t n); // whole seconds, at least 1

struct replay_job {
    int64_t at_ms, run_ms; // run: from ready to the end
    size_t gpus;
};

// Jobs that arrive at random: exponential times between them.
struct replay_arrivals {
    int64_t every_ms, from_ms, until_ms; // every: mean; 0: no random jobs
    struct replay_spread run;
    size_t gpus[REPLAY_MAX_JOB_SIZES];
    double weights[REPLAY_MAX_JOB_SIZES];
    size_t n_sizes;
};

struct replay_fleet_workload {
    struct replay_scenario *s; // the replicas: load, autoscaler, events
    struct replay_job *jobs;   // written down, in time order
    size_t n_jobs;
    struct replay_arrivals arrivals;
    json_t *pod; // fields of the pods' spec; NULL: none
    bool safe_to_evict;
};

// Times of the node autoscaler beside those of its plans.
struct replay_fleet_times {
    int64_t scan_ms;
    struct nodes_backoff_limits backoff;
};

struct replay_fleet {
    const char *name;
    int64_t duration_ms;
    uint64_t seed;
    struct replay_fleet_workload *workloads;
    size_t n_workloads;
    struct nodes_pools pools;
    struct replay_fleet_times times;
    struct nodes_plan_settings plan;
    enum nodes_scoring scoring; // of the scheduler
    json_t *prices;             // the table, or NULL
    struct gs_arena arena;
};

// Times without capacity.
struct replay_outage {
    int64_t from_ms, until_ms;
};
// The additional fields of a pool in a scenario.
struct replay_pool_extra {
    struct replay_outage *outages;
    size_t n_outages;
    int64_t preemption_ms; // mean time from ready until the cloud takes a spot node; 0: never
};

// The jobs of a workload in time order; caller frees. GS_EINVAL: too many.
struct gs_error *replay_fleet_jobs(const struct replay_fleet *f, size_t workload,
                                   struct replay_job **ret, size_t *ret_n);
// The jobs of a CSV file (fleet_trace.c); caller frees. gpus: if the file has no such column.
struct gs_error *replay_fleet_read_trace(const char *path, size_t gpus, struct replay_job **ret,
                                         size_t *ret_n);
// Reads the list of pools, or the file that it names.
void replay_fleet_read_pools(struct codec_reader *r, const json_t *list, struct replay_fleet *f);
struct gs_error *replay_fleet_check(const struct replay_fleet *f);
// Replaces the prices of the pools that are in the table, by machine type or name.
void replay_fleet_apply_prices(struct replay_fleet *f);

// --- the run of a fleet ---

#define REPLAY_NONE SIZE_MAX

struct replay_fleet_list {
    size_t *items;
    size_t len, cap;
};

enum replay_fleet_state {
    REPLAY_NODE_ABSENT, // its place in the snapshot is free
    REPLAY_NODE_CREATING,
    REPLAY_NODE_READY,
    REPLAY_NODE_DRAINING, // is removed when its last pod has ended
};

struct replay_fleet_node { // by its number in the snapshot
    enum replay_fleet_state state;
    size_t pool, gpus, used; // GPUs; used: requested by its pods
    size_t n_pods;
    unsigned number;             // of the pool
    int64_t created_ms, next_ms; // next: ready, or the end of the attempt
    enum nodes_failure failure;  // why it will not become ready
    bool cordoned;
    int64_t preempt_ms; // when the cloud takes it; INT64_MAX: never
    int64_t unneeded_since_ms, replaceable_since_ms, replaced_until_ms; // of plans: Unix time
};

struct replay_fleet_pod { // by its ticket
    bool live;
    size_t workload, shape;
    size_t index;                 // in the snapshot
    size_t node;                  // REPLAY_NONE while it waits
    const struct replay_job *job; // NULL: a replica
    int64_t created_ms, end_ms;   // end: of a job that runs
};

// Pods with equal requirements.
struct replay_fleet_shape {
    size_t workload, gpus;
    json_t *pod;
    struct replay_fleet_list spare; // numbers in the snapshot without a pod
};

struct replay_fleet_pool {
    const struct nodes_pool *pool;
    size_t size;       // nodes that exist or are being created, without draining ones
    size_t creating;   // of these: not ready
    unsigned attempts; // nodes that were ordered, for names and random numbers
    // Places of removed nodes in the snapshot, and nodes as they are in it; [1]: cordoned.
    struct replay_fleet_list spare[2];
    json_t *template[2];
    struct nodes_backoff backoff;
};

struct replay_fleet_waits { // of pods, in seconds
    double *items;
    size_t len, cap, created;
};

struct replay_fleet_job_list { // of a workload
    struct replay_job *jobs;
    size_t n, next;
};

struct replay_fleet_run {
    const struct replay_fleet *f;
    int64_t t_ms;
    struct nodes_snapshot *snapshot;
    size_t parking; // a node in the snapshot for pods that do not exist
    struct replay_placer placer;
    struct replay_workload_run *workloads;
    struct replay_fleet_job_list *jobs; // of the workloads
    struct replay_fleet_pool *pools;
    struct replay_fleet_node *nodes;
    size_t n_nodes, nodes_cap;
    struct replay_fleet_pod *pods;
    size_t n_pods, pods_cap;
    struct replay_fleet_list spare_tickets, waiting, running_jobs; // tickets; waiting: oldest first
    struct replay_fleet_shape *shapes;
    size_t n_shapes, shapes_cap;
    bool changed; // since the last scan of the node autoscaler
    int64_t next_scan_ms;
    int64_t last_add_ms; // Unix time; 0: never
    uint64_t decisions;  // of the node autoscaler
    struct replay_fleet_result *result;
    struct replay_fleet_waits *waits; // of the workloads
    double *larger;                   // by GPUs: the share of the pods with GPUs that request more
};

void replay_fleet_list_add(struct replay_fleet_list *l, size_t v);
void replay_fleet_list_drop(struct replay_fleet_list *l, size_t v); // keeps the order

// A run step by step (fleet_run.c). End it after an error, too; the result belongs to the caller.
struct gs_error *replay_fleet_begin(struct replay_fleet_run *run, const struct replay_fleet *f,
                                    struct replay_fleet_result *result);
void replay_fleet_step(struct replay_fleet_run *run); // until the next time of an event
void replay_fleet_end(struct replay_fleet_run *run);

// --- pods and nodes (fleet_nodes.c) ---

void replay_fleet_start_nodes(struct replay_fleet_run *run);
// A pod that waits; returns its ticket. job: NULL for a replica.
size_t replay_fleet_add_pod(struct replay_fleet_run *run, size_t workload, size_t gpus,
                            const struct replay_job *job);
void replay_fleet_remove_pod(struct replay_fleet_run *run, size_t ticket);
// Places the waiting pods, the oldest first.
void replay_fleet_schedule(struct replay_fleet_run *run);
// Orders a node. at once: it is ready now, as the nodes that exist at the start.
void replay_fleet_add_node(struct replay_fleet_run *run, size_t pool, bool at_once);
void replay_fleet_remove_node(struct replay_fleet_run *run, size_t node); // without pods
// Removes the node, or ends its pods; then it is removed after the last one.
void replay_fleet_drain_node(struct replay_fleet_run *run, size_t node, const char *why);
// The same on behalf of the cloud, which takes a spot node back.
void replay_fleet_preempt_node(struct replay_fleet_run *run, size_t node);
// The node gets another place in the snapshot.
void replay_fleet_cordon_node(struct replay_fleet_run *run, size_t node, bool cordon);
// Nodes that are ready, failed or preempted by now. Returns when the next one is.
int64_t replay_fleet_advance_nodes(struct replay_fleet_run *run);

// --- the start of nodes (fleet_start.c) ---

// Decides when a ready node is preempted.
void replay_fleet_expect_preemption(struct replay_fleet_run *run, struct replay_fleet_node *n);
// Decides when the node becomes ready, or why it does not.
void replay_fleet_start_node(struct replay_fleet_run *run, struct replay_fleet_node *n);
void replay_fleet_end_start(struct replay_fleet_run *run, size_t node);

// --- the node autoscaler (fleet_plan.c) ---

struct replay_fleet_input { // of a plan
    struct nodes_plan_input in;
    struct nodes_plan_node *nodes;
    struct nodes_group *groups;
    size_t *leaving;
    bool *growing;
};
// Valid until the run changes.
void replay_fleet_input_init(struct replay_fleet_run *run, struct replay_fleet_input *ret);
void replay_fleet_input_finish(struct replay_fleet_input *r);

// Scans if a scan is due. Returns when the next one is; INT64_MAX: after the next change.
int64_t replay_fleet_scan(struct replay_fleet_run *run);
// Why no pool grows for the pod of the snapshot.
void replay_fleet_add_reasons(struct replay_fleet_run *run, size_t pod, struct gs_buf *out);

#define REPLAY_ANN_SAFE_TO_EVICT NODES_ANN "safe-to-evict"

// --- results (fleet_result.c) ---

void replay_fleet_start_result(struct replay_fleet_run *run);
void replay_fleet_find_typical(struct replay_fleet_run *run); // needs the jobs

void replay_fleet_log(struct replay_fleet_run *run, const char *fmt, ...) GS_PRINTF(2, 3);
void replay_fleet_add_wait(struct replay_fleet_run *run, size_t workload, int64_t ms);
// Adds the state from now until the time to the sums, and a row if something changed.
void replay_fleet_account(struct replay_fleet_run *run, int64_t until_ms);
void replay_fleet_finish_result(struct replay_fleet_run *run);

// --- the command ---

// Splits "NAME=VALUE" of --set; caller frees the name. *ret_value: within the text.
struct gs_error *replay_read_setting(const char *text, char **ret_name, const char **ret_value);
// --sweep: a name and its values, "target=10..90:10" or "target=10,30,50".
struct replay_sweep {
    char *name;
    char **values;
    size_t n, cap;
};
struct gs_error *replay_sweep_read(const char *text, struct replay_sweep *ret);
void replay_sweep_finish(struct replay_sweep *s);
struct gs_error *replay_execute_fleet(const struct replay_options *o, const char *path,
                                      struct gs_buf *out);
