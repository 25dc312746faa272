// SPDX-License-Identifier: Apache-2.0
// The kubelet's PodResources v1 service: which GPU belongs to which container, for exporters.
#pragma once

#include "local/kubelet/pod_worker.h"

struct kubelet_podresources;
struct gs_error *kubelet_podresources_new(struct kubelet *k, const char *socket_path,
                                          struct kubelet_podresources **ret);
void kubelet_podresources_free(struct kubelet_podresources *r);
