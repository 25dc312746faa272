// SPDX-License-Identifier: Apache-2.0
// Exposition formats and names of metrics: scrape_protocols, fallback_scrape_protocol,
// metric_name_validation_scheme, metric_name_escaping_scheme.
#include "engine/config/config_private.h"

#include "base/mem.h"

#include <strings.h>

#define KNOWN_SCHEMES "'allow-utf-8', 'underscores', 'dots', or 'values'"

void engine_config_read_protocols(struct codec_reader *r, const json_t *value, void *out)
{
    struct engine_config_scrape_config *s = out;
    codec_read_texts(r, value, &s->protocols, &s->n_protocols);
    if (!s->protocols)
        s->protocols = codec_reader_alloc(r, 0); // an empty list differs from NULL
}

static char *list_of(const struct engine_config_scrape_config *s)
{
    struct gs_buf out = {0};
    for (size_t i = 0; i < s->n_protocols; i++)
        gs_buf_addf(&out, "%s%s", i ? " " : "", s->protocols[i]);
    return gs_buf_take(&out);
}

static char *unknown_protocol(const char *name)
{
    return gs_format("unknown scrape protocol %s, supported: [OpenMetricsText0.0.1 "
                     "OpenMetricsText1.0.0 OpenMetricsText2.0.0 PrometheusProto "
                     "PrometheusText0.0.4 PrometheusText1.0.0]",
                     name);
}

static bool is_repeated(const struct engine_config_scrape_config *s, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcasecmp(s->protocols[k], s->protocols[i]) == 0)
            return true;
    return false;
}

// whom: "global config", "scrape config with job name …". The default list is that of Prometheus.
static size_t read_protocols(struct codec_reader *r, const json_t *at,
                             const struct engine_config_scrape_config *s, const char *whom,
                             enum metrics_protocol ret[METRICS_N_PROTOCOLS])
{
    static const enum metrics_protocol usual[] = {METRICS_OPENMETRICS_1_0_0,
                                                  METRICS_OPENMETRICS_0_0_1, METRICS_TEXT_1_0_0,
                                                  METRICS_TEXT_0_0_4};
    size_t n = 0;
    if (!s->protocols) {
        memcpy(ret, usual, sizeof(usual));
        return GS_ARRAY_LEN(usual);
    }
    if (!s->n_protocols)
        codec_reader_fail(r, at, "scrape_protocols cannot be empty for %s", whom);
    for (size_t i = 0; i < s->n_protocols && !r->err; i++) {
        if (is_repeated(s, i)) {
            GS_AUTO_FREE char *list = list_of(s);
            codec_reader_fail(r, at, "duplicated protocol in scrape_protocols, got [%s] for %s",
                              list, whom);
        } else if (!metrics_protocol_of(s->protocols[i], &ret[n++])) {
            GS_AUTO_FREE char *text = unknown_protocol(s->protocols[i]);
            codec_reader_fail(r, at, "scrape_protocols: %s for %s", text, whom);
        }
    }
    return n;
}

// Logs the formats that are not requested.
static void warn_of_unread(struct codec_reader *r, const json_t *at, const enum metrics_protocol *p,
                           size_t n)
{
    for (size_t i = 0; i < n && !r->err; i++)
        if (p[i] == METRICS_PROTOBUF || p[i] == METRICS_OPENMETRICS_2_0_0)
            codec_reader_ignore(
                r, p[i] == METRICS_PROTOBUF ? "PrometheusProto" : "OpenMetricsText2.0.0", at,
                "scrape_protocols");
}

static const json_t *place(const json_t *at, const char *key)
{
    const json_t *value = json_object_get(at, key);
    return value ? value : at;
}

void engine_config_check_global_names(struct codec_reader *r, const json_t *at,
                                      struct engine_config_scrape_config *global)
{
    enum metrics_protocol protocols[METRICS_N_PROTOCOLS];
    at = place(at, "scrape_protocols");
    size_t n = read_protocols(r, at, global, "global config", protocols);
    warn_of_unread(r, at, protocols, n);
}

bool engine_config_check_validation(struct codec_reader *r, const json_t *at, const char *scheme)
{
    if (scheme && *scheme && !gs_streq(scheme, "legacy") && !gs_streq(scheme, "utf8"))
        codec_reader_fail(r, place(at, "metric_name_validation_scheme"),
                          "unrecognized ValidationScheme: \"%s\"", scheme);
    return gs_streq(scheme, "legacy");
}

static bool is_validation(const char *text)
{
    return gs_streq(text, "legacy") || gs_streq(text, "utf8");
}

static const char *or_else(const char *text, const char *other)
{
    return text && *text ? text : other;
}

static const char *usual_escaping(const char *validation)
{
    return gs_streq(validation, "legacy") ? "underscores" : "allow-utf-8";
}

static enum metrics_escaping read_escaping(struct codec_reader *r, const json_t *at,
                                           const char *whose, const char *name)
{
    enum metrics_escaping ret = METRICS_ESCAPE_NONE;
    if (!metrics_escaping_of(gs_slice_of(name), &ret))
        codec_reader_fail(r, at,
                          "unknown %s name escaping method specified, must be one of " KNOWN_SCHEMES
                          ", got \"%s\"",
                          whose, name);
    return ret;
}

// As in Prometheus, the escaping scheme of the global section is checked for each scrape config,
// and a scrape config with a validation scheme does not take it.
static enum metrics_escaping read_schemes(struct codec_reader *r, const json_t *at,
                                          struct engine_config_scrape_config *s,
                                          const struct engine_config_scrape_config *global)
{
    const char *everywhere = or_else(global->validation_scheme, "utf8");
    const char *validation = or_else(s->validation_scheme, everywhere);
    const char *global_escaping = or_else(global->escaping_scheme, usual_escaping(everywhere));
    const char *usual = s->validation_scheme && *s->validation_scheme ? usual_escaping(validation)
                                                                      : global_escaping;
    if (!is_validation(validation))
        codec_reader_fail(r, place(at, "metric_name_validation_scheme"),
                          "unrecognized ValidationScheme: \"%s\"", validation);
    read_escaping(r, at, "global", global_escaping);
    enum metrics_escaping ret = read_escaping(r, place(at, "metric_name_escaping_scheme"),
                                              "scrape config", or_else(s->escaping_scheme, usual));
    s->legacy_names = gs_streq(validation, "legacy");
    if (s->legacy_names && ret == METRICS_ESCAPE_NONE)
        codec_reader_fail(r, at,
                          "utf8 metric names requested but validation scheme is not set to UTF8");
    return ret;
}

static void take_fallback(struct codec_reader *r, const json_t *at,
                          struct engine_config_scrape_config *s)
{
    static const enum engine_config_fallback fallbacks[METRICS_N_PROTOCOLS] = {
        [METRICS_OPENMETRICS_2_0_0] = ENGINE_CONFIG_FALLBACK_OPENMETRICS,
        [METRICS_OPENMETRICS_1_0_0] = ENGINE_CONFIG_FALLBACK_OPENMETRICS,
        [METRICS_OPENMETRICS_0_0_1] = ENGINE_CONFIG_FALLBACK_OPENMETRICS,
        [METRICS_TEXT_1_0_0] = ENGINE_CONFIG_FALLBACK_TEXT,
        [METRICS_TEXT_0_0_4] = ENGINE_CONFIG_FALLBACK_TEXT,
        [METRICS_PROTOBUF] = ENGINE_CONFIG_FALLBACK_NONE,
    };
    enum metrics_protocol p;
    if (!s->fallback_protocol || !*s->fallback_protocol)
        return;
    at = place(at, "fallback_scrape_protocol");
    if (metrics_protocol_of(s->fallback_protocol, &p)) {
        s->fallback = fallbacks[p];
        if (p == METRICS_PROTOBUF)
            codec_reader_ignore(r, "PrometheusProto", at, "fallback_scrape_protocol");
        return;
    }
    GS_AUTO_FREE char *text = unknown_protocol(s->fallback_protocol);
    codec_reader_fail(r, at,
                      "invalid fallback_scrape_protocol for scrape config with job name \"%s\": %s",
                      s->job_name, text);
}

void engine_config_check_names(struct codec_reader *r, const json_t *at,
                               struct engine_config_scrape_config *s,
                               const struct engine_config_scrape_config *global)
{
    enum metrics_protocol protocols[METRICS_N_PROTOCOLS];
    GS_AUTO_BUF struct gs_buf accept = {0};
    if (r->err)
        return;
    GS_AUTO_FREE char *whom = gs_format("scrape config with job name \"%s\"", s->job_name);
    size_t n = read_protocols(r, place(at, "scrape_protocols"), s->protocols ? s : global, whom,
                              protocols);
    if (s->protocols)
        warn_of_unread(r, place(at, "scrape_protocols"), protocols, n);
    take_fallback(r, at, s);
    enum metrics_escaping escaping = read_schemes(r, at, s, global);
    if (s->legacy_names) {
        engine_config_check_legacy_relabels(r, at, "relabel_configs", &s->relabel);
        engine_config_check_legacy_relabels(r, at, "metric_relabel_configs", &s->metric_relabel);
    }
    if (r->err)
        return;
    metrics_accept(protocols, n, escaping, &accept);
    s->accept = codec_reader_format(r, "%s", accept.data);
    s->escaping_scheme = metrics_escaping_name(escaping);
}
