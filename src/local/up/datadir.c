// SPDX-License-Identifier: Apache-2.0
// The data directory: where it is, whether it is gpuscale's, the lock that makes its user the only
// one, stopping that user, and removing its state. Nothing of another program is removed, and
// links are not followed.
#include "up/up_private.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/up_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK            KUBE_UP_LOCK
#define STOP_WAIT_S     60 // pods get 15 s to end
#define NEWCOMER_WAIT_S 5  // between taking the lock and writing the process number
#define POLL_MS         50

// Files of `gpuscale up` except the lock. The names of databases are prefixes.
#define STATE  "state.db"
#define LEDGER "ledger.db"
static const char *const ours[] = {STATE,           "kubeconfig",      "load.log",
                                   "pki",           "containers",      "pods",
                                   "pod-resources", "kubelet.lock",    "prometheus.yml",
                                   UP_SAMPLES_DIR,  "kube-context",    "up.log",
                                   "up.log.1",      "engine-account",  "counters.csv",
                                   "tools",         "nodes",           "bin",
                                   "machines.json", "pod-in-progress", "skipped-pods.json",
                                   "hosts",         UP_LEARNED_FILE};

// --- location ---

static struct gs_error *check_owner(const char *dir)
{
    struct stat st;
    if (stat(dir, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & S_IWOTH))
        return NULL;
    return gs_error_new(GS_EPERM,
                        "%s can be changed by other users, and the cluster's keys are kept there: "
                        "choose a folder of your own with --data-dir",
                        dir);
}

// The directory as an absolute path. option NULL: the default path. With `make` it is created;
// otherwise *ret is NULL if it does not exist.
static struct gs_error *find_dir(const char *option, bool make, char **ret)
{
    GS_AUTO_FREE char *dir = option ? gs_strdup(option) : gs_data_dir();
    if (!dir)
        return gs_error_new(
            GS_EINVAL,
            "neither HOME nor XDG_DATA_HOME is set, and the user has no home: choose a folder for "
            "the cluster's state with --data-dir");
    struct gs_error *err = make ? gs_mkdir_p(dir, 0700) : NULL;
    if (err)
        return err;
    GS_AUTO_FREE char *absolute = realpath(dir, NULL);
    if (!absolute && errno == ENOENT && !make) {
        *ret = NULL;
        return NULL;
    }
    if (!absolute)
        return gs_error_errno(errno, "%s", dir);
    err = check_owner(absolute);
    if (!err)
        *ret = GS_TAKE(absolute);
    return err;
}

// --- ownership of the directory ---

static bool there_is(const char *dir, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    struct stat st;
    return lstat(path, &st) == 0;
}

// The name of a file of another program that blocks the use of the directory. NULL: the directory
// is gpuscale's, or no file in it has one of our names. Older versions left the lock file empty and
// created pki/ right after it.
static const char *foreign_file(const char *dir)
{
    pid_t pid;
    enum kube_up_lock lock = kube_up_read_lock(dir, &pid);
    if (lock == KUBE_UP_FOREIGN)
        return LOCK;
    if (lock == KUBE_UP_MARKED || (lock == KUBE_UP_EMPTY && there_is(dir, "pki")))
        return NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(ours); i++)
        if (there_is(dir, ours[i]))
            return ours[i];
    return NULL;
}

// --- the lock ---

// Returns -1 and sets errno on failure. A reset may remove the file between open and lock: retry.
static int take_lock(const char *path, int flags)
{
    for (;;) {
        struct stat mine, there;
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            int saved = errno;
            close(fd);
            errno = saved;
            return -1;
        }
        if (fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
            mine.st_dev == there.st_dev)
            return fd;
        close(fd);
    }
}

static struct gs_error *not_ours(const char *dir, const char *file)
{
    return gs_error_new(GS_EEXIST,
                        "%s is not a data directory of gpuscale up, and has a file \"%s\": choose "
                        "another directory with --data-dir",
                        dir, file);
}

static struct gs_error *in_use(const char *dir)
{
    pid_t pid;
    (void)kube_up_read_lock(dir, &pid);
    GS_AUTO_FREE char *who = pid ? gs_format(" (process %d)", (int)pid) : gs_strdup("");
    return gs_error_new(GS_EEXIST,
                        "%s is in use by another gpuscale up%s; end that one with \"gpuscale up "
                        "--stop --data-dir '%s'\", use it with eval \"$(gpuscale up --env "
                        "--data-dir '%s')\", or choose another folder with --data-dir",
                        dir, who, dir, dir);
}

struct gs_error *up_datadir_claim(int lock)
{
    GS_AUTO_FREE char *text = gs_format(KUBE_UP_LOCK_MARK "%d\n", (int)getpid());
    if (ftruncate(lock, 0) < 0 || pwrite(lock, text, strlen(text), 0) != (ssize_t)strlen(text))
        return gs_error_errno(errno, "the lock of the data directory");
    return NULL;
}

static struct gs_error *lock_dir(const char *dir, int *ret_fd)
{
    GS_AUTO_FREE char *path = gs_format("%s/" LOCK, dir);
    const char *foreign = foreign_file(dir);
    if (foreign)
        return not_ours(dir, foreign);
    int fd = take_lock(path, O_CREAT);
    if (fd < 0)
        return errno == EWOULDBLOCK ? in_use(dir) : gs_error_errno(errno, "%s", path);
    struct gs_error *err = up_datadir_claim(fd);
    if (err) {
        close(fd);
        return gs_error_wrap(err, "%s", path);
    }
    *ret_fd = fd;
    return NULL;
}

// --- stop ---

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static bool is_free(const char *path)
{
    int fd = take_lock(path, 0);
    bool free_now = fd >= 0 || errno != EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return free_now;
}

// A process number may be of another process meanwhile, or of another machine that shares the
// directory.
static bool is_gpuscale_up(pid_t pid)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%d/cmdline", (int)pid);
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 1024 * 1024, &text);
    for (size_t at = 0; !err && at < text.len; at += strlen(text.data + at) + 1)
        if (at > 0 && gs_streq(text.data + at, "up"))
            return true;
    return false;
}

static struct gs_error *terminate(const char *dir, const char *path, pid_t *ret)
{
    pid_t pid;
    (void)kube_up_read_lock(dir, &pid);
    for (int i = 0; !pid && i < NEWCOMER_WAIT_S * 1000 / POLL_MS && !is_free(path); i++) {
        sleep_ms(POLL_MS);
        (void)kube_up_read_lock(dir, &pid);
    }
    *ret = pid;
    // By a descriptor: the number cannot become that of another process between check and signal.
    GS_AUTO_CLOSE int process = pid ? pidfd_open(pid, 0) : -1;
    if (is_free(path))
        return NULL;
    if (process < 0 || !is_gpuscale_up(pid))
        return gs_error_new(GS_ENOTFOUND,
                            "%s is in use, and its process is not found on this machine; end it "
                            "where it runs",
                            dir);
    if (pidfd_send_signal(process, SIGTERM, NULL, 0) < 0 && errno != ESRCH)
        return gs_error_errno(errno, "ending process %d", (int)pid);
    return NULL;
}

// Ends the instance that uses the directory and waits for its end. *ret_was: an instance ran.
static struct gs_error *stop_user(const char *dir, bool *ret_was)
{
    GS_AUTO_FREE char *path = gs_format("%s/" LOCK, dir);
    pid_t pid = 0;
    *ret_was = false;
    const char *foreign = foreign_file(dir);
    if (foreign)
        return not_ours(dir, foreign);
    if (is_free(path))
        return NULL;
    struct gs_error *err = terminate(dir, path, &pid);
    if (err)
        return err;
    for (int64_t end = gs_mono_ns() + STOP_WAIT_S * GS_NS_PER_SEC; gs_mono_ns() < end;) {
        if (is_free(path)) {
            *ret_was = true;
            return NULL;
        }
        sleep_ms(POLL_MS);
    }
    return gs_error_new(GS_ETIMEOUT,
                        "process %d, which uses %s, did not end within %d seconds of SIGTERM",
                        (int)pid, dir, STOP_WAIT_S);
}

struct gs_error *up_datadir_running(const char *option, char **ret_dir)
{
    GS_AUTO_FREE char *dir = NULL;
    struct gs_error *err = find_dir(option, false, &dir);
    if (err)
        return err;
    GS_AUTO_FREE char *path = dir ? gs_format("%s/" LOCK, dir) : NULL;
    if (!dir || foreign_file(dir) || is_free(path))
        return gs_error_new(GS_ENOTFOUND,
                            "no gpuscale up runs on %s; start one with gpuscale up --detach",
                            dir ? dir : "the data directory, which does not exist");
    *ret_dir = GS_TAKE(dir);
    return NULL;
}

// --- reset ---

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static bool is_of_up(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(ours); i++)
        if (gs_streq(name, ours[i]))
            return true;
    return gs_starts(name, STATE) || gs_starts(name, LEDGER);
}

// Links are removed, not followed: pods may have created links to other directories.
static struct gs_error *remove_tree(const char *dir, const char *name)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return NULL;
    return gs_error_errno(errno, "removing %s", path);
}

// Removes what gpuscale wrote, and the directory if it is empty after that. The caller holds the
// lock. *ret_left: the directory was kept because it contains other files.
static struct gs_error *remove_state(const char *dir, bool *ret_left)
{
    struct gs_error *err = NULL;
    DIR *entries = opendir(dir);
    if (!entries)
        return gs_error_errno(errno, "%s", dir);
    for (struct dirent *e; !err && (e = readdir(entries));)
        if (is_of_up(e->d_name))
            err = remove_tree(dir, e->d_name);
    closedir(entries);
    if (!err) // last: without the lock file, the rest is not recognized as gpuscale's
        err = remove_tree(dir, LOCK);
    if (err)
        return err;
    // Other failures are ignored: a mount point cannot be removed, but it is empty.
    *ret_left = rmdir(dir) < 0 && (errno == ENOTEMPTY || errno == EEXIST);
    return NULL;
}

// --- prepare ---

// Removes the state. The lock file and the directory are removed too; the caller creates them
// again.
static struct gs_error *reset(const char *dir)
{
    GS_AUTO_CLOSE int lock = -1;
    bool left = false;
    struct gs_error *err = lock_dir(dir, &lock);
    if (!err)
        err = remove_state(dir, &left);
    if (!err)
        printf("Removed the state in %s%s\n", dir, left ? "; other files in it were kept" : "");
    return err;
}

struct gs_error *up_datadir_prepare(const char *option, bool stop, bool reset_state, char **ret_dir,
                                    int *ret_lock)
{
    GS_AUTO_FREE char *dir = NULL;
    bool was = false;
    struct gs_error *err = find_dir(option, !stop, &dir);
    if (!err && dir && (stop || reset_state))
        err = stop_user(dir, &was);
    if (err)
        return err;
    if (was)
        printf("Stopped gpuscale up on %s\n", dir);
    else if (stop)
        printf("No gpuscale up runs on %s\n", dir ? dir : "that directory: it does not exist");
    if (dir && (stop || reset_state) && !foreign_file(dir))
        up_kube_context_end(dir);
    if (dir && reset_state)
        err = reset(dir);
    (void)fflush(stdout);
    if (!err && !stop && reset_state)
        err = gs_mkdir_p(dir, 0700);
    if (!err && !stop)
        err = lock_dir(dir, ret_lock);
    if (!err && !stop)
        *ret_dir = GS_TAKE(dir);
    return err;
}
