// SPDX-License-Identifier: Apache-2.0
// A serving certificate that the adapter keeps in a Secret and renews itself: all replicas share
// it, and the APIServices that name their Service get its CA.
#pragma once

#include "cmd/adapter/serving.h"
#include "kube/client.h"

struct rotation;

struct rotation_options {
    struct kube_client *kube; // borrowed, as all below
    struct serving *serving;
    const char *service; // "NAMESPACE/NAME"; the Secret is NAME-tls
    int64_t period_ms;   // between two checks; 0: a minute
};

// GS_EINVAL for another form of service.
struct gs_error *rotation_check_service(const char *service);
// The first check is started.
struct rotation *rotation_new(uv_loop_t *loop, const struct rotation_options *o);
void rotation_free(struct rotation *r); // NULL is fine
// Why there is no certificate that clients trust yet; NULL: there is one.
const char *rotation_wrong(const struct rotation *r);
