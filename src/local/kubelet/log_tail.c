// SPDX-License-Identifier: Apache-2.0
// Finds the last lines of a log from its end, without reading the rest.
#include "local/kubelet/logs.h"

#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024 };

int64_t kubelet_log_tail_seek(int fd, int64_t n)
{
    char chunk[CHUNK];
    int64_t ends = 0; // newlines seen, from the end backwards
    off_t at = lseek(fd, 0, SEEK_END);
    if (n == 0 || at <= 0)
        return 0;
    while (at > 0) {
        off_t from = at > CHUNK ? at - CHUNK : 0;
        ssize_t len = pread(fd, chunk, (size_t)(at - from), from);
        if (len != at - from)
            break;
        for (ssize_t i = len - 1; i >= 0; i--) {
            if (chunk[i] != '\n' || ++ends <= n)
                continue;
            lseek(fd, from + i + 1, SEEK_SET);
            return n;
        }
        at = from;
    }
    lseek(fd, 0, SEEK_SET);
    return ends;
}

// The text of one line of a log in the CRI format: "TIME STREAM F TEXT".
static void add_log_text(struct gs_slice line, struct gs_buf *out)
{
    gs_slice_cut(&line, ' ');
    gs_slice_cut(&line, ' ');
    bool full = gs_slice_eq_str(gs_slice_cut(&line, ' '), "F");
    gs_buf_add(out, line.data, line.len);
    if (full)
        gs_buf_add_char(out, '\n');
}

char *kubelet_log_tail_text(const char *path, int64_t max_lines, size_t max_bytes)
{
    char chunk[CHUNK];
    GS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (fd < 0)
        return NULL;
    kubelet_log_tail_seek(fd, max_lines);
    off_t from = lseek(fd, 0, SEEK_CUR), size = lseek(fd, 0, SEEK_END);
    if (size - from > CHUNK)
        from = size - CHUNK;
    ssize_t len = pread(fd, chunk, sizeof(chunk), from);
    for (struct gs_slice rest = gs_slice_make(chunk, len > 0 ? (size_t)len : 0); rest.len;)
        add_log_text(gs_slice_cut(&rest, '\n'), &text);
    size_t skip = text.len > max_bytes ? text.len - max_bytes : 0;
    while (skip && skip < text.len && ((unsigned char)text.data[skip] & 0xc0) == 0x80) // in UTF-8
        skip++;
    return text.len ? gs_strndup(text.data + skip, text.len - skip) : NULL;
}
