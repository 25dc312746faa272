// SPDX-License-Identifier: Apache-2.0
// What `gpuscale hpa` tells of its decisions: lines on standard output and metrics, both beside
// what the cluster's own controller wants.
#pragma once

#include "base/buf.h"
#include "hpa/hpa.h"

struct hpa_watcher;

struct hpa_watcher *hpa_watcher_new(bool json, bool shadow);
void hpa_watcher_free(struct hpa_watcher *w);
// The decision; spec->object has the cluster's status. Prints what is new.
void hpa_watcher_take(struct hpa_watcher *w, const struct hpa_spec *spec,
                      const struct hpa_decision *d);
void hpa_watcher_gone(struct hpa_watcher *w, const char *ns, const char *name);
void hpa_watcher_metrics(const struct hpa_watcher *w, struct gs_buf *out);
