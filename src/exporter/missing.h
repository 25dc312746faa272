// SPDX-License-Identifier: Apache-2.0
// Why lines have no pod labels although pods use the GPUs: the one question that users ask most.
#pragma once

#include "exporter/attribution.h"
#include "exporter/cluster.h"
#include "exporter/sampler.h"

enum missing_reason {
    MISSING_FLAG,        // --kubernetes is not set, and processes of pods are on the GPUs
    MISSING_SOCKET,      // the kubelet's socket is not there: not mounted, or another path
    MISSING_PERMISSION,  // it may not be connected to
    MISSING_ANSWER,      // the kubelet does not answer, or with an error
    MISSING_RESOURCE,    // pods have GPUs by a resource name that is not counted
    MISSING_IDS,         // pods have device ids that no GPU here has
    MISSING_PROCESSES,   // pids of the driver are not seen here: no hostPID
    MISSING_NAMES,       // the UID of a process's pod is known and not its name
    MISSING_ANNOTATION,  // a pod has a share of a GPU, and no annotation that names the GPU
    MISSING_CLAIM,       // a claim's device is no GPU that is known here
    MISSING_API_REFUSED, // the API server refuses what would tell more
    MISSING_API,         // it cannot be asked
    MISSING_COUNT
};

struct missing_facts {
    const struct sample *sample;
    const struct attribution *attribution; // NULL: pods are not asked for
    const struct cluster *cluster;         // NULL likewise
    const char *socket;
};

// A bit 1u << reason for each that holds.
unsigned missing_find(const struct missing_facts *f);
// What to do about it, for the log.
void missing_text(const struct missing_facts *f, enum missing_reason r, char *ret, size_t size);
const char *missing_name(enum missing_reason r); // "flag_not_set", …
