// SPDX-License-Identifier: Apache-2.0
// From a container's spec to its process: command, references, environment, folders, supervisor.
#pragma once

#include "local/kubelet/pod_worker.h"

// Ends with c->process set, or in a waiting reason. May need several loop turns.
void kubelet_container_begin(struct kubelet_container *c);

// --- what pod_container.c does with the outcome ---
void kubelet_container_wait(struct kubelet_container *c, const char *reason, const char *fmt, ...)
    GS_PRINTF(3, 4);
void kubelet_container_retry(struct kubelet_container *c, uint64_t ms);
// What the process of a container calls.
extern const struct kubelet_process_callbacks kubelet_container_callbacks;
