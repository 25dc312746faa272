// SPDX-License-Identifier: Apache-2.0
// Helm values of --values: each file is read as values of the charts that it has keys of, and
// those of the deployment are skipped.
#include "up/up_private.h"

#include "adapter/config/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "exporter/counters.h"

#define MAX_FILE ((size_t)16 * 1024 * 1024)

// --- dcgm-exporter's chart ---

// The value of -f or --collectors in the arguments of the container; NULL: none.
static const char *collectors_of(const json_t *arguments)
{
    size_t i;
    json_t *item;
    json_array_foreach (arguments, i, item) {
        const char *text = json_string_value(item);
        if (gs_streq(text, "-f") || gs_streq(text, "--collectors"))
            return json_string_value(json_array_get(arguments, i + 1));
        if (text && gs_starts(text, "--collectors="))
            return text + strlen("--collectors=");
    }
    return NULL;
}

// customMetrics takes precedence, as in the chart.
static bool read_exporter(const json_t *doc, struct up_values *v)
{
    const json_t *inner = json_object_get(doc, "dcgm-exporter");
    const json_t *values = json_is_object(inner) ? inner : doc;
    const char *csv = codec_json_str(values, "customMetrics", NULL);
    const json_t *arguments = json_object_get(values, "arguments");
    const char *file = collectors_of(arguments);
    if (csv && *csv) {
        free(v->counters);
        v->counters = gs_strdup(csv);
    }
    if (file) {
        free(v->collectors);
        v->collectors = gs_strdup(file);
    }
    return csv || json_is_array(arguments);
}

static struct gs_error *check_counters(const char *text)
{
    struct exporter_counters counters = {0};
    struct gs_error *err = exporter_counters_parse(gs_slice_of(text), &counters);
    if (!err)
        exporter_counters_finish(&counters);
    return err;
}

// A file, or one of dcgm-exporter's own files.
static struct gs_error *check_collectors(const char *path)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct exporter_counters counters = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (err && gs_error_code(err) == GS_ENOTFOUND && exporter_counters_builtin(path, &counters)) {
        gs_error_free(err);
        exporter_counters_finish(&counters);
        return NULL;
    }
    if (err)
        return gs_error_wrap(err, "--collectors");
    err = check_counters(text.data ? text.data : "");
    return err ? gs_error_wrap(err, "--collectors %s", path) : NULL;
}

// --- files ---

static struct gs_error *load_values(const char *path, struct up_values *v)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct codec_yaml_docs docs = {0};
    bool found = false;
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    if (!err)
        err = codec_yaml_parse(gs_buf_slice(&text), path, &docs);
    for (size_t i = 0; i < docs.len && !err; i++) {
        const json_t *doc = docs.items[i].value;
        found = read_exporter(doc, v) || found;
        if (!adapter_config_has_rules(doc))
            continue;
        found = true;
        v->adapter = path;
        if (codec_json_get(doc, "prometheus", "url", NULL))
            gs_info("up",
                    "%s: prometheus.url is not used: the rules query the metrics engine of "
                    "gpuscale up",
                    path);
    }
    codec_yaml_docs_finish(&docs);
    if (!err)
        err = chart_values_add(gs_buf_slice(&text), path, &v->chart, &found);
    if (err || found)
        return err;
    return gs_error_new(GS_EINVAL,
                        "%s: no values of kube-prometheus-stack (prometheus.prometheusSpec …), of "
                        "an adapter (rules) or of dcgm-exporter (customMetrics) found",
                        path);
}

struct gs_error *up_values_load(const struct up_options *o, struct up_values *ret)
{
    for (size_t i = 0; i < o->values.len; i++) {
        struct gs_error *err = load_values(o->values.items[i], ret);
        if (err)
            return gs_error_wrap(err, "--values");
    }
    if (o->adapter_config && ret->adapter)
        return gs_error_new(GS_EINVAL,
                            "--adapter-config %s and --values %s both give the rules of the "
                            "adapter: choose one",
                            o->adapter_config, ret->adapter);
    const char *collectors = o->collectors ? o->collectors : ret->counters ? NULL : ret->collectors;
    struct gs_error *err = collectors ? check_collectors(collectors) : NULL;
    if (!err && ret->counters && !o->collectors) {
        err = check_counters(ret->counters);
        if (err)
            err = gs_error_wrap(err, "--values: customMetrics");
    }
    if (err)
        return err;
    if (ret->chart.alertmanager && !o->alertmanagers.len &&
        !json_object_get(ret->chart.config, "alerting"))
        gs_info("up", "the values deploy an Alertmanager, which gpuscale up does not start: "
                      "--alertmanager names a running one");
    for (size_t i = 0; i < ret->chart.n_notes; i++)
        gs_warn("up", "%s", ret->chart.notes[i]);
    for (size_t i = 0; i < ret->chart.n_mistakes; i++)
        gs_warn("up", "%s", ret->chart.mistakes[i]);
    return NULL;
}

void up_values_finish(struct up_values *v)
{
    chart_values_finish(&v->chart);
    free(v->counters);
    free(v->collectors);
    *v = (struct up_values){0};
}
