// SPDX-License-Identifier: Apache-2.0
// Macros for the tables of Kubernetes' types (schema_*.c). One line per field, in the order of the
// API reference. Options follow the name:
//   REQUIRED   required in the OpenAPI documents
//   BY(key)    a strategic merge patch merges the list by this member; SET: a set of scalars
//   RETAIN     patchStrategy retainKeys: a one-of, where a patch names the members that may stay
// Private to the schema files. Source: the Kubernetes API reference.
#pragma once

#include "kube/schema.h"

#define F(n, k, ...)                                                                               \
    {                                                                                              \
        .name = n, .kind = KUBE_F_##k, ##__VA_ARGS__                                               \
    }
#define F_STRING(n, ...)     F(n, STRING, ##__VA_ARGS__)
#define F_BOOL(n, ...)       F(n, BOOL, ##__VA_ARGS__)
#define F_INT32(n, ...)      F(n, INT, ##__VA_ARGS__)
#define F_INT64(n, ...)      F(n, INT64, ##__VA_ARGS__)
#define F_QUANTITY(n, ...)   F(n, QUANTITY, ##__VA_ARGS__)
#define F_INTORSTR(n, ...)   F(n, INTORSTR, ##__VA_ARGS__)
#define F_TIME(n, ...)       F(n, TIME, ##__VA_ARGS__)
#define F_ANY(n, ...)        F(n, ANY, ##__VA_ARGS__)
#define F_OBJECT(n, t, ...)  F(n, OBJECT, .type = &kube_type_##t, ##__VA_ARGS__)
#define F_LIST(n, t, ...)    F(n, LIST, .item = KUBE_F_OBJECT, .type = &kube_type_##t, ##__VA_ARGS__)
#define F_MAP(n, t, ...)     F(n, MAP, .item = KUBE_F_OBJECT, .type = &kube_type_##t, ##__VA_ARGS__)
#define F_LIST_OF(n, k, ...) F(n, LIST, .item = KUBE_F_##k, ##__VA_ARGS__)
#define F_MAP_OF(n, k, ...)  F(n, MAP, .item = KUBE_F_##k, ##__VA_ARGS__)

#define REQUIRED .required = true
#define BY(key)  .merge_key = key
#define SET      .merge_key = ""
#define RETAIN   .retain_keys = true

#define SHARED_TYPE(id, full_name, ...)                                                            \
    static const struct kube_field id##_fields[] = {__VA_ARGS__, {.name = NULL}};                  \
    const struct kube_type kube_type_##id = {full_name, id##_fields, false}
#define CUSTOM_KIND(id, full_name, ...)                                                            \
    static const struct kube_field id##_fields[] = {__VA_ARGS__, {.name = NULL}};                  \
    const struct kube_type kube_type_##id = {full_name, id##_fields, true}
#define TYPE(id, full_name, ...)                                                                   \
    static const struct kube_field id##_fields[] = {__VA_ARGS__, {.name = NULL}};                  \
    static const struct kube_type kube_type_##id = {full_name, id##_fields, false}

extern const struct kube_type kube_type_object_meta;
extern const struct kube_type kube_type_label_selector;
extern const struct kube_type kube_type_condition;
extern const struct kube_type kube_type_local_object_reference;
extern const struct kube_type kube_type_object_field_selector;
extern const struct kube_type kube_type_resource_field_selector;
extern const struct kube_type kube_type_typed_local_object_reference;
extern const struct kube_type kube_type_typed_object_reference;
extern const struct kube_type kube_type_volume;
extern const struct kube_type kube_type_volume_health_condition;
extern const struct kube_type kube_type_pod;
extern const struct kube_type kube_type_service;
extern const struct kube_type kube_type_object_reference;
extern const struct kube_type kube_type_endpoints;
extern const struct kube_type kube_type_namespace;
extern const struct kube_type kube_type_node;
extern const struct kube_type kube_type_config_map;
extern const struct kube_type kube_type_secret;
extern const struct kube_type kube_type_service_account;
extern const struct kube_type kube_type_event_source;
extern const struct kube_type kube_type_event;
extern const struct kube_type kube_type_persistent_volume_claim;
extern const struct kube_type kube_type_pod_template_spec;
extern const struct kube_type kube_type_deployment;
extern const struct kube_type kube_type_replica_set;
extern const struct kube_type kube_type_stateful_set;
extern const struct kube_type kube_type_daemon_set;
extern const struct kube_type kube_type_job;
extern const struct kube_type kube_type_cron_job;
extern const struct kube_type kube_type_as_v1_horizontal_pod_autoscaler;
extern const struct kube_type kube_type_as_v1_scale;
extern const struct kube_type kube_type_horizontal_pod_autoscaler;
extern const struct kube_type kube_type_ingress;
extern const struct kube_type kube_type_ingress_class;
extern const struct kube_type kube_type_network_policy;
extern const struct kube_type kube_type_pod_disruption_budget;
extern const struct kube_type kube_type_topology_selector_term;
extern const struct kube_type kube_type_storage_class;
extern const struct kube_type kube_type_csi_driver;
extern const struct kube_type kube_type_csi_node;
extern const struct kube_type kube_type_csi_storage_capacity;
extern const struct kube_type kube_type_volume_attachment;
extern const struct kube_type kube_type_device_class;
extern const struct kube_type kube_type_dra_claim;
extern const struct kube_type kube_type_resource_claim_template;
extern const struct kube_type kube_type_resource_slice;
extern const struct kube_type kube_type_persistent_volume_spec;
extern const struct kube_type kube_type_priority_class;
extern const struct kube_type kube_type_lease;
extern const struct kube_type kube_type_events_event;
extern const struct kube_type kube_type_role;
extern const struct kube_type kube_type_role_binding;
extern const struct kube_type kube_type_cluster_role;
extern const struct kube_type kube_type_cluster_role_binding;
extern const struct kube_type kube_type_mutating_webhook_configuration;
extern const struct kube_type kube_type_validating_webhook_configuration;
extern const struct kube_type kube_type_horizontal_pod_autoscaler_v2beta1;
extern const struct kube_type kube_type_horizontal_pod_autoscaler_v2beta2;
extern const struct kube_type kube_type_node_selector;
extern const struct kube_type kube_type_persistent_volume;
extern const struct kube_type kube_type_limit_range;
extern const struct kube_type kube_type_resource_quota;
extern const struct kube_type kube_type_replication_controller;
extern const struct kube_type kube_type_controller_revision;
extern const struct kube_type kube_type_slice_endpoint_slice;
extern const struct kube_type kube_type_service_monitor;
extern const struct kube_type kube_type_pod_monitor;
extern const struct kube_type kube_type_prometheus_rule;
