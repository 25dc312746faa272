// SPDX-License-Identifier: Apache-2.0
// resource group: dynamic resource allocation.
#include "kube/schema_private.h"

#define RESOURCE "io.k8s.api.resource.v1."

TYPE(cel_device_selector, RESOURCE "CELDeviceSelector", F_STRING("expression", REQUIRED));
TYPE(device_selector, RESOURCE "DeviceSelector", F_OBJECT("cel", cel_device_selector));
TYPE(opaque_device_configuration, RESOURCE "OpaqueDeviceConfiguration",
     F_STRING("driver", REQUIRED), F_ANY("parameters", REQUIRED));
TYPE(device_class_configuration, RESOURCE "DeviceClassConfiguration",
     F_OBJECT("opaque", opaque_device_configuration));
TYPE(device_class_spec, RESOURCE "DeviceClassSpec", F_LIST("selectors", device_selector),
     F_LIST("config", device_class_configuration), F_STRING("extendedResourceName"));
SHARED_TYPE(device_class, RESOURCE "DeviceClass", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", device_class_spec, REQUIRED));
TYPE(device_toleration, RESOURCE "DeviceToleration", F_STRING("key"), F_STRING("operator"),
     F_STRING("value"), F_STRING("effect"), F_INT64("tolerationSeconds"));
TYPE(capacity_requirements, RESOURCE "CapacityRequirements", F_MAP_OF("requests", QUANTITY));
TYPE(exact_device_request, RESOURCE "ExactDeviceRequest", F_STRING("deviceClassName", REQUIRED),
     F_LIST("selectors", device_selector), F_STRING("allocationMode"), F_INT64("count"),
     F_BOOL("adminAccess"), F_LIST("tolerations", device_toleration),
     F_OBJECT("capacity", capacity_requirements));
TYPE(device_sub_request, RESOURCE "DeviceSubRequest", F_STRING("name", REQUIRED),
     F_STRING("deviceClassName", REQUIRED), F_LIST("selectors", device_selector),
     F_STRING("allocationMode"), F_INT64("count"), F_LIST("tolerations", device_toleration),
     F_OBJECT("capacity", capacity_requirements));
TYPE(device_request, RESOURCE "DeviceRequest", F_STRING("name", REQUIRED),
     F_OBJECT("exactly", exact_device_request), F_LIST("firstAvailable", device_sub_request));
TYPE(device_constraint, RESOURCE "DeviceConstraint", F_LIST_OF("requests", STRING),
     F_STRING("matchAttribute"), F_STRING("distinctAttribute"));
TYPE(device_claim_configuration, RESOURCE "DeviceClaimConfiguration", F_LIST_OF("requests", STRING),
     F_OBJECT("opaque", opaque_device_configuration));
TYPE(device_claim, RESOURCE "DeviceClaim", F_LIST("requests", device_request, REQUIRED),
     F_LIST("constraints", device_constraint), F_LIST("config", device_claim_configuration));
TYPE(resource_claim_spec, RESOURCE "ResourceClaimSpec",
     F_OBJECT("devices", device_claim, REQUIRED));
TYPE(device_request_allocation_result, RESOURCE "DeviceRequestAllocationResult",
     F_STRING("request", REQUIRED), F_STRING("driver", REQUIRED), F_STRING("pool", REQUIRED),
     F_STRING("device", REQUIRED), F_BOOL("adminAccess"), F_LIST("tolerations", device_toleration),
     F_LIST_OF("bindingConditions", STRING), F_LIST_OF("bindingFailureConditions", STRING),
     F_STRING("shareID"), F_MAP_OF("consumedCapacity", QUANTITY));
TYPE(device_allocation_configuration, RESOURCE "DeviceAllocationConfiguration",
     F_STRING("source", REQUIRED), F_LIST_OF("requests", STRING),
     F_OBJECT("opaque", opaque_device_configuration));
TYPE(device_allocation_result, RESOURCE "DeviceAllocationResult",
     F_LIST("results", device_request_allocation_result),
     F_LIST("config", device_allocation_configuration));
TYPE(allocation_result, RESOURCE "AllocationResult", F_OBJECT("devices", device_allocation_result),
     F_OBJECT("nodeSelector", node_selector), F_TIME("allocationTimestamp"));
TYPE(resource_claim_consumer_reference, RESOURCE "ResourceClaimConsumerReference",
     F_STRING("apiGroup"), F_STRING("resource", REQUIRED), F_STRING("name", REQUIRED),
     F_STRING("uid", REQUIRED));
TYPE(network_device_data, RESOURCE "NetworkDeviceData", F_STRING("interfaceName"),
     F_LIST_OF("ips", STRING), F_STRING("hardwareAddress"));
TYPE(allocated_device_status, RESOURCE "AllocatedDeviceStatus", F_STRING("driver", REQUIRED),
     F_STRING("pool", REQUIRED), F_STRING("device", REQUIRED), F_STRING("shareID"),
     F_LIST("conditions", condition, REQUIRED), F_ANY("data"),
     F_OBJECT("networkData", network_device_data));
TYPE(resource_claim_status, RESOURCE "ResourceClaimStatus",
     F_OBJECT("allocation", allocation_result),
     F_LIST("reservedFor", resource_claim_consumer_reference, BY("uid")),
     F_LIST("devices", allocated_device_status));
SHARED_TYPE(dra_claim, RESOURCE "ResourceClaim", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", resource_claim_spec, REQUIRED),
            F_OBJECT("status", resource_claim_status));
TYPE(resource_claim_template_spec, RESOURCE "ResourceClaimTemplateSpec",
     F_OBJECT("metadata", object_meta), F_OBJECT("spec", resource_claim_spec, REQUIRED));
SHARED_TYPE(resource_claim_template, RESOURCE "ResourceClaimTemplate", F_STRING("apiVersion"),
            F_STRING("kind"), F_OBJECT("metadata", object_meta),
            F_OBJECT("spec", resource_claim_template_spec, REQUIRED));
TYPE(resource_pool, RESOURCE "ResourcePool", F_STRING("name", REQUIRED),
     F_INT64("generation", REQUIRED), F_INT64("resourceSliceCount", REQUIRED));
TYPE(device_attribute, RESOURCE "DeviceAttribute", F_INT64("int"), F_BOOL("bool"),
     F_STRING("string"), F_STRING("version"), F_LIST_OF("ints", INT64), F_LIST_OF("bools", BOOL),
     F_LIST_OF("strings", STRING), F_LIST_OF("versions", STRING));
TYPE(capacity_request_policy_range, RESOURCE "CapacityRequestPolicyRange", F_QUANTITY("min"),
     F_QUANTITY("max"), F_QUANTITY("step"));
TYPE(capacity_request_policy, RESOURCE "CapacityRequestPolicy", F_QUANTITY("default", REQUIRED),
     F_LIST_OF("validValues", QUANTITY), F_OBJECT("validRange", capacity_request_policy_range));
TYPE(device_capacity, RESOURCE "DeviceCapacity", F_QUANTITY("value", REQUIRED),
     F_OBJECT("requestPolicy", capacity_request_policy));
TYPE(counter, RESOURCE "Counter", F_QUANTITY("value", REQUIRED));
TYPE(device_counter_consumption, RESOURCE "DeviceCounterConsumption",
     F_STRING("counterSet", REQUIRED), F_MAP("counters", counter));
TYPE(device_taint, RESOURCE "DeviceTaint", F_STRING("key", REQUIRED), F_STRING("value"),
     F_STRING("effect", REQUIRED), F_TIME("timeAdded"));
TYPE(node_allocatable_resource_mapping, RESOURCE "NodeAllocatableResourceMapping",
     F_STRING("capacityKey"), F_QUANTITY("allocationMultiplier"));
TYPE(device, RESOURCE "Device", F_STRING("name", REQUIRED), F_MAP("attributes", device_attribute),
     F_MAP("capacity", device_capacity), F_LIST("consumesCounters", device_counter_consumption),
     F_STRING("nodeName"), F_OBJECT("nodeSelector", node_selector), F_BOOL("allNodes"),
     F_LIST("taints", device_taint), F_BOOL("bindsToNode"), F_LIST_OF("bindingConditions", STRING),
     F_LIST_OF("bindingFailureConditions", STRING), F_BOOL("allowMultipleAllocations"),
     F_MAP("nodeAllocatableResourceMappings", node_allocatable_resource_mapping));
TYPE(counter_set, RESOURCE "CounterSet", F_STRING("name", REQUIRED), F_MAP("counters", counter));
TYPE(resource_slice_spec, RESOURCE "ResourceSliceSpec", F_STRING("driver", REQUIRED),
     F_OBJECT("pool", resource_pool, REQUIRED), F_STRING("nodeName"),
     F_OBJECT("nodeSelector", node_selector), F_BOOL("allNodes"), F_LIST("devices", device),
     F_BOOL("perDeviceNodeSelection"), F_LIST("sharedCounters", counter_set));
SHARED_TYPE(resource_slice, RESOURCE "ResourceSlice", F_STRING("apiVersion"), F_STRING("kind"),
            F_OBJECT("metadata", object_meta), F_OBJECT("spec", resource_slice_spec, REQUIRED));
