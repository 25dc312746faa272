// SPDX-License-Identifier: Apache-2.0
// Low ports without root. Pods and Services share this machine's network, so a port below the
// unprivileged range cannot be bound by an ordinary user: it moves up by 8000 (80 -> 8080), or by a
// further 8000 where the same object declares that port itself. Ports stay where the process may
// bind them: see local_ports_first().
//
// A moved port is recorded once, in the annotation KUBE_ANN_PORTS of the Pod or Service
// (kube/object.h). Probes, Endpoints, scrape targets, tables and events read it from there.
#pragma once

#include "codec/json.h"

#define LOCAL_PORT_SHIFT 8000

// The first port that this process and its pods may bind. 0: all, with CAP_NET_BIND_SERVICE; else
// net.ipv4.ip_unprivileged_port_start. Read once.
int local_ports_first(void);
void local_ports_set_first(int port); // for tests
// Gives CAP_NET_BIND_SERVICE to the programs that this process executes, where it has it. To be
// called right before execve(): a file capability of gpuscale is not inherited otherwise.
void local_ports_pass_on(void);

// Where a port that no object declares listens.
int local_host_port(int port);
// The record for KUBE_ANN_PORTS, "80=8080,443=8443"; NULL: no declared port moves. Caller frees.
char *local_ports_of_pod(const json_t *pod);
// Where a port of a pod listens: by this record (NULL is fine), else local_host_port().
int local_port_by(const char *record, int port);
int local_pod_port(const json_t *pod, int port); // by the pod's own record
// Where a port of a Service should listen: local_host_port(), past the Service's other ports. And
// the next choice when `port` is taken; 0: there is none.
int local_service_port(const json_t *service, int port);
int local_service_port_after(const json_t *service, int port);
// Why ports from `lowest` on move and how root can allow them, for events and the console. Caller
// frees.
char *local_ports_remedy(int lowest);
int local_ports_lowest(const char *record); // declared port of a record
