// SPDX-License-Identifier: Apache-2.0
// A recorded history, run with its present and with changed settings.
#pragma once

#include "hpa/hpa.h"
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
    struct replay_curve *values; // of each metric, from the start
    struct replay_curve replicas, load;
    struct replay_history_side present, changed;
};

// Whether the value is that of the pods of the target, not of an Object or External metric.
bool replay_history_is_of_pods(const struct hpa_metric_spec *m);
// Sets the member summary of an answer, from its other members.
void replay_history_add_summary(json_t *answer);
