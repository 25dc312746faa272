// SPDX-License-Identifier: Apache-2.0
// Groups of entities and groups of fields. They belong to a connection and end with it.
#include "dcgmsim/dcgmsim_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <stdio.h>
#include <string.h>

#define E (&dcgmsim_engine)

// Identifiers are 1 + the index. The predefined groups are at the end of the numbers.
enum { GROUP_ALL_GPUS = 0x7fffffff, GROUP_ALL_LAST = 0x7ffffffb };

static const unsigned predefined_kinds[] = {
    [GROUP_ALL_GPUS - GROUP_ALL_GPUS] = DCGM_ENTITY_GPU,
    [GROUP_ALL_GPUS - 0x7ffffffe] = DCGM_ENTITY_SWITCH,
    [GROUP_ALL_GPUS - 0x7ffffffd] = DCGM_ENTITY_GPU_I,
    [GROUP_ALL_GPUS - 0x7ffffffc] = DCGM_ENTITY_GPU_CI,
    [GROUP_ALL_GPUS - 0x7ffffffb] = DCGM_ENTITY_NONE, // all entities
};

static void fill_group(struct dcgmsim_group *g, unsigned kind)
{
    if (!g->entities)
        g->entities = gs_alloc_array(DCGMSIM_GROUP_ENTITIES, sizeof(*g->entities));
    if (kind != DCGM_ENTITY_NONE) {
        g->n = dcgmsim_entities(kind, g->entities);
        return;
    }
    GS_AUTO_FREE struct dcgm_entity_pair *all =
        gs_alloc_array(DCGMSIM_GROUP_ENTITIES, sizeof(*all));
    for (unsigned k = DCGM_ENTITY_GPU; k < DCGM_ENTITY_GROUPS; k++) {
        unsigned n = dcgmsim_entities(k, all);
        for (unsigned i = 0; i < n && g->n < DCGMSIM_GROUP_ENTITIES; i++)
            g->entities[g->n++] = all[i];
    }
}

static struct dcgmsim_group *own_group(unsigned client, dcgm_group g)
{
    if (g == 0 || g > DCGMSIM_GROUPS)
        return NULL;
    struct dcgmsim_group *found = &E->groups[g - 1];
    return found->used && found->client == client ? found : NULL;
}

const struct dcgmsim_group *dcgmsim_find_group(unsigned client, dcgm_group g,
                                               struct dcgmsim_group *scratch)
{
    if (g < GROUP_ALL_LAST || g > GROUP_ALL_GPUS)
        return own_group(client, g);
    *scratch = (struct dcgmsim_group){.used = true, .client = client};
    fill_group(scratch, predefined_kinds[GROUP_ALL_GPUS - g]);
    return scratch;
}

const struct dcgmsim_field_group *dcgmsim_find_fields(unsigned client, dcgm_field_group f)
{
    if (f == 0 || f > DCGMSIM_FIELD_GROUPS)
        return NULL;
    const struct dcgmsim_field_group *found = &E->field_groups[f - 1];
    return found->used && found->client == client ? found : NULL;
}

static void free_group(struct dcgmsim_group *g)
{
    free(g->entities);
    *g = (struct dcgmsim_group){0};
}

void dcgmsim_drop_objects(unsigned client)
{
    dcgmsim_watch_drop_client(client);
    for (unsigned i = 0; i < DCGMSIM_GROUPS; i++)
        if (E->groups[i].used && E->groups[i].client == client)
            free_group(&E->groups[i]);
    for (unsigned i = 0; i < DCGMSIM_FIELD_GROUPS; i++)
        if (E->field_groups[i].client == client)
            E->field_groups[i] = (struct dcgmsim_field_group){0};
}

DCGM_API int dcgmGroupCreate(dcgm_handle h, uint32_t type, const char *name, dcgm_group *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h,
                                name && ret && type <= DCGM_GROUP_ENTITIES && strlen(name) < 256);
    if (c.rc)
        return c.rc;
    unsigned i = 0;
    while (i < DCGMSIM_GROUPS && E->groups[i].used)
        i++;
    if (i == DCGMSIM_GROUPS)
        return DCGM_LIMIT;
    struct dcgmsim_group *g = &E->groups[i];
    *g = (struct dcgmsim_group){.used = true, .client = c.client};
    snprintf(g->name, sizeof(g->name), "%s", name);
    static const unsigned kinds[] = {
        [DCGM_GROUP_ALL_GPUS] = DCGM_ENTITY_GPU,
        [DCGM_GROUP_SWITCHES] = DCGM_ENTITY_SWITCH,
        [DCGM_GROUP_GPU_INSTANCES] = DCGM_ENTITY_GPU_I,
        [DCGM_GROUP_COMPUTE_INSTANCES] = DCGM_ENTITY_GPU_CI,
        [DCGM_GROUP_ENTITIES] = DCGM_ENTITY_NONE,
    };
    if (type == DCGM_GROUP_EMPTY)
        g->entities = gs_alloc_array(DCGMSIM_GROUP_ENTITIES, sizeof(*g->entities));
    else
        fill_group(g, kinds[type]);
    *ret = i + 1;
    return DCGM_OK;
}

DCGM_API int dcgmGroupDestroy(dcgm_handle h, dcgm_group id)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    if (c.rc)
        return c.rc;
    struct dcgmsim_group *g = own_group(c.client, id);
    if (!g)
        return DCGM_NOT_CONFIGURED;
    free_group(g);
    return DCGM_OK;
}

static int add_entity(const char *fn, dcgm_handle h, dcgm_group id, struct dcgm_entity_pair e)
{
    DCGM_CALL c = dcgmsim_enter(fn, h, e.group < DCGM_ENTITY_GROUPS);
    if (c.rc)
        return c.rc;
    struct dcgmsim_group *g = own_group(c.client, id);
    if (!g)
        return DCGM_NOT_CONFIGURED;
    if (!dcgmsim_entity_exists(&e))
        return DCGM_BAD_PARAMETER;
    for (unsigned i = 0; i < g->n; i++)
        if (g->entities[i].group == e.group && g->entities[i].id == e.id)
            return DCGM_BAD_PARAMETER;
    unsigned most = dcgmsim_release() < 40000 ? 64 : DCGMSIM_GROUP_ENTITIES;
    if (g->n >= most)
        return DCGM_LIMIT;
    g->entities[g->n++] = e;
    return DCGM_OK;
}

DCGM_API int dcgmGroupAddEntity(dcgm_handle h, dcgm_group g, uint32_t group, uint32_t id)
{
    return add_entity(__func__, h, g, DCGMSIM_PAIR(group, id));
}

DCGM_API int dcgmGroupAddDevice(dcgm_handle h, dcgm_group g, uint32_t gpu)
{
    return add_entity(__func__, h, g, DCGMSIM_PAIR(DCGM_ENTITY_GPU, gpu));
}

DCGM_API int dcgmGroupGetInfo(dcgm_handle h, dcgm_group id, void *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    struct dcgmsim_group scratch = {0};
    const struct dcgmsim_group *g = dcgmsim_find_group(c.client, id, &scratch);
    struct dcgm_group_info_v2 *old = ret;
    struct dcgm_group_info_v3 *new = ret;
    uint32_t version = old->version;
    bool is_new = version == DCGM_GROUP_INFO_V3 && dcgmsim_release() >= 40000;
    int rc = !g                                        ? DCGM_NOT_CONFIGURED
             : is_new || version == DCGM_GROUP_INFO_V2 ? DCGM_OK
                                                       : DCGM_VERSION_MISMATCH;
    if (!rc && !is_new && g->n > GS_ARRAY_LEN(old->entities))
        rc = DCGM_LIMIT;
    if (!rc) {
        memcpy(new->name, g->name, sizeof(new->name));
        new->count = g->n;
        memcpy(is_new ? new->entities : old->entities, g->entities, g->n * sizeof(*g->entities));
    }
    free(scratch.entities);
    return rc;
}

// One unknown field makes the whole call fail, as in the real one.
DCGM_API int dcgmFieldGroupCreate(dcgm_handle h, int n, const uint16_t *ids, const char *name,
                                  dcgm_field_group *ret)
{
    bool valid = n > 0 && n <= DCGM_MAX_GROUP_FIELDS && ids && name && ret && strlen(name) < 256;
    DCGM_CALL c = dcgmsim_enter(__func__, h, valid);
    if (c.rc)
        return c.rc;
    for (int i = 0; i < n; i++)
        if (!dcgmsim_field(ids[i]))
            return DCGM_BAD_PARAMETER;
    unsigned free_place = DCGMSIM_FIELD_GROUPS;
    for (unsigned i = DCGMSIM_FIELD_GROUPS; i-- > 0;) {
        if (!E->field_groups[i].used)
            free_place = i;
        else if (E->field_groups[i].client == c.client && gs_streq(E->field_groups[i].name, name))
            return DCGM_DUPLICATE;
    }
    if (free_place == DCGMSIM_FIELD_GROUPS)
        return DCGM_LIMIT;
    struct dcgmsim_field_group *f = &E->field_groups[free_place];
    *f = (struct dcgmsim_field_group){.used = true, .client = c.client, .n = (unsigned)n};
    snprintf(f->name, sizeof(f->name), "%s", name);
    memcpy(f->ids, ids, (size_t)n * sizeof(*ids));
    *ret = free_place + 1;
    return DCGM_OK;
}

DCGM_API int dcgmFieldGroupDestroy(dcgm_handle h, dcgm_field_group id)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    if (c.rc)
        return c.rc;
    if (!dcgmsim_find_fields(c.client, id))
        return DCGM_NOT_CONFIGURED;
    E->field_groups[id - 1] = (struct dcgmsim_field_group){0};
    return DCGM_OK;
}
