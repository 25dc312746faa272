// SPDX-License-Identifier: Apache-2.0
// The input of a plan from the objects of the cluster: nodes and pods as they are, and as they will
// be. A node that is expected to become ready counts as ready, so that no second one is added for
// the same pods.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"

// --- settings ---

struct nodes_plan_settings autoscaler_plan_settings(const struct autoscaler *a)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    struct nodes_plan_settings ret;
    nodes_plan_settings_init(&ret);
    ret.policy = a->policy;
    ret.seed = a->runs;
    ret.max_nodes_total = (size_t)s->max_nodes_total;
    ret.max_nodes_per_choice = (size_t)s->max_nodes_per_scale_up;
    ret.expendable_priority = s->expendable_priority;
    ret.new_pod_delay_ms = s->new_pod_scale_up_delay / GS_NS_PER_MS;
    ret.balance_similar = s->balance_similar;
    ret.enforce_min_size = s->enforce_min_size;
    ret.scale_down = s->scale_down;
    ret.unneeded_ms = s->unneeded_time / GS_NS_PER_MS;
    ret.unready_ms = s->unready_time / GS_NS_PER_MS;
    ret.delay_after_add_ms = s->delay_after_add / GS_NS_PER_MS;
    ret.delay_after_delete_ms = s->delay_after_delete / GS_NS_PER_MS;
    ret.delay_after_failure_ms = s->delay_after_failure / GS_NS_PER_MS;
    ret.threshold = s->utilization_threshold;
    ret.gpu_threshold = s->gpu_utilization_threshold;
    ret.max_parallelism = (size_t)s->max_parallelism;
    ret.max_drain_parallelism = (size_t)s->max_drain_parallelism;
    ret.ignore_daemonset_utilization = s->ignore_daemonset_utilization;
    ret.skip_local_storage = s->skip_local_storage;
    ret.skip_system_pods = s->skip_system_pods;
    ret.early_cordon = s->early_cordon;
    ret.consolidation = s->consolidation;
    ret.max_provision_ms = s->max_provision_time / GS_NS_PER_MS;
    return ret;
}

// --- templates and groups ---

static void reserve_for_daemonset(json_t *node, const json_t *set)
{
    CODEC_AUTO_JSON json_t *pod =
        json_pack("{s:{s:s}, s:O}", "metadata", "name", kube_name(set), "spec",
                  codec_json_get(set, "spec", "template", "spec", NULL));
    if (pod)
        nodes_reserve_daemon(node, pod);
}

static void build_template(struct autoscaler *a, struct autoscaler_pool *p)
{
    json_decref(p->template);
    GS_AUTO_FREE char *name = gs_format("template-node-for-%s", p->pool->name);
    p->template = nodes_pool_template(p->pool, name);
    size_t pos = 0;
    const json_t *set;
    while ((set = kube_cache_next(a->cfg.daemonsets, &pos)))
        reserve_for_daemonset(p->template, set);
}

// A deletion that ended during this run has changed the target.
static struct nodes_group group_of(const struct autoscaler *a, const struct autoscaler_pool *p)
{
    return (struct nodes_group){
        .name = p->pool->name,
        .pool = p->pool,
        .node = p->template,
        .size = a->provider.target(a->provider.ctx, p->pool->name),
        .max = p->pool->max,
        .backoff = p->backoff,
        .blocked = p->healthy ? NULL : "not ready for scale-up",
    };
}

static void add_groups(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t n = a->cfg.n_pools;
    r->groups = gs_alloc_array(n + 1, sizeof(*r->groups));
    r->leaving = gs_alloc_array(n + 1, sizeof(*r->leaving));
    r->growing = gs_alloc_array(n + 1, sizeof(*r->growing));
    for (size_t i = 0; i < n; i++) {
        build_template(a, &a->pools[i]);
        r->groups[i] = group_of(a, &a->pools[i]);
        r->growing[i] = a->pools[i].scaling;
        for (size_t k = 0; k < a->n_deletions; k++)
            r->leaving[i] += autoscaler_deletion_counts(a->deletions[k], &a->pools[i]);
    }
}

// --- nodes ---

static int compare_names(const void *x, const void *y)
{
    const json_t *a = *(const json_t *const *)x, *b = *(const json_t *const *)y;
    const char *m = kube_namespace(a), *n = kube_namespace(b);
    int c = m && n ? strcmp(m, n) : 0;
    return c ? c : strcmp(kube_name(a), kube_name(b));
}

// The objects by namespace and name, so that equal clusters have equal plans. The caller frees the
// array.
static const json_t **list_of(const struct kube_cache *cache, size_t *ret_n)
{
    const json_t **list = gs_alloc_array(kube_cache_len(cache) + 1, sizeof(*list)), *object;
    size_t pos = 0, n = 0;
    while ((object = kube_cache_next(cache, &pos)))
        list[n++] = object;
    if (n)
        qsort(list, n, sizeof(*list), compare_names);
    *ret_n = n;
    return list;
}

static void note_node(struct autoscaler_run *r, struct autoscaler_node *node,
                      struct nodes_plan_node state)
{
    size_t index = r->in.n_nodes++;
    gs_grow(&r->nodes, &r->nodes_cap, index, sizeof(*r->nodes));
    gs_grow(&r->states, &r->states_cap, index, sizeof(*r->states));
    r->nodes[index] = node;
    r->states[index] = state;
}

static size_t number_of(const struct autoscaler *a, const struct autoscaler_pool *p)
{
    return (size_t)(p - a->pools);
}

static void add_upcoming(struct autoscaler *a, struct autoscaler_run *r, struct autoscaler_pool *p,
                         size_t n)
{
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_format("upcoming-%zu-of-%s", i, p->pool->name);
        nodes_snapshot_add_template(r->in.snapshot, p->template, name);
        note_node(r, NULL,
                  (struct nodes_plan_node){.condition = NODES_UPCOMING, .group = number_of(a, p)});
    }
}

static struct nodes_plan_node state_of(const struct autoscaler *a, const struct autoscaler_node *n)
{
    static const enum nodes_condition conditions[] = {
        [AUTOSCALER_READY] = NODES_READY,
        [AUTOSCALER_NOT_STARTED] = NODES_UPCOMING,
        [AUTOSCALER_UNREADY] = NODES_UNREADY,
        [AUTOSCALER_BEING_DELETED] = NODES_LEAVING,
    };
    return (struct nodes_plan_node){
        .condition = conditions[n->readiness],
        .group = number_of(a, n->pool),
        .unneeded_since_ms = n->unneeded_since_ms,
        .replaceable_since_ms = n->replaceable_since_ms,
        .replaced_until_ms = n->replaced_until_ms,
    };
}

static void add_nodes(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t n_objects;
    GS_AUTO_FREE const json_t **objects = list_of(a->cfg.nodes, &n_objects);
    for (size_t i = 0; i < n_objects; i++) {
        const json_t *object = objects[i];
        struct autoscaler_node *n = autoscaler_node_of(a, kube_name(object));
        if (n && n->readiness == AUTOSCALER_NOT_STARTED)
            nodes_snapshot_add_template(r->in.snapshot, n->pool->template, kube_name(object));
        else
            nodes_snapshot_add_node(r->in.snapshot, object);
        note_node(r, n,
                  n ? state_of(a, n)
                    : (struct nodes_plan_node){.condition = NODES_READY, .group = NODES_NONE});
    }
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        add_upcoming(a, r, &a->pools[i], a->pools[i].upcoming - a->pools[i].not_started);
}

// --- pods ---

static void note_pending(struct autoscaler *a, struct autoscaler_run *r, const json_t *pod)
{
    struct autoscaler_pod *p = gs_hmap_get_str(a->pods, kube_uid(pod));
    if (!p) {
        p = gs_alloc(sizeof(*p));
        p->uid = gs_strdup(kube_uid(pod));
        p->ns = gs_strdup(kube_namespace(pod));
        p->name = gs_strdup(kube_name(pod));
        p->pending_since_ms = kube_created_ms(pod, r->in.now_ms);
        gs_hmap_put_str(a->pods, p->uid, p);
    }
    p->listed = true;
    nodes_snapshot_add_pod(r->in.snapshot, pod);
}

// What DaemonSets use on an upcoming node is part of its template.
static bool counts_twice(const struct autoscaler *a, const json_t *pod, const char *node)
{
    const struct autoscaler_node *n = autoscaler_node_of(a, node);
    return n && n->readiness == AUTOSCALER_NOT_STARTED && nodes_is_daemonset_pod(pod);
}

static void add_pods(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t n;
    GS_AUTO_FREE const json_t **pods = list_of(a->cfg.pods, &n);
    for (size_t i = 0; i < n; i++) {
        const json_t *pod = pods[i];
        const char *node = kube_pod_node(pod);
        if (kube_pod_has_ended(pod) || !kube_uid(pod) || (node && counts_twice(a, pod, node)))
            continue;
        // A pod of a node that has just disappeared is no waiting pod.
        if (node && nodes_find(r->in.snapshot, node) != NODES_NONE)
            nodes_snapshot_add_pod(r->in.snapshot, pod);
        else if (!node && nodes_pod_waits(pod, &r->in.settings, r->in.now_ms))
            note_pending(a, r, pod);
    }
}

struct nodes_budgets *autoscaler_budgets(const struct autoscaler *a)
{
    struct nodes_budgets *b = nodes_budgets_new();
    size_t pos = 0;
    const json_t *object;
    if (!kube_cache_synced(a->pdbs))
        nodes_budgets_set_unknown(b);
    while ((object = kube_cache_next(a->pdbs, &pos)))
        nodes_budgets_add(b, object);
    return b;
}

// --- the run ---

void autoscaler_run_init(struct autoscaler *a, struct autoscaler_run *r, int64_t now_ms)
{
    *r = (struct autoscaler_run){.in = {.now_ms = now_ms,
                                        .settings = autoscaler_plan_settings(a),
                                        .snapshot = nodes_snapshot_new(),
                                        .n_groups = a->cfg.n_pools,
                                        .n_total = autoscaler_total_nodes(a),
                                        .n_removing = a->n_deletions,
                                        .budgets = autoscaler_budgets(a),
                                        .last_add_ms = a->last_add_ms,
                                        .last_delete_ms = a->last_delete_ms,
                                        .last_failure_ms = a->last_failure_ms}};
    for (size_t i = 0; i < a->n_deletions; i++)
        r->in.n_draining += autoscaler_deletion_is_drain(a->deletions[i]);
    add_groups(a, r);
    add_nodes(a, r);
    add_pods(a, r);
    r->in.nodes = r->states;
    r->in.groups = r->groups;
    r->in.leaving = r->leaving;
    r->in.growing = r->growing;
}

void autoscaler_run_finish(struct autoscaler_run *r)
{
    nodes_snapshot_free(r->in.snapshot);
    nodes_budgets_free(r->in.budgets);
    free(r->nodes);
    free(r->states);
    free(r->groups);
    free(r->leaving);
    free(r->growing);
}
