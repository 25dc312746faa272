// SPDX-License-Identifier: Apache-2.0
// `gpuscale query`: queries an engine or a Prometheus, and formats expressions.
#include "query/query.h"
#include "cmd/commands.h"

#define AT(member) offsetof(struct query_options, member)

static const struct gs_opt opts[] = {
    {.name = "url",
     .alias = "u",
     .env = "GPUSCALE_URL",
     .arg = "URL",
     .type = GS_OPT_STRING,
     .offset = AT(url),
     .help = "URL of the engine or Prometheus, with its path prefix. gpuscale up prints the value "
             "of GPUSCALE_URL. Default: $PROMETHEUS_URL, otherwise " QUERY_DEFAULT_URL "."},
    {.name = "time",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(time),
     .help = "Evaluation time of an instant query: now, -1h (an hour ago), RFC 3339 or Unix "
             "seconds. Default: the server's current time."},
    {.name = "start",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(start),
     .help = "Start of the range. Default: 5 minutes before its end. With series and labels: only "
             "those with samples after this time."},
    {.name = "end",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(end),
     .help = "End of the range. Default: now. With series and labels: only those with samples "
             "before this time."},
    {.name = "step",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     .offset = AT(step),
     .help = "Step of the range. Default: 1/250 of the range, at least 1s."},
    {.name = "match",
     .arg = "SELECTOR",
     .type = GS_OPT_STRINGS,
     .offset = AT(match),
     .help = "With series and labels: only those of matching series. Repeatable."},
    {.name = "output",
     .alias = "o",
     .arg = "table|json|csv|promql",
     .def = "table",
     .type = GS_OPT_STRING,
     .offset = AT(output),
     .help = "json is the result of the API, promql the format of promtool."},
    {.name = "format",
     .type = GS_OPT_BOOL,
     .offset = AT(format),
     .help = "Offline mode: print the expression with line breaks, or its syntax error."},
    {.name = "timeout",
     .arg = "DURATION",
     .def = "2m",
     .type = GS_OPT_DURATION,
     .offset = AT(timeout_ns),
     .help = "How long to wait for the response."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = AT(http_config_file),
     .group = "Connection",
     .help = "TLS, users, tokens and proxy, in the format of promtool: basic_auth, authorization, "
             "tls_config, proxy_url, …"},
    {.name = "header",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     .offset = AT(headers),
     .group = "Connection",
     .help = "Header of the request. Repeatable."},
    {.name = NULL},
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
