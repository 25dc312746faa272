// SPDX-License-Identifier: Apache-2.0
// One Service: listens for its ports, follows its EndpointSlices, gives the ready endpoints to the
// gate, and keeps the own EndpointSlice as it should be. One write is under way at a time; after
// it, the slice is compared again with the newest state.
#include "activator/activator_private.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define RETRY_FIRST_MS 200
#define RETRY_LAST_MS  10000
#define CORRECT_MS     2000 // between corrections of a slice that somebody else changes

struct activator_service {
    struct activator_env *env;
    json_t *object;
    struct activator_target target;
    struct activator_gate *gate;
    struct activator_progress *progress;
    struct activator_peers *peers;
    struct activator_port ports[ACTIVATOR_MAX_PORTS];
    size_t n_ports;
    struct kube_cache *slices; // of the Service, of all controllers
    struct kube_watch_errors *errors;
    size_t ready;       // endpoints
    int64_t waiting_ns; // monotonic time since when something waits; 0: nothing does
    uint64_t released;  // at this time
    struct kube_request *write;
    struct gs_timer *timer; // of the next attempt to write
    int64_t retry_ms;       // of the timer after a failure; 0: the last write did not fail
    bool changed;           // something, while `write` was under way
    json_t *written;        // what was written last
    int64_t written_ns;
    bool withdrawn, deleting;        // deleting: `write` deletes the slice
    void (*on_withdrawn)(void *arg); // NULL: it was called
    void *withdrawn_arg;
};

// --- the own EndpointSlice ---

static const json_t *own_slice(const struct activator_service *s)
{
    GS_AUTO_FREE char *name = activator_slice_name(kube_name(s->object), s->env->cfg.identity);
    return kube_cache_get(s->slices, kube_namespace(s->object), name);
}

static void publish(void *arg);

static void write_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct activator_service *s = arg;
    (void)body;
    bool deleted = s->deleting && (!err || status == 404);
    s->write = NULL;
    s->deleting = false;
    if (deleted) {
        void (*done)(void *arg) = s->on_withdrawn;
        gs_error_free(err);
        s->on_withdrawn = NULL;
        done(s->withdrawn_arg); // may free it
        return;
    }
    if (err && status != 409 && status != 404)
        gs_warn("activator", "EndpointSlice of the Service %s/%s: %s", kube_namespace(s->object),
                kube_name(s->object), gs_error_message(err));
    s->retry_ms = err ? gs_backoff_next(s->retry_ms, RETRY_FIRST_MS, RETRY_LAST_MS) : 0;
    if (err) // nothing was written
        json_decref(GS_TAKE(s->written));
    gs_error_free(err);
    // The cache may not have the written object yet: its change publishes again if necessary.
    if (s->retry_ms || s->withdrawn || s->changed)
        gs_timer_start(s->timer, publish, (uint64_t)s->retry_ms);
}

static void write_slice(struct activator_service *s, const json_t *have, json_t *want)
{
    struct kube_client *c = s->env->client;
    const char *ns = kube_namespace(s->object), *name = kube_name(want);
    if (!have) {
        s->write = kube_create(c, ACTIVATOR_SLICES, ns, want, write_done, s);
        return;
    }
    codec_json_set(want, json_string(kube_resource_version(have)), "metadata", "resourceVersion",
                   NULL);
    s->write = kube_update(c, ACTIVATOR_SLICES, ns, name, NULL, want, write_done, s);
}

static void withdraw(struct activator_service *s)
{
    GS_AUTO_FREE char *name = activator_slice_name(kube_name(s->object), s->env->cfg.identity);
    s->deleting = true;
    s->write = kube_delete(s->env->client, ACTIVATOR_SLICES, kube_namespace(s->object), name, -1,
                           write_done, s);
}

// What was written is there no more: somebody else changes the EndpointSlice. Two that correct each
// other must not do so without a pause. True: it is corrected later.
static bool waits_to_correct(struct activator_service *s, const json_t *want)
{
    int64_t age_ms = (gs_mono_ns() - s->written_ns) / GS_NS_PER_MS;
    if (!s->written || !json_equal(s->written, want))
        return false;
    if (age_ms < CORRECT_MS) { // or the cache does not have it yet
        gs_timer_start(s->timer, publish, (uint64_t)(CORRECT_MS - age_ms));
        return true;
    }
    gs_warn("activator", "EndpointSlice %s of the Service %s/%s was changed by somebody else",
            kube_name(want), kube_namespace(s->object), kube_name(s->object));
    return false;
}

static void publish(void *arg)
{
    struct activator_service *s = arg;
    s->changed = s->write != NULL;
    if (s->write || !kube_cache_synced(s->slices))
        return;
    if (s->withdrawn) {
        if (s->on_withdrawn)
            withdraw(s);
        return;
    }
    const json_t *have = own_slice(s);
    CODEC_AUTO_JSON json_t *want =
        activator_slice_make(s->object, &s->env->cfg, s->ports, s->n_ports, s->ready > 0);
    if (activator_slice_is(have, want)) {
        s->retry_ms = 0;
        return;
    }
    if (waits_to_correct(s, want))
        return;
    json_decref(s->written);
    s->written = json_deep_copy(want);
    s->written_ns = gs_mono_ns();
    write_slice(s, have, want);
}

void activator_service_withdraw(struct activator_service *s, void (*done)(void *arg), void *arg)
{
    s->withdrawn = true;
    s->on_withdrawn = done;
    s->withdrawn_arg = arg;
    gs_timer_start(s->timer, publish, 0);
}

// --- endpoints ---

static size_t set_port(struct activator_service *s, size_t index)
{
    struct activator_address *items = NULL;
    size_t n = 0, cap = 0, pos = 0;
    const json_t *slice;
    while ((slice = kube_cache_next(s->slices, &pos)))
        activator_slice_endpoints(slice, s->ports[index].name, &items, &n, &cap);
    activator_gate_set(s->gate, index, items, n);
    free(items);
    return n;
}

static void follow_endpoints(struct activator_service *s)
{
    size_t most = 0;
    for (size_t i = 0; i < s->n_ports; i++) {
        size_t n = set_port(s, i);
        most = n > most ? n : most;
    }
    if (!most != !s->ready)
        gs_info("activator", "Service %s/%s: %s", kube_namespace(s->object), kube_name(s->object),
                most ? "a pod is ready, new connections go to it"
                     : "no pod is ready, new connections are held");
    s->ready = most;
    if (most)
        activator_progress_ready(s->progress);
}

static void on_slice(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct activator_service *s = arg;
    (void)old_obj, (void)new_obj;
    if (!kube_cache_synced(s->slices))
        return;
    follow_endpoints(s);
    activator_peers_check(s->peers);
    if (!s->retry_ms) // else the timer does, after a failure
        publish(s);
}

// --- ports ---

// The same port after a restart, so that clients of the old EndpointSlice reach this process.
static uint16_t preferred_port(const struct activator_service *s, const struct activator_port *p)
{
    const struct activator_config *cfg = &s->env->cfg;
    GS_AUTO_FREE char *key =
        gs_format("%s/%s:%d", kube_namespace(s->object), kube_name(s->object), p->number);
    uint16_t had = activator_slice_port(own_slice(s), p->name);
    if (!cfg->first_port || (had >= cfg->first_port && had <= cfg->last_port))
        return had;
    unsigned span = (unsigned)cfg->last_port - cfg->first_port + 1;
    return (uint16_t)(cfg->first_port + gs_hash(key, strlen(key)) % span);
}

static void listen_port(struct activator_service *s, size_t index)
{
    const struct activator_config *cfg = &s->env->cfg;
    struct activator_port *p = &s->ports[index];
    unsigned span = cfg->first_port ? (unsigned)cfg->last_port - cfg->first_port + 1 : 2;
    uint16_t port = preferred_port(s, p);
    struct gs_error *err = NULL;
    for (unsigned i = 0; i < span; i++) {
        gs_error_free(err);
        p->listening = port;
        err = activator_gate_listen(s->gate, index, cfg->listen, &p->listening);
        if (!err)
            return;
        port = !cfg->first_port         ? 0
               : port == cfg->last_port ? cfg->first_port
                                        : (uint16_t)(port + 1);
    }
    p->listening = 0;
    gs_err("activator", "Service %s/%s: %s", kube_namespace(s->object), kube_name(s->object),
           gs_error_message(err));
    gs_error_free(err);
}

static void free_ports(struct activator_service *s)
{
    for (size_t i = 0; i < s->n_ports; i++)
        free(s->ports[i].name);
    s->n_ports = 0;
}

static void read_ports(struct activator_service *s)
{
    size_t i;
    const json_t *p;
    json_array_foreach (codec_json_get(s->object, "spec", "ports", NULL), i, p) {
        const char *protocol = codec_json_str(p, "protocol", NULL);
        const char *name = codec_json_str(p, "name", NULL);
        if (!gs_streq(protocol ? protocol : "TCP", "TCP") || s->n_ports == ACTIVATOR_MAX_PORTS)
            continue;
        s->ports[s->n_ports++] = (struct activator_port){
            .name = gs_strdup(name ? name : ""), .number = (int)codec_json_int(p, 0, "port", NULL)};
    }
}

static void open_ports(struct activator_service *s)
{
    size_t before = s->n_ports;
    free_ports(s);
    read_ports(s);
    for (size_t i = 0; i < s->n_ports; i++)
        listen_port(s, i);
    for (size_t i = s->n_ports; i < before; i++)
        activator_gate_unlisten(s->gate, i);
}

static void on_slices_synced(void *arg)
{
    struct activator_service *s = arg;
    open_ports(s);
    follow_endpoints(s);
    activator_peers_check(s->peers);
    publish(s);
}

// --- public ---

// A line when the first request waits, and one when none waits any more.
static void log_waiting(struct activator_service *s)
{
    const char *ns = kube_namespace(s->object), *name = kube_name(s->object);
    struct activator_gate_stats now;
    activator_gate_stats(s->gate, &now);
    if (now.waiting && !s->waiting_ns) {
        s->waiting_ns = gs_mono_ns();
        s->released = now.released;
        gs_info("activator", "Service %s/%s: a request waits for %s/%s", ns, name, s->target.kind,
                s->target.name);
    } else if (!now.waiting && s->waiting_ns) {
        gs_info("activator",
                "Service %s/%s: no request waits any more: %llu got a pod within %.1f s", ns, name,
                (unsigned long long)(now.released - s->released),
                (double)(gs_mono_ns() - s->waiting_ns) / 1e9);
        s->waiting_ns = 0;
    }
}

static void on_waiting(void *arg)
{
    struct activator_service *s = arg;
    log_waiting(s);
    activator_progress_check(s->progress, s->object);
    if (s->env->cfg.on_change)
        s->env->cfg.on_change(s->env->cfg.arg);
}

static struct activator_gate *make_gate(struct activator_service *s)
{
    const struct activator_config *cfg = &s->env->cfg;
    const struct activator_gate_config gate = {.max_held = cfg->max_held,
                                               .max_bytes = cfg->max_bytes,
                                               .hold_ms = cfg->hold_ms,
                                               .silent_ms = cfg->silent_ms,
                                               .idle_ms = 10 * 60 * 1000,
                                               .connect_ms = 5000,
                                               .per_endpoint = cfg->per_endpoint,
                                               .budget = &s->env->budget,
                                               .on_waiting = on_waiting,
                                               .arg = s};
    return activator_gate_new(s->env->loop, &gate);
}

struct activator_service *activator_service_new(struct activator_env *env, const json_t *service,
                                                struct activator_target *target)
{
    struct activator_service *s = gs_alloc(sizeof(*s));
    const struct kube_cache_handlers handlers = {
        .on_change = on_slice, .on_synced = on_slices_synced, .arg = s};
    GS_AUTO_FREE char *query = gs_format("labelSelector="
                                         "kubernetes.io%%2Fservice-name%%3D%s",
                                         kube_name(service));
    s->env = env;
    s->object = json_incref((json_t *)service);
    s->target = *target;
    *target = (struct activator_target){0};
    s->gate = make_gate(s);
    s->progress = activator_progress_new(env, s->gate, &s->target);
    s->timer = gs_timer_new(env->loop, s);
    s->slices =
        kube_cache_new(env->loop, env->client, ACTIVATOR_SLICES, kube_namespace(service), query);
    s->peers = activator_peers_new(env, s->slices, kube_name(service));
    kube_cache_add_handlers(s->slices, &handlers);
    s->errors = kube_watch_errors_new(env->loop, s->slices, "activator", "EndpointSlices");
    kube_cache_start(s->slices);
    gs_info("activator", "Service %s/%s activates %s/%s", kube_namespace(service),
            kube_name(service), s->target.kind, s->target.name);
    return s;
}

void activator_service_update(struct activator_service *s, const json_t *service)
{
    bool same_ports = json_equal(codec_json_get(s->object, "spec", "ports", NULL),
                                 codec_json_get(service, "spec", "ports", NULL));
    json_decref(s->object);
    s->object = json_incref((json_t *)service);
    activator_progress_check(s->progress, s->object);
    if (!same_ports && kube_cache_synced(s->slices))
        on_slices_synced(s);
}

void activator_service_free(struct activator_service *s)
{
    if (!s)
        return;
    kube_request_cancel(s->write);
    activator_peers_free(s->peers);
    kube_watch_errors_free(s->errors);
    kube_cache_free(s->slices);
    activator_progress_free(GS_TAKE(s->progress));
    activator_gate_free(s->gate);
    gs_timer_free(s->timer);
    free_ports(s);
    activator_target_finish(&s->target);
    json_decref(s->written);
    json_decref(s->object);
    free(s);
}

const json_t *activator_service_object(const struct activator_service *s)
{
    return s->object;
}

bool activator_service_has_target(const struct activator_service *s,
                                  const struct activator_target *t)
{
    return gs_streq(s->target.kind, t->kind) && gs_streq(s->target.name, t->name);
}

void activator_service_stats(const struct activator_service *s, struct activator_gate_stats *ret)
{
    activator_gate_stats(s->gate, ret);
}

size_t activator_service_ready(const struct activator_service *s)
{
    return s->ready;
}

json_t *activator_service_json(const struct activator_service *s)
{
    struct activator_gate_stats g;
    GS_AUTO_FREE char *target = gs_format("%s/%s", s->target.kind, s->target.name);
    activator_gate_stats(s->gate, &g);
    return json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s?, s:I, s:I, s:I, s:I, s:f, s:I, s:I}",
                     "namespace", kube_namespace(s->object), "service", kube_name(s->object),
                     "target", target, "state", s->ready ? "standby" : "active", "problem",
                     activator_progress_problem(s->progress), "starting",
                     activator_progress_starting(s->progress), "ready", (json_int_t)s->ready,
                     "waiting", (json_int_t)g.waiting, "silent", (json_int_t)g.silent, "open",
                     (json_int_t)g.open, "oldestWaitSeconds", (double)g.oldest_ms / 1e3, "arrivals",
                     (json_int_t)g.arrivals, "released", (json_int_t)g.released);
}
