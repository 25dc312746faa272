// SPDX-License-Identifier: Apache-2.0
// The flags of `gpuscale exporter`: dcgm-exporter's, and our own.
#pragma once

#include "base/error.h"
#include "base/option.h"

#include <stdint.h>

struct exporter_opts {
    const char *address;
    const char *config_file, *collectors, *configmap, *devices, *web_config, *hpc_dir, *label_regex;
    bool old_namespace, replace_blanks, virtual_gpus, dra, pod_labels, pod_uid, debug, list_fields;
    bool max_util, timestamps, systemd_socket;
    int64_t xid_window_ms, clock_window_ms;
    // Accepted without effect.
    const char *none_text[12];
    bool none_bool[12];
    int64_t interval_ms; // 0: not set
    bool kubernetes;
    const char *gpu_id_type;
    const char *socket;
    const char *resource_names, *host_proc;
    int64_t podresources_interval_ns;
    bool no_hostname;
    const char *hostname_label;
    const char *node_name;
    const char *nvml_library;
    const char *simulate;
    int64_t driver_timeout_ns, driver_wait_limit_ns;
    enum gs_switch wait_for_driver;
    const char *host_sys;
    bool exit_with_parent;
    int64_t parent_pid;
};

extern const struct gs_opt exporter_opts[]; // ends with a row without name

struct gs_error *exporter_check_opts(const struct exporter_opts *o);
// NULL: none; dcgm-exporter has a word for that.
const char *exporter_configmap(const struct exporter_opts *o);
// HOST:PORT, :PORT, [IPV6]:PORT.
struct gs_error *exporter_parse_address(const char *text, char **ret_host, uint16_t *ret_port);
// Flags of dcgm-exporter that have no effect here are named once.
void exporter_tell_without_effect(const struct exporter_opts *o);
