// SPDX-License-Identifier: Apache-2.0
// Families of the counters file that no GPU here gives: nobody should have to search for the
// reason.
#pragma once

#include "exporter/counters.h"

// A line for each reason. counters NULL: the default ones.
void absent_tell(const struct counters *counters, const struct gpu_snapshot *s);
