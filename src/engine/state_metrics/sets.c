// SPDX-License-Identifier: Apache-2.0
// Metrics of DaemonSets, StatefulSets and PodDisruptionBudgets.
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/object.h"

#define NUMBER(fn, kind, fallback, part, key)                                                      \
    static void fn(struct state_metrics_writer *w, const json_t *obj)                              \
    {                                                                                              \
        state_metrics_number(w, obj, kind, fallback, part, key);                                   \
    }
#define CREATED_AND_LABELS(kind)                                                                   \
    static void kind##_created(struct state_metrics_writer *w, const json_t *obj)                  \
    {                                                                                              \
        state_metrics_created(w, obj, #kind);                                                      \
    }                                                                                              \
    static void kind##_labels(struct state_metrics_writer *w, const json_t *obj)                   \
    {                                                                                              \
        state_metrics_labels(w, obj, #kind);                                                       \
    }

// --- DaemonSets ---

CREATED_AND_LABELS(daemonset)
NUMBER(daemonset_current, "daemonset", 0, "status", "currentNumberScheduled")
NUMBER(daemonset_desired, "daemonset", 0, "status", "desiredNumberScheduled")
NUMBER(daemonset_available, "daemonset", 0, "status", "numberAvailable")
NUMBER(daemonset_misscheduled, "daemonset", 0, "status", "numberMisscheduled")
NUMBER(daemonset_ready, "daemonset", 0, "status", "numberReady")
NUMBER(daemonset_unavailable, "daemonset", 0, "status", "numberUnavailable")
NUMBER(daemonset_updated, "daemonset", 0, "status", "updatedNumberScheduled")
NUMBER(daemonset_observed, "daemonset", 0, "status", "observedGeneration")
NUMBER(daemonset_generation, "daemonset", -1, "metadata", "generation")

const struct state_metrics_family state_metrics_daemonset_families[] = {
    {"kube_daemonset_created", "Creation time of the object, in seconds since 1970.", METRICS_GAUGE,
     daemonset_created},
    {"kube_daemonset_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     daemonset_labels},
    {"kube_daemonset_metadata_generation", "The generation of the desired state.", METRICS_GAUGE,
     daemonset_generation},
    {"kube_daemonset_status_current_number_scheduled", "Nodes that run at least one pod.",
     METRICS_GAUGE, daemonset_current},
    {"kube_daemonset_status_desired_number_scheduled", "Nodes that should run the pod.",
     METRICS_GAUGE, daemonset_desired},
    {"kube_daemonset_status_number_available", "Nodes with an available pod.", METRICS_GAUGE,
     daemonset_available},
    {"kube_daemonset_status_number_misscheduled", "Nodes that should not run the pod, but do.",
     METRICS_GAUGE, daemonset_misscheduled},
    {"kube_daemonset_status_number_ready", "Nodes with a ready pod.", METRICS_GAUGE,
     daemonset_ready},
    {"kube_daemonset_status_number_unavailable", "Nodes without an available pod.", METRICS_GAUGE,
     daemonset_unavailable},
    {"kube_daemonset_status_observed_generation",
     "The generation that the controller has observed.", METRICS_GAUGE, daemonset_observed},
    {"kube_daemonset_status_updated_number_scheduled", "Nodes with a pod of the latest template.",
     METRICS_GAUGE, daemonset_updated},
    {0},
};

// --- StatefulSets ---

CREATED_AND_LABELS(statefulset)
NUMBER(statefulset_spec, "statefulset", 1, "spec", "replicas")
NUMBER(statefulset_replicas, "statefulset", 0, "status", "replicas")
NUMBER(statefulset_available, "statefulset", 0, "status", "availableReplicas")
NUMBER(statefulset_current, "statefulset", 0, "status", "currentReplicas")
NUMBER(statefulset_ready, "statefulset", 0, "status", "readyReplicas")
NUMBER(statefulset_updated, "statefulset", 0, "status", "updatedReplicas")
NUMBER(statefulset_observed, "statefulset", 0, "status", "observedGeneration")
NUMBER(statefulset_generation, "statefulset", -1, "metadata", "generation")

const struct state_metrics_family state_metrics_statefulset_families[] = {
    {"kube_statefulset_created", "Creation time of the object, in seconds since 1970.",
     METRICS_GAUGE, statefulset_created},
    {"kube_statefulset_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     statefulset_labels},
    {"kube_statefulset_metadata_generation", "The generation of the desired state.", METRICS_GAUGE,
     statefulset_generation},
    {"kube_statefulset_replicas", "Desired replicas.", METRICS_GAUGE, statefulset_spec},
    {"kube_statefulset_status_replicas", "Current replicas.", METRICS_GAUGE, statefulset_replicas},
    {"kube_statefulset_status_replicas_available", "Replicas that are available.", METRICS_GAUGE,
     statefulset_available},
    {"kube_statefulset_status_replicas_current", "Replicas of the current revision.", METRICS_GAUGE,
     statefulset_current},
    {"kube_statefulset_status_replicas_ready", "Replicas that are ready.", METRICS_GAUGE,
     statefulset_ready},
    {"kube_statefulset_status_replicas_updated", "Replicas of the latest revision.", METRICS_GAUGE,
     statefulset_updated},
    {"kube_statefulset_status_observed_generation",
     "The generation that the controller has observed.", METRICS_GAUGE, statefulset_observed},
    {0},
};

// --- PodDisruptionBudgets ---

CREATED_AND_LABELS(poddisruptionbudget)
NUMBER(budget_healthy, "poddisruptionbudget", 0, "status", "currentHealthy")
NUMBER(budget_desired, "poddisruptionbudget", 0, "status", "desiredHealthy")
NUMBER(budget_allowed, "poddisruptionbudget", 0, "status", "disruptionsAllowed")
NUMBER(budget_expected, "poddisruptionbudget", 0, "status", "expectedPods")
NUMBER(budget_observed, "poddisruptionbudget", 0, "status", "observedGeneration")

const struct state_metrics_family state_metrics_budget_families[] = {
    {"kube_poddisruptionbudget_created", "Creation time of the object, in seconds since 1970.",
     METRICS_GAUGE, poddisruptionbudget_created},
    {"kube_poddisruptionbudget_labels", "The labels of the object, as label_*.", METRICS_GAUGE,
     poddisruptionbudget_labels},
    {"kube_poddisruptionbudget_status_current_healthy", "Healthy pods.", METRICS_GAUGE,
     budget_healthy},
    {"kube_poddisruptionbudget_status_desired_healthy", "Minimum of healthy pods.", METRICS_GAUGE,
     budget_desired},
    {"kube_poddisruptionbudget_status_pod_disruptions_allowed", "Evictions that are allowed now.",
     METRICS_GAUGE, budget_allowed},
    {"kube_poddisruptionbudget_status_expected_pods", "Pods that the budget counts.", METRICS_GAUGE,
     budget_expected},
    {"kube_poddisruptionbudget_status_observed_generation",
     "The generation that the controller has observed.", METRICS_GAUGE, budget_observed},
    {0},
};
