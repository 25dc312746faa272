// SPDX-License-Identifier: Apache-2.0
// Families of the counters file that no GPU here gives: nobody should have to search for the
// reason.
#pragma once

#include "exporter/counters.h"

struct exporter_absent_config {
    const struct exporter_counters *counters; // NULL: the default ones
    const char *devices;                      // as in exporter_render_names
    const struct gpu_snapshot *gpus;
};

// A line for each reason.
void exporter_absent_tell(const struct exporter_absent_config *cfg);
