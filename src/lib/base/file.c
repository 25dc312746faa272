// SPDX-License-Identifier: Apache-2.0
// Whole files, directories and descriptors. gs_file_write_atomic() writes a temporary file beside
// the target, syncs it and renames it, so a reader sees the old or the new contents, after a crash
// too.
#include "base/file.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct gs_error *gs_file_read(const char *path, size_t max, struct gs_buf *ret)
{
    GS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gs_error_errno(errno, "%s", path);
    GS_AUTO_BUF struct gs_buf content = {.limit = max};
    char chunk[8192];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gs_error_errno(errno, "reading %s", path);
        if (n == 0)
            break;
        gs_buf_add(&content, chunk, (size_t)n);
        if (content.overflow)
            return gs_error_new(GS_ELIMIT, "%s: larger than %zu bytes", path, max);
    }
    gs_buf_add(&content, "", 0); // an empty file gives "" and not NULL
    *ret = content;
    content = (struct gs_buf){0};
    return NULL;
}

static struct gs_error *write_bytes(int fd, const char *path, struct gs_slice content)
{
    while (content.len) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gs_error_errno(errno, "writing %s", path);
        content = gs_slice_make(content.data + n, content.len - (size_t)n);
    }
    if (fsync(fd) < 0)
        return gs_error_errno(errno, "syncing %s", path);
    return NULL;
}

struct gs_error *gs_file_write_atomic(const char *path, mode_t mode, struct gs_slice content)
{
    GS_AUTO_FREE char *temp = gs_format("%s.%d.tmp", path, (int)getpid());
    GS_AUTO_CLOSE int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return gs_error_errno(errno, "writing %s", path);
    struct gs_error *err = fchmod(fd, mode) < 0 ? gs_error_errno(errno, "%s", temp) : NULL;
    if (!err)
        err = write_bytes(fd, temp, content);
    if (!err && rename(temp, path) < 0)
        err = gs_error_errno(errno, "renaming %s to %s", temp, path);
    if (err)
        unlink(temp);
    return err;
}

struct gs_error *gs_mkdir_p(const char *path, mode_t mode)
{
    GS_AUTO_FREE char *copy = gs_strdup(path);
    for (char *at = copy + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return gs_error_errno(errno, "creating the directory %s", copy);
        *at = '/';
    }
    if (mkdir(copy, mode) < 0 && errno != EEXIST)
        return gs_error_errno(errno, "creating the directory %s", copy);
    struct stat st;
    if (stat(copy, &st) < 0 || !S_ISDIR(st.st_mode))
        return gs_error_new(GS_EEXIST, "%s exists and is not a directory", path);
    return NULL;
}

void gs_raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        gs_warn("base", "the limit of open files stays low: %s", strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    remove(path);
    return 0;
}

void gs_remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void gs_occupy_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        // The lowest free number is this one.
        int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (got < 0)
            got = open("/", O_RDONLY | O_DIRECTORY); // cannot be read or written either
        if (got != fd)
            _exit(EXIT_FAILURE);
    }
}

struct gs_error *gs_unix_address(const char *path, struct sockaddr_un *ret, int *ret_dir)
{
    const char *slash = strrchr(path, '/');
    GS_AUTO_FREE char *dir = slash ? gs_strndup(path, (size_t)(slash - path)) : gs_strdup(".");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gs_error_errno(errno, "%s", dir);
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", fd,
                     slash ? slash + 1 : path);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path)) {
        close(fd);
        return gs_error_new(GS_EINVAL, "%s: the name of the socket is too long", path);
    }
    *ret = address;
    *ret_dir = fd;
    return NULL;
}

char *gs_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return gs_strdup(".");
    return gs_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

char *gs_find_program(const char *name)
{
    const char *path = getenv("PATH");
    struct stat st;
    for (const char *at = path ? path : ""; *at;) {
        size_t len = strcspn(at, ":");
        GS_AUTO_FREE char *file = gs_format("%.*s/%s", (int)len, at, name);
        if (len && stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0)
            return GS_TAKE(file);
        at += len + (at[len] == ':');
    }
    return NULL;
}

// --- the folder of this user ---

// A shared directory such as /tmp is not used, because other users can create the subdirectories
// for the keys first.
char *gs_data_dir(void)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (xdg && *xdg == '/')
        return gs_format("%s/gpuscale", xdg);
    // Services and containers often start programs without HOME: read the user database.
    const struct passwd *user = home && *home ? NULL : getpwuid(getuid());
    if (user && *user->pw_dir == '/')
        home = user->pw_dir;
    return home && *home ? gs_format("%s/.local/share/gpuscale", home) : NULL;
}
