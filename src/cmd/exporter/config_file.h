// SPDX-License-Identifier: Apache-2.0
// --config-file: the YAML file of dcgm-exporter 4.6, schema version 1:
//
//     version: 1
//     metrics:
//       file: /etc/dcgm-exporter/default-counters.csv   # or fields:
//       fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: Temperature.}]
//     collection:
//       interval: 10s
//       watchGroups: [{name: slow, interval: 10m, fields: [DCGM_FI_DEV_NVLINK_*]}]
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>

struct exporter_file {
    char *counters_file; // metrics.file; NULL: none
    struct gs_buf rows;  // metrics.fields as a counters file
    int64_t interval_ms; // 0: not said
    size_t n_watch_groups;
};

// Unknown and repeated keys, other versions and wrong values are errors.
struct gs_error *exporter_file_parse(struct gs_slice text, const char *name,
                                     struct exporter_file *ret);
struct gs_error *exporter_file_load(const char *path, struct exporter_file *ret);
void exporter_file_finish(struct exporter_file *f);
