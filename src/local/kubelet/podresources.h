// SPDX-License-Identifier: Apache-2.0
// The kubelet's PodResources v1 service: which GPU belongs to which container, for exporters.
#pragma once

#include "local/kubelet/pod_worker.h"

struct local_podresources;
struct gs_error *local_podresources_new(struct local_kubelet *k, const char *socket_path,
                                        struct local_podresources **ret);
void local_podresources_free(struct local_podresources *r);
