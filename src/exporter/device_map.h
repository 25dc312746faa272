// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "gpu/gpu.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- annotations ---

// Which GPU a scheduler that shares GPUs chose for a container. The device ids that the kubelet
// hands out for such a resource only count units; the choice stands in annotations of the pod.

enum exporter_sharing {
    EXPORTER_SHARING_NONE,
    EXPORTER_SHARING_ALIYUN,  // gpushare: ALIYUN_COM_GPU_MEM_*,
                              // scheduler.framework.gpushare.allocation
    EXPORTER_SHARING_HAMI,    // hami.io/vgpu-devices-allocated, 4pd.io/vgpu-ids-new
    EXPORTER_SHARING_VGPU,    // Volcano's vGPU: volcano.sh/vgpu-ids-new
    EXPORTER_SHARING_VOLCANO, // Volcano's older gpu-share: volcano.sh/gpu-index
    EXPORTER_SHARING_KINDS
};
const char *exporter_sharing_name(enum exporter_sharing s);

enum { EXPORTER_GRANT_MAX = 32 };

// One GPU of a container.
struct exporter_annotation_grant {
    char uuid[96];         // "": by number
    uint32_t number;       // of /dev/nvidia<number> (gpushare), or NVML's index (Volcano)
    bool whole;            // nobody else is on it
    uint64_t memory_mib;   // granted; 0: not said
    unsigned units;        // granted, of the resource's unit; 0: as many as the kubelet handed out
    unsigned device_units; // that the GPU has; 0: not said
    unsigned cores;        // percent of the compute; 0: not limited
};

// pod: a Pod object. Returns how many grants the container has; *ret_found is false when the pod
// has no such annotation, or one that cannot be read.
size_t exporter_annotation_grants(enum exporter_sharing s, const json_t *pod, const char *container,
                                  struct exporter_annotation_grant ret[EXPORTER_GRANT_MAX],
                                  bool *ret_found);

// --- device id ---

// Device ids as device plug-ins hand them out, brought into the form that a GPU is looked up by:
//   GPU-<uuid>, MIG-<uuid>          by UUID (NVIDIA)
//   GPU-<uuid>/gi<gi>               a MIG device by its parent (drivers before R470)
//   nvidia<minor>[/gi<gi>]          by device node (GKE, gpushare)
//   #<index>                        by NVML's index (Volcano)
//   …/profile/<letters and digits>  the MIG device of that profile, when the parent has just one

enum { EXPORTER_DEVICE_KEY_SIZE = 160 };

struct exporter_device_id {
    char key[EXPORTER_DEVICE_KEY_SIZE];
    bool replica; // one of several that stand for the device
    char mark[16];
    // The id only counts units of a resource: which GPU is meant stands in an annotation. key is
    // the GPU that it is counted at.
    enum exporter_sharing sharing;
};
// False: not the id of a GPU.
bool exporter_device_id_parse(const char *resource, struct gs_slice id,
                              struct exporter_device_id *ret);

// Whether a resource counts as a GPU. extra: those that the user names.
bool exporter_device_resource_is_gpu(const char *resource, const char *const *extra,
                                     size_t n_extra);
// Looks like a GPU, does not count, and does not merely go along with one that does.
bool exporter_device_resource_looks_like_gpu(const char *resource);
// Likewise, but only NVIDIA's: it may be a network card, too.
bool exporter_device_resource_of_nvidia(const char *resource);
// Whether the id of a resource that does not count can only be that of a GPU: its UUID, or the
// device node where the resource is NVIDIA's. Device plug-ins may rename nvidia.com/gpu.
bool exporter_device_id_renamed(const char *resource, struct gs_slice id,
                                struct exporter_device_id *ret);

// A device of NVIDIA's DRA driver by its name, "gpu-0" or "gpu-0-mig-1g.10gb-19-4".
bool exporter_device_key_of_claim(const char *device, char *ret, size_t size);
// The key of the MIG device of a profile, of the GPU with this key.
bool exporter_device_key_of_profile(const char *gpu, const char *profile, char *ret, size_t size);

// --- device map ---

// Which containers hold which GPU, from the kubelet's PodResources replies; where those only count
// units of a shared GPU or name claims of dynamic resource allocation, with the help of what the
// API server has. Immutable once made.

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
bool exporter_device_map_is_complete(const struct exporter_device_map *m, const char *ns,
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
