// SPDX-License-Identifier: Apache-2.0
// Why a pod does not run, and what to do: one answer for the status block of `gpuscale up`,
// `gpuscale explain pod`, `gpuscale doctor`, the web page and the events of the scheduler. A pure
// function of the pod, the objects around it, and the time. docs/nodes.md lists the
// causes.
//
// All texts are one line. Objects are borrowed and not changed. No function fails: what is not
// known (NULL) is not claimed.
#pragma once

#include "base/attr.h"
#include "base/slice.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stdint.h>

enum diagnosis_cause { // in the order of the display
    // Containers that do not start.
    DIAGNOSIS_IMAGE,   // no image, or no command for it
    DIAGNOSIS_MISSING, // a Secret, ConfigMap, claim or key does not exist
    DIAGNOSIS_CONFIG,  // another error of the container's configuration
    DIAGNOSIS_VOLUME,  // another error of a volume
    DIAGNOSIS_SANDBOX, // no network or no runtime for the pod
    // Containers that ended.
    DIAGNOSIS_MEMORY, // killed at the memory limit
    DIAGNOSIS_CRASH,
    DIAGNOSIS_FAILED, // the pod has ended, and nothing starts it again
    // No node. The first ones wait forever.
    DIAGNOSIS_SCHEDULER, // no scheduler looks at the pod
    DIAGNOSIS_RESOURCE,  // nothing offers a resource
    DIAGNOSIS_TOO_LARGE, // no node is large enough, even if it is empty
    DIAGNOSIS_SELECTOR,  // no node or pool has the labels
    DIAGNOSIS_TAINT,     // no node or pool without a taint that the pod does not tolerate
    DIAGNOSIS_CLAIM,     // of dynamic resource allocation
    DIAGNOSIS_NODE_GONE, // spec.nodeName names a node that does not exist
    DIAGNOSIS_GATED,     // spec.schedulingGates
    DIAGNOSIS_POOL_FULL, // the nodes are in use, and the pools are at their maximum
    DIAGNOSIS_BUSY,      // the nodes are in use
    DIAGNOSIS_PREEMPTS,  // pods that it replaces have not ended yet
    DIAGNOSIS_COMING,    // a node has been ordered
    // It runs, but is not ready.
    DIAGNOSIS_PROBE,
    DIAGNOSIS_READINESS_GATE,
    DIAGNOSIS_OTHER,
    DIAGNOSIS_CAUSES
};

const char *diagnosis_cause_name(enum diagnosis_cause c); // "image", "pool-full"
// Waiting does not help: somebody has to change something.
bool diagnosis_lasts(enum diagnosis_cause c);

struct diagnosis {
    enum diagnosis_cause cause;
    const char *reason;    // "CrashLoopBackOff", "Unschedulable"; borrowed from the pod or constant
    const char *container; // borrowed; NULL: the pod as a whole
    char *text;            // "exit code 3, restarted 2 times; last log line: fatal: no model"
    char *remedy;          // "kubectl logs web-0 -n ml"
    char *identity;        // equal for pods with the same problem
};

// Returns the last line that a container wrote before it ended. NULL: not read yet, so the pod gets
// no diagnosis now; "": none.
typedef const char *(*diagnosis_last_line)(void *arg, const json_t *pod,
                                           const json_t *container_status);

struct diagnosis_input {
    const json_t *pod;
    const json_t *events;          // array, of this pod; NULL: none
    const json_t *nodes, *pods;    // arrays, of the cluster; NULL: not known
    const json_t *pools;           // array of nodes_pools_json(); NULL: not known
    diagnosis_last_line last_line; // NULL: none is known
    void *arg;                     // of last_line
    int64_t now_ms;                // Unix
    int64_t start_ms; // containers that ended before were ended with the program; 0: none
};

// False: the pod runs, has succeeded, is being deleted, or has not waited long enough for a
// problem.
bool diagnosis_of(const struct diagnosis_input *in, struct diagnosis *ret);
void diagnosis_finish(struct diagnosis *d);
#define DIAGNOSIS_AUTO GS_CLEANUP(diagnosis_finish)

// The last line of a log that has text, for a diagnosis_last_line: cut at 200 bytes, in UTF-8,
// without control characters, which a terminal would execute. "": none. Caller frees.
char *diagnosis_last_log_line(struct gs_slice log) GS_MUST_USE;

// What to do about a pod that the API refused, from the message of its FailedCreate event or of the
// condition ReplicaFailure: a quota, a missing ServiceAccount, a fraction of a GPU … Caller frees.
// owner: "replicaset web-6f", for kubectl describe.
char *diagnosis_of_refusal(const char *message, const char *ns, const char *owner) GS_MUST_USE;

// Which component offers an extended resource to pods, as a clause: "the NVIDIA device plugin
// offers it with …". Constant. Names that nobody knows get a general clause.
const char *diagnosis_provider_of(const char *resource);
