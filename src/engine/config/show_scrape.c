// SPDX-License-Identifier: Apache-2.0
// A scrape config with the values that apply, as /api/v1/scrape_pools/config shows it.
#include "engine/config/config_private.h"

#include "base/clock.h"
#include "base/mem.h"

static void show_bool(json_t *out, const char *key, bool value)
{
    json_object_set_new(out, key, json_boolean(value));
}

static void show_duration(json_t *out, const char *key, int64_t ms)
{
    char text[GS_RFC3339_SIZE];
    codec_json_set_str(out, key, gs_format_units(ms * GS_NS_PER_MS, text));
}

static void show_limit(json_t *out, const char *key, size_t value)
{
    if (value)
        json_object_set_new(out, key, json_integer((json_int_t)value));
}

static json_t *texts_json(const char *const *texts, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static void show_protocols(json_t *out, const struct engine_config_scrape_config *s,
                           const struct engine_config_scrape_config *global)
{
    static const char *const usual[] = {"OpenMetricsText1.0.0", "OpenMetricsText0.0.1",
                                        "PrometheusText1.0.0", "PrometheusText0.0.4"};
    const struct engine_config_scrape_config *from = s->protocols ? s : global;
    json_object_set_new(out, "scrape_protocols",
                        from->protocols ? texts_json(from->protocols, from->n_protocols)
                                        : texts_json(usual, GS_ARRAY_LEN(usual)));
    if (s->fallback_protocol && *s->fallback_protocol)
        codec_json_set_str(out, "fallback_scrape_protocol", s->fallback_protocol);
}

json_t *engine_config_relabel_json(const struct engine_config_relabel *l)
{
    json_t *out = json_object();
    if (l->n_source_labels)
        json_object_set_new(out, "source_labels", texts_json(l->source_labels, l->n_source_labels));
    codec_json_set_str(out, "separator", l->separator);
    codec_json_set_str(out, "regex", l->pattern);
    if (l->modulus)
        json_object_set_new(out, "modulus", json_integer((json_int_t)l->modulus));
    if (*l->target_label)
        codec_json_set_str(out, "target_label", l->target_label);
    codec_json_set_str(out, "replacement", l->replacement);
    codec_json_set_str(out, "action", engine_config_relabel_actions[l->action]);
    return out;
}

static void show_relabels(json_t *out, const char *key, const struct engine_config_relabels *l)
{
    json_t *list = l->n ? json_array() : NULL;
    for (size_t i = 0; i < l->n; i++)
        json_array_append_new(list, engine_config_relabel_json(&l->items[i]));
    if (list)
        json_object_set_new(out, key, list);
}

// The keys in the order of Prometheus.
static void show_values(json_t *out, const struct engine_config_scrape_config *s,
                        const struct engine_config_scrape_config *global)
{
    codec_json_set_str(out, "job_name", s->job_name);
    if (s->honor_labels)
        show_bool(out, "honor_labels", true);
    show_bool(out, "honor_timestamps", s->honor_timestamps);
    show_bool(out, "track_timestamps_staleness", s->track_staleness);
    show_duration(out, "scrape_interval", s->interval_ms);
    show_duration(out, "scrape_timeout", s->timeout_ms);
    show_protocols(out, s, global);
    show_bool(out, "scrape_native_histograms", s->native_histograms);
    show_bool(out, "always_scrape_classic_histograms", s->classic_histograms);
    show_bool(out, "convert_classic_histograms_to_nhcb", s->convert_histograms);
    codec_json_set_str(out, "metrics_path", s->metrics_path);
    codec_json_set_str(out, "scheme", s->scheme);
    show_bool(out, "enable_compression", s->enable_compression);
    show_limit(out, "body_size_limit", s->body_size_limit);
    show_limit(out, "sample_limit", s->sample_limit);
    show_limit(out, "target_limit", s->target_limit);
    show_limit(out, "label_limit", s->label_limit);
    show_limit(out, "label_name_length_limit", s->label_name_length_limit);
    show_limit(out, "label_value_length_limit", s->label_value_length_limit);
    show_limit(out, "keep_dropped_targets", s->keep_dropped_targets);
    codec_json_set_str(out, "metric_name_validation_scheme", s->legacy_names ? "legacy" : "utf8");
    codec_json_set_str(out, "metric_name_escaping_scheme", s->escaping_scheme);
    show_bool(out, "follow_redirects", s->http.follow_redirects);
    show_relabels(out, "relabel_configs", &s->relabel);
    show_relabels(out, "metric_relabel_configs", &s->metric_relabel);
}

const char *engine_config_show_scrape(struct codec_reader *r, const json_t *at,
                                      const struct engine_config_scrape_config *s,
                                      const struct engine_config_scrape_config *global)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *out = json_object(), *value;
    const char *key;
    show_values(out, s, global);
    json_object_foreach ((json_t *)(uintptr_t)at, key, value)
        if (!json_object_get(out, key))
            json_object_set(out, key, value);
    engine_config_print_redacted(out, &text);
    json_decref(out);
    return codec_reader_format(r, "%s", text.data ? text.data : "");
}
