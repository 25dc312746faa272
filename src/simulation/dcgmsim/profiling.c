// SPDX-License-Identifier: Apache-2.0
// Profiling: a value is the mean over the time since the sample before, from the same counters as
// NVML's GPM. Before Hopper the counters belong to one process of the machine; on Hopper and newer
// to all. The execution inside SMs is not simulated: the fields of single pipes are not supported.
#include "dcgmsim/dcgmsim_private.h"

#include "base/slice.h"

#include <stdlib.h>
#include <string.h>

#define E (&dcgmsim_engine)

enum {
    PROF_GRAPHICS = 1001,
    PROF_SM = 1002,
    PROF_OCCUPANCY = 1003,
    PROF_TENSOR = 1004,
    PROF_DRAM = 1005,
    PROF_PCIE_TX = 1009,
    PROF_PCIE_RX = 1010,
    PROF_NVLINK_TX = 1011,
    PROF_NVLINK_RX = 1012,
    PROF_LINK_FIRST = 1040,
    PROF_LINK_LAST = 1075,
    PROF_C2C_FIRST = 1076,
    PROF_C2C_LAST = 1079
};

static bool has_gpm(unsigned gpu)
{
    return E->sim->boards[gpu].model.arch >= NVMLSIM_HOPPER;
}

static bool has_counters(unsigned gpu)
{
    return E->sim->boards[gpu].model.arch >= NVMLSIM_VOLTA;
}

// Of the whole GPU.
static bool has_field(unsigned gpu, unsigned id)
{
    const struct nvmlsim_model *m = &E->sim->boards[gpu].model;
    if (id <= PROF_DRAM || id == PROF_PCIE_TX || id == PROF_PCIE_RX)
        return true;
    if (id == PROF_NVLINK_TX || id == PROF_NVLINK_RX)
        return m->nvlinks > 0;
    if (id >= PROF_LINK_FIRST && id <= PROF_LINK_LAST)
        return has_gpm(gpu) && (id - PROF_LINK_FIRST) / 2 < m->nvlinks;
    return id >= PROF_C2C_FIRST && id <= PROF_C2C_LAST && has_gpm(gpu) && m->c2c_links > 0;
}

// --- the owner ---

static bool same_process(const struct nvmlsim_process_id *a, const struct nvmlsim_process_id *b)
{
    return a->pid == b->pid && a->start_time == b->start_time && a->pid_ns == b->pid_ns;
}

static bool owned_by_other(const struct nvmlsim_shm_engine *e, const struct nvmlsim_process_id *me)
{
    return e->owner.pid && !same_process(&e->owner, me) && !nvmlsim_process_ended(&e->owner);
}

static bool is_host_engine(void)
{
    const char *set = getenv(DCGMSIM_HOST_ENGINE_ENV);
    return set && *set;
}

// The counters of the host engine are those of all its clients. An embedded engine takes them only
// if nobody has them.
int dcgmsim_profiling_start(unsigned gpu, bool embedded)
{
    struct nvmlsim_shm_engine *e = &E->sim->seg->engine;
    embedded = embedded && !is_host_engine();
    if (has_gpm(gpu))
        return DCGM_OK;
    if (!has_counters(gpu))
        return DCGM_PROFILING_NOT_SUPPORTED;
    struct nvmlsim_process_id me = {0};
    GS_AUTO_ERROR struct gs_error *err = nvmlsim_process_self(&me);
    if (err)
        return DCGM_GENERIC;
    NVMLSIM_SHM_HOLD(held, &E->sim->seg->lock);
    bool shared = !embedded && e->owner_is_host_engine;
    if ((e->flags & NVMLSIM_ENGINE_FOREIGN_OWNER) || (!shared && owned_by_other(e, &me)))
        return DCGM_PROFILING_FAILED;
    e->owner = me;
    e->owner_is_host_engine = !embedded;
    return DCGM_OK;
}

void dcgmsim_profiling_stop(void)
{
    struct nvmlsim_process_id me = {0};
    GS_AUTO_ERROR struct gs_error *err = nvmlsim_process_self(&me);
    if (err || !E->sim)
        return;
    struct nvmlsim_shm_engine *e = &E->sim->seg->engine;
    NVMLSIM_SHM_HOLD(held, &E->sim->seg->lock);
    if (same_process(&e->owner, &me))
        e->owner = (struct nvmlsim_process_id){0}; // another client takes them with its next watch
}

// --- values ---

static bool is_dead(unsigned gpu)
{
    return __atomic_load_n(&E->sim->seg->engine.dead_counters, __ATOMIC_ACQUIRE) >> gpu & 1;
}

static bool is_paused(void)
{
    return __atomic_load_n(&E->sim->seg->engine.flags, __ATOMIC_ACQUIRE) & NVMLSIM_ENGINE_PAUSED;
}

static double share(double part, double span)
{
    double s = part / span;
    return s < 0 ? 0 : s > 1 ? 1 : s;
}

static double ratio_of(unsigned id, const struct nvmlsim_activity_counters *from,
                       const struct nvmlsim_activity_counters *to)
{
    double span = (double)(to->at - from->at);
    switch (id) {
    case PROF_GRAPHICS:
        return share(to->busy - from->busy, span);
    case PROF_TENSOR:
        return share((to->sm - from->sm) / 2, span); // as in GPM
    case PROF_DRAM:
        return share(to->mem - from->mem, span);
    default:
        return share(to->sm - from->sm, span);
    }
}

static void count(unsigned gpu, int mig, struct nvmlsim_activity_counters *ret)
{
    struct nvmlsim_shm_gpu *g = &E->sim->seg->gpus[gpu];
    const struct nvmlsim_shm_board *b = &E->sim->boards[gpu];
    if (mig < 0)
        nvmlsim_activity_count_gpu(g, b, ret);
    else
        nvmlsim_activity_count_instance(g, b, b->mig[mig].gi_id, ret);
}

// The interval begins again after a pause, and values that were never counted are blank.
static void read_counter(unsigned gpu, int mig, const struct dcgm_field *f,
                         struct nvmlsim_activity_counters *prev, struct dcgmsim_value *ret)
{
    struct nvmlsim_activity_counters now;
    count(gpu, mig, &now);
    struct nvmlsim_activity_counters from = *prev;
    *prev = now;
    if (is_paused())
        *prev = (struct nvmlsim_activity_counters){0};
    if (prev->at == 0 || from.at == 0 || now.at <= from.at)
        dcgmsim_give_blank(ret, f->type, 0, DCGM_OK);
    else if (f->type == DCGM_TYPE_DOUBLE)
        dcgmsim_give_double(ret, is_dead(gpu) ? 0 : ratio_of(f->id, &from, &now));
    else
        dcgmsim_give_int(ret, 0); // nothing is transferred
}

void dcgmsim_read_profiling(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                            struct nvmlsim_activity_counters *prev, struct dcgmsim_value *ret)
{
    unsigned gpu = 0, mig = 0;
    bool is_mig = dcgmsim_mig_of(e, &gpu, &mig);
    if (!is_mig && !dcgmsim_gpu_of(e, &gpu)) {
        dcgmsim_give_blank(ret, f->type, 2, DCGM_OK);
        return;
    }
    bool has = has_counters(gpu) && has_field(gpu, f->id) && (!is_mig || f->id <= PROF_DRAM);
    if (!has || !prev)
        dcgmsim_give_blank(ret, f->type, 2, prev ? DCGM_OK : DCGM_NOT_SUPPORTED);
    else if (__atomic_load_n(&E->sim->seg->gpus[gpu].lost, __ATOMIC_ACQUIRE))
        dcgmsim_give_blank(ret, f->type, 0, DCGM_GPU_LOST);
    else
        read_counter(gpu, is_mig ? (int)mig : -1, f, prev, ret);
}

// --- calls ---

static void add_group(struct dcgm_metric_groups *all, unsigned gpu, uint16_t major, unsigned first,
                      unsigned last)
{
    struct dcgm_metric_group g = {.major = major};
    for (unsigned id = first; id <= last && g.n_fields < GS_ARRAY_LEN(g.fields); id++)
        if (dcgmsim_field(id) && has_field(gpu, id))
            g.fields[g.n_fields++] = (uint16_t)id;
    if (g.n_fields)
        all->groups[all->count++] = g;
}

DCGM_API int dcgmProfGetSupportedMetricGroups(dcgm_handle h, struct dcgm_metric_groups *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_METRIC_GROUPS)
        return DCGM_VERSION_MISMATCH;
    if (ret->gpu >= E->sim->n_gpus)
        return DCGM_BAD_PARAMETER;
    if (!has_counters(ret->gpu))
        return DCGM_PROFILING_NOT_SUPPORTED;
    unsigned gpu = ret->gpu;
    ret->count = 0;
    memset(ret->groups, 0, sizeof(ret->groups));
    // Each on hardware of its own: all can be measured at the same time.
    add_group(ret, gpu, 0, PROF_SM, PROF_TENSOR);
    add_group(ret, gpu, 1, PROF_DRAM, PROF_DRAM);
    add_group(ret, gpu, 2, PROF_PCIE_TX, PROF_PCIE_RX);
    add_group(ret, gpu, 3, PROF_GRAPHICS, PROF_GRAPHICS);
    add_group(ret, gpu, 4, PROF_NVLINK_TX, PROF_NVLINK_RX);
    add_group(ret, gpu, 5, PROF_LINK_FIRST, PROF_LINK_LAST);
    add_group(ret, gpu, 6, PROF_C2C_FIRST, PROF_C2C_LAST);
    return DCGM_OK;
}

static int set_paused(const char *fn, dcgm_handle h, bool paused)
{
    DCGM_CALL c = dcgmsim_enter(fn, h, true);
    if (c.rc)
        return c.rc;
    nvmlsim_engine_control(E->sim, paused ? NVMLSIM_ENGINE_PAUSE : NVMLSIM_ENGINE_RESUME);
    return DCGM_OK;
}

DCGM_API int dcgmProfPause(dcgm_handle h)
{
    return set_paused(__func__, h, true);
}

DCGM_API int dcgmProfResume(dcgm_handle h)
{
    return set_paused(__func__, h, false);
}
