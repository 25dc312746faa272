// SPDX-License-Identifier: Apache-2.0
// What `gpuscale sim` does to the engine of the simulated DCGM: start, stop, pause, and faults of
// the profiling counters. The engines read it in shared memory (src/simulation/dcgmsim).
#include "nvmlsim/nvmlsim_private.h"

#include "base/option.h"
#include "base/slice.h"

struct gs_error *nvmlsim_engine_action_parse(const char *text, enum nvmlsim_engine_action *ret)
{
    static const char *const names[] = {
        [NVMLSIM_ENGINE_START] = "start",     [NVMLSIM_ENGINE_STOP] = "stop",
        [NVMLSIM_ENGINE_RESTART] = "restart", [NVMLSIM_ENGINE_PAUSE] = "pause",
        [NVMLSIM_ENGINE_RESUME] = "resume",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (gs_streq(text, names[i])) {
            *ret = (enum nvmlsim_engine_action)i;
            return NULL;
        }
    }
    return gs_error_new(GS_EINVAL,
                        "the host engine cannot \"%s\": want start, stop, restart, pause or resume",
                        text);
}

void nvmlsim_engine_control(struct nvmlsim *s, enum nvmlsim_engine_action action)
{
    struct nvmlsim_shm_engine *e = &s->seg->engine;
    NVMLSIM_SHM_HOLD(held, &s->seg->lock);
    uint32_t flags = e->flags;
    switch (action) {
    case NVMLSIM_ENGINE_START:
        flags |= NVMLSIM_ENGINE_RUNNING;
        break;
    case NVMLSIM_ENGINE_STOP:
        flags &= ~(uint32_t)(NVMLSIM_ENGINE_RUNNING | NVMLSIM_ENGINE_PAUSED);
        break;
    case NVMLSIM_ENGINE_RESTART:
        flags = (flags | NVMLSIM_ENGINE_RUNNING) & ~(uint32_t)NVMLSIM_ENGINE_PAUSED;
        break;
    case NVMLSIM_ENGINE_PAUSE:
        flags |= NVMLSIM_ENGINE_PAUSED;
        break;
    case NVMLSIM_ENGINE_RESUME:
        flags &= ~(uint32_t)NVMLSIM_ENGINE_PAUSED;
        break;
    }
    if (action == NVMLSIM_ENGINE_STOP || action == NVMLSIM_ENGINE_RESTART)
        __atomic_add_fetch(&e->generation, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&e->flags, flags, __ATOMIC_RELEASE);
}

void nvmlsim_own_counters(struct nvmlsim *s, bool owned)
{
    NVMLSIM_SHM_HOLD(held, &s->seg->lock);
    uint32_t flags = s->seg->engine.flags & ~(uint32_t)NVMLSIM_ENGINE_FOREIGN_OWNER;
    __atomic_store_n(&s->seg->engine.flags, flags | (owned ? NVMLSIM_ENGINE_FOREIGN_OWNER : 0),
                     __ATOMIC_RELEASE);
}

struct gs_error *nvmlsim_kill_counters(struct nvmlsim *s, unsigned gpu, bool dead)
{
    if (gpu >= s->n_gpus)
        return gs_error_new(GS_EINVAL, "%s has no GPU %u: it has %u, numbered from 0", s->name, gpu,
                            s->n_gpus);
    NVMLSIM_SHM_HOLD(held, &s->seg->lock);
    uint32_t others = s->seg->engine.dead_counters & ~(UINT32_C(1) << gpu);
    s->seg->engine.dead_counters = others | (dead ? UINT32_C(1) << gpu : 0);
    return NULL;
}
