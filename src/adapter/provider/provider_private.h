// SPDX-License-Identifier: Apache-2.0
// Between the files of the provider: one request and its ends.
#pragma once

#include "adapter/provider/provider.h"
#include "adapter/provider/rest_mapper.h"
#include "adapter/source/source.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "kube/client.h"

#include <sys/queue.h>

// --- absence ---
//
// Why one object has no sample: there is no such object, nothing is known of its series, or they
// ended a while ago.

struct provider_no_data_request {
    struct kube_client *kube; // NULL: no cluster
    struct kube_gvr object;
    const char *ns, *name; // ns NULL: of the cluster
    struct source *source;
    struct gs_slice series, matchers; // "": not known
};

// cause: borrowed; NULL: nothing was found out.
typedef void (*provider_no_data_fn)(void *arg, const char *cause);
struct provider_no_data_op;
// The texts must stay until the end. Never calls back from inside.
struct provider_no_data_op *provider_no_data_find(const struct provider_no_data_request *rq,
                                                  provider_no_data_fn cb, void *arg);
void provider_no_data_cancel(struct provider_no_data_op *op); // NULL is fine

// --- objects ---
//
// Names of the cluster's objects that a selector picks. Only metadata is asked for, from the API
// server's own cache; equal lists are asked for once at a time and shared for a moment.

struct provider_objects;
struct provider_objects *provider_objects_new(struct kube_client *kube, int64_t max_age_ms);
void provider_objects_free(struct provider_objects *o);

struct provider_object_detail {
    char *owner_kind, *owner_name; // of the controller; NULL: none
    json_t *labels;                // NULL: none
};

// Sorted; immutable, counted.
struct provider_object_names {
    unsigned refs; // private
    char **items;
    struct provider_object_detail *details; // of each; NULL: not asked for
    size_t n;
    int64_t until_ns; // gs_mono_ns() up to which others that ask are given it; 0: nobody is
};
struct provider_object_names *provider_object_names_ref(struct provider_object_names *n);
void provider_object_names_unref(struct provider_object_names *n);

typedef void (*provider_objects_fn)(void *arg, struct provider_object_names *names,
                                    struct gs_error *err);
struct provider_objects_op;
// ns NULL: all; selector NULL: all. cb may be called from inside, and then NULL is returned.
struct provider_objects_op *provider_objects_list(struct provider_objects *o, struct kube_gvr r,
                                                  const char *ns, const char *selector,
                                                  bool details, provider_objects_fn cb, void *arg);
void provider_objects_cancel(struct provider_objects_op *op); // NULL is fine

// --- owners ---
//
// Which pods belong to what owns pods (Deployments, StatefulSets, Services …): those that its
// selector picks and that nobody else controls. A Deployment's pods are controlled by its
// ReplicaSets; a Service controls nothing.

struct provider_workload {
    const char *name;
    const size_t *pods; // positions in the list of pods
    size_t n_pods;
};

// Of one request.
struct provider_workloads {
    struct gs_arena arena; // private
    const struct provider_workload *items;
    size_t n;
    const char *const *pods; // of all owners, each once
    size_t n_pods;
    int64_t until_ns; // gs_mono_ns() up to which it may be used again
};

// The callee owns it. status: of the cluster's answer, with an error; 0: none.
typedef void (*provider_workloads_fn)(void *arg, struct provider_workloads *o, int status,
                                      struct gs_error *err);

struct provider_workloads_request {
    struct kube_client *kube;
    struct provider_objects *objects;
    const struct provider_workload_kind *kind;
    const char *version;  // of its group
    const char *ns;       // one namespace
    const char *name;     // NULL: all
    const char *selector; // of owners; NULL: all
};
struct provider_workloads_op;
// The texts must stay until the end. cb may be called from inside, and then NULL is returned.
struct provider_workloads_op *provider_workloads_find(const struct provider_workloads_request *rq,
                                                      provider_workloads_fn cb, void *arg);
void provider_workloads_cancel(struct provider_workloads_op *op); // NULL is fine
void provider_workloads_free(struct provider_workloads *o);

// --- times ---
//
// When the samples behind a value were taken: an instant query's answer has the time of the query,
// so the times are asked for with it, in one query.

// The query's text says of which series they are: it uses .Series and .LabelMatchers.
bool provider_times_known(const char *template_text);
// The query and, of each value of the label (none: of all), the oldest of the newest samples.
void provider_times_add(const struct gs_buf *query, struct gs_slice label, struct gs_slice series,
                        struct gs_slice matchers, struct gs_buf *out);
bool provider_times_is_mark(
    const struct source_sample *s); // it is such a time, not one of the query's
// Label values -> times. The caller frees.
struct gs_hmap *provider_times_index(const struct source_result *r, struct gs_slice label);
// The time of the answer where there is none.
int64_t provider_times_look_up(const struct gs_hmap *index, struct gs_slice value,
                               int64_t fallback_ms);

// --- provider ---

TAILQ_HEAD(calls, provider_call);

struct provider {
    struct provider_options o;
    struct provider_objects *objects; // NULL: no cluster
    struct calls calls;
    struct gs_hmap *untimed; // places of rules whose query cannot be asked with times
    size_t diagnoses;        // under way
};

struct provider_call {
    struct provider *p;
    TAILQ_ENTRY(provider_call) all;
    struct gs_arena arena;
    struct provider_request rq; // texts in the arena; selector copied from its text
    struct kube_selector selector;
    provider_fn cb;
    void *arg;
    bool inside;   // still in provider_request_values
    bool unserved; // no rule is for it
    bool done;
    const struct provider_registry_metric *metric; // valid until the next wait only
    const struct adapter_config_rule *rule;
    struct gs_slice series;
    const struct provider_rest_mapping *resource; // of the request
    struct provider_rest_mapping resource_copy, pods_copy;
    const struct provider_rest_mapping
        *asked; // whose values are asked for: the resource, or pods of an owner
    bool folds;
    enum provider_aggregate fold;
    const char *const *names;
    size_t n_names;
    const char *one_name[1];
    struct provider_object_names *listed; // owns names, of a list
    struct provider_objects_op *list_op;
    struct gs_buf query, label, matchers, trace, cause;
    bool timed; // asked with the times of samples
    bool timed_failed;
    struct provider_no_data_op *absence;
    struct provider_workloads_op *owners_op;
    struct provider_workloads *owners; // owns names, of their pods
    struct source_op *op;
    int64_t until_ns; // of the source's answer
};

// Ends: the callee is told, and the call may be gone.
void provider_end(struct provider_call *c, struct provider_answer *a);
void provider_fail(struct provider_call *c, enum provider_outcome outcome, const char *fmt, ...)
    GS_PRINTF(3, 4);
void provider_trace(struct provider_call *c, const char *fmt, ...) GS_PRINTF(2, 3);
struct source *provider_source(const struct provider_call *c); // of its rule

// --- idle.c: a rule that is for the metric and serves nothing ---

bool provider_fail_idle(struct provider_call *c); // false: there is no such rule

// --- values.c: what the source answered ---

void provider_take_result(struct provider_call *c, const struct source_result *r);
