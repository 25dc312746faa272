// SPDX-License-Identifier: Apache-2.0
// The environment of a container: what Kubernetes puts there, and what stands in for the isolation
// that processes of one machine do not have (pod IP, GPUs). Pure: fetches nothing.
#pragma once

#include "local/kubelet/images.h"

#include <stdint.h>

// "NAME=value" entries; setting a name again replaces its value in place.
void kubelet_env_set(struct kubelet_words *env, const char *name, const char *value);
const char *kubelet_env_get(const struct kubelet_words *env, const char *name); // NULL: not set

// $(NAME) becomes its value, $$ becomes $, anything else stays (also $(UNKNOWN)). Caller frees.
// Source: Kubernetes' third_party/forked/golang/expansion as the API documents it.
char *kubelet_env_expand(const struct kubelet_words *env, const char *text);

// Keys "configmaps/NAME" and "secrets/NAME" that the container's env and envFrom mention, as
// members of ret (values null): what must be fetched before kubelet_env_add_spec.
void kubelet_env_references(const json_t *container, json_t *ret);

struct kubelet_env_context {
    const json_t *pod;
    const json_t *container; // its spec
    const char *pod_ip;
    const json_t *node;    // for resourceFieldRef without a limit; may be NULL
    const json_t *sources; // as from kubelet_env_references, the objects as values; null: not found
};

// Adds envFrom and env. GS_ENOTFOUND when a reference that is not optional is missing, in the
// kubelet's words ('configmap "x" not found').
struct gs_error *kubelet_env_add_spec(struct kubelet_words *env,
                                      const struct kubelet_env_context *ctx);

// The GPUs of a container by LOCAL_ANN_GPUS, as CUDA and the NVIDIA container tools name them
// ("GPU-a,GPU-b", time slices of one GPU once). "" without GPUs. Caller frees.
char *kubelet_env_gpus(const json_t *pod, const char *container);
