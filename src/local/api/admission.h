// SPDX-License-Identifier: Apache-2.0
// Admission: what kube-apiserver's plug-ins change in, and refuse of, checked requests. Private to
// the API server. Functions return a metav1.Status for a refused request, and NULL otherwise.
#pragma once

#include "local/api/api_private.h"

// Changes a new object (stored form, with defaults) before its validation.
json_t *local_api_admit(const struct local_api_request *r, json_t *obj);

// Sets the default class. ingress.c
void local_api_admit_ingress(const struct local_api_request *r, json_t *ingress);

// 403: pods "NAME" is forbidden: WHY.
json_t *local_api_forbidden(const struct local_api_request *r, const json_t *obj, const char *why);
// A stored object of version v1; NULL: not found. Borrowed until the next write of the store.
const json_t *local_api_stored(const struct local_api *api, const char *group, const char *plural,
                               const char *ns, const char *name);
// True for "nvidia.com/gpu" and other resources that Kubernetes does not define.
bool local_api_is_extended_resource(const char *name);
