// SPDX-License-Identifier: Apache-2.0
// What the sources of this module share: the state between two decisions, and the figures from
// which bounds and guard are calculated.
#pragma once

#include "slo/slo.h"

#include "base/hmap.h"

#include <math.h>

// --- defaults; docs/latency-target.md gives the reasons ---

#define SLO_KV_SUPPLY      0.8  // share of the KV cache that demand may fill
#define SLO_KV_FULL        0.95 // no survivor may be fuller
#define SLO_LOAD_LIMIT     0.9  // of the load that a replica has shown it can carry
#define SLO_SENSITIVITY    0.8  // of the distance to a target that survivors may use
#define SLO_SURVIVOR_LOAD  0.9  // of the load limit that survivors may have
#define SLO_BACKLOG_CAP    0.25 // a backlog adds at most this share of the demand
#define SLO_DRAIN_S        60.0 // within which a backlog is to be processed
#define SLO_PROMPT_WEIGHT  0.25 // work of a prompt token, in generated tokens, until learned
#define SLO_FEW_SAMPLES    20.0 // fewer give no percentile
#define SLO_STEP_MAX       2.0  // pressure proposes at most twice the ready replicas
#define SLO_UTILIZATION_OK 0.8
#define SLO_SLOT_MAX_S     60.0 // a longer slot counts as one of this length

enum {
    SLO_SLOTS = 36,     // of the window: three minutes or more
    SLO_SLOT_MS = 5000, // the shortest slot
    SLO_FAST_S = 15,    // a change of the demand is found in this time
    SLO_WINDOW_S = 120, // the demand is the mean of this time
    SLO_K = 3,          // slots over the target …
    SLO_M = 5,          // … of the last ones
    SLO_BINS = 24,      // classes of load with a latency
    SLO_RATES = 64,     // classes of the load of busy pods, 10 % apart
    SLO_IDENTITIES = 4, // that are remembered
    SLO_IDENTITY_SIZE = 160,
    SLO_DEFAULT_SCRAPE_MS = 15000,
    SLO_STUCK_MS = 30000,      // an engine with requests and without progress
    SLO_RESTART_MS = 60000,    // after a restart nothing shrinks
    SLO_RECENT_MS = 300000,    // older latencies do not count
    SLO_UNDO_MS = 300000,      // an increase so soon after a decrease undoes it …
    SLO_REMEMBER_MS = 1800000, // … and is remembered for this time
};

// --- what a workload, an image and a GPU have shown (learned.c, curve.c) ---

// One class of the load of a replica, in work a second.
struct slo_bin {
    int index;                     // of the class; classes are 15 % apart
    double weight;                 // requests, decayed
    double load;                   // mean
    double kv, running;            // means of a replica
    double within[SLO_LATENCIES];  // share of the requests within the target
    double target[SLO_LATENCIES];  // for which `within` was counted; 0: never
    double inverse[SLO_LATENCIES]; // mean of 1 / percentile, of slots without a queue
    double quiet[SLO_LATENCIES];   // weight of `inverse`; 0: none
    int64_t last_ms;
};

// Decayed sums for ITL = a + b * running + c * prompt tokens of a step.
struct slo_moments {
    double n, y, x[2], yx[2], xx[3]; // xx: 00, 01, 11
};

struct slo_learned {
    char identity[SLO_IDENTITY_SIZE];
    int64_t used_ms;
    double prompt_weight;             // work of a prompt token; 0: not learned
    double mix_prompt, mix_generated; // tokens of the intervals that were learned from, decayed
    struct slo_moments moments;
    double rates[SLO_RATES]; // intervals of pods with a queue, by load, decayed
    double n_rates;          // their sum
    double anchor;           // load of the class in the middle; 0: none yet
    double slots, n_slots;   // most requests that ran while others waited; number of intervals
    struct slo_bin bins[SLO_BINS];
    size_t n_bins;
};

enum slo_unit { SLO_NO_UNIT, SLO_BY_TOKENS, SLO_BY_REQUESTS };

// Work of a token, by the role of the workload.
struct slo_weights {
    double prompt, generated;
};

// The load that one replica carries, from a queue that it had (learned.c). NAN: never seen.
double slo_learned_rate(const struct slo_learned *l);
double slo_learned_slots(const struct slo_learned *l);
// Adds what another state has learned; of an identity that both know, the one with more samples
// remains.
void slo_learned_merge(struct slo_state *st, const struct slo_state *other);
struct slo_learned *slo_learned_of(struct slo_state *st, const char *identity, int64_t now_ms);

// The load up to which the share of the requests within the target is enough; *ret_seen: the
// highest load with a measurement. NAN: never exceeded (curve.c).
double slo_curve_limit(const struct slo_learned *l, const struct slo_policy *p, enum slo_latency t,
                       double *ret_seen);
// 1 / latency = a - b * load, over the classes without a queue.
struct slo_fit {
    bool found;
    double a, b, from, to; // loads between which it was fitted
};
struct slo_fit slo_curve_fit(const struct slo_learned *l, enum slo_latency t);
// The same for what a replica keeps at a load, since requests stay longer when it is busy: load /
// running requests, or load / used share of the KV cache, falls with the load.
struct slo_fit slo_curve_occupancy(const struct slo_learned *l, bool kv);
double slo_fit_latency(const struct slo_fit *f, double load); // INFINITY: above what it carries

// --- the window (window.c, slots.c) ---

struct slo_slot {
    int64_t start_ms, end_ms;
    double seconds;                               // mean over the pods
    double pod_seconds;                           // sum
    double arrivals, requests, prompt, generated; // sums of the pods
    double waiting, running, kv;                  // at its end, sums of the pods
    int32_t ready;
    bool steady; // the number of ready pods did not change
    // Of each target with samples enough; NAN: too few. surely: no value in the bucket of the
    // target could hold it.
    double quantile[SLO_LATENCIES], within[SLO_LATENCIES], samples[SLO_LATENCIES];
    bool surely[SLO_LATENCIES];
};

// Increments of the histograms of all pods, in the buckets of the first one. Not cumulative.
struct slo_counts {
    double bounds[SLO_MAX_BUCKETS], counts[SLO_MAX_BUCKETS];
    size_t n;
    double total;
    int64_t start_ms;
};

struct slo_track { // of one pod
    unsigned has;
    double v[SLO_SIGNALS];
    int64_t sampled_ms;
    size_t n_series;
    double *counts[SLO_LATENCIES]; // cumulative, as last read
    size_t n[SLO_LATENCIES];
    double sum[SLO_LATENCIES];
    int64_t moved_ms;   // last progress of a counter
    int64_t restart_ms; // 0: never
    uint64_t seen;      // number of the last observation with the pod
    uint64_t slot;      // number of the last slot to which it contributed
    // Since the last sample that was learned from.
    double seconds, prompt, generated, requests, itl_sum, itl_n, running_s, waiting_s;
    double waiting_min, running_max;
};

struct slo_state {
    struct gs_hmap *tracks; // of struct slo_track, by the name of the pod
    uint64_t observation, slot;
    int64_t last_ms;
    struct slo_learned learned[SLO_IDENTITIES];
    size_t n_learned;
    struct slo_slot open;
    size_t contributors; // pods in the open slot
    struct slo_counts counts[SLO_LATENCIES];
    struct slo_slot slots[SLO_SLOTS]; // the newest is at (next - 1)
    size_t n_slots, next;
    double last_waiting; // at the end of the last slot; NAN: unknown
    int32_t last_ready;
    int64_t ready_ms;  // since when so many are ready
    int64_t first_ms;  // of the first observation
    int64_t change_ms; // since when the demand has its level
    double dispersion; // of the arrivals: variance / mean; 1: Poisson
    // Means over some minutes, of one request. requests: weight.
    double sum_requests, sum_prompt, sum_generated;
    double correction[SLO_LATENCIES], correction_s[SLO_LATENCIES]; // ln(measured / predicted)
    double step_load, step_pressure; // when pressure first proposed more; 0: it does not
    // The last decrease, and one that had to be undone: not again at that load for a while.
    int32_t last_replicas;
    int64_t decrease_ms, undone_ms; // 0: none
    double decrease_load, undone_load;
    // Of a queue whose throughput is unknown.
    double queue_last, queue_growth; // requests; requests/s
    int64_t queue_ms, queue_busy_ms; // last sample; last time with a queue
};

static inline const struct slo_slot *slo_slot_back(const struct slo_state *st, size_t i)
{
    return &st->slots[(st->next + SLO_SLOTS - 1 - i) % SLO_SLOTS]; // i < n_slots
}

// Whether the target matters for a workload with this role.
static inline bool slo_has_target(const struct slo_policy *p, enum slo_role role,
                                  enum slo_latency l)
{
    return p->seconds[l] > 0 && !(role == SLO_PREFILL && (l == SLO_ITL || l == SLO_E2E)) &&
           !(role == SLO_DECODE && (l == SLO_TTFT || l == SLO_QUEUE));
}

struct slo_weights slo_weights_of(const struct slo_learned *l, enum slo_role role);

enum slo_unit slo_pod_unit(const struct slo_pod *p);
// Reads all pods; closes a slot when it is long enough. False: the clock was set back, and the
// window was emptied.
bool slo_window_add(struct slo_state *st, const struct slo_policy *p,
                    const struct slo_observation *obs, struct slo_learned *l, int64_t now_ms);
void slo_window_clear(struct slo_state *st);
// slots.c
void slo_slot_close(struct slo_state *st, const struct slo_policy *p,
                    const struct slo_observation *obs, struct slo_learned *l, int64_t now_ms);
// learned.c: what one pod has shown since the last call, if that is long enough.
void slo_learn_pod(struct slo_learned *l, struct slo_track *t, enum slo_role role,
                   enum slo_unit unit);
void slo_learn_decay(struct slo_learned *l);
// curve.c
void slo_curve_add(struct slo_learned *l, const struct slo_policy *p, const struct slo_slot *s,
                   double load, bool queued);
void slo_curve_scale(struct slo_learned *l, double factor);

// Over the window, since the demand has its level. NAN: unknown.
double slo_request_rate(const struct slo_state *st);
double slo_work_rate(const struct slo_state *st, const struct slo_weights *w, enum slo_unit unit);

// --- percentiles (quantile.c) ---

// Within the bucket by interpolation of logarithms. NAN: no samples.
double slo_quantile(const struct slo_counts *c, double q);
double slo_share_within(const struct slo_counts *c, double seconds);
// The largest and the smallest share that the buckets allow.
void slo_share_range(const struct slo_counts *c, double seconds, double *ret_low, double *ret_high);
void slo_counts_clear(struct slo_counts *c, int64_t now_ms);

// --- what bounds and guard read (figures.c) ---

struct slo_figures {
    const struct slo_policy *policy;
    const struct slo_observation *obs;
    struct slo_state *state;
    struct slo_learned *learned;
    int64_t now_ms;
    int32_t ready; // serving, with fresh samples
    int32_t fresh; // with samples of two times or more
    int32_t blind; // ready, without fresh samples
    int32_t idle;  // ready, but they sleep or make no progress
    int32_t starting, late, unschedulable, restarted;
    const char *blind_name, *restarted_name;
    int64_t blind_age_ms; // -1: never sampled
    bool has_waiting, has_running, has_kv, has_capacity, has_utilization;
    double waiting, running, kv, kv_max, capacity, utilization; // sums; capacity: a mean
    enum slo_unit unit;
    double requests;               // that arrive in a second; NAN: unknown
    double work;                   // that arrives in a second; NAN: unknown
    double request_work;           // of one request; NAN: unknown
    double load;                   // work of a ready replica; NAN: unknown
    double backlog;                // requests that wait longer than they may
    double coming;                 // backlog when a new replica could be ready
    double growth;                 // of the forecast, at least 1
    double latency[SLO_LATENCIES]; // median percentile of the last slots; NAN: too few samples
    // What was learned; of targets that apply.
    struct slo_fit fit[SLO_LATENCIES], kv_fit, running_fit;
    double limit[SLO_LATENCIES], seen[SLO_LATENCIES]; // slo_curve_limit()
    double rate, slots;                               // slo_learned_rate(), slo_learned_slots()
    double carries; // work a second of a replica within all targets; NAN: unknown
};

void slo_figures_of(const struct slo_policy *p, const struct slo_observation *obs,
                    struct slo_state *st, struct slo_learned *l, int64_t now_ms,
                    struct slo_figures *ret);

// What all replicas would keep with n of them, as a multiple of now: at least 1. INFINITY:
// overload.
double slo_predict_occupancy(const struct slo_figures *f, double n, bool kv);
// Predicted percentile of a target with n ready replicas; NAN: unknown, INFINITY: overload.
double slo_predict(const struct slo_figures *f, enum slo_latency t, double n, bool corrected);
// The part of it that is spent in the queue.
double slo_predict_wait(const struct slo_figures *f, double n);

// A queue that stays although nothing is starting: its clients send the next request after the last
// one, so the requests that arrive are only as many as are processed, and do not limit the need.
bool slo_queue_persists(const struct slo_figures *f);

// --- bounds.c, latency.c, pressure.c, guard.c ---
// limit: what slo_bound_throughput() returned.

#define SLO_PLURAL(n) ((n) == 1 ? "" : "s")
enum { SLO_NUMBER_SIZE = 32 };
// With three digits and without an exponent: "57100", "0.0123".
const char *slo_number(double v, char text[SLO_NUMBER_SIZE]);

struct slo_out {
    struct slo_decision *d;
    bool terse;
};
void slo_line(const struct slo_out *o, char line[SLO_LINE_SIZE], const char *fmt, ...)
    GS_PRINTF(3, 4);
// Adds a bound; value NAN: it abstains.
struct slo_bound *slo_add_bound(const struct slo_out *o, const char *name, double value);

void slo_bound_demand(const struct slo_figures *f, double limit, const struct slo_out *o);
double slo_bound_throughput(const struct slo_figures *f,
                            const struct slo_out *o); // without backlog
void slo_bound_latency(const struct slo_figures *f, double limit, const struct slo_out *o);
void slo_bound_queue(const struct slo_figures *f, const struct slo_out *o);
void slo_bound_utilization(const struct slo_figures *f, const struct slo_out *o);
void slo_bound_pressure(const struct slo_figures *f, double limit, const struct slo_out *o);
// The smallest number of replicas from `lowest` to obs->replicas that would hold the target.
int32_t slo_guard(const struct slo_figures *f, int32_t lowest, const struct slo_out *o);
