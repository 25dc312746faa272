// SPDX-License-Identifier: Apache-2.0
// The resources of the Kubernetes API that gpuscale knows by itself: what `gpuscale up` serves,
// what clients name, and what is found without discovery. A row has, in this order: group,
// preferred version, plural, singular, kind, whether its objects are in namespaces, and an array of
// short names (NULL: none).
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct kube_resource {
    const char *group; // "" for core
    const char *version;
    const char *plural, *singular, *kind;
    bool namespaced;
    const char *const *short_names; // NULL-terminated, or NULL
};

// All rows in turn; NULL after the last one.
const struct kube_resource *kube_resource_nth(size_t i);

#define KUBE_RESOURCE_SHORT(...) ((const char *const[]){__VA_ARGS__, NULL})

#define KUBE_RESOURCE_EVENTS "", "v1", "events", "event", "Event", true, KUBE_RESOURCE_SHORT("ev")
#define KUBE_RESOURCE_CONFIGMAPS                                                                   \
    "", "v1", "configmaps", "configmap", "ConfigMap", true, KUBE_RESOURCE_SHORT("cm")
#define KUBE_RESOURCE_ENDPOINTS                                                                    \
    "", "v1", "endpoints", "endpoints", "Endpoints", true, KUBE_RESOURCE_SHORT("ep")
#define KUBE_RESOURCE_LIMITRANGES                                                                  \
    "", "v1", "limitranges", "limitrange", "LimitRange", true, KUBE_RESOURCE_SHORT("limits")
#define KUBE_RESOURCE_NAMESPACES                                                                   \
    "", "v1", "namespaces", "namespace", "Namespace", false, KUBE_RESOURCE_SHORT("ns")
#define KUBE_RESOURCE_NODES "", "v1", "nodes", "node", "Node", false, KUBE_RESOURCE_SHORT("no")
#define KUBE_RESOURCE_PERSISTENTVOLUMECLAIMS                                                       \
    "", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", true,    \
        KUBE_RESOURCE_SHORT("pvc")
#define KUBE_RESOURCE_PERSISTENTVOLUMES                                                            \
    "", "v1", "persistentvolumes", "persistentvolume", "PersistentVolume", false,                  \
        KUBE_RESOURCE_SHORT("pv")
#define KUBE_RESOURCE_PODS "", "v1", "pods", "pod", "Pod", true, KUBE_RESOURCE_SHORT("po")
#define KUBE_RESOURCE_REPLICATIONCONTROLLERS                                                       \
    "", "v1", "replicationcontrollers", "replicationcontroller", "ReplicationController", true,    \
        KUBE_RESOURCE_SHORT("rc")
#define KUBE_RESOURCE_RESOURCEQUOTAS                                                               \
    "", "v1", "resourcequotas", "resourcequota", "ResourceQuota", true, KUBE_RESOURCE_SHORT("quota")
#define KUBE_RESOURCE_SECRETS "", "v1", "secrets", "secret", "Secret", true, NULL
#define KUBE_RESOURCE_SERVICEACCOUNTS                                                              \
    "", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", true, KUBE_RESOURCE_SHORT("sa")
#define KUBE_RESOURCE_SERVICES                                                                     \
    "", "v1", "services", "service", "Service", true, KUBE_RESOURCE_SHORT("svc")
#define KUBE_RESOURCE_PODTEMPLATES                                                                 \
    "", "v1", "podtemplates", "podtemplate", "PodTemplate", true, NULL
#define KUBE_RESOURCE_COMPONENTSTATUSES                                                            \
    "", "v1", "componentstatuses", "componentstatus", "ComponentStatus", false,                    \
        KUBE_RESOURCE_SHORT("cs")
#define KUBE_RESOURCE_BINDINGS "", "v1", "bindings", "binding", "Binding", true, NULL
#define KUBE_RESOURCE_MUTATINGWEBHOOKCONFIGURATIONS                                                \
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",                         \
        "mutatingwebhookconfiguration", "MutatingWebhookConfiguration", false, NULL
#define KUBE_RESOURCE_VALIDATINGWEBHOOKCONFIGURATIONS                                              \
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",                       \
        "validatingwebhookconfiguration", "ValidatingWebhookConfiguration", false, NULL
#define KUBE_RESOURCE_VALIDATINGADMISSIONPOLICIES                                                  \
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",                           \
        "validatingadmissionpolicy", "ValidatingAdmissionPolicy", false, NULL
#define KUBE_RESOURCE_VALIDATINGADMISSIONPOLICYBINDINGS                                            \
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings",                     \
        "validatingadmissionpolicybinding", "ValidatingAdmissionPolicyBinding", false, NULL
#define KUBE_RESOURCE_CUSTOMRESOURCEDEFINITIONS                                                    \
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition",         \
        "CustomResourceDefinition", false, KUBE_RESOURCE_SHORT("crd", "crds")
#define KUBE_RESOURCE_APISERVICES                                                                  \
    "apiregistration.k8s.io", "v1", "apiservices", "apiservice", "APIService", false, NULL
#define KUBE_RESOURCE_CONTROLLERREVISIONS                                                          \
    "apps", "v1", "controllerrevisions", "controllerrevision", "ControllerRevision", true, NULL
#define KUBE_RESOURCE_DAEMONSETS                                                                   \
    "apps", "v1", "daemonsets", "daemonset", "DaemonSet", true, KUBE_RESOURCE_SHORT("ds")
#define KUBE_RESOURCE_DEPLOYMENTS                                                                  \
    "apps", "v1", "deployments", "deployment", "Deployment", true, KUBE_RESOURCE_SHORT("deploy")
#define KUBE_RESOURCE_REPLICASETS                                                                  \
    "apps", "v1", "replicasets", "replicaset", "ReplicaSet", true, KUBE_RESOURCE_SHORT("rs")
#define KUBE_RESOURCE_STATEFULSETS                                                                 \
    "apps", "v1", "statefulsets", "statefulset", "StatefulSet", true, KUBE_RESOURCE_SHORT("sts")
#define KUBE_RESOURCE_HORIZONTALPODAUTOSCALERS                                                     \
    "autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",                    \
        "HorizontalPodAutoscaler", true, KUBE_RESOURCE_SHORT("hpa")
#define KUBE_RESOURCE_CRONJOBS                                                                     \
    "batch", "v1", "cronjobs", "cronjob", "CronJob", true, KUBE_RESOURCE_SHORT("cj")
#define KUBE_RESOURCE_JOBS   "batch", "v1", "jobs", "job", "Job", true, NULL
#define KUBE_RESOURCE_LEASES "coordination.k8s.io", "v1", "leases", "lease", "Lease", true, NULL
#define KUBE_RESOURCE_ENDPOINTSLICES                                                               \
    "discovery.k8s.io", "v1", "endpointslices", "endpointslice", "EndpointSlice", true, NULL
#define KUBE_RESOURCE_NEW_EVENTS                                                                   \
    "events.k8s.io", "v1", "events", "event", "Event", true, KUBE_RESOURCE_SHORT("ev")
#define KUBE_RESOURCE_PODMONITORS                                                                  \
    "monitoring.coreos.com", "v1", "podmonitors", "podmonitor", "PodMonitor", true,                \
        KUBE_RESOURCE_SHORT("pmon")
#define KUBE_RESOURCE_PROMETHEUSRULES                                                              \
    "monitoring.coreos.com", "v1", "prometheusrules", "prometheusrule", "PrometheusRule", true,    \
        KUBE_RESOURCE_SHORT("promrule")
#define KUBE_RESOURCE_SERVICEMONITORS                                                              \
    "monitoring.coreos.com", "v1", "servicemonitors", "servicemonitor", "ServiceMonitor", true,    \
        KUBE_RESOURCE_SHORT("smon")
#define KUBE_RESOURCE_INGRESSCLASSES                                                               \
    "networking.k8s.io", "v1", "ingressclasses", "ingressclass", "IngressClass", false, NULL
#define KUBE_RESOURCE_INGRESSES                                                                    \
    "networking.k8s.io", "v1", "ingresses", "ingress", "Ingress", true, KUBE_RESOURCE_SHORT("ing")
#define KUBE_RESOURCE_NETWORKPOLICIES                                                              \
    "networking.k8s.io", "v1", "networkpolicies", "networkpolicy", "NetworkPolicy", true,          \
        KUBE_RESOURCE_SHORT("netpol")
#define KUBE_RESOURCE_PODDISRUPTIONBUDGETS                                                         \
    "policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", true,    \
        KUBE_RESOURCE_SHORT("pdb")
#define KUBE_RESOURCE_CLUSTERROLEBINDINGS                                                          \
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding",                \
        "ClusterRoleBinding", false, NULL
#define KUBE_RESOURCE_CLUSTERROLES                                                                 \
    "rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole", false, NULL
#define KUBE_RESOURCE_ROLEBINDINGS                                                                 \
    "rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding", true, NULL
#define KUBE_RESOURCE_ROLES "rbac.authorization.k8s.io", "v1", "roles", "role", "Role", true, NULL
#define KUBE_RESOURCE_PRIORITYCLASSES                                                              \
    "scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", false,         \
        KUBE_RESOURCE_SHORT("pc")
#define KUBE_RESOURCE_DEVICECLASSES                                                                \
    "resource.k8s.io", "v1", "deviceclasses", "deviceclass", "DeviceClass", false, NULL
#define KUBE_RESOURCE_RESOURCECLAIMS                                                               \
    "resource.k8s.io", "v1", "resourceclaims", "resourceclaim", "ResourceClaim", true, NULL
#define KUBE_RESOURCE_RESOURCECLAIMTEMPLATES                                                       \
    "resource.k8s.io", "v1", "resourceclaimtemplates", "resourceclaimtemplate",                    \
        "ResourceClaimTemplate", true, NULL
#define KUBE_RESOURCE_RESOURCESLICES                                                               \
    "resource.k8s.io", "v1", "resourceslices", "resourceslice", "ResourceSlice", false, NULL
#define KUBE_RESOURCE_CSIDRIVERS                                                                   \
    "storage.k8s.io", "v1", "csidrivers", "csidriver", "CSIDriver", false, NULL
#define KUBE_RESOURCE_CSINODES "storage.k8s.io", "v1", "csinodes", "csinode", "CSINode", false, NULL
#define KUBE_RESOURCE_CSISTORAGECAPACITIES                                                         \
    "storage.k8s.io", "v1", "csistoragecapacities", "csistoragecapacity", "CSIStorageCapacity",    \
        true, NULL
#define KUBE_RESOURCE_STORAGECLASSES                                                               \
    "storage.k8s.io", "v1", "storageclasses", "storageclass", "StorageClass", false,               \
        KUBE_RESOURCE_SHORT("sc")
#define KUBE_RESOURCE_VOLUMEATTACHMENTS                                                            \
    "storage.k8s.io", "v1", "volumeattachments", "volumeattachment", "VolumeAttachment", false, NULL
