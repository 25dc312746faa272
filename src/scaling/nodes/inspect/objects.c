// SPDX-License-Identifier: Apache-2.0
// What the views of nodes read from objects: GPUs, workloads, times, states of nodes. Labels and
// taints are those of the Cluster Autoscaler, Karpenter and cloud providers.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/inspect/inspect_private.h"
#include "nodes/scheduling.h"

// --- pools ---

bool inspect_group_is(const char *group, const char *pool)
{
    size_t len = strlen(pool);

    if (!len || gs_streq(group, pool))
        return len > 0;
    for (const char *p = group; (p = strstr(p, pool)); p++)
        if (p > group && p[-1] == '-' && p[len] == '-')
            return true;
    return false;
}

// --- GPUs ---

static bool is_gpu(const char *resource)
{
    static const char *const names[] = {
        "nvidia.com/gpu",   "nvidia.com/gpu.shared", "amd.com/gpu",          "gpu.intel.com/i915",
        "gpu.intel.com/xe", "habana.ai/gaudi",       "microsoft.com/directx"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (strcmp(resource, names[i]) == 0)
            return true;
    return gs_starts(resource, "nvidia.com/mig-");
}

static int64_t quantity(const json_t *value)
{
    int64_t n = 0;

    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_string(value))
        gs_error_free(kube_quantity_parse_value(gs_slice_of(json_string_value(value)), &n));
    return n > 0 && n < INT32_MAX ? n : 0;
}

int64_t inspect_gpus(const json_t *resources)
{
    const char *name;
    json_t *value;
    int64_t n = 0;

    json_object_foreach ((json_t *)resources, name, value)
        if (is_gpu(name))
            n += quantity(value);
    return n;
}

int64_t inspect_pod_gpus(const json_t *pod)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    const char *name;
    json_t *milli;
    int64_t n = 0;

    json_object_foreach (requests, name, milli)
        if (is_gpu(name) && json_integer_value(milli) > 0 &&
            json_integer_value(milli) < INT32_MAX * INT64_C(1000))
            n += (json_integer_value(milli) + 999) / 1000;
    return n;
}

// --- times ---

int64_t inspect_condition_since(const json_t *obj, const char *type)
{
    return kube_time_ms(json_object_get(kube_condition(obj, type), "lastTransitionTime"), 0);
}

char *inspect_duration(int64_t ms, char *buf)
{
    return gs_format_units((ms > 0 ? ms / 1000 : 0) * GS_NS_PER_SEC, buf);
}

// --- events ---

bool inspect_event_is(const json_t *event, const char *component, const char *reason)
{
    const char *source = codec_json_str(event, "source", "component", NULL);

    if (!source || !*source)
        source = codec_json_str(event, "reportingComponent", NULL);
    return gs_streq(source, component) && gs_streq(codec_json_str(event, "reason", NULL), reason);
}

// --- nodes ---

const json_t *inspect_taint(const json_t *node, const char *key)
{
    size_t i;
    json_t *taint;

    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint)
        if (gs_streq(codec_json_str(taint, "key", NULL), key))
            return taint;
    return NULL;
}

const json_t *inspect_claim_of(const struct inspect_input *in, const char *node)
{
    size_t i;
    json_t *claim;

    json_array_foreach ((json_t *)in->claims, i, claim)
        if (gs_streq(codec_json_str(claim, "status", "nodeName", NULL), node))
            return claim;
    return NULL;
}

// A taint that pods do not tolerate until the node has been set up.
static const char *startup_taint(const json_t *node)
{
    static const char *const prefixes[] = {"startup-taint.cluster-autoscaler.kubernetes.io/",
                                           "ignore-taint.cluster-autoscaler.kubernetes.io/",
                                           "karpenter.sh/unregistered",
                                           "node.cloudprovider.kubernetes.io/uninitialized"};
    size_t i;
    json_t *taint;

    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        const char *key = codec_json_str(taint, "key", NULL);
        for (size_t k = 0; key && k < GS_ARRAY_LEN(prefixes); k++)
            if (gs_starts(key, prefixes[k]))
                return key;
    }
    return NULL;
}

static bool expects_gpus(const json_t *node)
{
    static const char *const labels[] = {
        "cloud.google.com/gke-accelerator",     "k8s.amazonaws.com/accelerator",
        "kubernetes.azure.com/accelerator",     "aliyun.accelerator/nvidia_name",
        "karpenter.k8s.aws/instance-gpu-count", "nvidia.com/gpu.present"};

    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        if (kube_label(node, labels[i]))
            return !gs_streq(kube_label(node, labels[i]), "false");
    return false;
}

static json_t *state(const char *name, const char *reason, int64_t since_ms)
{
    char since[GS_RFC3339_SIZE];
    json_t *out = json_object();

    codec_json_set_str(out, "state", name);
    codec_json_set_str(out, "reason", reason);
    if (since_ms > 0)
        codec_json_set_str(out, "since", gs_format_rfc3339(since_ms, since));
    return out;
}

// The value of the Cluster Autoscaler's taints is the time in seconds.
static int64_t taint_time(const json_t *taint)
{
    const char *text = codec_json_str(taint, "value", NULL);
    long long s = text ? strtoll(text, NULL, 10) : 0;

    return s > 0 && s < INT32_MAX * 4LL ? s * 1000 : 0;
}

json_t *inspect_node_state(const json_t *node, int64_t now_ms)
{
    const json_t *deleted = inspect_taint(node, "ToBeDeletedByClusterAutoscaler");
    const json_t *ready = kube_condition(node, "Ready");
    const char *taint = startup_taint(node);
    int64_t since = inspect_condition_since(node, "Ready");

    if (kube_is_deleting(node))
        return state("Deleting", NULL,
                     kube_time_ms(codec_json_get(node, "metadata", "deletionTimestamp", NULL), 0));
    if (deleted)
        return state("Draining", "the Cluster Autoscaler removes it", taint_time(deleted));
    if (inspect_taint(node, "karpenter.sh/disrupted"))
        return state("Draining", "Karpenter removes it", 0);
    if (!gs_streq(codec_json_str(ready, "status", NULL), "True"))
        return state(since && now_ms - kube_created_ms(node, 0) > 15 * 60 * 1000 ? "NotReady"
                                                                                 : "Starting",
                     codec_json_str(ready, "message", NULL), since);
    if (taint)
        return state("Starting", taint, since);
    if (expects_gpus(node) &&
        inspect_gpus(codec_json_get(node, "status", "allocatable", NULL)) == 0)
        return state("WaitingForGPUs",
                     "no GPU is allocatable yet: the driver and the device "
                     "plugin provide them",
                     since);
    if (codec_json_bool(node, false, "spec", "unschedulable", NULL))
        return state("Cordoned", NULL, 0);
    return state("Ready", NULL, since);
}
