// SPDX-License-Identifier: Apache-2.0
// The client of workloads: opens a simulated GPU as a CUDA program would (CUDA_VISIBLE_DEVICES),
// allocates its memory and runs kernels as reserved time. Any thread may use it; GPU state is
// under the robust mutex of its GPU.
#include "nvmlsim/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "nvmlsim/nvmlsim_private.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define MAX_VISIBLE (NVMLSIM_MAX_GPUS * NVMLSIM_MAX_MIG)

struct nvmlsim_alloc {
    uint64_t bytes;
    struct nvmlsim_alloc *next;
};

struct nvmlsim_ctx {
    struct nvmlsim *sim;
    struct nvmlsim_shm_gpu *gpu;
    const struct nvmlsim_shm_board *board;
    unsigned index, place, timeline;
    pid_t pid;
    uint64_t memory;              // protected by the GPU's mutex
    struct nvmlsim_alloc *allocs; // protected by the GPU's mutex
};

// A device as CUDA counts them: a whole GPU or a MIG instance.
struct visible {
    unsigned gpu, timeline;
};

struct visible_list {
    struct visible items[MAX_VISIBLE];
    unsigned n;
};

static void add_visible(struct visible_list *list, unsigned gpu, unsigned timeline)
{
    for (unsigned i = 0; i < list->n; i++)
        if (list->items[i].gpu == gpu && list->items[i].timeline == timeline)
            return;
    if (list->n < MAX_VISIBLE)
        list->items[list->n++] = (struct visible){gpu, timeline};
}

// As in CUDA, the name of a GPU with MIG refers to its first instance.
static unsigned whole_timeline(const struct nvmlsim_shm_board *g)
{
    return g->n_mig ? 1 : 0;
}

static bool add_mig(const struct nvmlsim *sim, struct gs_slice uuid, struct visible_list *list)
{
    for (unsigned i = 0; i < sim->n_gpus; i++) {
        for (unsigned m = 0; m < sim->boards[i].n_mig; m++) {
            if (gs_slice_eq_str(uuid, sim->boards[i].mig[m].uuid)) {
                add_visible(list, i, 1 + m);
                return true;
            }
        }
    }
    return false;
}

static bool add_named(const struct nvmlsim *sim, struct gs_slice word, struct visible_list *list)
{
    for (size_t i = 0; i + 1 < word.len; i++)
        if (word.data[i] == ':' && word.data[i + 1] == ':')
            word.len = i; // replica suffix of a time-sliced GPU
    if (gs_slice_starts(word, "MIG-"))
        return add_mig(sim, word, list);
    uint64_t index = 0;
    struct gs_error *err = gs_parse_u64(word, sim->n_gpus - 1, &index);
    bool is_index = !err;
    gs_error_free(err);
    for (unsigned i = 0; i < sim->n_gpus; i++) {
        if (is_index ? i == index : gs_slice_eq_str(word, sim->boards[i].uuid)) {
            add_visible(list, i, whole_timeline(&sim->boards[i]));
            return true;
        }
    }
    return false;
}

static void add_all(const struct nvmlsim *sim, struct visible_list *list)
{
    for (unsigned i = 0; i < sim->n_gpus; i++) {
        if (sim->boards[i].n_mig == 0)
            add_visible(list, i, 0);
        for (unsigned m = 0; m < sim->boards[i].n_mig; m++)
            add_visible(list, i, 1 + m);
    }
}

// As in CUDA, the list ends before the first invalid entry.
static void list_visible(const struct nvmlsim *sim, const char *variable, struct visible_list *list)
{
    list->n = 0;
    if (!variable) {
        add_all(sim, list);
        return;
    }
    struct gs_slice rest = gs_slice_of(variable);
    while (rest.data) {
        struct gs_slice word = gs_slice_trim(gs_slice_cut(&rest, ','));
        if (!word.len || !add_named(sim, word, list))
            return;
    }
}

static struct gs_error *choose(const struct nvmlsim *sim, unsigned ordinal, struct visible *ret)
{
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");
    struct visible_list list;
    list_visible(sim, variable, &list);
    if (ordinal >= list.n)
        return gs_error_new(
            GS_ENOTFOUND,
            "no simulated device %u: CUDA_VISIBLE_DEVICES%s%s selects %u devices of %s", ordinal,
            variable ? "=" : " is not set and ", variable ? variable : "all", list.n, sim->name);
    *ret = list.items[ordinal];
    return NULL;
}

static struct gs_error *lost_error(const struct nvmlsim_ctx *c)
{
    return gs_error_new(GS_EUNAVAIL, "the simulated GPU %u (%s) is lost", c->index, c->board->uuid);
}

static struct gs_error *enter(struct nvmlsim_ctx *c, unsigned ordinal)
{
    struct visible v;
    struct nvmlsim_process_id id;
    struct gs_error *err = choose(c->sim, ordinal, &v);
    if (!err)
        err = nvmlsim_process_self(&id);
    if (err)
        return err;
    c->index = v.gpu;
    c->timeline = v.timeline;
    c->gpu = &c->sim->seg->gpus[v.gpu];
    c->board = &c->sim->boards[v.gpu];
    c->pid = (pid_t)id.pid;
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    if (c->gpu->lost)
        return lost_error(c);
    err = nvmlsim_process_open(c->gpu, &id, v.timeline, &c->place);
    return err ? gs_error_wrap(err, "%s", c->board->uuid) : NULL;
}

struct gs_error *nvmlsim_ctx_open(unsigned ordinal, struct nvmlsim_ctx **ret)
{
    const char *name = getenv(NVMLSIM_ENV);
    if (!name || !*name)
        return gs_error_new(
            GS_ENOTFOUND, "no simulated GPUs: the environment variable %s is not set", NVMLSIM_ENV);
    struct nvmlsim_ctx *c = gs_alloc(sizeof(*c));
    struct gs_error *err = nvmlsim_attach(name, &c->sim);
    if (!err)
        err = enter(c, ordinal);
    if (err) {
        nvmlsim_detach(c->sim);
        free(c);
        return err;
    }
    *ret = c;
    return NULL;
}

unsigned nvmlsim_ctx_gpu(const struct nvmlsim_ctx *c)
{
    return c->index;
}

const char *nvmlsim_ctx_model(const struct nvmlsim_ctx *c)
{
    return c->board->model.name;
}

uint64_t nvmlsim_ctx_memory(const struct nvmlsim_ctx *c)
{
    return nvmlsim_process_memory_limit(c->board, c->timeline);
}

void nvmlsim_ctx_close(struct nvmlsim_ctx *c)
{
    if (!c)
        return;
    if (c->pid == getpid()) { // a forked child holds no resources
        NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
        nvmlsim_process_close(c->gpu, c->place, c->memory);
    }
    for (struct nvmlsim_alloc *a = c->allocs; a;) {
        struct nvmlsim_alloc *next = a->next;
        free(a);
        a = next;
    }
    nvmlsim_detach(c->sim);
    free(c);
}

static struct gs_error *check_owner(const struct nvmlsim_ctx *c)
{
    if (c->pid == getpid())
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "a simulated device that was opened before fork() cannot be used "
                        "by the child; open it again there");
}

struct gs_error *nvmlsim_mem_alloc(struct nvmlsim_ctx *c, uint64_t bytes,
                                   struct nvmlsim_alloc **ret)
{
    struct gs_error *err = check_owner(c);
    if (err)
        return err;
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    if (c->gpu->lost)
        return lost_error(c);
    uint64_t limit = nvmlsim_process_memory_limit(c->board, c->timeline);
    uint64_t before = nvmlsim_process_memory_used(c->gpu, c->board, c->timeline);
    if (before > limit || bytes > limit - before)
        nvmlsim_process_reap(c->gpu);
    uint64_t used = nvmlsim_process_memory_used(c->gpu, c->board, c->timeline);
    if (used > limit || bytes > limit - used)
        return gs_error_new(
            GS_ELIMIT,
            "out of memory: %llu MiB requested, the simulated GPU %u has %llu of %llu MiB free",
            (unsigned long long)(bytes >> 20), c->index,
            (unsigned long long)((limit - (used < limit ? used : limit)) >> 20),
            (unsigned long long)(limit >> 20));
    struct nvmlsim_alloc *a = gs_alloc(sizeof(*a));
    a->bytes = bytes;
    a->next = c->allocs;
    c->allocs = a;
    c->memory += bytes;
    c->gpu->processes[c->place].memory += bytes;
    *ret = a;
    return NULL;
}

void nvmlsim_mem_free(struct nvmlsim_ctx *c, struct nvmlsim_alloc *a)
{
    if (!a || c->pid != getpid())
        return;
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    for (struct nvmlsim_alloc **at = &c->allocs; *at; at = &(*at)->next) {
        if (*at != a)
            continue;
        struct nvmlsim_shm_process *p = &c->gpu->processes[c->place];
        *at = a->next;
        c->memory -= a->bytes;
        p->memory -= a->bytes < p->memory ? a->bytes : p->memory;
        free(a);
        return;
    }
}

static void sleep_until(int64_t mono_ns)
{
    struct timespec at = {.tv_sec = mono_ns / GS_NS_PER_SEC, .tv_nsec = mono_ns % GS_NS_PER_SEC};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

// Reserves the next slice; the caller sleeps until ret->end. *ret_ok false: no free reservation,
// try again.
static struct gs_error *reserve(struct nvmlsim_ctx *c, int64_t earliest, int64_t length,
                                uint32_t share_ppm, bool *ret_ok,
                                struct nvmlsim_timeline_slice *ret)
{
    NVMLSIM_SHM_HOLD(held, &c->gpu->lock);
    if (c->gpu->lost)
        return lost_error(c);
    int64_t now = gs_mono_ns();
    *ret_ok = nvmlsim_timeline_reserve(c->gpu, c->place, earliest ? earliest : now, now, length,
                                       share_ppm, ret);
    return NULL;
}

// Converts the kernel to this part of the device: a kernel that needs more SMs than a MIG instance
// has takes longer; one that needs fewer occupies a larger share of the instance than of the GPU.
static void fit(const struct nvmlsim_ctx *c, double sm_share, int64_t *length,
                uint32_t *ret_share_ppm)
{
    const struct nvmlsim_shm_board *b = c->board;
    double part = c->timeline ? (double)b->mig[c->timeline - 1].sms / b->model.sms : 1;
    double share = sm_share / part;
    if (share > 1) {
        *length = (int64_t)((double)*length * share);
        share = 1;
    }
    uint32_t ppm = (uint32_t)(share * NVMLSIM_SHM_PPM + 0.5);
    *ret_share_ppm = ppm ? ppm : 1;
}

struct gs_error *nvmlsim_kernel_run(struct nvmlsim_ctx *c, uint64_t duration_us, double sm_share)
{
    if (!(sm_share > 0 && sm_share <= 1) || duration_us > UINT64_C(1000000) * 86400)
        return gs_error_new(GS_EINVAL,
                            "a kernel of %llu us on a share of %g of the SMs: want a share above 0 "
                            "and at most 1, and at most a day",
                            (unsigned long long)duration_us, sm_share);
    struct gs_error *err = check_owner(c);
    int64_t left = (int64_t)duration_us * 1000, earliest = 0;
    uint32_t share_ppm = 0;
    fit(c, sm_share, &left, &share_ppm);
    while (!err && left > 0) {
        int64_t length = left < NVMLSIM_TIMELINE_SLICE_NS ? left : NVMLSIM_TIMELINE_SLICE_NS;
        struct nvmlsim_timeline_slice slice;
        bool ok = false;
        err = reserve(c, earliest, length, share_ppm, &ok, &slice);
        if (!err && ok) {
            sleep_until(slice.end);
            earliest = slice.end;
            left -= length;
        } else if (!err) {
            sleep_until(gs_mono_ns() + GS_NS_PER_MS);
        }
    }
    return err;
}
