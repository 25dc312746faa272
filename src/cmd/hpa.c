// SPDX-License-Identifier: Apache-2.0
#include "hpa/server.h"

#include "cmd/verbs.h"

#define AT(field)  .offset = offsetof(struct hpa_server_options, field)
#define AS_CLUSTER .group = "Autoscaler flags (as kube-controller-manager's)"
#define ELECTION   .group = "Leader election flags"

static const struct gs_opt opts[] = {
    {.name = "kubeconfig",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(kubeconfig),
     .help = "The cluster. Default: KUBECONFIG, ~/.kube/config, or the cluster it runs in."},
    {.name = "mode",
     .arg = "shadow|control",
     .def = "shadow",
     .type = GS_OPT_STRING,
     AT(mode),
     .help =
         "shadow writes nothing: each decision is shown beside the cluster's. control scales "
         "the objects with the label or annotation gpuscale.dev/autoscaler: \"true\" whose status "
         "no other controller writes."},
    {.name = "all",
     .type = GS_OPT_BOOL,
     AT(all),
     .help =
         "control: all objects, with or without the mark, at once. Only where the cluster's own "
         "controller is off (kube-controller-manager "
         "--controllers=*,-horizontal-pod-autoscaler-controller)."},
    {.name = "namespace",
     .alias = "n",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(ns),
     .help = "Only objects of this namespace. Default: all namespaces."},
    {.name = "output",
     .alias = "o",
     .arg = "text|json",
     .def = "text",
     .type = GS_OPT_STRING,
     AT(output),
     .help = "Form of the lines on standard output, one for each decision that is new."},
    {.name = "web.listen-address",
     .arg = "ADDRESS",
     .def = ":9408",
     .type = GS_OPT_STRING,
     AT(listen),
     .help = "HOST:PORT of /metrics, /healthz and /readyz; empty: none."},
    {.name = "horizontal-pod-autoscaler-sync-period",
     .arg = "DURATION",
     .def = "15s",
     .type = GS_OPT_DURATION,
     AT(sync_period),
     AS_CLUSTER,
     .help = "How often each object is evaluated."},
    {.name = "horizontal-pod-autoscaler-downscale-stabilization",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(downscale_window),
     AS_CLUSTER,
     .help = "How long the highest recent recommendation holds replicas up."},
    {.name = "horizontal-pod-autoscaler-tolerance",
     .arg = "RATIO",
     .def = "0.1",
     .type = GS_OPT_DOUBLE,
     AT(tolerance),
     AS_CLUSTER,
     .help = "Change of the metric ratio from 1 below which nothing scales."},
    {.name = "horizontal-pod-autoscaler-cpu-initialization-period",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(cpu_init_period),
     AS_CLUSTER,
     .help = "Time after a pod's start in which its CPU samples may be skipped."},
    {.name = "horizontal-pod-autoscaler-initial-readiness-delay",
     .arg = "DURATION",
     .def = "30s",
     .type = GS_OPT_DURATION,
     AT(readiness_delay),
     AS_CLUSTER,
     .help = "Time after a pod's start in which changes of its readiness count as its start."},
    {.name = "compat",
     .arg = "RELEASE",
     .type = GS_OPT_STRING,
     AT(compat),
     AS_CLUSTER,
     .help = "The Kubernetes release whose controller is followed, from 1.20 to 1.38, with its "
             "feature gates. Default: the newest."},
    {.name = "scale-to-zero",
     .type = GS_OPT_BOOL,
     AT(scale_to_zero),
     AS_CLUSTER,
     .help = "The feature gate HPAScaleToZero also in releases that have it off (before 1.37)."},
    {.name = "leader-elect",
     .def = "true",
     .type = GS_OPT_BOOL,
     AT(elect),
     ELECTION,
     .help = "control: of several replicas one works, chosen by a Lease."},
    {.name = "leader-elect-resource-namespace",
     .arg = "NAME",
     .def = "kube-system",
     .type = GS_OPT_STRING,
     AT(lease_ns),
     ELECTION,
     .help = "Namespace of the Lease."},
    {.name = "leader-elect-resource-name",
     .arg = "NAME",
     .def = "gpuscale-hpa",
     .type = GS_OPT_STRING,
     AT(lease_name),
     ELECTION,
     .help = "Name of the Lease."},
    {.name = "identity",
     .env = "POD_NAME",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(identity),
     ELECTION,
     .help = "Name of this replica. Default: host name and process id."},
    {.name = NULL},
};

static struct gs_error *run_hpa(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv;
    return hpa_server_run(values, ret_exit);
}

const struct gs_verb verb_hpa = {
    .name = "hpa",
    .args = NULL,
    .summary = "Decide replicas of a cluster's HorizontalPodAutoscalers.",
    .description =
        "Evaluates the HorizontalPodAutoscaler objects of a cluster as kube-controller-manager "
        "does, each period and after each change of an object.\n\n"
        "In shadow mode (the default) it writes nothing: every new decision is a line with what "
        "the cluster's own controller wants beside it. In control mode it scales the objects with "
        "the annotation gpuscale.dev/autoscaler: \"true\" and writes their status and events; an "
        "object whose status the cluster's own controller still writes is left alone.",
    .examples = "gpuscale hpa\n"
                "gpuscale hpa --namespace=inference -o json\n"
                "gpuscale hpa --mode=control --horizontal-pod-autoscaler-sync-period=5s",
    .opts = opts,
    .opts_size = sizeof(struct hpa_server_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_hpa,
};
