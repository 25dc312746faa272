// SPDX-License-Identifier: Apache-2.0
// What the simulated boards are: one row a model, with the numbers that NVIDIA publishes for it
// (memory as nvidia-smi shows it). The row is copied into shared memory when the device is made, so
// that every process sees the same board whatever its own build knows.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum nvmlsim_arch {
    NVMLSIM_KEPLER = 2,
    NVMLSIM_PASCAL = 4,
    NVMLSIM_VOLTA = 5,
    NVMLSIM_TURING = 6,
    NVMLSIM_AMPERE = 7,
    NVMLSIM_ADA = 8,
    NVMLSIM_HOPPER = 9,
    NVMLSIM_BLACKWELL = 10,
}; // values of nvmlDeviceArchitecture_t

enum nvmlsim_board_flags {
    NVMLSIM_HBM = 1 << 0, // memory with its own temperature sensor, clock does not drop at idle
    NVMLSIM_FAN = 1 << 1, // has a fan of its own
    NVMLSIM_ECC = 1 << 2, // ECC on
    NVMLSIM_CONSUMER = 1 << 3, // GeForce: no serial number
};

struct nvmlsim_model {
    char name[64];    // "A100-SXM4-80GB"
    char product[96]; // nvmlDeviceGetName: "NVIDIA A100-SXM4-80GB"
    uint32_t memory_mib, reserved_mib, bar1_mib;
    uint32_t sms;
    uint32_t idle_w, max_w;
    uint32_t sm_idle_mhz, sm_max_mhz, mem_idle_mhz, mem_max_mhz;
    uint32_t arch; // enum nvmlsim_arch
    uint32_t cc_major, cc_minor;
    uint32_t brand; // nvmlBrandType_t
    uint32_t pci_device_id;
    uint32_t pcie_gen;
    uint32_t idle_temp_c, max_temp_c, slowdown_temp_c;
    uint32_t nvlinks;
    uint32_t c2c_links;  // to the CPU of the same module
    uint32_t mig_slices; // compute slices that MIG can share out; 0: no MIG
    uint32_t flags;      // enum nvmlsim_board_flags
};

// The row of that name or common alias ("H100-SXM5-80GB"); case, a leading "NVIDIA-" and a missing
// "Tesla-" do not matter. NULL: unknown.
const struct nvmlsim_model *nvmlsim_model_find(const char *name);

// A board that is in no table: a current-looking one of that name and size, without MIG.
void nvmlsim_model_custom(const char *name, uint64_t memory_mib, struct nvmlsim_model *ret);
