// SPDX-License-Identifier: Apache-2.0
// A simulated Kubernetes API and Prometheus for benchmarks and load tests of the adapter. Values
// contain their pod and their time. On request, responses are faulty.
#pragma once

#include "base/buf.h"

#define CLUSTER_NS      "load"
#define CLUSTER_METRIC  "gpu_util"
#define CLUSTER_POD_FMT "pod-%05d"

// The number of consecutive pods of autoscaler N ("hpa=N"). "first=N" selects the first N pods.
enum { CLUSTER_PODS_OF_HPA = 10 };

// Labels of series I of the benchmarks: gpu_metric_MM of one of CLUSTER_SERIES_PODS pods.
enum { CLUSTER_SERIES_PODS = 5000 };
void cluster_add_series(struct gs_buf *out, int64_t i);

// How the simulated Prometheus responds to queries; set with /mode?is=….
#define CLUSTER_MODES(X)                                                                           \
    X(GOOD, "good")                                                                                \
    X(SLOW, "slow")       /* after a second */                                                     \
    X(ENDLESS, "endless") /* a body that does not end */                                           \
    X(JSON, "json")       /* cut short, or no JSON at all */                                       \
    X(TYPES, "types")     /* a matrix, numbers and lists where texts belong */                     \
    X(HUGE, "huge")       /* numbers that no quantity holds, NaN, infinities */                    \
    X(OTHERS, "others")   /* samples of pods that were not requested */                            \
    X(DROP, "drop")       /* no answer: the connection is closed */

#define CLUSTER_MODE_ID(id, name) CLUSTER_##id,
enum cluster_mode { CLUSTER_MODES(CLUSTER_MODE_ID) CLUSTER_N_MODES };

// Serves until it is killed; prints "kubernetes port N" and "source port N". port 0: any free one.
_Noreturn void cluster_serve(int pods, uint16_t kubernetes_port, uint16_t source_port);

// Writes a kubeconfig for the simulated API.
void cluster_kubeconfig(const char *path, uint16_t port);
