// SPDX-License-Identifier: Apache-2.0
// The shared memory of simulated GPUs: names, mapping, robust mutexes, and the checks of what
// another process wrote. Constants are copied once when they have been checked; everything else
// may change at any time.
#include "nvmlsim/nvmlsim_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

struct gs_error *nvmlsim_shm_check_name(const char *name)
{
    if (!gs_starts(name, "/gpuscale-") || strchr(name + 1, '/') || strlen(name) >= 64)
        return gs_error_new(
            GS_EINVAL,
            "\"%s\" cannot name simulated GPUs: a name starts with /gpuscale-, has no "
            "other \"/\" and at most 63 characters",
            name);
    return NULL;
}

struct gs_error *nvmlsim_shm_mutex_init(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    if (rc)
        return gs_error_errno(rc, "making a mutex");
    rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (!rc)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (!rc)
        rc = pthread_mutex_init(m, &attr);
    pthread_mutexattr_destroy(&attr);
    return rc ? gs_error_errno(rc, "making a mutex that processes share") : NULL;
}

void nvmlsim_shm_lock(pthread_mutex_t *m)
{
    if (pthread_mutex_lock(m) == EOWNERDEAD)
        pthread_mutex_consistent(m);
}

struct gs_error *nvmlsim_shm_map(const char *name, int fd, size_t size, struct nvmlsim **ret)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return gs_error_errno(errno, "mapping the simulated GPUs %s", name);
    struct nvmlsim *s = gs_alloc(sizeof(*s));
    s->seg = at;
    s->size = size;
    s->fd = fd;
    memcpy(s->name, name, strlen(name) + 1);
    *ret = s;
    return NULL;
}

static struct gs_error *corrupt(const char *name, const char *what)
{
    return gs_error_new(
        GS_EPROTO,
        "the shared memory %s is not a usable set of simulated GPUs (%s); delete it with "
        "\"gpuscale sim delete --name %s\" and create it again",
        name, what, name);
}

static bool text_ends(const char *s, size_t size)
{
    return memchr(s, 0, size) != NULL;
}

static bool in_order(uint32_t low, uint32_t high, uint32_t most)
{
    return low <= high && high <= most;
}

// Implausible numbers could overflow calculations.
static const char *model_fault(const struct nvmlsim_model *m)
{
    if (!text_ends(m->name, sizeof(m->name)) || !text_ends(m->product, sizeof(m->product)))
        return "a text without end";
    if (m->sms == 0 || m->sms > 100000 || !in_order(m->idle_w, m->max_w, 100000) ||
        !in_order(m->sm_idle_mhz, m->sm_max_mhz, 1000000) ||
        !in_order(m->mem_idle_mhz, m->mem_max_mhz, 1000000) ||
        !in_order(m->idle_temp_c + 1, m->max_temp_c, 1000) || m->slowdown_temp_c > 1000 ||
        m->slowdown_temp_c < 4 || m->nvlinks > 64 || m->mig_slices > NVMLSIM_MAX_MIG)
        return "impossible numbers of a board";
    return NULL;
}

static const char *board_fault(const struct nvmlsim_shm_board *b)
{
    const char *why = model_fault(&b->model);
    if (why)
        return why;
    if (!text_ends(b->uuid, sizeof(b->uuid)) || !text_ends(b->pci_bus_id, sizeof(b->pci_bus_id)) ||
        !strchr(b->pci_bus_id, ':'))
        return "a text without end";
    if (b->n_mig > NVMLSIM_MAX_MIG)
        return "too many MIG instances";
    for (unsigned i = 0; i < b->n_mig; i++)
        if (!text_ends(b->mig[i].uuid, sizeof(b->mig[i].uuid)) ||
            !text_ends(b->mig[i].profile, sizeof(b->mig[i].profile)))
            return "a text without end";
    if (b->memory == 0 || b->reserved > b->memory || b->memory > UINT64_C(1) << 50)
        return "impossible memory sizes";
    for (unsigned i = 0; i < b->n_mig; i++)
        if (b->mig[i].memory > b->memory || b->mig[i].sms == 0 || b->mig[i].sms > b->model.sms ||
            b->mig[i].mem_slices > 8)
            return "impossible sizes of MIG instances";
    return NULL;
}

struct gs_error *nvmlsim_shm_copy_constants(struct nvmlsim *s)
{
    const struct nvmlsim_shm_segment *seg = s->seg;
    if (__atomic_load_n(&seg->magic, __ATOMIC_ACQUIRE) != NVMLSIM_SHM_MAGIC)
        return corrupt(s->name, "wrong magic number");
    if (__atomic_load_n(&seg->version, __ATOMIC_RELAXED) != NVMLSIM_SHM_VERSION)
        return corrupt(s->name, "made by another version of gpuscale");
    s->n_gpus = __atomic_load_n(&seg->n_gpus, __ATOMIC_RELAXED);
    s->created = __atomic_load_n(&seg->created, __ATOMIC_RELAXED);
    if (s->n_gpus == 0 || s->n_gpus > NVMLSIM_MAX_GPUS ||
        __atomic_load_n(&seg->size, __ATOMIC_RELAXED) != s->size ||
        s->size != sizeof(*seg) + s->n_gpus * sizeof(struct nvmlsim_shm_gpu))
        return corrupt(s->name, "wrong size");
    if (s->created < 0 || s->created > gs_mono_ns())
        return corrupt(s->name, "made in the future");
    s->machine = seg->machine;
    if (s->machine.switches > NVMLSIM_MAX_SWITCHES || s->machine.cpus > NVMLSIM_MAX_CPUS ||
        s->machine.cores > NVMLSIM_MAX_CORES ||
        s->machine.cpus * s->machine.cores > NVMLSIM_MAX_CORES)
        return corrupt(s->name, "impossible numbers of switches or CPUs");
    for (unsigned i = 0; i < s->n_gpus; i++) {
        s->boards[i] = seg->gpus[i].board;
        const char *why = board_fault(&s->boards[i]);
        if (why)
            return corrupt(s->name, why);
    }
    return NULL;
}

// The creator holds the segment exclusively while it initializes it: wait for a moment.
static struct gs_error *lock_shared(const char *name, int fd)
{
    for (int tries = 0; flock(fd, LOCK_SH | LOCK_NB) < 0; tries++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return gs_error_errno(errno, "locking the simulated GPUs %s", name);
        if (tries == 200)
            return gs_error_new(GS_EUNAVAIL, "the simulated GPUs %s are still being created", name);
        nanosleep(&(struct timespec){.tv_nsec = 5 * GS_NS_PER_MS}, NULL);
    }
    return NULL;
}

// The owner can change everything in the segment at any time. Root uses the segment of another user
// only if that user is configured.
static struct gs_error *check_owner(const char *name, const struct stat *st)
{
    const char *named = getenv(NVMLSIM_UID_ENV);
    char owner[16];
    snprintf(owner, sizeof(owner), "%u", (unsigned)st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return gs_error_new(GS_EPERM, "the simulated GPUs %s can be written by other users", name);
    if (st->st_uid == geteuid() || (geteuid() == 0 && gs_streq(named, owner)))
        return NULL;
    if (geteuid() != 0)
        return gs_error_new(GS_EPERM, "the simulated GPUs %s belong to another user, with uid %s",
                            name, owner);
    return gs_error_new(GS_EPERM,
                        "the simulated GPUs %s belong to another user, with uid %s, who can change "
                        "them at any time; to use them as root, set " NVMLSIM_UID_ENV "=%s",
                        name, owner, owner);
}

static struct gs_error *open_segment(const char *name, int *ret_fd, size_t *ret_size)
{
    GS_AUTO_CLOSE int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0 && errno == ENOENT)
        return gs_error_new(
            GS_ENOTFOUND,
            "the simulated GPUs %s do not exist; create them with \"gpuscale sim create "
            "2xTesla-T4 --name %s\"",
            name, name);
    if (fd < 0)
        return gs_error_errno(errno, "opening the simulated GPUs %s", name);
    struct gs_error *err = lock_shared(name, fd);
    if (err)
        return err;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gs_error_errno(errno, "inspecting the simulated GPUs %s", name);
    err = check_owner(name, &st);
    if (err)
        return err;
    if (st.st_size < (off_t)sizeof(struct nvmlsim_shm_segment) || st.st_size > (1 << 30))
        return corrupt(name, "wrong size");
    *ret_size = (size_t)st.st_size;
    *ret_fd = fd;
    fd = -1; // NOLINT(clang-analyzer-deadcode.DeadStores): the cleanup reads it
    return NULL;
}

struct gs_error *nvmlsim_attach(const char *name, struct nvmlsim **ret)
{
    struct gs_error *err = nvmlsim_shm_check_name(name);
    if (err)
        return err;
    GS_AUTO_CLOSE int fd = -1;
    size_t size = 0;
    err = open_segment(name, &fd, &size);
    if (err)
        return err;
    struct nvmlsim *s = NULL;
    err = nvmlsim_shm_map(name, fd, size, &s);
    if (err)
        return err;
    fd = -1;
    err = nvmlsim_shm_copy_constants(s);
    if (err) {
        nvmlsim_detach(s);
        return err;
    }
    *ret = s;
    return NULL;
}

void nvmlsim_detach(struct nvmlsim *s)
{
    if (!s)
        return;
    munmap(s->seg, s->size);
    close(s->fd);
    free(s);
}

unsigned nvmlsim_gpu_count(const struct nvmlsim *s)
{
    return s->n_gpus;
}

void nvmlsim_shm_event_wake(struct nvmlsim_shm_segment *seg)
{
    __atomic_add_fetch(&seg->event_seq, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &seg->event_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void nvmlsim_shm_event_wait(struct nvmlsim_shm_segment *seg, uint32_t seen, unsigned timeout_ms)
{
    struct timespec limit = {.tv_sec = timeout_ms / 1000,
                             .tv_nsec = (long)(timeout_ms % 1000) * (long)GS_NS_PER_MS};
    syscall(SYS_futex, &seg->event_seq, FUTEX_WAIT, seen, &limit, NULL, 0);
}
