// SPDX-License-Identifier: Apache-2.0
// Labels of the first node that nodes of clouds have, and those of --node-label and --node-taint,
// with the syntax of kubectl label and kubectl taint.
#include "up/up_private.h"

#include "base/mem.h"
#include "kube/names.h"

#include <string.h>

#define REGION "local"
#define ZONE   "local-a"

static bool has_zone(const struct nodes_pools *pools)
{
    for (size_t i = 0; i < pools->len; i++)
        if (pools->items[i].zone)
            return true;
    return false;
}

void up_node_defaults(json_t *labels, bool has_gpus, const struct nodes_pools *pools)
{
    // Charts spread their pods over zones, and exclude nodes without one. Pods that spread over the
    // zones of pools must not wait for one more on this node.
    if (!has_zone(pools)) {
        codec_json_set_str(labels, "topology.kubernetes.io/region", REGION);
        codec_json_set_str(labels, "topology.kubernetes.io/zone", ZONE);
    }
    if (!has_gpus)
        return;
    // Guides select nodes by it.
    codec_json_set_str(labels, "node.kubernetes.io/instance-type", "g4dn.xlarge");
    codec_json_set_str(labels, "beta.kubernetes.io/instance-type", "g4dn.xlarge");
}

// Label keys and values. "KEY" alone means "KEY=".
static struct gs_error *read_label(const char *item, json_t *labels)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    const char *equals = strchr(item, '=');
    struct gs_slice key = equals ? gs_slice_make(item, (size_t)(equals - item)) : gs_slice_of(item);
    struct gs_slice value = gs_slice_of(equals ? equals + 1 : "");
    if (!kube_check_label_key(key, &why) || !kube_check_label_value(value, &why))
        return gs_error_new(GS_EINVAL, "--node-label %s: %s; write KEY=VALUE", item, why.data);
    json_object_setn_new(labels, key.data, key.len, json_stringn(value.data, value.len));
    return NULL;
}

static bool is_effect(struct gs_slice s)
{
    return gs_slice_eq_str(s, "NoSchedule") || gs_slice_eq_str(s, "PreferNoSchedule") ||
           gs_slice_eq_str(s, "NoExecute");
}

// "KEY=VALUE:EFFECT" or "KEY:EFFECT", as kubectl taint reads them.
static struct gs_error *read_taint(const char *item, json_t *taints)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    const char *colon = strrchr(item, ':');
    struct gs_slice effect = gs_slice_of(colon ? colon + 1 : "");
    if (!colon || !is_effect(effect))
        return gs_error_new(GS_EINVAL,
                            "--node-taint %s: write KEY=VALUE:EFFECT with the effect NoSchedule, "
                            "PreferNoSchedule or NoExecute",
                            item);
    struct gs_slice value = gs_slice_make(item, (size_t)(colon - item));
    struct gs_slice key = gs_slice_cut(&value, '=');
    if (!value.data)
        value = gs_slice_of("");
    if (!kube_check_label_key(key, &why) || !kube_check_label_value(value, &why))
        return gs_error_new(GS_EINVAL, "--node-taint %s: %s", item, why.data);
    json_t *taint = json_object();
    json_object_set_new(taint, "key", json_stringn(key.data, key.len));
    if (value.len)
        json_object_set_new(taint, "value", json_stringn(value.data, value.len));
    json_object_set_new(taint, "effect", json_stringn(effect.data, effect.len));
    json_array_append_new(taints, taint);
    return NULL;
}

struct gs_error *up_node_parse(const struct up_options *o, json_t *labels, json_t *taints)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < o->node_labels.len; i++)
        err = read_label(o->node_labels.items[i], labels);
    for (size_t i = 0; !err && i < o->node_taints.len; i++)
        err = read_taint(o->node_taints.items[i], taints);
    return err;
}
