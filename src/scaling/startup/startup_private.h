// SPDX-License-Identifier: Apache-2.0
// Private to the module: the state of the learner. Times are Unix milliseconds, 0 is unknown.
#pragma once

#include "base/hmap.h"
#include "base/mem.h"
#include "startup/startup.h"

enum {
    STARTUP_RING = 32,        // last starts of a group
    STARTUP_GROUPS = 8,       // images and GPU models of a workload
    STARTUP_WORKLOADS = 1000, // further ones replace those without pods
    STARTUP_PODS = 20000,     // further ones are not observed
    STARTUP_NAME = 256,       // bytes of an image or GPU model that are kept
    STARTUP_UNKNOWN = -1,     // a phase without a value
};
#define STARTUP_MAX_MS      (INT64_C(3600) * 1000) // longer: the object was changed again later
#define STARTUP_NODE_MS     (INT64_C(180) * 1000)  // of a node to come, before one was seen
#define STARTUP_ORDER_MS    (INT64_C(30) * 1000)   // until a node autoscaler orders a node
#define STARTUP_MAX_LATE_MS (INT64_C(600) * 1000)  // until an engine that stays silent is ignored
#define STARTUP_SWEEP_MS    (INT64_C(60) * 1000)

struct startup_sample {
    struct startup_path path;
    bool failed;                // without times
    int64_t ms[STARTUP_PHASES]; // STARTUP_UNKNOWN: not measured
    int64_t total_ms;
};
struct startup_ring {
    struct startup_sample items[STARTUP_RING];
    uint64_t count; // of all samples ever; the next place is count % STARTUP_RING
};
size_t startup_ring_len(const struct startup_ring *r);
void startup_append(struct startup_ring *ring, const struct startup_sample *s);
struct startup_learner;
struct startup_group;
// Starts that another learner has seen. Those of the pods that are known are not corrected any
// more.
void startup_replace_ring(struct startup_learner *l, struct startup_group *g,
                          const struct startup_ring *ring);

// The starts of one image on one GPU model.
struct startup_group {
    char *image;  // of the pod's spec
    char *digest; // of its status; "": unknown yet
    char *gpu;    // GPU model; "": unknown
    bool has_engine;
    uint64_t used; // learner's counter at its last use
    struct startup_ring ring;
};
struct startup_workload {
    struct startup_group *groups[STARTUP_GROUPS];
    size_t n;
    bool has_pods; // scratch of samples.c
};

// One pod, as far as it was observed.
struct startup_record {
    char *uid;      // NULL: unknown
    char *workload; // key of the learner's map; NULL: without controller, or only events came
    char *image, *digest, *gpu;
    int64_t seen_ms; // when it was observed last
    int64_t created, unschedulable, ordered, refused, scheduled, pulling, started, ready, engine;
    int64_t pull_ms;    // of all images
    bool node_is_newer; // than the pod
    bool was_ready;     // at the first observation: the engine was ready at an unknown time
    bool failed;        // before it served
    bool ended;         // nothing more is learned: it was counted, or its start was not observed
    bool stored;        // its sample is in the ring of its group at `sequence`
    enum startup_image image_from;
    uint64_t pulled[4]; // hashes of the messages that were counted
    unsigned next_pulled;
    int64_t late_ms; // when it is late
    uint64_t sequence;
};

struct startup_learner {
    struct gs_hmap *workloads;  // "ns deployment/web" → struct startup_workload
    struct gs_hmap *pods;       // "ns/name" → struct startup_record
    struct startup_ring others; // of all workloads
    uint64_t uses;
    int64_t swept_ms;
    int64_t restored_ms; // starts that ended before were learned by another process; 0: none
};

// --- pod.c: what an object says ---

struct startup_marks {
    int64_t created, unschedulable, scheduled, started, ready;
    bool failed, ended, deleting, gated;
};
void startup_read_pod(const json_t *pod, struct startup_marks *ret);
// The container that needs GPUs, or the first one: its image, and the digest of it ("": unknown).
void startup_read_image(const json_t *pod, char image[STARTUP_NAME], char digest[STARTUP_NAME]);
// Of the node, or that the pod selects; "": unknown.
void startup_read_gpu(const json_t *pod, const json_t *node, char gpu[STARTUP_NAME]);

// --- samples.c ---

void startup_workload_free(void *workload);
void startup_replace(char **text, const char *with);
// The newest group of a workload ("ns deployment/web") with this image and GPU model. NULL: any
// (image), "": any (digest, gpu). NULL: none.
struct startup_group *startup_group_find(const struct startup_learner *l, const char *workload,
                                         const char *image, const char *digest, const char *gpu);
// The group of the pod, made if necessary. NULL: there are too many workloads.
struct startup_group *startup_group_make(struct startup_learner *l, const struct startup_record *r);
struct startup_workload *startup_workload_of(const struct startup_learner *l, const char *workload);
char *startup_workload_key(const char *ns, const char *workload); // caller frees
struct startup_path startup_path_of(const struct startup_record *r);
// When the pod serves; 0: not yet.
int64_t startup_serving(const struct startup_learner *l, const struct startup_record *r);
// False: a time is unknown, or they contradict each other.
bool startup_sample_of(const struct startup_record *r, int64_t serving, struct startup_sample *ret);
// The pod serves, or its start has failed: nothing more is learned of it.
void startup_store(struct startup_learner *l, struct startup_record *r,
                   const struct startup_sample *s);
void startup_fail(struct startup_learner *l, struct startup_record *r);
// Calculates the sample again from what has come since.
void startup_correct(struct startup_learner *l, struct startup_record *r);

// --- learner.c ---

// NULL: not observed.
struct startup_record *startup_record_of(const struct startup_learner *l, const json_t *pod);

// --- expected.c ---

// How old a pod may be until it is late.
int64_t startup_late_ms(const struct startup_expected *e);
void startup_expected_of_path(const struct startup_learner *l, const struct startup_workload *w,
                              const struct startup_group *g, struct startup_path path,
                              struct startup_expected *ret);
