// SPDX-License-Identifier: Apache-2.0
// --simulate: the simulated GPUs that the exporter joins or makes.
#pragma once

#include "base/error.h"

struct nvmlsim;

struct simulation {
    struct nvmlsim *sim;
    char *name;    // of a segment that we made; NULL: somebody else's
    char *library; // NULL: no simulation
};

// spec NULL: no simulation.
struct gs_error *simulation_start(const char *spec, struct simulation *s);
void simulation_finish(struct simulation *s);
