// SPDX-License-Identifier: Apache-2.0
// networking.k8s.io/v1, policy/v1 and discovery.k8s.io/v1.
#include "kube/schema_private.h"

#define NETWORKING "io.k8s.api.networking.v1."
#define DISCOVERY  "io.k8s.api.discovery.v1."
#define POLICY     "io.k8s.api.policy.v1."

TYPE(service_backend_port, NETWORKING "ServiceBackendPort", F_STRING("name"), F_INT32("number"));
TYPE(ingress_service_backend, NETWORKING "IngressServiceBackend", F_STRING("name", REQUIRED),
     F_OBJECT("port", service_backend_port));
TYPE(ingress_backend, NETWORKING "IngressBackend", F_OBJECT("service", ingress_service_backend),
     F_OBJECT("resource", typed_local_object_reference));
TYPE(ingress_tls, NETWORKING "IngressTLS", F_LIST_OF("hosts", STRING), F_STRING("secretName"));
TYPE(http_ingress_path, NETWORKING "HTTPIngressPath", F_STRING("path"),
     F_STRING("pathType", REQUIRED), F_OBJECT("backend", ingress_backend, REQUIRED));
TYPE(http_ingress_rule_value, NETWORKING "HTTPIngressRuleValue",
     F_LIST("paths", http_ingress_path, REQUIRED));
TYPE(ingress_rule, NETWORKING "IngressRule", F_STRING("host"),
     F_OBJECT("http", http_ingress_rule_value));
TYPE(ingress_spec, NETWORKING "IngressSpec", F_STRING("ingressClassName"),
     F_OBJECT("defaultBackend", ingress_backend), F_LIST("tls", ingress_tls),
     F_LIST("rules", ingress_rule));
TYPE(ingress_port_status, NETWORKING "IngressPortStatus", F_INT32("port", REQUIRED),
     F_STRING("protocol", REQUIRED), F_STRING("error"));
TYPE(ingress_load_balancer_ingress, NETWORKING "IngressLoadBalancerIngress", F_STRING("ip"),
     F_STRING("hostname"), F_LIST("ports", ingress_port_status));
TYPE(ingress_load_balancer_status, NETWORKING "IngressLoadBalancerStatus",
     F_LIST("ingress", ingress_load_balancer_ingress));
TYPE(ingress_status, NETWORKING "IngressStatus",
     F_OBJECT("loadBalancer", ingress_load_balancer_status));
SHARED_TYPE(ingress, NETWORKING "Ingress", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", ingress_spec),
            F_OBJECT("status", ingress_status));
TYPE(ingress_class_parameters_reference, NETWORKING "IngressClassParametersReference",
     F_STRING("apiGroup"), F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED),
     F_STRING("scope"), F_STRING("namespace"));
TYPE(ingress_class_spec, NETWORKING "IngressClassSpec", F_STRING("controller"),
     F_OBJECT("parameters", ingress_class_parameters_reference));
SHARED_TYPE(ingress_class, NETWORKING "IngressClass", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", ingress_class_spec));
TYPE(network_policy_port, NETWORKING "NetworkPolicyPort", F_STRING("protocol"), F_INTORSTR("port"),
     F_INT32("endPort"));
TYPE(ip_block, NETWORKING "IPBlock", F_STRING("cidr", REQUIRED), F_LIST_OF("except", STRING));
TYPE(network_policy_peer, NETWORKING "NetworkPolicyPeer", F_OBJECT("podSelector", label_selector),
     F_OBJECT("namespaceSelector", label_selector), F_OBJECT("ipBlock", ip_block));
TYPE(network_policy_ingress_rule, NETWORKING "NetworkPolicyIngressRule",
     F_LIST("ports", network_policy_port), F_LIST("from", network_policy_peer));
TYPE(network_policy_egress_rule, NETWORKING "NetworkPolicyEgressRule",
     F_LIST("ports", network_policy_port), F_LIST("to", network_policy_peer));
TYPE(network_policy_spec, NETWORKING "NetworkPolicySpec", F_OBJECT("podSelector", label_selector),
     F_LIST("ingress", network_policy_ingress_rule), F_LIST("egress", network_policy_egress_rule),
     F_LIST_OF("policyTypes", STRING));
SHARED_TYPE(network_policy, NETWORKING "NetworkPolicy", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", network_policy_spec));
TYPE(pod_disruption_budget_spec, POLICY "PodDisruptionBudgetSpec", F_INTORSTR("minAvailable"),
     F_OBJECT("selector", label_selector), F_INTORSTR("maxUnavailable"),
     F_STRING("unhealthyPodEvictionPolicy"));
TYPE(pod_disruption_budget_status, POLICY "PodDisruptionBudgetStatus",
     F_INT64("observedGeneration"), F_MAP_OF("disruptedPods", TIME), F_INT32("disruptionsAllowed"),
     F_INT32("currentHealthy"), F_INT32("desiredHealthy"), F_INT32("expectedPods"),
     F_LIST("conditions", condition, BY("type")));
SHARED_TYPE(pod_disruption_budget, POLICY "PodDisruptionBudget", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", pod_disruption_budget_spec),
            F_OBJECT("status", pod_disruption_budget_status));
TYPE(slice_endpoint_conditions, DISCOVERY "EndpointConditions", F_BOOL("ready"), F_BOOL("serving"),
     F_BOOL("terminating"));
TYPE(slice_for_zone, DISCOVERY "ForZone", F_STRING("name", REQUIRED));
TYPE(slice_for_node, DISCOVERY "ForNode", F_STRING("name", REQUIRED));
TYPE(slice_endpoint_hints, DISCOVERY "EndpointHints", F_LIST("forZones", slice_for_zone),
     F_LIST("forNodes", slice_for_node));
TYPE(slice_endpoint, DISCOVERY "Endpoint", F_LIST_OF("addresses", STRING, REQUIRED),
     F_OBJECT("conditions", slice_endpoint_conditions), F_STRING("hostname"),
     F_OBJECT("targetRef", object_reference), F_MAP_OF("deprecatedTopology", STRING),
     F_STRING("nodeName"), F_STRING("zone"), F_OBJECT("hints", slice_endpoint_hints));
TYPE(slice_endpoint_port, DISCOVERY "EndpointPort", F_STRING("name"), F_STRING("protocol"),
     F_INT32("port"), F_STRING("appProtocol"));
SHARED_TYPE(slice_endpoint_slice, DISCOVERY "EndpointSlice", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta), F_STRING("addressType", REQUIRED),
            F_LIST("endpoints", slice_endpoint), F_LIST("ports", slice_endpoint_port));
