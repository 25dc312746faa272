// SPDX-License-Identifier: Apache-2.0
// The file of the audit log with rotation by size, age and number. Names of rotated files are
// those of lumberjack, which kube-apiserver uses, so existing log shippers find them. A file that
// another program moved is created again.
#include "adapter/api/audit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define DEFAULT_BYTES ((uint64_t)100 * 1024 * 1024)
enum { MODE = 0600, FOLDER_MODE = 0755, STAMP_LEN = 23 }; // 2026-01-02T03-04-05.678

struct adapter_api_audit_log {
    char *path, *folder, *stem, *suffix; // "/var/log", "audit", ".log"
    struct adapter_api_audit_log_options o;
    int fd; // -1: closed
    uint64_t bytes;
    dev_t device;
    ino_t inode;
};

static void split_path(struct adapter_api_audit_log *l)
{
    const char *slash = strrchr(l->path, '/');
    const char *name = slash ? slash + 1 : l->path;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name)
        dot = name + strlen(name);
    l->folder = gs_folder_of(l->path);
    l->stem = gs_strndup(name, (size_t)(dot - name));
    l->suffix = gs_strdup(dot);
}

static struct gs_error *open_file(struct adapter_api_audit_log *l)
{
    struct stat st;
    struct gs_error *err = gs_mkdir_p(l->folder, FOLDER_MODE);
    if (err)
        return err;
    l->fd = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, MODE);
    if (l->fd < 0 || fstat(l->fd, &st) != 0) {
        err = gs_error_errno(errno, "%s", l->path);
        if (l->fd >= 0)
            close(l->fd);
        l->fd = -1;
        return err;
    }
    l->bytes = (uint64_t)st.st_size;
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return NULL;
}

static void close_file(struct adapter_api_audit_log *l)
{
    if (l->fd >= 0 && l->fd != STDOUT_FILENO)
        close(l->fd);
    l->fd = -1;
}

// --- rotated files ---

static char *name_of_old(const struct adapter_api_audit_log *l)
{
    int64_t ms = gs_unix_ms();
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char stamp[32];
    gmtime_r(&seconds, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H-%M-%S", &tm);
    return gs_format("%s/%s-%s.%03d%s", l->folder, l->stem, stamp, (int)(ms % 1000), l->suffix);
}

// Names contain the time and sort as text.
static bool is_old(const struct adapter_api_audit_log *l, const char *name)
{
    size_t stem = strlen(l->stem), suffix = strlen(l->suffix), n = strlen(name);
    return n == stem + 1 + STAMP_LEN + suffix && strncmp(name, l->stem, stem) == 0 &&
           name[stem] == '-' && strcmp(name + n - suffix, l->suffix) == 0 &&
           strspn(name + stem + 1, "0123456789-T.") >= STAMP_LEN;
}

static int newest_first(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a);
}

static void remove_old(const struct adapter_api_audit_log *l)
{
    DIR *d = opendir(l->folder);
    char **names = NULL;
    size_t n = 0, cap = 0;
    const struct dirent *e;
    while (d && (e = readdir(d)))
        if (is_old(l, e->d_name)) {
            gs_grow(&names, &cap, n, sizeof(*names));
            names[n++] = gs_strdup(e->d_name);
        }
    if (d)
        closedir(d);
    if (n > 1)
        qsort(names, n, sizeof(*names), newest_first);
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", l->folder, names[i]);
        struct stat st;
        bool aged = l->o.max_age_ms && stat(path, &st) == 0 &&
                    gs_unix_ms() - (int64_t)st.st_mtim.tv_sec * 1000 > l->o.max_age_ms;
        if (aged || (l->o.max_old && i >= l->o.max_old))
            unlink(path);
        free(names[i]);
    }
    free(names);
}

static struct gs_error *rotate(struct adapter_api_audit_log *l)
{
    GS_AUTO_FREE char *old = name_of_old(l);
    struct stat st;
    for (int i = 0; i < 1000 && stat(old, &st) == 0; i++) { // two rotations in one millisecond
        free(old);
        old = name_of_old(l);
    }
    close_file(l);
    if (rename(l->path, old) != 0 && errno != ENOENT)
        return gs_error_errno(errno, "%s", old);
    struct gs_error *err = open_file(l);
    remove_old(l);
    return err;
}

// --- writing ---

static bool was_taken_away(const struct adapter_api_audit_log *l)
{
    struct stat st;
    return stat(l->path, &st) != 0 || st.st_dev != l->device || st.st_ino != l->inode;
}

static struct gs_error *write_all(struct adapter_api_audit_log *l, struct gs_slice s)
{
    while (s.len) {
        ssize_t n = write(l->fd, s.data, s.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gs_error_errno(errno, "%s", l->path);
        s = gs_slice_make(s.data + n, s.len - (size_t)n);
        l->bytes += (uint64_t)n;
    }
    return NULL;
}

struct gs_error *adapter_api_audit_log_write(struct adapter_api_audit_log *l, struct gs_slice lines)
{
    struct gs_error *err = NULL;
    bool file = l->fd != STDOUT_FILENO;
    if (file && l->fd >= 0 && was_taken_away(l))
        close_file(l);
    if (l->fd < 0)
        err = open_file(l);
    if (!err && file && l->bytes && l->bytes + lines.len > l->o.max_bytes)
        err = rotate(l);
    return err ? err : write_all(l, lines);
}

struct gs_error *adapter_api_audit_log_new(const struct adapter_api_audit_log_options *o,
                                           struct adapter_api_audit_log **ret)
{
    struct adapter_api_audit_log *l = gs_alloc(sizeof(*l));
    l->o = *o;
    l->o.max_bytes = o->max_bytes ? o->max_bytes : DEFAULT_BYTES;
    l->path = gs_strdup(o->path);
    l->fd = gs_streq(o->path, "-") ? STDOUT_FILENO : -1;
    split_path(l);
    struct gs_error *err = l->fd < 0 ? open_file(l) : NULL;
    if (err)
        adapter_api_audit_log_free(l);
    else
        *ret = l;
    return err;
}

void adapter_api_audit_log_free(struct adapter_api_audit_log *l)
{
    if (!l)
        return;
    close_file(l);
    free(l->path);
    free(l->folder);
    free(l->stem);
    free(l->suffix);
    free(l);
}
