// SPDX-License-Identifier: Apache-2.0
// `gpuscale expander`: the gRPC expander of the Cluster Autoscaler.
#include "expander/expander.h"

#include "cmd/commands.h"

#define AT(field)   .offset = offsetof(struct expander_options, field)
#define CORDON      .group = "Early cordon flags"
#define CERTIFICATE .group = "Certificate flags"

static const struct gs_opt opts[] = {
    {"policy", GS_OPT_STRING, AT(policy), "POLICY", "cost",
     .help = "cost: the lowest price for what the pods need. speed: the shortest wait. packing: "
             "the fewest GPUs left unused. Models of the Cluster Autoscaler's own expanders: "
             "least-waste, least-nodes, most-pods, price, priority, random."},
    {"pools", GS_OPT_STRING, AT(pools), "FILE",
     .help = "Node pools with prices and start-up times (YAML). A node group belongs to the pool "
             "of its name, of its node pool's label, or of its instance type. Read again when it "
             "changes."},
    {"grpc-listen-address", GS_OPT_STRING, AT(listen), "ADDRESS", ":7443",
     .help = "HOST:PORT for the Cluster Autoscaler (its --grpc-expander-url)."},
    {"web.listen-address", GS_OPT_STRING, AT(web_listen), "ADDRESS", ":9412",
     .help = "HOST:PORT of /api/v1/decisions, /metrics, /healthz and /readyz. Empty: no server."},
    {"decisions", GS_OPT_INT, AT(kept), "N", "100", .min = 1, .max = 10000,
     .help = "Number of decisions that /api/v1/decisions shows."},
    {"kubeconfig", GS_OPT_STRING, AT(kubeconfig), "FILE",
     .help = "The cluster, for start-up times and failures of node groups. Default: the cluster in "
             "which gpuscale runs, or none."},
    {"early-cordon", GS_OPT_BOOL, AT(early_cordon), CORDON,
     .help = "Cordon idle nodes with several GPUs while a smaller node serves the typical smaller "
             "pod for less, so that a small pod does not split them. The cordon ends when a pod "
             "needs the node. Needs a cluster."},
    {"leader-elect-resource-namespace", GS_OPT_STRING, AT(lease_ns), "NAME", "kube-system", CORDON,
     .help = "Namespace of the Lease: of several replicas, the one that holds it cordons nodes."},
    {"leader-elect-resource-name", GS_OPT_STRING, AT(lease_name), "NAME", "gpuscale-expander",
     CORDON, .help = "Name of the Lease."},
    {"tls-cert-file", GS_OPT_STRING, AT(cert_file), "FILE", CERTIFICATE,
     .help = "Serving certificate, read again when it changes. Its CA is the --grpc-expander-cert "
             "of the Cluster Autoscaler."},
    {"tls-private-key-file", GS_OPT_STRING, AT(key_file), "FILE", CERTIFICATE,
     .help = "Key of the certificate."},
    {"cert-dir", GS_OPT_STRING, AT(cert_dir), "DIR", CERTIFICATE,
     .help = "Create a certificate in this folder if absent (tls.crt, tls.key). ca.crt is the "
             "--grpc-expander-cert of the Cluster Autoscaler."},
    {"tls-secret", GS_OPT_STRING, AT(secret), "NAMESPACE/NAME", CERTIFICATE,
     .help = "Create a certificate in this Secret if absent, and serve it. Its ca.crt, mounted "
             "into the Cluster Autoscaler's pod, is the --grpc-expander-cert."},
    {"tls-name", GS_OPT_STRINGS, AT(names), "NAME", CERTIFICATE,
     .help = "DNS name or IP address in the generated certificate, beside localhost and 127.0.0.1: "
             "the host of --grpc-expander-url. May be repeated."},
    {0},
};

static struct gs_error *run_expander(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv;
    return expander_run(values, ret_exit);
}

const struct gs_command cmd_expander = {
    .name = "expander",
    .args = NULL,
    .summary = "Choose node groups for the Cluster Autoscaler (its gRPC expander).",
    .description =
        "When pods wait for nodes, the Cluster Autoscaler calls its expander to choose the node "
        "group to grow. Its own expanders ignore GPUs: least-waste compares CPU and memory. This "
        "one "
        "compares the GPUs that an option leaves unused, its price, the time until the nodes can "
        "be used, and recent failures.\n\nEach decision is logged with its reasons, counted in "
        "/metrics, and shown at /api/v1/decisions. A problem never prevents a scale-up: the answer "
        "then has all options, and the Cluster Autoscaler's next expander chooses.",
    .examples = "gpuscale expander --cert-dir=/var/lib/gpuscale --pools=pools.yaml\n"
                "cluster-autoscaler --expander=grpc,least-waste --grpc-expander-url=localhost:7443 "
                "--grpc-expander-cert=/var/lib/gpuscale/ca.crt",
    .opts = opts,
    .opts_size = sizeof(struct expander_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_expander,
};
