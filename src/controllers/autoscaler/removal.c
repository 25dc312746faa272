// SPDX-License-Identifier: Apache-2.0
// Whether a pod may move when its node is removed: the rules of the Cluster Autoscaler in their
// order. The first rule that applies decides.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"

// A kube-system pod may move after this time (--bsp-disruption-timeout).
#define SYSTEM_POD_TIMEOUT_MS INT64_C(3600000)
// A pod that is still terminating this long after its grace period no longer counts.
#define LONG_TERMINATING_MS 30000

// --- PodDisruptionBudgets ---

struct budget {
    const json_t *object;
    struct kube_selector selector;
    int64_t allowed;
};

struct autoscaler_budgets {
    struct budget *items;
    size_t len, cap;
    bool unknown; // the budgets could not be read
};

struct autoscaler_budgets *autoscaler_budgets_new(const struct autoscaler *a)
{
    struct autoscaler_budgets *b = gs_alloc(sizeof(*b));
    b->unknown = !kube_cache_synced(a->pdbs);
    size_t pos = 0;
    const json_t *object;
    while ((object = kube_cache_next(a->pdbs, &pos))) {
        struct budget item = {.object = object,
                              .allowed =
                                  codec_json_int(object, 0, "status", "disruptionsAllowed", NULL)};
        GS_AUTO_ERROR struct gs_error *err = kube_selector_from_json(
            codec_json_get(object, "spec", "selector", NULL), &item.selector);
        if (err)
            continue;
        gs_grow(&b->items, &b->cap, b->len, sizeof(*b->items));
        b->items[b->len++] = item;
    }
    return b;
}

void autoscaler_budgets_free(struct autoscaler_budgets *b)
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

void autoscaler_budgets_use(struct autoscaler_budgets *b, const json_t *pod)
{
    for (size_t i = 0; i < b->len; i++)
        if (budget_covers(&b->items[i], pod))
            b->items[i].allowed--;
}

static size_t covering_budgets(const struct autoscaler_budgets *b, const json_t *pod,
                               bool *ret_exhausted)
{
    size_t n = 0;
    *ret_exhausted = b->unknown;
    for (size_t i = 0; i < b->len; i++) {
        if (!budget_covers(&b->items[i], pod))
            continue;
        n++;
        *ret_exhausted |= b->items[i].allowed < 1;
    }
    return n;
}

// --- properties of pods ---

static bool is_terminal(const json_t *pod)
{
    const char *phase = codec_json_str(pod, "status", "phase", NULL);
    return gs_streq(phase, "Succeeded") || gs_streq(phase, "Failed");
}

static bool is_long_terminating(const json_t *pod, int64_t now_ms)
{
    const char *text = codec_json_str(pod, "metadata", "deletionTimestamp", NULL);
    int64_t ms = 0;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_rfc3339(gs_slice_of(text), &ms) : NULL;
    return text && !err && now_ms - ms > LONG_TERMINATING_MS;
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
    const char *harmless = kube_annotation(pod, AUTOSCALER_ANN "safe-to-evict-local-volumes");
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

static bool blocks_as_system_pod(const json_t *pod, size_t n_budgets, int64_t now_ms)
{
    return gs_streq(kube_namespace(pod), "kube-system") && n_budgets == 0 &&
           now_ms - autoscaler_created_ms(pod, now_ms) <= SYSTEM_POD_TIMEOUT_MS;
}

// --- the rules ---

enum autoscaler_move autoscaler_may_move(const struct autoscaler *a, struct autoscaler_budgets *b,
                                         const json_t *pod, int64_t now_ms, char **ret_why)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    const char *safe = kube_annotation(pod, AUTOSCALER_ANN "safe-to-evict");
    const char *ns = kube_namespace(pod), *name = kube_name(pod);
    bool exhausted;
    size_t n_budgets = covering_budgets(b, pod, &exhausted);

    if (autoscaler_is_mirror_pod(pod) || is_long_terminating(pod, now_ms) ||
        autoscaler_is_daemonset_pod(pod))
        return AUTOSCALER_IGNORE;
    if (gs_streq(safe, "true"))
        return is_terminal(pod) ? AUTOSCALER_IGNORE : AUTOSCALER_MOVE;
    if (is_terminal(pod))
        return AUTOSCALER_IGNORE;
    if (!kube_controller_ref(pod))
        *ret_why = gs_format("%s/%s is not replicated", ns, name);
    else if (s->skip_system_pods && blocks_as_system_pod(pod, n_budgets, now_ms))
        *ret_why = gs_format(
            "non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: %s", name);
    else if (gs_streq(safe, "false"))
        *ret_why = gs_format("pod annotated as not safe to evict present: %s", name);
    else if (s->skip_local_storage && has_local_storage(pod))
        *ret_why = gs_format("pod with local storage present: %s", name);
    else if (exhausted)
        *ret_why = b->unknown
                       ? gs_format("PodDisruptionBudgets could not be read")
                       : gs_format("not enough pod disruption budget to move %s/%s", ns, name);
    else
        return AUTOSCALER_MOVE;
    return AUTOSCALER_BLOCK;
}
