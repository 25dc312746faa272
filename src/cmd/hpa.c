// SPDX-License-Identifier: Apache-2.0
// `gpuscale hpa`: the HPA controller on a cluster. Flags of kube-controller-manager keep their
// names.
#include "hpa_controller/program.h"

#include "cmd/commands.h"
#include "cmd/option_rows.h"

#define AT(field) .offset = offsetof(struct hpa_server_options, field)
#define ELECTION  .group = "Leader election flags"
#define STATE     "State flags"

static const struct gs_opt opts[] = {
    CMD_KUBECONFIG_ROW(AT),
    {"mode", GS_OPT_STRING, AT(mode), "shadow|control", "shadow",
     .help = "shadow: write nothing, and log each decision beside that of the cluster. control: "
             "scale the objects with the label or annotation gpuscale.dev/autoscaler: \"true\" "
             "whose status no other controller writes."},
    {"all", GS_OPT_BOOL, AT(all),
     .help = "In control mode, scale all objects, with or without the label or annotation, "
             "immediately. Use it only where the cluster's own controller is off "
             "(kube-controller-manager --controllers=*,-horizontal-pod-autoscaler-controller)."},
    {"namespace", GS_OPT_STRING, AT(ns), "NAME", .alias = "n",
     .help = "Evaluate only objects of this namespace. Default: all namespaces."},
    {"output", GS_OPT_STRING, AT(output), "text|json", "text", .alias = "o",
     .help = "Format of the lines on standard output, one for each new decision."},
    {"web.listen-address", GS_OPT_STRING, AT(listen), "ADDRESS", ":9408",
     .help = "HOST:PORT of /metrics, /healthz and /readyz. Empty: no server."},
    {"url", GS_OPT_STRING, AT(url), "URL", .alias = "u", .env = "GPUSCALE_URL",
     .help = "Engine or Prometheus with the samples of inference engines, for objects with the "
             "annotation gpuscale.dev/slo. Default: $GPUSCALE_URL, the kubeconfig, then a Service "
             "of the cluster."},
    CMD_SYNC_PERIOD_ROW(AT, CMD_AUTOSCALER_FLAGS, "15s"),
    CMD_AUTOSCALER_ROWS(AT, CMD_AUTOSCALER_FLAGS),
    {"compat", GS_OPT_STRING, AT(compat), "RELEASE", .group = CMD_AUTOSCALER_FLAGS,
     .help = "Kubernetes release whose controller is followed, with its feature gates: 1.20 to "
             "1.38. Default: the newest."},
    {"scale-to-zero", GS_OPT_BOOL, AT(scale_to_zero), .group = CMD_AUTOSCALER_FLAGS,
     .help = "Enable the feature gate HPAScaleToZero also for releases before 1.37, which have it "
             "off."},
    {"leader-elect", GS_OPT_BOOL, AT(elect), .def = "true", ELECTION,
     .help = "In control mode, elect one of several replicas with a Lease. Only the leader works."},
    {"leader-elect-resource-namespace", GS_OPT_STRING, AT(lease_ns), "NAME", "kube-system",
     ELECTION, .help = "Namespace of the Lease."},
    {"leader-elect-resource-name", GS_OPT_STRING, AT(lease_name), "NAME", "gpuscale-hpa", ELECTION,
     .help = "Name of the Lease."},
    {"identity", GS_OPT_STRING, AT(identity), "NAME", .env = "POD_NAME", ELECTION,
     .help = "Name of this replica. Default: host name and process ID."},
    {"state-file", GS_OPT_STRING, AT(state_file), "FILE", .group = STATE,
     .help = "File for what is learned for latency targets: throughput, latencies, demand and "
             "start-up times. It is read at the start, and written every 5 minutes and at the "
             "end. Default: learning begins again after a restart."},
    {"state-config-map", GS_OPT_STRING, AT(state_config_map), "NAME", .group = STATE,
     .help = "ConfigMap for the same, in the namespace of the Lease. Only the leader reads and "
             "writes it."},
    {0},
};

static struct gs_error *run_hpa(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return hpa_server_run(values);
}

const struct gs_command cmd_hpa = {
    .name = "hpa",
    .main_flags = "kubeconfig mode all namespace output url web.listen-address "
                  "horizontal-pod-autoscaler-sync-period horizontal-pod-autoscaler-tolerance "
                  "horizontal-pod-autoscaler-downscale-stabilization compat scale-to-zero "
                  "leader-elect",
    .args = NULL,
    .summary = "Run the HorizontalPodAutoscaler controller on a cluster.",
    .description =
        "Evaluates the HorizontalPodAutoscaler objects of a cluster as kube-controller-manager "
        "does: in every sync period, and after each change of an object.\n\nIn shadow mode (the "
        "default) it writes nothing. It prints each new decision with the decision of the "
        "cluster's own controller. In control mode it scales the objects with the annotation "
        "gpuscale.dev/autoscaler: \"true\" and writes their status and events. Objects whose "
        "status the cluster's own controller writes are not scaled.",
    .examples = "gpuscale hpa\n"
                "gpuscale hpa --namespace=inference -o json\n"
                "gpuscale hpa --mode=control --horizontal-pod-autoscaler-sync-period=5s",
    .opts = opts,
    .opts_size = sizeof(struct hpa_server_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_hpa,
};
