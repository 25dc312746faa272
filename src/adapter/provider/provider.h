// SPDX-License-Identifier: Apache-2.0
// The provider serves requests of the metrics APIs: it finds the rule, lists the objects that a
// selector selects, sends the query and converts its samples to values of objects. All functions
// run on the thread of the source's loop.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/rest_mapper.h"
#include "adapter/source/source.h"
#include "base/buf.h"
#include "base/slice.h"
#include "kube/selector.h"

#include <stddef.h>

// --- gpu ---
//
// GPU metrics that need no user rules: the exporters' series for pods, namespaces and nodes. A
// workload (Deployment, Service …) has the average of its pods; a metric with the suffix _MAX or
// _MIN has the maximum or minimum.

// Also the decisions of latency targets (slo/slo.h) for autoscalers, their targets, and as external
// metrics.
const char *provider_gpu_rules(void); // as YAML
// Whether the metric is one of GPUs, which need no rules: it is served from its first sample on.
bool provider_gpu_name(const char *metric);

enum provider_aggregate { PROVIDER_AVERAGE, PROVIDER_MAX, PROVIDER_MIN, PROVIDER_SUM };
// Splits "X_MAX" into X and PROVIDER_MAX. A name without such a suffix is returned unchanged with
// PROVIDER_AVERAGE.
struct gs_slice provider_gpu_metric(const char *name, enum provider_aggregate *ret_aggregate);
// Adds the n-th value (from 0) to an aggregate.
double provider_aggregate_values(enum provider_aggregate how, double so_far, double v, size_t n);

// Resources whose spec.selector selects pods, such as "deployments" of "apps".
struct provider_workload_kind {
    const char *group, *resource;
    const char *kind;
    int match_labels; // 1: spec.selector is a LabelSelector; 0: a map
    int controls;     // 1: it, or an object that it owns, is the controller of its pods
};
const struct provider_workload_kind *provider_workload_kind_nth(size_t i); // NULL: past the end

// --- pod series ---
//
// Every series with the labels namespace and pod, which needs no user rules: for pods and
// namespaces, and for workloads as the sum or the maximum of their pods.

enum { PROVIDER_POD_SERIES_NAMES = 10000, PROVIDER_POD_SERIES_WINDOW_MS = 120000 };
// As YAML. window_ms: of the rates of counters. Caller frees.
char *provider_pod_series_rules(int64_t window_ms);
// How the values of pods become that of a workload, by the name of the metric.
enum provider_aggregate provider_pod_series_aggregate(const char *metric);

// --- registry ---
//
// The registry lists the series of each rule periodically and derives the metrics that exist, with
// their names and resources. If a list fails, its rules keep their last series and report the
// error. Rules with the same seriesQuery and source share one list.

struct provider_registry;

enum { PROVIDER_MAX_ALTERNATIVES = 3 };

struct provider_registry_metric {
    const struct adapter_config_rule *rule;
    // Earlier rules with another seriesQuery that serve the same metric, newest first; NULL: none.
    const struct adapter_config_rule *alternatives[PROVIDER_MAX_ALTERNATIVES];
    struct gs_slice series;
    struct gs_slice shadowed; // another series that has the same name; "": none
    // NULL for external metrics.
    const char *group, *resource; // canonical: "apps", "deployments"
    bool namespaced;
    struct gs_slice name;
    bool alias;   // the metric is listed under another name (struct source_shape)
    size_t order; // private
};

struct provider_registry_options {
    const struct adapter_config *config; // borrowed, as all below
    struct source *source;
    struct source *const *extra_sources; // config->n_sources of them
    const struct provider_rest_mapper *mapper;
    int64_t relist_ms;  // interval of lists; shorter while no series were found
    int64_t max_age_ms; // series without newer samples are ignored; 0: relist_ms
    // Only names of series are listed: the seriesQuery of each rule guarantees its labels.
    bool names_only;
    size_t max_names;            // with names_only: of series, in alphabetical order; 0: no limit
    void (*on_round)(void *arg); // all lists of a round have ended; may be NULL
    void *arg;
};

struct provider_registry *provider_registry_new(uv_loop_t *loop,
                                                const struct provider_registry_options *o);
void provider_registry_free(struct provider_registry *r);
void provider_registry_relist(struct provider_registry *r); // starts a round now
void provider_registry_stop(struct provider_registry *r); // keeps the metrics, sends no more lists
// Derives the metrics again from the same series. Call it when the mapper has other resources.
void provider_registry_rebuild(struct provider_registry *r);

// Lookups return NULL if the metric does not exist. A result is valid until the next turn of the
// loop.
const struct provider_registry_metric *
provider_registry_find(const struct provider_registry *r,
                       const struct provider_rest_mapping *resource, bool namespaced,
                       const char *metric);
const struct provider_registry_metric *
provider_registry_find_external(const struct provider_registry *r, const char *metric);
// Returns the resources that have the metric, as "pods, namespaces", or "". Caller frees.
char *provider_registry_resources_of(const struct provider_registry *r, const char *metric);
// In order of name and resource, without aliases. NULL: i is past the last one.
const struct provider_registry_metric *provider_registry_nth(const struct provider_registry *r,
                                                             bool external, size_t i);

// The state of a rule's list.
struct provider_registry_rule_state {
    const struct adapter_config_rule *rule;
    int64_t last_ok_ms;                 // Unix time; 0: never
    const char *error;                  // of the last list; NULL: it succeeded
    const struct source_shapes *shapes; // of the last successful list; NULL: none yet
    size_t metrics;                     // number of metrics that the rule serves
};
size_t provider_registry_rules(const struct provider_registry *r);
void provider_registry_rule(const struct provider_registry *r, size_t i,
                            struct provider_registry_rule_state *ret);
// The series that `lower` would serve under the name and for the resource of a metric of a registry
// that takes precedence; "": none, or the same series.
struct gs_slice provider_registry_shadowed(const struct provider_registry *lower,
                                           const struct provider_registry_metric *m);
// The number of names over the limit, which are not served.
size_t provider_registry_left_out(const struct provider_registry *r);
// A name of a metric of the resource that is similar; NULL: none. Valid until the next turn of the
// loop.
const char *provider_registry_similar(const struct provider_registry *r,
                                      const struct provider_rest_mapping *resource,
                                      const char *metric);
bool provider_registry_found(const struct provider_registry *r); // a rule has series
// True: each rule has had a successful list.
bool provider_registry_complete(const struct provider_registry *r);
int64_t provider_registry_rounds(const struct provider_registry *r); // completed rounds

// --- query ---
//
// Builds the PromQL of one request from a rule's template.

// Adds the label that names objects of a resource. False: the rule has no label for it.
bool provider_query_label_for(const struct adapter_config_resources *r,
                              const struct provider_rest_mapper *m,
                              const struct provider_rest_mapping *resource, struct gs_buf *out);

struct provider_query_request {
    const struct provider_rest_mapper *mapper;
    const struct adapter_config_resources *resources;
    const struct template_program *template_;
    struct gs_slice series;
    const char *ns;                               // NULL: no namespace
    const struct provider_rest_mapping *resource; // NULL: external
    const char *const *names;                     // object names
    size_t n_names;
    const char *extra_group_by;           // container label; NULL: none
    const struct kube_selector *selector; // of labels of series; NULL: all
    struct gs_buf *matchers;              // also receives the matchers; may be NULL
};
// ret_label: the label that names the objects; may be NULL for external metrics. GS_EINVAL: the
// query cannot be built.
struct gs_error *provider_query_build(const struct provider_query_request *q,
                                      struct gs_buf *ret_query, struct gs_buf *ret_label);

// --- provider ---

struct provider;

// Whether the timestamps of samples are queried. Without them a value has the time of the query.
enum provider_times {
    PROVIDER_TIMES_AUTO, // for the engine in this process, else for up to 100 objects
    PROVIDER_TIMES_ALWAYS,
    PROVIDER_TIMES_NEVER,
};

struct provider_options {
    const struct adapter_config *config; // borrowed, as all below
    struct source *source;
    struct source *const *extra_sources; // config->n_sources of them
    struct provider_rest_mapper *mapper;
    struct provider_registry *registry;
    struct kube_client *kube; // NULL: no cluster, requests for "*" fail
    int64_t list_age_ms;      // how long a list of objects is shared; 0: only while it is pending
    enum provider_times times;
    // Rules of GPU metrics, used if the configuration has no rule, then those of pod series. May be
    // NULL.
    const struct provider_registry *gpu, *pod_series;
};
struct provider *provider_new(const struct provider_options *o);
void provider_free(struct provider *p); // cancels all calls

enum provider_outcome {
    PROVIDER_OK,
    PROVIDER_NO_METRIC,     // 404
    PROVIDER_NO_SAMPLE,     // 404, for a single object
    PROVIDER_SOURCE_FAILED, // 500
    PROVIDER_LIST_FAILED,   // 500
};

// "200", "404 no such metric" …, for people.
const char *provider_outcome_text(enum provider_outcome outcome);

struct provider_value {
    const char *name; // object name
    double value;
    int64_t t_ms;
};

// Borrowed for the call.
struct provider_answer {
    enum provider_outcome outcome;
    const char *cause; // message for an outcome other than PROVIDER_OK; may be ""
    bool unserved;     // no rule matches: a delegate may serve the metric
    const struct provider_rest_mapping *resource;
    const struct provider_value *values; // in the order of the list of objects
    size_t n;
    int64_t window_ms;                   // range of the query; 0: unknown
    const struct source_sample *samples; // external metrics only
    size_t n_samples;
    bool scalar;      // external metrics: one number, not a vector
    int64_t until_ns; // gs_mono_ns() until which it may be cached; 0: not at all
    // The query that the values are from, without timestamps. NULL: none was sent.
    const char *query;
    struct source *source; // of the query
    const char *trace;     // if requested: the steps, one line each
};

struct provider_request {
    const char *resource; // as in the path: "pods", "deployment.apps"
    const char *ns;       // NULL: root-scoped
    const char *name;     // "*": all objects that the selector selects
    const char *metric;
    const char *label_selector;           // for objects; NULL: all
    const struct kube_selector *selector; // for series
    bool external;
    bool no_pod_series; // another server has a rule for the metric
    bool trace;
};

typedef void (*provider_fn)(void *arg, const struct provider_answer *a);
struct provider_call;
// Copies the texts. May call cb before it returns, and returns NULL in this case.
struct provider_call *provider_request_values(struct provider *p, const struct provider_request *rq,
                                              provider_fn cb, void *arg);
void provider_cancel(struct provider_call *c); // NULL is fine

// --- pod facts ---
//
// What the default source has of the pods that a selector selects.

struct provider_pod_facts {
    size_t pods; // number of pods
    // Of up to 20 of them: `up` with the label pod, and one for each name of their other series.
    const struct source_sample *samples;
    size_t n;
};
// f: borrowed; NULL: they cannot be listed or queried.
typedef void (*provider_pod_facts_fn)(void *arg, const struct provider_pod_facts *f);
struct provider_pod_facts_op;
// selector NULL: all pods of the namespace. May call cb before it returns, and returns NULL in this
// case.
struct provider_pod_facts_op *provider_pod_facts_find(struct provider *p, const char *ns,
                                                      const char *selector,
                                                      provider_pod_facts_fn cb, void *arg);
void provider_pod_facts_cancel(struct provider_pod_facts_op *op); // NULL is fine
