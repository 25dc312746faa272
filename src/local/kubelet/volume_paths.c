// SPDX-License-Identifier: Apache-2.0
// Paths of this machine for hostPath, with its type checks, for subPath, and for mounts in a
// volume. A path in a volume is opened with RESOLVE_BENEATH: a link in it must not lead out of it.
#include "local/kubelet/volumes.h"

#include "base/file.h"
#include "base/mem.h"
#include "local/kubelet/kubelet_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define KUBELET_ROOT     "/var/lib/kubelet"
#define PODRESOURCES_DIR KUBELET_ROOT "/pod-resources"

// --- hostPath ---

static const struct {
    const char *type, *noun;
    mode_t kind;
    bool create;
} host_types[] = {
    {"", NULL, 0, true},
    {"DirectoryOrCreate", "directory", S_IFDIR, true},
    {"Directory", "directory", S_IFDIR, false},
    {"FileOrCreate", "file", S_IFREG, true},
    {"File", "file", S_IFREG, false},
    {"Socket", "socket file", S_IFSOCK, false},
    {"CharDevice", "character device", S_IFCHR, false},
    {"BlockDevice", "block device", S_IFBLK, false},
};

// The sockets of PodResources are those of this kubelet. Other paths are the machine's, or in
// DIR/host if the machine lacks them.
static char *locate(const struct kubelet *k, const char *path)
{
    size_t len = strlen(PODRESOURCES_DIR);
    if (k->podresources_dir && gs_starts(path, PODRESOURCES_DIR) &&
        (path[len] == '/' || path[len] == '\0'))
        return gs_format("%s%s", k->podresources_dir, path + len);
    if (access(path, F_OK) == 0)
        return gs_strdup(path);
    return gs_format("%s/host%s", k->data_dir, path);
}

static struct gs_error *create_host_path(const char *path, bool file)
{
    GS_AUTO_FREE char *dir = gs_strdup(path);
    if (file)
        *strrchr(dir, '/') = '\0';
    struct gs_error *err = gs_mkdir_p(dir, 0755);
    if (err || !file)
        return err;
    GS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? gs_error_errno(errno, "%s", path) : NULL;
}

// Other clusters' nodes have these folders since their kubelet was started, so pods may name them
// with the type Directory.
static struct gs_error *make_kubelet_folders(const struct kubelet *k)
{
    static const char *const folders[] = {
        KUBELET_ROOT "/device-plugins", KUBELET_ROOT "/pods",
        KUBELET_ROOT "/plugins",        KUBELET_ROOT "/plugins_registry",
        "/etc/kubernetes/manifests",    "/var/log/pods",
        "/var/log/containers",
    };
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < GS_ARRAY_LEN(folders); i++) {
        GS_AUTO_FREE char *path = locate(k, folders[i]);
        err = gs_mkdir_p(path, 0755);
    }
    return err;
}

static struct gs_error *check_type(const char *path, const char *shown, const char *noun,
                                   mode_t kind)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return gs_error_errno(errno, "%s", shown);
    if (kind && (st.st_mode & S_IFMT) != kind)
        return gs_error_new(GS_EINVAL, "hostPath type check failed: %s is not a %s", shown, noun);
    return NULL;
}

struct gs_error *kubelet_host_path(const struct kubelet *k, const char *path, const char *type,
                                   char **ret)
{
    if (!path || *path != '/' || !(path[1] == '\0' || kubelet_is_inner_path(path + 1)))
        return gs_error_new(GS_EINVAL, "hostPath \"%s\" is not an absolute path without '..'",
                            path ? path : "");
    size_t t = 0;
    while (t < GS_ARRAY_LEN(host_types) && !gs_streq(host_types[t].type, type ? type : ""))
        t++;
    if (t == GS_ARRAY_LEN(host_types))
        return gs_error_new(GS_EINVAL, "unknown hostPath type \"%s\"", type);
    GS_AUTO_FREE char *found = locate(k, path);
    struct gs_error *err = access(found, F_OK) < 0 ? make_kubelet_folders(k) : NULL;
    if (err)
        return err;
    if (access(found, F_OK) < 0 && host_types[t].create)
        err = create_host_path(found, host_types[t].kind == S_IFREG);
    else if (access(found, F_OK) < 0)
        err = gs_error_new(GS_ENOTFOUND, "hostPath type check failed: %s is not a %s", path,
                           host_types[t].noun);
    if (!err)
        err = check_type(found, path, host_types[t].noun, host_types[t].kind);
    if (!err)
        *ret = GS_TAKE(found);
    return err;
}

// --- subPath ---

static int open_beneath(int dir, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

// Opens a component and creates it as a directory if it does not exist.
static int open_or_create(int dir, const char *path)
{
    int fd = open_beneath(dir, path);
    const char *slash = strrchr(path, '/');
    if (fd >= 0 || errno != ENOENT)
        return fd;
    GS_AUTO_FREE char *parent_path = slash ? gs_strndup(path, (size_t)(slash - path)) : NULL;
    GS_AUTO_CLOSE int parent = parent_path ? open_or_create(dir, parent_path) : dup(dir);
    if (parent < 0 || (mkdirat(parent, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST))
        return -1;
    return open_beneath(dir, path);
}

struct gs_error *kubelet_sub_path(const char *root, const char *sub, char **ret)
{
    char link[64], path[PATH_MAX];
    if (!kubelet_is_inner_path(sub))
        return gs_error_new(GS_EINVAL, "subPath \"%s\" must be relative and not contain '..'", sub);
    GS_AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return gs_error_errno(errno, "%s", root);
    GS_AUTO_CLOSE int fd = open_or_create(dir, sub);
    if (fd < 0)
        return gs_error_errno(errno, "subPath \"%s\"", sub);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return gs_error_errno(errno, "subPath \"%s\"", sub);
    path[n] = '\0';
    *ret = gs_strdup(path);
    return NULL;
}

// --- mounts in a volume ---

struct gs_error *kubelet_nested_mount_point(const char *root, const char *sub, bool file)
{
    const char *slash = strrchr(sub, '/');
    GS_AUTO_FREE char *parent = file ? gs_strndup(sub, slash ? (size_t)(slash - sub) : 0) : NULL;
    const char *directory = file ? parent : sub;
    GS_AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOTDIR ? NULL : gs_error_errno(errno, "%s", root);
    GS_AUTO_CLOSE int at = *directory ? open_or_create(dir, directory) : dup(dir);
    if (at < 0)
        return gs_error_errno(errno, "creating the mount point %s in %s", sub, root);
    GS_AUTO_CLOSE int made = file ? openat(at, slash ? slash + 1 : sub,
                                           O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644)
                                  : -1;
    // A link is a file of the volume, which is a mount point already.
    if (file && made < 0 && errno != ELOOP)
        return gs_error_errno(errno, "creating the mount point %s in %s", sub, root);
    return NULL;
}
