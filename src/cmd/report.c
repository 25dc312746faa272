// SPDX-License-Identifier: Apache-2.0
// `gpuscale report`: who uses GPUs, and what it costs.
#include "report/report.h"
#include "cmd/commands.h"
#include "query/query.h"

#define AT(member) .offset = offsetof(struct report_options, member)

static const struct gs_opt opts[] = {
    {.name = "since",
     .arg = "TIME",
     .def = "7d",
     .type = GS_OPT_STRING,
     AT(since),
     .help = "Start: a duration before now such as 7d, a date such as 2026-01-02 (UTC), or a time "
             "(RFC 3339). Rounded down to a full hour."},
    {.name = "until",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     AT(until),
     .help = "End, in the same formats. Default: now."},
    {.name = "by",
     .arg = "LIST",
     .def = "namespace,workload",
     .type = GS_OPT_STRING,
     AT(by),
     .help = "What rows are grouped by: namespace, workload, owner, node, pool, machine, model, "
             "confidence, hour, day (UTC), or none."},
    {.name = "prices",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prices),
     .help = "Prices of GPUs and machines per hour, in the format of examples/replay/prices.yaml. "
             "Default: those of the engine."},
    {.name = "currency",
     .arg = "TEXT",
     .type = GS_OPT_STRING,
     AT(currency),
     .help = "Currency to print. Prices are not converted. Default: that of the prices."},
    {.name = "idle",
     .arg = "DURATION",
     .def = "1h",
     .type = GS_OPT_DURATION,
     AT(idle_ns),
     .help = "List allocated GPUs that have been idle for this long now."},
    {.name = "output",
     .alias = "o",
     .arg = "table|csv|json|html",
     .def = "table",
     .type = GS_OPT_STRING,
     AT(output),
     .help = "html is a page in one file."},

    {.name = "url",
     .alias = "u",
     .env = "GPUSCALE_URL",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(url),
     .group = "Source",
     .help = "Engine with a ledger, with its path prefix. gpuscale up prints the value of "
             "GPUSCALE_URL. Default: " QUERY_DEFAULT_URL "."},
    {.name = "file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(file),
     .group = "Source",
     .help = "Read this ledger (ledger.db in the directory of the engine or of gpuscale up) "
             "instead."},
    {.name = "prometheus",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(prometheus),
     .group = "Source",
     .help = "Calculate the report from the series of this Prometheus instead. No ledger is "
             "needed."},
    {.name = "step",
     .arg = "DURATION",
     .def = "0s",
     .type = GS_OPT_DURATION,
     AT(step_ns),
     .group = "Source",
     .help = "With --prometheus: the length of the intervals in which a GPU is busy or idle. "
             "Default: 1m for up to a day, otherwise 5m."},
    {.name = "owner-label",
     .arg = "LABEL",
     .def = "team",
     .type = GS_OPT_STRING,
     AT(owner_label),
     .group = "Source",
     .help = "With --prometheus: label of pods, otherwise of their namespaces, for --by owner."},
    {.name = "timeout",
     .arg = "DURATION",
     .def = "2m",
     .type = GS_OPT_DURATION,
     AT(timeout_ns),
     .group = "Source",
     .help = "How long to wait for each response."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(http_config_file),
     .group = "Source",
     .help = "TLS, users, tokens and proxy, in the format of promtool."},
    {.name = "header",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     AT(headers),
     .group = "Source",
     .help = "Header of the requests. Repeatable."},
    {.name = NULL},
};

static struct gs_error *run_report(const void *options, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return report_run(options);
}

const struct gs_command cmd_report = {
    .name = "report",
    .args = "",
    .summary = "Show who uses GPUs, which do nothing, and what that costs.",
    .description =
        "Prints the GPU hours of each namespace and workload: busy, idle (allocated to a pod, and "
        "less than 1 % used), free, stranded (no workload of the cluster fits on the node) and "
        "missing (no data, never counted as idle). The hours come from the ledger of an engine or "
        "of gpuscale up, which is kept for 400 days, or from the series of a Prometheus.",
    .examples = "gpuscale report\n"
                "gpuscale report --since 30d --by owner --prices prices.yaml\n"
                "gpuscale report --by day,pool -o csv > gpus.csv\n"
                "gpuscale report --prometheus http://prometheus:9090 --since 7d",
    .opts = opts,
    .opts_size = sizeof(struct report_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_report,
};
