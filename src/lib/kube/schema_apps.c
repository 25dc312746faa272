// SPDX-License-Identifier: Apache-2.0
// apps/v1 and batch/v1.
#include "kube/schema_private.h"

#define APPS  "io.k8s.api.apps.v1."
#define BATCH "io.k8s.api.batch.v1."

TYPE(rolling_update_deployment, APPS "RollingUpdateDeployment", F_INTORSTR("maxUnavailable"),
     F_INTORSTR("maxSurge"));
TYPE(deployment_strategy, APPS "DeploymentStrategy", F_STRING("type"),
     F_OBJECT("rollingUpdate", rolling_update_deployment));
TYPE(deployment_spec, APPS "DeploymentSpec", F_INT32("replicas"),
     F_OBJECT("selector", label_selector, REQUIRED),
     F_OBJECT("template", pod_template_spec, REQUIRED),
     F_OBJECT("strategy", deployment_strategy, RETAIN), F_INT32("minReadySeconds"),
     F_INT32("revisionHistoryLimit"), F_BOOL("paused"), F_INT32("progressDeadlineSeconds"));
TYPE(deployment_condition, APPS "DeploymentCondition", F_STRING("type"), F_STRING("status"),
     F_TIME("lastUpdateTime"), F_TIME("lastTransitionTime"), F_STRING("reason"),
     F_STRING("message"));
TYPE(deployment_status, APPS "DeploymentStatus", F_INT64("observedGeneration"), F_INT32("replicas"),
     F_INT32("updatedReplicas"), F_INT32("readyReplicas"), F_INT32("availableReplicas"),
     F_INT32("unavailableReplicas"), F_INT32("terminatingReplicas"),
     F_LIST("conditions", deployment_condition, BY("type")), F_INT32("collisionCount"));
SHARED_TYPE(deployment, APPS "Deployment", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", deployment_spec),
            F_OBJECT("status", deployment_status));
TYPE(replica_set_spec, APPS "ReplicaSetSpec", F_INT32("replicas"), F_INT32("minReadySeconds"),
     F_OBJECT("selector", label_selector, REQUIRED), F_OBJECT("template", pod_template_spec));
TYPE(replica_set_condition, APPS "ReplicaSetCondition", F_STRING("type"), F_STRING("status"),
     F_TIME("lastTransitionTime"), F_STRING("reason"), F_STRING("message"));
TYPE(replica_set_status, APPS "ReplicaSetStatus", F_INT32("replicas", REQUIRED),
     F_INT32("fullyLabeledReplicas"), F_INT32("readyReplicas"), F_INT32("availableReplicas"),
     F_INT32("terminatingReplicas"), F_INT64("observedGeneration"),
     F_LIST("conditions", replica_set_condition, BY("type")));
SHARED_TYPE(replica_set, APPS "ReplicaSet", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", replica_set_spec),
            F_OBJECT("status", replica_set_status));
TYPE(rolling_update_stateful_set_strategy, APPS "RollingUpdateStatefulSetStrategy",
     F_INT32("partition"), F_INTORSTR("maxUnavailable"));
TYPE(stateful_set_update_strategy, APPS "StatefulSetUpdateStrategy", F_STRING("type"),
     F_OBJECT("rollingUpdate", rolling_update_stateful_set_strategy));
TYPE(stateful_set_persistent_volume_claim_retention_policy,
     APPS "StatefulSetPersistentVolumeClaimRetentionPolicy", F_STRING("whenDeleted"),
     F_STRING("whenScaled"));
TYPE(stateful_set_ordinals, APPS "StatefulSetOrdinals", F_INT32("start"));
TYPE(stateful_set_spec, APPS "StatefulSetSpec", F_INT32("replicas"),
     F_OBJECT("selector", label_selector, REQUIRED),
     F_OBJECT("template", pod_template_spec, REQUIRED),
     F_LIST("volumeClaimTemplates", persistent_volume_claim), F_STRING("serviceName"),
     F_STRING("podManagementPolicy"), F_OBJECT("updateStrategy", stateful_set_update_strategy),
     F_INT32("revisionHistoryLimit"), F_INT32("minReadySeconds"),
     F_OBJECT("persistentVolumeClaimRetentionPolicy",
              stateful_set_persistent_volume_claim_retention_policy),
     F_OBJECT("ordinals", stateful_set_ordinals));
TYPE(stateful_set_condition, APPS "StatefulSetCondition", F_STRING("type"), F_STRING("status"),
     F_TIME("lastTransitionTime"), F_STRING("reason"), F_STRING("message"));
TYPE(stateful_set_status, APPS "StatefulSetStatus", F_INT64("observedGeneration"),
     F_INT32("replicas", REQUIRED), F_INT32("readyReplicas"), F_INT32("currentReplicas"),
     F_INT32("updatedReplicas"), F_STRING("currentRevision"), F_STRING("updateRevision"),
     F_INT32("collisionCount"), F_LIST("conditions", stateful_set_condition, BY("type")),
     F_INT32("availableReplicas"));
SHARED_TYPE(stateful_set, APPS "StatefulSet", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", stateful_set_spec),
            F_OBJECT("status", stateful_set_status));
TYPE(rolling_update_daemon_set, APPS "RollingUpdateDaemonSet", F_INTORSTR("maxUnavailable"),
     F_INTORSTR("maxSurge"));
TYPE(daemon_set_update_strategy, APPS "DaemonSetUpdateStrategy", F_STRING("type"),
     F_OBJECT("rollingUpdate", rolling_update_daemon_set));
TYPE(daemon_set_spec, APPS "DaemonSetSpec", F_OBJECT("selector", label_selector, REQUIRED),
     F_OBJECT("template", pod_template_spec, REQUIRED),
     F_OBJECT("updateStrategy", daemon_set_update_strategy), F_INT32("minReadySeconds"),
     F_INT32("revisionHistoryLimit"));
TYPE(daemon_set_condition, APPS "DaemonSetCondition", F_STRING("type"), F_STRING("status"),
     F_TIME("lastTransitionTime"), F_STRING("reason"), F_STRING("message"));
TYPE(daemon_set_status, APPS "DaemonSetStatus", F_INT32("currentNumberScheduled", REQUIRED),
     F_INT32("numberMisscheduled", REQUIRED), F_INT32("desiredNumberScheduled", REQUIRED),
     F_INT32("numberReady", REQUIRED), F_INT64("observedGeneration"),
     F_INT32("updatedNumberScheduled"), F_INT32("numberAvailable"), F_INT32("numberUnavailable"),
     F_INT32("collisionCount"), F_LIST("conditions", daemon_set_condition, BY("type")));
SHARED_TYPE(daemon_set, APPS "DaemonSet", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", daemon_set_spec),
            F_OBJECT("status", daemon_set_status));
TYPE(pod_failure_policy_on_exit_codes_requirement, BATCH "PodFailurePolicyOnExitCodesRequirement",
     F_STRING("containerName"), F_STRING("operator", REQUIRED), F_LIST_OF("values", INT, REQUIRED));
TYPE(pod_failure_policy_on_pod_conditions_pattern, BATCH "PodFailurePolicyOnPodConditionsPattern",
     F_STRING("type", REQUIRED), F_STRING("status"));
TYPE(pod_failure_policy_rule, BATCH "PodFailurePolicyRule", F_STRING("action", REQUIRED),
     F_OBJECT("onExitCodes", pod_failure_policy_on_exit_codes_requirement),
     F_LIST("onPodConditions", pod_failure_policy_on_pod_conditions_pattern));
TYPE(pod_failure_policy, BATCH "PodFailurePolicy",
     F_LIST("rules", pod_failure_policy_rule, REQUIRED));
TYPE(success_policy_rule, BATCH "SuccessPolicyRule", F_STRING("succeededIndexes"),
     F_INT32("succeededCount"));
TYPE(success_policy, BATCH "SuccessPolicy", F_LIST("rules", success_policy_rule, REQUIRED));
TYPE(job_scheduling_configuration, BATCH "JobSchedulingConfiguration", F_ANY("schedulingPolicy"),
     F_ANY("schedulingConstraints"), F_ANY("disruptionMode"), F_LIST_OF("resourceClaims", ANY));
TYPE(job_spec, BATCH "JobSpec", F_INT32("parallelism"), F_INT32("completions"),
     F_INT64("activeDeadlineSeconds"), F_OBJECT("podFailurePolicy", pod_failure_policy),
     F_OBJECT("successPolicy", success_policy), F_INT32("backoffLimit"),
     F_INT32("backoffLimitPerIndex"), F_INT32("maxFailedIndexes"),
     F_OBJECT("selector", label_selector), F_BOOL("manualSelector"),
     F_OBJECT("template", pod_template_spec, REQUIRED), F_INT32("ttlSecondsAfterFinished"),
     F_STRING("completionMode"), F_BOOL("suspend"), F_STRING("podReplacementPolicy"),
     F_STRING("managedBy"), F_OBJECT("scheduling", job_scheduling_configuration));
TYPE(job_condition, BATCH "JobCondition", F_STRING("type", REQUIRED), F_STRING("status", REQUIRED),
     F_TIME("lastProbeTime"), F_TIME("lastTransitionTime"), F_STRING("reason"),
     F_STRING("message"));
TYPE(uncounted_terminated_pods, BATCH "UncountedTerminatedPods", F_LIST_OF("succeeded", STRING),
     F_LIST_OF("failed", STRING));
TYPE(job_status, BATCH "JobStatus", F_LIST("conditions", job_condition, BY("type")),
     F_TIME("startTime"), F_TIME("completionTime"), F_INT32("active"), F_INT32("succeeded"),
     F_INT32("failed"), F_INT32("terminating"), F_STRING("completedIndexes"),
     F_STRING("failedIndexes"), F_OBJECT("uncountedTerminatedPods", uncounted_terminated_pods),
     F_INT32("ready"));
SHARED_TYPE(job, BATCH "Job", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", job_spec),
            F_OBJECT("status", job_status));
TYPE(job_template_spec, BATCH "JobTemplateSpec", F_OBJECT("metadata", object_meta),
     F_OBJECT("spec", job_spec));
TYPE(cron_job_spec, BATCH "CronJobSpec", F_STRING("schedule", REQUIRED), F_STRING("timeZone"),
     F_INT64("startingDeadlineSeconds"), F_STRING("concurrencyPolicy"), F_BOOL("suspend"),
     F_OBJECT("jobTemplate", job_template_spec, REQUIRED), F_INT32("successfulJobsHistoryLimit"),
     F_INT32("failedJobsHistoryLimit"));
TYPE(cron_job_status, BATCH "CronJobStatus", F_LIST("active", object_reference),
     F_TIME("lastScheduleTime"), F_TIME("lastSuccessfulTime"));
SHARED_TYPE(cron_job, BATCH "CronJob", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", cron_job_spec),
            F_OBJECT("status", cron_job_status));
SHARED_TYPE(controller_revision, APPS "ControllerRevision", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta), F_ANY("data", REQUIRED),
            F_INT64("revision"));
