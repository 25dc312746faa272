// SPDX-License-Identifier: Apache-2.0
// `gpuscale up`: a one-node cluster on this machine.
#include "up/up.h"

#include "cmd/commands.h"
#include "cmd/option_rows.h"

#define AT(member)            .offset = offsetof(struct up_options, member)
#define AUTOSCALER_AT(member) AT(autoscaler.member)
#define RECEIVERS_AT(member)  AT(receivers.member)

static const struct gs_opt opts[] = {
    {.name = "gpus",
     .alias = "g",
     .env = "GPUSCALE_GPUS",
     .arg = "SPEC|FILE",
     .type = GS_OPT_STRING,
     AT(gpus),
     .help = "Simulated GPUs: a count and a model such as 8xA100-SXM4-80GB (gpuscale sim --help "
             "lists the models), or a YAML file. Default: the GPUs of the machine; without an "
             "NVIDIA driver, 8xA100-SXM4-80GB are simulated. none: the first node has no GPUs."},
    {.name = "pool",
     .arg = "NAME=MIN..MAXxGPUS[,KEY=VALUE...]",
     .type = GS_OPT_STRINGS,
     AT(pools),
     .help = "A pool of simulated machines with this number of GPUs each, such as "
             "t4=0..8x1,model=Tesla-T4,startup=40s,price=0.35. MIN machines exist at the start. "
             "Keys: docs/nodes.md. Repeatable."},
    {.name = "pools",
     .arg = "FILE",
     .type = GS_OPT_STRINGS,
     AT(pool_files),
     .help = "Pools of simulated machines from a YAML file (docs/nodes.md). Repeatable."},
    {.name = "filename",
     .alias = "f",
     .arg = "FILE",
     .type = GS_OPT_STRINGS,
     AT(files),
     .help = "Apply the Kubernetes objects of this file at the start. Repeatable."},
    {.name = "image",
     .alias = "i",
     .arg = "IMAGE=COMMAND",
     .type = GS_OPT_STRINGS,
     AT(images),
     .help = "Run containers of this image with this command, in the directory where gpuscale up "
             "was started (a pod's workingDir takes precedence). The image name may end in '*'. "
             "Repeatable."},
    {.name = "env",
     .alias = "e",
     .arg = "NAME=VALUE",
     .type = GS_OPT_STRINGS,
     AT(env),
     .help = "Add this variable to the environment of every container. Repeatable."},
    {.name = "load",
     .arg = "COMMAND",
     .type = GS_OPT_STRING,
     AT(load),
     .help = "Run this shell command when a Service has a ready pod, with its address in "
             "$SERVICE_URL, and $KUBECONFIG. A timeline is printed when the command has ended and "
             "the replicas are "
             "at their minimum again."},
    {.name = "after-load",
     .arg = "COMMAND",
     .type = GS_OPT_STRING,
     AT(after_load),
     .help = "Run this shell command after the timeline, with $SERVICE_URL and $KUBECONFIG."},
    {.name = "exit-after-load",
     .type = GS_OPT_BOOL,
     AT(exit_after_load),
     .help =
         "Exit after the timeline and the command of --after-load. The exit code is 1 if one of "
         "them failed or was interrupted."},
    {.name = "data-dir",
     .env = "GPUSCALE_DATA_DIR",
     .arg = "DIR",
     .type = GS_OPT_STRING,
     AT(data_dir),
     .help = "Directory of objects, certificates, logs and the kubeconfig. Default: "
             "$XDG_DATA_HOME/gpuscale, or ~/.local/share/gpuscale."},
    {.name = "reset",
     .type = GS_OPT_BOOL,
     AT(reset),
     .help = "Start without state: stop the gpuscale up that uses the data directory, and remove "
             "its objects, certificates, logs and kubeconfig. Other files in the directory stay."},
    {.name = "stop",
     .type = GS_OPT_BOOL,
     AT(stop),
     .help = "Stop the gpuscale up that uses the data directory, wait until it has ended, and "
             "exit. With --reset, also remove the state."},
    {.name = "api-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(api_port),
     .min = -1,
     .max = 65535,
     .help = "Port of the Kubernetes API on 127.0.0.1. 0: any free port. -1: 6443, or a free port "
             "if 6443 is in use."},
    {.name = "exporter-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(exporter_port),
     .min = -1,
     .max = 65535,
     .help = "Port of the exporter on 127.0.0.1. 0: any free port. -1: 9400, or a free port if "
             "9400 is in use."},
    {.name = "prices",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(prices),
     .help = "Prices of GPUs and machines per hour, for `gpuscale report`. The format is that of "
             "examples/replay/prices.yaml."},
    {.name = "owner-label",
     .arg = "LABEL",
     .def = "team",
     .type = GS_OPT_STRING,
     AT(owner_label),
     .help = "Label of pods, otherwise of their namespaces, that names who pays, for "
             "`gpuscale report`."},
    {.name = "enable-feature",
     .arg = "NAMES",
     .type = GS_OPT_STRINGS,
     AT(features),
     .help = "Features of the metrics engine with commas, such as promql-experimental-functions "
             "(gpuscale engine --help). Repeatable."},
    {.name = "prometheus-port",
     .arg = "PORT",
     .def = "-1",
     .type = GS_OPT_INT,
     AT(prometheus_port),
     .min = -1,
     .max = 65535,
     .help = "Port of the Prometheus API on 127.0.0.1 (queries, rules, alerts, Grafana). 0: any "
             "free port. -1: 9090, or a free port if 9090 is in use."},
    CMD_RECEIVER_ROWS(RECEIVERS_AT, NULL),
    {.name = "adapter-config",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(adapter_config),
     .help =
         "Rules of prometheus-adapter: its own file, the values of its Helm chart, or a manifest "
         "with a ConfigMap of either. Read again when it changes. Default: the ConfigMap "
         "adapter-config, prometheus-adapter or gpuscale-adapter of any namespace."},
    {.name = "values",
     .arg = "FILE",
     .type = GS_OPT_STRINGS,
     AT(values),
     .help = "Helm values of kube-prometheus-stack, prometheus-adapter, ACK's metrics adapter or "
             "dcgm-exporter, alone or together in one file: scrape configs, selectors, rules and "
             "metrics are used, values of the deployment are skipped. Repeatable; a later list "
             "replaces an earlier one, as with helm -f."},
    {.name = "release-namespace",
     .arg = "NAMESPACE",
     .type = GS_OPT_STRING,
     AT(release_namespace),
     .help = "Namespace of the Services and the pod that values of kube-prometheus-stack create, "
             "unless the values have namespaceOverride. Default: prometheus."},
    {.name = "scrape-config",
     .arg = "FILE",
     .type = GS_OPT_STRINGS,
     AT(scrape_configs),
     .help = "Additional scrape_configs, as a file of Prometheus' scrape_config_files. Read again "
             "when it changes. Repeatable."},
    {.name = "alertmanager",
     .arg = "HOST:PORT|URL",
     .type = GS_OPT_STRINGS,
     AT(alertmanagers),
     .help = "Send alerts to this Alertmanager. Without a port: 9093. Repeatable."},
    {.name = "collectors",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(collectors),
     .help = "Metrics of the exporter: a CSV file, or the name of a file of dcgm-exporter such as "
             "1.x-compatibility-metrics.csv. Default: those of --values, otherwise all."},
    {.name = "node-name",
     .env = "NODE_NAME",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(node_name),
     .help = "Name of the node. Default: the host name."},
    {.name = "node-label",
     .arg = "KEY=VALUE",
     .type = GS_OPT_STRINGS,
     AT(node_labels),
     .help = "Add this label to the node, instead of a default label with the same key. "
             "Repeatable."},
    {.name = "node-taint",
     .arg = "KEY=VALUE:EFFECT",
     .type = GS_OPT_STRINGS,
     AT(node_taints),
     .help = "Add this taint to the node. EFFECT is NoSchedule, PreferNoSchedule or NoExecute. "
             "Repeatable."},
    {.name = "max-pods",
     .arg = "N",
     .def = "110",
     .type = GS_OPT_INT,
     AT(max_pods),
     .min = 1,
     .max = 100000,
     .help = "Maximum number of pods that run on the node, as the kubelet's flag. Further pods "
             "stay Pending."},
    {.name = "pod-quota",
     .arg = "N",
     .def = "1000",
     .type = GS_OPT_INT,
     AT(pod_quota),
     .min = 1,
     .max = 1000000,
     .help = "Maximum number of Pod objects, in any phase. Further ones are refused with 403 "
             "Forbidden, as by a ResourceQuota."},
    {.name = "max-objects",
     .arg = "N",
     .def = "10000",
     .type = GS_OPT_INT,
     AT(max_objects),
     .min = 100,
     .max = 1000000,
     .help = "Maximum number of objects of all kinds except events. Further ones are refused with "
             "403 Forbidden."},
    CMD_SYNC_PERIOD_ROW(AT, CMD_AUTOSCALER_FLAGS, "5s"),
    CMD_AUTOSCALER_ROWS(AT, CMD_AUTOSCALER_FLAGS),
    {.name = "hpa-compat",
     .arg = "RELEASE",
     .type = GS_OPT_STRING,
     AT(hpa_compat),
     .group = CMD_AUTOSCALER_FLAGS,
     .help = "Kubernetes release whose autoscaler is followed, with its feature gates: 1.20 to "
             "1.38. Default: 1.36, the release of the API, with HPAScaleToZero on."},
    CMD_NODE_AUTOSCALER_ROWS(AUTOSCALER_AT, CMD_NODE_AUTOSCALER_FLAGS),
    {0},
};

static struct gs_error *run_up(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return up_run(values);
}

const struct gs_command cmd_up = {
    .name = "up",
    .summary = "Run a one-node cluster with GPU autoscaling on this machine.",
    .description =
        "Starts a Kubernetes API with one node on 127.0.0.1, a scheduler and a kubelet that run "
        "pods as processes with their GPUs, the exporter, the metrics engine, the metrics APIs and "
        "the HorizontalPodAutoscaler controller, in the foreground. kubectl, curl and load "
        "generators use it like a cluster. With --pool, simulated machines are added for pods that "
        "wait, and removed when no pod needs them. Without an NVIDIA driver the GPUs are "
        "simulated, and "
        "every output says so.\n\nObjects, certificates and the kubeconfig are kept in the data "
        "directory and reused at the next start. Ctrl-C, or gpuscale up --stop in another "
        "terminal, ends all pods.",
    .examples =
        "  gpuscale up\n"
        "  gpuscale up --gpus 2xTesla-T4 -f deployment.yaml --image 'my-api:*=python3 app.py'\n"
        "  gpuscale up -f examples/demo/intent-api.yaml --image 'intent-api:*=intent-api' \\\n"
        "      --load 'hey -z 120s \"$SERVICE_URL/predict?query=music\"'\n"
        "  gpuscale up --gpus none --pool t4=0..8x1,model=Tesla-T4,startup=40s\n"
        "  gpuscale up --stop --reset",
    .opts = opts,
    .opts_size = sizeof(struct up_options),
    .run = run_up,
};
