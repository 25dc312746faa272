// SPDX-License-Identifier: Apache-2.0
// The kinds whose fields are in the tables of schema_*.c, by API version and kind. Their texts and
// merge keys are those of Kubernetes' Go types.
#include "kube/schema.h"

#include "kube/schema_private.h"

static const struct {
    const char *api_version, *kind;
    const struct kube_type *type;
} kinds[] = {
    {"v1", "Pod", &kube_type_pod},
    {"v1", "Service", &kube_type_service},
    {"v1", "Endpoints", &kube_type_endpoints},
    {"v1", "Namespace", &kube_type_namespace},
    {"v1", "Node", &kube_type_node},
    {"v1", "ConfigMap", &kube_type_config_map},
    {"v1", "Secret", &kube_type_secret},
    {"v1", "ServiceAccount", &kube_type_service_account},
    {"v1", "Event", &kube_type_event},
    {"v1", "PersistentVolumeClaim", &kube_type_persistent_volume_claim},
    {"v1", "PersistentVolume", &kube_type_persistent_volume},
    {"v1", "LimitRange", &kube_type_limit_range},
    {"v1", "ResourceQuota", &kube_type_resource_quota},
    {"v1", "ReplicationController", &kube_type_replication_controller},
    {"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration",
     &kube_type_mutating_webhook_configuration},
    {"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration",
     &kube_type_validating_webhook_configuration},
    {"apps/v1", "ControllerRevision", &kube_type_controller_revision},
    {"apps/v1", "Deployment", &kube_type_deployment},
    {"apps/v1", "ReplicaSet", &kube_type_replica_set},
    {"apps/v1", "StatefulSet", &kube_type_stateful_set},
    {"apps/v1", "DaemonSet", &kube_type_daemon_set},
    {"batch/v1", "Job", &kube_type_job},
    {"batch/v1", "CronJob", &kube_type_cron_job},
    {"autoscaling/v1", "HorizontalPodAutoscaler", &kube_type_as_v1_horizontal_pod_autoscaler},
    {"autoscaling/v1", "Scale", &kube_type_as_v1_scale},
    {"autoscaling/v2", "HorizontalPodAutoscaler", &kube_type_horizontal_pod_autoscaler},
    {"autoscaling/v2beta1", "HorizontalPodAutoscaler",
     &kube_type_horizontal_pod_autoscaler_v2beta1},
    {"autoscaling/v2beta2", "HorizontalPodAutoscaler",
     &kube_type_horizontal_pod_autoscaler_v2beta2},
    {"coordination.k8s.io/v1", "Lease", &kube_type_lease},
    {"discovery.k8s.io/v1", "EndpointSlice", &kube_type_slice_endpoint_slice},
    {"events.k8s.io/v1", "Event", &kube_type_events_event},
    {"monitoring.coreos.com/v1", "PodMonitor", &kube_type_pod_monitor},
    {"monitoring.coreos.com/v1", "PrometheusRule", &kube_type_prometheus_rule},
    {"monitoring.coreos.com/v1", "ServiceMonitor", &kube_type_service_monitor},
    {"networking.k8s.io/v1", "Ingress", &kube_type_ingress},
    {"networking.k8s.io/v1", "IngressClass", &kube_type_ingress_class},
    {"networking.k8s.io/v1", "NetworkPolicy", &kube_type_network_policy},
    {"policy/v1", "PodDisruptionBudget", &kube_type_pod_disruption_budget},
    {"rbac.authorization.k8s.io/v1", "Role", &kube_type_role},
    {"rbac.authorization.k8s.io/v1", "RoleBinding", &kube_type_role_binding},
    {"rbac.authorization.k8s.io/v1", "ClusterRole", &kube_type_cluster_role},
    {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &kube_type_cluster_role_binding},
    {"scheduling.k8s.io/v1", "PriorityClass", &kube_type_priority_class},
    {"resource.k8s.io/v1", "DeviceClass", &kube_type_device_class},
    {"resource.k8s.io/v1", "ResourceClaim", &kube_type_dra_claim},
    {"resource.k8s.io/v1", "ResourceClaimTemplate", &kube_type_resource_claim_template},
    {"resource.k8s.io/v1", "ResourceSlice", &kube_type_resource_slice},
    {"storage.k8s.io/v1", "CSIDriver", &kube_type_csi_driver},
    {"storage.k8s.io/v1", "CSINode", &kube_type_csi_node},
    {"storage.k8s.io/v1", "CSIStorageCapacity", &kube_type_csi_storage_capacity},
    {"storage.k8s.io/v1", "StorageClass", &kube_type_storage_class},
    {"storage.k8s.io/v1", "VolumeAttachment", &kube_type_volume_attachment},
};

const struct kube_type *kube_schema_find(const char *api_version, const char *kind)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (gs_streq(kinds[i].kind, kind) && gs_streq(kinds[i].api_version, api_version))
            return kinds[i].type;
    return NULL;
}

const struct kube_type *kube_schema_nth(size_t i, const char **ret_api_version,
                                        const char **ret_kind)
{
    if (i >= GS_ARRAY_LEN(kinds))
        return NULL;
    *ret_api_version = kinds[i].api_version;
    *ret_kind = kinds[i].kind;
    return kinds[i].type;
}

const struct kube_field *kube_schema_field(const struct kube_type *t, const char *name)
{
    for (const struct kube_field *f = t->fields; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}
