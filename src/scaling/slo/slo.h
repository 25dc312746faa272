// SPDX-License-Identifier: Apache-2.0
// How many replicas an inference service needs to hold a latency target: a pure function of the
// policy, what was observed, what was learned, and the time. The proposal enters hpa_decide() like
// that of one more metric, so bounds, policies and windows stay those of the autoscaler.
//
// No function reads a clock, a file or the network. All times are Unix milliseconds, all durations
// in the state are seconds. One thread at a time uses a state. docs/latency-target.md has the
// formulas.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- the policy ---

#define SLO_ANNOTATION      "gpuscale.dev/slo"
#define SLO_METRIC_DESIRED  "gpuscale_desired_replicas"
#define SLO_METRIC_PRESSURE "gpuscale_slo_pressure"

enum slo_latency {
    SLO_TTFT,  // time to first token
    SLO_ITL,   // between tokens
    SLO_E2E,   // of the whole request
    SLO_QUEUE, // in the queue of the engine
    SLO_OTHER, // a histogram that the policy names
    SLO_LATENCIES
};

enum { SLO_NAME_SIZE = 128, SLO_TEXT_MAX = 512 }; // with NUL; bytes of an annotation

struct slo_policy {
    double seconds[SLO_LATENCIES]; // the targets; 0: no target. At least one is set
    char other[SLO_NAME_SIZE];     // of SLO_OTHER, without _bucket; "": none
    int percent;                   // of the requests that are to be within the targets, 50 to 99
    bool shadow;                   // mode=shadow: explained and published, not applied
    // Prefill and decode as two workloads: the other one, and the replicas of this one for each of
    // its replicas. peer "": none.
    char peer[SLO_NAME_SIZE];
    double ratio_min, ratio_max; // 0: no bound
};

// The value of the annotation: "ttft=1s,itl=50ms,p=90". GS_EINVAL names the key that is wrong.
struct gs_error *slo_policy_parse(const char *text, struct slo_policy *ret);
// The histogram of a target, without _bucket: "gpuscale_inference_ttft_seconds".
const char *slo_policy_series(const struct slo_policy *p, enum slo_latency l);
// As in the annotation: "ttft"; of SLO_OTHER, the name of the histogram.
const char *slo_latency_name(const struct slo_policy *p, enum slo_latency l);
// The PromQL selector of all series that slo_reading_add() reads, with these matchers:
// `{__name__=~"…",namespace="ml",pod=~"api-.*"}` for matchers `namespace="ml",pod=~"api-.*"`.
// An instant query of the selector reports the time of the evaluation for each value. With a range
// behind it (`…[45s]`) it reports the times of the samples; the last sample counts.
void slo_policy_query(const struct slo_policy *p, const char *matchers, struct gs_buf *out);

// --- what was observed ---

enum slo_signal {
    SLO_WAITING, // requests
    SLO_RUNNING, // requests
    SLO_KV_USED_RATIO,
    SLO_KV_CAPACITY_TOKENS,
    SLO_UTILIZATION, // of the GPU, 0 to 1
    SLO_SLEEPING,    // not 0: the engine sleeps
    // Counters, from here on. A decrease is a restart of the engine.
    SLO_PROMPT_TOKENS,
    SLO_GENERATION_TOKENS,
    SLO_REQUESTS, // that got their first token, or have ended
    SLO_PREEMPTIONS,
    SLO_REJECTIONS,
    SLO_SIGNALS
};

// Buckets as in Prometheus: cumulative counts, bounds in seconds in ascending order, the last one
// is +Inf. n 0: absent. Borrowed.
struct slo_histogram {
    const double *bounds, *counts;
    size_t n; // at most SLO_MAX_BUCKETS are read
    double sum;
    bool has_sum;
};
enum { SLO_MAX_BUCKETS = 64, SLO_MAX_PODS = 5000 };

enum slo_phase {
    SLO_POD_READY,
    SLO_POD_STARTING, // younger than the expected start of its path
    SLO_POD_LATE,     // older than that, or its start fails
    SLO_POD_UNSCHEDULABLE,
};

struct slo_pod {
    const char *name;
    enum slo_phase phase;
    int64_t since_ms;      // when the phase began; 0: unknown
    int64_t expected_ms;   // SLO_POD_STARTING: when it is expected to be ready; 0: unknown
    int64_t sampled_ms;    // time of its newest sample; 0: no sample
    unsigned has;          // bit of each signal that is there
    double v[SLO_SIGNALS]; // valid if its bit is set
    struct slo_histogram latency[SLO_LATENCIES];
    size_t n_series; // of counters that were added up; another number: sums of other series
};
static inline void slo_pod_set(struct slo_pod *p, enum slo_signal s, double value)
{
    p->v[s] = value;
    p->has |= 1U << s;
}
static inline bool slo_pod_has(const struct slo_pod *p, enum slo_signal s)
{
    return p->has & (1U << s);
}

enum slo_role { SLO_UNIFIED, SLO_PREFILL, SLO_DECODE };

struct slo_observation {
    const struct slo_pod *pods; // borrowed; those that are being deleted are left out
    size_t n_pods;
    int32_t replicas; // spec.replicas of the target
    int32_t min, max; // of the autoscaler
    enum slo_role role;
    int64_t scrape_ms; // interval of the scrapes; 0: 15,000. Samples older than three are stale
    // What is learned belongs to this: image digest and GPU model, for example. NULL: one for all.
    const char *identity;
    double start_seconds; // learned p90 of the start of one more replica; 0: unknown
    double growth;        // forecast of the demand at now + start, relative to now; below 1: none
    bool has_queue;       // a queue that belongs to no pod
    double queue;         // requests in it
    int64_t queue_sampled_ms;
    bool has_peer;
    int32_t peer_replicas; // of policy.peer
};

// Collects the newest samples of the pods of an observation: the series of slo_policy_query(), any
// order, ranks and models of one pod are added up (of the KV cache the largest counts). Other
// series are ignored, so are pods that are not among those given. Bounded by SLO_MAX_BUCKETS and by
// the pods.
struct slo_reading;
// The pods need name; signals are set by slo_reading_end(). Borrowed until then.
struct slo_reading *slo_reading_new(const struct slo_policy *p, struct slo_pod *pods, size_t n);
// le: text of that label, NULL: absent. role: the label, NULL: absent. t_ms: time of the sample.
void slo_reading_add(struct slo_reading *r, const char *name, const char *pod, const char *le,
                     const char *role, double value, int64_t t_ms);
// Sets signals, histograms and sample times. The histograms point into the reading, which is freed
// after slo_decide(). Returns the role that the series have.
enum slo_role slo_reading_end(struct slo_reading *r);
void slo_reading_free(struct slo_reading *r); // accepts NULL
GS_DEFINE_CLEANUP(struct slo_reading *, slo_reading_free)

// --- what was learned ---

struct slo_state;
struct slo_state *slo_state_new(void);
void slo_state_free(struct slo_state *s); // accepts NULL
GS_DEFINE_CLEANUP(struct slo_state *, slo_state_free)
#define SLO_AUTO_STATE GS_CLEANUP(slo_state_freep)
// For restarts and replay: what was learned, without the counters of pods. New reference.
json_t *slo_state_json(const struct slo_state *s, int64_t now_ms);
// Values that are out of range are dropped. GS_EINVAL: not an object of slo_state_json().
struct gs_error *slo_state_from_json(const json_t *in, int64_t now_ms, struct slo_state **ret);

// --- the decision ---

enum { SLO_MAX_BOUNDS = 8, SLO_LINE_SIZE = 256 };

struct slo_bound {
    const char *name;         // "demand", "throughput", "latency", "pressure", "queue", …
    int32_t proposal;         // -1: it abstains
    double value;             // before rounding up; NAN: abstains
    char text[SLO_LINE_SIZE]; // how it was calculated, or why it abstains
};

struct slo_decision {
    int32_t proposal; // at least 1; `replicas` if hold. Not limited to min and max
    bool hold;        // nothing may change: hold_text says why
    char hold_text[SLO_LINE_SIZE];
    double pressure; // measured percentile / target, the worst of the targets; NAN: unknown
    char pressure_text[SLO_LINE_SIZE];
    struct slo_bound bounds[SLO_MAX_BOUNDS];
    size_t n_bounds;
    int32_t decider; // index of the bound that gave the proposal; -1: none
    struct {
        int32_t ready, starting, late, unschedulable; // pods
        char text[SLO_LINE_SIZE];                     // "": nothing is coming
    } credit;
    struct {
        bool checked, holds; // whether fewer replicas were considered, and would hold the target
        char text[SLO_LINE_SIZE];
    } guard;
    // Demand now, in units of `demand_unit`, for the forecast. NAN: unknown.
    double demand;
    const char *demand_unit;         // as slo_demand_unit()
    char explanation[SLO_LINE_SIZE]; // one line
};

// The constant "tokens/s", "requests/s" or "requests" of this text; NULL: another text, or NULL.
const char *slo_demand_unit(const char *text);

// Adds the observation to the state, and decides. Calls may come at any distance: two of the same
// samples count once. terse: no texts, for simulations.
void slo_decide(const struct slo_policy *policy, const struct slo_observation *obs,
                struct slo_state *state, int64_t now_ms, bool terse, struct slo_decision *ret);

// {"proposal":4,"pressure":1.3,"hold":null,"bounds":[{"name":"demand","proposal":4,"text":"…"},
// {"name":"latency","abstains":"…"}],"credit":{"starting":3,"text":"…"},
// "guard":{"holds":true,"text":"…"},"explanation":"…"}; new reference.
json_t *slo_decision_json(const struct slo_policy *policy, const struct slo_decision *d);
