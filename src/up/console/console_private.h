// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buf.h"
#include "base/hmap.h"
#include "codec/json.h"
#include "kube/client.h"
#include "tsdb/tsdb.h"

// --- text in columns ---
//
// Text in columns of a terminal. Escape sequences and combining characters take no column, wide
// characters take two.

size_t console_text_width(struct gs_slice s); // columns
// The text, cut to `width` columns; what is cut ends with "…".
void console_text_fit(struct gs_buf *out, struct gs_slice s, size_t width);
// The same, filled up with blanks to exactly `width` columns.
void console_text_column(struct gs_buf *out, struct gs_slice s, size_t width);
// Takes the next line of at most `width` columns off *rest, at a blank where there is one.
struct gs_slice console_text_wrap(struct gs_slice *rest, size_t width);

// --- rows of a block ---
//
// Rows of text that fit into a window. Sections are shown in the order in which they are added.
// When there are more rows than the window has, the important sections keep theirs.

struct console_block;

struct console_section {
    unsigned importance; // the highest gets its rows first
    size_t least;        // rows that come before all details of other sections
    const char *more;    // what is counted when it is cut ("… 3 more GPUs"); NULL: not counted
};

// rows: at most that many; 0: no limit. columns: of each row.
struct console_block *console_block_new(size_t rows, size_t columns);
void console_block_free(struct console_block *b);
size_t console_block_columns(const struct console_block *b);
size_t console_block_rows(const struct console_block *b);
// What is added afterwards belongs to it. `more` is borrowed.
void console_block_section(struct console_block *b, struct console_section s);
// An entry: one row, cut with "…" where it is too long.
void console_block_entry(struct console_block *b, struct gs_slice text);
// A text in as many rows as it needs, up to four, where there is room: an entry of its own when
// rank is 0, else more about the last entry. Rows of rank 1 come before all other rows of the
// section's entries. first and next are the indentations of its first row and of the others.
void console_block_text(struct console_block *b, unsigned rank, const char *first, const char *next,
                        struct gs_slice text);
// The rows, each with '\n'.
void console_block_print(const struct console_block *b, struct gs_buf *out);

// --- GPUs ---
//
// What the newest samples of the exporter say about each GPU, and a row of text for each.

#define CONSOLE_MAX_GPUS 128 // devices, with MIG instances

struct console_gpu {
    long index;
    long instance; // of MIG; -1: the whole GPU
    char model[64];
    double util, used_mib, free_mib, reserved_mib; // NAN: absent
    struct gs_buf pods;                            // names, each once
    size_t n_processes;
    bool lost;
};

struct console_gpus {
    struct console_gpu items[CONSOLE_MAX_GPUS];
    size_t len;
    const struct tsdb *db;
    const char *metric;
};

void console_gpus_collect(const struct tsdb *db, int64_t now_ms, struct console_gpus *ret);
void console_gpus_finish(struct console_gpus *gpus);
// An entry for each. The columns shrink to the width of the block: utilisation and memory stay,
// then pods, the bar and the model have what is left. When the block has not room for all, those
// with processes and the lost ones come first.
void console_gpus_add(const struct console_gpus *gpus, bool colour, struct console_block *block);

// --- findings about one pod ---
//
// Why one pod does not run: a pure function of the pod, its events and the last line of its log.

enum console_finding_kind { // in the order of the display
    CONSOLE_FINDING_IMAGE,
    CONSOLE_FINDING_CONFIG,
    CONSOLE_FINDING_CRASH,
    CONSOLE_FINDING_FAILED,
    CONSOLE_FINDING_UNSCHEDULABLE,
    CONSOLE_FINDING_PROBE,
    CONSOLE_FINDING_OTHER
};

struct console_finding {
    enum console_finding_kind kind;
    const char *reason;    // borrowed from the pod
    const char *container; // borrowed; NULL: the pod as a whole
    char *text, *remedy;   // owned
    char *identity;        // owned; what makes two findings the same: exit code, image, …
};

// Where the last line of a container's log comes from. NULL: it is not there yet; "": none.
typedef const char *(*console_last_line)(void *arg, const json_t *pod,
                                         const json_t *container_status);

struct console_find_context {
    const struct gs_hmap *events; // uid of the pod -> json_t, the array of its warnings
    console_last_line last_line;
    void *arg;        // of last_line
    int64_t now_ms;   // Unix
    int64_t start_ms; // what ended before was ended by the last run of the program
};

// false: the pod runs, or has not been waiting for long enough to call it a problem.
bool console_find(const json_t *pod, const struct console_find_context *context,
                  struct console_finding *ret);
void console_finding_finish(struct console_finding *f);

// --- last log lines ---
//
// The last line that an ended container wrote, from the API's log of the pod.

struct console_last_lines;

struct console_last_lines *console_last_lines_new(struct kube_client *client); // borrowed
void console_last_lines_free(struct console_last_lines *l); // cancels what is under way
// An console_last_line (findings.h) with `lines` as its argument. The first call for an ended
// container fetches the line; until it is there, that of the container's former end is given, or
// NULL.
const char *console_last_lines_get(void *lines, const json_t *pod, const json_t *container_status);
// Forgets the lines that nobody wanted since the last call.
void console_last_lines_sweep(struct console_last_lines *l);
