// SPDX-License-Identifier: Apache-2.0
// The DCGM fields that NVML provides, followed by gpuscale's own: X(symbol, name, DCGM field ID,
// kind, group, Prometheus type, unit, source, help). Rows are sorted by ID, which is the order of
// output. The fields from 1600 on (DCGM 4.6.1 and 4.7) repeat older ones in base units. A group is
// read in one step of sampling; steps without a wanted field are skipped.
#pragma once

// clang-format off
#define GPU_FIELDS(X) \
    X(DRIVER_VERSION, "DCGM_FI_DRIVER_VERSION", 1, GPU_TEXT, GPU_G_SYSTEM, "label", "text", \
      "nvmlSystemGetDriverVersion", "Driver Version") \
    X(NVML_VERSION, "DCGM_FI_NVML_VERSION", 2, GPU_TEXT, GPU_G_SYSTEM, "label", "text", \
      "nvmlSystemGetNVMLVersion", "NVML version.") \
    X(CUDA_DRIVER_VERSION, "DCGM_FI_CUDA_DRIVER_VERSION", 5, GPU_INTEGER, GPU_G_SYSTEM, "gauge", "1000 major + 10 minor", \
      "nvmlSystemGetCudaDriverVersion_v2", "CUDA version of the driver.") \
    X(NAME, "DCGM_FI_DEV_NAME", 50, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetName", "Name of the GPU.") \
    X(BRAND, "DCGM_FI_DEV_BRAND", 51, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetBrand", "Brand of the GPU.") \
    X(NVML_INDEX, "DCGM_FI_DEV_NVML_INDEX", 52, GPU_INTEGER, GPU_G_IDENTITY, "gauge", "1", \
      "nvmlDeviceGetHandleByIndex", "NVML index of the GPU.") \
    X(SERIAL, "DCGM_FI_DEV_SERIAL", 53, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetSerial", "Serial number of the GPU.") \
    X(UUID, "DCGM_FI_DEV_UUID", 54, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetUUID", "UUID of the GPU.") \
    X(MINOR_NUMBER, "DCGM_FI_DEV_MINOR_NUMBER", 55, GPU_INTEGER, GPU_G_IDENTITY, "gauge", "1", \
      "nvmlDeviceGetMinorNumber", "Minor number of the device node.") \
    X(OEM_INFOROM, "DCGM_FI_DEV_OEM_INFOROM_VER", 56, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetInforomVersion", "OEM inforom version.") \
    X(PCI_BUSID, "DCGM_FI_DEV_PCI_BUSID", 57, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetPciInfo", "PCI address of the GPU.") \
    X(NVLINK_P2P, "DCGM_FI_DEV_NVLINK_P2P_STATUS", 64, GPU_INTEGER, GPU_G_P2P, "gauge", "bitmask", \
      "nvmlDeviceGetP2PStatus", "GPUs that are reached by NVLink peer to peer, a bit for each index.") \
    X(COMPUTE_MODE, "DCGM_FI_DEV_COMPUTE_MODE", 65, GPU_INTEGER, GPU_G_MODES, "gauge", "enum", \
      "nvmlDeviceGetComputeMode", "Compute mode (0 default, 2 prohibited, 3 exclusive process).") \
    X(PERSISTENCE_MODE, "DCGM_FI_DEV_PERSISTENCE_MODE", 66, GPU_INTEGER, GPU_G_MODES, "gauge", "0 or 1", \
      "nvmlDeviceGetPersistenceMode", "Persistence mode.") \
    X(MIG_MODE, "DCGM_FI_DEV_MIG_MODE", 67, GPU_INTEGER, GPU_G_MODES, "gauge", "0 or 1", \
      "nvmlDeviceGetMigMode", "MIG mode.") \
    X(ECC_INFOROM, "DCGM_FI_DEV_ECC_INFOROM_VER", 80, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetInforomVersion", "ECC inforom version.") \
    X(POWER_INFOROM, "DCGM_FI_DEV_POWER_INFOROM_VER", 81, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetInforomVersion", "Power management inforom version.") \
    X(INFOROM_IMAGE, "DCGM_FI_DEV_INFOROM_IMAGE_VER", 82, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetInforomImageVersion", "Inforom image version.") \
    X(INFOROM_VALID, "DCGM_FI_DEV_INFOROM_CONFIG_VALID", 84, GPU_INTEGER, GPU_G_INFOROM, "gauge", "0 or 1", \
      "nvmlDeviceValidateInforom", "Whether the checksums of the inforom are right (asked once a minute).") \
    X(VBIOS, "DCGM_FI_DEV_VBIOS_VERSION", 85, GPU_TEXT, GPU_G_IDENTITY, "label", "text", \
      "nvmlDeviceGetVbiosVersion", "VBIOS version.") \
    X(BAR1_TOTAL, "DCGM_FI_DEV_BAR1_TOTAL", 90, GPU_INTEGER, GPU_G_BAR1, "gauge", "MiB", \
      "nvmlDeviceGetBAR1MemoryInfo", "Total BAR1 memory (in MiB).") \
    X(BAR1_USED, "DCGM_FI_DEV_BAR1_USED", 92, GPU_INTEGER, GPU_G_BAR1, "gauge", "MiB", \
      "nvmlDeviceGetBAR1MemoryInfo", "Used BAR1 memory (in MiB).") \
    X(BAR1_FREE, "DCGM_FI_DEV_BAR1_FREE", 93, GPU_INTEGER, GPU_G_BAR1, "gauge", "MiB", \
      "nvmlDeviceGetBAR1MemoryInfo", "Free BAR1 memory (in MiB).") \
    X(SM_CLOCK, "DCGM_FI_DEV_SM_CLOCK", 100, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetClockInfo", "SM clock frequency (in MHz).") \
    X(MEM_CLOCK, "DCGM_FI_DEV_MEM_CLOCK", 101, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetClockInfo", "Memory clock frequency (in MHz).") \
    X(VIDEO_CLOCK, "DCGM_FI_DEV_VIDEO_CLOCK", 102, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetClockInfo", "Video clock frequency (in MHz).") \
    X(APP_SM_CLOCK, "DCGM_FI_DEV_APP_SM_CLOCK", 110, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetApplicationsClock", "Application SM clock (in MHz).") \
    X(APP_MEM_CLOCK, "DCGM_FI_DEV_APP_MEM_CLOCK", 111, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetApplicationsClock", "Application memory clock (in MHz).") \
    X(CLOCKS_EVENT_REASONS, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 112, GPU_INTEGER, GPU_G_EVENT_REASONS, "gauge", "bit mask", \
      "nvmlDeviceGetCurrentClocksEventReasons", "Reasons why the clocks are not higher (bit mask).") \
    X(MAX_SM_CLOCK, "DCGM_FI_DEV_MAX_SM_CLOCK", 113, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetMaxClockInfo", "Highest SM clock (in MHz).") \
    X(MAX_MEM_CLOCK, "DCGM_FI_DEV_MAX_MEM_CLOCK", 114, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetMaxClockInfo", "Highest memory clock (in MHz).") \
    X(MAX_VIDEO_CLOCK, "DCGM_FI_DEV_MAX_VIDEO_CLOCK", 115, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "MHz", \
      "nvmlDeviceGetMaxClockInfo", "Highest video clock (in MHz).") \
    X(MEMORY_TEMP, "DCGM_FI_DEV_MEMORY_TEMP", 140, GPU_INTEGER, GPU_G_VALUES, "gauge", "C", \
      "nvmlDeviceGetFieldValues 82", "Memory temperature (in C).") \
    X(GPU_TEMP, "DCGM_FI_DEV_GPU_TEMP", 150, GPU_INTEGER, GPU_G_TEMPERATURE, "gauge", "C", \
      "nvmlDeviceGetTemperature", "GPU temperature (in C).") \
    X(MEM_MAX_OP_TEMP, "DCGM_FI_DEV_MEM_MAX_OP_TEMP", 151, GPU_INTEGER, GPU_G_TEMP_LIMITS, "gauge", "C", \
      "nvmlDeviceGetTemperatureThreshold", "Highest operating temperature of the memory (in C).") \
    X(GPU_MAX_OP_TEMP, "DCGM_FI_DEV_GPU_MAX_OP_TEMP", 152, GPU_INTEGER, GPU_G_TEMP_LIMITS, "gauge", "C", \
      "nvmlDeviceGetTemperatureThreshold", "Highest operating temperature of the GPU (in C).") \
    X(TEMP_LIMIT, "DCGM_FI_DEV_GPU_TEMP_LIMIT", 153, GPU_INTEGER, GPU_G_MARGIN, "gauge", "C", \
      "nvmlDeviceGetMarginTemperature", "Distance of the GPU temperature to the nearest slowdown threshold (in C).") \
    X(POWER_USAGE, "DCGM_FI_DEV_POWER_USAGE", 155, GPU_DOUBLE, GPU_G_POWER, "gauge", "W", \
      "nvmlDeviceGetPowerUsage", "Power draw (in W).") \
    X(TOTAL_ENERGY, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 156, GPU_INTEGER, GPU_G_ENERGY, "counter", "mJ", \
      "nvmlDeviceGetTotalEnergyConsumption", "Total energy consumption since boot (in mJ).") \
    X(POWER_INSTANT, "DCGM_FI_DEV_POWER_USAGE_INSTANT", 157, GPU_DOUBLE, GPU_G_VALUES, "gauge", "W", \
      "nvmlDeviceGetFieldValues 186", "Power draw at this instant (in W).") \
    X(SLOWDOWN_TEMP, "DCGM_FI_DEV_SLOWDOWN_TEMP", 158, GPU_INTEGER, GPU_G_TEMP_LIMITS, "gauge", "C", \
      "nvmlDeviceGetTemperatureThreshold", "Temperature at which the clocks go down (in C).") \
    X(SHUTDOWN_TEMP, "DCGM_FI_DEV_SHUTDOWN_TEMP", 159, GPU_INTEGER, GPU_G_TEMP_LIMITS, "gauge", "C", \
      "nvmlDeviceGetTemperatureThreshold", "Temperature at which the GPU turns itself off (in C).") \
    X(POWER_LIMIT, "DCGM_FI_DEV_POWER_MGMT_LIMIT", 160, GPU_DOUBLE, GPU_G_POWER_LIMITS, "gauge", "W", \
      "nvmlDeviceGetPowerManagementLimit", "Power limit (in W).") \
    X(POWER_LIMIT_MIN, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", 161, GPU_DOUBLE, GPU_G_POWER_LIMITS, "gauge", "W", \
      "nvmlDeviceGetPowerManagementLimitConstraints", "Lowest power limit that can be set (in W).") \
    X(POWER_LIMIT_MAX, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", 162, GPU_DOUBLE, GPU_G_POWER_LIMITS, "gauge", "W", \
      "nvmlDeviceGetPowerManagementLimitConstraints", "Highest power limit that can be set (in W).") \
    X(POWER_LIMIT_DEF, "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", 163, GPU_DOUBLE, GPU_G_POWER_LIMITS, "gauge", "W", \
      "nvmlDeviceGetPowerManagementDefaultLimit", "Default power limit (in W).") \
    X(POWER_LIMIT_ENFORCED, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 164, GPU_DOUBLE, GPU_G_POWER_LIMITS, "gauge", "W", \
      "nvmlDeviceGetEnforcedPowerLimit", "Power limit that has effect (in W).") \
    X(FABRIC_STATUS, "DCGM_FI_DEV_FABRIC_MANAGER_STATUS", 170, GPU_INTEGER, GPU_G_FABRIC, "gauge", "enum", \
      "nvmlDeviceGetGpuFabricInfoV", "Registration with the NVLink fabric (1 not started, 2 in progress, 3 done, 4 failed, 5 unknown).") \
    X(FABRIC_CLUSTER_UUID, "DCGM_FI_DEV_FABRIC_CLUSTER_UUID", 172, GPU_TEXT, GPU_G_FABRIC, "label", "text", \
      "nvmlDeviceGetGpuFabricInfoV", "UUID of the NVLink cluster of the GPU.") \
    X(FABRIC_CLIQUE_ID, "DCGM_FI_DEV_FABRIC_CLIQUE_ID", 173, GPU_INTEGER, GPU_G_FABRIC, "gauge", "1", \
      "nvmlDeviceGetGpuFabricInfoV", "ID of the NVLink fabric clique of the GPU.") \
    X(FABRIC_HEALTH_MASK, "DCGM_FI_DEV_FABRIC_HEALTH_MASK", 174, GPU_INTEGER, GPU_G_FABRIC, "gauge", "bitmask", \
      "nvmlDeviceGetGpuFabricInfoV", "Health of the NVLink fabric, bits as in NVML.") \
    X(FABRIC_HEALTH_SUMMARY, "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY", 175, GPU_INTEGER, GPU_G_FABRIC, "gauge", "enum", \
      "nvmlDeviceGetGpuFabricInfoV", "Health of the NVLink fabric (1 healthy, 2 unhealthy, 3 limited).") \
    X(PSTATE, "DCGM_FI_DEV_PSTATE", 190, GPU_INTEGER, GPU_G_STATE, "gauge", "0 to 15", \
      "nvmlDeviceGetPerformanceState", "Performance state (0 is the highest).") \
    X(FAN_SPEED, "DCGM_FI_DEV_FAN_SPEED", 191, GPU_INTEGER, GPU_G_STATE, "gauge", "%", \
      "nvmlDeviceGetFanSpeed", "Fan speed (in %).") \
    X(PCIE_TX, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", 200, GPU_INTEGER, GPU_G_PCIE_THROUGHPUT, "gauge", "KB/s", \
      "nvmlDeviceGetPcieThroughput", "PCIe bytes sent, over 20 ms (in KB/s).") \
    X(PCIE_RX, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", 201, GPU_INTEGER, GPU_G_PCIE_THROUGHPUT, "gauge", "KB/s", \
      "nvmlDeviceGetPcieThroughput", "PCIe bytes received, over 20 ms (in KB/s).") \
    X(PCIE_REPLAY, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 202, GPU_INTEGER, GPU_G_PCIE_REPLAY, "counter", "1", \
      "nvmlDeviceGetPcieReplayCounter", "Total number of PCIe retries.") \
    X(GPU_UTIL, "DCGM_FI_DEV_GPU_UTIL", 203, GPU_INTEGER, GPU_G_UTILIZATION, "gauge", "%", \
      "nvmlDeviceGetSamples, nvmlDeviceGetUtilizationRates", "GPU utilization (in %).") \
    X(MEM_COPY_UTIL, "DCGM_FI_DEV_MEM_COPY_UTIL", 204, GPU_INTEGER, GPU_G_UTILIZATION, "gauge", "%", \
      "nvmlDeviceGetUtilizationRates", "Memory utilization (in %).") \
    X(ENC_UTIL, "DCGM_FI_DEV_ENC_UTIL", 206, GPU_INTEGER, GPU_G_CODECS, "gauge", "%", \
      "nvmlDeviceGetEncoderUtilization", "Encoder utilization (in %).") \
    X(DEC_UTIL, "DCGM_FI_DEV_DEC_UTIL", 207, GPU_INTEGER, GPU_G_CODECS, "gauge", "%", \
      "nvmlDeviceGetDecoderUtilization", "Decoder utilization (in %).") \
    X(XID_ERRORS, "DCGM_FI_DEV_XID_ERRORS", 230, GPU_INTEGER, GPU_G_XID, "gauge", "XID", \
      "nvmlEventSetWait_v2", "Value of the last XID error encountered.") \
    X(PCIE_MAX_GEN, "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", 235, GPU_INTEGER, GPU_G_PCIE_LINK, "gauge", "1", \
      "nvmlDeviceGetMaxPcieLinkGeneration", "Highest PCIe generation.") \
    X(PCIE_MAX_WIDTH, "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", 236, GPU_INTEGER, GPU_G_PCIE_LINK, "gauge", "lanes", \
      "nvmlDeviceGetMaxPcieLinkWidth", "Highest PCIe width.") \
    X(PCIE_GEN, "DCGM_FI_DEV_PCIE_LINK_GEN", 237, GPU_INTEGER, GPU_G_PCIE_LINK, "gauge", "1", \
      "nvmlDeviceGetCurrPcieLinkGeneration", "PCIe generation now.") \
    X(PCIE_WIDTH, "DCGM_FI_DEV_PCIE_LINK_WIDTH", 238, GPU_INTEGER, GPU_G_PCIE_LINK, "gauge", "lanes", \
      "nvmlDeviceGetCurrPcieLinkWidth", "PCIe width now.") \
    X(POWER_VIOLATION, "DCGM_FI_DEV_POWER_VIOLATION", 240, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 74", "Time with lowered clocks because of power constraints (in ns).") \
    X(THERMAL_VIOLATION, "DCGM_FI_DEV_THERMAL_VIOLATION", 241, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 75", "Time with lowered clocks because of thermal constraints (in ns).") \
    X(SYNC_BOOST_VIOLATION, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", 242, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 76", "Time with lowered clocks because of sync boost (in ns).") \
    X(BOARD_LIMIT_VIOLATION, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", 243, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 77", "Time with lowered clocks because of board limits (in ns).") \
    X(LOW_UTIL_VIOLATION, "DCGM_FI_DEV_LOW_UTIL_VIOLATION", 244, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 78", "Time with lowered clocks because of low utilization (in ns).") \
    X(RELIABILITY_VIOLATION, "DCGM_FI_DEV_RELIABILITY_VIOLATION", 245, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 79", "Time with lowered clocks because of reliability (in ns).") \
    X(APP_CLOCKS_VIOLATION, "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", 246, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 80", "Time below the application clocks (in ns).") \
    X(BASE_CLOCKS_VIOLATION, "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", 247, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 81", "Time below the base clocks (in ns).") \
    X(FB_TOTAL, "DCGM_FI_DEV_FB_TOTAL", 250, GPU_INTEGER, GPU_G_MEMORY, "gauge", "MiB", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory (in MiB).") \
    X(FB_FREE, "DCGM_FI_DEV_FB_FREE", 251, GPU_INTEGER, GPU_G_MEMORY, "gauge", "MiB", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory free (in MiB).") \
    X(FB_USED, "DCGM_FI_DEV_FB_USED", 252, GPU_INTEGER, GPU_G_MEMORY, "gauge", "MiB", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory used (in MiB).") \
    X(FB_RESERVED, "DCGM_FI_DEV_FB_RESERVED", 253, GPU_INTEGER, GPU_G_MEMORY, "gauge", "MiB", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory reserved (in MiB).") \
    X(FB_USED_PERCENT, "DCGM_FI_DEV_FB_USED_PERCENT", 254, GPU_DOUBLE, GPU_G_MEMORY, "gauge", "ratio", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory used, of what is not reserved (0 to 1).") \
    X(C2C_COUNT, "DCGM_FI_DEV_C2C_LINK_COUNT", 285, GPU_INTEGER, GPU_G_VALUES, "gauge", "1", \
      "nvmlDeviceGetFieldValues 170", "Number of C2C links.") \
    X(C2C_STATUS, "DCGM_FI_DEV_C2C_LINK_STATUS", 286, GPU_INTEGER, GPU_G_VALUES, "gauge", "0 or 1", \
      "nvmlDeviceGetFieldValues 171", "Whether the first C2C link is active.") \
    X(C2C_MAX_BANDWIDTH, "DCGM_FI_DEV_C2C_MAX_BANDWIDTH", 287, GPU_INTEGER, GPU_G_VALUES, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 172", "Speed of the first C2C link (in MB/s).") \
    X(ECC_CURRENT, "DCGM_FI_DEV_ECC_CURRENT", 300, GPU_INTEGER, GPU_G_VALUES, "gauge", "0 or 1", \
      "nvmlDeviceGetFieldValues 1", "ECC mode.") \
    X(ECC_PENDING, "DCGM_FI_DEV_ECC_PENDING", 301, GPU_INTEGER, GPU_G_VALUES, "gauge", "0 or 1", \
      "nvmlDeviceGetFieldValues 2", "ECC mode after the next reboot.") \
    X(ECC_SBE_VOL, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 310, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 3", "Number of single-bit errors since the driver was loaded.") \
    X(ECC_DBE_VOL, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 311, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 4", "Number of double-bit errors since the driver was loaded.") \
    X(ECC_SBE_AGG, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", 312, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 5", "Number of single-bit errors over the lifetime.") \
    X(ECC_DBE_AGG, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 313, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 6", "Number of double-bit errors over the lifetime.") \
    X(ECC_SBE_VOL_L1, "DCGM_FI_DEV_ECC_SBE_VOL_L1", 314, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 7", "Number of single-bit errors in the L1 cache (volatile).") \
    X(ECC_DBE_VOL_L1, "DCGM_FI_DEV_ECC_DBE_VOL_L1", 315, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 8", "Number of double-bit errors in the L1 cache (volatile).") \
    X(ECC_SBE_VOL_L2, "DCGM_FI_DEV_ECC_SBE_VOL_L2", 316, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 9", "Number of single-bit errors in the L2 cache (volatile).") \
    X(ECC_DBE_VOL_L2, "DCGM_FI_DEV_ECC_DBE_VOL_L2", 317, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 10", "Number of double-bit errors in the L2 cache (volatile).") \
    X(ECC_SBE_VOL_DEV, "DCGM_FI_DEV_ECC_SBE_VOL_DEV", 318, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 11", "Number of single-bit errors in the device memory (volatile).") \
    X(ECC_DBE_VOL_DEV, "DCGM_FI_DEV_ECC_DBE_VOL_DEV", 319, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 12", "Number of double-bit errors in the device memory (volatile).") \
    X(ECC_SBE_VOL_REG, "DCGM_FI_DEV_ECC_SBE_VOL_REG", 320, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 13", "Number of single-bit errors in the register file (volatile).") \
    X(ECC_DBE_VOL_REG, "DCGM_FI_DEV_ECC_DBE_VOL_REG", 321, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 14", "Number of double-bit errors in the register file (volatile).") \
    X(ECC_SBE_VOL_TEX, "DCGM_FI_DEV_ECC_SBE_VOL_TEX", 322, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 15", "Number of single-bit errors in the texture memory (volatile).") \
    X(ECC_DBE_VOL_TEX, "DCGM_FI_DEV_ECC_DBE_VOL_TEX", 323, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 16", "Number of double-bit errors in the texture memory (volatile).") \
    X(ECC_SBE_AGG_L1, "DCGM_FI_DEV_ECC_SBE_AGG_L1", 324, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 18", "Number of single-bit errors in the L1 cache (aggregate).") \
    X(ECC_DBE_AGG_L1, "DCGM_FI_DEV_ECC_DBE_AGG_L1", 325, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 19", "Number of double-bit errors in the L1 cache (aggregate).") \
    X(ECC_SBE_AGG_L2, "DCGM_FI_DEV_ECC_SBE_AGG_L2", 326, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 20", "Number of single-bit errors in the L2 cache (aggregate).") \
    X(ECC_DBE_AGG_L2, "DCGM_FI_DEV_ECC_DBE_AGG_L2", 327, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 21", "Number of double-bit errors in the L2 cache (aggregate).") \
    X(ECC_SBE_AGG_DEV, "DCGM_FI_DEV_ECC_SBE_AGG_DEV", 328, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 22", "Number of single-bit errors in the device memory (aggregate).") \
    X(ECC_DBE_AGG_DEV, "DCGM_FI_DEV_ECC_DBE_AGG_DEV", 329, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 23", "Number of double-bit errors in the device memory (aggregate).") \
    X(ECC_SBE_AGG_REG, "DCGM_FI_DEV_ECC_SBE_AGG_REG", 330, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 24", "Number of single-bit errors in the register file (aggregate).") \
    X(ECC_DBE_AGG_REG, "DCGM_FI_DEV_ECC_DBE_AGG_REG", 331, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 25", "Number of double-bit errors in the register file (aggregate).") \
    X(ECC_SBE_AGG_TEX, "DCGM_FI_DEV_ECC_SBE_AGG_TEX", 332, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 26", "Number of single-bit errors in the texture memory (aggregate).") \
    X(ECC_DBE_AGG_TEX, "DCGM_FI_DEV_ECC_DBE_AGG_TEX", 333, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 27", "Number of double-bit errors in the texture memory (aggregate).") \
    X(SRAM_EXCEEDED, "DCGM_FI_DEV_SRAM_EXCEEDED", 346, GPU_INTEGER, GPU_G_SRAM, "gauge", "0 or 1", \
      "nvmlDeviceGetSramEccErrorStatus", "Whether the SRAM error threshold is exceeded (root only).") \
    X(BANKS_MAX, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_MAX", 385, GPU_INTEGER, GPU_G_REMAP_BANKS, "gauge", "banks", \
      "nvmlDeviceGetRowRemapperHistogram", "Memory banks with all spare rows left for remapping.") \
    X(BANKS_HIGH, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_HIGH", 386, GPU_INTEGER, GPU_G_REMAP_BANKS, "gauge", "banks", \
      "nvmlDeviceGetRowRemapperHistogram", "Memory banks with most spare rows left for remapping.") \
    X(BANKS_PARTIAL, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL", 387, GPU_INTEGER, GPU_G_REMAP_BANKS, "gauge", "banks", \
      "nvmlDeviceGetRowRemapperHistogram", "Memory banks with some spare rows left for remapping.") \
    X(BANKS_LOW, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_LOW", 388, GPU_INTEGER, GPU_G_REMAP_BANKS, "gauge", "banks", \
      "nvmlDeviceGetRowRemapperHistogram", "Memory banks with few spare rows left for remapping.") \
    X(BANKS_NONE, "DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", 389, GPU_INTEGER, GPU_G_REMAP_BANKS, "gauge", "banks", \
      "nvmlDeviceGetRowRemapperHistogram", "Memory banks with no spare rows left for remapping.") \
    X(RETIRED_SBE, "DCGM_FI_DEV_RETIRED_SBE", 390, GPU_INTEGER, GPU_G_VALUES, "counter", "pages", \
      "nvmlDeviceGetFieldValues 29", "Number of pages retired for single-bit errors.") \
    X(RETIRED_DBE, "DCGM_FI_DEV_RETIRED_DBE", 391, GPU_INTEGER, GPU_G_VALUES, "counter", "pages", \
      "nvmlDeviceGetFieldValues 30", "Number of pages retired for double-bit errors.") \
    X(RETIRED_PENDING, "DCGM_FI_DEV_RETIRED_PENDING", 392, GPU_INTEGER, GPU_G_VALUES, "counter", "0 or 1", \
      "nvmlDeviceGetFieldValues 31", "Whether pages wait for their retirement.") \
    X(UNCORRECTABLE_REMAPPED, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 393, GPU_INTEGER, GPU_G_REMAP, "counter", "rows", \
      "nvmlDeviceGetRemappedRows", "Number of remapped rows for uncorrectable errors") \
    X(CORRECTABLE_REMAPPED, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 394, GPU_INTEGER, GPU_G_REMAP, "counter", "rows", \
      "nvmlDeviceGetRemappedRows", "Number of remapped rows for correctable errors") \
    X(ROW_REMAP_FAILURE, "DCGM_FI_DEV_ROW_REMAP_FAILURE", 395, GPU_INTEGER, GPU_G_REMAP, "gauge", "0 or 1", \
      "nvmlDeviceGetRemappedRows", "Whether remapping of rows has failed") \
    X(ROW_REMAP_PENDING, "DCGM_FI_DEV_ROW_REMAP_PENDING", 396, GPU_INTEGER, GPU_G_REMAP, "gauge", "0 or 1", \
      "nvmlDeviceGetRemappedRows", "Whether rows wait to be remapped.") \
    X(NVLINK_CRC_FLIT, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 409, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 38", "Number of NVLink flow-control CRC errors over all links.") \
    X(NVLINK_CRC_DATA, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", 419, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 45", "Number of NVLink data CRC errors over all links.") \
    X(NVLINK_REPLAY, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", 429, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 52", "Number of NVLink replay errors over all links.") \
    X(NVLINK_RECOVERY, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", 439, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 59", "Number of NVLink recovery errors over all links.") \
    X(NVLINK_L0, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", 440, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 0.") \
    X(NVLINK_L1, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L1", 441, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 1.") \
    X(NVLINK_L2, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L2", 442, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 2.") \
    X(NVLINK_L3, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L3", 443, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 3.") \
    X(NVLINK_L4, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L4", 444, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 4.") \
    X(NVLINK_L5, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L5", 445, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 5.") \
    X(NVLINK_L12, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L12", 446, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 12.") \
    X(NVLINK_L13, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L13", 447, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 13.") \
    X(NVLINK_L14, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L14", 448, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 14.") \
    X(NVLINK_BANDWIDTH, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 449, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "Total number of NVLink bandwidth counters for all lanes.") \
    X(NVLINK_L6, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L6", 475, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 6.") \
    X(NVLINK_L7, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L7", 476, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 7.") \
    X(NVLINK_L8, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L8", 477, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 8.") \
    X(NVLINK_L9, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L9", 478, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 9.") \
    X(NVLINK_L10, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L10", 479, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 10.") \
    X(NVLINK_L11, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L11", 480, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 11.") \
    X(NVLINK_L15, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L15", 494, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 15.") \
    X(NVLINK_L16, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L16", 495, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 16.") \
    X(NVLINK_L17, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L17", 496, GPU_INTEGER, GPU_G_NVLINK, "counter", "MB/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink bandwidth of link 17.") \
    X(NVLINK_DL_CRC, "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", 497, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 163", "Number of NVLink CRC errors (before Blackwell).") \
    X(NVLINK_DL_RECOVERY, "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", 498, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 162", "Number of NVLink recovery errors (before Blackwell).") \
    X(NVLINK_DL_REPLAY, "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", 499, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 161", "Number of NVLink replay errors (before Blackwell).") \
    X(VIRTUAL_MODE, "DCGM_FI_DEV_VIRTUAL_MODE", 500, GPU_INTEGER, GPU_G_MODES, "gauge", "enum", \
      "nvmlDeviceGetVirtualizationMode", "Virtualization mode (0 none, 1 passthrough, 2 vGPU guest, 3 and 4 vGPU host).") \
    X(VGPU_LICENSE, "DCGM_FI_DEV_VGPU_LICENSE_STATUS", 526, GPU_INTEGER, GPU_G_LICENSE, "gauge", "0 or 1", \
      "nvmlDeviceGetGridLicensableFeatures_v4", "vGPU License status") \
    X(NVLINK_TX_L0, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L0", 825, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 0.") \
    X(NVLINK_TX_L1, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L1", 826, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 1.") \
    X(NVLINK_TX_L2, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L2", 827, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 2.") \
    X(NVLINK_TX_L3, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L3", 828, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 3.") \
    X(NVLINK_TX_L4, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L4", 829, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 4.") \
    X(NVLINK_TX_L5, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L5", 830, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 5.") \
    X(NVLINK_TX_L6, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L6", 831, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 6.") \
    X(NVLINK_TX_L7, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L7", 832, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 7.") \
    X(NVLINK_TX_L8, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L8", 833, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 8.") \
    X(NVLINK_TX_L9, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L9", 834, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 9.") \
    X(NVLINK_TX_L10, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L10", 835, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 10.") \
    X(NVLINK_TX_L11, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L11", 836, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 11.") \
    X(NVLINK_TX_L12, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L12", 837, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 12.") \
    X(NVLINK_TX_L13, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L13", 838, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 13.") \
    X(NVLINK_TX_L14, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L14", 839, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 14.") \
    X(NVLINK_TX_L15, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L15", 840, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 15.") \
    X(NVLINK_TX_L16, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L16", 841, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 16.") \
    X(NVLINK_TX_L17, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L17", 842, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth of link 17.") \
    X(NVLINK_TX_TOTAL, "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", 843, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 138", "NVLink transmit bandwidth over all lanes.") \
    X(NVLINK_RX_L0, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L0", 879, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 0.") \
    X(NVLINK_RX_L1, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L1", 880, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 1.") \
    X(NVLINK_RX_L2, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L2", 881, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 2.") \
    X(NVLINK_RX_L3, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L3", 882, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 3.") \
    X(NVLINK_RX_L4, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L4", 883, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 4.") \
    X(NVLINK_RX_L5, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L5", 884, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 5.") \
    X(NVLINK_RX_L6, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L6", 885, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 6.") \
    X(NVLINK_RX_L7, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L7", 886, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 7.") \
    X(NVLINK_RX_L8, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L8", 887, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 8.") \
    X(NVLINK_RX_L9, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L9", 888, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 9.") \
    X(NVLINK_RX_L10, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L10", 889, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 10.") \
    X(NVLINK_RX_L11, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L11", 890, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 11.") \
    X(NVLINK_RX_L12, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L12", 891, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 12.") \
    X(NVLINK_RX_L13, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L13", 892, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 13.") \
    X(NVLINK_RX_L14, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L14", 893, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 14.") \
    X(NVLINK_RX_L15, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L15", 894, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 15.") \
    X(NVLINK_RX_L16, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L16", 895, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 16.") \
    X(NVLINK_RX_L17, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L17", 896, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth of link 17.") \
    X(NVLINK_RX_TOTAL, "DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", 897, GPU_INTEGER, GPU_G_NVLINK, "gauge", "MB/s", \
      "nvmlDeviceGetFieldValues 139", "NVLink receive bandwidth over all lanes.") \
    X(PROF_GR_ENGINE_ACTIVE, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1001, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 1", "Ratio of time the graphics engine is active.") \
    X(PROF_SM_ACTIVE, "DCGM_FI_PROF_SM_ACTIVE", 1002, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 2", "Ratio of cycles in which an SM has at least 1 warp.") \
    X(PROF_SM_OCCUPANCY, "DCGM_FI_PROF_SM_OCCUPANCY", 1003, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 3", "Ratio of warps resident on an SM to the most possible.") \
    X(PROF_PIPE_TENSOR_ACTIVE, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1004, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 5", "Ratio of cycles the tensor (HMMA) pipe is active.") \
    X(PROF_DRAM_ACTIVE, "DCGM_FI_PROF_DRAM_ACTIVE", 1005, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 10", "Ratio of cycles the device memory interface is active sending or receiving data.") \
    X(PROF_PIPE_FP64_ACTIVE, "DCGM_FI_PROF_PIPE_FP64_ACTIVE", 1006, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 11", "Ratio of cycles in which the fp64 pipe is active.") \
    X(PROF_PIPE_FP32_ACTIVE, "DCGM_FI_PROF_PIPE_FP32_ACTIVE", 1007, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 12", "Ratio of cycles in which the fp32 pipe is active.") \
    X(PROF_PIPE_FP16_ACTIVE, "DCGM_FI_PROF_PIPE_FP16_ACTIVE", 1008, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 13", "Ratio of cycles in which the fp16 pipe is active.") \
    X(PROF_PCIE_TX_BYTES, "DCGM_FI_PROF_PCIE_TX_BYTES", 1009, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 20", "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.") \
    X(PROF_PCIE_RX_BYTES, "DCGM_FI_PROF_PCIE_RX_BYTES", 1010, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 21", "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.") \
    X(PROF_NVLINK_TX_BYTES, "DCGM_FI_PROF_NVLINK_TX_BYTES", 1011, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 61", "NVLink bytes sent per second.") \
    X(PROF_NVLINK_RX_BYTES, "DCGM_FI_PROF_NVLINK_RX_BYTES", 1012, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 60", "NVLink bytes received per second.") \
    X(PROF_PIPE_TENSOR_IMMA_ACTIVE, "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE", 1013, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 9", "Ratio of cycles in which the IMMA tensor pipe is active.") \
    X(PROF_PIPE_TENSOR_HMMA_ACTIVE, "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", 1014, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 7", "Ratio of cycles in which the HMMA tensor pipe is active.") \
    X(PROF_PIPE_TENSOR_DFMA_ACTIVE, "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE", 1015, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 6", "Ratio of cycles in which the DFMA tensor pipe is active.") \
    X(PROF_PIPE_INT_ACTIVE, "DCGM_FI_PROF_PIPE_INT_ACTIVE", 1016, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 4", "Ratio of cycles in which the integer pipe is active.") \
    X(PROF_NVDEC0, "DCGM_FI_PROF_NVDEC0_ACTIVE", 1017, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 30", "Ratio of time in which decoder 0 is active.") \
    X(PROF_NVDEC1, "DCGM_FI_PROF_NVDEC1_ACTIVE", 1018, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 31", "Ratio of time in which decoder 1 is active.") \
    X(PROF_NVDEC2, "DCGM_FI_PROF_NVDEC2_ACTIVE", 1019, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 32", "Ratio of time in which decoder 2 is active.") \
    X(PROF_NVDEC3, "DCGM_FI_PROF_NVDEC3_ACTIVE", 1020, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 33", "Ratio of time in which decoder 3 is active.") \
    X(PROF_NVDEC4, "DCGM_FI_PROF_NVDEC4_ACTIVE", 1021, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 34", "Ratio of time in which decoder 4 is active.") \
    X(PROF_NVDEC5, "DCGM_FI_PROF_NVDEC5_ACTIVE", 1022, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 35", "Ratio of time in which decoder 5 is active.") \
    X(PROF_NVDEC6, "DCGM_FI_PROF_NVDEC6_ACTIVE", 1023, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 36", "Ratio of time in which decoder 6 is active.") \
    X(PROF_NVDEC7, "DCGM_FI_PROF_NVDEC7_ACTIVE", 1024, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 37", "Ratio of time in which decoder 7 is active.") \
    X(PROF_NVJPG0, "DCGM_FI_PROF_NVJPG0_ACTIVE", 1025, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 40", "Ratio of time in which JPEG engine 0 is active.") \
    X(PROF_NVJPG1, "DCGM_FI_PROF_NVJPG1_ACTIVE", 1026, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 41", "Ratio of time in which JPEG engine 1 is active.") \
    X(PROF_NVJPG2, "DCGM_FI_PROF_NVJPG2_ACTIVE", 1027, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 42", "Ratio of time in which JPEG engine 2 is active.") \
    X(PROF_NVJPG3, "DCGM_FI_PROF_NVJPG3_ACTIVE", 1028, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 43", "Ratio of time in which JPEG engine 3 is active.") \
    X(PROF_NVJPG4, "DCGM_FI_PROF_NVJPG4_ACTIVE", 1029, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 44", "Ratio of time in which JPEG engine 4 is active.") \
    X(PROF_NVJPG5, "DCGM_FI_PROF_NVJPG5_ACTIVE", 1030, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 45", "Ratio of time in which JPEG engine 5 is active.") \
    X(PROF_NVJPG6, "DCGM_FI_PROF_NVJPG6_ACTIVE", 1031, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 46", "Ratio of time in which JPEG engine 6 is active.") \
    X(PROF_NVJPG7, "DCGM_FI_PROF_NVJPG7_ACTIVE", 1032, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 47", "Ratio of time in which JPEG engine 7 is active.") \
    X(PROF_NVOFA0, "DCGM_FI_PROF_NVOFA0_ACTIVE", 1033, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 50", "Ratio of time in which optical flow engine 0 is active.") \
    X(PROF_NVOFA1, "DCGM_FI_PROF_NVOFA1_ACTIVE", 1034, GPU_DOUBLE, GPU_G_GPM, "gauge", "ratio", \
      "GPM metric 51", "Ratio of time in which optical flow engine 1 is active.") \
    X(PROF_NVLINK_L0_TX, "DCGM_FI_PROF_NVLINK_L0_TX_BYTES", 1040, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 63", "NVLink bytes sent per second on link 0.") \
    X(PROF_NVLINK_L0_RX, "DCGM_FI_PROF_NVLINK_L0_RX_BYTES", 1041, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 62", "NVLink bytes received per second on link 0.") \
    X(PROF_NVLINK_L1_TX, "DCGM_FI_PROF_NVLINK_L1_TX_BYTES", 1042, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 65", "NVLink bytes sent per second on link 1.") \
    X(PROF_NVLINK_L1_RX, "DCGM_FI_PROF_NVLINK_L1_RX_BYTES", 1043, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 64", "NVLink bytes received per second on link 1.") \
    X(PROF_NVLINK_L2_TX, "DCGM_FI_PROF_NVLINK_L2_TX_BYTES", 1044, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 67", "NVLink bytes sent per second on link 2.") \
    X(PROF_NVLINK_L2_RX, "DCGM_FI_PROF_NVLINK_L2_RX_BYTES", 1045, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 66", "NVLink bytes received per second on link 2.") \
    X(PROF_NVLINK_L3_TX, "DCGM_FI_PROF_NVLINK_L3_TX_BYTES", 1046, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 69", "NVLink bytes sent per second on link 3.") \
    X(PROF_NVLINK_L3_RX, "DCGM_FI_PROF_NVLINK_L3_RX_BYTES", 1047, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 68", "NVLink bytes received per second on link 3.") \
    X(PROF_NVLINK_L4_TX, "DCGM_FI_PROF_NVLINK_L4_TX_BYTES", 1048, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 71", "NVLink bytes sent per second on link 4.") \
    X(PROF_NVLINK_L4_RX, "DCGM_FI_PROF_NVLINK_L4_RX_BYTES", 1049, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 70", "NVLink bytes received per second on link 4.") \
    X(PROF_NVLINK_L5_TX, "DCGM_FI_PROF_NVLINK_L5_TX_BYTES", 1050, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 73", "NVLink bytes sent per second on link 5.") \
    X(PROF_NVLINK_L5_RX, "DCGM_FI_PROF_NVLINK_L5_RX_BYTES", 1051, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 72", "NVLink bytes received per second on link 5.") \
    X(PROF_NVLINK_L6_TX, "DCGM_FI_PROF_NVLINK_L6_TX_BYTES", 1052, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 75", "NVLink bytes sent per second on link 6.") \
    X(PROF_NVLINK_L6_RX, "DCGM_FI_PROF_NVLINK_L6_RX_BYTES", 1053, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 74", "NVLink bytes received per second on link 6.") \
    X(PROF_NVLINK_L7_TX, "DCGM_FI_PROF_NVLINK_L7_TX_BYTES", 1054, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 77", "NVLink bytes sent per second on link 7.") \
    X(PROF_NVLINK_L7_RX, "DCGM_FI_PROF_NVLINK_L7_RX_BYTES", 1055, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 76", "NVLink bytes received per second on link 7.") \
    X(PROF_NVLINK_L8_TX, "DCGM_FI_PROF_NVLINK_L8_TX_BYTES", 1056, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 79", "NVLink bytes sent per second on link 8.") \
    X(PROF_NVLINK_L8_RX, "DCGM_FI_PROF_NVLINK_L8_RX_BYTES", 1057, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 78", "NVLink bytes received per second on link 8.") \
    X(PROF_NVLINK_L9_TX, "DCGM_FI_PROF_NVLINK_L9_TX_BYTES", 1058, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 81", "NVLink bytes sent per second on link 9.") \
    X(PROF_NVLINK_L9_RX, "DCGM_FI_PROF_NVLINK_L9_RX_BYTES", 1059, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 80", "NVLink bytes received per second on link 9.") \
    X(PROF_NVLINK_L10_TX, "DCGM_FI_PROF_NVLINK_L10_TX_BYTES", 1060, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 83", "NVLink bytes sent per second on link 10.") \
    X(PROF_NVLINK_L10_RX, "DCGM_FI_PROF_NVLINK_L10_RX_BYTES", 1061, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 82", "NVLink bytes received per second on link 10.") \
    X(PROF_NVLINK_L11_TX, "DCGM_FI_PROF_NVLINK_L11_TX_BYTES", 1062, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 85", "NVLink bytes sent per second on link 11.") \
    X(PROF_NVLINK_L11_RX, "DCGM_FI_PROF_NVLINK_L11_RX_BYTES", 1063, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 84", "NVLink bytes received per second on link 11.") \
    X(PROF_NVLINK_L12_TX, "DCGM_FI_PROF_NVLINK_L12_TX_BYTES", 1064, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 87", "NVLink bytes sent per second on link 12.") \
    X(PROF_NVLINK_L12_RX, "DCGM_FI_PROF_NVLINK_L12_RX_BYTES", 1065, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 86", "NVLink bytes received per second on link 12.") \
    X(PROF_NVLINK_L13_TX, "DCGM_FI_PROF_NVLINK_L13_TX_BYTES", 1066, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 89", "NVLink bytes sent per second on link 13.") \
    X(PROF_NVLINK_L13_RX, "DCGM_FI_PROF_NVLINK_L13_RX_BYTES", 1067, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 88", "NVLink bytes received per second on link 13.") \
    X(PROF_NVLINK_L14_TX, "DCGM_FI_PROF_NVLINK_L14_TX_BYTES", 1068, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 91", "NVLink bytes sent per second on link 14.") \
    X(PROF_NVLINK_L14_RX, "DCGM_FI_PROF_NVLINK_L14_RX_BYTES", 1069, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 90", "NVLink bytes received per second on link 14.") \
    X(PROF_NVLINK_L15_TX, "DCGM_FI_PROF_NVLINK_L15_TX_BYTES", 1070, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 93", "NVLink bytes sent per second on link 15.") \
    X(PROF_NVLINK_L15_RX, "DCGM_FI_PROF_NVLINK_L15_RX_BYTES", 1071, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 92", "NVLink bytes received per second on link 15.") \
    X(PROF_NVLINK_L16_TX, "DCGM_FI_PROF_NVLINK_L16_TX_BYTES", 1072, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 95", "NVLink bytes sent per second on link 16.") \
    X(PROF_NVLINK_L16_RX, "DCGM_FI_PROF_NVLINK_L16_RX_BYTES", 1073, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 94", "NVLink bytes received per second on link 16.") \
    X(PROF_NVLINK_L17_TX, "DCGM_FI_PROF_NVLINK_L17_TX_BYTES", 1074, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 97", "NVLink bytes sent per second on link 17.") \
    X(PROF_NVLINK_L17_RX, "DCGM_FI_PROF_NVLINK_L17_RX_BYTES", 1075, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 96", "NVLink bytes received per second on link 17.") \
    X(PROF_C2C_TX_ALL, "DCGM_FI_PROF_C2C_TX_ALL_BYTES", 1076, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 100", "C2C bytes sent per second.") \
    X(PROF_C2C_TX_DATA, "DCGM_FI_PROF_C2C_TX_DATA_BYTES", 1077, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 102", "C2C bytes of data sent per second.") \
    X(PROF_C2C_RX_ALL, "DCGM_FI_PROF_C2C_RX_ALL_BYTES", 1078, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 101", "C2C bytes received per second.") \
    X(PROF_C2C_RX_DATA, "DCGM_FI_PROF_C2C_RX_DATA_BYTES", 1079, GPU_INTEGER, GPU_G_GPM, "gauge", "bytes/s", \
      "GPM metric 103", "C2C bytes of data received per second.") \
    X(NVLINK5_TX_PACKETS, "DCGM_FI_DEV_NVLINK_COUNT_TX_PACKETS", 1200, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 201", "Packets sent by NVLink 5.") \
    X(NVLINK5_TX_BYTES, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", 1201, GPU_INTEGER, GPU_G_VALUES, "counter", "bytes", \
      "nvmlDeviceGetFieldValues 202", "Bytes sent by NVLink 5.") \
    X(NVLINK5_RX_PACKETS, "DCGM_FI_DEV_NVLINK_COUNT_RX_PACKETS", 1202, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 203", "Packets received by NVLink 5.") \
    X(NVLINK5_RX_BYTES, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", 1203, GPU_INTEGER, GPU_G_VALUES, "counter", "bytes", \
      "nvmlDeviceGetFieldValues 204", "Bytes received by NVLink 5.") \
    X(NVLINK5_RX_MALFORMED, "DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", 1204, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 206", "Malformed packets received by NVLink 5.") \
    X(NVLINK5_RX_OVERRUN, "DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", 1205, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 207", "Packets that NVLink 5 dropped for lack of buffers.") \
    X(NVLINK5_RX_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", 1206, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 208", "Packets with errors received by NVLink 5.") \
    X(NVLINK5_RX_REMOTE_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", 1207, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 209", "Packets received by NVLink 5 that the other side had marked as bad.") \
    X(NVLINK5_RX_GENERAL_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", 1208, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 210", "Packets received by NVLink 5 with a wrong header.") \
    X(NVLINK5_INTEGRITY_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", 1209, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 211", "How often local errors of NVLink 5 went beyond their limit.") \
    X(NVLINK5_TX_DISCARDS, "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", 1210, GPU_INTEGER, GPU_G_VALUES, "counter", "packets", \
      "nvmlDeviceGetFieldValues 212", "Packets that NVLink 5 discarded instead of sending them.") \
    X(NVLINK5_RECOVERED, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", 1211, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 213", "How often an NVLink 5 link recovered.") \
    X(NVLINK5_RECOVERY_FAILED, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", 1212, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 214", "How often an NVLink 5 link did not recover.") \
    X(NVLINK5_RECOVERIES, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", 1213, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 215", "How often an NVLink 5 link went into recovery.") \
    X(NVLINK5_SYMBOL_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", 1214, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 221", "Wrong symbols received by NVLink 5.") \
    X(NVLINK5_SYMBOL_BER, "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER", 1215, GPU_INTEGER, GPU_G_VALUES, "gauge", "encoded", \
      "nvmlDeviceGetFieldValues 222", "Bit error rate of NVLink 5's symbols, as NVML encodes it.") \
    X(NVLINK5_SYMBOL_BER_FLOAT, "DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", 1216, GPU_DOUBLE, GPU_G_VALUES, "gauge", "ratio", \
      "nvmlDeviceGetFieldValues 222", "Bit error rate of NVLink 5's symbols.") \
    X(NVLINK5_EFFECTIVE_BER, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER", 1217, GPU_INTEGER, GPU_G_VALUES, "gauge", "encoded", \
      "nvmlDeviceGetFieldValues 220", "Effective bit error rate of NVLink 5, as NVML encodes it.") \
    X(NVLINK5_EFFECTIVE_BER_FLOAT, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", 1218, GPU_DOUBLE, GPU_G_VALUES, "gauge", "ratio", \
      "nvmlDeviceGetFieldValues 220", "Effective bit error rate of NVLink 5.") \
    X(NVLINK5_EFFECTIVE_ERRORS, "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", 1219, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 219", "Effective errors of NVLink 5.") \
    X(NVLINK_ECC_DATA, "DCGM_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", 1220, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 160", "Number of NVLink ECC errors over all links.") \
    X(C2C_ERROR_INTR, "DCGM_FI_DEV_C2C_LINK_ERROR_INTR", 1400, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 231", "CRC errors of the first C2C link.") \
    X(C2C_ERROR_REPLAY, "DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY", 1401, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 232", "Replays of the first C2C link.") \
    X(C2C_ERROR_REPLAY_B2B, "DCGM_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B", 1402, GPU_INTEGER, GPU_G_VALUES, "counter", "1", \
      "nvmlDeviceGetFieldValues 233", "Back-to-back replays of the first C2C link.") \
    X(C2C_POWER_STATE, "DCGM_FI_DEV_C2C_LINK_POWER_STATE", 1403, GPU_INTEGER, GPU_G_VALUES, "gauge", "enum", \
      "nvmlDeviceGetFieldValues 234", "Power state of the first C2C link.") \
    X(CLOCK_NS_POWER_CAP, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", 1420, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 74", "Time with clocks reduced to stay below the power limit (in ns).") \
    X(CLOCK_NS_SYNC_BOOST, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", 1421, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 76", "Time with clocks reduced to match the sync boost group (in ns).") \
    X(CLOCK_NS_SW_THERMAL, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", 1422, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 251 or 269", "Time with clocks reduced by software to limit the temperature (in ns).") \
    X(CLOCK_NS_HW_THERMAL, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", 1423, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 252 or 270", "Time with clocks reduced by hardware because of the temperature (in ns).") \
    X(CLOCK_NS_POWER_BRAKE, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", 1424, GPU_INTEGER, GPU_G_VALUES, "counter", "ns", \
      "nvmlDeviceGetFieldValues 253 or 271", "Time with clocks reduced by the external power brake (in ns).") \
    X(MEMORY_UNREPAIRABLE, "DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG", 1507, GPU_INTEGER, GPU_G_REPAIR, "gauge", "0 or 1", \
      "nvmlDeviceGetUnrepairableMemoryFlag_v1", "Whether memory is broken that cannot be repaired.") \
    X(RECOVERY_ACTION, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", 1523, GPU_INTEGER, GPU_G_VALUES, "gauge", "enum", \
      "nvmlDeviceGetFieldValues 230", "What the GPU needs (0 nothing, 1 a reset, 2 a reboot, 3 P2P drained, 4 drain and reset).") \
    X(BAR1_TOTAL_BYTES, "DCGM_FI_DEV_BAR1_CAPACITY_BYTES", 1600, GPU_INTEGER, GPU_G_BAR1, "gauge", "bytes", \
      "nvmlDeviceGetBAR1MemoryInfo", "Total BAR1 memory (in bytes).") \
    X(BAR1_USED_BYTES, "DCGM_FI_DEV_BAR1_USED_BYTES", 1601, GPU_INTEGER, GPU_G_BAR1, "gauge", "bytes", \
      "nvmlDeviceGetBAR1MemoryInfo", "Used BAR1 memory (in bytes).") \
    X(BAR1_FREE_BYTES, "DCGM_FI_DEV_BAR1_FREE_BYTES", 1602, GPU_INTEGER, GPU_G_BAR1, "gauge", "bytes", \
      "nvmlDeviceGetBAR1MemoryInfo", "Free BAR1 memory (in bytes).") \
    X(SM_CLOCK_HZ, "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1603, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetClockInfo", "SM clock frequency (in Hz).") \
    X(MEM_CLOCK_HZ, "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1604, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetClockInfo", "Memory clock frequency (in Hz).") \
    X(VIDEO_CLOCK_HZ, "DCGM_FI_DEV_VIDEO_CLOCK_HERTZ", 1605, GPU_INTEGER, GPU_G_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetClockInfo", "Video clock frequency (in Hz).") \
    X(APP_SM_CLOCK_HZ, "DCGM_FI_DEV_SM_APP_CLOCK_HERTZ", 1606, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetApplicationsClock", "Application SM clock (in Hz).") \
    X(APP_MEM_CLOCK_HZ, "DCGM_FI_DEV_MEMORY_APP_CLOCK_HERTZ", 1607, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetApplicationsClock", "Application memory clock (in Hz).") \
    X(MAX_SM_CLOCK_HZ, "DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ", 1608, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetMaxClockInfo", "Highest SM clock (in Hz).") \
    X(MAX_MEM_CLOCK_HZ, "DCGM_FI_DEV_MEMORY_MAX_CLOCK_HERTZ", 1609, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetMaxClockInfo", "Highest memory clock (in Hz).") \
    X(MAX_VIDEO_CLOCK_HZ, "DCGM_FI_DEV_VIDEO_MAX_CLOCK_HERTZ", 1610, GPU_INTEGER, GPU_G_SET_CLOCKS, "gauge", "Hz", \
      "nvmlDeviceGetMaxClockInfo", "Highest video clock (in Hz).") \
    X(ENERGY_JOULES, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1611, GPU_INTEGER, GPU_G_ENERGY, "counter", "J", \
      "nvmlDeviceGetTotalEnergyConsumption", "Total energy consumption since boot (in whole J).") \
    X(FAN_SPEED_RATIO, "DCGM_FI_DEV_FAN_SPEED_RATIO", 1612, GPU_DOUBLE, GPU_G_STATE, "gauge", "ratio", \
      "nvmlDeviceGetFanSpeed", "Fan speed (1 is the rated speed; boosted fans report more).") \
    X(GPU_UTIL_RATIO, "DCGM_FI_DEV_GPU_UTIL_RATIO", 1613, GPU_DOUBLE, GPU_G_UTILIZATION, "gauge", "ratio", \
      "nvmlDeviceGetSamples", "GPU utilization (0 to 1).") \
    X(MEM_COPY_UTIL_RATIO, "DCGM_FI_DEV_MEMORY_UTIL_RATIO", 1614, GPU_DOUBLE, GPU_G_UTILIZATION, "gauge", "ratio", \
      "nvmlDeviceGetUtilizationRates", "Memory utilization (0 to 1).") \
    X(ENC_UTIL_RATIO, "DCGM_FI_DEV_ENC_UTIL_RATIO", 1615, GPU_DOUBLE, GPU_G_CODECS, "gauge", "ratio", \
      "nvmlDeviceGetEncoderUtilization", "Encoder utilization (0 to 1).") \
    X(DEC_UTIL_RATIO, "DCGM_FI_DEV_DEC_UTIL_RATIO", 1616, GPU_DOUBLE, GPU_G_CODECS, "gauge", "ratio", \
      "nvmlDeviceGetDecoderUtilization", "Decoder utilization (0 to 1).") \
    X(POWER_SECONDS, "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", 1617, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 74", "Time with lowered clocks because of power constraints (in s).") \
    X(THERMAL_SECONDS, "DCGM_FI_DEV_GPU_THERMAL_THROTTLE_SECONDS_TOTAL", 1618, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 75", "Time with lowered clocks because of thermal constraints (in s).") \
    X(SYNC_BOOST_SECONDS, "DCGM_FI_DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", 1619, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 76", "Time with lowered clocks because of sync boost (in s).") \
    X(BOARD_LIMIT_SECONDS, "DCGM_FI_DEV_GPU_LIMIT_THROTTLE_SECONDS_TOTAL", 1620, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 77", "Time with lowered clocks because of board limits (in s).") \
    X(LOW_UTIL_SECONDS, "DCGM_FI_DEV_GPU_LOW_UTIL_THROTTLE_SECONDS_TOTAL", 1621, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 78", "Time with lowered clocks because of low utilization (in s).") \
    X(RELIABILITY_SECONDS, "DCGM_FI_DEV_GPU_RELIABILITY_THROTTLE_SECONDS_TOTAL", 1622, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 79", "Time with lowered clocks because of reliability (in s).") \
    X(APP_CLOCKS_SECONDS, "DCGM_FI_DEV_GPU_APP_THROTTLE_SECONDS_TOTAL", 1623, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 80", "Time below the application clocks (in s).") \
    X(BASE_CLOCKS_SECONDS, "DCGM_FI_DEV_GPU_BASE_THROTTLE_SECONDS_TOTAL", 1624, GPU_DOUBLE, GPU_G_VALUES, "counter", "s", \
      "nvmlDeviceGetFieldValues 81", "Time below the base clocks (in s).") \
    X(FB_TOTAL_BYTES, "DCGM_FI_DEV_FB_CAPACITY_BYTES", 1625, GPU_INTEGER, GPU_G_MEMORY, "gauge", "bytes", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory (in bytes).") \
    X(FB_FREE_BYTES, "DCGM_FI_DEV_FB_FREE_BYTES", 1626, GPU_INTEGER, GPU_G_MEMORY, "gauge", "bytes", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory free (in bytes).") \
    X(FB_USED_BYTES, "DCGM_FI_DEV_FB_USED_BYTES", 1627, GPU_INTEGER, GPU_G_MEMORY, "gauge", "bytes", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory used (in bytes).") \
    X(FB_RESERVED_BYTES, "DCGM_FI_DEV_FB_RESERVED_BYTES", 1628, GPU_INTEGER, GPU_G_MEMORY, "gauge", "bytes", \
      "nvmlDeviceGetMemoryInfo_v2", "Framebuffer memory reserved (in bytes).") \
    X(C2C_MAX_BYTES, "DCGM_FI_DEV_C2C_MAX_BANDWIDTH_BYTES_PER_SECOND", 1629, GPU_INTEGER, GPU_G_VALUES, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 172", "Speed of the first C2C link (in B/s).") \
    X(NVLINK_BYTES_L0, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L0_BYTES_PER_SECOND", 1630, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 0 in both directions (in B/s).") \
    X(NVLINK_BYTES_L1, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L1_BYTES_PER_SECOND", 1631, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 1 in both directions (in B/s).") \
    X(NVLINK_BYTES_L2, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L2_BYTES_PER_SECOND", 1632, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 2 in both directions (in B/s).") \
    X(NVLINK_BYTES_L3, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L3_BYTES_PER_SECOND", 1633, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 3 in both directions (in B/s).") \
    X(NVLINK_BYTES_L4, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L4_BYTES_PER_SECOND", 1634, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 4 in both directions (in B/s).") \
    X(NVLINK_BYTES_L5, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L5_BYTES_PER_SECOND", 1635, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 5 in both directions (in B/s).") \
    X(NVLINK_BYTES_L6, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L6_BYTES_PER_SECOND", 1636, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 6 in both directions (in B/s).") \
    X(NVLINK_BYTES_L7, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L7_BYTES_PER_SECOND", 1637, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 7 in both directions (in B/s).") \
    X(NVLINK_BYTES_L8, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L8_BYTES_PER_SECOND", 1638, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 8 in both directions (in B/s).") \
    X(NVLINK_BYTES_L9, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L9_BYTES_PER_SECOND", 1639, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 9 in both directions (in B/s).") \
    X(NVLINK_BYTES_L10, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L10_BYTES_PER_SECOND", 1640, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 10 in both directions (in B/s).") \
    X(NVLINK_BYTES_L11, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L11_BYTES_PER_SECOND", 1641, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 11 in both directions (in B/s).") \
    X(NVLINK_BYTES_L12, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L12_BYTES_PER_SECOND", 1642, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 12 in both directions (in B/s).") \
    X(NVLINK_BYTES_L13, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L13_BYTES_PER_SECOND", 1643, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 13 in both directions (in B/s).") \
    X(NVLINK_BYTES_L14, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L14_BYTES_PER_SECOND", 1644, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 14 in both directions (in B/s).") \
    X(NVLINK_BYTES_L15, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L15_BYTES_PER_SECOND", 1645, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 15 in both directions (in B/s).") \
    X(NVLINK_BYTES_L16, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L16_BYTES_PER_SECOND", 1646, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 16 in both directions (in B/s).") \
    X(NVLINK_BYTES_L17, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L17_BYTES_PER_SECOND", 1647, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of link 17 in both directions (in B/s).") \
    X(NVLINK_BYTES_TOTAL, "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1648, GPU_INTEGER, GPU_G_NVLINK, "gauge", "B/s", \
      "nvmlDeviceGetFieldValues 138, 139", "NVLink traffic of all links in both directions (in B/s).") \
    X(NVLINKS_DOWN, "GPUSCALE_NVLINKS_DOWN", 9100, GPU_INTEGER, GPU_G_LINK_STATE, "gauge", "links", \
      "nvmlDeviceGetNvLinkState", "NVLinks of the GPU that are down.")
// clang-format on
