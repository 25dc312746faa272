// SPDX-License-Identifier: Apache-2.0
// Why lines have no pod labels although pods use the GPUs: the one question that users ask most.
#pragma once

#include "exporter/attribution.h"
#include "exporter/sampler.h"

enum missing_reason {
    MISSING_NOTHING,
    MISSING_FLAG,       // --kubernetes is not set, and processes of pods are on the GPUs
    MISSING_SOCKET,     // the kubelet's socket is not there: not mounted, or another path
    MISSING_PERMISSION, // it may not be connected to
    MISSING_ANSWER,     // the kubelet does not answer, or with an error
    MISSING_RESOURCE,   // pods have GPUs by a resource name that is not counted
    MISSING_IDS,        // pods have device ids that no GPU here has
    MISSING_PROCESSES,  // pids of the driver are not seen here: no hostPID
    MISSING_COUNT
};

struct missing {
    enum missing_reason reason;
    char text[512]; // for the log; "" for nothing
};

// attribution NULL: pods are not asked for.
struct missing missing_find(const struct sample *sample, const struct attribution *attribution,
                            const char *socket);
const char *missing_name(enum missing_reason r); // "flag_not_set", …
