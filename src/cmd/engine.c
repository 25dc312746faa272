// SPDX-License-Identifier: Apache-2.0
// gpuscale engine, with Prometheus' flags.
#include "base/mem.h"
#include "base/slice.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"
#include "engine/serve.h"
#include "hpa_controller/explain_api.h"
#include "replay/history.h"

#define AT(member)           .offset = offsetof(struct engine_flags, member)
#define RECEIVERS_AT(member) AT(receivers.member)

// Flags of Prometheus without effect, accepted so that its unit files work. The index is the
// position in engine_flags.
#define IGNORED_BOOL(i, name_, why)                                                                \
    GS_OPT(name_, GS_OPT_BOOL, offsetof(struct engine_flags, ignored_bools) + (i) * sizeof(bool),  \
           .group = ENGINE_IGNORED_GROUP, .help = why)
#define IGNORED_VALUE(i, name_, why)                                                               \
    GS_OPT(name_, GS_OPT_STRINGS,                                                                  \
           offsetof(struct engine_flags, ignored_values) + (i) * sizeof(struct gs_opt_list),       \
           "VALUE", .group = ENGINE_IGNORED_GROUP, .help = why)

static const struct gs_opt rows[] = {
    {"config.file", GS_OPT_STRING, AT(config_file), "FILE", "prometheus.yml",
     .help = "Prometheus configuration file."},
    {"config.auto-reload", GS_OPT_BOOL, AT(auto_reload), .def = "true",
     .help =
         "Reload the configuration and rule files when they change. SIGHUP always reloads them."},
    {"config.auto-reload-interval", GS_OPT_DURATION, AT(auto_reload_interval_ns), "DURATION", "30s",
     .help = "How often to check for changes on file systems without change notifications."},
    {"kubeconfig", GS_OPT_STRING, AT(kubeconfig), "FILE",
     .help = "Cluster of kubernetes_sd_configs without an api_server. Default: the cluster that "
             "the engine runs in."},

    {"dcgm-aliases", GS_OPT_BOOL, AT(dcgm_aliases), .def = "true",
     .help =
         "Queries, rules and match[] with a name of a GPU metric that dcgm-exporter 4.9 changed "
         "also read the series of the other name, in the unit of the queried one."},

    {"kube-state", GS_OPT_BOOL, AT(kube_state),
     .help = "Store the cluster's pods, nodes, Deployments, ReplicaSets, namespaces and "
             "HorizontalPodAutoscalers as kube_* series, each second, with the names of "
             "kube-state-metrics. For clusters without kube-state-metrics."},
    {"kube-rules", GS_OPT_BOOL, AT(kube_rules),
     .help =
         "Also evaluate the PrometheusRule objects (monitoring.coreos.com/v1) of all namespaces."},
    {"kube-monitors", GS_OPT_BOOL, AT(kube_monitors),
     .help = "Also scrape the targets of the ServiceMonitor and PodMonitor objects "
             "(monitoring.coreos.com/v1) of all namespaces, as the Prometheus operator does."},
    {"kube-monitors.selector", GS_OPT_STRING, AT(kube_monitors_selector), "LABELS",
     .help = "Label selector of these objects, such as 'release=stack' or 'team!=a'. Default: all "
             "objects."},
    {"kube-inference", GS_OPT_BOOL, AT(kube_inference),
     .help = "Also scrape inference engines (vLLM, SGLang and others) each second: pods that own a "
             "GPU or have the annotation gpuscale.dev/inference, unless another job scrapes them."},
    {"inference-table", GS_OPT_STRING, AT(inference_table), "FILE",
     .help = "What inference engines call their metrics, instead of the built-in table. The format "
             "is that of share/gpuscale/inference-engines.yaml."},
    {"kube-annotations", GS_OPT_BOOL, AT(kube_annotations),
     .help = "Also scrape the pods of all namespaces that have the annotation "
             "prometheus.io/scrape: \"true\", as the configuration of Prometheus' Helm chart "
             "does. prometheus.io/port, path, scheme and param-NAME say where."},
    {"kube-state.metric-labels-allowlist", GS_OPT_STRING, AT(kube_state_labels), "LIST",
     .help = "Labels of objects that become label_* of kube_*_labels: pods=[app,team],nodes=[*]. "
             "Default: all."},

    {"web.listen-address", GS_OPT_STRINGS, AT(listen), "HOST:PORT", .group = "Web",
     .help = "Address to listen on. Repeatable. Default: 0.0.0.0:9090, as Prometheus. Port 0: any "
             "free port."},
    {"web.config.file", GS_OPT_STRING, AT(web_config), "FILE", .group = "Web",
     .help = "TLS and basic authentication, in the format of the exporter toolkit."},
    {"web.external-url", GS_OPT_STRING, AT(external_url), "URL", .group = "Web",
     .help = "URL of the engine for users, in links of alerts. Its path is the default of "
             "--web.route-prefix."},
    {"web.route-prefix", GS_OPT_STRING, AT(route_prefix), "PATH", .group = "Web",
     .help = "Prefix of all paths."},
    {"web.enable-lifecycle", GS_OPT_BOOL, AT(lifecycle), .group = "Web",
     .help = "Allow POST /-/reload and /-/quit."},
    CMD_RECEIVER_ROWS(RECEIVERS_AT, "Web"),
    {"web.cors.origin", GS_OPT_STRING, AT(cors_origin), "REGEX", ".*", .group = "Web",
     .help = "Origins whose scripts may read responses."},
    {"web.read-timeout", GS_OPT_DURATION, AT(read_timeout_ns), "DURATION", "5m", .group = "Web",
     .help = "Idle time after which a connection is closed."},
    {"web.max-connections", GS_OPT_INT, AT(max_connections), "N", "512", .min = 1, .max = 65536,
     .group = "Web",
     .help = "Maximum number of connections to each address. If all are in use, the connection "
             "that is idle longest is closed. Also the maximum number of waiting queries."},

    {"storage.path", GS_OPT_STRING, AT(storage_path), "FOLDER", .alias = "storage.tsdb.path",
     .group = "Storage",
     .help = "Directory of samples, which survive restarts. Default: in memory only."},
    {"storage.tsdb.retention.time", GS_OPT_DURATION, AT(retention_ns), "DURATION", "2h",
     .group = "Storage", .help = "How long samples are kept."},
    {"storage.tsdb.retention.size", GS_OPT_STRING, AT(retention_size), "SIZE", .group = "Storage",
     .help = "Memory for samples and index, such as 512MB. The oldest samples are deleted first. "
             "Default: no limit."},
    {"storage.max-series", GS_OPT_INT, AT(max_series), "N", "2000000", .min = 1, .max = INT32_MAX,
     .group = "Storage", .help = "Maximum number of series. A target that needs more is down."},

    {"storage.remote.flush-deadline", GS_OPT_DURATION, AT(flush_deadline_ns), "DURATION", "1m",
     .group = "Storage",
     .help = "How long a stop waits for receivers of remote_write that lack samples. A second "
             "SIGTERM stops at once."},

    {"ledger.prices", GS_OPT_STRING, AT(ledger_prices), "FILE", .group = "Ledger of GPU hours",
     .help = "Prices of GPUs and machines per hour, for /api/v1/gpuscale/report and "
             "gpuscale_gpu_idle_cost. The format is that of examples/replay/prices.yaml."},
    {"ledger.owner-label", GS_OPT_STRING, AT(ledger_owner_label), "LABEL", "team",
     .group = "Ledger of GPU hours",
     .help = "Label of pods, otherwise of their namespaces, that names who pays."},

    {"query.lookback-delta", GS_OPT_DURATION, AT(lookback_ns), "DURATION", "5m", .group = "Queries",
     .help = "Maximum age of a sample to be the value of a series, in queries and federation."},
    {"query.timeout", GS_OPT_DURATION, AT(query_timeout_ns), "DURATION", "10s", .group = "Queries",
     .help = "Maximum time of a query, including waiting. Shorter than Prometheus' 2m, because a "
             "query that restarts when series change delays scrapes and rules."},
    {"query.max-samples", GS_OPT_INT, AT(max_samples), "N", "50000000", .min = 1,
     .max = INT64_C(1000000000000), .group = "Queries",
     .help = "Maximum number of samples that one query may read."},
    {"query.max-concurrency", GS_OPT_INT, AT(max_concurrency), "N", "20", .min = 1,
     .max = INT32_MAX, .group = "Queries",
     .help =
         "Maximum number of queries in progress. Others wait, limited by --web.max-connections."},
    {"query.max-reply-size", GS_OPT_STRING, AT(max_reply), "SIZE", "128MB", .group = "Queries",
     .help = "Maximum size of a reply before compression. All replies that are being written have "
             "twice as much."},

    {"rules.alert.for-outage-tolerance", GS_OPT_DURATION, AT(outage_tolerance_ns), "DURATION", "1h",
     .group = "Rules",
     .help = "Maximum age of the last sample of an alert for its state to survive a restart. Needs "
             "--storage.path."},
    {"rules.alert.for-grace-period", GS_OPT_DURATION, AT(for_grace_ns), "DURATION", "10m",
     .group = "Rules",
     .help = "Minimum time between a restart and the firing of an alert that was pending before. "
             "Alerts with a shorter 'for' wait for that time instead."},
    {"rules.alert.resend-delay", GS_OPT_DURATION, AT(resend_delay_ns), "DURATION", "1m",
     .group = "Rules", .help = "Minimum time between notifications of the same alert."},

    {"log.level", GS_OPT_STRING, AT(log_level), "LEVEL", .group = "Log", .help = "As --log-level."},
    {"log.format", GS_OPT_STRING, AT(log_format), "FORMAT", .group = "Log",
     .help = "As --log-format; logfmt means text."},
    {"enable-feature", GS_OPT_STRINGS, offsetof(struct engine_flags, features), "NAMES",
     .help = "Features with commas: exemplar-storage, promql-experimental-functions, "
             "promql-binop-fill-modifiers, promql-unquoted-utf8-names, "
             "promql-delayed-name-removal. Other features of Prometheus have no effect."},
    IGNORED_BOOL(0, "web.enable-admin-api", "Series cannot be deleted here."),
    IGNORED_BOOL(1, "agent",
                 "There is no agent mode: samples are stored and queries answered, too."),
    IGNORED_BOOL(3, "storage.tsdb.no-lockfile", "There is no such lock file."),
    IGNORED_BOOL(4, "storage.tsdb.allow-overlapping-compaction", "There are no blocks."),
    IGNORED_BOOL(5, "storage.tsdb.allow-overlapping-blocks", "There are no blocks."),
    IGNORED_BOOL(6, "storage.tsdb.wal-compression", "The log is always compact."),
    IGNORED_BOOL(7, "auto-gomaxprocs", "There is no Go runtime."),
    IGNORED_BOOL(8, "auto-gomemlimit", "There is no Go runtime."),
    IGNORED_BOOL(9, "scrape.adjust-timestamps", "Times are those of the scrapes."),
    IGNORED_BOOL(10, "alertmanager.drain-notification-queue-on-shutdown",
                 "A stop does not wait for alerts in the queue."),
    IGNORED_BOOL(12, "storage.agent.wal-compression", "There is no agent mode."),
    IGNORED_BOOL(13, "storage.agent.no-lockfile", "There is no agent mode."),
    IGNORED_BOOL(14, "storage.agent.checkpoint-from-in-memory-series", "There is no agent mode."),
    IGNORED_VALUE(0, "auto-gomemlimit.ratio", "There is no Go runtime."),
    IGNORED_VALUE(1, "web.user-assets", "There are no consoles."),
    IGNORED_VALUE(2, "web.console.templates", "There are no consoles."),
    IGNORED_VALUE(3, "web.console.libraries", "There are no consoles."),
    IGNORED_VALUE(4, "web.page-title", "The title is fixed."),
    IGNORED_VALUE(5, "web.max-notifications-subscribers", "There are no live notifications."),
    IGNORED_VALUE(6, "storage.agent.path", "There is no agent mode."),
    IGNORED_VALUE(7, "storage.tsdb.min-block-duration", "There are no blocks."),
    IGNORED_VALUE(8, "storage.tsdb.max-block-duration", "There are no blocks."),
    IGNORED_VALUE(9, "storage.tsdb.max-block-chunk-segment-size", "There are no blocks."),
    IGNORED_VALUE(10, "storage.tsdb.wal-segment-size", "The size of log files is fixed."),
    IGNORED_VALUE(11, "storage.tsdb.wal-compression-type", "The log is always compact."),
    IGNORED_VALUE(12, "storage.tsdb.head-chunks-write-queue-size", "Chunks stay in memory."),
    IGNORED_VALUE(13, "storage.tsdb.samples-per-chunk", "The size of blocks is fixed."),
    IGNORED_VALUE(14, "storage.tsdb.delayed-compaction.max-percent", "There are no blocks."),
    IGNORED_VALUE(15, "storage.tsdb.retention", "Use --storage.tsdb.retention.time."),
    IGNORED_VALUE(16, "storage.remote.read-sample-limit",
                  "Responses of remote reads have at most 32 MiB."),
    IGNORED_VALUE(17, "storage.remote.read-concurrent-limit",
                  "--query.max-concurrency limits remote reads, too."),
    IGNORED_VALUE(18, "storage.remote.read-max-bytes-in-frame",
                  "Responses of remote reads are not streamed in frames."),
    IGNORED_VALUE(19, "rules.max-concurrent-evals", "Rules run one after another."),
    IGNORED_VALUE(20, "scrape.timestamp-tolerance", "Times are those of the scrapes."),
    IGNORED_VALUE(21, "scrape.discovery-reload-interval",
                  "Targets change as soon as they are discovered."),
    IGNORED_VALUE(22, "alertmanager.notification-queue-capacity", "Bounded by the active alerts."),
    IGNORED_VALUE(23, "alertmanager.notification-batch-size", "Chosen by the sender."),
    IGNORED_VALUE(24, "alertmanager.timeout", "Set per Alertmanager in the configuration."),
    IGNORED_VALUE(26, "auto-gomemlimit.refresh-interval", "There is no Go runtime."),
    IGNORED_VALUE(27, "storage.tsdb.delay-compact-file.path", "There are no blocks."),
    IGNORED_VALUE(28, "storage.tsdb.block-reload-interval", "There are no blocks."),
    IGNORED_VALUE(29, "web.search.max-limit", "There is no search API."),
    IGNORED_VALUE(30, "storage.agent.retention.min-time", "There is no agent mode."),
    IGNORED_VALUE(31, "storage.agent.retention.max-time", "There is no agent mode."),
    IGNORED_VALUE(32, "storage.agent.checkpoint-batch-size", "There is no agent mode."),
    IGNORED_VALUE(33, "storage.agent.wal-compression-type", "There is no agent mode."),
    IGNORED_VALUE(34, "storage.agent.wal-segment-size", "There is no agent mode."),
    IGNORED_VALUE(35, "storage.agent.wal-truncate-frequency", "There is no agent mode."),
    {0},
};

// --- explanations of autoscalers, for the web interface ---

struct explanation_apis {
    struct hpa_explain_api *explain;
    struct replay_history_api *history;
};

enum { SYNC_MS = 15000 }; // of kube-controller-manager by default

static void *start_explanations(uv_loop_t *loop, struct kube_client *cluster)
{
    const struct hpa_config cfg = hpa_config_default();
    struct explanation_apis *a = gs_alloc(sizeof(*a));
    a->explain = hpa_explain_api_new(loop, cluster, NULL, &cfg);
    a->history = replay_history_api_new(loop, &cfg, SYNC_MS);
    return a;
}

static void handle_explanation(void *apis, struct http_exchange *x)
{
    const struct explanation_apis *a = apis;
    hpa_explain_api_handle(a->explain, x);
}

static void handle_history(void *apis, struct http_exchange *x)
{
    const struct explanation_apis *a = apis;
    replay_history_api_handle(a->history, x);
}

static const struct http_route explanation_routes[] = {
    {.path = HPA_EXPLAIN_PATH, .handle = handle_explanation, .methods = HTTP_ANY},
    {.path = REPLAY_HISTORY_PATH, .handle = handle_history, .methods = HTTP_ANY},
    {0},
};

static void free_explanations(void *apis)
{
    struct explanation_apis *a = apis;
    if (!a)
        return;
    hpa_explain_api_free(a->explain);
    replay_history_api_free(a->history);
    free(a);
}

static const struct engine_extension explanations = {start_explanations, explanation_routes,
                                                     free_explanations};

static struct gs_error *run_engine(const void *flags, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return engine_serve(flags, rows, &explanations);
}

const struct gs_command cmd_engine = {
    .name = "engine",
    .main_flags = "config.file kubeconfig kube-state kube-monitors web.listen-address "
                  "web.config.file web.enable-remote-write-receiver storage.path "
                  "storage.tsdb.retention.time storage.max-series ledger.prices query.timeout",
    .summary = "Scrape, store, query and alert, with Prometheus' configuration and HTTP API.",
    .description =
        "Reads a prometheus.yml, scrapes its targets, stores the samples, evaluates recording "
        "and alerting rules, sends alerts and remote writes, and serves Prometheus' HTTP API "
        "on port 9090. SIGHUP, POST /-/reload and changes of the files reload the "
        "configuration. If it has an error, the previous configuration stays in use. SIGTERM "
        "stops the engine.",
    .examples = "gpuscale engine --config.file=/etc/prometheus/prometheus.yml\n"
                "gpuscale engine --config.file=prometheus.yml --web.listen-address=127.0.0.1:9090 "
                "--storage.path=data",
    .opts = rows,
    .opts_size = sizeof(struct engine_flags),
    .run = run_engine,
};
