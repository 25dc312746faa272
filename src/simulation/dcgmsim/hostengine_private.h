// SPDX-License-Identifier: Apache-2.0
// Inside the simulated host engine: the library behind it, and what a connection has made there.
#pragma once

#include "base/error.h"
#include "dcgm/wire.h"

// The calls of the library.
struct dcgmsim_calls {
    void *library;
    dcgm_init_fn *init;
    dcgm_shutdown_fn *shutdown;
    dcgm_connect_v2_fn *connect;
    dcgm_disconnect_fn *disconnect;
    dcgm_engine_version_fn *version;
    dcgm_all_devices_fn *devices, *supported_devices;
    dcgm_entities_fn *entities;
    dcgm_mig_hierarchy_fn *hierarchy;
    dcgm_metric_groups_fn *metric_groups;
    dcgm_link_status_fn *links;
    dcgm_cpu_hierarchy_fn *cpus;
    dcgm_group_create_fn *group_create;
    dcgm_group_add_entity_fn *group_add;
    dcgm_group_destroy_fn *group_destroy;
    dcgm_field_group_create_fn *field_group_create;
    dcgm_field_group_destroy_fn *field_group_destroy;
    dcgm_watch_fn *watch;
    dcgm_unwatch_fn *unwatch;
    dcgm_read_fn *read;
};
struct gs_error *dcgmsim_calls_load(const char *path, struct dcgmsim_calls *ret);

// Groups and field groups of a connection, for reads that name them.
struct dcgmsim_members {
    uintptr_t id; // 0: free
    uint32_t n;
    struct dcgm_entity_pair *entities;
};
struct dcgmsim_fields {
    uintptr_t id;
    uint32_t n;
    uint16_t ids[DCGM_MAX_GROUP_FIELDS];
};
enum { DCGMSIM_SESSION_GROUPS = 64 };
struct dcgmsim_session {
    const struct dcgmsim_calls *calls;
    dcgm_handle handle;
    struct dcgmsim_members groups[DCGMSIM_SESSION_GROUPS];
    struct dcgmsim_fields field_groups[DCGMSIM_SESSION_GROUPS];
};
void dcgmsim_session_finish(struct dcgmsim_session *s);

// Appends the reply to a frame. Nothing is appended to frames that are no commands or that are
// malformed: the real engine ignores them, too. false: the connection to the library is lost.
bool dcgmsim_session_answer(struct dcgmsim_session *s, const struct dcgm_wire_frame *f,
                            struct gs_buf *out);
