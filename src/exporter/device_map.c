// SPDX-License-Identifier: Apache-2.0
#include "exporter/device_map.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/podresources.pb-c.h"

#include <ctype.h>
#include <stdio.h>

enum {
    KEY_SIZE = 160,
    MAX_DEVICES = 1024, // far above what a node has; more is a broken plug-in
    MAX_HOLDERS = 1024, // of one device
    MAX_NAME = 253,     // RFC 1123 subdomain
};

struct device_map {
    struct gs_hmap *devices; // canonical id -> struct device_holders
    char ignored[128];       // the first resource that looks like a GPU and is not counted
};

struct device_replicas {
    struct gs_hmap *counts; // canonical id -> struct replica_count
};

struct replica_count {
    unsigned n;
};

// --- unpacking within a memory limit ---

static void *arena_alloc(void *arena, size_t size)
{
    return gs_arena_alloc(arena, size ? size : 1);
}

static void arena_free(void *arena, void *p)
{
    (void)arena, (void)p; // all at once, with the arena
}

static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *type, struct gs_slice message,
                                struct gs_arena *arena)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    return protobuf_c_message_unpack(type, &allocator, message.len,
                                     (const uint8_t *)(message.data ? message.data : ""));
}

static struct gs_error *unpack_error(const char *what, struct gs_slice message)
{
    return gs_error_new(GS_EPROTO, "PodResources: the %s of %zu bytes cannot be unpacked", what,
                        message.len);
}

// --- ids ---

static bool accepted(const char *resource, const char *const *extra, size_t n_extra)
{
    if (gs_streq(resource, "nvidia.com/gpu") || gs_streq(resource, "nvidia.com/gpu.shared") ||
        gs_starts(resource, "nvidia.com/mig-"))
        return true;
    for (size_t i = 0; i < n_extra; i++)
        if (gs_streq(resource, extra[i]))
            return true;
    return false;
}

static bool all_digits(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isdigit((unsigned char)s.data[i]))
            return false;
    return s.len > 0;
}

// Cuts a replica mark off; true when there was one.
static bool cut_replica(struct gs_slice *id, struct gs_slice *ret_mark)
{
    for (size_t i = 0; i + 1 < id->len; i++) {
        if (id->data[i] == ':' && id->data[i + 1] == ':') {
            *ret_mark = gs_slice_make(id->data + i + 2, id->len - i - 2);
            id->len = i;
            return true;
        }
    }
    const char *slash = id->len ? memrchr(id->data, '/', id->len) : NULL;
    if (!slash)
        return false;
    struct gs_slice last = gs_slice_make(slash + 1, id->len - (size_t)(slash + 1 - id->data));
    if (!gs_slice_starts(last, "vgpu") || !all_digits(gs_slice_make(last.data + 4, last.len - 4)))
        return false;
    *ret_mark = gs_slice_make(last.data + 4, last.len - 4);
    id->len = (size_t)(slash - id->data);
    return true;
}

// "MIG-GPU-<uuid>/<gi>/<ci>" of drivers before R470 -> "GPU-<uuid>/gi<gi>"; other ids stay.
static bool canonical(struct gs_slice id, char *ret, size_t size)
{
    int n;
    if (gs_slice_starts(id, "MIG-GPU-")) {
        struct gs_slice rest = gs_slice_make(id.data + 4, id.len - 4);
        struct gs_slice uuid = gs_slice_cut(&rest, '/'), gi = gs_slice_cut(&rest, '/');
        if (!all_digits(gi))
            return false;
        n = snprintf(ret, size, GS_SLICE_FMT "/gi" GS_SLICE_FMT, GS_SLICE_ARG(uuid),
                     GS_SLICE_ARG(gi));
    } else {
        n = snprintf(ret, size, GS_SLICE_FMT, GS_SLICE_ARG(id));
    }
    return n > 0 && (size_t)n < size;
}

// --- holders ---

static void holders_free(void *p)
{
    struct device_holders *h = p;
    for (size_t i = 0; i < h->len; i++) {
        free(h->items[i].namespace_name);
        free(h->items[i].pod);
        free(h->items[i].container);
    }
    free(h->items);
    free(h);
}

static void copy_mark(struct device_holder *h, struct gs_slice mark)
{
    snprintf(h->replica, sizeof(h->replica), GS_SLICE_FMT, GS_SLICE_ARG(mark));
}

static void add_holder(struct device_map *m, const char *key, bool shared, struct gs_slice mark,
                       const char *ns, const char *pod, const char *container)
{
    struct device_holders *h = gs_hmap_get_str(m->devices, key);
    if (!h) {
        if (gs_hmap_len(m->devices) == MAX_DEVICES)
            return;
        h = gs_alloc(sizeof(*h));
        gs_hmap_put_str(m->devices, key, h);
    }
    for (size_t i = 0; i < h->len; i++) {
        struct device_holder *o = &h->items[i];
        if (!gs_streq(o->namespace_name, ns) || !gs_streq(o->pod, pod) ||
            !gs_streq(o->container, container))
            continue;
        o->replicas++;
        o->shared |= shared;
        return;
    }
    if (h->len == MAX_HOLDERS)
        return;
    gs_grow(&h->items, &h->cap, h->len, sizeof(*h->items));
    h->items[h->len++] = (struct device_holder){
        .namespace_name = gs_strdup(ns),
        .pod = gs_strdup(pod),
        .container = gs_strdup(container),
        .shared = shared,
        .replicas = 1,
    };
    copy_mark(&h->items[h->len - 1], mark);
}

static void add_device(struct device_map *m, const char *id, const Podresources__PodResources *pod,
                       const Podresources__ContainerResources *container)
{
    char key[KEY_SIZE];
    struct gs_slice s = gs_slice_of(id);
    struct gs_slice mark = GS_SLICE("");
    bool shared = cut_replica(&s, &mark);
    if (canonical(s, key, sizeof(key)))
        add_holder(m, key, shared, mark, pod->namespace_, pod->name, container->name);
}

static void add_pod(struct device_map *m, const Podresources__PodResources *pod,
                    const char *const *extra, size_t n_extra)
{
    if (strlen(pod->name) > MAX_NAME || strlen(pod->namespace_) > MAX_NAME)
        return;
    for (size_t c = 0; c < pod->n_containers; c++) {
        const Podresources__ContainerResources *container = pod->containers[c];
        if (strlen(container->name) > MAX_NAME)
            continue;
        for (size_t i = 0; i < container->n_devices; i++) {
            const Podresources__ContainerDevices *d = container->devices[i];
            if (!accepted(d->resource_name, extra, n_extra)) {
                if (!m->ignored[0] && strcasestr(d->resource_name, "gpu"))
                    snprintf(m->ignored, sizeof(m->ignored), "%.100s", d->resource_name);
                continue;
            }
            for (size_t k = 0; k < d->n_device_ids; k++)
                add_device(m, d->device_ids[k], pod, container);
        }
    }
}

struct gs_error *device_map_parse(struct gs_slice message, const char *const *extra, size_t n_extra,
                                  struct device_map **ret)
{
    struct gs_arena arena = {.limit = DEVICE_MAP_MAX_MEMORY};
    const Podresources__ListPodResourcesResponse *reply = (const void *)unpack(
        &podresources__list_pod_resources_response__descriptor, message, &arena);
    if (!reply) {
        gs_arena_finish(&arena);
        return unpack_error("List reply", message);
    }
    struct device_map *m = gs_alloc(sizeof(*m));
    m->devices = gs_hmap_new(holders_free);
    for (size_t i = 0; i < reply->n_pod_resources; i++)
        add_pod(m, reply->pod_resources[i], extra, n_extra);
    gs_arena_finish(&arena);
    *ret = m;
    return NULL;
}

void device_map_free(struct device_map *m)
{
    if (!m)
        return;
    gs_hmap_free(m->devices);
    free(m);
}

size_t device_map_len(const struct device_map *m)
{
    return gs_hmap_len(m->devices);
}

// The ids under which a device plug-in may list a GPU or a MIG device, by UUID and by minor number.
static void *find(struct gs_hmap *map, const struct gpu_device *d,
                  const struct gpu_instance *instance)
{
    char key[KEY_SIZE];
    void *found = gs_hmap_get_str(map, instance ? instance->uuid : d->uuid);
    if (!found && instance) {
        snprintf(key, sizeof(key), "%s/gi%u", d->uuid, instance->gpu_instance_id);
        found = gs_hmap_get_str(map, key);
    }
    if (!found && d->has_minor) {
        snprintf(key, sizeof(key), "nvidia%u", d->minor);
        if (instance)
            snprintf(key, sizeof(key), "nvidia%u/gi%u", d->minor, instance->gpu_instance_id);
        found = gs_hmap_get_str(map, key);
    }
    return found;
}

const char *device_map_ignored(const struct device_map *m)
{
    return m->ignored;
}

const struct device_holders *device_map_find(const struct device_map *m, const struct gpu_device *d,
                                             const struct gpu_instance *instance)
{
    return m ? find(m->devices, d, instance) : NULL;
}

const struct device_holder *device_holders_exclusive(const struct device_holders *h)
{
    return h && h->len == 1 && !h->items[0].shared ? &h->items[0] : NULL;
}

// --- replicas ---

static void count_device(struct device_replicas *r, const char *id)
{
    char key[KEY_SIZE];
    struct gs_slice s = gs_slice_of(id);
    struct gs_slice mark;
    cut_replica(&s, &mark);
    if (!canonical(s, key, sizeof(key)))
        return;
    struct replica_count *c = gs_hmap_get_str(r->counts, key);
    if (!c) {
        if (gs_hmap_len(r->counts) == MAX_DEVICES)
            return;
        c = gs_alloc(sizeof(*c));
        gs_hmap_put_str(r->counts, key, c);
    }
    c->n++;
}

struct gs_error *device_replicas_parse(struct gs_slice message, const char *const *extra,
                                       size_t n_extra, struct device_replicas **ret)
{
    struct gs_arena arena = {.limit = DEVICE_MAP_MAX_MEMORY};
    const Podresources__AllocatableResourcesResponse *reply = (const void *)unpack(
        &podresources__allocatable_resources_response__descriptor, message, &arena);
    if (!reply) {
        gs_arena_finish(&arena);
        return unpack_error("GetAllocatableResources reply", message);
    }
    struct device_replicas *r = gs_alloc(sizeof(*r));
    r->counts = gs_hmap_new(free);
    for (size_t i = 0; i < reply->n_devices; i++)
        for (size_t k = 0; accepted(reply->devices[i]->resource_name, extra, n_extra) &&
                           k < reply->devices[i]->n_device_ids;
             k++)
            count_device(r, reply->devices[i]->device_ids[k]);
    gs_arena_finish(&arena);
    *ret = r;
    return NULL;
}

void device_replicas_free(struct device_replicas *r)
{
    if (!r)
        return;
    gs_hmap_free(r->counts);
    free(r);
}

unsigned device_replicas_find(const struct device_replicas *r, const struct gpu_device *d,
                              const struct gpu_instance *instance)
{
    const struct replica_count *c = r ? find(r->counts, d, instance) : NULL;
    return c ? c->n : 0;
}
