// SPDX-License-Identifier: Apache-2.0
// The runs: their schedule and order, and what outlives a run.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define SOON_MS 100

int64_t autoscaler_now(const struct autoscaler *a)
{
    if (a->cfg.now_ms)
        return a->cfg.now_ms(a->cfg.arg);
    // The wall clock may step; the time since the start does not.
    return a->start_unix_ms + gs_mono_ns() / GS_NS_PER_MS - a->start_mono_ms;
}

void autoscaler_decided(struct autoscaler *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = gs_vformat(fmt, ap);
    va_end(ap);
    gs_info("autoscaler", "%s", text);
    struct autoscaler_decision *d = &a->decisions[a->n_decisions++ % AUTOSCALER_DECISIONS];
    free(d->text);
    *d = (struct autoscaler_decision){autoscaler_now(a), text};
}

// --- runs ---

// The taint of a removal that failed, or that a previous process left behind.
static void remove_old_taints(struct autoscaler *a)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(a->nodes, &pos, &key, &value)) {
        struct autoscaler_node *n = value;
        const char *id = codec_json_str(n->object, "spec", "providerID", NULL);
        const struct autoscaler_instance *i = gs_hmap_get_str(n->pool->instances, id);
        if (!autoscaler_has_taint(n->object, AUTOSCALER_HARD_TAINT) || n->deletion || !i ||
            i->state == NODES_INSTANCE_DELETING)
            continue;
        autoscaler_taint(a, n, AUTOSCALER_HARD_TAINT, NULL, NULL);
        if (a->cleaned)
            continue;
        kube_event(a->recorder, n->object, "Normal", "ClusterAutoscalerCleanup",
                   "removed " AUTOSCALER_HARD_TAINT " taint from node %s", n->name);
    }
    a->cleaned = true;
}

static void forget_pods(struct autoscaler *a)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(a->pods, &pos, &key, &value))
        ((struct autoscaler_pod *)value)->listed = false;
}

bool autoscaler_run_once(struct autoscaler *a)
{
    if (!kube_cache_synced(a->cfg.pods) || !kube_cache_synced(a->cfg.nodes) ||
        !kube_cache_synced(a->cfg.daemonsets))
        return false;
    int64_t now_ms = autoscaler_now(a);
    a->last_run_ms = now_ms;
    a->wanted = false;
    autoscaler_pools_update(a, now_ms);
    remove_old_taints(a);
    autoscaler_deletions_step(a);
    if (a->healthy) {
        struct autoscaler_run r;
        forget_pods(a);
        autoscaler_run_init(a, &r, now_ms);
        nodes_plan(&r.in, &r.plan);
        autoscaler_take_states(a, &r);
        autoscaler_cordon(a, &r);
        autoscaler_scale_up(a, &r);
        autoscaler_remove(a, &r);
        nodes_plan_finish(&r.plan);
        autoscaler_run_finish(&r);
    }
    a->runs++;
    autoscaler_write_status(a);
    return true;
}

static void on_timer(void *arg);

static void schedule(struct autoscaler *a, uint64_t ms)
{
    if (a->started)
        gs_timer_start(a->timer, on_timer, ms);
}

static void on_timer(void *arg)
{
    struct autoscaler *a = arg;
    bool ran = autoscaler_run_once(a);
    schedule(a, a->wanted || !ran ? SOON_MS
                                  : (uint64_t)(a->cfg.settings.scan_interval / GS_NS_PER_MS));
}

void autoscaler_want_run(struct autoscaler *a)
{
    a->wanted = true;
    if (a->started && gs_timer_is_active(a->timer) && gs_timer_due_in(a->timer) > SOON_MS)
        schedule(a, SOON_MS);
}

// --- caches ---

static void on_pod(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct autoscaler *a = arg;
    bool was = old_pod && nodes_pod_is_unschedulable(old_pod);
    if (new_pod && !was && nodes_pod_is_unschedulable(new_pod))
        autoscaler_want_run(a);
}

struct autoscaler *autoscaler_new(uv_loop_t *loop, struct kube_client *client,
                                  const struct autoscaler_config *cfg)
{
    struct autoscaler *a = gs_alloc(sizeof(*a));
    a->loop = loop;
    a->client = client;
    a->cfg = *cfg;
    a->provider = *cfg->provider;
    a->start_unix_ms = gs_unix_ms();
    a->start_mono_ms = gs_mono_ns() / GS_NS_PER_MS;
    a->healthy = true;
    // The settings are checked: an unknown name cannot come here.
    gs_error_free(nodes_policy_parse(cfg->settings.expander, &a->policy));
    a->recorder = kube_recorder_new(client, "cluster-autoscaler", NULL);
    a->nodes = gs_hmap_new(autoscaler_node_free);
    a->pods = gs_hmap_new(autoscaler_pod_free);
    a->timer = gs_timer_new(loop, a);
    a->steps = gs_timer_new(loop, a);
    a->pdbs = kube_cache_new(loop, client, AUTOSCALER_PDBS, NULL, NULL);
    autoscaler_pools_init(a);
    const struct kube_cache_handlers handlers = {.on_change = on_pod, .arg = a};
    kube_cache_add_handlers(cfg->pods, &handlers);
    kube_cache_start(a->pdbs);
    return a;
}

void autoscaler_start(struct autoscaler *a)
{
    a->started = true;
    schedule(a, 0);
}

void autoscaler_stop(struct autoscaler *a)
{
    a->started = false;
    a->stopped = true;
    gs_timer_stop(a->timer);
    gs_timer_stop(a->steps);
}

void autoscaler_free(struct autoscaler *a)
{
    if (!a)
        return;
    kube_cache_remove_handlers(a->cfg.pods, a);
    kube_request_cancel(a->status_request);
    autoscaler_deletions_finish(a);
    gs_hmap_free(a->nodes);
    gs_hmap_free(a->pods);
    autoscaler_pools_finish(a);
    kube_cache_free(a->pdbs);
    gs_timer_free(a->timer);
    gs_timer_free(a->steps);
    kube_recorder_free(a->recorder);
    for (size_t i = 0; i < AUTOSCALER_DECISIONS; i++)
        free(a->decisions[i].text);
    json_decref(a->config_map);
    json_decref(a->status_pending);
    free(a);
}
