// SPDX-License-Identifier: Apache-2.0
// Keeps the device-to-container map of the kubelet's PodResources socket fresh, by v1 or, of
// kubelets before 1.20, by v1alpha1. The last good map stays in use when the kubelet is away; it is
// asked again with back-off. The kubelet allows 100 List calls a second for all its clients
// together: ours come at the interval, and sooner, but at most once a second, when a process has
// turned up that the map may not know yet.
#pragma once

#include "exporter/device_map.h"

#include <uv.h>

struct exporter_attribution_config {
    const char *socket; // path
    int64_t interval_ns;
    unsigned call_timeout_ms; // 0: 10 s
    const char *const *extra_resources;
    size_t n_extra_resources;
    struct exporter_device_sources sources; // what the API server tells
    void (*on_change)(void *arg);           // the map or the replica counts are others now
    void *arg;
};

struct exporter_attribution_status {
    bool up;             // the last call was answered
    const char *problem; // why not; "" when up or not yet asked
    uint64_t ok, failed; // List calls
    int64_t last_ok_ns;  // gs_mono_ns, 0: never
};

struct exporter_attribution;

// Strings are borrowed.
struct gs_error *exporter_attribution_new(uv_loop_t *loop,
                                          const struct exporter_attribution_config *cfg,
                                          struct exporter_attribution **ret);
void exporter_attribution_free(struct exporter_attribution *a);
const struct exporter_device_map *
exporter_attribution_map(const struct exporter_attribution *a); // NULL: none yet
const struct exporter_device_replicas *
exporter_attribution_replicas(const struct exporter_attribution *a); // NULL: unknown
// When the map was asked for, gs_mono_ns: what came later it need not know. 0: never.
int64_t exporter_attribution_asked_ns(const struct exporter_attribution *a);
struct exporter_attribution_status
exporter_attribution_status(const struct exporter_attribution *a);
void exporter_attribution_poke(struct exporter_attribution *a); // ask again soon
// Ask again soon and make the map anew even if the kubelet says the same: a source has changed.
void exporter_attribution_refresh(struct exporter_attribution *a);
