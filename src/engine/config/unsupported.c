// SPDX-License-Identifier: Apache-2.0
// Sections of Prometheus that have no effect in this engine. They are validated, and a warning
// states that they have no effect.
#include "engine/config/config_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "codec/json.h"

#include <strings.h>

// --- remote_read ---

struct peer {
    const char *url, *name;
    struct endpoint_settings http;
};

static void check_headers(struct codec_reader *r, const json_t *value, void *out)
{
    const char *key;
    json_t *text;
    (void)out;
    json_object_foreach ((json_t *)(uintptr_t)value, key, text)
        codec_read_text(r, text);
    endpoint_check_headers(r, value, ENDPOINT_AUTHORIZATION_ELSEWHERE);
}

static void check_labels(struct codec_reader *r, const json_t *value, void *out)
{
    const struct metrics_label *labels;
    size_t n;
    (void)out;
    engine_config_labels(r, value, &labels, &n);
}

static void read_peer(struct codec_reader *r, const json_t *item, void *out)
{
    static const struct codec_field fields[] = {
        {"url", CODEC_FIELD_URL, offsetof(struct peer, url), NULL},
        {"name", CODEC_FIELD_TEXT, offsetof(struct peer, name), NULL},
        {"remote_timeout", CODEC_FIELD_UNUSED, 0, codec_check_duration},
        {"headers", CODEC_FIELD_UNUSED, 0, check_headers},
        {"read_recent", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"required_matchers", CODEC_FIELD_UNUSED, 0, check_labels},
        {"chunked_read_limit", CODEC_FIELD_UNUSED, 0, codec_check_count},
        {"filter_external_labels", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {0},
    };
    struct peer *p = out;
    if (json_is_null(item))
        codec_reader_fail(r, item, "empty or null remote read config section");
    endpoint_read_with(r, item, fields, "remote_read", p, &p->http);
    if (!p->url || !*p->url)
        codec_reader_fail(r, item, "url for remote_read is empty");
}

void engine_config_check_remote_read(struct codec_reader *r, const json_t *list, void *out)
{
    struct peer *peers;
    size_t n;
    (void)out;
    codec_read_list(r, list, sizeof(*peers), read_peer, &peers, &n);
    for (size_t i = 1; i < n && !r->err; i++)
        for (size_t k = 0; k < i && peers[i].name && *peers[i].name; k++)
            if (gs_streq(peers[i].name, peers[k].name))
                codec_reader_fail(r, json_array_get(list, i),
                                  "found multiple remote read configs with job name \"%s\"",
                                  peers[i].name);
    if (n)
        codec_reader_ignore(r, "remote_read", list, "the configuration");
}

// --- storage, runtime, metadata_config ---

struct retention {
    int64_t time_ms;
    size_t size;
    double percentage;
};

static void read_number(struct codec_reader *r, const json_t *value, void *out)
{
    codec_check_number(r, value, NULL);
    if (!r->err)
        gs_error_free(gs_parse_double(gs_slice_of(codec_read_text(r, value)), out));
}

static void check_retention(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"time", CODEC_FIELD_DURATION, offsetof(struct retention, time_ms), NULL},
        {"size", CODEC_FIELD_BYTES, offsetof(struct retention, size), NULL},
        {"percentage", CODEC_FIELD_CUSTOM, offsetof(struct retention, percentage), read_number},
        {0},
    };
    struct retention t = {0};
    (void)out;
    codec_read_mapping(r, value, fields, "retention", &t);
    if (!(t.percentage >= 0 && t.percentage <= 100))
        codec_reader_fail(r, value,
                          "'storage.tsdb.retention.percentage' must be in the range [0, 100], "
                          "got %g",
                          t.percentage);
    if (t.time_ms || t.size || t.percentage != 0)
        codec_reader_note(r, value,
                          "retention of storage.tsdb has no effect; use the flags "
                          "--storage.tsdb.retention.time and --storage.tsdb.retention.size");
}

static void check_chunk_encoding(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {{"floats", CODEC_FIELD_TEXT, 0, NULL}, {0}};
    const char *floats = "";
    (void)out;
    codec_read_mapping(r, value, fields, "chunk_encoding", &floats);
    if (*floats && !gs_streq(floats, "xor") && !gs_streq(floats, "xor2"))
        codec_reader_fail(r, value,
                          "'storage.tsdb.chunk_encoding.floats' must be 'xor' or 'xor2', or the "
                          "field must be omitted entirely, got \"%s\"",
                          floats);
}

struct tsdb_settings {
    int64_t window_ms;
    double stale_threshold;
};

static void check_tsdb(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"out_of_order_time_window", CODEC_FIELD_DURATION,
         offsetof(struct tsdb_settings, window_ms), NULL},
        {"stale_series_compaction_threshold", CODEC_FIELD_CUSTOM,
         offsetof(struct tsdb_settings, stale_threshold), read_number},
        {"chunk_encoding", CODEC_FIELD_UNUSED, 0, check_chunk_encoding},
        {"retention", CODEC_FIELD_UNUSED, 0, check_retention},
        {0},
    };
    struct tsdb_settings s = {0};
    (void)out;
    codec_read_mapping(r, value, fields, "tsdb", &s);
    if (s.window_ms) // 0 is supported
        codec_reader_ignore(r, "out_of_order_time_window", value, "storage");
    if (s.stale_threshold != 0)
        codec_reader_ignore(r, "stale_series_compaction_threshold", value, "storage");
}

static void read_max_exemplars(struct codec_reader *r, const json_t *value, void *out)
{
    size_t *max = out;
    int64_t n = 0;
    codec_check_integer(r, value, NULL);
    if (!r->err)
        gs_error_free(
            gs_parse_i64(gs_slice_of(codec_read_text(r, value)), INT64_MIN, INT64_MAX, &n));
    *max = n > 0 ? (size_t)n : 0;
}

static void read_exemplars(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"max_exemplars", CODEC_FIELD_CUSTOM, 0, read_max_exemplars}, {0}};
    size_t *max = out;
    *max = 0; // as in Prometheus, if the mapping does not have the key
    codec_read_mapping(r, value, fields, "exemplars", max);
}

void engine_config_read_storage(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {{"tsdb", CODEC_FIELD_UNUSED, 0, check_tsdb},
                                                {"exemplars", CODEC_FIELD_CUSTOM,
                                                 offsetof(struct engine_config, max_exemplars),
                                                 read_exemplars},
                                                {0}};
    codec_read_mapping(r, value, fields, "storage", out);
}

static void read_log_level(struct codec_reader *r, const json_t *value, void *out)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    const char *text = codec_read_text(r, value);
    for (size_t i = 0; i < GS_ARRAY_LEN(levels); i++) {
        if (strcasecmp(text, levels[i]) == 0) {
            *(const char **)out = levels[i];
            return;
        }
    }
    codec_reader_fail(r, value, "unrecognized log level %s", text);
}

void engine_config_read_runtime(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"gogc", CODEC_FIELD_UNUSED, 0, codec_check_integer},
        {"log_level", CODEC_FIELD_CUSTOM, 0, read_log_level},
        {0},
    };
    codec_read_mapping(r, value, fields, "runtime", out);
}

void engine_config_check_metadata(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"send", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"send_interval", CODEC_FIELD_UNUSED, 0, codec_check_duration},
        {"max_samples_per_send", CODEC_FIELD_UNUSED, 0, codec_check_integer},
        {0},
    };
    codec_read_mapping(r, value, fields, "metadata_config", out);
}

// --- tracing ---

struct tracing {
    const char *client, *endpoint, *compression;
    struct endpoint_settings http;
};

#define AT(member) offsetof(struct tracing, member)

static void check_tracing_headers(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    endpoint_check_headers(r, value,
                           "custom authorization header configuration is not yet supported");
}

void engine_config_check_tracing(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"client_type", CODEC_FIELD_TEXT, AT(client), NULL},
        {"endpoint", CODEC_FIELD_TEXT, AT(endpoint), NULL},
        {"sampling_fraction", CODEC_FIELD_UNUSED, 0, codec_check_number},
        {"insecure", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"tls_config", CODEC_FIELD_CUSTOM, AT(http), endpoint_read_tls},
        {"headers", CODEC_FIELD_UNUSED, 0, check_tracing_headers},
        {"compression", CODEC_FIELD_TEXT, AT(compression), NULL},
        {"timeout", CODEC_FIELD_UNUSED, 0, codec_check_duration},
        {0},
    };
    struct tracing t = {.client = "grpc", .compression = ""};
    (void)out;
    codec_read_mapping(r, value, fields, "tracing", &t);
    if (!t.endpoint || !*t.endpoint)
        codec_reader_fail(r, value, "tracing endpoint must be set");
    if (!gs_streq(t.client, "grpc") && !gs_streq(t.client, "http"))
        codec_reader_fail(r, value, "expected client type to be http or grpc, but got \"%s\"",
                          t.client);
    if (*t.compression && !gs_streq(t.compression, "gzip"))
        codec_reader_fail(r, value, "invalid compression type %s provided, valid options: gzip",
                          t.compression);
    codec_reader_ignore(r, "tracing", value, "the configuration");
}
#undef AT
