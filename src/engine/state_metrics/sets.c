// SPDX-License-Identifier: Apache-2.0
// Metrics of DaemonSets, StatefulSets and PodDisruptionBudgets.
#include "engine/state_metrics/state_metrics_private.h"

// --- DaemonSets ---

const struct state_metrics_family state_metrics_daemonset_families[] = {
    STATE_METRICS_CREATED("kube_daemonset_created", "daemonset"),
    STATE_METRICS_LABELS("kube_daemonset_labels", "daemonset"),
    STATE_METRICS_NUMBER("kube_daemonset_metadata_generation",
                         "The generation of the desired state.", "daemonset", "metadata",
                         "generation", -1),
    STATE_METRICS_NUMBER("kube_daemonset_status_current_number_scheduled",
                         "Nodes that run at least one pod.", "daemonset", "status",
                         "currentNumberScheduled", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_desired_number_scheduled",
                         "Nodes that should run the pod.", "daemonset", "status",
                         "desiredNumberScheduled", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_number_available", "Nodes with an available pod.",
                         "daemonset", "status", "numberAvailable", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_number_misscheduled",
                         "Nodes that should not run the pod, but do.", "daemonset", "status",
                         "numberMisscheduled", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_number_ready", "Nodes with a ready pod.",
                         "daemonset", "status", "numberReady", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_number_unavailable",
                         "Nodes without an available pod.", "daemonset", "status",
                         "numberUnavailable", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_observed_generation",
                         "The generation that the controller has observed.", "daemonset", "status",
                         "observedGeneration", 0),
    STATE_METRICS_NUMBER("kube_daemonset_status_updated_number_scheduled",
                         "Nodes with a pod of the latest template.", "daemonset", "status",
                         "updatedNumberScheduled", 0),
    {0},
};

// --- StatefulSets ---

const struct state_metrics_family state_metrics_statefulset_families[] = {
    STATE_METRICS_CREATED("kube_statefulset_created", "statefulset"),
    STATE_METRICS_LABELS("kube_statefulset_labels", "statefulset"),
    STATE_METRICS_NUMBER("kube_statefulset_metadata_generation",
                         "The generation of the desired state.", "statefulset", "metadata",
                         "generation", -1),
    STATE_METRICS_NUMBER("kube_statefulset_replicas", "Desired replicas.", "statefulset", "spec",
                         "replicas", 1),
    STATE_METRICS_NUMBER("kube_statefulset_status_replicas", "Current replicas.", "statefulset",
                         "status", "replicas", 0),
    STATE_METRICS_NUMBER("kube_statefulset_status_replicas_available",
                         "Replicas that are available.", "statefulset", "status",
                         "availableReplicas", 0),
    STATE_METRICS_NUMBER("kube_statefulset_status_replicas_current",
                         "Replicas of the current revision.", "statefulset", "status",
                         "currentReplicas", 0),
    STATE_METRICS_NUMBER("kube_statefulset_status_replicas_ready", "Replicas that are ready.",
                         "statefulset", "status", "readyReplicas", 0),
    STATE_METRICS_NUMBER("kube_statefulset_status_replicas_updated",
                         "Replicas of the latest revision.", "statefulset", "status",
                         "updatedReplicas", 0),
    STATE_METRICS_NUMBER("kube_statefulset_status_observed_generation",
                         "The generation that the controller has observed.", "statefulset",
                         "status", "observedGeneration", 0),
    STATE_METRICS_REPLICA_GPUS("gpuscale_statefulset_replica_gpus", "StatefulSet"),
    {0},
};

// --- PodDisruptionBudgets ---

const struct state_metrics_family state_metrics_budget_families[] = {
    STATE_METRICS_CREATED("kube_poddisruptionbudget_created", "poddisruptionbudget"),
    STATE_METRICS_LABELS("kube_poddisruptionbudget_labels", "poddisruptionbudget"),
    STATE_METRICS_NUMBER("kube_poddisruptionbudget_status_current_healthy", "Healthy pods.",
                         "poddisruptionbudget", "status", "currentHealthy", 0),
    STATE_METRICS_NUMBER("kube_poddisruptionbudget_status_desired_healthy",
                         "Minimum of healthy pods.", "poddisruptionbudget", "status",
                         "desiredHealthy", 0),
    STATE_METRICS_NUMBER("kube_poddisruptionbudget_status_pod_disruptions_allowed",
                         "Evictions that are allowed now.", "poddisruptionbudget", "status",
                         "disruptionsAllowed", 0),
    STATE_METRICS_NUMBER("kube_poddisruptionbudget_status_expected_pods",
                         "Pods that the budget counts.", "poddisruptionbudget", "status",
                         "expectedPods", 0),
    STATE_METRICS_NUMBER("kube_poddisruptionbudget_status_observed_generation",
                         "The generation that the controller has observed.", "poddisruptionbudget",
                         "status", "observedGeneration", 0),
    {0},
};
