// SPDX-License-Identifier: Apache-2.0
// gpuscale exporter: dcgm-exporter's flags as far as what they ask for is there, and our own.
#include "exporter/exporter.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/engine/web_config.h"
#include "cmd/exporter_setup.h"
#include "cmd/simlib.h"
#include "cmd/simspec.h"
#include "cmd/verbs.h"
#include "exporter/pods.h"
#include "nvmlsim/sim.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

struct exporter_opts {
    const char *address;
    const char *collectors, *configmap, *devices, *web_config, *hpc_dir, *label_regex;
    bool old_namespace, replace_blanks, virtual_gpus, pod_labels, pod_uid, debug, list_fields;
    bool max_util, timestamps;
    int64_t xid_window_ms, clock_window_ms;
    // Accepted without effect.
    const char *none_text[12];
    bool none_bool[12];
    int64_t interval_ms;
    bool kubernetes;
    const char *gpu_id_type;
    const char *socket;
    const char *resource_names;
    int64_t podresources_interval_ns;
    bool no_hostname;
    const char *hostname_label;
    const char *node_name;
    const char *nvml_library;
    const char *simulate;
    int64_t driver_timeout_ns;
    bool exit_with_parent;
    int64_t parent_pid;
};

#define AT(member) .offset = offsetof(struct exporter_opts, member)

static const struct gs_opt opts[] = {
    {.name = "address",
     .alias = "a",
     .env = "DCGM_EXPORTER_LISTEN",
     .arg = "HOST:PORT",
     .def = ":9400",
     .type = GS_OPT_STRING,
     AT(address),
     .help = "Where to listen; without a host on all addresses, with port 0 on any free port."},
    {.name = "collect-interval",
     .alias = "c",
     .env = "DCGM_EXPORTER_INTERVAL",
     .arg = "MS",
     .def = "1000",
     .type = GS_OPT_INT,
     AT(interval_ms),
     .min = 50,
     .max = 3600000,
     .help = "Milliseconds between two samples."},
    {.name = "collectors",
     .alias = "f",
     .env = "DCGM_EXPORTER_COLLECTORS",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(collectors),
     .help = "CSV file of the families: field, Prometheus type, help. Default: "
             "/etc/dcgm-exporter/default-counters.csv, and where it is not there what "
             "dcgm-exporter's has. Its other two files are built in, too."},
    {.name = "configmap-data",
     .alias = "m",
     .env = "DCGM_EXPORTER_CONFIGMAP_DATA",
     .arg = "NAMESPACE:NAME",
     .type = GS_OPT_STRING,
     AT(configmap),
     .help = "Take the families from the key metrics of a ConfigMap, read once at the start."},
    {.name = "devices",
     .alias = "d",
     .env = "DCGM_EXPORTER_DEVICES_STR",
     .arg = "f|g[:LIST]|i[:LIST]",
     .def = "f",
     .type = GS_OPT_STRING,
     AT(devices),
     .help = "f: MIG devices, and GPUs that have none. g: GPUs. i: MIG devices. LIST: such as "
             "0,2-4; of GPU indices, or of GPU instance ids."},
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
     .help = "Blanks in the label modelName become -."},
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
     .help = "Folder of files GPU and GPU.INSTANCE with a job id in each line: label hpc_job."},
    {.name = "web-config-file",
     .env = "DCGM_EXPORTER_WEB_CONFIG_FILE",
     .arg = "FILE",
     .type = GS_OPT_STRING,
     AT(web_config),
     .help = "TLS and basic authentication, in the exporter toolkit's format."},
    {.name = "max-utilization",
     .env = "GPUSCALE_EXPORTER_MAX_UTILIZATION",
     .type = GS_OPT_BOOL,
     AT(max_util),
     .help = "GPU_UTIL is the highest of the driver's samples of an interval, not their mean."},
    {.name = "timestamps",
     .env = "GPUSCALE_EXPORTER_TIMESTAMPS",
     .type = GS_OPT_BOOL,
     AT(timestamps),
     .help = "Write the time of the sample behind each value of a device."},
    {.name = "list-fields",
     .type = GS_OPT_BOOL,
     AT(list_fields),
     .help =
         "Print every field with type, unit, source and whether it is supported here, and end."},
    {.name = "debug",
     .env = "DCGM_EXPORTER_DEBUG",
     .type = GS_OPT_BOOL,
     AT(debug),
     .help = "Log at level debug."},
    {.name = "no-hostname",
     .alias = "n",
     .env = "DCGM_EXPORTER_NO_HOSTNAME",
     .type = GS_OPT_BOOL,
     AT(no_hostname),
     .help = "Leave the host name label out."},
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
     .help = "Ask the kubelet which container has which GPU."},
    {.name = "pod-resources-kubelet-socket",
     .env = "DCGM_POD_RESOURCES_KUBELET_SOCKET",
     .arg = "PATH",
     .def = "/var/lib/kubelet/pod-resources/kubelet.sock",
     .type = GS_OPT_STRING,
     AT(socket),
     .group = "Kubernetes",
     .help = "The kubelet's PodResources socket."},
    {.name = "pod-resources-interval",
     .env = "GPUSCALE_EXPORTER_POD_RESOURCES_INTERVAL",
     .arg = "DURATION",
     .def = "5s",
     .type = GS_OPT_DURATION,
     AT(podresources_interval_ns),
     .group = "Kubernetes",
     .help = "How often to ask it. A new process on a GPU makes the question come earlier, at most "
             "once a second."},
    {.name = "kubernetes-gpu-id-type",
     .env = "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
     .arg = "uid|device-name",
     .def = "uid",
     .type = GS_OPT_STRING,
     AT(gpu_id_type),
     .group = "Kubernetes",
     .help = "Accepted for compatibility: UUIDs and device names are both recognised."},
    {.name = "nvidia-resource-names",
     .env = "NVIDIA_RESOURCE_NAMES",
     .arg = "NAME,…",
     .type = GS_OPT_STRING,
     AT(resource_names),
     .group = "Kubernetes",
     .help = "Resources that count as GPUs, beside nvidia.com/gpu, nvidia.com/gpu.shared and "
             "nvidia.com/mig-*."},

    {.name = "kubernetes-virtual-gpus",
     .env = "KUBERNETES_VIRTUAL_GPUS",
     .type = GS_OPT_BOOL,
     AT(virtual_gpus),
     .group = "Kubernetes",
     .help = "The lines of a shared GPU once for each of its pods, with the label vgpu; GPU_UTIL "
             "and FB_USED are the pod's own then."},
    {.name = "kubernetes-enable-pod-labels",
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
     .type = GS_OPT_BOOL,
     AT(pod_labels),
     .group = "Kubernetes",
     .help = "Labels of the pod on the lines of its GPU; asks the API server."},
    {.name = "kubernetes-enable-pod-uid",
     .env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
     .type = GS_OPT_BOOL,
     AT(pod_uid),
     .group = "Kubernetes",
     .help = "The label pod_uid; asks the API server."},
    {.name = "kubernetes-pod-label-allowlist-regex",
     .env = "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
     .arg = "REGEX,…",
     .type = GS_OPT_STRING,
     AT(label_regex),
     .group = "Kubernetes",
     .help = "Only pod labels whose name one of them matches somewhere."},

    {.name = "nvml-library",
     .env = "GPUSCALE_NVML_LIBRARY",
     .arg = "PATH",
     .type = GS_OPT_STRING,
     AT(nvml_library),
     .group = "GPUs",
     .help =
         "libnvidia-ml.so.1 of the driver. Default: where drivers and container toolkits put it."},
    {.name = "simulate",
     .arg = "SPEC",
     .type = GS_OPT_STRING,
     AT(simulate),
     .group = "GPUs",
     .help = "Use simulated GPUs, such as 2xTesla-T4 or a YAML file, and say so everywhere. Those "
             "named "
             "by GPUSCALE_SIM, or else the user's own (see gpuscale sim), are joined when they are "
             "there already, and made when not."},
    {.name = "driver-timeout",
     .env = "GPUSCALE_EXPORTER_DRIVER_TIMEOUT",
     .arg = "DURATION",
     .def = "10s",
     .type = GS_OPT_DURATION,
     AT(driver_timeout_ns),
     .group = "GPUs",
     .help =
         "A driver call that takes longer counts as stuck: GPU metrics are left out and /health "
         "answers 503 until it returns."},

    {.name = "cpu-devices",
     .alias = "p",
     .env = "DCGM_EXPORTER_CPU_DEVICES_STR",
     .arg = "SELECTOR",
     .type = GS_OPT_STRING,
     AT(none_text[0]),
     .group = "Accepted without effect",
     .help = "CPUs are not read."},
    {.name = "switch-devices",
     .alias = "s",
     .env = "DCGM_EXPORTER_OTHER_DEVICES_STR",
     .arg = "SELECTOR",
     .type = GS_OPT_STRING,
     AT(none_text[1]),
     .group = "Accepted without effect",
     .help = "NVSwitches are not read."},
    {.name = "remote-hostengine-info",
     .alias = "r",
     .env = "DCGM_REMOTE_HOSTENGINE_INFO",
     .arg = "HOST:PORT",
     .type = GS_OPT_STRING,
     AT(none_text[2]),
     .group = "Accepted without effect",
     .help = "There is no host engine: the driver is asked itself."},
    {.name = "dcgm-log-level",
     .env = "DCGM_EXPORTER_DCGM_LOG_LEVEL",
     .arg = "LEVEL",
     .type = GS_OPT_STRING,
     AT(none_text[3]),
     .group = "Accepted without effect",
     .help = "There is no DCGM."},
    {.name = "dump-directory",
     .env = "DCGM_EXPORTER_DUMP_DIRECTORY",
     .arg = "DIR",
     .type = GS_OPT_STRING,
     AT(none_text[4]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "dump-retention",
     .env = "DCGM_EXPORTER_DUMP_RETENTION",
     .arg = "HOURS",
     .type = GS_OPT_STRING,
     AT(none_text[5]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "gpu-bind-unbind-poll-interval",
     .env = "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     AT(none_text[6]),
     .group = "Accepted without effect",
     .help = "Every pass looks for new GPUs."},
    {.name = "web-read-timeout",
     .env = "DCGM_EXPORTER_WEB_READ_TIMEOUT",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     AT(none_text[7]),
     .group = "Accepted without effect",
     .help = "The server has limits of its own."},
    {.name = "web-write-timeout",
     .env = "DCGM_EXPORTER_WEB_WRITE_TIMEOUT",
     .arg = "DURATION",
     .type = GS_OPT_STRING,
     AT(none_text[8]),
     .group = "Accepted without effect",
     .help = "The server has limits of its own."},
    {.name = "container-labels",
     .env = "DCGM_EXPORTER_CONTAINER_LABELS",
     .arg = "NAMES",
     .type = GS_OPT_STRING,
     AT(none_text[9]),
     .group = "Accepted without effect",
     .help = "Container runtimes are not asked."},
    {.name = "container-runtime-socket",
     .env = "DCGM_CONTAINER_RUNTIME_SOCKET",
     .arg = "PATH",
     .type = GS_OPT_STRING,
     AT(none_text[10]),
     .group = "Accepted without effect",
     .help = "Container runtimes are not asked."},
    {.name = "dump-compression",
     .env = "DCGM_EXPORTER_DUMP_COMPRESSION",
     .arg = "true|false",
     .type = GS_OPT_STRING,
     AT(none_text[11]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "fake-gpus",
     .env = "DCGM_EXPORTER_USE_FAKE_GPUS",
     .type = GS_OPT_BOOL,
     AT(none_bool[0]),
     .group = "Accepted without effect",
     .help = "See --simulate."},
    {.name = "web-systemd-socket",
     .env = "DCGM_EXPORTER_SYSTEMD_SOCKET",
     .type = GS_OPT_BOOL,
     AT(none_bool[1]),
     .group = "Accepted without effect",
     .help = "Sockets of systemd are not taken over; --address counts."},
    {.name = "enable-dcgm-log",
     .env = "DCGM_EXPORTER_ENABLE_DCGM_LOG",
     .type = GS_OPT_BOOL,
     AT(none_bool[2]),
     .group = "Accepted without effect",
     .help = "There is no DCGM."},
    {.name = "kubernetes-enable-dra",
     .env = "KUBERNETES_ENABLE_DRA",
     .type = GS_OPT_BOOL,
     AT(none_bool[3]),
     .group = "Accepted without effect",
     .help = "Claims of dynamic resource allocation are not resolved yet."},
    {.name = "dump-enabled",
     .env = "DCGM_EXPORTER_DUMP_ENABLED",
     .type = GS_OPT_BOOL,
     AT(none_bool[4]),
     .group = "Accepted without effect",
     .help = "Nothing is dumped."},
    {.name = "disable-startup-validate",
     .env = "DISABLE_STARTUP_VALIDATE",
     .type = GS_OPT_BOOL,
     AT(none_bool[5]),
     .group = "Accepted without effect",
     .help = "Nothing optional is checked at the start."},
    {.name = "enable-gpu-bind-unbind-watch",
     .env = "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH",
     .type = GS_OPT_BOOL,
     AT(none_bool[6]),
     .group = "Accepted without effect",
     .help = "Every pass looks for new GPUs."},
    {.name = "enable-pprof",
     .env = "DCGM_EXPORTER_ENABLE_PPROF",
     .type = GS_OPT_BOOL,
     AT(none_bool[7]),
     .group = "Accepted without effect",
     .help = "There is no Go runtime to look at."},
    {.name = "enable-exporter-metrics",
     .env = "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS",
     .type = GS_OPT_BOOL,
     AT(none_bool[8]),
     .group = "Accepted without effect",
     .help = "gpuscale_exporter_* are always there."},

    {.name = "exit-with-parent",
     .type = GS_OPT_BOOL,
     AT(exit_with_parent),
     .group = "Process",
     .help = "End when the parent process ends, however it ends."},
    {.name = "parent-pid",
     .arg = "PID",
     .type = GS_OPT_INT,
     AT(parent_pid),
     .max = INT32_MAX,
     .group = "Process",
     .help = "As --exit-with-parent, and end at once when this is not the parent."},
    {0},
};

// --- flags to configuration ---

static struct gs_error *parse_address(const char *text, char **ret_host, uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    struct gs_error *err = colon ? gs_parse_u64(gs_slice_of(colon + 1), 65535, &port) : NULL;
    struct gs_slice host = gs_slice_make(text, colon ? (size_t)(colon - text) : 0);
    bool bracketed = host.len > 1 && host.data[0] == '[' && host.data[host.len - 1] == ']';
    if (!colon || err || (!bracketed && host.len && memchr(host.data, ':', host.len))) {
        gs_error_free(err);
        return gs_error_new(
            GS_EINVAL, "--address \"%s\": want HOST:PORT, :PORT or [IPV6]:PORT, port 0 to 65535",
            text);
    }
    if (bracketed)
        host = gs_slice_make(host.data + 1, host.len - 2);
    *ret_host = gs_slice_eq_str(host, "localhost") ? gs_strdup("127.0.0.1") : gs_slice_dup(host);
    *ret_port = (uint16_t)port;
    return NULL;
}

static struct gs_error *check_opts(const struct exporter_opts *o)
{
    if (!gs_streq(o->gpu_id_type, "uid") && !gs_streq(o->gpu_id_type, "device-name"))
        return gs_error_new(GS_EINVAL, "--kubernetes-gpu-id-type \"%s\": want uid or device-name",
                            o->gpu_id_type);
    if (!gs_streq(o->hostname_label, "hostname") && !gs_streq(o->hostname_label, "Hostname"))
        return gs_error_new(GS_EINVAL, "--hostname-label \"%s\": want hostname or Hostname",
                            o->hostname_label);
    if (!render_devices_valid(o->devices))
        return gs_error_new(GS_EINVAL,
                            "--devices \"%s\": want f, g, i, g+i, or g: or i: with a list such as "
                            "g:0,2-4",
                            o->devices);
    if (o->configmap && !strchr(o->configmap, ':'))
        return gs_error_new(GS_EINVAL, "--configmap-data \"%s\": want NAMESPACE:NAME",
                            o->configmap);
    if (o->podresources_interval_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--pod-resources-interval: want at least 100ms");
    if (o->driver_timeout_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--driver-timeout: want at least 100ms");
    return NULL;
}

// Flags of dcgm-exporter that have no effect here are named once.
static void tell_without_effect(const struct exporter_opts *o)
{
    for (const struct gs_opt *row = opts; row->name; row++) {
        if (!gs_streq(row->group, "Accepted without effect"))
            continue;
        const void *at = (const char *)o + row->offset;
        bool set = row->type == GS_OPT_BOOL ? *(const bool *)at : *(const char *const *)at != NULL;
        if (set)
            gs_info("exporter", "--%s is accepted without effect: %s", row->name, row->help);
    }
}

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

// Splits at commas; the names point into *copy.
static void split_names(char *copy, struct gs_opt_list *ret)
{
    char *rest = copy;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        if (!*name)
            continue;
        gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
        ret->items[ret->len++] = name;
    }
}

// The death signal only tells of later deaths, so the parent is checked after asking for it.
static struct gs_error *tie_to_parent(const struct exporter_opts *o)
{
    if (!o->exit_with_parent && !o->parent_pid)
        return NULL;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        return gs_error_errno(errno, "--exit-with-parent");
    if (o->parent_pid && getppid() != (pid_t)o->parent_pid)
        return gs_error_new(GS_EUNAVAIL, "the parent process %d is gone", (int)o->parent_pid);
    return NULL;
}

// --- simulated GPUs ---

struct simulation {
    struct sim *sim;
    char *name;    // of a segment that we made; NULL: somebody else's
    char *library; // NULL: no simulation
};

static void simulation_finish(struct simulation *s)
{
    sim_detach(s->sim);
    if (s->name)
        gs_error_free(sim_unlink(s->name));
    free(s->name);
    free(s->library);
}

// Those named by GPUSCALE_SIM, else the user's own, which `gpuscale sim` takes too. Made when they
// are not there, and then gone with us.
static struct gs_error *make_segment(const char *spec_text, struct simulation *s)
{
    struct sim_spec spec;
    struct gs_error *err = sim_spec_load(spec_text, &spec);
    if (err)
        return gs_error_wrap(err, "--simulate");
    const char *given = getenv(SIM_ENV);
    GS_AUTO_FREE char *name =
        given && *given ? gs_strdup(given) : gs_format("/gpuscale-sim-%u", getuid());
    err = sim_attach(name, &s->sim);
    bool make = err && gs_error_code(err) == GS_ENOTFOUND;
    if (make) {
        gs_error_free(err);
        err = sim_create(name, &spec, &s->sim);
    }
    if (err)
        return gs_error_wrap(err, "--simulate");
    setenv(SIM_ENV, name, 1);
    gs_info("exporter", "%s the SIMULATED GPUs %s", make ? "made" : "joined", name);
    if (make)
        s->name = GS_TAKE(name);
    return NULL;
}

static struct gs_error *start_simulation(const struct exporter_opts *o, struct simulation *s)
{
    if (!o->simulate)
        return NULL;
    struct gs_error *err = make_segment(o->simulate, s);
    return err ? err : cmd_find_simulated_library(&s->library);
}

// --- run ---

struct run {
    uv_loop_t loop;
    uv_signal_t signals[4];
    struct exporter *exporter;
    struct counters counters;
    struct web_config *web;
    struct http_server *server;
    struct http_client *http;
    struct kube_client *kube;
    struct pods *pods;
    struct gs_error *err;
    int64_t started_ns;
};

static void on_signal(uv_signal_t *s, int signum)
{
    struct run *r = s->data;
    if (signum == SIGHUP) {
        gs_info("exporter", "SIGHUP: there is nothing to load anew");
        return;
    }
    gs_info("exporter", "%s: ending", strsignal(signum));
    uv_stop(&r->loop);
}

static void watch_signals(struct run *r)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, numbers[i]);
    }
}

static void on_ready(void *arg, const struct gpu_snapshot *first)
{
    struct run *r = arg;
    gs_info("exporter", "%zu %sGPUs, driver %s, first sample after %d ms", first->n_devices,
            first->simulated ? "SIMULATED " : "", first->driver_version,
            (int)((gs_mono_ns() - r->started_ns) / GS_NS_PER_MS));
    if (first->simulated)
        gs_warn("exporter", "the GPUs are SIMULATED: no value comes from a real one");
}

static void on_open_failed(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    if (gs_error_code(err) == GS_ENOTFOUND)
        r->err = gs_error_new(GS_ENOTFOUND,
                              "%s. Without a GPU, simulated ones can be had: gpuscale exporter "
                              "--simulate 2xTesla-T4",
                              gs_error_message(err));
    else
        r->err = gs_error_new(GS_EUNAVAIL, "%s", gs_error_message(err));
    gs_error_free(err);
    uv_stop(&r->loop);
}

// Closes what is left and lets the close callbacks run.
static void finish_loop(struct run *r)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
}

// The server stands in front of the exporter when it asks for passwords or speaks TLS.
static struct gs_error *start_server(struct run *r, const struct exporter_config *cfg)
{
    struct http_server_config http = {
        .address = cfg->address,
        .port = cfg->port,
        .max_body = 64 * 1024,
        .max_connections = 128,
    };
    web_config_apply(r->web, &http);
    web_config_guard(r->web, exporter_handle, r->exporter);
    return http_server_start(&r->loop, &http, web_config_handle, r->web, &r->server);
}

// Pods of this node and the ConfigMap, when something asks for them.
static struct gs_error *ask_cluster(struct run *r, const struct exporter_opts *o,
                                    struct exporter_config *cfg)
{
    bool pods = o->kubernetes && (o->pod_labels || o->pod_uid);
    if (!pods && !o->configmap)
        return NULL;
    struct gs_error *err = exporter_connect_cluster(&r->loop, &r->http, &r->kube);
    if (err && !o->configmap) {
        gs_warn("exporter", "%s; pod labels and UIDs are left out", gs_error_message(err));
        gs_error_free(err);
        return NULL;
    }
    if (!err && o->configmap) {
        counters_finish(&r->counters);
        err = exporter_load_configmap(&r->loop, r->kube, o->configmap, &r->counters);
    }
    if (!err && pods) {
        struct pods_config pods_cfg = {
            .node_name = cfg->names.node_name,
            .labels = o->pod_labels,
            .uid = o->pod_uid,
            .allowlist = o->label_regex,
        };
        err = pods_new(&r->loop, r->kube, &pods_cfg, &r->pods);
        cfg->names.pod = pods_find;
        cfg->names.pod_arg = r->pods;
    }
    return err;
}

static struct gs_error *start_all(struct run *r, const struct exporter_opts *o,
                                  struct exporter_config *cfg)
{
    struct gs_error *err = NULL;
    if (!o->configmap)
        err = exporter_load_counters(o->collectors, &r->counters);
    if (!err)
        err = ask_cluster(r, o, cfg);
    if (!err)
        err = web_config_load(o->web_config, &r->web);
    if (err)
        return err;
    struct exporter_config without_server = *cfg;
    without_server.address = NULL;
    without_server.names.counters = &r->counters;
    err = exporter_start(&r->loop, &without_server, &r->exporter);
    return err ? err : start_server(r, cfg);
}

static void finish_run(struct run *r, bool *ret_ended)
{
    http_server_stop(r->server);
    *ret_ended = exporter_stop(r->exporter);
    pods_free(r->pods);
    kube_client_free(r->kube);
    if (r->http)
        http_client_free(r->http);
    finish_loop(r);
    web_config_free(r->web);
    counters_finish(&r->counters);
}

static struct gs_error *serve(const struct exporter_opts *o, const struct exporter_config *base,
                              bool *ret_ended)
{
    struct run r = {.started_ns = gs_mono_ns()};
    struct exporter_config cfg = *base;
    cfg.on_ready = on_ready;
    cfg.on_open_failed = on_open_failed;
    cfg.arg = &r;
    uv_loop_init(&r.loop);
    watch_signals(&r);
    r.err = start_all(&r, o, &cfg);
    if (!r.err) {
        gs_info("exporter", "%s://%s%s%s:%u/metrics", web_config_tls(r.web) ? "https" : "http",
                strchr(cfg.address, ':') ? "[" : "", cfg.address[0] ? cfg.address : "0.0.0.0",
                strchr(cfg.address, ':') ? "]" : "", http_server_port(r.server));
        uv_run(&r.loop, UV_RUN_DEFAULT);
    }
    finish_run(&r, ret_ended);
    return r.err;
}

static struct gs_error *run_with(const struct exporter_opts *o, const struct simulation *s,
                                 bool *ret_ended)
{
    GS_AUTO_FREE char *host = NULL;
    uint16_t port = 0;
    struct gs_error *err = parse_address(o->address, &host, &port);
    if (err)
        return err;
    char hostname[256] = "";
    gethostname(hostname, sizeof(hostname) - 1);
    const char *node = o->node_name && *o->node_name ? o->node_name : hostname;
    GS_AUTO_FREE char *names = gs_strdup(o->resource_names ? o->resource_names : "");
    struct gs_opt_list extra = {0};
    split_names(names, &extra);
    struct exporter_config cfg = {
        .address = host,
        .port = port,
        .backend.library = s->library ? s->library : o->nvml_library,
        .backend.simulated_only = s->library != NULL,
        .interval_ns = o->interval_ms * GS_NS_PER_MS,
        .stuck_after_ns = o->driver_timeout_ns,
        .names =
            {
                .hostname_label = o->no_hostname ? NULL : o->hostname_label,
                .hostname = node,
                .node_name = node,
                .old_namespace = o->old_namespace,
                .replace_blanks = o->replace_blanks,
                .virtual_gpus = o->virtual_gpus,
                .devices = o->devices,
                .hpc_dir = o->hpc_dir,
                .xid_window_ms = (uint64_t)o->xid_window_ms,
                .clock_window_ms = (uint64_t)o->clock_window_ms,
                .timestamps = o->timestamps,
            },
        .backend.max_util = o->max_util,
        .podresources_socket = o->kubernetes ? o->socket : NULL,
        .podresources_interval_ns = o->podresources_interval_ns,
        .extra_resources = extra.items,
        .n_extra_resources = extra.len,
    };
    err = serve(o, &cfg, ret_ended);
    free(extra.items);
    return err;
}

static struct gs_error *run(const void *arg, int argc, char **argv, int *ret_exit)
{
    const struct exporter_opts *o = arg;
    (void)argc, (void)argv, (void)ret_exit;
    struct gs_error *err = check_opts(o);
    if (!err)
        err = tie_to_parent(o);
    if (err)
        return err;
    set_log(o);
    mallopt(M_ARENA_MAX, 2); // the threads of the GPUs allocate little, and seldom at once
    struct simulation sim = {0};
    bool ended = true;
    err = start_simulation(o, &sim);
    if (!err && o->list_fields) {
        err = exporter_list_fields(sim.library ? sim.library : o->nvml_library);
        simulation_finish(&sim);
        return err;
    }
    tell_without_effect(o);
    if (!err)
        err = run_with(o, &sim, &ended);
    simulation_finish(&sim);
    if (!ended) {
        // The driver holds the sampler's thread: exit() would wait for it in library destructors.
        gs_warn("exporter", "ending although a driver call has not returned");
        if (err)
            fprintf(stderr, "gpuscale: %s\n", gs_error_message(err));
        fflush(NULL);
        _exit(err ? 1 : 0);
    }
    return err;
}

const struct gs_verb verb_exporter = {
    .name = "exporter",
    .summary = "Serve what the GPUs of this machine do, in dcgm-exporter's format.",
    .description =
        "Samples the GPUs through the driver's NVML library, finds out which pod each GPU and each "
        "process on it belongs to, and serves the result as Prometheus text on /metrics. /health "
        "answers 200 while samples arrive. A value that the driver does not give has no line.",
    .examples = "gpuscale exporter\n"
                "gpuscale exporter -k --address 127.0.0.1:9400\n"
                "gpuscale exporter --simulate 2xTesla-T4",
    .opts = opts,
    .opts_size = sizeof(struct exporter_opts),
    .run = run,
};
