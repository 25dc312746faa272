// SPDX-License-Identifier: Apache-2.0
// gpuscale adapter: the flags of prometheus-adapter, the flags of the generic API server that its
// manifests set, and a few own flags.
#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/log.h"
#include "cmd/commands.h"

enum { IGNORED_VALUES = 48, IGNORED_BOOLS = 24 };

struct adapter_flags {
    struct adapter_options o;
    int64_t v;
    struct gs_opt_list ignored_values[IGNORED_VALUES];
    bool ignored_bools[IGNORED_BOOLS];
};

#define AT(member)     .offset = offsetof(struct adapter_flags, o.member)
#define AT_OWN(member) .offset = offsetof(struct adapter_flags, member)
#define IGNORED        "Accepted, without effect"
#define IGNORED_VALUE(i, flag, why)                                                                \
    GS_OPT(flag, GS_OPT_STRINGS, AT_OWN(ignored_values[i]), "VALUE", .group = IGNORED, .help = why)
#define IGNORED_BOOL(i, flag, why)                                                                 \
    GS_OPT(flag, GS_OPT_BOOL, AT_OWN(ignored_bools[i]), .group = IGNORED, .help = why)

static const struct gs_opt option_rows[] = {
    {"config", GS_OPT_STRING, AT(config), "FILE",
     .help = "Rules: a configuration of prometheus-adapter, values of its Helm chart, or a "
             "manifest with a ConfigMap of either. Read again when it changes; if it is wrong, the "
             "previous one stays in use. Default: GPU metrics only."},
    {"sources", GS_OPT_STRING, AT(sources), "FILE",
     .help = "Additional servers, and the rules that use them (docs/adapter.md). Read again like "
             "the configuration, which may also contain them."},
    {"prometheus-url", GS_OPT_STRING, AT(prometheus_url), "URL", .group = "Prometheus",
     .help = "URL of the server. It may have a path and user:password@ for basic authentication. "
             "Default: prometheus.url of Helm values, otherwise the engine in this process."},
    {"prometheus-verb", GS_OPT_STRING, AT(prometheus_verb), "VERB", "GET", .group = "Prometheus",
     .help = "GET or POST. Long queries always use POST."},
    {"prometheus-header", GS_OPT_STRINGS, AT(prometheus_headers), "KEY=VALUE",
     .group = "Prometheus", .help = "Header of each request to Prometheus, Key=Value. Repeatable."},
    {"prometheus-ca-file", GS_OPT_STRING, AT(prometheus_ca_file), "FILE", .group = "Prometheus",
     .help = "CA certificates (PEM) that Prometheus is verified against."},
    {"prometheus-client-tls-cert-file", GS_OPT_STRING, AT(prometheus_cert_file), "FILE",
     .group = "Prometheus", .help = "Client certificate for Prometheus."},
    {"prometheus-client-tls-key-file", GS_OPT_STRING, AT(prometheus_key_file), "FILE",
     .group = "Prometheus", .help = "Key of the client certificate for Prometheus."},
    {"prometheus-token-file", GS_OPT_STRING, AT(prometheus_token_file), "FILE",
     .group = "Prometheus", .help = "Bearer token for Prometheus. Read again every 10 s."},
    {"prometheus-auth-incluster", GS_OPT_BOOL, AT(prometheus_auth_incluster), .group = "Prometheus",
     .help = "Use the service account's token and CA for Prometheus."},
    {"prometheus-auth-config", GS_OPT_STRING, AT(prometheus_auth_config), "FILE",
     .group = "Prometheus", .help = "kubeconfig with the credentials for Prometheus."},
    {"prometheus-insecure-skip-verify", GS_OPT_BOOL, AT(prometheus_insecure), .group = "Prometheus",
     .help = "Do not verify Prometheus' certificate."},
    {"metrics-relist-interval", GS_OPT_DURATION, AT(relist_ns), "DURATION",
     .min = GS_NS_PER_SEC / 10, .group = "Prometheus",
     .help = "How often the series of the rules are listed. Default: metricsRelistInterval of Helm "
             "values, otherwise 10m."},
    {"metrics-max-age", GS_OPT_DURATION, AT(max_age_ns), "DURATION", .group = "Prometheus",
     .help = "Maximum age of a series' newest sample to be listed. Default: the relist interval; "
             "5m for the engine in this process."},
    {"value-max-age", GS_OPT_DURATION, AT(value_age_ns), "DURATION", "1s", .group = "Prometheus",
     .help = "How long the result of a query is reused for equal queries. 0: only for queries at "
             "the same time."},
    {"sample-times", GS_OPT_STRING, AT(sample_times), "WHEN", "auto", .group = "Prometheus",
     .help = "Whether the timestamp of a value is that of its samples, which makes queries more "
             "expensive. always; never: the time of the query; auto: for the engine in this "
             "process, and for other servers up to 100 objects at a time."},
    {"engine-config", GS_OPT_STRING, AT(engine_config), "FILE", .group = "Engine in this process",
     .help = "prometheus.yml of the engine. Default: scrape all gpuscale and dcgm exporters of the "
             "cluster each second."},
    {"engine-kube-inference", GS_OPT_BOOL, AT(engine_inference), .group = "Engine in this process",
     .help = "Also scrape inference engines (vLLM, SGLang and others) on pods with a GPU, as "
             "gpuscale engine does with --kube-inference."},
    {"engine-kube-annotations", GS_OPT_BOOL, AT(engine_annotations),
     .group = "Engine in this process",
     .help = "Also scrape pods with the annotation prometheus.io/scrape, as gpuscale engine "
             "--kube-annotations."},
    {"engine-retention", GS_OPT_DURATION, AT(engine_retention_ns), "DURATION", "15m",
     .group = "Engine in this process", .help = "How long samples are kept."},
    {"dcgm-aliases", GS_OPT_BOOL, AT(dcgm_aliases), .def = "true",
     .help = "Rules, and queries of them, with a name of a GPU metric that dcgm-exporter 4.9 "
             "changed also read the series of the other name, in the unit of the queried one."},
    {"gpu-metrics", GS_OPT_BOOL, AT(gpu_metrics), .def = "true", .group = "Metrics without rules",
     .help = "Serve GPU series that no rule serves, for pods, namespaces and nodes, and averaged "
             "for workloads."},
    {"pod-series", GS_OPT_BOOL, AT(pod_series), .def = "true", .group = "Metrics without rules",
     .help = "Serve each series with the labels namespace and pod that no rule serves, for pods "
             "and namespaces, and summed for workloads. Counters become rates and lose the "
             "suffixes _total and _seconds_total."},
    {"pod-series-limit", GS_OPT_INT, AT(pod_series_limit), "N", "10000", .min = 1, .max = 500000,
     .group = "Metrics without rules",
     .help = "Maximum number of names of such series. Names over the limit, in alphabetical order, "
             "are not served."},
    {"pod-series-window", GS_OPT_DURATION, AT(pod_series_window_ns), "DURATION", "2m",
     .min = GS_NS_PER_SEC, .group = "Metrics without rules",
     .help = "Window of the rates of counters. It must contain two scrapes."},
    {"lister-kubeconfig", GS_OPT_STRING, AT(lister_kubeconfig), "FILE", .group = "Cluster",
     .help = "kubeconfig for discovery and lists of objects. Default: the service account."},
    {"discovery-interval", GS_OPT_DURATION, AT(discovery_interval_ns), "DURATION", "0s",
     .group = "Cluster",
     .help = "How often the resources of the cluster are listed. 0: every 5 minutes."},
    {"secure-port", GS_OPT_INT, AT(secure_port), "PORT", "443", .max = 65535, .group = "Serving",
     .help = "Port. 0: any free port."},
    {"bind-address", GS_OPT_STRING, AT(bind_address), "ADDRESS", "0.0.0.0", .group = "Serving",
     .help = "Address to listen on."},
    {"cert-dir", GS_OPT_STRING, AT(cert_dir), "FOLDER", "apiserver.local.config/certificates",
     .group = "Serving",
     .help =
         "Directory of apiserver.crt and apiserver.key, which are created if they do not exist."},
    {"tls-cert-file", GS_OPT_STRING, AT(tls_cert_file), "FILE", .group = "Serving",
     .help = "Serving certificate with its chain (PEM). Read again when it changes."},
    {"tls-private-key-file", GS_OPT_STRING, AT(tls_key_file), "FILE", .group = "Serving",
     .help = "Key of the serving certificate."},
    {"tls-service", GS_OPT_STRING, AT(tls_service), "NAMESPACE/SERVICE", .group = "Serving",
     .help = "Service that the APIServices name. The adapter keeps its certificate in the Secret "
             "SERVICE-tls of that namespace, renews it one month before it expires, and writes its "
             "CA to the caBundle of these APIServices. Works with any number of replicas."},
    {"max-connections", GS_OPT_INT, AT(max_connections), "N", "4096", .min = 1, .max = 65536,
     .group = "Serving",
     .help = "Maximum number of connections. If all are in use, the connection that is idle "
             "longest is closed."},
    {"shutdown-delay-duration", GS_OPT_DURATION, AT(shutdown_delay_ns), "DURATION", "0s",
     .group = "Serving",
     .help = "Time between SIGTERM and the end of the server. During this time /readyz fails and "
             "requests are served, so that clients can switch to other replicas. A second signal "
             "ends it."},
    {"authentication-kubeconfig", GS_OPT_STRING, AT(authn_kubeconfig), "FILE",
     .group = "Authentication",
     .help = "kubeconfig for TokenReviews and the ConfigMap extension-apiserver-authentication. "
             "Default: the service account."},
    {"authentication-skip-lookup", GS_OPT_BOOL, AT(skip_lookup), .group = "Authentication",
     .help = "Do not read the ConfigMap extension-apiserver-authentication."},
    {"authentication-tolerate-lookup-failure", GS_OPT_BOOL, AT(tolerate_lookup_failure),
     .group = "Authentication", .help = "Continue if this ConfigMap cannot be read."},
    {"authentication-token-webhook-cache-ttl", GS_OPT_DURATION, AT(token_ttl_ns), "DURATION", "10s",
     .group = "Authentication", .help = "How long the result of a TokenReview is cached."},
    {"client-ca-file", GS_OPT_STRING, AT(client_ca_file), "FILE", .group = "Authentication",
     .help = "CA of client certificates (CN: user, O: groups). Default: the CA in the ConfigMap."},
    {"requestheader-client-ca-file", GS_OPT_STRING, AT(requestheader_ca_file), "FILE",
     .group = "Authentication",
     .help = "CA of the front proxy. Default of this and the next four flags: the values in the "
             "ConfigMap."},
    {"requestheader-allowed-names", GS_OPT_STRINGS, AT(allowed_names), "NAMES",
     .group = "Authentication", .help = "Allowed common names of the front proxy. Empty: any."},
    {"requestheader-username-headers", GS_OPT_STRINGS, AT(username_headers), "HEADERS",
     .group = "Authentication", .help = "Headers with the user name. Default: x-remote-user."},
    {"requestheader-group-headers", GS_OPT_STRINGS, AT(group_headers), "HEADERS",
     .group = "Authentication", .help = "Headers with groups. Default: x-remote-group."},
    {"requestheader-extra-headers-prefix", GS_OPT_STRINGS, AT(extra_prefixes), "PREFIXES",
     .group = "Authentication",
     .help = "Prefixes of headers with extra information. Default: x-remote-extra-."},
    {"authorization-kubeconfig", GS_OPT_STRING, AT(authz_kubeconfig), "FILE",
     .group = "Authorization",
     .help = "kubeconfig for SubjectAccessReviews. Default: the service account."},
    {"authorization-always-allow-paths", GS_OPT_STRINGS, AT(always_allow_paths), "PATHS",
     .group = "Authorization",
     .help = "Paths that need no authorization. A * at the end matches all paths with this prefix. "
             "Default: /healthz,/readyz,/livez."},
    {"authorization-webhook-cache-authorized-ttl", GS_OPT_DURATION, AT(allowed_ttl_ns), "DURATION",
     "10s", .group = "Authorization", .help = "How long an allowed request is cached."},
    {"authorization-webhook-cache-unauthorized-ttl", GS_OPT_DURATION, AT(denied_ttl_ns), "DURATION",
     "10s", .group = "Authorization", .help = "How long a denied request is cached."},
    {"previous-owner", GS_OPT_STRINGS, AT(previous_owners), "[GROUP=]TARGET",
     .group = "Previous owner",
     .help = "Previous server of an API group, which continues to serve what no rule serves: "
             "https://HOST[:PORT] or NAMESPACE/SERVICE[:PORT]. Without GROUP: "
             "custom.metrics.k8s.io and external.metrics.k8s.io. Repeatable."},
    {"previous-owner-ca-file", GS_OPT_STRING, AT(previous_ca_file), "FILE",
     .group = "Previous owner",
     .help = "CA certificates (PEM) that the previous owner is verified against."},
    {"previous-owner-token-file", GS_OPT_STRING, AT(previous_token_file), "FILE",
     .group = "Previous owner",
     .help = "Bearer token for the previous owner. Default: the service account's, if no client "
             "certificate is set."},
    {"previous-owner-client-cert-file", GS_OPT_STRING, AT(previous_cert_file), "FILE",
     .group = "Previous owner", .help = "Client certificate for the previous owner."},
    {"previous-owner-client-key-file", GS_OPT_STRING, AT(previous_key_file), "FILE",
     .group = "Previous owner", .help = "Key of this certificate."},
    {"previous-owner-front-proxy", GS_OPT_BOOL, AT(previous_front_proxy), .group = "Previous owner",
     .help = "The client certificate is that of a front proxy: pass the user of the request in "
             "X-Remote-User and related headers."},
    {"previous-owner-insecure-skip-verify", GS_OPT_BOOL, AT(previous_insecure),
     .group = "Previous owner", .help = "Do not verify the certificate of the previous owner."},
    {"keda-listen-address", GS_OPT_STRING, AT(keda_listen), "ADDRESS", .group = "KEDA",
     .help = "Also serve KEDA's external scaler (gpuscale keda-scaler) on HOST:PORT, such as "
             ":9413. Default: not served."},
    {"keda-tls-cert-file", GS_OPT_STRING, AT(keda_cert_file), "FILE", .group = "KEDA",
     .help = "Its serving certificate (PEM). Read again when it changes. Default: no TLS."},
    {"keda-tls-private-key-file", GS_OPT_STRING, AT(keda_key_file), "FILE", .group = "KEDA",
     .help = "Key of this certificate."},
    {"keda-client-ca-file", GS_OPT_STRING, AT(keda_client_ca_file), "FILE", .group = "KEDA",
     .help = "CA of the certificates that clients of the scaler must have. Default: any client."},
    {"audit-policy-file", GS_OPT_STRING, AT(audit_policy), "FILE", .group = "Audit log",
     .help = "Policy of audit.k8s.io/v1: which requests are recorded, and in which detail."},
    {"audit-log-path", GS_OPT_STRING, AT(audit_path), "FILE", .group = "Audit log",
     .help = "File of audit events. -: standard output. Also needs the policy."},
    {"audit-log-maxage", GS_OPT_INT, AT(audit_max_age), "DAYS", "0", .max = 36500,
     .group = "Audit log", .help = "How many days old files are kept. 0: no limit."},
    {"audit-log-maxbackup", GS_OPT_INT, AT(audit_max_backup), "N", "0", .max = 100000,
     .group = "Audit log", .help = "How many old files are kept; 0: all."},
    {"audit-log-maxsize", GS_OPT_INT, AT(audit_max_size), "MB", "0", .max = 1000000,
     .group = "Audit log", .help = "Size in MB at which the file is rotated. 0: 100."},
    {"audit-log-mode", GS_OPT_STRING, AT(audit_mode), "MODE", "blocking", .group = "Audit log",
     .help = "blocking: write each event before its response. batch: write once a second."},
    {"audit-log-format", GS_OPT_STRING, AT(audit_format), "FORMAT", "json", .group = "Audit log",
     .help = "json."},
    {"audit-log-version", GS_OPT_STRING, AT(audit_version), "VERSION", "audit.k8s.io/v1",
     .group = "Audit log", .help = "audit.k8s.io/v1."},
    {"v", GS_OPT_INT, AT_OWN(v), "N", "0", .max = 100, .group = "Log",
     .help = "Verbosity as in prometheus-adapter. From 6 on, each query to Prometheus is logged."},
    IGNORED_VALUE(0, "client-qps", "Requests to the cluster are few and not throttled."),
    IGNORED_VALUE(1, "client-burst", "Requests to the cluster are few and not throttled."),
    IGNORED_VALUE(2, "tls-sni-cert-key", "All clients get the same certificate."),
    IGNORED_VALUE(3, "tls-cipher-suites", "TLS 1.2 and 1.3 with AES-GCM or ChaCha20-Poly1305."),
    IGNORED_VALUE(4, "tls-min-version", "TLS 1.2 and 1.3."),
    IGNORED_VALUE(5, "http2-max-streams-per-connection", "Only HTTP/1.1 is supported."),
    IGNORED_VALUE(6, "audit-webhook-config-file", "The audit log is a file."),
    IGNORED_VALUE(7, "audit-webhook-mode", "The audit log is a file."),
    IGNORED_VALUE(8, "audit-log-batch-buffer-size",
                  "In the mode batch lines are written each second."),
    IGNORED_VALUE(9, "audit-log-batch-max-size",
                  "In the mode batch lines are written each second."),
    IGNORED_VALUE(10, "audit-webhook-batch-buffer-size", "The audit log is a file."),
    IGNORED_VALUE(11, "audit-webhook-batch-max-size", "The audit log is a file."),
    IGNORED_VALUE(12, "audit-webhook-initial-backoff", "The audit log is a file."),
    IGNORED_VALUE(13, "vmodule", "There is one log level."),
    IGNORED_VALUE(14, "log-flush-frequency", "Lines are written at once."),
    IGNORED_VALUE(15, "debug-socket-path", "Profiling is not supported."),
    IGNORED_VALUE(16, "feature-gates", "There are no feature gates."),
    IGNORED_VALUE(17, "egress-selector-config-file", "Connections are always direct."),
    IGNORED_VALUE(18, "logging-format", "Use --log-format."),
    IGNORED_VALUE(19, "stderrthreshold", "All lines go to standard error."),
    IGNORED_VALUE(20, "log_dir", "All lines go to standard error."),
    IGNORED_VALUE(21, "log-dir", "All lines go to standard error."),
    IGNORED_BOOL(0, "disable-http2", "Only HTTP/1.1 is supported."),
    IGNORED_BOOL(1, "permit-port-sharing", "Ports are not shared."),
    IGNORED_BOOL(2, "permit-address-sharing", "Addresses are not shared."),
    IGNORED_BOOL(3, "profiling", "Profiling is not supported."),
    IGNORED_BOOL(4, "contention-profiling", "Profiling is not supported."),
    IGNORED_BOOL(5, "enable-priority-and-fairness", "Requests are not prioritized."),
    IGNORED_BOOL(6, "audit-log-compress", "Old files are not compressed."),
    IGNORED_BOOL(7, "audit-log-truncate-enabled", "Responses larger than 1 MiB are not recorded."),
    IGNORED_BOOL(8, "audit-webhook-truncate-enabled", "The audit log is a file."),
    IGNORED_BOOL(9, "logtostderr", "All lines go to standard error."),
    IGNORED_BOOL(10, "alsologtostderr", "All lines go to standard error."),
    IGNORED_BOOL(11, "skip-headers", "Accepted as klog's flag."),
    IGNORED_BOOL(12, "skip_headers", "Accepted as klog's flag."),
    IGNORED_BOOL(13, "add-dir-header", "Accepted as klog's flag."),
    {0},
};

static void warn_ignored(const struct adapter_flags *f)
{
    for (const struct gs_opt *o = option_rows; o->name; o++) {
        const void *at = (const char *)f + o->offset;
        if (!gs_streq(o->group, IGNORED))
            continue;
        bool given =
            o->type == GS_OPT_BOOL ? *(const bool *)at : ((const struct gs_opt_list *)at)->len > 0;
        if (given)
            gs_info("adapter", "--%s has no effect: %s", o->name, o->help);
    }
}

static struct gs_error *run_adapter(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct adapter_flags *f = opts;
    (void)argc, (void)argv, (void)ret_exit;
    if (f->v >= 6)
        gs_error_free(gs_log_configure_text("debug", "text"));
    warn_ignored(f);
    return adapter_serve(&f->o);
}

const struct gs_command cmd_adapter = {
    .name = "adapter",
    .main_flags =
        "config sources prometheus-url prometheus-token-file prometheus-ca-file "
        "engine-config gpu-metrics metrics-max-age lister-kubeconfig secure-port cert-dir "
        "tls-cert-file tls-private-key-file authentication-kubeconfig audit-log-path",
    .summary = "Serve the custom, external and resource metrics APIs of Kubernetes.",
    .description =
        "An aggregated API server for custom.metrics.k8s.io (v1beta1, v1beta2), "
        "external.metrics.k8s.io and metrics.k8s.io. It replaces prometheus-adapter, with the "
        "same flags, configuration and responses. Values come from a Prometheus-compatible "
        "server, or from the engine in this process, which scrapes the GPU exporters of the "
        "cluster.\n\nGPU series that no rule serves are served for pods, namespaces and "
        "nodes. For Deployments, StatefulSets, ReplicaSets, DaemonSets, Jobs and Services "
        "they are averaged over the pods; METRIC_MAX and METRIC_MIN are the largest and the "
        "smallest value.\n\nRules are independent: if the series of a rule cannot be listed, "
        "it keeps the series that it found last. /readyz succeeds if the source responds; "
        "/metrics has the state of each rule. The configuration and the certificates are read "
        "again when their files change, and on SIGHUP. If a configuration is wrong, the "
        "previous one stays in use.\n\n--previous-owner forwards requests that no rule serves "
        "to the previous server of an API group: another adapter, KEDA, or "
        "metrics-server.\n\ngpuscale check adapter FILE shows the effect of the rules of a "
        "file. gpuscale explain metric PATH explains one response.",
    .examples =
        "gpuscale adapter --config=/etc/adapter/config.yaml "
        "--prometheus-url=http://prometheus:9090 "
        "--secure-port=6443 --cert-dir=/tmp/cert\n"
        "gpuscale adapter --config=values.yaml --secure-port=6443 --lister-kubeconfig=kubeconfig "
        "--authentication-kubeconfig=kubeconfig --authorization-kubeconfig=kubeconfig\n"
        "gpuscale adapter "
        "--previous-owner=external.metrics.k8s.io=keda/keda-operator-metrics-apiserver "
        "--previous-owner-ca-file=/etc/keda/ca.crt --secure-port=6443 --cert-dir=/tmp/cert",
    .opts = option_rows,
    .opts_size = sizeof(struct adapter_flags),
    .max_args = 0,
    .run = run_adapter,
};
