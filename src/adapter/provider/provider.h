// SPDX-License-Identifier: Apache-2.0
// Requests of the metrics APIs answered: the rule is looked up, objects are listed where the
// request names them by a selector, the query is asked, its samples become objects' values.
#pragma once

#include "adapter/config/config.h"
#include "adapter/provider/registry.h"
#include "adapter/provider/rest_mapper.h"
#include "base/buf.h"
#include "base/slice.h"
#include "kube/selector.h"

#include <stddef.h>

// --- gpu ---
//
// GPU metrics without rules of the user's: the exporters' series for pods, namespaces and nodes;
// for what owns pods (Deployments, Services …) the average of their pods, or by suffix _MAX, _MIN.

const char *provider_gpu_rules(void); // YAML of a configuration

enum provider_aggregate { PROVIDER_AVERAGE, PROVIDER_MAX, PROVIDER_MIN };
// "X_MAX" is X folded by the maximum; without a known suffix the whole, by the average.
struct gs_slice provider_gpu_metric(const char *name, enum provider_aggregate *ret_fold);
double provider_aggregate_values(enum provider_aggregate fold, double so_far, double v, size_t n);

// Resources whose spec.selector picks pods: "deployments" of "apps". NULL behind the last.
struct provider_workload_kind {
    const char *group, *resource;
    const char *kind;
    int match_labels; // 1: spec.selector is a LabelSelector; 0: a map
    int controls;     // 1: its pods name it, or what it owns, as their controller
};
const struct provider_workload_kind *provider_workload_kind_nth(size_t i);

// --- query ---
//
// The PromQL of one request, from a rule's template.

// The label that names objects of a resource. False: the rule has none for it.
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
    const char *const *names;                     // of objects
    size_t n_names;
    const char *extra_group_by;           // container label; NULL: none
    const struct kube_selector *selector; // of series; NULL: all
    struct gs_buf *matchers;              // told here, too; NULL: not wanted
};
// label: of the objects; may be NULL for external ones. GS_EINVAL: why it cannot be asked.
struct gs_error *provider_query_build(const struct provider_query_request *q,
                                      struct gs_buf *ret_query, struct gs_buf *ret_label);

// --- provider ---

struct provider;

// Whether the times of samples are asked for: by themselves the values of a query have its time.
enum provider_times {
    PROVIDER_TIMES_AUTO, // in this process; of others, for up to 100 objects
    PROVIDER_TIMES_ALWAYS,
    PROVIDER_TIMES_NEVER,
};

struct provider_options {
    const struct adapter_config *config; // borrowed, as all below
    struct source *source;
    struct source *const *others; // as many as the configuration has
    struct provider_rest_mapper *mapper;
    struct provider_registry *registry;
    struct kube_client *kube; // NULL: no cluster: requests for * cannot be answered
    int64_t list_age_ms;      // for how long a list of objects is shared; 0: while it is asked
    enum provider_times times;
    const struct provider_registry
        *gpu; // rules of GPU metrics, asked after the configuration's; or NULL
};
struct provider *provider_new(const struct provider_options *o);
void provider_free(struct provider *p); // cancels what is under way

enum provider_outcome {
    PROVIDER_OK,
    PROVIDER_NO_METRIC,     // 404
    PROVIDER_NO_SAMPLE,     // 404, of one object
    PROVIDER_SOURCE_FAILED, // 500
    PROVIDER_LIST_FAILED,   // 500
};

struct provider_value {
    const char *name; // of the object
    double value;
    int64_t t_ms;
};

// Borrowed for the call.
struct provider_answer {
    enum provider_outcome outcome;
    const char *cause; // for people, of what is not OK; may be ""
    bool unserved;     // no rule is for it: somebody else's may be
    const struct provider_rest_mapping *resource;
    const struct provider_value *values; // in the order of the list
    size_t n;
    int64_t window_ms;                   // of the answer; 0: not known
    const struct source_sample *samples; // external
    size_t n_samples;
    bool scalar;       // external: one number, not a vector
    int64_t until_ns;  // gs_mono_ns() up to which it would be the same; 0: not known
    const char *trace; // with `trace`: what was done, line by line
};

struct provider_request {
    const char *resource; // as in the path: "pods", "deployment.apps"
    const char *ns;       // NULL: root-scoped
    const char *name;     // "*": all that the selector picks
    const char *metric;
    const char *label_selector;           // text, of objects; NULL: all
    const struct kube_selector *selector; // of series
    bool external;
    bool trace;
};

typedef void (*provider_fn)(void *arg, const struct provider_answer *a);
struct provider_call;
// The texts are copied. cb may be called from inside, and then NULL is returned.
struct provider_call *provider_request_values(struct provider *p, const struct provider_request *rq,
                                              provider_fn cb, void *arg);
void provider_cancel(struct provider_call *c); // NULL is fine
