// SPDX-License-Identifier: Apache-2.0
// A file of lines that is exchanged for a new one when it is full: the old ones get the time into
// their names, and go by number and age.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

struct audit_log;

struct audit_log_options {
    const char *path;   // "-": standard output
    uint64_t max_bytes; // of one file; 0: 100 MiB
    int64_t max_age_ms; // of old ones; 0: for ever
    uint64_t max_old;   // how many old ones; 0: any number
};
struct gs_error *audit_log_new(const struct audit_log_options *o, struct audit_log **ret);
void audit_log_free(struct audit_log *l);
// Whole lines. A file that someone took away is made again.
struct gs_error *audit_log_write(struct audit_log *l, struct gs_slice lines);
