// SPDX-License-Identifier: Apache-2.0
// `gpuscale activator`: the flags.
#include "activator/program.h"

#include "cmd/commands.h"
#include "cmd/option_rows.h"

#define AT(field) .offset = offsetof(struct activator_server_options, field)
#define LIMITS    .group = "Limits"

static const struct gs_opt opts[] = {
    CMD_KUBECONFIG_ROW(AT),
    {"namespace", GS_OPT_STRING, AT(ns), "NAME", .alias = "n",
     .help = "Activate only Services of this namespace. Default: all namespaces."},
    {"advertise-address", GS_OPT_STRING, AT(advertise), "IP[,IP]", .env = "POD_IPS",
     .help = "Address of this instance in EndpointSlices: that of its pod, or one of IPv4 and one "
             "of IPv6."},
    {"listen-address", GS_OPT_STRING, AT(listen), "IP",
     .help = "Address on which connections are accepted. Default: any."},
    {"ports", GS_OPT_STRING, AT(ports), "FIRST-LAST", "20000-20999",
     .help = "Ports on which connections are accepted, one for each port of a Service."},
    {"web.listen-address", GS_OPT_STRING, AT(web_listen), "ADDRESS", ":9409",
     .help = "HOST:PORT of /metrics, /healthz and /readyz. Empty: no server."},
    {"identity", GS_OPT_STRING, AT(identity), "NAME", .env = "POD_NAME",
     .help = "Name of this instance in its EndpointSlices. Default: the host name."},
    {"pod-namespace", GS_OPT_STRING, AT(pod_ns), "NAME", .env = "POD_NAMESPACE",
     .help =
         "Namespace of the pod of this name. Other instances delete the EndpointSlices of a pod "
         "that is gone."},
    {"node-name", GS_OPT_STRING, AT(node), "NAME", .env = "NODE_NAME",
     .help = "Node of this instance, for Services with a traffic policy."},
    {"max-services", GS_OPT_INT, AT(max_services), "N", "256", .min = 1, .max = 1000, LIMITS,
     .help = "Services that are activated."},
    {"max-held", GS_OPT_INT, AT(max_held), "N", "1000", .min = 1, .max = 100000, LIMITS,
     .help = "Connections that are held for a Service. Further ones are refused: HTTP requests "
             "with the status 429."},
    {"max-held-bytes", GS_OPT_INT, AT(max_bytes), "BYTES", "65536", .min = 16384, .max = 1 << 30,
     LIMITS, .help = "Bytes that are held for a connection. Further bytes wait at the client."},
    {"max-total-bytes", GS_OPT_INT, AT(max_total_bytes), "BYTES", "8388608", .min = 65536,
     .max = INT64_C(1) << 40, LIMITS,
     .help = "Bytes that are held for all connections. Further bytes wait at the clients."},
    {"hold", GS_OPT_DURATION, AT(hold), "DURATION", "10m", .min = 1, LIMITS,
     .help = "How long a connection is held. Then it is refused: HTTP requests with the status "
             "503."},
    {"silent", GS_OPT_DURATION, AT(silent), "DURATION", "10s", .min = 1, LIMITS,
     .help = "How long a connection is held that has sent no complete request head."},
    {"max-open", GS_OPT_INT, AT(max_open), "N", "10000", .min = 1, .max = 1000000, LIMITS,
     .help = "Connections of a Service that were passed on and have not ended. Further ones wait."},
    {"idle", GS_OPT_DURATION, AT(idle), "DURATION", "10m", .min = 1, LIMITS,
     .help = "How long a connection that was passed on stays without traffic, unless its last "
             "bytes were a request."},
    {"per-pod", GS_OPT_INT, AT(per_pod), "N", "8", .min = 1, .max = 100000, LIMITS,
     .help = "Held requests that are in progress at a ready pod at a time, so that the first pod "
             "is not flooded."},
    {0},
};

static struct gs_error *run_activator(const void *values, int argc, char **argv, int *ret_exit)
{
    (void)argc, (void)argv, (void)ret_exit;
    return activator_server_run(values);
}

const struct gs_command cmd_activator = {
    .name = "activator",
    .main_flags = NULL,
    .args = NULL,
    .summary = "Hold requests for Services at zero replicas until a pod is ready.",
    .description =
        "Serves the Services with the annotation gpuscale.dev/activate: \"Deployment/NAME\". While "
        "no pod is ready, connections to the Service come to this program, which holds them. They "
        "are passed on to the first ready pods. After that, it is out of the data path: new "
        "connections go to the pods directly.\n\nThe number of connections that wait is the metric "
        "gpuscale_activator_waiting of the Service, from which a HorizontalPodAutoscaler with "
        "minReplicas: 0 scales up.",
    .examples = "gpuscale activator --advertise-address=10.0.0.7\n"
                "gpuscale activator --namespace=inference --hold=20m",
    .opts = opts,
    .opts_size = sizeof(struct activator_server_options),
    .min_args = 0,
    .max_args = 0,
    .run = run_activator,
};
