// SPDX-License-Identifier: Apache-2.0
// `gpuscale node-provider`: the externalgrpc cloud provider of the Cluster Autoscaler.
#include "node_provider/node_provider.h"

#include "cmd/commands.h"

#define AT(field) .offset = offsetof(struct node_provider_options, field)
#define TLS       .group = "TLS flags"
#define NODES     .group = "Kubernetes flags"

static const struct gs_opt opts[] = {
    {"pools", GS_OPT_STRING, AT(pools), "FILE",
     .help = "The pools and their commands (docs/nodes.md). Commands run in its folder."},
    {"state-dir", GS_OPT_STRING, AT(state_dir), "DIR", "/var/lib/gpuscale/node-provider",
     .help = "Directory of the state file. Only one node provider can use it."},
    {"address", GS_OPT_STRING, AT(address), "ADDRESS", ":8086",
     .help = "HOST:PORT of the gRPC server. The host is an IP address."},
    {"web.listen-address", GS_OPT_STRING, AT(listen), "ADDRESS", ":9411",
     .help = "HOST:PORT of /metrics, /healthz, /readyz and /api/v1/pools. Empty: no server."},
    {"list-interval", GS_OPT_DURATION, AT(list_interval), "DURATION", "30s",
     .help = "Interval between runs of each list command. It also runs after the other commands."},
    {"check", GS_OPT_BOOL, AT(check), .help = "Check the file, print the pools, and exit."},
    {"tls-cert-file", GS_OPT_STRING, AT(cert), "FILE", TLS,
     .help =
         "Certificate of the server. Its names contain the host of the cloud-config's address."},
    {"tls-private-key-file", GS_OPT_STRING, AT(key), "FILE", TLS,
     .help = "Key of the certificate."},
    {"client-ca-file", GS_OPT_STRING, AT(client_ca), "FILE", TLS,
     .help = "The autoscaler must present a certificate of this CA. All three files are read again "
             "when they change."},
    {"generate-certificates", GS_OPT_STRING, AT(generate), "DIR", TLS,
     .help = "Serve with a certificate of this directory. A CA, a server certificate and a client "
             "certificate are made in it, and the cloud-config of the Cluster Autoscaler is "
             "printed. A CA that exists is used again."},
    {"tls-name", GS_OPT_STRINGS, AT(names), "NAME", TLS,
     .help = "DNS name or IP address in the generated server certificate, beside localhost, "
             "127.0.0.1 and ::1. The first one is the address in the cloud-config. Repeatable."},
    {"insecure", GS_OPT_BOOL, AT(insecure), TLS,
     .help = "Serve without TLS and without authentication. Everybody who can connect can create "
             "and delete machines."},
    {"kubeconfig", GS_OPT_STRING, AT(kubeconfig), "FILE", NODES,
     .help = "The cluster, to remove the Nodes of machines that are gone (the Cluster Autoscaler "
             "does not), and to report machines that do not register."},
    {"in-cluster", GS_OPT_BOOL, AT(in_cluster), NODES,
     .help = "The same with the service account of the pod in which gpuscale runs."},
    {"keep-nodes", GS_OPT_BOOL, AT(keep_nodes), NODES, .help = "Write nothing to the cluster."},
    {"leader-elect", GS_OPT_BOOL, AT(elect), .def = "true", NODES,
     .help = "With a cluster: work only while holding a Lease, so that two providers never work on "
             "the same pools. Not with --keep-nodes."},
    {"leader-elect-resource-namespace", GS_OPT_STRING, AT(lease_ns), "NAME", "kube-system", NODES,
     .help = "Namespace of the Lease."},
    {"leader-elect-resource-name", GS_OPT_STRING, AT(lease_name), "NAME", "gpuscale-node-provider",
     NODES, .help = "Name of the Lease. Providers of different pools need different names."},
    {"max-node-provision-time", GS_OPT_DURATION, AT(provision_time), "DURATION", "15m", NODES,
     .help = "Log a warning if a created machine has not registered after this time. The Cluster "
             "Autoscaler has a flag of the same name, after which it deletes the machine."},
    {0},
};

static struct gs_error *run_node_provider(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return node_provider_run(values);
}

const struct gs_command cmd_node_provider = {
    .name = "node-provider",
    .args = NULL,
    .summary = "Create and delete machines for the Cluster Autoscaler.",
    .description =
        "The externalgrpc cloud provider of the Kubernetes Cluster Autoscaler for machines that no "
        "cloud provider manages, such as GPU servers that are switched by Redfish, or virtual "
        "machines of libvirt. A file defines the pools, and the commands that create, delete and "
        "list their machines.\n\nEach step is written to a state file before it begins. After a "
        "crash, the list command shows what exists, so that no machine is created twice or "
        "forgotten.",
    .examples = "gpuscale node-provider --pools=pools.yaml --generate-certificates=./certificates\n"
                "gpuscale node-provider --pools=pools.yaml --tls-cert-file=tls.crt "
                "--tls-private-key-file=tls.key --client-ca-file=ca.crt --kubeconfig=admin.conf\n"
                "gpuscale node-provider --pools=pools.yaml --check",
    .opts = opts,
    .opts_size = sizeof(struct node_provider_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_node_provider,
};
