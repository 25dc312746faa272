// SPDX-License-Identifier: Apache-2.0
// `gpuscale node-provider`: the externalgrpc cloud provider of the Kubernetes Cluster Autoscaler
// for machines that no cloud provider manages. Commands of the user create, delete and list the
// machines. Specification: the Cluster Autoscaler's externalgrpc.proto in its forms up to 1.33, of
// 1.34, and from 1.35.
#pragma once

#include "base/option.h"

// Strings are borrowed; NULL: not given. Times are nanoseconds.
struct node_provider_options {
    const char *pools;     // file
    const char *state_dir; // directory of the state file
    const char *address;   // of the gRPC server
    const char *listen;    // of /metrics and the API; "": none
    const char *cert, *key, *client_ca;
    const char *generate; // directory of generated certificates
    const char *kubeconfig;
    const char *lease_ns, *lease_name;
    struct gs_opt_list names; // of the server, in generated certificates
    int64_t list_interval, provision_time;
    bool insecure;
    bool elect;      // with a cluster: work only while holding the Lease
    bool in_cluster; // without kubeconfig: use the service account of the pod
    bool keep_nodes; // do not remove the Nodes of deleted machines
    bool check;      // read the files and run each list command, then exit
};

// Runs until SIGINT or SIGTERM. Commands that still run then are continued by the next start.
// Errors: wrong files or options (GS_EINVAL), another provider uses the state directory, an address
// is in use. *ret_exit is 1 if another provider has taken the Lease.
struct gs_error *node_provider_run(const struct node_provider_options *o, int *ret_exit);
