// SPDX-License-Identifier: Apache-2.0
// The parent's side of the reader: starts it, takes what it writes, and kills it if it makes no
// progress or uses too much memory. Whatever libdcgm does, it does there.
#include "dcgm_source/shared.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUNG_AFTER_NS     (10 * GS_NS_PER_SEC)
#define MEMORY_REMOTE     (UINT64_C(256) << 20)
#define MEMORY_EMBEDDED   (UINT64_C(1) << 30)
#define CHECK_INTERVAL_NS GS_NS_PER_SEC
enum { END_WAIT_MS = 500 };

extern char **environ;

struct child {
    struct dcgm_source *source;
    bool embedded;
    struct dcgm_source_shared *shared;
    int memory_fd, socket_fd; // -1: none
    pid_t pid;                // 0: none
    uint64_t sequence, report_sequence, beats;
    uint32_t lost_connections;
    int64_t beat_ns, next_check_ns; // gs_mono_ns
    struct dcgm_source_report report;
};

// --- start ---

static struct gs_error *share_memory(struct child *c)
{
    size_t size = sizeof(*c->shared);
    c->memory_fd = memfd_create("gpuscale-dcgm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // Sealed: a reader that went wild must not shrink what is mapped here.
    if (c->memory_fd < 0 || ftruncate(c->memory_fd, (off_t)size) < 0 ||
        fcntl(c->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return gs_error_errno(errno, "memory of the DCGM reader");
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory_fd, 0);
    if (at == MAP_FAILED)
        return gs_error_errno(errno, "memory of the DCGM reader");
    c->shared = at;
    return NULL;
}

static void write_task(const struct child *c, const struct dcgm_source_target *t)
{
    const struct dcgm_source_config *cfg = dcgm_source_config_of(c->source);
    struct dcgm_source_shared *m = c->shared;
    m->magic = DCGM_SOURCE_SHARED_MAGIC;
    m->size = sizeof(*m);
    m->target = *t;
    snprintf(m->library, sizeof(m->library), "%s", cfg->library ? cfg->library : "");
    m->parent_pid = getpid();
    m->retry_ns = cfg->retry_ns;
    m->plan = *dcgm_source_current_plan(c->source);
}

// The environment with the log of libdcgm off, unless the user has set it. The array is freed by
// the caller, its strings are borrowed.
static char **environment(void)
{
    static char level[] = "__DCGM_DBG_LVL=NONE";
    size_t n = 0;
    while (environ[n])
        n++;
    char **ret = gs_alloc_array(n + 2, sizeof(*ret));
    memcpy(ret, environ, n * sizeof(*ret));
    ret[n] = getenv("__DCGM_DBG_LVL") ? NULL : level;
    return ret;
}

// posix_spawn does not copy the memory of a process with threads, as fork would. Signals are
// unblocked, since this thread blocks all of them.
static int spawn_reader(const char *program, int memory_fd, int socket_fd, pid_t *ret)
{
    char *const argv[] = {(char[]){"gpuscale"}, (char[]){"exporter"}, (char[]){"--dcgm-reader"},
                          NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    char **env = environment();
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int rc = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR, 0);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDERR_FILENO);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, memory_fd, DCGM_SOURCE_SHARED_FD);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(&files, socket_fd, DCGM_SOURCE_PARENT_FD);
    rc = rc ? rc : posix_spawn_file_actions_addclosefrom_np(&files, DCGM_SOURCE_PARENT_FD + 1);
    rc = rc ? rc : posix_spawn(ret, program, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    free(env);
    return rc;
}

static struct gs_error *start_process(struct child *c)
{
    const char *program = dcgm_source_config_of(c->source)->program;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return gs_error_errno(errno, "starting the DCGM reader");
    // Descriptors 3 and 4 of the reader are made by dup2, which needs other numbers here.
    int memory = fcntl(c->memory_fd, F_DUPFD_CLOEXEC, DCGM_SOURCE_PARENT_FD + 1);
    int other = fcntl(pair[1], F_DUPFD_CLOEXEC, DCGM_SOURCE_PARENT_FD + 1);
    close(pair[1]);
    c->socket_fd = pair[0];
    int rc = memory < 0 || other < 0
                 ? EMFILE
                 : spawn_reader(program ? program : "/proc/self/exe", memory, other, &c->pid);
    if (memory >= 0)
        close(memory);
    if (other >= 0)
        close(other);
    c->pid = rc ? 0 : c->pid;
    return rc ? gs_error_errno(rc, "starting the DCGM reader") : NULL;
}

// --- end ---

// Waits for the end of the process. -1: it has not ended within the time.
static int reap(const struct child *c, int timeout_ms)
{
    int status = -1;
    for (int waited = 0;; waited += 5) {
        pid_t got = waitpid(c->pid, &status, WNOHANG);
        if (got == c->pid)
            return status;
        if (got < 0 && errno != EINTR)
            return 0; // reaped by somebody else
        if (waited >= timeout_ms)
            return -1;
        poll(NULL, 0, 5);
    }
}

// The reader ends by itself when its socket does. One that hangs in libdcgm is killed.
static void child_finish(struct child *c)
{
    if (c->socket_fd >= 0)
        close(c->socket_fd);
    if (c->pid && reap(c, END_WAIT_MS) < 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    if (c->shared)
        munmap(c->shared, sizeof(*c->shared));
    if (c->memory_fd >= 0)
        close(c->memory_fd);
}

static struct gs_error *kill_reader(struct child *c, enum dcgm_source_restart reason,
                                    struct gs_error *err)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    c->pid = 0;
    dcgm_source_count_restart(c->source, reason);
    return err;
}

// A reader that ends with an exit code has reported why.
static struct gs_error *explain_end(struct child *c, int *ret_code)
{
    int status = reap(c, END_WAIT_MS);
    if (status < 0)
        return kill_reader(
            c, DCGM_SOURCE_HANG,
            gs_error_new(GS_ETIMEOUT, "the reader closed its socket without ending"));
    c->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1 && c->report.state == DCGM_SOURCE_DOWN) {
        *ret_code = c->report.code;
        return gs_error_new(GS_EUNAVAIL, "%s", c->report.problem);
    }
    dcgm_source_count_restart(c->source, DCGM_SOURCE_CRASH);
    if (WIFSIGNALED(status))
        return gs_error_new(GS_EUNAVAIL, "libdcgm ended the reader: %s",
                            strsignal(WTERMSIG(status)));
    return gs_error_new(GS_EUNAVAIL, "libdcgm ended the reader with exit code %d",
                        WEXITSTATUS(status));
}

// --- watch ---

// 0: unknown, for example because the process has ended.
static uint64_t resident_bytes(pid_t pid)
{
    char path[32], text[128];
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *second = strchr(text, ' '); // pages: total, resident, …
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static int64_t hung_after_ns(const struct child *c)
{
    int64_t limit = dcgm_source_config_of(c->source)->hung_after_ns;
    int64_t intervals = 3 * dcgm_source_current_plan(c->source)->interval_ns;
    if (limit)
        return limit;
    return intervals > HUNG_AFTER_NS ? intervals : HUNG_AFTER_NS;
}

static struct gs_error *check_progress(struct child *c, int64_t now)
{
    uint64_t beats = atomic_load(&c->shared->beats);
    if (beats != c->beats) {
        c->beats = beats;
        c->beat_ns = now;
    }
    if (now - c->beat_ns <= hung_after_ns(c))
        return NULL;
    return kill_reader(c, DCGM_SOURCE_HANG,
                       gs_error_new(GS_ETIMEOUT,
                                    "a call of libdcgm has not returned for %" PRId64
                                    " s; the reader was killed",
                                    (now - c->beat_ns) / GS_NS_PER_SEC));
}

static struct gs_error *check_memory(struct child *c)
{
    uint64_t limit = dcgm_source_config_of(c->source)->memory_limit;
    uint64_t used = resident_bytes(c->pid);
    if (!limit)
        limit = c->embedded ? MEMORY_EMBEDDED : MEMORY_REMOTE;
    if (used <= limit)
        return NULL;
    return kill_reader(c, DCGM_SOURCE_MEMORY,
                       gs_error_new(GS_ELIMIT,
                                    "the reader uses %" PRIu64
                                    " MiB, more than --dcgm-memory-limit "
                                    "(%" PRIu64 " MiB); it was killed",
                                    used >> 20, limit >> 20));
}

static void take_lost_connections(struct child *c)
{
    uint32_t lost = atomic_load(&c->shared->lost_connections);
    // Bounded, because the reader's number may be anything.
    for (int i = 0; i < 16 && c->lost_connections != lost; i++, c->lost_connections++)
        dcgm_source_count_restart(c->source, DCGM_SOURCE_CONNECTION);
    c->lost_connections = lost;
}

static void take_all(struct child *c)
{
    int64_t read_ns = 0;
    if (dcgm_source_shared_take_report(c->shared, &c->report_sequence, &c->report))
        dcgm_source_set_report(c->source, &c->report);
    take_lost_connections(c);
    struct dcgm_latest *l = dcgm_source_shared_take(c->shared, &c->sequence, &read_ns);
    if (l)
        dcgm_source_publish(c->source, l, read_ns);
}

// False: the reader has closed its side.
static bool drain(const struct child *c)
{
    char bytes[64];
    ssize_t n;
    do
        n = read(c->socket_fd, bytes, sizeof(bytes));
    while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 && errno == EAGAIN;
}

static struct gs_error *watch(struct child *c, int *ret_code)
{
    struct pollfd p[] = {{.fd = c->socket_fd, .events = POLLIN},
                         {.fd = dcgm_source_wake_fd(c->source), .events = POLLIN}};
    struct gs_error *err = NULL;
    c->beat_ns = gs_mono_ns();
    while (!err && !dcgm_source_must_return(c->source)) {
        poll(p, 2, (int)(CHECK_INTERVAL_NS / 2 / GS_NS_PER_MS));
        bool open = drain(c);
        int64_t now = gs_mono_ns();
        take_all(c);
        atomic_store(&c->shared->renewals, dcgm_source_renewals(c->source));
        err = open ? check_progress(c, now) : explain_end(c, ret_code);
        if (!err && now >= c->next_check_ns) {
            err = check_memory(c);
            c->next_check_ns = now + CHECK_INTERVAL_NS;
        }
    }
    return err;
}

struct gs_error *dcgm_source_run_reader(struct dcgm_source *s, const struct dcgm_source_target *t,
                                        int *ret_code)
{
    struct child c = {.source = s, .embedded = t->embedded, .memory_fd = -1, .socket_fd = -1};
    struct gs_error *err = share_memory(&c);
    if (!err) {
        write_task(&c, t);
        err = start_process(&c);
    }
    if (!err)
        err = watch(&c, ret_code);
    child_finish(&c);
    return err;
}
