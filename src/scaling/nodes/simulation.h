// SPDX-License-Identifier: Apache-2.0
// How the machines of a pool are simulated, in `gpuscale up` and in replays: the phases of their
// start, and failures on purpose to test settings of autoscalers. Plans of nodes do not read it.
// Durations are milliseconds.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum nodes_failure {
    NODES_FAILURE_NONE,
    NODES_FAILURE_CAPACITY,        // the creation fails for lack of capacity
    NODES_FAILURE_NEVER_REGISTERS, // the machine runs, but its Node never appears
    NODES_FAILURE_NEVER_READY,     // the Node appears, but never becomes ready
};

struct nodes_simulation {
    // The median of each phase of the start: until registered; driver installed; GPUs allocatable.
    int64_t boot_ms, driver_ms, gpu_ms;
    // Failures of fail_count machines (0: all) or of a share of them.
    enum nodes_failure failure;
    size_t fail_count;
    double fail_share; // 0: fail_count is given
};
