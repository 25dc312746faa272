// SPDX-License-Identifier: Apache-2.0
// GPU budgets: the workloads of a scope share a number of GPUs by their weights. The policy comes
// from a ConfigMap; shares and decisions are pure functions of what was read, with no clock and no
// I/O. Times are Unix milliseconds; all counts of GPUs are whole numbers.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"
#include "kube/selector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- the policy ---

#define BUDGET_CONFIG_MAP          "gpuscale-budgets"
#define BUDGET_KEY                 "budgets.yaml"     // of its data
#define BUDGET_LEASE               "gpuscale-budgets" // of the process that applies them
#define BUDGET_PRIORITY_ANNOTATION "gpuscale.dev/priority"

enum {
    BUDGET_MAX_SCOPES = 32, // a set of scopes is a uint32_t
    BUDGET_MAX_NAMES = 256, // namespaces of a scope, priority classes
    BUDGET_MAX_GPUS = 1000000,
    BUDGET_MAX_TEXT = 1 << 20,
    BUDGET_LEAST_IDLE_MS = 5 * 60 * 1000,
    BUDGET_MOST_IDLE_MS = 24 * 3600 * 1000,
};

// A workload belongs to each scope that matches it, and the smallest result applies.
struct budget_scope {
    const char *name;
    const char *const *namespaces; // none: all
    size_t n_namespaces;
    struct kube_selector selector; // of the labels of pods; empty: all
    const char *gpu;               // a word of the GPU model, such as "H100"; NULL: all models
    size_t gpus;
    int64_t idle_after_ms; // GPUs that were idle for so long are lent to others; 0: never
};

struct budget_class {
    const char *name;
    double weight;
};

struct budget_policy {
    struct gs_arena arena;
    bool enforce; // false: dry run
    struct budget_class *classes;
    size_t n_classes;
    struct budget_scope *scopes;
    size_t n_scopes;
};

// Reads the text of BUDGET_KEY. GS_EINVAL names the position. *ret is unchanged on failure;
// otherwise budget_policy_finish() frees it.
struct gs_error *budget_policy_parse(struct gs_slice yaml, const char *name,
                                     struct budget_policy *ret);
// The same of a ConfigMap. GS_ENOTFOUND: it has no BUDGET_KEY.
struct gs_error *budget_policy_of(const json_t *config_map, struct budget_policy *ret);
void budget_policy_finish(struct budget_policy *p);

// model NULL: unknown, which only a scope of all models matches. labels: of the pods, may be NULL.
bool budget_scope_matches(const struct budget_scope *s, const char *ns, const json_t *labels,
                          const char *model);
bool budget_scope_has_namespace(const struct budget_scope *s, const char *ns);
// The weight of a workload: its annotation, else its priority class, else 1. Both may be NULL.
// GS_EINVAL: the annotation is no number above 0 and up to 1000; the weight is then that without
// it.
struct gs_error *budget_weight(const struct budget_policy *p, const char *annotation,
                               const char *priority_class, double *ret);

// --- autoscalers of other controllers ---

// What is recorded while maxReplicas is lowered: "maxReplicas=8,set=3,by=kube-system".
#define BUDGET_RECORD_ANNOTATION "gpuscale.dev/budget"
#define BUDGET_RECORD_BY         64
struct budget_record {
    int32_t had, set;
    char by[BUDGET_RECORD_BY]; // the namespace of the ConfigMap; "": not recorded
};
// False: maxReplicas is not lowered, or somebody has set another one since.
bool budget_record_of(const json_t *hpa, struct budget_record *ret);
// Whether the budgets of another namespace limit it, or have limited it.
bool budget_record_of_others(const json_t *hpa, const char *ns);

// --- demand ---

// What a workload counts as wanting. A utilization shows no more than a multiple of the replicas
// that exist: while such a load wants more than the replicas that it has, and a budget refuses
// them, the demand that it had before still counts. *demand: of the last call, 0 at first.
int32_t budget_demand(int32_t wanted, int32_t replicas, bool by_utilization, bool refused,
                      int32_t *demand);

// --- shares ---

struct budget_member {
    const char *key; // "namespace/name" of its autoscaler, unique in the group
    double weight;
    int32_t gpus;     // of one replica, at least 1
    int32_t floor;    // replicas that are never taken
    int32_t demand;   // replicas that its autoscaler wants
    int32_t replicas; // that are set
    // More than replicas: were set before, and the controller of the workload may still create pods
    // for them. 0: it follows.
    int32_t settling;
    int64_t live;   // GPUs of its pods that are not being deleted
    int64_t ending; // GPUs of its pods that are being deleted
    // All its GPUs were idle. It counts with its floor, but at least with one replica, which shows
    // when it is busy, until the others have what they want.
    bool idle;
    int64_t hold_ms; // how long a replica that was moved stays where it is
};

// The members of one scope.
struct budget_group {
    const char *name;
    int64_t gpus;   // of the budget
    int64_t others; // GPUs of pods in the scope that belong to no member
    const struct budget_member *members;
    size_t n;
};

// The replicas of each member if all moves were complete: floors first, then the rest in proportion
// to weight times demand and up to the demand, in whole replicas by the largest remainder. A
// replica that fits is never left out while it is wanted. If the floors do not fit, higher weights
// come first. ret has group->n entries.
void budget_share(const struct budget_group *group, int32_t *ret);

// GPUs that a member has or will take: those of its pods, or of its set replicas if these are more.
int64_t budget_used(const struct budget_member *m);
// GPUs of the budget that no pod has, and that no set replica will take; negative: over budget.
int64_t budget_free(const struct budget_group *group);

// --- decisions ---

// The moves of one group that still bind.
struct budget_memory;
struct budget_memory *budget_memory_new(void);
void budget_memory_free(struct budget_memory *m); // NULL is fine
// Shifts times after the wall clock was set by this amount.
void budget_memory_shift(struct budget_memory *m, int64_t ms);

enum budget_reason {
    BUDGET_WITHIN, // it gets what it wants
    BUDGET_SHARE,  // its share is smaller
    BUDGET_WAITS,  // GPUs of its share are still used
    BUDGET_HOLD,   // replicas that were taken are not given back yet
    BUDGET_KEEPS,  // it has more than its share: replicas that were moved to it stay a while
    BUDGET_FLOOR,  // it has more than its share: the floor is never taken
    BUDGET_IDLE,   // its GPUs are idle, and others want them
    BUDGET_LENT,   // GPUs that a workload lent while it was idle are its first
    BUDGET_REASONS,
};

struct budget_result {
    enum budget_reason reason;
    int32_t replicas; // that it may have now
    int32_t share;
    int64_t free;     // budget_free()
    int64_t until_ms; // BUDGET_HOLD, BUDGET_KEEPS: end of the first hold; 0 otherwise
};

// The decision for one member. Growth takes only GPUs that are free now, and waits while there are
// more pods than set replicas or a controller does not follow, so the group does not exceed its
// budget while pods end and start. A replica that is taken from a member for another does not move
// again within the members' hold. What an idle member lent goes back at once when it is busy, and
// free GPUs are its before those of others.
void budget_decide(const struct budget_group *group, size_t member, const struct budget_memory *m,
                   int64_t now_ms, struct budget_result *ret);
// The replicas of a member are now set, or will be, from group->members[member].replicas to this
// number.
void budget_note(struct budget_memory *m, const struct budget_group *group, size_t member,
                 int32_t replicas, int64_t now_ms);

// GPUs that one member lost and another one got, since the memory exists. lent: the first was idle.
// At most 1024 pairs; those of further ones are together, with BUDGET_OTHERS as both names.
#define BUDGET_OTHERS "(other)"
struct budget_transfer {
    char *from, *to; // keys
    bool lent;
    int64_t gpus;
    int64_t since_ms; // of the first
};
const struct budget_transfer *budget_transfers(const struct budget_memory *m, size_t *ret_n);

// --- idle GPUs ---

// What was measured of the GPUs of one pod from idleAfter ago until now. NAN: absent.
struct budget_idle_pod {
    const char *name;
    int64_t gpus;    // that it has
    double measured; // of these with a sample in the last minute
    double minutes;  // with a sample, of the GPU with the fewest; one more than idleAfter has
    double util;     // percent, the highest
    double process;  // percent, the highest of a process; absent: no process was seen
    double memory;   // by how much the used memory changed, MiB
};
// Whether all GPUs of a workload were idle the whole time. Missing data is never idle, and a
// workload without pods is not. ret: why, or why not, in one line.
bool budget_is_idle(const struct budget_idle_pod *pods, size_t n, int64_t after_ms,
                    struct gs_buf *ret);

// --- texts ---

// {"name", "gpus", "used", "others", "free", "share", "allowed", "reason", "text", "members":
// [{"name", "priority", "gpusPerReplica", "replicas", "demand", "share", "idle"}, …], "moves":
// [{"from", "to", "replicas", "ageMs"}, …]}; members with the most GPUs first, at most 20. New
// reference.
json_t *budget_result_json(const struct budget_group *group, size_t member,
                           const struct budget_memory *m, const struct budget_result *r,
                           int64_t now_ms);
// One line: "GPU budget h100: 3 of 5 wanted replicas; team-a/chat has 8 of 16 GPUs".
void budget_result_text(const struct budget_group *group, size_t member,
                        const struct budget_memory *m, const struct budget_result *r,
                        int64_t now_ms, struct gs_buf *out);
