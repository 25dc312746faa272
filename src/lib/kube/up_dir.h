// SPDX-License-Identifier: Apache-2.0
// The data directory of `gpuscale up` as its file "lock" describes it: whether it is one, and the
// process that uses it. The process holds a lock (flock) on the file until it ends.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define KUBE_UP_LOCK      "lock"
#define KUBE_UP_LOCK_MARK "gpuscale up\n" // the first line; the ID of the process is in the second

enum kube_up_lock {
    KUBE_UP_ABSENT,  // no such file
    KUBE_UP_EMPTY,   // nothing, or the beginning of the mark
    KUBE_UP_MARKED,  // the directory is of gpuscale up
    KUBE_UP_FOREIGN, // a file of another program
};

// *ret_pid: the process ID in the file; 0: absent.
enum kube_up_lock kube_up_read_lock(const char *dir, pid_t *ret_pid);
// Whether the process in the file exists.
bool kube_up_runs(const char *dir);
// This user's default directory, or that of GPUSCALE_DATA_DIR, if a `gpuscale up` runs in it. NULL:
// none does. The caller frees it.
char *kube_up_running_dir(void);
// The end of an error that names the running `gpuscale up` of this user: "; a gpuscale up runs in
// DIR: use it with …". "": none runs. The caller frees it.
char *kube_up_hint(void);
