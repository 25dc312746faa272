// SPDX-License-Identifier: Apache-2.0
// The pods that have GPUs, and their workloads. Each change of a pod changes sums, so that a
// decision does not read all pods.
#include "hpa_controller/budgets_private.h"

#include "base/slice.h"
#include "hpa/observe.h"
#include "hpa_controller/placeholder.h"
#include "kube/object.h"
#include "startup/startup.h"

// --- models ---

static const json_t *node_of(const struct hpa_budgets *b, const json_t *pod)
{
    struct kube_cache *nodes = hpa_starts_nodes(b->cfg.starts);
    const char *name = kube_pod_node(pod);
    return nodes && name ? kube_cache_get(nodes, NULL, name) : NULL;
}

static const char *model_of(const struct hpa_budgets *b, const json_t *pod)
{
    const char *model = startup_gpu_model(pod, node_of(b, pod));
    return model ? model : b->sole_model;
}

static void find_sole_model(struct hpa_budgets *b)
{
    struct kube_cache *nodes = hpa_starts_nodes(b->cfg.starts);
    const char *sole = NULL;
    const json_t *node;
    bool differ = false;
    size_t pos = 0;
    while (nodes && (node = kube_cache_next(nodes, &pos))) {
        const char *model = startup_gpu_model(NULL, node);
        differ = differ || (model && sole && !gs_streq(model, sole));
        sole = model ? model : sole;
    }
    free(b->sole_model);
    b->sole_model = differ ? NULL : gs_strdup(sole);
}

uint32_t hpa_budget_scopes(const struct hpa_budgets *b, const char *ns, const json_t *labels,
                           const char *model)
{
    uint32_t scopes = 0;
    for (size_t i = 0; i < b->policy.n_scopes; i++)
        if (budget_scope_matches(&b->policy.scopes[i], ns, labels, model))
            scopes |= UINT32_C(1) << i;
    return scopes;
}

// --- sums ---

static void count(struct hpa_budgets *b, const struct hpa_budget_pod *p, int64_t sign)
{
    if (p->workload && p->ending)
        p->workload->ending += sign * p->gpus;
    else if (p->workload)
        p->workload->live += sign * p->gpus;
    for (size_t i = 0; !p->workload && i < b->policy.n_scopes; i++)
        if (hpa_budget_has_scope(p->scopes, i))
            b->others[i] += sign * p->gpus;
}

static uint32_t scopes_of_pod(const struct hpa_budgets *b, const json_t *pod)
{
    return kube_pod_node(pod) ? hpa_budget_scopes(b, kube_namespace(pod),
                                                  codec_json_get(pod, "metadata", "labels", NULL),
                                                  model_of(b, pod))
                              : 0;
}

bool hpa_budget_is_of(const struct hpa_budget_workload *w, const json_t *pod)
{
    return gs_streq(w->ns, kube_namespace(pod)) &&
           kube_selector_matches(&w->selector, codec_json_get(pod, "metadata", "labels", NULL));
}

// What one of its pods says about a workload.
static void learn(const struct hpa_budgets *b, struct hpa_budget_workload *w,
                  const struct hpa_budget_pod *p)
{
    const char *model = startup_gpu_model(p->object, node_of(b, p->object));
    if (p->gpus > w->pod_gpus)
        w->pod_gpus = (int32_t)p->gpus;
    if (!w->pod_labels)
        w->pod_labels = json_incref(codec_json_get(p->object, "metadata", "labels", NULL));
    if (!model || gs_streq(model, w->model))
        return;
    free(w->model);
    w->model = gs_strdup(model);
}

// Each pod is in one list, so that a workload finds its pods without those of all others.
static void enlist(struct hpa_budgets *b, struct hpa_budget_pod *p)
{
    const char *ns = kube_namespace(p->object);
    struct hpa_budget_pods *list = p->workload ? &p->workload->pods : gs_hmap_get_str(b->loose, ns);
    if (!list) {
        list = gs_alloc(sizeof(*list));
        gs_hmap_put_str(b->loose, ns, list);
    }
    LIST_INSERT_HEAD(list, p, list);
}

static void add_pod(struct hpa_budgets *b, const char *key, const json_t *pod)
{
    bool counts = !kube_pod_has_ended(pod) && !hpa_is_placeholder_pod(pod);
    int64_t gpus = counts ? hpa_gpus_of_pod(pod) : 0;
    if (gpus <= 0)
        return;
    struct hpa_budget_pod *p = gs_alloc(sizeof(*p));
    p->object = json_incref((json_t *)(uintptr_t)pod);
    p->gpus = gpus > BUDGET_MAX_GPUS ? BUDGET_MAX_GPUS : gpus;
    p->ending = kube_is_deleting(pod);
    p->workload = hpa_budget_index_find(b, pod);
    if (p->workload)
        learn(b, p->workload, p);
    else
        p->scopes = scopes_of_pod(b, pod);
    count(b, p, 1);
    enlist(b, p);
    gs_hmap_put_str(b->pods, key, p);
}

static void free_pod(void *arg)
{
    struct hpa_budget_pod *p = arg;
    LIST_REMOVE(p, list);
    json_decref(p->object);
    free(p);
}

// GPUs that a pod gives back may be those that a workload waits for.
static void wake_waiting(const struct hpa_budgets *b)
{
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(b->workloads, &pos, NULL, &value)) {
        const struct hpa_budget_workload *w = value;
        if (w->waits)
            b->cfg.wake(b->cfg.arg, w->key);
    }
}

static void on_pod(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_budgets *b = arg;
    GS_AUTO_FREE char *key = kube_key(new_obj ? new_obj : old_obj);
    struct hpa_budget_pod *p = gs_hmap_remove_str(b->pods, key);
    bool had = p != NULL;
    if (p) {
        count(b, p, -1);
        free_pod(p);
    }
    if (new_obj)
        add_pod(b, key, new_obj);
    if (had && !gs_hmap_get_str(b->pods, key))
        wake_waiting(b);
}

// --- nodes ---

static void on_node(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_budgets *b = arg;
    const char *before = old_obj ? startup_gpu_model(NULL, old_obj) : NULL;
    const char *after = new_obj ? startup_gpu_model(NULL, new_obj) : NULL;
    b->stale = b->stale || !gs_streq(before, after);
}

void hpa_budget_pods_refresh(struct hpa_budgets *b)
{
    size_t pos = 0;
    void *value;
    if (!b->stale)
        return;
    b->stale = false;
    find_sole_model(b);
    while (gs_hmap_next(b->pods, &pos, NULL, &value)) {
        struct hpa_budget_pod *p = value;
        count(b, p, -1);
        p->scopes = p->workload ? 0 : scopes_of_pod(b, p->object);
        count(b, p, 1);
        if (p->workload)
            learn(b, p->workload, p);
    }
}

// --- workloads ---

static void give(struct hpa_budgets *b, struct hpa_budget_pod *p, struct hpa_budget_workload *w)
{
    count(b, p, -1);
    p->workload = w;
    p->scopes = w ? 0 : scopes_of_pod(b, p->object);
    count(b, p, 1);
    LIST_REMOVE(p, list);
    enlist(b, p);
    if (w)
        learn(b, w, p);
}

void hpa_budget_pods_claim(struct hpa_budgets *b, struct hpa_budget_workload *w)
{
    hpa_budget_pods_release(b, w);
    const struct hpa_budget_pods *list = gs_hmap_get_str(b->loose, w->ns);
    struct hpa_budget_pod *p = list ? LIST_FIRST(list) : NULL, *next;
    for (; p; p = next) {
        next = LIST_NEXT(p, list);
        if (hpa_budget_is_of(w, p->object))
            give(b, p, w);
    }
}

void hpa_budget_pods_release(struct hpa_budgets *b, struct hpa_budget_workload *w)
{
    struct hpa_budget_pod *p;
    w->pod_gpus = 0;
    while ((p = LIST_FIRST(&w->pods)))
        give(b, p, NULL);
}

// --- start and end ---

void hpa_budget_pods_start(struct hpa_budgets *b)
{
    const struct kube_cache_handlers on_pods = {.on_change = on_pod, .arg = b};
    const struct kube_cache_handlers on_nodes = {.on_change = on_node, .arg = b};
    memset(b->others, 0, sizeof(b->others));
    hpa_starts_need(b->cfg.starts);
    if (!b->observes_nodes && hpa_starts_nodes(b->cfg.starts)) {
        b->observes_nodes = true;
        kube_cache_add_handlers(hpa_starts_nodes(b->cfg.starts), &on_nodes);
    }
    if (!b->pods)
        b->pods = gs_hmap_new(free_pod);
    if (!b->loose)
        b->loose = gs_hmap_new(free);
    b->stale = true;
    if (!b->observes_pods) {
        b->observes_pods = true;
        kube_cache_add_handlers(b->cfg.pods, &on_pods);
        return;
    }
    // The scopes are those of another policy, and are found again by hpa_budget_pods_refresh().
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(b->pods, &pos, NULL, &value))
        ((struct hpa_budget_pod *)value)->scopes = 0;
}

void hpa_budget_pods_stop(struct hpa_budgets *b)
{
    if (b->observes_pods)
        kube_cache_remove_handlers(b->cfg.pods, b);
    if (b->observes_nodes)
        kube_cache_remove_handlers(hpa_starts_nodes(b->cfg.starts), b);
    gs_hmap_free(b->pods);
    gs_hmap_free(b->loose);
    free(b->sole_model);
}
