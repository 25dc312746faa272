// SPDX-License-Identifier: Apache-2.0
// Asks the metrics APIs (custom.metrics.k8s.io, external.metrics.k8s.io, metrics.k8s.io) for all
// the metrics of one HPA at once. A metric that cannot be had carries its error; the others do not
// wait longer for it than its request's time limit.
#pragma once

#include "hpa/hpa.h"
#include "hpa/resources.h"

struct hpa_metrics_source;
struct hpa_fetch;

// refresh_ms: how old the knowledge of the custom API's version may get. release: whose reading of
// the answers is followed, as hpa_config.release.
struct hpa_metrics_source *hpa_metrics_source_new(struct kube_client *client,
                                                  struct hpa_resources *resources,
                                                  int64_t refresh_ms, int release);
void hpa_metrics_source_free(struct hpa_metrics_source *s); // after its fetches

// spec is borrowed until the fetch is freed; selector is that of the target's scale. When
// hpa_fetch_finished() is true on return, cb will not be called; else it is, once, later.
struct hpa_fetch *hpa_fetch_start(struct hpa_metrics_source *s, const struct hpa_spec *spec,
                                  const char *selector, void (*cb)(void *arg), void *arg);
bool hpa_fetch_finished(const struct hpa_fetch *f);
const struct hpa_metric_observation *hpa_fetch_observations(const struct hpa_fetch *f);
void hpa_fetch_free(struct hpa_fetch *f); // cancels what is under way; NULL is fine; also from cb
