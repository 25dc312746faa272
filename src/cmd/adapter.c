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
    {                                                                                              \
        .name = flag, .arg = "VALUE", .type = GS_OPT_STRINGS, AT_OWN(ignored_values[i]),           \
        .group = IGNORED, .help = why                                                              \
    }
#define IGNORED_BOOL(i, flag, why)                                                                 \
    {                                                                                              \
        .name = flag, .type = GS_OPT_BOOL, AT_OWN(ignored_bools[i]), .group = IGNORED, .help = why \
    }

static const struct gs_opt option_rows[] = {
    {.name = "config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(config),
     .help = "Rules: a configuration of prometheus-adapter, values of its Helm chart, or a "
             "manifest with a ConfigMap of either. Read again when it changes; if it is wrong, the "
             "previous one stays in use. Default: GPU metrics only."},
    {.name = "sources",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(sources),
     .help = "Additional servers, and the rules that use them (docs/adapter.md). Read again like "
             "the configuration, which may also contain them."},
    {.name = "prometheus-url",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(prometheus_url),
     .group = "Prometheus",
     .help = "URL of the server. It may have a path and user:password@ for basic authentication. "
             "Default: prometheus.url of Helm values, otherwise the engine in this process."},
    {.name = "prometheus-verb",
     .arg = "VERB",
     .def = "GET",
     .type = GS_OPT_STRING,
     AT(prometheus_verb),
     .group = "Prometheus",
     .help = "GET or POST. Long queries always use POST."},
    {.name = "prometheus-header",
     .arg = "KEY=VALUE",
     .type = GS_OPT_STRINGS,
     AT(prometheus_headers),
     .group = "Prometheus",
     .help = "Header of each request to Prometheus, Key=Value. Repeatable."},
    {.name = "prometheus-ca-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prometheus_ca_file),
     .group = "Prometheus",
     .help = "CA certificates (PEM) that Prometheus is verified against."},
    {.name = "prometheus-client-tls-cert-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prometheus_cert_file),
     .group = "Prometheus",
     .help = "Client certificate for Prometheus."},
    {.name = "prometheus-client-tls-key-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prometheus_key_file),
     .group = "Prometheus",
     .help = "Key of the client certificate for Prometheus."},
    {.name = "prometheus-token-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prometheus_token_file),
     .group = "Prometheus",
     .help = "Bearer token for Prometheus. Read again every 10 s."},
    {.name = "prometheus-auth-incluster",
     .type = GS_OPT_BOOL,
     AT(prometheus_auth_incluster),
     .group = "Prometheus",
     .help = "Use the service account's token and CA for Prometheus."},
    {.name = "prometheus-auth-config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prometheus_auth_config),
     .group = "Prometheus",
     .help = "kubeconfig with the credentials for Prometheus."},
    {.name = "prometheus-insecure-skip-verify",
     .type = GS_OPT_BOOL,
     AT(prometheus_insecure),
     .group = "Prometheus",
     .help = "Do not verify Prometheus' certificate."},
    {.name = "metrics-relist-interval",
     .arg = "DURATION",
     .type = GS_OPT_DURATION,
     .min = GS_NS_PER_SEC / 10,
     AT(relist_ns),
     .group = "Prometheus",
     .help = "How often the series of the rules are listed. Default: metricsRelistInterval of Helm "
             "values, otherwise 10m."},
    {.name = "metrics-max-age",
     .arg = "DURATION",
     .type = GS_OPT_DURATION,
     AT(max_age_ns),
     .group = "Prometheus",
     .help = "Maximum age of a series' newest sample to be listed. Default: the relist interval; "
             "5m for the engine in this process."},
    {.name = "value-max-age",
     .arg = "DURATION",
     .def = "1s",
     .type = GS_OPT_DURATION,
     AT(value_age_ns),
     .group = "Prometheus",
     .help = "How long the result of a query is reused for equal queries. 0: only for queries at "
             "the same time."},
    {.name = "sample-times",
     .arg = "WHEN",
     .def = "auto",
     .type = GS_OPT_STRING,
     AT(sample_times),
     .group = "Prometheus",
     .help = "Whether the timestamp of a value is that of its samples, which makes queries more "
             "expensive. always; never: the time of the query; auto: for the engine in this "
             "process, and for other servers up to 100 objects at a time."},
    {.name = "engine-config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(engine_config),
     .group = "Engine in this process",
     .help = "prometheus.yml of the engine. Default: scrape all gpuscale and dcgm exporters of the "
             "cluster each second."},
    {.name = "engine-retention",
     .arg = "DURATION",
     .def = "15m",
     .type = GS_OPT_DURATION,
     AT(engine_retention_ns),
     .group = "Engine in this process",
     .help = "How long samples are kept."},
    {.name = "gpu-metrics",
     .def = "true",
     .type = GS_OPT_BOOL,
     AT(gpu_metrics),
     .group = "Engine in this process",
     .help = "Serve GPU series that no rule serves, for pods, namespaces and nodes, and averaged "
             "for workloads."},
    {.name = "lister-kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(lister_kubeconfig),
     .group = "Cluster",
     .help = "kubeconfig for discovery and lists of objects. Default: the service account."},
    {.name = "discovery-interval",
     .arg = "DURATION",
     .def = "0s",
     .type = GS_OPT_DURATION,
     AT(discovery_interval_ns),
     .group = "Cluster",
     .help = "How often the resources of the cluster are listed. 0: every 5 minutes."},
    {.name = "secure-port",
     .arg = "PORT",
     .def = "443",
     .type = GS_OPT_INT,
     AT(secure_port),
     .max = 65535,
     .group = "Serving",
     .help = "Port. 0: any free port."},
    {.name = "bind-address",
     .arg = "ADDRESS",
     .def = "0.0.0.0",
     .type = GS_OPT_STRING,
     AT(bind_address),
     .group = "Serving",
     .help = "Address to listen on."},
    {.name = "cert-dir",
     .arg = "FOLDER",
     .def = "apiserver.local.config/certificates",
     .type = GS_OPT_STRING,
     AT(cert_dir),
     .group = "Serving",
     .help =
         "Directory of apiserver.crt and apiserver.key, which are created if they do not exist."},
    {.name = "tls-cert-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(tls_cert_file),
     .group = "Serving",
     .help = "Serving certificate with its chain (PEM). Read again when it changes."},
    {.name = "tls-private-key-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(tls_key_file),
     .group = "Serving",
     .help = "Key of the serving certificate."},
    {.name = "tls-service",
     .arg = "NAMESPACE/SERVICE",
     .type = GS_OPT_STRING,
     AT(tls_service),
     .group = "Serving",
     .help = "Service that the APIServices name. The adapter keeps its certificate in the Secret "
             "SERVICE-tls of that namespace, renews it one month before it expires, and writes its "
             "CA to the caBundle of these APIServices. Works with any number of replicas."},
    {.name = "max-connections",
     .arg = "N",
     .def = "4096",
     .type = GS_OPT_INT,
     AT(max_connections),
     .min = 1,
     .max = 65536,
     .group = "Serving",
     .help = "Maximum number of connections. If all are in use, the connection that is idle "
             "longest is closed."},
    {.name = "shutdown-delay-duration",
     .arg = "DURATION",
     .def = "0s",
     .type = GS_OPT_DURATION,
     AT(shutdown_delay_ns),
     .group = "Serving",
     .help = "Time between SIGTERM and the end of the server. During this time /readyz fails and "
             "requests are served, so that clients can switch to other replicas. A second signal "
             "ends it."},
    {.name = "authentication-kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(authn_kubeconfig),
     .group = "Authentication",
     .help = "kubeconfig for TokenReviews and the ConfigMap extension-apiserver-authentication. "
             "Default: the service account."},
    {.name = "authentication-skip-lookup",
     .type = GS_OPT_BOOL,
     AT(skip_lookup),
     .group = "Authentication",
     .help = "Do not read the ConfigMap extension-apiserver-authentication."},
    {.name = "authentication-tolerate-lookup-failure",
     .type = GS_OPT_BOOL,
     AT(tolerate_lookup_failure),
     .group = "Authentication",
     .help = "Continue if this ConfigMap cannot be read."},
    {.name = "authentication-token-webhook-cache-ttl",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     AT(token_ttl_ns),
     .group = "Authentication",
     .help = "How long the result of a TokenReview is cached."},
    {.name = "client-ca-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(client_ca_file),
     .group = "Authentication",
     .help = "CA of client certificates (CN: user, O: groups). Default: the CA in the ConfigMap."},
    {.name = "requestheader-client-ca-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(requestheader_ca_file),
     .group = "Authentication",
     .help = "CA of the front proxy. Default of this and the next four flags: the values in the "
             "ConfigMap."},
    {.name = "requestheader-allowed-names",
     .arg = "NAMES",
     .type = GS_OPT_STRINGS,
     AT(allowed_names),
     .group = "Authentication",
     .help = "Allowed common names of the front proxy. Empty: any."},
    {.name = "requestheader-username-headers",
     .arg = "HEADERS",
     .type = GS_OPT_STRINGS,
     AT(username_headers),
     .group = "Authentication",
     .help = "Headers with the user name. Default: x-remote-user."},
    {.name = "requestheader-group-headers",
     .arg = "HEADERS",
     .type = GS_OPT_STRINGS,
     AT(group_headers),
     .group = "Authentication",
     .help = "Headers with groups. Default: x-remote-group."},
    {.name = "requestheader-extra-headers-prefix",
     .arg = "PREFIXES",
     .type = GS_OPT_STRINGS,
     AT(extra_prefixes),
     .group = "Authentication",
     .help = "Prefixes of headers with extra information. Default: x-remote-extra-."},
    {.name = "authorization-kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(authz_kubeconfig),
     .group = "Authorization",
     .help = "kubeconfig for SubjectAccessReviews. Default: the service account."},
    {.name = "authorization-always-allow-paths",
     .arg = "PATHS",
     .type = GS_OPT_STRINGS,
     AT(always_allow_paths),
     .group = "Authorization",
     .help = "Paths that need no authorization. A * at the end matches all paths with this prefix. "
             "Default: /healthz,/readyz,/livez."},
    {.name = "authorization-webhook-cache-authorized-ttl",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     AT(allowed_ttl_ns),
     .group = "Authorization",
     .help = "How long an allowed request is cached."},
    {.name = "authorization-webhook-cache-unauthorized-ttl",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     AT(denied_ttl_ns),
     .group = "Authorization",
     .help = "How long a denied request is cached."},
    {.name = "previous-owner",
     .arg = "[GROUP=]TARGET",
     .type = GS_OPT_STRINGS,
     AT(previous_owners),
     .group = "Previous owner",
     .help = "Previous server of an API group, which continues to serve what no rule serves: "
             "https://HOST[:PORT] or NAMESPACE/SERVICE[:PORT]. Without GROUP: "
             "custom.metrics.k8s.io and external.metrics.k8s.io. Repeatable."},
    {.name = "previous-owner-ca-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(previous_ca_file),
     .group = "Previous owner",
     .help = "CA certificates (PEM) that the previous owner is verified against."},
    {.name = "previous-owner-token-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(previous_token_file),
     .group = "Previous owner",
     .help = "Bearer token for the previous owner. Default: the service account's, if no client "
             "certificate is set."},
    {.name = "previous-owner-client-cert-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(previous_cert_file),
     .group = "Previous owner",
     .help = "Client certificate for the previous owner."},
    {.name = "previous-owner-client-key-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(previous_key_file),
     .group = "Previous owner",
     .help = "Key of this certificate."},
    {.name = "previous-owner-front-proxy",
     .type = GS_OPT_BOOL,
     AT(previous_front_proxy),
     .group = "Previous owner",
     .help = "The client certificate is that of a front proxy: pass the user of the request in "
             "X-Remote-User and related headers."},
    {.name = "previous-owner-insecure-skip-verify",
     .type = GS_OPT_BOOL,
     AT(previous_insecure),
     .group = "Previous owner",
     .help = "Do not verify the certificate of the previous owner."},
    {.name = "audit-policy-file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(audit_policy),
     .group = "Audit log",
     .help = "Policy of audit.k8s.io/v1: which requests are recorded, and in which detail."},
    {.name = "audit-log-path",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(audit_path),
     .group = "Audit log",
     .help = "File of audit events. -: standard output. Also needs the policy."},
    {.name = "audit-log-maxage",
     .arg = "DAYS",
     .def = "0",
     .type = GS_OPT_INT,
     AT(audit_max_age),
     .max = 36500,
     .group = "Audit log",
     .help = "How many days old files are kept. 0: no limit."},
    {.name = "audit-log-maxbackup",
     .arg = "N",
     .def = "0",
     .type = GS_OPT_INT,
     AT(audit_max_backup),
     .max = 100000,
     .group = "Audit log",
     .help = "How many old files are kept; 0: all."},
    {.name = "audit-log-maxsize",
     .arg = "MB",
     .def = "0",
     .type = GS_OPT_INT,
     AT(audit_max_size),
     .max = 1000000,
     .group = "Audit log",
     .help = "Size in MB at which the file is rotated. 0: 100."},
    {.name = "audit-log-mode",
     .arg = "MODE",
     .def = "blocking",
     .type = GS_OPT_STRING,
     AT(audit_mode),
     .group = "Audit log",
     .help = "blocking: write each event before its response. batch: write once a second."},
    {.name = "audit-log-format",
     .arg = "FORMAT",
     .def = "json",
     .type = GS_OPT_STRING,
     AT(audit_format),
     .group = "Audit log",
     .help = "json."},
    {.name = "audit-log-version",
     .arg = "VERSION",
     .def = "audit.k8s.io/v1",
     .type = GS_OPT_STRING,
     AT(audit_version),
     .group = "Audit log",
     .help = "audit.k8s.io/v1."},
    {.name = "v",
     .arg = "N",
     .def = "0",
     .type = GS_OPT_INT,
     AT_OWN(v),
     .max = 100,
     .group = "Log",
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
