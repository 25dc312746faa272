// SPDX-License-Identifier: Apache-2.0
// The built-in kinds whose objects take part in garbage collection, as owners and as dependents.
// Objects of custom resources do, too.
#pragma once

#include "kube/client.h"

#include <stdbool.h>
#include <stddef.h>

struct local_collected {
    const char *kind;
    struct kube_gvr gvr;
    bool namespaced;
};

const struct local_collected *local_collected(size_t i); // NULL: after the last one
bool local_is_collected(const char *group, const char *plural);
