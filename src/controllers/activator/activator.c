// SPDX-License-Identifier: Apache-2.0
// The Services with the annotation, each with a gate of its own.
#include "activator/activator_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

// A Service without the annotation, until its EndpointSlice is deleted.
struct activator_leaving {
    struct activator *activator;
    struct activator_service *service;
    struct activator_leaving *next;
};

static void free_service(void *service)
{
    activator_service_free(service);
}

// --- Services ---

static void trim_service(json_t *service)
{
    json_object_del(json_object_get(service, "metadata"), "managedFields");
    json_object_del(service, "status");
}

// Whether a change of the Service leaves what a mistake can be in.
static bool same_settings(const json_t *a, const json_t *b)
{
    const char *of_a = kube_annotation(a, ACTIVATOR_ANNOTATION);
    const char *of_b = kube_annotation(b, ACTIVATOR_ANNOTATION);
    return of_a && of_b && gs_streq(of_a, of_b) &&
           json_equal(json_object_get(a, "spec"), json_object_get(b, "spec"));
}

static bool same_annotations(const json_t *a, const json_t *b)
{
    const json_t *of_a = codec_json_get(a, "metadata", "annotations", NULL);
    const json_t *of_b = codec_json_get(b, "metadata", "annotations", NULL);
    return of_a == of_b || json_equal(of_a, of_b);
}

// False: the Service is not activated. If its annotation is wrong, an event says so.
static bool read_target(struct activator *a, const json_t *before, const json_t *service,
                        struct activator_target *ret)
{
    bool wanted = kube_annotation(service, ACTIVATOR_ANNOTATION) != NULL;
    if (kube_is_deleting(service))
        return false;
    GS_AUTO_ERROR struct gs_error *err =
        wanted ? activator_target_read(service, ret) : activator_check_annotations(service);
    if (!err)
        return wanted;
    if (before && (wanted ? same_settings(before, service) : same_annotations(before, service)))
        return false;
    gs_warn("activator", "Service %s/%s: %s", kube_namespace(service), kube_name(service),
            gs_error_message(err));
    kube_event(a->env.recorder, service, "Warning", "NotActivated", "%s", gs_error_message(err));
    return false;
}

static void forget(void *arg)
{
    struct activator_leaving *l = arg;
    struct activator_leaving **at = &l->activator->leaving;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    activator_service_free(l->service);
    free(l);
}

static void add_item(struct activator *a, const char *key, const json_t *service,
                     struct activator_target *target);

// A Service above the limit takes the place of the one that has left.
static void fill_place(struct activator *a, const char *left)
{
    size_t pos = 0;
    const json_t *service;
    while (gs_hmap_len(a->items) < a->env.cfg.max_services &&
           (service = kube_cache_next(a->services, &pos))) {
        GS_AUTO_FREE char *key = kube_key(service);
        struct activator_target target = {0};
        if (!gs_streq(key, left) && !gs_hmap_get_str(a->items, key) &&
            read_target(a, service, service, &target))
            add_item(a, key, service, &target);
    }
}

// Its EndpointSlice is deleted first: the Service may go on without the annotation.
static void remove_item(struct activator *a, const char *key)
{
    bool full = gs_hmap_len(a->items) >= a->env.cfg.max_services;
    struct activator_service *s = gs_hmap_remove_str(a->items, key);
    if (!s)
        return;
    struct activator_leaving *l = gs_alloc(sizeof(*l));
    *l = (struct activator_leaving){a, s, a->leaving};
    a->leaving = l;
    activator_service_withdraw(s, forget, l);
    if (full)
        fill_place(a, key);
}

static void add_item(struct activator *a, const char *key, const json_t *service,
                     struct activator_target *target)
{
    if (gs_hmap_len(a->items) >= a->env.cfg.max_services) {
        gs_warn("activator", "Service %s: not activated, because %zu others are (--max-services)",
                key, gs_hmap_len(a->items));
        kube_event(a->env.recorder, service, "Warning", "NotActivated",
                   "the activator serves at most %zu Services (--max-services)",
                   a->env.cfg.max_services);
        activator_target_finish(target);
        return;
    }
    gs_hmap_put_str(a->items, key, activator_service_new(&a->env, service, target));
}

static void on_service(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct activator *a = arg;
    GS_AUTO_FREE char *key = kube_key(new_obj ? new_obj : old_obj);
    struct activator_service *s = gs_hmap_get_str(a->items, key);
    struct activator_target target = {0};
    if (a->stopped)
        return;
    if (!new_obj || !read_target(a, old_obj, new_obj, &target)) {
        remove_item(a, key);
        return;
    }
    bool same = s && activator_service_has_target(s, &target) &&
                gs_streq(kube_uid(activator_service_object(s)), kube_uid(new_obj));
    if (same) {
        activator_target_finish(&target);
        activator_service_update(s, new_obj);
        return;
    }
    if (s)
        activator_service_free(gs_hmap_remove_str(a->items, key));
    add_item(a, key, new_obj, &target);
}

// --- EndpointSlices of Services that lost the annotation while no activator ran ---

static void on_own_slices(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator *a = arg;
    size_t i;
    const json_t *slice;
    (void)status;
    a->orphans = NULL;
    if (err)
        gs_warn("activator", "EndpointSlices of earlier activators: %s", gs_error_message(err));
    gs_error_free(err);
    json_array_foreach (json_object_get(body, "items"), i, slice) {
        const char *name = kube_label(slice, ACTIVATOR_LABEL_SERVICE);
        const char *ns = kube_namespace(slice);
        const json_t *service = name ? kube_cache_get(a->services, ns, name) : NULL;
        if (!service || kube_annotation(service, ACTIVATOR_ANNOTATION))
            continue;
        gs_info("activator", "EndpointSlice %s/%s: the Service %s is not activated any more", ns,
                kube_name(slice), name);
        kube_delete(a->env.client, ACTIVATOR_SLICES, ns, kube_name(slice), -1, NULL, NULL);
    }
}

static void find_orphans(void *arg)
{
    struct activator *a = arg;
    a->orphans =
        kube_list(a->env.client, ACTIVATOR_SLICES, a->ns,
                  "labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3D" ACTIVATOR_MANAGER,
                  on_own_slices, a);
}

// --- the activator ---

struct activator *activator_new(uv_loop_t *loop, struct kube_client *client,
                                const struct activator_config *cfg)
{
    struct activator *a = gs_alloc(sizeof(*a));
    const struct kube_cache_handlers handlers = {
        .on_change = on_service, .on_synced = find_orphans, .arg = a};
    a->env = (struct activator_env){
        .loop = loop, .client = client, .cfg = *cfg, .budget = {cfg->max_total_bytes}};
    a->env.cfg.ns = a->ns = gs_strdup(cfg->ns);
    a->env.cfg.identity = a->identity = gs_strdup(cfg->identity);
    a->env.cfg.pod_ns = a->pod_ns = gs_strdup(cfg->pod_ns);
    a->env.cfg.listen = a->listen = gs_strdup(cfg->listen);
    a->env.cfg.node = a->node = gs_strdup(cfg->node);
    a->env.cfg.advertise = a->advertise = gs_strdup(cfg->advertise);
    a->env.cfg.second = a->second = gs_strdup(cfg->second);
    a->env.peers = activator_peers_new(&a->env);
    a->env.starts = startup_learner_new();
    a->env.recorder = kube_recorder_new(client, "activator", NULL);
    a->items = gs_hmap_new(free_service);
    a->services = kube_cache_new(loop, client, KUBE_SERVICES, a->ns, NULL);
    kube_cache_set_trim(a->services, trim_service);
    kube_cache_add_handlers(a->services, &handlers);
    a->errors = kube_watch_errors_new(loop, a->services, "activator", "Services");
    kube_cache_start(a->services);
    return a;
}

static void on_withdrawn(void *arg)
{
    struct activator *a = arg;
    if (--a->n_withdrawing == 0)
        a->stopped(a->stopped_arg);
}

void activator_stop(struct activator *a, void (*done)(void *arg), void *arg)
{
    size_t pos = 0;
    void *s;
    a->stopped = done;
    a->stopped_arg = arg;
    a->n_withdrawing = gs_hmap_len(a->items);
    if (!a->n_withdrawing)
        done(arg);
    while (gs_hmap_next(a->items, &pos, NULL, &s))
        activator_service_withdraw(s, on_withdrawn, a);
}

void activator_free(struct activator *a)
{
    if (!a)
        return;
    kube_request_cancel(a->orphans);
    kube_watch_errors_free(a->errors);
    kube_cache_free(a->services);
    gs_hmap_free(a->items);
    while (a->leaving)
        forget(a->leaving); // NOLINT(clang-analyzer-unix.Malloc)
    kube_recorder_free(a->env.recorder);
    free(a->ns);
    free(a->identity);
    free(a->pod_ns);
    activator_peers_free(a->env.peers);
    startup_learner_free(a->env.starts);
    json_decref(a->env.nodes);
    free(a->node);
    free(a->listen);
    free(a->advertise);
    free(a->second);
    free(a);
}

bool activator_synced(const struct activator *a)
{
    return kube_cache_synced(a->services);
}

size_t activator_connections(const struct activator *a)
{
    size_t pos = 0, n = 0;
    void *s;
    while (gs_hmap_next(a->items, &pos, NULL, &s)) {
        struct activator_gate_stats g;
        activator_service_stats(s, &g);
        n += g.waiting + g.silent + g.open;
    }
    return n;
}

json_t *activator_json(const struct activator *a)
{
    json_t *list = json_array();
    size_t pos = 0;
    void *s;
    while (gs_hmap_next(a->items, &pos, NULL, &s))
        json_array_append_new(list, activator_service_json(s));
    return list;
}
