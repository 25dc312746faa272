// SPDX-License-Identifier: Apache-2.0
// Values of the Helm chart kube-prometheus-stack as a configuration of the engine: what the chart
// would write into the Prometheus object, its additional scrape configs and its rules. Values that
// only concern the deployment of the chart are skipped.
// https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "codec/json.h"

#include <stdbool.h>
#include <stddef.h>

enum chart_selector { CHART_SERVICE_MONITORS, CHART_POD_MONITORS, CHART_RULES };
#define CHART_SELECTORS 3

// The result of one or more files. Zero-initialize it; release it with chart_values_finish().
struct chart_values {
    json_t *config;  // sections of prometheus.yml, all scalars are strings; NULL: none
    json_t *objects; // PrometheusRule, ServiceMonitor and PodMonitor objects; NULL: none
    char *selectors[CHART_SELECTORS]; // label selectors ("a=b,c in (d)"); NULL: all objects
    bool alertmanager;                // the chart also deploys an Alertmanager
    char **notes;                     // "file:12:3: …": values without effect, probable mistakes
    size_t n_notes, notes_cap;
};

// Whether the document has values of the chart, possibly below the key kube-prometheus-stack.
bool chart_is_values(const json_t *document);
// Adds the values of a file. As with several -f of Helm, a later list replaces an earlier one.
// *ret_found: a document of the file has such values. Errors have file:line:column; on an error the
// values may be partly added.
struct gs_error *chart_values_add(struct gs_slice text, const char *path, struct chart_values *v,
                                  bool *ret_found);
void chart_values_finish(struct chart_values *v);
