// SPDX-License-Identifier: Apache-2.0
// Shared by the files of src/adapter/provider only.
#pragma once

#include "adapter/provider/provider.h"
#include "adapter/provider/rest_mapper.h"
#include "adapter/source/source.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "kube/client.h"

#include <sys/queue.h>

// --- no-data reason ---
//
// Finds out why one object has no sample: the object does not exist, it has no series, or its
// series have ended.

struct provider_no_data_request {
    struct kube_client *kube; // NULL: no cluster
    struct kube_gvr object;
    const char *ns, *name; // ns NULL: cluster-scoped
    struct source *source;
    struct gs_slice series, matchers; // "": unknown
};

// cause: borrowed; NULL: unknown.
typedef void (*provider_no_data_fn)(void *arg, const char *cause);
struct provider_no_data_op;
// The texts are borrowed until the end. Never calls cb before it returns.
struct provider_no_data_op *provider_no_data_find(const struct provider_no_data_request *rq,
                                                  provider_no_data_fn cb, void *arg);
void provider_no_data_cancel(struct provider_no_data_op *op); // NULL is fine

// --- objects ---
//
// Lists the names of the objects that a selector selects. Only metadata is requested, from the API
// server's cache. Equal lists share one request and are cached for max_age_ms.

struct provider_objects;
struct provider_objects *provider_objects_new(struct kube_client *kube, int64_t max_age_ms);
void provider_objects_free(struct provider_objects *o);

struct provider_object_detail {
    char *owner_kind, *owner_name; // the controller; NULL: none
    json_t *labels;                // NULL: none
};

// Sorted, immutable and reference-counted.
struct provider_object_names {
    unsigned refs; // private
    char **items;
    struct provider_object_detail *details; // of each item; NULL: not requested
    size_t n;
    int64_t until_ns; // gs_mono_ns() until which it is shared; 0: not shared
};
struct provider_object_names *provider_object_names_ref(struct provider_object_names *n);
void provider_object_names_unref(struct provider_object_names *n);

typedef void (*provider_objects_fn)(void *arg, struct provider_object_names *names,
                                    struct gs_error *err);
struct provider_objects_op;
// ns NULL: all; selector NULL: all. May call cb before it returns, and returns NULL in this case.
struct provider_objects_op *provider_objects_list(struct provider_objects *o, struct kube_gvr r,
                                                  const char *ns, const char *selector,
                                                  bool details, provider_objects_fn cb, void *arg);
void provider_objects_cancel(struct provider_objects_op *op); // NULL is fine

// --- workloads ---
//
// Finds the pods of workloads (Deployments, StatefulSets, Services …): the pods that the workload's
// selector selects and that no other workload controls. ReplicaSets control a Deployment's pods; a
// Service controls no pods.

struct provider_workload {
    const char *name;
    const size_t *pods; // indices into provider_workloads.pods
    size_t n_pods;
};

// The workloads of one request.
struct provider_workloads {
    struct gs_arena arena; // private
    const struct provider_workload *items;
    size_t n;
    const char *const *pods; // of all workloads, without duplicates
    size_t n_pods;
    int64_t until_ns; // gs_mono_ns() until which it may be cached
};

// The callee owns o and err. status: HTTP status of the failed call; 0: none.
typedef void (*provider_workloads_fn)(void *arg, struct provider_workloads *o, int status,
                                      struct gs_error *err);

struct provider_workloads_request {
    struct kube_client *kube;
    struct provider_objects *objects;
    const struct provider_workload_kind *kind;
    const char *version;  // API version of the kind's group
    const char *ns;       // one namespace
    const char *name;     // NULL: all
    const char *selector; // for workloads; NULL: all
};
struct provider_workloads_op;
// The texts are borrowed until the end. May call cb before it returns, and returns NULL in this
// case.
struct provider_workloads_op *provider_workloads_find(const struct provider_workloads_request *rq,
                                                      provider_workloads_fn cb, void *arg);
void provider_workloads_cancel(struct provider_workloads_op *op); // NULL is fine
void provider_workloads_free(struct provider_workloads *o);

// --- times ---
//
// Timestamps of the samples that a value was computed from. The result of an instant query has the
// time of the query, so one query requests both the values and the timestamps.

// True if the template uses .Series and .LabelMatchers, so that its series can be selected.
bool provider_times_known(const char *template_text);
// Adds the query and a query for timestamps: for each value of the label (without a label: for all
// series), the minimum of the timestamps of the newest samples.
void provider_times_add(const struct gs_buf *query, struct gs_slice label, struct gs_slice series,
                        struct gs_slice matchers, struct gs_buf *out);
// Adds the query of another rule for label values of which the previous queries have no sample. The
// result has `label` instead of `other_label`.
void provider_times_add_alternative(const struct gs_buf *query, struct gs_slice label,
                                    struct gs_slice other_label, struct gs_buf *out);
// True if the sample is a timestamp and not a result of the rule's query.
bool provider_times_is_mark(const struct source_sample *s);
// Maps label values to timestamp samples of r, borrowed. Caller frees the map.
struct gs_hmap *provider_times_index(const struct source_result *r, struct gs_slice label);
// Returns the timestamp of a label value, or fallback_ms, in milliseconds of Unix time.
int64_t provider_times_look_up(const struct gs_hmap *index, struct gs_slice value,
                               int64_t fallback_ms);

// --- provider ---

TAILQ_HEAD(calls, provider_call);

struct provider {
    struct provider_options o;
    struct provider_objects *objects; // NULL: no cluster
    struct calls calls;
    struct gs_hmap *untimed; // places of rules whose query fails together with timestamps
    size_t diagnoses;        // in progress
};

struct provider_call {
    struct provider *p;
    TAILQ_ENTRY(provider_call) all;
    struct gs_arena arena;
    struct provider_request rq; // texts are in the arena; selector is a copy
    struct kube_selector selector;
    provider_fn cb;
    void *arg;
    bool inside;   // still in provider_request_values
    bool unserved; // no rule matches
    bool done;
    const struct provider_registry_metric *metric; // valid until the next asynchronous step
    const struct adapter_config_rule *rule;
    const struct adapter_config_rule *alternatives[PROVIDER_MAX_ALTERNATIVES]; // NULL: none
    struct gs_slice series;
    const struct provider_rest_mapping *resource; // of the request
    struct provider_rest_mapping resource_copy, pods_copy;
    const struct provider_rest_mapping *queried; // the queried resource: `resource`, or pods
    bool aggregates;
    enum provider_aggregate aggregate;
    const char *const *names;
    size_t n_names;
    const char *one_name[1];
    struct provider_object_names *listed; // owns names if the objects were listed
    struct provider_objects_op *list_op;
    struct gs_buf query, label, matchers, trace, cause;
    struct gs_buf timed_query; // with the timestamps of the samples
    bool timed;                // timed_query is used
    bool timed_failed;
    struct provider_no_data_op *no_data;
    struct provider_workloads_op *workloads_op;
    struct provider_workloads *workloads; // owns names if they are the workloads' pods
    struct source_op *op;
    int64_t until_ns; // cache time of the source's response
};

#define PROVIDER_MAX_CAUSE 400 // bytes; longer ones are cut

// End a call with its callback. The call may be freed.
void provider_end(struct provider_call *c, struct provider_answer *a);
void provider_fail(struct provider_call *c, enum provider_outcome outcome, const char *fmt, ...)
    GS_PRINTF(3, 4);
void provider_trace(struct provider_call *c, const char *fmt, ...) GS_PRINTF(2, 3);
struct source *provider_source(const struct provider_call *c); // the source of its rule

// --- idle.c: a rule that matches the metric and has no series ---

bool provider_fail_idle(struct provider_call *c); // false: no such rule

// --- values.c: converts the source's result ---

void provider_take_result(struct provider_call *c, const struct source_result *r);
