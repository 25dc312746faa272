// SPDX-License-Identifier: Apache-2.0
// Remembers which pod the kubelet is handling, in files that outlive the process. A pod during
// which the process has ended twice in a row is skipped at the next starts, so that an object that
// ends `gpuscale up` (by a fault of ours) ends it twice and not at each start. Only the thread of
// the loop may use it.
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct kubelet_guard;

// Reads and creates the files in this directory, and logs the pods that are skipped from now on.
struct gs_error *kubelet_guard_open(const char *dir, struct kubelet_guard **ret);
void kubelet_guard_free(struct kubelet_guard *g); // accepts NULL

// Around all work for a pod. Calls can be nested, and then the outermost pod counts.
void kubelet_guard_enter(struct kubelet_guard *g, const char *uid, const char *ns,
                         const char *name);
void kubelet_guard_leave(struct kubelet_guard *g);

// True: start no container of this pod.
bool kubelet_guard_skips(const struct kubelet_guard *g, const char *uid);
// A container of the pod runs: an earlier end of the process was not its fault.
void kubelet_guard_started(struct kubelet_guard *g, const char *uid);
void kubelet_guard_forget(struct kubelet_guard *g, const char *uid); // the pod was deleted

#define KUBELET_SKIPPED_REASON "SkippedAfterCrash"
#define KUBELET_SKIPPED_MESSAGE                                                                    \
    "gpuscale has ended twice while it handled this pod, so it does not start it: delete the "     \
    "pod, "                                                                                        \
    "and create it with another specification"
