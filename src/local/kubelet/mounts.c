// SPDX-License-Identifier: Apache-2.0
// Mounts of a container in a mount namespace of its own, without root where the kernel allows user
// namespaces. A target that does not exist gets a directory with the same entries, bound from the
// original, in which it can be created; for targets at the top, that is the root itself.
// Processes enter namespaces after fork(), so that the caller stays in its own.
#include "local/kubelet/mounts.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "local/kubelet/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OLD_ROOT     "/.gpuscale-old-root"
#define KEPT_STAGING KUBELET_KEPT_ROOT "/.staging"

enum { MAX_ENTRIES = 20000, MAX_MOUNTS = 512 };

struct mount_plan {
    const char *staging;
    struct item {
        char *target;
        const char *source; // in the text
        bool read_only, directory;
        int fd; // of the source, opened before any mount can hide it
    } * items;
    size_t len;
    struct kubelet_kept kept;
    // File systems that belong to this container: entries can be created in them.
    dev_t *own;
    size_t n_own, cap_own;
};

char *kubelet_mount_text(const char *target, bool read_only, const char *source)
{
    return gs_format("%s:%s:%s", target, read_only ? "ro" : "rw", source);
}

// --- namespaces ---

static struct gs_error *write_proc(const char *path, const char *text)
{
    GS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return gs_error_errno(errno, "writing %s", path);
    return NULL;
}

static struct gs_error *new_user_namespace(void)
{
    GS_AUTO_FREE char *users = gs_format("%u %u 1", geteuid(), geteuid());
    GS_AUTO_FREE char *groups = gs_format("%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return errno == ENOSPC
                   ? gs_error_new(GS_EPERM, "user.max_user_namespaces allows no user namespace")
                   : gs_error_errno(errno, "creating a user namespace and a mount namespace");
    struct gs_error *err = write_proc("/proc/self/setgroups", "deny");
    if (!err)
        err = write_proc("/proc/self/uid_map", users);
    if (!err)
        err = write_proc("/proc/self/gid_map", groups);
    return err;
}

static struct gs_error *new_namespace(void)
{
    if (unshare(CLONE_NEWNS) < 0) {
        struct gs_error *err = errno == EPERM ? new_user_namespace()
                                              : gs_error_errno(errno, "creating a mount namespace");
        if (err)
            return err;
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return gs_error_errno(errno, "making the mounts private");
    return NULL;
}

// 1: the namespace of the process is another one than ours, with *ret_fd; 0: the same; -1: errno.
static int other_namespace(pid_t pid, const char *kind, int *ret_fd)
{
    GS_AUTO_FREE char *theirs = gs_format("/proc/%d/ns/%s", (int)pid, kind);
    GS_AUTO_FREE char *ours = gs_format("/proc/self/ns/%s", kind);
    struct stat a, b;
    GS_AUTO_CLOSE int fd = open(theirs, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &a) < 0 || stat(ours, &b) < 0)
        return -1;
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return 0;
    *ret_fd = fd;
    fd = -1; // NOLINT(clang-analyzer-deadcode.DeadStores): the cleanup reads it
    return 1;
}

struct gs_error *kubelet_mounts_join(pid_t pid)
{
    GS_AUTO_CLOSE int user = -1, mnt = -1;
    // Both are opened first: the second namespace may be out of reach after the first change.
    int other_user = other_namespace(pid, "user", &user);
    int other_mnt = other_namespace(pid, "mnt", &mnt);
    if (other_user < 0 || other_mnt < 0)
        return gs_error_errno(errno, "opening the namespaces of process %d", (int)pid);
    if (other_user && setns(user, CLONE_NEWUSER) < 0)
        return gs_error_errno(errno, "entering the user namespace of process %d", (int)pid);
    if (other_mnt && setns(mnt, CLONE_NEWNS) < 0)
        return gs_error_errno(errno, "entering the mount namespace of process %d", (int)pid);
    return NULL;
}

// --- a directory with the same entries in which others can be created ---

static struct gs_error *bind_path(const char *source, const char *target)
{
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
        return gs_error_errno(errno, "binding %s", source);
    return NULL;
}

static struct gs_error *make_file(const char *path)
{
    GS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd < 0 ? gs_error_errno(errno, "creating %s", path) : NULL;
}

static struct gs_error *copy_link(const char *from, const char *to)
{
    char text[PATH_MAX];
    ssize_t n = readlink(from, text, sizeof(text) - 1);
    if (n < 0)
        return gs_error_errno(errno, "reading the link %s", from);
    text[n] = '\0';
    return symlink(text, to) < 0 ? gs_error_errno(errno, "creating the link %s", to) : NULL;
}

static struct gs_error *mirror_entry(const char *dir, const char *name, const char *staging)
{
    GS_AUTO_FREE char *from = gs_format("%s/%s", gs_streq(dir, "/") ? "" : dir, name);
    GS_AUTO_FREE char *to = gs_format("%s/%s", staging, name);
    struct stat st;
    if (lstat(from, &st) < 0) // has just ended, or belongs to others
        return NULL;
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to);
    struct gs_error *err = NULL;
    if (!S_ISDIR(st.st_mode))
        err = make_file(to);
    else if (mkdir(to, 0755) < 0)
        err = gs_error_errno(errno, "creating %s", to);
    if (!err)
        err = bind_path(from, to);
    if (!err || lstat(from, &st) == 0)
        return err;
    gs_error_free(err); // was removed meanwhile
    return remove(to) < 0 ? gs_error_errno(errno, "removing %s", to) : NULL;
}

// A directory that belongs to another user, such as /root, is an empty one of the container.
static struct gs_error *mirror_entries(const char *dir, const char *staging)
{
    DIR *d = opendir(dir);
    if (!d && errno == EACCES)
        return NULL;
    if (!d)
        return gs_error_errno(errno, "%s", dir);
    struct gs_error *err = NULL;
    size_t n = 0;
    for (struct dirent *e; !err && (e = readdir(d));) {
        if (gs_streq(e->d_name, ".") || gs_streq(e->d_name, ".."))
            continue;
        err = ++n > MAX_ENTRIES
                  ? gs_error_new(GS_ELIMIT, "%s has more than %d entries", dir, MAX_ENTRIES)
                  : mirror_entry(dir, e->d_name, staging);
    }
    closedir(d);
    return err;
}

static struct gs_error *mirror(struct mount_plan *p, const char *dir)
{
    struct stat st;
    char options[32];
    if (stat(dir, &st) < 0)
        return gs_error_errno(errno, "%s", dir);
    snprintf(options, sizeof(options), "mode=%o", st.st_mode & 07777);
    if (mount("tmpfs", p->staging, "tmpfs", 0, options) < 0)
        return gs_error_errno(errno, "mounting a tmpfs on %s", p->staging);
    // The directory may contain the staging directory: it is not to be bound into itself.
    if (mount(NULL, p->staging, NULL, MS_UNBINDABLE, NULL) < 0)
        return gs_error_errno(errno, "mounting %s", p->staging);
    struct gs_error *err = mirror_entries(dir, p->staging);
    if (!err && mount(NULL, p->staging, NULL, MS_PRIVATE, NULL) < 0)
        err = gs_error_errno(errno, "mounting %s", p->staging);
    if (!err && stat(p->staging, &st) < 0)
        err = gs_error_errno(errno, "%s", p->staging);
    if (err)
        return err;
    gs_grow(&p->own, &p->cap_own, p->n_own, sizeof(*p->own));
    p->own[p->n_own++] = st.st_dev;
    return NULL;
}

static struct gs_error *replace_root(struct mount_plan *p)
{
    struct gs_error *err = mirror(p, "/");
    if (err)
        return err;
    GS_AUTO_FREE char *old = gs_format("%s" OLD_ROOT, p->staging);
    if (mkdir(old, 0700) < 0 || syscall(SYS_pivot_root, p->staging, old) < 0 || chdir("/") < 0)
        return gs_error_errno(errno, "changing the root directory");
    return NULL;
}

static struct gs_error *replace_dir(struct mount_plan *p, const char *dir)
{
    struct gs_error *err = mirror(p, dir);
    if (!err && mount(p->staging, dir, NULL, MS_MOVE, NULL) < 0)
        err = gs_error_errno(errno, "mounting on %s", dir);
    return err;
}

// --- targets ---

static bool is_own(const struct mount_plan *p, const char *dir)
{
    struct stat st;
    for (size_t i = 0; stat(dir, &st) == 0 && i < p->n_own; i++)
        if (p->own[i] == st.st_dev)
            return true;
    return false;
}

// A target in another volume is created in that volume, as container runtimes do.
static bool in_volume(const struct mount_plan *p, const char *dir, size_t n_mounted)
{
    for (size_t i = 0; i < n_mounted; i++) {
        size_t len = strlen(p->items[i].target);
        if (strncmp(dir, p->items[i].target, len) == 0 && (dir[len] == '/' || dir[len] == '\0'))
            return true;
    }
    return false;
}

// The nearest ancestor that exists. The caller has made sure that path does not.
static char *existing_parent(const char *path)
{
    char *dir = gs_strdup(path);
    for (char *slash; (slash = strrchr(dir, '/')) && slash != dir;) {
        *slash = '\0';
        if (access(dir, F_OK) == 0)
            return dir;
    }
    free(dir);
    return gs_strdup("/");
}

static struct gs_error *create_target(const struct item *m)
{
    if (m->directory)
        return gs_mkdir_p(m->target, 0755);
    GS_AUTO_FREE char *dir = gs_strndup(m->target, (size_t)(strrchr(m->target, '/') - m->target));
    struct gs_error *err = *dir ? gs_mkdir_p(dir, 0755) : NULL;
    return err ? err : make_file(m->target);
}

static struct gs_error *prepare_target(struct mount_plan *p, size_t i)
{
    const struct item *m = &p->items[i];
    struct stat st;
    if (stat(m->target, &st) == 0) {
        if (S_ISDIR(st.st_mode) == m->directory)
            return NULL;
        return gs_error_new(GS_EINVAL, "not a directory: are you trying to mount a directory onto "
                                       "a file (or vice-versa)?");
    }
    GS_AUTO_FREE char *parent = existing_parent(m->target);
    if (stat(parent, &st) < 0 || !S_ISDIR(st.st_mode))
        return gs_error_new(GS_EINVAL, "%s is not a directory", parent);
    struct gs_error *err = NULL;
    if (!is_own(p, parent) && !in_volume(p, parent, i))
        err = replace_dir(p, parent);
    return err ? err : create_target(m);
}

static struct gs_error *add_mount(struct mount_plan *p, size_t i)
{
    const struct item *m = &p->items[i];
    struct gs_error *err = prepare_target(p, i);
    GS_AUTO_FREE char *source = gs_format("/proc/self/fd/%d", m->fd);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (!err && mount(source, m->target, NULL, MS_BIND | MS_REC, NULL) < 0)
        err = gs_error_errno(errno, "mount");
    if (!err && m->read_only && mount_setattr(AT_FDCWD, m->target, 0, &attr, sizeof(attr)) < 0)
        err = gs_error_errno(errno, "making it read-only");
    return err ? gs_error_wrap(err, "error mounting \"%s\" to rootfs at \"%s\"", m->source,
                               m->target)
               : NULL;
}

// --- the plan ---

static void plan_finish(struct mount_plan *p)
{
    for (size_t i = 0; i < p->len; i++) {
        free(p->items[i].target);
        gs_closep(&p->items[i].fd);
    }
    free(p->items);
    free(p->own);
    kubelet_kept_finish(&p->kept);
}

static struct gs_error *parse_mount(const char *text, struct item *ret)
{
    const char *colon = strchr(text, ':');
    if (text[0] != '/' || !colon || colon - text < 2 ||
        (strncmp(colon, ":ro:", 4) != 0 && strncmp(colon, ":rw:", 4) != 0))
        return gs_error_new(GS_EINVAL, "bad mount \"%s\"", text);
    ret->target = gs_strndup(text, (size_t)(colon - text));
    ret->read_only = colon[2] == 'o';
    ret->source = colon + 4;
    return NULL;
}

static struct gs_error *open_source(struct item *m)
{
    struct stat st;
    m->fd = open(m->source, O_PATH | O_CLOEXEC);
    if (m->fd < 0 || fstat(m->fd, &st) < 0)
        return gs_error_errno(errno, "%s", m->source);
    m->directory = S_ISDIR(st.st_mode);
    return NULL;
}

static struct gs_error *parse_mounts(struct mount_plan *p, char *const *mounts, size_t n)
{
    struct gs_error *err = NULL;
    if (n > MAX_MOUNTS)
        return gs_error_new(GS_ELIMIT, "more than %d mounts", MAX_MOUNTS);
    p->items = gs_alloc_array(n ? n : 1, sizeof(*p->items));
    for (size_t i = 0; !err && i < n; i++) {
        p->items[p->len++].fd = -1;
        err = parse_mount(mounts[i], &p->items[i]);
    }
    return err;
}

// The first part of a target ("/models" of "/models/bert") is missing on this machine.
static bool needs_root(const struct mount_plan *p)
{
    struct stat st;
    for (size_t i = 0; i < p->len; i++) {
        const char *rest = p->items[i].target + 1;
        GS_AUTO_FREE char *first = gs_format("/%.*s", (int)strcspn(rest, "/"), rest);
        if (lstat(first, &st) < 0)
            return true;
    }
    return false;
}

static bool is_hidden(const struct mount_plan *p, const char *path)
{
    for (size_t i = 0; i < p->len; i++)
        if (kubelet_kept_is_hidden(path, p->items[i].target))
            return true;
    return false;
}

// In the new root directory, which belongs to the container.
static struct gs_error *keep_hidden(struct mount_plan *p)
{
    struct gs_error *err = kubelet_kept_bind(&p->kept);
    if (!err)
        err = gs_mkdir_p(KEPT_STAGING, 0700);
    p->staging = KEPT_STAGING;
    return err;
}

static struct gs_error *enter(struct mount_plan *p, char *const *keep, size_t n_keep)
{
    struct gs_error *err = new_namespace();
    for (size_t i = 0; !err && i < p->len; i++)
        err = open_source(&p->items[i]);
    for (size_t i = 0; !err && i < n_keep; i++)
        if (is_hidden(p, keep[i]))
            kubelet_kept_add(&p->kept, keep[i]);
    bool hides = !err && (p->kept.len || is_hidden(p, p->staging));
    bool root = !err && (hides || needs_root(p));
    if (root)
        err = replace_root(p);
    if (!err && hides)
        err = keep_hidden(p);
    for (size_t i = 0; !err && i < p->len; i++)
        err = add_mount(p, i);
    if (!err && root && (umount2(OLD_ROOT, MNT_DETACH) < 0 || rmdir(OLD_ROOT) < 0))
        err = gs_error_errno(errno, "unmounting the old root directory");
    return err;
}

struct gs_error *kubelet_mounts_enter(const char *staging, char *const *mounts, size_t n,
                                      char *const *keep, size_t n_keep)
{
    GS_CLEANUP(plan_finish) struct mount_plan p = {.staging = staging};
    struct gs_error *err = parse_mounts(&p, mounts, n);
    return err ? err : enter(&p, keep, n_keep);
}

// --- trying it in a child process ---

static struct gs_error *try_in_child(const char *staging, char *const *mounts, size_t n)
{
    if (n)
        return kubelet_mounts_enter(staging, mounts, n, NULL, 0);
    struct gs_error *err = new_namespace();
    if (!err && mount("tmpfs", "/tmp", "tmpfs", 0, "size=64k") < 0)
        err = gs_error_errno(errno, "mounting in a new namespace");
    return err;
}

struct gs_error *kubelet_mounts_try(const char *staging, char *const *mounts, size_t n_mounts)
{
    int pipes[2];
    char text[512];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return gs_error_errno(errno, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        struct gs_error *err = try_in_child(staging, mounts, n_mounts);
        const char *message = err ? gs_error_message(err) : "";
        ssize_t n = write(pipes[1], message, strlen(message));
        _exit(n < 0);
    }
    int fork_errno = errno;
    close(pipes[1]);
    ssize_t n = pid < 0 ? 0 : read(pipes[0], text, sizeof(text) - 1);
    close(pipes[0]);
    if (pid < 0)
        return gs_error_errno(fork_errno, "fork");
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    return gs_error_new(GS_EPERM, "%s", text);
}

struct gs_error *kubelet_mounts_check(void)
{
    return kubelet_mounts_try(NULL, NULL, 0);
}
