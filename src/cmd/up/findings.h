// SPDX-License-Identifier: Apache-2.0
// Why one pod does not run: a pure function of the pod, its events and the last line of its log.
#pragma once

#include "base/hmap.h"
#include "codec/json.h"

enum up_finding_kind { // in the order of the display
    UP_FINDING_IMAGE,
    UP_FINDING_CONFIG,
    UP_FINDING_CRASH,
    UP_FINDING_FAILED,
    UP_FINDING_UNSCHEDULABLE,
    UP_FINDING_PROBE,
    UP_FINDING_OTHER
};

struct up_finding {
    enum up_finding_kind kind;
    const char *reason;    // borrowed from the pod
    const char *container; // borrowed; NULL: the pod as a whole
    char *text, *remedy;   // owned
    char *identity;        // owned; what makes two findings the same: exit code, image, …
};

// Where the last line of a container's log comes from. NULL: it is not there yet; "": none.
typedef const char *(*up_last_line)(void *arg, const json_t *pod, const json_t *container_status);

struct up_find_context {
    const struct gs_hmap *events; // uid of the pod -> json_t, the array of its warnings
    up_last_line last_line;
    void *arg;        // of last_line
    int64_t now_ms;   // Unix
    int64_t start_ms; // what ended before was ended by the last run of the program
};

// false: the pod runs, or has not been waiting for long enough to call it a problem.
bool up_find(const json_t *pod, const struct up_find_context *context, struct up_finding *ret);
void up_finding_finish(struct up_finding *f);
