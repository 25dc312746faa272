// SPDX-License-Identifier: Apache-2.0
// gpuscale exporter: the supported flags of dcgm-exporter, and own flags.
#include "base/log.h"
#include "cmd/commands.h"
#include "exporter/daemon/daemon.h"
#include "nvmlsim/simulation/simulation.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

struct exporter_opts {
    struct daemon_options daemon;
    const char *simulate, *sim_set;
    bool debug, list_fields, exit_with_parent;
    int64_t parent_pid;
    // Accepted without effect.
    const char *none_text[13];
    bool none_bool[12];
};

#define AT(member)   .offset = offsetof(struct exporter_opts, daemon.member)
#define HERE(member) .offset = offsetof(struct exporter_opts, member)

// The group and the help of the flags of simulated GPUs, which the program for clusters refuses.
#if CMD_LOCAL
#define SIMULATED(text)   .group = "GPUs", .help = (text)
#define SIMULATED_EXAMPLE "\ngpuscale exporter --simulate 2xTesla-T4"
#else
#define SIMULATED(text)                                                                            \
    .group = "Not in this program", .help = "The complete program has simulated GPUs."
#define SIMULATED_EXAMPLE ""
#endif

static const struct gs_opt exporter_opts[] = {
    {"address", GS_OPT_STRING, AT(address), "HOST:PORT", ":9400", .alias = "a",
     .env = "DCGM_EXPORTER_LISTEN",
     .help = "Address to listen on. Without a host: all addresses. Port 0: any free port."},
    {"collect-interval", GS_OPT_INT, AT(interval_ms), "MS", .alias = "c",
     .env = "DCGM_EXPORTER_INTERVAL", .min = 50, .max = 3600000,
     .help = "Milliseconds between two samples. Default: 1000."},
    {"config-file", GS_OPT_STRING, AT(config_file), "FILE", .env = "DCGM_EXPORTER_CONFIG_FILE",
     .help =
         "YAML file with metrics and intervals, in the format of dcgm-exporter (version 1 or 2). "
         "Flags and environment variables take precedence."},
    {"collectors", GS_OPT_STRING, AT(collectors), "FILE", .alias = "f",
     .env = "DCGM_EXPORTER_COLLECTORS",
     .help = "CSV file of the metrics: field, Prometheus type, help. Default: "
             "/etc/dcgm-exporter/default-counters.csv; if it does not exist, a built-in copy is "
             "used. The other two files of dcgm-exporter are also built in, and "
             "default-counters-4.9.csv."},
    {"metric-names", GS_OPT_STRING, AT(metric_names), "4.8|4.9|both",
     .env = "GPUSCALE_EXPORTER_METRIC_NAMES",
     .help =
         "Names and units of the metrics that dcgm-exporter 4.9 renames: those of 4.8, those of "
         "4.9, or both, with two series for each. Default: as the counters file has them."},
    {"configmap-data", GS_OPT_STRING, AT(configmap), "NAMESPACE:NAME", .alias = "m",
     .env = "DCGM_EXPORTER_CONFIGMAP_DATA",
     .help = "Read the metrics from the key metrics of a ConfigMap, once. Until it can be read, "
             "those of --collectors are used."},
    {"devices", GS_OPT_STRING, AT(devices), "f|g[:LIST]|i[:LIST]", "f", .alias = "d",
     .env = "DCGM_EXPORTER_DEVICES_STR",
     .help = "f: MIG devices, and GPUs without any. g: GPUs. i: MIG devices. LIST, such as 0,2-4, "
             "selects GPU indices or GPU instance ids."},
    {"use-old-namespace", GS_OPT_BOOL, AT(old_namespace), .alias = "o",
     .env = "DCGM_EXPORTER_USE_OLD_NAMESPACE",
     .help = "Labels uuid, pod_name, pod_namespace and container_name."},
    {"replace-blanks-in-model-name", GS_OPT_BOOL, AT(replace_blanks), .alias = "rbmn",
     .env = "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
     .help = "Replace blanks in the label modelName by -."},
    {"xid-count-window-size", GS_OPT_INT, AT(xid_window_ms), "MS", "300000", .alias = "x",
     .env = "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", .min = 1000, .max = 86400000,
     .help = "Window of DCGM_EXP_XID_ERRORS_COUNT, in milliseconds."},
    {"clock-events-count-window-size", GS_OPT_INT, AT(clock_window_ms), "MS", "300000",
     .env = "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", .min = 1000, .max = 86400000,
     .help = "Window of DCGM_EXP_CLOCK_EVENTS_COUNT, in milliseconds."},
    {"hpc-job-mapping-dir", GS_OPT_STRING, AT(hpc_dir), "DIR", .env = "DCGM_HPC_JOB_MAPPING_DIR",
     .help = "Directory of files GPU and GPU.INSTANCE with one job id per line, for the label "
             "hpc_job."},
    {"web-config-file", GS_OPT_STRING, AT(web_config), "FILE",
     .env = "DCGM_EXPORTER_WEB_CONFIG_FILE",
     .help = "TLS and basic authentication, in the format of the exporter toolkit."},
    {"web-systemd-socket", GS_OPT_BOOL, AT(systemd_socket), .env = "DCGM_EXPORTER_SYSTEMD_SOCKET",
     .help = "Listen on the sockets that systemd passes (LISTEN_FDS) instead of --address."},
    {"max-utilization", GS_OPT_BOOL, AT(max_util), .env = "GPUSCALE_EXPORTER_MAX_UTILIZATION",
     .help = "Report the highest of the driver's samples in an interval as GPU_UTIL, instead of "
             "their mean."},
    {"timestamps", GS_OPT_BOOL, AT(timestamps), .env = "GPUSCALE_EXPORTER_TIMESTAMPS",
     .help = "Add the time of the sample to each value of a device."},
    {"enable-exporter-metrics", GS_OPT_BOOL, AT(exporter_metrics),
     .env = "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS",
     .help =
         "Also write process_* and promhttp_* about the exporter itself. gpuscale_exporter_* are "
         "always written."},
    {"health-require-gpus", GS_OPT_BOOL, AT(require_gpus),
     .env = "DCGM_EXPORTER_HEALTH_REQUIRE_GPUS",
     .help = "/health returns 503 on a machine without an NVIDIA GPU."},
    {"list-fields", GS_OPT_BOOL, HERE(list_fields),
     .help = "Print every field with its type, unit, source and whether the GPUs of this machine "
             "support it, and exit."},
    {"debug", GS_OPT_BOOL, HERE(debug), .env = "DCGM_EXPORTER_DEBUG",
     .help = "Log at level debug."},
    {"no-hostname", GS_OPT_BOOL, AT(no_hostname), .alias = "n", .env = "DCGM_EXPORTER_NO_HOSTNAME",
     .help = "Do not write the host name label."},
    {"hostname-label", GS_OPT_STRING, AT(hostname_label), "NAME", "hostname",
     .env = "GPUSCALE_EXPORTER_HOSTNAME_LABEL",
     .help = "Name of the host name label: hostname, or Hostname as dcgm-exporter wrote it up to "
             "4.5.3-4.8.2."},
    {"node-name", GS_OPT_STRING, AT(node_name), "NAME", .env = "NODE_NAME",
     .help = "Value of the host name label and of NodeName. Default: the host name."},

    {"kubernetes", GS_OPT_BOOL, AT(kubernetes), .alias = "k", .env = "DCGM_EXPORTER_KUBERNETES",
     .group = "Kubernetes",
     .help = "Attribute GPUs to containers with the PodResources API of the kubelet."},
    {"pod-resources-kubelet-socket", GS_OPT_STRING, AT(socket), "PATH",
     "/var/lib/kubelet/pod-resources/kubelet.sock", .env = "DCGM_POD_RESOURCES_KUBELET_SOCKET",
     .group = "Kubernetes",
     .help = "PodResources socket of the kubelet. If the default does not exist, the sockets of "
             "k0s and MicroK8s are tried."},
    {"pod-resources-interval", GS_OPT_DURATION, AT(podresources_interval_ns), "DURATION", "5s",
     .env = "GPUSCALE_EXPORTER_POD_RESOURCES_INTERVAL", .group = "Kubernetes",
     .help = "How often the kubelet is called. A new process on a GPU causes an earlier call, at "
             "most once a second."},
    {"kubernetes-gpu-id-type", GS_OPT_STRING, AT(gpu_id_type), "uid|device-name", "uid",
     .env = "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", .group = "Kubernetes",
     .help = "Accepted for compatibility. UUIDs and device names are both recognized."},
    {"nvidia-resource-names", GS_OPT_STRING, AT(resource_names), "NAME,…",
     .env = "NVIDIA_RESOURCE_NAMES", .group = "Kubernetes",
     .help = "Resources that count as GPUs, in addition to nvidia.com/gpu, nvidia.com/gpu.shared "
             "and nvidia.com/mig-*."},

    {"kubernetes-virtual-gpus", GS_OPT_BOOL, AT(virtual_gpus), .env = "KUBERNETES_VIRTUAL_GPUS",
     .group = "Kubernetes",
     .help = "Write the lines of a shared GPU once for each of its pods, with the label vgpu. "
             "GPU_UTIL and FB_USED are then those of the pod."},
    {"kubernetes-enable-pod-labels", GS_OPT_BOOL, AT(pod_labels),
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", .group = "Kubernetes",
     .help = "Add the labels of the pod to the lines of its GPU. Needs the API server."},
    {"kubernetes-enable-pod-uid", GS_OPT_BOOL, AT(pod_uid),
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", .group = "Kubernetes",
     .help = "Add the label pod_uid. Needs the API server."},
    {"kubernetes-pod-label-allowlist-regex", GS_OPT_STRING, AT(label_regex), "REGEX,…",
     .env = "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", .group = "Kubernetes",
     .help = "Only add pod labels whose name matches one of these expressions."},

    {"kubernetes-enable-dra", GS_OPT_BOOL, AT(dra), .env = "KUBERNETES_ENABLE_DRA",
     .group = "Kubernetes",
     .help = "Add the labels dra_* of the claim of a pod's GPU. Claims are resolved without this "
             "flag, too. If there are claims, ResourceSlices are read from the API server."},
    {"host-proc", GS_OPT_STRING, AT(host_proc), "DIR", "/proc",
     .env = "GPUSCALE_EXPORTER_HOST_PROC", .group = "Kubernetes",
     .help = "Path of the host's /proc, if the exporter does not run in the host's pid namespace."},

    {"nvml-library", GS_OPT_STRING, AT(nvml_library), "PATH", .env = "GPUSCALE_NVML_LIBRARY",
     .group = "GPUs",
     .help = "Path of the driver's libnvidia-ml.so.1. Default: the paths of drivers and container "
             "toolkits."},
    {"simulate", GS_OPT_STRING, HERE(simulate), "SPEC",
     SIMULATED(
         "Use simulated GPUs, such as 2xTesla-T4 or a YAML file. All output says so. They are "
         "a set of its own unless --sim-set names one.")},
    {"sim-set", GS_OPT_STRING, HERE(sim_set), "NAME", .env = "GPUSCALE_SIM",
     SIMULATED(
         "With --simulate: the set of simulated GPUs to share with other programs, such as one "
         "of gpuscale sim create. It is created if it does not exist.")},
    {"driver-timeout", GS_OPT_DURATION, AT(driver_timeout_ns), "DURATION", "10s",
     .env = "GPUSCALE_EXPORTER_DRIVER_TIMEOUT", .group = "GPUs",
     .help = "A driver call that takes longer counts as stuck. GPU metrics are then left out, and "
             "/health returns 503 until the call returns."},

    {"wait-for-driver", GS_OPT_SWITCH, AT(wait_for_driver),
     .env = "GPUSCALE_EXPORTER_WAIT_FOR_DRIVER", .group = "GPUs",
     .help = "Start without a driver: listen, report the reason on /health (503) and /metrics, and "
             "look for the driver at least every 10 s. Default: enabled with --kubernetes; "
             "otherwise the exporter exits with code 1."},
    {"driver-wait-limit", GS_OPT_DURATION, AT(driver_wait_limit_ns), "DURATION", "0s",
     .env = "GPUSCALE_EXPORTER_DRIVER_WAIT_LIMIT", .group = "GPUs",
     .help = "Exit with code 1 after this time without a driver, at the start or later. For "
             "containers, which get the driver's files when they are created. Has no effect on "
             "machines without an NVIDIA GPU. 0: never."},
    {"host-sys", GS_OPT_STRING, AT(host_sys), "DIR", "/sys", .env = "GPUSCALE_EXPORTER_HOST_SYS",
     .group = "GPUs",
     .help = "Path of the host's /sys. Without a driver, it shows whether the PCI bus has an "
             "NVIDIA GPU."},

    {"cpu-devices", GS_OPT_STRING, HERE(none_text[0]), "SELECTOR", .alias = "p",
     .env = "DCGM_EXPORTER_CPU_DEVICES_STR", .group = "Accepted without effect",
     .help = "CPUs are not read."},
    {"switch-devices", GS_OPT_STRING, HERE(none_text[1]), "SELECTOR", .alias = "s",
     .env = "DCGM_EXPORTER_OTHER_DEVICES_STR", .group = "Accepted without effect",
     .help = "NVSwitches are not read."},
    {"remote-hostengine-info", GS_OPT_STRING, HERE(none_text[2]), "HOST:PORT", .alias = "r",
     .env = "DCGM_REMOTE_HOSTENGINE_INFO", .group = "Accepted without effect",
     .help = "There is no host engine: metrics come from the driver."},
    {"dcgm-log-level", GS_OPT_STRING, HERE(none_text[3]), "LEVEL",
     .env = "DCGM_EXPORTER_DCGM_LOG_LEVEL", .group = "Accepted without effect",
     .help = "There is no DCGM."},
    {"dump-directory", GS_OPT_STRING, HERE(none_text[4]), "DIR",
     .env = "DCGM_EXPORTER_DUMP_DIRECTORY", .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {"dump-retention", GS_OPT_STRING, HERE(none_text[5]), "HOURS",
     .env = "DCGM_EXPORTER_DUMP_RETENTION", .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {"gpu-bind-unbind-poll-interval", GS_OPT_STRING, HERE(none_text[6]), "DURATION",
     .env = "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", .group = "Accepted without effect",
     .help = "Every sample detects new GPUs."},
    {"web-read-timeout", GS_OPT_STRING, HERE(none_text[7]), "DURATION",
     .env = "DCGM_EXPORTER_WEB_READ_TIMEOUT", .group = "Accepted without effect",
     .help = "The server has fixed limits."},
    {"web-write-timeout", GS_OPT_STRING, HERE(none_text[8]), "DURATION",
     .env = "DCGM_EXPORTER_WEB_WRITE_TIMEOUT", .group = "Accepted without effect",
     .help = "The server has fixed limits."},
    {"container-labels", GS_OPT_BOOL, HERE(none_bool[1]), .env = "DCGM_EXPORTER_CONTAINER_LABELS",
     .group = "Accepted without effect", .help = "Container runtimes are not queried."},
    {"container-runtime-socket", GS_OPT_STRING, HERE(none_text[10]), "PATH",
     .env = "DCGM_CONTAINER_RUNTIME_SOCKET", .group = "Accepted without effect",
     .help = "Container runtimes are not queried."},
    {"dump-compression", GS_OPT_BOOL, HERE(none_bool[10]), .env = "DCGM_EXPORTER_DUMP_COMPRESSION",
     .group = "Accepted without effect", .help = "Nothing is dumped."},
    {"fake-gpus", GS_OPT_BOOL, HERE(none_bool[0]), .env = "DCGM_EXPORTER_USE_FAKE_GPUS",
     .group = "Accepted without effect", .help = "See --simulate."},
    {"enable-dcgm-log", GS_OPT_BOOL, HERE(none_bool[2]), .env = "DCGM_EXPORTER_ENABLE_DCGM_LOG",
     .group = "Accepted without effect", .help = "There is no DCGM."},
    {"dump-enabled", GS_OPT_BOOL, HERE(none_bool[4]), .env = "DCGM_EXPORTER_DUMP_ENABLED",
     .group = "Accepted without effect", .help = "Nothing is dumped."},
    {"disable-startup-validate", GS_OPT_BOOL, HERE(none_bool[5]), .env = "DISABLE_STARTUP_VALIDATE",
     .group = "Accepted without effect", .help = "Nothing optional is checked at the start."},
    {"enable-gpu-bind-unbind-watch", GS_OPT_BOOL, HERE(none_bool[6]),
     .env = "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", .group = "Accepted without effect",
     .help = "Every sample detects new GPUs."},
    {"enable-pprof", GS_OPT_BOOL, HERE(none_bool[7]), .env = "DCGM_EXPORTER_ENABLE_PPROF",
     .group = "Accepted without effect", .help = "There is no Go runtime."},
    {"watch-max-keep-age", GS_OPT_STRING, HERE(none_text[9]), "DURATION",
     .env = "DCGM_EXPORTER_WATCH_MAX_KEEP_AGE", .group = "Accepted without effect",
     .help = "Only the last sample is kept."},
    {"watch-max-keep-samples", GS_OPT_STRING, HERE(none_text[11]), "N",
     .env = "DCGM_EXPORTER_WATCH_MAX_KEEP_SAMPLES", .group = "Accepted without effect",
     .help = "Only the last sample is kept."},
    {"max-concurrent-scrapes", GS_OPT_STRING, HERE(none_text[12]), "N",
     .env = "DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES", .group = "Accepted without effect",
     .help = "The page is rendered once per sample."},

    {"exit-with-parent", GS_OPT_BOOL, HERE(exit_with_parent), .group = "Process",
     .help = "Exit when the parent process ends, however it ends."},
    {"parent-pid", GS_OPT_INT, HERE(parent_pid), "PID", .max = INT32_MAX, .group = "Process",
     .help = "As --exit-with-parent, and exit at once if this process is not the parent."},
    {0},
};

static void set_log(const struct exporter_opts *o)
{
    const char *format = getenv("DCGM_EXPORTER_LOG_FORMAT");
    if (format && *format && !getenv("GPUSCALE_LOG_FORMAT"))
        gs_log_configure(gs_log_level(), gs_streq(format, "json") ? GS_LOG_JSON : GS_LOG_TEXT);
    else if (!o->debug)
        return;
    if (o->debug)
        gs_log_configure(GS_LOG_DEBUG, gs_streq(format, "json") ? GS_LOG_JSON : GS_LOG_TEXT);
}

// The death signal only reports later deaths, so the parent is checked after it has been set.
static struct gs_error *tie_to_parent(const struct exporter_opts *o)
{
    if (!o->exit_with_parent && !o->parent_pid)
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        return gs_error_errno(errno, "--exit-with-parent");
    if (o->parent_pid && getppid() != (pid_t)o->parent_pid)
        return gs_error_new(GS_EUNAVAIL, "the parent process %d has exited", (int)o->parent_pid);
    return NULL;
}

static void log_options_without_effect(const struct exporter_opts *o)
{
    for (const struct gs_opt *row = exporter_opts; row->name; row++) {
        if (!gs_streq(row->group, "Accepted without effect"))
            continue;
        const void *at = (const char *)o + row->offset;
        bool set = row->type == GS_OPT_BOOL ? *(const bool *)at : *(const char *const *)at != NULL;
        if (set)
            gs_info("exporter", "--%s is accepted without effect: %s", row->name, row->help);
    }
}

static struct gs_error *serve_or_list(const struct exporter_opts *o, const struct simulation *sim,
                                      bool *ret_hangs)
{
    struct daemon_options daemon = o->daemon;
    if (sim->library)
        daemon.nvml_library = sim->library;
    daemon.simulated_only = sim->library != NULL;
    if (!o->list_fields)
        return daemon_run(&daemon, ret_hangs);
    daemon_list_fields(daemon.nvml_library);
    return NULL;
}

static struct gs_error *with_gpus(const struct exporter_opts *o)
{
    struct simulation sim = {0};
    bool hangs = false;
    if (!CMD_LOCAL && o->simulate)
        return cmd_not_in_this_program("--simulate");
    struct gs_error *err = CMD_LOCAL ? simulation_start(o->simulate, o->sim_set, &sim) : NULL;
    if (!err)
        err = serve_or_list(o, &sim, &hangs);
    if (CMD_LOCAL)
        simulation_finish(&sim);
    if (!hangs)
        return err;
    // The driver blocks the sampler's thread: exit() would wait for it in library destructors.
    if (err)
        fprintf(stderr, "gpuscale: %s\n", gs_error_message(err));
    (void)fflush(NULL);
    _exit(err ? 1 : 0);
}

static struct gs_error *run_exporter(const void *arg, int argc, char **argv, int *ret_exit)
{
    const struct exporter_opts *o = arg;
    (void)argc, (void)argv, (void)ret_exit;
    struct gs_error *err = daemon_check_options(&o->daemon);
    if (!err)
        err = tie_to_parent(o);
    if (err)
        return err;
    set_log(o);
    if (!o->list_fields)
        log_options_without_effect(o);
    return with_gpus(o);
}

const struct gs_command cmd_exporter = {
    .name = "exporter",
    .main_flags = "address collectors collect-interval devices kubernetes "
                  "pod-resources-kubelet-socket node-name kubernetes-enable-pod-labels timestamps "
                  "list-fields web-config-file simulate sim-set",
    .summary = "Serve GPU metrics of this machine, in dcgm-exporter's format.",
    .description =
        "Samples the GPUs through the NVML library of the driver, finds the pods of GPUs and "
        "processes, and serves the result as Prometheus text on /metrics. /health returns 200 "
        "while samples arrive. A value that the driver does not report has no line. Without a "
        "driver it exits, or waits for it with --kubernetes or --wait-for-driver.",
    .examples = "gpuscale exporter\n"
                "gpuscale exporter -k --address 127.0.0.1:9400" SIMULATED_EXAMPLE,
    .opts = exporter_opts,
    .opts_size = sizeof(struct exporter_opts),
    .run = run_exporter,
};
