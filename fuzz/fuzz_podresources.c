// SPDX-License-Identifier: Apache-2.0
// The kubelet's PodResources replies, into the device map and the replica counts.
#include "base/mem.h"
#include "exporter/device_map.h"

#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const struct exporter_device_map *m, const struct exporter_device_replicas *r)
{
    struct gpu_device d = {.has_minor = true, .minor = 1};
    struct gpu_instance i = {.gpu_instance_id = 2};
    snprintf(d.uuid, sizeof(d.uuid), "GPU-1");
    snprintf(i.uuid, sizeof(i.uuid), "MIG-1");
    if (m) {
        exporter_device_holders_exclusive(exporter_device_map_find(m, &d, NULL));
        exporter_device_holders_exclusive(exporter_device_map_find(m, &d, &i));
    }
    exporter_device_replicas_find(r, &d, &i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const extra[] = {"example.com/gpu"};
    struct gs_slice message = gs_slice_make(data, size);
    struct exporter_device_map *m = NULL;
    struct exporter_device_replicas *r = NULL;
    gs_error_free(exporter_device_map_parse(message, extra, 1, NULL, &m));
    gs_error_free(exporter_device_replicas_parse(message, extra, 1, &r));
    look_up(m, r);
    exporter_device_map_free(m);
    exporter_device_replicas_free(r);
    return 0;
}
