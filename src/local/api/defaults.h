// SPDX-License-Identifier: Apache-2.0
// Kubernetes' defaults for the kinds of the registry, and the initial status that kube-apiserver
// gives at creation. old NULL: creation. Private to the API server.
#pragma once

#include "codec/json.h"

void local_api_default_pod_spec(json_t *spec); // of pods and of templates

void local_api_default_namespace(json_t *obj, const json_t *old);
void local_api_default_node(json_t *obj, const json_t *old);
void local_api_default_pod(json_t *obj, const json_t *old);
void local_api_default_service(json_t *obj, const json_t *old);
void local_api_default_endpoints(json_t *obj, const json_t *old);
void local_api_default_secret(json_t *obj, const json_t *old);
void local_api_default_pvc(json_t *obj, const json_t *old);
void local_api_default_deployment(json_t *obj, const json_t *old);
void local_api_default_replicaset(json_t *obj, const json_t *old);
void local_api_default_statefulset(json_t *obj, const json_t *old);
void local_api_default_daemonset(json_t *obj, const json_t *old);
void local_api_default_job(json_t *obj, const json_t *old);
void local_api_default_hpa(json_t *obj, const json_t *old);

// Sets a member that is absent.
void local_api_default_str(json_t *obj, const char *key, const char *value);
void local_api_default_int(json_t *obj, const char *key, int64_t value);
// The member object, made when absent; NULL when it is something else.
json_t *local_api_default_object(json_t *obj, const char *key);
