// SPDX-License-Identifier: Apache-2.0
// The adapter: custom.metrics.k8s.io, external.metrics.k8s.io and metrics.k8s.io from the series of
// a Prometheus-compatible server or of an engine in this process. `gpuscale adapter` serves it as
// an aggregated API server, `gpuscale up` mounts it in the embedded API. Both make it here, so the
// same series give the same values in both.
#pragma once

#include "base/option.h"
#include "codec/json.h"
#include "net/http/http.h"

#include <uv.h>

struct adapter;
struct engine;
struct kube_client;

// The texts, and what is borrowed, live as long as the adapter. A text that is NULL or empty is not
// given. All members are optional.
struct adapter_options {
    const char *config, *sources; // files: rules, further sources
    // --- Prometheus ---
    const char *prometheus_url, *prometheus_verb, *prometheus_ca_file, *prometheus_cert_file,
        *prometheus_key_file, *prometheus_token_file, *prometheus_auth_config;
    bool prometheus_auth_incluster, prometheus_insecure;
    struct gs_opt_list prometheus_headers;
    int64_t relist_ns, max_age_ns; // 0: by the configuration and the source
    int64_t value_age_ns;          // for how long an answer is shared
    const char *sample_times;      // "auto", "always", "never"
    // --- the engine in this process ---
    const char *engine_config;
    int64_t engine_retention_ns;
    bool gpu_metrics; // GPU series that no rule serves
    // --- the cluster ---
    const char *lister_kubeconfig, *authn_kubeconfig, *authz_kubeconfig;
    int64_t discovery_interval_ns;
    // --- serving: adapter_serve() only ---
    int64_t secure_port, max_connections;
    const char *bind_address, *cert_dir, *tls_cert_file, *tls_key_file, *tls_service;
    // --- authentication and authorization ---
    bool skip_lookup, tolerate_lookup_failure;
    int64_t token_ttl_ns, allowed_ttl_ns, denied_ttl_ns;
    const char *client_ca_file, *requestheader_ca_file;
    struct gs_opt_list allowed_names, username_headers, group_headers, extra_prefixes,
        always_allow_paths;
    // --- delegates: who served an API group before ---
    struct gs_opt_list previous_owners;
    const char *previous_ca_file, *previous_token_file, *previous_cert_file, *previous_key_file;
    bool previous_front_proxy, previous_insecure;
    // --- audit log ---
    const char *audit_policy, *audit_path, *audit_format, *audit_version, *audit_mode;
    int64_t audit_max_age, audit_max_backup, audit_max_size;

    // --- for a program that embeds the adapter ---
    struct kube_client *kube;    // borrowed; NULL: by the kubeconfig files
    struct engine *engine;       // borrowed; the default source. NULL: by prometheus_url
    bool trusted;                // the server that calls adapter_handle() authorizes callers
    bool config_maps;            // without `config`: rules of a ConfigMap in the cluster
    const char *resource_rules;  // YAML: resourceRules of a configuration that has none
    void (*on_fatal)(void *arg); // the adapter cannot work: see adapter_fatal()
    const char *(*not_ready)(void *arg); // the embedding program's own reason; NULL: it is ready
    void (*write_metrics)(void *arg, struct gs_buf *out); // more of /metrics
    void *arg;
};

struct gs_error *adapter_new(uv_loop_t *loop, const struct adapter_options *o,
                             struct adapter **ret);
// NULL is fine. Run the loop afterwards: handles are closed in it.
void adapter_free(struct adapter *a);
void adapter_handle(void *adapter, struct http_exchange *x); // an http_handler: all paths
// The APIGroup document of "custom.metrics.k8s.io" and the like, for /apis of the server that
// mounts it. New reference; NULL: the adapter does not serve this group now.
json_t *adapter_describe_group(const struct adapter *a, const char *group);
void adapter_reload(struct adapter *a);              // an error is logged; the old rules stay
const char *adapter_not_ready(struct adapter *a);    // NULL: ready
struct kube_client *adapter_kube(struct adapter *a); // of the cluster's objects; borrowed
// The error that ended it, to be owned by the caller; NULL: none.
struct gs_error *adapter_fatal(struct adapter *a);
// /readyz fails from now on; requests are still answered.
void adapter_stop(struct adapter *a);
bool adapter_idle(const struct adapter *a); // no request is under way

// `gpuscale adapter`: serves over HTTPS until SIGTERM or SIGINT. SIGHUP reloads.
struct gs_error *adapter_serve(const struct adapter_options *o);
