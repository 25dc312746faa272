// SPDX-License-Identifier: Apache-2.0
// --balance-similar-node-groups: a scale-up is divided among pools that differ only in their name
// and place, so that their sizes become as equal as possible. As in the Cluster Autoscaler's
// comparator of node groups, memory may differ by 1.5 %, and labels of names and zones are ignored.
// Pools with different prices are not similar, because the choice would not hold for them.
#include "autoscaler/autoscaler_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"

#define MEMORY_RATIO 0.015

// --- similar pools ---

static bool is_ignored(const struct autoscaler_pool *p, const char *label)
{
    static const char *const labels[] = {"kubernetes.io/hostname",
                                         "topology.kubernetes.io/zone",
                                         "topology.kubernetes.io/region",
                                         "failure-domain.beta.kubernetes.io/zone",
                                         "failure-domain.beta.kubernetes.io/region",
                                         "beta.kubernetes.io/fluentd-ds-ready",
                                         NULL};
    for (size_t i = 0; labels[i]; i++)
        if (gs_streq(label, labels[i]))
            return true;
    for (size_t i = 0; nodes_pool_labels[i]; i++)
        if (gs_streq(label, nodes_pool_labels[i]))
            return true;
    // Without a type, it is the name of the pool.
    return !p->pool->machine_type && gs_streq(label, "node.kubernetes.io/instance-type");
}

static bool has_labels_of(const struct autoscaler_pool *p, const struct autoscaler_pool *other)
{
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(other->template, "metadata", "labels", NULL), key, value)
        if (!is_ignored(other, key) &&
            !gs_streq(kube_label(p->template, key), json_string_value(value)))
            return false;
    return true;
}

static double amount(const json_t *v)
{
    int64_t milli = 0;
    GS_AUTO_ERROR struct gs_error *err =
        kube_quantity_parse_milli(gs_slice_of(json_string_value(v)), &milli);
    return err ? 0 : (double)milli;
}

static bool has_capacity_of(const struct autoscaler_pool *p, const struct autoscaler_pool *other)
{
    const char *name;
    json_t *value;
    json_object_foreach (codec_json_get(other->template, "status", "capacity", NULL), name, value) {
        double a = amount(value);
        double b = amount(codec_json_get(p->template, "status", "capacity", name, NULL));
        double larger = a > b ? a : b, difference = a > b ? a - b : b - a;
        if (difference > (gs_streq(name, "memory") ? MEMORY_RATIO * larger : 0))
            return false;
    }
    return true;
}

static bool has_taints_of(const struct autoscaler_pool *p, const struct autoscaler_pool *other)
{
    const json_t *a = codec_json_get(p->template, "spec", "taints", NULL);
    const json_t *b = codec_json_get(other->template, "spec", "taints", NULL);
    return a == b || (a && b && json_equal(a, b));
}

static bool is_similar(const struct autoscaler_pool *a, const struct autoscaler_pool *b)
{
    return has_labels_of(a, b) && has_labels_of(b, a) && has_capacity_of(a, b) &&
           has_capacity_of(b, a) && has_taints_of(a, b);
}

// Whether the group takes every pod of the option.
static bool takes_pods(struct autoscaler_run *r, const struct nodes_group *group,
                       const struct nodes_option *o, const struct nodes_choice_settings *settings)
{
    size_t last_form = NODES_NONE;
    for (size_t i = 0; i < o->n_pods; i++) {
        size_t form = nodes_pod_form(r->snapshot, o->pods[i]);
        if (form == last_form)
            continue;
        last_form = form;
        struct nodes_reasons reasons = {0};
        nodes_group_reasons(r->snapshot, o->pods[i], group, settings, &reasons);
        bool takes = !reasons.len;
        nodes_reasons_finish(&reasons);
        if (!takes)
            return false;
    }
    return true;
}

// --- division ---

// The smallest pool that may grow; the first of equal ones. NULL: none.
static struct autoscaler_share *smallest(struct autoscaler_share *shares, size_t n)
{
    struct autoscaler_share *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct autoscaler_share *s = &shares[i];
        size_t size = s->pool->target + s->count;
        if (size < s->pool->pool->max && (!found || size < found->pool->target + found->count))
            found = &shares[i];
    }
    return found;
}

struct autoscaler_share *autoscaler_balance(struct autoscaler *a, struct autoscaler_run *r,
                                            const struct autoscaler_choice *c, size_t *ret_n)
{
    const struct nodes_choice_settings settings = {.policy = a->policy, .now_ms = r->now_ms};
    struct autoscaler_share *shares = gs_alloc_array(a->cfg.n_pools + 1, sizeof(*shares));
    size_t n = 0;
    shares[n++].pool = c->pool;
    if (!a->cfg.settings.balance_similar) {
        shares[0].count = c->option->count;
        *ret_n = n;
        return shares;
    }
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        if (&a->pools[i] != c->pool && is_similar(&a->pools[i], c->pool) &&
            takes_pods(r, &c->groups[i], c->option, &settings))
            shares[n++].pool = &a->pools[i];
    for (size_t left = c->option->count; left > 0; left--) {
        struct autoscaler_share *s = smallest(shares, n);
        if (!s)
            break;
        s->count++;
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (shares[i].count)
            shares[kept++] = shares[i];
    *ret_n = kept;
    return shares;
}
