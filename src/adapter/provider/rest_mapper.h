// SPDX-License-Identifier: Apache-2.0
// Resources that the cluster knows, found by any of their names: "pods", "pod", "deployment.apps",
// "deployments.app" (a group's beginning), in any case. Without a cluster: those of Kubernetes
// itself.
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

struct provider_rest_mapper *provider_rest_mapper_new(void); // knows Kubernetes' own resources
void provider_rest_mapper_free(struct provider_rest_mapper *m);
// group "": any, the core group first. NULL: unknown. Valid until the next load.
const struct provider_rest_mapping *provider_rest_mapper_find(const struct provider_rest_mapper *m,
                                                              struct gs_slice group,
                                                              struct gs_slice resource);
// "plural.group" or "plural": cut at the first dot.
const struct provider_rest_mapping *
provider_rest_mapper_find_text(const struct provider_rest_mapper *m, const char *text);
// As prometheus-adapter decides it: only these three kinds have no namespace for it.
bool provider_rest_mapper_is_root(const struct provider_rest_mapping *r);

// Asks the cluster which resources it has; what was known stays until all answers are in, and what
// one group does not answer stays as it was. cb once, with an error when the list of groups itself
// was not answered. Again and again with the same mapper is fine.
void provider_rest_mapper_load(struct provider_rest_mapper *m, struct kube_client *kube,
                               void (*cb)(void *arg, struct gs_error *err), void *arg);

// --- overrides ---
//
// Overrides of a configuration that name a resource that the cluster does not have: they have no
// effect, so they are reported.

typedef void (*provider_overrides_fn)(void *arg, const struct adapter_config_override *o);

// NULL: the resource is known. Else what is wrong and what to write instead. Caller frees.
char *provider_override_wrong(const struct adapter_config_override *o,
                              const struct provider_rest_mapper *m);
// Of all rules and resource rules; returns how many are wrong. cb may be NULL.
size_t provider_overrides_check(const struct adapter_config *c,
                                const struct provider_rest_mapper *m, provider_overrides_fn cb,
                                void *arg);
