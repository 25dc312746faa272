// SPDX-License-Identifier: Apache-2.0
// Parts of the measurement of scaling decisions on simulated inference engines: traces, policies
// and the run of one policy on one trace. All times are virtual.
#pragma once

#include "hpa/hpa.h"
#include "inference/fleet.h"

#include <stdbool.h>

// --- traces (latency_world.c) ---

struct latency_trace {
    const char *name;
    enum inference_shape shape;
    double load;          // mean, in engines that are busy at the target
    double leak_per_hour; // as inference_fleet_setup
    bool faults;          // a crash, later a slow replica
    bool held_out;        // not looked at while the defaults were chosen
};
extern const struct latency_trace latency_traces[];
extern const size_t latency_n_traces;

struct latency_case {
    const struct latency_trace *trace;
    double start_s, duration_s;
    uint64_t seed;
    struct inference_arrival *arrivals;
    size_t n;
    double capacity; // work a second of an engine at the target
    bool stale;      // each two minutes, all values are old for one minute
};

#define LATENCY_TTFT_S 2.5 // a bound of the histogram of vLLM
#define LATENCY_TPOT_S 0.1
#define LATENCY_POD_S  60.0 // of a start, on a node that is there; the rest is the node's
enum { LATENCY_MAX_REPLICAS = 200 };

struct inference_parameters latency_engine(void); // Llama 3.1 8B on an A10
void latency_case_open(struct latency_case *c, const struct latency_trace *trace, double start_s,
                       double duration_s, uint64_t seed);
void latency_case_close(struct latency_case *c);
// Work of the requests that arrive in [from, until), in seconds of a full engine.
double latency_work(const struct latency_case *c, double from_s, double until_s);
double latency_mean_load(const struct latency_case *c); // engines

// --- policies (latency_policies.c, latency_slo.c, latency_peers.c) ---

// What a policy reads, each second.
struct latency_view {
    const struct latency_case *c;
    const struct inference_fleet *fleet;
    double t_s;
    uint32_t replicas, ready, starting; // pods: without those that drain
    double waiting, running;            // requests; waiting: in the router, too
    const struct inference_pod *pods;
    size_t n_pods;
};

struct latency_policy {
    const char *name;
    double period_s;
    void *(*begin)(const struct latency_policy *p, const struct latency_case *c, double setting);
    // The number of replicas to set.
    uint32_t (*decide)(void *state, const struct latency_view *v);
    void (*end)(void *state);
    uint32_t (*placeholders)(const void *state); // to set, after decide(); NULL: none
    double settings[4]; // of its target, the default first; 0 ends the list
    const char *unit;   // of the setting; NULL: it has none
};
extern const struct latency_policy latency_static, latency_oracle, latency_present,
    latency_hpa_average, latency_hpa_value, latency_keda, latency_gpuscale, latency_ahead,
    latency_knative, latency_ray, latency_dynamo;

extern bool latency_log; // decisions of gpuscale that change something
// Replica hours of gpuscale by cause.
struct latency_causes {
    double need;     // what the requests of the moment need, as the oracle of the present
    double bound;    // more that the bounds of the decision propose
    double guard;    // more, because the survivors would not hold the target
    double window;   // more, because a lower number has to last for the stabilization window
    double starting; // of all these, not ready yet
    double draining; // pods that were removed, and end their requests
};
extern struct latency_causes latency_causes; // of all decisions
extern bool latency_learned; // gpuscale begins with what it has learned in another run
// Of slo_decide(): its time, and with old values the windows of them and the scale-ups within.
extern int64_t latency_decision_ns, latency_n_decisions;
extern int64_t latency_n_stale, latency_stale_ups;

// --- other systems (latency_peers.c) ---

enum latency_peer { LATENCY_KNATIVE, LATENCY_RAY, LATENCY_DYNAMO, LATENCY_KEDA, LATENCY_N_PEERS };
// A shell command of bench/latency-peers. Returns its name and version. NULL: it does not run.
const char *latency_peer_start(enum latency_peer which, const char *program);
void latency_peers_stop(void);

// --- a HorizontalPodAutoscaler (latency_policies.c) ---

// One external metric of a spec: name, type of the target, its field, thousandths.
#define LATENCY_EXTERNAL                                                                           \
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"%s\"},\"target\":{\"type\":\"%"   \
    "s\","                                                                                         \
    "\"%s\":\"%dm\"}}}"

struct latency_scaler;
extern int64_t latency_window_s; // --window; negative: default behavior
// metrics: JSON, separated by commas. own: of gpuscale, which has the window.
struct latency_scaler *latency_scaler_new(const char *metrics, bool own);
// values: of the metrics, in their order. extra: of an annotation; may be NULL.
uint32_t latency_scaler_decide(struct latency_scaler *s, const struct latency_view *v,
                               const double *values, const struct hpa_extra *extra);
void latency_scaler_end(void *scaler);

// --- runs ---

struct latency_result {
    double within;          // share of the requests
    double requests, hours; // GPU hours
    double static_hours;
    double peak, reversals; // a run
    size_t runs;
};
void latency_run(const struct latency_case *c, const struct latency_policy *p, double setting,
                 struct latency_result *add);
double latency_share(const struct latency_result *r); // of all that was added
