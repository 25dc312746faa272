// SPDX-License-Identifier: Apache-2.0
#include "nvmlsim/shm.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

struct gs_error *shm_check_name(const char *name)
{
    if (!gs_starts(name, "/gpuscale-") || strchr(name + 1, '/') || strlen(name) >= 64)
        return gs_error_new(
            GS_EINVAL,
            "\"%s\" cannot name simulated GPUs: a name starts with /gpuscale-, has no "
            "other \"/\" and at most 63 characters",
            name);
    return NULL;
}

struct gs_error *shm_mutex_init(pthread_mutex_t *m)
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

void shm_lock(pthread_mutex_t *m)
{
    if (pthread_mutex_lock(m) == EOWNERDEAD)
        pthread_mutex_consistent(m);
}

struct gs_error *shm_map(const char *name, int fd, size_t size, struct sim **ret)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return gs_error_errno(errno, "mapping the simulated GPUs %s", name);
    struct sim *s = gs_alloc(sizeof(*s));
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

static const char *gpu_fault(const struct shm_gpu *g)
{
    if (!text_ends(g->uuid, sizeof(g->uuid)) || !text_ends(g->pci_bus_id, sizeof(g->pci_bus_id)) ||
        !text_ends(g->model.name, sizeof(g->model.name)) ||
        !text_ends(g->model.product, sizeof(g->model.product)))
        return "a text without end";
    if (g->n_mig > SIM_MAX_MIG)
        return "too many MIG instances";
    for (unsigned i = 0; i < g->n_mig; i++)
        if (!text_ends(g->mig[i].uuid, sizeof(g->mig[i].uuid)) ||
            !text_ends(g->mig[i].profile, sizeof(g->mig[i].profile)))
            return "a text without end";
    if (g->memory == 0 || g->reserved > g->memory)
        return "impossible memory sizes";
    return NULL;
}

static struct gs_error *check_segment(const char *name, const struct shm_segment *seg, size_t size)
{
    if (__atomic_load_n(&seg->magic, __ATOMIC_ACQUIRE) != SHM_MAGIC)
        return corrupt(name, "wrong magic number");
    if (seg->version != SHM_VERSION)
        return corrupt(name, "made by another version of gpuscale");
    if (seg->size != size || seg->n_gpus == 0 || seg->n_gpus > SIM_MAX_GPUS ||
        size != sizeof(*seg) + seg->n_gpus * sizeof(struct shm_gpu))
        return corrupt(name, "wrong size");
    for (unsigned i = 0; i < seg->n_gpus; i++) {
        const char *why = gpu_fault(&seg->gpus[i]);
        if (why)
            return corrupt(name, why);
    }
    return NULL;
}

// The creator holds the segment exclusively while it fills it: wait a moment for it.
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

static struct gs_error *open_segment(const char *name, int *ret_fd, size_t *ret_size)
{
    GS_AUTO_CLOSE int fd = shm_open(name, O_RDWR, 0);
    if (fd < 0 && errno == ENOENT)
        return gs_error_new(
            GS_ENOTFOUND,
            "there are no simulated GPUs %s; create them with \"gpuscale sim create "
            "2xTesla-T4 --name %s\"",
            name, name);
    if (fd < 0)
        return gs_error_errno(errno, "opening the simulated GPUs %s", name);
    struct gs_error *err = lock_shared(name, fd);
    if (err)
        return err;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return gs_error_errno(errno, "looking at the simulated GPUs %s", name);
    if (st.st_uid != geteuid() && geteuid() != 0)
        return gs_error_new(GS_EPERM, "the simulated GPUs %s belong to another user", name);
    if (st.st_size < (off_t)sizeof(struct shm_segment) || st.st_size > (1 << 30))
        return corrupt(name, "wrong size");
    *ret_size = (size_t)st.st_size;
    *ret_fd = fd;
    fd = -1; // NOLINT(clang-analyzer-deadcode.DeadStores): the clean-up reads it
    return NULL;
}

struct gs_error *sim_attach(const char *name, struct sim **ret)
{
    struct gs_error *err = shm_check_name(name);
    if (err)
        return err;
    GS_AUTO_CLOSE int fd = -1;
    size_t size = 0;
    err = open_segment(name, &fd, &size);
    if (err)
        return err;
    struct sim *s = NULL;
    err = shm_map(name, fd, size, &s);
    if (err)
        return err;
    fd = -1;
    err = check_segment(name, s->seg, size);
    if (err) {
        sim_detach(s);
        return err;
    }
    *ret = s;
    return NULL;
}

void sim_detach(struct sim *s)
{
    if (!s)
        return;
    munmap(s->seg, s->size);
    close(s->fd);
    free(s);
}

unsigned sim_gpu_count(const struct sim *s)
{
    return s->seg->n_gpus;
}

void shm_event_wake(struct shm_segment *seg)
{
    __atomic_add_fetch(&seg->event_seq, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &seg->event_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void shm_event_wait(struct shm_segment *seg, uint32_t seen, unsigned timeout_ms)
{
    struct timespec limit = {.tv_sec = timeout_ms / 1000,
                             .tv_nsec = (long)(timeout_ms % 1000) * (long)GS_NS_PER_MS};
    syscall(SYS_futex, &seg->event_seq, FUTEX_WAIT, seen, &limit, NULL, 0);
}
