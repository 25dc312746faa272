// SPDX-License-Identifier: Apache-2.0
// Metrics of Nodes, as in kube-state-metrics.
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"

static void add_node_identity(struct state_metrics_writer *w, const void *node)
{
    state_metrics_label(w, "node", kube_name(node));
}

static void begin_node_sample(struct state_metrics_writer *w, const json_t *node)
{
    state_metrics_begin(w);
    add_node_identity(w, node);
}

static const char *internal_ip(const json_t *node)
{
    const json_t *a;
    size_t i;
    json_array_foreach (codec_json_get(node, "status", "addresses", NULL), i, a) {
        if (gs_streq(codec_json_str(a, "type", NULL), "InternalIP"))
            return codec_json_str(a, "address", NULL);
    }
    return NULL;
}

static void write_node_info(struct state_metrics_writer *w, const json_t *node)
{
    static const char *const parts[][2] = {
        {"kernel_version", "kernelVersion"},
        {"os_image", "osImage"},
        {"kubelet_version", "kubeletVersion"},
        {"container_runtime_version", "containerRuntimeVersion"},
        {"system_uuid", "systemUUID"},
    };
    begin_node_sample(w, node);
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
        state_metrics_label(w, parts[i][0],
                            codec_json_str(node, "status", "nodeInfo", parts[i][1], NULL));
    state_metrics_label(w, "provider_id", codec_json_str(node, "spec", "providerID", NULL));
    state_metrics_label(w, "pod_cidr", codec_json_str(node, "spec", "podCIDR", NULL));
    state_metrics_label(w, "internal_ip", internal_ip(node));
    state_metrics_end(w, 1);
}

static void write_node_labels(struct state_metrics_writer *w, const json_t *node)
{
    begin_node_sample(w, node);
    state_metrics_object_labels(w, node);
    state_metrics_end(w, 1);
}

static void write_node_created(struct state_metrics_writer *w, const json_t *node)
{
    double s;
    if (!state_metrics_seconds(kube_created(node), &s))
        return;
    begin_node_sample(w, node);
    state_metrics_end(w, s);
}

static void deletion(struct state_metrics_writer *w, const json_t *node)
{
    double s;
    if (!state_metrics_seconds(codec_json_str(node, "metadata", "deletionTimestamp", NULL), &s))
        return;
    begin_node_sample(w, node);
    state_metrics_end(w, s);
}

static void roles(struct state_metrics_writer *w, const json_t *node)
{
    static const char prefix[] = "node-role.kubernetes.io/";
    const char *key;
    json_t *value;

    json_object_foreach (codec_json_get(node, "metadata", "labels", NULL), key, value) {
        if (!gs_starts(key, prefix))
            continue;
        begin_node_sample(w, node);
        state_metrics_label(w, "role", key + strlen(prefix));
        state_metrics_end(w, 1);
    }
}

static void unschedulable(struct state_metrics_writer *w, const json_t *node)
{
    begin_node_sample(w, node);
    state_metrics_flag(w, codec_json_bool(node, false, "spec", "unschedulable", NULL));
}

static void taints(struct state_metrics_writer *w, const json_t *node)
{
    const json_t *t;
    size_t i;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, t) {
        begin_node_sample(w, node);
        state_metrics_label(w, "key", codec_json_str(t, "key", NULL));
        state_metrics_label(w, "value", codec_json_str(t, "value", NULL));
        state_metrics_label(w, "effect", codec_json_str(t, "effect", NULL));
        state_metrics_end(w, 1);
    }
}

static void write_node_conditions(struct state_metrics_writer *w, const json_t *node)
{
    state_metrics_conditions(w, codec_json_get(node, "status", "conditions", NULL),
                             add_node_identity, node);
}

static void capacity(struct state_metrics_writer *w, const json_t *node)
{
    state_metrics_resources(w, codec_json_get(node, "status", "capacity", NULL), add_node_identity,
                            node);
}

static void allocatable(struct state_metrics_writer *w, const json_t *node)
{
    state_metrics_resources(w, codec_json_get(node, "status", "allocatable", NULL),
                            add_node_identity, node);
}

const struct state_metrics_family state_metrics_node_families[] = {
    {"kube_node_info", "Versions and addresses of a node.", METRICS_GAUGE, write_node_info},
    {"kube_node_labels", "The labels of the object, as label_*.", METRICS_GAUGE, write_node_labels},
    {"kube_node_created", "Creation time of the object, in seconds since 1970.", METRICS_GAUGE,
     write_node_created},
    {"kube_node_deletion_timestamp", "Deletion time of the object, in seconds since 1970.",
     METRICS_GAUGE, deletion},
    {"kube_node_role", "The roles of a node.", METRICS_GAUGE, roles},
    {"kube_node_spec_unschedulable", "1 when the node takes no new pods.", METRICS_GAUGE,
     unschedulable},
    {"kube_node_spec_taint", "The taints of a node.", METRICS_GAUGE, taints},
    {"kube_node_status_condition", "1 for the status of each condition.", METRICS_GAUGE,
     write_node_conditions},
    {"kube_node_status_capacity", "Capacity of a node by resource.", METRICS_GAUGE, capacity},
    {"kube_node_status_allocatable", "Capacity of a node for pods by resource.", METRICS_GAUGE,
     allocatable},
    {0},
};
