// SPDX-License-Identifier: Apache-2.0
// gpuscale doctor: examines the chain from the GPU driver to the replicas.
#include "doctor/doctor.h"
#include "base/clock.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"

static struct gs_error *run_doctor(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct doctor_options *o = opts;
    struct gs_error *err = cmd_check_output(o->output, "text");

    if (!err && o->interval_ns < GS_NS_PER_SEC)
        err = gs_error_new(GS_EINVAL, "--interval: want at least 1s");
    if (err)
        return err;
    *ret_exit = (int)doctor_run(o);
    return NULL;
}

#define AT(field) .offset = offsetof(struct doctor_options, field)

static const struct gs_opt opts[] = {
    {"output", GS_OPT_STRING, AT(output), "text|json|yaml", "text", .alias = "o",
     .help = "A text, or the same as data. With --watch, JSON has one line for each examination."},
    {"prometheus", GS_OPT_STRING, AT(prometheus), "URL", .env = "GPUSCALE_URL",
     .help = "URL of the Prometheus or engine that scrapes the exporters. Default: the Service of "
             "a Prometheus in the cluster, read through the API server."},
    {"this-node", GS_OPT_BOOL, AT(this_node),
     .help = "Examine this machine only: driver, GPUs, the kubelet's socket, collectors and the "
             "exporter. Otherwise it is examined, too, if it has an NVIDIA GPU."},
    CMD_KUBECONFIG_ROW(AT),
    {"context", GS_OPT_STRING, AT(context), "NAME",
     .help = "Context of the kubeconfig. Default: the current context."},
    {"watch", GS_OPT_BOOL, AT(watch), .alias = "w",
     .help = "Examine again after each --interval, until a signal ends the program."},
    {"interval", GS_OPT_DURATION, AT(interval_ns), "DURATION", "30s",
     .help = "Pause between examinations of --watch."},
    {"list", GS_OPT_BOOL, AT(list),
     .help = "Print all checks as Markdown tables. Nothing is examined."},
    {0},
};

const struct gs_command cmd_doctor = {
    .name = "doctor",
    .args = "",
    .summary = "Find the first broken link between the GPU driver and the replicas.",
    .description =
        "Examines the chain: the driver of this machine if it has GPUs, GPU nodes and their device "
        "plug-in, exporter, attribution to pods, "
        "scrape targets, series and rules, the adapter and its APIServices, each "
        "HorizontalPodAutoscaler, pods that wait, and node groups. Each finding contains what is "
        "wrong, the evidence, why it matters, and the command or YAML that fixes it. Findings are "
        "in the order of the chain, so the first one is usually the cause of the others. Nothing "
        "is written, and nothing has to be installed in the cluster: dcgm-exporter, Prometheus "
        "and prometheus-adapter are examined as gpuscale's own parts are.\n\nThe exit code is 0 "
        "without findings, 1 with findings, and 2 if nothing could be examined. What you must not "
        "read is listed as not examined. docs/doctor.md lists the checks.",
    .examples = "gpuscale doctor\n"
                "gpuscale doctor --prometheus=http://localhost:9090\n"
                "gpuscale doctor -o json | jq -r '.findings[] | .check'",
    .opts = opts,
    .opts_size = sizeof(struct doctor_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_doctor,
};
