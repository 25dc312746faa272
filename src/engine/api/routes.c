// SPDX-License-Identifier: Apache-2.0
// The paths of the API: methods, handlers, and what the OpenAPI document says about them.
#include "engine/api/api_private.h"

// OPTIONS: as Prometheus, all paths except those of the lifecycle.
enum {
    GET = HTTP_GET | HTTP_OPTIONS,
    POST = HTTP_POST | HTTP_OPTIONS,
    GET_POST = GET | POST,
    POST_PUT = POST | HTTP_PUT,
    LIFECYCLE = HTTP_POST | HTTP_PUT,
};

#define SELECTED "match[] start end limit"

#define ROW(path_, methods_, ...)                                                                  \
    {                                                                                              \
        {.path = path_, .methods = methods_}, __VA_ARGS__                                          \
    }

// Paths without a summary only respond that they are switched off.
const struct engine_api_route engine_api_routes[] = {
    ROW("/api/v1/query", GET_POST, engine_api_query, "Evaluate an expression at one time",
        ENGINE_API_OBJECT, "!query time timeout limit lookback_delta stats", .queued = true),
    ROW("/api/v1/query_range", GET_POST, engine_api_query_range,
        "Evaluate an expression at each step of a time range", ENGINE_API_OBJECT,
        "!query !start !end !step timeout limit lookback_delta stats", .queued = true),
    ROW("/api/v1/query_exemplars", GET_POST, engine_api_query_exemplars,
        "List the exemplars of the selectors of an expression", ENGINE_API_LIST, "!query start end",
        .queued = true),
    ROW("/api/v1/format_query", GET_POST, engine_api_format_query, "Format an expression",
        ENGINE_API_STRING, "!query"),
    ROW("/api/v1/parse_query", GET_POST, engine_api_parse_query, "Parse an expression",
        ENGINE_API_OBJECT, "!query"),
    ROW("/api/v1/series", GET_POST, engine_api_series, "List series", ENGINE_API_LIST, "!" SELECTED,
        .queued = true),
    ROW("/api/v1/labels", GET_POST, engine_api_labels, "List label names", ENGINE_API_LIST,
        SELECTED, .queued = true),
    ROW("/api/v1/label/*/values", GET, engine_api_label_values, "List the values of a label",
        ENGINE_API_LIST, SELECTED, .queued = true),
    ROW("/api/v1/scrape_pools", GET, engine_api_scrape_pools, "List scrape jobs", ENGINE_API_OBJECT,
        ""),
    ROW("/api/v1/scrape_pools/config", GET, engine_api_scrape_pool_config,
        "Show the configuration of a scrape job", ENGINE_API_OBJECT, "!scrapePool"),
    ROW("/api/v1/targets", GET, engine_api_targets, "List targets", ENGINE_API_OBJECT,
        "state scrapePool", .queued = true),
    ROW("/api/v1/targets/relabel_steps", GET, engine_api_relabel_steps,
        "Show the result of each step of relabeling", ENGINE_API_OBJECT, "!scrapePool !labels"),
    ROW("/api/v1/targets/metadata", GET, engine_api_targets_metadata,
        "List the metadata of the metrics of targets", ENGINE_API_LIST, "match_target metric limit",
        .queued = true),
    ROW("/api/v1/metadata", GET, engine_api_metadata, "List types, units and help texts of metrics",
        ENGINE_API_OBJECT, "metric limit limit_per_metric", .queued = true),
    ROW("/api/v1/rules", GET, engine_api_rules, "List groups of rules", ENGINE_API_OBJECT,
        "type rule_name[] rule_group[] file[] match[] exclude_alerts group_limit group_next_token",
        .queued = true),
    ROW("/api/v1/alerts", GET, engine_api_alerts, "List alerts", ENGINE_API_OBJECT, "",
        .queued = true),
    ROW("/api/v1/alertmanagers", GET, engine_api_alertmanagers, "List Alertmanagers",
        ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/config", GET, engine_api_status_config,
        "Show the configuration without secrets", ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/flags", GET, engine_api_status_flags, "Show the values of flags",
        ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/buildinfo", GET, engine_api_status_buildinfo, "Show versions",
        ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/runtimeinfo", GET, engine_api_status_runtimeinfo,
        "Show the state of the process", ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/tsdb", GET, engine_api_status_tsdb,
        "Show the labels with the most series and values", ENGINE_API_OBJECT, "limit",
        .queued = true),
    ROW("/api/v1/status/walreplay", GET, engine_api_status_walreplay,
        "Show the progress of reading the write-ahead log", ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/tsdb/blocks", GET, engine_api_status_blocks, "List blocks: always none",
        ENGINE_API_OBJECT, ""),
    ROW("/api/v1/status/self_metrics", GET, engine_api_self_metrics,
        "Show metrics about the engine", ENGINE_API_LIST, "metric_name_pattern"),
    ROW("/api/v1/notifications", GET, engine_api_notifications, "List notifications: always none",
        ENGINE_API_LIST, ""),
    ROW("/api/v1/notifications/live", GET, engine_api_notifications_live,
        "Wait for notifications: there are none", ENGINE_API_EMPTY, ""),
    ROW("/api/v1/search/metric_names", GET_POST, engine_api_search),
    ROW("/api/v1/search/label_names", GET_POST, engine_api_search),
    ROW("/api/v1/search/label_values", GET_POST, engine_api_search),
    ROW("/api/v1/admin/tsdb/delete_series", POST_PUT, engine_api_admin),
    ROW("/api/v1/admin/tsdb/clean_tombstones", POST_PUT, engine_api_admin),
    ROW("/api/v1/admin/tsdb/snapshot", POST_PUT, engine_api_admin),
    ROW("/api/v1/read", POST, engine_api_remote_read, "Read samples with remote read",
        ENGINE_API_PROTOBUF, "", .queued = true, .pushed = {"application/x-protobuf"}),
    ROW("/federate", GET, engine_api_federate, "Show the newest samples of series", ENGINE_API_TEXT,
        "match[]", .queued = true),
    ROW("/metrics", GET, engine_api_own_metrics, "Show metrics about the engine", ENGINE_API_TEXT,
        ""),
    ROW("/version", GET, engine_api_version, "Show versions", ENGINE_API_JSON, ""),
    ROW("/-/healthy", GET, engine_api_healthy, "Check that the process runs", ENGINE_API_TEXT, ""),
    ROW("/-/ready", GET, engine_api_ready, "Check that the API responds", ENGINE_API_TEXT, ""),
    ROW("/-/reload", LIFECYCLE, engine_api_lifecycle_reload,
        "Reload the configuration, with --web.enable-lifecycle", ENGINE_API_TEXT, ""),
    ROW("/-/quit", LIFECYCLE, engine_api_lifecycle_quit,
        "End the process, with --web.enable-lifecycle", ENGINE_API_TEXT, ""),
    ROW("/api/v1/features", GET, engine_api_features, "Show what the engine supports",
        ENGINE_API_OBJECT, ""),
    ROW("/api/v1/openapi.yaml", GET, engine_api_openapi, "Show this description", ENGINE_API_YAML,
        ""),
    ROW("/api/v1/gpuscale/report", GET, engine_api_report, "Report who uses GPUs",
        ENGINE_API_OBJECT, "by since until idle", .queued = true),
    ROW("/api/v1/gpuscale/inference", GET, engine_api_inference,
        "List inference engines with their signals, and pods that may have one", ENGINE_API_OBJECT,
        "", .queued = true),
    ROW("/api/v1/gpuscale/dashboards", GET, engine_api_dashboards,
        "List dashboards of ConfigMaps: always none without gpuscale up", ENGINE_API_OBJECT, ""),
    ROW("/api/v1/gpuscale/problems", GET, engine_api_problems,
        "List pods that do not run: always none without gpuscale up", ENGINE_API_LIST, ""),
    ROW("/api/v1/write", POST, engine_api_write,
        "Store samples, with --web.enable-remote-write-receiver", ENGINE_API_EMPTY, "",
        .write = true, .pushed = {"application/x-protobuf"}),
    ROW("/api/v1/otlp/v1/metrics", POST, engine_api_otlp,
        "Store metrics, with --web.enable-otlp-receiver", ENGINE_API_JSON, "", .write = true,
        .pushed = {"application/x-protobuf", "application/json"}),
    {.summary = NULL},
};

enum { NO_ROUTE = GS_ARRAY_LEN(engine_api_routes) - 1 };
_Static_assert((int)NO_ROUTE < (int)ENGINE_API_N_ROUTES_MAX, "counters for each route");

const char *engine_api_route_path(size_t i)
{
    return i < NO_ROUTE ? engine_api_routes[i].http.path : i == NO_ROUTE ? "/*" : NULL;
}

bool engine_api_route_takes(size_t i, const char *method)
{
    return i < NO_ROUTE && http_route_allows(&engine_api_routes[i].http, method);
}

size_t engine_api_find_route(struct gs_slice path)
{
    size_t i = 0;
    while (i < NO_ROUTE && !http_route_matches(&engine_api_routes[i].http, path))
        i++;
    return i;
}
