// SPDX-License-Identifier: Apache-2.0
// `gpuscale query`: queries an engine or a Prometheus, and formats expressions.
#include "query/query.h"
#include "cmd/commands.h"
#include "kube/engine_url.h"

#define AT(member) offsetof(struct query_options, member)

static const struct gs_opt opts[] = {
    {"url", GS_OPT_STRING, AT(url), "URL", .alias = "u", .env = "GPUSCALE_URL",
     .help =
         "URL of the engine or Prometheus, with its path prefix. Default: $PROMETHEUS_URL, then "
         "the URL in the kubeconfig of gpuscale up, then " KUBE_ENGINE_DEFAULT_URL "."},
    {"time", GS_OPT_STRING, AT(time), "TIME",
     .help = "Evaluation time of an instant query: now, -1h (an hour ago), RFC 3339 or Unix "
             "seconds. Default: the server's current time."},
    {"start", GS_OPT_STRING, AT(start), "TIME",
     .help = "Start of the range. Default: 5 minutes before its end. With series and labels: only "
             "those with samples after this time."},
    {"end", GS_OPT_STRING, AT(end), "TIME",
     .help = "End of the range. Default: now. With series and labels: only those with samples "
             "before this time."},
    {"step", GS_OPT_STRING, AT(step), "DURATION",
     .help = "Step of the range. Default: 1/250 of the range, at least 1s."},
    {"match", GS_OPT_STRINGS, AT(match), "SELECTOR",
     .help = "With series and labels: only those of matching series. Repeatable."},
    {"output", GS_OPT_STRING, AT(output), "table|json|csv|promql", "table", .alias = "o",
     .help = "json is the result of the API, promql the format of promtool."},
    {"format", GS_OPT_BOOL, AT(format),
     .help = "Offline mode: print the expression with line breaks, or its syntax error."},
    {"timeout", GS_OPT_DURATION, AT(timeout_ns), "DURATION", "2m",
     .help = "How long to wait for the response."},
    {"http.config.file", GS_OPT_STRING, AT(http_config_file), "FILE", .group = "Connection",
     .help = "TLS, users, tokens and proxy, in the format of promtool: basic_auth, authorization, "
             "tls_config, proxy_url, …"},
    {"header", GS_OPT_STRINGS, AT(headers), "NAME=VALUE", .group = "Connection",
     .help = "Header of the request. Repeatable."},
    {0},
};

const struct gs_command cmd_query = {
    .name = "query",
    .args = "[instant|range|series|labels|metadata] [ARG]…",
    .summary = "Query a metrics engine or Prometheus.",
    .description =
        "EXPR: evaluates an expression now or at --time, or over a range with --start, --end "
        "or --step. - reads the expression from standard input. Put -- before an expression "
        "that begins with -.\n\nseries SELECTOR…: prints series. labels: prints label names. "
        "labels NAME: prints the values of a label. metadata [METRIC]: prints types and help "
        "texts.\n\nWarnings and infos about a query are written to stderr. The exit code is 2 "
        "if the expression or the command line is wrong, and 1 if the server is unreachable "
        "or returns an error.",
    .examples = "gpuscale query 'avg by (pod) (DCGM_FI_DEV_GPU_UTIL)'\n"
                "gpuscale query 'sum(DCGM_FI_DEV_POWER_USAGE)' --start=-1h --step=1m -o csv\n"
                "gpuscale query labels pod --match=DCGM_FI_DEV_GPU_UTIL\n"
                "gpuscale query --url=https://prometheus.example --http.config.file=auth.yml up\n"
                "gpuscale query --format 'sum by(pod)(rate(x[5m]))/on(pod)y'",
    .opts = opts,
    .opts_size = sizeof(struct query_options),
    .min_args = 1,
    .max_args = -1,
    .run = query_run,
};
