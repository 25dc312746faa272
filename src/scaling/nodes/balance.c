// SPDX-License-Identifier: Apache-2.0
// --balance-similar-node-groups: an order is divided among groups that differ only in their name
// and place, so that their sizes become as equal as possible. As in the Cluster Autoscaler's
// comparator of node groups, memory may differ by 1.5 %, and labels of names and zones are ignored.
// Groups with different prices are not similar, because the choice would not hold for them.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/plan_private.h"

#define MEMORY_RATIO 0.015

// A group with the node that it would add.
struct side {
    const struct nodes_group *group;
    json_t *node;
};

// --- similar groups ---

static bool is_ignored(const struct side *p, const char *label)
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
    return p->group->pool && !p->group->pool->machine_type &&
           gs_streq(label, "node.kubernetes.io/instance-type");
}

static bool has_labels_of(const struct side *p, const struct side *other)
{
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(other->node, "metadata", "labels", NULL), key, value)
        if (!is_ignored(other, key) &&
            !gs_streq(kube_label(p->node, key), json_string_value(value)))
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

static bool has_capacity_of(const struct side *p, const struct side *other)
{
    const char *name;
    json_t *value;
    json_object_foreach (codec_json_get(other->node, "status", "capacity", NULL), name, value) {
        double a = amount(value);
        double b = amount(codec_json_get(p->node, "status", "capacity", name, NULL));
        double larger = a > b ? a : b, difference = a > b ? a - b : b - a;
        if (difference > (gs_streq(name, "memory") ? MEMORY_RATIO * larger : 0))
            return false;
    }
    return true;
}

static bool has_taints_of(const struct side *p, const struct side *other)
{
    const json_t *a = codec_json_get(p->node, "spec", "taints", NULL);
    const json_t *b = codec_json_get(other->node, "spec", "taints", NULL);
    return a == b || (a && b && json_equal(a, b));
}

static bool is_similar(const struct side *a, const struct side *b)
{
    return has_labels_of(a, b) && has_labels_of(b, a) && has_capacity_of(a, b) &&
           has_capacity_of(b, a) && has_taints_of(a, b);
}

// Whether the group takes every pod of the option.
static bool takes_pods(struct nodes_snapshot *s, const struct nodes_group *group,
                       const struct nodes_option *o, const struct nodes_choice_settings *settings)
{
    size_t last_form = NODES_NONE;
    for (size_t i = 0; i < o->n_pods; i++) {
        size_t form = nodes_pod_form(s, o->pods[i]);
        if (form == last_form)
            continue;
        last_form = form;
        struct nodes_reasons reasons = {0};
        nodes_group_reasons(s, o->pods[i], group, settings, &reasons);
        bool takes = !reasons.len;
        nodes_reasons_finish(&reasons);
        if (!takes)
            return false;
    }
    return true;
}

// --- division ---

// The smallest group that may grow; the first of equal ones. NULL: none.
static struct nodes_part *smallest(const struct nodes_group *groups, struct nodes_part *parts,
                                   size_t n)
{
    struct nodes_part *found = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t size = groups[parts[i].group].size + parts[i].count;
        if (size < groups[parts[i].group].max &&
            (!found || size < groups[found->group].size + found->count))
            found = &parts[i];
    }
    return found;
}

static size_t list_similar(struct nodes_snapshot *s, const struct nodes_group *groups,
                           size_t n_groups, const struct nodes_decision *d,
                           const struct nodes_choice_settings *settings, struct nodes_part *parts)
{
    size_t n = 0;
    struct side own = {&groups[d->chosen], nodes_group_node(&groups[d->chosen], settings)};
    parts[n++].group = d->chosen;
    for (size_t i = 0; i < n_groups; i++) {
        struct side other = {&groups[i],
                             i == d->chosen ? NULL : nodes_group_node(&groups[i], settings)};
        if (own.node && other.node && is_similar(&other, &own) &&
            takes_pods(s, &groups[i], &d->options[d->chosen], settings))
            parts[n++].group = i;
        json_decref(other.node);
    }
    json_decref(own.node);
    return n;
}

size_t nodes_balance(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                     const struct nodes_decision *d, const struct nodes_choice_settings *settings,
                     struct nodes_part **ret)
{
    struct nodes_part *parts = gs_alloc_array(n_groups + 1, sizeof(*parts));
    size_t n = list_similar(s, groups, n_groups, d, settings, parts), kept = 0;
    for (size_t left = d->options[d->chosen].count; left > 0; left--) {
        struct nodes_part *part = smallest(groups, parts, n);
        if (!part)
            break;
        part->count++;
    }
    for (size_t i = 0; i < n; i++)
        if (parts[i].count)
            parts[kept++] = parts[i];
    *ret = parts;
    return kept;
}
