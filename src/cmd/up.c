// SPDX-License-Identifier: Apache-2.0
#include "up/up.h"

#include "cmd/verbs.h"

#define AT(member) .offset = offsetof(struct up_options, member)

static const struct gs_opt opts[] = {
    {.name = "gpus",
     .alias = "g",
     .env = "GPUSCALE_GPUS",
     .arg = "SPEC|FILE",
     .type = GS_OPT_STRING,
     AT(gpus),
     .help =
         "Simulated GPUs: a count and model such as 8xA100-SXM4-80GB (gpuscale sim --help lists "
         "the "
         "models), or a YAML file. Without it the real GPUs are used when their driver is there, "
         "else 8xA100-SXM4-80GB are simulated."},
    {.name = "filename",
     .alias = "f",
     .arg = "FILE",
     .type = GS_OPT_STRINGS,
     AT(files),
     .help = "Apply this file of Kubernetes objects at the start; repeatable."},
    {.name = "image",
     .alias = "i",
     .arg = "IMAGE=COMMAND",
     .type = GS_OPT_STRINGS,
     AT(images),
     .help =
         "Run containers of this image with this command, in the directory where gpuscale up was "
         "started (a pod's workingDir takes precedence); an image name may end in '*'. "
         "Repeatable."},
    {.name = "env",
     .alias = "e",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     AT(env),
     .help = "Add this to the environment of every container; repeatable."},
    {.name = "load",
     .arg = "COMMAND",
     .type = GS_OPT_STRING,
     AT(load),
     .help =
         "Run this shell command once a Service has a ready pod, with its address in $SERVICE_URL; "
         "print a timeline when it has ended and the replicas are back at their minimum."},
    {.name = "exit-after-load",
     .type = GS_OPT_BOOL,
     AT(exit_after_load),
     .help = "Exit after the timeline instead of staying up. Exits with 1 when the load failed or "
             "was interrupted."},
    {.name = "data-dir",
     .env = "GPUSCALE_DATA_DIR",
     .arg = "DIR",
     .type = GS_OPT_STRING,
     AT(data_dir),
     .help = "Where objects, certificates, logs and the kubeconfig are kept. Default: "
             "$XDG_DATA_HOME/gpuscale, else ~/.local/share/gpuscale."},
    {.name = "reset",
     .type = GS_OPT_BOOL,
     AT(reset),
     .help = "Start with no state: stop the gpuscale up that uses the data directory, and remove "
             "the objects, certificates, logs and kubeconfig in it. Other files are left alone."},
    {.name = "stop",
     .type = GS_OPT_BOOL,
     AT(stop),
     .help = "Stop the gpuscale up that uses the data directory, wait for its end and exit. With "
             "--reset, remove the state too."},
    {.name = "api-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(api_port),
     .min = -1,
     .max = 65535,
     .help =
         "Port of the Kubernetes API on 127.0.0.1; 0: any free one; -1: 6443, or any free one when "
         "that is busy."},
    {.name = "exporter-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(exporter_port),
     .min = -1,
     .max = 65535,
     .help = "Port of the exporter on 127.0.0.1; 0: any free one; -1: 9400, or any free one when "
             "that is "
             "busy."},
    {.name = "prometheus-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(prometheus_port),
     .min = -1,
     .max = 65535,
     .help = "Port of the Prometheus API (queries, rules, alerts; Grafana reads it) on 127.0.0.1; "
             "0: any free one; -1: 9090, or any free one when that is busy."},
    {.name = "adapter-config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(adapter_config),
     .help =
         "Rules of prometheus-adapter: its own file, the values of its Helm chart, or a manifest "
         "with a ConfigMap of either. Read again when it changes. Default: the ConfigMap "
         "adapter-config, prometheus-adapter or gpuscale-adapter of any namespace."},
    {.name = "node-name",
     .env = "NODE_NAME",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(node_name),
     .help = "Name of the one node. Default: the host name."},
    {.name = "max-pods",
     .arg = "N",
     .def = "110",
     .type = GS_OPT_INT,
     AT(max_pods),
     .min = 1,
     .max = 100000,
     .help =
         "Pods that run on the node at most, as the kubelet's flag. Further pods stay Pending."},
    {.name = "pod-quota",
     .arg = "N",
     .def = "1000",
     .type = GS_OPT_INT,
     AT(pod_quota),
     .min = 1,
     .max = 1000000,
     .help = "Pod objects that the API holds at most, in any phase. Creating more is refused with "
             "403 Forbidden, as by a ResourceQuota."},
    {.name = "max-objects",
     .arg = "N",
     .def = "10000",
     .type = GS_OPT_INT,
     AT(max_objects),
     .min = 100,
     .max = 1000000,
     .help = "Objects of all kinds that the API holds at most, without events. Creating more is "
             "refused with 403 Forbidden."},
    {.name = "horizontal-pod-autoscaler-sync-period",
     .arg = "DURATION",
     .def = "5s",
     .type = GS_OPT_DURATION,
     AT(sync_period),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "How often each HorizontalPodAutoscaler is evaluated (a cluster's default is 15s)."},
    {.name = "horizontal-pod-autoscaler-downscale-stabilization",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(downscale_window),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "How long the highest recent recommendation holds replicas up."},
    {.name = "horizontal-pod-autoscaler-tolerance",
     .arg = "RATIO",
     .def = "0.1",
     .type = GS_OPT_DOUBLE,
     AT(tolerance),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "Change of the metric ratio from 1 below which nothing scales."},
    {.name = "horizontal-pod-autoscaler-cpu-initialization-period",
     .arg = "DURATION",
     .def = "5m",
     .type = GS_OPT_DURATION,
     AT(cpu_init_period),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "Time after a pod's start in which its CPU samples may be skipped."},
    {.name = "horizontal-pod-autoscaler-initial-readiness-delay",
     .arg = "DURATION",
     .def = "30s",
     .type = GS_OPT_DURATION,
     AT(readiness_delay),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "Time after a pod's start in which becoming ready counts as its first readiness."},
    {.name = "hpa-compat",
     .arg = "RELEASE",
     .type = GS_OPT_STRING,
     AT(hpa_compat),
     .group = "Autoscaler flags (as kube-controller-manager's)",
     .help = "The Kubernetes release whose autoscaler is followed, from 1.20 to 1.38, with its "
             "feature gates. Default: that of the API, 1.36, with HPAScaleToZero on."},
    {0},
};

static struct gs_error *run_up(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return up_run(values);
}

const struct gs_verb verb_up = {
    .name = "up",
    .summary = "Run the whole loop on this machine: Kubernetes API, GPUs, metrics, autoscaling.",
    .description =
        "Starts a one-node Kubernetes API on 127.0.0.1, a scheduler and kubelet that run pods as "
        "processes with their share of the GPUs, the exporter, a scraper, the custom metrics API "
        "and "
        "the HorizontalPodAutoscaler, in the foreground. kubectl, curl and load tools talk to it "
        "as to "
        "a cluster. Without an NVIDIA driver the GPUs are simulated, and everything says so.\n\n"
        "Objects, certificates and the kubeconfig are kept in the data directory; a second start "
        "finds "
        "them again. Ctrl-C, or gpuscale up --stop in another terminal, ends all pods.",
    .examples =
        "  gpuscale up\n"
        "  gpuscale up --gpus 2xTesla-T4 -f deployment.yaml --image 'my-api:*=python3 app.py'\n"
        "  gpuscale up -f examples/demo/intent-api.yaml --image 'intent-api:*=intent-api' \\\n"
        "      --load 'hey -z 120s \"$SERVICE_URL/predict?query=music\"'\n"
        "  gpuscale up --stop --reset",
    .opts = opts,
    .opts_size = sizeof(struct up_options),
    .run = run_up,
};
