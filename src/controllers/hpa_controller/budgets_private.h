// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the budgets: workloads, the pods that have GPUs, and groups of them.
#pragma once

#include "base/hmap.h"
#include "base/mem.h"
#include "budget/budget.h"
#include "hpa_controller/budgets.h"
#include "hpa_controller/controller_private.h"
#include "kube/selector.h"

// A set of scopes has a bit for each scope of the policy.
static inline bool hpa_budget_has_scope(uint32_t scopes, size_t i)
{
    return scopes >> i & 1;
}

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
    int64_t read_ms;               // when it was sent
    int64_t live, ending;          // GPUs of its pods
    json_t *pod_labels;            // of one of its pods; NULL: it had none
    int32_t pod_gpus;              // the most of one pod; 0: it has none
    char *model;                   // of the GPUs of its pods; NULL: unknown
    uint32_t scopes;
    bool waits; // it would get more if GPUs were free
    struct budget_member member;
    int64_t settles_ms; // until when member.settling counts
};

// A pod with GPUs, bound to a node or of a workload.
struct hpa_budget_pod {
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
    struct gs_hmap *pods;      // by the key of the pod
    int64_t others[BUDGET_MAX_SCOPES];
    bool observes_pods, observes_nodes;
    bool released;                    // autoscalers of other controllers are limited no more
    bool stale;                       // nodes have changed: the models of pods are read again
    char *sole_model;                 // of all nodes; NULL: they differ
    struct hpa_budget_visits *visits; // of autoscalers of other controllers; NULL: shadow
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
// The budget with the smallest result binds. wakes: those who have more than their share are
// evaluated if this one waits for it. The caller frees the text.
struct hpa_budget_outcome hpa_budget_decide(const struct hpa_budgets *b,
                                            struct hpa_budget_workload *w, int64_t now_ms,
                                            bool wakes);
void hpa_budget_note(const struct hpa_budgets *b, const struct hpa_budget_workload *w,
                     int32_t replicas, int64_t now_ms);
// Whether autoscalers of other controllers are limited.
bool hpa_budget_enforced(const struct hpa_budgets *b);
// Whether the newest ConfigMap is known, or may not be read.
bool hpa_budget_policy_known(const struct hpa_budgets *b);

// --- budget_others.c: autoscalers of other controllers ---

struct hpa_budget_visits *hpa_budget_visits_new(struct hpa_budgets *b);
void hpa_budget_visits_start(struct hpa_budget_visits *v);
void hpa_budget_visits_free(struct hpa_budget_visits *v); // NULL is fine
void hpa_budget_visits_release(struct hpa_budget_visits *v, void (*done)(void *arg), void *arg);

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
// The scopes that match.
uint32_t hpa_budget_scopes(const struct hpa_budgets *b, const char *ns, const json_t *labels,
                           const char *model);

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
