// SPDX-License-Identifier: Apache-2.0
#include "local/collected.h"

#include "base/slice.h"

static const struct local_collected kinds[] = {
    {"Pod", {"", "v1", "pods"}, true},
    {"ReplicaSet", {"apps", "v1", "replicasets"}, true},
    {"Deployment", {"apps", "v1", "deployments"}, true},
    {"Service", {"", "v1", "services"}, true},
    {"Endpoints", {"", "v1", "endpoints"}, true},
    {"PersistentVolumeClaim", {"", "v1", "persistentvolumeclaims"}, true},
    {"ReplicationController", {"", "v1", "replicationcontrollers"}, true},
    {"DaemonSet", {"apps", "v1", "daemonsets"}, true},
    {"StatefulSet", {"apps", "v1", "statefulsets"}, true},
    {"ControllerRevision", {"apps", "v1", "controllerrevisions"}, true},
    {"Job", {"batch", "v1", "jobs"}, true},
    {"CronJob", {"batch", "v1", "cronjobs"}, true},
    {"PodDisruptionBudget", {"policy", "v1", "poddisruptionbudgets"}, true},
    {"Node", {"", "v1", "nodes"}, false},
    {"Namespace", {"", "v1", "namespaces"}, false},
    {"ConfigMap", {"", "v1", "configmaps"}, true},
    {"Secret", {"", "v1", "secrets"}, true},
    {"ServiceAccount", {"", "v1", "serviceaccounts"}, true},
    {"LimitRange", {"", "v1", "limitranges"}, true},
    {"ResourceQuota", {"", "v1", "resourcequotas"}, true},
    {"PersistentVolume", {"", "v1", "persistentvolumes"}, false},
    {"HorizontalPodAutoscaler", {"autoscaling", "v2", "horizontalpodautoscalers"}, true},
    {"Lease", {"coordination.k8s.io", "v1", "leases"}, true},
    {"EndpointSlice", {"discovery.k8s.io", "v1", "endpointslices"}, true},
    {"PodMonitor", {"monitoring.coreos.com", "v1", "podmonitors"}, true},
    {"PrometheusRule", {"monitoring.coreos.com", "v1", "prometheusrules"}, true},
    {"ServiceMonitor", {"monitoring.coreos.com", "v1", "servicemonitors"}, true},
    {"Ingress", {"networking.k8s.io", "v1", "ingresses"}, true},
    {"IngressClass", {"networking.k8s.io", "v1", "ingressclasses"}, false},
    {"NetworkPolicy", {"networking.k8s.io", "v1", "networkpolicies"}, true},
    {"ClusterRoleBinding", {"rbac.authorization.k8s.io", "v1", "clusterrolebindings"}, false},
    {"ClusterRole", {"rbac.authorization.k8s.io", "v1", "clusterroles"}, false},
    {"RoleBinding", {"rbac.authorization.k8s.io", "v1", "rolebindings"}, true},
    {"Role", {"rbac.authorization.k8s.io", "v1", "roles"}, true},
    {"ResourceClaim", {"resource.k8s.io", "v1", "resourceclaims"}, true},
    {"ResourceClaimTemplate", {"resource.k8s.io", "v1", "resourceclaimtemplates"}, true},
};

const struct local_collected *local_collected(size_t i)
{
    return i < GS_ARRAY_LEN(kinds) ? &kinds[i] : NULL;
}

bool local_is_collected(const char *group, const char *plural)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (gs_streq(kinds[i].gvr.resource, plural) && gs_streq(kinds[i].gvr.group, group))
            return true;
    return false;
}
