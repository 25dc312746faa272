// SPDX-License-Identifier: Apache-2.0
// admissionregistration, coordination, events, rbac and scheduling groups.
#include "kube/schema_private.h"

#define SCHEDULING   "io.k8s.api.scheduling.v1."
#define COORDINATION "io.k8s.api.coordination.v1."
#define EVENTS       "io.k8s.api.events.v1."
#define RBAC         "io.k8s.api.rbac.v1."
#define ADMISSION    "io.k8s.api.admissionregistration.v1."

SHARED_TYPE(priority_class, SCHEDULING "PriorityClass", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_INT32("value"), F_BOOL("globalDefault"),
            F_STRING("description"), F_STRING("preemptionPolicy"));
TYPE(lease_spec, COORDINATION "LeaseSpec", F_STRING("holderIdentity"),
     F_INT32("leaseDurationSeconds"), F_TIME("acquireTime"), F_TIME("renewTime"),
     F_INT32("leaseTransitions"), F_STRING("strategy"), F_STRING("preferredHolder"));
SHARED_TYPE(lease, COORDINATION "Lease", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", lease_spec));
TYPE(events_event_series, EVENTS "EventSeries", F_INT32("count", REQUIRED),
     F_TIME("lastObservedTime", REQUIRED));
SHARED_TYPE(events_event, EVENTS "Event", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_TIME("eventTime", REQUIRED),
            F_OBJECT("series", events_event_series), F_STRING("reportingController"),
            F_STRING("reportingInstance"), F_STRING("action"), F_STRING("reason"),
            F_OBJECT("regarding", object_reference), F_OBJECT("related", object_reference),
            F_STRING("note"), F_STRING("type"), F_OBJECT("deprecatedSource", event_source),
            F_TIME("deprecatedFirstTimestamp"), F_TIME("deprecatedLastTimestamp"),
            F_INT32("deprecatedCount"));
TYPE(policy_rule, RBAC "PolicyRule", F_LIST_OF("verbs", STRING, REQUIRED),
     F_LIST_OF("apiGroups", STRING), F_LIST_OF("resources", STRING),
     F_LIST_OF("resourceNames", STRING), F_LIST_OF("nonResourceURLs", STRING));
SHARED_TYPE(role, RBAC "Role", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_LIST("rules", policy_rule));
TYPE(subject, RBAC "Subject", F_STRING("kind", REQUIRED), F_STRING("apiGroup"),
     F_STRING("name", REQUIRED), F_STRING("namespace"));
TYPE(role_ref, RBAC "RoleRef", F_STRING("apiGroup"), F_STRING("kind", REQUIRED),
     F_STRING("name", REQUIRED));
SHARED_TYPE(role_binding, RBAC "RoleBinding", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_LIST("subjects", subject),
            F_OBJECT("roleRef", role_ref, REQUIRED));
TYPE(aggregation_rule, RBAC "AggregationRule", F_LIST("clusterRoleSelectors", label_selector));
SHARED_TYPE(cluster_role, RBAC "ClusterRole", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_LIST("rules", policy_rule),
            F_OBJECT("aggregationRule", aggregation_rule));
SHARED_TYPE(cluster_role_binding, RBAC "ClusterRoleBinding", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta), F_LIST("subjects", subject),
            F_OBJECT("roleRef", role_ref, REQUIRED));
TYPE(webhook_service, ADMISSION "ServiceReference", F_STRING("namespace", REQUIRED),
     F_STRING("name", REQUIRED), F_STRING("path"), F_INT32("port"));
TYPE(webhook_client_config, ADMISSION "WebhookClientConfig", F_STRING("url"),
     F_OBJECT("service", webhook_service), F("caBundle", BYTES));
TYPE(rule_with_operations, ADMISSION "RuleWithOperations", F_LIST_OF("operations", STRING),
     F_LIST_OF("apiGroups", STRING), F_LIST_OF("apiVersions", STRING),
     F_LIST_OF("resources", STRING), F_STRING("scope"));
TYPE(match_condition, ADMISSION "MatchCondition", F_STRING("name", REQUIRED),
     F_STRING("expression", REQUIRED));
#define WEBHOOK_FIELDS                                                                             \
    F_STRING("name", REQUIRED), F_OBJECT("clientConfig", webhook_client_config, REQUIRED),         \
        F_LIST("rules", rule_with_operations), F_STRING("failurePolicy"), F_STRING("matchPolicy"), \
        F_OBJECT("namespaceSelector", label_selector), F_OBJECT("objectSelector", label_selector), \
        F_STRING("sideEffects", REQUIRED), F_INT32("timeoutSeconds"),                              \
        F_LIST_OF("admissionReviewVersions", STRING, REQUIRED),                                    \
        F_LIST("matchConditions", match_condition, BY("name"))
TYPE(mutating_webhook, ADMISSION "MutatingWebhook", WEBHOOK_FIELDS, F_STRING("reinvocationPolicy"));
TYPE(validating_webhook, ADMISSION "ValidatingWebhook", WEBHOOK_FIELDS);
SHARED_TYPE(mutating_webhook_configuration, ADMISSION "MutatingWebhookConfiguration",
            F_STRING("apiVersion"), F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_LIST("webhooks", mutating_webhook, BY("name")));
SHARED_TYPE(validating_webhook_configuration, ADMISSION "ValidatingWebhookConfiguration",
            F_STRING("apiVersion"), F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_LIST("webhooks", validating_webhook, BY("name")));
