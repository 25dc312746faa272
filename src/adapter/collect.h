// SPDX-License-Identifier: Apache-2.0
// From series to one value for a Kubernetes object. A series belongs to a pod by its labels
// PodName/NamespaceName, exported_pod/exported_namespace or pod/namespace, the first pair that it
// has.
//
// Several series of one pod become one value in two steps: processes on the same device (label
// UUID, else gpu) are added up; devices are then averaged for rates and levels (utilisation,
// temperature, clocks) and added up for amounts (memory, power, energy). A utilisation never passes
// 100 a device.
#pragma once

#include "kube/selector.h"
#include "tsdb/tsdb.h"

#define ADAPTER_LOOKBACK_MS INT64_C(30000)

struct adapter_value {
    double value;
    int64_t t_ms; // of the oldest sample in it
};

struct adapter_request {
    const char *metric;
    const char *ns;                       // NULL: any (nodes)
    const struct kube_selector *selector; // over series labels; NULL: all
    int64_t now_ms;
};

// Pod name -> struct adapter_value. Caller frees the map.
struct gs_hmap *adapter_collect_pods(const struct tsdb *db, const struct adapter_request *rq);
// The namespace's own value: its pods' values, averaged or added up. False: no sample.
bool adapter_collect_namespace(const struct tsdb *db, const struct adapter_request *rq,
                               struct adapter_value *ret);
// A node's value from the series that carry its name (NodeName), by the same two steps.
bool adapter_collect_node(const struct tsdb *db, const struct adapter_request *rq, const char *node,
                          struct adapter_value *ret);

// Metric names that have a sample now, for each kind of object: sorted, each string to be freed.
struct adapter_names {
    char **items;
    size_t len, cap;
};
void adapter_list_metrics(const struct tsdb *db, int64_t now_ms, struct adapter_names *ret_pods,
                          struct adapter_names *ret_nodes);
void adapter_names_finish(struct adapter_names *n);
