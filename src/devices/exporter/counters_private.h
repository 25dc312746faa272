// SPDX-License-Identifier: Apache-2.0
// Rows of the counters, for the files that make them.
#pragma once

#include "exporter/counters.h"

// Takes the strings of the row.
void exporter_counters_add(struct exporter_counters *c, struct exporter_counter row);
// name, type or help NULL: that of the field.
void exporter_counters_add_field(struct exporter_counters *c, enum gpu_field f, const char *name,
                                 const char *type, const char *help);
void exporter_counters_sort(struct exporter_counters *c);
bool exporter_counters_have_name(const struct exporter_counters *c, const char *name);
void exporter_counter_finish(struct exporter_counter *c);
void exporter_counters_warn(struct exporter_counters *c, char *text); // takes the text
// By a name of dcgm-exporter 1.x or of DCGM. GPU_F_COUNT: NVML does not provide it.
enum gpu_field exporter_counters_find_field(const char *name);
// Warns if DCGM_FI_DEV_GPU_UTIL_RATIO may be meant as DCGM 4.6 had it.
void exporter_counters_check_ratio(struct exporter_counters *c);
