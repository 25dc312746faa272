// SPDX-License-Identifier: Apache-2.0
// Reads the lock file in the data directory of `gpuscale up`. Its contents are those of this user
// or of another program, so they are limited and checked.
#include "kube/up_dir.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum kube_up_lock kube_up_read_lock(const char *dir, pid_t *ret_pid)
{
    GS_AUTO_FREE char *path = gs_format("%s/" KUBE_UP_LOCK, dir);
    GS_AUTO_BUF struct gs_buf text = {0};
    struct stat st;
    int64_t pid = 0;
    *ret_pid = 0;
    if (lstat(path, &st) < 0)
        return KUBE_UP_ABSENT;
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 256, &text);
    if (err)
        return KUBE_UP_FOREIGN;
    if (gs_starts(KUBE_UP_LOCK_MARK, text.data)) // nothing, or the begin of the mark: it was cut
        return KUBE_UP_EMPTY;
    if (!gs_starts(text.data, KUBE_UP_LOCK_MARK))
        return KUBE_UP_FOREIGN;
    struct gs_slice number = gs_slice_of(text.data + strlen(KUBE_UP_LOCK_MARK));
    gs_error_free(gs_parse_i64(gs_slice_trim(number), 1, INT32_MAX, &pid));
    *ret_pid = (pid_t)pid;
    return KUBE_UP_MARKED;
}

bool kube_up_runs(const char *dir)
{
    pid_t pid;
    return kube_up_read_lock(dir, &pid) == KUBE_UP_MARKED && pid > 0 &&
           (kill(pid, 0) == 0 || errno == EPERM);
}

char *kube_up_running_dir(void)
{
    const char *variable = getenv("GPUSCALE_DATA_DIR"); // also the default of --data-dir
    GS_AUTO_FREE char *dir = variable && *variable ? gs_strdup(variable) : gs_data_dir();
    return dir && kube_up_runs(dir) ? GS_TAKE(dir) : NULL;
}

char *kube_up_hint(void)
{
    GS_AUTO_FREE char *dir = kube_up_running_dir();
    return dir ? gs_format("; a gpuscale up runs in %s: use it with eval \"$(gpuscale up --env)\"",
                           dir)
               : gs_strdup("");
}
