// SPDX-License-Identifier: Apache-2.0
// Why pods do not run, in words, with what to do about it. Reads pods, events and logs through the
// API. Pods of one workload with the same cause are one problem.
#pragma once

#include "kube/cache.h"

struct up_problems;

struct up_problem {
    char *ns;
    char *who;    // "web (3 pods)", "web", or the name of a pod without owner
    char *reason; // "CrashLoopBackOff"
    char *text;   // "exit code 1, restarted 4 times: ModuleNotFoundError: …"
    char *remedy; // "kubectl logs web-0"
};

// client: for the logs. events: the cache of KUBE_EVENTS. All borrowed.
struct up_problems *up_problems_new(struct kube_client *client, const struct kube_cache *pods,
                                    const struct kube_cache *events, int64_t now_ms);
void up_problems_free(struct up_problems *p);
// Reads the pods again. Each problem that is new, or was gone for a while, is logged once.
void up_problems_update(struct up_problems *p, int64_t now_ms);
size_t up_problems_len(const struct up_problems *p);
const struct up_problem *up_problems_at(const struct up_problems *p, size_t i);
