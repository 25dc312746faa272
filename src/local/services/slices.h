// SPDX-License-Identifier: Apache-2.0
// EndpointSlices beside Endpoints: what newer kubectl describes services with. Private to the room.
#pragma once

#include "local/workqueue.h"

struct kube_cache;
struct kube_cache *services_slices_cache_new(uv_loop_t *loop,
                                             struct kube_client *client); // ours only
// One slice for each subset of the Endpoints (NULL: none); what is too many is deleted.
void services_slices_write(const struct kube_cache *slices, struct local_reconcile *w,
                           const json_t *service, const json_t *endpoints);
void services_slices_delete(const struct kube_cache *slices, struct local_reconcile *w,
                            const char *ns, const char *service);
