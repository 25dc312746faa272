// SPDX-License-Identifier: Apache-2.0
#include "local/api/registry.h"

#include "hpa/convert.h"
#include "local/api.h"
#include "local/api/aggregate.h"
#include "local/api/crd.h"
#include "local/api/table.h"

#define NAMES(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define FIELDS(...) ((const struct local_api_field[]){__VA_ARGS__, {0}})

#define V1              NAMES("v1")
#define EVENTS_CORE_ROW 0

enum {
    NS = LOCAL_API_R_NAMESPACED,
    STATUS = LOCAL_API_R_STATUS,
    SCALE = LOCAL_API_R_SCALE,
    GEN = LOCAL_API_R_GENERATION,
    INERT = LOCAL_API_R_INERT,
};

// Order within a group is the order of discovery.
const struct local_api_resource local_api_resources[] = {
    // Row 0 is what the events.k8s.io row shows.
    [EVENTS_CORE_ROW] = {.group = "",
                         .versions = V1,
                         .plural = "events",
                         .singular = "event",
                         .kind = "Event",
                         .short_names = NAMES("ev"),
                         .flags = NS,
                         .fields = FIELDS(
                             {"involvedObject.kind"}, {"involvedObject.namespace"},
                             {"involvedObject.name"}, {"involvedObject.uid"},
                             {"involvedObject.apiVersion"}, {"involvedObject.resourceVersion"},
                             {"involvedObject.fieldPath"}, {"reason"}, {"reportingComponent"},
                             {"source", .path = "source.component"}, {"type"}),
                         .validate = local_api_validate_event,
                         .table = &local_api_table_events},
    {.group = "",
     .versions = V1,
     .plural = "configmaps",
     .singular = "configmap",
     .kind = "ConfigMap",
     .short_names = NAMES("cm"),
     .flags = NS,
     .validate = local_api_validate_configmap,
     .table = &local_api_table_configmaps},
    {.group = "",
     .versions = V1,
     .plural = "endpoints",
     .singular = "endpoints",
     .kind = "Endpoints",
     .short_names = NAMES("ep"),
     .flags = NS,
     .set_defaults = local_api_default_endpoints,
     .table = &local_api_table_endpoints},
    {.group = "",
     .versions = V1,
     .plural = "limitranges",
     .singular = "limitrange",
     .kind = "LimitRange",
     .short_names = NAMES("limits"),
     .flags = NS,
     .set_defaults = local_api_default_limit_range},
    {.group = "",
     .versions = V1,
     .plural = "namespaces",
     .singular = "namespace",
     .kind = "Namespace",
     .short_names = NAMES("ns"),
     .flags = STATUS,
     .name_rule = LOCAL_API_NAME_LABEL,
     .fields = FIELDS({"status.phase"}),
     .set_defaults = local_api_default_namespace,
     .table = &local_api_table_namespaces},
    {.group = "",
     .versions = V1,
     .plural = "nodes",
     .singular = "node",
     .kind = "Node",
     .short_names = NAMES("no"),
     .flags = STATUS | LOCAL_API_R_AGENT,
     .fields = FIELDS({"spec.unschedulable", .absent = "false"}),
     .set_defaults = local_api_default_node,
     .table = &local_api_table_nodes},
    {.group = "",
     .versions = V1,
     .plural = "persistentvolumeclaims",
     .singular = "persistentvolumeclaim",
     .kind = "PersistentVolumeClaim",
     .short_names = NAMES("pvc"),
     .flags = NS | STATUS,
     .set_defaults = local_api_default_pvc,
     .table = &local_api_table_claims},
    {.group = "",
     .versions = V1,
     .plural = "persistentvolumes",
     .singular = "persistentvolume",
     .kind = "PersistentVolume",
     .short_names = NAMES("pv"),
     .flags = STATUS,
     .table = &local_api_table_volumes},
    {.group = "",
     .versions = V1,
     .plural = "pods",
     .singular = "pod",
     .kind = "Pod",
     .short_names = NAMES("po"),
     .category = "all",
     .flags = NS | STATUS,
     .fields = FIELDS({"spec.nodeName"}, {"spec.restartPolicy"}, {"spec.schedulerName"},
                      {"spec.serviceAccountName"}, {"spec.hostNetwork", .absent = "false"},
                      {"status.phase"}, {"status.podIP"}, {"status.nominatedNodeName"}),
     .set_defaults = local_api_default_pod,
     .validate = local_api_validate_pod,
     .table = &local_api_table_pods},
    {.group = "",
     .versions = V1,
     .plural = "replicationcontrollers",
     .singular = "replicationcontroller",
     .kind = "ReplicationController",
     .short_names = NAMES("rc"),
     .category = "all",
     .flags = NS | STATUS | SCALE | GEN,
     .fields = FIELDS({"status.replicas", .absent = "0"}),
     .set_defaults = local_api_default_replication_controller,
     .validate = local_api_validate_workload,
     .table = &local_api_table_replicasets},
    {.group = "",
     .versions = V1,
     .plural = "resourcequotas",
     .singular = "resourcequota",
     .kind = "ResourceQuota",
     .short_names = NAMES("quota"),
     .flags = NS | STATUS,
     .table = &local_api_table_quotas},
    {.group = "",
     .versions = V1,
     .plural = "secrets",
     .singular = "secret",
     .kind = "Secret",
     .flags = NS,
     .fields = FIELDS({"type"}),
     .set_defaults = local_api_default_secret,
     .validate = local_api_validate_secret,
     .table = &local_api_table_secrets},
    {.group = "",
     .versions = V1,
     .plural = "serviceaccounts",
     .singular = "serviceaccount",
     .kind = "ServiceAccount",
     .short_names = NAMES("sa"),
     .flags = NS,
     .table = &local_api_table_serviceaccounts},
    {.group = "",
     .versions = V1,
     .plural = "services",
     .singular = "service",
     .kind = "Service",
     .short_names = NAMES("svc"),
     .category = "all",
     .flags = NS | STATUS,
     .name_rule = LOCAL_API_NAME_LABEL_1035,
     .fields = FIELDS({"spec.clusterIP"}, {"spec.type"}),
     .set_defaults = local_api_default_service,
     .validate = local_api_validate_service,
     .table = &local_api_table_services},
    {.group = "admissionregistration.k8s.io",
     .versions = V1,
     .plural = "mutatingwebhookconfigurations",
     .singular = "mutatingwebhookconfiguration",
     .kind = "MutatingWebhookConfiguration",
     .flags = GEN | INERT},
    {.group = "admissionregistration.k8s.io",
     .versions = V1,
     .plural = "validatingwebhookconfigurations",
     .singular = "validatingwebhookconfiguration",
     .kind = "ValidatingWebhookConfiguration",
     .flags = GEN | INERT},
    {.group = "admissionregistration.k8s.io",
     .versions = V1,
     .plural = "validatingadmissionpolicies",
     .singular = "validatingadmissionpolicy",
     .kind = "ValidatingAdmissionPolicy",
     .flags = GEN | STATUS | INERT},
    {.group = "admissionregistration.k8s.io",
     .versions = V1,
     .plural = "validatingadmissionpolicybindings",
     .singular = "validatingadmissionpolicybinding",
     .kind = "ValidatingAdmissionPolicyBinding",
     .flags = GEN | INERT},
    {.group = "apiextensions.k8s.io",
     .versions = V1,
     .plural = "customresourcedefinitions",
     .singular = "customresourcedefinition",
     .kind = "CustomResourceDefinition",
     .short_names = NAMES("crd", "crds"),
     .category = "api-extensions",
     .flags = STATUS | GEN,
     .max_objects = 500, // each is searched for in discovery
     .set_defaults = local_api_default_crd,
     .validate = local_api_validate_crd,
     .complete = local_api_complete_crd,
     .table = &local_api_table_crds},
    {.group = "apiregistration.k8s.io",
     .versions = V1,
     .plural = "apiservices",
     .singular = "apiservice",
     .kind = "APIService",
     .category = "api-extensions",
     .flags = STATUS,
     .max_objects = 100, // each has a client
     .set_defaults = local_api_default_apiservice,
     .validate = local_api_validate_apiservice,
     .complete = local_api_complete_apiservice,
     .table = &local_api_table_apiservices},
    {.group = "apps",
     .versions = V1,
     .plural = "controllerrevisions",
     .singular = "controllerrevision",
     .kind = "ControllerRevision",
     .flags = NS,
     .table = &local_api_table_revisions},
    {.group = "apps",
     .versions = V1,
     .plural = "daemonsets",
     .singular = "daemonset",
     .kind = "DaemonSet",
     .short_names = NAMES("ds"),
     .category = "all",
     .flags = NS | STATUS | GEN,
     .set_defaults = local_api_default_daemonset,
     .validate = local_api_validate_workload,
     .table = &local_api_table_daemonsets},
    {.group = "apps",
     .versions = V1,
     .plural = "deployments",
     .singular = "deployment",
     .kind = "Deployment",
     .short_names = NAMES("deploy"),
     .category = "all",
     .flags = NS | STATUS | SCALE | GEN,
     .set_defaults = local_api_default_deployment,
     .validate = local_api_validate_workload,
     .table = &local_api_table_deployments},
    {.group = "apps",
     .versions = V1,
     .plural = "replicasets",
     .singular = "replicaset",
     .kind = "ReplicaSet",
     .short_names = NAMES("rs"),
     .category = "all",
     .flags = NS | STATUS | SCALE | GEN,
     .fields = FIELDS({"status.replicas", .absent = "0"}),
     .set_defaults = local_api_default_replicaset,
     .validate = local_api_validate_workload,
     .table = &local_api_table_replicasets},
    {.group = "apps",
     .versions = V1,
     .plural = "statefulsets",
     .singular = "statefulset",
     .kind = "StatefulSet",
     .short_names = NAMES("sts"),
     .category = "all",
     .flags = NS | STATUS | SCALE | GEN,
     .set_defaults = local_api_default_statefulset,
     .validate = local_api_validate_workload,
     .table = &local_api_table_statefulsets},
    {.group = "autoscaling",
     .versions = NAMES("v2", "v1", "v2beta2", "v2beta1"),
     .plural = "horizontalpodautoscalers",
     .singular = "horizontalpodautoscaler",
     .kind = "HorizontalPodAutoscaler",
     .short_names = NAMES("hpa"),
     .category = "all",
     .flags = NS | STATUS,
     .to_stored = hpa_to_v2,
     .from_stored = hpa_from_v2,
     .set_defaults = local_api_default_hpa,
     .validate = local_api_validate_hpa,
     .table = &local_api_table_hpas},
    {.group = "batch",
     .versions = V1,
     .plural = "cronjobs",
     .singular = "cronjob",
     .kind = "CronJob",
     .short_names = NAMES("cj"),
     .category = "all",
     .flags = NS | STATUS | GEN,
     .set_defaults = local_api_default_cronjob,
     .validate = local_api_validate_cronjob,
     .table = &local_api_table_cronjobs},
    {.group = "batch",
     .versions = V1,
     .plural = "jobs",
     .singular = "job",
     .kind = "Job",
     .category = "all",
     .flags = NS | STATUS | GEN,
     .fields = FIELDS({"status.successful", .path = "status.succeeded", .absent = "0"}),
     .set_defaults = local_api_default_job,
     .validate = local_api_validate_job,
     .table = &local_api_table_jobs},
    {.group = "coordination.k8s.io",
     .versions = V1,
     .plural = "leases",
     .singular = "lease",
     .kind = "Lease",
     .flags = NS,
     .table = &local_api_table_leases},
    {.group = "discovery.k8s.io",
     .versions = V1,
     .plural = "endpointslices",
     .singular = "endpointslice",
     .kind = "EndpointSlice",
     .flags = NS | GEN,
     .table = &local_api_table_endpointslices},
    {.group = "events.k8s.io",
     .versions = V1,
     .plural = "events",
     .singular = "event",
     .kind = "Event",
     .short_names = NAMES("ev"),
     .flags = NS,
     .fields = FIELDS({"regarding.kind"}, {"regarding.namespace"}, {"regarding.name"},
                      {"regarding.uid"}, {"reason"}, {"reportingController"}, {"type"}),
     .view_of = EVENTS_CORE_ROW + 1,
     .to_stored = local_api_event_to_core,
     .from_stored = local_api_event_from_core,
     .validate = local_api_validate_event,
     .table = &local_api_table_events},
    {.group = "monitoring.coreos.com",
     .versions = V1,
     .plural = "podmonitors",
     .singular = "podmonitor",
     .kind = "PodMonitor",
     .short_names = NAMES("pmon"),
     .flags = NS | GEN,
     .validate = local_api_validate_monitor},
    {.group = "monitoring.coreos.com",
     .versions = V1,
     .plural = "prometheusrules",
     .singular = "prometheusrule",
     .kind = "PrometheusRule",
     .short_names = NAMES("promrule"),
     .flags = NS | GEN},
    {.group = "monitoring.coreos.com",
     .versions = V1,
     .plural = "servicemonitors",
     .singular = "servicemonitor",
     .kind = "ServiceMonitor",
     .short_names = NAMES("smon"),
     .flags = NS | GEN,
     .validate = local_api_validate_monitor},
    {.group = "networking.k8s.io",
     .versions = V1,
     .plural = "ingressclasses",
     .singular = "ingressclass",
     .kind = "IngressClass",
     .flags = GEN,
     .table = &local_api_table_ingress_classes},
    {.group = "networking.k8s.io",
     .versions = V1,
     .plural = "ingresses",
     .singular = "ingress",
     .kind = "Ingress",
     .short_names = NAMES("ing"),
     .flags = NS | STATUS | GEN,
     .validate = local_api_validate_ingress,
     .table = &local_api_table_ingresses},
    {.group = "networking.k8s.io",
     .versions = V1,
     .plural = "networkpolicies",
     .singular = "networkpolicy",
     .kind = "NetworkPolicy",
     .short_names = NAMES("netpol"),
     .flags = NS | GEN | INERT},
    {.group = "policy",
     .versions = V1,
     .plural = "poddisruptionbudgets",
     .singular = "poddisruptionbudget",
     .kind = "PodDisruptionBudget",
     .short_names = NAMES("pdb"),
     .flags = NS | STATUS | GEN,
     .set_defaults = local_api_default_budget,
     .validate = local_api_validate_budget,
     .table = &local_api_table_budgets},
    {.group = "rbac.authorization.k8s.io",
     .versions = V1,
     .plural = "clusterrolebindings",
     .singular = "clusterrolebinding",
     .kind = "ClusterRoleBinding",
     .flags = INERT,
     .name_rule = LOCAL_API_NAME_PATH},
    {.group = "rbac.authorization.k8s.io",
     .versions = V1,
     .plural = "clusterroles",
     .singular = "clusterrole",
     .kind = "ClusterRole",
     .flags = INERT,
     .name_rule = LOCAL_API_NAME_PATH},
    {.group = "rbac.authorization.k8s.io",
     .versions = V1,
     .plural = "rolebindings",
     .singular = "rolebinding",
     .kind = "RoleBinding",
     .flags = NS | INERT,
     .name_rule = LOCAL_API_NAME_PATH},
    {.group = "rbac.authorization.k8s.io",
     .versions = V1,
     .plural = "roles",
     .singular = "role",
     .kind = "Role",
     .flags = NS | INERT,
     .name_rule = LOCAL_API_NAME_PATH},
    {.group = "scheduling.k8s.io",
     .versions = V1,
     .plural = "priorityclasses",
     .singular = "priorityclass",
     .kind = "PriorityClass",
     .short_names = NAMES("pc"),
     .flags = GEN,
     .set_defaults = local_api_default_priority_class,
     .validate = local_api_validate_priority_class,
     .table = &local_api_table_priority_classes},
    {.group = "resource.k8s.io",
     .versions = V1,
     .plural = "deviceclasses",
     .singular = "deviceclass",
     .kind = "DeviceClass",
     .flags = GEN | INERT},
    {.group = "resource.k8s.io",
     .versions = V1,
     .plural = "resourceclaims",
     .singular = "resourceclaim",
     .kind = "ResourceClaim",
     .flags = NS | STATUS | INERT},
    {.group = "resource.k8s.io",
     .versions = V1,
     .plural = "resourceclaimtemplates",
     .singular = "resourceclaimtemplate",
     .kind = "ResourceClaimTemplate",
     .flags = NS | INERT},
    {.group = "resource.k8s.io",
     .versions = V1,
     .plural = "resourceslices",
     .singular = "resourceslice",
     .kind = "ResourceSlice",
     .flags = GEN | INERT},
    {.group = "storage.k8s.io",
     .versions = V1,
     .plural = "csidrivers",
     .singular = "csidriver",
     .kind = "CSIDriver",
     .flags = INERT},
    {.group = "storage.k8s.io",
     .versions = V1,
     .plural = "csinodes",
     .singular = "csinode",
     .kind = "CSINode",
     .flags = INERT},
    {.group = "storage.k8s.io",
     .versions = V1,
     .plural = "csistoragecapacities",
     .singular = "csistoragecapacity",
     .kind = "CSIStorageCapacity",
     .flags = NS | INERT},
    {.group = "storage.k8s.io",
     .versions = V1,
     .plural = "storageclasses",
     .singular = "storageclass",
     .kind = "StorageClass",
     .short_names = NAMES("sc"),
     .flags = INERT},
    {.group = "storage.k8s.io",
     .versions = V1,
     .plural = "volumeattachments",
     .singular = "volumeattachment",
     .kind = "VolumeAttachment",
     .flags = STATUS | INERT},
};
const size_t local_api_n_resources = GS_ARRAY_LEN(local_api_resources);

const char *local_api_resource_version(const struct local_api_resource *r, const char *version)
{
    for (size_t i = 0; r->versions[i]; i++)
        if (strcmp(r->versions[i], version) == 0)
            return r->versions[i];
    return NULL;
}

const struct local_api_resource *local_api_resource_find(const char *group, const char *version,
                                                         const char *plural)
{
    for (size_t i = 0; i < local_api_n_resources; i++) {
        const struct local_api_resource *r = &local_api_resources[i];
        if (strcmp(r->group, group) == 0 && strcmp(r->plural, plural) == 0)
            return local_api_resource_version(r, version) ? r : NULL;
    }
    return NULL;
}

bool local_api_resource_is_built_in(const char *group, const char *plural, const char *kind)
{
    for (size_t i = 0; i < local_api_n_resources; i++)
        if (strcmp(local_api_resources[i].group, group) == 0 &&
            (strcmp(local_api_resources[i].plural, plural) == 0 ||
             strcmp(local_api_resources[i].kind, kind) == 0))
            return true;
    return false;
}

size_t local_api_resource_bucket(const struct local_api_resource *r)
{
    if (r->custom)
        return local_api_custom_bucket(r->custom);
    return r->view_of ? r->view_of - 1 : (size_t)(r - local_api_resources);
}

void local_api_resource_stored_as(const struct local_api_resource *r, struct gs_buf *version,
                                  const char **ret_kind)
{
    const struct local_api_resource *stored =
        r->custom ? r : &local_api_resources[local_api_resource_bucket(r)];

    local_api_version(stored->group,
                      r->custom ? local_api_custom_stored_version(r->custom) : stored->versions[0],
                      version);
    *ret_kind = stored->kind;
}

bool local_api_resource_has(const struct local_api_resource *r, unsigned flag)
{
    return (r->flags & flag) != 0;
}

bool local_api_resource_is_collected(const struct local_api_resource *r)
{
    return r->custom || strcmp(r->plural, "events") != 0;
}

bool local_api_collected(size_t i, struct local_api_collected *ret)
{
    const struct local_api_resource *r = NULL;

    for (size_t row = 0; row < local_api_n_resources; row++) {
        r = &local_api_resources[row];
        if (local_api_resource_is_collected(r) && i-- == 0)
            break;
        r = NULL;
    }
    if (!r)
        return false;
    *ret = (struct local_api_collected){
        .kind = r->kind,
        .gvr = {r->group, r->versions[0], r->plural},
        .namespaced = local_api_resource_has(r, LOCAL_API_R_NAMESPACED),
    };
    return true;
}

static void dotted(const char *head, const char *group, struct gs_buf *out)
{
    gs_buf_add_str(out, head);
    if (*group)
        gs_buf_addf(out, ".%s", group);
}

void local_api_resource_name(const struct local_api_resource *r, struct gs_buf *out)
{
    dotted(r->plural, r->group, out);
}

void local_api_resource_kind_name(const struct local_api_resource *r, struct gs_buf *out)
{
    dotted(r->kind, r->group, out);
}

void local_api_version(const char *group, const char *version, struct gs_buf *out)
{
    if (*group)
        gs_buf_addf(out, "%s/", group);
    gs_buf_add_str(out, version);
}
