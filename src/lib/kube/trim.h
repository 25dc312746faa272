// SPDX-License-Identifier: Apache-2.0
// Removes members of objects that only the API server and the kubelet read: most of the memory of a
// cache of pods or nodes. For kube_cache_set_trim().
#pragma once

#include "codec/json.h"

// Environment, arguments, probes and mounts of containers, volumes, and managedFields.
void kube_trim_pod(json_t *pod);
// Images, attached volumes, and managedFields.
void kube_trim_node(json_t *node);
// managedFields.
void kube_trim_object(json_t *object);
