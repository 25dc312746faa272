// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the console, the status that `gpuscale up` shows in a terminal.
#pragma once

#include "base/buf.h"
#include "base/columns.h"
#include "base/hmap.h"
#include "codec/json.h"
#include "kube/client.h"
#include "tsdb/tsdb.h"

// --- rows of a block ---
//
// Rows of text that fit into a window. Sections are shown in the order in which they are added. If
// there are too many rows, the most important sections keep theirs.

struct console_block;

struct console_section {
    unsigned importance; // the highest gets its rows first
    size_t least;        // rows that come before all details of other sections
    const char
        *more; // noun of the row that counts hidden entries ("… 3 more GPUs"); NULL: no such row
};

// rows: at most that many; 0: no limit. columns: of each row.
struct console_block *console_block_new(size_t rows, size_t columns);
void console_block_free(struct console_block *b);
size_t console_block_columns(const struct console_block *b);
size_t console_block_rows(const struct console_block *b);
// Entries that are added after this call belong to the section. `more` is borrowed.
void console_block_section(struct console_block *b, struct console_section s);
// An entry: one row, cut with "…" if it is too long.
void console_block_entry(struct console_block *b, struct gs_slice text);
// A text in at most four rows, if there is space. rank 0: a new entry; else a detail of the last
// entry. Details of rank 1 get their rows before those of higher ranks. first and next are the
// indentations of the first row and of the following ones.
void console_block_text(struct console_block *b, unsigned rank, const char *first, const char *next,
                        struct gs_slice text);
// The rows, each with '\n'.
void console_block_print(const struct console_block *b, struct gs_buf *out);

// --- GPUs ---
//
// The newest samples of the exporter for each GPU, and a row of text for each.

#define CONSOLE_MAX_GPUS 512 // devices, with MIG instances

struct console_gpu {
    uint64_t uuid; // hash; several nodes have a GPU 0
    long index;
    long instance; // of MIG; -1: the whole GPU
    char model[64];
    char node[64];                                 // without the prefix of simulated machines
    double util, used_mib, free_mib, reserved_mib; // NAN: absent
    struct gs_buf pods;                            // names, each once
    size_t n_processes;
    bool lost;
};

struct console_gpus {
    struct console_gpu items[CONSOLE_MAX_GPUS];
    size_t len;
    bool several_nodes;
    const struct tsdb *db;
    const char *metric;
    double factor; // of the values of a series with the other name of the metric
};

void console_gpus_collect(const struct tsdb *db, int64_t now_ms, struct console_gpus *ret);
void console_gpus_finish(struct console_gpus *gpus);
// Adds an entry per GPU. The columns shrink to the width of the block: utilization and memory stay;
// pods, the bar and the model share the remaining width. If the block is too small for all GPUs,
// lost GPUs and those with processes come first.
void console_gpus_add(const struct console_gpus *gpus, bool colour, struct console_block *block);

// --- last log lines ---
//
// The last line that an ended container wrote, from the log of the pod.

struct console_last_lines;

struct console_last_lines *console_last_lines_new(struct kube_client *client); // borrowed
void console_last_lines_free(struct console_last_lines *l); // cancels what is under way
// A diagnosis_last_line with `lines` as its argument. The first call for an ended container fetches
// the line. Until then, the line of the previous end, or NULL, is returned.
const char *console_last_lines_get(void *lines, const json_t *pod, const json_t *container_status);
// Removes the lines that were not read since the last call.
void console_last_lines_sweep(struct console_last_lines *l);
