// SPDX-License-Identifier: Apache-2.0
// Parts of the reader process: the functions of libdcgm, and a connection with everything that was
// created in its engine. One thread; each call may hang, which the parent notices.
#pragma once

#include "dcgm_source/shared.h"

// --- library ---

struct dcgm_library {
    dcgm_init_fn *init;
    dcgm_start_embedded_fn *start_embedded;
    dcgm_start_embedded_v2_fn *start_embedded_v2;
    dcgm_stop_embedded_fn *stop_embedded;
    dcgm_connect_v2_fn *connect;
    dcgm_disconnect_fn *disconnect;
    dcgm_version_info_fn *version;
    dcgm_engine_version_fn *engine_version;
    dcgm_all_devices_fn *all_devices;
    dcgm_device_attributes_fn *attributes;
    dcgm_entities_fn *entities;
    dcgm_mig_hierarchy_fn *mig_hierarchy;
    dcgm_link_status_fn *link_status;
    dcgm_cpu_hierarchy_fn *cpu_hierarchy;
    dcgm_group_create_fn *group_create;
    dcgm_group_add_entity_fn *group_add;
    dcgm_group_destroy_fn *group_destroy;
    dcgm_field_group_create_fn *field_group_create;
    dcgm_field_group_destroy_fn *field_group_destroy;
    dcgm_watch_fn *watch;
    dcgm_unwatch_fn *unwatch;
    dcgm_read_fn *read;
    dcgm_metric_groups_fn *metric_groups;
    dcgm_field_by_id_fn *field_by_id;
    bool simulated;
};

// Loads the library at the path, or that of the default names if it is NULL, and initializes it.
struct gs_error *dcgm_reader_load(const char *path, struct dcgm_library *ret);
// "4.5.3" of "version:4.5.3;arch:…"; "" if it is not there.
void dcgm_reader_parse_version(const char *raw, char ret[static 32]);

// --- entities ---

// What the engine knows of the entities that the plan needs.
struct dcgm_reader_entities {
    struct dcgm_entity items[DCGM_SOURCE_MAX_ENTITIES]; // parents first
    uint32_t len;
};

struct dcgm_reader {
    struct dcgm_source_shared *shared;
    struct dcgm_library lib;
    dcgm_handle handle;
    bool is_open;
    struct dcgm_source_report report;
    struct dcgm_reader_entities entities;
    struct dcgm_reader_watch *watches;
    size_t n_watches;
    struct dcgm_value_v2 *values; // of one read
    int64_t next_discovery_ns, next_prof_ns;
    uint32_t renewals;
};

// "dcgmWatchFields: another process owns the profiling counters (-37)".
void dcgm_reader_describe(const struct dcgm_reader *r, const char *call, int code, char *ret,
                          size_t size);
// Whether a code means that the connection cannot be used any more.
bool dcgm_reader_is_fatal(int code);
// Progress for the parent; before and after each call that may take long.
void dcgm_reader_beat(const struct dcgm_reader *r);
int64_t dcgm_reader_first_pause_ns(const struct dcgm_reader *r); // after a failure: 1 s
// DCGM_OK, or the code of a call that the rest depends on. Entities that the engine does not have
// are absent.
int dcgm_reader_discover(const struct dcgm_reader *r, struct dcgm_reader_entities *ret);

// --- watches ---

// Entities and fields that are watched and read together.
struct dcgm_reader_watch {
    bool prof, watched;
    dcgm_group group;
    dcgm_field_group field_group;
    bool has_group, has_field_group;
    uint32_t *entities; // indices in dcgm_reader.entities
    uint32_t n_entities;
    uint16_t fields[DCGM_MAX_GROUP_FIELDS];
    uint32_t n_fields;
};

// Creates groups and watches for the plan. DCGM_OK also if the profiling fields are refused, which
// the report then says.
int dcgm_reader_watch_all(struct dcgm_reader *r);
// Tries again to watch what was refused; renew: also unwatches the profiling fields before.
int dcgm_reader_watch_profiling(struct dcgm_reader *r, bool renew);
void dcgm_reader_unwatch_all(struct dcgm_reader *r);

// --- reads ---

// Reads all watches into the shared memory. Not DCGM_OK: the connection cannot be used.
int dcgm_reader_read_all(struct dcgm_reader *r);
