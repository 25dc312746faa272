// SPDX-License-Identifier: Apache-2.0
// `gpuscale top`: a live view of GPUs, pods and processes in the terminal. The values come from the
// driver (NVML), an exporter, the HTTP API of an engine or a Prometheus, or the metrics API of a
// cluster.
#pragma once

#include "base/error.h"
#include "base/option.h"

#include <stdbool.h>
#include <stdint.h>

// Texts are borrowed; NULL: not given.
struct top_options {
    const char *url;      // of an engine or Prometheus
    const char *exporter; // URL of an exposition, or HOST:PORT
    const char *nvml_library;
    const char *kubeconfig, *context, *ns; // of a cluster; ns NULL: all
    const char *http_config_file;          // of url and exporter, in the format of promtool
    struct gs_opt_list headers;            // of requests to url
    const char *output, *sort, *filter;
    int64_t interval_ns, timeout_ns;
    bool nvml;    // the GPUs of this machine, whatever the environment says
    bool cluster; // the cluster of the kubeconfig
    bool once;
};

// Shows the values until the user quits, or prints them once if stdout or stdin is not a terminal,
// with `once` and with another output than "table". Blocks. GS_EINVAL: wrong options.
struct gs_error *top_run(const void *options, int argc, char **argv, int *ret_exit);
