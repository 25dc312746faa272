// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the budgets: workloads, the pods that have GPUs, and groups of them.
#pragma once

#include "base/hmap.h"
#include "base/mem.h"
#include "budget/budget.h"
#include "hpa_controller/budgets.h"
#include "hpa_controller/controller_private.h"
#include "kube/selector.h"

#include <sys/queue.h>

// A set of scopes has a bit for each scope of the policy.
static inline bool hpa_budget_has_scope(uint32_t scopes, size_t i)
{
    return scopes >> i & 1;
}

LIST_HEAD(hpa_budget_pods, hpa_budget_pod);

// A workload with an autoscaler that was evaluated.
struct hpa_budget_workload {
    struct hpa_budgets *budgets;
    char *key, *ns; // of the autoscaler
    char *target;   // "deployment/web"
    char *selector_text;
    struct kube_selector selector; // of its pods; matches nothing if it is unusable
    json_t *template;              // of its pods; NULL: could not be read
    struct kube_request *request;  // of it
    bool known;                    // the request has ended at least once
    bool listed;                   // in the index
    char *list_key;                // of its list there
    LIST_ENTRY(hpa_budget_workload) list;
    int64_t read_ms; // when it was sent
    struct hpa_budget_pods pods;
    int64_t live, ending; // GPUs of its pods
    json_t *pod_labels;   // of one of its pods; NULL: it had none
    int32_t pod_gpus;     // the most of one pod; 0: it has none
    char *model;          // of the GPUs of its pods; NULL: unknown
    uint32_t scopes;
    uint32_t idle; // scopes in which its GPUs are idle; see hpa_budget_is_idle()
    char *idle_text;
    int64_t idle_mono_ns; // when it was measured
    bool moves;           // the last decision changes its replicas
    bool waits;           // it would get more if GPUs were free
    int32_t hidden;       // the demand of the last decision, for budget_demand()
    struct budget_member member;
    int64_t settles_ms; // until when member.settling counts
};

// A pod with GPUs, bound to a node or of a workload.
struct hpa_budget_pod {
    LIST_ENTRY(hpa_budget_pod) list; // of its workload, else of its namespace
    json_t *object;
    struct hpa_budget_workload *workload; // NULL: none
    uint32_t scopes;                      // without a workload
    int64_t gpus;
    bool ending;
};

struct hpa_budgets {
    struct hpa_budgets_config cfg;
    struct kube_cache *maps;
    struct kube_watch_errors *errors;
    struct gs_timer *timer; // until the ConfigMap was read
    int64_t started_ns;
    struct budget_policy policy;
    bool has_policy;
    char *error; // why the newest ConfigMap is not used; NULL: it is
    struct budget_memory *memories[BUDGET_MAX_SCOPES];
    struct gs_hmap *workloads; // by the key of the autoscaler
    struct gs_hmap *index;     // of workloads, by a label of their pods
    struct gs_hmap *pods;      // by the key of the pod
    struct gs_hmap *loose;     // pods without a workload: lists by namespace
    int64_t others[BUDGET_MAX_SCOPES];
    bool observes_pods, observes_nodes;
    bool released;                    // autoscalers of other controllers are limited no more
    bool stale;                       // nodes have changed: the models of pods are read again
    char *sole_model;                 // of all nodes; NULL: they differ
    struct hpa_budget_visits *visits; // of autoscalers of other controllers; NULL: shadow
    struct gs_hmap *uses;             // of budget_usage.c
    struct gs_timer *usage_timer;
    int64_t usage_ns; // when they were counted last; 0: not yet
    struct hpa_budget_idle *idle;
    struct hpa_budget_holder *holder; // NULL: no policy, or shadow
    struct hpa_clock clock;           // at the last decision
};

// --- budgets.c ---

struct hpa_budget_outcome {
    int32_t replicas;
    char *text; // of the budget that binds; NULL: none
};
// Shifts times after the wall clock was set. Call it before a decision.
void hpa_budget_follow_clock(struct hpa_budgets *b, int64_t now_ms);
struct hpa_budget_workload *hpa_budget_workload(struct hpa_budgets *b, const struct hpa_spec *spec);
// What a workload needs, for a number of replicas that its autoscaler wants.
void hpa_budget_read(struct hpa_budgets *b, struct hpa_budget_workload *w,
                     const struct hpa_spec *spec, const struct hpa_observation *obs, int32_t demand,
                     int64_t now_ms);
// Whether what it needs was read not long ago.
bool hpa_budget_is_fresh(const struct hpa_budget_workload *w, int64_t now_ms);
// The budget with the smallest result binds. wakes: those who have more than their share are
// evaluated if this one waits for it. The caller frees the text.
struct hpa_budget_outcome hpa_budget_decide(const struct hpa_budgets *b,
                                            struct hpa_budget_workload *w, int64_t now_ms,
                                            bool wakes);
// The set replicas of a workload were changed. Call it only after the change was written: one that
// is refused in each period is no move.
void hpa_budget_note(const struct hpa_budgets *b, const struct hpa_budget_workload *w, int32_t from,
                     int32_t to, int64_t now_ms);
// Whether autoscalers of other controllers are limited.
bool hpa_budget_enforced(const struct hpa_budgets *b);
// Whether the newest ConfigMap is known, or may not be read.
bool hpa_budget_policy_known(const struct hpa_budgets *b);

// --- budget_holder.c: the process that applies them ---

// After the policy has changed.
void hpa_budget_holder_update(struct hpa_budgets *b);
void hpa_budget_holder_free(struct hpa_budget_holder *h); // NULL is fine
// Whether this process may change the autoscalers of other controllers, and counts. Without
// permission for the Lease, it may: nothing is known of others. Never in shadow mode.
bool hpa_budget_holds(const struct hpa_budgets *b);
// Another process that applies them now, so that this one limits nothing; NULL: none is known. At
// first, growth of own autoscalers is limited until that is known.
const char *hpa_budget_rival(const struct hpa_budgets *b);

// --- budget_others.c: autoscalers of other controllers ---

struct hpa_budget_visits *hpa_budget_visits_new(struct hpa_budgets *b);
void hpa_budget_visits_start(struct hpa_budget_visits *v);
void hpa_budget_visits_free(struct hpa_budget_visits *v); // NULL is fine
void hpa_budget_visits_release(struct hpa_budget_visits *v, void (*done)(void *arg), void *arg);

// --- budget_index.c: which workload a pod belongs to ---

// By the selector of the workload. Again after the selector has changed.
void hpa_budget_index_put(struct hpa_budgets *b, struct hpa_budget_workload *w);
void hpa_budget_index_remove(struct hpa_budgets *b, struct hpa_budget_workload *w);
// NULL: none.
struct hpa_budget_workload *hpa_budget_index_find(const struct hpa_budgets *b, const json_t *pod);

// --- budget_pods.c: the GPUs of pods ---

// Begins to count, or to count for another policy. Call hpa_budget_pods_refresh() after it.
void hpa_budget_pods_start(struct hpa_budgets *b);
void hpa_budget_pods_stop(struct hpa_budgets *b);
// Reads models and scopes again if nodes have changed.
void hpa_budget_pods_refresh(struct hpa_budgets *b);
// The pods of a workload with a new selector.
void hpa_budget_pods_claim(struct hpa_budgets *b, struct hpa_budget_workload *w);
// Its pods have no workload any more.
void hpa_budget_pods_release(struct hpa_budgets *b, struct hpa_budget_workload *w);
// Whether the selector of the workload matches.
bool hpa_budget_is_of(const struct hpa_budget_workload *w, const json_t *pod);
// The scopes that match.
uint32_t hpa_budget_scopes(const struct hpa_budgets *b, const char *ns, const json_t *labels,
                           const char *model);

// --- budget_idle.c: workloads whose GPUs are idle ---

struct hpa_budget_idle *hpa_budget_idle_new(struct hpa_budgets *b);
void hpa_budget_idle_free(struct hpa_budget_idle *m); // NULL is fine
bool hpa_budget_is_idle(const struct hpa_budget_workload *w, size_t scope);
// Why its GPUs are idle or not. NULL: it was not measured in the last minutes.
const char *hpa_budget_idle_text(const struct hpa_budget_workload *w);
// The query, and its response. False: it is not one of Prometheus; every pod is then unmeasured.
void hpa_budget_idle_expression(const char *ns, const char *const *pods, size_t n, int64_t after_ms,
                                struct gs_buf *out);
bool hpa_budget_idle_read(const json_t *response, struct budget_idle_pod *pods, size_t n);

// --- budget_usage.c: counters over time ---

enum hpa_budget_kind {
    HPA_BUDGET_HAS, // of a budget; the others are of workloads, and USED is also of other pods
    HPA_BUDGET_GRANTED,
    HPA_BUDGET_USED,
    HPA_BUDGET_REFUSED,
    HPA_BUDGET_OVER, // used above what it wants
    HPA_BUDGET_KINDS
};
void hpa_budget_usage_start(struct hpa_budgets *b);
void hpa_budget_usage_forget(struct hpa_budgets *b, const char *key);
// Forgets budgets that a new policy does not have.
void hpa_budget_usage_prune(struct hpa_budgets *b);
void hpa_budget_usage_write(const struct hpa_budgets *b, struct gs_buf *out);

// --- budget_groups.c: groups of workloads ---

struct hpa_budget_set {
    struct budget_group group;
    struct budget_member *members;          // copies
    struct hpa_budget_workload **workloads; // in the same order
    size_t self;                            // index of one of them
};
// The members of a scope, with the index of w (NULL: 0). The caller calls _finish.
void hpa_budget_set_init(const struct hpa_budgets *b, size_t scope,
                         const struct hpa_budget_workload *w, struct hpa_budget_set *ret);
void hpa_budget_set_finish(struct hpa_budget_set *s);
