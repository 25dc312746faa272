// SPDX-License-Identifier: Apache-2.0
// Device ids and resources: local/pod.h.
#include "base/mem.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

static struct gs_slice physical(const char *id)
{
    const char *end = strstr(id, "::");
    return gs_slice_make(id, end ? (size_t)(end - id) : strlen(id));
}

void controllers_filter_devices_init(struct controllers_filter_devices *d, const char *const *ids,
                                     size_t n)
{
    d->len = n;
    d->items = gs_alloc_array(n + 1, sizeof(*d->items));
    d->used = gs_alloc_array(n + 1, sizeof(*d->used));
    for (size_t i = 0; i < n; i++) {
        d->items[i] = (struct controllers_filter_device){.id = gs_strdup(ids[i]), .gpu = i};
        for (size_t k = 0; k < i; k++) {
            if (gs_slice_eq(physical(ids[k]), physical(ids[i]))) {
                d->items[i].gpu = d->items[k].gpu;
                break;
            }
        }
    }
}

void controllers_filter_devices_finish(struct controllers_filter_devices *d)
{
    for (size_t i = 0; i < d->len; i++)
        free(d->items[i].id);
    free(d->items);
    free(d->used);
    *d = (struct controllers_filter_devices){0};
}

void controllers_filter_devices_release_all(struct controllers_filter_devices *d)
{
    for (size_t i = 0; i < d->len; i++) {
        d->items[i].taken = false;
        d->used[i] = 0;
    }
}

static void take(struct controllers_filter_devices *d, struct controllers_filter_device *dev)
{
    if (dev->taken)
        return;
    dev->taken = true;
    d->used[dev->gpu]++;
}

static struct controllers_filter_device *find(struct controllers_filter_devices *d, const char *id)
{
    for (size_t i = 0; i < d->len; i++)
        if (gs_streq(d->items[i].id, id))
            return &d->items[i];
    return NULL;
}

void controllers_filter_devices_take(struct controllers_filter_devices *d, const json_t *assignment)
{
    const char *container;
    json_t *ids, *id;
    size_t i;
    json_object_foreach ((json_t *)assignment, container, ids) {
        json_array_foreach (ids, i, id) {
            struct controllers_filter_device *dev = find(d, json_string_value(id));
            if (dev)
                take(d, dev);
        }
    }
}

// The free device on the GPU with the fewest devices of this container, then of all containers.
static struct controllers_filter_device *pick(struct controllers_filter_devices *d,
                                              const char *resource, const size_t *given)
{
    struct controllers_filter_device *best = NULL;
    for (size_t i = 0; i < d->len; i++) {
        struct controllers_filter_device *dev = &d->items[i];
        bool renamed = d->slices_renamed && local_gpu_is_slice(dev->id);
        if (dev->taken || !gs_streq(resource, renamed ? LOCAL_GPU_SHARED : LOCAL_GPU))
            continue;
        if (!best || given[dev->gpu] < given[best->gpu] ||
            (given[dev->gpu] == given[best->gpu] && d->used[dev->gpu] < d->used[best->gpu]))
            best = dev;
    }
    return best;
}

static void give_back_ids(struct controllers_filter_devices *d, const json_t *ids)
{
    size_t i;
    json_t *id;
    json_array_foreach ((json_t *)ids, i, id) {
        struct controllers_filter_device *dev = find(d, json_string_value(id));
        if (dev && dev->taken) {
            dev->taken = false;
            d->used[dev->gpu]--;
        }
    }
}

static void give_back(struct controllers_filter_devices *d, const json_t *assignment)
{
    const char *container;
    json_t *ids;
    json_object_foreach ((json_t *)assignment, container, ids)
        give_back_ids(d, ids);
}

static json_t *assign_some(struct controllers_filter_devices *d, const char *resource, int64_t n)
{
    GS_AUTO_FREE size_t *given = gs_alloc_array(d->len + 1, sizeof(size_t));
    CODEC_AUTO_JSON json_t *ids = json_array();
    for (int64_t i = 0; i < n; i++) {
        struct controllers_filter_device *dev = pick(d, resource, given);
        if (!dev) {
            give_back_ids(d, ids);
            return NULL;
        }
        take(d, dev);
        given[dev->gpu]++;
        json_array_append_new(ids, json_string(dev->id));
    }
    return GS_TAKE(ids);
}

static const char *const resources[] = {LOCAL_GPU, LOCAL_GPU_SHARED};

static int64_t gpus_wanted(const json_t *container)
{
    int64_t n = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(resources); i++)
        n += local_container_gpus(container, resources[i]);
    return n;
}

// Of each resource as many as the container requests. NULL: too few are free.
static json_t *assign_container(struct controllers_filter_devices *d, const json_t *container)
{
    CODEC_AUTO_JSON json_t *ids = json_array();
    for (size_t i = 0; i < GS_ARRAY_LEN(resources); i++) {
        CODEC_AUTO_JSON json_t *some =
            assign_some(d, resources[i], local_container_gpus(container, resources[i]));
        if (!some) {
            give_back_ids(d, ids);
            return NULL;
        }
        json_array_extend(ids, some);
    }
    return GS_TAKE(ids);
}

static bool contains(const json_t *ids, const json_t *id)
{
    size_t i;
    json_t *one;
    json_array_foreach ((json_t *)ids, i, one) {
        if (json_equal(one, id))
            return true;
    }
    return false;
}

// Init containers run before the others and one at a time: they use the pod's devices.
static bool assign_init(struct controllers_filter_devices *d, const json_t *container,
                        json_t *assignment)
{
    int64_t wanted = gpus_wanted(container);
    const char *resource =
        local_container_gpus(container, LOCAL_GPU_SHARED) > 0 ? LOCAL_GPU_SHARED : LOCAL_GPU;
    const char *name = codec_json_str(container, "name", NULL), *other;
    if (wanted <= 0 || !name)
        return true;
    CODEC_AUTO_JSON json_t *mine = json_array();
    json_t *ids, *id;
    size_t i;
    json_object_foreach (assignment, other, ids) {
        json_array_foreach (ids, i, id) {
            if ((int64_t)json_array_size(mine) < wanted && !contains(mine, id))
                json_array_append(mine, id);
        }
    }
    CODEC_AUTO_JSON json_t *more =
        assign_some(d, resource, wanted - (int64_t)json_array_size(mine));
    if (!more)
        return false;
    json_array_extend(mine, more);
    json_object_set(assignment, name, mine);
    return true;
}

bool controllers_filter_devices_assign(struct controllers_filter_devices *d, const json_t *pod,
                                       json_t **ret_assignment)
{
    CODEC_AUTO_JSON json_t *assignment = json_object();
    size_t i;
    json_t *container;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        const char *name = codec_json_str(container, "name", NULL);
        if (gpus_wanted(container) <= 0 || !name)
            continue;
        json_t *ids = assign_container(d, container);
        if (!ids) {
            give_back(d, assignment);
            return false;
        }
        json_object_set_new(assignment, name, ids);
    }
    json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), i, container) {
        if (!assign_init(d, container, assignment)) {
            give_back(d, assignment);
            return false;
        }
    }
    *ret_assignment = json_object_size(assignment) ? GS_TAKE(assignment) : NULL;
    return true;
}
