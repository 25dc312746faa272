// SPDX-License-Identifier: Apache-2.0
#include "local/kubelet/kubelet_private.h"

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
