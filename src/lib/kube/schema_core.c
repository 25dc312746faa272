// SPDX-License-Identifier: Apache-2.0
// core/v1: kinds other than Pod and volumes.
#include "kube/schema_private.h"

#define CORE "io.k8s.api.core.v1."

TYPE(service_port, CORE "ServicePort", F_STRING("name"), F_STRING("protocol"),
     F_STRING("appProtocol"), F_INT32("port", REQUIRED), F_INTORSTR("targetPort"),
     F_INT32("nodePort"));
TYPE(client_ip_config, CORE "ClientIPConfig", F_INT32("timeoutSeconds"));
TYPE(session_affinity_config, CORE "SessionAffinityConfig", F_OBJECT("clientIP", client_ip_config));
TYPE(service_spec, CORE "ServiceSpec", F_LIST("ports", service_port, BY("port")),
     F_MAP_OF("selector", STRING), F_STRING("clusterIP"), F_LIST_OF("clusterIPs", STRING),
     F_STRING("type"), F_LIST_OF("externalIPs", STRING), F_STRING("sessionAffinity"),
     F_STRING("loadBalancerIP"), F_LIST_OF("loadBalancerSourceRanges", STRING),
     F_STRING("externalName"), F_STRING("externalTrafficPolicy"), F_INT32("healthCheckNodePort"),
     F_BOOL("publishNotReadyAddresses"), F_OBJECT("sessionAffinityConfig", session_affinity_config),
     F_LIST_OF("ipFamilies", STRING), F_STRING("ipFamilyPolicy"),
     F_BOOL("allocateLoadBalancerNodePorts"), F_STRING("loadBalancerClass"),
     F_STRING("internalTrafficPolicy"), F_STRING("trafficDistribution"));
TYPE(port_status, CORE "PortStatus", F_INT32("port", REQUIRED), F_STRING("protocol", REQUIRED),
     F_STRING("error"));
TYPE(load_balancer_ingress, CORE "LoadBalancerIngress", F_STRING("ip"), F_STRING("hostname"),
     F_STRING("ipMode"), F_LIST("ports", port_status));
TYPE(load_balancer_status, CORE "LoadBalancerStatus", F_LIST("ingress", load_balancer_ingress));
TYPE(service_status, CORE "ServiceStatus", F_OBJECT("loadBalancer", load_balancer_status),
     F_LIST("conditions", condition, BY("type")));
SHARED_TYPE(service, CORE "Service", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", service_spec),
            F_OBJECT("status", service_status));
TYPE(endpoint_address, CORE "EndpointAddress", F_STRING("ip", REQUIRED), F_STRING("hostname"),
     F_STRING("nodeName"), F_OBJECT("targetRef", object_reference));
TYPE(endpoint_port, CORE "EndpointPort", F_STRING("name"), F_INT32("port", REQUIRED),
     F_STRING("protocol"), F_STRING("appProtocol"));
TYPE(endpoint_subset, CORE "EndpointSubset", F_LIST("addresses", endpoint_address),
     F_LIST("notReadyAddresses", endpoint_address), F_LIST("ports", endpoint_port));
SHARED_TYPE(endpoints, CORE "Endpoints", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_LIST("subsets", endpoint_subset));
TYPE(namespace_spec, CORE "NamespaceSpec", F_LIST_OF("finalizers", STRING));
TYPE(namespace_condition, CORE "NamespaceCondition", F_STRING("type", REQUIRED),
     F_STRING("status", REQUIRED), F_TIME("lastTransitionTime"), F_STRING("reason"),
     F_STRING("message"));
TYPE(namespace_status, CORE "NamespaceStatus", F_STRING("phase"),
     F_LIST("conditions", namespace_condition, BY("type")));
SHARED_TYPE(namespace, CORE "Namespace", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", namespace_spec),
            F_OBJECT("status", namespace_status));
TYPE(taint, CORE "Taint", F_STRING("key", REQUIRED), F_STRING("value"),
     F_STRING("effect", REQUIRED), F_TIME("timeAdded"));
TYPE(config_map_node_config_source, CORE "ConfigMapNodeConfigSource",
     F_STRING("namespace", REQUIRED), F_STRING("name", REQUIRED), F_STRING("uid"),
     F_STRING("resourceVersion"), F_STRING("kubeletConfigKey", REQUIRED));
TYPE(node_config_source, CORE "NodeConfigSource",
     F_OBJECT("configMap", config_map_node_config_source));
TYPE(node_pod_preemption_policy, CORE "NodePodPreemptionPolicy",
     F_LIST_OF("disableResizePreemption", STRING));
TYPE(node_spec, CORE "NodeSpec", F_STRING("podCIDR"), F_LIST_OF("podCIDRs", STRING, SET),
     F_STRING("providerID"), F_BOOL("unschedulable"), F_LIST("taints", taint),
     F_OBJECT("configSource", node_config_source), F_STRING("externalID"),
     F_OBJECT("podPreemptionPolicy", node_pod_preemption_policy));
TYPE(node_condition, CORE "NodeCondition", F_STRING("type", REQUIRED), F_STRING("status", REQUIRED),
     F_TIME("lastHeartbeatTime"), F_TIME("lastTransitionTime"), F_STRING("reason"),
     F_STRING("message"));
TYPE(node_address, CORE "NodeAddress", F_STRING("type", REQUIRED), F_STRING("address", REQUIRED));
TYPE(daemon_endpoint, CORE "DaemonEndpoint", F_INT32("Port", REQUIRED));
TYPE(node_daemon_endpoints, CORE "NodeDaemonEndpoints",
     F_OBJECT("kubeletEndpoint", daemon_endpoint));
TYPE(node_swap_status, CORE "NodeSwapStatus", F_INT64("capacity"));
TYPE(node_system_info, CORE "NodeSystemInfo", F_STRING("machineID", REQUIRED),
     F_STRING("systemUUID", REQUIRED), F_STRING("bootID", REQUIRED),
     F_STRING("kernelVersion", REQUIRED), F_STRING("osImage", REQUIRED),
     F_STRING("containerRuntimeVersion", REQUIRED), F_STRING("kubeletVersion", REQUIRED),
     F_STRING("kubeProxyVersion", REQUIRED), F_STRING("operatingSystem", REQUIRED),
     F_STRING("architecture", REQUIRED), F_OBJECT("swap", node_swap_status));
TYPE(container_image, CORE "ContainerImage", F_LIST_OF("names", STRING), F_INT64("sizeBytes"));
TYPE(attached_volume, CORE "AttachedVolume", F_STRING("name", REQUIRED),
     F_STRING("devicePath", REQUIRED));
TYPE(node_config_status, CORE "NodeConfigStatus", F_OBJECT("assigned", node_config_source),
     F_OBJECT("active", node_config_source), F_OBJECT("lastKnownGood", node_config_source),
     F_STRING("error"));
TYPE(node_runtime_handler_features, CORE "NodeRuntimeHandlerFeatures",
     F_BOOL("recursiveReadOnlyMounts"), F_BOOL("userNamespaces"));
TYPE(node_runtime_handler, CORE "NodeRuntimeHandler", F_STRING("name"),
     F_OBJECT("features", node_runtime_handler_features));
TYPE(node_features, CORE "NodeFeatures", F_BOOL("supplementalGroupsPolicy"));
TYPE(node_status, CORE "NodeStatus", F_MAP_OF("capacity", QUANTITY),
     F_MAP_OF("allocatable", QUANTITY), F_STRING("phase"),
     F_LIST("conditions", node_condition, BY("type")),
     F_LIST("addresses", node_address, BY("type")),
     F_OBJECT("daemonEndpoints", node_daemon_endpoints), F_OBJECT("nodeInfo", node_system_info),
     F_LIST("images", container_image), F_LIST_OF("volumesInUse", STRING),
     F_LIST("volumesAttached", attached_volume), F_OBJECT("config", node_config_status),
     F_LIST("runtimeHandlers", node_runtime_handler), F_OBJECT("features", node_features),
     F_LIST_OF("declaredFeatures", STRING));
SHARED_TYPE(node, CORE "Node", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", node_spec),
            F_OBJECT("status", node_status));
SHARED_TYPE(config_map, CORE "ConfigMap", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_BOOL("immutable"), F_MAP_OF("data", STRING),
            F_MAP_OF("binaryData", BYTES));
SHARED_TYPE(secret, CORE "Secret", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_BOOL("immutable"), F_MAP_OF("data", BYTES),
            F_MAP_OF("stringData", STRING), F_STRING("type"));
SHARED_TYPE(service_account, CORE "ServiceAccount", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_LIST("secrets", object_reference, BY("name")),
            F_LIST("imagePullSecrets", local_object_reference),
            F_BOOL("automountServiceAccountToken"));
SHARED_TYPE(event_source, CORE "EventSource", F_STRING("component"), F_STRING("host"));
TYPE(event_series, CORE "EventSeries", F_INT32("count"), F_TIME("lastObservedTime"));
SHARED_TYPE(event, CORE "Event", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta, REQUIRED),
            F_OBJECT("involvedObject", object_reference, REQUIRED), F_STRING("reason"),
            F_STRING("message"), F_OBJECT("source", event_source), F_TIME("firstTimestamp"),
            F_TIME("lastTimestamp"), F_INT32("count"), F_STRING("type"), F_TIME("eventTime"),
            F_OBJECT("series", event_series), F_STRING("action"),
            F_OBJECT("related", object_reference), F_STRING("reportingComponent"),
            F_STRING("reportingInstance"));
TYPE(topology_selector_label_requirement, CORE "TopologySelectorLabelRequirement",
     F_STRING("key", REQUIRED), F_LIST_OF("values", STRING, REQUIRED));
SHARED_TYPE(topology_selector_term, CORE "TopologySelectorTerm",
            F_LIST("matchLabelExpressions", topology_selector_label_requirement));
TYPE(limit_range_item, CORE "LimitRangeItem", F_STRING("type", REQUIRED), F_MAP_OF("max", QUANTITY),
     F_MAP_OF("min", QUANTITY), F_MAP_OF("default", QUANTITY), F_MAP_OF("defaultRequest", QUANTITY),
     F_MAP_OF("maxLimitRequestRatio", QUANTITY));
TYPE(limit_range_spec, CORE "LimitRangeSpec", F_LIST("limits", limit_range_item, REQUIRED));
SHARED_TYPE(limit_range, CORE "LimitRange", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", limit_range_spec));
TYPE(scoped_resource_selector_requirement, CORE "ScopedResourceSelectorRequirement",
     F_STRING("scopeName", REQUIRED), F_STRING("operator", REQUIRED), F_LIST_OF("values", STRING));
TYPE(scope_selector, CORE "ScopeSelector",
     F_LIST("matchExpressions", scoped_resource_selector_requirement));
TYPE(resource_quota_spec, CORE "ResourceQuotaSpec", F_MAP_OF("hard", QUANTITY),
     F_LIST_OF("scopes", STRING), F_OBJECT("scopeSelector", scope_selector));
TYPE(resource_quota_status, CORE "ResourceQuotaStatus", F_MAP_OF("hard", QUANTITY),
     F_MAP_OF("used", QUANTITY));
SHARED_TYPE(resource_quota, CORE "ResourceQuota", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", resource_quota_spec),
            F_OBJECT("status", resource_quota_status));
TYPE(replication_controller_spec, CORE "ReplicationControllerSpec", F_INT32("replicas"),
     F_INT32("minReadySeconds"), F_MAP_OF("selector", STRING),
     F_OBJECT("template", pod_template_spec));
TYPE(replication_controller_condition, CORE "ReplicationControllerCondition",
     F_STRING("type", REQUIRED), F_STRING("status", REQUIRED), F_TIME("lastTransitionTime"),
     F_STRING("reason"), F_STRING("message"));
TYPE(replication_controller_status, CORE "ReplicationControllerStatus",
     F_INT32("replicas", REQUIRED), F_INT32("fullyLabeledReplicas"), F_INT32("readyReplicas"),
     F_INT32("availableReplicas"), F_INT64("observedGeneration"),
     F_LIST("conditions", replication_controller_condition, BY("type")));
SHARED_TYPE(replication_controller, CORE "ReplicationController", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", replication_controller_spec),
            F_OBJECT("status", replication_controller_status));
