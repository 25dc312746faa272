// SPDX-License-Identifier: Apache-2.0
// Who uses GPUs: the hours of each GPU by state (busy, idle, free, stranded, missing) and by
// namespace, workload, owner, node, pool, machine type and model. The input is the samples of the
// series that ledger_query() selects, whether they come from the engine or from a Prometheus.
// docs/report.md defines the states. Times are Unix milliseconds, durations milliseconds of GPU
// time. Objects belong to one thread.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"
#include "metrics/labels.h"

#include <stdbool.h>
#include <stdint.h>

#define LEDGER_HOUR_MS       INT64_C(3600000)
#define LEDGER_BUSY_PERCENT  1                     // mean utilization from which a GPU is busy
#define LEDGER_DEFAULT_OWNER "team"                // the label of pods and namespaces
#define LEDGER_FORGET_MS     (24 * LEDGER_HOUR_MS) // a GPU without data is no longer expected
#define LEDGER_DAYS          400                   // that are kept
#define LEDGER_OTHER         "(other)"             // the texts of a row of all others

enum ledger_state {
    LEDGER_BUSY,
    LEDGER_IDLE,
    LEDGER_FREE,
    LEDGER_STRANDED,
    LEDGER_MISSING,
    LEDGER_N_STATES
};
const char *ledger_state_name(enum ledger_state s);

// The texts of a row. "" if unknown. Hours with a namespace are allocated to a pod.
enum ledger_dimension {
    LEDGER_NAMESPACE,
    LEDGER_WORKLOAD, // "deployment/web"
    LEDGER_OWNER,
    LEDGER_NODE,
    LEDGER_POOL,
    LEDGER_MACHINE,
    LEDGER_MODEL,
    LEDGER_CONFIDENCE, // of the attribution to a pod: "exclusive", "attributed", "estimate"
    LEDGER_N_DIMENSIONS
};
const char *ledger_dimension_name(enum ledger_dimension d);

struct ledger_key {
    const char *text[LEDGER_N_DIMENSIONS];
};
struct ledger_amount {
    double ms[LEDGER_N_STATES];
    double used_ms; // busy and idle time, weighted with the utilization
    double
        saved_ms; // of GPUs that one replica would have while its workload is at zero; in no state
};
double ledger_total_ms(const struct ledger_amount *a);
void ledger_amount_add(struct ledger_amount *to, const struct ledger_amount *a);

// --- tables: amounts by hour and key ---

struct ledger_table;
// max_rows: of one hour. Further keys of it are added up in a row whose texts are "(other)".
struct ledger_table *ledger_table_new(size_t max_rows);
void ledger_table_free(struct ledger_table *t);
GS_DEFINE_CLEANUP(struct ledger_table *, ledger_table_free)
// Adds share GPUs in this state from from_ms to to_ms, split at full hours. used: utilization from
// 0 to 1.
void ledger_table_add(struct ledger_table *t, int64_t from_ms, int64_t to_ms,
                      const struct ledger_key *key, enum ledger_state state, double share,
                      double used);
// Adds time that a workload at zero replicas has saved.
void ledger_table_add_saved(struct ledger_table *t, int64_t from_ms, int64_t to_ms,
                            const struct ledger_key *key, double gpus);
size_t ledger_table_len(const struct ledger_table *t);
// Sets all amounts to 0, because they are written. Rows of the current hour still count.
void ledger_table_written(struct ledger_table *t, int64_t now_ms);
// Rows with an amount, in no order. Texts are borrowed until the call returns. false: ends.
typedef bool (*ledger_row_fn)(void *arg, int64_t hour_ms, const struct ledger_key *key,
                              const struct ledger_amount *a);
void ledger_table_each(const struct ledger_table *t, ledger_row_fn fn, void *arg);

// --- observations: the samples of one moment ---

enum ledger_series {
    LEDGER_TARGET,     // "up" of targets that are pods
    LEDGER_TARGET_POD, // kube_pod_info of the pods of GPU exporters
    LEDGER_UTIL,       // percent, of whole GPUs
    LEDGER_ACTIVE,     // 0 to 1, of MIG devices and of GPUs without LEDGER_UTIL
    LEDGER_PRESENT,    // GPUs and MIG devices that respond
    LEDGER_PROCESS,    // percent, of processes of pods
    LEDGER_HOLDER,     // containers with a share of a GPU
    LEDGER_ORIGIN,     // of the values of pods: the confidence
    LEDGER_POD_OWNER,
    LEDGER_REPLICASET_OWNER,
    LEDGER_JOB_OWNER,
    LEDGER_POD_LABEL,
    LEDGER_NAMESPACE_LABEL,
    LEDGER_NODE_LABEL,
    LEDGER_NODE_EXISTS,
    LEDGER_NODE_STRANDED,
    LEDGER_ZERO, // GPUs of one replica of the workloads that an autoscaler has scaled to zero
    LEDGER_N_SERIES
};
// The PromQL query of these samples; means are those of the last window_s seconds. owner: the name
// of a Kubernetes label, already valid. Caller frees.
char *ledger_query(enum ledger_series s, const char *owner, int64_t window_s);
// GS_EINVAL: not the name of a Kubernetes label.
struct gs_error *ledger_check_owner(const char *owner);

struct ledger_observation;
struct ledger_observation *ledger_observation_new(const char *owner);
void ledger_observation_free(struct ledger_observation *o);
GS_DEFINE_CLEANUP(struct ledger_observation *, ledger_observation_free)
// The samples of a series come after those of all series before it in the enumeration. labels are
// copied; they may contain __name__. Samples above the limits are ignored.
void ledger_observation_add(struct ledger_observation *o, enum ledger_series s,
                            const struct metrics_label *labels, size_t n, double value);

// --- meters: from observations to hours ---

// A GPU, or a MIG device, and its last state. Texts are "" if unknown.
struct ledger_gpu {
    const char *id; // unique in the meter
    const char *uuid, *gpu, *node, *pool, *machine, *model;
    const char *ns, *pod, *workload, *owner; // while one pod has it; of several pods the first
    double share;                            // of a GPU; less than 1 for MIG devices
    int64_t seen_ms;                         // of the last data
    int64_t idle_since_ms;                   // 0: it is not allocated and idle
    int64_t idle_ms;                         // since then, without missing data
};

struct ledger_meter;
struct ledger_meter *ledger_meter_new(void);
void ledger_meter_free(struct ledger_meter *m);
GS_DEFINE_CLEANUP(struct ledger_meter *, ledger_meter_free)
// The observation describes the time from from_ms to to_ms. Adds the hours of that time to the
// table; GPUs that are expected and not observed are missing.
void ledger_meter_observe(struct ledger_meter *m, struct ledger_observation *o, int64_t from_ms,
                          int64_t to_ms, struct ledger_table *t);
// Nothing is known about this time: expected GPUs are missing. It is counted with the next
// observation, which shows which nodes still exist.
void ledger_meter_gap(struct ledger_meter *m, int64_t from_ms, int64_t to_ms);
// The GPUs exist only while the process runs, as those of `gpuscale up`: restored ones are expected
// only once they have been observed again.
void ledger_meter_end_with_process(struct ledger_meter *m);
// The expected GPUs: those of the last observation, and those without data since less than a day.
// Iterates; *pos starts at 0. NULL at the end.
const struct ledger_gpu *ledger_meter_next(const struct ledger_meter *m, size_t *pos);
// The place of the last GPU of a workload, which prices what it saves at zero. Texts are copied.
void ledger_meter_remember(struct ledger_meter *m, const struct ledger_key *key);
// Adds a GPU of a previous run. Texts are copied.
void ledger_meter_restore(struct ledger_meter *m, const struct ledger_gpu *g);

// --- stores: the ledger on disk ---

struct ledger_store;
// Opens or creates the database. path NULL: in memory. GS_EINVAL: of a newer version.
struct gs_error *ledger_store_open(const char *path, struct ledger_store **ret);
// For reading only, also while another process writes it. GS_ENOTFOUND: it does not exist.
struct gs_error *ledger_store_open_reader(const char *path, struct ledger_store **ret);
void ledger_store_close(struct ledger_store *s);
GS_DEFINE_CLEANUP(struct ledger_store *, ledger_store_close)
// Adds the table and replaces the GPUs by those of the meter, as one transaction. until_ms: the end
// of the time that the ledger then covers.
struct gs_error *ledger_store_write(struct ledger_store *s, const struct ledger_table *t,
                                    const struct ledger_meter *m, int64_t until_ms);
// until_ms of the last write; 0: none.
struct gs_error *ledger_store_until(struct ledger_store *s, int64_t *ret_ms);
struct gs_error *ledger_store_restore(struct ledger_store *s, struct ledger_meter *m);
// Rows of hours that begin from since_ms (rounded down to a full hour) until before until_ms.
struct gs_error *ledger_store_read(struct ledger_store *s, int64_t since_ms, int64_t until_ms,
                                   ledger_row_fn fn, void *arg);
// Deletes hours that are older than LEDGER_DAYS, at most a day of them in a call, and the oldest
// ones while the file has more than max_bytes (0: the default, 256 MiB). Call it each hour.
struct gs_error *ledger_store_prune(struct ledger_store *s, int64_t now_ms, int64_t max_bytes);

// --- reports ---

// How a report groups rows: dimensions, and times (UTC).
enum { LEDGER_BY_HOUR = LEDGER_N_DIMENSIONS, LEDGER_BY_DAY, LEDGER_N_BY };

struct ledger_report_options {
    unsigned by[LEDGER_N_BY];
    size_t n_by;
    int64_t since_ms, until_ms;
    const json_t *prices;  // borrowed; NULL: none
    const char *currency;  // NULL: that of the prices
    int64_t idle_after_ms; // GPUs that have been idle for less are not listed
};
// "namespace,workload", or "none" for a single row. GS_EINVAL names the possible words.
struct gs_error *ledger_parse_by(const char *text, unsigned by[LEDGER_N_BY], size_t *ret_n);
const char *ledger_by_name(unsigned by);

struct ledger_report;
struct ledger_report *ledger_report_new(const struct ledger_report_options *o);
void ledger_report_free(struct ledger_report *r);
GS_DEFINE_CLEANUP(struct ledger_report *, ledger_report_free)
#define LEDGER_OTHER_HOURS INT64_MIN // the hour of a row of all others, from another report
bool ledger_report_add(void *report, int64_t hour_ms, const struct ledger_key *key,
                       const struct ledger_amount *a); // a ledger_row_fn
void ledger_report_add_idle(struct ledger_report *r, const struct ledger_gpu *g);
// {"since", "until", "by": […], "currency", "rows": […], "total": {…}, "idle": […]}; hours and
// costs are numbers; "saved" and "savedCost" are absent without such hours. Rows with the highest
// costs of idle GPUs (or idle hours) are first. New reference.
json_t *ledger_report_json(struct ledger_report *r);
// The cost of the idle time so far. false: there is no price.
bool ledger_idle_cost(const json_t *prices, const struct ledger_gpu *g, double *ret);
