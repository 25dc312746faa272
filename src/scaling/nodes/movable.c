// SPDX-License-Identifier: Apache-2.0
// Whether a pod may move when its node is removed: the rules of the Cluster Autoscaler
// (pkg/simulator/drainability of kubernetes-sigs/cluster-autoscaler) in their order. The first rule
// that applies decides.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "nodes/plan_private.h"

// A pod that is still terminating this long after its grace period no longer counts.
#define LONG_TERMINATING_MS 30000
#define DEFAULT_GRACE_S     30

// --- PodDisruptionBudgets ---

struct budget {
    const json_t *object;
    struct kube_selector selector;
    int64_t allowed, used; // used: by the moves of a plan
};

struct nodes_budgets {
    struct budget *items;
    size_t len, cap;
    bool unknown; // the budgets could not be read
};

struct nodes_budgets *nodes_budgets_new(void)
{
    return gs_alloc(sizeof(struct nodes_budgets));
}

void nodes_budgets_add(struct nodes_budgets *b, const json_t *budget)
{
    struct budget item = {.object = budget,
                          .allowed =
                              codec_json_int(budget, 0, "status", "disruptionsAllowed", NULL)};
    GS_AUTO_ERROR struct gs_error *err =
        kube_selector_from_json(codec_json_get(budget, "spec", "selector", NULL), &item.selector);
    if (err)
        return;
    gs_grow(&b->items, &b->cap, b->len, sizeof(*b->items));
    b->items[b->len++] = item;
}

void nodes_budgets_set_unknown(struct nodes_budgets *b)
{
    b->unknown = true;
}

void nodes_budgets_free(struct nodes_budgets *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->len; i++)
        kube_selector_finish(&b->items[i].selector);
    free(b->items);
    free(b);
}

static bool budget_covers(const struct budget *b, const json_t *pod)
{
    return gs_streq(kube_namespace(b->object), kube_namespace(pod)) &&
           kube_selector_matches(&b->selector, codec_json_get(pod, "metadata", "labels", NULL));
}

void nodes_budgets_use(struct nodes_budgets *b, const json_t *pod)
{
    for (size_t i = 0; b && i < b->len; i++)
        b->items[i].used += budget_covers(&b->items[i], pod);
}

void nodes_budgets_reset(struct nodes_budgets *b)
{
    for (size_t i = 0; b && i < b->len; i++)
        b->items[i].used = 0;
}

static size_t covering_budgets(const struct nodes_budgets *b, const json_t *pod,
                               bool *ret_exhausted)
{
    size_t n = 0;
    *ret_exhausted = b && b->unknown;
    for (size_t i = 0; b && i < b->len; i++) {
        if (!budget_covers(&b->items[i], pod))
            continue;
        n++;
        *ret_exhausted |= b->items[i].allowed - b->items[i].used < 1;
    }
    return n;
}

// --- properties of pods ---

bool nodes_is_daemonset_pod(const json_t *pod)
{
    return kube_is_controlled_by(pod, "DaemonSet") ||
           gs_streq(kube_annotation(pod, NODES_ANN "daemonset-pod"), "true");
}

// The Cluster Autoscaler adds the grace period to the time of the deletion, which already includes
// it.
bool nodes_is_long_terminating(const json_t *pod, int64_t now_ms)
{
    int64_t ms = kube_time_ms(codec_json_get(pod, "metadata", "deletionTimestamp", NULL), 0);
    int64_t grace_s =
        codec_json_int(pod, DEFAULT_GRACE_S, "spec", "terminationGracePeriodSeconds", NULL);
    return ms && (double)(now_ms - ms - LONG_TERMINATING_MS) > 1000.0 * (double)grace_s;
}

static bool list_contains(const char *list, const char *word)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data) {
        struct gs_slice item = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (gs_slice_eq_str(item, word))
            return true;
    }
    return false;
}

static bool has_local_storage(const json_t *pod)
{
    const char *harmless = kube_annotation(pod, NODES_ANN "safe-to-evict-local-volumes");
    size_t i;
    json_t *volume;
    json_array_foreach (codec_json_get(pod, "spec", "volumes", NULL), i, volume) {
        const json_t *dir = json_object_get(volume, "emptyDir");
        bool local = json_object_get(volume, "hostPath") ||
                     (dir && !gs_streq(codec_json_str(dir, "medium", NULL), "Memory"));
        const char *name = codec_json_str(volume, "name", NULL);
        if (local && !(harmless && name && list_contains(harmless, name)))
            return true;
    }
    return false;
}

// --- the rules ---

// Rules that forbid a move. A kube-system pod without a budget may move after some time, whatever
// the later rules say.
static enum nodes_keeper keeper_of(const json_t *pod, const struct nodes_plan_settings *s,
                                   const struct nodes_budgets *b, int64_t now_ms)
{
    const char *safe = kube_annotation(pod, NODES_ANN "safe-to-evict");
    bool exhausted;
    size_t n_budgets = covering_budgets(b, pod, &exhausted);
    if (!kube_controller_ref(pod))
        return NODES_KEEPER_NOT_REPLICATED;
    if (s->skip_system_pods && gs_streq(kube_namespace(pod), "kube-system") && !n_budgets)
        return now_ms - kube_created_ms(pod, now_ms) > s->system_pod_timeout_ms
                   ? NODES_KEEPER_NONE
                   : NODES_KEEPER_SYSTEM;
    if (gs_streq(safe, "false"))
        return NODES_KEEPER_NOT_SAFE;
    if (s->skip_local_storage && has_local_storage(pod))
        return NODES_KEEPER_LOCAL_STORAGE;
    if (exhausted)
        return b->unknown ? NODES_KEEPER_BUDGET_UNKNOWN : NODES_KEEPER_BUDGET;
    return NODES_KEEPER_NONE;
}

enum nodes_movability nodes_may_move(const json_t *pod, const struct nodes_plan_settings *s,
                                     const struct nodes_budgets *budgets, int64_t now_ms,
                                     enum nodes_keeper *ret_keeper)
{
    if (kube_pod_is_mirror(pod) || nodes_is_long_terminating(pod, now_ms) ||
        nodes_is_daemonset_pod(pod) || kube_pod_has_ended(pod))
        return NODES_STAY;
    if (gs_streq(kube_annotation(pod, NODES_ANN "safe-to-evict"), "true"))
        return NODES_MOVE;
    enum nodes_keeper keeper = keeper_of(pod, s, budgets, now_ms);
    if (keeper == NODES_KEEPER_NONE)
        return NODES_MOVE;
    *ret_keeper = keeper;
    return NODES_BLOCK;
}

char *nodes_keeper_text(enum nodes_keeper keeper, const json_t *pod)
{
    const char *ns = kube_namespace(pod), *name = kube_name(pod);
    switch (keeper) {
    case NODES_KEEPER_NOT_REPLICATED:
        return gs_format("%s/%s is not replicated", ns, name);
    case NODES_KEEPER_SYSTEM:
        return gs_format("non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: "
                         "%s",
                         name);
    case NODES_KEEPER_NOT_SAFE:
        return gs_format("pod annotated as not safe to evict present: %s", name);
    case NODES_KEEPER_LOCAL_STORAGE:
        return gs_format("pod with local storage present: %s", name);
    case NODES_KEEPER_BUDGET:
        return gs_format("not enough pod disruption budget to move %s/%s", ns, name);
    case NODES_KEEPER_BUDGET_UNKNOWN:
        return gs_strdup("PodDisruptionBudgets could not be read");
    case NODES_KEEPER_NONE:
        break;
    }
    return gs_strdup("");
}
