// SPDX-License-Identifier: Apache-2.0
// gpuscale nodes: pools, nodes and their GPUs.
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/option_rows.h"
#include "explain/explain.h"
#include "nodes/inspect/inspect.h"

#include <stdio.h>

struct nodes_opts {
    struct explain_cluster cluster;
    const char *output;
};

static struct gs_error *run_nodes(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct nodes_opts *o = opts;
    bool wide = gs_streq(o->output, "wide");
    CODEC_AUTO_JSON json_t *view = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_error *err = wide ? NULL : cmd_check_output(o->output, "table");

    if (!err)
        err = explain_nodes(&o->cluster, &view);
    if (err)
        return err;
    cmd_print_cluster(o->cluster.kubeconfig, o->cluster.context);
    if (!wide && !gs_streq(o->output, "table")) {
        cmd_print_json(o->output, view, stdout);
        return NULL;
    }
    inspect_nodes_text(view, wide, &out);
    (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return NULL;
}

#define AT(field)         .offset = offsetof(struct nodes_opts, field)
#define CLUSTER_AT(field) AT(cluster.field)

static const struct gs_opt opts[] = {
    {"output", GS_OPT_STRING, AT(output), "table|wide|json|yaml", "table", .alias = "o",
     .help = "Tables, or the same as data. wide adds the machine type, and since when and why a "
             "node is in its state."},
    CMD_KUBECONFIG_ROW(CLUSTER_AT),
    {"context", GS_OPT_STRING, CLUSTER_AT(context), "NAME",
     .help = "Context of the kubeconfig. Default: the current context."},
    {0},
};

const struct gs_command cmd_nodes = {
    .name = "nodes",
    .args = "",
    .summary = "Show the pools and nodes of a cluster, their GPUs, and the pods that wait.",
    .description =
        "Reads Nodes, Pods, events, the status of the Cluster Autoscaler and the NodeClaims of "
        "Karpenter from the cluster's API, and shows: for each pool its size, the nodes that are "
        "coming, its GPUs, the time that 90 % of the starts took, and its back-off after a failed "
        "scale-up; for each node its state, GPUs, price, workloads, and since when it is a "
        "candidate for removal; the largest pod that fits now; and the pods that wait for a node. "
        "Free GPUs are stranded if no workload of the cluster that uses GPUs fits on the node. "
        "Nothing is written.",
    .examples = "gpuscale nodes\n"
                "gpuscale nodes -o wide\n"
                "gpuscale nodes -o json | jq '.pools[] | {name, coming, startup}'",
    .opts = opts,
    .opts_size = sizeof(struct nodes_opts),
    .min_args = 0,
    .max_args = 0,
    .run = run_nodes,
};
