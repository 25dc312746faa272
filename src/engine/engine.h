// SPDX-License-Identifier: Apache-2.0
// The engine: store, queries, scraping, rules, remote write, HTTP API and reload. `gpuscale engine`
// runs one; `gpuscale up` and the adapter embed one. All functions are called on the thread of the
// loop.
#pragma once

#include "base/option.h"
#include "engine/config/config.h"
#include "engine/config/selection.h"
#include "engine/rules/rules.h"
#include "engine/scrape/scrape.h"
#include "engine/signals/signals.h"
#include "net/http/routes.h"
#include "promql/promql.h"

#include <uv.h>

struct engine;

// The ledger of GPU hours (ledger/ledger.h). Strings are borrowed until the engine is freed.
struct engine_ledger_options {
    bool enabled;
    bool store_series;       // also store its series in the engine, as job gpuscale-engine
    const char *path;        // NULL: in memory
    const char *prices;      // file; NULL: none
    const char *owner_label; // NULL: the default
    int64_t interval_ms;     // 0: one minute
    bool ends_with_process;  // the GPUs exist only while the process runs: before, none is missing
};

// The flags of the receivers of samples that others push.
struct engine_receivers {
    bool write, otlp;
    struct gs_opt_list messages; // that write accepts; empty: all
};
// The write_messages of struct engine_options. GS_EINVAL: an unknown message.
struct gs_error *engine_receiver_messages(const struct engine_receivers *r, unsigned *ret);

// The job of pods with the annotation prometheus.io/scrape.
#define ENGINE_ANNOTATED_PODS_JOB "kubernetes-pods"

// Bytes of a request to engine_handle(). As in Prometheus for a form.
enum { ENGINE_MAX_BODY = 10 * 1024 * 1024 };

// How often pages of inference engines are scraped.
enum { ENGINE_INFERENCE_MS = 1000 };

// The strings are borrowed and must outlive the engine.
struct engine_options {
    const char *config_path; // NULL: config_text, or an empty configuration
    const char *config_text;
    struct tsdb_config store;
    // What is scraped exists only while the process runs: the series of an earlier process end with
    // its last sample.
    bool ends_with_process;
    struct promql_config query;
    bool dcgm_aliases;  // selectors of GPU metrics read the series of their other name (aliases.h)
    size_t max_queries; // concurrent queries of the HTTP API; 0: 20
    size_t max_reply;   // bytes of a response of the HTTP API; 0: 128 MiB
    struct kube_client *kube; // NULL: no cluster
    bool kube_state;          // store the cluster's objects as kube_* series
    bool kube_rules;          // evaluate its PrometheusRule objects
    bool kube_monitors;       // scrape its ServiceMonitor and PodMonitor objects
    // Scrape inference engines of its pods that no job scrapes, this often. 0: do not.
    int64_t kube_inference_ms;
    const char *inference_table; // file of engine/signals/signals.h; NULL: the default
    bool kube_annotations;       // scrape its pods with the annotation prometheus.io/scrape
    // Label selectors of these objects; NULL: all of them.
    const char *rule_selector, *service_monitor_selector, *pod_monitor_selector;
    // Takes precedence over the selectors; borrowed. NULL: none.
    const struct engine_config_selection *selection;
    const char *account_dir;       // see struct monitors_selectors; NULL: none
    const char *kube_state_labels; // allow-list; NULL: the default
    const char *external_url;      // NULL: none
    const char *route_prefix;      // of the HTTP API: "/prometheus"; NULL: none
    const char *cors_origin;       // regular expression of origins that may read; NULL: all
    bool enable_lifecycle;         // /-/reload, /-/quit
    unsigned write_messages;       // see struct engine_api_config
    // Reload when the configuration or rule files change. They are checked every poll_ms (0: 30 s)
    // where the file system sends no notifications.
    bool watch_files;
    // runtime.log_level of the configuration changes the log level of the process. Without it, the
    // level is that of the start.
    bool sets_log_level;
    const struct rules_timing *alert_times; // read by engine_new; NULL: RULES_TIMING_DEFAULT
    bool exemplars; // store them: as many as storage.exemplars of the configuration allows
    int64_t poll_ms;
    struct engine_ledger_options ledger;
    const struct http_header *flags; // name/value pairs for status/flags, ends with NULL
    void (*on_quit)(void *arg);      // called for /-/quit; NULL: ignored
    void *arg;
    const struct http_routes *extension; // further paths of the HTTP API; NULL: none
};

struct gs_error *engine_new(uv_loop_t *loop, const struct engine_options *o, struct engine **ret);
void engine_free(struct engine *e);
// Applies the new configuration completely or, on an error, keeps the old one. Also logs the
// result.
struct gs_error *engine_reload(struct engine *e);
// The selection decides differently from now on: monitors and rules are decided again.
void engine_select_again(struct engine *e);
// Ends the stored kube_* series, or begins to store them again. Without kube_state: nothing.
void engine_hide_kube_state(struct engine *e, bool hidden);
void engine_stopping(struct engine *e); // /-/ready answers 503 from now on
// Sends pending samples to the remote_write receivers for at most limit_ms, then calls done,
// possibly before this returns. Call it once, before engine_free, and do not reload after it.
void engine_drain(struct engine *e, int64_t limit_ms, void (*done)(void *arg), void *arg);
void engine_handle(void *e, struct http_exchange *x); // an http_handler: the whole HTTP API

struct engine_api *engine_http_api(struct engine *e); // for queries of this process
struct tsdb *engine_tsdb(struct engine *e);
struct scrape_manager *engine_scrapes(struct engine *e);
struct rules_manager *engine_rules(struct engine *e);
// Appends the state of the cluster's objects as kube-state-metrics writes it, if it is stored.
void engine_write_kube_state(struct engine *e, struct gs_buf *out);
struct monitors *engine_monitors(struct engine *e); // NULL: not wanted
