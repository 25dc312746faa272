// SPDX-License-Identifier: Apache-2.0
// `gpuscale top`: GPUs, pods and processes in the terminal.
#include "top/top.h"
#include "cmd/commands.h"

#define AT(member) offsetof(struct top_options, member)

static const struct gs_opt opts[] = {
    {"url", GS_OPT_STRING, AT(url), "URL", .alias = "u", .group = "Source",
     .help = "URL of an engine or Prometheus, with its path prefix. Default: $GPUSCALE_URL, "
             "$PROMETHEUS_URL, the URL in the kubeconfig of gpuscale up, the GPUs of this machine, "
             "the cluster, http://localhost:9090."},
    {"exporter", GS_OPT_STRING, AT(exporter), "URL", .group = "Source",
     .help = "Address of an exporter: HOST:PORT or a URL. Without a path: /metrics."},
    {"nvml", GS_OPT_BOOL, AT(nvml), .group = "Source",
     .help = "The GPUs of this machine, read through NVML."},
    {"cluster", GS_OPT_BOOL, AT(cluster), .group = "Source",
     .help = "The pods with GPUs of the kubeconfig's cluster, with the values of its custom "
             "metrics API."},
    {"kubeconfig", GS_OPT_STRING, AT(kubeconfig), "FILE", .group = "Source",
     .help = "The same for the cluster of this file. Default: KUBECONFIG, the cluster in which "
             "gpuscale runs, or ~/.kube/config."},
    {"context", GS_OPT_STRING, AT(context), "NAME", .group = "Source",
     .help = "Context of the kubeconfig. Default: the current context."},
    {"namespace", GS_OPT_STRING, AT(ns), "NAMESPACE", .alias = "n", .group = "Source",
     .help = "Only this namespace of the cluster. Default: all namespaces."},
    {"nvml-library", GS_OPT_STRING, AT(nvml_library), "PATH", .env = "GPUSCALE_NVML_LIBRARY",
     .group = "Source",
     .help = "Path of the driver's libnvidia-ml.so.1. Default: the paths of drivers and container "
             "toolkits."},
    {"http.config.file", GS_OPT_STRING, AT(http_config_file), "FILE", .group = "Source",
     .help = "TLS, users, tokens and proxy, in the format of promtool: basic_auth, authorization, "
             "tls_config, proxy_url, …"},
    {"header", GS_OPT_STRINGS, AT(headers), "NAME=VALUE", .group = "Source",
     .help = "Header of the requests. Repeatable."},
    {"timeout", GS_OPT_DURATION, AT(timeout_ns), "DURATION", "10s", .group = "Source",
     .help = "How long to wait for a response."},
    {"interval", GS_OPT_DURATION, AT(interval_ns), "DURATION", "2s", .alias = "i",
     .help = "Interval between refreshes, and of one column of the history."},
    {"sort", GS_OPT_STRING, AT(sort), "COLUMN",
     .help = "Sort by this column: util, memory, temp, power, age, pods, … Default: by node and "
             "index, or by name."},
    {"filter", GS_OPT_STRING, AT(filter), "TEXT",
     .help = "Only rows that contain every word of the text."},
    {"once", GS_OPT_BOOL, AT(once),
     .help = "Print the values once as tables. Default if stdin or stdout is not a terminal."},
    {"output", GS_OPT_STRING, AT(output), "table|json", "table", .alias = "o",
     .help = "json prints the values once. A value that is not available is null."},
    {0},
};

const struct gs_command cmd_top = {
    .name = "top",
    .args = "",
    .summary = "Show GPUs, pods and processes live in the terminal.",
    .description =
        "Shows the utilization, memory, temperature and power of GPUs with a line of their "
        "history, the pods that use them, and processes. The values come from this machine, from "
        "an exporter, from an engine or Prometheus, such as that of gpuscale up or of a cluster, "
        "or "
        "from the metrics API of a cluster. Press ? for the keys and q to quit.\n\nA value that "
        "the source does not have is "
        "shown as -, and old values as stale. If the source does not respond, the last values "
        "stay on the screen with their age, and requests are repeated.",
    .examples = "gpuscale top\n"
                "gpuscale top --url=http://localhost:9090 --sort=util\n"
                "gpuscale top --exporter=gpu-node-1:9400\n"
                "gpuscale top --cluster --namespace=ml\n"
                "gpuscale top --once --filter=training\n"
                "gpuscale top -o json | jq '.gpus[] | {node, index, utilizationPercent}'",
    .opts = opts,
    .opts_size = sizeof(struct top_options),
    .min_args = 0,
    .max_args = 0,
    .run = top_run,
};
