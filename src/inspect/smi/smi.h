// SPDX-License-Identifier: Apache-2.0
// The state of the GPUs as nvidia-smi prints it, read through NVML. In a container it shows the
// container's GPUs (NVIDIA_VISIBLE_DEVICES), numbered from 0.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct smi_options {
    bool list;                // one line per GPU and MIG device
    bool details;             // all values of each GPU
    const char *query_gpu;    // names of fields, separated by commas; NULL: not given
    const char *query_apps;   // the same for processes
    const char *format;       // "csv[,noheader][,nounits]"; NULL: not given
    const char *id;           // index, UUID or PCI address of a GPU; several with commas; NULL: all
    int64_t loop_ms;          // interval of repetitions; 0: once
    bool help_fields;         // print the names of the fields
    const char *nvml_library; // NULL: the default search order
};

// Prints to stdout. *ret_exit is nvidia-smi's exit code: 2 for a wrong argument, 6 if no GPU is
// visible, 9 without a driver. Blocks, and with loop_ms returns only after an error.
void smi_run(const struct smi_options *o, int *ret_exit);

// Whether the library of a driver can be loaded, even if the driver then fails.
bool smi_has_driver(void);
