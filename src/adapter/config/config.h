// SPDX-License-Identifier: Apache-2.0
// The adapter's configuration. It may be a configuration file of prometheus-adapter (rules,
// externalRules, resourceRules), values of its Helm chart, or a ConfigMap that contains either.
// https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md
// Unknown and duplicate keys are errors (GS_EINVAL) with file:line:column. A configuration is
// immutable; all its parts live as long as it does.
#pragma once

#include "base/arena.h"
#include "base/regex.h"
#include "codec/json.h"
#include "net/endpoint/endpoint.h"
#include "template/template.h"

#include <stdint.h>

struct adapter_config_filter {
    bool negate; // isNot
    const char *text;
    struct gs_regex *regex;
};

struct adapter_config_override {
    const char *label;
    const char *group, *resource; // as written
    const char *place;
};

// The mapping between labels and resources.
struct adapter_config_resources {
    const char *template_text; // NULL: none
    struct template_program *label_template;
    struct gs_regex *label_pattern; // from the template, with groups "group" and "resource"
    struct adapter_config_override *overrides;
    size_t n_overrides;
    bool namespaced; // external rules only; default true
};

struct adapter_config_rule {
    const char *place; // "rules.yaml:3"
    // The same of its parts; NULL: absent.
    const char *series_place, *name_place, *query_place;
    bool external;
    const char *series_query;
    struct adapter_config_filter *filters;
    size_t n_filters;
    struct adapter_config_resources resources;
    struct gs_regex *matches;
    const char *matches_text; // "": none
    const char *as;           // expansion; the default is filled in
    const char *query_text;
    struct template_program *query;
    int64_t window_ms;       // the longest range in the query; 0: no range
    const char *source_name; // NULL: the patterns of the sources decide
    size_t source;           // 0: the default source; n: sources[n - 1]
};

struct adapter_config_resource_rule {
    const char *container_text, *node_text;
    struct template_program *container_query, *node_query;
    struct adapter_config_resources resources;
    const char *container_label;
};

struct adapter_config_resource_rules {
    bool present;
    struct adapter_config_resource_rule cpu, memory;
    int64_t window_ns;
    const char *source_name;
    size_t source; // as in a rule
};

// An extra source, besides the default one.
struct adapter_config_source {
    const char *place, *name;
    const char *url; // with the params
    bool engine;     // the engine in this process, instead of a URL
    bool post;
    const char *const *headers; // "Key=Value"
    size_t n_headers;
    const char *params; // "tenant=a&nocache=1"; NULL: none
    int64_t timeout_ms; // 0: the default
    struct endpoint_settings http;
    struct gs_regex **patterns; // rules whose seriesQuery matches one use this source
    size_t n_patterns;
    bool resource; // the resource rules use this source
};

struct adapter_config {
    struct gs_arena arena;
    struct adapter_config_rule *rules; // custom, then external
    size_t n_rules, n_custom;
    bool custom_listed, external_listed; // the file has this list, which may be empty
    struct adapter_config_resource_rules resource;
    struct adapter_config_source *sources;
    size_t n_sources;
    const char *prometheus_url;  // from Helm values; NULL: none
    const char *relist_interval; // from Helm values; NULL: none
    struct gs_regex **regexes;   // private, as templates: freed with the configuration
    size_t n_regexes, regexes_cap;
    struct template_program **templates;
    size_t n_templates, templates_cap;
};

// name: the file name for messages.
struct gs_error *adapter_config_parse(struct gs_slice text, const char *name,
                                      struct adapter_config **ret);
// A configuration, and a file of extra sources. Either path may be NULL.
struct gs_error *adapter_config_load(const char *path, const char *sources_path,
                                     struct adapter_config **ret);
void adapter_config_free(struct adapter_config *c);
GS_DEFINE_CLEANUP(struct adapter_config *, adapter_config_free)

// Whether a YAML document has rules in one of these forms. Manifests are not examined.
bool adapter_config_has_rules(const json_t *document);

// Returns the chart's default rules as YAML.
const char *adapter_config_defaults(void);

// --- rules ---

// Adds the API name of a series to out. False: the series is filtered out; *ret_filter is the first
// filter that does not match (NULL: name.matches does not).
bool adapter_config_rule_name(const struct adapter_config_rule *r, struct gs_slice series,
                              struct gs_buf *out, const struct adapter_config_filter **ret_filter);
// Adds the API name if it follows from the rule alone: name.as has no groups, or seriesQuery names
// one metric. False: it depends on the series, or the filters drop them.
bool adapter_config_rule_own_name(const struct adapter_config_rule *r, struct gs_buf *out);
// Adds the metric that seriesQuery names. False: it names none, or several.
bool adapter_config_rule_own_series(const struct adapter_config_rule *r, struct gs_buf *out);
// Adds the i-th label that the matchers of seriesQuery require. False: i is past the last one.
bool adapter_config_rule_own_label(const struct adapter_config_rule *r, size_t i,
                                   struct gs_buf *out);
// Finds the resource that a label names. The group is "" if the template has none. The results are
// views of label or of the configuration. False: no resource.
bool adapter_config_label_resource(const struct adapter_config_resources *r, struct gs_slice label,
                                   struct gs_slice *ret_group, struct gs_slice *ret_resource);

// --- faults ---

struct adapter_config_fault {
    const char *place; // "rules.yaml:7" of the wrong part
    const char *text;
    const char *fix; // NULL: the text says it
};
typedef void adapter_config_fault_fn(void *arg, const struct adapter_config_fault *f);
// Calls found() for what is wrong with a rule, as far as it shows without the series.
void adapter_config_rule_faults(const struct adapter_config_rule *r, adapter_config_fault_fn *found,
                                void *arg);
// Adds the query of the rule for an object and a series of any name. series empty: a placeholder.
struct gs_error *adapter_config_rule_probe(const struct adapter_config_rule *r,
                                           struct gs_slice series, struct gs_buf *ret_query);
// Whether a metric is a counter, by its name.
bool adapter_config_is_counter(struct gs_slice metric);
// The counter whose raw value the query of the rule returns for a series: it only grows. type: of
// the series, as its targets state it ("counter"); NULL: unknown, so its name decides.
// NULL: none, or the query is wrong. Caller frees.
char *adapter_config_raw_counter(const struct adapter_config_rule *r, struct gs_slice series,
                                 const char *type);

// --- expansion ---

struct adapter_config_query_data {
    struct gs_slice series, matchers, group_by;
    const struct metrics_label *values; // LabelValuesByName, sorted by name
    size_t n_values;
    const struct gs_slice *group_by_list;
    size_t n_group_by;
};
struct gs_error *adapter_config_query_expand(const struct template_program *t,
                                             const struct adapter_config_query_data *d,
                                             struct gs_buf *out);
// Expands <<.Resource>> and <<.Group>>.
struct gs_error *adapter_config_label_expand(const struct template_program *t,
                                             struct gs_slice group, struct gs_slice resource,
                                             struct gs_buf *out);
