// SPDX-License-Identifier: Apache-2.0
// Finds the resources of the cluster by any of their names: "pods", "pod", "deployment.apps",
// "deployments.app" (a prefix of the group). Case does not matter. Without a cluster it has the
// built-in resources of Kubernetes. All functions run on the thread of the client's loop.
#pragma once

#include "adapter/config/config.h"
#include "base/error.h"
#include "base/slice.h"
#include "kube/client.h"

struct provider_rest_mapper;

struct provider_rest_mapping {
    const char *group, *version; // preferred version
    const char *resource, *singular, *kind;
    bool namespaced; // in the Kubernetes API
};

struct provider_rest_mapper *provider_rest_mapper_new(void); // with the built-in resources
void provider_rest_mapper_free(struct provider_rest_mapper *m);
// group "": any group, the core group first. NULL: not found. Valid until the next load.
const struct provider_rest_mapping *provider_rest_mapper_find(const struct provider_rest_mapper *m,
                                                              struct gs_slice group,
                                                              struct gs_slice resource);
// text: "plural" or "plural.group", split at the first dot.
const struct provider_rest_mapping *
provider_rest_mapper_find_text(const struct provider_rest_mapper *m, const char *text);
// True for the three resources that prometheus-adapter treats as cluster-scoped.
bool provider_rest_mapper_is_root(const struct provider_rest_mapping *r);

// Reads the resources of the cluster. The old ones stay in use until all groups were read; a group
// that fails keeps its resources. Calls cb once, with an error (owned by the callee) if the list of
// groups fails. It may be called repeatedly.
void provider_rest_mapper_load(struct provider_rest_mapper *m, struct kube_client *kube,
                               void (*cb)(void *arg, struct gs_error *err), void *arg);

// --- overrides ---
//
// Overrides that name a resource that the cluster does not have. They have no effect and are
// reported.

typedef void (*provider_overrides_fn)(void *arg, const struct adapter_config_override *o);

// Returns the problem and its fix. Caller frees. NULL: the resource exists.
char *provider_override_wrong(const struct adapter_config_override *o,
                              const struct provider_rest_mapper *m);
// Checks all rules and resource rules. Calls cb (may be NULL) for each wrong override and returns
// their number.
size_t provider_overrides_check(const struct adapter_config *c,
                                const struct provider_rest_mapper *m, provider_overrides_fn cb,
                                void *arg);
