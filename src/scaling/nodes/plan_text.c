// SPDX-License-Identifier: Apache-2.0
// The reasons of a plan as texts. They are made on demand, because a replay makes many plans.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/plan_private.h"

// --- nodes ---

static char *unneeded_text(const struct nodes_plan_input *in, const struct nodes_node_plan *n,
                           const char *then)
{
    char since[GS_RFC3339_SIZE];
    gs_format_duration((in->now_ms - n->unneeded_since_ms) * GS_NS_PER_MS, since);
    return gs_format("unneeded for %s%s", since, then);
}

static char *early_text(const struct nodes_plan_input *in, const struct nodes_node_plan *n,
                        bool ready)
{
    char after[GS_RFC3339_SIZE];
    gs_format_duration((n->until_ms - n->unneeded_since_ms) * GS_NS_PER_MS, after);
    GS_AUTO_FREE char *then =
        gs_format("%s, removed after %s", ready ? "" : " and not ready", after);
    return unneeded_text(in, n, then);
}

static char *cooldown_text(const struct nodes_plan_input *in, const struct nodes_plan *p,
                           const struct nodes_node_plan *n)
{
    static const char *const causes[] = {
        [NODES_AFTER_ADD] = "a scale-up",
        [NODES_AFTER_DELETE] = "a removal",
        [NODES_AFTER_FAILURE] = "a failed removal",
    };
    char rest[GS_RFC3339_SIZE];
    gs_format_duration((n->until_ms - in->now_ms) * GS_NS_PER_MS, rest);
    GS_AUTO_FREE char *then =
        gs_format("; nothing is removed for %s more, because of %s", rest, causes[p->delay]);
    return unneeded_text(in, n, then);
}

static bool is_drained(const struct nodes_plan *p, size_t node)
{
    for (size_t i = 0; i < p->n_removals; i++)
        if (p->removals[i].node == node)
            return p->removals[i].drain;
    return false;
}

static char *unneeded_node_text(const struct nodes_plan_input *in, const struct nodes_plan *p,
                                size_t node)
{
    const struct nodes_node_plan *n = &p->nodes[node];
    if (n->verdict == NODES_NOT_LONG_ENOUGH)
        return early_text(in, n, in->nodes[node].condition != NODES_UNREADY);
    if (n->verdict == NODES_COOLDOWN)
        return cooldown_text(in, p, n);
    if (n->verdict == NODES_AT_MINIMUM)
        return gs_format(
            "the pool has its minimum size %zu",
            p->groups[in->nodes[node].group].pool ? p->groups[in->nodes[node].group].pool->min : 0);
    if (n->verdict == NODES_PARALLELISM)
        return unneeded_text(in, n, "; other nodes are removed first");
    return unneeded_text(in, n, is_drained(p, node) ? "; its pods fit on other nodes" : "; empty");
}

const char *nodes_verdict_text(enum nodes_verdict v)
{
    static const char *const texts[] = {
        [NODES_NOT_CONSIDERED] = "it does not exist",
        [NODES_OF_NO_POOL] = "it belongs to no pool",
        [NODES_STARTS] = "it is expected to become ready",
        [NODES_LEAVES] = "it is being removed",
        [NODES_SCALE_DOWN_OFF] = "scale-down is not enabled",
        [NODES_SCALE_DOWN_DISABLED] = ("annotation " NODES_ANN "scale-down-disabled"),
        [NODES_RECEIVES] = "it takes the pods of nodes that are removed",
        [NODES_AWAITED] = "nothing is removed while a pod waits for the end of a cordon",
        [NODES_NOT_LONG_ENOUGH] = "unneeded, but not for long enough",
        [NODES_COOLDOWN] = "unneeded; nothing is removed soon after a change",
        [NODES_PARALLELISM] = "unneeded; other nodes are removed first",
        [NODES_REMOVED] = "unneeded; it is removed now",
    };
    return texts[v];
}

char *nodes_plan_node_text(const struct nodes_plan_input *in, const struct nodes_plan *p,
                           size_t node)
{
    const struct nodes_node_plan *n = &p->nodes[node];
    const json_t *pod = n->pod == NODES_NONE ? NULL : nodes_pod(in->snapshot, n->pod);
    if (nodes_verdict_is_unneeded(n->verdict))
        return unneeded_node_text(in, p, node);
    if (n->verdict == NODES_UTILIZED)
        return gs_format("%s requested (%.4g%% of allocatable) is above the scale-down "
                         "utilization threshold",
                         n->resource, n->utilization * 100);
    if (n->verdict == NODES_KEPT_BY_POD)
        return nodes_keeper_text(n->keeper, pod);
    if (n->verdict == NODES_NO_PLACE)
        return gs_format("%s/%s fits on no other node", kube_namespace(pod), kube_name(pod));
    return gs_strdup(nodes_verdict_text(n->verdict));
}

// --- pods ---

// The text of the Cluster Autoscaler's event for a pod that orders nothing.
static char *rejection_text(const struct nodes_plan_input *in, const struct nodes_plan *p, size_t i)
{
    const struct nodes_choice_settings settings = nodes_plan_choice(in, 1);
    struct nodes_reasons reasons = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "pod didn't trigger scale-up: ");
    if (p->pods[i].wait == NODES_WAITS_FOR_LIMIT) {
        gs_buf_add_str(&text, "max total nodes in cluster reached");
        return gs_buf_take(&text);
    }
    for (size_t k = 0; k < in->n_groups; k++)
        nodes_group_reasons(in->snapshot, p->pods[i].pod, &in->groups[k], &settings, &reasons);
    for (size_t k = 0; k < reasons.len; k++)
        gs_buf_addf(&text, "%s%zu %s", k ? ", " : "", reasons.items[k].nodes,
                    reasons.items[k].text);
    nodes_reasons_finish(&reasons);
    return gs_buf_take(&text);
}

char *nodes_plan_pod_text(const struct nodes_plan_input *in, const struct nodes_plan *p, size_t i)
{
    const struct nodes_pod_plan *w = &p->pods[i];
    switch (w->wait) {
    case NODES_WAITS_FOR_SCHEDULER:
        return gs_strdup("it fits on a node that exists");
    case NODES_WAITS_FOR_CORDON:
        return gs_strdup("it waits for the end of a cordon");
    case NODES_WAITS_FOR_UPCOMING:
        return gs_format("it fits on a node of pool %s that is expected", p->groups[w->group].name);
    case NODES_WAITS_FOR_ORDER:
        return gs_format("a node of pool %s is ordered for it", p->groups[w->group].name);
    case NODES_WAITS_FOR_TURN:
        return gs_strdup("nodes for other pods are ordered first");
    case NODES_WAITS_FOR_POOL:
    case NODES_WAITS_FOR_LIMIT:
        break;
    }
    return rejection_text(in, p, i);
}

// --- replacements ---

char *nodes_plan_replacement_text(const struct nodes_plan_input *in, const struct nodes_order *o)
{
    const struct nodes_pool *pool = in->groups[o->group].pool;
    const struct nodes_pool *own = in->groups[in->nodes[o->node].group].pool;
    GS_AUTO_FREE char *price = pool->has_price ? gs_format(" for %.2f instead of %.2f %s an hour",
                                                           pool->price, own->price, pool->currency)
                                               : gs_strdup("");
    return gs_format("its pods fit on a new node of pool %s with %zu GPU%s%s", pool->name,
                     pool->gpus, pool->gpus == 1 ? "" : "s", price);
}

bool nodes_verdict_keeps(enum nodes_verdict v)
{
    return v == NODES_SCALE_DOWN_DISABLED || v == NODES_UTILIZED || v == NODES_RECEIVES ||
           v == NODES_KEPT_BY_POD || v == NODES_NO_PLACE || v == NODES_AT_MINIMUM;
}
