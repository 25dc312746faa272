// SPDX-License-Identifier: Apache-2.0
// ResourceSlices of NVIDIA's DRA driver, which name the GPU of a claim. The newest API version
// that the cluster serves is used; devices are indexed after a change, when they are first needed.
#include "exporter/attribution.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/cache.h"

enum { RETRY_MS = 30000, MAX_TEXT = 127 };

struct exporter_resource_slices {
    uv_loop_t *loop;
    struct kube_client *kube;
    char *query;
    void (*on_change)(void *arg);
    void *arg;
    struct kube_request *discovery;
    struct gs_timer *timer;
    struct kube_cache *cache;
    struct gs_hmap *devices; // "pool/device" -> JSON of the device; rebuilt after a change
    bool stale;
    char *problem; // of the discovery
    bool denied;
};

// --- API version ---

static void on_cache_change(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct exporter_resource_slices *s = arg;
    (void)old_obj, (void)new_obj;
    s->stale = true;
    s->on_change(s->arg);
}

static void start_cache(struct exporter_resource_slices *s, const char *version)
{
    struct kube_gvr slices = {"resource.k8s.io", version, "resourceslices"};
    struct kube_cache_handlers handlers = {.on_change = on_cache_change, .arg = s};
    s->cache = kube_cache_new(s->loop, s->kube, slices, NULL, s->query);
    kube_cache_add_handlers(s->cache, &handlers);
    kube_cache_start(s->cache);
}

// The newest supported version, a static string; NULL: none.
static const char *choose(const json_t *group)
{
    static const char *const known[] = {"v1", "v1beta2", "v1beta1"};
    size_t at;
    json_t *version;
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        json_array_foreach (codec_json_get(group, "versions", NULL), at, version)
            if (gs_streq(codec_json_str(version, "version", NULL), known[i]))
                return known[i];
    return NULL;
}

static void request_api_group(struct exporter_resource_slices *s);

static void on_retry(void *arg)
{
    request_api_group(arg);
}

static void on_group(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct exporter_resource_slices *s = arg;
    s->discovery = NULL;
    free(s->problem);
    s->problem = NULL;
    s->denied = err && gs_error_code(err) == GS_EPERM;
    const char *version = err ? NULL : choose(body);
    if (version) {
        start_cache(s, version);
        return;
    }
    s->problem = err && status != 404
                     ? gs_format("resource.k8s.io: %s", gs_error_message(err))
                     : gs_strdup("the API server has no resource.k8s.io/v1, v1beta2 or v1beta1");
    gs_error_free(err);
    gs_timer_start(s->timer, on_retry, RETRY_MS);
}

static void request_api_group(struct exporter_resource_slices *s)
{
    s->discovery = kube_raw_get(s->kube, "/apis/resource.k8s.io", on_group, s);
}

struct exporter_resource_slices *
exporter_resource_slices_new(uv_loop_t *loop, struct kube_client *kube, const char *node_name,
                             void (*on_change)(void *arg), void *arg)
{
    struct exporter_resource_slices *s = gs_alloc(sizeof(*s));
    *s = (struct exporter_resource_slices){
        .loop = loop, .kube = kube, .on_change = on_change, .arg = arg};
    s->query = gs_format("fieldSelector=spec.driver%%3D" EXPORTER_DEVICE_CLAIM_DRIVER "%s%s",
                         node_name ? "%2Cspec.nodeName%3D" : "", node_name ? node_name : "");
    s->devices = gs_hmap_new(NULL);
    s->timer = gs_timer_new(loop, s);
    request_api_group(s);
    return s;
}

void exporter_resource_slices_free(struct exporter_resource_slices *s)
{
    if (!s)
        return;
    kube_request_cancel(s->discovery);
    gs_timer_free(s->timer);
    gs_hmap_free(s->devices); // borrows from the cache
    kube_cache_free(s->cache);
    free(s->query);
    free(s->problem);
    free(s);
}

// --- devices ---

// A slice of an older generation will be deleted.
static int64_t newest_generation(const struct exporter_resource_slices *s, const char *pool)
{
    size_t pos = 0;
    int64_t newest = 0;
    for (const json_t *o; (o = kube_cache_next(s->cache, &pos));) {
        int64_t generation = codec_json_int(o, 0, "spec", "pool", "generation", NULL);
        if (generation > newest && gs_streq(codec_json_str(o, "spec", "pool", "name", NULL), pool))
            newest = generation;
    }
    return newest;
}

static void index_slice(struct exporter_resource_slices *s, const json_t *o)
{
    const char *pool = codec_json_str(o, "spec", "pool", "name", NULL);
    if (!pool ||
        !gs_streq(codec_json_str(o, "spec", "driver", NULL), EXPORTER_DEVICE_CLAIM_DRIVER) ||
        codec_json_int(o, 0, "spec", "pool", "generation", NULL) < newest_generation(s, pool))
        return;
    size_t i;
    json_t *device;
    json_array_foreach (codec_json_get(o, "spec", "devices", NULL), i, device) {
        const char *name = codec_json_str(device, "name", NULL);
        GS_AUTO_FREE char *key = gs_format("%s/%s", pool, name ? name : "");
        if (name)
            gs_hmap_put_str(s->devices, key, device);
    }
}

static void index_all(struct exporter_resource_slices *s)
{
    size_t pos = 0;
    gs_hmap_clear(s->devices);
    for (const json_t *o; (o = kube_cache_next(s->cache, &pos));)
        index_slice(s, o);
    s->stale = false;
}

// In v1beta1 attributes are one level deeper. A name may have a domain prefix.
static const char *attribute(const json_t *device, const char *name)
{
    GS_AUTO_FREE char *qualified = gs_format(EXPORTER_DEVICE_CLAIM_DRIVER "/%s", name);
    const json_t *all = codec_json_get(device, "attributes", NULL);
    if (!all)
        all = codec_json_get(device, "basic", "attributes", NULL);
    const char *text = codec_json_str(all, name, "string", NULL);
    if (!text)
        text = codec_json_str(all, qualified, "string", NULL);
    return text && strlen(text) <= MAX_TEXT ? text : "";
}

bool exporter_resource_slices_find(struct exporter_resource_slices *s, const char *pool,
                                   const char *device, struct exporter_device_slice *ret)
{
    if (!s->cache)
        return false;
    if (s->stale)
        index_all(s);
    GS_AUTO_FREE char *key = gs_format("%s/%s", pool, device);
    const json_t *found = gs_hmap_get_str(s->devices, key);
    if (!found)
        return false;
    *ret = (struct exporter_device_slice){
        .uuid = attribute(found, "uuid"),
        .parent_uuid = attribute(found, "parentUUID"),
        .profile = attribute(found, "profile"),
    };
    return true;
}

const char *exporter_resource_slices_problem(const struct exporter_resource_slices *s)
{
    return s->cache ? kube_cache_error(s->cache) : s->problem;
}

bool exporter_resource_slices_denied(const struct exporter_resource_slices *s)
{
    return s->cache ? kube_cache_denied(s->cache) : s->denied;
}
