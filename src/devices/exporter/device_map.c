// SPDX-License-Identifier: Apache-2.0
// The map from GPUs and MIG devices to the containers that hold them, from a reply of the
// PodResources API. A device may be listed under several keys (UUID, index, device node, MIG
// profile), all of which are searched. Memory of decoding and numbers of devices are limited.
#include "exporter/device_map.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/object.h"
#include "kube/podresources.pb-c.h"

#include <stdio.h>

enum {
    MAX_DEVICES = 1024, // far above a real node; more indicate a broken plugin
    MAX_HOLDERS = 1024, // per device
    MAX_NAME = 253,     // RFC 1123 subdomain
    MAX_KEYS = 8,       // maximum number of keys of one device
};

struct exporter_device_map {
    struct gs_hmap *devices; // key -> struct exporter_device_holders
    struct gs_hmap *merged;  // of devices with several keys; holders borrow their strings
    struct gs_hmap *unsure;  // "namespace/name" of pods with a device that was not found
    struct exporter_device_gaps gaps;
};

struct exporter_device_replicas {
    struct gs_hmap *counts; // key -> struct replica_count
};

struct replica_count {
    unsigned n;
    bool renamed; // through an unknown resource
};

// --- decoding with a memory limit ---

static void *arena_alloc(void *arena, size_t size)
{
    return gs_arena_alloc(arena, size ? size : 1);
}

static void arena_free(void *arena, void *p)
{
    (void)arena, (void)p; // freed together with the arena
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
    return gs_error_new(GS_EPROTO, "PodResources: the %s of %zu bytes cannot be decoded", what,
                        message.len);
}

// --- holders ---

static void claim_free(struct exporter_device_claim *c)
{
    if (!c)
        return;
    free(c->name);
    free(c->namespace_name);
    free(c->driver);
    free(c->pool);
    free(c->device);
    free(c->mig_uuid);
    free(c->mig_profile);
    free(c);
}

static void holders_free(void *p)
{
    struct exporter_device_holders *h = p;
    for (size_t i = 0; i < h->len; i++) {
        free(h->items[i].namespace_name);
        free(h->items[i].pod);
        free(h->items[i].container);
        claim_free(h->items[i].claim);
    }
    free(h->items);
    free(h);
}

static void merged_free(void *p)
{
    struct exporter_device_holders *h = p;
    free(h->items);
    free(h);
}

// The container whose devices are being read.
struct reader {
    struct exporter_device_map *map;
    const struct exporter_device_sources *sources;
    const char *const *extra;
    size_t n_extra;
    const char *ns, *pod, *container;
    const json_t *object; // of the pod; NULL: unknown
    bool renamed;         // second run: unknown resources
};

static struct exporter_device_holders *holders_of(struct exporter_device_map *m, const char *key)
{
    struct exporter_device_holders *h = gs_hmap_get_str(m->devices, key);
    if (h || gs_hmap_len(m->devices) == MAX_DEVICES)
        return h;
    h = gs_alloc(sizeof(*h));
    gs_hmap_put_str(m->devices, key, h);
    return h;
}

static bool same_claim(const struct exporter_device_claim *a, const struct exporter_device_claim *b)
{
    return a && b && gs_streq(a->name, b->name) && gs_streq(a->namespace_name, b->namespace_name) &&
           gs_streq(a->pool, b->pool) && gs_streq(a->device, b->device);
}

// Finds the holder of this container, or of its pod if both hold the device through the same claim.
static struct exporter_device_holder *find_same(struct exporter_device_holders *h,
                                                const struct reader *r,
                                                const struct exporter_device_claim *claim)
{
    for (size_t i = 0; i < h->len; i++) {
        struct exporter_device_holder *o = &h->items[i];
        if (gs_streq(o->namespace_name, r->ns) && gs_streq(o->pod, r->pod) &&
            (gs_streq(o->container, r->container) || same_claim(o->claim, claim)))
            return o;
    }
    return NULL;
}

// Adds a holder and takes its claim. The kubelet splits a device over several entries, one per NUMA
// node; they are merged. given: the part that the holder has.
static void add_holder(const struct reader *r, const char *key, struct exporter_device_holder given)
{
    struct exporter_device_holders *h = holders_of(r->map, key);
    struct exporter_device_holder *same = h ? find_same(h, r, given.claim) : NULL;
    if (same) {
        same->replicas += given.shared ? given.replicas : 0;
        same->memory_mib += given.memory_mib;
        if (!gs_streq(same->container, r->container)) { // through the same claim
            free(same->container);
            same->container = gs_strdup("");
        }
    }
    if (same || !h || h->len == MAX_HOLDERS) {
        claim_free(given.claim);
        return;
    }
    gs_grow(&h->items, &h->cap, h->len, sizeof(*h->items));
    given.namespace_name = gs_strdup(r->ns);
    given.pod = gs_strdup(r->pod);
    given.container = gs_strdup(r->container);
    h->items[h->len++] = given;
}

static void set_unsure(const struct reader *r)
{
    GS_AUTO_FREE char *name = gs_format("%s/%s", r->ns, r->pod);
    if (gs_hmap_len(r->map->unsure) < MAX_DEVICES)
        gs_hmap_put_str(r->map->unsure, name, r->map);
}

// --- annotations ---

static void add_grant(const struct reader *r, enum exporter_sharing sharing,
                      const struct exporter_annotation_grant *g, unsigned units)
{
    char key[EXPORTER_DEVICE_KEY_SIZE];
    if (g->uuid[0])
        snprintf(key, sizeof(key), "%.95s", g->uuid);
    else
        snprintf(key, sizeof(key), "%s%u", sharing == EXPORTER_SHARING_ALIYUN ? "nvidia" : "#",
                 g->number);
    add_holder(r, key,
               (struct exporter_device_holder){.shared = !g->whole,
                                               .replicas = g->whole   ? 1
                                                           : g->units ? g->units
                                                                      : units,
                                               .device_units = g->device_units,
                                               .memory_mib = g->memory_mib,
                                               .cores = g->whole ? 0 : g->cores});
}

static void add_by_annotation(const struct reader *r, enum exporter_sharing sharing, unsigned units,
                              bool whole)
{
    struct exporter_device_gaps *gaps = &r->map->gaps;
    struct exporter_annotation_grant grants[EXPORTER_GRANT_MAX];
    bool found = false;
    gaps->wants_pods = true;
    size_t n = r->object
                   ? exporter_annotation_grants(sharing, r->object, r->container, grants, &found)
                   : 0;
    for (size_t i = 0; i < n; i++) {
        grants[i].whole |= whole;
        add_grant(r, sharing, &grants[i], units);
    }
    if (n)
        return;
    set_unsure(r);
    if (gaps->pods++)
        return;
    snprintf(gaps->pod, sizeof(gaps->pod), "%.253s/%.253s", r->ns, r->pod);
    gaps->pod_sharing = sharing;
}

// --- device IDs ---

struct units {
    unsigned of[EXPORTER_SHARING_KINDS];
    bool whole; // whole GPUs, not parts of them
};

// HAMi does not change the IDs of MIG devices, but still selects the device itself.
static bool hami_chose(const struct reader *r)
{
    return r->object &&
           (codec_json_get(r->object, "metadata", "annotations", "hami.io/vgpu-devices-allocated",
                           NULL) ||
            codec_json_get(r->object, "metadata", "annotations", "4pd.io/vgpu-ids-new", NULL));
}

static void add_devices(const struct reader *r, const Podresources__ContainerDevices *d,
                        struct units *units)
{
    bool hami = gs_starts(d->resource_name, "nvidia.com/") && hami_chose(r);
    for (size_t i = 0; i < d->n_device_ids; i++) {
        struct exporter_device_id id;
        if (!exporter_device_id_parse(d->resource_name, gs_slice_of(d->device_ids[i]), &id))
            continue;
        if (id.sharing == EXPORTER_SHARING_NONE && hami)
            id.sharing = EXPORTER_SHARING_HAMI;
        units->of[id.sharing]++;
        units->whole |= gs_streq(d->resource_name, "volcano.sh/gpu-number");
        if (id.sharing != EXPORTER_SHARING_NONE)
            continue;
        struct exporter_device_holder given = {.shared = id.replica, .replicas = 1};
        memcpy(given.replica, id.mark, sizeof(given.replica));
        add_holder(r, id.key, given);
    }
}

// --- claims ---

// "vendor.com/class=GPU-…" identifies the device.
static bool key_of_cdi(const Podresources__ClaimResource *c, char *ret, size_t size)
{
    for (size_t i = 0; i < c->n_cdi_devices; i++) {
        const char *name = strchr(c->cdi_devices[i]->name, '=');
        if (name && strlen(name + 1) < size &&
            (gs_starts(name + 1, "GPU-") || gs_starts(name + 1, "MIG-"))) {
            memcpy(ret, name + 1, strlen(name + 1) + 1);
            return true;
        }
    }
    return false;
}

// By the ResourceSlice, otherwise by the names themselves.
static bool key_of_claim(const struct reader *r, const Podresources__ClaimResource *c,
                         struct exporter_device_slice *ret_slice, char *ret, size_t size)
{
    const struct exporter_device_sources *s = r->sources;
    *ret_slice = (struct exporter_device_slice){"", "", ""};
    if (!s || !s->slice || !s->slice(s->arg, c->pool_name, c->device_name, ret_slice))
        return key_of_cdi(c, ret, size) || exporter_device_key_of_claim(c->device_name, ret, size);
    if (ret_slice->uuid[0] && strlen(ret_slice->uuid) < size) {
        memcpy(ret, ret_slice->uuid, strlen(ret_slice->uuid) + 1);
        return true;
    }
    // MIG devices that are created for the claim have no UUID in the slice.
    return (ret_slice->parent_uuid[0] && ret_slice->profile[0] &&
            exporter_device_key_of_profile(ret_slice->parent_uuid, ret_slice->profile, ret,
                                           size)) ||
           exporter_device_key_of_claim(c->device_name, ret, size);
}

static struct exporter_device_claim *new_claim(const Podresources__DynamicResource *d,
                                               const Podresources__ClaimResource *c,
                                               const struct exporter_device_slice *slice)
{
    struct exporter_device_claim *claim = gs_alloc(sizeof(*claim));
    bool mig = gs_starts(slice->uuid, "MIG-") || slice->profile[0];
    *claim = (struct exporter_device_claim){
        .name = gs_strdup(d->claim_name),
        .namespace_name = gs_strdup(d->claim_namespace),
        .driver = gs_strdup(c->driver_name),
        .pool = gs_strdup(c->pool_name),
        .device = gs_strdup(c->device_name),
        .mig_uuid = gs_strdup(mig ? slice->uuid : ""),
        .mig_profile = gs_strdup(mig ? slice->profile : ""),
    };
    return claim;
}

static void add_claim(const struct reader *r, const Podresources__DynamicResource *d,
                      const Podresources__ClaimResource *c)
{
    struct exporter_device_gaps *gaps = &r->map->gaps;
    struct exporter_device_slice slice;
    char key[EXPORTER_DEVICE_KEY_SIZE];
    if (!gs_streq(c->driver_name, EXPORTER_DEVICE_CLAIM_DRIVER) ||
        strlen(c->pool_name) > MAX_NAME || strlen(c->device_name) > MAX_NAME)
        return;
    gaps->wants_slices = true;
    if (key_of_claim(r, c, &slice, key, sizeof(key))) {
        bool part = c->share_id[0] != '\0'; // one of several shares of the device
        add_holder(r, key,
                   (struct exporter_device_holder){
                       .shared = part, .replicas = 1, .claim = new_claim(d, c, &slice)});
        return;
    }
    set_unsure(r);
    if (!gaps->claims++)
        snprintf(gaps->claim, sizeof(gaps->claim), "%.120s/%.120s (%.120s/%.120s)",
                 d->claim_namespace, d->claim_name, c->pool_name, c->device_name);
}

static void add_claims(const struct reader *r, const Podresources__ContainerResources *container)
{
    for (size_t i = 0; i < container->n_dynamic_resources; i++) {
        const Podresources__DynamicResource *d = container->dynamic_resources[i];
        if (strlen(d->claim_name) > MAX_NAME || strlen(d->claim_namespace) > MAX_NAME)
            continue;
        for (size_t k = 0; k < d->n_claim_resources; k++)
            add_claim(r, d, d->claim_resources[k]);
    }
}

// --- IDs of unknown resources ---

static bool is_held_by_known(const struct exporter_device_map *m, const char *key)
{
    const struct exporter_device_holders *h = gs_hmap_get_str(m->devices, key);
    return h && h->len && !h->items[0].renamed;
}

static void add_renamed(const struct reader *r, const Podresources__ContainerDevices *d)
{
    struct exporter_device_gaps *gaps = &r->map->gaps;
    bool any = false;
    for (size_t i = 0; i < d->n_device_ids; i++) {
        struct exporter_device_id id;
        if (!exporter_device_id_renamed(d->resource_name, gs_slice_of(d->device_ids[i]), &id))
            continue;
        any = true;
        if (is_held_by_known(r->map, id.key))
            continue;
        struct exporter_device_holder given = {
            .shared = id.replica, .renamed = true, .replicas = 1};
        memcpy(given.replica, id.mark, sizeof(given.replica));
        add_holder(r, id.key, given);
    }
    if (!any && !gaps->resource[0] && exporter_device_resource_looks_like_gpu(d->resource_name))
        snprintf(gaps->resource, sizeof(gaps->resource), "%.100s", d->resource_name);
    if (!any && !gaps->nvidia[0] && exporter_device_resource_of_nvidia(d->resource_name))
        snprintf(gaps->nvidia, sizeof(gaps->nvidia), "%.100s", d->resource_name);
}

// --- reply ---

static void add_container_devices(const struct reader *r,
                                  const Podresources__ContainerResources *container)
{
    struct units units = {0};
    for (size_t i = 0; i < container->n_devices; i++) {
        const Podresources__ContainerDevices *d = container->devices[i];
        bool counts = exporter_device_resource_is_gpu(d->resource_name, r->extra, r->n_extra);
        if (counts && !r->renamed)
            add_devices(r, d, &units);
        else if (!counts && r->renamed)
            add_renamed(r, d);
    }
    if (r->renamed)
        return;
    for (enum exporter_sharing s = EXPORTER_SHARING_NONE + 1; s < EXPORTER_SHARING_KINDS; s++)
        if (units.of[s])
            add_by_annotation(r, s, units.of[s], s == EXPORTER_SHARING_VOLCANO && units.whole);
    add_claims(r, container);
}

static void add_pod_devices(struct reader *r, const Podresources__PodResources *pod)
{
    const struct exporter_device_sources *s = r->sources;
    if (strlen(pod->name) > MAX_NAME || strlen(pod->namespace_) > MAX_NAME)
        return;
    r->ns = pod->namespace_;
    r->pod = pod->name;
    r->object = s && s->pod ? s->pod(s->arg, r->ns, r->pod) : NULL;
    // Kubelets before 1.34 still list the devices of ended pods.
    if (r->object && kube_pod_has_ended(r->object))
        return;
    for (size_t c = 0; c < pod->n_containers; c++) {
        r->container = pod->containers[c]->name;
        if (strlen(r->container) <= MAX_NAME)
            add_container_devices(r, pod->containers[c]);
    }
}

struct gs_error *exporter_device_map_parse(struct gs_slice message, const char *const *extra,
                                           size_t n_extra,
                                           const struct exporter_device_sources *sources,
                                           struct exporter_device_map **ret)
{
    struct gs_arena arena = {.limit = EXPORTER_DEVICE_MAP_MAX_MEMORY};
    const Podresources__ListPodResourcesResponse *reply = (const void *)unpack(
        &podresources__list_pod_resources_response__descriptor, message, &arena);
    if (!reply) {
        gs_arena_finish(&arena);
        return unpack_error("List reply", message);
    }
    struct exporter_device_map *m = gs_alloc(sizeof(*m));
    m->devices = gs_hmap_new(holders_free);
    m->merged = gs_hmap_new(merged_free);
    m->unsure = gs_hmap_new(NULL);
    struct reader r = {.map = m, .sources = sources, .extra = extra, .n_extra = n_extra};
    for (int pass = 0; pass < 2; pass++) {
        r.renamed = pass == 1;
        for (size_t i = 0; i < reply->n_pod_resources; i++)
            add_pod_devices(&r, reply->pod_resources[i]);
    }
    gs_arena_finish(&arena);
    *ret = m;
    return NULL;
}

void exporter_device_map_free(struct exporter_device_map *m)
{
    if (!m)
        return;
    gs_hmap_free(m->merged);
    gs_hmap_free(m->devices);
    gs_hmap_free(m->unsure);
    free(m);
}

size_t exporter_device_map_len(const struct exporter_device_map *m)
{
    return gs_hmap_len(m->devices);
}

const struct exporter_device_gaps *exporter_device_map_gaps(const struct exporter_device_map *m)
{
    return &m->gaps;
}

bool exporter_device_map_is_complete(const struct exporter_device_map *m, const char *ns,
                                     const char *pod)
{
    GS_AUTO_FREE char *name = gs_format("%s/%s", ns, pod);
    return !gs_hmap_get_str(m->unsure, name);
}

// --- lookup ---

struct keys {
    char items[MAX_KEYS][EXPORTER_DEVICE_KEY_SIZE];
    size_t len;
};

static bool same_profile(const char *a, const char *b)
{
    char x[EXPORTER_DEVICE_KEY_SIZE], y[EXPORTER_DEVICE_KEY_SIZE];
    return exporter_device_key_of_profile("", a, x, sizeof(x)) &&
           exporter_device_key_of_profile("", b, y, sizeof(y)) && gs_streq(x, y);
}

// The profile identifies the MIG device only if no other one of the GPU has the same profile.
static bool only_of_profile(const struct gpu_device *d, const struct gpu_instance *instance)
{
    for (size_t i = 0; i < d->n_instances; i++)
        if (&d->instances[i] != instance &&
            same_profile(d->instances[i].profile, instance->profile))
            return false;
    return d->n_instances > 0;
}

static void GS_PRINTF(2, 3) add_key(struct keys *k, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(k->items[k->len], EXPORTER_DEVICE_KEY_SIZE, fmt, ap);
    va_end(ap);
    k->len += n > 0 && n < EXPORTER_DEVICE_KEY_SIZE;
}

static void add_profile_key(struct keys *k, const char *gpu, const char *profile)
{
    k->len +=
        exporter_device_key_of_profile(gpu, profile, k->items[k->len], EXPORTER_DEVICE_KEY_SIZE);
}

// Lists the keys under which the map may contain a GPU or MIG device.
static void list_keys(const struct gpu_device *d, const struct gpu_instance *instance,
                      struct keys *k)
{
    char node[32] = "";
    k->len = 0;
    if (d->has_minor)
        snprintf(node, sizeof(node), "nvidia%u", d->minor);
    if (!instance) {
        add_key(k, "%s", d->uuid);
        if (node[0])
            add_key(k, "%s", node);
        add_key(k, "#%u", d->index);
        return;
    }
    add_key(k, "%s", instance->uuid);
    if (instance->compute_instance_id) {
        add_key(k, "%s/gi%u/ci%u", d->uuid, instance->gpu_instance_id,
                instance->compute_instance_id);
        return;
    }
    add_key(k, "%s/gi%u", d->uuid, instance->gpu_instance_id);
    if (node[0])
        add_key(k, "%s/gi%u", node, instance->gpu_instance_id);
    if (!only_of_profile(d, instance))
        return;
    add_profile_key(k, d->uuid, instance->profile);
    if (node[0])
        add_profile_key(k, node, instance->profile);
}

static bool has_container(const struct exporter_device_holders *list,
                          const struct exporter_device_holder *h)
{
    for (size_t i = 0; i < list->len; i++)
        if (gs_streq(list->items[i].namespace_name, h->namespace_name) &&
            gs_streq(list->items[i].pod, h->pod) &&
            gs_streq(list->items[i].container, h->container))
            return true;
    return false;
}

static void append_holders(struct exporter_device_holders *to,
                           const struct exporter_device_holders *from)
{
    for (size_t i = 0; from && i < from->len; i++) {
        if (has_container(to, &from->items[i]))
            continue;
        gs_grow(&to->items, &to->cap, to->len, sizeof(*to->items));
        to->items[to->len++] = from->items[i];
    }
}

// Two plugins on a node may use different keys for the same GPU.
static const struct exporter_device_holders *merge(const struct exporter_device_map *m,
                                                   const struct keys *k)
{
    struct exporter_device_holders *all = gs_hmap_get_str(m->merged, k->items[0]);
    if (all)
        return all;
    all = gs_alloc(sizeof(*all));
    for (size_t i = 0; i < k->len; i++)
        append_holders(all, gs_hmap_get_str(m->devices, k->items[i]));
    gs_hmap_put_str(m->merged, k->items[0], all);
    return all;
}

const struct exporter_device_holders *exporter_device_map_find(const struct exporter_device_map *m,
                                                               const struct gpu_device *d,
                                                               const struct gpu_instance *instance)
{
    struct keys k;
    const struct exporter_device_holders *first = NULL;
    size_t found = 0;
    if (!m)
        return NULL;
    list_keys(d, instance, &k);
    for (size_t i = 0; i < k.len; i++) {
        const struct exporter_device_holders *h = gs_hmap_get_str(m->devices, k.items[i]);
        first = first ? first : h;
        found += h != NULL;
    }
    return found > 1 ? merge(m, &k) : first;
}

const struct exporter_device_holder *
exporter_device_holders_exclusive(const struct exporter_device_holders *h)
{
    return h && h->len == 1 && !h->items[0].shared ? &h->items[0] : NULL;
}

// --- replicas ---

static void count_device(struct exporter_device_replicas *r, const char *resource, const char *id,
                         bool renamed)
{
    struct exporter_device_id parsed;
    if (renamed ? !exporter_device_id_renamed(resource, gs_slice_of(id), &parsed)
                : !exporter_device_id_parse(resource, gs_slice_of(id), &parsed))
        return;
    struct replica_count *c = gs_hmap_get_str(r->counts, parsed.key);
    if (!c) {
        if (gs_hmap_len(r->counts) == MAX_DEVICES)
            return;
        c = gs_alloc(sizeof(*c));
        c->renamed = renamed;
        gs_hmap_put_str(r->counts, parsed.key, c);
    }
    c->n += c->renamed == renamed;
}

struct gs_error *exporter_device_replicas_parse(struct gs_slice message, const char *const *extra,
                                                size_t n_extra,
                                                struct exporter_device_replicas **ret)
{
    struct gs_arena arena = {.limit = EXPORTER_DEVICE_MAP_MAX_MEMORY};
    const Podresources__AllocatableResourcesResponse *reply = (const void *)unpack(
        &podresources__allocatable_resources_response__descriptor, message, &arena);
    if (!reply) {
        gs_arena_finish(&arena);
        return unpack_error("GetAllocatableResources reply", message);
    }
    struct exporter_device_replicas *r = gs_alloc(sizeof(*r));
    r->counts = gs_hmap_new(free);
    for (int renamed = 0; renamed < 2; renamed++) {
        for (size_t i = 0; i < reply->n_devices; i++) {
            const Podresources__ContainerDevices *d = reply->devices[i];
            if (exporter_device_resource_is_gpu(d->resource_name, extra, n_extra) == renamed)
                continue;
            for (size_t k = 0; k < d->n_device_ids; k++)
                count_device(r, d->resource_name, d->device_ids[k], renamed);
        }
    }
    gs_arena_finish(&arena);
    *ret = r;
    return NULL;
}

void exporter_device_replicas_free(struct exporter_device_replicas *r)
{
    if (!r)
        return;
    gs_hmap_free(r->counts);
    free(r);
}

unsigned exporter_device_replicas_find(const struct exporter_device_replicas *r,
                                       const struct gpu_device *d,
                                       const struct gpu_instance *instance)
{
    struct keys k;
    const struct replica_count *c = NULL;
    if (!r)
        return 0;
    list_keys(d, instance, &k);
    for (size_t i = 0; i < k.len && !c; i++)
        c = gs_hmap_get_str(r->counts, k.items[i]);
    return c ? c->n : 0;
}
