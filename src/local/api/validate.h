// SPDX-License-Identifier: Apache-2.0
// Validation with Kubernetes' field errors for the common mistakes. old NULL: creation. Objects
// have passed the check of field types and got their defaults. Private to the API server.
#pragma once

#include "kube/status.h"

void local_api_validate_pod(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
void local_api_validate_service(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors);
// Adds the error of a ClusterIP that cannot be had.
void local_api_bad_cluster_ip(const char *ip, const char *why, struct kube_field_errors *errors);
// Deployments, ReplicaSets, StatefulSets, DaemonSets.
void local_api_validate_workload(const json_t *obj, const json_t *old,
                                 struct kube_field_errors *errors);
void local_api_validate_job(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
void local_api_validate_hpa(const json_t *obj, const json_t *old, struct kube_field_errors *errors);
void local_api_validate_configmap(const json_t *obj, const json_t *old,
                                  struct kube_field_errors *errors);
void local_api_validate_secret(const json_t *obj, const json_t *old,
                               struct kube_field_errors *errors);
void local_api_validate_event(const json_t *obj, const json_t *old,
                              struct kube_field_errors *errors);

// Deep equality where two absent values are equal too (json_equal says no to those).
bool local_api_same(const json_t *a, const json_t *b);

// path: "spec" or "spec.template.spec".
void local_api_validate_pod_spec(const json_t *spec, const char *path,
                                 struct kube_field_errors *errors);
void local_api_validate_resources(const json_t *resources, const char *path,
                                  struct kube_field_errors *errors);
// An integer member that is there must lie within min..max.
void local_api_validate_range(const json_t *obj, const char *key, int64_t min, int64_t max,
                              const char *path, const char *text, struct kube_field_errors *errors);
#define LOCAL_API_NOT_NEGATIVE "must be greater than or equal to 0"
#define LOCAL_API_PORT_RANGE   "must be between 1 and 65535, inclusive"
// A port number, or a port name.
void local_api_validate_port_ref(const json_t *port, const char *path,
                                 struct kube_field_errors *errors);
