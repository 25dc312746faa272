// SPDX-License-Identifier: Apache-2.0
// Processes that use a simulated GPU, in a table in shared memory. A process is identified by its
// number, start time and PID namespace; those that have died are removed, because a killed program
// cannot do it itself. Callers hold the GPU's mutex.
#include "nvmlsim/nvmlsim_private.h"

#include "base/num.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAT_STATE = 0, STAT_START_TIME = 19 }; // fields after the command name, from 0

// Parses state and start time from /proc/<pid>/stat. The command name may contain any character,
// including ")": the fields follow the last one.
static bool parse_stat(struct gs_slice text, char *ret_state, uint64_t *ret_start)
{
    while (text.len && text.data[text.len - 1] != ')')
        text.len--;
    if (!text.len)
        return false;
    struct gs_slice rest = gs_slice_of(text.data + text.len + 1);
    char state = 0;
    for (int i = 0; rest.data; i++) {
        struct gs_slice field = gs_slice_cut(&rest, ' ');
        if (i == STAT_STATE && field.len)
            state = field.data[0];
        if (i != STAT_START_TIME)
            continue;
        struct gs_error *err = gs_parse_u64(field, UINT64_MAX, ret_start);
        gs_error_free(err);
        *ret_state = state;
        return !err;
    }
    return false;
}

// Returns 0 or the errno of the read.
static int read_stat(int32_t pid, char *ret_state, uint64_t *ret_start)
{
    char path[40], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    int saved = n < 0 ? errno : 0;
    close(fd);
    if (saved)
        return saved;
    text[n] = 0;
    return parse_stat(gs_slice_make(text, (size_t)n), ret_state, ret_start) ? 0 : EIO;
}

static uint64_t own_pid_ns(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

struct gs_error *nvmlsim_process_self(struct nvmlsim_process_id *ret)
{
    struct nvmlsim_process_id id = {.pid = (int32_t)getpid(), .pid_ns = own_pid_ns()};
    char state = 0;
    int rc = read_stat(id.pid, &state, &id.start_time);
    if (rc)
        return gs_error_errno(
            rc, "reading /proc/%d/stat (it identifies a process of the simulated device)",
            (int)id.pid);
    *ret = id;
    return NULL;
}

// Only a definite result means dead; a full descriptor table, for example, does not.
static bool is_dead(int32_t pid, uint64_t start_time)
{
    char state = 0;
    uint64_t start = 0;
    int rc = read_stat(pid, &state, &start);
    if (rc)
        return rc == ENOENT || rc == ESRCH;
    return start != start_time || state == 'Z' || state == 'X';
}

bool nvmlsim_process_ended(const struct nvmlsim_process_id *id)
{
    return id->pid_ns == own_pid_ns() && is_dead(id->pid, id->start_time);
}

static void end_process(struct nvmlsim_shm_process *p)
{
    p->memory = 0;
    p->n_open = 0;
    p->state = NVMLSIM_SHM_PROC_ENDED;
}

void nvmlsim_process_reap(struct nvmlsim_shm_gpu *g)
{
    uint64_t ns = 0;
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++) {
        struct nvmlsim_shm_process *p = &g->processes[i];
        if (p->state != NVMLSIM_SHM_PROC_LIVE)
            continue;
        if (!ns)
            ns = own_pid_ns();
        // PIDs of other namespaces cannot be checked here: processes of those namespaces check
        // them.
        if (p->pid_ns == ns && is_dead(p->pid, p->start_time))
            end_process(p);
    }
}

static bool same_process(const struct nvmlsim_shm_process *p, const struct nvmlsim_process_id *id)
{
    return p->state != NVMLSIM_SHM_PROC_FREE && p->pid == id->pid &&
           p->start_time == id->start_time && p->pid_ns == id->pid_ns;
}

// Returns the slot of the process, else a free one, else the one with the oldest samples.
static struct nvmlsim_shm_process *
find_place(struct nvmlsim_shm_gpu *g, const struct nvmlsim_process_id *id, uint32_t timeline)
{
    struct nvmlsim_shm_process *best = NULL;
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++) {
        struct nvmlsim_shm_process *p = &g->processes[i];
        if (same_process(p, id) && p->timeline == timeline)
            return p;
        if (p->state == NVMLSIM_SHM_PROC_LIVE || (best && best->state == NVMLSIM_SHM_PROC_FREE))
            continue;
        if (p->state == NVMLSIM_SHM_PROC_FREE || !best || p->last_active < best->last_active)
            best = p;
    }
    return best;
}

struct gs_error *nvmlsim_process_open(struct nvmlsim_shm_gpu *g,
                                      const struct nvmlsim_process_id *id, uint32_t timeline,
                                      unsigned *ret)
{
    nvmlsim_process_reap(g);
    struct nvmlsim_shm_process *p = find_place(g, id, timeline);
    if (!p)
        return gs_error_new(GS_ELIMIT,
                            "%d processes have the simulated device open, which is the maximum",
                            NVMLSIM_SHM_PROCESSES);
    unsigned place = (unsigned)(p - g->processes);
    if (!same_process(p, id) || p->timeline != timeline) {
        // The slot is free until it is complete, so that nothing remains if this process dies.
        *p = (struct nvmlsim_shm_process){.pid = id->pid,
                                          .start_time = id->start_time,
                                          .pid_ns = id->pid_ns,
                                          .timeline = timeline};
        memset(g->process_rings[place], 0, sizeof(g->process_rings[place]));
    }
    p->n_open++;
    p->state = NVMLSIM_SHM_PROC_LIVE;
    *ret = place;
    return NULL;
}

void nvmlsim_process_close(struct nvmlsim_shm_gpu *g, unsigned place, uint64_t memory)
{
    struct nvmlsim_shm_process *p = &g->processes[place];
    p->memory -= memory < p->memory ? memory : p->memory;
    if (p->n_open > 0)
        p->n_open--;
    if (p->n_open == 0)
        end_process(p);
}

uint64_t nvmlsim_process_memory_limit(const struct nvmlsim_shm_board *b, uint32_t timeline)
{
    return timeline == 0 || timeline > b->n_mig ? b->memory - b->reserved
                                                : b->mig[timeline - 1].memory;
}

// Timelines of compute instances that share the memory of one GPU instance.
static bool same_memory(const struct nvmlsim_shm_board *of, uint32_t a, uint32_t b)
{
    bool mig = a > 0 && a <= of->n_mig && b > 0 && b <= of->n_mig;
    return a == b || (mig && of->mig[a - 1].gi_id == of->mig[b - 1].gi_id);
}

uint64_t nvmlsim_process_memory_used(const struct nvmlsim_shm_gpu *g,
                                     const struct nvmlsim_shm_board *b, uint32_t timeline)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++)
        if (g->processes[i].state == NVMLSIM_SHM_PROC_LIVE &&
            same_memory(b, __atomic_load_n(&g->processes[i].timeline, __ATOMIC_RELAXED), timeline))
            used += g->processes[i].memory;
    return used;
}

uint64_t nvmlsim_process_memory_all(const struct nvmlsim_shm_gpu *g)
{
    uint64_t used = 0;
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++)
        if (g->processes[i].state == NVMLSIM_SHM_PROC_LIVE)
            used += g->processes[i].memory;
    return used;
}
