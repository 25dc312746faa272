// SPDX-License-Identifier: Apache-2.0
// Functions that the libnvidia-ml of driver 570 exports and that the simulated boards do not have.
// Programs look functions up by name, and take one that is missing for an older driver: these
// return NVML_ERROR_NOT_SUPPORTED, as a driver does for a board without the feature.
#pragma once

// clang-format off
// The first argument is an nvmlDevice_t.
#define NVML_UNSUPPORTED_OF_DEVICE(X) \
    X(nvmlDeviceClearAccountingPids) X(nvmlDeviceClearCpuAffinity) \
    X(nvmlDeviceClearEccErrorCounts) X(nvmlDeviceClearFieldValues) X(nvmlDeviceCreateGpuInstance) \
    X(nvmlDeviceCreateGpuInstanceWithPlacement) X(nvmlDeviceFreezeNvLinkUtilizationCounter) \
    X(nvmlDeviceGetAPIRestriction) X(nvmlDeviceGetAccountingStats) X(nvmlDeviceGetActiveVgpus) \
    X(nvmlDeviceGetAutoBoostedClocksEnabled) X(nvmlDeviceGetBridgeChipInfo) \
    X(nvmlDeviceGetC2cModeInfoV) X(nvmlDeviceGetCapabilities) X(nvmlDeviceGetClkMonStatus) \
    X(nvmlDeviceGetClockOffsets) X(nvmlDeviceGetConfComputeGpuAttestationReport) \
    X(nvmlDeviceGetConfComputeGpuCertificate) X(nvmlDeviceGetConfComputeMemSizeInfo) \
    X(nvmlDeviceGetConfComputeProtectedMemoryUsage) X(nvmlDeviceGetCoolerInfo) \
    X(nvmlDeviceGetCpuAffinityWithinScope) X(nvmlDeviceGetCreatableVgpus) \
    X(nvmlDeviceGetCurrentClockFreqs) X(nvmlDeviceGetDetailedEccErrors) \
    X(nvmlDeviceGetDramEncryptionMode) X(nvmlDeviceGetDriverModel) \
    X(nvmlDeviceGetDynamicPstatesInfo) X(nvmlDeviceGetFanControlPolicy_v2) \
    X(nvmlDeviceGetGpcClkMinMaxVfOffset) X(nvmlDeviceGetGpcClkVfOffset) \
    X(nvmlDeviceGetGpuFabricInfo) X(nvmlDeviceGetGpuInstancePossiblePlacements_v2) \
    X(nvmlDeviceGetGpuInstanceRemainingCapacity) X(nvmlDeviceGetGpuInstances) \
    X(nvmlDeviceGetGpuOperationMode) X(nvmlDeviceGetGridLicensableFeatures_v4) \
    X(nvmlDeviceGetHostVgpuMode) X(nvmlDeviceGetInforomConfigurationChecksum) \
    X(nvmlDeviceGetLastBBXFlushTime) X(nvmlDeviceGetMemClkMinMaxVfOffset) \
    X(nvmlDeviceGetMemClkVfOffset) X(nvmlDeviceGetMemoryAffinity) \
    X(nvmlDeviceGetMinMaxClockOfPState) X(nvmlDeviceGetMinMaxFanSpeed) \
    X(nvmlDeviceGetNvLinkCapability) X(nvmlDeviceGetNvLinkRemoteDeviceType) \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2) X(nvmlDeviceGetNvLinkUtilizationControl) \
    X(nvmlDeviceGetNvLinkUtilizationCounter) X(nvmlDeviceGetNvlinkBwMode) \
    X(nvmlDeviceGetNvlinkSupportedBwModes) X(nvmlDeviceGetPciInfoExt) \
    X(nvmlDeviceGetPerformanceModes) X(nvmlDeviceGetPgpuMetadataString) \
    X(nvmlDeviceGetPlatformInfo) X(nvmlDeviceGetSupportedVgpus) X(nvmlDeviceGetTargetFanSpeed) \
    X(nvmlDeviceGetThermalSettings) X(nvmlDeviceGetTopologyNearestGpus) \
    X(nvmlDeviceGetVgpuCapabilities) X(nvmlDeviceGetVgpuHeterogeneousMode) \
    X(nvmlDeviceGetVgpuInstancesUtilizationInfo) X(nvmlDeviceGetVgpuMetadata) \
    X(nvmlDeviceGetVgpuProcessUtilization) X(nvmlDeviceGetVgpuProcessesUtilizationInfo) \
    X(nvmlDeviceGetVgpuSchedulerCapabilities) X(nvmlDeviceGetVgpuSchedulerLog) \
    X(nvmlDeviceGetVgpuSchedulerState) X(nvmlDeviceGetVgpuTypeCreatablePlacements) \
    X(nvmlDeviceGetVgpuTypeSupportedPlacements) X(nvmlDeviceGetVgpuUtilization) \
    X(nvmlDevicePowerSmoothingActivatePresetProfile) X(nvmlDevicePowerSmoothingSetState) \
    X(nvmlDevicePowerSmoothingUpdatePresetProfileParam) X(nvmlDeviceResetApplicationsClocks) \
    X(nvmlDeviceResetGpuLockedClocks) X(nvmlDeviceResetMemoryLockedClocks) \
    X(nvmlDeviceResetNvLinkErrorCounters) X(nvmlDeviceResetNvLinkUtilizationCounter) \
    X(nvmlDeviceSetAPIRestriction) X(nvmlDeviceSetAccountingMode) \
    X(nvmlDeviceSetApplicationsClocks) X(nvmlDeviceSetAutoBoostedClocksEnabled) \
    X(nvmlDeviceSetClockOffsets) X(nvmlDeviceSetComputeMode) \
    X(nvmlDeviceSetConfComputeUnprotectedMemSize) X(nvmlDeviceSetCpuAffinity) \
    X(nvmlDeviceSetDefaultAutoBoostedClocksEnabled) X(nvmlDeviceSetDefaultFanSpeed_v2) \
    X(nvmlDeviceSetDramEncryptionMode) X(nvmlDeviceSetDriverModel) X(nvmlDeviceSetEccMode) \
    X(nvmlDeviceSetFanControlPolicy) X(nvmlDeviceSetFanSpeed_v2) X(nvmlDeviceSetGpcClkVfOffset) \
    X(nvmlDeviceSetGpuLockedClocks) X(nvmlDeviceSetGpuOperationMode) \
    X(nvmlDeviceSetMemClkVfOffset) X(nvmlDeviceSetMemoryLockedClocks) X(nvmlDeviceSetMigMode) \
    X(nvmlDeviceSetNvLinkDeviceLowPowerThreshold) X(nvmlDeviceSetNvLinkUtilizationControl) \
    X(nvmlDeviceSetNvlinkBwMode) X(nvmlDeviceSetPersistenceMode) \
    X(nvmlDeviceSetPowerManagementLimit) X(nvmlDeviceSetPowerManagementLimit_v2) \
    X(nvmlDeviceSetTemperatureThreshold) X(nvmlDeviceSetVgpuCapabilities) \
    X(nvmlDeviceSetVgpuHeterogeneousMode) X(nvmlDeviceSetVgpuSchedulerState) \
    X(nvmlDeviceSetVirtualizationMode) X(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles) \
    X(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles) \
    X(nvmlDeviceWorkloadPowerProfileGetProfilesInfo) \
    X(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles)

// Functions of the system, of units, vGPUs and GPU instances. No handle of them is ever given out.
#define NVML_UNSUPPORTED_OF_SYSTEM(X) \
    X(nvmlComputeInstanceDestroy) X(nvmlDeviceDiscoverGpus) X(nvmlDeviceGetHandleBySerial) \
    X(nvmlDeviceModifyDrainState) X(nvmlDeviceQueryDrainState) X(nvmlDeviceRemoveGpu) \
    X(nvmlGetExcludedDeviceInfoByIndex) X(nvmlGetVgpuCompatibility) \
    X(nvmlGetVgpuDriverCapabilities) X(nvmlGetVgpuVersion) X(nvmlGpmSetStreamingEnabled) \
    X(nvmlGpuInstanceCreateComputeInstance) X(nvmlGpuInstanceCreateComputeInstanceWithPlacement) \
    X(nvmlGpuInstanceDestroy) X(nvmlGpuInstanceGetComputeInstancePossiblePlacements) \
    X(nvmlGpuInstanceGetComputeInstanceProfileInfo) \
    X(nvmlGpuInstanceGetComputeInstanceProfileInfoV) \
    X(nvmlGpuInstanceGetComputeInstanceRemainingCapacity) X(nvmlGpuInstanceGetComputeInstances) \
    X(nvmlSetVgpuVersion) X(nvmlSystemGetConfComputeCapabilities) \
    X(nvmlSystemGetConfComputeGpusReadyState) X(nvmlSystemGetConfComputeKeyRotationThresholdInfo) \
    X(nvmlSystemGetConfComputeSettings) X(nvmlSystemGetConfComputeState) \
    X(nvmlSystemGetNvlinkBwMode) X(nvmlSystemGetTopologyGpuSet) \
    X(nvmlSystemSetConfComputeGpusReadyState) X(nvmlSystemSetConfComputeKeyRotationThresholdInfo) \
    X(nvmlSystemSetNvlinkBwMode) X(nvmlUnitGetDevices) X(nvmlUnitGetFanSpeedInfo) \
    X(nvmlUnitGetHandleByIndex) X(nvmlUnitGetLedState) X(nvmlUnitGetPsuInfo) \
    X(nvmlUnitGetTemperature) X(nvmlUnitGetUnitInfo) X(nvmlUnitSetLedState) \
    X(nvmlVgpuInstanceClearAccountingPids) X(nvmlVgpuInstanceGetAccountingMode) \
    X(nvmlVgpuInstanceGetAccountingPids) X(nvmlVgpuInstanceGetAccountingStats) \
    X(nvmlVgpuInstanceGetEccMode) X(nvmlVgpuInstanceGetEncoderCapacity) \
    X(nvmlVgpuInstanceGetEncoderSessions) X(nvmlVgpuInstanceGetEncoderStats) \
    X(nvmlVgpuInstanceGetFBCSessions) X(nvmlVgpuInstanceGetFBCStats) X(nvmlVgpuInstanceGetFbUsage) \
    X(nvmlVgpuInstanceGetFrameRateLimit) X(nvmlVgpuInstanceGetGpuInstanceId) \
    X(nvmlVgpuInstanceGetGpuPciId) X(nvmlVgpuInstanceGetLicenseInfo_v2) \
    X(nvmlVgpuInstanceGetLicenseStatus) X(nvmlVgpuInstanceGetMdevUUID) \
    X(nvmlVgpuInstanceGetMetadata) X(nvmlVgpuInstanceGetPlacementId) \
    X(nvmlVgpuInstanceGetRuntimeStateSize) X(nvmlVgpuInstanceGetType) X(nvmlVgpuInstanceGetUUID) \
    X(nvmlVgpuInstanceGetVmDriverVersion) X(nvmlVgpuInstanceGetVmID) \
    X(nvmlVgpuInstanceSetEncoderCapacity) X(nvmlVgpuTypeGetBAR1Info) \
    X(nvmlVgpuTypeGetCapabilities) X(nvmlVgpuTypeGetClass) X(nvmlVgpuTypeGetDeviceID) \
    X(nvmlVgpuTypeGetFbReservation) X(nvmlVgpuTypeGetFrameRateLimit) \
    X(nvmlVgpuTypeGetFramebufferSize) X(nvmlVgpuTypeGetGpuInstanceProfileId) \
    X(nvmlVgpuTypeGetGspHeapSize) X(nvmlVgpuTypeGetLicense) X(nvmlVgpuTypeGetMaxInstances) \
    X(nvmlVgpuTypeGetMaxInstancesPerVm) X(nvmlVgpuTypeGetName) X(nvmlVgpuTypeGetNumDisplayHeads) \
    X(nvmlVgpuTypeGetResolution)
// clang-format on
