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
    engine_config_check_headers(r, value, ENGINE_CONFIG_AUTHORIZATION_ELSEWHERE);
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
    engine_config_read_with_http(r, item, fields, "remote_read", p, &p->http);
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
    engine_config_check_headers(r, value,
                                "custom authorization header configuration is not yet supported");
}

void engine_config_check_tracing(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"client_type", CODEC_FIELD_TEXT, AT(client), NULL},
        {"endpoint", CODEC_FIELD_TEXT, AT(endpoint), NULL},
        {"sampling_fraction", CODEC_FIELD_UNUSED, 0, codec_check_number},
        {"insecure", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"tls_config", CODEC_FIELD_CUSTOM, AT(http), engine_config_read_tls},
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

// --- otlp ---

struct otlp {
    bool all;
    const char *const *promoted, *const *ignored;
    size_t n_promoted, n_ignored;
    const char *strategy;
};

static void read_promoted(struct codec_reader *r, const json_t *value, void *out)
{
    struct otlp *o = out;
    codec_read_texts(r, value, &o->promoted, &o->n_promoted);
}

static void read_ignored(struct codec_reader *r, const json_t *value, void *out)
{
    struct otlp *o = out;
    codec_read_texts(r, value, &o->ignored, &o->n_ignored);
}

static void check_attributes(struct codec_reader *r, const json_t *value, const char *key,
                             const char *adjective)
{
    const char *const *names;
    size_t n;
    codec_read_texts(r, json_object_get(value, key), &names, &n);
    for (size_t i = 0; i < n; i++) {
        struct gs_slice name = gs_slice_trim(gs_slice_of(names[i]));
        if (!name.len)
            codec_reader_fail(r, value, "invalid '%s': empty %s OTel resource attribute", key,
                              adjective);
        for (size_t k = 0; k < i; k++)
            if (gs_slice_eq(name, gs_slice_trim(gs_slice_of(names[k]))))
                codec_reader_fail(
                    r, value,
                    "invalid '%s': duplicated %s OTel resource attribute \"" GS_SLICE_FMT "\"", key,
                    adjective, GS_SLICE_ARG(name));
    }
}

static void check_otlp(struct codec_reader *r, const json_t *value, const struct otlp *o)
{
    if (o->all && o->n_promoted)
        codec_reader_fail(
            r, value,
            "'promote_all_resource_attributes' and 'promote_resource_attributes' cannot be "
            "configured simultaneously");
    if (!o->all && o->n_ignored)
        codec_reader_fail(r, value,
                          "'ignore_resource_attributes' cannot be configured unless "
                          "'promote_all_resource_attributes' is true");
    check_attributes(r, value, "promote_resource_attributes", "promoted");
    check_attributes(r, value, "ignore_resource_attributes", "ignored");
    if (*o->strategy && !gs_streq(o->strategy, "UnderscoreEscapingWithSuffixes") &&
        !gs_streq(o->strategy, "NoUTF8EscapingWithSuffixes") &&
        !gs_streq(o->strategy, "NoTranslation"))
        codec_reader_fail(r, value, "unsupported OTLP translation strategy \"%s\"", o->strategy);
}

// Whether each key has the default of Prometheus.
static bool says_defaults(struct codec_reader *r, const json_t *value)
{
    const char *key;
    json_t *item;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        if (json_is_array(item) || json_is_null(item)) {
            if (json_array_size(item))
                return false;
            continue;
        }
        bool on = gs_starts(key, "label_name_");
        const char *usual = gs_streq(key, "translation_strategy") ? "UnderscoreEscapingWithSuffixes"
                            : on                                  ? "true"
                                                                  : "false";
        if (!gs_streq(codec_read_text(r, item), usual))
            return false;
    }
    return true;
}

#define AT(member) offsetof(struct otlp, member)

void engine_config_check_otlp(struct codec_reader *r, const json_t *value, void *out)
{
    static const struct codec_field fields[] = {
        {"promote_all_resource_attributes", CODEC_FIELD_BOOL, AT(all), NULL},
        {"promote_resource_attributes", CODEC_FIELD_CUSTOM, 0, read_promoted},
        {"ignore_resource_attributes", CODEC_FIELD_CUSTOM, 0, read_ignored},
        {"translation_strategy", CODEC_FIELD_TEXT, AT(strategy), NULL},
        {"keep_identifying_resource_attributes", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"convert_histograms_to_nhcb", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"promote_scope_metadata", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"label_name_underscore_sanitization", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {"label_name_preserve_multiple_underscores", CODEC_FIELD_UNUSED, 0, codec_check_bool},
        {0},
    };
    const struct engine_config *c = out;
    struct otlp o = {.strategy = ""};
    codec_read_mapping(r, value, fields, "otlp", &o);
    check_otlp(r, value, &o);
    if (gs_starts(o.strategy, "No") && gs_streq(c->defaults.validation_scheme, "legacy"))
        codec_reader_fail(r, value,
                          "OTLP translation strategy \"%s\" is not allowed when UTF8 is disabled",
                          o.strategy);
    if (!says_defaults(r, value))
        codec_reader_ignore(r, "otlp", value, "the configuration");
}
#undef AT
