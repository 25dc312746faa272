// SPDX-License-Identifier: Apache-2.0
// A simulated host engine (nv-hostengine): serves the socket protocol of DCGM from the simulated
// libdcgm, for clients that do not load a library.
#pragma once

#include "base/error.h"

struct nvmlsim;

struct dcgmsim_hostengine_config {
    struct nvmlsim *sim; // the set of GPUs; GPUSCALE_SIM names the same one
    const char *library; // path of the simulated libdcgm
    const char *listen;  // HOST:PORT, or unix:PATH
};

// Starts the host engine of the set and serves it until SIGTERM or SIGINT; then stops it. Prints
// the address when it listens. Connections are refused while `gpuscale sim hostengine stop` holds.
// One thread: a call that hangs holds up all clients, as in the real one.
struct gs_error *dcgmsim_hostengine_run(const struct dcgmsim_hostengine_config *cfg);
