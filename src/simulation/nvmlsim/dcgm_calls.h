// SPDX-License-Identifier: Apache-2.0
// The calls of the simulated DCGM (src/simulation/dcgmsim): all return enum dcgm_code. The list
// declares them, finds them in a loaded library, and names those that can fail, hang or crash.
#pragma once

#include "dcgm/abi.h"

#define DCGM_CODE_LEAST (-60) // codes are below 0 and not below this

// What the engine's process uses. Only the simulated library and its callers know these.
struct dcgm_engine_memory {
    uint32_t version;
    int64_t bytes;
};
#define DCGM_ENGINE_MEMORY DCGM_VERSION_WORD(struct dcgm_engine_memory, 1)
static_assert(DCGM_ENGINE_MEMORY == 0x01000010, "layout of libdcgm");
struct dcgm_engine_cpu { // parts of one CPU
    uint32_t version;
    double total, kernel, user;
};
#define DCGM_ENGINE_CPU DCGM_VERSION_WORD(struct dcgm_engine_cpu, 1)
static_assert(DCGM_ENGINE_CPU == 0x01000020, "layout of libdcgm");

// clang-format off
#define DCGM_CALLS(X)                                                                              \
    X(dcgmInit, (void))                                                                            \
    X(dcgmShutdown, (void))                                                                        \
    X(dcgmStartEmbedded, (int mode, dcgm_handle *ret))                                             \
    X(dcgmStartEmbedded_v2, (struct dcgm_start_embedded *p))                                       \
    X(dcgmStopEmbedded, (dcgm_handle h))                                                           \
    X(dcgmConnect_v2, (const char *address, struct dcgm_connect_v2 *p, dcgm_handle *ret))          \
    X(dcgmConnect_v3, (const char *address, struct dcgm_connect_v3 *p, dcgm_handle *ret))          \
    X(dcgmDisconnect, (dcgm_handle h))                                                             \
    X(dcgmVersionInfo, (struct dcgm_version_info *ret))                                            \
    X(dcgmHostengineVersionInfo, (dcgm_handle h, struct dcgm_version_info *ret))                   \
    X(dcgmHostengineIsHealthy, (dcgm_handle h, struct dcgm_engine_health *ret))                    \
    X(dcgmGetAllDevices, (dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n))             \
    X(dcgmGetAllSupportedDevices, (dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n))    \
    X(dcgmGetGpuStatus, (dcgm_handle h, uint32_t gpu, int *ret))                                   \
    X(dcgmGetDeviceAttributes, (dcgm_handle h, uint32_t gpu, struct dcgm_attributes *ret))         \
    X(dcgmGetDeviceTopology, (dcgm_handle h, uint32_t gpu, void *ret))                             \
    X(dcgmGetEntityGroupEntities,                                                                  \
      (dcgm_handle h, uint32_t group, uint32_t *ret_ids, int *n, uint32_t flags))                  \
    X(dcgmGetGpuInstanceHierarchy, (dcgm_handle h, struct dcgm_mig_hierarchy *ret))                \
    X(dcgmGetNvLinkLinkStatus, (dcgm_handle h, void *ret))                                         \
    X(dcgmGetNvLinkP2PStatus, (dcgm_handle h, struct dcgm_p2p_status *ret))                        \
    X(dcgmGetCpuHierarchy, (dcgm_handle h, struct dcgm_cpu_hierarchy_v1 *ret))                     \
    X(dcgmGetCpuHierarchy_v2, (dcgm_handle h, struct dcgm_cpu_hierarchy_v2 *ret))                  \
    X(dcgmGroupCreate, (dcgm_handle h, uint32_t type, const char *name, dcgm_group *ret))          \
    X(dcgmGroupDestroy, (dcgm_handle h, dcgm_group g))                                             \
    X(dcgmGroupAddDevice, (dcgm_handle h, dcgm_group g, uint32_t gpu))                             \
    X(dcgmGroupAddEntity, (dcgm_handle h, dcgm_group g, uint32_t group, uint32_t id))              \
    X(dcgmGroupGetInfo, (dcgm_handle h, dcgm_group g, void *ret))                                  \
    X(dcgmFieldGroupCreate,                                                                        \
      (dcgm_handle h, int n, const uint16_t *ids, const char *name, dcgm_field_group *ret))        \
    X(dcgmFieldGroupDestroy, (dcgm_handle h, dcgm_field_group f))                                  \
    X(dcgmWatchFields, (dcgm_handle h, dcgm_group g, dcgm_field_group f, long long interval_us,    \
                        double keep_s, int keep_samples))                                          \
    X(dcgmUnwatchFields, (dcgm_handle h, dcgm_group g, dcgm_field_group f))                        \
    X(dcgmUpdateAllFields, (dcgm_handle h, int wait))                                              \
    X(dcgmEntityGetLatestValues, (dcgm_handle h, uint32_t group, int id, uint16_t *fields,         \
                                  uint32_t n, struct dcgm_value_v1 *ret))                          \
    X(dcgmEntitiesGetLatestValues, (dcgm_handle h, struct dcgm_entity_pair *entities,              \
                                    uint32_t n_entities, uint16_t *fields, uint32_t n_fields,      \
                                    uint32_t flags, struct dcgm_value_v2 *ret))                    \
    X(dcgmGetLatestValuesForFields,                                                                \
      (dcgm_handle h, int gpu, uint16_t *fields, uint32_t n, struct dcgm_value_v1 *ret))           \
    X(dcgmGetLatestValues_v2,                                                                      \
      (dcgm_handle h, dcgm_group g, dcgm_field_group f, dcgm_values_fn *fn, void *arg))            \
    X(dcgmGetValuesSince_v2, (dcgm_handle h, dcgm_group g, dcgm_field_group f, long long since_us, \
                              long long *ret_next, dcgm_values_fn *fn, void *arg))                 \
    X(dcgmProfGetSupportedMetricGroups, (dcgm_handle h, struct dcgm_metric_groups *ret))           \
    X(dcgmProfPause, (dcgm_handle h))                                                              \
    X(dcgmProfResume, (dcgm_handle h))                                                             \
    X(dcgmHealthSet, (dcgm_handle h, dcgm_group g, uint32_t mask))                                 \
    X(dcgmHealthGet, (dcgm_handle h, dcgm_group g, uint32_t *ret))                                 \
    X(dcgmHealthCheck, (dcgm_handle h, dcgm_group g, struct dcgm_health_v5 *ret))                  \
    X(dcgmIntrospectGetHostengineMemoryUsage, (dcgm_handle h, struct dcgm_engine_memory *ret,      \
                                               int wait))                                          \
    X(dcgmIntrospectGetHostengineCpuUtilization, (dcgm_handle h, struct dcgm_engine_cpu *ret,      \
                                                  int wait))
// clang-format on
