// SPDX-License-Identifier: Apache-2.0
// Why lines have no pod labels although pods use the GPUs: the one question that users ask most.
#pragma once

#include "exporter/attribution.h"
#include "exporter/cluster.h"
#include "exporter/sampler.h"

enum exporter_missing_reason {
    EXPORTER_MISSING_FLAG,       // --kubernetes is not set, and processes of pods are on the GPUs
    EXPORTER_MISSING_SOCKET,     // the kubelet's socket is not there: not mounted, or another path
    EXPORTER_MISSING_PERMISSION, // it may not be connected to
    EXPORTER_MISSING_ANSWER,     // the kubelet does not answer, or with an error
    EXPORTER_MISSING_RESOURCE,   // pods have GPUs by a resource name that is not counted
    EXPORTER_MISSING_IDS,        // pods have device ids that no GPU here has
    EXPORTER_MISSING_PROCESSES,  // pids of the driver are not seen here: no hostPID
    EXPORTER_MISSING_NAMES,      // the UID of a process's pod is known and not its name
    EXPORTER_MISSING_ANNOTATION, // a pod has a share of a GPU, and no annotation that names the GPU
    EXPORTER_MISSING_CLAIM,      // a claim's device is no GPU that is known here
    EXPORTER_MISSING_API_REFUSED, // the API server refuses what would tell more
    EXPORTER_MISSING_API,         // it cannot be asked
    EXPORTER_MISSING_COUNT
};

struct exporter_missing_facts {
    const struct exporter_sample *sample;
    const struct exporter_attribution *attribution; // NULL: pods are not asked for
    const struct exporter_cluster *cluster;         // NULL likewise
    const char *socket;
};

// A bit 1u << reason for each that holds.
unsigned exporter_missing_find(const struct exporter_missing_facts *f);
// What to do about it, for the log.
void exporter_missing_text(const struct exporter_missing_facts *f, enum exporter_missing_reason r,
                           char *ret, size_t size);
const char *exporter_missing_name(enum exporter_missing_reason r); // "flag_not_set", …
