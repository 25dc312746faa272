// SPDX-License-Identifier: Apache-2.0
// Resources that the cluster knows, found by any of their names: "pods", "pod", "deployment.apps",
// "deployments.app" (a group's beginning), in any case. Without a cluster: those of Kubernetes
// itself.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "kube/client.h"

struct provider_mapper;

struct provider_mapped {
    const char *group, *version; // preferred version
    const char *resource, *singular, *kind;
    bool namespaced; // in the Kubernetes API
};

struct provider_mapper *provider_mapper_new(void); // knows Kubernetes' own resources
void provider_mapper_free(struct provider_mapper *m);
// group "": any, the core group first. NULL: unknown. Valid until the next load.
const struct provider_mapped *provider_mapper_find(const struct provider_mapper *m,
                                                   struct gs_slice group, struct gs_slice resource);
// "plural.group" or "plural": cut at the first dot.
const struct provider_mapped *provider_mapper_find_text(const struct provider_mapper *m,
                                                        const char *text);
// As prometheus-adapter decides it: only these three kinds have no namespace for it.
bool provider_mapper_is_root(const struct provider_mapped *r);

// Asks the cluster which resources it has; what was known stays until all answers are in, and what
// one group does not answer stays as it was. cb once, with an error when the list of groups itself
// was not answered. Again and again with the same mapper is fine.
void provider_mapper_load(struct provider_mapper *m, struct kube_client *kube,
                          void (*cb)(void *arg, struct gs_error *err), void *arg);
