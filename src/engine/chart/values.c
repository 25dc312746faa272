// SPDX-License-Identifier: Apache-2.0
// Helm values of kube-prometheus-stack as a configuration: prometheusSpec becomes sections of
// prometheus.yml, additional monitors and rules become the objects that the chart would create.
// What has no effect here is noted with its line, instead of silently ignored.
#include "engine/chart/chart_private.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/option.h"
#include "engine/config/config.h"
#include "kube/selector.h"

#include <stdarg.h>

#define STACK "kube-prometheus-stack"
#define GROUP "monitoring.coreos.com/v1"

typedef void chart_read_fn(struct chart_reader *r, const char *key, const json_t *value);

static void note(struct chart_reader *r, const json_t *at, const char *fmt, ...) GS_PRINTF(3, 4);

static void keep_note(struct chart_values *v, char *text)
{
    gs_grow(&v->notes, &v->notes_cap, v->n_notes, sizeof(char *));
    v->notes[v->n_notes++] = text;
}

static char *placed(struct chart_reader *r, const json_t *at, const char *fmt, va_list args)
{
    struct gs_buf text = {0};
    struct codec_yaml_mark m = codec_yaml_mark_of(r->base.marks, at);
    if (m.line)
        gs_buf_addf(&text, "%s:%d:%d: ", r->base.name, m.line, m.column);
    else
        gs_buf_addf(&text, "%s: ", r->base.name);
    gs_buf_vaddf(&text, fmt, args);
    return gs_buf_take(&text);
}

static void note(struct chart_reader *r, const json_t *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    keep_note(r->v, placed(r, at, fmt, args));
    va_end(args);
}

void chart_mistake(struct chart_reader *r, const json_t *at, const char *fmt, ...)
{
    struct chart_values *v = r->v;
    va_list args;
    va_start(args, fmt);
    gs_grow(&v->mistakes, &v->mistakes_cap, v->n_mistakes, sizeof(char *));
    v->mistakes[v->n_mistakes++] = placed(r, at, fmt, args);
    va_end(args);
}

// The chart's defaults are empty values.
static bool is_empty(const json_t *value)
{
    if (json_is_string(value))
        return !json_string_length(value) || gs_streq(json_string_value(value), "false");
    return !value || json_is_null(value) || (json_is_object(value) && !json_object_size(value)) ||
           (json_is_array(value) && !json_array_size(value));
}

static json_t *section(struct chart_reader *r, const char *name)
{
    json_t *s = json_object_get(r->config, name);
    if (!s) {
        s = json_object();
        json_object_set_new(r->config, name, s);
    }
    return s;
}

// --- values of prometheusSpec ---

static void read_global(struct chart_reader *r, const char *key, const json_t *value)
{
    static const char *const names[][2] = {{"scrapeInterval", "scrape_interval"},
                                           {"scrapeTimeout", "scrape_timeout"},
                                           {"evaluationInterval", "evaluation_interval"},
                                           {"externalLabels", "external_labels"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(key, names[i][0]))
            json_object_set(section(r, "global"), names[i][1], (json_t *)(uintptr_t)value);
}

// The chart accepts a list, or a text that is a template of a list.
static json_t *embedded_list(struct chart_reader *r, const char *key, const json_t *value)
{
    struct codec_yaml_docs docs = {0};
    struct codec_yaml_marks *marks = NULL;
    GS_AUTO_FREE char *inside = gs_format("%s: %s", codec_reader_line(&r->base, value), key);
    if (!r->of_object && strstr(json_string_value(value), "{{")) {
        codec_reader_fail(&r->base, value, "%s is a template of Helm; write the list itself", key);
        return NULL;
    }
    struct gs_error *err = codec_yaml_parse_texts(
        gs_slice_make(json_string_value(value), json_string_length(value)), inside, &docs, &marks);
    json_t *list = NULL;
    if (!err && docs.len == 1 && json_is_array(docs.items[0].value))
        list = json_incref(docs.items[0].value);
    else if (!err && docs.len)
        codec_reader_fail(&r->base, value, "%s must be a list", key);
    if (err && !r->base.err)
        r->base.err = err;
    codec_yaml_marks_free(marks);
    codec_yaml_docs_finish(&docs);
    return list;
}

// New reference; NULL: an error.
static json_t *list_of(struct chart_reader *r, const char *key, const json_t *value)
{
    if (json_is_string(value))
        return embedded_list(r, key, value);
    if (json_is_array(value))
        return json_incref((json_t *)(uintptr_t)value);
    codec_reader_fail(&r->base, value, "%s must be a list", key);
    return NULL;
}

static void read_scrapes(struct chart_reader *r, const char *key, const json_t *value)
{
    json_t *list = list_of(r, key, value);
    if (list)
        json_object_set_new(r->config, "scrape_configs", list);
}

static void add_alertmanagers(struct chart_reader *r, json_t *list)
{
    json_t *alerting = section(r, "alerting"), *all = json_object_get(alerting, "alertmanagers");
    if (!all)
        json_object_set_new(alerting, "alertmanagers", all = json_array());
    json_array_extend(all, list);
}

static void read_alertmanagers(struct chart_reader *r, const char *key, const json_t *value)
{
    CODEC_AUTO_JSON json_t *list = list_of(r, key, value);
    if (list)
        add_alertmanagers(r, list);
}

static void read_alert_relabel(struct chart_reader *r, const char *key, const json_t *value)
{
    json_t *list = list_of(r, key, value);
    if (list)
        json_object_set_new(section(r, "alerting"), "alert_relabel_configs", list);
}

static const char *text_at(const json_t *obj, const char *key)
{
    const char *text = codec_json_str(obj, key, NULL);
    return text && *text ? text : NULL;
}

// alertingEndpoints: Services of the cluster, as the operator configures them.
static void read_alerting_endpoints(struct chart_reader *r, const char *key, const json_t *value)
{
    CODEC_AUTO_JSON json_t *all = json_array();
    size_t i;
    json_t *item;
    if (!json_is_array(value)) {
        codec_reader_fail(&r->base, value, "%s must be a list", key);
        return;
    }
    json_array_foreach (value, i, item) {
        const char *name = text_at(item, "name"), *ns = text_at(item, "namespace"),
                   *port = text_at(item, "port");
        if (!name || !port) {
            codec_reader_fail(&r->base, item, "an item of %s needs name and port", key);
            return;
        }
        bool number = strspn(port, "0123456789") == strlen(port);
        json_t *am = json_pack("{s:[{s:s, s:{s:[s]}}], s:[{s:s, s:[s], s:s}, {s:s, s:[s], s:s}]}",
                               "kubernetes_sd_configs", "role", "endpoints", "namespaces", "names",
                               ns ? ns : "default", "relabel_configs", "action", "keep",
                               "source_labels", "__meta_kubernetes_service_name", "regex", name,
                               "action", "keep", "source_labels",
                               number ? "__meta_kubernetes_pod_container_port_number"
                                      : "__meta_kubernetes_endpoint_port_name",
                               "regex", port);
        codec_json_set_str(am, "scheme", text_at(item, "scheme"));
        codec_json_set_str(am, "path_prefix", text_at(item, "pathPrefix"));
        json_array_append_new(all, am);
    }
    add_alertmanagers(r, all);
}

static void read_selector(struct chart_reader *r, const char *key, const json_t *value)
{
    static const char *const names[] = {"serviceMonitorSelector", "podMonitorSelector",
                                        "ruleSelector"};
    struct kube_selector selector = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = kube_selector_from_json(value, &selector);
    if (err) {
        codec_reader_fail(&r->base, value, "%s: %s", key, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    kube_selector_format(&selector, &text);
    kube_selector_finish(&selector);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(key, names[i])) {
            free(r->v->selectors[i]);
            r->v->selectors[i] = text.len ? gs_buf_take(&text) : NULL;
        }
}

static void read_nil_uses_values(struct chart_reader *r, const char *key, const json_t *value)
{
    GS_AUTO_FREE char *selector = gs_strndup(key, strlen(key) - strlen("NilUsesHelmValues"));
    if (gs_streq(json_string_value(value), "true") && is_empty(json_object_get(r->spec, selector)))
        note(r, value,
             "%s: true: the chart selects only objects with the label release of its Helm release; "
             "here all objects are selected",
             key);
}

static void note_no_effect(struct chart_reader *r, const char *key, const json_t *value)
{
    note(r, value, "%s has no effect here", key);
}

static const struct {
    const char *key;
    chart_read_fn *read;
} spec_keys[] = {
    {"additionalScrapeConfigs", read_scrapes},
    {"scrapeInterval", read_global},
    {"scrapeTimeout", read_global},
    {"evaluationInterval", read_global},
    {"externalLabels", read_global},
    {"alertingEndpoints", read_alerting_endpoints},
    {"additionalAlertManagerConfigs", read_alertmanagers},
    {"additionalAlertRelabelConfigs", read_alert_relabel},
    {"serviceMonitorSelector", read_selector},
    {"podMonitorSelector", read_selector},
    {"ruleSelector", read_selector},
    {"serviceMonitorSelectorNilUsesHelmValues", read_nil_uses_values},
    {"podMonitorSelectorNilUsesHelmValues", read_nil_uses_values},
    {"ruleSelectorNilUsesHelmValues", read_nil_uses_values},
    {"serviceMonitorNamespaceSelector", note_no_effect},
    {"podMonitorNamespaceSelector", note_no_effect},
    {"ruleNamespaceSelector", note_no_effect},
    {"probeSelector", NULL}, // Probe and ScrapeConfig objects are not read
    {"probeSelectorNilUsesHelmValues", NULL},
    {"probeNamespaceSelector", NULL},
    {"scrapeConfigSelector", NULL},
    {"scrapeConfigSelectorNilUsesHelmValues", NULL},
    {"scrapeConfigNamespaceSelector", NULL},
    {"additionalScrapeConfigsSecret", note_no_effect},
    {"additionalAlertManagerConfigsSecret", note_no_effect},
    {"additionalAlertRelabelConfigsSecret", note_no_effect},
    {"additionalRemoteWrite", note_no_effect},
    {"remoteWrite", note_no_effect},
    {"remoteRead", note_no_effect},
    {"scrapeClasses", note_no_effect},
    {"overrideHonorLabels", note_no_effect},
    {"enforcedNamespaceLabel", note_no_effect},
    {"ignoreNamespaceSelectors", note_no_effect},
};

static void read_spec(struct chart_reader *r, const json_t *spec)
{
    const char *names[GS_ARRAY_LEN(spec_keys)], *key;
    json_t *value;
    if (!codec_reader_is_mapping(&r->base, spec, "prometheusSpec"))
        return;
    r->spec = spec;
    for (size_t i = 0; i < GS_ARRAY_LEN(spec_keys); i++)
        names[i] = spec_keys[i].key;
    json_object_foreach ((json_t *)(uintptr_t)spec, key, value) {
        bool known = false;
        for (size_t i = 0; i < GS_ARRAY_LEN(spec_keys) && !r->base.err; i++)
            if (gs_streq(key, names[i])) {
                known = true;
                r->v->n_settings += spec_keys[i].read && spec_keys[i].read != note_no_effect;
                if (!is_empty(value) && spec_keys[i].read)
                    spec_keys[i].read(r, key, value);
            }
        // Most other values concern the deployment. Only what looks like a slip is reported.
        const char *near = known || chart_is_deployment_key(key)
                               ? NULL
                               : gs_suggest(key, names, GS_ARRAY_LEN(names));
        if (near)
            note(r, value, "unknown value %s; did you mean \"%s\"?", key, near);
    }
}

// --- objects that the chart creates ---

// Takes the references of spec and twin.
static void add_object(struct chart_reader *r, const char *kind, const char *name,
                       const json_t *from, json_t *spec, json_t *twin)
{
    json_t *labels = json_pack("{s:s, s:s}", "app", STACK, "release", STACK);
    json_object_update(labels, json_object_get(from, "additionalLabels"));
    json_t *object = json_pack("{s:s, s:s, s:{s:s, s:o}, s:o}", "apiVersion", GROUP, "kind", kind,
                               "metadata", "name", name, "labels", labels, "spec", spec);
    if (!r->v->objects) {
        r->v->objects = json_array();
        r->v->twins = json_array();
    }
    json_array_append_new(r->v->objects, object);
    json_array_append_new(r->v->twins, json_pack("{s:s, s:o}", "kind", kind, "spec", twin));
}

// Without the keys that the chart writes into the metadata; unknown ones stay.
static json_t *rule_spec(const json_t *from)
{
    json_t *spec = json_copy((json_t *)(uintptr_t)from);
    json_object_del(spec, "name");
    json_object_del(spec, "additionalLabels");
    json_object_del(spec, "additionalAnnotations");
    return spec;
}

static json_t *monitor_spec(const json_t *item)
{
    json_t *spec = json_copy((json_t *)(uintptr_t)item);
    json_object_del(spec, "name");
    json_object_del(spec, "additionalLabels");
    return spec;
}

static void add_rule_object(struct chart_reader *r, const char *name, const json_t *from,
                            const json_t *at)
{
    json_t *groups = json_object_get(from, "groups");
    if (!name || !*name || !json_is_array(groups)) {
        codec_reader_fail(&r->base, at, "additional Prometheus rules need a name and groups");
        return;
    }
    GS_AUTO_FREE char *full = gs_format(STACK "-%s", name);
    add_object(r, "PrometheusRule", full, from, rule_spec(from), rule_spec(at));
}

static void read_rule_objects(struct chart_reader *r, const json_t *marked)
{
    const json_t *list = json_object_get(r->typed, "additionalPrometheusRules"),
                 *map = json_object_get(r->typed, "additionalPrometheusRulesMap"),
                 *list_at = json_object_get(marked, "additionalPrometheusRules"),
                 *map_at = json_object_get(marked, "additionalPrometheusRulesMap");
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach (list, i, item)
        add_rule_object(r, codec_json_str(item, "name", NULL), item, json_array_get(list_at, i));
    json_object_foreach ((json_t *)(uintptr_t)map, key, item)
        add_rule_object(r, key, item, json_object_get(map_at, key));
}

static void read_monitor_objects(struct chart_reader *r, const json_t *marked, const char *list_key,
                                 const char *kind)
{
    const json_t *list = codec_json_get(r->typed, "prometheus", list_key, NULL);
    const json_t *list_at = codec_json_get(marked, "prometheus", list_key, NULL);
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        const char *name = codec_json_str(item, "name", NULL);
        if (!name || !*name) {
            codec_reader_fail(&r->base, json_array_get(list_at, i), "an item of %s needs a name",
                              list_key);
            return;
        }
        add_object(r, kind, name, item, monitor_spec(item),
                   monitor_spec(json_array_get(list_at, i)));
    }
}

// --- a document ---

static const json_t *values_of(const json_t *doc)
{
    const json_t *inner = json_object_get(doc, STACK);
    return json_is_object(inner) ? inner : doc;
}

bool chart_is_values(const json_t *doc)
{
    static const char *const own[] = {"additionalPrometheusRules", "additionalPrometheusRulesMap",
                                      "prometheusOperator", "defaultRules"};
    static const char *const of_prometheus[] = {"prometheusSpec", "additionalServiceMonitors",
                                                "additionalPodMonitors"};
    const json_t *values = values_of(doc);
    if (json_object_get(doc, "kind") && json_object_get(doc, "apiVersion"))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(own); i++)
        if (json_object_get(values, own[i]))
            return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(of_prometheus); i++)
        if (codec_json_get(values, "prometheus", of_prometheus[i], NULL))
            return true;
    return codec_json_get(values, "alertmanager", "alertmanagerSpec", NULL) ||
           codec_json_get(values, "alertmanager", "config", NULL) || chart_has_misplaced(values);
}

// A wrong setting is found here, where its position is known.
static void check_config(struct chart_reader *r)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *cfg = NULL;
    struct gs_error *err =
        engine_config_from_document(r->config, r->base.name, NULL, r->base.marks, &cfg);
    if (err && !r->base.err)
        r->base.err = err;
    else
        gs_error_free(err);
    for (size_t i = 0; cfg && i < cfg->n_ignored; i++)
        keep_note(r->v, gs_strdup(cfg->ignored[i]));
}

static void merge_config(struct chart_values *v, json_t *config)
{
    const char *name;
    json_t *part;
    if (!v->config)
        v->config = json_object();
    json_object_foreach (config, name, part) {
        json_t *old = json_object_get(v->config, name);
        if (json_is_object(old) && json_is_object(part))
            json_object_update(old, part);
        else
            json_object_set(v->config, name, part);
    }
}

static void keep_text(char **place, const char *text)
{
    if (!text || !*text)
        return;
    free(*place);
    *place = gs_strdup(text);
}

// values: with types.
static void read_release(struct chart_release *release, const json_t *values)
{
    const json_t *service = codec_json_get(values, "prometheus", "service", NULL);
    release->found = true;
    keep_text(&release->name, codec_json_str(values, "fullnameOverride", NULL));
    keep_text(&release->ns, codec_json_str(values, "namespaceOverride", NULL));
    keep_text(&release->service_type, codec_json_str(service, "type", NULL));
    release->port = codec_json_int(service, release->port, "port", NULL);
    release->node_port = codec_json_int(service, release->node_port, "nodePort", NULL);
    release->no_grafana =
        !codec_json_bool(values, !release->no_grafana, "grafana", "enabled", NULL);
}

static void read_values(struct chart_reader *r, const json_t *values)
{
    const json_t *spec = codec_json_get(values, "prometheus", "prometheusSpec", NULL);
    const json_t *am = json_object_get(values, "alertmanager");
    chart_check_places(r, values);
    r->config = json_object();
    read_release(&r->v->release, r->typed);
    if (spec)
        read_spec(r, spec);
    if (!is_empty(am))
        r->v->alertmanager = !gs_streq(codec_json_str(am, "enabled", NULL), "false");
    read_rule_objects(r, values);
    read_monitor_objects(r, values, "additionalServiceMonitors", "ServiceMonitor");
    read_monitor_objects(r, values, "additionalPodMonitors", "PodMonitor");
    if (!r->base.err)
        check_config(r);
    if (!r->base.err)
        merge_config(r->v, r->config);
    json_decref(r->config);
}

struct gs_error *chart_values_add(struct gs_slice text, const char *path, struct chart_values *v,
                                  bool *ret_found)
{
    struct codec_yaml_docs docs = {0}, typed = {0};
    struct gs_arena arena = {0};
    struct codec_yaml_marks *marks = NULL, *typed_marks = NULL;
    struct gs_error *err = codec_yaml_parse_texts(text, path, &docs, &marks);
    if (!err)
        err = codec_yaml_parse_marked(text, path, &typed, &typed_marks);
    codec_yaml_marks_free(v->twin_marks);
    codec_yaml_marks_free(v->marks);
    v->twin_marks = marks;
    v->marks = typed_marks;
    struct chart_reader r = {.base = {.name = path, .marks = marks, .arena = &arena}, .v = v};
    for (size_t i = 0; i < docs.len && i < typed.len && !err && !r.base.err; i++) {
        if (!json_is_object(docs.items[i].value) || !chart_is_values(docs.items[i].value))
            continue;
        *ret_found = true;
        r.typed = values_of(typed.items[i].value);
        read_values(&r, values_of(docs.items[i].value));
    }
    free(r.base.ignored);
    gs_arena_finish(&arena);
    codec_yaml_docs_finish(&docs);
    codec_yaml_docs_finish(&typed);
    return err ? err : r.base.err;
}

struct gs_error *chart_spec_add(const json_t *spec, const char *name, struct chart_values *v)
{
    struct gs_arena arena = {0};
    struct chart_reader r = {.base = {.name = name, .arena = &arena},
                             .v = v,
                             .config = json_object(),
                             .of_object = true};
    read_spec(&r, spec);
    if (!r.base.err)
        check_config(&r);
    if (!r.base.err)
        merge_config(v, r.config);
    json_decref(r.config);
    free(r.base.ignored);
    gs_arena_finish(&arena);
    return r.base.err;
}

void chart_values_finish(struct chart_values *v)
{
    json_decref(v->config);
    json_decref(v->objects);
    json_decref(v->twins);
    codec_yaml_marks_free(v->marks);
    codec_yaml_marks_free(v->twin_marks);
    for (size_t i = 0; i < CHART_SELECTORS; i++)
        free(v->selectors[i]);
    for (size_t i = 0; i < v->n_notes; i++)
        free(v->notes[i]);
    free(v->notes);
    for (size_t i = 0; i < v->n_mistakes; i++)
        free(v->mistakes[i]);
    free(v->mistakes);
    free(v->release.name);
    free(v->release.ns);
    free(v->release.service_type);
    *v = (struct chart_values){0};
}
