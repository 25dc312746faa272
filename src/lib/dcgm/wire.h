// SPDX-License-Identifier: Apache-2.0
// The socket protocol of a DCGM host engine (port 5555, or a Unix socket): frames, messages and
// field values, in both directions. Only messages that are the same from DCGM 3.3.9 to 4.6.0 are
// listed; others say since when.
//
// The functions keep no state and copy all input before they use it. Any thread may call.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "dcgm/abi.h"

#include <stdbool.h>

enum {
    DCGM_WIRE_PORT = 5555,
    DCGM_WIRE_HEADER_SIZE = 20,
    DCGM_WIRE_MAX_BODY = 4 << 20, // bytes; the engine's limit, and ours
    DCGM_WIRE_MAX_ENTITIES = 64,  // of a list in a message
};

// The kind of a frame. An engine also sends the last two without a request.
enum dcgm_wire_type {
    DCGM_WIRE_COMMAND = 0x300,
    DCGM_WIRE_POLICY = 0x400,
    DCGM_WIRE_ASYNC_END = 0x500,
};

struct dcgm_wire_frame {
    uint32_t request;     // number of the client; the reply repeats it
    uint32_t type;        // enum dcgm_wire_type, or an unknown one
    int32_t status;       // enum dcgm_code; the messages of a failed request are unchanged
    struct gs_slice body; // borrowed from the stream
};

// The header of each message, at the start of a body.
struct dcgm_wire_command {
    uint32_t length; // bytes of the message with this header
    uint32_t module; // enum dcgm_module
    uint32_t number; // of the command in its module
    uint32_t connection;
    uint32_t request;
    uint32_t version; // word of the message
};

struct dcgm_wire_login {
    struct dcgm_wire_command command;
    int32_t persist; // 1: groups and watches outlive the connection
    int32_t result;  // enum dcgm_code, as in the other messages
};
struct dcgm_wire_version {
    struct dcgm_wire_command command;
    struct dcgm_version_info info;
};
struct dcgm_wire_devices {
    struct dcgm_wire_command command;
    int32_t only_supported;
    uint32_t ids[DCGM_MAX_GPUS];
    uint32_t count;
    int32_t result;
};
struct dcgm_wire_entities {
    struct dcgm_wire_command command;
    uint32_t group; // enum dcgm_entity_group
    uint32_t ids[DCGM_WIRE_MAX_ENTITIES];
    uint32_t count; // in: capacity of ids; out: number
    uint32_t flags; // DCGM_ONLY_SUPPORTED
    int32_t result;
};
struct dcgm_wire_hierarchy {
    struct dcgm_wire_command command;
    struct dcgm_mig_hierarchy data;
    int32_t result;
};
struct dcgm_wire_metric_groups {
    struct dcgm_wire_command command;
    struct dcgm_metric_groups data; // gpu is the input
};
struct dcgm_wire_group {
    struct dcgm_wire_command command;
    uint32_t type; // enum dcgm_group_type
    char name[1024];
    uint64_t id; // out
    int32_t result;
};
struct dcgm_wire_member { // adds an entity to a group
    struct dcgm_wire_command command;
    uint32_t group;
    struct dcgm_entity_pair entity;
    int32_t result;
};
struct dcgm_wire_group_end {
    struct dcgm_wire_command command;
    uint32_t group;
    int32_t result;
};
struct dcgm_wire_field_group {
    struct dcgm_wire_command command;
    struct dcgm_field_group_info info; // id is the output
    int32_t result;
};
struct dcgm_wire_watch { // and its end, which only reads the first two
    struct dcgm_wire_command command;
    uint32_t group, field_group;
    int64_t interval_us;
    double keep_s;
    int32_t keep_samples; // 0: no limit
    int32_t result;
};
// The latest values. The reply has `n_bytes` bytes of values after this.
struct dcgm_wire_read {
    struct dcgm_wire_command command;
    uint32_t group; // used if n_entities is 0
    struct dcgm_entity_pair entities[DCGM_WIRE_MAX_ENTITIES];
    uint32_t n_entities;
    uint32_t field_group; // used if n_fields is 0
    uint16_t fields[DCGM_MAX_GROUP_FIELDS];
    uint32_t n_fields;
    uint32_t flags; // DCGM_READ_LIVE
    int32_t result;
    uint32_t n_bytes;
};
struct dcgm_wire_links_v3 { // 4.0 to 4.5; 4.6 answers it, too
    struct dcgm_wire_command command;
    struct dcgm_link_status_v4 data;
    int32_t result;
};
struct dcgm_wire_links_v4 { // 4.6 and newer
    struct dcgm_wire_command command;
    struct dcgm_link_status_v5 data;
    int32_t result;
};
struct dcgm_wire_cpu {
    uint32_t id, n_cores;
    struct dcgm_owned_cores cores;
    char serial[256];
};
struct dcgm_wire_cpus { // 4.0 and newer
    struct dcgm_wire_command command;
    uint32_t count;
    struct dcgm_wire_cpu cpus[DCGM_MAX_CPUS];
};

enum dcgm_wire_kind {
    DCGM_WIRE_LOGIN,
    DCGM_WIRE_VERSION,
    DCGM_WIRE_DEVICES,
    DCGM_WIRE_ENTITIES,
    DCGM_WIRE_HIERARCHY,
    DCGM_WIRE_METRIC_GROUPS,
    DCGM_WIRE_GROUP_CREATE,
    DCGM_WIRE_GROUP_ADD,
    DCGM_WIRE_GROUP_DESTROY,
    DCGM_WIRE_FIELD_GROUP_CREATE,
    DCGM_WIRE_FIELD_GROUP_DESTROY,
    DCGM_WIRE_WATCH,
    DCGM_WIRE_UNWATCH,
    DCGM_WIRE_READ,
    DCGM_WIRE_LINKS_V3,
    DCGM_WIRE_LINKS_V4,
    DCGM_WIRE_CPUS,
    DCGM_WIRE_KINDS
};

// Room for a message of each kind.
union dcgm_wire_message {
    struct dcgm_wire_command command;
    struct dcgm_wire_login login;
    struct dcgm_wire_version version;
    struct dcgm_wire_devices devices;
    struct dcgm_wire_entities entities;
    struct dcgm_wire_hierarchy hierarchy;
    struct dcgm_wire_metric_groups metric_groups;
    struct dcgm_wire_group group;
    struct dcgm_wire_member member;
    struct dcgm_wire_group_end group_end;
    struct dcgm_wire_field_group field_group;
    struct dcgm_wire_watch watch;
    struct dcgm_wire_read read;
    struct dcgm_wire_links_v3 links_v3;
    struct dcgm_wire_links_v4 links_v4;
    struct dcgm_wire_cpus cpus;
};

const char *dcgm_wire_kind_name(enum dcgm_wire_kind kind); // "watch fields", for errors
size_t dcgm_wire_size(enum dcgm_wire_kind kind);           // bytes of its structure

// Cuts the first frame off the stream. *ret_complete is false, and the stream is unchanged, if more
// bytes are needed. GS_EPROTO: the stream is not one of DCGM, or a body is over the limit; the
// connection has no use then.
struct gs_error *dcgm_wire_cut(struct gs_slice *stream, struct dcgm_wire_frame *ret,
                               bool *ret_complete);

// Adds a frame with the message, whose structure has the size of its kind. Sets the header of the
// message. `values` follows the message; it is empty unless the kind is DCGM_WIRE_READ.
void dcgm_wire_add(struct gs_buf *out, enum dcgm_wire_kind kind, uint32_t request, int32_t status,
                   void *message, struct gs_slice values);

// Adds a frame with any body, such as a notice, or the body of a request that is refused.
void dcgm_wire_add_frame(struct gs_buf *out, uint32_t type, uint32_t request, int32_t status,
                         struct gs_slice body);

// Finds out which message a request is. false: none of those above.
bool dcgm_wire_find(struct gs_slice body, enum dcgm_wire_kind *ret);

// Copies the message of a body. *ret_values, which may be NULL, are the values after it, borrowed.
// GS_EPROTO: the body is not this message. GS_ENOTSUP: the version differs. A result of the message
// that is not DCGM_OK is not an error here. Texts of the message end with NUL, and counts of it are
// within their arrays.
struct gs_error *dcgm_wire_take(struct gs_slice body, enum dcgm_wire_kind kind,
                                union dcgm_wire_message *ret, struct gs_slice *ret_values);
// The code in a message: that of its field `result`, or DCGM_OK for kinds without one.
int dcgm_wire_result(enum dcgm_wire_kind kind, const union dcgm_wire_message *message);
// Sets it. false: the kind has none, so that the code belongs into the status of the frame. The
// version mismatch of an engine is there, too.
bool dcgm_wire_set_result(enum dcgm_wire_kind kind, union dcgm_wire_message *message, int code);

struct dcgm_wire_value {
    struct dcgm_entity_pair entity;
    uint16_t field;
    char type;            // DCGM_TYPE_*
    int8_t status;        // enum dcgm_code
    int64_t ts;           // microseconds since 1970, by the clock of the engine
    int64_t i64;          // DCGM_TYPE_INT64, DCGM_TYPE_TIME
    double dbl;           // DCGM_TYPE_DOUBLE
    struct gs_slice text; // DCGM_TYPE_TEXT without NUL, DCGM_TYPE_BLOB; borrowed
};

// Reads one value and moves the start of the values after it. Call it while they are not empty.
// GS_EPROTO: the entry is malformed, and so is everything after it.
struct gs_error *dcgm_wire_value_next(struct gs_slice *values, struct dcgm_wire_value *ret);
// Adds a value. A text is limited to 255 bytes, a blob to 4096 bytes.
void dcgm_wire_value_add(struct gs_buf *values, const struct dcgm_wire_value *v);
