// SPDX-License-Identifier: Apache-2.0
// Requests of the socket protocol as calls of libdcgm, and their results as replies.
#include "dcgmsim/hostengine_private.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <string.h>

enum { READ_VALUES = 256 }; // of one call of the library

// --- the library ---

struct gs_error *dcgmsim_calls_load(const char *path, struct dcgmsim_calls *ret)
{
    struct dcgmsim_calls c = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    const struct {
        const char *name;
        void *at;
    } symbols[] = {
        {"dcgmInit", &c.init},
        {"dcgmShutdown", &c.shutdown},
        {"dcgmConnect_v2", &c.connect},
        {"dcgmDisconnect", &c.disconnect},
        {"dcgmHostengineVersionInfo", &c.version},
        {"dcgmGetAllDevices", &c.devices},
        {"dcgmGetAllSupportedDevices", &c.supported_devices},
        {"dcgmGetEntityGroupEntities", &c.entities},
        {"dcgmGetGpuInstanceHierarchy", &c.hierarchy},
        {"dcgmProfGetSupportedMetricGroups", &c.metric_groups},
        {"dcgmGetNvLinkLinkStatus", &c.links},
        {"dcgmGetCpuHierarchy", &c.cpus},
        {"dcgmGroupCreate", &c.group_create},
        {"dcgmGroupAddEntity", &c.group_add},
        {"dcgmGroupDestroy", &c.group_destroy},
        {"dcgmFieldGroupCreate", &c.field_group_create},
        {"dcgmFieldGroupDestroy", &c.field_group_destroy},
        {"dcgmWatchFields", &c.watch},
        {"dcgmUnwatchFields", &c.unwatch},
        {"dcgmEntitiesGetLatestValues", &c.read},
    };
    if (!c.library)
        return gs_error_new(GS_ENOTFOUND, "loading the simulated libdcgm: %s", dlerror());
    for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(c.library, symbols[i].name);
        if (!symbol)
            return gs_error_new(GS_ENOTFOUND, "%s has no function %s", path, symbols[i].name);
        memcpy(symbols[i].at, &symbol, sizeof(symbol));
    }
    *ret = c;
    return NULL;
}

void dcgmsim_session_finish(struct dcgmsim_session *s)
{
    for (size_t i = 0; i < DCGMSIM_SESSION_GROUPS; i++)
        free(s->groups[i].entities);
    if (s->handle)
        s->calls->disconnect(s->handle);
    *s = (struct dcgmsim_session){.calls = s->calls};
}

// --- groups ---

static struct dcgmsim_members *find_group(struct dcgmsim_session *s, uintptr_t id)
{
    for (size_t i = 0; i < DCGMSIM_SESSION_GROUPS; i++)
        if (s->groups[i].id == id)
            return &s->groups[i];
    return NULL;
}

static struct dcgmsim_fields *find_fields(struct dcgmsim_session *s, uintptr_t id)
{
    for (size_t i = 0; i < DCGMSIM_SESSION_GROUPS; i++)
        if (s->field_groups[i].id == id)
            return &s->field_groups[i];
    return NULL;
}

static int create_group(struct dcgmsim_session *s, struct dcgm_wire_group *m)
{
    dcgm_group id = 0;
    struct dcgmsim_members *g = find_group(s, 0);
    int rc = g ? s->calls->group_create(s->handle, m->type, m->name, &id) : DCGM_LIMIT;
    if (!rc) {
        g->id = id;
        m->id = id;
    }
    return rc;
}

static int add_member(struct dcgmsim_session *s, const struct dcgm_wire_member *m)
{
    struct dcgmsim_members *g = m->group ? find_group(s, m->group) : NULL;
    if (!g || g->n >= DCGM_MAX_READ_ENTITIES)
        return g ? DCGM_LIMIT : DCGM_NOT_CONFIGURED;
    int rc = s->calls->group_add(s->handle, g->id, m->entity.group, m->entity.id);
    if (rc)
        return rc;
    g->entities = gs_realloc_array(g->entities, g->n + 1, sizeof(*g->entities));
    g->entities[g->n++] = m->entity;
    return DCGM_OK;
}

static int destroy_group(struct dcgmsim_session *s, const struct dcgm_wire_group_end *m)
{
    struct dcgmsim_members *g = m->group ? find_group(s, m->group) : NULL;
    int rc = s->calls->group_destroy(s->handle, m->group);
    if (!rc && g) {
        free(g->entities);
        *g = (struct dcgmsim_members){0};
    }
    return rc;
}

static int create_fields(struct dcgmsim_session *s, struct dcgm_field_group_info *m)
{
    dcgm_field_group id = 0;
    struct dcgmsim_fields *f = find_fields(s, 0);
    int rc = f ? s->calls->field_group_create(s->handle, (int)m->count, m->fields, m->name, &id)
               : DCGM_LIMIT;
    if (!rc) {
        *f = (struct dcgmsim_fields){.id = id, .n = m->count};
        memcpy(f->ids, m->fields, m->count * sizeof(*m->fields));
        m->id = id;
    }
    return rc;
}

static int destroy_fields(struct dcgmsim_session *s, const struct dcgm_field_group_info *m)
{
    struct dcgmsim_fields *f = m->id ? find_fields(s, m->id) : NULL;
    int rc = s->calls->field_group_destroy(s->handle, m->id);
    if (!rc && f)
        f->id = 0;
    return rc;
}

// --- values ---

static void add_value(const struct dcgm_value_v2 *v, struct gs_buf *out)
{
    struct dcgm_wire_value w = {.entity = {v->entity_group, v->entity_id},
                                .field = v->field_id,
                                .type = (char)v->field_type,
                                .status = (int8_t)v->status,
                                .ts = v->ts,
                                .i64 = v->value.i64,
                                .dbl = v->value.dbl};
    if (w.type == DCGM_TYPE_TEXT)
        w.text = gs_slice_make(v->value.str, strnlen(v->value.str, sizeof(v->value.str)));
    dcgm_wire_value_add(out, &w);
}

// Reads in pieces: a value of the library has 4 KB.
static int read_values(const struct dcgmsim_session *s, struct dcgm_entity_pair *entities,
                       uint32_t n_entities, uint16_t *fields, uint32_t n_fields, uint32_t flags,
                       struct gs_buf *out)
{
    uint32_t step = n_fields < READ_VALUES ? READ_VALUES / n_fields : 1;
    GS_AUTO_FREE struct dcgm_value_v2 *values =
        gs_alloc_array((size_t)step * n_fields, sizeof(*values));
    int rc = DCGM_OK;
    for (uint32_t i = 0; i < n_entities && !rc; i += step) {
        uint32_t n = n_entities - i < step ? n_entities - i : step;
        rc = s->calls->read(s->handle, entities + i, n, fields, n_fields, flags, values);
        for (uint32_t k = 0; k < n * n_fields && !rc; k++)
            add_value(&values[k], out);
    }
    return rc;
}

static int read_latest(struct dcgmsim_session *s, struct dcgm_wire_read *m, struct gs_buf *values)
{
    struct dcgmsim_members *g = m->n_entities || !m->group ? NULL : find_group(s, m->group);
    struct dcgmsim_fields *f =
        m->n_fields || !m->field_group ? NULL : find_fields(s, m->field_group);
    struct dcgm_entity_pair *entities = g ? g->entities : m->entities;
    uint32_t n_entities = g ? g->n : m->n_entities, n_fields = f ? f->n : m->n_fields;
    if (!n_entities)
        return DCGM_EMPTY_GROUP;
    if (!n_fields)
        return DCGM_NO_DATA;
    int rc =
        read_values(s, entities, n_entities, f ? f->ids : m->fields, n_fields, m->flags, values);
    m->n_bytes = (uint32_t)values->len;
    return rc;
}

// --- lists ---

static int list_devices(const struct dcgmsim_session *s, struct dcgm_wire_devices *m)
{
    int n = 0;
    int rc = (m->only_supported ? s->calls->supported_devices : s->calls->devices)(s->handle,
                                                                                   m->ids, &n);
    m->count = rc ? 0 : (uint32_t)n;
    return rc;
}

static int list_entities(const struct dcgmsim_session *s, struct dcgm_wire_entities *m)
{
    int n = DCGM_WIRE_MAX_ENTITIES;
    int rc = s->calls->entities(s->handle, m->group, m->ids, &n, m->flags);
    m->count = rc ? 0 : (uint32_t)n;
    return rc;
}

static int list_cpus(const struct dcgmsim_session *s, struct dcgm_wire_cpus *m)
{
    struct dcgm_cpu_hierarchy_v1 h = {.version = DCGM_CPU_HIERARCHY_V1};
    int rc = s->calls->cpus(s->handle, &h);
    m->count = rc ? 0 : h.count;
    for (uint32_t i = 0; i < m->count; i++) {
        m->cpus[i].id = h.cpus[i].id;
        m->cpus[i].cores = h.cpus[i].cores;
        for (size_t k = 0; k < GS_ARRAY_LEN(h.cpus[i].cores.bitmask); k++)
            m->cpus[i].n_cores += (uint32_t)__builtin_popcountll(h.cpus[i].cores.bitmask[k]);
    }
    return rc;
}

// --- answers ---

static int call(struct dcgmsim_session *s, enum dcgm_wire_kind kind, union dcgm_wire_message *m,
                struct gs_buf *values)
{
    const struct dcgmsim_calls *c = s->calls;
    switch (kind) {
    case DCGM_WIRE_LOGIN:
        return DCGM_OK;
    case DCGM_WIRE_VERSION:
        return c->version(s->handle, &m->version.info);
    case DCGM_WIRE_DEVICES:
        return list_devices(s, &m->devices);
    case DCGM_WIRE_ENTITIES:
        return list_entities(s, &m->entities);
    case DCGM_WIRE_HIERARCHY:
        return c->hierarchy(s->handle, &m->hierarchy.data);
    case DCGM_WIRE_METRIC_GROUPS:
        return c->metric_groups(s->handle, &m->metric_groups.data);
    case DCGM_WIRE_GROUP_CREATE:
        return create_group(s, &m->group);
    case DCGM_WIRE_GROUP_ADD:
        return add_member(s, &m->member);
    case DCGM_WIRE_GROUP_DESTROY:
        return destroy_group(s, &m->group_end);
    case DCGM_WIRE_FIELD_GROUP_CREATE:
        return create_fields(s, &m->field_group.info);
    case DCGM_WIRE_FIELD_GROUP_DESTROY:
        return destroy_fields(s, &m->field_group.info);
    case DCGM_WIRE_WATCH:
        return c->watch(s->handle, m->watch.group, m->watch.field_group, m->watch.interval_us,
                        m->watch.keep_s, m->watch.keep_samples);
    case DCGM_WIRE_UNWATCH:
        return c->unwatch(s->handle, m->watch.group, m->watch.field_group);
    case DCGM_WIRE_READ:
        return read_latest(s, &m->read, values);
    case DCGM_WIRE_LINKS_V3:
        return c->links(s->handle, &m->links_v3.data);
    case DCGM_WIRE_LINKS_V4:
        return c->links(s->handle, &m->links_v4.data);
    case DCGM_WIRE_CPUS:
        return list_cpus(s, &m->cpus);
    case DCGM_WIRE_KINDS:
        break;
    }
    return DCGM_NOT_SUPPORTED;
}

bool dcgmsim_session_answer(struct dcgmsim_session *s, const struct dcgm_wire_frame *f,
                            struct gs_buf *out)
{
    enum dcgm_wire_kind kind;
    GS_AUTO_BUF struct gs_buf values = {0};
    if (f->type != DCGM_WIRE_COMMAND || f->body.len < sizeof(struct dcgm_wire_command))
        return true;
    if (!dcgm_wire_find(f->body, &kind)) { // unknown here, or in this version
        dcgm_wire_add_frame(out, DCGM_WIRE_COMMAND, f->request, DCGM_VERSION_MISMATCH, f->body);
        return true;
    }
    GS_AUTO_FREE union dcgm_wire_message *m = gs_alloc(sizeof(*m));
    GS_AUTO_ERROR struct gs_error *err = dcgm_wire_take(f->body, kind, m, NULL);
    if (err)
        return true;
    int rc = call(s, kind, m, &values);
    if (rc == DCGM_CONNECTION_LOST)
        return false;
    bool in_message = dcgm_wire_set_result(kind, m, rc);
    dcgm_wire_add(out, kind, f->request, in_message ? DCGM_OK : rc, m, gs_buf_slice(&values));
    return true;
}
