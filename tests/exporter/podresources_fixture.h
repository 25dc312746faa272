// SPDX-License-Identifier: Apache-2.0
// Packs a ListPodResourcesResponse or AllocatableResourcesResponse for tests.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "kube/podresources.pb-c.h"

struct pod_row {
    const char *ns, *pod, *container, *resource;
    const char *ids; // separated by blanks
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

static inline void pack_list(const struct pod_row *rows, size_t n, struct gs_buf *out)
{
    Podresources__ListPodResourcesResponse list = PODRESOURCES__LIST_POD_RESOURCES_RESPONSE__INIT;
    Podresources__PodResources pods[16], *pod_ptrs[16];
    Podresources__ContainerResources containers[16], *container_ptrs[16];
    Podresources__ContainerDevices devices[16], *device_ptrs[16];
    char texts[16][1024], *ids[16][16];
    for (size_t i = 0; i < n; i++) {
        podresources__container_devices__init(&devices[i]);
        devices[i].resource_name = (char *)rows[i].resource;
        devices[i].device_ids = ids[i];
        devices[i].n_device_ids = split_ids(rows[i].ids, texts[i], sizeof(texts[i]), ids[i], 16);
        device_ptrs[i] = &devices[i];
        podresources__container_resources__init(&containers[i]);
        containers[i].name = (char *)rows[i].container;
        containers[i].devices = &device_ptrs[i];
        containers[i].n_devices = 1;
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
