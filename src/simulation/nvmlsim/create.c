// SPDX-License-Identifier: Apache-2.0
// Creates the shared memory of a set of simulated GPUs. A lock on its file, held by every process
// that uses it, tells a set in use from one that a crash left. UUIDs follow from the names, so
// they are the same each time.
#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/slice.h"
#include "nvmlsim/nvmlsim_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB        UINT64_C(1048576)
#define CREATION_S 10

// A version 4 style UUID from the names of the segment and object; the same for each creation.
static void make_uuid(const char *prefix, const char *segment, unsigned gpu, unsigned instance,
                      char *ret, size_t size)
{
    uint64_t half[2];
    for (unsigned i = 0; i < 2; i++) {
        GS_AUTO_FREE char *seed = gs_format("%s#%u#%u#%u", segment, gpu, instance, i);
        half[i] = gs_hash(seed, strlen(seed));
    }
    snprintf(ret, size, "%s-%08x-%04x-4%03x-%04x-%012llx", prefix, (unsigned)(half[0] >> 32),
             (unsigned)(half[0] >> 16) & 0xffffU, (unsigned)half[0] & 0xfffU,
             ((unsigned)(half[1] >> 48) & 0x3fffU) | 0x8000U,
             (unsigned long long)(half[1] & 0xffffffffffffULL));
}

static struct gs_error *fill_mig(struct nvmlsim_shm_gpu *g, const struct nvmlsim_gpu_spec *spec,
                                 const char *segment, unsigned index)
{
    struct nvmlsim_mig_placed placed[NVMLSIM_MAX_MIG];
    struct gs_error *err = nvmlsim_mig_place_spec(spec, &g->board.model, placed);
    if (err)
        return err;
    for (unsigned i = 0; i < spec->n_mig; i++) {
        const struct nvmlsim_mig_profile *p = placed[i].profile;
        struct nvmlsim_shm_mig *m = &g->board.mig[i];
        if (placed[i].ci_slices == p->slices)
            snprintf(m->profile, sizeof(m->profile), "%s", p->name);
        else
            snprintf(m->profile, sizeof(m->profile), "%uc.%s", placed[i].ci_slices % 10, p->name);
        make_uuid("MIG", segment, index, 1 + placed[i].gi_id + placed[i].ci_id * 64, m->uuid,
                  sizeof(m->uuid));
        m->gi_id = placed[i].gi_id;
        m->nvml_profile = p->nvml_profile;
        m->slices = p->slices;
        m->mem_slices = p->mem_slices;
        m->start = placed[i].start;
        m->ci_id = placed[i].ci_id;
        m->ci_start = placed[i].ci_start;
        m->ci_slices = placed[i].ci_slices;
        m->sms = p->sms * m->ci_slices / p->slices;
        m->memory = p->memory_mib * MIB;
        g->timelines[1 + i].sm_ppm =
            (uint32_t)((uint64_t)m->sms * NVMLSIM_SHM_PPM / g->board.model.sms);
    }
    g->board.n_mig = spec->n_mig;
    return NULL;
}

static struct gs_error *fill_gpu(struct nvmlsim_shm_gpu *g, const struct nvmlsim_gpu_spec *spec,
                                 const char *segment, unsigned index)
{
    struct gs_error *err = nvmlsim_model_resolve(spec, &g->board.model);
    if (err)
        return err;
    g->board.memory = g->board.model.memory_mib * MIB;
    g->board.reserved = g->board.model.reserved_mib * MIB;
    g->board.time_slices = spec->time_slices ? spec->time_slices : 1;
    g->board.slices_renamed = spec->slices_renamed;
    g->board.slices_single = spec->slices_single;
    g->board.pci_bus = 0x10 + 8 * index;
    snprintf(g->board.pci_bus_id, sizeof(g->board.pci_bus_id), "%08X:%02X:00.0", 0U,
             g->board.pci_bus);
    make_uuid("GPU", segment, index, 0, g->board.uuid, sizeof(g->board.uuid));
    g->timelines[0].sm_ppm = NVMLSIM_SHM_PPM;
    if (spec->n_mig)
        err = fill_mig(g, spec, segment, index);
    return err ? err : nvmlsim_shm_mutex_init(&g->lock);
}

static struct gs_error *fill_segment(struct nvmlsim *s, const struct nvmlsim_spec *spec)
{
    struct nvmlsim_shm_segment *seg = s->seg;
    struct gs_error *err = nvmlsim_shm_mutex_init(&seg->lock);
    for (unsigned i = 0; !err && i < spec->n_gpus; i++) {
        err = fill_gpu(&seg->gpus[i], &spec->gpus[i], s->name, i);
        if (err)
            return gs_error_wrap(err, "GPU %u", i);
    }
    if (err)
        return err;
    memcpy(seg->name, s->name, sizeof(seg->name));
    seg->version = NVMLSIM_SHM_VERSION;
    seg->n_gpus = spec->n_gpus;
    seg->machine = (struct nvmlsim_shm_machine){spec->switches, spec->cpus, spec->cores};
    seg->size = s->size;
    seg->created = gs_mono_ns();
    __atomic_store_n(&seg->magic, NVMLSIM_SHM_MAGIC, __ATOMIC_RELEASE);
    return nvmlsim_shm_copy_constants(s);
}

// Deletes an existing segment of that name unless a process is attached to it.
static struct gs_error *remove_old(const char *name)
{
    GS_AUTO_CLOSE int fd = shm_open(name, O_RDWR, 0);
    struct stat st = {0};
    if (fd < 0)
        return errno == ENOENT ? NULL : gs_error_errno(errno, "opening the old %s", name);
    // Its creator takes the lock right after it has created the file, and then its memory.
    bool new = fstat(fd, &st) == 0 && st.st_size == 0 &&
               st.st_ctim.tv_sec + CREATION_S > gs_unix_ms() / 1000;
    if (new || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return gs_error_new(GS_EEXIST,
                            "the simulated GPUs %s exist and are in use; stop the programs that "
                            "use them, or choose another name with --name or %s",
                            name, NVMLSIM_ENV);
    if (shm_unlink(name) < 0 && errno != ENOENT)
        return gs_error_errno(errno, "removing the old %s", name);
    return NULL;
}

static struct gs_error *make_file(const char *name, size_t size, int *ret_fd)
{
    GS_AUTO_CLOSE int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST)
        return gs_error_new(GS_EEXIST, "another process is creating %s", name);
    if (fd < 0)
        return gs_error_errno(errno, "creating the shared memory %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return gs_error_new(GS_EEXIST, "another process is creating %s", name);
    // Allocates the memory now: a full /dev/shm is an error here instead of a SIGBUS later.
    int rc = posix_fallocate(fd, 0, (off_t)size);
    if (rc) {
        shm_unlink(name);
        return gs_error_errno(rc, "making %zu KiB of shared memory for %s", size / 1024, name);
    }
    *ret_fd = fd;
    fd = -1; // NOLINT(clang-analyzer-deadcode.DeadStores): the cleanup reads it
    return NULL;
}

struct gs_error *nvmlsim_create(const char *name, const struct nvmlsim_spec *spec,
                                struct nvmlsim **ret)
{
    struct gs_error *err = nvmlsim_shm_check_name(name);
    if (err)
        return err;
    if (spec->n_gpus == 0 || spec->n_gpus > NVMLSIM_MAX_GPUS)
        return gs_error_new(GS_EINVAL, "%u GPUs: want 1 to %d", spec->n_gpus, NVMLSIM_MAX_GPUS);
    err = remove_old(name);
    if (err)
        return err;
    size_t size =
        sizeof(struct nvmlsim_shm_segment) + spec->n_gpus * sizeof(struct nvmlsim_shm_gpu);
    GS_AUTO_CLOSE int fd = -1;
    err = make_file(name, size, &fd);
    if (err)
        return err;
    struct nvmlsim *s = NULL;
    err = nvmlsim_shm_map(name, fd, size, &s);
    if (err) {
        shm_unlink(name);
        return err;
    }
    fd = -1;
    err = fill_segment(s, spec);
    if (err) {
        nvmlsim_detach(s);
        shm_unlink(name);
        return err;
    }
    flock(s->fd, LOCK_SH);
    *ret = s;
    return NULL;
}

void nvmlsim_remove_unused(const char *prefix)
{
    char **names = NULL;
    size_t n = 0;
    GS_AUTO_ERROR struct gs_error *err = nvmlsim_list(&names, &n);
    for (size_t i = 0; i < n; i++) {
        if (gs_starts(names[i], prefix))
            gs_error_free(remove_old(names[i])); // others are in use or of another user
        free(names[i]);
    }
    free(names);
}

struct gs_error *nvmlsim_unlink(const char *name)
{
    struct gs_error *err = nvmlsim_shm_check_name(name);
    if (err)
        return err;
    if (shm_unlink(name) == 0)
        return NULL;
    if (errno == ENOENT)
        return gs_error_new(
            GS_ENOTFOUND,
            "the simulated GPUs %s do not exist; \"gpuscale sim list\" lists the existing ones",
            name);
    return gs_error_errno(errno, "deleting the simulated GPUs %s", name);
}
