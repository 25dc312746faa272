// SPDX-License-Identifier: Apache-2.0
// -L, and -q: a line for each value.
#include "base/slice.h"
#include "smi/smi_private.h"

#include <time.h>

void smi_print_list(const struct smi_view *v, struct gs_buf *out)
{
    for (unsigned i = 0; i < v->n; i++) {
        const struct smi_device *d = &v->devices[i];
        unsigned n = 0;
        gs_buf_addf(out, "GPU %u: %s (UUID: %s)\n", d->index, d->gpu->name, d->gpu->uuid);
        for (size_t m = 0; m < d->gpu->n_instances && m < GPU_MAX_INSTANCES; m++)
            if (d->instances[m])
                gs_buf_addf(out, "  MIG %-15s Device %2u: (UUID: %s)\n",
                            d->gpu->instances[m].profile, n++, d->gpu->instances[m].uuid);
    }
}

static void add_text(struct gs_buf *out, int indent, const char *name, const char *value)
{
    gs_buf_addf(out, "%*s%-*s: %s\n", indent, "", 50 - indent, name, value ? value : "N/A");
}

static void add_value(struct gs_buf *out, const struct gpu_device *d, int indent, const char *name,
                      enum gpu_field f, const char *unit)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    smi_add_value(&d->fields[f], unit, &text);
    bool none = gs_streq(text.data, "[N/A]");
    add_text(out, indent, name, none ? "N/A" : text.data);
}

static void add_switch(struct gs_buf *out, const struct gpu_device *d, int indent, const char *name,
                       enum gpu_field f)
{
    const struct gpu_value *v = &d->fields[f];
    add_text(out, indent, name, v->validity != GPU_VALID ? "N/A" : v->i ? "Enabled" : "Disabled");
}

static void add_processes(struct gs_buf *out, const struct gpu_device *d)
{
    gs_buf_addf(out, "    %-46s%s\n", "Processes", d->n_processes ? "" : ": None");
    for (size_t i = 0; i < d->n_processes; i++) {
        const struct gpu_process *p = &d->processes[i];
        GS_AUTO_BUF struct gs_buf name = {0}, memory = {0};
        char pid[16];
        snprintf(pid, sizeof(pid), "%u", p->pid);
        smi_add_process_name(p->pid, &name);
        if (p->has_memory)
            gs_buf_addf(&memory, "%llu MiB", (unsigned long long)(p->memory_bytes >> 20));
        add_text(out, 8, "Process ID", pid);
        add_text(out, 12, "Type", p->graphics ? p->compute ? "C+G" : "G" : "C");
        add_text(out, 12, "Name", name.data);
        add_text(out, 12, "Used GPU Memory", memory.data);
    }
}

static void add_device(struct gs_buf *out, const struct smi_view *v, const struct smi_device *sd)
{
    const struct gpu_device *d = sd->gpu;
    gs_buf_addf(out, "\nGPU %s\n", d->pci_bus_id);
    add_text(out, 4, "Product Name", d->name);
    add_switch(out, d, 4, "Persistence Mode", GPU_F_PERSISTENCE_MODE);
    gs_buf_add_str(out, "    MIG Mode\n");
    add_switch(out, d, 8, "Current", GPU_F_MIG_MODE);
    add_text(out, 4, "Serial Number", gpu_field_text(v->snapshot, d, GPU_F_SERIAL));
    add_text(out, 4, "GPU UUID", d->uuid);
    add_text(out, 4, "VBIOS Version", gpu_field_text(v->snapshot, d, GPU_F_VBIOS));
    add_value(out, d, 4, "Fan Speed", GPU_F_FAN_SPEED, " %");
    gs_buf_add_str(out, "    FB Memory Usage\n");
    add_value(out, d, 8, "Total", GPU_F_FB_TOTAL, " MiB");
    add_value(out, d, 8, "Reserved", GPU_F_FB_RESERVED, " MiB");
    add_value(out, d, 8, "Used", GPU_F_FB_USED, " MiB");
    add_value(out, d, 8, "Free", GPU_F_FB_FREE, " MiB");
    gs_buf_add_str(out, "    Utilization\n");
    add_value(out, d, 8, "GPU", GPU_F_GPU_UTIL, " %");
    add_value(out, d, 8, "Memory", GPU_F_MEM_COPY_UTIL, " %");
    add_value(out, d, 8, "Encoder", GPU_F_ENC_UTIL, " %");
    add_value(out, d, 8, "Decoder", GPU_F_DEC_UTIL, " %");
    gs_buf_add_str(out, "    Temperature\n");
    add_value(out, d, 8, "GPU Current Temp", GPU_F_GPU_TEMP, " C");
    add_value(out, d, 8, "GPU Shutdown Temp", GPU_F_SHUTDOWN_TEMP, " C");
    add_value(out, d, 8, "GPU Slowdown Temp", GPU_F_SLOWDOWN_TEMP, " C");
    add_value(out, d, 8, "Memory Current Temp", GPU_F_MEMORY_TEMP, " C");
    gs_buf_add_str(out, "    GPU Power Readings\n");
    add_value(out, d, 8, "Power Draw", GPU_F_POWER_USAGE, " W");
    add_value(out, d, 8, "Current Power Limit", GPU_F_POWER_LIMIT, " W");
    add_value(out, d, 8, "Default Power Limit", GPU_F_POWER_LIMIT_DEF, " W");
    gs_buf_add_str(out, "    Clocks\n");
    add_value(out, d, 8, "SM", GPU_F_SM_CLOCK, " MHz");
    add_value(out, d, 8, "Memory", GPU_F_MEM_CLOCK, " MHz");
    add_value(out, d, 8, "Video", GPU_F_VIDEO_CLOCK, " MHz");
    add_processes(out, d);
}

void smi_print_details(const struct smi_view *v, struct gs_buf *out)
{
    const struct gpu_snapshot *s = v->snapshot;
    char now[64], cuda[16], count[16];
    time_t seconds = s->unix_ms / 1000;
    struct tm tm;
    (void)strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &tm));
    snprintf(cuda, sizeof(cuda), "%d.%d", s->cuda_version / 1000, s->cuda_version % 1000 / 10);
    snprintf(count, sizeof(count), "%u", v->n);
    gs_buf_add_str(out, "\n==============NVSMI LOG==============\n\n");
    add_text(out, 0, "Timestamp", now);
    add_text(out, 0, "Driver Version", s->driver_version);
    add_text(out, 0, "CUDA Version", s->cuda_version ? cuda : NULL);
    gs_buf_add_char(out, '\n');
    add_text(out, 0, "Attached GPUs", count);
    for (unsigned i = 0; i < v->n; i++)
        add_device(out, v, &v->devices[i]);
}
