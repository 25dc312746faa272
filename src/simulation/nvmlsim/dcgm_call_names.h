// SPDX-License-Identifier: Apache-2.0
// The calls of the simulated DCGM that can fail, hang or crash, for the check of `gpuscale sim
// fail`.
#pragma once

#define DCGM_CODE_LEAST (-60) // codes are below 0 and not below this

#define DCGM_CALL_NAMES(X)                                                                         \
    X(dcgmInit)                                                                                    \
    X(dcgmShutdown)                                                                                \
    X(dcgmStartEmbedded)                                                                           \
    X(dcgmStartEmbedded_v2)                                                                        \
    X(dcgmStopEmbedded)                                                                            \
    X(dcgmConnect_v2)                                                                              \
    X(dcgmConnect_v3)                                                                              \
    X(dcgmDisconnect)                                                                              \
    X(dcgmVersionInfo)                                                                             \
    X(dcgmHostengineVersionInfo)                                                                   \
    X(dcgmHostengineIsHealthy)                                                                     \
    X(dcgmGetAllDevices)                                                                           \
    X(dcgmGetAllSupportedDevices)                                                                  \
    X(dcgmGetGpuStatus)                                                                            \
    X(dcgmGetDeviceAttributes)                                                                     \
    X(dcgmGetEntityGroupEntities)                                                                  \
    X(dcgmGetGpuInstanceHierarchy)                                                                 \
    X(dcgmGetNvLinkLinkStatus)                                                                     \
    X(dcgmGetNvLinkP2PStatus)                                                                      \
    X(dcgmGetCpuHierarchy)                                                                         \
    X(dcgmGetCpuHierarchy_v2)                                                                      \
    X(dcgmGetDeviceTopology)                                                                       \
    X(dcgmGroupCreate)                                                                             \
    X(dcgmGroupDestroy)                                                                            \
    X(dcgmGroupAddDevice)                                                                          \
    X(dcgmGroupAddEntity)                                                                          \
    X(dcgmGroupGetInfo)                                                                            \
    X(dcgmFieldGroupCreate)                                                                        \
    X(dcgmFieldGroupDestroy)                                                                       \
    X(dcgmWatchFields)                                                                             \
    X(dcgmUnwatchFields)                                                                           \
    X(dcgmUpdateAllFields)                                                                         \
    X(dcgmEntityGetLatestValues)                                                                   \
    X(dcgmEntitiesGetLatestValues)                                                                 \
    X(dcgmGetLatestValuesForFields)                                                                \
    X(dcgmGetLatestValues_v2)                                                                      \
    X(dcgmGetValuesSince_v2)                                                                       \
    X(dcgmProfGetSupportedMetricGroups)                                                            \
    X(dcgmProfPause)                                                                               \
    X(dcgmProfResume)                                                                              \
    X(dcgmHealthSet)                                                                               \
    X(dcgmHealthGet)                                                                               \
    X(dcgmHealthCheck)                                                                             \
    X(dcgmIntrospectGetHostengineMemoryUsage)                                                      \
    X(dcgmIntrospectGetHostengineCpuUtilization)
