// SPDX-License-Identifier: Apache-2.0
// `gpuscale expander`: the Cluster Autoscaler's gRPC expander (--expander=grpc). It chooses among
// the node groups that the Cluster Autoscaler could enlarge, and explains the choice.
#pragma once

#include "base/option.h"

// The options of the command. Strings are borrowed; NULL: not given.
struct expander_options {
    const char *policy;     // "cost", "speed", "packing", …: nodes/choice.h
    const char *pools;      // file with prices and start-up times
    const char *listen;     // of gRPC
    const char *web_listen; // of /metrics; "": no server
    const char *cert_file, *key_file;
    const char *cert_dir;     // of a certificate made here, unless files are given
    const char *secret;       // "NAMESPACE/NAME": the certificate made here is shared in a Secret
    struct gs_opt_list names; // in the certificate made here
    const char *kubeconfig;
    int64_t kept;      // decisions
    bool early_cordon; // of idle large nodes: nodes/packing.h
    const char *lease_ns, *lease_name;
};

// Runs until SIGINT or SIGTERM. Errors: wrong options or pools, no certificate, an address in use.
struct gs_error *expander_run(const struct expander_options *o, int *ret_exit);
