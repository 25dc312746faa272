// SPDX-License-Identifier: Apache-2.0
// fsync of a file and its directory in a thread, because it can take seconds. The thread owns both
// descriptors; only the atomic flag and, after the join, the result are shared.
#include "tsdb/wal.h"

#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define STACK_BYTES ((size_t)128 << 10)

struct tsdb_file_sync {
    pthread_t thread;
    int fd, dir_fd;
    bool ok;
    atomic_bool done;
};

// Syncs and closes both, even if the first one fails: the file is durable only together with its
// directory entry.
static bool sync_both(int fd, int dir_fd)
{
    bool file = fsync(fd) == 0, dir = fsync(dir_fd) == 0;
    gs_closep(&fd);
    gs_closep(&dir_fd);
    return file && dir;
}

static int open_folder(const char *dir)
{
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool tsdb_file_sync_now(int fd, const char *dir)
{
    return sync_both(fd, open_folder(dir));
}

static void *sync_thread(void *arg)
{
    struct tsdb_file_sync *s = arg;
    s->ok = sync_both(s->fd, s->dir_fd);
    atomic_store(&s->done, true);
    return NULL;
}

// Blocks all signals in the thread, so that the loop receives them.
static bool start_thread(struct tsdb_file_sync *s)
{
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = pthread_create(&s->thread, &attr, sync_thread, s) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return ok;
}

struct tsdb_file_sync *tsdb_file_sync_start(int fd, const char *dir, bool *ret_ok)
{
    struct tsdb_file_sync *s = gs_alloc(sizeof(*s));
    s->fd = fd;
    s->dir_fd = open_folder(dir);
    atomic_init(&s->done, false);
    if (start_thread(s))
        return s;
    sync_thread(s);
    *ret_ok = s->ok;
    free(s);
    return NULL;
}

bool tsdb_file_sync_done(const struct tsdb_file_sync *s)
{
    return atomic_load(&s->done);
}

bool tsdb_file_sync_end(struct tsdb_file_sync *s)
{
    pthread_join(s->thread, NULL);
    bool ok = s->ok;
    free(s);
    return ok;
}
