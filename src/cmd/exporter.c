// SPDX-License-Identifier: Apache-2.0
// gpuscale exporter: dcgm-exporter's flags as far as what they ask for is there, and our own.
#include "exporter/exporter.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/simlib.h"
#include "cmd/simspec.h"
#include "cmd/verbs.h"
#include "nvmlsim/sim.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

struct exporter_opts {
    const char *address;
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
    if (o->podresources_interval_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--pod-resources-interval: want at least 100ms");
    if (o->driver_timeout_ns < GS_NS_PER_SEC / 10)
        return gs_error_new(GS_EINVAL, "--driver-timeout: want at least 100ms");
    return NULL;
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

static struct gs_error *serve(const struct exporter_config *base, bool *ret_ended)
{
    struct run r = {.started_ns = gs_mono_ns()};
    struct exporter_config cfg = *base;
    cfg.on_ready = on_ready;
    cfg.on_open_failed = on_open_failed;
    cfg.arg = &r;
    uv_loop_init(&r.loop);
    watch_signals(&r);
    r.err = exporter_start(&r.loop, &cfg, &r.exporter);
    if (!r.err) {
        gs_info("exporter", "http://%s%s%s:%u/metrics", strchr(cfg.address, ':') ? "[" : "",
                cfg.address[0] ? cfg.address : "0.0.0.0", strchr(cfg.address, ':') ? "]" : "",
                exporter_port(r.exporter));
        uv_run(&r.loop, UV_RUN_DEFAULT);
    }
    *ret_ended = exporter_stop(r.exporter);
    finish_loop(&r);
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
        .hostname_label = o->no_hostname ? NULL : o->hostname_label,
        .hostname = node,
        .node_name = node,
        .podresources_socket = o->kubernetes ? o->socket : NULL,
        .podresources_interval_ns = o->podresources_interval_ns,
        .extra_resources = extra.items,
        .n_extra_resources = extra.len,
    };
    err = serve(&cfg, ret_ended);
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
    struct simulation sim = {0};
    bool ended = true;
    err = start_simulation(o, &sim);
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
