// SPDX-License-Identifier: Apache-2.0
// Fetches the ConfigMaps and Secrets that a container's environment mentions.
#pragma once

#include "kube/client.h"

struct kubelet_env_fetch;

// refs: as from kubelet_env_references. done is called once, in a later loop turn: sources has the
// objects as values, null for those that do not exist (borrowed); err (borrowed) when the API could
// not be asked. The fetch is freed afterwards.
struct kubelet_env_fetch *
kubelet_env_fetch_start(struct kube_client *client, const char *ns, const json_t *refs,
                        void (*done)(void *arg, const json_t *sources, const struct gs_error *err),
                        void *arg);
void kubelet_env_fetch_cancel(struct kubelet_env_fetch *f); // NULL is fine; not from `done`
