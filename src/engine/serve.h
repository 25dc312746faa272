// SPDX-License-Identifier: Apache-2.0
// `gpuscale engine` as a program: listeners with a web configuration, signals, the connection to
// the cluster, and Prometheus' command line flags.
#pragma once

#include "base/option.h"
#include "engine/engine.h"
#include "kube/client.h"
#include "net/http/http.h"

#include <uv.h>

enum { ENGINE_IGNORED_BOOLS = 16, ENGINE_IGNORED_VALUES = 36 };

// The group of flags that are accepted and have no effect.
#define ENGINE_IGNORED_GROUP "Accepted for existing unit files, without effect"

// Values of the flags of `gpuscale engine`, which are named as in Prometheus.
struct engine_flags {
    const char *config_file;
    bool auto_reload;
    int64_t auto_reload_interval_ns;
    struct gs_opt_list listen;
    const char *web_config, *external_url, *route_prefix, *cors_origin;
    bool lifecycle;
    struct engine_receivers receivers;
    int64_t read_timeout_ns, max_connections;
    const char *storage_path, *retention_size;
    int64_t retention_ns, max_series, flush_deadline_ns;
    int64_t lookback_ns, query_timeout_ns, max_samples, max_concurrency;
    const char *max_reply;
    const char *kubeconfig;
    bool dcgm_aliases;
    bool kube_state, kube_rules, kube_monitors, kube_annotations, kube_inference;
    const char *inference_table;
    const char *kube_state_labels, *kube_monitors_selector;
    const char *ledger_prices, *ledger_owner_label;
    int64_t outage_tolerance_ns, for_grace_ns, resend_delay_ns;
    const char *log_level, *log_format;
    struct gs_opt_list features;
    bool ignored_bools[ENGINE_IGNORED_BOOLS];
    struct gs_opt_list ignored_values[ENGINE_IGNORED_VALUES];
};

// Paths of the HTTP API that another module answers.
struct engine_extension {
    // cluster: of --kubeconfig, or the cluster that the engine runs in. NULL: none. Borrowed.
    void *(*start)(uv_loop_t *loop, struct kube_client *cluster);
    const struct http_route *rows; // their ctx is the result of start()
    void (*free)(void *extension); // after the servers have stopped; accepts NULL
};

// Serves until SIGTERM, SIGINT or /-/quit. rows: the option table of the flags, for
// /api/v1/status/flags and for warnings about flags without effect. extension: NULL: none.
struct gs_error *engine_serve(const struct engine_flags *f, const struct gs_opt *rows,
                              const struct engine_extension *extension);

// "512MB", "1.5GB", "1024B": powers of 1024, as in Prometheus.
struct gs_error *engine_parse_size(const char *text, size_t *ret);
// Logs a warning for each given flag without effect.
void engine_warn_ignored_flags(const struct engine_flags *f, const struct gs_opt *rows);
// Returns the name and value of each flag; the list ends with NULL and is freed with
// engine_flag_values_free.
struct http_header *engine_flag_values(const struct engine_flags *f, const struct gs_opt *rows);
void engine_flag_values_free(struct http_header *list);
