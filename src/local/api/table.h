// SPDX-License-Identifier: Apache-2.0
// Server-side printing: meta.k8s.io Tables with kube-apiserver's columns. Private to the API
// server.
#pragma once

#include "codec/json.h"

struct local_api_column {
    const char *name;
    const char *type; // "string", "integer", "boolean"
    int priority;     // 0: always shown; 1: with -o wide
    const char *doc;
    const char *format; // of custom resources; NULL: "name" for Name, else ""
};

struct local_api_table {
    const struct local_api_column *columns; // ends with a NULL name
    // Appends one cell per column to cells. obj is in its stored version.
    void (*add_cells)(const json_t *obj, json_t *cells, int64_t now_ms);
    // Instead, for the columns of a CustomResourceDefinition. obj is in the served version.
    void (*add_custom_cells)(const struct local_api_table *t, const json_t *obj, json_t *cells,
                             int64_t now_ms);
};

extern const struct local_api_table local_api_table_plain; // NAME, AGE
extern const struct local_api_table local_api_table_crds,
    local_api_table_apiservices; // in crd_table.c
extern const struct local_api_table local_api_table_pods, local_api_table_deployments,
    local_api_table_replicasets, local_api_table_statefulsets, local_api_table_daemonsets,
    local_api_table_services, local_api_table_endpoints, local_api_table_endpointslices,
    local_api_table_ingresses, local_api_table_nodes, local_api_table_namespaces,
    local_api_table_events, local_api_table_hpas, local_api_table_configmaps,
    local_api_table_secrets, local_api_table_serviceaccounts, local_api_table_leases,
    local_api_table_ingress_classes, local_api_table_priority_classes, local_api_table_quotas;
extern const struct local_api_table local_api_table_revisions, local_api_table_jobs,
    local_api_table_cronjobs, local_api_table_budgets;

extern const struct local_api_table local_api_table_claims, local_api_table_volumes;

#define LOCAL_API_COLUMN_NAME                                                                      \
    {                                                                                              \
        "Name", "string", 0, "Name must be unique within a namespace."                             \
    }
#define LOCAL_API_COLUMN_AGE                                                                       \
    {                                                                                              \
        "Age", "string", 0, "Time since the object was created."                                   \
    }

// version: "v1" or "v1beta1" of meta.k8s.io. header: with column definitions.
json_t *local_api_table_new(const struct local_api_table *t, const char *version, bool header);
// include: the object of each row: "None", "Object", else the metadata. served: the object in the
// requested version.
void local_api_table_add(json_t *table, const struct local_api_table *t, const char *version,
                         const json_t *stored, const json_t *served, const char *include);
// {"kind": "PartialObjectMetadata", …, "metadata": …}: new reference.
json_t *local_api_partial_metadata(const json_t *obj, const char *version);

// --- for the printers ---
#define LOCAL_API_AGE_SIZE 32
// kubectl's short form: "52m", "3d4h".
char *local_api_format_duration(int64_t ms, char buf[LOCAL_API_AGE_SIZE]);
// Age of an RFC 3339 text; "<unknown>" if it is invalid.
char *local_api_format_age(const char *since, int64_t now_ms, char buf[LOCAL_API_AGE_SIZE]);
void local_api_cell_str(json_t *cells, const char *text); // NULL: ""
void local_api_cell_or(json_t *cells, const char *text, const char *fallback);
void local_api_cell_int(json_t *cells, int64_t n);
void local_api_cell_buf(json_t *cells, struct gs_buf *text, const char *fallback); // finishes text
void local_api_cell_name(json_t *cells, const json_t *obj);
void local_api_cell_age(json_t *cells, const json_t *obj, int64_t now_ms);
// "a=1,b=2" of a map; fallback if empty.
void local_api_cell_map(json_t *cells, const json_t *map, const char *fallback);
// CONTAINERS, IMAGES of a pod template.
void local_api_cell_containers(json_t *cells, const json_t *containers);
void local_api_cell_selector(json_t *cells, const json_t *obj); // spec.selector
