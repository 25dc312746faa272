// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module. A source delivers samples; the model keeps the state of each
// GPU, pod and process; rows, layout and frame turn it into text. Only screen.c and top.c know the
// terminal. All functions run on one thread.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "codec/json.h"
#include "metrics/gpu_owner.h"
#include "net/endpoint/endpoint.h"
#include "top/top.h"

#include <uv.h>

// --- samples (samples.c) ---

struct top_label {
    struct gs_slice name, value;
};

struct top_sample {
    struct gs_slice name;
    const struct top_label *labels;
    size_t n_labels;
    double value;
    int64_t t_ms; // Unix time of the sample; 0: that of the refresh
};

// What a source delivers at a refresh. The samples, their labels and texts are in the arena.
struct top_samples {
    struct gs_arena arena;
    struct top_sample *items;
    size_t len, cap;
    const char *note; // what is missing, clean; NULL: nothing
};

enum { TOP_MAX_SAMPLES = 200000, TOP_MAX_LABELS = 256, TOP_MAX_BYTES = 256 << 20 };

void top_samples_finish(struct top_samples *s);
// Copies the sample. GS_ELIMIT: too many.
struct gs_error *top_samples_add(struct top_samples *s, const struct top_sample *sample);
// Sets the note unless there is one.
void top_samples_note(struct top_samples *s, const char *text);
struct gs_slice top_sample_label(const struct top_sample *s, const char *name); // empty: absent

// --- history (history.c) ---
//
// The last values at equal intervals. NAN: no value.

enum { TOP_HISTORY = 240 };

struct top_history {
    float values[TOP_HISTORY]; // ring
    int64_t last;              // interval of the newest value, counted from 1970; 0: empty
};

void top_history_add(struct top_history *h, int64_t interval, double value);
double top_history_at(const struct top_history *h, int64_t interval); // NAN: none
// A line of `columns` blocks for the intervals that end with `now`; a blank where no value is.
// max: the value of a full block.
void top_history_draw(const struct top_history *h, int64_t now, size_t columns, double max,
                      struct gs_buf *out);
// A chart of `rows` lines, each with `columns` blocks. Lines end with '\n'.
void top_history_chart(const struct top_history *h, int64_t now, size_t rows, size_t columns,
                       double max, struct gs_buf *out);

// --- model (model.c) ---
//
// Texts are clean (gs_columns_clean). Numbers are NAN if they are not available.

enum top_pane { TOP_GPUS, TOP_PODS, TOP_PROCESSES, TOP_PANES };

struct top_gpu {
    char *key;
    char *node, *index, *slice, *uuid, *model; // slice: profile of a MIG device; "" if unknown
    bool simulated;
    bool lost, hung; // states of the driver
    bool absent;     // from the last refresh; the values are older
    bool gone;       // it has been absent for so long that its values are stale
    double util, used_mib, free_mib, reserved_mib, total_mib, temp, power, power_limit;
    double sm_clock, mem_copy, encoder, decoder;
    int64_t at_ms; // Unix time of the newest sample
    char *pods;    // "ns/name", separated by blanks
    struct top_history utils, memory;
};

struct top_pod {
    char *key; // "ns/name"
    char *ns, *name, *node, *phase;
    bool gone;
    bool estimated;   // a process value is estimated, or the GPU's value counts for several pods
    double requested; // GPUs; NAN: unknown
    size_t n_gpus;    // that have samples with the pod's name
    double util;      // mean over its GPUs; of shared GPUs, the share of its processes
    double used_mib, created_s;
    double waiting, running, kv_percent; // of its inference engine; NAN: it has none
    int64_t at_ms;
    struct top_history utils;
};

struct top_process {
    char *key;
    char *gpu, *node, *pid, *name, *type, *pod; // gpu: index, with a slice "0/1"
    bool gone;
    double util, used_mib;
    int64_t at_ms;
};

enum { TOP_MAX_ROWS = 20000 }; // of each kind

struct top_model {
    struct gs_hmap *by_key[TOP_PANES]; // to index + 1
    struct top_gpu **gpus;
    struct top_pod **pods;
    struct top_process **processes;
    size_t n_gpus, n_pods, n_processes, cap_gpus, cap_pods, cap_processes;
    bool simulated;
    bool complete;                       // a refresh has succeeded
    bool over_limit;                     // some rows are left out
    char *note;                          // of the source; NULL: none
    struct metrics_gpu_targets *targets; // of the last refresh
    int64_t interval_ms;                 // of the history
    int64_t refresh_ms;                  // between refreshes
    int64_t stale_ms;                    // age from which a value is not current
    int64_t refreshed_ms;
};

void top_model_init(struct top_model *m, int64_t interval_ms);
// From now on, the time between refreshes. The intervals of the history stay the same.
void top_model_set_refresh(struct top_model *m, int64_t refresh_ms);
void top_model_finish(struct top_model *m);
// Replaces the values by those of a refresh.
void top_model_update(struct top_model *m, const struct top_samples *s, int64_t now_ms);
// Fills histories with earlier samples. They do not create rows.
void top_model_add_past(struct top_model *m, const struct top_samples *s);
bool top_model_is_stale(const struct top_model *m, int64_t at_ms, int64_t now_ms);
// Memory of the board in MiB: its size as reported, or the sum of its parts. NAN: unknown.
double top_gpu_total(const struct top_gpu *g);
// "0", "0/2" for a MIG device
void top_gpu_label(const struct top_gpu *g, struct gs_buf *out);

// The row with this key; NULL: none. A struct of the pane's kind.
const void *top_model_find(const struct top_model *m, enum top_pane pane, const char *key);
// The names of the metrics that the model reads about GPUs and processes, as a regular expression.
void top_model_metrics(struct gs_buf *out);
// The name of samples whose value is the time of the GPU's samples, in Unix seconds.
#define TOP_TIMESTAMP "timestamp"
// Samples of whole pods, in percent and in MiB.
#define TOP_POD_UTIL "pod_utilization"
#define TOP_POD_USED "pod_memory_used"

// --- rows (rows.c) ---

struct top_order {
    int column; // index into the columns of the pane; -1: the natural order
    bool reverse;
};

struct top_rows {
    size_t *items; // indices into the array of the model
    size_t len, total;
};

// The rows that contain the filter's text, sorted. filter NULL or "": all.
void top_rows_select(const struct top_model *m, enum top_pane pane, const struct top_order *order,
                     const char *filter, int64_t now_ms, struct top_rows *ret);
void top_rows_finish(struct top_rows *r);

// --- columns (columns.c) ---

enum top_align { TOP_LEFT, TOP_RIGHT };

// A cell's text, with SGR sequences for colours, and the value by which rows are sorted.
struct top_cell {
    struct gs_buf text;
    double number;    // NAN: sorted last
    const char *name; // sorted by text; NULL: by number
};

struct top_view { // what a row is drawn from
    const struct top_model *model;
    enum top_pane pane;
    size_t index;
    int64_t now_ms;
    size_t width; // of the cell, for history; 0: unknown
    bool colour;
};

struct top_column {
    const char *name; // of --sort and JSON
    const char *title;
    enum top_align align;
    unsigned priority;  // columns with low ones are dropped last; 0: always shown
    size_t least, most; // columns of the terminal; most 0: as its widest cell
    unsigned weight;    // share of what is left; 0: none
    bool descending;    // the order that people expect first
    void (*cell)(const struct top_view *v, struct top_cell *ret);
};

// The columns of a pane; ends with a NULL name.
const struct top_column *top_columns_of(enum top_pane pane);
enum { TOP_MAX_COLUMNS = 16 };
// The index of a column by its name; -1: none.
int top_columns_find(enum top_pane pane, const char *name);

// --- layout (layout.c) ---

struct top_layout {
    struct {
        int column;
        size_t at, width; // from the left
    } items[TOP_MAX_COLUMNS];
    size_t n;
};

// Chooses the columns for a width, and their widths. Only `rows` are measured.
void top_layout_fit(const struct top_model *m, enum top_pane pane, const struct top_rows *rows,
                    int64_t now_ms, size_t width, struct top_layout *ret);
void top_layout_header(enum top_pane pane, const struct top_layout *l,
                       const struct top_order *order, struct gs_buf *out);
void top_layout_row(const struct top_model *m, enum top_pane pane, const struct top_layout *l,
                    size_t index, int64_t now_ms, bool colour, struct gs_buf *out);

// --- state of the user interface (keys.c) ---

enum top_key {
    TOP_KEY_NONE,
    TOP_KEY_UP = 0x110000, // past Unicode
    TOP_KEY_DOWN,
    TOP_KEY_LEFT,
    TOP_KEY_RIGHT,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ENTER,
    TOP_KEY_ESCAPE,
    TOP_KEY_BACKSPACE,
    TOP_KEY_TAB,
    TOP_KEY_BACK_TAB,
    TOP_KEY_CLICK, // with the place
    TOP_KEY_REDRAW,
    TOP_KEY_OTHER, // without a meaning
};

enum { TOP_FILTER_SIZE = 128 };

struct top_ui {
    enum top_pane pane; // that has the cursor
    bool only_pane;     // the pane fills the window
    bool help, details, typing, paused, quit, refresh_now, redraw;
    struct top_order order[TOP_PANES];
    size_t cursor[TOP_PANES], first[TOP_PANES], n_rows[TOP_PANES], shown[TOP_PANES];
    char *selected[TOP_PANES]; // key of the row at the cursor, which it follows
    char filter[TOP_FILTER_SIZE], before[TOP_FILTER_SIZE]; // before: of Escape
    int64_t interval_ms;
    size_t scroll; // of help and details
};

void top_ui_finish(struct top_ui *ui);
// key: a character or enum top_key.
void top_ui_key(struct top_ui *ui, int key);

// --- frame (frame.c) ---

struct top_status {
    const char *source;  // "http://…", "NVML"; clean
    const char *problem; // why the source does not respond; NULL: it does
    int64_t now_ms;
    bool colour;
};

enum { TOP_MAX_LINES = 1000 };

struct top_frame {
    struct gs_buf text; // lines that end with '\n', at most as many as the window has
    struct {
        signed char pane; // -1: none
        bool header;
        size_t row; // of the pane's rows
    } lines[TOP_MAX_LINES];
    struct top_layout layouts[TOP_PANES];
};

// Draws everything for a window. Updates the parts of ui that depend on the rows and the window:
// cursor, first, n_rows, shown, selected.
void top_frame_draw(const struct top_model *m, struct top_ui *ui, const struct top_status *s,
                    size_t rows, size_t columns, struct top_frame *ret);
void top_frame_finish(struct top_frame *f);
// A click, or a double click, at a place of the frame.
void top_frame_click(const struct top_frame *f, struct top_ui *ui, size_t line, size_t column);
// Replaces what is not ASCII by ASCII of the same width, for other character sets.
void top_frame_ascii(struct gs_slice text, struct gs_buf *out);

// One line about all GPUs: "4 GPUs: 3 busy, 1 idle · utilization 60% …"
void top_frame_summary(const struct top_model *m, int64_t now_ms, struct gs_buf *out);
// Why a pane has no row.
const char *top_frame_no_rows(enum top_pane pane, const struct top_rows *rows);
// The page about one row. key: of the row, NULL: none (details.c).
void top_details_text(const struct top_model *m, enum top_pane pane, const char *key,
                      int64_t now_ms, size_t columns, size_t rows, struct gs_buf *out);

// --- output without a terminal (print.c) ---

// A table of the GPUs, and those of pods and processes if any exists.
void top_print_table(const struct top_model *m, const struct top_ui *ui, const struct top_status *s,
                     size_t columns, struct gs_buf *out);
json_t *top_print_json(const struct top_model *m, const struct top_ui *ui,
                       const struct top_status *s);

// --- sources (source_*.c) ---

struct top_source;

// Called once after each refresh that was not cancelled. samples and past are borrowed; NULL after
// an error, and past unless earlier samples were read. The callee owns err.
typedef void (*top_source_done)(void *arg, const struct top_samples *samples,
                                const struct top_samples *past, struct gs_error *err);

struct top_source_ops {
    void (*refresh)(struct top_source *s, top_source_done done, void *arg);
    void (*free)(struct top_source *s); // cancels a refresh; the loop must run afterwards
};

struct top_source {
    const struct top_source_ops *ops;
    char *name;     // clean
    bool needs_two; // rates exist from the second refresh on
};

void top_source_nvml_new(uv_loop_t *loop, const char *library, struct top_source **ret);
// Whether this machine has GPUs and a driver. The error says why not.
struct gs_error *top_source_nvml_probe(const char *library);
struct gs_error *top_source_exporter_new(uv_loop_t *loop, const struct top_options *o,
                                         const char *url, struct top_source **ret);
// of_service: the credentials of a Service behind an API server; NULL: none.
struct gs_error *top_source_prometheus_new(uv_loop_t *loop, const struct top_options *o,
                                           const char *url,
                                           const struct endpoint_settings *of_service,
                                           int64_t interval_ms, struct top_source **ret);
// The pods of a cluster. GS_ENOTFOUND: there is no kubeconfig.
struct gs_error *top_source_cluster_new(uv_loop_t *loop, const struct top_options *o,
                                        struct top_source **ret);
// Reads an exposition, or the response of a query. Exported for tests.
struct gs_error *top_source_read_exposition(struct gs_slice text, struct top_samples *ret);
struct gs_error *top_source_read_query(struct gs_slice body, struct top_samples *ret);

// --- screen (screen.c) ---

struct top_screen;

// Takes the terminal of stdin and stdout over. GS_ENOTSUP: its type ($TERM) is unknown or cannot
// place the cursor.
struct gs_error *top_screen_open(struct top_screen **ret);
// Gives the terminal back in its former state. Accepts NULL.
void top_screen_close(struct top_screen *s);
void top_screen_size(const struct top_screen *s, size_t *ret_rows, size_t *ret_columns);
void top_screen_resize(struct top_screen *s); // after SIGWINCH
void top_screen_draw(struct top_screen *s, struct gs_slice frame);
// The next key, TOP_KEY_NONE if none waits. With TOP_KEY_CLICK the place is set.
int top_screen_key(struct top_screen *s, size_t *ret_line, size_t *ret_column);
bool top_screen_colour(const struct top_screen *s);
void top_screen_suspend(struct top_screen *s); // Ctrl-Z; returns when the program continues
