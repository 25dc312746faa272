// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module.
#pragma once

#include "base/buf.h"
#include "gpu/gpu.h"
#include "smi/smi.h"

#include <stdio.h>

struct smi_device {
    const struct gpu_device *gpu;
    unsigned index;                    // among the visible GPUs
    bool instances[GPU_MAX_INSTANCES]; // visible MIG devices
};

// What is visible of a sample.
struct smi_view {
    const struct gpu_snapshot *snapshot;
    struct smi_device devices[GPU_MAX_DEVICES];
    unsigned n;
};

// --- view.c ---
// visible: NVIDIA_VISIBLE_DEVICES, NULL: all. id: smi_options.id.
void smi_view_init(struct smi_view *v, const struct gpu_snapshot *s, const char *visible,
                   const char *id);
// The text of a value with its unit (" %", may be ""), or the reason for its absence ("[N/A]").
void smi_add_value(const struct gpu_value *v, const char *unit, struct gs_buf *out);
// The program of a process, "[Not Found]" if it has ended.
void smi_add_process_name(uint32_t pid, struct gs_buf *out);

// --- table.c, list.c, query.c ---
void smi_print_table(const struct smi_view *v, struct gs_buf *out);
void smi_print_list(const struct smi_view *v, struct gs_buf *out);
void smi_print_details(const struct smi_view *v, struct gs_buf *out);
// GS_EINVAL: a field or a format is unknown. header: the first of repeated outputs.
struct gs_error *smi_print_query(const struct smi_view *v, const struct smi_options *o, bool header,
                                 struct gs_buf *out);
void smi_print_fields(struct gs_buf *out);
