// SPDX-License-Identifier: Apache-2.0
// The exporter as a process: reads the metrics and the configuration file, serves /metrics (with
// TLS and passwords, if configured), and reloads its files on SIGHUP and when they change, until a
// signal ends it.
#pragma once

#include "base/error.h"
#include "base/option.h"

#include <stdbool.h>
#include <stdint.h>

// All strings are borrowed. NULL or 0: not set, unless the member says otherwise.
struct daemon_options {
    const char *address;      // HOST:PORT, :PORT or [IPV6]:PORT
    const char *config_file;  // YAML file of dcgm-exporter 4.6 or 4.8.4
    const char *collectors;   // CSV file that defines the exported metrics
    const char *metric_names; // of --metric-names
    const char *configmap;    // NAMESPACE:NAME of a ConfigMap with that CSV; "none": no ConfigMap
    const char *devices;      // see exporter_render_devices_valid()
    const char *web_config;   // TLS and basic authentication
    const char *hpc_dir;      // folder of job files
    const char *label_regex;  // pod labels to export
    bool old_namespace, replace_blanks, virtual_gpus, dra, pod_labels, pod_uid;
    bool max_util, timestamps, exporter_metrics, require_gpus;
    bool systemd_socket; // listen on the sockets that systemd passes
    int64_t xid_window_ms, clock_window_ms;
    int64_t interval_ms; // between two samples; 0: of the configuration file, else 1000
    bool kubernetes;     // read the kubelet's PodResources socket
    const char *gpu_id_type;
    const char *socket;         // of the kubelet
    const char *resource_names; // more resources that are GPUs, separated by commas
    const char *host_proc;
    int64_t podresources_interval_ns;
    bool no_hostname;
    const char *hostname_label;
    const char *node_name;
    const char *nvml_library;
    bool simulated_only; // refuse a library that is not the simulated one
    int64_t driver_timeout_ns, driver_wait_limit_ns;
    enum gs_switch wait_for_driver;
    const char *host_sys;
};

// GS_EINVAL names the flag whose value is wrong.
struct gs_error *daemon_check_options(const struct daemon_options *o);

// Runs until SIGTERM, SIGINT or SIGQUIT, or until it fails. *ret_hangs: a driver call has not
// returned. Then leave the process by _exit(), because exit() would wait in the driver's
// destructors.
struct gs_error *daemon_run(const struct daemon_options *o, bool *ret_hangs);

// Prints every field with its type, unit, source and whether the GPUs that the NVML library (NULL:
// the driver's) has support it.
void daemon_list_fields(const char *library);
