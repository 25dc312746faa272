// SPDX-License-Identifier: Apache-2.0
// Defaults of all resources except pods (defaults_pod.c) and Jobs (defaults_job.c).
#include "local/api/registry.h"

#include "base/num.h"
#include "codec/encoding.h"
#include "hpa/convert.h"
#include "kube/object.h"

// --- workloads ---

static json_t *default_workload(json_t *obj)
{
    json_t *spec = json_object_get(obj, "spec");

    local_api_default_pod_spec(codec_json_get(spec, "template", "spec", NULL));
    return json_is_object(spec) ? spec : NULL;
}

static void default_rolling_update(json_t *strategy, const char *max_unavailable,
                                   const char *max_surge)
{
    json_t *rolling;

    if (!strategy)
        return;
    local_api_default_str(strategy, "type", "RollingUpdate");
    if (!gs_streq(codec_json_str(strategy, "type", NULL), "RollingUpdate"))
        return;
    rolling = local_api_default_object(strategy, "rollingUpdate");
    if (!rolling)
        return;
    local_api_default_str(rolling, "maxUnavailable", max_unavailable);
    local_api_default_str(rolling, "maxSurge", max_surge);
}

void local_api_default_deployment(json_t *obj, const json_t *old)
{
    json_t *spec = default_workload(obj);

    if (!spec)
        return;
    local_api_default_int(spec, "replicas", 1);
    default_rolling_update(local_api_default_object(spec, "strategy"), "25%", "25%");
    local_api_default_int(spec, "revisionHistoryLimit", 10);
    local_api_default_int(spec, "progressDeadlineSeconds", 600);
    if (!old)
        local_api_default_object(obj, "status");
}

void local_api_default_replicaset(json_t *obj, const json_t *old)
{
    json_t *spec = default_workload(obj);

    if (!spec)
        return;
    local_api_default_int(spec, "replicas", 1);
    if (!old)
        codec_json_set(obj, json_integer(0), "status", "replicas", NULL);
}

void local_api_default_replication_controller(json_t *obj, const json_t *old)
{
    json_t *spec = default_workload(obj);
    json_t *labels = codec_json_get(spec, "template", "metadata", "labels", NULL);

    if (!spec)
        return;
    local_api_default_int(spec, "replicas", 1);
    if (labels && json_object_size(json_object_get(spec, "selector")) == 0)
        json_object_set_new(spec, "selector", json_deep_copy(labels));
    if (labels && !codec_json_get(obj, "metadata", "labels", NULL))
        codec_json_set(obj, json_deep_copy(labels), "metadata", "labels", NULL);
    if (!old)
        codec_json_set(obj, json_integer(0), "status", "replicas", NULL);
}

static void default_claims(json_t *spec)
{
    json_t *policy = local_api_default_object(spec, "persistentVolumeClaimRetentionPolicy");
    size_t i;
    json_t *claim;

    if (policy) {
        local_api_default_str(policy, "whenDeleted", "Retain");
        local_api_default_str(policy, "whenScaled", "Retain");
    }
    json_array_foreach (json_object_get(spec, "volumeClaimTemplates"), i, claim) {
        local_api_default_str(claim, "apiVersion", "v1");
        local_api_default_str(claim, "kind", "PersistentVolumeClaim");
        local_api_default_pvc(claim, NULL);
    }
}

void local_api_default_statefulset(json_t *obj, const json_t *old)
{
    json_t *spec = default_workload(obj);
    json_t *update = spec ? local_api_default_object(spec, "updateStrategy") : NULL;

    if (!spec)
        return;
    local_api_default_int(spec, "replicas", 1);
    local_api_default_str(spec, "podManagementPolicy", "OrderedReady");
    local_api_default_int(spec, "revisionHistoryLimit", 10);
    if (update) {
        local_api_default_str(update, "type", "RollingUpdate");
        json_t *rolling = gs_streq(codec_json_str(update, "type", NULL), "RollingUpdate")
                              ? local_api_default_object(update, "rollingUpdate")
                              : NULL;
        if (rolling)
            local_api_default_int(rolling, "partition", 0);
        // The feature gate MaxUnavailableStatefulSet is off, as in Kubernetes 1.36.
        codec_json_del(update, "rollingUpdate", "maxUnavailable", NULL);
    }
    default_claims(spec);
    if (!old)
        codec_json_set(obj, json_integer(0), "status", "replicas", NULL);
}

// Counts the changes of the template. The pods have the number as a label.
static void count_templates(json_t *obj, const json_t *old)
{
    static const char key[] = "deprecated.daemonset.template.generation";
    const char *before = kube_annotation(old, key);
    int64_t n = 0;

    if (before)
        gs_error_free(gs_parse_i64(gs_slice_of(before), 0, INT32_MAX, &n));
    if (!old || !json_equal(codec_json_get(obj, "spec", "template", NULL),
                            codec_json_get(old, "spec", "template", NULL)))
        n++;
    codec_json_set(obj, codec_json_strf("%lld", (long long)n), "metadata", "annotations", key,
                   NULL);
}

void local_api_default_daemonset(json_t *obj, const json_t *old)
{
    static const char *const counts[] = {"currentNumberScheduled", "numberMisscheduled",
                                         "desiredNumberScheduled", "numberReady"};
    json_t *spec = default_workload(obj);
    json_t *update = spec ? local_api_default_object(spec, "updateStrategy") : NULL;

    if (!spec)
        return;
    local_api_default_int(spec, "revisionHistoryLimit", 10);
    if (update) {
        local_api_default_str(update, "type", "RollingUpdate");
        json_t *rolling = gs_streq(codec_json_str(update, "type", NULL), "RollingUpdate")
                              ? local_api_default_object(update, "rollingUpdate")
                              : NULL;
        if (rolling) {
            local_api_default_int(rolling, "maxUnavailable", 1);
            local_api_default_int(rolling, "maxSurge", 0);
        }
    }
    count_templates(obj, old);
    for (size_t i = 0; !old && i < GS_ARRAY_LEN(counts); i++)
        codec_json_set(obj, json_integer(0), "status", counts[i], NULL);
}

void local_api_default_hpa(json_t *obj, const json_t *old)
{
    hpa_default(obj);
    if (old)
        return;
    codec_json_set(obj, json_integer(0), "status", "desiredReplicas", NULL);
}

// --- services ---

static void default_service_ports(json_t *spec)
{
    size_t i;
    json_t *port;

    json_array_foreach (json_object_get(spec, "ports"), i, port) {
        local_api_default_str(port, "protocol", "TCP");
        json_t *target = json_object_get(port, "targetPort");
        if (!target || (json_is_string(target) && json_string_length(target) == 0) ||
            (json_is_integer(target) && json_integer_value(target) == 0))
            json_object_set(port, "targetPort", json_object_get(port, "port"));
    }
}

static const json_t *same_port(const json_t *ports, const json_t *port)
{
    size_t i;
    json_t *candidate;

    json_array_foreach ((json_t *)ports, i, candidate)
        if (json_equal(json_object_get(candidate, "port"), json_object_get(port, "port")) &&
            json_equal(json_object_get(candidate, "protocol"), json_object_get(port, "protocol")))
            return candidate;
    return NULL;
}

// Allocated addresses and ports that an update omits are kept.
static void keep_allocated(json_t *spec, const json_t *old_spec)
{
    static const char *const addresses[] = {"clusterIP", "clusterIPs"};
    const char *type = codec_json_str(spec, "type", NULL);
    size_t i;
    json_t *port;

    if (gs_streq(type, "ExternalName"))
        return;
    for (size_t a = 0; a < GS_ARRAY_LEN(addresses); a++) {
        json_t *given = json_object_get(spec, addresses[a]);
        json_t *allocated = json_object_get(old_spec, addresses[a]);
        bool empty = !given || (json_is_string(given) && json_string_length(given) == 0);
        if (empty && allocated)
            json_object_set(spec, addresses[a], allocated);
    }
    if (gs_streq(type, "ClusterIP"))
        return;
    json_array_foreach (json_object_get(spec, "ports"), i, port) {
        const json_t *before = same_port(json_object_get(old_spec, "ports"), port);
        json_t *node_port = json_object_get(before, "nodePort");
        if (node_port && !json_object_get(port, "nodePort"))
            json_object_set(port, "nodePort", node_port);
    }
}

static json_t *one(const char *text)
{
    json_t *list = json_array();

    json_array_append_new(list, json_string(text));
    return list;
}

static void default_addressing(json_t *spec, const char *type)
{
    const char *cluster_ip = codec_json_str(spec, "clusterIP", NULL);

    if (strcmp(type, "ExternalName") == 0)
        return;
    local_api_default_str(spec, "internalTrafficPolicy", "Cluster");
    local_api_default_str(spec, "ipFamilyPolicy", "SingleStack");
    if (!json_object_get(spec, "ipFamilies"))
        json_object_set_new(spec, "ipFamilies", one("IPv4"));
    if (cluster_ip && *cluster_ip && !json_object_get(spec, "clusterIPs"))
        json_object_set_new(spec, "clusterIPs", one(cluster_ip));
    if (strcmp(type, "NodePort") == 0 || strcmp(type, "LoadBalancer") == 0)
        local_api_default_str(spec, "externalTrafficPolicy", "Cluster");
    if (strcmp(type, "LoadBalancer") == 0 &&
        !json_object_get(spec, "allocateLoadBalancerNodePorts"))
        codec_json_set_bool(spec, "allocateLoadBalancerNodePorts", true);
}

// Removes the fields that the new type of the Service cannot have.
static void drop_unused(json_t *spec, const char *type)
{
    bool balancer = strcmp(type, "LoadBalancer") == 0;
    size_t i;
    json_t *port;

    if (!balancer)
        json_object_del(spec, "allocateLoadBalancerNodePorts");
    if (balancer || strcmp(type, "NodePort") == 0)
        return;
    json_object_del(spec, "externalTrafficPolicy");
    json_array_foreach (json_object_get(spec, "ports"), i, port)
        json_object_del(port, "nodePort");
}

void local_api_default_service(json_t *obj, const json_t *old)
{
    json_t *spec = json_object_get(obj, "spec");

    if (!json_is_object(spec))
        return;
    local_api_default_str(spec, "type", "ClusterIP");
    local_api_default_str(spec, "sessionAffinity", "None");
    default_service_ports(spec);
    const char *type = codec_json_str(spec, "type", NULL);
    if (!type)
        return;
    if (old) {
        const json_t *old_spec = json_object_get(old, "spec");
        keep_allocated(spec, old_spec);
        if (!gs_streq(type, codec_json_str(old_spec, "type", NULL)))
            drop_unused(spec, type);
    } else {
        codec_json_set(obj, json_object(), "status", "loadBalancer", NULL);
    }
    default_addressing(spec, type);
}

void local_api_default_endpoints(json_t *obj, const json_t *old)
{
    size_t i, k;
    json_t *subset, *port;

    json_array_foreach (json_object_get(obj, "subsets"), i, subset)
        json_array_foreach (json_object_get(subset, "ports"), k, port)
            local_api_default_str(port, "protocol", "TCP");
}

// --- the rest ---

void local_api_default_namespace(json_t *obj, const json_t *old)
{
    const char *name = kube_name(obj);

    if (name)
        codec_json_set(obj, json_string(name), "metadata", "labels", "kubernetes.io/metadata.name",
                       NULL);
    if (old) {
        // Only the finalize subresource changes spec.finalizers.
        json_t *spec = json_object_get(old, "spec");
        json_object_set_new(obj, "spec", spec ? json_deep_copy(spec) : json_object());
        return;
    }
    json_t *finalizers = json_array();
    json_array_append_new(finalizers, json_string("kubernetes"));
    codec_json_set(obj, finalizers, "spec", "finalizers", NULL);
    codec_json_set(obj, json_string("Active"), "status", "phase", NULL);
}

void local_api_default_node(json_t *obj, const json_t *old)
{
    json_t *status = json_object_get(obj, "status");
    json_t *capacity = json_object_get(status, "capacity");

    local_api_default_object(obj, "spec");
    if (capacity && !json_object_get(status, "allocatable"))
        json_object_set_new(status, "allocatable", json_deep_copy(capacity));
}

static void encode_string_data(json_t *obj)
{
    json_t *plain = json_object_get(obj, "stringData");
    const char *key;
    json_t *value;

    json_object_foreach (plain, key, value) {
        GS_AUTO_BUF struct gs_buf encoded = {0};
        if (!json_is_string(value))
            continue;
        codec_base64_encode(gs_slice_make(json_string_value(value), json_string_length(value)),
                            &encoded);
        codec_json_set(obj, json_string(encoded.data ? encoded.data : ""), "data", key, NULL);
    }
    json_object_del(obj, "stringData");
}

void local_api_default_secret(json_t *obj, const json_t *old)
{
    local_api_default_str(obj, "type", "Opaque");
    encode_string_data(obj);
}

void local_api_default_pvc(json_t *obj, const json_t *old)
{
    json_t *spec = local_api_default_object(obj, "spec");

    if (spec)
        local_api_default_str(spec, "volumeMode", "Filesystem");
    if (!old)
        codec_json_set(obj, json_string("Pending"), "status", "phase", NULL);
}
