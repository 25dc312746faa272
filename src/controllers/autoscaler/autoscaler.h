// SPDX-License-Identifier: Apache-2.0
// The loop of the Cluster Autoscaler: it adds machines to pools for pods that no node can take, and
// removes nodes that nobody needs. It follows kubernetes-sigs/cluster-autoscaler: names and
// defaults of the settings, taints, annotations, events, the ConfigMap with the status, and
// metrics.
//
// It reads watch caches, writes through a client, and creates and deletes machines through a struct
// nodes_provider. So it works on any Kubernetes API. Only the thread of the loop may use it.
#pragma once

#include "kube/cache.h"
#include "net/http/server.h"
#include "nodes/pool.h"
#include "nodes/provider.h"

#define AUTOSCALER_STATUS_NAMESPACE  "kube-system"
#define AUTOSCALER_STATUS_CONFIG_MAP "cluster-autoscaler-status"

// --- settings ---

// Flags of the Cluster Autoscaler; the rows with names, defaults and texts are in
// cmd/option_rows.h. Durations are nanoseconds.
struct autoscaler_settings {
    int64_t scan_interval;
    const char *expander; // policy of the choice among pools; see nodes/choice.h
    int64_t new_pod_scale_up_delay;
    int64_t expendable_priority; // pods with a lower priority trigger no scale-up
    int64_t max_nodes_total;     // 0: no limit
    int64_t max_nodes_per_scale_up;
    int64_t max_provision_time; // increase to Node
    int64_t max_startup_time;   // Node to ready, with its GPUs
    int64_t backoff_initial, backoff_max, backoff_reset;
    double max_unready_percentage; // 0 to 100
    int64_t ok_unready_count;
    bool enforce_min_size;
    bool balance_similar; // pools that differ only in name and zone

    bool scale_down;
    int64_t unneeded_time, unready_time;
    int64_t delay_after_add, delay_after_delete, delay_after_failure;
    double utilization_threshold, gpu_utilization_threshold; // requested share, 0 to 1
    int64_t max_parallelism, max_drain_parallelism;
    int64_t max_graceful_termination_s, max_eviction_time;
    int64_t delay_after_taint;
    int64_t max_soft_taints; // per run
    bool ignore_daemonset_utilization, evict_daemonsets;
    bool skip_local_storage, skip_system_pods;

    bool early_cordon, consolidation; // not of the Cluster Autoscaler; off by default
};

void autoscaler_settings_init(struct autoscaler_settings *ret);
// GS_EINVAL names the flag.
struct gs_error *autoscaler_settings_check(const struct autoscaler_settings *s);

// --- the loop ---

struct autoscaler;

struct autoscaler_config {
    const struct nodes_pool *pools; // borrowed
    size_t n_pools;
    const struct nodes_provider *provider; // borrowed
    struct autoscaler_settings settings;
    // Borrowed caches of all namespaces, started by their owner.
    struct kube_cache *pods, *nodes, *daemonsets;
    // Unix milliseconds that never go back; NULL: the clock of the machine.
    int64_t (*now_ms)(void *arg);
    void *arg;
};

struct autoscaler *autoscaler_new(uv_loop_t *loop, struct kube_client *client,
                                  const struct autoscaler_config *cfg);
// Runs every scan interval from now on, and soon after a pod turned out to be unschedulable.
void autoscaler_start(struct autoscaler *a);
// One run. False: the caches are not filled yet.
bool autoscaler_run_once(struct autoscaler *a);
// Starts nothing any more. Evictions in progress end with autoscaler_free.
void autoscaler_stop(struct autoscaler *a);
void autoscaler_free(struct autoscaler *a);

// --- inspection ---

// What the loop knows and intends; new reference:
//   {"time", "runs", "expander", "pools": [{nodes_pool_json(), "min", "target", "ready",
//   "upcoming", "backoffUntil", "lastError", …}], "pods": [{"namespace", "name", "pool", "since",
//   "expected", "text"}], "nodes": [{"name", "pool", "utilization", "unneededSince", "unremovable",
//   …}], "decisions": [{"time", "text"}]}
json_t *autoscaler_state(const struct autoscaler *a);
// The state over HTTP:
//   GET /apis/nodes.gpuscale.dev/v1/autoscaler
#define AUTOSCALER_GROUP "nodes.gpuscale.dev"
json_t *autoscaler_group(const void *autoscaler, const char *group); // its APIGroup; new reference
void autoscaler_handle(void *autoscaler, struct http_exchange *x);
// Appends a Prometheus exposition with the names of the Cluster Autoscaler.
void autoscaler_metrics(const struct autoscaler *a, struct gs_buf *out);
