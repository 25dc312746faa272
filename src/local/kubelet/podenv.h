// SPDX-License-Identifier: Apache-2.0
// The environment of a container, and the ConfigMaps and Secrets that it and volumes need.
#pragma once

#include "kube/client.h"
#include "local/kubelet/env.h"

#include <jansson.h>
#include <stdbool.h>

// --- podenv.c: the environment of a container. Fetches nothing. ---
// It contains the variables of the pod's spec and those that replace the isolation that processes
// of one machine lack (pod IP, GPUs).

// Keys "configmaps/NAME" and "secrets/NAME" that the container's env and envFrom mention, as
// members of ret (values null). Fetch them before kubelet_env_add_spec.
void kubelet_env_references(const json_t *container, json_t *ret);

struct kubelet_env_context {
    const json_t *pod;
    const json_t *container; // its spec
    const char *pod_ip, *host_ip;
    const json_t *node;    // for resourceFieldRef without a limit; may be NULL
    const json_t *sources; // keys of kubelet_env_references; values: the objects, null if not found
};

// Adds envFrom and env. GS_ENOTFOUND if a required reference is missing, with the kubelet's text
// ('configmap "x" not found'). GS_ELIMIT: a variable exceeds a limit of env.h.
struct gs_error *kubelet_env_add_spec(struct kubelet_env *env,
                                      const struct kubelet_env_context *ctx);

// The parts of it that volumes use, too. The ConfigMap or Secret, NULL if it was not found.
const json_t *kubelet_env_source(const struct kubelet_env_context *ctx, bool secret,
                                 const char *name);
// Value of a fieldRef. "" if the pod has no such field.
const char *kubelet_env_field(const struct kubelet_env_context *ctx, const char *path);
// Value of a resourceFieldRef of ctx->container. Caller frees.
char *kubelet_env_resource(const struct kubelet_env_context *ctx, const json_t *ref);
void kubelet_env_add_reference(json_t *ret, bool secret, const char *name);
// The GPUs of a container by LOCAL_ANN_GPUS, in the notation of CUDA and the NVIDIA container tools
// ("GPU-a,GPU-b"; time slices of one GPU are listed once). "" without GPUs. Caller frees.
char *kubelet_env_gpus(const json_t *pod, const char *container);

// --- env_fetch.c: the ConfigMaps and Secrets of a container's environment ---

struct kubelet_env_fetch;
// refs: from kubelet_env_references and kubelet_volume_references. done is called once, in a later
// loop turn: sources contains the objects as values, null for those that do not exist (borrowed).
// err (borrowed) is set if the request failed. The fetch is freed afterwards.
struct kubelet_env_fetch *
kubelet_env_fetch_start(struct kube_client *client, const char *ns, const json_t *refs,
                        void (*done)(void *arg, const json_t *sources, const struct gs_error *err),
                        void *arg);
// Accepts NULL. Not allowed inside `done`.
void kubelet_env_fetch_cancel(struct kubelet_env_fetch *f);
