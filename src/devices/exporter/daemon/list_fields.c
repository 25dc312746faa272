// SPDX-License-Identifier: Apache-2.0
// The table of --list-fields: all fields with their source, and which this machine's GPUs support.
#include "base/mem.h"
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
    for (size_t i = 0; gpu_dcgm_only_field(i); i++)
        printf("-    DCGM_FI_%-*s not exported: only DCGM provides it, or it is not a field of a "
               "GPU\n",
               width - 8, gpu_dcgm_only_field(i));
    gpu_snapshot_free(snapshot);
    gpu_backend_close(backend);
}
