// SPDX-License-Identifier: Apache-2.0
// The pods of a simulated fleet as slo_decide() reads them: the phases of their starts, and the
// signals that gpuscale has of real engines.
#pragma once

#include "inference/fleet.h"
#include "slo/slo.h"

// The histogram of a latency of engines, which SLO_OTHER is not.
enum inference_histogram inference_slo_histogram(enum slo_latency l);

// Name, phase and times of a pod that is not drained. t0_ms: Unix time of the virtual time 0.
// start_s: after this time a start is late. The name is borrowed from the pod.
void inference_slo_phase(const struct inference_pod *p, int64_t t0_ms, int64_t now_ms,
                         double start_s, struct slo_pod *ret);
// The queue, the KV cache and the counters of a ready pod. The number of requests is that of TTFT.
void inference_slo_signals(const struct inference_pod *p, const struct inference_parameters *engine,
                           struct slo_pod *ret);
// The buckets as Prometheus has them: n + 1 cumulative counts. Returns the last one.
double inference_slo_counts(const struct inference_distribution *d, double *ret);
