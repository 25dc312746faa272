// SPDX-License-Identifier: Apache-2.0
// The binary interface of libdcgm, as our own declarations: layouts are the same from DCGM 3.1.7 to
// 4.6.1 unless stated otherwise, and the assertions hold them. Nothing here loads or calls the
// library.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

// First word of each versioned structure.
#define DCGM_VERSION_WORD(type, version) ((uint32_t)sizeof(type) | (uint32_t)(version) << 24)

typedef uintptr_t dcgm_handle;
typedef uintptr_t dcgm_group;
typedef uintptr_t dcgm_field_group;

// Limits of the library. A field ID must be less than DCGM_FI_MAX_FIELDS of the loaded release,
// which has no query: DcgmFieldGetById returns NULL for an unknown ID.
enum {
    DCGM_MAX_GPUS = 32,
    DCGM_MAX_SWITCHES = 12,
    DCGM_MAX_CPUS = 8,
    DCGM_MAX_CORES = 1024,
    DCGM_MAX_HIERARCHY = 448,     // rows of dcgm_mig_hierarchy
    DCGM_MAX_GROUP_FIELDS = 128,  // fields of one field group, and of one read
    DCGM_MAX_READ_ENTITIES = 1024 // entities of one read; 64 before 4.0
};

// Return codes, and the status of a value.
enum dcgm_code {
    DCGM_OK = 0,
    DCGM_BAD_PARAMETER = -1,
    DCGM_GENERIC = -3,
    DCGM_NOT_CONFIGURED = -5,
    DCGM_NOT_SUPPORTED = -6,
    DCGM_INIT_ERROR = -7,
    DCGM_NVML_ERROR = -8,
    DCGM_PENDING = -9,
    DCGM_UNINITIALIZED = -10,
    DCGM_TIMEOUT = -11,
    DCGM_VERSION_MISMATCH = -12,
    DCGM_UNKNOWN_FIELD = -13,
    DCGM_NO_DATA = -14,
    DCGM_STALE_DATA = -15,
    DCGM_NOT_WATCHED = -16,
    DCGM_NO_PERMISSION = -17,
    DCGM_GPU_LOST = -18,
    DCGM_RESET_REQUIRED = -19,
    DCGM_CONNECTION_LOST = -21,
    DCGM_GPU_NOT_SUPPORTED = -22,
    DCGM_LIMIT = -24,
    DCGM_LIBRARY_NOT_FOUND = -25,
    DCGM_DUPLICATE = -26,
    DCGM_REQUIRES_ROOT = -29,
    DCGM_MODULE_NOT_LOADED = -33,
    DCGM_IN_USE = -34,
    DCGM_EMPTY_GROUP = -35,
    DCGM_PROFILING_NOT_SUPPORTED = -36,
    DCGM_PROFILING_FAILED = -37, // usually: another process owns the counters
    DCGM_PROFILING_MULTI_PASS = -38,
    DCGM_DRIVER_TOO_OLD = -44,
    DCGM_INSTANCE_NOT_FOUND = -45,
    DCGM_COMPUTE_INSTANCE_NOT_FOUND = -46,
    DCGM_INSUFFICIENT_RESOURCES = -49,
    DCGM_PAUSED = -54,
    DCGM_NVML_NOT_LOADED = -56
};

// Kinds of entities, and the kinds of groups that dcgmGroupCreate makes.
enum dcgm_entity_group {
    DCGM_ENTITY_NONE, // global fields
    DCGM_ENTITY_GPU,
    DCGM_ENTITY_VGPU,
    DCGM_ENTITY_SWITCH,
    DCGM_ENTITY_GPU_I,
    DCGM_ENTITY_GPU_CI,
    DCGM_ENTITY_LINK,
    DCGM_ENTITY_CPU,
    DCGM_ENTITY_CPU_CORE,
    DCGM_ENTITY_CONNECTX,
    DCGM_ENTITY_GROUPS
};
enum dcgm_group_type {
    DCGM_GROUP_ALL_GPUS,
    DCGM_GROUP_EMPTY,
    DCGM_GROUP_SWITCHES,
    DCGM_GROUP_GPU_INSTANCES,
    DCGM_GROUP_COMPUTE_INSTANCES,
    DCGM_GROUP_ENTITIES
};

// The library's modules, for deny lists and statuses.
enum dcgm_module {
    DCGM_MODULE_CORE,
    DCGM_MODULE_NVSWITCH,
    DCGM_MODULE_VGPU,
    DCGM_MODULE_INTROSPECT,
    DCGM_MODULE_HEALTH,
    DCGM_MODULE_POLICY,
    DCGM_MODULE_CONFIG,
    DCGM_MODULE_DIAG,
    DCGM_MODULE_PROFILING,
    DCGM_MODULE_SYSMON,
    DCGM_MODULE_MNDIAG,
    DCGM_MODULES
};

enum { DCGM_MODE_AUTO = 1, DCGM_MODE_MANUAL = 2 }; // dcgmStartEmbedded
enum {
    DCGM_READ_LIVE = 1,      // flag of reads: ask the driver instead of the cache
    DCGM_ONLY_SUPPORTED = 1, // flag of dcgmGetEntityGroupEntities
};

// Types of values, in dcgm_value.type.
enum {
    DCGM_TYPE_BLOB = 'b',
    DCGM_TYPE_DOUBLE = 'd',
    DCGM_TYPE_INT64 = 'i',
    DCGM_TYPE_TEXT = 's',
    DCGM_TYPE_TIME = 't' // int64: microseconds since 1970
};

// The four values that stand for "no value", in this order: none yet or paused, not found, not
// supported, no permission. Each is the first one plus 0 to 3.
#define DCGM_BLANK_INT32              INT64_C(0x7ffffff0)
#define DCGM_BLANK_INT64              INT64_C(0x7ffffffffffffff0)
#define DCGM_BLANK_DOUBLE             140737488355328.0
#define DCGM_BLANK_TEXT_NONE          "<<<NULL>>>"
#define DCGM_BLANK_TEXT_NOT_FOUND     "<<<NOT_FOUND>>>"
#define DCGM_BLANK_TEXT_NOT_SUPPORTED "<<<NOT_SUPPORTED>>>"
#define DCGM_BLANK_TEXT_NO_PERMISSION "<<<NOT_PERM>>>"

struct dcgm_entity_pair {
    uint32_t group; // enum dcgm_entity_group
    uint32_t id;
};
static_assert(sizeof(struct dcgm_entity_pair) == 8, "layout of libdcgm");

// The ID of an entity LINK: byte 0 is the group of its parent (GPU or SWITCH), bytes 1 and 2 the
// port index from 0, byte 3 the ID of the parent.
#define DCGM_LINK_ID(parent_group, port, parent)                                                   \
    ((uint32_t)(parent_group) | (uint32_t)(port) << 8 | (uint32_t)(parent) << 24)
#define DCGM_LINK_PARENT_GROUP(id) ((id)&0xff)
#define DCGM_LINK_PORT(id)         ((id) >> 8 & 0xffff)
#define DCGM_LINK_PARENT(id)       ((id) >> 24)

union dcgm_value_data {
    int64_t i64;
    double dbl;
    char str[256];
    char blob[4096];
};
struct dcgm_value_v1 {
    uint32_t version;
    uint16_t field_id, field_type;
    int32_t status; // enum dcgm_code
    int64_t ts;     // microseconds since 1970
    union dcgm_value_data value;
};
#define DCGM_VALUE_V1 DCGM_VERSION_WORD(struct dcgm_value_v1, 1)
static_assert(DCGM_VALUE_V1 == 0x01001018, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v1, ts) == 16, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v1, value) == 24, "layout of libdcgm");

struct dcgm_value_v2 {
    uint32_t version;
    uint32_t entity_group, entity_id;
    uint16_t field_id, field_type;
    int32_t status;
    uint32_t unused;
    int64_t ts;
    union dcgm_value_data value;
};
#define DCGM_VALUE_V2 DCGM_VERSION_WORD(struct dcgm_value_v2, 2)
static_assert(DCGM_VALUE_V2 == 0x02001020, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v2, field_id) == 12, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v2, status) == 16, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v2, ts) == 24, "layout of libdcgm");
static_assert(offsetof(struct dcgm_value_v2, value) == 32, "layout of libdcgm");

struct dcgm_field_format {
    char short_name[10];
    char unit[4];
    int16_t width;
};
static_assert(sizeof(struct dcgm_field_format) == 16, "layout of libdcgm");
struct dcgm_field_meta {
    uint16_t field_id;
    char field_type;
    unsigned char size; // bytes; 255 at most, even where the value is larger
    char tag[48];
    int32_t scope;         // 0: global, 1: entity, 2: device (the same number)
    int32_t nvml_field_id; // 0: none
    int32_t entity_level;  // enum dcgm_entity_group
    const struct dcgm_field_format *format;
};
static_assert(sizeof(struct dcgm_field_meta) == 72, "layout of libdcgm");
static_assert(offsetof(struct dcgm_field_meta, scope) == 52, "layout of libdcgm");
static_assert(offsetof(struct dcgm_field_meta, entity_level) == 60, "layout of libdcgm");

struct dcgm_connect_v2 {
    uint32_t version;
    uint32_t persist_after_disconnect;
    uint32_t timeout_ms; // 0: 5000
    uint32_t is_unix_socket;
};
#define DCGM_CONNECT_V2 DCGM_VERSION_WORD(struct dcgm_connect_v2, 2)
static_assert(DCGM_CONNECT_V2 == 0x02000010, "layout of libdcgm");

struct dcgm_connect_v3 { // 4.5 and newer
    uint32_t version;
    uint32_t persist_after_disconnect;
    uint32_t timeout_ms;
};
#define DCGM_CONNECT_V3 DCGM_VERSION_WORD(struct dcgm_connect_v3, 1)
static_assert(DCGM_CONNECT_V3 == 0x0100000c, "layout of libdcgm");

struct dcgm_start_embedded { // of dcgmStartEmbedded_v2, version 1
    uint32_t version;
    int32_t mode;
    dcgm_handle handle; // output
    const char *log_file;
    int32_t severity;
    uint32_t n_denied;
    uint32_t denied[10]; // enum dcgm_module
};
#define DCGM_START_EMBEDDED DCGM_VERSION_WORD(struct dcgm_start_embedded, 1)
static_assert(DCGM_START_EMBEDDED == 0x01000048, "layout of libdcgm");
static_assert(offsetof(struct dcgm_start_embedded, denied) == 32, "layout of libdcgm");

struct dcgm_version_info {
    uint32_t version;
    char raw[512]; // "version:4.5.3;arch:x86_64;…"
};
#define DCGM_VERSION_INFO DCGM_VERSION_WORD(struct dcgm_version_info, 2)
static_assert(DCGM_VERSION_INFO == 0x02000204, "layout of libdcgm");

struct dcgm_engine_health {
    uint32_t version;
    int32_t overall; // 0: healthy
};
#define DCGM_ENGINE_HEALTH DCGM_VERSION_WORD(struct dcgm_engine_health, 1)
static_assert(DCGM_ENGINE_HEALTH == 0x01000008, "layout of libdcgm");

struct dcgm_clock_set {
    uint32_t version, memory_mhz, sm_mhz;
};
struct dcgm_clock_sets {
    uint32_t version, count;
    struct dcgm_clock_set sets[256];
};
struct dcgm_thermals {
    uint32_t version, slowdown, shutdown; // degrees Celsius
};
struct dcgm_power_limits { // watts
    uint32_t version, current, standard, enforced, minimum, maximum;
};
struct dcgm_identifiers {
    uint32_t version;
    char brand[256], name[256];
    char pci_bus_id[256]; // "00000000:10:00.0"
    char serial[256], uuid[256], vbios[256], inforom_image[256];
    uint32_t pci_device_id, pci_subsystem_id;
    char driver_version[256];
    uint32_t virtualization_mode;
};
struct dcgm_memory_usage { // MiB
    uint32_t version, bar1_total, fb_total, fb_used, fb_free;
};
struct dcgm_settings {
    uint32_t version, persistence_mode, mig_mode, confidential_compute;
};
struct dcgm_attributes {
    uint32_t version;
    struct dcgm_clock_sets clock_sets;
    struct dcgm_thermals thermals;
    struct dcgm_power_limits power_limits;
    struct dcgm_identifiers identifiers;
    struct dcgm_memory_usage memory;
    struct dcgm_settings settings;
};
#define DCGM_ATTRIBUTES DCGM_VERSION_WORD(struct dcgm_attributes, 3)
static_assert(DCGM_ATTRIBUTES == 0x03001464, "layout of libdcgm");
static_assert(sizeof(struct dcgm_identifiers) == 2064, "layout of libdcgm");
static_assert(offsetof(struct dcgm_identifiers, pci_bus_id) == 516, "layout of libdcgm");
static_assert(offsetof(struct dcgm_identifiers, uuid) == 1028, "layout of libdcgm");
static_assert(offsetof(struct dcgm_identifiers, driver_version) == 1804, "layout of libdcgm");
static_assert(offsetof(struct dcgm_attributes, thermals) == 3084, "layout of libdcgm");
static_assert(offsetof(struct dcgm_attributes, power_limits) == 3096, "layout of libdcgm");
static_assert(offsetof(struct dcgm_attributes, identifiers) == 3120, "layout of libdcgm");
static_assert(offsetof(struct dcgm_attributes, memory) == 5184, "layout of libdcgm");
static_assert(offsetof(struct dcgm_attributes, settings) == 5204, "layout of libdcgm");

struct dcgm_group_info_v2 { // before 4.0
    uint32_t version, count;
    char name[256];
    struct dcgm_entity_pair entities[64];
};
#define DCGM_GROUP_INFO_V2 DCGM_VERSION_WORD(struct dcgm_group_info_v2, 2)
static_assert(sizeof(struct dcgm_group_info_v2) == 776, "layout of libdcgm");
struct dcgm_group_info_v3 { // 4.0 and newer
    uint32_t version, count;
    char name[256];
    struct dcgm_entity_pair entities[1024];
};
#define DCGM_GROUP_INFO_V3 DCGM_VERSION_WORD(struct dcgm_group_info_v3, 3)
static_assert(DCGM_GROUP_INFO_V3 == 0x03002108, "layout of libdcgm");
static_assert(offsetof(struct dcgm_group_info_v3, entities) == 264, "layout of libdcgm");

struct dcgm_field_group_info {
    uint32_t version, count;
    uint64_t id;
    char name[256];
    uint16_t fields[DCGM_MAX_GROUP_FIELDS];
};
#define DCGM_FIELD_GROUP_INFO DCGM_VERSION_WORD(struct dcgm_field_group_info, 1)
static_assert(DCGM_FIELD_GROUP_INFO == 0x01000210, "layout of libdcgm");
static_assert(offsetof(struct dcgm_field_group_info, fields) == 272, "layout of libdcgm");

struct dcgm_mig_info {
    char gpu_uuid[128];
    uint32_t nvml_gpu_index, nvml_instance_id, nvml_compute_instance_id;
    uint32_t nvml_profile_id, nvml_profile_slices;
};
struct dcgm_mig_row {
    struct dcgm_entity_pair entity, parent;
    struct dcgm_mig_info info;
};
struct dcgm_mig_hierarchy {
    uint32_t version, count;
    struct dcgm_mig_row rows[DCGM_MAX_HIERARCHY];
};
#define DCGM_MIG_HIERARCHY DCGM_VERSION_WORD(struct dcgm_mig_hierarchy, 2)
static_assert(sizeof(struct dcgm_mig_info) == 148, "layout of libdcgm");
static_assert(sizeof(struct dcgm_mig_row) == 164, "layout of libdcgm");
static_assert(DCGM_MIG_HIERARCHY == 0x02011f08, "layout of libdcgm");

struct dcgm_metric_group {
    uint16_t major, minor; // groups with the same major share hardware
    uint32_t n_fields;
    uint16_t fields[64];
};
struct dcgm_metric_groups {
    uint32_t version, unused, gpu;
    uint32_t count;
    struct dcgm_metric_group groups[10];
};
#define DCGM_METRIC_GROUPS DCGM_VERSION_WORD(struct dcgm_metric_groups, 3)
static_assert(sizeof(struct dcgm_metric_group) == 136, "layout of libdcgm");
static_assert(DCGM_METRIC_GROUPS == 0x03000560, "layout of libdcgm");
static_assert(offsetof(struct dcgm_metric_groups, groups) == 16, "layout of libdcgm");

enum dcgm_link_state { DCGM_LINK_UNSUPPORTED, DCGM_LINK_DISABLED, DCGM_LINK_DOWN, DCGM_LINK_UP };
struct dcgm_switch_links {
    uint32_t id;
    uint32_t state[256]; // enum dcgm_link_state
};
struct dcgm_gpu_links_v3 {
    uint32_t id;
    uint32_t state[18];
};
struct dcgm_link_status_v4 { // 4.0 and newer
    uint32_t version, n_gpus;
    struct dcgm_gpu_links_v3 gpus[DCGM_MAX_GPUS];
    uint32_t n_switches;
    struct dcgm_switch_links switches[DCGM_MAX_SWITCHES];
};
#define DCGM_LINK_STATUS_V4 DCGM_VERSION_WORD(struct dcgm_link_status_v4, 4)
static_assert(DCGM_LINK_STATUS_V4 == 0x040039bc, "layout of libdcgm");
static_assert(offsetof(struct dcgm_link_status_v4, switches) == 2444, "layout of libdcgm");
struct dcgm_gpu_links_v4 {
    uint32_t id;
    uint32_t state[36];
};
struct dcgm_link_status_v5 { // 4.6 and newer
    uint32_t version, n_gpus;
    struct dcgm_gpu_links_v4 gpus[DCGM_MAX_GPUS];
    uint32_t n_switches;
    struct dcgm_switch_links switches[DCGM_MAX_SWITCHES];
};
#define DCGM_LINK_STATUS_V5 DCGM_VERSION_WORD(struct dcgm_link_status_v5, 5)
static_assert(DCGM_LINK_STATUS_V5 == 0x050042bc, "layout of libdcgm");
static_assert(offsetof(struct dcgm_link_status_v5, switches) == 4748, "layout of libdcgm");

struct dcgm_gpu_p2p {
    uint32_t id;
    uint32_t status[DCGM_MAX_GPUS];
};
struct dcgm_p2p_status {
    uint32_t version, n_gpus;
    struct dcgm_gpu_p2p gpus[DCGM_MAX_GPUS];
};
#define DCGM_P2P_STATUS DCGM_VERSION_WORD(struct dcgm_p2p_status, 1)
static_assert(DCGM_P2P_STATUS == 0x01001088, "layout of libdcgm");

struct dcgm_owned_cores {
    uint32_t version;
    uint64_t bitmask[16]; // by core number of the operating system
};
struct dcgm_cpu_v1 {
    uint32_t id;
    struct dcgm_owned_cores cores;
};
struct dcgm_cpu_hierarchy_v1 {
    uint32_t version, count;
    struct dcgm_cpu_v1 cpus[DCGM_MAX_CPUS];
};
#define DCGM_CPU_HIERARCHY_V1 DCGM_VERSION_WORD(struct dcgm_cpu_hierarchy_v1, 1)
static_assert(sizeof(struct dcgm_cpu_v1) == 144, "layout of libdcgm");
static_assert(DCGM_CPU_HIERARCHY_V1 == 0x01000488, "layout of libdcgm");
struct dcgm_cpu_v2 { // 4.0 and newer
    uint32_t id;
    struct dcgm_owned_cores cores;
    char serial[256];
};
struct dcgm_cpu_hierarchy_v2 {
    uint32_t version, count;
    struct dcgm_cpu_v2 cpus[DCGM_MAX_CPUS];
};
#define DCGM_CPU_HIERARCHY_V2 DCGM_VERSION_WORD(struct dcgm_cpu_hierarchy_v2, 2)
static_assert(DCGM_CPU_HIERARCHY_V2 == 0x02000c88, "layout of libdcgm");

struct dcgm_gpu_path {
    uint32_t gpu;
    uint32_t path; // bits of the connection
    uint32_t links;
};
struct dcgm_topology_v1 { // before 4.6; v2 has 824 bytes
    uint32_t version;
    uint64_t cpu_affinity[8];
    uint32_t n_gpus;
    struct dcgm_gpu_path paths[DCGM_MAX_GPUS - 1];
};
#define DCGM_TOPOLOGY_V1 DCGM_VERSION_WORD(struct dcgm_topology_v1, 1)
static_assert(DCGM_TOPOLOGY_V1 == 0x010001c0, "layout of libdcgm");
static_assert(offsetof(struct dcgm_topology_v1, paths) == 76, "layout of libdcgm");

struct dcgm_error_detail {
    char message[1024];
    uint32_t code;
};
struct dcgm_incident {
    uint32_t system; // one bit of the mask of dcgmHealthSet
    int32_t health;  // 0: pass, 10: warning, 20: failure
    struct dcgm_error_detail error;
    struct dcgm_entity_pair entity;
};
struct dcgm_health_v5 { // 4.0 and newer; 1 MB
    uint32_t version;
    int32_t overall;
    uint32_t count;
    struct dcgm_incident incidents[1024];
};
#define DCGM_HEALTH_V5 DCGM_VERSION_WORD(struct dcgm_health_v5, 5)
static_assert(sizeof(struct dcgm_incident) == 1044, "layout of libdcgm");
static_assert(DCGM_HEALTH_V5 == (0x0510500c), "layout of libdcgm");

struct dcgm_module_status {
    uint32_t id;
    int32_t status; // 0: not loaded, 1: denied, 2: failed, 3: loaded
};
struct dcgm_module_statuses {
    uint32_t version, count;
    struct dcgm_module_status statuses[16];
};
#define DCGM_MODULE_STATUSES DCGM_VERSION_WORD(struct dcgm_module_statuses, 1)
static_assert(DCGM_MODULE_STATUSES == 0x01000088, "layout of libdcgm");

// Receives values. Not 0: the library stops.
typedef int dcgm_values_fn(uint32_t entity_group, uint32_t entity_id, struct dcgm_value_v1 *values,
                           int n, void *arg);

// Types of the functions, named after the symbols. All return enum dcgm_code unless stated
// otherwise.
typedef int dcgm_init_fn(void);     // dcgmInit; also initializes the field table
typedef int dcgm_shutdown_fn(void); // dcgmShutdown
typedef int dcgm_start_embedded_fn(int mode, dcgm_handle *ret);
typedef int dcgm_start_embedded_v2_fn(struct dcgm_start_embedded *p);
typedef int dcgm_stop_embedded_fn(dcgm_handle h);
// May return DCGM_OK and a dead handle if the login fails: verify it with another call.
typedef int dcgm_connect_v2_fn(const char *address, struct dcgm_connect_v2 *p, dcgm_handle *ret);
typedef int dcgm_disconnect_fn(dcgm_handle h);
typedef int dcgm_version_info_fn(struct dcgm_version_info *ret); // of the library
typedef int dcgm_engine_version_fn(dcgm_handle h, struct dcgm_version_info *ret);
typedef int dcgm_all_devices_fn(dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n);
typedef int dcgm_device_attributes_fn(dcgm_handle h, uint32_t gpu, struct dcgm_attributes *ret);
typedef int dcgm_entities_fn(dcgm_handle h, uint32_t group, uint32_t *ret_ids, int *n,
                             uint32_t flags);
typedef int dcgm_mig_hierarchy_fn(dcgm_handle h, struct dcgm_mig_hierarchy *ret);
typedef int dcgm_link_status_fn(dcgm_handle h, void *ret); // version 5, 4 or 3
typedef int dcgm_cpu_hierarchy_fn(dcgm_handle h, struct dcgm_cpu_hierarchy_v1 *ret);
typedef int dcgm_group_create_fn(dcgm_handle h, uint32_t type, const char *name, dcgm_group *ret);
typedef int dcgm_group_add_entity_fn(dcgm_handle h, dcgm_group g, uint32_t entity_group,
                                     uint32_t id);
typedef int dcgm_group_destroy_fn(dcgm_handle h, dcgm_group g);
// One unknown ID fails the call with DCGM_BAD_PARAMETER.
typedef int dcgm_field_group_create_fn(dcgm_handle h, int n, const uint16_t *ids, const char *name,
                                       dcgm_field_group *ret);
typedef int dcgm_field_group_destroy_fn(dcgm_handle h, dcgm_field_group f);
typedef int dcgm_watch_fn(dcgm_handle h, dcgm_group g, dcgm_field_group f, long long interval_us,
                          double keep_s, int keep_samples);
typedef int dcgm_unwatch_fn(dcgm_handle h, dcgm_group g, dcgm_field_group f);
// Fills n_entities * n_fields values.
typedef int dcgm_read_fn(dcgm_handle h, struct dcgm_entity_pair *entities, uint32_t n_entities,
                         uint16_t *fields, uint32_t n_fields, uint32_t flags,
                         struct dcgm_value_v2 *ret);
typedef int dcgm_metric_groups_fn(dcgm_handle h, struct dcgm_metric_groups *ret);
typedef struct dcgm_field_meta *dcgm_field_by_id_fn(uint16_t id); // NULL: unknown
typedef const char *dcgm_error_string_fn(int code);
