// SPDX-License-Identifier: Apache-2.0
// `gpuscale replay`: an autoscaler in a simulated cluster.
#include "replay/replay.h"

#include "base/mem.h"
#include "cmd/replay_record.h"
#include "cmd/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct replay_opts {
    struct replay_options replay;
    struct replay_record record;
    const char *save;
};

static struct gs_error *replay_file(const struct replay_opts *o, const char *path)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = replay_execute(&o->replay, path, &out);
    if (out.len)
        (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return err;
}

// A recording becomes a scenario in a file, which stays with --save.
static struct gs_error *replay_recording(const struct replay_opts *o)
{
    char temp[] = "/tmp/gpuscale-replay-XXXXXX";
    const char *path = o->save;
    if (!path) {
        int fd = mkstemp(temp);
        if (fd < 0)
            return gs_error_errno(errno, "%s", temp);
        close(fd);
        path = temp;
    }
    struct gs_error *err = replay_record_write(&o->record, path);
    if (!err)
        err = replay_file(o, path);
    if (!o->save)
        unlink(path);
    return err;
}

static struct gs_error *run_replay(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct replay_opts *o = opts;
    (void)ret_exit;
    bool recorded = o->record.hpa || o->record.from || o->record.queries.len;
    if (recorded == (argc > 0))
        return gs_error_new(GS_EINVAL, "replay needs a SCENARIO, or --hpa, --from and --query");
    return recorded ? replay_recording(o) : replay_file(o, argv[0]);
}

#define AT(field) .offset = offsetof(struct replay_opts, field)
#define RECORDED  .group = "A recording in place of a scenario"

static const struct gs_opt opts[] = {
    {.name = "output",
     .alias = "o",
     .arg = "FORM",
     .def = "table",
     .type = GS_OPT_STRING,
     AT(replay.output),
     .help = "table (the passes at which something changed, and a summary), csv and json (every "
             "pass), svg (a picture)."},
    {.name = "compare",
     .arg = "SCENARIO",
     .type = GS_OPT_STRINGS,
     AT(replay.compare),
     .help = "Another scenario: all figures side by side, or both in one picture (-o svg). "
             "Repeatable."},
    {.name = "prices",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(replay.prices),
     .help = "Prices of GPUs and instances, in place of those that the scenario names."},
    {.name = "sweep",
     .arg = "NAME=VALUES",
     .type = GS_OPT_STRINGS,
     AT(replay.sweep),
     .help = "A summary for each value: target=10..90:10, downscaleWindow=60s,300s. Names as of "
             "--set. Repeatable: one table each."},
    {.name = "set",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     AT(replay.set),
     .help = "Before it runs: target (of the first metric), min, max, tolerance, downscaleWindow, "
             "sync, startup, drain, delay, capacity, nodes (the most), provision, idle, gpu, "
             "instance, duration. "
             "Repeatable."},
    {.name = "hpa",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(record.hpa),
     RECORDED,
     .help = "The autoscaler, a HorizontalPodAutoscaler of any version."},
    {.name = "from",
     .arg = "URL",
     .type = GS_OPT_STRING,
     AT(record.from),
     RECORDED,
     .help = "A Prometheus, or another server with its API."},
    {.name = "query",
     .arg = "EXPR",
     .type = GS_OPT_STRINGS,
     AT(record.queries),
     RECORDED,
     .help = "What a metric of the autoscaler showed: one for each, in its order, of one series. "
             "Of Pods and Resource metrics the average of the pods (Resource: in percent)."},
    {.name = "replicas-query",
     .arg = "EXPR",
     .type = GS_OPT_STRING,
     AT(record.replicas_query),
     RECORDED,
     .help = "How many replicas there were. With it the recorded whole is shared by the replicas "
             "that the replay decides; without it the values stay as recorded."},
    {.name = "range",
     .arg = "DURATION",
     .def = "24h",
     .type = GS_OPT_DURATION,
     AT(record.range_ns),
     RECORDED,
     .help = "How long a time."},
    {.name = "end",
     .arg = "TIME",
     .type = GS_OPT_STRING,
     AT(record.end),
     RECORDED,
     .help = "Its end: now, -1h, RFC 3339 or Unix seconds. Default: now."},
    {.name = "step",
     .arg = "DURATION",
     .def = "15s",
     .type = GS_OPT_DURATION,
     AT(record.step_ns),
     RECORDED,
     .help = "Time between two values; a server gives at most 11,000."},
    {.name = "http.config.file",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(record.http_config_file),
     RECORDED,
     .help = "How to reach and log in to the server, as promtool's."},
    {.name = "save",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(save),
     RECORDED,
     .help = "Keep the scenario that is made of it."},
    {.name = NULL},
};

const struct gs_verb verb_replay = {
    .name = "replay",
    .args = "[SCENARIO]",
    .summary = "Try an autoscaler on a load, faster than time.",
    .description =
        "Runs the autoscaler of a scenario (a YAML file, docs/replay.md) in a simulated cluster: "
        "a load over time, replicas that serve it, nodes that take time to come. The decisions "
        "are made by the function that the controller uses; the cluster is a model. Prints the "
        "replicas over time with the reason of each change, GPU hours, price, time over the "
        "level, queueing and waits. In place of a scenario it can ask a Prometheus what the "
        "autoscaler's metrics showed, and decide on that.",
    .examples = "gpuscale replay burst.yaml\n"
                "gpuscale replay burst.yaml -o svg > burst.svg\n"
                "gpuscale replay burst.yaml --sweep target=30..90:10\n"
                "gpuscale replay today.yaml --compare proposed.yaml\n"
                "gpuscale replay --hpa=hpa.yaml --from=http://prometheus:9090 "
                "--query='avg(DCGM_FI_DEV_GPU_UTIL{pod=~\"api-.*\"})' "
                "--replicas-query='kube_deployment_status_replicas_ready{deployment=\"api\"}' "
                "--sweep target=40..80:10",
    .opts = opts,
    .opts_size = sizeof(struct replay_opts),
    .min_args = 0,
    .max_args = 1,
    .run = run_replay,
};
