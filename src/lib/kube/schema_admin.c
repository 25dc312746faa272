// SPDX-License-Identifier: Apache-2.0
// coordination, events, rbac and scheduling groups.
#include "kube/schema_private.h"

#define SCHEDULING   "io.k8s.api.scheduling.v1."
#define COORDINATION "io.k8s.api.coordination.v1."
#define EVENTS       "io.k8s.api.events.v1."
#define RBAC         "io.k8s.api.rbac.v1."

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
