// SPDX-License-Identifier: Apache-2.0
// autoscaling/v1, v2, v2beta2 and v2beta1.
#include "kube/schema_private.h"

#define AUTOSCALING_V1      "io.k8s.api.autoscaling.v1."
#define AUTOSCALING_V2      "io.k8s.api.autoscaling.v2."
#define AUTOSCALING_V2BETA1 "io.k8s.api.autoscaling.v2beta1."

TYPE(as_v1_cross_version_object_reference, AUTOSCALING_V1 "CrossVersionObjectReference",
     F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED), F_STRING("apiVersion"));
TYPE(as_v1_horizontal_pod_autoscaler_spec, AUTOSCALING_V1 "HorizontalPodAutoscalerSpec",
     F_OBJECT("scaleTargetRef", as_v1_cross_version_object_reference, REQUIRED),
     F_INT32("minReplicas"), F_INT32("maxReplicas", REQUIRED),
     F_INT32("targetCPUUtilizationPercentage"));
TYPE(as_v1_horizontal_pod_autoscaler_status, AUTOSCALING_V1 "HorizontalPodAutoscalerStatus",
     F_INT64("observedGeneration"), F_TIME("lastScaleTime"), F_INT32("currentReplicas", REQUIRED),
     F_INT32("desiredReplicas", REQUIRED), F_INT32("currentCPUUtilizationPercentage"));
SHARED_TYPE(as_v1_horizontal_pod_autoscaler, AUTOSCALING_V1 "HorizontalPodAutoscaler",
            F_STRING("apiVersion"), F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", as_v1_horizontal_pod_autoscaler_spec),
            F_OBJECT("status", as_v1_horizontal_pod_autoscaler_status));
TYPE(as_v1_scale_spec, AUTOSCALING_V1 "ScaleSpec", F_INT32("replicas"));
TYPE(as_v1_scale_status, AUTOSCALING_V1 "ScaleStatus", F_INT32("replicas", REQUIRED),
     F_STRING("selector"));
SHARED_TYPE(as_v1_scale, AUTOSCALING_V1 "Scale", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", as_v1_scale_spec),
            F_OBJECT("status", as_v1_scale_status));
TYPE(cross_version_object_reference, AUTOSCALING_V2 "CrossVersionObjectReference",
     F_STRING("kind", REQUIRED), F_STRING("name", REQUIRED), F_STRING("apiVersion"));
TYPE(metric_target, AUTOSCALING_V2 "MetricTarget", F_STRING("type", REQUIRED), F_QUANTITY("value"),
     F_QUANTITY("averageValue"), F_INT32("averageUtilization"));
TYPE(metric_identifier, AUTOSCALING_V2 "MetricIdentifier", F_STRING("name", REQUIRED),
     F_OBJECT("selector", label_selector));
TYPE(object_metric_source, AUTOSCALING_V2 "ObjectMetricSource",
     F_OBJECT("describedObject", cross_version_object_reference, REQUIRED),
     F_OBJECT("target", metric_target, REQUIRED), F_OBJECT("metric", metric_identifier, REQUIRED));
TYPE(pods_metric_source, AUTOSCALING_V2 "PodsMetricSource",
     F_OBJECT("metric", metric_identifier, REQUIRED), F_OBJECT("target", metric_target, REQUIRED));
TYPE(resource_metric_source, AUTOSCALING_V2 "ResourceMetricSource", F_STRING("name", REQUIRED),
     F_OBJECT("target", metric_target, REQUIRED));
TYPE(container_resource_metric_source, AUTOSCALING_V2 "ContainerResourceMetricSource",
     F_STRING("name", REQUIRED), F_OBJECT("target", metric_target, REQUIRED),
     F_STRING("container", REQUIRED));
TYPE(external_metric_source, AUTOSCALING_V2 "ExternalMetricSource",
     F_OBJECT("metric", metric_identifier, REQUIRED), F_OBJECT("target", metric_target, REQUIRED));
TYPE(metric_spec, AUTOSCALING_V2 "MetricSpec", F_STRING("type", REQUIRED),
     F_OBJECT("object", object_metric_source), F_OBJECT("pods", pods_metric_source),
     F_OBJECT("resource", resource_metric_source),
     F_OBJECT("containerResource", container_resource_metric_source),
     F_OBJECT("external", external_metric_source));
TYPE(hpa_scaling_policy, AUTOSCALING_V2 "HPAScalingPolicy", F_STRING("type", REQUIRED),
     F_INT32("value", REQUIRED), F_INT32("periodSeconds", REQUIRED));
TYPE(hpa_scaling_rules, AUTOSCALING_V2 "HPAScalingRules", F_INT32("stabilizationWindowSeconds"),
     F_STRING("selectPolicy"), F_LIST("policies", hpa_scaling_policy), F_QUANTITY("tolerance"));
TYPE(horizontal_pod_autoscaler_behavior, AUTOSCALING_V2 "HorizontalPodAutoscalerBehavior",
     F_OBJECT("scaleUp", hpa_scaling_rules), F_OBJECT("scaleDown", hpa_scaling_rules));
TYPE(horizontal_pod_autoscaler_spec, AUTOSCALING_V2 "HorizontalPodAutoscalerSpec",
     F_OBJECT("scaleTargetRef", cross_version_object_reference, REQUIRED), F_INT32("minReplicas"),
     F_INT32("maxReplicas", REQUIRED), F_LIST("metrics", metric_spec),
     F_OBJECT("behavior", horizontal_pod_autoscaler_behavior));
TYPE(metric_value_status, AUTOSCALING_V2 "MetricValueStatus", F_QUANTITY("value"),
     F_QUANTITY("averageValue"), F_INT32("averageUtilization"));
TYPE(object_metric_status, AUTOSCALING_V2 "ObjectMetricStatus",
     F_OBJECT("metric", metric_identifier, REQUIRED),
     F_OBJECT("current", metric_value_status, REQUIRED),
     F_OBJECT("describedObject", cross_version_object_reference, REQUIRED));
TYPE(pods_metric_status, AUTOSCALING_V2 "PodsMetricStatus",
     F_OBJECT("metric", metric_identifier, REQUIRED),
     F_OBJECT("current", metric_value_status, REQUIRED));
TYPE(resource_metric_status, AUTOSCALING_V2 "ResourceMetricStatus", F_STRING("name", REQUIRED),
     F_OBJECT("current", metric_value_status, REQUIRED));
TYPE(container_resource_metric_status, AUTOSCALING_V2 "ContainerResourceMetricStatus",
     F_STRING("name", REQUIRED), F_OBJECT("current", metric_value_status, REQUIRED),
     F_STRING("container", REQUIRED));
TYPE(external_metric_status, AUTOSCALING_V2 "ExternalMetricStatus",
     F_OBJECT("metric", metric_identifier, REQUIRED),
     F_OBJECT("current", metric_value_status, REQUIRED));
TYPE(metric_status, AUTOSCALING_V2 "MetricStatus", F_STRING("type", REQUIRED),
     F_OBJECT("object", object_metric_status), F_OBJECT("pods", pods_metric_status),
     F_OBJECT("resource", resource_metric_status),
     F_OBJECT("containerResource", container_resource_metric_status),
     F_OBJECT("external", external_metric_status));
TYPE(horizontal_pod_autoscaler_condition, AUTOSCALING_V2 "HorizontalPodAutoscalerCondition",
     F_STRING("type", REQUIRED), F_STRING("status", REQUIRED), F_TIME("lastTransitionTime"),
     F_STRING("reason"), F_STRING("message"), F_INT64("observedGeneration"));
TYPE(horizontal_pod_autoscaler_status, AUTOSCALING_V2 "HorizontalPodAutoscalerStatus",
     F_INT64("observedGeneration"), F_TIME("lastScaleTime"), F_INT32("currentReplicas"),
     F_INT32("desiredReplicas", REQUIRED), F_LIST("currentMetrics", metric_status),
     F_LIST("conditions", horizontal_pod_autoscaler_condition, BY("type")));
SHARED_TYPE(horizontal_pod_autoscaler, AUTOSCALING_V2 "HorizontalPodAutoscaler",
            F_STRING("apiVersion"), F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", horizontal_pod_autoscaler_spec),
            F_OBJECT("status", horizontal_pod_autoscaler_status));

// v2beta2 has v2's fields.
SHARED_TYPE(horizontal_pod_autoscaler_v2beta2,
            "io.k8s.api.autoscaling.v2beta2.HorizontalPodAutoscaler", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", horizontal_pod_autoscaler_spec),
            F_OBJECT("status", horizontal_pod_autoscaler_status));

TYPE(beta1_object_source, AUTOSCALING_V2BETA1 "ObjectMetricSource",
     F_OBJECT("target", cross_version_object_reference, REQUIRED), F_STRING("metricName", REQUIRED),
     F_QUANTITY("targetValue", REQUIRED), F_OBJECT("selector", label_selector),
     F_QUANTITY("averageValue"));
TYPE(beta1_pods_source, AUTOSCALING_V2BETA1 "PodsMetricSource", F_STRING("metricName", REQUIRED),
     F_QUANTITY("targetAverageValue", REQUIRED), F_OBJECT("selector", label_selector));
TYPE(beta1_resource_source, AUTOSCALING_V2BETA1 "ResourceMetricSource", F_STRING("name", REQUIRED),
     F_INT32("targetAverageUtilization"), F_QUANTITY("targetAverageValue"));
TYPE(beta1_container_resource_source, AUTOSCALING_V2BETA1 "ContainerResourceMetricSource",
     F_STRING("name", REQUIRED), F_INT32("targetAverageUtilization"),
     F_QUANTITY("targetAverageValue"), F_STRING("container", REQUIRED));
TYPE(beta1_external_source, AUTOSCALING_V2BETA1 "ExternalMetricSource",
     F_STRING("metricName", REQUIRED), F_OBJECT("metricSelector", label_selector),
     F_QUANTITY("targetValue"), F_QUANTITY("targetAverageValue"));
TYPE(beta1_metric_spec, AUTOSCALING_V2BETA1 "MetricSpec", F_STRING("type", REQUIRED),
     F_OBJECT("object", beta1_object_source), F_OBJECT("pods", beta1_pods_source),
     F_OBJECT("resource", beta1_resource_source),
     F_OBJECT("containerResource", beta1_container_resource_source),
     F_OBJECT("external", beta1_external_source));
TYPE(beta1_spec, AUTOSCALING_V2BETA1 "HorizontalPodAutoscalerSpec",
     F_OBJECT("scaleTargetRef", cross_version_object_reference, REQUIRED), F_INT32("minReplicas"),
     F_INT32("maxReplicas", REQUIRED), F_LIST("metrics", beta1_metric_spec));
TYPE(beta1_object_status, AUTOSCALING_V2BETA1 "ObjectMetricStatus",
     F_OBJECT("target", cross_version_object_reference, REQUIRED), F_STRING("metricName", REQUIRED),
     F_QUANTITY("currentValue", REQUIRED), F_OBJECT("selector", label_selector),
     F_QUANTITY("averageValue"));
TYPE(beta1_pods_status, AUTOSCALING_V2BETA1 "PodsMetricStatus", F_STRING("metricName", REQUIRED),
     F_QUANTITY("currentAverageValue", REQUIRED), F_OBJECT("selector", label_selector));
TYPE(beta1_resource_status, AUTOSCALING_V2BETA1 "ResourceMetricStatus", F_STRING("name", REQUIRED),
     F_INT32("currentAverageUtilization"), F_QUANTITY("currentAverageValue", REQUIRED));
TYPE(beta1_container_resource_status, AUTOSCALING_V2BETA1 "ContainerResourceMetricStatus",
     F_STRING("name", REQUIRED), F_INT32("currentAverageUtilization"),
     F_QUANTITY("currentAverageValue", REQUIRED), F_STRING("container", REQUIRED));
TYPE(beta1_external_status, AUTOSCALING_V2BETA1 "ExternalMetricStatus",
     F_STRING("metricName", REQUIRED), F_OBJECT("metricSelector", label_selector),
     F_QUANTITY("currentValue", REQUIRED), F_QUANTITY("currentAverageValue"));
TYPE(beta1_metric_status, AUTOSCALING_V2BETA1 "MetricStatus", F_STRING("type", REQUIRED),
     F_OBJECT("object", beta1_object_status), F_OBJECT("pods", beta1_pods_status),
     F_OBJECT("resource", beta1_resource_status),
     F_OBJECT("containerResource", beta1_container_resource_status),
     F_OBJECT("external", beta1_external_status));
TYPE(beta1_status, AUTOSCALING_V2BETA1 "HorizontalPodAutoscalerStatus",
     F_INT64("observedGeneration"), F_TIME("lastScaleTime"), F_INT32("currentReplicas", REQUIRED),
     F_INT32("desiredReplicas", REQUIRED), F_LIST("currentMetrics", beta1_metric_status),
     F_LIST("conditions", horizontal_pod_autoscaler_condition, BY("type")));
SHARED_TYPE(horizontal_pod_autoscaler_v2beta1, AUTOSCALING_V2BETA1 "HorizontalPodAutoscaler",
            F_STRING("apiVersion"), F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", beta1_spec), F_OBJECT("status", beta1_status));
