// SPDX-License-Identifier: Apache-2.0
// Shared by both directions: reports, the trigger of Prometheus as a query, and numbers.
#pragma once

#include "adapter/scaledobject/scaledobject.h"
#include "base/mem.h"

#define SCALEDOBJECT_FALLBACK "gpuscale.dev/fallback"
#define SCALEDOBJECT_READ_SECONDS                                                                  \
    15 // how often an autoscaler reads a metric, and KEDA counts a failure
#define SCALEDOBJECT_LEAST_FAILURE 180

// --- reports ---

// Lines begin with "Kind NS/NAME: ".
void scaledobject_note(struct scaledobject_result *r, const json_t *object, const char *fmt, ...)
    GS_PRINTF(3, 4);
void scaledobject_problem(struct scaledobject_result *r, const json_t *object, const char *fmt, ...)
    GS_PRINTF(3, 4);

// --- values ---

// A string, or a number or boolean that a manifest has without quotes. Caller frees; NULL: neither.
char *scaledobject_text(const json_t *value);
// Whether KEDA reads a text as false. NULL is not.
bool scaledobject_is_false(const char *text);
// A number of KEDA in thousandths, rounded as KEDA does. False: not a number, or out of range.
bool scaledobject_milli(const char *text, int64_t *ret);
// The failureDurationSeconds of the failureThreshold of a fallback.
int64_t scaledobject_failure_seconds(int64_t times);

// --- queries ---

struct scaledobject_query {
    char *text;     // the query of the trigger; owned
    bool zero;      // ignoreNullValues: no value, NaN and infinite values are 0
    bool activates; // values up to `above` are 0
    double above;
};
void scaledobject_query_finish(struct scaledobject_query *q);
// The query that returns what KEDA would pass to the autoscaler. Caller frees.
char *scaledobject_query_wrap(const struct scaledobject_query *q);
// The reverse. Queries of other rules are their own text, and no value is an error.
void scaledobject_query_unwrap(const char *text, struct scaledobject_query *ret);

// --- triggers ---

// A trigger that is converted.
struct scaledobject_input {
    const json_t *object, *in, *metadata;
    size_t i;
    bool from_zero;        // the object may have zero replicas
    json_t *kept_metadata; // receives what the metric does not express
    struct scaledobject_result *r;
};
// "spec.triggers[I]FIELD: WHY". Returns NULL.
json_t *scaledobject_input_problem(const struct scaledobject_input *t, const char *field,
                                   const char *why);
// {"type": …, "averageValue": …}; new reference. NULL: a problem was reported.
json_t *scaledobject_target(const struct scaledobject_input *t);
// The metric of a trigger of gpuscale's external scaler (docs/keda.md), and the reverse: for a
// metric of the type Object, or External. scaler: its address, unless metadata has it; NULL: none.
json_t *scaledobject_signal_metric(const struct scaledobject_input *t);
json_t *scaledobject_signal_trigger(const json_t *hpa, const json_t *metric, json_t *metadata,
                                    const char *scaler, struct scaledobject_result *r);
// The target of a metric as the decimal number that KEDA reads. Caller frees; NULL: it has none.
char *scaledobject_threshold(const json_t *target);

// The metric of a trigger (new reference), with its rule in r. kept: receives the fields of the
// trigger that the metric does not express. NULL: a problem was reported.
json_t *scaledobject_metric(const json_t *object, size_t i, bool from_zero, json_t *kept,
                            struct scaledobject_result *r);
// The reverse. kept: the trigger of the annotation, or NULL.
json_t *scaledobject_trigger(const json_t *hpa, const json_t *metric, const json_t *kept,
                             const struct scaledobject_sources *sources,
                             struct scaledobject_result *r);
// The index of the trigger from the name of its metric. -1: another metric.
int scaledobject_trigger_index(const char *metric);
