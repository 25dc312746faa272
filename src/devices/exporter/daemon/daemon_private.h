// SPDX-License-Identifier: Apache-2.0
// Parts of the exporter's process: the files and objects that configure it.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "dcgm_source/dcgm_source.h"
#include "exporter/counters.h"
#include "exporter/daemon/daemon.h"
#include "exporter/exporter.h"
#include "kube/client.h"

#include <jansson.h>
#include <uv.h>

// --- options ---

// NULL: no ConfigMap is configured.
const char *daemon_configmap_name(const struct daemon_options *o);
enum exporter_names daemon_metric_names(const struct daemon_options *o);
// If the kubelet's socket is not at its usual place: that of k0s or MicroK8s, if there is one.
const char *daemon_find_socket(const char *socket);

// The source that --dcgm and -r name. *ret NULL: off.
struct gs_error *daemon_open_dcgm(const struct daemon_options *o, struct dcgm_source **ret);

// --- counters files ---

// path NULL: dcgm-exporter's default file if it exists, else the built-in metrics, with the names
// of
// --metric-names those of 4.9.
struct gs_error *daemon_load_counters(const struct daemon_options *o, const char *path,
                                      struct exporter_counters *ret);
const char *daemon_counters_path(const char *path); // the file that this reads
// Parses the rows of a counters file; `source` names it in errors and log lines.
struct gs_error *daemon_parse_counters(const struct daemon_options *o, const char *source,
                                       struct gs_slice text, struct exporter_counters *ret);

// --- watch groups ---

// collection.watchGroups of the configuration file: fields that are read less often than the
// others, selected by patterns of names as in Go's path.Match: * ? [a-z] [^a-z] and \.
struct daemon_watch_group {
    char *name;
    int64_t interval_ms;
    char **patterns;
    size_t n_patterns;
};

struct daemon_watch_groups {
    struct daemon_watch_group *items;
    size_t len;
};

// groups: the list of the file, or NULL.
struct gs_error *daemon_watch_groups_read(const json_t *groups, struct daemon_watch_groups *ret);
// collections: the list of version 2, or NULL. *ret_ms: the interval of the collection of all
// fields; unchanged if no collection has all fields.
struct gs_error *daemon_collections_read(const json_t *collections, int64_t *ret_ms,
                                         struct daemon_watch_groups *ret);
void daemon_watch_groups_finish(struct daemon_watch_groups *g);
// The shortest interval; 0: no group.
int64_t daemon_watch_groups_shortest_ms(const struct daemon_watch_groups *g);
// Sets every_ns of the rows: that of their group, or base_ms. A field in two groups is an error; a
// group without a field is logged.
struct gs_error *daemon_watch_groups_apply(const struct daemon_watch_groups *g, int64_t base_ms,
                                           struct exporter_counters *c);

// --- configuration file ---

// --config-file: the YAML file of dcgm-exporter. Version 1, of 4.6:
//
//     version: 1
//     metrics:
//       file: /etc/dcgm-exporter/default-counters.csv   # or fields:
//       fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: Temperature.}]
//     collection:
//       interval: 10s
//       watchGroups: [{name: slow, interval: 10m, fields: [DCGM_FI_DEV_NVLINK_*]}]
//
// Version 2, of 4.8.4:
//
//     version: 2
//     metrics: {file: /etc/dcgm-exporter/default-counters.csv, enableExporterMetrics: false}
//     collections:
//     - {name: scrape, every: 10s, metrics: {include: ["*"]}}
//     - {name: slow, every: 10m, metrics: {include: [DCGM_FI_DEV_NVLINK_*]}}
struct daemon_file {
    char *counters_file; // metrics.file; NULL: absent
    struct gs_buf rows;  // metrics.fields as a counters file
    bool exporter_metrics;
    int64_t interval_ms; // 0: absent
    struct daemon_watch_groups groups;
};

// Unknown and repeated keys, other versions and wrong values are errors.
struct gs_error *daemon_file_parse(struct gs_slice text, const char *name, struct daemon_file *ret);
struct gs_error *daemon_file_load(const char *path, struct daemon_file *ret);
void daemon_file_finish(struct daemon_file *f);

struct gs_error *daemon_file_check_keys(const json_t *obj, const char *const *keys,
                                        const char *where);
// A string or an integer as text, without surrounding blanks; "" if absent or of another type.
char *daemon_file_text(const json_t *obj, const char *key);
// A duration: whole milliseconds, more than 0.
struct gs_error *daemon_file_interval(const json_t *obj, const char *where, const char *key,
                                      int64_t *ret_ms);

// --- ConfigMap ---

// -m: the key "metrics" of a ConfigMap as the counters file. It is requested until it has been
// read, because the API server, the permission or the ConfigMap may appear after the exporter
// starts: after a second, then with exponential backoff up to 16 s.
struct daemon_configmap_config {
    const char *name; // NAMESPACE:NAME, borrowed
    // Returns the client, borrowed.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    // Called with the text until it returns no error.
    struct gs_error *(*on_text)(void *arg, const char *source, struct gs_slice text);
    // The ConfigMap cannot be read and is requested again. Not called twice for one problem.
    void (*on_problem)(void *arg, const char *problem);
    void *arg;
};

struct daemon_configmap;
struct daemon_configmap *daemon_configmap_start(uv_loop_t *loop,
                                                const struct daemon_configmap_config *cfg);
bool daemon_configmap_answered(const struct daemon_configmap *c); // the first attempt has ended
void daemon_configmap_stop(struct daemon_configmap *c);           // NULL is fine
