// SPDX-License-Identifier: Apache-2.0
// `gpuscale top`: GPUs, pods and processes in the terminal.
#include "top/top.h"
#include "cmd/commands.h"

#define AT(member) offsetof(struct top_options, member)

static const struct gs_opt opts[] = {
    {.name = "url",
     .alias = "u",
     .arg = "URL",
     .type = GS_OPT_STRING,
     .offset = AT(url),
     .group = "Source",
     .help = "URL of an engine or Prometheus, with its path prefix. Default: $GPUSCALE_URL, "
             "$PROMETHEUS_URL, the GPUs of this machine, the cluster, http://localhost:9090."},
    {.name = "exporter",
     .arg = "URL",
     .type = GS_OPT_STRING,
     .offset = AT(exporter),
     .group = "Source",
     .help = "Address of an exporter: HOST:PORT or a URL. Without a path: /metrics."},
    {.name = "nvml",
     .type = GS_OPT_BOOL,
     .offset = AT(nvml),
     .group = "Source",
     .help = "The GPUs of this machine, read through NVML."},
    {.name = "cluster",
     .type = GS_OPT_BOOL,
     .offset = AT(cluster),
     .group = "Source",
     .help =
         "The pods with GPUs of the kubeconfig's cluster, with the values of its custom metrics "
         "API."},
    {.name = "kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = AT(kubeconfig),
     .group = "Source",
     .help = "The same for the cluster of this file. Default: KUBECONFIG, the cluster in which "
             "gpuscale runs, or ~/.kube/config."},
    {.name = "context",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     .offset = AT(context),
     .group = "Source",
     .help = "Context of the kubeconfig. Default: the current context."},
    {.name = "namespace",
     .alias = "n",
     .arg = "NAMESPACE",
     .type = GS_OPT_STRING,
     .offset = AT(ns),
     .group = "Source",
     .help = "Only this namespace of the cluster. Default: all namespaces."},
    {.name = "nvml-library",
     .env = "GPUSCALE_NVML_LIBRARY",
     .arg = "PATH",
     .type = GS_OPT_STRING,
     .offset = AT(nvml_library),
     .group = "Source",
     .help = "Path of the driver's libnvidia-ml.so.1. Default: the paths of drivers and container "
             "toolkits."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = AT(http_config_file),
     .group = "Source",
     .help = "TLS, users, tokens and proxy, in the format of promtool: basic_auth, authorization, "
             "tls_config, proxy_url, …"},
    {.name = "header",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     .offset = AT(headers),
     .group = "Source",
     .help = "Header of the requests. Repeatable."},
    {.name = "timeout",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     .offset = AT(timeout_ns),
     .group = "Source",
     .help = "How long to wait for a response."},
    {.name = "interval",
     .alias = "i",
     .arg = "DURATION",
     .def = "2s",
     .type = GS_OPT_DURATION,
     .offset = AT(interval_ns),
     .help = "Interval between refreshes, and of one column of the history."},
    {.name = "sort",
     .arg = "COLUMN",
     .type = GS_OPT_STRING,
     .offset = AT(sort),
     .help = "Sort by this column: util, memory, temp, power, age, pods, … Default: by node and "
             "index, or by name."},
    {.name = "filter",
     .arg = "TEXT",
     .type = GS_OPT_STRING,
     .offset = AT(filter),
     .help = "Only rows that contain every word of the text."},
    {.name = "once",
     .type = GS_OPT_BOOL,
     .offset = AT(once),
     .help = "Print the values once as tables. Default if stdin or stdout is not a terminal."},
    {.name = "output",
     .alias = "o",
     .arg = "table|json",
     .def = "table",
     .type = GS_OPT_STRING,
     .offset = AT(output),
     .help = "json prints the values once. A value that is not available is null."},
    {.name = NULL},
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
