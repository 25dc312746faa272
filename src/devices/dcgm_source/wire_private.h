// SPDX-License-Identifier: Apache-2.0
// Parts of the client that speaks the socket protocol of a host engine: its connection, the list of
// the engine's entities, and what is watched there. All run on the thread of the source.
#pragma once

#include "dcgm/wire.h"
#include "dcgm_source/source_private.h"

// --- connection ---

struct dcgm_source_wire {
    struct dcgm_source *source;
    int fd;
    bool returning; // the client has to return; the error of the call is of no interest
    uint32_t request;
    struct gs_buf in, out;
    union dcgm_wire_message *message; // of the current exchange
    int major;                        // release of the engine: 4; 0: unknown
};

// Connects and logs in, each within its time. Call dcgm_source_wire_close() in any case.
struct gs_error *dcgm_source_wire_open(struct dcgm_source *s, const struct dcgm_source_target *t,
                                       struct dcgm_source_wire *ret, int *ret_code);
void dcgm_source_wire_close(struct dcgm_source_wire *w);
// Sends w->message and waits at most two seconds for the reply, which replaces it. *ret_code: what
// the engine said about the request. An error means that the connection has no use any more.
// *ret_values, which may be NULL, is valid until the next exchange.
struct gs_error *dcgm_source_wire_exchange(struct dcgm_source_wire *w, enum dcgm_wire_kind kind,
                                           int *ret_code, struct gs_slice *ret_values);
// Frees what long messages needed: after the lists, requests and replies are short.
void dcgm_source_wire_trim(struct dcgm_source_wire *w);
// The message for a new request, zeroed.
union dcgm_wire_message *dcgm_source_wire_message(struct dcgm_source_wire *w);

// --- entities ---

// Sorted by group and ID, so that parents precede their children.
struct dcgm_source_wire_table {
    struct dcgm_entity *items;
    size_t len, cap;
};

// Lists the entities that have fields of the plan: GPUs, MIG devices, switches, links that are up,
// CPUs and cores. What the engine lacks (a module, a message) is left out.
struct gs_error *dcgm_source_wire_list(struct dcgm_source_wire *w,
                                       const struct dcgm_source_plan *plan,
                                       struct dcgm_source_wire_table *ret);
void dcgm_source_wire_table_finish(struct dcgm_source_wire_table *t);
// The index of an entity. SIZE_MAX: it is not listed.
size_t dcgm_source_wire_find(const struct dcgm_source_wire_table *t, uint32_t group, uint32_t id);

// --- units ---

// Entities with the same fields: one group, one field group and one watch.
struct dcgm_source_wire_unit {
    uint16_t fields[DCGM_MAX_GROUP_FIELDS];
    uint32_t n_fields;
    uint32_t *entities; // indexes of the table
    size_t n_entities, cap_entities;
    bool prof, watched;
    uint32_t group, field_group; // of the engine
};
struct dcgm_source_wire_units {
    struct dcgm_source_wire_unit *items;
    size_t len, cap;
    unsigned n_blank; // reads in a row without a profiling value
    int prof_code;    // why profiling fields are not watched; 0: they are, or none is in the plan
};

// Decides what to watch, and watches it. Fields that the engine does not know are left out.
struct gs_error *dcgm_source_wire_watch(struct dcgm_source_wire *w,
                                        const struct dcgm_source_plan *plan,
                                        const struct dcgm_source_wire_table *t,
                                        struct dcgm_source_wire_units *ret);
// Watches the profiling fields again: those that were refused, and with `all` the others, too.
struct gs_error *dcgm_source_wire_watch_prof(struct dcgm_source_wire *w,
                                             const struct dcgm_source_plan *plan,
                                             struct dcgm_source_wire_units *u, bool all);
void dcgm_source_wire_units_finish(struct dcgm_source_wire_units *u);
// Reads all units. The caller frees the result.
struct gs_error *dcgm_source_wire_read(struct dcgm_source_wire *w,
                                       const struct dcgm_source_plan *plan,
                                       const struct dcgm_source_wire_table *t,
                                       struct dcgm_source_wire_units *u, struct dcgm_latest **ret);
