// SPDX-License-Identifier: Apache-2.0
// Flags of `gpuscale adapter`: prometheus-adapter's, those of the generic API server that its
// manifests set, and a few of ours.
#pragma once

#include "base/option.h"

enum { ADAPTER_IGNORED_VALUES = 48, ADAPTER_IGNORED_BOOLS = 24 };

struct adapter_flags {
    const char *config, *sources;
    // Prometheus
    const char *prometheus_url, *prometheus_verb, *prometheus_ca_file, *prometheus_cert_file,
        *prometheus_key_file, *prometheus_token_file, *prometheus_auth_config;
    bool prometheus_auth_incluster, prometheus_insecure;
    struct gs_opt_list prometheus_headers;
    int64_t relist_ns, max_age_ns, value_age_ns;
    const char *sample_times;
    // the engine in this process
    const char *engine_config;
    int64_t engine_retention_ns;
    bool gpu_metrics;
    // the cluster
    const char *lister_kubeconfig, *authn_kubeconfig, *authz_kubeconfig;
    int64_t discovery_interval_ns;
    // serving
    int64_t secure_port, max_connections;
    const char *bind_address, *cert_dir, *tls_cert_file, *tls_key_file, *tls_service;
    // authentication, authorisation
    bool skip_lookup, tolerate_lookup_failure;
    int64_t token_ttl_ns, allowed_ttl_ns, denied_ttl_ns;
    const char *client_ca_file, *requestheader_ca_file;
    struct gs_opt_list allowed_names, username_headers, group_headers, extra_prefixes,
        always_allow_paths;
    // previous owners
    struct gs_opt_list previous_owners;
    const char *previous_ca_file, *previous_token_file, *previous_cert_file, *previous_key_file;
    bool previous_front_proxy, previous_insecure;
    // audit log
    const char *audit_policy, *audit_path, *audit_format, *audit_version, *audit_mode;
    int64_t audit_max_age, audit_max_backup, audit_max_size;
    int64_t v;
    struct gs_opt_list ignored_values[ADAPTER_IGNORED_VALUES];
    bool ignored_bools[ADAPTER_IGNORED_BOOLS];
};

extern const struct gs_opt adapter_option_rows[];
void adapter_warn_ignored(const struct adapter_flags *f);
// Values that are given with commas become entries of their own. Caller frees the array (its
// strings are those of `list` or in *ret_memory, to be freed, too).
const char *const *adapter_split(const struct gs_opt_list *list, size_t *ret_n, char **ret_memory);
