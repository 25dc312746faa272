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
    const char *none_text[12];
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
    {.name = "address",
     .alias = "a",
     .env = "DCGM_EXPORTER_LISTEN",
     .arg = "HOST:PORT",
     .def = ":9400",
     .type = GS_OPT_STRING,
     AT(address),
     .help = "Address to listen on. Without a host: all addresses. Port 0: any free port."},
    {.name = "collect-interval",
     .alias = "c",
     .env = "DCGM_EXPORTER_INTERVAL",
     .arg = "MS",
     .type = GS_OPT_INT,
     AT(interval_ms),
     .min = 50,
     .max = 3600000,
     .help = "Milliseconds between two samples. Default: 1000."},
    {.name = "config-file",
     .env = "DCGM_EXPORTER_CONFIG_FILE",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(config_file),
     .help = "YAML file with metrics and interval, in the format of dcgm-exporter 4.6. Flags and "
             "environment variables take precedence."},
    {.name = "collectors",
     .alias = "f",
     .env = "DCGM_EXPORTER_COLLECTORS",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(collectors),
     .help = "CSV file of the metrics: field, Prometheus type, help. Default: "
             "/etc/dcgm-exporter/default-counters.csv; if it does not exist, a built-in copy is "
             "used. The other two files of dcgm-exporter are also built in."},
    {.name = "configmap-data",
     .alias = "m",
     .env = "DCGM_EXPORTER_CONFIGMAP_DATA",
     .arg = "NAMESPACE:NAME",
     .type = GS_OPT_STRING,
     AT(configmap),
     .help = "Read the metrics from the key metrics of a ConfigMap, once. Until it can be read, "
             "those of --collectors are used."},
    {.name = "devices",
     .alias = "d",
     .env = "DCGM_EXPORTER_DEVICES_STR",
     .arg = "f|g[:LIST]|i[:LIST]",
     .def = "f",
     .type = GS_OPT_STRING,
     AT(devices),
     .help = "f: MIG devices, and GPUs without any. g: GPUs. i: MIG devices. LIST, such as 0,2-4, "
             "selects GPU indices or GPU instance ids."},
    {.name = "use-old-namespace",
     .alias = "o",
     .env = "DCGM_EXPORTER_USE_OLD_NAMESPACE",
     .type = GS_OPT_BOOL,
     AT(old_namespace),
     .help = "Labels uuid, pod_name, pod_namespace and container_name."},
    {.name = "replace-blanks-in-model-name",
     .alias = "rbmn",
     .env = "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
     .type = GS_OPT_BOOL,
     AT(replace_blanks),
     .help = "Replace blanks in the label modelName by -."},
    {.name = "xid-count-window-size",
     .alias = "x",
     .env = "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
     .arg = "MS",
     .def = "300000",
     .type = GS_OPT_INT,
     AT(xid_window_ms),
     .min = 1000,
     .max = 86400000,
     .help = "Window of DCGM_EXP_XID_ERRORS_COUNT, in milliseconds."},
    {.name = "clock-events-count-window-size",
     .env = "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
     .arg = "MS",
     .def = "300000",
     .type = GS_OPT_INT,
     AT(clock_window_ms),
     .min = 1000,
     .max = 86400000,
     .help = "Window of DCGM_EXP_CLOCK_EVENTS_COUNT, in milliseconds."},
    {.name = "hpc-job-mapping-dir",
     .env = "DCGM_HPC_JOB_MAPPING_DIR",
     .arg = "DIR",
     .type = GS_OPT_STRING,
     AT(hpc_dir),
     .help = "Directory of files GPU and GPU.INSTANCE with one job id per line, for the label "
             "hpc_job."},
    {.name = "web-config-file",
     .env = "DCGM_EXPORTER_WEB_CONFIG_FILE",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(web_config),
     .help = "TLS and basic authentication, in the format of the exporter toolkit."},
    {.name = "web-systemd-socket",
     .env = "DCGM_EXPORTER_SYSTEMD_SOCKET",
     .type = GS_OPT_BOOL,
     AT(systemd_socket),
     .help = "Listen on the sockets that systemd passes (LISTEN_FDS) instead of --address."},
    {.name = "max-utilization",
     .env = "GPUSCALE_EXPORTER_MAX_UTILIZATION",
     .type = GS_OPT_BOOL,
     AT(max_util),
     .help = "Report the highest of the driver's samples in an interval as GPU_UTIL, instead of "
             "their mean."},
    {.name = "timestamps",
     .env = "GPUSCALE_EXPORTER_TIMESTAMPS",
     .type = GS_OPT_BOOL,
     AT(timestamps),
     .help = "Add the time of the sample to each value of a device."},
    {.name = "list-fields",
     .type = GS_OPT_BOOL,
     HERE(list_fields),
     .help = "Print every field with its type, unit, source and whether the GPUs of this machine "
             "support it, and exit."},
    {.name = "debug",
     .env = "DCGM_EXPORTER_DEBUG",
     .type = GS_OPT_BOOL,
     HERE(debug),
     .help = "Log at level debug."},
    {.name = "no-hostname",
     .alias = "n",
     .env = "DCGM_EXPORTER_NO_HOSTNAME",
     .type = GS_OPT_BOOL,
     AT(no_hostname),
     .help = "Do not write the host name label."},
    {.name = "hostname-label",
     .env = "GPUSCALE_EXPORTER_HOSTNAME_LABEL",
     .arg = "NAME",
     .def = "hostname",
     .type = GS_OPT_STRING,
     AT(hostname_label),
     .help = "Name of the host name label: hostname, or Hostname as dcgm-exporter wrote it up to "
             "4.5.3-4.8.2."},
    {.name = "node-name",
     .env = "NODE_NAME",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     AT(node_name),
     .help = "Value of the host name label and of NodeName. Default: the host name."},

    {.name = "kubernetes",
     .alias = "k",
     .env = "DCGM_EXPORTER_KUBERNETES",
     .type = GS_OPT_BOOL,
     AT(kubernetes),
     .group = "Kubernetes",
     .help = "Attribute GPUs to containers with the PodResources API of the kubelet."},
    {.name = "pod-resources-kubelet-socket",
     .env = "DCGM_POD_RESOURCES_KUBELET_SOCKET",
     .arg = "PATH",
     .def = "/var/lib/kubelet/pod-resources/kubelet.sock",
     .type = GS_OPT_STRING,
     AT(socket),
     .group = "Kubernetes",
     .help = "PodResources socket of the kubelet. If the default does not exist, the sockets of "
             "k0s and MicroK8s are tried."},
    {.name = "pod-resources-interval",
     .env = "GPUSCALE_EXPORTER_POD_RESOURCES_INTERVAL",
     .arg = "DURATION",
     .def = "5s",
     .type = GS_OPT_DURATION,
     AT(podresources_interval_ns),
     .group = "Kubernetes",
     .help = "How often the kubelet is called. A new process on a GPU causes an earlier call, at "
             "most once a second."},
    {.name = "kubernetes-gpu-id-type",
     .env = "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
     .arg = "uid|device-name",
     .def = "uid",
     .type = GS_OPT_STRING,
     AT(gpu_id_type),
     .group = "Kubernetes",
     .help = "Accepted for compatibility. UUIDs and device names are both recognized."},
    {.name = "nvidia-resource-names",
     .env = "NVIDIA_RESOURCE_NAMES",
     .arg = "NAME,…",
     .type = GS_OPT_STRING,
     AT(resource_names),
     .group = "Kubernetes",
     .help = "Resources that count as GPUs, in addition to nvidia.com/gpu, nvidia.com/gpu.shared "
             "and nvidia.com/mig-*."},

    {.name = "kubernetes-virtual-gpus",
     .env = "KUBERNETES_VIRTUAL_GPUS",
     .type = GS_OPT_BOOL,
     AT(virtual_gpus),
     .group = "Kubernetes",
     .help = "Write the lines of a shared GPU once for each of its pods, with the label vgpu. "
             "GPU_UTIL and FB_USED are then those of the pod."},
    {.name = "kubernetes-enable-pod-labels",
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
     .type = GS_OPT_BOOL,
     AT(pod_labels),
     .group = "Kubernetes",
     .help = "Add the labels of the pod to the lines of its GPU. Needs the API server."},
    {.name = "kubernetes-enable-pod-uid",
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
     .type = GS_OPT_BOOL,
     AT(pod_uid),
     .group = "Kubernetes",
     .help = "Add the label pod_uid. Needs the API server."},
    {.name = "kubernetes-pod-label-allowlist-regex",
     .env = "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
     .arg = "REGEX,…",
     .type = GS_OPT_STRING,
     AT(label_regex),
     .group = "Kubernetes",
     .help = "Only add pod labels whose name matches one of these expressions."},

    {.name = "kubernetes-enable-dra",
     .env = "KUBERNETES_ENABLE_DRA",
     .type = GS_OPT_BOOL,
     AT(dra),
     .group = "Kubernetes",
     .help = "Add the labels dra_* of the claim of a pod's GPU. Claims are resolved without this "
             "flag, too. If there are claims, ResourceSlices are read from the API server."},
    {.name = "host-proc",
     .env = "GPUSCALE_EXPORTER_HOST_PROC",
     .arg = "DIR",
     .def = "/proc",
     .type = GS_OPT_STRING,
     AT(host_proc),
     .group = "Kubernetes",
     .help = "Path of the host's /proc, if the exporter does not run in the host's pid namespace."},

    {.name = "nvml-library",
     .env = "GPUSCALE_NVML_LIBRARY",
     .arg = "PATH",
     .type = GS_OPT_STRING,
     AT(nvml_library),
     .group = "GPUs",
     .help = "Path of the driver's libnvidia-ml.so.1. Default: the paths of drivers and container "
             "toolkits."},
    {.name = "simulate",
     .arg = "SPEC",
     .type = GS_OPT_STRING,
     HERE(simulate),
     SIMULATED(
         "Use simulated GPUs, such as 2xTesla-T4 or a YAML file. All output says so. They are "
         "a set of its own unless --sim-set names one.")},
    {.name = "sim-set",
     .env = "GPUSCALE_SIM",
     .arg = "NAME",
     .type = GS_OPT_STRING,
     HERE(sim_set),
     SIMULATED(
         "With --simulate: the set of simulated GPUs to share with other programs, such as one "
         "of gpuscale sim create. It is created if it does not exist.")},
    {.name = "driver-timeout",
     .env = "GPUSCALE_EXPORTER_DRIVER_TIMEOUT",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     AT(driver_timeout_ns),
     .group = "GPUs",
     .help = "A driver call that takes longer counts as stuck. GPU metrics are then left out, and "
             "/health returns 503 until the call returns."},

    {.name = "wait-for-driver",
     .env = "GPUSCALE_EXPORTER_WAIT_FOR_DRIVER",
     .type = GS_OPT_SWITCH,
     AT(wait_for_driver),
     .group = "GPUs",
     .help = "Start without a driver: listen, report the reason on /health (503) and /metrics, and "
             "look for the driver at least every 10 s. Default: enabled with --kubernetes; "
             "otherwise the exporter exits with code 1."},
    {.name = "driver-wait-limit",
     .env = "GPUSCALE_EXPORTER_DRIVER_WAIT_LIMIT",
     .arg = "DURATION",
     .def = "0s",
     .type = GS_OPT_DURATION,
     AT(driver_wait_limit_ns),
     .group = "GPUs",
     .help = "Exit with code 1 after this time without a driver, at the start or later. For "
             "containers, which get the driver's files when they are created. Has no effect on "
             "machines without an NVIDIA GPU. 0: never."},
    {.name = "host-sys",
     .env = "GPUSCALE_EXPORTER_HOST_SYS",
     .arg = "DIR",
     .def = "/sys",
     .type = GS_OPT_STRING,
     AT(host_sys),
     .group = "GPUs",
     .help = "Path of the host's /sys. Without a driver, it shows whether the PCI bus has an "
             "NVIDIA GPU."},

    {.name = "cpu-devices",
     .alias = "p",
     .env = "DCGM_EXPORTER_CPU_DEVICES_STR",
     .arg = "SELECTOR",
     .type = GS_OPT_STRING,
     HERE(none_text[0]),
     .group = "Accepted without effect",
     .help = "CPUs are not read."},
    {.name = "switch-devices",
     .alias = "s",
     .env = "DCGM_EXPORTER_OTHER_DEVICES_STR",
     .arg = "SELECTOR",
     .type = GS_OPT_STRING,
     HERE(none_text[1]),
     .group = "Accepted without effect",
     .help = "NVSwitches are not read."},
    {.name = "remote-hostengine-info",
     .alias = "r",
     .env = "DCGM_REMOTE_HOSTENGINE_INFO",
     .arg = "HOST:PORT",
     .type = GS_OPT_STRING,
     HERE(none_text[2]),
     .group = "Accepted without effect",
     .help = "There is no host engine: metrics come from the driver."},
    {.name = "dcgm-log-level",
     .env = "DCGM_EXPORTER_DCGM_LOG_LEVEL",
     .arg = "LEVEL",
     .type = GS_OPT_STRING,
     HERE(none_text[3]),
     .group = "Accepted without effect",
     .help = "There is no DCGM."},
    {.name = "dump-directory",
     .env = "DCGM_EXPORTER_DUMP_DIRECTORY",
     .arg = "DIR",
     .type = GS_OPT_STRING,
     HERE(none_text[4]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "dump-retention",
     .env = "DCGM_EXPORTER_DUMP_RETENTION",
     .arg = "HOURS",
     .type = GS_OPT_STRING,
     HERE(none_text[5]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "gpu-bind-unbind-poll-interval",
     .env = "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     HERE(none_text[6]),
     .group = "Accepted without effect",
     .help = "Every sample detects new GPUs."},
    {.name = "web-read-timeout",
     .env = "DCGM_EXPORTER_WEB_READ_TIMEOUT",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     HERE(none_text[7]),
     .group = "Accepted without effect",
     .help = "The server has fixed limits."},
    {.name = "web-write-timeout",
     .env = "DCGM_EXPORTER_WEB_WRITE_TIMEOUT",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     HERE(none_text[8]),
     .group = "Accepted without effect",
     .help = "The server has fixed limits."},
    {.name = "container-labels",
     .env = "DCGM_EXPORTER_CONTAINER_LABELS",
     .type = GS_OPT_BOOL,
     HERE(none_bool[1]),
     .group = "Accepted without effect",
     .help = "Container runtimes are not queried."},
    {.name = "container-runtime-socket",
     .env = "DCGM_CONTAINER_RUNTIME_SOCKET",
     .arg = "PATH",
     .type = GS_OPT_STRING,
     HERE(none_text[10]),
     .group = "Accepted without effect",
     .help = "Container runtimes are not queried."},
    {.name = "dump-compression",
     .env = "DCGM_EXPORTER_DUMP_COMPRESSION",
     .type = GS_OPT_BOOL,
     HERE(none_bool[10]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "fake-gpus",
     .env = "DCGM_EXPORTER_USE_FAKE_GPUS",
     .type = GS_OPT_BOOL,
     HERE(none_bool[0]),
     .group = "Accepted without effect",
     .help = "See --simulate."},
    {.name = "enable-dcgm-log",
     .env = "DCGM_EXPORTER_ENABLE_DCGM_LOG",
     .type = GS_OPT_BOOL,
     HERE(none_bool[2]),
     .group = "Accepted without effect",
     .help = "There is no DCGM."},
    {.name = "dump-enabled",
     .env = "DCGM_EXPORTER_DUMP_ENABLED",
     .type = GS_OPT_BOOL,
     HERE(none_bool[4]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "disable-startup-validate",
     .env = "DISABLE_STARTUP_VALIDATE",
     .type = GS_OPT_BOOL,
     HERE(none_bool[5]),
     .group = "Accepted without effect",
     .help = "Nothing optional is checked at the start."},
    {.name = "enable-gpu-bind-unbind-watch",
     .env = "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH",
     .type = GS_OPT_BOOL,
     HERE(none_bool[6]),
     .group = "Accepted without effect",
     .help = "Every sample detects new GPUs."},
    {.name = "enable-pprof",
     .env = "DCGM_EXPORTER_ENABLE_PPROF",
     .type = GS_OPT_BOOL,
     HERE(none_bool[7]),
     .group = "Accepted without effect",
     .help = "There is no Go runtime."},
    {.name = "enable-exporter-metrics",
     .env = "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS",
     .type = GS_OPT_BOOL,
     HERE(none_bool[8]),
     .group = "Accepted without effect",
     .help = "gpuscale_exporter_* are always exported."},

    {.name = "exit-with-parent",
     .type = GS_OPT_BOOL,
     HERE(exit_with_parent),
     .group = "Process",
     .help = "Exit when the parent process ends, however it ends."},
    {.name = "parent-pid",
     .arg = "PID",
     .type = GS_OPT_INT,
     HERE(parent_pid),
     .max = INT32_MAX,
     .group = "Process",
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
