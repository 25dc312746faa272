// SPDX-License-Identifier: Apache-2.0
// Checks of this machine: driver, GPUs, collectors, the exporter's page.
#include "base/mem.h"
#include "dcgm/abi.h"
#include "dcgm/code.h"
#include "doctor/doctor_private.h"

#include <string.h>

static const char *driver_state(const struct doctor_examination *e)
{
    return codec_json_str(e->node, "driver", "state", NULL);
}

static bool driver_works(const struct doctor_examination *e)
{
    return gs_streq(driver_state(e), "up") &&
           json_array_size(codec_json_get(e->node, "driver", "gpus", NULL)) > 0;
}

static void report_driver(struct doctor_examination *e, const char *state, const char *what,
                          const char *fix)
{
    const char *error = codec_json_str(e->node, "driver", "error", NULL);

    if (!gs_streq(driver_state(e), state))
        return;
    doctor_add(e,
               (struct doctor_finding){"this node", gs_strdup(what),
                                       gs_format("%.500s", error ? error : state), gs_strdup(fix)});
}

void doctor_check_driver_library(struct doctor_examination *e)
{
    report_driver(
        e, "library_not_found",
        "The machine has an NVIDIA GPU, but the driver's library libnvidia-ml.so.1 is not found.",
        "apt install nvidia-driver      # or the driver container of the GPU Operator\n"
        "In a container: runtimeClassName: nvidia, or NVIDIA_VISIBLE_DEVICES=all with the NVIDIA "
        "container toolkit");
}

void doctor_check_driver_not_loaded(struct doctor_examination *e)
{
    report_driver(e, "not_loaded", "The kernel module of the NVIDIA driver is not loaded.",
                  "modprobe nvidia && nvidia-smi\n"
                  "If it fails: dmesg | grep -i nvidia; after an upgrade of the kernel, dkms "
                  "autoinstall; with "
                  "secure boot, the module must be signed");
}

void doctor_check_driver_mismatch(struct doctor_examination *e)
{
    report_driver(
        e, "version_mismatch",
        "The driver's library and its kernel module are of different versions.",
        "The driver was upgraded while the module was in use: stop all GPU processes, then\n"
        "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia   # or reboot");
}

void doctor_check_driver_permission(struct doctor_examination *e)
{
    report_driver(e, "no_permission", "The device nodes /dev/nvidia* cannot be opened.",
                  "ls -l /dev/nvidia*      # usually crw-rw-rw-\n"
                  "chmod a+rw /dev/nvidia* (NVreg_DeviceFileMode=0666), or run as a member of "
                  "their group; in a "
                  "pod: request a GPU, or set privileged: true");
}

void doctor_check_driver_no_gpu(struct doctor_examination *e)
{
    report_driver(
        e, "no_gpu", "The driver works, but finds none of the machine's GPUs.",
        "lspci -d 10de:          # the GPU must be bound to the driver nvidia, not to vfio-pci\n"
        "dmesg | grep -i NVRM");
}

void doctor_check_driver_failed(struct doctor_examination *e)
{
    report_driver(e, "failed", "The driver returns an error.",
                  "nvidia-smi; dmesg | grep -iE 'nvrm|xid'");
}

void doctor_check_driver_hung(struct doctor_examination *e)
{
    report_driver(e, "hung", "The driver does not answer within 15 s.",
                  "dmesg | grep -iE 'nvrm|xid'; ps -eo pid,stat,args | awk '$2 ~ /D/'\n"
                  "Drain the node and reboot it");
}

void doctor_check_gpu_lost(struct doctor_examination *e)
{
    const json_t *driver = json_object_get(e->node, "driver"), *gpu;
    size_t i;

    json_array_foreach (json_object_get(driver, "gpus"), i, gpu) {
        bool lost = codec_json_bool(gpu, false, "lost", NULL);
        if (!lost && !codec_json_bool(gpu, false, "hung", NULL))
            continue;
        GS_AUTO_FREE char *subject =
            gs_format("GPU %lld %s", (long long)codec_json_int(gpu, 0, "index", NULL),
                      doctor_text(codec_json_str(gpu, "uuid", NULL)));
        doctor_add(
            e,
            (struct doctor_finding){
                subject,
                gs_strdup(lost ? "The GPU is lost: it has fallen off the bus."
                               : "The driver does not answer for this GPU."),
                gs_strdup(lost ? "NVML: GPU is lost" : "calls of NVML do not return"),
                gs_strdup(
                    "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data\n"
                    "Reboot the machine. If it happens again: check power, cooling and the slot")});
    }
    int64_t unopened = codec_json_int(driver, 0, "unopened", NULL);
    if (unopened > 0)
        doctor_add(e, (struct doctor_finding){
                          "this node",
                          gs_format("The driver counts %lld GPU%s that it cannot open.",
                                    (long long)unopened, unopened == 1 ? "" : "s"),
                          gs_format("NVML: %s",
                                    doctor_text(codec_json_str(driver, "unopenedError", NULL))),
                          gs_strdup("dmesg | grep -iE 'nvrm|xid'; then reset or reboot")});
}

void doctor_check_pod_resources_socket(struct doctor_examination *e)
{
    if (!driver_works(e) || !gs_streq(codec_json_str(e->node, "kubelet", "socket", NULL), "absent"))
        return;
    doctor_add(
        e,
        (struct doctor_finding){
            "this node",
            gs_strdup(
                "The kubelet's PodResources socket does not exist, so GPUs cannot be attributed "
                "to pods."),
            gs_strdup("/var/lib/kubelet/pod-resources/kubelet.sock: No such file or directory"),
            gs_strdup("systemctl status kubelet     # it creates the socket when it starts\n"
                      "Another root directory (--root-dir, k0s, microk8s): mount its pod-resources "
                      "folder, and set the exporter's path of the socket")});
}

// gpuscale's exporter has the counters only if it embeds an engine.
static bool uses_remote_engine(const json_t *process)
{
    const char *command = codec_json_str(process, "command", NULL);
    if (gs_streq(codec_json_str(process, "program", NULL), "gpuscale exporter"))
        return !doctor_contains(command, "--dcgm=embedded") &&
               !doctor_contains(command, "--dcgm embedded");
    return doctor_contains(command, " -r ") || doctor_contains(command, "--remote-hostengine-info");
}

// Hopper and later GPUs have no lock of the profiling module.
static bool has_profiling_lock(const struct doctor_examination *e)
{
    static const char *const newer[] = {"H100", "H200", "H800", "H20",   "GH200",
                                        "B100", "B200", "B300", "GB200", NULL};
    size_t i;
    const json_t *gpu;

    json_array_foreach (codec_json_get(e->node, "driver", "gpus", NULL), i, gpu) {
        bool is_newer = false;
        for (size_t k = 0; newer[k]; k++)
            is_newer = is_newer || doctor_contains(codec_json_str(gpu, "name", NULL), newer[k]);
        if (!is_newer)
            return true;
    }
    return false;
}

void doctor_check_profiling_contention(struct doctor_examination *e)
{
    const json_t *first = NULL, *process;
    size_t i;

    if (!has_profiling_lock(e))
        return;
    json_array_foreach (json_object_get(e->node, "processes"), i, process) {
        if (uses_remote_engine(process))
            continue;
        if (!first) {
            first = process;
            continue;
        }
        long long a = (long long)codec_json_int(first, 0, "pid", NULL);
        long long b = (long long)codec_json_int(process, 0, "pid", NULL);
        doctor_add(
            e, (struct doctor_finding){
                   "this node",
                   gs_format(
                       "Two programs of this machine can hold the profiling module of the GPUs: %s "
                       "and %s.",
                       doctor_text(codec_json_str(first, "program", NULL)),
                       doctor_text(codec_json_str(process, "program", NULL))),
                   gs_format("PID %lld: %.150s\nPID %lld: %.150s", a,
                             doctor_text(codec_json_str(first, "command", NULL)), b,
                             doctor_text(codec_json_str(process, "command", NULL))),
                   gs_format(
                       "Let the exporter use the host engine (dcgm-exporter -r localhost:5555), or "
                       "stop one: kill %lld",
                       b)});
        return;
    }
}

static bool has_exporter(const struct doctor_examination *e)
{
    size_t i;
    const json_t *process;

    json_array_foreach (json_object_get(e->node, "processes"), i, process) {
        const char *program = codec_json_str(process, "program", NULL);
        if (gs_streq(program, "gpuscale exporter") || gs_streq(program, "dcgm-exporter"))
            return true;
    }
    return false;
}

void doctor_check_node_exporter_missing(struct doctor_examination *e)
{
    const json_t *page = json_object_get(e->node, "exporter");
    bool in_cluster = json_object_get(e->node, "kubelet") || doctor_items(e, "nodes");

    if (!driver_works(e) || !page || codec_json_int(page, 0, "status", NULL) || has_exporter(e) ||
        in_cluster)
        return;
    doctor_add(e, (struct doctor_finding){
                      "this node", gs_strdup("The machine has GPUs, but no exporter runs."),
                      gs_format("%s: %.200s", doctor_text(codec_json_str(page, "address", NULL)),
                                doctor_text(codec_json_str(page, "error", NULL))),
                      gs_strdup("systemctl enable --now gpuscale-exporter\n"
                                "or: gpuscale exporter --kubernetes")});
}

void doctor_check_node_exporter_page(struct doctor_examination *e)
{
    const json_t *page = json_object_get(e->node, "exporter");
    int64_t status = codec_json_int(page, 0, "status", NULL);
    const char *error = codec_json_str(page, "error", NULL);

    if (!driver_works(e) || !status)
        return;
    const char *address = doctor_text(codec_json_str(page, "address", NULL));
    if (status != 200 || error)
        doctor_add(
            e,
            (struct doctor_finding){
                address, gs_strdup("Port 9400 answers, but not with metrics."),
                gs_format("status %lld %.300s", (long long)status, doctor_text(error)),
                gs_strdup(
                    "ss -ltnp sport = :9400    # which program listens\n"
                    "An exporter that answers 500 has duplicate series or a failing GPU: see its "
                    "log")});
    else if (!codec_json_int(page, 0, "series", NULL))
        doctor_add(
            e,
            (struct doctor_finding){
                address, gs_strdup("The exporter's page has no series of a GPU."),
                gs_format("%zu GPUs, 0 series DCGM_FI_*",
                          json_array_size(codec_json_get(e->node, "driver", "gpus", NULL))),
                gs_strdup("Restart the exporter: after a failed reload of its counters file "
                          "dcgm-exporter serves an empty page. Check the file and the flag -d")});
}

static const json_t *find_process(const struct doctor_examination *e, const char *program)
{
    size_t i;
    const json_t *process;

    json_array_foreach (json_object_get(e->node, "processes"), i, process)
        if (gs_streq(codec_json_str(process, "program", NULL), program))
            return process;
    return NULL;
}

static void add_unused_engine(struct doctor_examination *e, const json_t *engine)
{
    doctor_add(e,
               (struct doctor_finding){
                   "this node",
                   gs_strdup("A host engine of DCGM runs, but the exporter does not read it."),
                   gs_format("PID %lld: %.150s", (long long)codec_json_int(engine, 0, "pid", NULL),
                             doctor_text(codec_json_str(engine, "command", NULL))),
                   gs_strdup("gpuscale exporter --dcgm=HOST:PORT    # or unix:PATH; by default it "
                             "looks at 127.0.0.1:5555 and /tmp/nv-hostengine")});
}

static const char *remedy_of_code(int64_t code)
{
    switch (code) {
    case DCGM_PROFILING_FAILED:
        return "Let all programs use one host engine (gpuscale exporter -r localhost:5555, "
               "dcgm-exporter -r localhost:5555), and end profilers";
    case DCGM_PAUSED:
        return "dcgmi profile --resume";
    case DCGM_VERSION_MISMATCH:
        return "Install libdcgm in the version of the host engine (nv-hostengine --version), and "
               "name "
               "it with --dcgm-library";
    case DCGM_NO_PERMISSION:
    case DCGM_REQUIRES_ROOT:
        return "Run the host engine as root; with --dcgm=embedded the exporter needs CAP_SYS_ADMIN";
    default:
        return "systemctl restart nvidia-dcgm, or correct the address of --dcgm; the log of the "
               "exporter has the reason";
    }
}

// The exporter reads an engine, or tries to; or an engine runs that it does not read.
void doctor_check_node_dcgm(struct doctor_examination *e)
{
    const json_t *page = json_object_get(e->node, "exporter");
    const json_t *dcgm = json_object_get(page, "dcgm");
    const json_t *engine = find_process(e, "nv-hostengine");
    int64_t code = codec_json_int(dcgm, 0, "code", NULL);

    if (!driver_works(e) || codec_json_int(page, 0, "status", NULL) != 200 ||
        !find_process(e, "gpuscale exporter") || !has_profiling_lock(e))
        return;
    if (!dcgm && engine)
        add_unused_engine(e, engine);
    if (dcgm && (code || !json_is_true(json_object_get(dcgm, "up"))))
        doctor_add(e,
                   (struct doctor_finding){
                       "this node", gs_strdup("The exporter gets no profiling metrics from DCGM."),
                       gs_strdup(code ? dcgm_code_text((int)code) : "it does not answer"),
                       gs_strdup(remedy_of_code(code))});
}
