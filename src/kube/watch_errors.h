// SPDX-License-Identifier: Apache-2.0
// Not being allowed to see objects must not look like there being none: why a cache cannot be
// filled is told in the log, once for each reason. A resource that the API does not have is no
// error.
#pragma once

#include "kube/cache.h"

struct kube_watch_errors;
// component: of the log. what: "ServiceMonitor objects". The cache is borrowed and must outlive it.
struct kube_watch_errors *kube_watch_errors_new(uv_loop_t *loop, const struct kube_cache *cache,
                                                const char *component, const char *what);
void kube_watch_errors_free(struct kube_watch_errors *w);
