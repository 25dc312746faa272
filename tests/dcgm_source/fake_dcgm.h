// SPDX-License-Identifier: Apache-2.0
// A libdcgm that does what a test sets in a file that both map; its path is in FAKE_DCGM. Two GPUs,
// of which the second has a MIG device, one switch with a link that is up, and one CPU with two
// cores.
#pragma once

#include "dcgm/abi.h"

#include <stdatomic.h>
#include <stdbool.h>

#define FAKE_UUID_0 "GPU-00000000-0000-0000-0000-00000000000b"
#define FAKE_UUID_1 "GPU-00000000-0000-0000-0000-00000000000a"
enum {
    FAKE_INSTANCE = 7,      // DCGM's ID of the MIG device
    FAKE_NVML_INSTANCE = 3, // NVML's
    FAKE_SWITCH_FIELD = 701,
    FAKE_LINK_FIELD = 780,
    FAKE_CPU_FIELD = 1110,
    FAKE_CORE_FIELD = 1100,
};

struct fake_dcgm {
    // set by the test
    _Atomic bool running;        // the engine; false: -21
    _Atomic uint32_t generation; // another one: handles of the old one get -21
    _Atomic bool hang, crash;    // in the next read
    _Atomic int exit_code;       // in the next read; 0: none
    _Atomic uint32_t leak_mib;   // in the next read
    _Atomic int prof_watch_code; // of watches of profiling fields
    _Atomic int watch_code;      // of all other watches
    _Atomic int groups_code;     // of dcgmProfGetSupportedMetricGroups
    _Atomic int verify_code;     // of dcgmHostengineVersionInfo
    _Atomic int read_code;       // of reads
    _Atomic uint32_t unknown_id; // a field ID that field groups refuse
    _Atomic bool frozen;         // values keep their timestamps
    _Atomic bool blank;          // values are the first blank
    _Atomic bool zero;           // counters are 0
    _Atomic int64_t clock_us;    // added to timestamps
    _Atomic uint32_t n_gpus;     // 1 or 2
    // written by the library
    _Atomic uint32_t connects, reads, watches, unwatches, prof_watches;
    _Atomic int live_groups, live_field_groups;
    _Atomic int64_t frozen_us;
};
