// SPDX-License-Identifier: Apache-2.0
// A cluster of one node in the foreground: the Kubernetes API, controllers, scheduler and kubelet,
// the exporter, the metrics engine, the metrics APIs and the autoscaler.
#pragma once

#include "autoscaler/autoscaler.h"
#include "base/option.h"
#include "engine/engine.h"

// The options of `gpuscale up`. Strings are borrowed; NULL: not given.
struct up_options {
    const char *gpus, *adapter_config, *data_dir, *node_name, *load, *after_load, *hpa_compat,
        *prices, *owner_label;
    struct gs_opt_list pools, pool_files;
    struct autoscaler_settings autoscaler; // of nodes
    struct engine_receivers receivers;
    struct gs_opt_list files, images, env, node_labels, node_taints, values, scrape_configs,
        alertmanagers, features;
    const char *collectors, *release_namespace, *kube_context;
    const char *keda_listen;     // HOST:PORT of KEDA's external scaler; NULL: not served
    const char *inference_table; // NULL: the default
    int64_t api_port, exporter_port, prometheus_port; // -1: the default port, or a free one when
                                                      // that port is in use
    int64_t sync_period, downscale_window, cpu_init_period, readiness_delay; // ns
    int64_t max_pods, pod_quota, max_objects;
    int64_t retention;          // ns, of samples; 0: they are in memory only, for some minutes
    const char *retention_size; // of samples on the disk
    double tolerance;
    bool exit_after_load, stop, reset, detach;
};

// The value of --env that is no variable: the environment of the running cluster is printed.
#define UP_ENV_OF_SHELL "auto"

// Runs until SIGINT, SIGTERM or an error. With `stop`, only ends the instance that uses the data
// directory. With `detach`, starts a process that runs, and returns when it is ready. With the
// value UP_ENV_OF_SHELL, or a name of a shell, in `env`, prints the environment. Errors: GS_EINVAL
// for options that contradict each other; with exit_after_load also when the load or the command
// after it failed or did not end.
struct gs_error *up_run(const struct up_options *o);
