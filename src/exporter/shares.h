// SPDX-License-Identifier: Apache-2.0
// Makes the figures of processes add up to no more than the device's own: the driver reads both at
// different moments and over different windows, and counts overlapping kernels of MPS clients
// twice. What is no longer the driver's own reading is marked as an estimate.
#pragma once

#include "exporter/sampler.h"

// The name of the MPS server as /proc/PID/stat has it, cut at 15 bytes.
#define EXPORTER_SHARES_MPS_SERVER "nvidia-cuda-mps"

void exporter_shares_settle(struct exporter_sample *s);
