// SPDX-License-Identifier: Apache-2.0
// Files that stay reachable when a volume hides them. The path below KUBELET_KEPT_ROOT follows from
// the original one, so that a later exec in the container finds them without a list.
#include "local/kubelet/kept.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

void kubelet_kept_finish(struct kubelet_kept *k)
{
    for (size_t i = 0; i < k->len; i++)
        gs_closep(&k->items[i].fd);
    free(k->items);
    *k = (struct kubelet_kept){0};
}

// --- what is hidden ---

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

// Either path may lead over links.
bool kubelet_kept_is_hidden(const char *path, const char *target)
{
    GS_AUTO_FREE char *real = realpath(path, NULL);
    GS_AUTO_FREE char *covered = realpath(target, NULL);
    return is_below(path, target) || (real && is_below(real, target)) ||
           (real && covered && is_below(real, covered));
}

void kubelet_kept_add(struct kubelet_kept *k, const char *path)
{
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) < 0) {
        close(fd);
        return;
    }
    gs_grow(&k->items, &k->cap, k->len, sizeof(*k->items));
    k->items[k->len++] = (struct kubelet_kept_file){path, fd, S_ISDIR(st.st_mode)};
}

// --- binding ---

static struct gs_error *make_mount_point(const char *path, bool directory)
{
    if (directory)
        return gs_mkdir_p(path, 0755);
    GS_AUTO_FREE char *dir = gs_strndup(path, (size_t)(strrchr(path, '/') - path));
    struct gs_error *err = gs_mkdir_p(dir, 0755);
    if (err)
        return err;
    GS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? gs_error_errno(errno, "creating %s", path) : NULL;
}

static struct gs_error *bind_file(const struct kubelet_kept_file *file)
{
    GS_AUTO_FREE char *target = gs_format(KUBELET_KEPT_ROOT "%s", file->path);
    GS_AUTO_FREE char *source = gs_format("/proc/self/fd/%d", file->fd);
    if (access(target, F_OK) == 0) // in a directory that is kept, or named twice
        return NULL;
    struct gs_error *err = make_mount_point(target, file->directory);
    if (!err && mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0)
        err = gs_error_errno(errno, "binding %s, which a volume hides, to %s", file->path, target);
    return err;
}

static int by_length(const void *a, const void *b)
{
    size_t x = strlen(((const struct kubelet_kept_file *)a)->path);
    size_t y = strlen(((const struct kubelet_kept_file *)b)->path);
    return x < y ? -1 : x > y;
}

// A directory before what is in it.
struct gs_error *kubelet_kept_bind(struct kubelet_kept *k)
{
    struct gs_error *err = NULL;
    if (k->len)
        qsort(k->items, k->len, sizeof(*k->items), by_length);
    for (size_t i = 0; !err && i < k->len; i++)
        err = bind_file(&k->items[i]);
    return err;
}

// --- use ---

// The directories above kept files are in the root directory's own file system. A word such as /tmp
// means the volume there, not one of them.
static bool is_bound(const char *kept)
{
    struct stat file, root;
    return stat(kept, &file) == 0 && stat(KUBELET_KEPT_ROOT, &root) == 0 &&
           file.st_dev != root.st_dev;
}

static char *find_kept(const char *path, bool with_parents)
{
    GS_AUTO_FREE char *kept = gs_format(KUBELET_KEPT_ROOT "%s", path);
    bool hidden = *path == '/' && access(path, F_OK) < 0;
    bool found = hidden && (with_parents ? access(kept, F_OK) == 0 : is_bound(kept));
    return found ? GS_TAKE(kept) : gs_strdup(path);
}

char *kubelet_kept_path(const char *path)
{
    return find_kept(path, false);
}

// A list with ':' between paths, or one path.
static char *kept_list(const char *list, bool with_parents)
{
    struct gs_buf out = {0};
    struct gs_slice rest = gs_slice_of(list);
    for (size_t i = 0; rest.data; i++) {
        GS_AUTO_FREE char *item = gs_slice_dup(gs_slice_cut(&rest, ':'));
        GS_AUTO_FREE char *kept = find_kept(item, with_parents);
        gs_buf_addf(&out, "%s%s", i ? ":" : "", kept);
    }
    return gs_buf_take(&out);
}

// "NAME=value" with kept paths, which is not freed; NULL: the variable stays. PATH has the folder
// of the tools, which are kept one by one.
static char *kept_variable(const char *variable)
{
    const char *equals = strchr(variable, '=');
    if (!equals || !strchr(equals, '/'))
        return NULL;
    GS_AUTO_FREE char *list = kept_list(equals + 1, gs_starts(variable, "PATH="));
    return gs_streq(list, equals + 1)
               ? NULL
               : gs_format("%.*s=%s", (int)(equals - variable), variable, list);
}

void kubelet_kept_use(char **argv)
{
    if (access(KUBELET_KEPT_ROOT, F_OK) < 0)
        return;
    for (char **variable = environ; *variable; variable++) {
        char *kept = kept_variable(*variable);
        if (kept)
            *variable = kept;
    }
    for (; *argv; argv++)
        *argv = kubelet_kept_path(*argv);
}
