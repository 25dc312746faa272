// SPDX-License-Identifier: Apache-2.0
// gpuscale compare: the values of two metrics adapters for the autoscalers of a cluster.
#include "hpa_controller/compare.h"
#include "base/clock.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"

static struct gs_error *run_compare(const void *opts, int argc, char **argv, int *ret_exit)
{
    struct hpa_compare_options o = *(const struct hpa_compare_options *)opts;
    (void)argc;
    o.before = argv[0];
    o.after = argv[1];
    if (!gs_streq(o.output, "text") && !gs_streq(o.output, "json"))
        return gs_error_new(GS_EINVAL, "--output=%s: want text or json", o.output);
    if (o.interval_ns < GS_NS_PER_SEC)
        return gs_error_new(GS_EINVAL, "--interval: want at least 1s");
    return hpa_compare_run(&o, ret_exit);
}

static const struct gs_opt opts[] = {
    {"for", GS_OPT_DURATION, offsetof(struct hpa_compare_options, duration_ns), "DURATION", "0s",
     .help = "How long to compare: 1d for a day. 0s: one round. SIGINT and SIGTERM end it earlier; "
             "the result is printed in each case."},
    {"interval", GS_OPT_DURATION, offsetof(struct hpa_compare_options, interval_ns), "DURATION",
     "30s", .help = "Time between two rounds."},
    {"http.config.file", GS_OPT_STRING, offsetof(struct hpa_compare_options, http_config_file),
     "FILE", .help = "HTTP settings for both adapters: a token, TLS. In the format of promtool."},
    {"namespace", GS_OPT_STRING, offsetof(struct hpa_compare_options, ns), "NS", .alias = "n",
     .help = "Namespace of the autoscalers. Default: all."},
    {"kubeconfig", GS_OPT_STRING, offsetof(struct hpa_compare_options, kubeconfig), "FILE",
     .help = "Kubeconfig of the cluster."},
    {"context", GS_OPT_STRING, offsetof(struct hpa_compare_options, context), "NAME",
     .help = "Context of the kubeconfig."},
    {"output", GS_OPT_STRING, offsetof(struct hpa_compare_options, output), "FORMAT", "text",
     .alias = "o", .help = "text or json."},
    {0},
};

const struct gs_command cmd_compare = {
    .name = "compare",
    .args = "OLD NEW",
    .summary = "Compare the values of two metrics adapters for all autoscalers.",
    .description =
        "Requests each metric of the types Pods, Object and External of the autoscalers of a "
        "cluster from two adapters, as their controller does, and counts equal and different "
        "values. OLD and NEW are URLs, such as https://localhost:6443. Values that differ are read "
        "again, twice, because a sample may arrive between the two requests. Nothing is written. "
        "The exit code is 1 if a value differed, if only OLD had one, or if neither had any.",
    .examples = "gpuscale compare https://localhost:6443 https://localhost:6444 "
                "--http.config.file=http.yaml --for=1d",
    .opts = opts,
    .opts_size = sizeof(struct hpa_compare_options),
    .min_args = 2,
    .max_args = 2,
    .run = run_compare,
};
