// SPDX-License-Identifier: Apache-2.0
// The families of kube-state-metrics that are served, as tables: one row a family, with the
// function that writes an object's samples. Private to the room.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "metrics/parse.h"

enum state_resource {
    STATE_PODS,
    STATE_NODES,
    STATE_DEPLOYMENTS,
    STATE_REPLICASETS,
    STATE_NAMESPACES,
    STATE_HPAS,
    STATE_N_RESOURCES,
};

// Label names that may be shown of a resource.
struct state_allow {
    bool all;
    char **names;
    size_t n;
};

struct state_writer {
    struct gs_buf *out;
    const char *family;
    const struct state_allow *allow; // of the resource
    bool open;                       // labels have been written
};

// A sample: state_begin, any number of state_label (empty and NULL values are left out), state_end.
void state_begin(struct state_writer *w);
void state_label(struct state_writer *w, const char *name, const char *value);
void state_end(struct state_writer *w, double value);
// 0 or 1
void state_flag(struct state_writer *w, bool on);
// label_<name> for every allowed label of the object
void state_object_labels(struct state_writer *w, const json_t *obj);
// metadata.creationTimestamp in seconds, as a whole sample with the given labels open; false: none
bool state_seconds(const char *rfc3339, double *ret);
// resource="nvidia_com_gpu",unit="integer" for each entry of a resource list. each(w, arg) writes
// the labels in front.
void state_resources(struct state_writer *w, const json_t *list,
                     void (*each)(struct state_writer *w, const void *arg), const void *arg);
// status.conditions as condition="Ready",status="true|false|unknown"
void state_conditions(struct state_writer *w, const json_t *conditions,
                      void (*each)(struct state_writer *w, const void *arg), const void *arg);

struct state_family {
    const char *name, *help;
    enum metrics_type type;
    void (*write)(struct state_writer *w, const json_t *obj);
};

// Ends with a NULL name.
extern const struct state_family state_pod_families[];
extern const struct state_family state_container_families[]; // of pods too
extern const struct state_family state_node_families[];
extern const struct state_family state_workload_families[]; // Deployments
extern const struct state_family state_replicaset_families[];
extern const struct state_family state_namespace_families[];
extern const struct state_family state_hpa_families[];
