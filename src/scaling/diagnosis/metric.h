// SPDX-License-Identifier: Apache-2.0
// Why a metric of pods has no value, and the YAML that changes it: the pods are not scraped, their
// scrape fails, they are scraped but have no series of the name, or the series exist and nothing
// serves them. A pure function for `gpuscale explain`, and `gpuscale doctor`.
//
// Objects are borrowed and not changed. No function fails: what is not known (NULL) is not claimed.
#pragma once

#include "base/attr.h"
#include "codec/json.h"

enum diagnosis_metric_state {
    DIAGNOSIS_METRIC_UNKNOWN,
    DIAGNOSIS_METRIC_NO_PODS,
    DIAGNOSIS_METRIC_NOT_SCRAPED,
    DIAGNOSIS_METRIC_SCRAPE_FAILS,
    DIAGNOSIS_METRIC_NO_SUCH_NAME, // a similar name exists
    DIAGNOSIS_METRIC_ABSENT,       // the pods are scraped; no name is similar
    DIAGNOSIS_METRIC_NOT_SERVED,   // the series exist
    DIAGNOSIS_METRIC_SERVED,
    DIAGNOSIS_METRIC_STATES
};
const char *diagnosis_metric_state_name(enum diagnosis_metric_state s); // "not scraped"

struct diagnosis_metric_input {
    const char *metric;           // as the autoscaler names it
    const char *ns, *kind, *name; // of the workload: "Deployment", "api"
    const json_t *pod;            // one of its pods; NULL: not known
    // What is stored of its pods: {"pods": number of pods, "up": {pod: whether its last scrape
    // succeeded}, "names": [names of their series]}. NULL: not known.
    const json_t *series;
    bool served; // the metrics API has a value
};

struct diagnosis_metric {
    enum diagnosis_metric_state state;
    char *text;     // one line
    char *evidence; // one line; NULL: none
    char *fix;      // YAML or commands, several lines; NULL: none
};
// The member `series` of what the adapter's explanation, or a Prometheus for
// metrics_pod_series_query(), has: {"pods": number, "samples": [{"name", "pod", "value"}]}. New
// reference. NULL for NULL.
json_t *diagnosis_metric_series(const json_t *pod_series);
void diagnosis_metric_of(const struct diagnosis_metric_input *in, struct diagnosis_metric *ret);
void diagnosis_metric_finish(struct diagnosis_metric *d);
