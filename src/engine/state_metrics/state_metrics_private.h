// SPDX-License-Identifier: Apache-2.0
// Tables of the supported kube-state-metrics families: one row for each family, with the function
// that writes the samples of an object.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "metrics/reader.h"

enum state_metrics_resource {
    STATE_METRICS_PODS,
    STATE_METRICS_NODES,
    STATE_METRICS_DEPLOYMENTS,
    STATE_METRICS_REPLICASETS,
    STATE_METRICS_NAMESPACES,
    STATE_METRICS_HPAS,
    STATE_METRICS_DAEMONSETS,
    STATE_METRICS_STATEFULSETS,
    STATE_METRICS_JOBS,
    STATE_METRICS_CRONJOBS,
    STATE_METRICS_BUDGETS,
    STATE_METRICS_QUOTAS,
    STATE_METRICS_LIMIT_RANGES,
    STATE_METRICS_N_RESOURCES,
};

// Label names of a resource that are exported.
struct state_metrics_allow {
    bool all;
    char **names;
    size_t n;
};

// What state_metrics_write_number() and the functions after it read of an object.
struct state_metrics_field {
    const char *kind;       // name of the label with the object's name
    const char *part, *key; // the two keys of the value
    int64_t fallback;       // if the number is absent; negative: no sample
};

struct state_metrics_writer {
    struct gs_buf *out;
    const char *family;
    const struct state_metrics_field *field; // of the family
    const struct state_metrics_allow *allow; // of the resource
    bool open;                               // labels have been written
    size_t start;                            // of the open sample in out
    size_t n;                                // samples of the object in the family
    const char *cut; // which limit has shortened the series of the object; NULL: none
};

// Prepares the writer for the samples of another object.
void state_metrics_next_object(struct state_metrics_writer *w);

// Write a sample: state_metrics_begin, any number of state_metrics_label (empty and NULL values are
// left out, long ones are shortened), state_metrics_end. Samples over the limit of an object are
// left out.
void state_metrics_begin(struct state_metrics_writer *w);
void state_metrics_label(struct state_metrics_writer *w, const char *name, const char *value);
void state_metrics_end(struct state_metrics_writer *w, double value);
// 0 or 1
void state_metrics_flag(struct state_metrics_writer *w, bool on);
// label_<name> for every allowed label of the object, up to the limits of an object
void state_metrics_object_labels(struct state_metrics_writer *w, const json_t *obj);
// ends an open sample with metadata.creationTimestamp in seconds; false: absent
bool state_metrics_seconds(const char *rfc3339, double *ret);
// The number of a quantity; false: it is malformed.
bool state_metrics_amount(const json_t *quantity, double *ret);
// Writes resource="nvidia_com_gpu",unit="integer" for each entry of a resource list. each(w, arg)
// writes the labels before them.
void state_metrics_resources(struct state_metrics_writer *w, const json_t *list,
                             void (*each)(struct state_metrics_writer *w, const void *arg),
                             const void *arg);
// status.conditions as condition="Ready",status="true|false|unknown"
void state_metrics_conditions(struct state_metrics_writer *w, const json_t *conditions,
                              void (*each)(struct state_metrics_writer *w, const void *arg),
                              const void *arg);

// For namespaced objects. kind is the name of the label with the object's name.

// Writes the labels namespace and kind.
void state_metrics_identify(struct state_metrics_writer *w, const json_t *obj, const char *kind);
// Writes the number at two keys of the object. If it is absent, the fallback is written; a negative
// fallback means no sample.
void state_metrics_number(struct state_metrics_writer *w, const json_t *obj, const char *kind,
                          int64_t fallback, const char *part, const char *key);

// For the member `write` of a family. They read w->field.

void state_metrics_write_number(struct state_metrics_writer *w, const json_t *obj);
// In seconds; no sample if it is absent.
void state_metrics_write_time(struct state_metrics_writer *w, const json_t *obj);
void state_metrics_write_labels(struct state_metrics_writer *w, const json_t *obj);
void state_metrics_write_owner(struct state_metrics_writer *w, const json_t *obj);
// The whole GPUs of a pod of the object's template, if it has any. The field's kind is that of the
// object ("Deployment").
void state_metrics_write_replica_gpus(struct state_metrics_writer *w, const json_t *obj);

// --- objects over a limit ---

struct state_metrics_incomplete;
struct state_metrics_incomplete *state_metrics_incomplete_new(void);
void state_metrics_incomplete_free(struct state_metrics_incomplete *i);
// Starts a new text. Objects that are in none of its families are forgotten.
void state_metrics_incomplete_begin(struct state_metrics_incomplete *i);
// Counts the object once, and logs it if it was not in the last text.
void state_metrics_incomplete_add(struct state_metrics_incomplete *i, const char *resource,
                                  const json_t *obj, const char *family, const char *why);
size_t state_metrics_incomplete_count(const struct state_metrics_incomplete *i);

struct state_metrics_family {
    const char *name, *help;
    enum metrics_type type;
    void (*write)(struct state_metrics_writer *w, const json_t *obj);
    struct state_metrics_field field;
};

// Rows of gauges. kind: the name of the label with the object's name.
#define STATE_METRICS_NUMBER(name, help, kind, part, key, fallback)                                \
    {                                                                                              \
        name, help, METRICS_GAUGE, state_metrics_write_number,                                     \
        {                                                                                          \
            kind, part, key, fallback                                                              \
        }                                                                                          \
    }
#define STATE_METRICS_TIME(name, help, kind, part, key)                                            \
    {                                                                                              \
        name, help, METRICS_GAUGE, state_metrics_write_time,                                       \
        {                                                                                          \
            kind, part, key                                                                        \
        }                                                                                          \
    }
#define STATE_METRICS_CREATED(name, kind)                                                          \
    STATE_METRICS_TIME(name, "Creation time of the object, in seconds since 1970.", kind,          \
                       "metadata", "creationTimestamp")
#define STATE_METRICS_LABELS(name, kind)                                                           \
    {                                                                                              \
        name, "The labels of the object, as label_*.", METRICS_GAUGE, state_metrics_write_labels,  \
        {                                                                                          \
            kind                                                                                   \
        }                                                                                          \
    }
#define STATE_METRICS_REPLICA_GPUS(name, kind)                                                     \
    {                                                                                              \
        name, "GPUs of a pod of the workload.", METRICS_GAUGE, state_metrics_write_replica_gpus,   \
        {                                                                                          \
            kind                                                                                   \
        }                                                                                          \
    }
#define STATE_METRICS_OWNER(name, help, kind)                                                      \
    {                                                                                              \
        name, help, METRICS_GAUGE, state_metrics_write_owner,                                      \
        {                                                                                          \
            kind                                                                                   \
        }                                                                                          \
    }

// Ends with a NULL name.
extern const struct state_metrics_family state_metrics_pod_families[];
extern const struct state_metrics_family state_metrics_container_families[]; // of pods too
extern const struct state_metrics_family state_metrics_node_families[];
extern const struct state_metrics_family state_metrics_workload_families[]; // Deployments
extern const struct state_metrics_family state_metrics_replicaset_families[];
extern const struct state_metrics_family state_metrics_namespace_families[];
extern const struct state_metrics_family state_metrics_hpa_families[];
extern const struct state_metrics_family state_metrics_daemonset_families[];
extern const struct state_metrics_family state_metrics_statefulset_families[];
extern const struct state_metrics_family state_metrics_job_families[];
extern const struct state_metrics_family state_metrics_cronjob_families[];
extern const struct state_metrics_family state_metrics_budget_families[];
extern const struct state_metrics_family state_metrics_quota_families[];
extern const struct state_metrics_family state_metrics_limit_range_families[];
