// SPDX-License-Identifier: Apache-2.0
// One Service: listens for its ports, follows its EndpointSlices, gives the ready endpoints to the
// gate, and decides what the own EndpointSlices contain.
#include "activator/activator_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

struct activator_service {
    struct activator_env *env;
    json_t *object;
    struct activator_target target;
    struct activator_gate *gate;
    struct activator_progress *progress;
    struct activator_watch *watch;
    struct activator_ready *models;
    struct activator_rules rules;
    struct activator_port ports[ACTIVATOR_MAX_PORTS];
    size_t n_ports;
    struct kube_cache *slices; // of the Service, of all controllers
    struct kube_watch_errors *errors;
    size_t ready;       // endpoints
    int64_t waiting_ns; // monotonic time since when something waits; 0: nothing does
    uint64_t released;  // at this time
    struct activator_publisher *publishers[ACTIVATOR_FAMILIES]; // NULL: without an address
    size_t n_withdrawing;
    void (*on_withdrawn)(void *arg);
    void *withdrawn_arg;
};

// --- the own EndpointSlices ---

static const char *address_of(const struct activator_service *s, size_t family)
{
    return family == 0 ? s->env->cfg.advertise : s->env->cfg.second;
}

static bool has_family(const json_t *service, const char *address)
{
    const char *type = activator_address_type(address);
    const json_t *families = codec_json_get(service, "spec", "ipFamilies", NULL), *f;
    size_t i;
    if (!json_array_size(families))
        return true;
    json_array_foreach (families, i, f)
        if (gs_streq(json_string_value(f), type))
            return true;
    return false;
}

static void publish(struct activator_service *s)
{
    for (size_t i = 0; i < ACTIVATOR_FAMILIES; i++) {
        const char *at = address_of(s, i);
        if (s->publishers[i])
            activator_publisher_set(s->publishers[i],
                                    has_family(s->object, at)
                                        ? activator_slice_make(s->object, &s->env->cfg, at,
                                                               s->ports, s->n_ports, s->ready > 0)
                                        : NULL);
    }
}

static void make_publishers(struct activator_service *s)
{
    for (size_t i = 0; i < ACTIVATOR_FAMILIES; i++) {
        const char *ns = kube_namespace(s->object), *at = address_of(s, i);
        if (!at)
            continue;
        GS_AUTO_FREE char *name =
            activator_slice_name(kube_name(s->object), s->env->cfg.identity, at);
        s->publishers[i] = activator_publisher_new(s->env, s->slices, ns, name);
    }
}

static void on_slice_withdrawn(void *arg)
{
    struct activator_service *s = arg;
    if (--s->n_withdrawing == 0)
        s->on_withdrawn(s->withdrawn_arg); // may free it
}

void activator_service_withdraw(struct activator_service *s, void (*done)(void *arg), void *arg)
{
    s->on_withdrawn = done;
    s->withdrawn_arg = arg;
    for (size_t i = 0; i < ACTIVATOR_FAMILIES; i++)
        s->n_withdrawing += s->publishers[i] != NULL;
    for (size_t i = 0; i < ACTIVATOR_FAMILIES; i++)
        if (s->publishers[i])
            activator_publisher_withdraw(s->publishers[i], on_slice_withdrawn, s);
}

// --- endpoints ---

// The endpoints of a port: those that have the address family of this instance, because a pod with
// two addresses is in two slices. If there are none, those of the other family.
static size_t find_endpoints(const struct activator_service *s, const char *port,
                             struct activator_address **ret)
{
    const char *types[] = {activator_address_type(s->env->cfg.advertise), NULL};
    size_t n = 0, cap = 0;
    for (size_t i = 0; n == 0 && i < GS_ARRAY_LEN(types); i++) {
        size_t pos = 0;
        const json_t *slice;
        while ((slice = kube_cache_next(s->slices, &pos)))
            activator_slice_endpoints(slice, port, types[i], ret, &n, &cap);
    }
    return n;
}

struct found {
    size_t ready, loaded; // the most endpoints of a port; loaded: those that get requests
};

static void set_port(struct activator_service *s, size_t index, bool first, struct found *found)
{
    struct activator_address *items = NULL;
    size_t n = find_endpoints(s, s->ports[index].name, &items);
    if (first)
        activator_ready_set(s->models, s->rules.ready_path, items, n);
    size_t kept = activator_ready_keep(s->models, items, n);
    activator_gate_set(s->gate, index, items, kept);
    free(items);
    found->ready = n > found->ready ? n : found->ready;
    found->loaded = kept > found->loaded ? kept : found->loaded;
}

static void follow_endpoints(void *service)
{
    struct activator_service *s = service;
    struct found found = {0};
    bool first = true;
    for (size_t i = 0; i < s->n_ports; i++) {
        if (s->ports[i].name)
            set_port(s, i, first, &found);
        first = first && !s->ports[i].name;
    }
    if (!found.ready != !s->ready)
        gs_info("activator", "Service %s/%s: %s", kube_namespace(s->object), kube_name(s->object),
                found.ready ? "a pod is ready, new connections go to it"
                            : "no pod is ready, new connections are held");
    s->ready = found.ready;
    if (found.loaded)
        activator_progress_ready(s->progress);
}

static void on_slice(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct activator_service *s = arg;
    (void)old_obj, (void)new_obj;
    if (!kube_cache_synced(s->slices))
        return;
    follow_endpoints(s);
    activator_peers_check(s->env->peers);
    publish(s);
}

// --- ports ---

// The same port after a restart, so that clients of the old EndpointSlice reach this process.
static uint16_t preferred_port(const struct activator_service *s, const struct activator_port *p)
{
    const struct activator_config *cfg = &s->env->cfg;
    GS_AUTO_FREE char *key =
        gs_format("%s/%s:%d", kube_namespace(s->object), kube_name(s->object), p->number);
    GS_AUTO_FREE char *name =
        activator_slice_name(kube_name(s->object), cfg->identity, cfg->advertise);
    uint16_t had =
        activator_slice_port(kube_cache_get(s->slices, kube_namespace(s->object), name), p->name);
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

static void free_ports(struct activator_port *ports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(GS_TAKE(ports[i].name));
}

static size_t read_ports(const json_t *service, struct activator_port *ret)
{
    size_t i, n = 0;
    const json_t *p;
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, p) {
        const char *protocol = codec_json_str(p, "protocol", NULL);
        const char *name = codec_json_str(p, "name", NULL);
        if (!gs_streq(protocol ? protocol : "TCP", "TCP") || n == ACTIVATOR_MAX_PORTS)
            continue;
        ret[n++] = (struct activator_port){.name = gs_strdup(name ? name : ""),
                                           .number = (int)codec_json_int(p, 0, "port", NULL)};
    }
    return n;
}

static bool is_same(const struct activator_port *a, const struct activator_port *b, bool by_name)
{
    return a->name && b->name && (by_name ? gs_streq(a->name, b->name) : a->number == b->number);
}

// Finds the wanted ports among the existing ones, by name or by number: a renamed port keeps its
// connections.
static void keep_ports(struct activator_port *want, size_t n, struct activator_port *have,
                       bool *kept, bool by_name)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < ACTIVATOR_MAX_PORTS; k++) {
            if (kept[k] || !is_same(&want[i], &have[k], by_name))
                continue;
            free(have[k].name);
            have[k].name = GS_TAKE(want[i].name);
            have[k].number = want[i].number;
            kept[k] = true;
        }
}

static size_t free_place(const struct activator_service *s)
{
    size_t i = 0;
    while (s->ports[i].name)
        i++;
    return i;
}

// Each port has a place of its own as long as it exists: its held connections belong to the place.
static void open_ports(struct activator_service *s)
{
    struct activator_port want[ACTIVATOR_MAX_PORTS] = {0};
    bool kept[ACTIVATOR_MAX_PORTS] = {false};
    size_t n = read_ports(s->object, want);
    keep_ports(want, n, s->ports, kept, true);
    keep_ports(want, n, s->ports, kept, false);
    for (size_t i = 0; i < s->n_ports; i++) {
        if (!s->ports[i].name || kept[i])
            continue;
        activator_gate_remove(s->gate, i);
        free(s->ports[i].name);
        s->ports[i] = (struct activator_port){0};
    }
    for (size_t i = 0; i < n; i++) {
        size_t place = want[i].name ? free_place(s) : 0;
        if (want[i].name)
            s->ports[place] = want[i];
        s->n_ports = place >= s->n_ports ? place + 1 : s->n_ports;
    }
    for (size_t i = 0; i < s->n_ports; i++)
        if (s->ports[i].name && !s->ports[i].listening)
            listen_port(s, i);
}

static void on_slices_synced(void *arg)
{
    struct activator_service *s = arg;
    open_ports(s);
    follow_endpoints(s);
    activator_peers_check(s->env->peers);
    publish(s);
}

// --- settings of the Service ---

static void report_limits(struct activator_service *s)
{
    const struct activator_config *cfg = &s->env->cfg;
    if (gs_streq(codec_json_str(s->object, "spec", "internalTrafficPolicy", NULL), "Local"))
        kube_event(s->env->recorder, s->object, "Warning", "NotActivated",
                   "internalTrafficPolicy is Local: connections are held only on nodes with an "
                   "activator; remove it, or run an activator on each node with clients");
    if (!has_family(s->object, cfg->advertise) &&
        (!cfg->second || !has_family(s->object, cfg->second)))
        kube_event(s->env->recorder, s->object, "Warning", "NotActivated",
                   "the activator has no address of the Service's ipFamilies: give it one of each "
                   "family (--advertise-address)");
}

static void read_rules(struct activator_service *s)
{
    GS_AUTO_ERROR struct gs_error *err = NULL;
    activator_gate_set_rules(s->gate, NULL);
    activator_rules_finish(&s->rules);
    err = activator_rules_read(s->object, &s->rules);
    activator_gate_set_rules(s->gate, &s->rules);
    if (!err)
        return;
    gs_warn("activator", "Service %s/%s: %s", kube_namespace(s->object), kube_name(s->object),
            gs_error_message(err));
    kube_event(s->env->recorder, s->object, "Warning", "InvalidAnnotation", "%s",
               gs_error_message(err));
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
                                               .idle_ms = cfg->idle_ms,
                                               .connect_ms = 5000,
                                               .max_open = cfg->max_open,
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
    s->models = activator_ready_new(env->loop, follow_endpoints, s);
    s->slices =
        kube_cache_new(env->loop, env->client, ACTIVATOR_SLICES, kube_namespace(service), query);
    s->watch = activator_peers_watch(env->peers, s->slices);
    make_publishers(s);
    read_rules(s);
    report_limits(s);
    kube_cache_add_handlers(s->slices, &handlers);
    s->errors = kube_watch_errors_new(env->loop, s->slices, "activator", "EndpointSlices");
    kube_cache_start(s->slices);
    gs_info("activator", "Service %s/%s activates %s/%s", kube_namespace(service),
            kube_name(service), s->target.kind, s->target.name);
    return s;
}

static bool same_value(const json_t *a, const json_t *b, const char *group, const char *name)
{
    const json_t *of_a = codec_json_get(a, group, name, NULL);
    const json_t *of_b = codec_json_get(b, group, name, NULL);
    return of_a == of_b || json_equal(of_a, of_b);
}

void activator_service_update(struct activator_service *s, const json_t *service)
{
    CODEC_AUTO_JSON json_t *before = s->object;
    s->object = json_incref((json_t *)service);
    activator_progress_check(s->progress, s->object);
    bool same_annotations = same_value(before, service, "metadata", "annotations");
    bool same_spec = json_equal(json_object_get(before, "spec"), json_object_get(service, "spec"));
    if (!same_annotations)
        read_rules(s);
    if (!same_spec)
        report_limits(s);
    if ((!same_spec || !same_annotations) && kube_cache_synced(s->slices))
        on_slices_synced(s);
}

void activator_service_free(struct activator_service *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < ACTIVATOR_FAMILIES; i++)
        activator_publisher_free(s->publishers[i]);
    activator_peers_unwatch(s->watch);
    activator_ready_free(s->models);
    kube_watch_errors_free(s->errors);
    kube_cache_free(s->slices);
    activator_progress_free(GS_TAKE(s->progress));
    activator_gate_free(s->gate);
    activator_rules_finish(&s->rules);
    free_ports(s->ports, s->n_ports);
    activator_target_finish(&s->target);
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
