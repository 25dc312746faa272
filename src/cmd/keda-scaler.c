// SPDX-License-Identifier: Apache-2.0
// `gpuscale keda-scaler`: the flags.
#include "adapter/adapter.h"

#include "base/clock.h"
#include "cmd/commands.h"

#define AT(field)  .offset = offsetof(struct adapter_options, field)
#define PROMETHEUS .group = "Prometheus"
#define ENGINE     .group = "Engine in this process"
#define TLS        .group = "TLS"

static const struct gs_opt opts[] = {
    {"grpc-listen-address", GS_OPT_STRING, AT(keda_listen), "ADDRESS", ":9413",
     .help = "HOST:PORT for KEDA (scalerAddress of triggers)."},
    {"web.listen-address", GS_OPT_STRING, AT(web_listen), "ADDRESS", ":9414",
     .help = "HOST:PORT of /metrics, /healthz and /readyz. Empty: no server."},
    {"config", GS_OPT_STRING, AT(config), "FILE",
     .help = "Rules for further signals, as --config of gpuscale adapter. Read again when it "
             "changes."},
    {"kubeconfig", GS_OPT_STRING, AT(lister_kubeconfig), "FILE",
     .help = "The cluster, for pods of workloads. Default: the service account."},
    {"gpu-metrics", GS_OPT_BOOL, AT(gpu_metrics), .def = "true",
     .help = "Serve the series of GPU exporters, of the activator and of latency targets."},
    {"pod-series", GS_OPT_BOOL, AT(pod_series), .def = "true",
     .help = "Serve each series with the labels namespace and pod, such as signals of inference "
             "engines."},
    {"dcgm-aliases", GS_OPT_BOOL, AT(dcgm_aliases), .def = "true",
     .help = "A name of a GPU metric that dcgm-exporter 4.9 changed also reads the series of the "
             "other name."},
    {"tls-cert-file", GS_OPT_STRING, AT(keda_cert_file), "FILE", TLS,
     .help = "Serving certificate (PEM), read again when it changes. Default: no TLS."},
    {"tls-private-key-file", GS_OPT_STRING, AT(keda_key_file), "FILE", TLS,
     .help = "Key of the certificate."},
    {"client-ca-file", GS_OPT_STRING, AT(keda_client_ca_file), "FILE", TLS,
     .help = "CA of the certificates that clients must have. Default: any client may call."},
    {"prometheus-url", GS_OPT_STRING, AT(prometheus_url), "URL", PROMETHEUS,
     .help = "URL of the server with the series. Default: the engine in this process, which alone "
             "pushes changes."},
    {"prometheus-token-file", GS_OPT_STRING, AT(prometheus_token_file), "FILE", PROMETHEUS,
     .help = "Bearer token. Read again every 10 s."},
    {"prometheus-ca-file", GS_OPT_STRING, AT(prometheus_ca_file), "FILE", PROMETHEUS,
     .help = "CA certificates (PEM) that the server is verified against."},
    {"prometheus-header", GS_OPT_STRINGS, AT(prometheus_headers), "KEY=VALUE", PROMETHEUS,
     .help = "Header of each request, Key=Value. Repeatable."},
    {"value-max-age", GS_OPT_DURATION, AT(value_age_ns), "DURATION", "1s", PROMETHEUS,
     .help = "How long the result of a query is reused for equal queries."},
    {"engine-config", GS_OPT_STRING, AT(engine_config), "FILE", ENGINE,
     .help = "prometheus.yml of the engine. Default: scrape all gpuscale and dcgm exporters of the "
             "cluster each second."},
    {"engine-kube-inference", GS_OPT_BOOL, AT(engine_inference), ENGINE,
     .help = "Also scrape inference engines (vLLM, SGLang and others) on pods with a GPU."},
    {"engine-kube-annotations", GS_OPT_BOOL, AT(engine_annotations), ENGINE,
     .help = "Also scrape pods with the annotation prometheus.io/scrape, such as activators."},
    {"engine-retention", GS_OPT_DURATION, AT(engine_retention_ns), "DURATION", "15m", ENGINE,
     .help = "How long samples are kept."},
    {0},
};

static struct gs_error *run_keda_scaler(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return adapter_serve_keda(values);
}

const struct gs_command cmd_keda_scaler = {
    .name = "keda-scaler",
    .summary = "Serve GPU metrics, inference signals and queues to KEDA (its external scaler).",
    .description =
        "KEDA's triggers external and external-push call it over gRPC. The metadata of a trigger "
        "names a metric (signal) and an object, without a query; the value is the one that "
        "gpuscale "
        "adapter serves for them. A value that is absent is an error with the reason, so that KEDA "
        "keeps the replicas or uses its fallback: it is never 0.\n\nWith the engine in this "
        "process, a change of activity is pushed after the scrape that shows it. gpuscale adapter "
        "--keda-listen-address serves the same beside the metrics APIs.",
    .examples =
        "gpuscale keda-scaler --kubeconfig=kubeconfig --engine-kube-annotations\n"
        "gpuscale keda-scaler --prometheus-url=http://prometheus:9090 --tls-cert-file=tls.crt "
        "--tls-private-key-file=tls.key --client-ca-file=ca.crt",
    .opts = opts,
    .opts_size = sizeof(struct adapter_options),
    .max_args = 0,
    .run = run_keda_scaler,
};
