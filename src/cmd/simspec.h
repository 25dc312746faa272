// SPDX-License-Identifier: Apache-2.0
// What GPUs to simulate, from the command line: a short list ("2xTesla-K80,1xTesla-T4") or the path
// of a YAML file (it has a "/" in it, or ends in .yaml, .yml or .json):
//
//     gpus:
//     - model: A100-SXM4-80GB   # any other name needs memory
//       count: 2                # 1 when absent
//       memory: 24Gi            # the model's when absent
//       timeSlicing:
//         replicas: 4           # devices that the scheduler sees of each GPU
//       mig: [1g.10gb, 3g.40gb] # instances of each GPU
#pragma once

#include "nvmlsim/sim.h"

// Errors of a file name it and the line.
struct gs_error *sim_spec_load(const char *text_or_path, struct nvmlsim_spec *ret);
