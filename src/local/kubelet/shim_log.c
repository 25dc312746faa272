// SPDX-License-Identifier: Apache-2.0
// The log file of a container in the CRI format (time, stream, full or partial, text), with one
// rotated file.
#include "local/kubelet/shim.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

struct gs_error *kubelet_shim_log_open(const char *path, struct kubelet_shim_log *ret)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "opening the container log %s", path);
    struct stat st;
    *ret = (struct kubelet_shim_log){
        .path = path, .fd = fd, .size = fstat(fd, &st) == 0 ? (size_t)st.st_size : 0};
    return NULL;
}

void kubelet_shim_log_finish(struct kubelet_shim_log *l)
{
    gs_closep(&l->fd);
    l->fd = -1;
}

static void rotate(struct kubelet_shim_log *l)
{
    GS_AUTO_FREE char *old = gs_format("%s.1", l->path);
    struct kubelet_shim_log fresh;
    if (rename(l->path, old) < 0)
        return;
    GS_AUTO_ERROR struct gs_error *err = kubelet_shim_log_open(l->path, &fresh);
    if (err)
        return; // goes on in the renamed file: better than nothing
    kubelet_shim_log_finish(l);
    *l = fresh;
}

static void write_out(struct kubelet_shim_log *l, struct gs_slice text)
{
    if (l->size && l->size + text.len > KUBELET_SHIM_LOG_MAX_BYTES)
        rotate(l);
    while (text.len) {
        ssize_t n = write(l->fd, text.data, text.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        l->size += (size_t)n;
        text = gs_slice_make(text.data + n, text.len - (size_t)n);
    }
}

static void add_entry(struct gs_buf *out, const char *stamp, const char *stream, char tag,
                      struct gs_slice line)
{
    gs_buf_addf(out, "%s %s %c ", stamp, stream, tag);
    gs_buf_add_slice(out, line);
    gs_buf_add_char(out, '\n');
}

static void format_stamp(char *buf, size_t size)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(buf, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, size - n, ".%09ldZ", now.tv_nsec);
}

void kubelet_shim_log_write(struct kubelet_shim_log *l, const char *stream, struct gs_buf *pending,
                            bool flush)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    char stamp[64];
    format_stamp(stamp, sizeof(stamp));
    size_t used = 0;
    while (used < pending->len) {
        struct gs_slice rest = gs_slice_make(pending->data + used, pending->len - used);
        const char *end = memchr(rest.data, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.data) : rest.len;
        if (len > KUBELET_SHIM_LOG_MAX_LINE) {
            add_entry(&out, stamp, stream, 'P',
                      gs_slice_make(rest.data, KUBELET_SHIM_LOG_MAX_LINE));
            used += KUBELET_SHIM_LOG_MAX_LINE;
            continue;
        }
        if (!end && !flush)
            break;
        add_entry(&out, stamp, stream, 'F', gs_slice_make(rest.data, len));
        used += len + (end ? 1 : 0);
    }
    gs_buf_consume(pending, used);
    write_out(l, gs_buf_slice(&out));
}
