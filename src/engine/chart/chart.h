// SPDX-License-Identifier: Apache-2.0
// Values of the Helm chart kube-prometheus-stack as a configuration of the engine: what the chart
// would write into the Prometheus object, its additional scrape configs and its rules. Values that
// only concern the deployment of the chart are skipped.
// https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "codec/json.h"
#include "codec/yaml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum chart_selector { CHART_SERVICE_MONITORS, CHART_POD_MONITORS, CHART_RULES };
#define CHART_SELECTORS 3

// What clients of a release of the chart address: its names and its Prometheus Service.
struct chart_release {
    bool found;              // a file has values of this chart
    char *name;              // fullnameOverride; NULL: the chart's name
    char *ns;                // namespaceOverride; NULL: that of the release
    char *service_type;      // prometheus.service.type; NULL: ClusterIP
    int64_t port, node_port; // of that Service; 0: not set
    bool no_grafana;         // grafana.enabled: false
};

// The result of one or more files. Zero-initialize it; release it with chart_values_finish().
struct chart_values {
    json_t *config;  // sections of prometheus.yml, all scalars are strings; NULL: none
    json_t *objects; // PrometheusRule, ServiceMonitor and PodMonitor objects; NULL: none
    // The specs of the objects with texts as scalars, as in the file, for positions.
    json_t *twins;
    // Positions of what objects and twins consist of, in the last file that was added.
    struct codec_yaml_marks *marks, *twin_marks;
    char *selectors[CHART_SELECTORS]; // label selectors ("a=b,c in (d)"); NULL: all objects
    bool alertmanager;                // the chart also deploys an Alertmanager
    struct chart_release release;
    char **notes; // "file:12:3: …": values without effect, probable slips
    size_t n_notes, notes_cap;
    char **mistakes; // the same, for values that cannot have the effect that they are written for
    size_t n_mistakes, mistakes_cap;
    size_t n_settings; // values of prometheusSpec that were read
};

// Whether the document has values of the chart, possibly below the key kube-prometheus-stack.
bool chart_is_values(const json_t *document);
// Adds the values of a file. As with several -f of Helm, a later list replaces an earlier one.
// *ret_found: a document of the file has such values. Errors have file:line:column; on an error the
// values may be partly added.
struct gs_error *chart_values_add(struct gs_slice text, const char *path, struct chart_values *v,
                                  bool *ret_found);

// Adds a prometheusSpec, whose scalars are strings, as the configuration of a Prometheus object.
// name: for errors, which have no positions.
struct gs_error *chart_spec_add(const json_t *spec, const char *name, struct chart_values *v);

// Objects that the chart would create, as far as gpuscale has what they lead to: the namespace, and
// the Services of Prometheus, Alertmanager and Grafana with the chart's names and labels. Programs
// that gpuscale does not run have a Service without a selector, whose annotation `notice` is the
// reason. ns: the namespace of the release. port: where the engine listens. New reference.
json_t *chart_release_objects(const struct chart_values *v, const char *ns, uint16_t port,
                              const char *notice);
// The pod behind the Service of Prometheus, without a node. New reference.
json_t *chart_release_pod(const struct chart_values *v, const char *ns, const char *name,
                          uint16_t port);
const char *chart_release_namespace(const struct chart_values *v, const char *ns); // borrowed
void chart_values_finish(struct chart_values *v);
