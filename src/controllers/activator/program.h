// SPDX-License-Identifier: Apache-2.0
// The activator as a program of a cluster, with /metrics and the state of its Services.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// The options of `gpuscale activator`. Strings are borrowed; NULL: not given.
struct activator_server_options {
    const char *kubeconfig, *ns, *identity, *pod_ns, *node, *listen, *web_listen, *advertise,
        *ports;
    int64_t max_services, max_held, max_bytes, max_total_bytes, max_open, per_pod;
    int64_t hold, silent, idle; // ns
};

// Runs until SIGINT or SIGTERM; then its EndpointSlices are deleted. Errors: wrong options, no
// cluster, the address is in use.
struct gs_error *activator_server_run(const struct activator_server_options *o);
