// SPDX-License-Identifier: Apache-2.0
// Detects the form of a configuration by its keys:
//  - prometheus-adapter's file: rules (a list), externalRules, resourceRules;
//  - Helm values: prometheus.url/port/path, rules (a mapping) with default, custom, external,
//    resource, existing. Other values do not concern the rules. The values may be below other
//    keys, as in an umbrella chart. ACK's chart has the rules in prometheus.adapter.rules, and a
//    complete URL in prometheus.url;
//  - manifests: the entries of ConfigMaps. The chart mounts the entry config.yaml.
#include "adapter/config/config_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"

static const char *const map_keys[] = {"config.yaml", "config.yml", "values.yaml"};

static bool is_config_map(const json_t *doc)
{
    return gs_streq(codec_json_str(doc, "kind", NULL), "ConfigMap");
}

static bool is_manifest(const json_t *doc)
{
    return json_object_get(doc, "kind") && json_object_get(doc, "apiVersion");
}

#define MAX_NESTING 4

static const json_t *ack_rules(const json_t *doc)
{
    return codec_json_get(doc, "prometheus", "adapter", "rules", NULL);
}

static bool is_rules_mapping(const json_t *rules)
{
    static const char *const keys[] = {"default", "custom", "external", "resource", "existing"};
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (json_object_get(rules, keys[i]))
            return true;
    return false;
}

// "prometheus" alone is that of another chart if it has prometheusSpec.
static bool is_helm(const json_t *doc)
{
    const json_t *prometheus = json_object_get(doc, "prometheus");
    return (prometheus && !json_object_get(prometheus, "prometheusSpec")) ||
           json_is_object(json_object_get(doc, "rules"));
}

static bool has_own_rules(const json_t *doc)
{
    return json_is_object(json_object_get(doc, "rules")) || is_rules_mapping(ack_rules(doc));
}

// Values below other keys; NULL: none.
static const json_t *nested_values(const json_t *doc, int depth)
{
    const char *key;
    json_t *inner;
    const json_t *found = NULL;
    json_object_foreach ((json_t *)(uintptr_t)doc, key, inner) {
        if (found || !json_is_object(inner))
            continue;
        if (is_rules_mapping(json_object_get(inner, "rules")) ||
            is_rules_mapping(ack_rules(inner)) ||
            (gs_streq(key, "prometheus-adapter") && is_helm(inner)))
            found = inner;
        else if (depth < MAX_NESTING && !gs_streq(key, "prometheus"))
            found = nested_values(inner, depth + 1);
    }
    return found;
}

// --- Helm values ---

struct helm_url {
    const char *url, *port, *path;
};

static void read_helm_url(struct codec_reader *r, const json_t *value, struct adapter_config *c)
{
    struct helm_url u = {0};
    const json_t *url = json_object_get(value, "url"), *port = json_object_get(value, "port"),
                 *path = json_object_get(value, "path");
    u.url = url ? codec_read_text(r, url) : "http://prometheus.default.svc";
    u.port = port ? codec_read_text(r, port) : json_object_get(value, "adapter") ? "" : "9090";
    u.path = path ? codec_read_text(r, path) : "";
    bool no_port = !*u.port || gs_streq(u.port, "0");
    c->prometheus_url = codec_reader_format(r, "%s%s%s%s", u.url, no_port ? "" : ":",
                                            no_port ? "" : u.port, u.path);
}

static struct gs_error *add_defaults(struct adapter_config *c)
{
    return adapter_config_read_form(gs_slice_of(adapter_config_defaults()), "(default rules)", 0,
                                    c);
}

// As the flag --metrics-relist-interval, a duration of Go.
static const char *read_interval(struct codec_reader *r, const json_t *v)
{
    const char *text = codec_read_text(r, v);
    int64_t ns = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_duration(gs_slice_of(text), &ns);
    if (err || ns < GS_NS_PER_MS)
        codec_reader_fail(r, v, "metricsRelistInterval: \"%s\": want a duration of at least 1ms",
                          text);
    return text;
}

static void read_helm_rules(struct codec_reader *r, const json_t *rules, struct adapter_config *c)
{
    const char *key;
    json_t *value;
    const json_t *existing = json_object_get(rules, "existing");
    json_object_foreach ((json_t *)rules, key, value) {
        static const char *const known[] = {"default", "custom", "external", "resource",
                                            "existing"};
        bool found = false;
        for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
            found = found || gs_streq(key, known[i]);
        const char *near = gs_suggest(key, known, GS_ARRAY_LEN(known));
        if (!found)
            codec_reader_fail(r, value, "unknown field \"%s\" in the chart's rules%s%s%s", key,
                              near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    }
    const char *name = existing ? codec_read_text(r, existing) : "";
    if (*name) {
        codec_reader_fail(
            r, existing,
            "the rules are in the ConfigMap %s: pass that one (kubectl get configmap %s -o "
            "yaml)",
            name, name);
        return;
    }
    const json_t *wanted = json_object_get(rules, "default");
    const char *text = wanted ? codec_read_text(r, wanted) : "true";
    if (!gs_streq(text, "false") && !r->err)
        r->err = add_defaults(c);
    adapter_config_read_rules(r, json_object_get(rules, "custom"), false);
    adapter_config_read_rules(r, json_object_get(rules, "external"), true);
    // The chart's default is {}: no resource rules.
    const json_t *resource = json_object_get(rules, "resource");
    if (json_object_size(resource))
        adapter_config_read_resource_rules(r, resource);
}

static void read_helm(struct codec_reader *r, const json_t *doc, struct adapter_config *c)
{
    const json_t *prometheus = json_object_get(doc, "prometheus"), *ack = ack_rules(doc);
    const json_t *interval = json_object_get(ack ? prometheus : doc, "metricsRelistInterval");
    read_helm_url(r, prometheus, c);
    c->relist_interval = interval ? read_interval(r, interval) : "1m";
    read_helm_rules(r, ack ? ack : json_object_get(doc, "rules"), c);
    adapter_config_read_sources(r, json_object_get(doc, "sources"));
}

// --- prometheus-adapter's file ---

static void read_own_rules(struct codec_reader *r, const json_t *value, void *out)
{
    adapter_config_reader_of(r)->out->custom_listed = json_is_array(value);
    adapter_config_read_rules(r, value, false);
}

static void read_external_rules(struct codec_reader *r, const json_t *value, void *out)
{
    adapter_config_reader_of(r)->out->external_listed = json_is_array(value);
    adapter_config_read_rules(r, value, true);
}

static void read_resources_of(struct codec_reader *r, const json_t *value, void *out)
{
    adapter_config_read_resource_rules(r, value);
}

static void read_sources_of(struct codec_reader *r, const json_t *value, void *out)
{
    adapter_config_read_sources(r, value);
}

// Lists of Helm values at the top of the file.
static void check_lists_of_values(struct codec_reader *r, const json_t *doc)
{
    static const char *const lists[] = {"custom", "external", "resource", "default"};
    for (size_t i = 0; i < GS_ARRAY_LEN(lists); i++) {
        const json_t *value = json_object_get(doc, lists[i]);
        if (value)
            codec_reader_fail(r, value, "%s has no effect: the chart reads it as rules.%s",
                              lists[i], lists[i]);
    }
}

static void read_own(struct codec_reader *r, const json_t *doc, struct adapter_config *c)
{
    static const struct codec_field fields[] = {
        {"rules", CODEC_FIELD_CUSTOM, 0, read_own_rules},
        {"externalRules", CODEC_FIELD_CUSTOM, 0, read_external_rules},
        {"resourceRules", CODEC_FIELD_CUSTOM, 0, read_resources_of},
        {"sources", CODEC_FIELD_CUSTOM, 0, read_sources_of},
        {0},
    };
    check_lists_of_values(r, doc);
    codec_read_mapping(r, doc, fields, "the configuration", c);
}

// --- ConfigMaps ---

static void read_entry(struct codec_reader *r, const json_t *text, struct adapter_config *c)
{
    struct codec_yaml_mark m = codec_yaml_mark_of(r->marks, text);
    if (!r->err)
        r->err = adapter_config_read_form(
            gs_slice_make(json_string_value(text), json_string_length(text)), r->name,
            m.line ? r->first_line + m.line - 1 : 0, c);
}

// Reads entries whose names are those of configurations, or a single entry of any name.
static void read_config_map(struct codec_reader *r, const json_t *doc, struct adapter_config *c)
{
    const json_t *data = json_object_get(doc, "data");
    const json_t *found = NULL, *sources = json_object_get(data, "sources.yaml");
    for (size_t i = 0; i < GS_ARRAY_LEN(map_keys) && !found; i++)
        found = json_object_get(data, map_keys[i]);
    if (!found && !sources && json_object_size(data) == 1)
        found = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)data));
    if (!json_is_string(found) && !json_is_string(sources)) {
        codec_reader_fail(r, doc, "the ConfigMap %s has no config.yaml",
                          codec_json_str(doc, "metadata", "name", NULL));
        return;
    }
    if (json_is_string(found))
        read_entry(r, found, c);
    if (json_is_string(sources))
        read_entry(r, sources, c);
}

// --- documents ---

static void read_doc(struct adapter_config_reader *r, const json_t *doc)
{
    struct codec_reader *base = &r->base;
    const json_t *nested =
        json_is_object(doc) && !has_own_rules(doc) ? nested_values(doc, 0) : NULL;
    if (json_is_object(doc) && is_manifest(doc)) {
        if (is_config_map(doc))
            read_config_map(base, doc, r->out);
    } else if (nested) {
        read_helm(base, nested, r->out);
    } else if (json_is_object(doc) && is_helm(doc)) {
        read_helm(base, doc, r->out);
    } else {
        read_own(base, doc, r->out);
    }
}

bool adapter_config_has_rules(const json_t *doc)
{
    if (!json_is_object(doc) || is_manifest(doc))
        return false;
    return json_is_array(json_object_get(doc, "rules")) || json_object_get(doc, "externalRules") ||
           json_object_get(doc, "resourceRules") || has_own_rules(doc) || nested_values(doc, 0) ||
           codec_json_get(doc, "prometheus", "url", NULL);
}

struct gs_error *adapter_config_read_form(struct gs_slice text, const char *name, int first_line,
                                          struct adapter_config *c)
{
    struct codec_yaml_docs docs = {0};
    GS_CLEANUP(codec_yaml_marks_freep) struct codec_yaml_marks *marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, name, &docs, &marks);
    if (err)
        return first_line
                   ? gs_error_wrap(err, "inside the ConfigMap that begins at line %d", first_line)
                   : err;
    const char *kept = gs_arena_strdup(&c->arena, name);
    struct adapter_config_reader r = {
        .base = {.name = kept, .marks = marks, .first_line = first_line, .arena = &c->arena},
        .out = c,
    };
    for (size_t i = 0; i < docs.len && !r.base.err; i++)
        read_doc(&r, docs.items[i].value);
    codec_yaml_docs_finish(&docs);
    free(r.base.ignored);
    return r.base.err;
}
