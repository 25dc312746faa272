// SPDX-License-Identifier: Apache-2.0
// scrape_configs, alertmanagers, remote_write.
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <strings.h>

// --- scrape_configs ---

#define AT(member) offsetof(struct engine_config_scrape_config, member)

static void read_params(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_scrape_config *c = out;
    const char *key;
    json_t *values;
    size_t n = 0;
    json_object_foreach ((json_t *)value, key, values) {
        n += json_array_size(values);
    }
    struct metrics_label *params = codec_reader_alloc(r, n * sizeof(*params));
    json_object_foreach ((json_t *)value, key, values) {
        const char *const *texts;
        size_t n_texts;
        codec_read_texts(r, values, &texts, &n_texts);
        for (size_t i = 0; i < n_texts; i++)
            params[c->n_params++] = (struct metrics_label){
                gs_slice_of(codec_reader_format(r, "%s", key)), gs_slice_of(texts[i])};
    }
    c->params = params;
}

static void check_scrape(struct codec_reader *r, const json_t *item,
                         const struct engine_config_scrape_config *c)
{
    if (!c->job_name || !*c->job_name)
        codec_reader_fail(r, item, "job_name is empty");
    else if (c->timeout_ms > c->interval_ms && c->interval_ms)
        codec_reader_fail(r, item,
                          "scrape timeout greater than scrape interval for scrape config with job "
                          "name \"%s\"",
                          c->job_name);
}

void engine_config_read_scrape(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"job_name", CODEC_FIELD_TEXT, AT(job_name), NULL},
        {"scrape_interval", CODEC_FIELD_DURATION, AT(interval_ms), NULL},
        {"scrape_timeout", CODEC_FIELD_DURATION, AT(timeout_ms), NULL},
        {"metrics_path", CODEC_FIELD_TEXT, AT(metrics_path), NULL},
        {"scheme", CODEC_FIELD_TEXT, AT(scheme), NULL},
        {"honor_labels", CODEC_FIELD_BOOL, AT(honor_labels), NULL},
        {"honor_timestamps", CODEC_FIELD_BOOL, AT(honor_timestamps), NULL},
        {"enable_compression", CODEC_FIELD_BOOL, AT(enable_compression), NULL},
        {"params", CODEC_FIELD_CUSTOM, 0, read_params},
        {"relabel_configs", CODEC_FIELD_CUSTOM, AT(relabel), engine_config_read_relabels},
        {"metric_relabel_configs", CODEC_FIELD_CUSTOM, AT(metric_relabel),
         engine_config_read_relabels},
        {"body_size_limit", CODEC_FIELD_BYTES, AT(body_size_limit), NULL},
        {"sample_limit", CODEC_FIELD_COUNT, AT(sample_limit), NULL},
        {"target_limit", CODEC_FIELD_COUNT, AT(target_limit), NULL},
        {"label_limit", CODEC_FIELD_COUNT, AT(label_limit), NULL},
        {"label_name_length_limit", CODEC_FIELD_COUNT, AT(label_name_length_limit), NULL},
        {"label_value_length_limit", CODEC_FIELD_COUNT, AT(label_value_length_limit), NULL},
        {"track_timestamps_staleness", CODEC_FIELD_BOOL, AT(track_staleness), NULL},
        {"scrape_protocols", CODEC_FIELD_CUSTOM, 0, engine_config_read_protocols},
        {"fallback_scrape_protocol", CODEC_FIELD_TEXT, AT(fallback_protocol), NULL},
        {"scrape_native_histograms", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"extra_scrape_metrics", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"scrape_classic_histograms", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"always_scrape_classic_histograms", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"convert_classic_histograms_to_nhcb", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"native_histogram_bucket_limit", CODEC_FIELD_UNUSED, 0, codec_check_count},
        {"native_histogram_min_bucket_factor", CODEC_FIELD_UNUSED, 0, codec_check_number},
        {"keep_dropped_targets", CODEC_FIELD_COUNT, AT(keep_dropped_targets), NULL},
        {"metric_name_validation_scheme", CODEC_FIELD_TEXT, AT(validation_scheme), NULL},
        {"metric_name_escaping_scheme", CODEC_FIELD_TEXT, AT(escaping_scheme), NULL},
        {"scrape_failure_log_file", CODEC_FIELD_IGNORED, 0, codec_check_text},
        ENGINE_CONFIG_DISCOVERY(AT(sd)),
        {0},
    };
    struct engine_config_scrape_config *c = out;
    c->metrics_path = "/metrics";
    c->scheme = "http";
    c->honor_timestamps = c->enable_compression = true;
    endpoint_read_with(r, item, fields, "scrape_configs", c, &c->http);
    check_scrape(r, item, c);
    engine_config_check_statics(r, item, &c->sd, &c->relabel);
    engine_config_count_unsupported(item, &c->sd);
    if (!r->err)
        engine_config_check_meta_labels(r, item, c);
}
#undef AT

// --- alertmanagers ---

#define AT(member) offsetof(struct engine_config_alertmanager_config, member)

static void read_api_version(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    const char *text = codec_read_text(r, value);
    if (!gs_streq(text, "v2"))
        codec_reader_fail(r, value,
                          "expected Alertmanager api version to be one of [v2] but got %s", text);
}

void engine_config_read_alertmanager(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"scheme", CODEC_FIELD_TEXT, AT(scheme), NULL},
        {"path_prefix", CODEC_FIELD_TEXT, AT(path_prefix), NULL},
        {"timeout", CODEC_FIELD_DURATION, AT(timeout_ms), NULL},
        {"api_version", CODEC_FIELD_CUSTOM, 0, read_api_version},
        {"relabel_configs", CODEC_FIELD_CUSTOM, AT(relabel), engine_config_read_relabels},
        {"alert_relabel_configs", CODEC_FIELD_CUSTOM, AT(alert_relabel),
         engine_config_read_relabels},
        ENGINE_CONFIG_DISCOVERY(AT(sd)),
        {0},
    };
    struct engine_config_alertmanager_config *c = out;
    if (json_is_null(item))
        codec_reader_fail(r, item, "empty or null Alertmanager config");
    c->scheme = "http";
    c->path_prefix = "";
    c->timeout_ms = 10000;
    endpoint_read_with(r, item, fields, "alertmanagers", c, &c->http);
    engine_config_check_statics(r, item, &c->sd, &c->relabel);
}
#undef AT

// --- remote_write ---

#define AT(member) offsetof(struct engine_config_remote_write_config, member)

static void read_remote_headers(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_remote_write_config *c = out;
    engine_config_labels(r, value, &c->headers, &c->n_headers);
    endpoint_check_headers(r, value, ENDPOINT_AUTHORIZATION_ELSEWHERE);
}

static void read_message(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_remote_write_config *c = out;
    const char *text = codec_read_text(r, value);
    c->v2 = gs_streq(text, "io.prometheus.write.v2.Request");
    if (!c->v2 && !gs_streq(text, "prometheus.WriteRequest"))
        codec_reader_fail(
            r, value,
            "invalid protobuf_message value: unknown type for remote write protobuf message %s, "
            "supported: prometheus.WriteRequest, io.prometheus.write.v2.Request",
            text);
}

struct queue_counts {
    int64_t capacity, max_samples_per_send, max_shards, min_shards;
};

static void read_queue_count(struct codec_reader *r, const json_t *value, void *out)
{
    codec_check_integer(r, value, NULL);
    gs_error_free(gs_parse_i64(gs_slice_of(codec_read_text(r, value)), INT64_MIN, INT64_MAX, out));
}

// The checks of Prometheus between the settings, with its texts.
static const char *wrong_queue(const struct queue_counts *n,
                               const struct engine_config_remote_write_config *c)
{
    if (n->max_shards <= 0)
        return "max_shards must be positive";
    if (n->min_shards <= 0)
        return "min_shards must be positive";
    if (n->min_shards > n->max_shards)
        return "min_shards must not be greater than max_shards";
    if (n->max_samples_per_send <= 0)
        return "max_samples_per_send must be positive";
    if (n->capacity <= 0)
        return "capacity must be positive";
    if (c->max_backoff_ms < c->min_backoff_ms)
        return "max_backoff must not be less than min_backoff";
    return NULL;
}

#define COUNT(member) CODEC_FIELD_CUSTOM, offsetof(struct queue_counts, member), read_queue_count
static void read_queue(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field counts[] = {
        {"capacity", COUNT(capacity)},
        {"max_samples_per_send", COUNT(max_samples_per_send)},
        {"max_shards", COUNT(max_shards)},
        {"min_shards", COUNT(min_shards)},
        {0},
    };
    static const struct codec_field fields[] = {
        {"batch_send_deadline", CODEC_FIELD_DURATION, AT(batch_deadline_ms), NULL},
        {"min_backoff", CODEC_FIELD_DURATION, AT(min_backoff_ms), NULL},
        {"max_backoff", CODEC_FIELD_DURATION, AT(max_backoff_ms), NULL},
        {"retry_on_http_429", CODEC_FIELD_BOOL, AT(retry_429), NULL},
        {"sample_age_limit", CODEC_FIELD_DURATION, AT(age_limit_ms), NULL},
        {0},
    };
    struct engine_config_remote_write_config *c = out;
    struct queue_counts n = {(int64_t)c->capacity, (int64_t)c->max_samples_per_send, 50, 1};
    codec_read_mapping2(r, value, fields, out, counts, &n, "queue_config");
    const char *wrong = r->err ? NULL : wrong_queue(&n, c);
    if (wrong)
        codec_reader_fail(r, value, "remote write queue %s", wrong);
    c->capacity = (size_t)n.capacity;
    c->max_samples_per_send = (size_t)n.max_samples_per_send;
}
#undef COUNT

void engine_config_read_remote_write(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"url", CODEC_FIELD_URL, AT(url), NULL},
        {"name", CODEC_FIELD_TEXT, AT(name), NULL},
        {"remote_timeout", CODEC_FIELD_DURATION, AT(timeout_ms), NULL},
        {"headers", CODEC_FIELD_CUSTOM, 0, read_remote_headers},
        {"write_relabel_configs", CODEC_FIELD_CUSTOM, AT(write_relabel),
         engine_config_read_relabels},
        {"queue_config", CODEC_FIELD_CUSTOM, 0, read_queue},
        {"metadata_config", CODEC_FIELD_UNUSED, 0, engine_config_check_metadata},
        {"send_exemplars", CODEC_FIELD_BOOL, AT(send_exemplars), NULL},
        {"send_native_histograms", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"protobuf_message", CODEC_FIELD_CUSTOM, 0, read_message},
        {"round_robin_dns", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"failed_request_logging", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {"convert_nhcb_to_classic", CODEC_FIELD_IGNORED, 0, codec_check_bool},
        {0},
    };
    struct engine_config_remote_write_config *c = out;
    c->timeout_ms = 30000;
    c->capacity = 10000;
    c->max_samples_per_send = 2000;
    c->batch_deadline_ms = 5000;
    c->min_backoff_ms = 30;
    c->max_backoff_ms = 5000;
    c->retry_429 = true;
    endpoint_read_with(r, item, fields, "remote_write", c, &c->http);
    if (!c->url || !*c->url)
        codec_reader_fail(r, item, "url for remote_write is empty");
}
#undef AT
