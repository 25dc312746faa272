// SPDX-License-Identifier: Apache-2.0
// What `gpuscale exporter` prepares before it starts: the families, the cluster, the list of
// fields.
#pragma once

#include "exporter/counters.h"
#include "kube/client.h"

#include <uv.h>

// path NULL: dcgm-exporter's default file where there is one, else what is built in.
struct gs_error *exporter_load_counters(const char *path, struct exporter_counters *ret);
// The file that this reads.
const char *exporter_counters_path(const char *path);
// Rows of a counters file that `source` has.
struct gs_error *exporter_parse_counters(const char *source, struct gs_slice text,
                                         struct exporter_counters *ret);
// By KUBECONFIG or the pod's service account. The http_client goes after the kube_client.
struct gs_error *exporter_connect_cluster(uv_loop_t *loop, struct http_client **ret_http,
                                          struct kube_client **ret);
// The socket to ask: where k0s and MicroK8s have the kubelet's when there is none at the usual
// place.
const char *exporter_find_socket(const char *socket);
struct gs_error *exporter_list_fields(const char *library);
