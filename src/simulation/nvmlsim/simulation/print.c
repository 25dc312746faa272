// SPDX-License-Identifier: Apache-2.0
// The state of simulated GPUs as a table and as JSON. Both say that the GPUs are simulated.
#include "nvmlsim/simulation/simulation.h"

#define MIB (UINT64_C(1) << 20)

static void print_gpu(unsigned index, const struct nvmlsim_gpu_info *g, FILE *out)
{
    fprintf(out, "%3u  %-22s %-42s %4u%% ", index, g->model, g->uuid, g->util_percent);
    char memory[48];
    snprintf(memory, sizeof(memory), "%llu/%llu MiB", (unsigned long long)(g->memory_used / MIB),
             (unsigned long long)(g->memory_total / MIB));
    fprintf(out, "%18s %5u %4u C %6.1f W  %s", memory, g->n_processes, g->temp_c,
            g->power_mw / 1000.0, g->lost ? "lost" : "ok");
    if (g->last_xid)
        fprintf(out, ", last XID %u", g->last_xid);
    if (g->time_slices > 1)
        fprintf(out, ", %u time slices", g->time_slices);
    fputc('\n', out);
    for (unsigned i = 0; i < g->n_mig; i++) {
        fprintf(out, "     MIG %-18s %-42s       ", g->mig_profile[i], g->mig_uuid[i]);
        snprintf(memory, sizeof(memory), "%llu/%llu MiB",
                 (unsigned long long)(g->mig_memory_used[i] / MIB),
                 (unsigned long long)(g->mig_memory_total[i] / MIB));
        fprintf(out, "%18s\n", memory);
    }
}

void simulation_print_status(struct nvmlsim *s, FILE *out)
{
    fprintf(out, "SIMULATED GPUs %s: no hardware behind these\n\n", nvmlsim_name(s));
    fprintf(out, "%3s  %-22s %-42s %5s %18s %5s %6s %8s  %s\n", "GPU", "MODEL", "UUID", "UTIL",
            "MEMORY", "PROCS", "TEMP", "POWER", "STATE");
    for (unsigned i = 0; i < nvmlsim_gpu_count(s); i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(s, i, &info);
        print_gpu(i, &info, out);
    }
}

static json_t *mig_json(const struct nvmlsim_gpu_info *g)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < g->n_mig; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "profile", g->mig_profile[i],
                                              "uuid", g->mig_uuid[i], "memoryTotalBytes",
                                              (json_int_t)g->mig_memory_total[i], "memoryUsedBytes",
                                              (json_int_t)g->mig_memory_used[i]));
    return list;
}

static json_t *gpu_json(unsigned index, const struct nvmlsim_gpu_info *g)
{
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:b, s:i, s:I, s:I, s:I, s:i, s:i, s:f, s:i, s:i, s:b, s:o}",
        "index", (int)index, "model", g->model, "product", g->product, "uuid", g->uuid, "pciBusId",
        g->pci_bus_id, "simulated", 1, "utilPercent", (int)g->util_percent, "memoryTotalBytes",
        (json_int_t)g->memory_total, "memoryUsedBytes", (json_int_t)g->memory_used,
        "memoryReservedBytes", (json_int_t)g->memory_reserved, "processes", (int)g->n_processes,
        "temperatureCelsius", (int)g->temp_c, "powerWatts", g->power_mw / 1000.0, "timeSlices",
        (int)g->time_slices, "lastXid", (int)g->last_xid, "lost", g->lost ? 1 : 0, "mig",
        mig_json(g));
}

json_t *simulation_status_json(struct nvmlsim *s)
{
    json_t *gpus = json_array();
    for (unsigned i = 0; i < nvmlsim_gpu_count(s); i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(s, i, &info);
        json_array_append_new(gpus, gpu_json(i, &info));
    }
    return json_pack("{s:s, s:b, s:o}", "name", nvmlsim_name(s), "simulated", 1, "gpus", gpus);
}
