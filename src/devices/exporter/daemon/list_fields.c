// SPDX-License-Identifier: Apache-2.0
// The table of --list-fields: all fields with their source, and which this machine's GPUs support.
#include "base/mem.h"
#include "dcgm/abi.h"
#include "dcgm/fields.h"
#include "exporter/daemon/daemon_private.h"

#include <stdio.h>

static void print_field(enum gpu_field f, const struct gpu_snapshot *s, int width)
{
    const struct gpu_field_info *info = gpu_field_info(f);
    const char *state = s ? "no GPU" : "no driver";
    bool valid = false;
    for (size_t i = 0; s && i < s->n_devices && !valid; i++) {
        enum gpu_validity v = s->devices[i].fields[f].validity;
        // A rate has no value in the first sample, but is supported.
        valid = v == GPU_VALID || v == GPU_UNKNOWN;
        state = valid ? "yes" : gpu_validity_text(v);
    }
    printf("%-4d %-*s %-8s %-22s %-52s %s\n", info->id, width, info->name, info->type, info->unit,
           info->source, state);
}

static int longest_name(void)
{
    size_t width = 0;
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        if (strlen(gpu_field_name(f)) > width)
            width = strlen(gpu_field_name(f));
    return (int)width;
}

// Fields of DCGM that NVML does not provide. Bytes have no form as text.
static void list_dcgm_only(int width)
{
    static const char *const levels[] = {
        [DCGM_ENTITY_NONE] = "machine",      [DCGM_ENTITY_GPU] = "GPU",
        [DCGM_ENTITY_VGPU] = "vGPU",         [DCGM_ENTITY_SWITCH] = "NVSwitch",
        [DCGM_ENTITY_GPU_I] = "GPU",         [DCGM_ENTITY_GPU_CI] = "GPU",
        [DCGM_ENTITY_LINK] = "NVLink",       [DCGM_ENTITY_CPU] = "CPU",
        [DCGM_ENTITY_CPU_CORE] = "CPU core", [DCGM_ENTITY_CONNECTX] = "ConnectX card",
    };
    const struct dcgm_field *d;
    for (size_t i = 0; (d = dcgm_field_at(i)); i++)
        if (gpu_field_by_id(d->id) == GPU_F_COUNT)
            printf("%-4u %-*s not exported: only DCGM provides it (%s%s)\n", d->id, width, d->name,
                   levels[d->level], d->type == 'b' ? ", bytes" : "");
}

void daemon_list_fields(const char *library)
{
    struct gpu_backend *backend = NULL;
    struct gpu_snapshot *snapshot = NULL;
    bool wanted[GPU_F_COUNT];
    for (int f = 0; f < GPU_F_COUNT; f++)
        wanted[f] = true;
    struct gpu_backend_config cfg = {.library = library, .wanted = wanted};
    struct gs_error *err = gpu_backend_open(&cfg, &backend);
    if (!err)
        err = gpu_backend_sample(backend, &snapshot);
    if (err)
        fprintf(stderr, "gpuscale: %s; the supported fields of this machine are unknown\n",
                gs_error_message(err));
    gs_error_free(err);
    int width = longest_name();
    printf("%-4s %-*s %-8s %-22s %-52s %s\n", "ID", width, "FIELD", "TYPE", "UNIT", "SOURCE",
           "SUPPORTED HERE");
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++)
        print_field(f, snapshot, width);
    static const char *const computed[][4] = {
        {"DCGM_EXP_XID_ERRORS_COUNT", "gauge", "1", "events of DCGM_FI_DEV_XID_ERRORS"},
        {"DCGM_EXP_CLOCK_EVENTS_COUNT", "gauge", "samples",
         "samples of DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
        {"DCGM_EXP_GPU_HEALTH_STATUS", "gauge", "0, 10 or 20", "errors, violations and XIDs"},
        {"DCGM_EXP_P2P_STATUS", "gauge", "enum", "nvmlDeviceGetP2PStatus"},
        {"DCGM_EXP_XID_ERRORS_TOTAL", "counter", "1", "events of DCGM_FI_DEV_XID_ERRORS"},
        {"DCGM_EXP_CLOCK_EVENTS_TOTAL", "counter", "1",
         "beginnings in DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(computed); i++)
        printf("%zu %-*s %-8s %-22s %-52s\n", 9001 + i, width, computed[i][0], computed[i][1],
               computed[i][2], computed[i][3]);
    list_dcgm_only(width);
    gpu_snapshot_free(snapshot);
    gpu_backend_close(backend);
}
