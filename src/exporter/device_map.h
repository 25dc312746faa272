// SPDX-License-Identifier: Apache-2.0
// Which containers hold which GPU, from the kubelet's PodResources v1 replies. Immutable once made.
// Device ids of the NVIDIA and GKE device plug-ins are understood: "GPU-<uuid>", "MIG-<uuid>",
// "MIG-GPU-<uuid>/<gi>/<ci>", "nvidia<minor>", "nvidia<minor>/gi<gi>", each with a replica mark
// ("::<n>", "/vgpu<n>") when the GPU is shared by time slices or MPS.
#pragma once

#include "base/error.h"
#include "gpu/gpu.h"

#include "base/slice.h"

// The most that a reply may take in memory once it is unpacked.
#define DEVICE_MAP_MAX_MEMORY (64u * 1024 * 1024)

struct device_holder {
    char *namespace_name, *pod, *container;
    bool shared;       // holds replicas, not the whole device
    unsigned replicas; // how many of them; 1 for a whole device
    char replica[16];  // the mark of the first: "0" of GPU-…::0; "" for a whole device
};

struct device_holders {
    struct device_holder *items;
    size_t len, cap;
};

struct device_map;

// message: a ListPodResourcesResponse. Counted are nvidia.com/gpu, nvidia.com/gpu.shared,
// nvidia.com/mig-*, and the resources named in `extra`.
struct gs_error *device_map_parse(struct gs_slice message, const char *const *extra, size_t n_extra,
                                  struct device_map **ret);
void device_map_free(struct device_map *m);
GS_DEFINE_CLEANUP(struct device_map *, device_map_free)
size_t device_map_len(const struct device_map *m); // devices with a holder
// A resource of a pod that looks like a GPU and is not counted; "" when there is none.
const char *device_map_ignored(const struct device_map *m);

// Who holds a GPU as such, or one of its MIG devices (instance not NULL). NULL: nobody.
const struct device_holders *device_map_find(const struct device_map *m, const struct gpu_device *d,
                                             const struct gpu_instance *instance);
// The one holder of the whole device; NULL when there is none, several, or it is shared.
const struct device_holder *device_holders_exclusive(const struct device_holders *h);

// How many replicas each device has, from an AllocatableResourcesResponse: an own small table,
// since it is asked for far more rarely.
struct device_replicas;
struct gs_error *device_replicas_parse(struct gs_slice message, const char *const *extra,
                                       size_t n_extra, struct device_replicas **ret);
void device_replicas_free(struct device_replicas *r);
// 0: unknown.
unsigned device_replicas_find(const struct device_replicas *r, const struct gpu_device *d,
                              const struct gpu_instance *instance);
