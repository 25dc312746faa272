// SPDX-License-Identifier: Apache-2.0
// `gpuscale query`: queries an engine or a Prometheus, and formats expressions.
#include "query/query.h"
#include "cmd/verbs.h"

#define AT(member) offsetof(struct query_options, member)

static const struct gs_opt opts[] = {
    {.name = "url",
     .alias = "u",
     .env = "GPUSCALE_URL",
     .arg = "URL",
     .type = GS_OPT_STRING,
     .offset = AT(url),
     .help = "The engine or Prometheus to query, with its path prefix. gpuscale up prints the "
             "value for GPUSCALE_URL. Without both: $PROMETHEUS_URL, else " QUERY_DEFAULT_URL "."},
    {.name = "time",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(time),
     .help = "Of an instant query: now, -1h (an hour ago), RFC 3339 or Unix seconds. Default: the "
             "server's now."},
    {.name = "start",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(start),
     .help = "Start of the range; default: 5 minutes before its end. Of series and labels: only "
             "those with samples after it."},
    {.name = "end",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     .offset = AT(end),
     .help = "End of the range; default: now. Of series and labels: only those with samples before "
             "it."},
    {.name = "step",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     .offset = AT(step),
     .help = "Step of the range; default: a 250th of it, at least 1s."},
    {.name = "match",
     .arg = "SELECTOR",
     .type = GS_OPT_STRINGS,
     .offset = AT(match),
     .help = "For series and labels: of the series that it selects. Repeatable."},
    {.name = "output",
     .alias = "o",
     .arg = "FORMAT",
     .def = "table",
     .type = GS_OPT_STRING,
     .offset = AT(output),
     .help = "table, json (the result as the API gives it), csv, or promql (promtool's text)."},
    {.name = "format",
     .type = GS_OPT_BOOL,
     .offset = AT(format),
     .help = "Ask nobody: print the expression with line breaks, or what is wrong with it."},
    {.name = "timeout",
     .arg = "DURATION",
     .def = "2m",
     .type = GS_OPT_DURATION,
     .offset = AT(timeout_ns),
     .help = "How long to wait for the answer."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     .offset = AT(http_config_file),
     .group = "Connection",
     .help = "TLS, users, tokens and proxy, in the format that promtool reads: basic_auth, "
             "authorization, tls_config, proxy_url, …"},
    {.name = "header",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     .offset = AT(headers),
     .group = "Connection",
     .help = "Sent with the request. Repeatable."},
    {.name = NULL},
};

const struct gs_verb verb_query = {
    .name = "query",
    .args = "[instant|range|series|labels|metadata] [ARG]…",
    .summary = "Ask a metrics engine or Prometheus.",
    .description =
        "EXPR: its value now or at --time; with --start, --end or --step, over a range. - reads "
        "the expression from standard input; -- goes before one that begins with -.\n\n"
        "series SELECTOR…: the series. labels: the names of labels; labels NAME: its values. "
        "metadata [METRIC]: types and help texts.\n\n"
        "Warnings and infos about a query go to stderr. Exits with 2 when the expression or the "
        "command is wrong, and with 1 when the server cannot be asked or fails.",
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
