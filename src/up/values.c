// SPDX-License-Identifier: Apache-2.0
#include "up/up_private.h"

#include "adapter/config/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"

#define MAX_FILE ((size_t)16 * 1024 * 1024)

// --- dcgm-exporter's chart ---

static const json_t *exporter_values(const json_t *doc)
{
    const json_t *inner = json_object_get(doc, "dcgm-exporter");
    const json_t *values = json_is_object(inner) ? inner : doc;
    return json_is_string(json_object_get(values, "customMetrics")) ? values : NULL;
}

static bool read_exporter(const json_t *doc, struct up_values *v)
{
    const char *csv = codec_json_str(exporter_values(doc), "customMetrics", NULL);
    if (!csv || !*csv)
        return false;
    free(v->counters);
    v->counters = gs_strdup(csv);
    return true;
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
    for (size_t i = 0; i < ret->chart.n_notes; i++)
        gs_warn("up", "%s", ret->chart.notes[i]);
    return NULL;
}

void up_values_finish(struct up_values *v)
{
    chart_values_finish(&v->chart);
    free(v->counters);
    *v = (struct up_values){0};
}
