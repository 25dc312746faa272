// SPDX-License-Identifier: Apache-2.0
// The pool of the pools file that a node group belongs to: by the group's ID, by the last part of
// the ID, by the labels of cloud providers for pools, or by the instance type if only one pool has
// it.
#include "expander/expander_private.h"

#define TYPE_LABEL "node.kubernetes.io/instance-type"

static const struct nodes_pool *find(const struct nodes_pools *pools, struct gs_slice name)
{
    for (size_t i = 0; i < pools->len; i++)
        if (gs_slice_eq_str(name, pools->items[i].name))
            return &pools->items[i];
    return NULL;
}

static const char *label_of(const json_t *node, const char *key)
{
    return codec_json_str(node, "metadata", "labels", key, NULL);
}

// Only if the type is that of one pool.
static const struct nodes_pool *find_type(const struct nodes_pools *pools, const char *type)
{
    const struct nodes_pool *found = NULL;
    for (size_t i = 0; i < pools->len && type; i++) {
        if (!gs_streq(pools->items[i].machine_type, type))
            continue;
        if (found)
            return NULL;
        found = &pools->items[i];
    }
    return found;
}

const struct nodes_pool *expander_pool_of(const struct nodes_pools *pools, struct gs_slice group,
                                          const json_t *node)
{
    const struct nodes_pool *found = find(pools, group);
    size_t start = group.len;
    while (start && group.data[start - 1] != '/')
        start--;
    if (!found)
        found = find(pools, gs_slice_make(group.data + start, group.len - start));
    for (size_t i = 0; nodes_pool_labels[i] && !found; i++)
        if (label_of(node, nodes_pool_labels[i]))
            found = find(pools, gs_slice_of(label_of(node, nodes_pool_labels[i])));
    return found ? found : find_type(pools, label_of(node, TYPE_LABEL));
}
