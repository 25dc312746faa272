// SPDX-License-Identifier: Apache-2.0
// Entities of the simulated machine and their numbers. A GPU has its index; a MIG instance the
// number of its GPU times the largest number of MIG devices, plus its place in order of discovery.
#include "dcgmsim/dcgmsim_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <string.h>

#define E (&dcgmsim_engine)

enum { ALL_INSTANCES = 7, GPU_PORTS = 36 };

static unsigned instances_of(const struct nvmlsim_shm_board *b)
{
    return b->model.mig_slices ? b->model.mig_slices : ALL_INSTANCES;
}

// The MIG devices are in order of their GPU instances; instances with several compute instances
// are counted once.
static int mig_at(const struct nvmlsim_shm_board *b, unsigned place, bool compute)
{
    unsigned n = 0;
    for (unsigned i = 0; i < b->n_mig; i++) {
        bool repeated = false;
        for (unsigned k = 0; k < i && !compute; k++)
            repeated = repeated || b->mig[k].gi_id == b->mig[i].gi_id;
        if (!repeated && n++ == place)
            return (int)i;
    }
    return -1;
}

static unsigned count_mig(const struct nvmlsim_shm_board *b, bool compute)
{
    unsigned n = 0;
    while (mig_at(b, n, compute) >= 0)
        n++;
    return n;
}

bool dcgmsim_mig_of(const struct dcgm_entity_pair *e, unsigned *ret_gpu, unsigned *ret_mig)
{
    if (e->group != DCGM_ENTITY_GPU_I && e->group != DCGM_ENTITY_GPU_CI)
        return false;
    for (unsigned g = 0; g < E->sim->n_gpus; g++) {
        const struct nvmlsim_shm_board *b = &E->sim->boards[g];
        unsigned first = g * instances_of(b);
        if (e->id < first || e->id >= first + instances_of(b))
            continue;
        int mig = mig_at(b, e->id - first, e->group == DCGM_ENTITY_GPU_CI);
        if (mig < 0)
            continue;
        *ret_gpu = g;
        *ret_mig = (unsigned)mig;
        return true;
    }
    return false;
}

bool dcgmsim_gpu_of(const struct dcgm_entity_pair *e, unsigned *ret_gpu)
{
    unsigned mig = 0;
    if (e->group == DCGM_ENTITY_LINK) {
        unsigned gpu = DCGM_LINK_PARENT(e->id);
        if (DCGM_LINK_PARENT_GROUP(e->id) != DCGM_ENTITY_GPU || gpu >= E->sim->n_gpus)
            return false;
        *ret_gpu = gpu;
        return DCGM_LINK_PORT(e->id) < GPU_PORTS; // all ports, whether the GPU has them or not
    }
    if (e->group != DCGM_ENTITY_GPU)
        return dcgmsim_mig_of(e, ret_gpu, &mig);
    *ret_gpu = e->id;
    return e->id < E->sim->n_gpus;
}

unsigned dcgmsim_switch_ports(void)
{
    const struct nvmlsim *s = E->sim;
    unsigned links = 0;
    if (!s->machine.switches)
        return 0;
    for (unsigned g = 0; g < s->n_gpus; g++)
        links += s->boards[g].model.nvlinks;
    unsigned ports = (links + s->machine.switches - 1) / s->machine.switches;
    return ports > 256 ? 256 : ports;
}

bool dcgmsim_entity_exists(const struct dcgm_entity_pair *e)
{
    const struct nvmlsim_shm_machine *m = &E->sim->machine;
    unsigned gpu = 0;
    switch (e->group) {
    case DCGM_ENTITY_GPU:
    case DCGM_ENTITY_GPU_I:
    case DCGM_ENTITY_GPU_CI:
        return dcgmsim_gpu_of(e, &gpu);
    case DCGM_ENTITY_SWITCH:
        return e->id < m->switches;
    case DCGM_ENTITY_LINK:
        if (DCGM_LINK_PARENT_GROUP(e->id) == DCGM_ENTITY_SWITCH)
            return DCGM_LINK_PARENT(e->id) < m->switches &&
                   DCGM_LINK_PORT(e->id) < dcgmsim_switch_ports();
        return dcgmsim_gpu_of(e, &gpu);
    case DCGM_ENTITY_CPU:
        return e->id < m->cpus;
    case DCGM_ENTITY_CPU_CORE:
        return e->id < m->cpus * m->cores;
    default:
        return false;
    }
}

struct list {
    struct dcgm_entity_pair *items;
    unsigned n;
};

static void add_range(struct list *l, unsigned group, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n && l->n < DCGMSIM_GROUP_ENTITIES; i++)
        l->items[l->n++] = DCGMSIM_PAIR(group, first + i);
}

static void add_links(struct list *l, unsigned parent_group, unsigned parent, unsigned ports)
{
    for (unsigned p = 0; p < ports && l->n < DCGMSIM_GROUP_ENTITIES; p++)
        l->items[l->n++] = DCGMSIM_PAIR(DCGM_ENTITY_LINK, DCGM_LINK_ID(parent_group, p, parent));
}

unsigned dcgmsim_entities(unsigned group, struct dcgm_entity_pair *ret)
{
    const struct nvmlsim *s = E->sim;
    struct list l = {.items = ret};
    bool compute = group == DCGM_ENTITY_GPU_CI;
    switch (group) {
    case DCGM_ENTITY_GPU:
        add_range(&l, group, 0, s->n_gpus);
        break;
    case DCGM_ENTITY_GPU_I:
    case DCGM_ENTITY_GPU_CI:
        for (unsigned g = 0; g < s->n_gpus; g++)
            add_range(&l, group, g * instances_of(&s->boards[g]),
                      count_mig(&s->boards[g], compute));
        break;
    case DCGM_ENTITY_SWITCH:
        add_range(&l, group, 0, s->machine.switches);
        break;
    case DCGM_ENTITY_LINK:
        for (unsigned g = 0; g < s->n_gpus; g++)
            add_links(&l, DCGM_ENTITY_GPU, g, s->boards[g].model.nvlinks);
        for (unsigned i = 0; i < s->machine.switches; i++)
            add_links(&l, DCGM_ENTITY_SWITCH, i, dcgmsim_switch_ports());
        break;
    case DCGM_ENTITY_CPU:
        add_range(&l, group, 0, s->machine.cpus);
        break;
    case DCGM_ENTITY_CPU_CORE:
        add_range(&l, group, 0, s->machine.cpus * s->machine.cores);
        break;
    default:
        break;
    }
    return l.n;
}

// --- calls ---

static int all_devices(const char *fn, dcgm_handle h, uint32_t *ret_ids, int *ret_n)
{
    DCGM_CALL c = dcgmsim_enter(fn, h, ret_ids && ret_n);
    if (c.rc)
        return c.rc;
    for (unsigned i = 0; i < E->sim->n_gpus; i++)
        ret_ids[i] = i;
    *ret_n = (int)E->sim->n_gpus;
    return DCGM_OK;
}

DCGM_API int dcgmGetAllDevices(dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n)
{
    return all_devices(__func__, h, ret_ids, ret_n);
}

DCGM_API int dcgmGetAllSupportedDevices(dcgm_handle h, uint32_t ret_ids[DCGM_MAX_GPUS], int *ret_n)
{
    return all_devices(__func__, h, ret_ids, ret_n);
}

enum gpu_status { STATUS_OK = 1, STATUS_LOST = 5 };

DCGM_API int dcgmGetGpuStatus(dcgm_handle h, uint32_t gpu, int *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (gpu >= E->sim->n_gpus)
        return DCGM_BAD_PARAMETER;
    bool lost = __atomic_load_n(&E->sim->seg->gpus[gpu].lost, __ATOMIC_ACQUIRE);
    *ret = lost ? STATUS_LOST : STATUS_OK;
    return DCGM_OK;
}

DCGM_API int dcgmGetEntityGroupEntities(dcgm_handle h, uint32_t group, uint32_t *ret_ids, int *n,
                                        uint32_t flags)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret_ids && n && *n >= 0 && group < DCGM_ENTITY_GROUPS);
    if (c.rc)
        return c.rc;
    GS_AUTO_FREE struct dcgm_entity_pair *all =
        gs_alloc_array(DCGMSIM_GROUP_ENTITIES, sizeof(*all));
    unsigned count = dcgmsim_entities(group, all), room = (unsigned)*n;
    *n = (int)count;
    if (count > room)
        return DCGM_INSUFFICIENT_RESOURCES;
    for (unsigned i = 0; i < count; i++)
        ret_ids[i] = all[i].id;
    return DCGM_OK;
}

static void fill_row(struct dcgm_mig_row *row, unsigned gpu, const struct nvmlsim_shm_mig *m)
{
    memcpy(row->info.gpu_uuid, E->sim->boards[gpu].uuid, sizeof(E->sim->boards[gpu].uuid));
    row->info.nvml_gpu_index = gpu;
    row->info.nvml_instance_id = m->gi_id;
    row->info.nvml_compute_instance_id =
        row->entity.group == DCGM_ENTITY_GPU_CI ? m->ci_id : UINT32_MAX;
    row->info.nvml_profile_id = m->nvml_profile;
    row->info.nvml_profile_slices = m->slices;
}

// A GPU instance precedes its compute instances.
static void add_instances(struct dcgm_mig_hierarchy *h, unsigned gpu)
{
    const struct nvmlsim_shm_board *b = &E->sim->boards[gpu];
    unsigned first = gpu * instances_of(b);
    for (unsigned i = 0; i < count_mig(b, false); i++) {
        const struct nvmlsim_shm_mig *m = &b->mig[mig_at(b, i, false)];
        struct dcgm_mig_row *row = &h->rows[h->count++];
        row->entity = DCGMSIM_PAIR(DCGM_ENTITY_GPU_I, first + i);
        row->parent = DCGMSIM_PAIR(DCGM_ENTITY_GPU, gpu);
        fill_row(row, gpu, m);
        for (unsigned k = 0; k < b->n_mig; k++) {
            if (b->mig[k].gi_id != m->gi_id)
                continue;
            struct dcgm_mig_row *part = &h->rows[h->count++];
            part->entity = DCGMSIM_PAIR(DCGM_ENTITY_GPU_CI, first + k);
            part->parent = DCGMSIM_PAIR(DCGM_ENTITY_GPU_I, first + i);
            fill_row(part, gpu, &b->mig[k]);
        }
    }
}

DCGM_API int dcgmGetGpuInstanceHierarchy(dcgm_handle h, struct dcgm_mig_hierarchy *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_MIG_HIERARCHY)
        return DCGM_VERSION_MISMATCH;
    ret->count = 0;
    memset(ret->rows, 0, sizeof(ret->rows));
    for (unsigned g = 0; g < E->sim->n_gpus; g++)
        add_instances(ret, g);
    return DCGM_OK;
}
