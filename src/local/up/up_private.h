// SPDX-License-Identifier: Apache-2.0
// Shared by the files of `gpuscale up`, which runs a whole local cluster in one process and the
// exporters as its children.
#pragma once

#include "adapter/adapter.h"
#include "base/error.h"
#include "engine/chart/chart.h"
#include "engine/engine.h"
#include "hpa_controller/controller.h"
#include "kube/client.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/kubelet.h"
#include "local/machines/machines.h"
#include "local/operator/operator.h"
#include "local/scheduler.h"
#include "local/services.h"
#include "local/standin/standin.h"
#include "local/workloads.h"
#include "net/program/program.h"
#include "net/tls/tls.h"
#include "nodes/pool.h"
#include "nvmlsim/sim.h"
#include "up/up.h"

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

// --- options ---

// Errors: options that contradict each other, and values that would fail later.
struct gs_error *up_options_check(const struct up_options *o);

// --- the environment of a user's shell ---

// The shell whose environment --env requests, without NAME=VALUE. NULL: none does.
const char *up_env_shell(const struct up_options *o);
// Whether the item of --env is a variable for containers.
bool up_env_is_variable(const char *item);
// Prints the commands that set KUBECONFIG and PATH, for eval.
void up_env_print(const char *dir, const char *shell, const char *data_dir_option);

// --- the context in the user's kubeconfig ---

struct up_cluster;
struct kube_config;
// option: the value of --kube-context; "": the plain name.
struct gs_error *up_kube_context_check(const char *option);
// *ret_text: "context gpuscale in FILE"; the caller frees it.
struct gs_error *up_kube_context_add(const struct up_cluster *c, const char *option,
                                     const struct kube_config *k, char **ret_text);
// Removes what the file in the data directory names, if there is one.
struct gs_error *up_kube_context_remove(const char *dir);
void up_kube_context_end(const char *dir); // the same; errors are logged

// --- in the background ---

struct up_detached {
    int ready;      // -1: this program is in the foreground
    char *log_path; // of its output
};

// Continues in a new process without a terminal, whose output goes to DIR/up.log. In it,
// *ret_waits is false. The calling process waits until the other one is ready, and prints why if it
// ends before. The lock then belongs to the other one.
struct gs_error *up_detach(const char *dir, int lock, struct up_detached *ret, bool *ret_waits);
// In the new process: text is printed by the waiting one, which ends.
void up_detach_ready(struct up_detached *d, const char *text);
// Keeps the log small. Call it now and then.
void up_detach_rotate(const struct up_detached *d);
void up_detach_finish(struct up_detached *d);

// --- samples ---

#define UP_SAMPLES_DIR  "samples"         // in the data directory
#define UP_LEARNED_FILE "learned.json.gz" // of latency targets, in the data directory

// GS_EINVAL: --retention or --retention-size is wrong.
struct gs_error *up_store_check(const struct up_options *o);
// The store of the engine. Creates dir, which is borrowed, unless samples are in memory only.
struct gs_error *up_store_config(const struct up_options *o, const char *dir,
                                 struct tsdb_config *ret);

// --- data directory ---
//
// The data directory of `gpuscale up`: its path, the process that uses it, stop and reset.
//
// The file "lock" marks the directory as gpuscale's and contains the ID of the process that uses
// it. The process holds a lock on the file until it ends.

// option: value of --data-dir; NULL: the default path. stop and reset first end the instance that
// uses the directory; reset removes what gpuscale wrote in it. Without stop, *ret_dir is the
// absolute path of the directory, which is created if needed, and *ret_lock is the descriptor of
// the lock. With stop, both are unchanged: nothing is started. Prints to stdout what it did.
// Errors: another instance uses the directory (without stop and reset), it contains files of other
// programs, or other users can write to it.
struct gs_error *up_datadir_prepare(const char *option, bool stop, bool reset, char **ret_dir,
                                    int *ret_lock);
// Writes the ID of this process into the lock file, after the process changed.
struct gs_error *up_datadir_claim(int lock);
// The directory as an absolute path. GS_ENOTFOUND: no `gpuscale up` uses it.
struct gs_error *up_datadir_running(const char *option, char **ret_dir);

// --- keys and certificates ---
//
// The private keys and certificates of one data directory: a CA, the API server's certificate for
// loopback, the administrator's client certificate and a bearer token. Created once, and renewed a
// month before they expire. Files have mode 0600, the folder 0700.

struct up_pki {
    struct tls_pair ca, server, client;
    char *token;
    char *service_account_key; // signs the tokens of service accounts; PEM text
};

struct gs_error *up_pki_load(const char *dir, struct up_pki *ret);
void up_pki_finish(struct up_pki *p); // wipes the keys

// --- devices ---
//
// The GPUs of the first node: those of the machine, through the driver, simulated ones, or none.

// spec NULL: the GPUs of the machine, or simulated ones without a driver. "none" and "0": none.
struct gs_error *up_devices_open(const char *spec, const char *data_dir, struct machines_gpus *ret);

// --- labels and taints of the node ---
//
// Those that nodes of clouds have; a zone only if no pool has one.
void up_node_defaults(json_t *labels, bool has_gpus, const struct nodes_pools *pools);
// From --node-label and --node-taint, which take precedence.
// Adds to the object `labels` and to the array `taints`, and may have added some before an error.
struct gs_error *up_node_parse(const struct up_options *o, json_t *labels, json_t *taints);

// --- objects of -f FILE ---
//
// Objects of YAML files, created or updated (merge patch) through the API in their order.

struct up_apply;

// Reads all files, so that a wrong file is reported with file:line before anything starts. Paths
// are borrowed.
struct gs_error *up_apply_load(const char *const *paths, size_t n, struct up_apply **ret);
// Applies one object after the other, then calls done (err is owned by the callee; NULL: success).
void up_apply_start(struct up_apply *a, struct kube_client *client,
                    void (*done)(void *arg, struct gs_error *err), void *arg);
void up_apply_free(struct up_apply *a); // cancels requests

// Appends objects that are not from a file. where: for errors. Items are shared.
struct gs_error *up_apply_add(struct up_apply *a, const json_t *objects, const char *where);

// A copy of the object with kubectl's annotation of the last applied configuration; without it if
// the object is too large. ns: its namespace; NULL: it is cluster-scoped. New reference.
json_t *up_last_applied_add(const json_t *object, const char *ns);
// The merge patch from the existing object to this one: also removes the fields that the annotation
// of the existing object has and the new one lacks. New reference.
json_t *up_last_applied_patch(const json_t *object, const json_t *existing);

// --- Helm values and the configuration of the metrics engine ---

struct up_values {
    struct chart_values chart; // of kube-prometheus-stack
    const char *adapter;       // the last file with rules of the adapter (borrowed); NULL: none
    // Of dcgm-exporter's chart: customMetrics (CSV), and the path in its arguments; NULL: none.
    char *counters, *collectors;
};

// Reads the files of --values, and logs the values without effect. Release it with
// up_values_finish(), also after an error.
struct gs_error *up_values_load(const struct up_options *o, struct up_values *ret);
void up_values_finish(struct up_values *v);

// The scrape job of the exporter that `gpuscale up` starts.
#define UP_EXPORTER_JOB "gpuscale-exporter"

struct up_engine_config {
    const char *exporter; // HOST:PORT; NULL: the first node has no GPUs
    const char *targets;  // path of a file with the exporters of machines; NULL: none
    int interval_ms, targets_interval_ms; // of the scrapes
    const char *hidden;    // of its series: "METRIC;UUID" that is not stored; NULL: all are stored
    const json_t *objects; // sections of Prometheus objects, instead of the values; NULL: none
    const char *account_dir; // of the engine's service account
};

// Writes a prometheus.yml: the job of the exporter, what the options add, and the sections of
// Prometheus objects or else of the values.
struct gs_error *up_engine_config_write(const struct up_engine_config *c,
                                        const struct up_options *o, const struct up_values *v,
                                        const char *path);

// --- other exporters of the same GPUs ---
//
// Finds metrics of the GPUs of this machine that other targets report, too, such as the
// dcgm-exporter of a guide. The built-in exporter's series of them are then not stored.

struct up_duplicates;

struct up_duplicates *up_duplicates_new(const struct tsdb *db);
void up_duplicates_free(struct up_duplicates *d); // NULL is fine
// Searches the newest samples. Returns whether the result has changed.
bool up_duplicates_update(struct up_duplicates *d, int64_t now_ms);
// A regular expression of "METRIC;UUID"; NULL: no duplicates. Borrowed until the next update.
const char *up_duplicates_pattern(const struct up_duplicates *d);
char *up_duplicates_text(const struct up_duplicates *d); // for the log; caller frees
// A target that reports the state of these pods, such as a kube-state-metrics that a chart
// installs. Caller frees; NULL: none.
char *up_duplicates_kube_state(const struct tsdb *db, const struct kube_cache *pods,
                               int64_t now_ms);

// --- child processes ---
//
// A child process whose output is read line by line. With `restart` it is restarted when it ends,
// with exponential backoff from 0.5 s to 30 s.

struct up_child;

struct up_child_config {
    const char *name;             // for the log: "exporter"
    const char *const *argv;      // NULL-terminated; argv[0] is the program
    const char *const *extra_env; // "NAME=value", NULL-terminated; may be NULL
    bool restart;
    void (*on_line)(void *arg, const char *line);                // stdout and stderr
    void (*on_exit)(void *arg, int64_t status, int term_signal); // each time it ends
    void *arg;
};

struct gs_error *up_child_start(uv_loop_t *loop, const struct up_child_config *cfg,
                                struct up_child **ret);
// SIGTERM now, SIGKILL after two seconds, no restart. on_exit is still called. NULL is fine.
void up_child_stop(struct up_child *c);
// Kills it if it still runs. No callback is called any more. The memory is freed when the loop has
// closed its handles. NULL is fine.
void up_child_free(struct up_child *c);

// --- exporters ---
//
// `gpuscale exporter` as a child process, one for the GPUs of each node.

struct up_exporter_config {
    const char *self_exe, *address, *podresources, *node; // address: "HOST:PORT"
    const struct machines_gpus *gpus;
    int interval_ms;
    const char *collectors; // NULL: all metrics
    bool errors_only;       // it logs only errors
    void (*on_line)(void *arg, const char *line);
    void *arg;
};

struct gs_error *up_exporter_start(uv_loop_t *loop, const struct up_exporter_config *e,
                                   struct up_child **ret);
// The path of the metrics of exporters, by the options and the values; NULL: all metrics.
struct gs_error *up_exporter_collectors(const struct up_options *o, const struct up_values *v,
                                        const char *data_dir, char **ret);

// --- pools and their machines ---

// Reads --pool and --pools. Warnings are logged.
struct gs_error *up_pools_load(const struct up_options *o, struct nodes_pools *ret);

// Simulated machines, each with an exporter if it has GPUs.
struct up_machines;

struct up_machines_config {
    uv_loop_t *loop;
    struct machines_config machines; // without on_phase
    const char *self_exe, *collectors;
    const char *targets;                          // path of the file of targets that it writes
    int interval_ms;                              // of the samples
    void (*on_line)(void *arg, const char *line); // of the exporters' output
    void *arg;
};

struct gs_error *up_machines_start(const struct up_machines_config *cfg, struct up_machines **ret);
struct machines *up_machines_of(const struct up_machines *m);
void up_machines_free(struct up_machines *m); // NULL is fine
// A line for each pool, and one for each of its machines. m NULL: nothing.
void up_pools_print(const struct nodes_pools *pools, const struct up_machines *m,
                    struct gs_buf *out);

// --- metrics of parts of this program ---
//
// Writes a Prometheus exposition into the engine's store at each interval, with the labels of a
// scrape target. Series that end have no new samples.

struct up_feed;

struct up_feed_config {
    const char *job, *instance;
    bool of_node; // label node: the instance
    int interval_ms;
    void (*write)(void *arg, struct gs_buf *out);
    void *arg;
};

// engine is borrowed, and so are the strings: free the feed before them.
struct up_feed *up_feed_new(uv_loop_t *loop, struct engine *engine,
                            const struct up_feed_config *cfg);
// Writes soon, and again at each interval from then.
void up_feed_write(struct up_feed *f);
void up_feed_free(struct up_feed *f); // NULL is fine

// resourceRules of prometheus-adapter for the series of the kubelet.
extern const char up_resource_rules[];

// --- the release of kube-prometheus-stack ---
//
// If --values has values of kube-prometheus-stack, the engine is found in the cluster as the
// Prometheus of that release: by its Services, and a static pod with the log lines of the engine.

#define UP_DASHBOARDS_PATH "/api/v1/gpuscale/dashboards"
struct up_dashboards;
// client is borrowed. Stop the servers before up_dashboards_free(), which accepts NULL.
struct up_dashboards *up_dashboards_new(struct kube_client *client);
void up_dashboards_free(struct up_dashboards *d);
// Answers the exchange, now or later, in the form of Prometheus' API (web/reply.h):
//   GET                            {"dashboards": [{namespace, name, file, bytes, imported, title,
//                                  uid}], "omitted": N, "stored": true}
//   GET ?namespace=&name=&file=    {"text": JSON of the dashboard}
//   POST {"namespace", "name", "dashboard": JSON as a string, "replace": BOOL} creates the
//       ConfigMap, or replaces one that was imported here: {namespace, name, file}. 409: it exists.
void up_dashboards_handle(struct up_dashboards *d, struct http_exchange *x);

struct up_release; // NULL: there are no such values
struct up_cluster;

// Begins to keep the log. Call it before the engine starts.
struct gs_error *up_release_new(const struct up_values *v, const char *data_dir,
                                struct up_release **ret);
void up_release_show(const struct up_release *r, const struct up_cluster *c); // adds the pod
// Appends the Services.
struct gs_error *up_release_apply(const struct up_release *r, const struct up_cluster *c,
                                  struct up_apply *a);
void up_release_free(struct up_release *r);

// --- Prometheus and Alertmanager objects ---

// Starts the controller. Before the engine.
void up_operator_start(struct up_cluster *c);
// Stops or continues to store the engine's kube_* series, if another target has them.
void up_operator_hide_kube_state(struct up_cluster *c);

// --- cluster ---
//
// All parts of the cluster, started and stopped in the right order: API, controllers,
// scheduler, kubelet, services, metrics engine, adapter, autoscaler, and the exporter as a child
// process.

struct up_cluster {
    struct program *program;
    uv_loop_t *loop; // of the program
    char *data_dir, *bin_dir, *node_name, *self_exe, *kubeconfig, *podresources;
    char *kube_context;           // "context gpuscale in FILE"; NULL: none
    struct machines_gpus devices; // of the first node
    struct nodes_pools pools;
    json_t *pools_json;         // nodes_pools_json(): why pods wait
    char *targets, *collectors; // paths; see up_machines_config
    struct up_pki pki;
    struct local_image *images;
    size_t n_images;
    uint16_t api_port, exporter_port, prometheus_port;

    struct local_api *api;
    struct http_client *http;
    struct kube_client *client;
    struct local_cluster *cluster;
    struct local_workloads *workloads;
    struct local_scheduler *scheduler;
    struct local_services *services;
    struct standin_server *standins;
    char *standin_socket;
    struct kubelet *kubelet;
    char *engine_config; // path of the generated prometheus.yml
    char *ledger;        // path of the ledger of GPU hours
    char *samples;       // folder of samples
    struct up_duplicates *duplicates;
    const struct up_options *options;
    const struct up_values *values;
    struct up_release *release;
    struct engine *engine;
    struct operator_controller *operator;
    struct engine_config_selection selection; // of the controller
    char *account_dir;                        // of the engine
    json_t *objects;        // the sections of Prometheus objects in prometheus.yml; NULL: none
    bool kube_state_hidden; // another target has the kube_* series
    struct http_routes extension; // of its HTTP API
    struct up_feed *kubelet_feed, *autoscaler_feed, *hpa_feed, *activator_feed;
    struct activator *activator;
    struct http_client *engine_http; // in the process
    struct adapter *adapter;
    struct adapter_keda *keda; // NULL: not served
    struct hpa_controller *hpa;
    struct hpa_learned_store *learned; // of the controller
    char *learned_path;
    struct hpa_explain_api *explain;
    struct replay_history_api *history;
    struct up_dashboards *dashboards;
    const struct console_problems *problems; // borrowed, for the web page; NULL: not yet
    struct up_child *exporter;               // of the first node
    struct up_machines *machines;
    struct autoscaler *node_autoscaler; // NULL: no pools
    unsigned n_stopping;                // kubelets and machines
    void (*stop_done)(void *arg);
    void *stop_arg;
};

#define UP_RESOURCES_INTERVAL_MS 2000 // between samples of parts of this process

// The autoscaler of workloads. observer: see up_cluster_start().
struct gs_error *up_autoscaler_start(struct up_cluster *c, const struct up_options *o,
                                     hpa_observer observer, void *arg);
void up_autoscaler_stop(struct up_cluster *c); // keeps what it has learned
void up_autoscaler_free(struct up_cluster *c); // frees its members of the cluster

struct gs_error *up_node_autoscaler_check(const struct up_options *o);
void up_node_autoscaler_start(struct up_cluster *c); // without pools: nothing

// Makes DIR/bin with `gpuscale` and, if the GPUs are simulated, `nvidia-smi`, for the user's shell.
// A failure is logged.
void up_commands_make(struct up_cluster *c);

// line: called with each line of the exporter's output. observer: called with each decision of the
// autoscaler. Both get arg.
// o and values are borrowed.
struct gs_error *up_cluster_start(struct program *program, const struct up_options *o,
                                  const struct up_values *values, const char *data_dir,
                                  void (*line)(void *arg, const char *line), hpa_observer observer,
                                  void *arg, struct up_cluster **ret);
// Stores or hides the metrics of the built-in exporter that other exporters report. Call it every
// few seconds.
void up_cluster_hide_duplicates(struct up_cluster *c);
// Writes prometheus.yml again, and the engine reads it. Errors are logged.
void up_cluster_configure(struct up_cluster *c);
void up_cluster_reload(struct up_cluster *c); // the files of the engine and the adapter
// Whether objects may be applied: the caches are synced and the node is Ready.
bool up_cluster_ready(const struct up_cluster *c);
// Ends all containers, then calls done. Call program_close() and up_cluster_free() after done.
void up_cluster_stop(struct up_cluster *c, void (*done)(void *arg), void *arg);
// c: NULL, or a cluster that may be partly started. Run the loop until it is empty after this call.
void up_cluster_free(struct up_cluster *c);
