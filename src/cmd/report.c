// SPDX-License-Identifier: Apache-2.0
// `gpuscale report`: who uses GPUs, and what it costs.
#include "report/report.h"
#include "cmd/commands.h"
#include "kube/engine_url.h"

#define AT(member) .offset = offsetof(struct report_options, member)

static const struct gs_opt opts[] = {
    {"since", GS_OPT_STRING, AT(since), "TIME", "7d",
     .help = "Start: a duration before now such as 7d, a date such as 2026-01-02 (UTC), or a time "
             "(RFC 3339). Rounded down to a full hour."},
    {"until", GS_OPT_STRING, AT(until), "TIME", .help = "End, in the same formats. Default: now."},
    {"by", GS_OPT_STRING, AT(by), "LIST", "namespace,workload",
     .help = "What rows are grouped by: namespace, workload, owner, node, pool, machine, model, "
             "confidence, hour, day (UTC), or none."},
    {"prices", GS_OPT_STRING, AT(prices), "FILE",
     .help = "Prices of GPUs and machines per hour, in the format of examples/replay/prices.yaml. "
             "Default: those of the engine."},
    {"currency", GS_OPT_STRING, AT(currency), "TEXT",
     .help = "Currency to print. Prices are not converted. Default: that of the prices."},
    {"idle", GS_OPT_DURATION, AT(idle_ns), "DURATION", "1h",
     .help = "List allocated GPUs that have been idle for this long now."},
    {"output", GS_OPT_STRING, AT(output), "table|csv|json|html", "table", .alias = "o",
     .help = "html is a page in one file."},
    {"budgets", GS_OPT_BOOL, AT(budgets),
     .help = "With --output=csv: the GPU budgets instead of the GPU hours."},

    {"url", GS_OPT_STRING, AT(url), "URL", .alias = "u", .env = "GPUSCALE_URL", .group = "Source",
     .help =
         "Engine with a ledger, with its path prefix. Default: $PROMETHEUS_URL, then the URL in "
         "the kubeconfig of gpuscale up, then " KUBE_ENGINE_DEFAULT_URL "."},
    {"file", GS_OPT_STRING, AT(file), "FILE", .group = "Source",
     .help =
         "Read this ledger (ledger.db in the directory of the engine or of gpuscale up) instead."},
    {"prometheus", GS_OPT_STRING, AT(prometheus), "URL", .group = "Source",
     .help =
         "Calculate the report from the series of this Prometheus instead. No ledger is needed."},
    {"step", GS_OPT_DURATION, AT(step_ns), "DURATION", "0s", .group = "Source",
     .help = "With --prometheus: the length of the intervals in which a GPU is busy or idle. "
             "Default: 1m for up to a day, otherwise 5m."},
    {"owner-label", GS_OPT_STRING, AT(owner_label), "LABEL", "team", .group = "Source",
     .help = "With --prometheus: label of pods, otherwise of their namespaces, for --by owner."},
    {"timeout", GS_OPT_DURATION, AT(timeout_ns), "DURATION", "2m", .group = "Source",
     .help = "How long to wait for each response."},
    {"http.config.file", GS_OPT_STRING, AT(http_config_file), "FILE", .group = "Source",
     .help = "TLS, users, tokens and proxy, in the format of promtool."},
    {"header", GS_OPT_STRINGS, AT(headers), "NAME=VALUE", .group = "Source",
     .help = "Header of the requests. Repeatable."},
    {0},
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
