// SPDX-License-Identifier: Apache-2.0
// A file of lines that is exchanged for a new one when it is full: the old ones get the time into
// their names, and go by number and age.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

struct adapter_api_audit_log;

struct adapter_api_audit_log_options {
    const char *path;   // "-": standard output
    uint64_t max_bytes; // of one file; 0: 100 MiB
    int64_t max_age_ms; // of old ones; 0: for ever
    uint64_t max_old;   // how many old ones; 0: any number
};
struct gs_error *adapter_api_audit_log_new(const struct adapter_api_audit_log_options *o,
                                           struct adapter_api_audit_log **ret);
void adapter_api_audit_log_free(struct adapter_api_audit_log *l);
// Whole lines. A file that someone took away is made again.
struct gs_error *adapter_api_audit_log_write(struct adapter_api_audit_log *l,
                                             struct gs_slice lines);
