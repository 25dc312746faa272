// SPDX-License-Identifier: Apache-2.0
// `-f FILE`: the objects of YAML files made or updated through the API, as kubectl apply would on a
// first run (create, else replace the spec by a merge patch), in order.
#pragma once

#include "kube/client.h"

struct up_apply;

// Reads all files at once, so that a broken one fails the start with file:line. Paths are borrowed.
struct gs_error *up_apply_load(const char *const *paths, size_t n, struct up_apply **ret);
size_t up_apply_count(const struct up_apply *a);
// Applies one after the other, then calls done (err owned by the callee, NULL: all applied).
void up_apply_start(struct up_apply *a, struct kube_client *client,
                    void (*done)(void *arg, struct gs_error *err), void *arg);
void up_apply_free(struct up_apply *a); // cancels what is under way
