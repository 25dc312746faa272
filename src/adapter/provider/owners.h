// SPDX-License-Identifier: Apache-2.0
// Which pods belong to what owns pods (Deployments, StatefulSets, Services …): those that its
// selector picks and that nobody else controls. A Deployment's pods are controlled by its
// ReplicaSets; a Service controls nothing.
#pragma once

#include "adapter/provider/gpu.h"
#include "adapter/provider/mapper.h"
#include "adapter/provider/objects.h"
#include "base/arena.h"

struct provider_owner {
    const char *name;
    const size_t *pods; // positions in the list of pods
    size_t n_pods;
};

// Of one request.
struct provider_owners {
    struct gs_arena arena; // private
    const struct provider_owner *items;
    size_t n;
    const char *const *pods; // of all owners, each once
    size_t n_pods;
    int64_t until_ns; // gs_mono_ns() up to which it may be used again
};

// The callee owns it. status: of the cluster's answer, with an error; 0: none.
typedef void (*provider_owners_fn)(void *arg, struct provider_owners *o, int status,
                                   struct gs_error *err);

struct provider_owners_request {
    struct kube_client *kube;
    struct provider_objects *objects;
    const struct provider_gpu_owner *kind;
    const char *version;  // of its group
    const char *ns;       // one namespace
    const char *name;     // NULL: all
    const char *selector; // of owners; NULL: all
};
struct provider_owners_op;
// The texts must stay until the end. cb may be called from inside, and then NULL is returned.
struct provider_owners_op *provider_owners_find(const struct provider_owners_request *rq,
                                                provider_owners_fn cb, void *arg);
void provider_owners_cancel(struct provider_owners_op *op); // NULL is fine
void provider_owners_free(struct provider_owners *o);
