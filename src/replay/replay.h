// SPDX-License-Identifier: Apache-2.0
// An autoscaler in a simulated cluster, faster than time: a load over time, replicas that serve it,
// nodes that have to be provisioned, and hpa_decide() in between. The decisions are those of the
// controller; the cluster around them is a model (docs/replay.md says which).
#pragma once

#include "hpa/hpa.h"
#include "replay/curve.h"

// What a metric of the autoscaler shows.
enum replay_source {
    REPLAY_UTILIZATION, // percent of the capacity in use
    REPLAY_LOAD,        // the load: of a pod, or of all for Object and External
    REPLAY_QUEUE,       // waiting work: of a pod's share, or of all
    REPLAY_SERIES,      // a recorded curve, whatever the replicas do
};

struct replay_metric {
    const char *name;
    enum replay_source source;
    struct replay_curve series;
    struct replay_curve
        series_replicas; // replicas at the time of the record: values then follow theirs
};

// What somebody or something else does.
struct replay_event {
    int64_t at_ms, for_ms;
    size_t lose;     // so many of the oldest replicas end and are replaced
    int32_t scale;   // the workload is set to so many replicas; -1: not
    bool no_metrics; // … for for_ms the metrics API is away
};

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
    int64_t delay_ms;              // age of what the controller sees
    struct replay_metric *metrics; // of spec.metrics, by name
    size_t n_metrics;

    struct replay_event *events; // in time order
    size_t n_events;

    size_t gpus_per_replica, gpus_per_node, min_nodes, max_nodes; // gpus_per_node 0: no nodes
    int64_t provision_ms, idle_ms;                                // of a node
    double price;                                                 // of a GPU hour
    double node_price; // of a node's hour; 0: the price of its GPUs
    double level;      // utilization that counts as too high, percent

    json_t *prices;             // the table, or NULL
    const char *gpu, *instance; // rows of it, or NULL
};

// file:line:column in errors. The scenario's texts live as long as it.
struct gs_error *replay_scenario_load(const char *path, struct replay_scenario **ret);
void replay_scenario_free(struct replay_scenario *s);
// "target=70", "min=2", "max=10", "downscaleWindow=60s", "sync=5s", "startup=30s",
// "tolerance=0.05", "instance=p5.48xlarge".
struct gs_error *replay_scenario_set(struct replay_scenario *s, const char *name,
                                     const char *value);
// Another table of prices; what the scenario names of it has to be there.
struct gs_error *replay_scenario_prices(struct replay_scenario *s, const char *path);
const char *replay_currency(const struct replay_scenario *s); // "" when it has no name

// What was at a pass of the autoscaler.
struct replay_row {
    int64_t t_ms;
    double load, utilization, queue; // utilization: percent of the ready replicas' capacity
    int32_t desired, running, ready; // replicas: wanted, started, serving
    size_t nodes;
    char *why; // of a change of desired; NULL: none
};

struct replay_summary {
    double gpu_hours, price;
    double node_gpu_hours; // of the nodes that were there
    double over_level_s;   // time above the level, or with a queue
    double over_target_s;  // … with a metric above its target by more than the tolerance
    double served, offered, queue_max, wait_s; // wait_s: mean, by Little's law
    double wait_p50_s, wait_p99_s;             // of the work that was served, in whole seconds
    double unserved;                           // waiting at the end
    double drain_gpu_hours;                    // of replicas that were ending, in gpu_hours
    double node_hours;
    size_t nodes_added, nodes_removed, max_nodes;
    size_t ups, downs, passes;
    int32_t min_replicas, max_replicas;
    double mean_replicas;
    double pending_s; // pods waiting for a node
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

// --- what is shown of it ---
void replay_print_table(const struct replay_scenario *s, const struct replay_result *r,
                        struct gs_buf *out); // the passes at which something changed, the summary
void replay_print_csv(const struct replay_result *r, struct gs_buf *out); // every pass
json_t *replay_json(const struct replay_scenario *s, const struct replay_result *r);
// A scenario and what came of it.
struct replay_shown {
    const struct replay_scenario *scenario;
    const struct replay_result *result;
};
// One picture, a colour for each of several.
void replay_print_svg(const struct replay_shown *shown, size_t n, struct gs_buf *out);
// Summaries side by side; names: the heads of the columns.
void replay_print_summaries(const char *const *names, const struct replay_summary *const *s,
                            size_t n, struct gs_buf *out);
// All figures of two or more scenarios, the difference to the first one beside each.
void replay_print_comparison(const struct replay_shown *shown, size_t n, struct gs_buf *out);
json_t *replay_comparison_json(const struct replay_shown *shown, size_t n);

// The summaries of independent scenarios, on all processors.
void replay_summarize_all(const struct replay_scenario *const *s, size_t n,
                          struct replay_summary *ret);
