// SPDX-License-Identifier: Apache-2.0
// core/v1: Pods, their containers, probes, affinity and status.
#include "kube/schema_private.h"

#define CORE "io.k8s.api.core.v1."

TYPE(container_port, CORE "ContainerPort", F_STRING("name"), F_INT32("hostPort"),
     F_INT32("containerPort", REQUIRED), F_STRING("protocol"), F_STRING("hostIP"));
TYPE(config_map_env_source, CORE "ConfigMapEnvSource", F_STRING("name"), F_BOOL("optional"));
TYPE(secret_env_source, CORE "SecretEnvSource", F_STRING("name"), F_BOOL("optional"));
TYPE(env_from_source, CORE "EnvFromSource", F_STRING("prefix"),
     F_OBJECT("configMapRef", config_map_env_source), F_OBJECT("secretRef", secret_env_source));
TYPE(config_map_key_selector, CORE "ConfigMapKeySelector", F_STRING("name"),
     F_STRING("key", REQUIRED), F_BOOL("optional"));
TYPE(secret_key_selector, CORE "SecretKeySelector", F_STRING("name"), F_STRING("key", REQUIRED),
     F_BOOL("optional"));
TYPE(file_key_selector, CORE "FileKeySelector", F_STRING("volumeName", REQUIRED),
     F_STRING("path", REQUIRED), F_STRING("key", REQUIRED), F_BOOL("optional"));
TYPE(env_var_source, CORE "EnvVarSource", F_OBJECT("fieldRef", object_field_selector),
     F_OBJECT("resourceFieldRef", resource_field_selector),
     F_OBJECT("configMapKeyRef", config_map_key_selector),
     F_OBJECT("secretKeyRef", secret_key_selector), F_OBJECT("fileKeyRef", file_key_selector));
TYPE(env_var, CORE "EnvVar", F_STRING("name", REQUIRED), F_STRING("value"),
     F_OBJECT("valueFrom", env_var_source));
TYPE(resource_claim, CORE "ResourceClaim", F_STRING("name", REQUIRED), F_STRING("request"));
TYPE(resource_requirements, CORE "ResourceRequirements", F_MAP_OF("limits", QUANTITY),
     F_MAP_OF("requests", QUANTITY), F_LIST("claims", resource_claim));
TYPE(container_resize_policy, CORE "ContainerResizePolicy", F_STRING("resourceName", REQUIRED),
     F_STRING("restartPolicy", REQUIRED));
TYPE(container_restart_rule_on_exit_codes, CORE "ContainerRestartRuleOnExitCodes",
     F_STRING("operator"), F_LIST_OF("values", INT));
TYPE(container_restart_rule, CORE "ContainerRestartRule", F_STRING("action"),
     F_OBJECT("exitCodes", container_restart_rule_on_exit_codes));
TYPE(volume_mount, CORE "VolumeMount", F_STRING("name", REQUIRED), F_BOOL("readOnly"),
     F_STRING("recursiveReadOnly"), F_STRING("mountPath", REQUIRED), F_STRING("subPath"),
     F_STRING("mountPropagation"), F_STRING("subPathExpr"), F_LIST_OF("bindMountOptions", STRING));
TYPE(volume_device, CORE "VolumeDevice", F_STRING("name", REQUIRED),
     F_STRING("devicePath", REQUIRED));
TYPE(exec_action, CORE "ExecAction", F_LIST_OF("command", STRING));
TYPE(http_header, CORE "HTTPHeader", F_STRING("name", REQUIRED), F_STRING("value", REQUIRED));
TYPE(http_get_action, CORE "HTTPGetAction", F_STRING("path"), F_INTORSTR("port", REQUIRED),
     F_STRING("host"), F_STRING("scheme"), F_LIST("httpHeaders", http_header),
     F_STRING("protocol"));
TYPE(tcp_socket_action, CORE "TCPSocketAction", F_INTORSTR("port", REQUIRED), F_STRING("host"));
TYPE(grpc_action, CORE "GRPCAction", F_INT32("port", REQUIRED), F_STRING("service"),
     F_STRING("mode"));
TYPE(probe, CORE "Probe", F_OBJECT("exec", exec_action), F_OBJECT("httpGet", http_get_action),
     F_OBJECT("tcpSocket", tcp_socket_action), F_OBJECT("grpc", grpc_action),
     F_INT32("initialDelaySeconds"), F_INT32("timeoutSeconds"), F_INT32("periodSeconds"),
     F_INT32("successThreshold"), F_INT32("failureThreshold"),
     F_INT64("terminationGracePeriodSeconds"));
TYPE(sleep_action, CORE "SleepAction", F_INT64("seconds", REQUIRED));
TYPE(lifecycle_handler, CORE "LifecycleHandler", F_OBJECT("exec", exec_action),
     F_OBJECT("httpGet", http_get_action), F_OBJECT("tcpSocket", tcp_socket_action),
     F_OBJECT("sleep", sleep_action));
TYPE(lifecycle, CORE "Lifecycle", F_OBJECT("postStart", lifecycle_handler),
     F_OBJECT("preStop", lifecycle_handler), F_STRING("stopSignal"));
TYPE(capabilities, CORE "Capabilities", F_LIST_OF("add", STRING), F_LIST_OF("drop", STRING));
TYPE(se_linux_options, CORE "SELinuxOptions", F_STRING("user"), F_STRING("role"), F_STRING("type"),
     F_STRING("level"));
TYPE(windows_security_context_options, CORE "WindowsSecurityContextOptions",
     F_STRING("gmsaCredentialSpecName"), F_STRING("gmsaCredentialSpec"), F_STRING("runAsUserName"),
     F_BOOL("hostProcess"));
TYPE(seccomp_profile, CORE "SeccompProfile", F_STRING("type", REQUIRED),
     F_STRING("localhostProfile"));
TYPE(app_armor_profile, CORE "AppArmorProfile", F_STRING("type", REQUIRED),
     F_STRING("localhostProfile"));
TYPE(security_context, CORE "SecurityContext", F_OBJECT("capabilities", capabilities),
     F_BOOL("privileged"), F_OBJECT("seLinuxOptions", se_linux_options),
     F_OBJECT("windowsOptions", windows_security_context_options), F_INT64("runAsUser"),
     F_INT64("runAsGroup"), F_BOOL("runAsNonRoot"), F_BOOL("readOnlyRootFilesystem"),
     F_BOOL("allowPrivilegeEscalation"), F_STRING("procMount"),
     F_OBJECT("seccompProfile", seccomp_profile), F_OBJECT("appArmorProfile", app_armor_profile));
TYPE(container, CORE "Container", F_STRING("name", REQUIRED), F_STRING("image"),
     F_LIST_OF("command", STRING), F_LIST_OF("args", STRING), F_STRING("workingDir"),
     F_LIST("ports", container_port, BY("containerPort")), F_LIST("envFrom", env_from_source),
     F_LIST("env", env_var, BY("name")), F_OBJECT("resources", resource_requirements),
     F_LIST("resizePolicy", container_resize_policy), F_STRING("restartPolicy"),
     F_LIST("restartPolicyRules", container_restart_rule),
     F_LIST("volumeMounts", volume_mount, BY("mountPath")),
     F_LIST("volumeDevices", volume_device, BY("devicePath")), F_OBJECT("livenessProbe", probe),
     F_OBJECT("readinessProbe", probe), F_OBJECT("startupProbe", probe),
     F_OBJECT("lifecycle", lifecycle), F_STRING("terminationMessagePath"),
     F_STRING("terminationMessagePolicy"), F_STRING("imagePullPolicy"),
     F_OBJECT("securityContext", security_context), F_BOOL("stdin"), F_BOOL("stdinOnce"),
     F_BOOL("tty"));
TYPE(ephemeral_container, CORE "EphemeralContainer", F_STRING("name", REQUIRED), F_STRING("image"),
     F_LIST_OF("command", STRING), F_LIST_OF("args", STRING), F_STRING("workingDir"),
     F_LIST("ports", container_port, BY("containerPort")), F_LIST("envFrom", env_from_source),
     F_LIST("env", env_var, BY("name")), F_OBJECT("resources", resource_requirements),
     F_LIST("resizePolicy", container_resize_policy), F_STRING("restartPolicy"),
     F_LIST("restartPolicyRules", container_restart_rule),
     F_LIST("volumeMounts", volume_mount, BY("mountPath")),
     F_LIST("volumeDevices", volume_device, BY("devicePath")), F_OBJECT("livenessProbe", probe),
     F_OBJECT("readinessProbe", probe), F_OBJECT("startupProbe", probe),
     F_OBJECT("lifecycle", lifecycle), F_STRING("terminationMessagePath"),
     F_STRING("terminationMessagePolicy"), F_STRING("imagePullPolicy"),
     F_OBJECT("securityContext", security_context), F_BOOL("stdin"), F_BOOL("stdinOnce"),
     F_BOOL("tty"), F_STRING("targetContainerName"));
TYPE(sysctl, CORE "Sysctl", F_STRING("name", REQUIRED), F_STRING("value", REQUIRED));
TYPE(pod_security_context, CORE "PodSecurityContext", F_OBJECT("seLinuxOptions", se_linux_options),
     F_OBJECT("windowsOptions", windows_security_context_options), F_INT64("runAsUser"),
     F_INT64("runAsGroup"), F_BOOL("runAsNonRoot"), F_LIST_OF("supplementalGroups", INT64),
     F_STRING("supplementalGroupsPolicy"), F_INT64("fsGroup"), F_LIST("sysctls", sysctl),
     F_STRING("fsGroupChangePolicy"), F_OBJECT("seccompProfile", seccomp_profile),
     F_OBJECT("appArmorProfile", app_armor_profile), F_STRING("seLinuxChangePolicy"));
TYPE(node_selector_requirement, CORE "NodeSelectorRequirement", F_STRING("key", REQUIRED),
     F_STRING("operator", REQUIRED), F_LIST_OF("values", STRING));
TYPE(node_selector_term, CORE "NodeSelectorTerm",
     F_LIST("matchExpressions", node_selector_requirement),
     F_LIST("matchFields", node_selector_requirement));
SHARED_TYPE(node_selector, CORE "NodeSelector",
            F_LIST("nodeSelectorTerms", node_selector_term, REQUIRED));
TYPE(preferred_scheduling_term, CORE "PreferredSchedulingTerm", F_INT32("weight", REQUIRED),
     F_OBJECT("preference", node_selector_term, REQUIRED));
TYPE(node_affinity, CORE "NodeAffinity",
     F_OBJECT("requiredDuringSchedulingIgnoredDuringExecution", node_selector),
     F_LIST("preferredDuringSchedulingIgnoredDuringExecution", preferred_scheduling_term));
TYPE(pod_affinity_term, CORE "PodAffinityTerm", F_OBJECT("labelSelector", label_selector),
     F_LIST_OF("namespaces", STRING), F_STRING("topologyKey", REQUIRED),
     F_OBJECT("namespaceSelector", label_selector), F_LIST_OF("matchLabelKeys", STRING),
     F_LIST_OF("mismatchLabelKeys", STRING));
TYPE(weighted_pod_affinity_term, CORE "WeightedPodAffinityTerm", F_INT32("weight", REQUIRED),
     F_OBJECT("podAffinityTerm", pod_affinity_term, REQUIRED));
TYPE(pod_affinity, CORE "PodAffinity",
     F_LIST("requiredDuringSchedulingIgnoredDuringExecution", pod_affinity_term),
     F_LIST("preferredDuringSchedulingIgnoredDuringExecution", weighted_pod_affinity_term));
TYPE(pod_anti_affinity, CORE "PodAntiAffinity",
     F_LIST("requiredDuringSchedulingIgnoredDuringExecution", pod_affinity_term),
     F_LIST("preferredDuringSchedulingIgnoredDuringExecution", weighted_pod_affinity_term));
TYPE(affinity, CORE "Affinity", F_OBJECT("nodeAffinity", node_affinity),
     F_OBJECT("podAffinity", pod_affinity), F_OBJECT("podAntiAffinity", pod_anti_affinity));
TYPE(toleration, CORE "Toleration", F_STRING("key"), F_STRING("operator"), F_STRING("value"),
     F_STRING("effect"), F_INT64("tolerationSeconds"));
TYPE(host_alias, CORE "HostAlias", F_STRING("ip", REQUIRED), F_LIST_OF("hostnames", STRING));
TYPE(pod_dns_config_option, CORE "PodDNSConfigOption", F_STRING("name"), F_STRING("value"));
TYPE(pod_dns_config, CORE "PodDNSConfig", F_LIST_OF("nameservers", STRING),
     F_LIST_OF("searches", STRING), F_LIST("options", pod_dns_config_option));
TYPE(pod_readiness_gate, CORE "PodReadinessGate", F_STRING("conditionType", REQUIRED));
TYPE(topology_spread_constraint, CORE "TopologySpreadConstraint", F_INT32("maxSkew", REQUIRED),
     F_STRING("topologyKey", REQUIRED), F_STRING("whenUnsatisfiable", REQUIRED),
     F_OBJECT("labelSelector", label_selector), F_INT32("minDomains"),
     F_STRING("nodeAffinityPolicy"), F_STRING("nodeTaintsPolicy"),
     F_LIST_OF("matchLabelKeys", STRING));
TYPE(pod_os, CORE "PodOS", F_STRING("name", REQUIRED));
TYPE(pod_scheduling_gate, CORE "PodSchedulingGate", F_STRING("name", REQUIRED));
TYPE(pod_resource_claim, CORE "PodResourceClaim", F_STRING("name", REQUIRED),
     F_STRING("resourceClaimName"), F_STRING("resourceClaimTemplateName"));
TYPE(pod_scheduling_group, CORE "PodSchedulingGroup", F_STRING("podGroupName"));
TYPE(eviction_responder, CORE "EvictionResponder", F_STRING("name", REQUIRED),
     F_INT32("priority", REQUIRED));
TYPE(pod_spec, CORE "PodSpec", F_LIST("volumes", volume, BY("name"), RETAIN),
     F_LIST("initContainers", container, BY("name")),
     F_LIST("containers", container, BY("name"), REQUIRED),
     F_LIST("ephemeralContainers", ephemeral_container, BY("name")), F_STRING("restartPolicy"),
     F_INT64("terminationGracePeriodSeconds"), F_INT64("activeDeadlineSeconds"),
     F_STRING("dnsPolicy"), F_MAP_OF("nodeSelector", STRING), F_STRING("serviceAccountName"),
     F_STRING("serviceAccount"), F_BOOL("automountServiceAccountToken"), F_STRING("nodeName"),
     F_BOOL("hostNetwork"), F_BOOL("hostPID"), F_BOOL("hostIPC"), F_BOOL("shareProcessNamespace"),
     F_OBJECT("securityContext", pod_security_context),
     F_LIST("imagePullSecrets", local_object_reference, BY("name")), F_STRING("hostname"),
     F_STRING("subdomain"), F_OBJECT("affinity", affinity), F_STRING("schedulerName"),
     F_LIST("tolerations", toleration), F_LIST("hostAliases", host_alias, BY("ip")),
     F_STRING("priorityClassName"), F_INT32("priority"), F_OBJECT("dnsConfig", pod_dns_config),
     F_LIST("readinessGates", pod_readiness_gate), F_STRING("runtimeClassName"),
     F_BOOL("enableServiceLinks"), F_STRING("preemptionPolicy"), F_MAP_OF("overhead", QUANTITY),
     F_LIST("topologySpreadConstraints", topology_spread_constraint, BY("topologyKey")),
     F_BOOL("setHostnameAsFQDN"), F_OBJECT("os", pod_os), F_BOOL("hostUsers"),
     F_LIST("schedulingGates", pod_scheduling_gate, BY("name")),
     F_LIST("resourceClaims", pod_resource_claim, BY("name"), RETAIN),
     F_OBJECT("resources", resource_requirements), F_STRING("hostnameOverride"),
     F_OBJECT("schedulingGroup", pod_scheduling_group),
     F_LIST("evictionResponders", eviction_responder, BY("name")));
TYPE(pod_condition, CORE "PodCondition", F_STRING("type", REQUIRED), F_INT64("observedGeneration"),
     F_STRING("status", REQUIRED), F_TIME("lastProbeTime"), F_TIME("lastTransitionTime"),
     F_STRING("reason"), F_STRING("message"));
TYPE(host_ip, CORE "HostIP", F_STRING("ip", REQUIRED));
TYPE(pod_ip, CORE "PodIP", F_STRING("ip", REQUIRED));
TYPE(container_state_waiting, CORE "ContainerStateWaiting", F_STRING("reason"),
     F_STRING("message"));
TYPE(container_state_running, CORE "ContainerStateRunning", F_TIME("startedAt"));
TYPE(container_state_terminated, CORE "ContainerStateTerminated", F_INT32("exitCode", REQUIRED),
     F_INT32("signal"), F_STRING("reason"), F_STRING("message"), F_TIME("startedAt"),
     F_TIME("finishedAt"), F_STRING("containerID"));
TYPE(container_state, CORE "ContainerState", F_OBJECT("waiting", container_state_waiting),
     F_OBJECT("running", container_state_running),
     F_OBJECT("terminated", container_state_terminated));
TYPE(image_volume_status, CORE "ImageVolumeStatus", F_STRING("imageRef"));
TYPE(volume_status, CORE "VolumeStatus", F_OBJECT("image", image_volume_status));
TYPE(volume_mount_status, CORE "VolumeMountStatus", F_STRING("name", REQUIRED),
     F_STRING("mountPath", REQUIRED), F_BOOL("readOnly"), F_STRING("recursiveReadOnly"),
     F_OBJECT("volumeStatus", volume_status));
TYPE(linux_container_user, CORE "LinuxContainerUser", F_INT64("uid", REQUIRED),
     F_INT64("gid", REQUIRED), F_LIST_OF("supplementalGroups", INT64));
TYPE(container_user, CORE "ContainerUser", F_OBJECT("linux", linux_container_user));
TYPE(resource_health, CORE "ResourceHealth", F_STRING("resourceID", REQUIRED), F_STRING("health"),
     F_STRING("message"));
TYPE(resource_status, CORE "ResourceStatus", F_STRING("name", REQUIRED),
     F_LIST("resources", resource_health));
TYPE(container_status, CORE "ContainerStatus", F_STRING("name", REQUIRED),
     F_OBJECT("state", container_state), F_OBJECT("lastState", container_state),
     F_BOOL("ready", REQUIRED), F_INT32("restartCount", REQUIRED), F_STRING("image", REQUIRED),
     F_STRING("imageID", REQUIRED), F_STRING("containerID"), F_BOOL("started"),
     F_MAP_OF("allocatedResources", QUANTITY), F_OBJECT("resources", resource_requirements),
     F_LIST("volumeMounts", volume_mount_status, BY("mountPath")), F_OBJECT("user", container_user),
     F_LIST("allocatedResourcesStatus", resource_status, BY("name")), F_STRING("stopSignal"));
TYPE(pod_resource_claim_status, CORE "PodResourceClaimStatus", F_STRING("name", REQUIRED),
     F_STRING("resourceClaimName"));
TYPE(container_extended_resource_request, CORE "ContainerExtendedResourceRequest",
     F_STRING("containerName", REQUIRED), F_STRING("resourceName", REQUIRED),
     F_STRING("requestName", REQUIRED));
TYPE(pod_extended_resource_claim_status, CORE "PodExtendedResourceClaimStatus",
     F_LIST("requestMappings", container_extended_resource_request, REQUIRED),
     F_STRING("resourceClaimName", REQUIRED));
TYPE(node_allocatable_mapped_resources, CORE "NodeAllocatableMappedResources",
     F_STRING("name", REQUIRED), F_QUANTITY("quantity", REQUIRED));
TYPE(node_allocatable_overhead_resources, CORE "NodeAllocatableOverheadResources",
     F_STRING("name", REQUIRED), F_QUANTITY("perPod"), F_QUANTITY("perContainer"));
TYPE(node_allocatable_resource_claim_status, CORE "NodeAllocatableResourceClaimStatus",
     F_STRING("resourceClaimName", REQUIRED), F_LIST_OF("containers", STRING),
     F_LIST("mapping", node_allocatable_mapped_resources, BY("name")),
     F_LIST("overhead", node_allocatable_overhead_resources, BY("name")));
TYPE(pod_volume_health, CORE "PodVolumeHealth", F_STRING("name", REQUIRED),
     F_LIST("healthConditions", volume_health_condition, BY("status")),
     F_TIME("lastTransitionTime"));
TYPE(pod_status, CORE "PodStatus", F_INT64("observedGeneration"), F_STRING("phase"),
     F_LIST("conditions", pod_condition, BY("type")), F_STRING("message"), F_STRING("reason"),
     F_STRING("nominatedNodeName"), F_STRING("hostIP"), F_LIST("hostIPs", host_ip, BY("ip")),
     F_STRING("podIP"), F_LIST("podIPs", pod_ip, BY("ip")), F_TIME("startTime"),
     F_LIST("initContainerStatuses", container_status),
     F_LIST("containerStatuses", container_status), F_STRING("qosClass"),
     F_LIST("ephemeralContainerStatuses", container_status), F_STRING("resize"),
     F_LIST("resourceClaimStatuses", pod_resource_claim_status, BY("name"), RETAIN),
     F_OBJECT("extendedResourceClaimStatus", pod_extended_resource_claim_status),
     F_MAP_OF("allocatedResources", QUANTITY), F_OBJECT("resources", resource_requirements),
     F_LIST("nodeAllocatableResourceClaimStatuses", node_allocatable_resource_claim_status,
            BY("resourceClaimName")),
     F_LIST("volumeHealth", pod_volume_health));
SHARED_TYPE(pod, CORE "Pod", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", pod_spec),
            F_OBJECT("status", pod_status));
SHARED_TYPE(pod_template_spec, CORE "PodTemplateSpec", F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", pod_spec));
