// SPDX-License-Identifier: Apache-2.0
// gpuscale replay: an autoscaler in a simulated cluster.
#include "replay/replay.h"

#include "cmd/commands.h"

#include <stdio.h>

static struct gs_error *run_replay(const void *opts, int argc, char **argv, int *ret_exit)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    (void)ret_exit;
    struct gs_error *err = replay_execute(opts, argc ? argv[0] : NULL, &out);
    if (out.len)
        (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return err;
}

#define AT(field) .offset = offsetof(struct replay_options, field)
#define RECORDED  .group = "A recording instead of a scenario"

static const struct gs_opt opts[] = {
    {"output", GS_OPT_STRING, AT(output), "FORMAT", "table", .alias = "o",
     .help = "table (the evaluations with a change, and a summary), csv and json (every "
             "evaluation), svg (a picture)."},
    {"compare", GS_OPT_STRINGS, AT(compare), "SCENARIO",
     .help = "Another scenario to compare with: all figures side by side, or both in one picture "
             "(-o svg). Repeatable."},
    {"prices", GS_OPT_STRING, AT(prices), "FILE",
     .help = "Prices of GPUs and instances. Default: those of the scenario."},
    {"start-times", GS_OPT_STRING, AT(start_times), "FILE",
     .help = "Start-up times of pools, learned in a cluster: the output of gpuscale nodes -o json. "
             "Default: those of the scenario."},
    {"sweep", GS_OPT_STRINGS, AT(sweep), "NAME=VALUES",
     .help = "Print a summary for each value: target=10..90:10, downscaleWindow=60s,300s. The "
             "names are those of --set. Repeatable: one table each."},
    {"set", GS_OPT_STRINGS, AT(set), "NAME=VALUE",
     .help =
         "Change a value of the scenario: target (of the first metric), min, max, tolerance, "
         "downscaleWindow, sync, startup, drain, delay, capacity, nodes (maximum), provision, "
         "idle, gpu, instance, duration. With pools: policy, seed, duration, scan-interval, "
         "scale-down-unneeded-time, early-cordon, consolidation, max.POOL, price.POOL, "
         "preemption.POOL (0s: never), WORKLOAD.target and so on. Of an inference service: slo, "
         "slo.KEY, rate, promptTokens, outputTokens, speed, seed. Repeatable."},
    {"hpa", GS_OPT_STRING, AT(recording.hpa), "FILE", RECORDED,
     .help = "Manifest of the HorizontalPodAutoscaler, in any API version."},
    {"from", GS_OPT_STRING, AT(recording.from), "URL", RECORDED,
     .help = "A Prometheus, or another server with its API."},
    {"query", GS_OPT_STRINGS, AT(recording.queries), "EXPR", RECORDED,
     .help = "Values of a metric of the autoscaler: one query per metric, in the same order, each "
             "with one series as its result. For Pods and Resource metrics, the average of the "
             "pods (Resource: in percent)."},
    {"replicas-query", GS_OPT_STRING, AT(recording.replicas_query), "EXPR", RECORDED,
     .help = "Number of replicas. With it, the recorded total is divided among the replicas of the "
             "simulation. Without it, the values stay as recorded."},
    {"range", GS_OPT_DURATION, AT(recording.range_ns), "DURATION", "24h", RECORDED,
     .help = "Length of the recording."},
    {"end", GS_OPT_STRING, AT(recording.end), "TIME", RECORDED,
     .help = "End of the recording: now, -1h, RFC 3339 or Unix seconds. Default: now."},
    {"step", GS_OPT_DURATION, AT(recording.step_ns), "DURATION", "15s", RECORDED,
     .help = "Time between two samples. A server returns at most 11,000 samples per query."},
    {"http.config.file", GS_OPT_STRING, AT(recording.http_config_file), "FILE", RECORDED,
     .help = "HTTP client configuration, as promtool's: TLS and authentication."},
    {"save", GS_OPT_STRING, AT(recording.save), "FILE", RECORDED,
     .help = "Keep the generated scenario in this file."},
    {0},
};

const struct gs_command cmd_replay = {
    .name = "replay",
    .args = "[SCENARIO]",
    .summary = "Simulate an autoscaler with a load, faster than real time.",
    .description =
        "Runs the autoscaler of a scenario (a YAML file, docs/replay.md) in a simulated cluster: a "
        "load over time, replicas that serve it, and nodes that take time to start. The "
        "controller's own function makes the decisions; the cluster is a model. A scenario can "
        "have "
        "several workloads that share pools of nodes with prices. Prints the replicas over time "
        "with the reason of each change, GPU hours, price, time above the level, queue and waits. "
        "Instead of a scenario, the recorded metrics of a Prometheus can be the input.",
    .examples = "gpuscale replay burst.yaml\n"
                "gpuscale replay burst.yaml -o svg > burst.svg\n"
                "gpuscale replay burst.yaml --sweep target=30..90:10\n"
                "gpuscale replay today.yaml --compare proposed.yaml\n"
                "gpuscale replay --hpa=hpa.yaml --from=http://prometheus:9090 "
                "--query='avg(DCGM_FI_DEV_GPU_UTIL{pod=~\"api-.*\"})' "
                "--replicas-query='kube_deployment_status_replicas_ready{deployment=\"api\"}' "
                "--sweep target=40..80:10",
    .opts = opts,
    .opts_size = sizeof(struct replay_options),
    .min_args = 0,
    .max_args = 1,
    .run = run_replay,
};
