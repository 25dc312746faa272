// SPDX-License-Identifier: Apache-2.0
// The autoscaler on the embedded API, with machines of the test and a clock of the test. A machine
// is created by the provider; the test decides when its Node appears and becomes ready.
#pragma once

#include "../../local/cluster_harness.h"
#include "autoscaler/autoscaler.h"
#include "kube/quantity.h"

#define MAX_MACHINES 32
#define SECOND       INT64_C(1000)
#define MINUTE       (60 * SECOND)

struct machine {
    char pool[32], id[64], name[48];
    enum nodes_instance_state state;
    const char *error; // its creation failed
    bool gone;
};

struct fixture {
    struct cluster k;
    struct nodes_pools pools;
    struct autoscaler_settings settings;
    struct nodes_provider provider;
    struct autoscaler *a;
    int64_t now_ms;
    struct machine machines[MAX_MACHINES];
    size_t n_machines;
    size_t increases, lost;  // lost: machines of the target that nobody creates
    const char *no_capacity; // pool whose machines fail
    const char *refused;     // pool whose increase() fails
    const char *stuck;       // pool whose delete_node() fails
};

// --- the provider ---

static size_t fake_target(void *ctx, const char *pool)
{
    struct fixture *f = ctx;
    size_t n = f->lost;
    for (size_t i = 0; i < f->n_machines; i++)
        n += gs_streq(f->machines[i].pool, pool) && !f->machines[i].gone &&
             f->machines[i].state != NODES_INSTANCE_DELETING;
    return n;
}

static struct gs_error *fake_increase(void *ctx, const char *pool, size_t n)
{
    struct fixture *f = ctx;
    f->increases++;
    if (gs_streq(f->refused, pool))
        return gs_error_new(GS_EUNAVAIL, "the cloud is down");
    for (size_t i = 0; i < n; i++) {
        struct machine *m = &f->machines[f->n_machines++];
        assert_true(f->n_machines <= MAX_MACHINES);
        snprintf(m->pool, sizeof(m->pool), "%s", pool);
        snprintf(m->name, sizeof(m->name), "%s-%zu", pool, f->n_machines);
        snprintf(m->id, sizeof(m->id), "gpuscale://%s/%zu", pool, f->n_machines);
        m->state = NODES_INSTANCE_CREATING;
        m->error = gs_streq(f->no_capacity, pool) ? "OUT_OF_GPUS" : NULL;
    }
    return NULL;
}

static struct gs_error *fake_decrease(void *ctx, const char *pool, size_t n)
{
    struct fixture *f = ctx;
    (void)pool;
    assert_true(n <= f->lost);
    f->lost -= n;
    return NULL;
}

static struct gs_error *fake_delete(void *ctx, const char *pool, const char *id)
{
    struct fixture *f = ctx;
    if (gs_streq(f->stuck, pool))
        return gs_error_new(GS_EUNAVAIL, "the machine does not answer");
    for (size_t i = 0; i < f->n_machines; i++)
        if (gs_streq(f->machines[i].id, id))
            f->machines[i].state = NODES_INSTANCE_DELETING;
    return NULL;
}

static void fake_each(void *ctx, const char *pool,
                      void (*fn)(void *arg, const struct nodes_instance *i), void *arg)
{
    struct fixture *f = ctx;
    for (size_t i = 0; i < f->n_machines; i++) {
        const struct machine *m = &f->machines[i];
        if (gs_streq(m->pool, pool) && !m->gone)
            fn(arg, &(struct nodes_instance){.provider_id = m->id,
                                             .state = m->state,
                                             .error_code = m->error,
                                             .error_message = m->error ? "none left" : NULL,
                                             .out_of_resources = m->error != NULL});
    }
}

static int64_t fake_now(void *arg)
{
    return ((struct fixture *)arg)->now_ms;
}

// --- set-up ---

static inline void fixture_start(struct fixture *f)
{
    const struct autoscaler_config cfg = {
        .pools = f->pools.items,
        .n_pools = f->pools.len,
        .provider = &f->provider,
        .settings = f->settings,
        .pods = f->k.c->pods,
        .nodes = f->k.c->nodes,
        .daemonsets = f->k.c->daemonsets,
        .now_ms = fake_now,
        .arg = f,
    };
    f->a = autoscaler_new(&f->k.loop, f->k.client, &cfg);
    loop_for_ms(&f->k.loop, 20); // the cache of PodDisruptionBudgets
}

// Pools as options, ending with NULL. The clock stands at the time of the machine.
static inline void fixture_open(struct fixture *f, const char *const *pools)
{
    *f = (struct fixture){.now_ms = gs_unix_ms() + SECOND};
    cluster_open(&f->k);
    f->k.bound_only = true;
    for (size_t i = 0; pools[i]; i++)
        assert_ok(nodes_pools_add_option(&f->pools, pools[i]));
    autoscaler_settings_init(&f->settings);
    f->settings.delay_after_taint = 0;
    f->provider = (struct nodes_provider){.ctx = f,
                                          .target = fake_target,
                                          .increase = fake_increase,
                                          .decrease_target = fake_decrease,
                                          .delete_node = fake_delete,
                                          .each = fake_each};
}
#define OPEN(f, ...) fixture_open((f), (const char *const[]){__VA_ARGS__, NULL})

static inline void fixture_close(struct fixture *f)
{
    autoscaler_free(f->a);
    nodes_pools_finish(&f->pools);
    cluster_close(&f->k);
}

// One run after `ms` of the clock; lets its writes arrive.
static inline void run_after(struct fixture *f, int64_t ms)
{
    if (!f->a)
        fixture_start(f);
    f->now_ms += ms;
    assert_true(autoscaler_run_once(f->a));
    loop_for_ms(&f->k.loop, 30);
}

// --- machines ---

static inline struct machine *machine_of(struct fixture *f, const char *pool)
{
    for (size_t i = 0; i < f->n_machines; i++)
        if (gs_streq(f->machines[i].pool, pool) && !f->machines[i].gone)
            return &f->machines[i];
    fail_msg("pool %s has no machine", pool);
    return NULL;
}

// The Node of a machine, as its kubelet writes it.
static inline void machine_register(struct fixture *f, struct machine *m, bool ready, bool gpus)
{
    CODEC_AUTO_JSON json_t *node =
        nodes_pool_template(nodes_pools_find(&f->pools, m->pool), m->name);
    codec_json_set(node, json_string(m->id), "spec", "providerID", NULL);
    kube_create(f->k.client, KUBE_NODES, NULL, node, call_took, &f->k);
    assert_int_equal(await(&f->k), 201);
    CODEC_AUTO_JSON json_t *status = json_object();
    json_object_set(status, "status", json_object_get(node, "status"));
    if (!gpus)
        codec_json_set(status, json_string("0"), "status", "allocatable", "nvidia.com/gpu", NULL);
    if (!ready)
        codec_json_set(status, json_pack("[{s:s, s:s}]", "type", "Ready", "status", "False"),
                       "status", "conditions", NULL);
    kube_patch(f->k.client, KUBE_NODES, NULL, m->name, "status", KUBE_MERGE_PATCH, status,
               call_took, &f->k);
    assert_int_equal(await(&f->k), 200);
    m->state = NODES_INSTANCE_RUNNING;
    loop_until(&f->k.loop, codec_json_str(kube_cache_get(f->k.c->nodes, NULL, m->name), "status",
                                          "allocatable", "cpu", NULL) != NULL);
}

// A machine that runs from the start.
static inline struct machine *machine_add(struct fixture *f, const char *pool)
{
    size_t n = f->n_machines;
    assert_ok(fake_increase(f, pool, 1));
    f->increases--;
    f->machines[n].error = NULL;
    machine_register(f, &f->machines[n], true, true);
    return &f->machines[n];
}

static inline void machine_vanish(struct fixture *f, struct machine *m)
{
    m->gone = true;
    cluster_delete(&f->k, KUBE_NODES, NULL, m->name);
    loop_until(&f->k.loop, !kube_cache_get(f->k.c->nodes, NULL, m->name));
}

static inline const json_t *node_of(struct fixture *f, const struct machine *m)
{
    return kube_cache_get(f->k.c->nodes, NULL, m->name);
}

static inline bool has_taint(struct fixture *f, const struct machine *m, const char *key)
{
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(node_of(f, m), "spec", "taints", NULL), i, taint)
        if (gs_streq(codec_json_str(taint, "key", NULL), key))
            return true;
    return false;
}

// --- pods ---

#define OWNED                                                                                      \
    "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u1, controller: "   \
    "true}], "

// extra: members of metadata, such as OWNED.
static inline void add_pod(struct fixture *f, const char *name, const char *extra, const char *spec)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: Pod, metadata: {%sname: %s, labels: {app: web}}, "
                  "spec: {%s}}",
                  extra, name, spec);
    cluster_create(&f->k, KUBE_PODS, yaml);
    loop_until(&f->k.loop, kube_cache_get(f->k.c->pods, "default", name) != NULL);
}

static inline char *gpu_container(int gpus)
{
    return gs_format("containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: %d}}}]",
                     gpus);
}

// The scheduler has found no node for it.
static inline void mark_unschedulable(struct fixture *f, const char *name)
{
    cluster_patch(&f->k, KUBE_PODS, name, "status",
                  "status: {conditions: [{type: PodScheduled, status: 'False', reason: "
                  "Unschedulable, message: '0/1 nodes are available'}]}");
    loop_until(&f->k.loop, kube_condition(kube_cache_get(f->k.c->pods, "default", name),
                                          "PodScheduled") != NULL);
}

static inline void add_pending(struct fixture *f, const char *name, int gpus)
{
    GS_AUTO_FREE char *spec = gpu_container(gpus);
    add_pod(f, name, OWNED, spec);
    mark_unschedulable(f, name);
}

static inline void add_bound(struct fixture *f, const char *name, const char *extra,
                             const struct machine *m, const char *container)
{
    GS_AUTO_FREE char *spec = gs_format("nodeName: %s, %s", m->name, container);
    add_pod(f, name, extra, spec);
}

// --- looking ---

static inline const json_t *pool_state(const json_t *state, const char *pool)
{
    size_t i;
    json_t *p;
    json_array_foreach (json_object_get(state, "pools"), i, p)
        if (gs_streq(codec_json_str(p, "name", NULL), pool))
            return p;
    return NULL;
}

static inline int64_t pool_number(struct fixture *f, const char *pool, const char *field)
{
    CODEC_AUTO_JSON json_t *state = autoscaler_state(f->a);
    return codec_json_int(pool_state(state, pool), -1, field, NULL);
}

// Why a node cannot be removed; "" if it can. Caller frees.
static inline char *unremovable(struct fixture *f, const struct machine *m)
{
    CODEC_AUTO_JSON json_t *state = autoscaler_state(f->a);
    size_t i;
    json_t *n;
    json_array_foreach (json_object_get(state, "nodes"), i, n)
        if (gs_streq(codec_json_str(n, "name", NULL), m->name))
            return gs_strdup(codec_json_str(n, "unremovable", NULL)
                                 ? codec_json_str(n, "unremovable", NULL)
                                 : "");
    return gs_strdup("(no such node)");
}

#define assert_cluster_event(f, reason, text)                                                      \
    do {                                                                                           \
        if (!cluster_event(&(f)->k, reason, text)) {                                               \
            size_t i_;                                                                             \
            json_t *e_;                                                                            \
            json_array_foreach (json_object_get((f)->k.body, "items"), i_, e_)                     \
                printf("  %s: %s\n", codec_json_str(e_, "reason", NULL),                           \
                       codec_json_str(e_, "message", NULL));                                       \
            fail_msg("no event %s with %s", reason, text);                                         \
        }                                                                                          \
    } while (0)
