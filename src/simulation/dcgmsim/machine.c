// SPDX-License-Identifier: Apache-2.0
// NVSwitches, NVLinks and CPUs. Each NVLink carries traffic while the SMs of its GPU work, so that
// its counters grow with the load; errors do not occur. Links of GPUs are shared out among the
// switches in turn.
#include "dcgmsim/dcgmsim_private.h"

#include "base/slice.h"

#include <string.h>

#define E (&dcgmsim_engine)

enum {
    LINK_BYTES_PER_US = 2000, // of SM time
    PACKET = 256,
    SWITCH_CELSIUS = 41,
    CORE_KHZ = 3100000
};

static uint64_t bytes_of_gpu(unsigned gpu)
{
    struct nvmlsim_activity_counters now;
    nvmlsim_activity_count_gpu(&E->sim->seg->gpus[gpu], &E->sim->boards[gpu], &now);
    return (uint64_t)(now.sm / 1000) * LINK_BYTES_PER_US;
}

// The GPU at the other end of a switch's port. False: nothing is connected.
static bool gpu_at(unsigned sw, unsigned port, unsigned *ret_gpu)
{
    unsigned wanted = port * E->sim->machine.switches + sw;
    for (unsigned g = 0; g < E->sim->n_gpus; g++) {
        unsigned links = E->sim->boards[g].model.nvlinks;
        if (wanted < links) {
            *ret_gpu = g;
            return true;
        }
        wanted -= links;
    }
    return false;
}

static uint64_t bytes_of_link(uint32_t id)
{
    unsigned gpu = DCGM_LINK_PARENT(id);
    if (DCGM_LINK_PARENT_GROUP(id) == DCGM_ENTITY_SWITCH &&
        !gpu_at(DCGM_LINK_PARENT(id), DCGM_LINK_PORT(id), &gpu))
        return 0;
    return bytes_of_gpu(gpu);
}

static void read_link(uint32_t link, const struct dcgm_field *f, struct dcgmsim_value *ret)
{
    bool of_switch = DCGM_LINK_PARENT_GROUP(link) == DCGM_ENTITY_SWITCH;
    bool switch_field = f->id >= 780 && f->id <= 878;
    if (f->type != DCGM_TYPE_INT64 || of_switch != switch_field)
        dcgmsim_give_blank(ret, f->type, 2, DCGM_OK);
    else if (f->id == 780 || f->id == 781)
        dcgmsim_give_int(ret, (int64_t)bytes_of_link(link));
    else if (f->id >= 805 && f->id <= 808) // packets by virtual channel
        dcgmsim_give_int(ret, f->id == 805 ? (int64_t)(bytes_of_link(link) / PACKET) : 0);
    else
        dcgmsim_give_int(ret, 0);
}

static void read_switch(unsigned sw, const struct dcgm_field *f, struct dcgmsim_value *ret)
{
    static const struct {
        uint16_t id;
        int value;
    } constants[] = {{701, 825},   {702, 0},    {703, 0}, {704, 0}, {705, 38000},
                     {706, 12000}, {707, 9000}, {856, 0}, {857, 0}, {858, SWITCH_CELSIUS},
                     {859, 95},    {860, 105},  {864, 0}, {866, 0}, {868, 0},
                     {869, 0}};
    if (f->id == 861 || f->id == 862) {
        uint64_t sum = 0;
        for (unsigned p = 0; p < dcgmsim_switch_ports(); p++)
            sum += bytes_of_link(DCGM_LINK_ID(DCGM_ENTITY_SWITCH, p, sw));
        dcgmsim_give_int(ret, (int64_t)sum);
        return;
    }
    if (f->id == 863 || f->id == 867) { // physical number; bus
        dcgmsim_give_int(ret, f->id == 863 ? sw : 0xc0 + sw);
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(constants); i++) {
        if (constants[i].id == f->id) {
            dcgmsim_give_int(ret, constants[i].value);
            return;
        }
    }
    dcgmsim_give_blank(ret, f->type, 2, DCGM_OK);
}

static void read_cpu(const struct dcgm_field *f, struct dcgmsim_value *ret)
{
    static const struct {
        uint16_t id;
        double value;
    } numbers[] = {{1100, 0.15}, {1101, 0.1}, {1102, 0},   {1103, 0.05}, {1104, 0},  {1110, 45.5},
                   {1111, 85},   {1112, 95},  {1130, 120}, {1131, 500},  {1132, 30}, {1133, 160}};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        if (numbers[i].id == f->id) {
            dcgmsim_give_double(ret, numbers[i].value);
            return;
        }
    }
    if (f->id == 1120)
        dcgmsim_give_int(ret, CORE_KHZ);
    else if (f->id == 1140 || f->id == 1141)
        dcgmsim_give_text(ret, f->id == 1140 ? "Nvidia" : "Grace (simulated)");
    else
        dcgmsim_give_blank(ret, f->type, 2, DCGM_OK);
}

// A CPU has the fields of its cores, too; a core those of itself.
void dcgmsim_read_machine(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                          struct dcgmsim_value *ret)
{
    bool of_cpu = f->level == DCGM_ENTITY_CPU || f->level == DCGM_ENTITY_CPU_CORE;
    if (e->group == DCGM_ENTITY_LINK && f->level == DCGM_ENTITY_LINK)
        read_link(e->id, f, ret);
    else if (e->group == DCGM_ENTITY_SWITCH && f->level == DCGM_ENTITY_SWITCH)
        read_switch(e->id, f, ret);
    else if (of_cpu && (e->group == DCGM_ENTITY_CPU || f->level == DCGM_ENTITY_CPU_CORE))
        read_cpu(f, ret);
    else
        dcgmsim_give_blank(ret, f->type, 2, DCGM_OK);
}

// --- calls ---

static bool is_up(unsigned gpu, unsigned link)
{
    struct nvmlsim_shm_gpu *g = &E->sim->seg->gpus[gpu];
    uint64_t down = 0;
    NVMLSIM_SHM_HOLD(held, &g->lock);
    for (unsigned i = 0; i < NVMLSIM_SHM_VALUES; i++)
        if (g->values[i].used && g->values[i].what == NVMLSIM_VALUE_LINKS_DOWN)
            down = g->values[i].value;
    return link >= 64 || !(down >> link & 1);
}

static void fill_gpu_links(unsigned gpu, uint32_t *states, unsigned n)
{
    unsigned links = E->sim->boards[gpu].model.nvlinks;
    for (unsigned i = 0; i < n; i++)
        states[i] = i >= links      ? DCGM_LINK_UNSUPPORTED
                    : is_up(gpu, i) ? DCGM_LINK_UP
                                    : DCGM_LINK_DOWN;
}

static unsigned fill_switch_links(struct dcgm_switch_links *all)
{
    unsigned gpu = 0;
    for (unsigned s = 0; s < E->sim->machine.switches; s++) {
        all[s].id = s;
        for (unsigned p = 0; p < GS_ARRAY_LEN(all[s].state); p++)
            all[s].state[p] = p >= dcgmsim_switch_ports() ? DCGM_LINK_UNSUPPORTED
                              : gpu_at(s, p, &gpu)        ? DCGM_LINK_UP
                                                          : DCGM_LINK_DOWN;
    }
    return E->sim->machine.switches;
}

DCGM_API int dcgmGetNvLinkLinkStatus(dcgm_handle h, void *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    struct dcgm_link_status_v4 *old = ret;
    struct dcgm_link_status_v5 *new = ret;
    if (c.rc)
        return c.rc;
    if (new->version == DCGM_LINK_STATUS_V5 && dcgmsim_release() >= 40600) {
        new->n_gpus = E->sim->n_gpus;
        for (unsigned g = 0; g < E->sim->n_gpus; g++) {
            new->gpus[g].id = g;
            fill_gpu_links(g, new->gpus[g].state, GS_ARRAY_LEN(new->gpus[g].state));
        }
        new->n_switches = fill_switch_links(new->switches);
        return DCGM_OK;
    }
    if (old->version != DCGM_LINK_STATUS_V4 || dcgmsim_release() < 40000)
        return DCGM_VERSION_MISMATCH;
    old->n_gpus = E->sim->n_gpus;
    for (unsigned g = 0; g < E->sim->n_gpus; g++) {
        old->gpus[g].id = g;
        fill_gpu_links(g, old->gpus[g].state, GS_ARRAY_LEN(old->gpus[g].state));
    }
    old->n_switches = fill_switch_links(old->switches);
    return DCGM_OK;
}

enum { P2P_NVLINK = 2, P2P_NOT_SUPPORTED = 5, P2P_UNKNOWN = 6 }; // NVML's numbers

static uint32_t p2p_status(unsigned gpu, unsigned peer)
{
    nvmlDevice_t a = NULL, b = NULL;
    int status = P2P_UNKNOWN;
    if (gpu == peer || peer >= E->sim->n_gpus)
        return P2P_NOT_SUPPORTED;
    if (nvmlDeviceGetHandleByIndex_v2(gpu, &a) || nvmlDeviceGetHandleByIndex_v2(peer, &b) ||
        nvmlDeviceGetP2PStatus(a, b, P2P_NVLINK, &status))
        return P2P_UNKNOWN;
    return (uint32_t)status;
}

DCGM_API int dcgmGetNvLinkP2PStatus(dcgm_handle h, struct dcgm_p2p_status *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_P2P_STATUS || dcgmsim_release() < 40301)
        return DCGM_VERSION_MISMATCH;
    ret->n_gpus = E->sim->n_gpus;
    for (unsigned g = 0; g < E->sim->n_gpus; g++) {
        ret->gpus[g].id = g;
        for (unsigned k = 0; k < DCGM_MAX_GPUS; k++)
            ret->gpus[g].status[k] = p2p_status(g, k);
    }
    return DCGM_OK;
}

static void fill_cores(unsigned cpu, struct dcgm_owned_cores *ret)
{
    unsigned cores = E->sim->machine.cores;
    memset(ret->bitmask, 0, sizeof(ret->bitmask));
    for (unsigned i = cpu * cores; i < (cpu + 1) * cores; i++)
        ret->bitmask[i / 64] |= UINT64_C(1) << i % 64;
}

DCGM_API int dcgmGetCpuHierarchy(dcgm_handle h, struct dcgm_cpu_hierarchy_v1 *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_CPU_HIERARCHY_V1)
        return DCGM_VERSION_MISMATCH;
    if (!E->sim->machine.cpus)
        return DCGM_NOT_SUPPORTED;
    ret->count = E->sim->machine.cpus;
    for (unsigned i = 0; i < ret->count; i++) {
        ret->cpus[i].id = i;
        fill_cores(i, &ret->cpus[i].cores);
    }
    return DCGM_OK;
}

DCGM_API int dcgmGetCpuHierarchy_v2(dcgm_handle h, struct dcgm_cpu_hierarchy_v2 *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_CPU_HIERARCHY_V2 || dcgmsim_release() < 40000)
        return DCGM_VERSION_MISMATCH;
    if (!E->sim->machine.cpus)
        return DCGM_NOT_SUPPORTED;
    ret->count = E->sim->machine.cpus;
    for (unsigned i = 0; i < ret->count; i++) {
        ret->cpus[i].id = i;
        fill_cores(i, &ret->cpus[i].cores);
        memset(ret->cpus[i].serial, 0, sizeof(ret->cpus[i].serial));
    }
    return DCGM_OK;
}
