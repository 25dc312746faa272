// SPDX-License-Identifier: Apache-2.0
// HorizontalPodAutoscaler objects of every API version (v1, v2beta1, v2beta2, v2): conversion to
// and from v2, the stored version; defaults; validation with the field errors of Kubernetes.
#pragma once

#include "kube/status.h"

// Converts an object of any version. *ret: a new v2 object.
struct gs_error *hpa_to_v2(const json_t *obj, json_t **ret);
// version: "v1", "v2beta1", "v2beta2", "v2".
struct gs_error *hpa_from_v2(const json_t *v2, const char *version, json_t **ret);
void hpa_default(json_t *v2);
void hpa_validate(const json_t *v2, struct kube_field_errors *errors);

// Reads manifests with any number of objects ("-": standard input) and converts each autoscaler in
// them to the version; other objects stay as they are. *ret: the object, or a List of several; new
// reference. Errors name the file and the line.
struct gs_error *hpa_convert_files(const char *const *paths, size_t n, const char *version,
                                   json_t **ret);
