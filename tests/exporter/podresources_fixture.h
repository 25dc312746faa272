// SPDX-License-Identifier: Apache-2.0
// Packs a ListPodResourcesResponse or AllocatableResourcesResponse for tests.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "kube/podresources.pb-c.h"

struct pod_row {
    const char *ns, *pod, *container, *resource;
    const char *ids; // separated by blanks
    // By a claim instead, in the pod's namespace; resource and ids NULL.
    const char *claim, *pool, *device, *cdi;
};

static inline size_t split_ids(const char *ids, char *copy, size_t size, char **ret, size_t max)
{
    size_t n = 0;
    strncpy(copy, ids, size - 1);
    copy[size - 1] = '\0';
    for (char *save = NULL, *id = strtok_r(copy, " ", &save); id && n < max;
         id = strtok_r(NULL, " ", &save))
        ret[n++] = id;
    return n;
}

struct claim_parts {
    Podresources__DynamicResource resource, *resource_ptr;
    Podresources__ClaimResource claim, *claim_ptr;
    Podresources__CDIDevice cdi, *cdi_ptr;
};

static inline void pack_claim(const struct pod_row *row, struct claim_parts *c)
{
    podresources__dynamic_resource__init(&c->resource);
    podresources__claim_resource__init(&c->claim);
    podresources__cdidevice__init(&c->cdi);
    c->resource_ptr = &c->resource;
    c->claim_ptr = &c->claim;
    c->cdi_ptr = &c->cdi;
    if (!row->claim)
        return;
    c->resource.claim_name = (char *)row->claim;
    c->resource.claim_namespace = (char *)row->ns;
    c->resource.claim_resources = &c->claim_ptr;
    c->resource.n_claim_resources = 1;
    c->claim.driver_name = (char *)"gpu.nvidia.com";
    c->claim.pool_name = (char *)row->pool;
    c->claim.device_name = (char *)row->device;
    c->claim.cdi_devices = &c->cdi_ptr;
    c->claim.n_cdi_devices = row->cdi != NULL;
    if (row->cdi)
        c->cdi.name = (char *)row->cdi;
}

static inline void pack_list(const struct pod_row *rows, size_t n, struct gs_buf *out)
{
    Podresources__ListPodResourcesResponse list = PODRESOURCES__LIST_POD_RESOURCES_RESPONSE__INIT;
    Podresources__PodResources pods[16], *pod_ptrs[16];
    Podresources__ContainerResources containers[16], *container_ptrs[16];
    Podresources__ContainerDevices devices[16], *device_ptrs[16];
    struct claim_parts claims[16];
    char texts[16][1024], *ids[16][16];
    for (size_t i = 0; i < n; i++) {
        podresources__container_devices__init(&devices[i]);
        devices[i].resource_name = (char *)rows[i].resource;
        devices[i].device_ids = ids[i];
        if (rows[i].ids)
            devices[i].n_device_ids =
                split_ids(rows[i].ids, texts[i], sizeof(texts[i]), ids[i], 16);
        device_ptrs[i] = &devices[i];
        podresources__container_resources__init(&containers[i]);
        containers[i].name = (char *)rows[i].container;
        containers[i].devices = &device_ptrs[i];
        containers[i].n_devices = rows[i].ids != NULL;
        pack_claim(&rows[i], &claims[i]);
        containers[i].dynamic_resources = &claims[i].resource_ptr;
        containers[i].n_dynamic_resources = rows[i].claim != NULL;
        container_ptrs[i] = &containers[i];
        podresources__pod_resources__init(&pods[i]);
        pods[i].name = (char *)rows[i].pod;
        pods[i].namespace_ = (char *)rows[i].ns;
        pods[i].containers = &container_ptrs[i];
        pods[i].n_containers = 1;
        pod_ptrs[i] = &pods[i];
    }
    list.pod_resources = pod_ptrs;
    list.n_pod_resources = n;
    size_t size = podresources__list_pod_resources_response__get_packed_size(&list);
    GS_AUTO_FREE uint8_t *bytes = gs_alloc(size + 1);
    podresources__list_pod_resources_response__pack(&list, bytes);
    gs_buf_clear(out);
    gs_buf_add(out, bytes, size);
}

static inline void pack_allocatable(const char *resource, const char *ids_text, struct gs_buf *out)
{
    Podresources__AllocatableResourcesResponse reply =
        PODRESOURCES__ALLOCATABLE_RESOURCES_RESPONSE__INIT;
    Podresources__ContainerDevices devices = PODRESOURCES__CONTAINER_DEVICES__INIT, *ptr = &devices;
    char text[1024], *ids[16];
    devices.resource_name = (char *)resource;
    devices.device_ids = ids;
    devices.n_device_ids = split_ids(ids_text, text, sizeof(text), ids, 16);
    reply.devices = &ptr;
    reply.n_devices = 1;
    size_t size = podresources__allocatable_resources_response__get_packed_size(&reply);
    GS_AUTO_FREE uint8_t *bytes = gs_alloc(size + 1);
    podresources__allocatable_resources_response__pack(&reply, bytes);
    gs_buf_clear(out);
    gs_buf_add(out, bytes, size);
}
