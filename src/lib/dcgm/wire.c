// SPDX-License-Identifier: Apache-2.0
// Frames, messages and values of the host engine's protocol. All numbers are little-endian, as are
// the machines that DCGM supports, so messages are copied to and from structures; the assertions
// hold their sizes and version words.
#include "dcgm/wire.h"

#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are copied as they are");

enum { WIRE_MAGIC = 0xadbcbcad, WIRE_VALUE_VERSION = 1 };

struct wire_header {
    uint32_t magic, request;
    int32_t length;
    uint32_t type;
    int32_t status;
};
static_assert(sizeof(struct wire_header) == DCGM_WIRE_HEADER_SIZE, "layout of the protocol");

// An entry of the values of a reply. A number has 8 bytes after it, a text as many as it needs.
struct wire_entry {
    uint16_t length;
    uint8_t version;
    char type;
    int8_t status;
    uint8_t entity_group;
    uint16_t field;
    int64_t ts;
    uint32_t entity, unused;
};
static_assert(sizeof(struct wire_entry) == 24, "layout of the protocol");

// The structure with values after it, whose version word has the size of all of them.
enum { WIRE_READ_FULL_SIZE = 4186932 };

struct wire_layout {
    const char *name;
    uint32_t module, number, version; // of the version word
    size_t size;
    size_t result; // offset; 0: none
    uint32_t full_size;
};
#define WIRE_ROW(type, number, version, name)                                                      \
    {                                                                                              \
        (name), DCGM_MODULE_CORE, (number), (version), sizeof(struct type),                        \
            offsetof(struct type, result), sizeof(struct type)                                     \
    }
static const struct wire_layout LAYOUTS[DCGM_WIRE_KINDS] = {
    [DCGM_WIRE_LOGIN] = WIRE_ROW(dcgm_wire_login, 36, 1, "log in"),
    [DCGM_WIRE_VERSION] = {"query the version", DCGM_MODULE_CORE, 10, 1,
                           sizeof(struct dcgm_wire_version), 0, sizeof(struct dcgm_wire_version)},
    [DCGM_WIRE_DEVICES] = WIRE_ROW(dcgm_wire_devices, 34, 1, "list the GPUs"),
    [DCGM_WIRE_ENTITIES] = WIRE_ROW(dcgm_wire_entities, 14, 1, "list the entities"),
    [DCGM_WIRE_HIERARCHY] = WIRE_ROW(dcgm_wire_hierarchy, 50, 1, "list the MIG devices"),
    [DCGM_WIRE_METRIC_GROUPS] = {"list the profiling metrics", DCGM_MODULE_CORE, 51, 1,
                                 sizeof(struct dcgm_wire_metric_groups), 0,
                                 sizeof(struct dcgm_wire_metric_groups)},
    [DCGM_WIRE_GROUP_CREATE] = WIRE_ROW(dcgm_wire_group, 11, 1, "create a group"),
    [DCGM_WIRE_GROUP_ADD] = WIRE_ROW(dcgm_wire_member, 35, 1, "add an entity to a group"),
    [DCGM_WIRE_GROUP_DESTROY] = WIRE_ROW(dcgm_wire_group_end, 13, 1, "destroy a group"),
    [DCGM_WIRE_FIELD_GROUP_CREATE] = WIRE_ROW(dcgm_wire_field_group, 38, 1, "create a field group"),
    [DCGM_WIRE_FIELD_GROUP_DESTROY] =
        WIRE_ROW(dcgm_wire_field_group, 39, 1, "destroy a field group"),
    [DCGM_WIRE_WATCH] = WIRE_ROW(dcgm_wire_watch, 29, 1, "watch fields"),
    [DCGM_WIRE_UNWATCH] = WIRE_ROW(dcgm_wire_watch, 30, 1, "unwatch fields"),
    [DCGM_WIRE_READ] = {"read values", DCGM_MODULE_CORE, 52, 2, sizeof(struct dcgm_wire_read),
                        offsetof(struct dcgm_wire_read, result), WIRE_READ_FULL_SIZE},
    [DCGM_WIRE_LINKS_V3] = WIRE_ROW(dcgm_wire_links_v3, 43, 3, "list the links"),
    [DCGM_WIRE_LINKS_V4] = WIRE_ROW(dcgm_wire_links_v4, 43, 4, "list the links"),
    [DCGM_WIRE_CPUS] = {"list the CPUs", DCGM_MODULE_SYSMON, 1, 1, sizeof(struct dcgm_wire_cpus), 0,
                        sizeof(struct dcgm_wire_cpus)},
};
#undef WIRE_ROW

#define HOLDS(type, size_, member, offset)                                                         \
    static_assert(sizeof(struct type) == (size_) && offsetof(struct type, member) == (offset),     \
                  "layout of the protocol")
static_assert(sizeof(struct dcgm_wire_command) == 24, "layout of the protocol");
HOLDS(dcgm_wire_login, 32, persist, 24);
HOLDS(dcgm_wire_version, 540, info, 24);
HOLDS(dcgm_wire_devices, 164, count, 156);
HOLDS(dcgm_wire_entities, 296, count, 284);
HOLDS(dcgm_wire_hierarchy, 73508, result, 73504);
HOLDS(dcgm_wire_metric_groups, 1400, data, 24);
HOLDS(dcgm_wire_group, 1072, id, 1056);
HOLDS(dcgm_wire_member, 40, entity, 28);
HOLDS(dcgm_wire_group_end, 32, group, 24);
HOLDS(dcgm_wire_field_group, 560, result, 552);
HOLDS(dcgm_wire_watch, 56, keep_samples, 48);
HOLDS(dcgm_wire_read, 820, fields, 548);
HOLDS(dcgm_wire_links_v3, 14808, result, 14804);
HOLDS(dcgm_wire_links_v4, 17112, result, 17108);
HOLDS(dcgm_wire_cpus, 3232, cpus, 32);
#undef HOLDS

const char *dcgm_wire_kind_name(enum dcgm_wire_kind kind)
{
    return LAYOUTS[kind].name;
}

size_t dcgm_wire_size(enum dcgm_wire_kind kind)
{
    return LAYOUTS[kind].size;
}

static uint32_t version_word(const struct wire_layout *l)
{
    return l->full_size | l->version << 24;
}

struct gs_error *dcgm_wire_cut(struct gs_slice *stream, struct dcgm_wire_frame *ret,
                               bool *ret_complete)
{
    struct wire_header h;
    *ret_complete = false;
    if (stream->len < sizeof(h))
        return NULL;
    memcpy(&h, stream->data, sizeof(h));
    if (h.magic != WIRE_MAGIC)
        return gs_error_new(GS_EPROTO, "the peer does not speak the protocol of DCGM 3.0 or newer");
    if (h.length < 0 || h.length > DCGM_WIRE_MAX_BODY)
        return gs_error_new(GS_EPROTO, "a message of DCGM has %d bytes; the limit is %d", h.length,
                            DCGM_WIRE_MAX_BODY);
    if (stream->len - sizeof(h) < (size_t)h.length)
        return NULL;
    *ret = (struct dcgm_wire_frame){h.request, h.type, h.status,
                                    gs_slice_make(stream->data + sizeof(h), (size_t)h.length)};
    *stream = gs_slice_make(ret->body.data + h.length, stream->len - sizeof(h) - (size_t)h.length);
    *ret_complete = true;
    return NULL;
}

static void add_header(struct gs_buf *out, uint32_t type, uint32_t request, int32_t status,
                       size_t length)
{
    struct wire_header h = {WIRE_MAGIC, request, (int32_t)length, type, status};
    gs_buf_add(out, &h, sizeof(h));
}

void dcgm_wire_add_frame(struct gs_buf *out, uint32_t type, uint32_t request, int32_t status,
                         struct gs_slice body)
{
    add_header(out, type, request, status, body.len);
    gs_buf_add_slice(out, body);
}

void dcgm_wire_add(struct gs_buf *out, enum dcgm_wire_kind kind, uint32_t request, int32_t status,
                   void *message, struct gs_slice values)
{
    const struct wire_layout *l = &LAYOUTS[kind];
    size_t length = l->size + values.len;
    struct dcgm_wire_command command = {(uint32_t)length, l->module,      l->number, 0,
                                        request,          version_word(l)};
    memcpy(message, &command, sizeof(command));
    add_header(out, DCGM_WIRE_COMMAND, request, status, length);
    gs_buf_add(out, message, l->size);
    gs_buf_add_slice(out, values);
}

static bool read_command(struct gs_slice body, struct dcgm_wire_command *ret)
{
    if (body.len < sizeof(*ret))
        return false;
    memcpy(ret, body.data, sizeof(*ret));
    return ret->length == body.len;
}

bool dcgm_wire_find(struct gs_slice body, enum dcgm_wire_kind *ret)
{
    struct dcgm_wire_command c;
    if (!read_command(body, &c))
        return false;
    for (int k = 0; k < DCGM_WIRE_KINDS; k++) {
        const struct wire_layout *l = &LAYOUTS[k];
        if (l->module == c.module && l->number == c.number && version_word(l) == c.version) {
            *ret = (enum dcgm_wire_kind)k;
            return true;
        }
    }
    return false;
}

static void end_text(char *text, size_t size)
{
    text[size - 1] = 0;
}

static void limit_u32(uint32_t *count, uint32_t max)
{
    if (*count > max)
        *count = max;
}

static void limit_links(uint32_t *n_gpus, uint32_t *n_switches)
{
    limit_u32(n_gpus, DCGM_MAX_GPUS);
    limit_u32(n_switches, DCGM_MAX_SWITCHES);
}

static void tame_hierarchy(struct dcgm_mig_hierarchy *h)
{
    limit_u32(&h->count, DCGM_MAX_HIERARCHY);
    for (uint32_t i = 0; i < h->count; i++)
        end_text(h->rows[i].info.gpu_uuid, sizeof(h->rows[i].info.gpu_uuid));
}

static void tame_metric_groups(struct dcgm_metric_groups *m)
{
    limit_u32(&m->count, GS_ARRAY_LEN(m->groups));
    for (uint32_t i = 0; i < m->count; i++)
        limit_u32(&m->groups[i].n_fields, GS_ARRAY_LEN(m->groups[i].fields));
}

static void tame_cpus(struct dcgm_wire_cpus *c)
{
    limit_u32(&c->count, DCGM_MAX_CPUS);
    for (uint32_t i = 0; i < c->count; i++)
        end_text(c->cpus[i].serial, sizeof(c->cpus[i].serial));
}

static void tame_read(struct dcgm_wire_read *r)
{
    limit_u32(&r->n_entities, DCGM_WIRE_MAX_ENTITIES);
    limit_u32(&r->n_fields, DCGM_MAX_GROUP_FIELDS);
}

// Texts and counts of a message are the peer's until here.
static void tame(enum dcgm_wire_kind kind, union dcgm_wire_message *m)
{
    switch (kind) {
    case DCGM_WIRE_VERSION:
        end_text(m->version.info.raw, sizeof(m->version.info.raw));
        break;
    case DCGM_WIRE_DEVICES:
        limit_u32(&m->devices.count, DCGM_MAX_GPUS);
        break;
    case DCGM_WIRE_ENTITIES:
        limit_u32(&m->entities.count, DCGM_WIRE_MAX_ENTITIES);
        break;
    case DCGM_WIRE_HIERARCHY:
        tame_hierarchy(&m->hierarchy.data);
        break;
    case DCGM_WIRE_METRIC_GROUPS:
        tame_metric_groups(&m->metric_groups.data);
        break;
    case DCGM_WIRE_GROUP_CREATE:
        end_text(m->group.name, sizeof(m->group.name));
        break;
    case DCGM_WIRE_FIELD_GROUP_CREATE:
    case DCGM_WIRE_FIELD_GROUP_DESTROY:
        limit_u32(&m->field_group.info.count, DCGM_MAX_GROUP_FIELDS);
        end_text(m->field_group.info.name, sizeof(m->field_group.info.name));
        break;
    case DCGM_WIRE_READ:
        tame_read(&m->read);
        break;
    case DCGM_WIRE_LINKS_V3:
        limit_links(&m->links_v3.data.n_gpus, &m->links_v3.data.n_switches);
        break;
    case DCGM_WIRE_LINKS_V4:
        limit_links(&m->links_v4.data.n_gpus, &m->links_v4.data.n_switches);
        break;
    case DCGM_WIRE_CPUS:
        tame_cpus(&m->cpus);
        break;
    default:
        break;
    }
}

struct gs_error *dcgm_wire_take(struct gs_slice body, enum dcgm_wire_kind kind,
                                union dcgm_wire_message *ret, struct gs_slice *ret_values)
{
    const struct wire_layout *l = &LAYOUTS[kind];
    struct dcgm_wire_command c;
    if (!read_command(body, &c) || c.module != l->module || c.number != l->number)
        return gs_error_new(GS_EPROTO, "malformed message of DCGM: %s", l->name);
    if (c.version != version_word(l))
        return gs_error_new(GS_ENOTSUP, "DCGM has another version of the message: %s (0x%08x)",
                            l->name, c.version);
    if (body.len < l->size || (body.len > l->size && kind != DCGM_WIRE_READ))
        return gs_error_new(GS_EPROTO, "a message of DCGM has %zu bytes: %s", body.len, l->name);
    memcpy(ret, body.data, l->size);
    tame(kind, ret);
    if (ret_values) {
        size_t rest = body.len - l->size, told = kind == DCGM_WIRE_READ ? ret->read.n_bytes : 0;
        *ret_values = gs_slice_make(body.data + l->size, told < rest ? told : rest);
    }
    return NULL;
}

int dcgm_wire_result(enum dcgm_wire_kind kind, const union dcgm_wire_message *message)
{
    int32_t result = DCGM_OK;
    if (LAYOUTS[kind].result)
        memcpy(&result, (const char *)message + LAYOUTS[kind].result, sizeof(result));
    return result;
}

bool dcgm_wire_set_result(enum dcgm_wire_kind kind, union dcgm_wire_message *message, int code)
{
    int32_t result = code;
    if (!LAYOUTS[kind].result || code == DCGM_VERSION_MISMATCH)
        return false;
    memcpy((char *)message + LAYOUTS[kind].result, &result, sizeof(result));
    return true;
}

static bool has_bytes(char type)
{
    return type == DCGM_TYPE_TEXT || type == DCGM_TYPE_BLOB;
}

static void take_data(struct gs_slice data, struct dcgm_wire_value *v)
{
    if (v->type == DCGM_TYPE_DOUBLE) {
        memcpy(&v->dbl, data.data, sizeof(v->dbl));
    } else if (v->type == DCGM_TYPE_INT64 || v->type == DCGM_TYPE_TIME) {
        memcpy(&v->i64, data.data, sizeof(v->i64));
    } else {
        v->text = data;
        if (v->type == DCGM_TYPE_TEXT)
            v->text.len = strnlen(data.data, data.len);
    }
}

struct gs_error *dcgm_wire_value_next(struct gs_slice *values, struct dcgm_wire_value *ret)
{
    struct wire_entry e;
    if (values->len < sizeof(e))
        return gs_error_new(GS_EPROTO, "a value of DCGM is cut off");
    memcpy(&e, values->data, sizeof(e));
    if (e.version != WIRE_VALUE_VERSION)
        return gs_error_new(GS_EPROTO, "a value of DCGM has version %d; version %d is supported",
                            e.version, WIRE_VALUE_VERSION);
    // A short text, such as "1g.5gb", makes an entry of less than 32 bytes.
    size_t least = sizeof(e) + (has_bytes(e.type) ? 0 : sizeof(int64_t));
    if (e.length < least || e.length > values->len)
        return gs_error_new(GS_EPROTO, "a value of DCGM has %d bytes", e.length);
    *ret = (struct dcgm_wire_value){
        {e.entity_group, e.entity}, e.field, e.type, e.status, e.ts, 0, 0, {NULL, 0}};
    take_data(gs_slice_make(values->data + sizeof(e), e.length - sizeof(e)), ret);
    *values = gs_slice_make(values->data + e.length, values->len - e.length);
    return NULL;
}

void dcgm_wire_value_add(struct gs_buf *values, const struct dcgm_wire_value *v)
{
    struct gs_slice data = gs_slice_make(
        v->type == DCGM_TYPE_DOUBLE ? (const void *)&v->dbl : (const void *)&v->i64, 8);
    size_t max = v->type == DCGM_TYPE_TEXT ? sizeof(((union dcgm_value_data *)0)->str) - 1
                                           : sizeof(union dcgm_value_data);
    if (has_bytes(v->type))
        data = gs_slice_make(v->text.data, v->text.len < max ? v->text.len : max);
    size_t nul = v->type == DCGM_TYPE_TEXT;
    struct wire_entry e = {(uint16_t)(sizeof(e) + data.len + nul),
                           WIRE_VALUE_VERSION,
                           v->type,
                           v->status,
                           (uint8_t)v->entity.group,
                           v->field,
                           v->ts,
                           v->entity.id,
                           0};
    gs_buf_add(values, &e, sizeof(e));
    gs_buf_add_slice(values, data);
    if (nul)
        gs_buf_add_char(values, 0);
}
