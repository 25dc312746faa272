// SPDX-License-Identifier: Apache-2.0
// The workload of a pod, without a comparison with all workloads: each is in the list of one label
// that its selector requires. Of several labels, the one with the shortest list so far is used,
// because some, such as that of the tool that made the objects, are the same everywhere.
#include "hpa_controller/budgets_private.h"

#include "kube/object.h"

LIST_HEAD(hpa_budget_list, hpa_budget_workload);

struct labeled {
    struct hpa_budget_list list;
    size_t n;
};

// label NULL: of those whose selector requires none. A namespace has no slash.
static char *list_key(const char *ns, const char *label, const char *value)
{
    return label ? gs_format("%s/%s=%s", ns, label, value) : gs_format("%s/", ns);
}

static size_t length_of(const struct hpa_budgets *b, const char *key)
{
    const struct labeled *l = gs_hmap_get_str(b->index, key);
    return l ? l->n : 0;
}

static char *choose_list(const struct hpa_budgets *b, const struct hpa_budget_workload *w)
{
    char *best = NULL;
    for (size_t i = 0; i < w->selector.len; i++) {
        const struct kube_requirement *r = &w->selector.items[i];
        if (r->op != KUBE_SEL_EQ)
            continue;
        char *key = list_key(w->ns, r->key, r->values[0]);
        bool shorter = !best || length_of(b, key) < length_of(b, best);
        free(shorter ? best : key);
        best = shorter ? key : best;
    }
    return best ? best : list_key(w->ns, NULL, NULL);
}

void hpa_budget_index_remove(struct hpa_budgets *b, struct hpa_budget_workload *w)
{
    if (!w->listed)
        return;
    struct labeled *l = gs_hmap_get_str(b->index, w->list_key);
    LIST_REMOVE(w, list);
    w->listed = false;
    if (--l->n == 0)
        free(gs_hmap_remove_str(b->index, w->list_key));
    free(GS_TAKE(w->list_key));
}

void hpa_budget_index_put(struct hpa_budgets *b, struct hpa_budget_workload *w)
{
    hpa_budget_index_remove(b, w);
    if (w->selector.nothing)
        return;
    w->list_key = choose_list(b, w);
    struct labeled *l = gs_hmap_get_str(b->index, w->list_key);
    if (!l) {
        l = gs_alloc(sizeof(*l));
        LIST_INIT(&l->list);
        gs_hmap_put_str(b->index, w->list_key, l);
    }
    LIST_INSERT_HEAD(&l->list, w, list);
    l->n++;
    w->listed = true;
}

static struct hpa_budget_workload *find_in(const struct hpa_budgets *b, const char *key,
                                           const json_t *pod)
{
    const struct labeled *l = gs_hmap_get_str(b->index, key);
    struct hpa_budget_workload *w;
    if (!l)
        return NULL;
    LIST_FOREACH (w, &l->list, list)
        if (hpa_budget_is_of(w, pod))
            return w;
    return NULL;
}

struct hpa_budget_workload *hpa_budget_index_find(const struct hpa_budgets *b, const json_t *pod)
{
    const char *ns = kube_namespace(pod), *label;
    GS_AUTO_FREE char *rest = list_key(ns, NULL, NULL);
    struct hpa_budget_workload *found = NULL;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)codec_json_get(pod, "metadata", "labels", NULL),
                         label, value) {
        GS_AUTO_FREE char *key =
            json_is_string(value) ? list_key(ns, label, json_string_value(value)) : NULL;
        if (key && !found)
            found = find_in(b, key, pod);
    }
    return found ? found : find_in(b, rest, pod);
}
