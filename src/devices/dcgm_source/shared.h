// SPDX-License-Identifier: Apache-2.0
// The memory that the reader shares with its parent: the task, written before the reader starts,
// and two halves, of which the reader writes the older one. The parent treats what it reads as
// hostile.
#pragma once

#include "dcgm_source/source_private.h"

#include <stdatomic.h>

#define DCGM_SOURCE_SHARED_MAGIC UINT32_C(0x6463676d)
enum {
    DCGM_SOURCE_SHARED_FD = 3, // in the reader
    DCGM_SOURCE_PARENT_FD = 4, // a socket: the reader writes a byte after each change; its end
                               // means that the other side has ended
};

struct dcgm_source_half {
    _Atomic uint64_t sequence; // 0 while it is written
    _Atomic uint32_t n_entities, n_values, n_text;
    int64_t read_ns; // duration of the read
    struct dcgm_entity entities[DCGM_SOURCE_MAX_ENTITIES];
    struct dcgm_value values[DCGM_SOURCE_MAX_VALUES];
    char texts[DCGM_SOURCE_MAX_TEXT];
};

struct dcgm_source_shared {
    uint32_t magic, size;
    // written by the parent
    struct dcgm_source_target target;
    char library[512]; // "": the default names
    int32_t parent_pid;
    int64_t retry_ns;
    struct dcgm_source_plan plan;
    _Atomic uint32_t renewals;
    // written by the reader
    _Atomic uint64_t beats;            // progress
    _Atomic uint32_t lost_connections; // how often an established connection ended
    _Atomic uint64_t report_sequence;  // odd while it is written
    struct dcgm_source_report report;
    _Atomic uint64_t sequence; // of the newest half, which is halves[sequence & 1]
    struct dcgm_source_half halves[2];
};

// --- reader ---

struct dcgm_source_half *dcgm_source_shared_begin(struct dcgm_source_shared *m);
void dcgm_source_shared_end(struct dcgm_source_shared *m);
void dcgm_source_shared_report(struct dcgm_source_shared *m, const struct dcgm_source_report *r);

// --- parent ---

// A checked copy of the newest half. NULL: nothing new since *sequence, or it is being replaced.
struct dcgm_latest *dcgm_source_shared_take(const struct dcgm_source_shared *m, uint64_t *sequence,
                                            int64_t *ret_read_ns);
// False: unchanged since *sequence, or being written.
bool dcgm_source_shared_take_report(const struct dcgm_source_shared *m, uint64_t *sequence,
                                    struct dcgm_source_report *ret);
