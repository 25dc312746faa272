// SPDX-License-Identifier: Apache-2.0
// Between the files of the provider: one request and its ends.
#pragma once

#include "adapter/provider/absence.h"
#include "adapter/provider/gpu.h"
#include "adapter/provider/objects.h"
#include "adapter/provider/owners.h"
#include "adapter/provider/provider.h"
#include "base/hmap.h"

#include <sys/queue.h>

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
    bool inside;   // still in provider_ask
    bool unserved; // no rule is for it
    bool done;
    const struct provider_registry_metric *metric; // valid until the next wait only
    const struct adapter_config_rule *rule;
    struct gs_slice series;
    const struct provider_mapped *resource; // of the request
    struct provider_mapped resource_copy, pods_copy;
    const struct provider_mapped
        *asked; // whose values are asked for: the resource, or pods of an owner
    bool folds;
    enum provider_gpu_fold fold;
    const char *const *names;
    size_t n_names;
    const char *one_name[1];
    struct provider_object_names *listed; // owns names, of a list
    struct provider_objects_op *list_op;
    struct gs_buf query, label, matchers, trace, cause;
    bool timed; // asked with the times of samples
    bool timed_failed;
    struct provider_absence_op *absence;
    struct provider_owners_op *owners_op;
    struct provider_owners *owners; // owns names, of their pods
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
