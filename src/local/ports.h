// SPDX-License-Identifier: Apache-2.0
// Low ports without root. Pods and Services share this machine's network, and an ordinary user
// cannot bind a port below the unprivileged range. Such a port moves up by 8000 (80 -> 8080), or by
// another 8000 if the same object declares that port. A port that the process may bind does not
// move: see local_ports_first().
//
// A moved port is recorded once, in the annotation KUBE_ANN_PORTS of the Pod or Service
// (kube/object.h). Probes, Endpoints, scrape targets, tables and events read it from there.
#pragma once

#include "codec/json.h"

#define LOCAL_PORT_SHIFT 8000

// The first port that this process and its pods may bind: 0 with CAP_NET_BIND_SERVICE, else
// net.ipv4.ip_unprivileged_port_start. Read once.
int local_ports_first(void);
void local_ports_set_first(int port); // for tests
// Passes CAP_NET_BIND_SERVICE, if present, to the programs that this process executes. Call it
// right before execve(): otherwise a file capability of gpuscale is not inherited.
void local_ports_pass_on(void);

// The actual port for one that no object declares.
int local_host_port(int port);
// The record for KUBE_ANN_PORTS, "80=8080,443=8443"; NULL: no declared port moves. Caller frees.
char *local_ports_of_pod(const json_t *pod);
// The port on which a port of a pod listens: from this record (may be NULL), else
// local_host_port().
int local_port_by(const char *record, int port);
int local_pod_port(const json_t *pod, int port); // from the pod's own record
// The port on which a Service should listen: local_host_port() without a collision with the
// Service's other ports. The second function returns the next choice if `port` is in use; 0: none.
int local_service_port(const json_t *service, int port);
int local_service_port_after(const json_t *service, int port);
// Text for events and the console: why ports from `lowest` on move, and how root can allow them.
// Caller frees.
char *local_ports_remedy(int lowest);
int local_ports_lowest(const char *record); // lowest declared port of a record
