// SPDX-License-Identifier: Apache-2.0
// scrape_configs, alertmanagers, remote_write.
#include "engine/config/reader.h"

#include "base/mem.h"

#include <strings.h>

// --- scrape_configs ---

#define AT(member) offsetof(struct engine_config_scrape_config, member)

static void read_params(struct engine_config_reader *r, const json_t *value, void *out)
{
    struct engine_config_scrape_config *c = out;
    const char *key;
    json_t *values;
    size_t n = 0;
    json_object_foreach ((json_t *)value, key, values) {
        n += json_array_size(values);
    }
    struct metrics_label *params = engine_config_alloc(r, n * sizeof(*params));
    json_object_foreach ((json_t *)value, key, values) {
        const char *const *texts;
        size_t n_texts;
        engine_config_texts(r, values, &texts, &n_texts);
        for (size_t i = 0; i < n_texts; i++)
            params[c->n_params++] = (struct metrics_label){
                gs_slice_of(engine_config_format(r, "%s", key)), gs_slice_of(texts[i])};
    }
    c->params = params;
}

static void check_scrape(struct engine_config_reader *r, const json_t *item,
                         const struct engine_config_scrape_config *c)
{
    if (!c->job_name || !*c->job_name)
        engine_config_fail(r, item, "job_name is empty");
    else if (c->timeout_ms > c->interval_ms && c->interval_ms)
        engine_config_fail(r, item,
                           "scrape timeout greater than scrape interval for scrape config with job "
                           "name \"%s\"",
                           c->job_name);
}

void engine_config_read_scrape(struct engine_config_reader *r, const json_t *item, void *out)
{
    static const struct engine_config_field fields[] = {
        {"job_name", ENGINE_CONFIG_FIELD_TEXT, AT(job_name), NULL},
        {"scrape_interval", ENGINE_CONFIG_FIELD_MS, AT(interval_ms), NULL},
        {"scrape_timeout", ENGINE_CONFIG_FIELD_MS, AT(timeout_ms), NULL},
        {"metrics_path", ENGINE_CONFIG_FIELD_TEXT, AT(metrics_path), NULL},
        {"scheme", ENGINE_CONFIG_FIELD_TEXT, AT(scheme), NULL},
        {"honor_labels", ENGINE_CONFIG_FIELD_BOOL, AT(honor_labels), NULL},
        {"honor_timestamps", ENGINE_CONFIG_FIELD_BOOL, AT(honor_timestamps), NULL},
        {"enable_compression", ENGINE_CONFIG_FIELD_BOOL, AT(enable_compression), NULL},
        {"params", ENGINE_CONFIG_FIELD_READ, 0, read_params},
        {"relabel_configs", ENGINE_CONFIG_FIELD_READ, AT(relabel), engine_config_read_relabels},
        {"metric_relabel_configs", ENGINE_CONFIG_FIELD_READ, AT(metric_relabel),
         engine_config_read_relabels},
        {"body_size_limit", ENGINE_CONFIG_FIELD_BYTES, AT(body_size_limit), NULL},
        {"sample_limit", ENGINE_CONFIG_FIELD_COUNT, AT(sample_limit), NULL},
        {"target_limit", ENGINE_CONFIG_FIELD_COUNT, AT(target_limit), NULL},
        {"label_limit", ENGINE_CONFIG_FIELD_COUNT, AT(label_limit), NULL},
        {"label_name_length_limit", ENGINE_CONFIG_FIELD_COUNT, AT(label_name_length_limit), NULL},
        {"label_value_length_limit", ENGINE_CONFIG_FIELD_COUNT, AT(label_value_length_limit), NULL},
        {"track_timestamps_staleness", ENGINE_CONFIG_FIELD_BOOL, AT(track_staleness), NULL},
        {"scrape_protocols", ENGINE_CONFIG_FIELD_READ, 0, engine_config_read_protocols},
        {"fallback_scrape_protocol", ENGINE_CONFIG_FIELD_TEXT, AT(fallback_protocol), NULL},
        {"scrape_classic_histograms", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_bool},
        {"always_scrape_classic_histograms", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_bool},
        {"convert_classic_histograms_to_nhcb", ENGINE_CONFIG_FIELD_IGNORED, 0,
         engine_config_is_bool},
        {"native_histogram_bucket_limit", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_count},
        {"native_histogram_min_bucket_factor", ENGINE_CONFIG_FIELD_UNUSED, 0,
         engine_config_is_number},
        {"keep_dropped_targets", ENGINE_CONFIG_FIELD_COUNT, AT(keep_dropped_targets), NULL},
        {"metric_name_validation_scheme", ENGINE_CONFIG_FIELD_TEXT, AT(validation_scheme), NULL},
        {"metric_name_escaping_scheme", ENGINE_CONFIG_FIELD_TEXT, AT(escaping_scheme), NULL},
        {"scrape_failure_log_file", ENGINE_CONFIG_FIELD_IGNORED, 0, engine_config_is_text},
        ENGINE_CONFIG_DISCOVERY(AT(sd)),
        {0},
    };
    struct engine_config_scrape_config *c = out;
    c->metrics_path = "/metrics";
    c->scheme = "http";
    c->honor_timestamps = c->enable_compression = true;
    engine_config_read_with_http(r, item, fields, "scrape_configs", c, &c->http);
    check_scrape(r, item, c);
    engine_config_check_statics(r, item, &c->sd, &c->relabel);
}
#undef AT

// --- alertmanagers ---

#define AT(member) offsetof(struct engine_config_alertmanager_config, member)

static void read_api_version(struct engine_config_reader *r, const json_t *value, void *out)
{
    (void)out;
    const char *text = engine_config_text(r, value);
    if (!gs_streq(text, "v2"))
        engine_config_fail(r, value,
                           "expected Alertmanager api version to be one of [v2] but got %s", text);
}

void engine_config_read_alertmanager(struct engine_config_reader *r, const json_t *item, void *out)
{
    static const struct engine_config_field fields[] = {
        {"scheme", ENGINE_CONFIG_FIELD_TEXT, AT(scheme), NULL},
        {"path_prefix", ENGINE_CONFIG_FIELD_TEXT, AT(path_prefix), NULL},
        {"timeout", ENGINE_CONFIG_FIELD_MS, AT(timeout_ms), NULL},
        {"api_version", ENGINE_CONFIG_FIELD_READ, 0, read_api_version},
        {"relabel_configs", ENGINE_CONFIG_FIELD_READ, AT(relabel), engine_config_read_relabels},
        {"alert_relabel_configs", ENGINE_CONFIG_FIELD_READ, AT(alert_relabel),
         engine_config_read_relabels},
        ENGINE_CONFIG_DISCOVERY(AT(sd)),
        {0},
    };
    struct engine_config_alertmanager_config *c = out;
    if (json_is_null(item))
        engine_config_fail(r, item, "empty or null Alertmanager config");
    c->scheme = "http";
    c->path_prefix = "";
    c->timeout_ms = 10000;
    engine_config_read_with_http(r, item, fields, "alertmanagers", c, &c->http);
    engine_config_check_statics(r, item, &c->sd, &c->relabel);
}
#undef AT

// --- remote_write ---

#define AT(member) offsetof(struct engine_config_remote_write_config, member)

static void read_headers(struct engine_config_reader *r, const json_t *value, void *out)
{
    struct engine_config_remote_write_config *c = out;
    engine_config_labels(r, value, &c->headers, &c->n_headers);
    engine_config_check_headers(r, value, ENGINE_CONFIG_AUTHORIZATION_ELSEWHERE);
}

// Version 2 of the protocol is not spoken: what is sent is the first, which its receivers take too
// when they take both.
static void read_message(struct engine_config_reader *r, const json_t *value, void *out)
{
    const char *text = engine_config_text(r, value);
    (void)out;
    if (gs_streq(text, "io.prometheus.write.v2.Request"))
        engine_config_ignore(r, text, value, "protobuf_message");
    else if (!gs_streq(text, "prometheus.WriteRequest"))
        engine_config_fail(
            r, value,
            "invalid protobuf_message value: unknown remote write protobuf message %s, "
            "supported: prometheus.WriteRequest, io.prometheus.write.v2.Request",
            text);
}

static void read_queue(struct engine_config_reader *r, const json_t *value, void *out)
{
    static const struct engine_config_field fields[] = {
        {"capacity", ENGINE_CONFIG_FIELD_COUNT, AT(capacity), NULL},
        {"max_samples_per_send", ENGINE_CONFIG_FIELD_COUNT, AT(max_samples_per_send), NULL},
        {"batch_send_deadline", ENGINE_CONFIG_FIELD_MS, AT(batch_deadline_ms), NULL},
        {"min_backoff", ENGINE_CONFIG_FIELD_MS, AT(min_backoff_ms), NULL},
        {"max_backoff", ENGINE_CONFIG_FIELD_MS, AT(max_backoff_ms), NULL},
        {"max_shards", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_whole},
        {"min_shards", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_whole},
        {"retry_on_http_429", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_is_bool},
        {"sample_age_limit", ENGINE_CONFIG_FIELD_MS, AT(age_limit_ms), NULL},
        {0},
    };
    engine_config_read(r, value, fields, "queue_config", out);
}

void engine_config_read_remote_write(struct engine_config_reader *r, const json_t *item, void *out)
{
    static const struct engine_config_field fields[] = {
        {"url", ENGINE_CONFIG_FIELD_URL, AT(url), NULL},
        {"name", ENGINE_CONFIG_FIELD_TEXT, AT(name), NULL},
        {"remote_timeout", ENGINE_CONFIG_FIELD_MS, AT(timeout_ms), NULL},
        {"headers", ENGINE_CONFIG_FIELD_READ, 0, read_headers},
        {"write_relabel_configs", ENGINE_CONFIG_FIELD_READ, AT(write_relabel),
         engine_config_read_relabels},
        {"queue_config", ENGINE_CONFIG_FIELD_READ, 0, read_queue},
        {"metadata_config", ENGINE_CONFIG_FIELD_UNUSED, 0, engine_config_check_metadata},
        {"send_exemplars", ENGINE_CONFIG_FIELD_IGNORED, 0, engine_config_is_bool},
        {"send_native_histograms", ENGINE_CONFIG_FIELD_IGNORED, 0, engine_config_is_bool},
        {"protobuf_message", ENGINE_CONFIG_FIELD_READ, 0, read_message},
        {"round_robin_dns", ENGINE_CONFIG_FIELD_IGNORED, 0, engine_config_is_bool},
        {0},
    };
    struct engine_config_remote_write_config *c = out;
    c->timeout_ms = 30000;
    c->capacity = 10000;
    c->max_samples_per_send = 2000;
    c->batch_deadline_ms = 5000;
    c->min_backoff_ms = 30;
    c->max_backoff_ms = 5000;
    engine_config_read_with_http(r, item, fields, "remote_write", c, &c->http);
    if (!c->url || !*c->url)
        engine_config_fail(r, item, "url for remote_write is empty");
}
#undef AT
