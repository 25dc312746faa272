// SPDX-License-Identifier: Apache-2.0
// An autoscaler in a simulated cluster, faster than real time: a load over time, replicas that
// serve it, nodes that are provisioned, and hpa_decide() in between. The decisions are those of the
// controller; the cluster is a model, which docs/replay.md describes. Functions do not share state
// and may run in several threads with different scenarios.
#pragma once

#include "base/option.h"
#include "hpa/hpa.h"

#include <stddef.h>
#include <stdint.h>

// --- curves ---
//
// A value over time, interpolated linearly between points. Before the first and after the last
// point it is constant.

struct replay_curve_point {
    int64_t t_ms;
    double v;
};

struct replay_curve {
    struct replay_curve_point *points; // in time order; two at one time are a step
    size_t n, cap;
    int64_t repeat_ms; // period after which the curve repeats; 0: never
};

void replay_curve_add(struct replay_curve *c, int64_t t_ms, double v);
void replay_curve_finish(struct replay_curve *c);
// Of its points, however far apart they are. Without points it is `empty`.
double replay_curve_mean(const struct replay_curve *c, double empty);

// The straight piece of a curve around a time, so that times near it need no search.
struct replay_curve_piece {
    int64_t from_ms, until_ms; // from: inclusive; until: exclusive
    int64_t base_ms;
    double v, rise, over_ms; // v at base_ms; v + rise after over_ms
};
void replay_curve_find_piece(const struct replay_curve *c, int64_t t_ms,
                             struct replay_curve_piece *ret);

// The value at a time; 0 without points. *piece caches the piece of the curve: initialize it with
// zeros and use it for one curve only.
static inline double replay_curve_at(const struct replay_curve *c, int64_t t_ms,
                                     struct replay_curve_piece *piece)
{
    if (t_ms < piece->from_ms || t_ms >= piece->until_ms)
        replay_curve_find_piece(c, t_ms, piece);
    return piece->v + piece->rise * (double)(t_ms - piece->base_ms) / piece->over_ms;
}

// --- scenarios ---

// The source of a metric of the autoscaler.
enum replay_source {
    REPLAY_UTILIZATION, // percent of the capacity in use
    REPLAY_LOAD,        // the load: of a pod, or of all for Object and External
    REPLAY_QUEUE,       // waiting work: of a pod's share, or of all
    REPLAY_SERIES,      // a recorded curve, independent of the replicas
    // Of an inference service only, for each pod:
    REPLAY_RUNNING, // requests in progress
    REPLAY_KV,      // share of the KV cache in use, 0 to 1
    REPLAY_TTFT,    // 90th percentile of the time to the first token since the last evaluation, s
    REPLAY_ITL,     // of the time between tokens
};

struct replay_metric {
    const char *name;
    enum replay_source source;
    struct replay_curve series;
    struct replay_curve series_replicas; // recorded replicas: the value is then scaled by recorded
                                         // / current replicas
};

// An event in the simulated cluster that the autoscaler does not cause.
struct replay_event {
    int64_t at_ms, for_ms;
    size_t lose;     // this many of the oldest replicas end and are replaced
    int32_t scale;   // the workload is scaled to this number of replicas; -1: no change
    bool no_metrics; // the metrics API is unavailable for for_ms
};

struct replay_service;

struct replay_scenario {
    const char *name;
    json_t *object; // the autoscaler, v2, defaulted
    struct hpa_spec spec;
    struct hpa_config controller;
    int64_t sync_ms, duration_ms;
    int32_t replicas; // at the start

    struct replay_curve load;
    double capacity;               // of one replica, in the load's unit
    int64_t startup_ms;            // from a pod's start to ready
    int64_t drain_ms;              // from a pod's end until its GPUs are free
    int64_t delay_ms;              // age of the metrics that the controller reads
    struct replay_metric *metrics; // of spec.metrics, by name
    size_t n_metrics;

    struct replay_event *events; // in time order
    size_t n_events;

    size_t gpus_per_replica, gpus_per_node, min_nodes, max_nodes; // gpus_per_node 0: no nodes
    int64_t provision_ms, idle_ms;                                // of a node
    double price;                                                 // of a GPU hour
    double node_price; // of a node's hour; 0: the price of its GPUs
    double level;      // utilization above which it counts as too high, percent

    json_t *prices;             // the table, or NULL
    const char *gpu, *instance; // rows of it, or NULL

    // An inference service (service.h) serves the load, in requests per second; capacity and nodes
    // are not used. NULL: the load divides among replicas with a capacity.
    struct replay_service *service;
};

// file:line:column in errors. The scenario's texts live as long as it.
struct gs_error *replay_scenario_load(const char *path, struct replay_scenario **ret);
void replay_scenario_free(struct replay_scenario *s);
// "target=70", "min=2", "max=10", "downscaleWindow=60s", "sync=5s", "startup=30s",
// "tolerance=0.05", "instance=p5.48xlarge". Of a service: "slo=ttft=1s,p=90", "slo.ttft=1s"; an
// empty value removes the target.
struct gs_error *replay_scenario_set(struct replay_scenario *s, const char *name,
                                     const char *value);
// Replaces the table of prices. Fails when it lacks the GPU or instance type of the scenario.
struct gs_error *replay_scenario_prices(struct replay_scenario *s, const char *path);
const char *replay_currency(const struct replay_scenario *s); // "": not given

// The state at an evaluation of the autoscaler.
struct replay_row {
    int64_t t_ms;
    double load, utilization, queue; // utilization: percent of the ready replicas' capacity
    int32_t desired, running, ready; // replicas: wanted, started, serving
    double ttft_p90_s; // of a service, since the row before; without requests as there
    size_t nodes;
    char *why; // of a change of desired; NULL: none
};

struct replay_summary {
    double gpu_hours, price;
    double node_gpu_hours; // of all nodes
    double over_level_s;   // time above the level, or with a queue
    double over_target_s;  // time with a metric above its target by more than the tolerance
    double served, offered, queue_max, wait_s; // wait_s: mean, by Little's law
    double wait_p50_s, wait_p99_s;             // of the work that was served, in whole seconds
    double unserved;                           // waiting at the end
    double drain_gpu_hours;                    // of terminating replicas; included in gpu_hours
    double node_hours;
    size_t nodes_added, nodes_removed, max_nodes;
    size_t ups, downs, evaluations;
    int32_t min_replicas, max_replicas;
    double mean_replicas;
    double pending_s; // pods waiting for a node
    // Of an inference service; otherwise 0.
    bool of_service;
    double requests, finished, within; // within: that met the target
    double within_percent;             // of the requests
    double ttft_p50_s, ttft_p90_s, ttft_p99_s, itl_p90_s;
    size_t reversals; // changes of the direction of scale events
};

struct replay_result {
    struct replay_row *rows;
    size_t n;
    struct replay_summary summary;
};

void replay_run(const struct replay_scenario *s, struct replay_result *ret);
// The same without the rows.
void replay_summarize(const struct replay_scenario *s, struct replay_summary *ret);
void replay_result_finish(struct replay_result *r);

// --- output ---
void replay_print_table(
    const struct replay_scenario *s, const struct replay_result *r,
    struct gs_buf *out); // the evaluations at which something changed, the summary
void replay_print_csv(const struct replay_result *r, struct gs_buf *out); // every evaluation
json_t *replay_json(const struct replay_scenario *s, const struct replay_result *r);
// A scenario and its result.
struct replay_outcome {
    const struct replay_scenario *scenario;
    const struct replay_result *result;
};
// One picture with a colour for each scenario.
void replay_print_svg(const struct replay_outcome *shown, size_t n, struct gs_buf *out);
// Summaries side by side; names: the heads of the columns.
void replay_print_summaries(const char *const *names, const struct replay_summary *const *s,
                            size_t n, struct gs_buf *out);
// All figures of two or more scenarios, the difference to the first one beside each.
void replay_print_comparison(const struct replay_outcome *shown, size_t n, struct gs_buf *out);
json_t *replay_comparison_json(const struct replay_outcome *shown, size_t n);

// The summaries of independent scenarios. Starts a thread for each processor (at most 64) and
// returns when all have ended; each thread takes the next scenario.
void replay_summarize_all(const struct replay_scenario *const *s, size_t n,
                          struct replay_summary *ret);

// --- several workloads on pools of nodes ---
//
// A fleet: workloads with their autoscalers, or jobs, share pools of nodes. kube-scheduler's
// filters place the pods, and a node autoscaler with the timings of the Cluster Autoscaler adds and
// removes nodes. Equal scenarios have equal results.

struct replay_fleet;

bool replay_is_fleet(const char *path); // whether the file contains workloads or pools
// file:line:column in errors.
struct gs_error *replay_fleet_load(const char *path, struct replay_fleet **ret);
void replay_fleet_free(struct replay_fleet *f);
// "policy=cost" (nodes_policy_parse), "seed=2", "duration=8h", "scale-down-unneeded-time=5m",
// "max.POOL=4", "price.POOL=2.5", "preemption.POOL=6h", "WORKLOAD.target=70" with the names of
// replay_scenario_set().
struct gs_error *replay_fleet_set(struct replay_fleet *f, const char *name, const char *value);
struct gs_error *replay_fleet_prices(struct replay_fleet *f, const char *path);
// Replaces the start-up times of the pools by those that `gpuscale nodes -o json` has learned.
// GS_EINVAL: the file has none of a pool of the scenario.
struct gs_error *replay_fleet_start_times(struct replay_fleet *f, const char *path);
const char *replay_fleet_name(const struct replay_fleet *f);
// About how many nodes, replicas and jobs a run has at most.
size_t replay_fleet_size(const struct replay_fleet *f);

// A state that lasts until the next row.
struct replay_fleet_row {
    int64_t t_ms;
    size_t waiting;           // pods without a node
    size_t nodes, gpus, used; // ready nodes, their GPUs, and those that pods request
    double stranded;          // GPUs that are free but of no use for the typical pod
    size_t *pool_nodes;       // of each pool; with those that are being created
};

struct replay_fleet_line { // an event
    int64_t t_ms;
    char *text;
};

struct replay_pod_waits { // from the creation of a pod until it has a node, in seconds
    size_t pods;          // that were created
    size_t waiting;       // at the end; they count with their time until then
    double mean_s, p50_s, p99_s, max_s;
};

struct replay_fleet_workload_summary {
    const char *name; // of the scenario
    struct replay_pod_waits waits;
    struct replay_summary load; // of replicas
    bool has_load;
    char *why; // why its oldest waiting pod has no node at the end; NULL: none waits
};

struct replay_fleet_pool_summary {
    const char *name; // of the scenario
    double node_hours, gpu_hours, used_gpu_hours, price;
    size_t added, removed, failures, preempted, max_nodes;
};

struct replay_fleet_summary {
    double node_hours, gpu_hours, used_gpu_hours, stranded_gpu_hours, price;
    struct replay_pod_waits waits;
    size_t nodes_added, nodes_removed, max_nodes, capacity_failures, start_failures, evictions;
    size_t preemptions; // of spot nodes
};

struct replay_fleet_result {
    const struct replay_fleet *fleet;
    struct replay_fleet_row *rows;
    size_t n_rows, rows_cap;
    struct replay_fleet_line *lines;
    size_t n_lines, lines_cap;
    char **warnings; // about the pools
    size_t n_warnings, warnings_cap;
    struct replay_fleet_workload_summary *workloads;
    size_t n_workloads;
    struct replay_fleet_pool_summary *pools;
    size_t n_pools;
    struct replay_fleet_summary summary;
};

// GS_EINVAL: more jobs than a run may have.
struct gs_error *replay_fleet_run(const struct replay_fleet *f, struct replay_fleet_result *ret);
void replay_fleet_result_finish(struct replay_fleet_result *r);

void replay_fleet_print_table(const struct replay_fleet_result *r, struct gs_buf *out);
void replay_fleet_print_csv(const struct replay_fleet_result *r, struct gs_buf *out);
json_t *replay_fleet_json(const struct replay_fleet_result *r);
// Nodes of each pool, GPUs and waiting pods over time; several results one below the other.
void replay_fleet_print_svg(const char *const *names, const struct replay_fleet_result *r, size_t n,
                            struct gs_buf *out);
// One line for each result.
void replay_fleet_print_summaries(const char *const *names, const struct replay_fleet_result *r,
                                  size_t n, struct gs_buf *out);
json_t *replay_fleet_summaries_json(const char *const *names, const struct replay_fleet_result *r,
                                    size_t n);

// --- the command ---

// A scenario from the metrics that a Prometheus has recorded. Strings are borrowed; NULL: not
// given.
struct replay_recording {
    const char *hpa;            // file of the autoscaler
    const char *from;           // URL of the server
    struct gs_opt_list queries; // one per metric of the autoscaler
    const char *replicas_query, *http_config_file;
    const char *end;           // NULL: now
    int64_t range_ns, step_ns; // length of the recording; time between samples
    const char *save;          // file in which the scenario is kept
};

// The options of `gpuscale replay`.
struct replay_options {
    const char *output, *prices, *start_times;
    struct gs_opt_list set, sweep, compare;
    struct replay_recording recording;
};

// Runs the scenario of the file (NULL: the recording) with the options and adds the result to *out.
// After an error, *out contains the tables of the sweeps that were completed.
struct gs_error *replay_execute(const struct replay_options *o, const char *path,
                                struct gs_buf *out);
