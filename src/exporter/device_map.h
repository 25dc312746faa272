// SPDX-License-Identifier: Apache-2.0
// Which containers hold which GPU, from the kubelet's PodResources replies; where those only count
// units of a shared GPU or name claims of dynamic resource allocation, with the help of what the
// API server has. Immutable once made.
#pragma once

#include "base/error.h"
#include "exporter/annotations.h"
#include "gpu/gpu.h"

#include "base/slice.h"

#include <jansson.h>

// The most that a reply may take in memory once it is unpacked.
#define EXPORTER_DEVICE_MAP_MAX_MEMORY (64u * 1024 * 1024)
#define EXPORTER_DEVICE_CLAIM_DRIVER   "gpu.nvidia.com"

// The claim by which a container has a device.
struct exporter_device_claim {
    char *name, *namespace_name, *driver, *pool, *device;
    char *mig_uuid, *mig_profile; // "" for whole GPUs, or when not known
};

struct exporter_device_holder {
    char *namespace_name, *pod;
    char *container;       // "": several of the pod, by the same claim
    bool shared;           // holds a part, not the whole device
    bool renamed;          // by a resource that is not known: its id is the GPU's
    unsigned replicas;     // parts or units that it holds; 1 for a whole device
    unsigned device_units; // that the device has; 0: see exporter_device_replicas
    uint64_t memory_mib;   // granted; 0: not said
    unsigned cores;        // percent of the compute that it is limited to; 0: not limited
    char replica[16];      // the mark of the first: "0" of GPU-…::0; "" for a whole device
    struct exporter_device_claim *claim; // NULL: by a device plug-in
};

struct exporter_device_holders {
    struct exporter_device_holder *items;
    size_t len, cap;
};

// A device of a ResourceSlice; "" what it does not say. Borrowed until the source changes.
struct exporter_device_slice {
    const char *uuid, *parent_uuid, *profile;
};

// What the API server tells. Each function may be NULL, and each answer may be missing.
struct exporter_device_sources {
    const json_t *(*pod)(void *arg, const char *ns, const char *name);
    bool (*slice)(void *arg, const char *pool, const char *device,
                  struct exporter_device_slice *ret);
    void *arg;
};

struct exporter_device_map;

// message: a ListPodResourcesResponse of v1 or v1alpha1. Counted are nvidia.com/gpu,
// nvidia.com/gpu.shared, nvidia.com/mig-*, the resources of gpushare, HAMi and Volcano, and those
// named in `extra`. Others count for devices that none of these gives, when their ids can only be
// those of GPUs.
struct gs_error *exporter_device_map_parse(struct gs_slice message, const char *const *extra,
                                           size_t n_extra,
                                           const struct exporter_device_sources *sources,
                                           struct exporter_device_map **ret);
void exporter_device_map_free(struct exporter_device_map *m);
GS_DEFINE_CLEANUP(struct exporter_device_map *, exporter_device_map_free)
size_t exporter_device_map_len(const struct exporter_device_map *m); // devices with a holder

// What the map cannot say, and what would help.
struct exporter_device_gaps {
    char resource[128]; // looks like a GPU and does not count; "": none
    char nvidia[128];   // likewise, but only by its vendor
    bool wants_pods;    // annotations tell more
    bool wants_slices;  // ResourceSlices tell more
    unsigned pods;      // whose annotation was not to be had, or makes no sense
    char pod[512];      // "namespace/name" of the first
    enum exporter_sharing pod_sharing;
    unsigned claims; // whose device could not be found
    char claim[512]; // "namespace/name (pool/device)" of the first
};
const struct exporter_device_gaps *exporter_device_map_gaps(const struct exporter_device_map *m);
// False when a device of the pod could not be found: it may hold GPUs that it is not listed with.
bool exporter_device_map_is_sure(const struct exporter_device_map *m, const char *ns,
                                 const char *pod);

// Who holds a GPU as such, or one of its MIG devices (instance not NULL). NULL: nobody. Not for two
// threads at once.
const struct exporter_device_holders *exporter_device_map_find(const struct exporter_device_map *m,
                                                               const struct gpu_device *d,
                                                               const struct gpu_instance *instance);
// The one holder of the whole device; NULL when there is none, several, or it is shared.
const struct exporter_device_holder *
exporter_device_holders_exclusive(const struct exporter_device_holders *h);

// How many replicas or units each device has, from an AllocatableResourcesResponse: an own small
// table, since it is asked for far more rarely.
struct exporter_device_replicas;
struct gs_error *exporter_device_replicas_parse(struct gs_slice message, const char *const *extra,
                                                size_t n_extra,
                                                struct exporter_device_replicas **ret);
void exporter_device_replicas_free(struct exporter_device_replicas *r);
// 0: unknown.
unsigned exporter_device_replicas_find(const struct exporter_device_replicas *r,
                                       const struct gpu_device *d,
                                       const struct gpu_instance *instance);
