// SPDX-License-Identifier: Apache-2.0
// The adapter serves custom.metrics.k8s.io, external.metrics.k8s.io and metrics.k8s.io from the
// series of a Prometheus-compatible server or of an engine in this process. `gpuscale adapter`
// serves it as an aggregated API server; `gpuscale up` mounts it in the embedded API. Both use this
// constructor, so the same series give the same values in both.
// Thread rule: all functions run on the thread of the loop that adapter_new() was given.
#pragma once

#include "base/option.h"
#include "codec/json.h"
#include "net/http/http.h"

#include <uv.h>

#define ADAPTER_STATUS_PATH "/api/v1/gpuscale/adapter" // the data of the adapter's page

struct adapter;
struct engine;
struct kube_client;
struct program;

// All members are optional. A text that is NULL or empty counts as absent. Texts and borrowed
// objects must outlive the adapter.
struct adapter_options {
    const char *config, *sources; // paths of files: rules, extra sources
    // --- Prometheus ---
    const char *prometheus_url, *prometheus_verb, *prometheus_ca_file, *prometheus_cert_file,
        *prometheus_key_file, *prometheus_token_file, *prometheus_auth_config;
    bool prometheus_auth_incluster, prometheus_insecure;
    struct gs_opt_list prometheus_headers;
    int64_t relist_ns, max_age_ns; // 0: the configuration and the source decide
    int64_t value_age_ns;          // how long a response is shared; 0: only while it is pending
    const char *sample_times;      // "auto", "always", "never"
    // --- the engine in this process ---
    const char *engine_config;
    int64_t engine_retention_ns;
    bool engine_inference;   // of its own engine: scrape inference engines on pods with a GPU
    bool engine_annotations; // it scrapes pods with the annotation prometheus.io/scrape
    bool dcgm_aliases;       // of all sources: see source_set_aliases()
    bool gpu_metrics;        // serve GPU series that no rule serves
    // Serve each series with the labels namespace and pod that no rule serves. limit: number of
    // names; window_ns: of rates; 0: the defaults.
    bool pod_series;
    int64_t pod_series_limit, pod_series_window_ns;
    // --- the cluster ---
    const char *lister_kubeconfig, *authn_kubeconfig, *authz_kubeconfig;
    const char *kubeconfig_flag; // of lister_kubeconfig, in errors
    int64_t discovery_interval_ns;
    // --- serving: adapter_serve() only ---
    int64_t secure_port, max_connections;
    int64_t shutdown_delay_ns; // after the first signal: /readyz fails, requests are served
    const char *bind_address, *cert_dir, *tls_cert_file, *tls_key_file, *tls_service;
    // --- authentication and authorization ---
    bool skip_lookup, tolerate_lookup_failure;
    int64_t token_ttl_ns, allowed_ttl_ns, denied_ttl_ns;
    const char *client_ca_file, *requestheader_ca_file;
    struct gs_opt_list allowed_names, username_headers, group_headers, extra_prefixes,
        always_allow_paths;
    // --- delegates: previous servers of an API group ---
    struct gs_opt_list previous_owners;
    const char *previous_ca_file, *previous_token_file, *previous_cert_file, *previous_key_file;
    bool previous_front_proxy, previous_insecure;
    // --- audit log ---
    const char *audit_policy, *audit_path, *audit_format, *audit_version, *audit_mode;
    int64_t audit_max_age, audit_max_backup, audit_max_size; // days, files, MiB; 0: see audit.h

    // --- KEDA's external scaler: adapter_keda_listen() ---
    const char *keda_listen; // HOST:PORT; absent: not served
    const char *keda_cert_file, *keda_key_file, *keda_client_ca_file; // absent: cleartext
    const char *web_listen; // of adapter_serve_keda(): /metrics and health; absent: not served

    // --- for a program that embeds the adapter ---
    struct kube_client *kube;    // borrowed; NULL: from the kubeconfig files
    struct engine *engine;       // borrowed; the default source. NULL: use prometheus_url
    bool trusted;                // the caller of adapter_handle() has authorized the request
    bool config_maps;            // without `config`: read rules from a ConfigMap
    const char *resource_rules;  // YAML: resourceRules if the configuration has none
    void (*on_fatal)(void *arg); // the adapter cannot continue: see adapter_fatal()
    const char *(*not_ready)(void *arg); // why the program is not ready; NULL: it is
    void (*write_metrics)(void *arg, struct gs_buf *out); // appends to /metrics
    void (*add_status)(void *arg, json_t *out);           // adds to the JSON of the page
    void *arg;
};

// Connects to the cluster and loads the rules. GS_EINVAL: an option or the configuration is wrong.
// *ret is set on success only.
struct gs_error *adapter_new(uv_loop_t *loop, const struct adapter_options *o,
                             struct adapter **ret);
// NULL is fine. Run the loop afterwards: it closes the handles.
void adapter_free(struct adapter *a);
void adapter_handle(void *adapter, struct http_exchange *x); // an http_handler for all paths
// Returns the APIGroup document of a group such as "custom.metrics.k8s.io", for /apis of the server
// that mounts the adapter. New reference. NULL: the adapter does not serve this group now.
json_t *adapter_describe_group(const struct adapter *a, const char *group);
void adapter_reload(struct adapter *a); // an error is logged and the old rules stay in use
const char *adapter_not_ready(struct adapter *a);    // the reason; NULL: ready
struct kube_client *adapter_kube(struct adapter *a); // client for the cluster's objects; borrowed
// Returns the fatal error. The caller owns it. NULL: none.
struct gs_error *adapter_fatal(struct adapter *a);
// /readyz fails from now on. Requests are still served.
void adapter_stop(struct adapter *a);

// KEDA's external scaler with the values of the adapter (adapter/keda_scaler/keda_scaler.h).
struct adapter_keda;
// Serves it as the options of the adapter say. flag: of the address, in errors. *ret: NULL if the
// options have no address.
struct gs_error *adapter_keda_listen(struct adapter *a, struct program *p, const char *flag,
                                     struct adapter_keda **ret);
void adapter_keda_stop(struct adapter_keda *k); // ends the streams; accepts NULL, as all below
void adapter_keda_write_metrics(const struct adapter_keda *k, struct gs_buf *out);
void adapter_keda_free(struct adapter_keda *k); // after program_close(), before adapter_free()

// Runs `gpuscale keda-scaler`: only KEDA's external scaler, not the APIs. As adapter_serve().
struct gs_error *adapter_serve_keda(const struct adapter_options *o);

// Runs `gpuscale adapter`: serves over HTTPS until SIGTERM or SIGINT. SIGHUP reloads. Uses a loop
// of its own and returns the error that ended it.
struct gs_error *adapter_serve(const struct adapter_options *o);
