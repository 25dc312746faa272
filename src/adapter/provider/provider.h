// SPDX-License-Identifier: Apache-2.0
// Requests of the metrics APIs answered: the rule is looked up, objects are listed where the
// request names them by a selector, the query is asked, its samples become objects' values.
#pragma once

#include "adapter/provider/registry.h"
#include "base/buf.h"
#include "kube/selector.h"

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
    struct provider_mapper *mapper;
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
    const struct provider_mapped *resource;
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
struct provider_call *provider_ask(struct provider *p, const struct provider_request *rq,
                                   provider_fn cb, void *arg);
void provider_cancel(struct provider_call *c); // NULL is fine
