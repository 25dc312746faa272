// SPDX-License-Identifier: Apache-2.0
// `gpuscale smi`: the state of the GPUs, with the flags of nvidia-smi. A link named nvidia-smi runs
// this command.
#include "smi/smi.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "nvmlsim/simulation/simulation.h"

struct smi_opts {
    struct smi_options smi;
    int64_t loop;
};

#define AT(member) .offset = offsetof(struct smi_opts, smi.member)

static const struct gs_opt opts[] = {
    {"list-gpus", GS_OPT_BOOL, AT(list), .alias = "L",
     .help = "Print one line for each GPU and each MIG device."},
    {"query", GS_OPT_BOOL, AT(details), .alias = "q",
     .help = "Print the values of each GPU, one in a line."},
    {"query-gpu", GS_OPT_STRING, AT(query_gpu), "FIELDS",
     .help = "Print these fields of each GPU, with --format=csv."},
    {"query-compute-apps", GS_OPT_STRING, AT(query_apps), "FIELDS",
     .help = "Print these fields of each process on a GPU: pid, process_name, used_memory, "
             "gpu_uuid, gpu_name, gpu_bus_id."},
    {"format", GS_OPT_STRING, AT(format), "csv[,noheader][,nounits]",
     .help = "Format of --query-gpu and --query-compute-apps."},
    {"help-query-gpu", GS_OPT_BOOL, AT(help_fields), .help = "Print the fields of --query-gpu."},
    {"id", GS_OPT_STRING, AT(id), "GPU", .alias = "i",
     .help = "Only this GPU: its index, UUID or PCI address. Several are separated by commas."},
    {"loop", GS_OPT_INT, offsetof(struct smi_opts, loop), "SECONDS", .alias = "l", .max = 86400,
     .help = "Repeat at this interval until interrupted."},
    {"loop-ms", GS_OPT_INT, AT(loop_ms), "MS", .max = 86400000,
     .help = "The same in milliseconds."},
    {"nvml-library", GS_OPT_STRING, AT(nvml_library), "PATH", .env = "GPUSCALE_NVML_LIBRARY",
     .help = "Path of the driver's libnvidia-ml.so.1. Default: the paths of drivers and container "
             "toolkits."},
    {0},
};

static struct gs_error *run_smi(const void *options, int argc, char **argv, int *ret_exit)
{
    const struct smi_opts *o = options;
    struct smi_options smi = o->smi;
    struct gs_error *err = NULL;
    GS_AUTO_FREE char *library = NULL;
    (void)argc, (void)argv;
    if (o->loop)
        smi.loop_ms = o->loop * 1000;
    if (CMD_LOCAL && !smi.nvml_library)
        err = simulation_join_cluster(smi_has_driver, &library);
    if (err)
        return err;
    if (library)
        smi.nvml_library = library;
    smi_run(&smi, ret_exit);
    return NULL;
}

const struct gs_command cmd_smi = {
    .name = "smi",
    .summary = "Print the state of the GPUs as nvidia-smi does.",
    .description =
        "Reads the GPUs of this machine through NVML. If KUBECONFIG is that of a gpuscale up with "
        "simulated GPUs, or without a driver, it prints those. In a container of gpuscale up, it "
        "is also the program nvidia-smi and prints the GPUs of the container.",
    .examples = "  gpuscale smi\n"
                "  gpuscale smi --query-gpu=index,name,utilization.gpu --format=csv -l 1\n",
    .opts = opts,
    .opts_size = sizeof(struct smi_opts),
    .run = run_smi,
};
