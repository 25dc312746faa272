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
#include "cmd/exporter/watch_groups.h"

#include <stdint.h>

struct exporter_file {
    char *counters_file; // metrics.file; NULL: none
    struct gs_buf rows;  // metrics.fields as a counters file
    int64_t interval_ms; // 0: not said
    struct watch_groups groups;
};

// Unknown and repeated keys, other versions and wrong values are errors.
struct gs_error *exporter_file_parse(struct gs_slice text, const char *name,
                                     struct exporter_file *ret);
struct gs_error *exporter_file_load(const char *path, struct exporter_file *ret);
void exporter_file_finish(struct exporter_file *f);

// Parts of reading it.
struct gs_error *exporter_file_check_keys(const json_t *obj, const char *const *keys,
                                          const char *where);
// Without the blanks around it; "" when it is not there or neither text nor number.
char *exporter_file_text(const json_t *obj, const char *key);
// Of the key "interval": whole milliseconds, more than 0.
struct gs_error *exporter_file_interval(const json_t *obj, const char *where, int64_t *ret_ms);
