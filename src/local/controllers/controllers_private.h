// SPDX-License-Identifier: Apache-2.0
// Private to the module: the controllers of local_workloads, what they share (owned pods, history
// of templates, rollouts), and the filters of the scheduler.
#pragma once

#include "codec/json.h"
#include "kube/selector.h"
#include "local/cluster.h"
#include "local/workqueue.h"

// --- controllers, each with its own work queue ---

struct controllers_deployments;
struct controllers_deployments *controllers_deployments_new(struct local_cluster *c);
void controllers_deployments_free(struct controllers_deployments *d);

struct controllers_replicasets;
struct controllers_replicasets *controllers_replicasets_new(struct local_cluster *c);
// The same for ReplicationControllers.
struct controllers_replicasets *controllers_replication_controllers_new(struct local_cluster *c);
void controllers_replicasets_free(struct controllers_replicasets *r);

struct controllers_daemonsets;
struct controllers_daemonsets *controllers_daemonsets_new(struct local_cluster *c);
void controllers_daemonsets_free(struct controllers_daemonsets *d);

// --- kinds.c: the kinds whose objects the garbage collector watches ---
// The built-in ones (local_api_collected), and those of CustomResourceDefinitions as these come and
// go.

struct controllers_kind {
    struct controllers_kind *next;
    const char *kind;
    struct kube_gvr gvr;
    bool namespaced;
    struct kube_cache *cache; // that of the cluster, or one with the metadata only
    struct controllers_kinds *owner;
    char *definition, *strings[4]; // of a custom resource
    bool own_cache;
    bool is_replaced; // it ends, but its objects stay: the definition has changed
};

// old_obj and new_obj as in kube_cache_handlers. The objects of a kind that ends are reported as
// deleted; if it is_replaced, a new kind may report them again.
typedef void (*controllers_kind_fn)(void *arg, const struct controllers_kind *k,
                                    const json_t *old_obj, const json_t *new_obj);
struct controllers_kinds *controllers_kinds_new(struct local_cluster *c, controllers_kind_fn fn,
                                                void *arg);
void controllers_kinds_free(struct controllers_kinds *all);
bool controllers_kinds_synced(const struct controllers_kinds *all);
// The kind of an owner reference; NULL: it is not watched.
const struct controllers_kind *controllers_kind_of(const struct controllers_kinds *all,
                                                   const json_t *ref);
// By the name of a CustomResourceDefinition, "plural.group"; "plural." for the core group.
const struct controllers_kind *controllers_kind_named(const struct controllers_kinds *all,
                                                      struct gs_slice name);

// Deletes objects without owners, and executes cascading deletion "Orphan" and "Foreground".
struct controllers_garbage_collector;
struct controllers_garbage_collector *controllers_garbage_collector_new(struct local_cluster *c);
void controllers_garbage_collector_free(struct controllers_garbage_collector *g);

// Deletes the objects of deleted namespaces, then finalizes the namespaces.
struct controllers_namespaces;
struct controllers_namespaces *controllers_namespaces_new(struct local_cluster *c);
void controllers_namespaces_free(struct controllers_namespaces *n);

// Keeps the status of PodDisruptionBudgets.
struct controllers_disruption;
struct controllers_disruption *controllers_disruption_new(struct local_cluster *c);
void controllers_disruption_free(struct controllers_disruption *d);

// --- owned pods ---
// The pods that the objects of one kind own: claims, creation, deletion, and the work queue of the
// owners. Controllers embed struct controllers_owned.

struct controllers_owned_kind {
    const char *kind;          // of the owners: "ReplicaSet"
    const char *component;     // of events
    const char *queue;         // name of the work queue
    struct kube_cache *owners; // borrowed
    bool own_events;           // the controller itself records events of creations and deletions
    bool revisions;            // changes of ControllerRevisions reconcile their owners, too
    // Called for an owner in the cache, with its selector.
    void (*sync)(void *arg, struct local_reconcile *w, const json_t *owner,
                 const struct kube_selector *selector);
    // Whether an owner adopts an orphan that its selector matches. NULL: always.
    bool (*adopts)(const json_t *owner, const json_t *pod);
    void (*owner_gone)(void *arg, const json_t *owner); // NULL: none
    void *arg;
};

struct controllers_owned {
    struct controllers_owned_kind kind;
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue; // of owners
    struct gs_hmap *expected;      // pod key -> expectation
    struct gs_hmap *failures;      // uid of an owner -> why its last creation failed
};

// A list of pods. They belong to the cache.
struct controllers_pods {
    const json_t **items;
    size_t len, cap;
};

void controllers_owned_init(struct controllers_owned *o, struct local_cluster *c,
                            const struct controllers_owned_kind *kind);
void controllers_owned_finish(struct controllers_owned *o);
// False while the cache does not show all pods that were created and deleted for the owner.
bool controllers_owned_settled(struct controllers_owned *o, const json_t *owner);
// Why the last creation of a pod failed; NULL: it succeeded.
const char *controllers_owned_failure(const struct controllers_owned *o, const json_t *owner);
// Adds the owner's pods to ret. active_only: without those that are terminal or being deleted. True
// if pods were adopted or released: the rest waits until the cache shows that.
bool controllers_owned_claim(struct controllers_owned *o, struct local_reconcile *w,
                             const json_t *owner, const struct kube_selector *selector,
                             bool active_only, struct controllers_pods *ret);
// pod: from controllers_pod_from_template. Without metadata.name, it gets an unused name that
// begins with metadata.generateName or the name of the owner. False: nothing was written, because
// another write of a pod with this name is not answered yet. The owner is reconciled again.
bool controllers_owned_create(struct controllers_owned *o, struct local_reconcile *w,
                              const json_t *owner, json_t *pod);
bool controllers_owned_delete(struct controllers_owned *o, struct local_reconcile *w,
                              const json_t *owner, const json_t *pod);
json_t *controllers_pod_from_template(const json_t *owner, const json_t *template); // new reference

void controllers_pods_add(struct controllers_pods *p, const json_t *pod);
void controllers_pods_finish(struct controllers_pods *p);
// local_pod_available() now. If it becomes true later, the owner is reconciled again then.
bool controllers_pod_available(struct local_reconcile *w, const json_t *pod,
                               int64_t min_ready_seconds);
// Kubernetes' order of ActivePodsWithRanks: the first is deleted first.
void controllers_pods_sort_for_deletion(struct controllers_pods *p);
void controllers_pods_sort_by_age(struct controllers_pods *p); // oldest first
int controllers_compare_age(const json_t *a, const json_t *b); // then by name

// Adds a controller reference to `add` and removes references to `drop`. Either may be NULL.
void controllers_patch_owners(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                              const json_t *add, const json_t *drop);
void controllers_set_count(json_t *status, const char *key, int64_t n); // removes the key for 0
// Updates the status subresource if the status differs. status is borrowed.
void controllers_write_status(struct local_reconcile *w, struct kube_gvr r, const json_t *obj,
                              json_t *status);

// --- history of templates: ControllerRevisions of DaemonSets and StatefulSets ---

#define CONTROLLERS_REVISION_LABEL "controller-revision-hash"

struct controllers_revisions {
    const json_t **items; // lowest revision first; owned by the cache
    size_t len, cap;
    const json_t *latest; // of the current template
};

// Creates the revision of the current template if it does not exist, and makes it the latest. False
// if something was written: the rest waits until the cache shows it.
bool controllers_revisions_sync(struct local_cluster *c, struct local_reconcile *w,
                                const json_t *owner, const struct kube_selector *selector,
                                struct controllers_revisions *ret);
void controllers_revisions_finish(struct controllers_revisions *r);
// Deletes the oldest revisions beyond spec.revisionHistoryLimit that no pod uses. keep: the name of
// another revision that stays, or NULL.
void controllers_revisions_truncate(struct local_reconcile *w, const json_t *owner,
                                    const struct controllers_revisions *r,
                                    const struct controllers_pods *pods, const char *keep);
const char *controllers_revision_hash(const json_t *revision); // its label
// A new reference to the pod template of a revision.
json_t *controllers_revision_template(const json_t *revision);
// The short hash of a text that names ReplicaSets and ControllerRevisions.
void controllers_template_hash(const char *text, char out[16]);

struct controllers_statefulsets;
struct controllers_statefulsets *controllers_statefulsets_new(struct local_cluster *c);
void controllers_statefulsets_free(struct controllers_statefulsets *d);
// N of a pod NAME-N of the StatefulSet NAME; -1: the pod has another name.
int64_t controllers_statefulset_ordinal(const json_t *set, const json_t *pod);

struct controllers_cronjobs;
struct controllers_cronjobs *controllers_cronjobs_new(struct local_cluster *c);
void controllers_cronjobs_free(struct controllers_cronjobs *d);

// --- Jobs ---

struct controllers_jobs;
struct controllers_jobs *controllers_jobs_new(struct local_cluster *c);
void controllers_jobs_free(struct controllers_jobs *d);
bool controllers_job_is_finished(const json_t *job); // Complete or Failed

#define CONTROLLERS_JOB_BACKOFF_MS      10000 // after the first failed pod; doubled by each further one
#define CONTROLLERS_JOB_BACKOFF_LAST_MS 600000
#define CONTROLLERS_JOB_MAX_INDEXES     100000 // the API refuses more

// What the controller remembers of the pods of one Job, also after they were deleted.
struct controllers_job_tracker;
struct controllers_job_tracker *controllers_job_tracker_new(void);
void controllers_job_tracker_free(void *tracker);
// The controller deletes the pod: it counts neither as failed nor as succeeded.
void controllers_job_tracker_ignore(struct controllers_job_tracker *t, const json_t *pod);

enum controllers_job_index_flags {
    CONTROLLERS_JOB_INDEX_SUCCEEDED = 1,
    CONTROLLERS_JOB_INDEX_FAILED = 2, // gets no more pods
    CONTROLLERS_JOB_INDEX_ACTIVE = 4,
    CONTROLLERS_JOB_INDEX_RULE = 8,
};

struct controllers_job { // in one reconciliation
    const json_t *job;
    struct local_reconcile *work;
    struct controllers_job_tracker *tracker;
    int64_t now_ms;
    json_t *status;      // under construction; owned
    int64_t parallelism; // desired
    int64_t completions; // -1: unset
    bool indexed;
    // Filled by controllers_job_count:
    struct controllers_pods pods;   // all
    struct controllers_pods active; // neither ended nor being deleted
    int64_t ready, terminating, succeeded, failed, failed_indexes;
    uint8_t *indexes;   // flags of each index; NULL unless indexed
    char *fail_message; // of the FailJob rule that matched, or of a missing image; NULL: none
    size_t writes;      // pods created and deleted
    bool ended;         // the last condition was set just now
};

// j->pods is filled. Counts the pods, and sets the indexes in the status.
void controllers_job_count(struct controllers_job *j);
void controllers_job_finish(struct controllers_job *j);
int64_t controllers_job_index(const struct controllers_job *j, const json_t *pod); // -1: none
// The first rule of spec.successPolicy that is met; -1: none.
int64_t controllers_job_success_rule(struct controllers_job *j);
// The time until the next pod may start. index -1: of all pods.
int64_t controllers_job_backoff_ms(const struct controllers_job *j, int64_t index, int64_t now_ms);
json_t *controllers_job_new_pod(const struct controllers_job *j, int64_t index); // -1: no index

// --- rollouts of Deployments ---
// The state of a Deployment and its ReplicaSets in one sync: the rollout arithmetic, the status and
// the writes share it. Arithmetic and texts follow Kubernetes' deployment controller.

#define CONTROLLERS_ROLLOUT_HASH_LABEL   "pod-template-hash"
#define CONTROLLERS_ROLLOUT_ANN_REVISION "deployment.kubernetes.io/revision"
#define CONTROLLERS_ROLLOUT_ANN_HISTORY  "deployment.kubernetes.io/revision-history"
#define CONTROLLERS_ROLLOUT_ANN_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define CONTROLLERS_ROLLOUT_ANN_MAX      "deployment.kubernetes.io/max-replicas"

struct controllers_rollout_rs {
    const json_t *obj;
    int64_t spec;                       // desired replicas
    int64_t replicas, ready, available; // of its status
};

struct controllers_rollout {
    struct local_reconcile *work;
    struct kube_recorder *recorder;
    const json_t *deployment;
    struct controllers_rollout_rs *all; // owned, oldest first
    size_t len, cap;
    struct controllers_rollout_rs *current; // of the current template; NULL: none yet
    int64_t replicas, max_surge, max_unavailable;
    bool recreate;
    json_t *status; // under construction: starts as a copy
};

// Fills replicas, max_surge, max_unavailable, recreate from the spec.
void controllers_rollout_read_spec(struct controllers_rollout *r);
int64_t controllers_rollout_max_replicas(
    const struct controllers_rollout *r); // with surge; 0 when replicas is 0
int64_t controllers_rollout_spec_sum(const struct controllers_rollout *r);

// Writes spec.replicas with the size annotations and the event. False if nothing changes.
bool controllers_rollout_scale(struct controllers_rollout *r, struct controllers_rollout_rs *rs,
                               int64_t replicas);
// The desired replicas of the ReplicaSet of the current template, given the existing ones.
int64_t controllers_rollout_current_target(const struct controllers_rollout *r, int64_t now_spec);

// Each does at most one step of a rollout. True: a ReplicaSet was scaled.
bool controllers_rollout_rolling_step(struct controllers_rollout *r);
bool controllers_rollout_recreate_down(struct controllers_rollout *r);
bool controllers_rollout_is_scaling(
    const struct controllers_rollout *r); // spec.replicas has changed since the last scaling
void controllers_rollout_scale_proportionally(struct controllers_rollout *r);

// Status: counts and conditions.
void controllers_rollout_set_condition(struct controllers_rollout *r, const char *type,
                                       const char *status, const char *reason, const char *message);
void controllers_rollout_count(
    struct controllers_rollout *r); // counts, observedGeneration, Available, ReplicaFailure
void controllers_rollout_progress(
    struct controllers_rollout *r); // Progressing; after controllers_rollout_count
void controllers_rollout_check_paused(struct controllers_rollout *r);
bool controllers_rollout_complete(
    const struct controllers_rollout *r); // after controllers_rollout_count
void controllers_rollout_write_status(struct controllers_rollout *r);

// --- GPU devices of the scheduler ---
// Which GPU devices a pod gets. Whether it fits on a node: nodes/scheduling.h.

struct controllers_filter_device {
    char *id;
    size_t gpu; // which physical one
    bool taken;
};
struct controllers_filter_devices {
    struct controllers_filter_device *items;
    size_t len;
    size_t *used;        // devices taken, by physical GPU
    bool slices_renamed; // as on the node: time slices are LOCAL_GPU_SHARED
};
void controllers_filter_devices_init(struct controllers_filter_devices *d, const char *const *ids,
                                     size_t n);
void controllers_filter_devices_finish(struct controllers_filter_devices *d);
void controllers_filter_devices_release_all(struct controllers_filter_devices *d);
// assignment: {"container": ["id", …]}; unknown ids are ignored.
void controllers_filter_devices_take(struct controllers_filter_devices *d,
                                     const json_t *assignment);
// *ret_assignment is NULL if the pod requests none. False, without an assignment, if too few are
// free.
bool controllers_filter_devices_assign(struct controllers_filter_devices *d, const json_t *pod,
                                       json_t **ret_assignment);
