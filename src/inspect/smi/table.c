// SPDX-License-Identifier: Apache-2.0
// The table: a box for each GPU with three columns, and one row for each process.
#include "base/slice.h"
#include "smi/smi_private.h"

#include <string.h>
#include <time.h>

#define LINE                                                                                       \
    "+-----------------------------------------------------------------------------------------+"  \
    "\n"
#define COLUMNS3                                                                                   \
    "+-----------------------------------------+------------------------+----------------------+"  \
    "\n"

enum { INNER = 89, LEFT = 41, MIDDLE = 24, RIGHT = 22 };

// Appends text, cut or padded to the width.
static void cell(struct gs_buf *out, int width, const char *text)
{
    gs_buf_addf(out, "%-*.*s", width, width, text ? text : "");
}

static void row(struct gs_buf *out, const char *left, const char *middle, const char *right)
{
    gs_buf_add_char(out, '|');
    cell(out, LEFT, left);
    gs_buf_add_char(out, '|');
    cell(out, MIDDLE, middle);
    gs_buf_add_char(out, '|');
    cell(out, RIGHT, right);
    gs_buf_add_str(out, "|\n");
}

static void wide(struct gs_buf *out, const char *text)
{
    gs_buf_add_char(out, '|');
    cell(out, INNER, text);
    gs_buf_add_str(out, "|\n");
}

// "N/A" if the value is not valid.
struct text {
    char s[32];
};

static struct text number(const struct gpu_device *d, enum gpu_field f, const char *unit)
{
    const struct gpu_value *v = &d->fields[f];
    struct text t = {"N/A"};
    if (v->validity == GPU_LOST || v->validity == GPU_FAILED || v->validity == GPU_HUNG)
        snprintf(t.s, sizeof(t.s), "ERR!");
    else if (v->validity == GPU_VALID)
        snprintf(t.s, sizeof(t.s), "%.0f%s", v->is_double ? v->d : (double)v->i, unit);
    return t;
}

static const char *compute_mode(const struct gpu_device *d)
{
    static const char *const modes[] = {"Default", "E. Thread", "Prohibited", "E. Process"};
    const struct gpu_value *v = &d->fields[GPU_F_COMPUTE_MODE];
    bool known = v->validity == GPU_VALID && v->i >= 0 && v->i < (int64_t)GS_ARRAY_LEN(modes);
    return known ? modes[v->i] : "N/A";
}

static const char *on_off(const struct gpu_device *d, enum gpu_field f, const char *on,
                          const char *off)
{
    const struct gpu_value *v = &d->fields[f];
    return v->validity != GPU_VALID ? "N/A" : v->i ? on : off;
}

static void device_rows(struct gs_buf *out, const struct smi_device *sd)
{
    const struct gpu_device *d = sd->gpu;
    char left[256], middle[256], right[256];
    struct text pstate = number(d, GPU_F_PSTATE, "");
    snprintf(left, sizeof(left), " %3u  %-27.27s%6s  ", sd->index, d->name,
             on_off(d, GPU_F_PERSISTENCE_MODE, "On", "Off"));
    snprintf(middle, sizeof(middle), " %18.18s Off", d->pci_bus_id);
    snprintf(right, sizeof(right), " %20s", number(d, GPU_F_ECC_DBE_VOL, "").s);
    row(out, left, middle, right);
    snprintf(left, sizeof(left), " %3s  %4s    %s%-3s %12s / %6s ",
             number(d, GPU_F_FAN_SPEED, "%").s, number(d, GPU_F_GPU_TEMP, "C").s,
             d->fields[GPU_F_PSTATE].validity == GPU_VALID ? "P" : "", pstate.s,
             number(d, GPU_F_POWER_USAGE, "W").s, number(d, GPU_F_POWER_LIMIT, "W").s);
    snprintf(middle, sizeof(middle), " %10s / %9s", number(d, GPU_F_FB_USED, "MiB").s,
             number(d, GPU_F_FB_TOTAL, "MiB").s);
    snprintf(right, sizeof(right), " %7s %12s", number(d, GPU_F_GPU_UTIL, "%").s, compute_mode(d));
    row(out, left, middle, right);
    snprintf(right, sizeof(right), " %20s", on_off(d, GPU_F_MIG_MODE, "Enabled", "Disabled"));
    row(out, "", "", right);
}

static void instance_rows(struct gs_buf *out, const struct smi_view *v)
{
    bool any = false;
    for (unsigned i = 0; i < v->n; i++) {
        const struct smi_device *d = &v->devices[i];
        for (size_t m = 0; m < d->gpu->n_instances && m < GPU_MAX_INSTANCES; m++) {
            const struct gpu_instance *at = &d->gpu->instances[m];
            char text[256], memory[64] = "N/A";
            if (!d->instances[m])
                continue;
            if (!any) {
                gs_buf_add_str(out, "\n" LINE);
                wide(out, " MIG devices:");
                wide(out, "  GPU   GI   CI   MIG device           Memory-Usage   UUID");
                wide(out, "========================================================================"
                          "=================");
            }
            any = true;
            if (at->fb.used.validity == GPU_VALID && at->fb.total.validity == GPU_VALID)
                snprintf(memory, sizeof(memory), "%lldMiB / %lldMiB", (long long)at->fb.used.i,
                         (long long)at->fb.total.i);
            snprintf(text, sizeof(text), "  %3u  %3u  %3u   %-13s %18s   %s", d->index,
                     at->gpu_instance_id, at->compute_instance_id, at->profile, memory, at->uuid);
            wide(out, text);
        }
    }
    if (any)
        gs_buf_add_str(out, LINE);
}

// Instances are printed as "N/A" outside MIG.
static struct text instance_id(uint32_t id)
{
    struct text t = {"N/A"};
    if (id != GPU_NO_INSTANCE)
        snprintf(t.s, sizeof(t.s), "%u", id);
    return t;
}

static void process_row(struct gs_buf *out, const struct smi_device *d, const struct gpu_process *p)
{
    GS_AUTO_BUF struct gs_buf name = {0};
    char text[256], memory[32] = "N/A";
    smi_add_process_name(p->pid, &name);
    if (p->has_memory)
        snprintf(memory, sizeof(memory), "%lluMiB", (unsigned long long)(p->memory_bytes >> 20));
    // Of a long path, the end is shown.
    size_t len = name.len, skip = len > 35 ? len - 32 : 0;
    snprintf(text, sizeof(text), "  %3u  %4s %4s  %15u %6s   %s%-*s %9s ", d->index,
             instance_id(p->gpu_instance).s, instance_id(p->compute_instance).s, p->pid,
             p->graphics ? p->compute ? "C+G" : "G" : "C", skip ? "..." : "", skip ? 32 : 35,
             name.data + skip, memory);
    wide(out, text);
}

static void process_rows(struct gs_buf *out, const struct smi_view *v)
{
    bool any = false;
    gs_buf_add_str(out, "\n" LINE);
    wide(out, " Processes:");
    wide(out, "  GPU   GI   CI              PID   Type   Process name                        GPU "
              "Memory ");
    wide(out, "        ID   ID                                                               "
              "Usage      ");
    wide(out, "=========================================================================="
              "===============");
    for (unsigned i = 0; i < v->n; i++)
        for (size_t p = 0; p < v->devices[i].gpu->n_processes; p++) {
            const struct gpu_process *at = &v->devices[i].gpu->processes[p];
            if (!at->compute && !at->graphics) // has ended
                continue;
            process_row(out, &v->devices[i], at);
            any = true;
        }
    if (!any)
        wide(out, "  No running processes found");
    gs_buf_add_str(out, LINE);
}

void smi_print_table(const struct smi_view *v, struct gs_buf *out)
{
    const struct gpu_snapshot *s = v->snapshot;
    char now[64], text[256], cuda[16] = "N/A";
    time_t seconds = s->unix_ms / 1000;
    struct tm tm;
    (void)strftime(now, sizeof(now), "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &tm));
    if (s->cuda_version)
        snprintf(cuda, sizeof(cuda), "%d.%d", s->cuda_version / 1000, s->cuda_version % 1000 / 10);
    snprintf(text, sizeof(text), " NVIDIA-SMI %-21.20sDriver Version: %-21.20sCUDA Version: %-5s",
             s->driver_version, s->driver_version, cuda);
    gs_buf_addf(out, "%s\n" LINE, now);
    wide(out, text);
    gs_buf_add_str(out,
                   "|-----------------------------------------+------------------------+----------"
                   "------------+\n"
                   "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile "
                   "Uncorr. ECC |\n"
                   "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  "
                   "Compute M. |\n"
                   "|                                         |                        |          "
                   "     MIG M. |\n"
                   "|=========================================+========================+=========="
                   "============|\n");
    for (unsigned i = 0; i < v->n; i++) {
        device_rows(out, &v->devices[i]);
        gs_buf_add_str(out, COLUMNS3);
    }
    instance_rows(out, v);
    process_rows(out, v);
}
