// SPDX-License-Identifier: Apache-2.0
// Server-side printing: meta.k8s.io Tables with kube-apiserver's columns. Private to the API
// server.
#pragma once

#include "codec/json.h"

struct local_column {
    const char *name;
    const char *type; // "string", "integer", "boolean"
    int priority;     // 0: always shown; 1: with -o wide
    const char *doc;
};

struct local_table {
    const struct local_column *columns; // ends with a NULL name
    // Appends one cell a column to cells. obj is in its stored version.
    void (*add_cells)(const json_t *obj, json_t *cells, int64_t now_ms);
};

extern const struct local_table local_table_plain; // NAME, AGE
extern const struct local_table local_table_pods, local_table_deployments, local_table_replicasets,
    local_table_statefulsets, local_table_daemonsets, local_table_services, local_table_endpoints,
    local_table_endpointslices, local_table_ingresses, local_table_nodes, local_table_namespaces,
    local_table_events, local_table_hpas, local_table_configmaps, local_table_secrets,
    local_table_serviceaccounts, local_table_leases;

#define LOCAL_COLUMN_NAME                                                                          \
    {                                                                                              \
        "Name", "string", 0, "Name must be unique within a namespace."                             \
    }
#define LOCAL_COLUMN_AGE                                                                           \
    {                                                                                              \
        "Age", "string", 0, "Time since the object was created."                                   \
    }

// version: "v1" or "v1beta1" of meta.k8s.io. header: with column definitions.
json_t *local_table_new(const struct local_table *t, const char *version, bool header);
// include: what rows carry beside cells: "None", "Object", else the metadata. served: the object in
// the version asked for.
void local_table_add(json_t *table, const struct local_table *t, const char *version,
                     const json_t *stored, const json_t *served, const char *include);
// {"kind": "PartialObjectMetadata", …, "metadata": …}: new reference.
json_t *local_partial_metadata(const json_t *obj, const char *version);

// --- for the printers ---
#define LOCAL_AGE_SIZE 32
// kubectl's short form: "52m", "3d4h".
char *local_format_duration(int64_t ms, char buf[LOCAL_AGE_SIZE]);
// Age of an RFC 3339 text; "<unknown>" when it is none.
char *local_format_age(const char *since, int64_t now_ms, char buf[LOCAL_AGE_SIZE]);
void local_cell_str(json_t *cells, const char *text); // NULL: ""
void local_cell_or(json_t *cells, const char *text, const char *fallback);
void local_cell_int(json_t *cells, int64_t n);
void local_cell_buf(json_t *cells, struct gs_buf *text, const char *fallback); // finishes text
void local_cell_name(json_t *cells, const json_t *obj);
void local_cell_age(json_t *cells, const json_t *obj, int64_t now_ms);
// "a=1,b=2" of a map; fallback when empty.
void local_cell_map(json_t *cells, const json_t *map, const char *fallback);
// CONTAINERS, IMAGES of a pod template.
void local_cell_containers(json_t *cells, const json_t *containers);
