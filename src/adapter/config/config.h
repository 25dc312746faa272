// SPDX-License-Identifier: Apache-2.0
// The adapter's configuration in the forms that its users have: the file itself (rules,
// externalRules, resourceRules), the values of the Helm chart, a ConfigMap that holds either.
// https://github.com/kubernetes-sigs/prometheus-adapter/blob/master/docs/config.md
// Unknown and duplicate keys are errors, with file:line:column.
#pragma once

#include "base/arena.h"
#include "base/regex.h"
#include "engine/config/config.h"
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

// How labels and resources belong to each other.
struct adapter_config_resources {
    const char *template_text; // NULL: none
    struct template_program *label_template;
    struct gs_regex *label_pattern; // of the template, with groups "group" and "resource"
    struct adapter_config_override *overrides;
    size_t n_overrides;
    bool namespaced; // external rules only; default true
};

struct adapter_config_rule {
    const char *place; // "rules.yaml:3:5"
    bool external;
    const char *series_query;
    struct adapter_config_filter *filters;
    size_t n_filters;
    struct adapter_config_resources resources;
    struct gs_regex *matches;
    const char *matches_text; // "" : none
    const char *as;           // expansion; the default is filled in
    const char *query_text;
    struct template_program *query;
    int64_t window_ms;       // the longest range of the query; 0: it has none
    const char *source_name; // NULL: by the patterns of the sources
    size_t source;           // 0: the default one; else one more than its place in the list
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

// A source beside the default one.
struct adapter_config_source {
    const char *place, *name;
    const char *url;
    bool engine; // the one in this process, instead of a URL
    bool post;
    const char *const *headers; // "Key=Value"
    size_t n_headers;
    int64_t timeout_ms; // 0: the default
    struct endpoint_settings http;
    struct gs_regex **patterns; // rules whose seriesQuery one of them matches ask it
    size_t n_patterns;
    bool resource; // the resource rules ask it
};

struct adapter_config {
    struct gs_arena arena;
    struct adapter_config_rule *rules; // custom, then external
    size_t n_rules, n_custom;
    bool custom_listed, external_listed; // the file has such a list, which may be empty
    struct adapter_config_resource_rules resource;
    struct adapter_config_source *sources;
    size_t n_sources;
    const char *prometheus_url;  // of Helm values; NULL: none
    const char *relist_interval; // of Helm values; NULL: none
    bool helm;
    struct gs_regex **regexes; // private, with the next one: what _free frees
    size_t n_regexes, regexes_cap;
    struct template_program **templates;
    size_t n_templates, templates_cap;
};

struct gs_error *adapter_config_parse(struct gs_slice text, const char *name,
                                      struct adapter_config **ret);
struct gs_error *adapter_config_load(const char *path, struct adapter_config **ret);
// With a file of sources beside it. Either may be NULL.
struct gs_error *adapter_config_load_with(const char *path, const char *sources_path,
                                          struct adapter_config **ret);
void adapter_config_free(struct adapter_config *c);
GS_DEFINE_CLEANUP(struct adapter_config *, adapter_config_free)

// The chart's default rules, as the YAML of a configuration.
const char *adapter_config_defaults(void);

// --- what rules say ---

// The API name of a series. False: filtered out, with the first filter that said no in *ret_filter
// (NULL: name.matches did).
bool adapter_config_rule_name(const struct adapter_config_rule *r, struct gs_slice series,
                              struct gs_buf *out, const struct adapter_config_filter **ret_filter);
// The name that a rule gives, when it follows from the rule alone: name.as without groups, or a
// seriesQuery of one metric. False: it depends on the series, or the filters drop them.
bool adapter_config_rule_own_name(const struct adapter_config_rule *r, struct gs_buf *out);
// Labels that every series of the seriesQuery has, by its matchers: the i-th one. False:
// there are no more.
bool adapter_config_rule_own_label(const struct adapter_config_rule *r, size_t i,
                                   struct gs_buf *out);
// The resource that a label names: group "" when the template has none. Views into label or the
// configuration. False: none.
bool adapter_config_label_resource(const struct adapter_config_resources *r, struct gs_slice label,
                                   struct gs_slice *ret_group, struct gs_slice *ret_resource);

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
// <<.Resource>> and <<.Group>> filled in.
struct gs_error *adapter_config_label_expand(const struct template_program *t,
                                             struct gs_slice group, struct gs_slice resource,
                                             struct gs_buf *out);
