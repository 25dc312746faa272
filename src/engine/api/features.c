// SPDX-License-Identifier: Apache-2.0
// /api/v1/features: what the engine can do, for clients such as the completion of the query page.
#include "engine/api/api_private.h"

#include "promql/functions.h"
#include "tsdb/exemplars.h"

static json_t *functions_json(void)
{
    json_t *all = json_object();
    const struct promql_function *f;
    for (size_t i = 0; (f = promql_function_nth(i)); i++)
        json_object_set_new(
            all, f->name,
            json_boolean(!f->experimental || (promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS)));
    return all;
}

// Prometheus counts aggregations and the keywords of matching among the operators.
static json_t *operators_json(void)
{
    static const char *const others[] = {"=~", "!~", "@"};
    json_t *all = json_object();
    for (int op = PROMQL_ADD; op <= PROMQL_UNLESS; op++)
        json_object_set_new(all, promql_op_text((enum promql_op)op), json_true());
    for (int agg = PROMQL_SUM; agg <= PROMQL_LIMIT_RATIO; agg++)
        json_object_set_new(all, promql_agg_name((enum promql_agg)agg),
                            json_boolean(agg < PROMQL_LIMITK ||
                                         (promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS)));
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        json_object_set_new(all, others[i], json_true());
    return all;
}

// What depends on flags is set afterwards.
static const struct {
    const char *kind;
    const char *supported[32], *unsupported[8]; // end with NULL
} usual[] = {
    {"api",
     {"exclude_alerts", "label_values_match", "openapi_3.1", "openapi_3.2", "query_stats",
      "query_warnings", "time_range_labels", "time_range_series"},
     {"admin", "query_cost", "search"}},
    {"otlp_receiver", {NULL}, {"delta_conversion", "native_delta_ingestion"}},
    {"prometheus", {"server_mode"}, {"agent_mode"}},
    {"promql",
     {"anchored", "at_modifier", "bool", "by", "duration_expr", "group_left", "group_right",
      "ignoring", "offset", "negative_offset", "on", "per_query_lookback_delta", "smoothed",
      "subqueries", "without"},
     {"type_and_unit_labels"}},
    {"rules", {"keep_firing_for", "query_offset"}, {"concurrent_rule_eval"}},
    {"scrape",
     {NULL},
     {"extra_scrape_metrics", "openmetrics2", "start_timestamp_zero_ingestion",
      "type_and_unit_labels"}},
    {"service_discovery_providers", {"dns", "file", "http", "kubernetes", "static"}, {NULL}},
    {"templating_functions",
     {"args",
      "externalURL",
      "first",
      "graphLink",
      "humanize",
      "humanize1024",
      "humanizeDuration",
      "humanizePercentage",
      "humanizeTimestamp",
      "label",
      "match",
      "now",
      "parseDuration",
      "pathPrefix",
      "query",
      "reReplaceAll",
      "safeHtml",
      "sortByLabel",
      "stripDomain",
      "stripPort",
      "strvalue",
      "tableLink",
      "title",
      "toDuration",
      "toLower",
      "toTime",
      "toUpper",
      "urlQueryEscape",
      "value"},
     {NULL}},
    {"tsdb",
     {"isolation"},
     {"delayed_compaction", "histograms_st_encoding", "native_histograms", "st_storage",
      "use_uncached_io", "xor2_encoding"}},
    {"ui", {NULL}, {"ui_v2", "ui_v3"}},
};

static json_t *usual_json(void)
{
    json_t *all = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(usual); i++) {
        json_t *kind = json_object();
        for (size_t k = 0; usual[i].supported[k]; k++)
            json_object_set_new(kind, usual[i].supported[k], json_true());
        for (size_t k = 0; usual[i].unsupported[k]; k++)
            json_object_set_new(kind, usual[i].unsupported[k], json_false());
        json_object_set_new(all, usual[i].kind, kind);
    }
    return all;
}

static void set_feature(json_t *all, const char *kind, const char *name, bool on)
{
    json_object_set_new(json_object_get(all, kind), name, json_boolean(on));
}

static bool flag_is_on(const struct engine_api *a, const char *name)
{
    for (const struct http_header *f = a->cfg.flags; f && f->name; f++)
        if (gs_streq(f->name, name))
            return gs_streq(f->value, "true");
    return false;
}

void engine_api_features(struct engine_api_request *r)
{
    const struct engine_api *a = r->api;
    json_t *all = usual_json();
    set_feature(all, "api", "lifecycle", a->cfg.lifecycle);
    unsigned pushed = a->cfg.write_messages;
    set_feature(all, "api", "remote_write_receiver",
                pushed & (REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2));
    set_feature(all, "api", "otlp_write_receiver", pushed & REMOTE_MESSAGE_OTLP);
    set_feature(all, "prometheus", "auto_reload_config", flag_is_on(a, "config.auto-reload"));
    set_feature(all, "tsdb", "exemplar_storage", tsdb_exemplars_max(a->cfg.db) > 0);
    set_feature(all, "promql", "unquoted_utf8_names", promql_features() & PROMQL_UTF8_NAMES);
    set_feature(all, "promql", "delayed_name_removal", promql_features() & PROMQL_DELAYED_NAMES);
    set_feature(all, "promql", "per_step_stats", promql_features() & PROMQL_PER_STEP_STATS);
    static const char *const fills[] = {"fill", "fill_left", "fill_right"};
    for (size_t i = 0; i < GS_ARRAY_LEN(fills); i++)
        set_feature(all, "promql", fills[i], promql_features() & PROMQL_FILL);
    json_object_set_new(all, "promql_functions", functions_json());
    json_object_set_new(all, "promql_operators", operators_json());
    engine_api_reply_json(r, all);
}
