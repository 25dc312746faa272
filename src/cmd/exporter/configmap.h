// SPDX-License-Identifier: Apache-2.0
// -m: the key metrics of a ConfigMap as the counters file. It is asked for until it has been read:
// the API server, the rights or the ConfigMap may come later than the exporter. Again after a
// second, then with growing pauses up to 16 s.
#pragma once

#include "kube/client.h"

#include <uv.h>

struct configmap_config {
    const char *name; // NAMESPACE:NAME, borrowed
    // The client, borrowed.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    // The text, at most until it is taken (no error).
    struct gs_error *(*on_text)(void *arg, const char *source, struct gs_slice text);
    // It could not be had, and is asked for again. Not called for the same problem twice.
    void (*on_problem)(void *arg, const char *problem);
    void *arg;
};

struct configmap;
struct configmap *configmap_start(uv_loop_t *loop, const struct configmap_config *cfg);
bool configmap_answered(const struct configmap *c); // the first attempt has ended
void configmap_stop(struct configmap *c);           // NULL is fine
