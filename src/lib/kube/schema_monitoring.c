// SPDX-License-Identifier: Apache-2.0
// monitoring.coreos.com: the kinds of the Prometheus operator that are read here, with the fields
// of its release 0.93. https://prometheus-operator.dev/docs/api-reference/api/
#include "kube/schema_private.h"

#define MONITORING "com.coreos.monitoring.v1."

// The types of the groups that both kinds of monitors have in common.
#define TLS_FIELDS                                                                                 \
    F_OBJECT("ca", secret_or_config_map), F_OBJECT("cert", secret_or_config_map),                  \
        F_BOOL("insecureSkipVerify"), F_OBJECT("keySecret", key_selector), F_STRING("maxVersion"), \
        F_STRING("minVersion"), F_STRING("serverName")
// params is a map of lists, proxyConnectHeader a map of lists of key selectors.
#define ENDPOINT_FIELDS                                                                            \
    F_OBJECT("authorization", authorization), F_OBJECT("basicAuth", basic_auth),                   \
        F_OBJECT("bearerTokenSecret", key_selector), F_BOOL("enableHttp2"),                        \
        F_BOOL("filterRunning"), F_BOOL("followRedirects"), F_BOOL("honorLabels"),                 \
        F_BOOL("honorTimestamps"), F_STRING("interval"),                                           \
        F_LIST("metricRelabelings", relabel_config), F_STRING("noProxy"),                          \
        F_OBJECT("oauth2", oauth2), F_ANY("params"), F_STRING("path"), F_STRING("port"),           \
        F_ANY("proxyConnectHeader"), F_BOOL("proxyFromEnvironment"), F_STRING("proxyUrl"),         \
        F_LIST("relabelings", relabel_config), F_STRING("scheme"), F_STRING("scrapeTimeout"),      \
        F_INTORSTR("targetPort"), F_BOOL("trackTimestampsStaleness")
#define MONITOR_FIELDS                                                                             \
    F_OBJECT("attachMetadata", attach_metadata), F_STRING("bodySizeLimit"),                        \
        F_BOOL("convertClassicHistogramsToNHCB"), F_STRING("fallbackScrapeProtocol"),              \
        F_STRING("jobLabel"), F_INT64("keepDroppedTargets"), F_INT64("labelLimit"),                \
        F_INT64("labelNameLengthLimit"), F_INT64("labelValueLengthLimit"),                         \
        F_OBJECT("namespaceSelector", namespace_selector), F_INT64("nativeHistogramBucketLimit"),  \
        F_INTORSTR("nativeHistogramMinBucketFactor"), F_LIST_OF("podTargetLabels", STRING),        \
        F_INT64("sampleLimit"), F_STRING("scrapeClass"), F_BOOL("scrapeClassicHistograms"),        \
        F_BOOL("scrapeNativeHistograms"), F_LIST_OF("scrapeProtocols", STRING),                    \
        F_OBJECT("selector", label_selector, REQUIRED), F_STRING("selectorMechanism"),             \
        F_INT64("targetLimit")

TYPE(attach_metadata, MONITORING "AttachMetadata", F_BOOL("node"));
TYPE(namespace_selector, MONITORING "NamespaceSelector", F_BOOL("any"),
     F_LIST_OF("matchNames", STRING));
TYPE(key_selector, MONITORING "SecretKeySelector", F_STRING("key", REQUIRED), F_STRING("name"),
     F_BOOL("optional"));
TYPE(authorization, MONITORING "SafeAuthorization", F_OBJECT("credentials", key_selector),
     F_STRING("type"));
TYPE(basic_auth, MONITORING "BasicAuth", F_OBJECT("password", key_selector),
     F_OBJECT("username", key_selector));
TYPE(secret_or_config_map, MONITORING "SecretOrConfigMap", F_OBJECT("configMap", key_selector),
     F_OBJECT("secret", key_selector));
TYPE(safe_tls_config, MONITORING "SafeTLSConfig", TLS_FIELDS);
TYPE(tls_config, MONITORING "TLSConfig", TLS_FIELDS, F_STRING("caFile"), F_STRING("certFile"),
     F_STRING("keyFile"));
TYPE(oauth2, MONITORING "OAuth2", F_OBJECT("clientId", secret_or_config_map, REQUIRED),
     F_OBJECT("clientSecret", key_selector, REQUIRED), F_MAP_OF("endpointParams", STRING),
     F_STRING("noProxy"), F_ANY("proxyConnectHeader"), F_BOOL("proxyFromEnvironment"),
     F_STRING("proxyUrl"), F_LIST_OF("scopes", STRING), F_OBJECT("tlsConfig", safe_tls_config),
     F_STRING("tokenUrl", REQUIRED));
TYPE(relabel_config, MONITORING "RelabelConfig", F_STRING("action"), F_INT64("modulus"),
     F_STRING("regex"), F_STRING("replacement"), F_STRING("separator"),
     F_LIST_OF("sourceLabels", STRING), F_STRING("targetLabel"));
TYPE(config_resource_condition, MONITORING "ConfigResourceCondition",
     F_TIME("lastTransitionTime", REQUIRED), F_STRING("message"), F_INT64("observedGeneration"),
     F_STRING("reason"), F_STRING("status", REQUIRED), F_STRING("type", REQUIRED));
TYPE(workload_binding, MONITORING "WorkloadBinding",
     F_LIST("conditions", config_resource_condition, BY("type")), F_STRING("group", REQUIRED),
     F_STRING("name", REQUIRED), F_STRING("namespace", REQUIRED), F_STRING("resource", REQUIRED));
TYPE(config_resource_status, MONITORING "ConfigResourceStatus",
     F_LIST("bindings", workload_binding));

TYPE(service_endpoint, MONITORING "Endpoint", ENDPOINT_FIELDS, F_STRING("bearerTokenFile"),
     F_OBJECT("tlsConfig", tls_config));
TYPE(service_monitor_spec, MONITORING "ServiceMonitorSpec", MONITOR_FIELDS,
     F_LIST("endpoints", service_endpoint, REQUIRED), F_STRING("serviceDiscoveryRole"),
     F_LIST_OF("targetLabels", STRING));
CUSTOM_KIND(service_monitor, MONITORING "ServiceMonitor", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", service_monitor_spec, REQUIRED),
            F_OBJECT("status", config_resource_status));

TYPE(pod_endpoint, MONITORING "PodMetricsEndpoint", ENDPOINT_FIELDS, F_INT32("portNumber"),
     F_OBJECT("tlsConfig", safe_tls_config));
TYPE(pod_monitor_spec, MONITORING "PodMonitorSpec", MONITOR_FIELDS,
     F_LIST("podMetricsEndpoints", pod_endpoint));
CUSTOM_KIND(pod_monitor, MONITORING "PodMonitor", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", pod_monitor_spec, REQUIRED),
            F_OBJECT("status", config_resource_status));

TYPE(rule, MONITORING "Rule", F_STRING("alert"), F_MAP_OF("annotations", STRING),
     F_INTORSTR("expr", REQUIRED), F_STRING("for"), F_STRING("keep_firing_for"),
     F_MAP_OF("labels", STRING), F_STRING("record"));
TYPE(rule_group, MONITORING "RuleGroup", F_STRING("interval"), F_MAP_OF("labels", STRING),
     F_INT32("limit"), F_STRING("name", REQUIRED), F_STRING("partial_response_strategy"),
     F_STRING("query_offset"), F_LIST("rules", rule));
TYPE(prometheus_rule_spec, MONITORING "PrometheusRuleSpec",
     F_LIST("groups", rule_group, BY("name")));
CUSTOM_KIND(prometheus_rule, MONITORING "PrometheusRule", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", prometheus_rule_spec, REQUIRED),
            F_OBJECT("status", config_resource_status));
