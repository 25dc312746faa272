// SPDX-License-Identifier: Apache-2.0
// The map from devices to containers, as values without input or output: it is built from a reply
// of PodResources and completed by annotations and ResourceSlices.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "gpu/gpu.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- annotations ---

// Which GPU a scheduler that shares GPUs selected for a container. The device IDs that the kubelet
// allocates for such a resource only count units; the selection is in annotations of the pod.

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
    char uuid[96];         // "": identified by number
    uint32_t number;       // of /dev/nvidia<number> (gpushare), or NVML's index (Volcano)
    bool whole;            // no other container uses it
    uint64_t memory_mib;   // granted; 0: unknown
    unsigned units;        // granted, in units of the resource; 0: as many as the kubelet allocated
    unsigned device_units; // total units of the GPU; 0: unknown
    unsigned cores;        // percent of the compute; 0: not limited
};

// pod: a Pod object. Returns the number of grants of the container. *ret_found is false if the pod
// has no such annotation, or if it is malformed.
size_t exporter_annotation_grants(enum exporter_sharing s, const json_t *pod, const char *container,
                                  struct exporter_annotation_grant ret[EXPORTER_GRANT_MAX],
                                  bool *ret_found);

// --- device id ---

// Device IDs as device plugins allocate them, converted to the key by which a GPU is found:
//   GPU-<uuid>, MIG-<uuid>          by UUID (NVIDIA)
//   GPU-<uuid>/gi<gi>               a MIG device by its parent (drivers before R470)
//   nvidia<minor>[/gi<gi>]          by device node (GKE, gpushare)
//   #<index>                        by NVML's index (Volcano)
//   …/profile/<letters and digits>  the MIG device of that profile, if the parent has only one

enum { EXPORTER_DEVICE_KEY_SIZE = 160 };

struct exporter_device_id {
    char key[EXPORTER_DEVICE_KEY_SIZE];
    bool replica; // one of several IDs of the same device
    char mark[16];
    // The ID only counts units of a resource, and an annotation names the GPU. key is the GPU under
    // which the unit is counted.
    enum exporter_sharing sharing;
};
// False: not the ID of a GPU.
bool exporter_device_id_parse(const char *resource, struct gs_slice id,
                              struct exporter_device_id *ret);

// Whether a resource counts as a GPU. extra: additional resources that the user configures.
bool exporter_device_resource_is_gpu(const char *resource, const char *const *extra,
                                     size_t n_extra);
// Whether a resource looks like a GPU, does not count as one, and is not a secondary resource of
// one that does.
bool exporter_device_resource_looks_like_gpu(const char *resource);
// The same for any resource of NVIDIA, which may also be a network adapter.
bool exporter_device_resource_of_nvidia(const char *resource);
// Whether the ID of a resource that does not count as a GPU can only be that of a GPU: a GPU UUID,
// or the device node if the resource is NVIDIA's. Device plugins can rename nvidia.com/gpu.
bool exporter_device_id_renamed(const char *resource, struct gs_slice id,
                                struct exporter_device_id *ret);

// Converts a device name of NVIDIA's DRA driver, "gpu-0" or "gpu-0-mig-1g.10gb-19-4", to a key.
bool exporter_device_key_of_claim(const char *device, char *ret, size_t size);
// Returns the key of the MIG device of a profile on the GPU with this key.
bool exporter_device_key_of_profile(const char *gpu, const char *profile, char *ret, size_t size);

// --- device map ---

// Which containers hold which GPU, from the kubelet's PodResources replies. If these only count
// units of a shared GPU, or name claims of dynamic resource allocation, data of the API server
// completes them. Immutable.

// Maximum memory of a decoded reply, in bytes.
#define EXPORTER_DEVICE_MAP_MAX_MEMORY (64u * 1024 * 1024)
#define EXPORTER_DEVICE_CLAIM_DRIVER   "gpu.nvidia.com"

// The claim through which a container holds a device.
struct exporter_device_claim {
    char *name, *namespace_name, *driver, *pool, *device;
    char *mig_uuid, *mig_profile; // "" for whole GPUs, or if unknown
};

struct exporter_device_holder {
    char *namespace_name, *pod;
    char *container;       // "": several containers of the pod, through the same claim
    bool shared;           // holds a part, not the whole device
    bool renamed;          // through an unknown resource whose ID is that of a GPU
    unsigned replicas;     // replicas or units held; 1 for a whole device
    unsigned device_units; // total units of the device; 0: see exporter_device_replicas
    uint64_t memory_mib;   // granted; 0: unknown
    unsigned cores;        // limit of compute in percent; 0: no limit
    char replica[16];      // suffix of the first replica: "0" of GPU-…::0; "" for a whole device
    struct exporter_device_claim *claim; // NULL: allocated by a device plugin
};

struct exporter_device_holders {
    struct exporter_device_holder *items;
    size_t len, cap;
};

// A device of a ResourceSlice; "": unknown. Borrowed until the source changes.
struct exporter_device_slice {
    const char *uuid, *parent_uuid, *profile;
};

// Data from the API server. Each function may be NULL, and each lookup may fail.
struct exporter_device_sources {
    const json_t *(*pod)(void *arg, const char *ns, const char *name);
    bool (*slice)(void *arg, const char *pool, const char *device,
                  struct exporter_device_slice *ret);
    void *arg;
};

struct exporter_device_map;

// message: a ListPodResourcesResponse of v1 or v1alpha1. nvidia.com/gpu, nvidia.com/gpu.shared,
// nvidia.com/mig-*, the resources of gpushare, HAMi and Volcano, and those in `extra` count as
// GPUs. Other resources count for devices that none of these holds, if their IDs can only be those
// of GPUs. GS_EPROTO: malformed or too large.
struct gs_error *exporter_device_map_parse(struct gs_slice message, const char *const *extra,
                                           size_t n_extra,
                                           const struct exporter_device_sources *sources,
                                           struct exporter_device_map **ret);
void exporter_device_map_free(struct exporter_device_map *m);
GS_DEFINE_CLEANUP(struct exporter_device_map *, exporter_device_map_free)
size_t exporter_device_map_len(const struct exporter_device_map *m); // devices with a holder

// What the map lacks, and which data would complete it.
struct exporter_device_gaps {
    char resource[128]; // looks like a GPU but does not count as one; "": none
    char nvidia[128];   // the same, but only the vendor matches
    bool wants_pods;    // annotations of pods would add information
    bool wants_slices;  // ResourceSlices would add information
    unsigned pods;      // pods whose annotation is absent or malformed
    char pod[512];      // "namespace/name" of the first
    enum exporter_sharing pod_sharing;
    unsigned claims; // claims whose device was not found
    char claim[512]; // "namespace/name (pool/device)" of the first
};
const struct exporter_device_gaps *exporter_device_map_gaps(const struct exporter_device_map *m);
// False if a device of the pod was not found: the pod may hold GPUs that the map does not list.
bool exporter_device_map_is_complete(const struct exporter_device_map *m, const char *ns,
                                     const char *pod);

// Who holds a GPU as a whole, or one of its MIG devices (instance not NULL). NULL: nobody. Uses a
// lookup buffer of the map: not for two threads at the same time.
const struct exporter_device_holders *exporter_device_map_find(const struct exporter_device_map *m,
                                                               const struct gpu_device *d,
                                                               const struct gpu_instance *instance);
// The single holder of the whole device. NULL: none, several, or it is shared.
const struct exporter_device_holder *
exporter_device_holders_exclusive(const struct exporter_device_holders *h);

// The number of replicas or units of each device, from an AllocatableResourcesResponse. It is a
// separate table because it is requested far less often.
struct exporter_device_replicas;
struct gs_error *exporter_device_replicas_parse(struct gs_slice message, const char *const *extra,
                                                size_t n_extra,
                                                struct exporter_device_replicas **ret);
void exporter_device_replicas_free(struct exporter_device_replicas *r);
// 0: unknown.
unsigned exporter_device_replicas_find(const struct exporter_device_replicas *r,
                                       const struct gpu_device *d,
                                       const struct gpu_instance *instance);
