// SPDX-License-Identifier: Apache-2.0
// `gpuscale up`: a one-node cluster on this machine.
#include "up/up.h"

#include "cmd/commands.h"
#include "cmd/option_rows.h"

#define AT(member)            .offset = offsetof(struct up_options, member)
#define AUTOSCALER_AT(member) AT(autoscaler.member)
#define RECEIVERS_AT(member)  AT(receivers.member)

static const struct gs_opt opts[] = {
    {"gpus", GS_OPT_STRING, AT(gpus), "SPEC|FILE", .alias = "g", .env = "GPUSCALE_GPUS",
     .help = "Simulated GPUs: a count and a model such as 8xA100-SXM4-80GB (gpuscale sim --help "
             "lists the models), or a YAML file. Default: the GPUs of the machine; without an "
             "NVIDIA driver, 8xA100-SXM4-80GB are simulated. none: the first node has no GPUs."},
    {"pool", GS_OPT_STRINGS, AT(pools), "NAME=MIN..MAXxGPUS[,KEY=VALUE...]",
     .help = "A pool of simulated machines with this number of GPUs each, such as "
             "t4=0..8x1,model=Tesla-T4,startup=40s,price=0.35. MIN machines exist at the start. "
             "Keys: docs/nodes.md. Repeatable."},
    {"pools", GS_OPT_STRINGS, AT(pool_files), "FILE",
     .help = "Pools of simulated machines from a YAML file (docs/nodes.md). Repeatable."},
    {"filename", GS_OPT_STRINGS, AT(files), "FILE", .alias = "f",
     .help = "Apply the Kubernetes objects of this file at the start. Repeatable."},
    {"image", GS_OPT_STRINGS, AT(images), "IMAGE=COMMAND", .alias = "i",
     .help = "Run containers of this image with this command, in the directory where gpuscale up "
             "was started (a pod's workingDir takes precedence). The image name may end in '*'. "
             "Repeatable."},
    {"env", GS_OPT_STRINGS, AT(env), "NAME=VALUE|SHELL", .alias = "e", .implied = UP_ENV_OF_SHELL,
     .help =
         "Add this variable to the environment of every container. Repeatable. Without a "
         "value, or with sh, bash, zsh or fish: print the commands that set KUBECONFIG and PATH "
         "for the gpuscale up that uses the data directory, for eval \"$(gpuscale up --env)\", "
         "and exit. With --detach, start it before."},
    {"load", GS_OPT_STRING, AT(load), "COMMAND",
     .help = "Run this shell command when a Service has a ready pod, with its address in "
             "$SERVICE_URL, and $KUBECONFIG. A timeline is printed when the command has ended and "
             "the replicas are at their minimum again."},
    {"after-load", GS_OPT_STRING, AT(after_load), "COMMAND",
     .help = "Run this shell command after the timeline, with $SERVICE_URL and $KUBECONFIG."},
    {"exit-after-load", GS_OPT_BOOL, AT(exit_after_load),
     .help = "Exit after the timeline and the command of --after-load. The exit code is 1 if one "
             "of them failed or was interrupted."},
    {"data-dir", GS_OPT_STRING, AT(data_dir), "DIR", .env = "GPUSCALE_DATA_DIR",
     .help = "Directory of objects, certificates, logs and the kubeconfig. Default: "
             "$XDG_DATA_HOME/gpuscale, or ~/.local/share/gpuscale."},
    {"retention", GS_OPT_DURATION, AT(retention), "DURATION", "1d",
     .help =
         "How long samples are kept, in the data directory. 0: in memory only, for 15 minutes."},
    {"retention-size", GS_OPT_STRING, AT(retention_size), "SIZE", "512MB",
     .help = "Space for samples in the data directory. The oldest samples are deleted first."},
    {"reset", GS_OPT_BOOL, AT(reset),
     .help = "Start without state: stop the gpuscale up that uses the data directory, and remove "
             "its objects, certificates, logs and kubeconfig. Other files in the directory stay."},
    {"detach", GS_OPT_BOOL, AT(detach), .alias = "d",
     .help = "Run in the background: return when the cluster is ready and the files of -f are "
             "applied. The log is up.log in the data directory. If it does not become ready, the "
             "exit code is not 0 and the end of the log is printed. --stop ends it."},
    {"stop", GS_OPT_BOOL, AT(stop),
     .help = "Stop the gpuscale up that uses the data directory, wait until it has ended, and "
             "exit. With --reset, also remove the state."},
    {"kube-context", GS_OPT_STRING, AT(kube_context), "NAME", .implied = "",
     .help =
         "Add the context gpuscale-NAME (without a value: gpuscale) to the kubeconfig that "
         "kubectl uses, KUBECONFIG or ~/.kube/config, and make it the current one. It is removed "
         "when the cluster ends."},
    {"api-port", GS_OPT_INT, AT(api_port), "PORT", "-1", .min = -1, .max = 65535,
     .help = "Port of the Kubernetes API on 127.0.0.1. 0: any free port. -1: 6443, or a free port "
             "if 6443 is in use."},
    {"exporter-port", GS_OPT_INT, AT(exporter_port), "PORT", "-1", .min = -1, .max = 65535,
     .help = "Port of the exporter on 127.0.0.1. 0: any free port. -1: 9400, or a free port if "
             "9400 is in use."},
    {"prices", GS_OPT_STRING, AT(prices), "FILE",
     .help = "Prices of GPUs and machines per hour, for `gpuscale report`. The format is that of "
             "examples/replay/prices.yaml."},
    {"owner-label", GS_OPT_STRING, AT(owner_label), "LABEL", "team",
     .help = "Label of pods, otherwise of their namespaces, that names who pays, for `gpuscale "
             "report`."},
    {"enable-feature", GS_OPT_STRINGS, AT(features), "NAMES",
     .help = "Features of the metrics engine with commas, such as promql-experimental-functions "
             "(gpuscale engine --help). Repeatable."},
    {"prometheus-port", GS_OPT_INT, AT(prometheus_port), "PORT", "-1", .min = -1, .max = 65535,
     .help = "Port of the Prometheus API on 127.0.0.1 (queries, rules, alerts, Grafana). 0: any "
             "free port. -1: 9090, or a free port if 9090 is in use."},
    CMD_RECEIVER_ROWS(RECEIVERS_AT, NULL),
    {"adapter-config", GS_OPT_STRING, AT(adapter_config), "FILE",
     .help = "Rules of prometheus-adapter: its own file, the values of its Helm chart, or a "
             "manifest with a ConfigMap of either. Read again when it changes. Default: the "
             "ConfigMap adapter-config, prometheus-adapter or gpuscale-adapter of any namespace."},
    {"keda-listen-address", GS_OPT_STRING, AT(keda_listen), "ADDRESS",
     .help = "Also serve KEDA's external scaler (gpuscale keda-scaler) on HOST:PORT. Default: not "
             "served."},
    {"values", GS_OPT_STRINGS, AT(values), "FILE",
     .help = "Helm values of kube-prometheus-stack, prometheus-adapter, ACK's metrics adapter or "
             "dcgm-exporter, alone or together in one file: scrape configs, selectors, rules and "
             "metrics are used, values of the deployment are skipped. Repeatable; a later list "
             "replaces an earlier one, as with helm -f."},
    {"release-namespace", GS_OPT_STRING, AT(release_namespace), "NAMESPACE",
     .help = "Namespace of the Services and the pod that values of kube-prometheus-stack create, "
             "unless the values have namespaceOverride. Default: prometheus."},
    {"scrape-config", GS_OPT_STRINGS, AT(scrape_configs), "FILE",
     .help = "Additional scrape_configs, as a file of Prometheus' scrape_config_files. Read again "
             "when it changes. Repeatable."},
    {"inference-table", GS_OPT_STRING, AT(inference_table), "FILE",
     .help = "What inference engines call their metrics, instead of the built-in table. The format "
             "is that of share/gpuscale/inference-engines.yaml."},
    {"alertmanager", GS_OPT_STRINGS, AT(alertmanagers), "HOST:PORT|URL",
     .help = "Send alerts to this Alertmanager. Without a port: 9093. Repeatable."},
    {"collectors", GS_OPT_STRING, AT(collectors), "FILE",
     .help = "Metrics of the exporter: a CSV file, or the name of a file of dcgm-exporter such as "
             "1.x-compatibility-metrics.csv. Default: those of --values, otherwise all."},
    {"node-name", GS_OPT_STRING, AT(node_name), "NAME", .env = "NODE_NAME",
     .help = "Name of the node. Default: the host name."},
    {"node-label", GS_OPT_STRINGS, AT(node_labels), "KEY=VALUE",
     .help =
         "Add this label to the node, instead of a default label with the same key. Repeatable."},
    {"node-taint", GS_OPT_STRINGS, AT(node_taints), "KEY=VALUE:EFFECT",
     .help = "Add this taint to the node. EFFECT is NoSchedule, PreferNoSchedule or NoExecute. "
             "Repeatable."},
    {"max-pods", GS_OPT_INT, AT(max_pods), "N", "110", .min = 1, .max = 100000,
     .help = "Maximum number of pods that run on the node, as the kubelet's flag. Further pods "
             "stay Pending."},
    {"pod-quota", GS_OPT_INT, AT(pod_quota), "N", "1000", .min = 1, .max = 1000000,
     .help = "Maximum number of Pod objects, in any phase. Further ones are refused with 403 "
             "Forbidden, as by a ResourceQuota."},
    {"max-objects", GS_OPT_INT, AT(max_objects), "N", "10000", .min = 100, .max = 1000000,
     .help = "Maximum number of objects of all kinds except events. Further ones are refused with "
             "403 Forbidden."},
    CMD_SYNC_PERIOD_ROW(AT, CMD_AUTOSCALER_FLAGS, "5s"),
    CMD_AUTOSCALER_ROWS(AT, CMD_AUTOSCALER_FLAGS),
    {"hpa-compat", GS_OPT_STRING, AT(hpa_compat), "RELEASE", .group = CMD_AUTOSCALER_FLAGS,
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
    .main_flags = "gpus pool filename image env load detach stop reset data-dir kube-context "
                  "api-port prometheus-port values adapter-config",
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
        "terminal, ends all pods. --detach runs the cluster in the background.",
    .examples =
        "  gpuscale up\n"
        "  gpuscale up --gpus 2xTesla-T4 -f deployment.yaml --image 'my-api:*=python3 app.py'\n"
        "  gpuscale up -f examples/demo/intent-api.yaml --image 'intent-api:*=intent-api' \\\n"
        "      --load 'hey -z 120s \"$SERVICE_URL/predict?query=music\"'\n"
        "  gpuscale up --gpus none --pool t4=0..8x1,model=Tesla-T4,startup=40s\n"
        "  eval \"$(gpuscale up --detach --env)\"\n"
        "  gpuscale up --stop --reset",
    .opts = opts,
    .opts_size = sizeof(struct up_options),
    .run = run_up,
};
