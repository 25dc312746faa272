// SPDX-License-Identifier: Apache-2.0
// The display of `gpuscale up`: the status block at the bottom of the terminal, the log above it,
// and the timeline at the end. All functions run on the thread of the loop.
#pragma once

#include "base/buf.h"
#include "hpa/hpa.h"
#include "kube/cache.h"
#include "tsdb/tsdb.h"

#include <stdint.h>

// --- terminal ---
//
// A block of lines that is redrawn at the bottom of a terminal, below the lines of the log. If the
// output is not a terminal, only lines are printed.

struct console_terminal;

struct console_terminal *console_terminal_new(int fd); // becomes the sink of the log
void console_terminal_free(
    struct console_terminal *t); // removes the block; the log is written to stderr again
bool console_terminal_live(const struct console_terminal *t);
bool console_terminal_colour(
    const struct console_terminal *t); // a terminal, and NO_COLOR is not set
void console_terminal_line(struct console_terminal *t, const char *fmt, ...) GS_PRINTF(2, 3);
// The size of the window: of the terminal, else $LINES and $COLUMNS, else 24 and 80.
void console_terminal_size(const struct console_terminal *t, size_t *ret_rows, size_t *ret_columns);
// Lines end with '\n'. Lines and rows that do not fit into the window are cut. No effect without a
// terminal. Draw again when the window changes (SIGWINCH).
void console_terminal_draw(struct console_terminal *t, struct gs_slice block);

// --- decisions of autoscalers ---
//
// The last decision of each autoscaler as text, for the status block.

struct console_decisions;

struct console_decision {
    char *key;    // "ns/name"
    char *target; // "Deployment/web"
    int32_t current, desired, min, max;
    char *reading; // value/target: "46/20 + 1 more", "<unknown>"
    char *why;     // one line
    int64_t decided_ms;
};

struct console_decisions *console_decisions_new(void);
void console_decisions_free(struct console_decisions *d);
// Returns the record, borrowed until the next call.
const struct console_decision *console_decisions_record(struct console_decisions *all,
                                                        const struct hpa_spec *spec,
                                                        const struct hpa_decision *d);
size_t console_decisions_len(const struct console_decisions *d);
const struct console_decision *console_decisions_at(const struct console_decisions *d, size_t i);
// Whether every autoscaler is at its minimum (false without autoscalers).
bool console_decisions_all_at_min(const struct console_decisions *d);

// --- problems of pods ---
//
// The diagnoses of pods that do not run (diagnosis/diagnosis.h). Reads pods, events and logs
// through the API. Pods of one workload with the same cause are one problem.

struct console_problems;

struct console_problem {
    char *ns;
    char *who;    // "web (3 pods)", "web", or the name of a pod without owner
    char *reason; // "CrashLoopBackOff"
    char *text;   // "exit code 1, restarted 4 times: ModuleNotFoundError: …"
    char *remedy; // "kubectl logs web-0"
};

struct console_problems_source {
    struct kube_client *client;            // for the logs
    const struct kube_cache *pods, *nodes; // nodes NULL: not known
    const struct kube_cache *events;       // of KUBE_EVENTS
    const json_t *pools;                   // nodes_pools_json(); NULL: not known
};

// All members are borrowed. now_ms: the start of the program (Unix).
struct console_problems *console_problems_new(const struct console_problems_source *source,
                                              int64_t now_ms);
void console_problems_free(struct console_problems *p);
// Reads the pods again. Each problem that is new, or was absent for a while, is logged once.
void console_problems_update(struct console_problems *p, int64_t now_ms);
// Adds a problem that is not one of pods to the next update. It is not logged. Texts are copied.
void console_problems_report(struct console_problems *p, const char *who, const char *reason,
                             const char *text, const char *remedy);
size_t console_problems_len(const struct console_problems *p);
const struct console_problem *console_problems_at(const struct console_problems *p, size_t i);
// For the web page: [{"namespace", "name": of the workload or pod, "pods": how many, "reason",
// "text", "remedy"}]; new reference.
json_t *console_problems_json(const struct console_problems *p);

// --- status block ---
//
// The status block: GPUs with bars, pods, autoscalers with their last decision. Reads the series of
// the store and the objects of the API.

#define CONSOLE_STATUS_HINTS 2

struct console_status_source {
    const struct tsdb *db;
    const struct kube_cache *pods;
    const struct console_decisions *decisions;
    const struct console_problems *problems; // NULL: none
    const char *headline;                    // "node x, 4 GPUs"
    const char *pools;                       // lines for pools and their nodes; NULL: no pools
    const char *hints[CONSOLE_STATUS_HINTS]; // "export KUBECONFIG=…"; NULL after the last
    const char *service_url;                 // NULL: none yet
    const char *load;                        // "running: hey …" or NULL
    bool simulated;
    bool colour;
};

// At most `rows` rows (0: no limit) of at most `columns` columns. Small windows show problems,
// decisions and counts first; then GPUs, addresses and explanations.
void console_status_render(const struct console_status_source *s, int64_t now_ms, size_t rows,
                           size_t columns, struct gs_buf *out);
// Mean GPU_UTIL over the GPUs that have a process on them; NAN when none has.
double console_status_gpu_percent(const struct tsdb *db, int64_t now_ms);
// "1 running, 2 pending", "no pods".
void console_status_pods(const struct kube_cache *pods, struct gs_buf *out);

// --- timeline ---
//
// The table at the end: a row for each start or end of the load, and for each change of replicas.

struct console_timeline;

struct console_timeline *console_timeline_new(int64_t start_ms);
void console_timeline_free(struct console_timeline *t);
// gpu_percent NAN: not known. why is one line.
void console_timeline_add(struct console_timeline *t, int64_t now_ms, bool load, double gpu_percent,
                          const char *replicas, const char *why);
// columns: width of the window, at which long reasons are wrapped; 0: no wrapping.
void console_timeline_print(const struct console_timeline *t, size_t columns, struct gs_buf *out);
