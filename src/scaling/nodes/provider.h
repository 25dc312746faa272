// SPDX-License-Identifier: Apache-2.0
// A source of machines for pools: the calls of a node autoscaler to whatever creates and deletes
// machines. The semantics are those of the Cluster Autoscaler's cloud providers: the target size
// includes machines that are still being created, and a change of it takes effect before the call
// returns, while the machines come and go later. All calls are made on the loop. Errors are owned
// by the caller.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum nodes_instance_state {
    NODES_INSTANCE_RUNNING = 1,
    NODES_INSTANCE_CREATING,
    NODES_INSTANCE_DELETING,
};

// A machine. The texts are valid during the call that passes them.
struct nodes_instance {
    const char *provider_id; // spec.providerID of its Node
    enum nodes_instance_state state;
    const char *error_code, *error_message; // why its creation failed; NULL: it did not
    bool out_of_resources;                  // the error is a lack of capacity or quota
};

struct nodes_provider {
    void *ctx;
    size_t (*target)(void *ctx, const char *pool);
    struct gs_error *(*increase)(void *ctx, const char *pool, size_t n);
    // Removes only machines that do not exist yet.
    struct gs_error *(*decrease_target)(void *ctx, const char *pool, size_t n);
    // Lowers the target by one, too. A machine that is being deleted already is no error.
    struct gs_error *(*delete_node)(void *ctx, const char *pool, const char *provider_id);
    // Calls fn for each machine of the pool. fn must not call the provider.
    void (*each)(void *ctx, const char *pool, void (*fn)(void *arg, const struct nodes_instance *i),
                 void *arg);
};
