// SPDX-License-Identifier: Apache-2.0
// The last line that an ended container wrote, from the API's log of the pod.
#pragma once

#include "kube/client.h"

struct up_last_lines;

struct up_last_lines *up_last_lines_new(struct kube_client *client); // borrowed
void up_last_lines_free(struct up_last_lines *l);                    // cancels what is under way
// An up_last_line (findings.h) with `lines` as its argument. The first call for an ended container
// fetches the line; until it is there, that of the container's former end is given, or NULL.
const char *up_last_lines_get(void *lines, const json_t *pod, const json_t *container_status);
// Forgets the lines that nobody wanted since the last call.
void up_last_lines_sweep(struct up_last_lines *l);
