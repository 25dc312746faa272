// SPDX-License-Identifier: Apache-2.0
// Why one object has no sample: there is no such object, nothing is known of its series, or they
// ended a while ago.
#pragma once

#include "adapter/source/source.h"
#include "base/buf.h"
#include "kube/client.h"

struct provider_absence_request {
    struct kube_client *kube; // NULL: no cluster
    struct kube_gvr object;
    const char *ns, *name; // ns NULL: of the cluster
    struct source *source;
    struct gs_slice series, matchers; // "": not known
};

// cause: borrowed; NULL: nothing was found out.
typedef void (*provider_absence_fn)(void *arg, const char *cause);
struct provider_absence_op;
// The texts must stay until the end. Never calls back from inside.
struct provider_absence_op *provider_absence_find(const struct provider_absence_request *rq,
                                                  provider_absence_fn cb, void *arg);
void provider_absence_cancel(struct provider_absence_op *op); // NULL is fine
