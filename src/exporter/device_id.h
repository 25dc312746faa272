// SPDX-License-Identifier: Apache-2.0
// Device ids as device plug-ins hand them out, brought into the form that a GPU is looked up by:
//   GPU-<uuid>, MIG-<uuid>          by UUID (NVIDIA)
//   GPU-<uuid>/gi<gi>               a MIG device by its parent (drivers before R470)
//   nvidia<minor>[/gi<gi>]          by device node (GKE, gpushare)
//   #<index>                        by NVML's index (Volcano)
//   …/profile/<letters and digits>  the MIG device of that profile, when the parent has just one
#pragma once

#include "base/slice.h"
#include "exporter/annotations.h"

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
bool exporter_device_resource_counts(const char *resource, const char *const *extra,
                                     size_t n_extra);
// Looks like a GPU, does not count, and does not merely go along with one that does.
bool exporter_device_resource_suspicious(const char *resource);
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
