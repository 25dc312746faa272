// SPDX-License-Identifier: Apache-2.0
// Health watches and the engine's own use of memory and CPU. A simulated GPU is healthy unless it
// is lost.
#include "dcgmsim/dcgmsim_private.h"

#include "base/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define E (&dcgmsim_engine)

enum { HEALTH_PASS = 0, HEALTH_FAIL = 20, SYSTEM_DRIVER = 0x200, ERROR_GPU_LOST = 105 };

static int check_group(unsigned client, dcgm_group id, unsigned *ret_n)
{
    struct dcgmsim_group scratch = {0};
    const struct dcgmsim_group *g = dcgmsim_find_group(client, id, &scratch);
    *ret_n = g ? g->n : 0;
    free(scratch.entities);
    return g ? DCGM_OK : DCGM_NOT_CONFIGURED;
}

DCGM_API int dcgmHealthSet(dcgm_handle h, dcgm_group g, uint32_t mask)
{
    unsigned n = 0;
    DCGM_CALL c = dcgmsim_enter(__func__, h, true);
    int rc = c.rc ? c.rc : check_group(c.client, g, &n);
    if (!rc && n == 0)
        rc = DCGM_EMPTY_GROUP;
    if (!rc)
        E->health_systems = mask;
    return rc;
}

DCGM_API int dcgmHealthGet(dcgm_handle h, dcgm_group g, uint32_t *ret)
{
    unsigned n = 0;
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    int rc = c.rc ? c.rc : check_group(c.client, g, &n);
    if (!rc)
        *ret = E->health_systems;
    return rc;
}

static void check_entity(const struct dcgm_entity_pair *e, struct dcgm_health_v5 *ret)
{
    unsigned gpu = 0;
    if (e->group != DCGM_ENTITY_GPU || !dcgmsim_gpu_of(e, &gpu) ||
        !__atomic_load_n(&E->sim->seg->gpus[gpu].lost, __ATOMIC_ACQUIRE) ||
        ret->count == GS_ARRAY_LEN(ret->incidents))
        return;
    struct dcgm_incident *i = &ret->incidents[ret->count++];
    *i = (struct dcgm_incident){.system = SYSTEM_DRIVER, .health = HEALTH_FAIL, .entity = *e};
    snprintf(i->error.message, sizeof(i->error.message), "GPU %u has fallen off the bus", gpu);
    i->error.code = ERROR_GPU_LOST;
    ret->overall = HEALTH_FAIL;
}

DCGM_API int dcgmHealthCheck(dcgm_handle h, dcgm_group id, struct dcgm_health_v5 *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_HEALTH_V5 || dcgmsim_release() < 40000)
        return DCGM_VERSION_MISMATCH;
    struct dcgmsim_group scratch = {0};
    const struct dcgmsim_group *g = dcgmsim_find_group(c.client, id, &scratch);
    ret->overall = HEALTH_PASS;
    ret->count = 0;
    for (unsigned i = 0; g && i < g->n; i++)
        check_entity(&g->entities[i], ret);
    free(scratch.entities);
    return g ? DCGM_OK : DCGM_NOT_CONFIGURED;
}

DCGM_API int dcgmIntrospectGetHostengineMemoryUsage(dcgm_handle h, struct dcgm_engine_memory *ret,
                                                    int wait)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_ENGINE_MEMORY)
        return DCGM_VERSION_MISMATCH;
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    ret->bytes = (int64_t)use.ru_maxrss * 1024;
    return DCGM_OK;
}

DCGM_API int dcgmIntrospectGetHostengineCpuUtilization(dcgm_handle h, struct dcgm_engine_cpu *ret,
                                                       int wait)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_ENGINE_CPU)
        return DCGM_VERSION_MISMATCH;
    ret->total = ret->kernel = ret->user = 0;
    return DCGM_OK;
}
