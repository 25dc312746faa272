// SPDX-License-Identifier: Apache-2.0
// Admission: what kube-apiserver's plug-ins change in, and refuse of, checked requests. Private to
// the API server. Functions return a metav1.Status for a refused request, and NULL otherwise.
#pragma once

#include "kube/quantity.h"
#include "local/api/api_private.h"

// Changes a new object (stored form, with defaults) before its validation.
json_t *local_api_admit(const struct local_api_request *r, json_t *obj);

// Sets the default class. ingress.c
void local_api_admit_ingress(const struct local_api_request *r, json_t *ingress);

// Sets the defaults of LimitRanges in a new pod, and checks their limits. limit_range.c
json_t *local_api_admit_limits(const struct local_api_request *r, json_t *pod);
// Checks the ResourceQuotas of the namespace for a new, valid object. quota.c
json_t *local_api_admit_quota(const struct local_api_request *r, const json_t *obj);
// Updates the status of quotas soon after a change of the store. quota.c
void local_api_quota_changed(struct local_api *api, const struct local_api_store_change *change);

// --- pod_amounts.c: quantities of pods, in thousandths ---
// kind: "requests" or "limits". False: absent.
bool local_api_amount(const json_t *quantity, int64_t *ret_milli);
bool local_api_container_amount(const json_t *container, const char *kind, const char *resource,
                                int64_t *ret_milli);
// The sum of the containers, or the largest init container.
bool local_api_pod_amount(const json_t *pod, const char *kind, const char *resource,
                          int64_t *ret_milli);
void local_api_amount_text(const char *resource, int64_t milli, char buf[KUBE_QUANTITY_SIZE]);

// 403: pods "NAME" is forbidden: WHY.
json_t *local_api_forbidden(const struct local_api_request *r, const json_t *obj, const char *why);
// A stored object of version v1; NULL: not found. Borrowed until the next write of the store.
const json_t *local_api_stored(const struct local_api *api, const char *group, const char *plural,
                               const char *ns, const char *name);
// True for "nvidia.com/gpu" and other resources that Kubernetes does not define.
bool local_api_is_extended_resource(const char *name);
